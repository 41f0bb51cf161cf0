"""SQLite's recovery files applied to bytes: hot rollback journals and write-ahead logs (pure).

A copy of a live database is only whole together with its `-journal` or `-wal`, and `deserialize` looks at
neither. The formats are SQLite's "Database File Format", sections 3 (rollback journal) and 4 (write-ahead
log); the order of checks follows the recovery code of pager.c and wal.c, so that what comes out is what
SQLite itself would recover. A file that is torn, stale or not what its name says contributes what SQLite
would take from it: often nothing. Nothing here raises on any bytes.
"""

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
WAL_HEADER = 32
_DB_MAGIC = b"SQLite format 3\0"
_WAL_MAGIC = 0x377F0682  # the lowest bit says that checksums are over big-endian words
_WAL_VERSION = 3007000
_FRAME_HEADER = 24
_PENDING_BYTE = 0x40000000
_UINT32 = 0xFFFFFFFF
#: Frames checksummed together: enough to amortise the interpreter, small enough to stay in the processor's
#: cache.
_BATCH = 512
#: Pairs of words between two reductions of a 64-bit lane: a lane grows by at most 2.62 a pair, and 2.62**20
#: < 2**28.
_PAIRS = 20


class Patch(NamedTuple):
    """What a recovery file does to its database.

    size       bytes of the database afterwards
    page_size  bytes of a page
    pages      page number, from 1, to the offset of its content in the recovery file
    """

    size: int
    page_size: int
    pages: dict[int, int]

    def writes(self, source: memoryview) -> Iterator[tuple[int, memoryview]]:
        """(offset in the database, content) for every page; `source` is the recovery file."""
        for number, offset in self.pages.items():
            yield (number - 1) * self.page_size, source[offset:offset + self.page_size]


def is_hot(journal: bytes | memoryview) -> bool:
    """Whether a rollback journal has to be played back, told by its first eight bytes (a header is enough).

    A journal of zeros is an open transaction that has not touched the database, or a finished one (PERSIST).
    """
    return bytes(journal[:8]) == JOURNAL_MAGIC


def super_journal(journal: bytes | memoryview) -> bytes | None:
    """The name of the super-journal at the end of a rollback journal, or None.

    A journal that names one counts only while that file exists: a commit over several databases deletes it.
    """
    if len(journal) < 28 or bytes(journal[-8:]) != JOURNAL_MAGIC:
        return None
    length, checksum = struct.unpack(">II", journal[-16:-8])
    if not 0 < length <= len(journal) - 16:
        return None
    name = bytes(journal[-16 - length:-16])
    return name if sum(struct.unpack(f"{length}b", name)) & _UINT32 == checksum and name[0] else None


def journal_patch(journal: bytes | memoryview, db_size: int, db_header: bytes = b"") -> Patch | None:
    """What a hot journal undoes, or None where there is nothing to undo.

    `db_header` is the beginning of the database: journals from before SQLite 3.5.8 leave the page size to it.
    """
    if not is_hot(journal) or len(journal) < 512 or db_size == 0:
        return None
    journal = memoryview(journal)
    sector, page_size = struct.unpack(">II", journal[20:28])
    page_size = page_size or _page_size(db_header) or 4096
    if not (_power_of_two(page_size, 512, 65536) and _power_of_two(sector, 32, 65536)):
        return None
    count, nonce, limit = struct.unpack(">III", journal[8:20])
    if sector > len(journal) or not _plausible(limit * page_size, db_size, len(journal)):
        return None
    pages: dict[int, int] = {}
    patch = Patch(limit * page_size, page_size, pages)
    record = page_size + 8
    offset = sector
    if count == _UINT32:  # written without syncing: the rest of the file is records
        count = (len(journal) - sector) // record
    while True:
        for _ in range(count):
            if offset + record > len(journal):
                return patch
            number, = struct.unpack(">I", journal[offset:offset + 4])
            if number in (0, _PENDING_BYTE // page_size + 1):
                return patch
            content = journal[offset + 4:offset + 4 + page_size]
            if number <= limit:
                expected, = struct.unpack(">I", journal[offset + record - 4:offset + record])
                # pager_cksum: every 200th byte, counted from the end, and never the first one
                if (nonce + sum(content[page_size - 200:0:-200])) & _UINT32 != expected:
                    return patch
                pages[number] = offset + 4
            offset += record
        offset = -(-offset // sector) * sector
        if offset + sector > len(journal) or bytes(journal[offset:offset + 8]) != JOURNAL_MAGIC:
            return patch
        count, nonce = struct.unpack(">II", journal[offset + 8:offset + 16])
        if count == _UINT32:
            count = (len(journal) - sector) // record
        offset += sector


def wal_patch(wal: bytes | memoryview, db_size: int) -> Patch | None:
    """The committed frames of a write-ahead log, or None where it holds none.

    Only frames with the header's salts and an unbroken chain of checksums count, and of those only the ones
    up to the last commit: a torn tail, and what is left of an older log behind it, are not read.
    """
    view = memoryview(wal)
    if db_size == 0 or len(view) < WAL_HEADER + _FRAME_HEADER:
        return None
    magic, version, page_size = struct.unpack(">III", view[:12])
    if magic & ~1 != _WAL_MAGIC or version != _WAL_VERSION or not _power_of_two(page_size, 512, 65536):
        return None
    order = ">" if magic & 1 else "<"
    state = (0, 0)
    for first, second in struct.iter_unpack(order + "II", view[:24]):
        low = (state[0] + first + state[1]) & _UINT32
        state = low, (state[1] + second + low) & _UINT32
    if state != struct.unpack(">II", view[24:32]):
        return None

    frame = _FRAME_HEADER + page_size
    frames = _same_salts(view, frame)
    matrix = _power(1 + page_size // 8)
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    size = 0
    for start in range(0, frames, _BATCH):
        batch = range(start, min(start + _BATCH, frames))
        for index, own in zip(batch, _contributions(view, frame, batch, order), strict=True):
            at = WAL_HEADER + index * frame
            number, pages, _, _, first, second = struct.unpack(">6I", view[at:at + _FRAME_HEADER])
            state = ((matrix[0] * state[0] + matrix[1] * state[1] + own[0]) & _UINT32,
                     (matrix[1] * state[0] + matrix[2] * state[1] + own[1]) & _UINT32)
            if number == 0 or state != (first, second):
                return _committed(size, page_size, committed, db_size, len(view))
            pending[number] = at + _FRAME_HEADER
            if pages:
                committed.update(pending)
                pending.clear()
                size = pages
    return _committed(size, page_size, committed, db_size, len(view))


def apply_journal(db: bytes | bytearray, journal: bytes | memoryview) -> bytes:
    """`db` as it was before the transaction of a hot `journal`; `db` itself where it is not hot."""
    return _applied(db, journal, journal_patch(journal, len(db), bytes(db[:100])))


def apply_wal(db: bytes | bytearray, wal: bytes | memoryview) -> bytes:
    """`db` with the committed frames of `wal` written into it."""
    return _applied(db, wal, wal_patch(wal, len(db)))


def without_wal_mode(header: bytes) -> bytes:
    """The first 20 bytes of a database, marked as not in WAL mode, which `deserialize` refuses."""
    return header[:18] + b"\x01\x01" if header[:16] == _DB_MAGIC and b"\x02" in header[18:20] else header[:20]


def is_database(header: bytes) -> bool:
    """Whether bytes begin as an SQLite database does."""
    return header[:16] == _DB_MAGIC


def _applied(db: bytes | bytearray, source: bytes | memoryview, patch: Patch | None) -> bytes:
    if patch is None:
        return bytes(db)
    out = bytearray(db[:patch.size])
    out.extend(bytes(patch.size - len(out)))
    for offset, content in patch.writes(memoryview(source)):
        out[offset:offset + patch.page_size] = content
    return bytes(out)


def _plausible(size: int, db_size: int, source_size: int) -> bool:
    """Whether a database can have that size: a forged page count must not make us allocate terabytes."""
    return size <= 4 * (db_size + source_size) + (16 << 20)


def _committed(size: int, page_size: int, pages: dict[int, int], db_size: int, wal_size: int) -> Patch | None:
    if not size or not _plausible(size * page_size, db_size, wal_size):
        return None
    return Patch(size * page_size, page_size, {number: at for number, at in pages.items() if number <= size})


def _power_of_two(value: int, least: int, most: int) -> bool:
    return least <= value <= most and value & (value - 1) == 0


def _page_size(header: bytes) -> int | None:
    if len(header) < 18 or header[:16] != _DB_MAGIC:
        return None
    size, = struct.unpack(">H", header[16:18])
    return 65536 if size == 1 else int(size)


def _same_salts(view: memoryview, frame: int) -> int:
    """How many whole frames, from the first, carry the salts of the header."""
    salts = bytes(view[16:24])
    whole = (len(view) - WAL_HEADER) // frame
    for index in range(whole):
        at = WAL_HEADER + index * frame + 8
        if view[at:at + 8] != salts:
            return index
    return whole


def _power(pairs: int) -> tuple[int, int, int]:
    """((a, b), (b, c)): ((1, 1), (1, 2)) to the power of `pairs`, modulo 2**32; see `_contributions`."""
    a, b, c = 1, 0, 1
    x, y, z = 1, 1, 2
    while pairs:
        if pairs & 1:
            a, b, c = (a * x + b * y) & _UINT32, (a * y + b * z) & _UINT32, (b * y + c * z) & _UINT32
        x, y, z = (x * x + y * y) & _UINT32, (x * y + y * z) & _UINT32, (y * y + z * z) & _UINT32
        pairs >>= 1
    return a, b, c


def _contributions(view: memoryview, frame: int, batch: range, order: str) -> Iterator[tuple[int, int]]:
    """What each frame adds to the running checksum, were it 0 before, for a batch of frames at once.

    The checksum takes the words in pairs: s0 += x0 + s1; s1 += x1 + s0. That is linear: the state after a
    frame is ((1, 1), (1, 2)) ** pairs times the state before, plus what the same steps make of the frame
    from 0. The second part does not depend on the frames before, so all frames of a batch go through the
    steps together, each in a 64-bit lane of one large integer; that takes an eighth of the time of a loop
    over words.
    """
    count = len(batch)
    whole = view[WAL_HEADER + batch.start * frame:WAL_HEADER + batch.stop * frame].cast("B").cast("Q")
    step = frame // 8
    endian: Literal["big", "little"] = "big" if order == ">" else "little"
    lanes = int.from_bytes(b"\x00\x00\x00\x00\xff\xff\xff\xff" * count, "big")
    s0 = s1 = 0
    # the first 8 bytes of a frame's header are checksummed, the 16 after them (salts and checksum) are not
    for index, column in enumerate((0, *range(3, step)), start=1):
        pair = int.from_bytes(whole[column::step].tobytes(), endian)
        low, high = pair & lanes, pair >> 32 & lanes
        if endian == "big":
            low, high = high, low
        s0 += low + s1
        s1 += high + s0
        if index % _PAIRS == 0:
            s0 &= lanes
            s1 &= lanes
    out0 = memoryview((s0 & lanes).to_bytes(8 * count, "big"))
    out1 = memoryview((s1 & lanes).to_bytes(8 * count, "big"))
    positions = range(count) if endian == "big" else range(count - 1, -1, -1)
    for position in positions:
        at = slice(8 * position + 4, 8 * position + 8)
        yield int.from_bytes(out0[at], "big"), int.from_bytes(out1[at], "big")

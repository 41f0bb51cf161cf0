"""The files of LevelDB: records of logs, entries of sorted tables, Snappy blocks, checksums (pure).

The formats are those of LevelDB's doc/log_format.md and doc/table_format.md and of Snappy's format_description.txt.
A broken record costs the rest of its block; a broken block, its entries.
"""

import functools
import struct
from collections.abc import Callable, Iterator

from lspipe.browsers.mozlz4 import repeat

_BLOCK, _HEADER, _FOOTER = 32768, 7, 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_PLAIN, _SNAPPY = 0, 1
#: What one block may hold once it is unpacked, and what a byte of it can stand for at most.
_LARGEST, _RATIO = 32 << 20, 22
#: Behind a block: its compression and a checksum.
_TRAILER = 5
#: Entries, and bytes of a checksum, between two looks at the clock.
_STEPS, _PART = 4096, 1 << 20
_record = struct.Struct("<IHB").unpack_from


class Bad(Exception):
    """Bytes that are not what they should be."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends. Raises Bad."""
    value = shift = 0
    while shift < 64 and at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise Bad


def sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with their length before them, and where they end. Raises Bad."""
    size, at = varint(data, at)
    if size > len(data) - at:
        raise Bad
    return data[at:at + size], at + size


# ---- Logs


def records(data: bytes, wanted: Callable[[bytes], bool], broken: Callable[[], None]) -> Iterator[bytes]:
    """The records of a log that are `wanted`, in order; `broken` is called for each of them that is.

    A record may go on over several blocks. Only what is wanted is held against its checksum.
    """
    parts: list[tuple[int, int, bytes]] = []
    at = 0
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        checksum, size, kind = _record(data, at) if left >= _HEADER else (0, 0, 0)
        start, end = at + _HEADER, at + _HEADER + size
        if end > len(data) or size > left - _HEADER or (kind == 0 and size == 0):
            # The last write was lost; a length that cannot be; the end of a block, or room that was set aside.
            if size > left - _HEADER >= 0:
                broken()
            parts.clear()
            at += left
            continue
        at = end
        if kind in (_FULL, _FIRST):
            parts.clear()
        elif kind not in (_MIDDLE, _LAST) or not parts:
            continue
        parts.append((checksum, kind, data[start:end]))
        if kind in (_FULL, _LAST):
            whole = b"".join(part for _, _, part in parts)
            if wanted(whole):
                if all(_masked(crc32c(part, crc32c(bytes((kind,))))) == own for own, kind, part in parts):
                    yield whole
                else:
                    broken()
            parts.clear()


# ---- Tables


def index(table: bytes, spend: Callable[[int], None]) -> Iterator[tuple[bytes, bytes]]:
    """(a key that none in the block is above, where the block is) for each block of a table. Raises Bad.

    `spend` is told how many bytes are unpacked, now and then none; it may raise.
    """
    if len(table) < _FOOTER or table[-8:] != _MAGIC:
        raise Bad
    footer = table[-_FOOTER:]
    at = 0
    for _ in range(2):  # Where the index of filters is, which is not needed.
        _, at = varint(footer, at)
    free = 0
    for key, handle in entries(table, footer[at:], spend):
        place, behind = varint(handle, 0)
        size, _ = varint(handle, behind)
        if place < free:
            raise Bad  # Blocks lie one behind the other; otherwise the same bytes could be read without end.
        free = place + size + _TRAILER
        yield key, handle


def entries(table: bytes, handle: bytes, spend: Callable[[int], None]) -> Iterator[tuple[bytes, bytes]]:
    """The entries of the block that a handle names. Raises Bad.

    A key ends in eight bytes: its kind of change, then its sequence number. What it shares with the key before it
    is not written again.
    """
    block = _block(table, handle, spend)
    spend(len(block))
    if len(block) < 4:
        raise Bad
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")  # Behind it, where keys are written in full.
    key, at, left = b"", 0, _STEPS
    while at < end:
        left -= 1
        if not left:
            left = _STEPS
            spend(0)
        shared, at = varint(block, at)
        own, at = varint(block, at)
        size, at = varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise Bad
        key = key[:shared] + block[at:at + own]
        if shared > 4096:
            spend(shared)
        at += own
        yield key, block[at:at + size]
        at += size


def _block(table: bytes, handle: bytes, spend: Callable[[int], None]) -> bytes:
    """The block at an offset and of a size; behind it stand its compression and a checksum."""
    at, end = varint(handle, 0)
    size, _ = varint(handle, end)
    end = at + size
    if end + _TRAILER > len(table) or size > _LARGEST:
        raise Bad
    crc = 0
    for start in range(at, end + 1, _PART):
        spend(0)
        crc = crc32c(table[start:min(start + _PART, end + 1)], crc)
    if _masked(crc) != int.from_bytes(table[end + 1:end + _TRAILER], "little"):
        raise Bad
    kind = table[end]
    if kind == _SNAPPY:
        return snappy(table[at:end])
    if kind != _PLAIN:
        raise Bad
    return table[at:end]


def snappy(data: bytes) -> bytes:
    """What is in a Snappy block. Raises Bad."""
    size, at = varint(data, 0)
    if size > min(_RATIO * len(data), _LARGEST):
        raise Bad
    out, end = bytearray(), len(data)
    try:
        while at < end:
            tag = data[at]
            at += 1
            kind, length = tag & 3, (tag >> 2) + 1
            if kind == 0:
                if length > 60:
                    wide = length - 60
                    length = int.from_bytes(data[at:at + wide], "little") + 1
                    at += wide
                if at + length > end or len(out) + length > size:
                    raise Bad
                out += data[at:at + length]
                at += length
                continue
            if kind == 1:
                length, back = 4 + (tag >> 2 & 7), (tag >> 5) << 8 | data[at]
                at += 1
            else:
                wide = 2 if kind == 2 else 4
                back = int.from_bytes(data[at:at + wide], "little")
                at += wide
            repeat(out, back, length, size)
    except (IndexError, ValueError):
        raise Bad from None
    if len(out) != size or at != end:
        raise Bad
    return bytes(out)


# ---- Checksums


@functools.cache
def _castagnoli() -> tuple[int, ...]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return tuple(table)


def crc32c(data: bytes, crc: int = 0) -> int:
    """The CRC-32C of bytes; with `crc` that of earlier bytes, the one of both."""
    table = _castagnoli()
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked(crc: int) -> int:
    """A checksum as it is stored: one of bytes that hold checksums themselves would be a bad one."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

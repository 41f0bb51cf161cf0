"""Session files, session stores and LevelDB databases as browsers write them, made by the letter of their formats."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

WEBKIT = 11_644_473_600_000_000
#: 2026-07-21 12:00:00 UTC, µs since 1970.
NOON = 1_784_635_200_000_000

# ---- Chromium: SNSS


def snss(*commands: tuple[int, bytes], version: int = 3, marker: int | None = None) -> bytes:
    """A session file of these commands; the marker of version 3 stands after the first `marker` of them, or last."""
    parts = list(commands)
    if version == 3 and marker != -1:
        parts.insert(len(parts) if marker is None else marker, (255, b""))
    return b"SNSS" + struct.pack("<i", version) + b"".join(record(*part) for part in parts)


def record(number: int, payload: bytes) -> bytes:
    """One command with its size before it."""
    return struct.pack("<HB", len(payload) + 1, number) + payload


def pickle(*values: Any) -> bytes:
    """Of int, ("q", int) time, ("t", int) token, bytes or str for UTF-8, ("w", str or bytes) for UTF-16."""
    out = b""
    for value in values:
        if isinstance(value, int):
            out += struct.pack("<i", value)
            continue
        if isinstance(value, tuple) and value[0] == "q":
            out += struct.pack("<q", value[1])
            continue
        if isinstance(value, tuple) and value[0] == "t":
            out += struct.pack("<QQ", value[1] >> 64, value[1] & (1 << 64) - 1)
            continue
        if isinstance(value, tuple):
            body = value[1] if isinstance(value[1], bytes) else value[1].encode("utf-16-le", "surrogatepass")
            out += struct.pack("<i", len(body) // 2)
        else:
            body = value if isinstance(value, bytes) else value.encode()
            out += struct.pack("<i", len(body))
        out += body + bytes(-len(body) % 4)
    return struct.pack("<I", len(out)) + out


def navigation(tab: int, index: int, url: str | bytes, title: str | bytes = "", *, at: int | None = NOON,
               state: bytes = b"", status: int = 200, short: bool = False) -> bytes:
    """The pickle of a page; `short` ends it where the oldest versions did."""
    start = [tab, index, url, ("w", title), state, 1]
    if short:
        return pickle(*start)
    stamp = 0 if at is None else at + WEBKIT
    return pickle(*start, 0, "", 2, url, 0, ("q", stamp), ("w", ""), status, 1, 0, ("q", 1), ("q", -1), ("q", 1), 0)


def in_window(window: int, tab: int, index: int | None = None) -> list[tuple[int, bytes]]:
    """A tab put into a window, at a place."""
    found = [(0, struct.pack("<ii", window, tab))]
    return found if index is None else [*found, (2, struct.pack("<ii", tab, index))]


def page(tab: int, index: int, url: str | bytes, title: str | bytes = "", **more: Any) -> tuple[int, bytes]:
    """A page that a tab of a `Session_*` file went to."""
    return 6, navigation(tab, index, url, title, **more)


def selected(tab: int, index: int) -> tuple[int, bytes]:
    return 7, struct.pack("<ii", tab, index)


def window(number: int, kind: int = 0, shows: int = 0) -> list[tuple[int, bytes]]:
    """A window of a kind that shows the tab at a place."""
    return [(9, struct.pack("<ii", number, kind)), (8, struct.pack("<ii", number, shows))]


def pinned(tab: int, value: bool = True) -> tuple[int, bytes]:
    return 12, struct.pack("<iB3x", tab, value)


def timed(number: int, thing: int, at: int = NOON) -> tuple[int, bytes]:
    """16: a tab was closed, 17: a window, 21: a tab was looked at."""
    return number, struct.pack("<i4xq", thing, at + WEBKIT)


def grouped(tab: int, group: int | None) -> tuple[int, bytes]:
    value = group or 0
    return 25, struct.pack("<i4xQQB7x", tab, value >> 64, value & (1 << 64) - 1, group is not None)


def group(number: int, title: str, colour: int) -> tuple[int, bytes]:
    return 27, pickle(("t", number), ("w", title), colour, 0, 0)


def pruned(tab: int, index: int, count: int) -> tuple[int, bytes]:
    return 24, struct.pack("<iii", tab, index, count)


def simple_window(number: int, tabs: Sequence[tuple[int, str, str]], shows: int = 0) -> list[tuple[int, bytes]]:
    """A window of tabs with one page each: (tab, url, title)."""
    found = window(number, shows=shows)
    for index, (tab, url, title) in enumerate(tabs):
        found += [*in_window(number, tab, index), page(tab, 0, url, title), selected(tab, 0)]
    return found


def closed_tab(tab: int, pages: Iterable[tuple[str, str]], chosen: int = 0, at: int | None = NOON,
               pin: bool = False) -> list[tuple[int, bytes]]:
    """A closed tab of a `Tabs_*` file."""
    stamp = 0 if at is None else at + WEBKIT
    found = [(4, struct.pack("<iiq", tab, chosen, stamp))]
    if pin:
        found.append((5, b"\x01"))
    return found + [(1, navigation(tab, 7 + index, *entry)) for index, entry in enumerate(pages)]


def closed_window(number: int, count: int, shows: int = 0, at: int = NOON) -> tuple[int, bytes]:
    """The head of a closed window; `count` closed tabs follow."""
    return 9, pickle(number, shows, count, ("q", at + WEBKIT), 0, 0, 800, 600, 1, "", 0)


def closed_group(token: int, number: int, count: int, title: str, colour: int) -> tuple[int, bytes]:
    """The head of a closed group; `count` closed tabs follow."""
    return 13, pickle(("t", token), number, count, 1, ("w", title), colour, 0)


def large_session(size: int, pages: int = 6, state: int = 600) -> bytes:
    """A session of about `size` bytes: tabs with `pages` pages each, in windows of fifty, then browsing."""
    commands: list[tuple[int, bytes]] = []
    written, tab = 8, 0
    while written < size * 0.8:
        own: list[tuple[int, bytes]] = []
        number = 1 + tab // 50
        if tab % 50 == 0:
            own += [*window(number), (14, struct.pack("<6i", number, 0, 0, 800, 600, 1))]
        key = 1000 + tab
        own += [*in_window(number, key, tab % 50), pinned(key, False), timed(21, key), grouped(key, None),
                selected(key, pages - 1), (19, pickle(key, "0123456789abcdef" * 2))]
        own += [page(key, index, f"https://site{tab}.example.org/some/path/{index}?q=abc", f"Title {index} of {tab}",
                     state=bytes(state)) for index in range(pages)]
        commands += own
        written += sum(len(payload) + 3 for _, payload in own)
        tab += 1
    marker, turn = len(commands), 0
    while written < size:
        key = 1000 + turn % tab
        own = [page(key, pages - 1, f"https://site{turn}.example.org/next", "", state=bytes(state)),
               selected(key, pages - 1), timed(21, key)]
        commands += own
        written += sum(len(payload) + 3 for _, payload in own)
        turn += 1
    return snss(*commands, marker=marker)


# ---- Firefox: jsonlz4


def mozlz4(data: bytes, size: int | None = None) -> bytes:
    """An LZ4 block with Firefox's header, packed as a compressor would: literals and matches, overlaps included."""
    return b"mozLz40\0" + struct.pack("<I", len(data) if size is None else size) + lz4_block(data)


def lz4_block(data: bytes) -> bytes:
    """A block by the rules: the last five bytes are literals, the last match begins twelve before the end."""
    out, seen, start, at = bytearray(), dict[bytes, int](), 0, 0
    while at < len(data) - 12:
        key = data[at:at + 4]
        found = seen.get(key)
        seen[key] = at
        if found is None or at - found > 65535:
            at += 1
            continue
        length = 4
        for step in (4096, 64):  # For what repeats over megabytes.
            while (at + length + step < len(data) - 5
                   and data[found + length:found + length + step] == data[at + length:at + length + step]):
                length += step
        while at + length < len(data) - 5 and data[found + length] == data[at + length]:
            length += 1
        _lz4_sequence(out, data[start:at], at - found, length)
        at += length
        start = at
    _lz4_sequence(out, data[start:], 0, 4)
    return bytes(out)


def _lz4_sequence(out: bytearray, literals: bytes, offset: int, length: int) -> None:
    out.append(min(len(literals), 15) << 4 | (min(length - 4, 15)))
    _lz4_length(out, len(literals))
    out += literals
    if offset:
        out += struct.pack("<H", offset)
        _lz4_length(out, length - 4)


def _lz4_length(out: bytearray, length: int) -> None:
    if length >= 15:
        rest = length - 15
        out += b"\xff" * (rest // 255) + bytes([rest % 255])


def firefox_tab(url: str | None, title: str | None = None, **more: Any) -> dict[str, Any]:
    """A tab of a session store, with what its entry holds besides."""
    entries = [] if url is None else [{"url": url, "title": title, "cacheKey": 0, "ID": 1, "triggeringPrincipal_base64":
                                       "eyIzIjp7fX0="}]
    return {"entries": entries, "lastAccessed": NOON // 1000, "hidden": False, "userContextId": 0, "attributes": {},
            "index": len(entries), "image": None, **more}


def firefox_state(*windows: Mapping[str, Any], at: int = NOON, **more: Any) -> dict[str, Any]:
    """A session store of these windows (`tabs` at least)."""
    made = [{"groups": [], "selected": 1, "_closedTabs": [], "closedGroups": [], **one} for one in windows]
    return {"version": ["sessionrestore", 1], "windows": made, "selectedWindow": 1, "_closedWindows": [],
            "savedGroups": [], "session": {"lastUpdate": at // 1000, "startTime": at // 1000 - 60_000}, **more}


def jsonlz4(state: Any) -> bytes:
    return mozlz4(orjson.dumps(state))


# ---- LevelDB


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def masked_crc(data: bytes) -> bytes:
    """The checksum that LevelDB stores behind or before bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def leveldb_log(*payloads: bytes) -> bytes:
    """A log of these records, cut into fragments where blocks end."""
    out = b""
    for payload in payloads:
        first = True
        while True:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += bytes(left)
                continue
            part, payload = payload[:left - 7], payload[left - 7:]
            kind = (1 if not payload else 2) if first else (4 if not payload else 3)
            out += masked_crc(bytes((kind,)) + part) + struct.pack("<HB", len(part), kind) + part
            first = False
            if not payload:
                break
    return out


def batch(sequence: int, *changes: tuple[bytes, bytes | None]) -> bytes:
    """Changes that were written together; a value of None deletes."""
    body = b"".join(b"\0" + sized(key) if value is None else b"\1" + sized(key) + sized(value)
                    for key, value in changes)
    return struct.pack("<QI", sequence, len(changes)) + body


Change = tuple[bytes, int, bytes | None]
"""(key, sequence number, value; None deletes)."""


def leveldb_table(entries: Iterable[Change], *, per_block: int = 4, pack: bool = True) -> bytes:
    """A sorted table of changes, with `per_block` of them in a block."""
    ordered = sorted(entries, key=lambda one: (one[0], -one[1]))
    internal = [(key + struct.pack("<Q", sequence << 8 | (value is not None)), value or b"")
                for key, sequence, value in ordered]
    out, listed = b"", []
    for start in range(0, len(internal), per_block):
        part = internal[start:start + per_block]
        placed, out = _leveldb_block(out, part, pack)
        listed.append((part[-1][0], placed))
    meta, out = _leveldb_block(out, [], False)
    found, out = _leveldb_block(out, listed, False)
    return out + (meta + found).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def _leveldb_block(out: bytes, entries: Sequence[tuple[bytes, bytes]], pack: bool) -> tuple[bytes, bytes]:
    """(its handle, `out` with the block behind it)."""
    body, before = b"", b""
    for key, value in entries:
        shared = 0
        while shared < min(len(key), len(before)) and key[shared] == before[shared]:
            shared += 1
        body += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    body += struct.pack("<II", 0, 1)
    if pack:
        body = snappy(body)
    handle = varint(len(out)) + varint(len(body))
    body += b"\1" if pack else b"\0"
    return handle, out + body + masked_crc(body)


def snappy(data: bytes) -> bytes:
    """A Snappy block with literals and with copies of all three widths."""
    out, start, at, turn = bytearray(varint(len(data))), 0, 0, 0
    seen: dict[bytes, int] = {}
    while at < len(data):
        key = data[at:at + 4]
        found = seen.get(key)
        seen[key] = at
        if found is None or len(key) < 4:
            at += 1
            continue
        length = 4
        while length < 64 and at + length < len(data) and data[found + length] == data[at + length]:
            length += 1
        back, turn = at - found, turn + 1
        _snappy_literal(out, data[start:at])
        if turn % 3 == 0:
            out += bytes((length - 1 << 2 | 3,)) + struct.pack("<I", back)
        elif back < 2048 and length < 12:
            out += bytes((back >> 8 << 5 | length - 4 << 2 | 1, back & 255))
        elif back < 65536:
            out += bytes((length - 1 << 2 | 2,)) + struct.pack("<H", back)
        else:
            out += bytes((length - 1 << 2 | 3,)) + struct.pack("<I", back)
        at += length
        start = at
    _snappy_literal(out, data[start:])
    return bytes(out)


def _snappy_literal(out: bytearray, data: bytes) -> None:
    if not data:
        return
    size = len(data) - 1
    if size < 60:
        out.append(size << 2)
    else:
        wide = (size.bit_length() + 7) // 8
        out.append(59 + wide << 2)
        out += size.to_bytes(wide, "little")
    out += data


def manifest(tables: Iterable[int] = (), log: int = 0, gone: Iterable[int] = ()) -> dict[str, bytes]:
    """A manifest that lists tables and the first log that counts, and the file that names it."""
    edits = [b"\1" + sized(b"leveldb.BytewiseComparator") + b"\2" + varint(log) + b"\3\x63\4\x09"]
    edits += [b"\7\0" + varint(number) + b"\xe8\x07" + sized(b"a" * 9) + sized(b"z" * 9) for number in tables]
    edits += [b"\6\0" + varint(number) + b"\5\1" + sized(b"k" * 9) for number in gone]
    return {"CURRENT": b"MANIFEST-000002\n", "MANIFEST-000002": leveldb_log(*edits)}


def reading(url: str, title: str | None, *, added: int = NOON, changed: int | None = None, status: int | None = 2,
            read: int = 0, extra: bytes = b"") -> bytes:
    """An entry of Chromium's reading list."""
    out = b"".join(varint(number << 3 | 2) + sized(text.encode())
                   for number, text in ((1, url), (2, title), (3, url)) if text is not None)
    numbers = ((4, added), (5, added if changed is None else changed), (6, status), (11, read), (12, added))
    return out + b"".join(varint(number << 3) + varint(value & (1 << 64) - 1)
                          for number, value in numbers if value is not None) + extra


# ---- Fuzzing


def mangled(files: Sequence[bytes]) -> Any:
    """A strategy: one of `files`, cut, with bytes and 32-bit numbers overwritten, parts doubled; or any bytes."""
    from hypothesis import strategies as st

    nasty = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE])

    @st.composite
    def build(draw: Any) -> bytes:
        data = bytearray(draw(st.sampled_from(files)))
        for _ in range(draw(st.integers(0, 6))):
            if not data:
                break
            at = draw(st.integers(0, len(data) - 1))
            how = draw(st.integers(0, 5))
            if how == 0:
                del data[at:]
            elif how == 1:
                data[at] = draw(st.integers(0, 255))
            elif how == 2:
                data[at:at + 4] = struct.pack("<I", draw(nasty))
            elif how == 3:
                data[at:at + 2] = struct.pack("<H", draw(nasty) & 0xFFFF)
            elif how == 4:
                data[at:at] = data[at:at + draw(st.integers(1, 400))]
            else:
                del data[at:at + draw(st.integers(1, 50))]
        return bytes(data)

    return st.one_of(build(), st.binary(max_size=300))


def fuzzed() -> Any:
    """Settings of a fuzz test: as many examples as LSPIPE_FUZZ says, for a run of minutes, else the usual number."""
    import os

    from hypothesis import settings

    return settings(max_examples=int(os.environ.get("LSPIPE_FUZZ", settings().max_examples)))


def peak(act: Any) -> int:
    """Bytes that Python allocated at most while `act` ran."""
    import tracemalloc

    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

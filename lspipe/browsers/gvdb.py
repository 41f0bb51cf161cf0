"""GVDB, GLib's hash table in a file (gvdb-format.h): its entries, whatever somebody else wrote into it (pure).

A file is a header and a tree of tables. A table has a filter, buckets, and items of 24 bytes, each with a part of its
key: the rest is that of its parent. Values are in the serialized form of GVariant, of which only tuples of a few types
are read.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

#: The largest file that is read.
MOST = 16 << 20
_SIGNATURE = b"GVariant"
_SWAPPED = b"raVGtnai"
_ITEM = 24
_NONE = 0xFFFFFFFF
_BLOOM = (1 << 27) - 1
#: Keys are joined from their parents: one that is longer, or that has more of them, is no url.
_LONGEST, _DEEPEST = 1 << 20, 64
#: What a part of a key takes at least of the room that all keys have.
_PART = 32


class Bad(Exception):
    """It is no such file, or its parts are not where they should be."""


class Item(NamedTuple):
    """An entry: `kind` is `v` for a value, `H` for a table, `L` for a list; its content lies between two offsets."""

    key: str
    kind: str
    start: int
    end: int


class Table:
    """One table of a file."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        if not 0 <= start <= end <= len(data) or end - start < 8:
            raise Bad("a table is not in the file")
        bloom, buckets = struct.unpack_from("<II", data, start)
        self._items = start + 8 + 4 * ((bloom & _BLOOM) + buckets)
        if self._items > end or (end - self._items) % _ITEM:
            raise Bad("a table has no items")
        self._count = (end - self._items) // _ITEM

    def items(self) -> Iterator[Item]:
        """The items whose keys and contents are in the file."""
        room = 8 * len(self._data)  # All keys together: of an honest file only what they have in common repeats.
        held = 2 * len(self._data)  # All contents together: of an honest file nothing repeats.
        for number in range(self._count):
            _, parent, key_start, key_size, kind, start, end = self._item(number)
            parts, length, steps = [(key_start, key_size)], key_size, 0
            while parent != _NONE and parent < self._count and steps < _DEEPEST and length <= _LONGEST:
                _, parent, above, size, *_ = self._item(parent)
                parts.append((above, size))
                length += size
                steps += 1
            room -= length + _PART * len(parts)
            if room < 0:
                raise Bad("its keys have no end")
            if parent != _NONE or length > _LONGEST or any(at + size > len(self._data) for at, size in parts):
                continue
            key = b"".join(self._data[at:at + size] for at, size in reversed(parts))
            if start <= end <= len(self._data):
                held -= end - start
                if held < 0:
                    raise Bad("its values share their bytes")
                yield Item(key.decode("utf-8", "replace"), kind.decode("latin-1"), start, end)

    def _item(self, number: int) -> tuple[int, int, int, int, bytes, int, int]:
        return struct.unpack_from("<IIIHcxII", self._data, self._items + number * _ITEM)

    def table(self, key: str) -> "Table | None":
        """The table under a key; None where there is none. Raises Bad."""
        found = next((item for item in self.items() if item.key == key and item.kind == "H"), None)
        return None if found is None else Table(self._data, found.start, found.end)

    def value(self, item: Item) -> tuple[str, bytes]:
        """(type, serialized bytes) of a value. Raises Bad."""
        child, nul, kind = self._data[item.start:item.end].rpartition(b"\0")
        if item.kind != "v" or not nul:
            raise Bad("a value has no type")
        return kind.decode("latin-1"), child


def root(data: bytes) -> tuple[Table, str]:
    """The table at the root, and the byte order of the numbers in values as `struct` writes it. Raises Bad."""
    if len(data) < 24 or data[:8] not in (_SIGNATURE, _SWAPPED):
        raise Bad("not a GVDB file")
    order = "<" if data[:8] == _SIGNATURE else ">"
    version, _, start, end = struct.unpack_from("<IIII", data, 8)
    if version != 0:
        raise Bad(f"version {version} is not known")
    return Table(data, start, end), order


def members(data: bytes, kinds: str, order: str) -> list[int | float | str | bool | list[str]]:
    """The members of a serialized tuple. `kinds` are x (64 bits), d, b, s, and a (of texts), one letter each.

    Raises Bad. What follows the layout but is no text is U+FFFD, as everywhere.
    """
    width = _width(len(data))
    found: list[int | float | str | bool | list[str]] = []
    at, ends = 0, len(data)  # The offsets of the ends lie at the end, the first one last.
    for number, kind in enumerate(kinds):
        if kind in "xd":
            at += -at % 8
            if at + 8 > len(data):
                raise Bad("a value is too short")
            found.append(struct.unpack_from(f"{order}{'q' if kind == 'x' else 'd'}", data, at)[0])
            at += 8
        elif kind == "b":
            if at >= len(data):
                raise Bad("a value is too short")
            found.append(data[at] != 0)
            at += 1
        else:
            if number == len(kinds) - 1:  # The last member ends where the offsets begin.
                end = ends
            else:
                ends -= width
                end = _offset(data, ends, width)
            if not at <= end <= ends:
                raise Bad("a value ends outside of it")
            part = data[at:end]
            found.append(_string(part) if kind == "s" else _strings(part))
            at = end
    return found


def _width(size: int) -> int:
    """Bytes of an offset in a container of this size."""
    return next(width for width in (1, 2, 4, 8) if size < 1 << 8 * width)


def _offset(data: bytes, at: int, width: int) -> int:
    if at < 0 or at + width > len(data):
        raise Bad("a value has no offsets")
    return int.from_bytes(data[at:at + width], "little")


def _string(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _strings(data: bytes) -> list[str]:
    if not data:
        return []
    width = _width(len(data))
    first = _offset(data, len(data) - width, width)
    if first > len(data) or (len(data) - first) % width:
        raise Bad("a list has no offsets")
    found, start = [], 0
    for at in range(first, len(data), width):
        end = _offset(data, at, width)
        if not start <= end <= first:
            raise Bad("a list is out of order")
        found.append(_string(data[start:end]))
        start = end
    return found

"""Property lists that somebody else wrote, XML and binary: checked first, then read by the standard library (pure).

The binary form is a heap of objects that refer to each other by number (CFBinaryPList.c): a small file can claim a
gigabyte, refer to itself, or have thousands of objects share the same bytes, and the standard library would follow. So
the table is looked at first: all objects together may not be longer than the file, so that reading it takes time and
memory in proportion to its size, and ends where time is over. Text that is none, such as half a surrogate pair in a
page's title, becomes U+FFFD.
"""

import io
import struct
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from lspipe import when
from lspipe.live import Late, Unusable, never

#: The largest file that is read: a bookmark takes some 500 bytes.
MOST = 64 << 20
_MOST_XML = 16 << 20
#: Objects, and references to them: one that takes a byte becomes sixteen of memory.
_OBJECTS, _REFERENCES = 2_000_000, 4_000_000
#: Steps between two looks at the clock.
_STEPS = 2048
_MAGIC = b"bplist00"
_TRAILER = 32
_EPOCH = datetime(1970, 1, 1)
_TICK = timedelta(microseconds=1)
#: Bytes that an object of a kind has behind its marker for each that it counts; of others by their marker.
_PER_ITEM = {0x4: 1, 0x5: 1, 0x6: 2}
_ARRAYS = {0xA: 1, 0xC: 1, 0xD: 2}
_TEXTS = {0x5: "ascii", 0x6: "utf-16-be"}


class _Timed(io.BytesIO):
    """A file in memory that is read until time is over: the library reads it in many small parts."""

    def __init__(self, data: bytes | bytearray, stop: Callable[[], bool]) -> None:
        super().__init__(data)
        self._stop = stop
        self._left = _STEPS

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes. Raises Late."""
        self._left -= 1
        if not self._left:
            self._left = _STEPS
            if self._stop():
                raise Late
        return super().read(size)


def read(data: bytes, name: str, stop: Callable[[], bool] = never) -> Any:
    """What the property list `data` holds. Raises Unusable, which says `name`, and Late where `stop` says yes.

    The result may refer to itself: `nodes` walks it safely.
    """
    import plistlib

    try:
        if data.startswith(_MAGIC):
            return plistlib.load(_Timed(_checked(data, stop), stop), fmt=plistlib.FMT_BINARY)
        if len(data) > _MOST_XML:
            raise Unusable("not-readable", f"'{name}' has {len(data) >> 20} MiB of XML; at most 16 MiB are read")
        return plistlib.load(_Timed(data.decode("utf-8", "replace").encode(), stop), fmt=plistlib.FMT_XML)
    except (_Bad, struct.error, MemoryError, RecursionError, LookupError, ArithmeticError, ValueError, TypeError,
            AttributeError) as error:
        raise Unusable("failed", f"'{name}' is not a property list, or damaged{_said(error)}") from None
    except Exception as error:
        if type(error).__name__ != "ExpatError":
            raise
        raise Unusable("failed", f"'{name}' is not a property list{_said(error)}") from None


def _said(error: Exception) -> str:
    text = str(error)[:80]
    return f": {text}" if text else ""


class _Bad(Exception):
    """The table of objects cannot be that of an honest file."""


def _checked(data: bytes, stop: Callable[[], bool]) -> bytes | bytearray:
    """The file, or a copy of it with text that can be decoded, if its objects fit into it. Raises _Bad, Late."""
    if len(data) < len(_MAGIC) + _TRAILER:
        raise _Bad("too short")
    offset_size, ref_size, count, top, table = struct.unpack_from(">6xBBQQQ", data, len(data) - _TRAILER)
    end = len(data) - _TRAILER
    if not (1 <= offset_size <= 8 and 1 <= ref_size <= 8 and 0 < count <= _OBJECTS and top < count):
        raise _Bad("impossible table of objects")
    if not 8 <= table <= end or count * offset_size > end - table:
        raise _Bad("the table of objects is not in the file")
    copy: bytearray | None = None
    used = references = 0
    for number in range(count):
        if not number % _STEPS and stop():
            raise Late
        at = table + number * offset_size
        start = int.from_bytes(data[at:at + offset_size], "big")
        if not 8 <= start < table:
            raise _Bad("an object is not in the file")
        first, last = _extent(data, start, table, ref_size)
        used += last - start
        if used > len(data):
            raise _Bad("its objects share their bytes")
        kind = data[start] >> 4
        if kind in _ARRAYS:
            references += (last - first) // ref_size
            if references > _REFERENCES:
                raise _Bad("more references than anybody writes")
        elif kind in _TEXTS:
            mended = _mended(data[first:last], _TEXTS[kind])
            if mended is not None:
                copy = bytearray(data) if copy is None else copy
                copy[first:last] = mended
    return data if copy is None else copy


def _extent(data: bytes, start: int, table: int, ref_size: int) -> tuple[int, int]:
    """Where the content of the object at `start` begins, and where it ends. Raises _Bad."""
    kind, count = data[start] >> 4, data[start] & 0xF
    at = start + 1
    if kind in _PER_ITEM or kind in _ARRAYS:
        if count == 0xF:
            if at >= table or data[at] >> 4 != 0x1:
                raise _Bad("an object without a length")
            width = 1 << (data[at] & 0xF)
            count = int.from_bytes(data[at + 1:at + 1 + width], "big")
            at += 1 + width
        size = count * (_PER_ITEM.get(kind) or _ARRAYS[kind] * ref_size)
    elif kind == 0x8:
        size = count + 1
    else:
        size = 1 << count if kind in (0x1, 0x2, 0x3) else 0
    if at + size > table:
        raise _Bad("an object ends outside the file")
    return at, at + size


def _mended(text: bytes, encoding: str) -> bytes | None:
    """Text of the same length that can be decoded; None where it can be as it is. Raises _Bad."""
    try:
        text.decode(encoding)
        return None
    except UnicodeDecodeError:
        if encoding == "ascii":
            mended = bytes(byte if byte < 0x80 else 0x3F for byte in text)
        else:
            mended = text.decode(encoding, "replace").encode(encoding)
        if len(mended) != len(text):
            raise _Bad("text that is none") from None
        return mended


# ---- Values


def text(value: object) -> str | None:
    """Text that is not empty; whatever else is there counts as nothing."""
    return value if isinstance(value, str) and value else None


def dictionary(value: object) -> dict[Any, Any]:
    """A dictionary; an empty one for whatever else is there."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    """A list; an empty one for whatever else is there."""
    return value if isinstance(value, list) else []


def time(value: object, now: int) -> when.Checked:
    """The time of a date, or of seconds since 2001; None and why where it is none, as `when` has it."""
    if isinstance(value, datetime):
        us = (value.replace(tzinfo=None) - _EPOCH) // _TICK
        if us <= 0:  # Never: macOS has the year 1 for that.
            return None, "zero" if us == 0 or value.year == 1 else "negative"
        return (us, None) if us <= now + when.DAY else (None, "future")
    return when.from_mac(value, now)


def nodes(
    root: object, children: str, most: int, name: str, stop: Callable[[], bool] = never,
) -> Iterator[tuple[dict[Any, Any], tuple[Any, ...]]]:
    """(dictionary, the ones above it) of a tree in the order of the file, whose branches lie under the key `children`.

    Raises Unusable after `most` of them, or 200 levels down: such a tree is no tree. Raises Late where `stop` says yes.
    """
    stack: list[tuple[object, tuple[Any, ...]]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        if not isinstance(node, dict):
            continue
        most -= 1
        if not most % _STEPS and stop():
            raise Late
        if most < 0 or len(above) > 200:
            raise Unusable("failed", f"'{name}' has folders without end")
        yield node, above
        inner = (*above, node)
        below = array(node.get(children))
        if len(below) > most:
            raise Unusable("failed", f"'{name}' has folders without end")
        stack.extend((child, inner) for child in reversed(below))

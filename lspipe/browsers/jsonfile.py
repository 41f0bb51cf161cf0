"""JSON that a browser wrote, parsed only where what comes of it is not much larger than what browsers write (pure)."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from lspipe.live import Unusable

#: Lists and objects, and values, that a file may hold: two bytes of the one become 85 in memory, of the other 100 at
#: worst. A store of 5,000 tabs with 20 pages each has 300,000 and 2 million.
_CONTAINERS, _VALUES = 600_000, 2_000_000
#: Bytes of a file as they become texts: each takes two where a text holds a character above U+00FF, four above U+FFFF.
_TEXTS = 128 << 20
#: Texts of that kind that are looked at, and quotation marks and backslashes in them.
_STEPS = 2_000_000
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xf4]|\\u"), re.compile(rb"[\xf0-\xf4]|\\u[dD]")


def loads(data: bytes | bytearray, name: str) -> Any:
    """The value in the file `name`. orjson.JSONDecodeError where it is no JSON, Unusable where it is too much."""
    check(data, name)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "memory" in error.msg:
            raise MemoryError from None
        raise


def check(data: bytes | bytearray, name: str) -> None:
    """Raise Unusable where a file holds more than any browser writes; marks inside of strings count, too."""
    if data.count(b"[") + data.count(b"{") > _CONTAINERS or data.count(b",") > _VALUES:
        raise Unusable("not-readable", f"'{name}' holds more values than any browser writes")
    if 4 * len(data) > _TEXTS and not _fits(data):
        raise Unusable("not-readable", f"'{name}' holds longer texts than any browser writes")


class _TooMany(Exception):
    """More steps than any file that a browser wrote takes."""


class _Steps:
    """A count of steps that ends."""

    def __init__(self) -> None:
        self._left = _STEPS

    def take(self, count: int) -> None:
        """Raises _TooMany."""
        self._left -= count
        if self._left < 0:
            raise _TooMany


def _fits(data: bytes | bytearray) -> bool:
    """Whether its texts fit into memory. One wide character makes every other one of its text as wide."""
    left, end, steps = _TEXTS - len(data), 0, _Steps()
    try:
        while left >= 0 and (found := _WIDE.search(data, end)) is not None:
            steps.take(1)
            begin = _mark(data, _marks_before(data, end, found.start()), steps)
            close = _mark(data, _marks_after(data, found.end()), steps)
            begin, end = max(begin, end), len(data) if close < 0 else close + 1
            left -= (end - begin) * (3 if _WIDEST.search(data, found.start(), end) else 1)
    except _TooMany:
        return False
    return left >= 0


def _mark(data: bytes | bytearray, places: Iterator[int], steps: _Steps) -> int:
    """The first quotation mark of these that begins or ends a text; -1 where none does."""
    for at in places:
        slashes = _slashes(data, at)
        steps.take(slashes)
        if not slashes % 2:
            return at
    return -1


def _marks_before(data: bytes | bytearray, start: int, at: int) -> Iterator[int]:
    """Where quotation marks stand before `at`, back to `start`."""
    while (at := data.rfind(b'"', start, at)) >= 0:
        yield at


def _marks_after(data: bytes | bytearray, at: int) -> Iterator[int]:
    """Where they stand from `at` on."""
    while (at := data.find(b'"', at)) >= 0:
        yield at
        at += 1


def _slashes(data: bytes | bytearray, at: int) -> int:
    """How many backslashes stand before a place: an odd number of them makes it a part of a text."""
    start = at
    while start and at - start <= _STEPS and data[start - 1] == 0x5C:
        start -= 1
    return at - start

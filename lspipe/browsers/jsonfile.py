"""JSON that a browser wrote, parsed only where what comes of it is not much larger than what browsers write (pure)."""

import re
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
    return orjson.loads(data)


def check(data: bytes | bytearray, name: str) -> None:
    """Raise Unusable where a file holds more than any browser writes; marks inside of strings count, too."""
    if data.count(b"[") + data.count(b"{") > _CONTAINERS or data.count(b",") > _VALUES:
        raise Unusable("not-readable", f"'{name}' holds more values than any browser writes")
    if 4 * len(data) > _TEXTS and not _fits(data):
        raise Unusable("not-readable", f"'{name}' holds longer texts than any browser writes")


def _fits(data: bytes | bytearray) -> bool:
    """Whether its texts fit into memory. One wide character makes every other one of its text as wide."""
    left, steps, end = _TEXTS - len(data), _STEPS, 0
    while left >= 0 and (found := _WIDE.search(data, end)) is not None:
        start = found.start()
        begin = data.rfind(b'"', end, start)
        while begin >= 0 and (slashes := _slashes(data, begin)):
            steps -= slashes
            if steps < 0:
                return False
            if not slashes % 2:
                break
            begin = data.rfind(b'"', end, begin)
        at = data.find(b'"', found.end())
        while at >= 0 and (slashes := _slashes(data, at)):
            steps -= slashes
            if steps < 0:
                return False
            if not slashes % 2:
                break
            at = data.find(b'"', at + 1)
        begin, end = max(begin, end), len(data) if at < 0 else at + 1
        left -= (end - begin) * (3 if _WIDEST.search(data, start, end) else 1)
        steps -= 1
        if steps < 0:
            return False
    return left >= 0


def _slashes(data: bytes | bytearray, at: int) -> int:
    """How many backslashes stand before a place: an odd number of them makes it a part of a text."""
    start = at
    while start and at - start <= _STEPS and data[start - 1] == 0x5C:
        start -= 1
    return at - start

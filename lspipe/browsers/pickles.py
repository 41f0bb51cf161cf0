"""Chromium's pickles, as they stand in session files: values one after another, little-endian (pure).

Every value begins at a multiple of four bytes. The fields of a page are those of
serialized_navigation_entry.cc, which grew over the years: a reader stops where they end.
"""

import struct
from collections.abc import Iterator, Mapping

from lspipe import when
from lspipe.browsers.tab import Entry, Group

_int, _time, _token = struct.Struct("<i").unpack_from, struct.Struct("<q").unpack_from, struct.Struct("<QQ").unpack_from
_EPOCH = 11_644_473_600_000_000
_COLOURS = ("grey", "blue", "red", "yellow", "green", "pink", "purple", "cyan", "orange")


class Broken(Exception):
    """A pickle that does not hold what it should."""


class Pickle:
    """The values of a pickle that begins at `at` and ends at `end` at the latest. Raises Broken where they end."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self._at, self._end = data, at + 4, end  # Before them stands their length.

    def _next(self, count: int) -> int:
        at = self._at
        if count < 0 or at + count > self._end:
            raise Broken
        self._at = at + (count + 3 & ~3)
        return at

    def integer(self) -> int:
        """32 bits with a sign; a bool, too."""
        return int(_int(self._data, self._next(4))[0])

    def time(self) -> int:
        """64 bits with a sign."""
        return int(_time(self._data, self._next(8))[0])

    def string(self) -> str:
        """Text in UTF-8."""
        count = self.integer()
        at = self._next(count)
        return self._data[at:at + count].decode("utf-8", "replace")

    def string16(self) -> str:
        """Text in UTF-16, in which half a surrogate pair becomes U+FFFD."""
        count = 2 * self.integer()
        at = self._next(count)
        return self._data[at:at + count].decode("utf-16-le", "replace")

    def token(self) -> str:
        """The id of a group."""
        return group_id(*_token(self._data, self._next(16)))

    def group(self) -> Group:
        """A group's id, title and colour."""
        return Group(self.token(), self.string16() or None, colour(self.integer()))


def group_id(high: int, low: int) -> str:
    """A token's two halves as text."""
    return f"{high:016x}{low:016x}"


def colour(number: int) -> str:
    """The name of a group's colour; grey for one that is not known, as in the browser."""
    return _COLOURS[number] if 0 <= number < len(_COLOURS) else _COLOURS[0]


def moment(stamp: int | None, now: int) -> when.Checked:
    """The time of a stamp: `when.from_webkit`, with a short cut for those that are as they should be."""
    if stamp is not None and _EPOCH < stamp <= now + _EPOCH:
        return stamp - _EPOCH, None
    return when.from_webkit(stamp, now)


def page(data: bytes, at: int, now: int) -> Entry | None:
    """The page in the navigation command whose pickle begins at `at`, its size before it; None: it is broken."""
    values = data[at + 12:at - 1 + int.from_bytes(data[at - 3:at - 1], "little")]  # After length, tab and index.
    size = len(values)
    stamp = status = None
    try:
        end = 4 + _int(values, 0)[0]
        if not 4 <= end <= size:
            return None
        url = values[4:end].decode("utf-8", "replace")
        start = (end + 3 & ~3) + 4
        end = start + 2 * _int(values, start - 4)[0]
        if not start <= end <= size:
            return None
        title = values[start:end].decode("utf-16-le", "replace")
    except struct.error:
        return None
    try:
        end = end + 3 & ~3
        # The page's state, transition and type mask; the referrer, a policy; the first url, whose agent it is.
        for rest in (8, 4, 4):
            length = _int(values, end)[0]
            if length < 0:
                raise struct.error
            end += 4 + (length + 3 & ~3) + rest
        stamp = _time(values, end)[0]
        length = 2 * _int(values, end + 8)[0]
        if length >= 0:
            status = _int(values, end + 12 + (length + 3 & ~3))[0]
    except struct.error:
        pass
    seen, quality = moment(stamp, now)
    return Entry(url, title or None, seen, quality, status or None)


class Pages:
    """The pages of one tab, from their places in the file by their index; those that can be read, whenever asked."""

    __slots__ = ("_data", "_now", "_places")

    def __init__(self, data: bytes, places: Mapping[int, int], now: int) -> None:
        self._data, self._places, self._now = data, places, now

    def __iter__(self) -> Iterator[Entry]:
        for index in sorted(self._places):
            entry = page(self._data, self._places[index], self._now)
            if entry is not None:
                yield entry

    def current(self, selected: int) -> Entry | None:
        """The selected page, else the first one after it, else the last one before it that can be read."""
        places = self._places
        if selected in places:
            entry = page(self._data, places[selected], self._now)
            if entry is not None:
                return entry
        order = sorted(places)
        after = [index for index in order if index > selected]
        for index in (*after, *reversed(order[:len(order) - len(after)])):
            entry = page(self._data, places[index], self._now)
            if entry is not None:
                return entry
        return None

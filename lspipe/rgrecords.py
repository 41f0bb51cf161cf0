"""ripgrep's output cut into records in bounded memory, and the long ones read without parsing them.

A record is as long as the line that it holds, and longer: each match in it is listed. What is needed of a long one
(its line around the first match) is found by marks that cannot stand inside a JSON string, where a quote is escaped.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

#: Records up to this size are whole; of longer ones so much is held.
WHOLE, HELD = 1 << 20, 1 << 24
_TAIL = 1 << 16

_BODY = re.compile(rb'"lines":\{"(text|bytes)":"')
_AFTER_LINE = b'"},"line_number":'
_PLACE = re.compile(rb'(\d+),"absolute_offset":(\d+)')
_FIRST = re.compile(rb'"\},"start":(\d+),"end":(\d+)')


class Long(NamedTuple):
    """A long record: its beginning, and what follows its line where that is not in the beginning."""

    head: bytes
    tail: bytes = b""


class _Unfinished:
    """The record that is being read, in pieces."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""

    def add(self, part: bytes) -> None:
        room = max(0, HELD - self._size)
        if room:
            self._parts.append(part[:room])
        if len(part) > room and len(self._tail) < _TAIL:
            self._tail += part[room:]
            at = self._tail.find(_AFTER_LINE)
            # Where it has not come yet, a piece of it may be at the end.
            self._tail = self._tail[at:] if at >= 0 else self._tail[-len(_AFTER_LINE):]
        self._size += len(part)

    def take(self) -> bytes | Long:
        head = b"".join(self._parts)
        record = head if self._size <= WHOLE else Long(head, self._tail[:_TAIL])
        self._start()
        return record


def split(chunks: Iterable[bytes]) -> Iterator[bytes | Long]:
    """The records in ripgrep's output. What is left without a newline at the end is half of one, of an rg that died."""
    unfinished = _Unfinished()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        unfinished.add(first)
        if others:
            yield unfinished.take()
            last = others.pop()
            yield from others
            unfinished.add(last)


class Line(NamedTuple):
    """What a record says: `start` and `end` of the first match are offsets in `data`, None where there is none."""

    matches: bool
    number: int
    offset: int
    data: bytes
    start: int | None
    end: int | None


def read(record: Long) -> Line | None:
    """The line in a long record, or as much of it as was held; None where it is no record of a line."""
    head = record.head
    body = _BODY.search(head)
    if body is None:
        return None
    stop = head.find(_AFTER_LINE, body.end())
    # What is left of a mark that was cut in two belongs to no line.
    rest = head[stop:] if stop >= 0 else head[-len(_AFTER_LINE):] + record.tail
    place = _PLACE.search(rest)
    if place is None:
        return None
    first = _FIRST.search(rest, place.end())
    start, end = map(int, first.groups()) if first else (None, None)
    data = _unescaped(head[body.end():stop] if stop >= 0 else head[body.end():], body.group(1) == b"text")
    return Line(head.startswith(b'{"type":"match"'), int(place[1]), int(place[2]), data, start, end)


def _unescaped(body: bytes, is_text: bool) -> bytes:
    """The bytes that a JSON string stands for, which may be cut off anywhere."""
    if not is_text:
        return base64.b64decode(body[:len(body) & ~3])
    last = body.rfind(b"\\", max(0, len(body) - 6))  # The longest escape that ripgrep writes is \u001f.
    while last > 0 and body[last - 1:last] == b"\\":
        last -= 1
    if last >= 0 and not _is_string(body[last:]):
        body = body[:last]
    return str(orjson.loads(b'"' + body.decode("utf-8", "ignore").encode() + b'"')).encode()


def _is_string(body: bytes) -> bool:
    try:
        orjson.loads(b'"' + body.decode("utf-8", "ignore").encode() + b'"')
    except orjson.JSONDecodeError:
        return False
    return True

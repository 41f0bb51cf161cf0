"""ripgrep's --json messages as plain hits.

The messages (type begin, match, context, end, summary) are described in ripgrep's crates/printer/src/json.rs. All
offsets in them are bytes. No option of ripgrep bounds the length of a line in them: of a long one the part around
its first match is kept.
"""

import base64
import bisect
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from lspipe import rgrecords
from lspipe.exits import Upstream
from lspipe.rgrecords import Long

#: Characters of one line that are kept, whatever was asked for: escaped, it has to fit into a row.
KEPT = 1 << 16
#: How many matched texts of a line are kept, and how much of each.
FOUND, FOUND_CHARS = 20, 100
#: How the commonest records begin, and what most of them say, so that they need no second look.
_MATCH, _END, _NOT_BINARY = b'{"type":"match",', b'{"type":"end",', b'"binary_offset":null'


@dataclass(eq=False)
class File:
    """A file with a match. Every hit in it refers to the same object."""

    path: bytes


@dataclass(slots=True)
class Hit:
    """One matching line."""

    file: File
    line: int
    #: 1-based, in bytes: where its first match begins.
    column: int
    #: The line without its end; where it is longer than what was asked for, the part around the first match.
    text: str
    #: Where the first match begins in `text`, in characters.
    at: int
    #: The texts that matched.
    found: list[str]
    #: Where the line begins in the file, in bytes (in the decoded text, where the file is UTF-16).
    offset: int
    #: The line and those around it, where context was asked for.
    around: str | None = None


@dataclass
class Tally:
    """What ripgrep says beside its matches."""

    #: How many files were searched; None until the search has ended. ripgrep 13 counts only those with a match.
    searched: int | None = None
    #: How many files have a match.
    matched: int = 0
    #: Files whose search ended at a NUL after a match.
    binary: int = 0


def hits(records: Iterable[bytes | Long], tally: Tally, keep: int, context: int = 0) -> Iterator[Hit]:
    """The matching lines in ripgrep's order, each with at most `keep` characters of its text.

    Raises Upstream for a record that is none.
    """
    keep = min(keep, KEPT)
    file = File(b"")
    window = _Window(context, keep) if context else None
    loads = orjson.loads
    for record in records:
        try:
            if isinstance(record, Long):
                matches, line = _long(record, file, keep)
            elif record.startswith(_MATCH):  # The commonest first: this loop is what a search costs.
                line = _line(loads(record)["data"], file, keep)
                if window is None:
                    yield line
                    continue
                matches = True
            elif record.startswith(_END) and _NOT_BINARY in record:
                matches, line = False, None
            else:
                message = loads(record)
                kind, data = message["type"], message["data"]
                matches, line = kind == "match", None
                if kind in ("match", "context"):
                    line = _line(data, file, keep)
                elif kind == "begin":
                    file = File(_bytes(data["path"]))
                    tally.matched += 1
                elif kind == "end":
                    tally.binary += data["binary_offset"] is not None
                elif kind == "summary":
                    tally.searched = data["stats"]["searches"]
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
            raise _not_a_message() from None
        if window is not None:
            yield from window.flush() if line is None else window.add(line, matches)
        elif matches and line is not None:
            yield line


def _not_a_message() -> Upstream:
    return Upstream("rg wrote something that is not one of its messages", "see: rg --version")


def _bytes(data: dict[str, str]) -> bytes:
    text = data.get("text")
    return base64.b64decode(data["bytes"]) if text is None else text.encode()


def _line(data: dict[str, Any], file: File, keep: int) -> Hit:
    lines, submatches = data["lines"], data["submatches"]
    start = submatches[0]["start"] if submatches else 0
    text = lines.get("text")
    if text is None or len(text) > keep:
        text, at = _around(_bytes(lines), start, keep)
    else:
        # Offsets are bytes; a match may begin inside a character, too.
        at = start if text.isascii() else len(text.encode()[:start].decode("utf-8", "ignore"))
        if text[-1:] == "\n":
            text = text[:-2] if text[-2:-1] == "\r" else text[:-1]
        if at > len(text):
            at = len(text)
    if len(submatches) == 1:
        found = [_text(submatches[0]["match"])]
    else:
        found = [_text(one["match"]) for one in submatches[:FOUND]]
    if len(text) > FOUND_CHARS:
        found = [match[:FOUND_CHARS] for match in found]
    return Hit(file, data["line_number"], start + 1, text, at, found, data["absolute_offset"])


def _text(data: dict[str, str]) -> str:
    text = data.get("text")
    return base64.b64decode(data["bytes"]).decode("utf-8", "replace") if text is None else text


def _without_end(text: str) -> str:
    if text[-1:] != "\n":
        return text
    return text[:-2] if text[-2:-1] == "\r" else text[:-1]


def _around(line: bytes, start: int, keep: int) -> tuple[str, int]:
    """At most `keep` characters of a line, a quarter of them before `start`; and where that is in them."""
    start = min(start, len(line))
    for _ in range(3):  # A match may begin inside a character, a text does not.
        if 0 < start < len(line) and line[start] & 0xC0 == 0x80:
            start -= 1
    begin = max(0, min(start - keep // 4, len(line) - keep))
    for _ in range(3):
        if 0 < begin < start and line[begin] & 0xC0 == 0x80:
            begin += 1
    before = line[begin:start].decode("utf-8", "replace")
    after = _without_end(line[start:start + 4 * keep].decode("utf-8", "replace"))
    return (before + after)[:keep], min(len(before), keep)


def _long(record: Long, file: File, keep: int) -> tuple[bool, Hit]:
    line = rgrecords.read(record)
    if line is None:
        raise _not_a_message()
    start, end = line.start or 0, line.end or 0
    text, at = _around(line.data, start, keep)
    matched = line.data[start:min(end, start + 4 * FOUND_CHARS)].decode("utf-8", "replace")[:FOUND_CHARS]
    found = [] if line.start is None else [matched]
    return line.matches, Hit(file, line.number, start + 1, text, at, found, line.offset)


class _Window:
    """Matching lines wait here until what comes after them has been seen, or as much of it as is kept."""

    def __init__(self, context: int, keep: int) -> None:
        self._context = context
        self._keep = keep
        self._clear()

    def _clear(self) -> None:
        #: The lines of a file in one piece, each with an end; their numbers, and where each begins.
        self._text = ""
        self._numbers: list[int] = []
        self._begins: list[int] = []
        self._waiting: deque[tuple[Hit, int]] = deque()

    def add(self, line: Hit, matches: bool) -> Iterator[Hit]:
        while self._waiting and self._has_enough(*self._waiting[0], line.line):
            yield self._finish()
        self._drop(line.line)
        begin = len(self._text)
        self._numbers.append(line.line)
        self._begins.append(begin)
        self._text += line.text + "\n"
        if matches:
            self._waiting.append((line, begin))

    def flush(self) -> Iterator[Hit]:
        while self._waiting:
            yield self._finish()
        self._clear()

    def _has_enough(self, hit: Hit, begin: int, number: int) -> bool:
        return hit.line + self._context < number or len(self._text) - begin > self._keep + len(hit.text)

    def _drop(self, number: int) -> None:
        """Forget lines that no hit, waiting or to come, can want: from time to time, since what stays is moved."""
        line, begin = (self._waiting[0][0].line, self._waiting[0][1]) if self._waiting else (number, len(self._text))
        first = max(bisect.bisect_left(self._numbers, line - self._context),
                    bisect.bisect_right(self._begins, begin - self._keep) - 1)
        cut = self._begins[first] if first < len(self._begins) else len(self._text)
        if 2 * cut > len(self._text) or 2 * first > len(self._begins):
            self._text = self._text[cut:]
            self._numbers = self._numbers[first:]
            self._begins = [at - cut for at in self._begins[first:]]
            self._waiting = deque((hit, at - cut) for hit, at in self._waiting)

    def _finish(self) -> Hit:
        hit, begin = self._waiting.popleft()
        low = self._begins[bisect.bisect_left(self._numbers, hit.line - self._context)]
        behind = bisect.bisect_right(self._numbers, hit.line + self._context)
        high = (self._begins[behind] if behind < len(self._begins) else len(self._text)) - 1
        if high - low > self._keep:
            low = max(low, min(begin + hit.at - self._keep // 2, high - self._keep))
            high = low + self._keep
        return replace(hit, around=self._text[low:high])


def moved(hit: Hit, at: int, keep: int) -> Hit:
    """The hit with its place at `at`, and at most `keep` characters of text around that."""
    column = hit.column + len(hit.text[:at].encode()) - len(hit.text[:hit.at].encode())
    begin = max(0, at - keep // 4) if len(hit.text) > keep else 0
    return replace(hit, column=max(1, column), text=hit.text[begin:begin + keep], at=at - begin)


def around(text: str, at: int, limit: int) -> str:
    """At most `limit` characters of a line for people, white space collapsed, from a little before `at` on."""
    flat = text.strip()
    if "  " in flat or not flat.isprintable():
        flat = " ".join(flat.split())
    if len(flat) <= limit:
        return flat
    from lspipe.snippet import ELLIPSIS, clip  # Most lines are short.

    begin = max(0, at - limit // 4)
    before = text[begin:at]
    # At the beginning of a word, if there is one before the match.
    begin += before.find(" ") + 1
    if not text[:begin].strip():
        return clip(flat, limit)
    return ELLIPSIS + clip(" ".join(text[begin:].split()), limit - len(ELLIPSIS))

"""ripgrep: the argument vector that asks for its matches, and its --json messages as plain records.

The messages (type begin, match, context, end, summary) are described in ripgrep's crates/printer/src/json.rs. All
offsets in them are bytes. A record may be as long as the line it holds, which no option of ripgrep bounds: one of
more than a megabyte is cut here, around its first match, before it is parsed.
"""

import base64
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from lspipe.exits import LspipeError, Upstream, Usage

#: Characters of one line that are kept, whatever was asked for: escaped, it has to fit into a row.
KEPT = 1 << 16
#: How many matched texts of a line are kept, and how much of each.
FOUND, FOUND_CHARS = 20, 100
#: Records up to this size are parsed as JSON; longer ones are cut. Of those so much is held in memory.
PARSED, HELD = 1 << 20, 1 << 24
_TAIL = 1 << 16

_BODY = re.compile(rb'"lines":\{"(text|bytes)":"')
_AFTER_LINE = b'"},"line_number":'
_PLACE = re.compile(rb'(\d+),"absolute_offset":(\d+)')
_FIRST = re.compile(rb'"\},"start":(\d+),"end":(\d+)')
_SYSTEM_ERROR = re.compile(r"(?P<path>.*): (?P<why>[^:]+) \(os error \d+\)", re.DOTALL)


@dataclass(frozen=True)
class Look:
    """What to look for and where, in ripgrep's own terms."""

    fixed: bool = False
    ignore_case: bool = False
    globs: Sequence[str] = ()
    types: Sequence[str] = ()
    hidden: bool = False
    no_ignore: bool = False
    context: int = 0
    #: Only the first matching line of each file.
    first: bool = False
    #: By path, folder by folder; else as found, which is faster and differs from run to run.
    ordered: bool = True


def arguments(program: str, look: Look, roots: Sequence[str]) -> list[str]:
    """The argument vector. Patterns are not in it, where every user of the machine could read them: they are fed
    to standard input (`feed`). Nothing that a person types can become an option.

    A configuration file could name a program to run, and the global git configuration lies outside every grant:
    neither is read. Files are never mapped into memory: one that shrinks meanwhile would kill ripgrep.
    """
    argv = [program, "--json", "--no-config", "--no-ignore-global", "--no-mmap"]
    if look.ordered:
        argv.append("--sort=path")
    switches = {"--fixed-strings": look.fixed, "--ignore-case": look.ignore_case, "--hidden": look.hidden,
                "--no-ignore": look.no_ignore, "--max-count=1": look.first}
    argv += [name for name, on in switches.items() if on]
    argv += [f"--glob={glob}" for glob in look.globs]
    argv += [f"--type={name}" for name in look.types]
    if look.context and not look.first:
        argv.append(f"--context={look.context}")
    return [*argv, "--file=-", "--", *roots]


def feed(patterns: Sequence[str]) -> bytes:
    """The patterns for ripgrep's standard input, one a line. Usage where one cannot be passed so, or is empty.

    ripgrep strips one carriage return from the end of such a line, so a pattern that ends with one gets another.
    """
    lines = []
    for pattern in patterns:
        if not pattern:
            raise Usage("the pattern is empty: it would match every line", "give it a word")
        if "\n" in pattern:
            raise Usage("a line break is not allowed in a pattern", "give each line its own: -e ONE -e TWO")
        data = os.fsencode(pattern)
        lines.append(data + b"\r\n" if data.endswith(b"\r") else data + b"\n")
    return b"".join(lines)


# --- from bytes to records ---------------------------------------------------------------------------------------


class Long(NamedTuple):
    """A record that is too long to be parsed: its beginning, and what follows its line where that is not in it."""

    head: bytes
    tail: bytes = b""


class _Unfinished:
    """The record that is being read, in pieces, in bounded memory."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""

    def add(self, part: bytes) -> None:
        room = HELD - self._size
        if room > 0:
            self._parts.append(part[:room])
        if len(part) > room and len(self._tail) < _TAIL:
            self._tail += part[max(0, room):]
            at = self._tail.find(_AFTER_LINE)
            # Not met yet: only a piece of it may be at the end.
            self._tail = self._tail[at:] if at >= 0 else self._tail[-len(_AFTER_LINE):]
        self._size += len(part)

    def take(self) -> bytes | Long:
        head = b"".join(self._parts)
        record = head if self._size <= PARSED else Long(head, self._tail[:_TAIL])
        self._start()
        return record


def split(chunks: Iterable[bytes]) -> Iterator[bytes | Long]:
    """The records in ripgrep's output, without their newline."""
    unfinished = _Unfinished()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        unfinished.add(first)
        if others:
            yield unfinished.take()
            last = others.pop()
            yield from others
            unfinished.add(last)
    if last_record := unfinished.take():
        yield last_record


# --- from records to matches -------------------------------------------------------------------------------------


@dataclass(eq=False)
class File:
    """A file with a match. Every hit in it refers to the same object."""

    path: bytes


class Hit(NamedTuple):
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

    #: How many files were searched; None until the search has ended.
    searched: int | None = None
    #: Files whose search ended at a NUL after a match.
    binary: int = 0


def hits(records: Iterable[bytes | Long], tally: Tally, keep: int, context: int = 0) -> Iterator[Hit]:
    """The matching lines in ripgrep's order, each with at most `keep` characters of its text.

    Raises Upstream for a record that is none.
    """
    keep = min(keep, KEPT)
    file = File(b"")
    window = _Window(context, keep) if context else None
    for record in records:
        if isinstance(record, Long):
            kind, line = _cut(record, file, keep)
        else:
            message = _parse(record)
            kind, data = message["type"], message["data"]
            if kind in ("match", "context"):
                line = _line(data, file, keep)
            else:
                line = None
                if kind == "begin":
                    file = File(_bytes(data["path"]))
                elif kind == "end":
                    tally.binary += data["binary_offset"] is not None
                elif kind == "summary":
                    tally.searched = data["stats"]["searches"]
        if window is not None:
            yield from window.flush() if line is None else window.add(line, kind == "match")
        elif kind == "match" and line is not None:
            yield line


def _parse(record: bytes) -> Any:
    try:
        message = orjson.loads(record)
        message["type"], message["data"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        raise Upstream("rg wrote something that is not one of its messages", "see: rg --version") from None
    return message


def _bytes(data: dict[str, str]) -> bytes:
    text = data.get("text")
    return base64.b64decode(data["bytes"]) if text is None else text.encode()


def _line(data: dict[str, Any], file: File, keep: int) -> Hit:
    lines, submatches = data["lines"], data["submatches"]
    start = submatches[0]["start"] if submatches else 0
    text = lines.get("text")
    if text is not None and len(text) <= keep:
        at = start if text.isascii() else len(text.encode()[:start].decode())
        text = _chomp(text)
    else:
        text, at = _around(_bytes(lines), start, keep)
    found = [_text(sub["match"])[:FOUND_CHARS] for sub in submatches[:FOUND]]
    return Hit(file, data["line_number"], start + 1, text, min(at, len(text)), found, data["absolute_offset"])


def _text(data: dict[str, str]) -> str:
    text = data.get("text")
    return base64.b64decode(data["bytes"]).decode("utf-8", "replace") if text is None else text


def _chomp(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith("\n") else text


def _around(line: bytes, start: int, keep: int) -> tuple[str, int]:
    """At most `keep` characters of a line, a quarter of them before `start`; and where that is in them."""
    start = min(start, len(line))
    begin = max(0, min(start - keep // 4, len(line) - keep))
    for _ in range(3):  # Never in the middle of a character.
        if 0 < begin < start and line[begin] & 0xC0 == 0x80:
            begin += 1
    before = line[begin:start].decode("utf-8", "replace")
    after = _chomp(line[start:start + 4 * keep].decode("utf-8", "replace"))
    return (before + after)[:keep], min(len(before), keep)


def _cut(record: Long, file: File, keep: int) -> tuple[str, Hit | None]:
    """A long record's kind and line, found by their marks: nothing inside a JSON string looks like these."""
    head = record.head
    kind = "match" if head.startswith(b'{"type":"match"') else "context"
    body = _BODY.search(head)
    if body is None:
        raise Upstream("rg wrote something that is not one of its messages", "see: rg --version")
    end = head.find(_AFTER_LINE, body.end())
    rest = head[end:] if end >= 0 else record.tail
    place = _PLACE.search(rest)
    first = _FIRST.search(rest)
    if place is None:
        raise Upstream("rg wrote a line without its number")
    start, stop = map(int, first.groups()) if first else (0, 0)
    line = _unescape(head[body.end():end] if end >= 0 else head[body.end():], body.group(1) == b"text")
    text, at = _around(line, start, keep)
    found = [line[start:min(stop, start + 4 * FOUND_CHARS)].decode("utf-8", "replace")[:FOUND_CHARS]]
    return kind, Hit(file, int(place[1]), start + 1, text, at, found if first else [], int(place[2]))


def _unescape(body: bytes, is_text: bool) -> bytes:
    """The bytes that a JSON string stands for, which may be cut off anywhere."""
    if not is_text:
        return base64.b64decode(body[:len(body) & ~3])
    escape = body.rfind(b"\\", max(0, len(body) - 12))
    if escape >= 0:  # It may be half of one, or of a pair.
        while escape > 0 and body[escape - 1] == 0x5C:
            escape -= 1
        complete = body[escape:]
        body = body[:escape] if not _whole(complete) else body
    return str(orjson.loads(b'"' + body.decode("utf-8", "ignore").encode() + b'"')).encode()


def _whole(piece: bytes) -> bool:
    try:
        orjson.loads(b'"' + piece + b'"')
    except orjson.JSONDecodeError:
        return False
    return True


class _Window:
    """Matching lines wait here until the lines after them have been seen."""

    def __init__(self, context: int, keep: int) -> None:
        self._context = context
        self._keep = keep
        self._recent: deque[Hit] = deque(maxlen=context)
        self._waiting: deque[tuple[Hit, list[str], list[str]]] = deque()

    def add(self, line: Hit, matches: bool) -> Iterator[Hit]:
        while self._waiting and self._waiting[0][0].line + self._context < line.line:
            yield self._finish()
        for _hit, _before, after in self._waiting:
            after.append(line.text)
        if matches:
            before = [old.text for old in self._recent if old.line >= line.line - self._context]
            self._waiting.append((line, before, []))
        self._recent.append(line)

    def flush(self) -> Iterator[Hit]:
        while self._waiting:
            yield self._finish()
        self._recent.clear()

    def _finish(self) -> Hit:
        hit, before, after = self._waiting.popleft()
        text = "\n".join([*before, hit.text, *after])
        if len(text) > self._keep:
            at = sum(len(line) + 1 for line in before) + hit.at
            begin = max(0, min(at - self._keep // 2, len(text) - self._keep))
            text = text[begin:begin + self._keep]
        return hit._replace(around=text)


# --- what went wrong ---------------------------------------------------------------------------------------------


def fatal(code: int, errors: str) -> LspipeError:
    """Why a search ended before its summary: words that ripgrep does not accept, or its death."""
    if code < 0:
        return Upstream(f"rg was killed by signal {-code}", "what it had found until then is above")
    if code == 2 and errors:
        return Usage(one_line(errors), "its syntax: https://docs.rs/regex/latest/regex/#syntax")
    return Upstream(f"rg ended with {code}" + (f": {one_line(errors)}" if errors else ""), "see: rg --version")


def one_line(errors: str) -> str:
    """ripgrep's own words, which may be several lines with a drawing, as one."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    first = lines[0].removeprefix("rg: ") if lines else ""
    first = re.sub(r"^<stdin>:\d+: ", "", first)
    last = next((line for line in reversed(lines) if line.startswith("error: ")), None)
    return first.rstrip(":") + (": " + last.removeprefix("error: ") if last else "")


class Trouble(NamedTuple):
    """One line of ripgrep's stderr: `path` could not be read; None where it says something else."""

    path: str | None
    why: str


def troubles(errors: str) -> list[Trouble]:
    """What ripgrep could not read, in its order."""
    found = []
    # Not by lines: there may be a line break in the name of a file.
    for message in ("\n" + errors).split("\nrg: ")[1:]:
        known = _SYSTEM_ERROR.fullmatch(message.rstrip())
        if known:
            found.append(Trouble(known["path"], known["why"].lower()))
        else:
            found.append(Trouble(None, " ".join(message.split())))
    return found

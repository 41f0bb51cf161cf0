"""Bytes to rows and rows to bytes: capped lines in, escaped JSON Lines out.

Works on file descriptors, never on Python's text streams: no hidden buffer, no locale, no surprise at exit.
"""

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from lspipe.exits import Usage, WriteFailed, strerror
from lspipe.row import Row

#: One row is at most this long, in bytes, and this deep.
LINE_CAP = 1 << 20
DEPTH_CAP = 32
#: And a whole file that is one object.
DOCUMENT_CAP = 16 << 20
_CHUNK = 1 << 18
_FLUSH_BYTES = 1 << 16
_FLUSH_SECONDS = 0.05

#: Characters that must not leave raw: C0, DEL, C1, line separators, lone surrogates, and all that Unicode gives no
#: look of its own (Default_Ignorable_Code_Point: bidi controls, zero-width ones, fillers, variation selectors, tags).
#: A terminal or a model would act on them or hide them.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: How those characters begin in UTF-8 (and many harmless ones): most rows hold none of them.
_MAYBE_UNSAFE = re.compile(rb"[\x7f\xc2\xd8\xe1\xe2\xef\xf3]|\xcd\x8f|\xe3\x85\xa4|\xf0\x9b\xb2|\xf0\x9d\x85")


def escape(match: "re.Match[str]") -> str:
    """The JSON escape of one character; above the BMP as a surrogate pair."""
    code = ord(match.group())
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


def plain(text: str) -> str:
    """`text` with every unsafe character escaped, for one line on stderr."""
    return UNSAFE.sub(escape, text)


def counted(number: int, one: str, many: str) -> str:
    """`1 row is`, `2 rows are`."""
    return f"{number} {one if number == 1 else many}"


def quote(word: str) -> str:
    """`word` for bash; with `$'..'` where it holds what must not be printed raw."""
    if not UNSAFE.search(word):
        import shlex

        return shlex.quote(word)
    body = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + UNSAFE.sub(_ansi_c, body) + "'"


def _ansi_c(match: "re.Match[str]") -> str:
    return "".join(f"\\x{byte:02x}" for byte in match.group().encode("utf-8", "surrogateescape"))


def dumps(value: Any, newline: bool = True) -> bytes:
    """JSON in UTF-8, unsafe characters as escapes. A lone surrogate or a value that JSON lacks is a TypeError."""
    data = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE if newline else None)
    # Most rows are plain ASCII, which the first two tests tell in no time.
    if (not data.isascii() or b"\x7f" in data) and _MAYBE_UNSAFE.search(data):
        body = data[:-1] if newline else data
        # Structural JSON is ASCII and orjson has escaped C0 inside strings, so only strings can change here.
        data = UNSAFE.sub(escape, body.decode()).encode() + (b"\n" if newline else b"")
    return data


def dumps_pretty(value: Any) -> bytes:
    """Indented JSON for schemas and the envelope; the same escapes, line by line."""
    data = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if _MAYBE_UNSAFE.search(data):
        lines = data.decode().split("\n")
        data = "\n".join(UNSAFE.sub(escape, line) for line in lines).encode()
    return data


class Line(NamedTuple):
    """One input line: its 1-based number and its bytes without the newline; None where it was over the cap."""

    number: int
    data: bytes | None


def lines(fd: int, cap: int = LINE_CAP) -> Iterator[Line]:
    """The lines of `fd`, each at most `cap` bytes; a longer one is passed over in bounded memory."""
    number = 0
    rest = b""
    overlong = False
    while chunk := _read(fd):
        parts = chunk.split(b"\n")
        if overlong:
            if len(parts) == 1:
                continue
            number += 1
            yield Line(number, None)
            overlong = False
            parts = parts[1:]
        elif rest:
            parts[0] = rest + parts[0]
        rest = parts.pop()
        for data in parts:
            number += 1
            yield Line(number, data if len(data) <= cap else None)
        if len(rest) > cap:
            overlong, rest = True, b""
    if overlong:
        yield Line(number + 1, None)
    elif rest:
        yield Line(number + 1, rest)


def _read(fd: int) -> bytes:
    """What there is to read, at most _CHUNK; waits for it also on a descriptor that somebody made non-blocking."""
    while True:
        try:
            return os.read(fd, _CHUNK)
        except BlockingIOError:
            import select

            select.select([fd], [], [])


def read(fd: int, cap: int) -> bytes:
    """All that `fd` gives; of more than `cap` bytes so much that it shows. Raises OSError."""
    parts, size = [], 0
    while size <= cap and (chunk := _read(fd)):
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)


def depth(value: Any) -> int:
    """How deep objects and arrays are nested; iterative, since the input may be made to break recursion."""
    deepest = 0
    level = [value]
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if any(isinstance(item, dict | list) for item in level):
            deepest += 1
        level = below
    return deepest


class BadLine(ValueError):
    """Why one line is not a row; `column` is 1-based, in bytes, where it is known."""


def parse(data: bytes) -> Row:
    """The object in one line. Raises BadLine with the reason in a few words."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        column = f" at column {error.colno}" if error.pos else ""
        raise BadLine(f"not JSON{column}: {error.msg.split(': line ')[0]}") from None
    if not isinstance(value, dict):
        raise BadLine("not an object")
    if data.count(b"{") + data.count(b"[") > DEPTH_CAP and depth(value) > DEPTH_CAP:
        raise BadLine(f"nested deeper than {DEPTH_CAP} levels")
    return value


def rows(
    fd: int,
    skip: Callable[[int, str], None],
    check: Callable[[Row], str | None] | None = None,
    cap: int = LINE_CAP,
) -> Iterator[Row]:
    """The rows of `fd`. A line that is not one goes to `skip(number, reason)` and the next is read.

    Raises Usage where the input is not JSON Lines at all but one pretty-printed object or an array, or an envelope.
    """
    first = True
    for number, data in lines(fd, cap):
        if data is None:
            skip(number, f"longer than {cap} bytes")
            first = False
            continue
        if first and number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        stripped = data.strip()
        if not stripped:
            continue
        if first and (stripped == b"{" or stripped.startswith(b"[")):
            raise Usage("pretty-printed or array JSON: use jq -c, or jq -c '.[]'",
                        "of ls-query take --jsonl, not --json" if stripped == b"{" else None)
        begins, first = first, False
        try:
            row = parse(stripped)
        except BadLine as bad:
            skip(number, str(bad))
            continue
        wrong = check(row) if check else None
        if wrong is None:
            yield row
        elif begins and isinstance(row.get("results"), list) and not {"source", "url"} & row.keys():
            raise Usage("an envelope, not rows: use ls-query --jsonl, or jq -c '.results[]'")
        else:
            skip(number, wrong)


def document(
    fd: int,
    skip: Callable[[int, str], None],
    check: Callable[[Row], str | None] | None = None,
    cap: int = DOCUMENT_CAP,
) -> Iterator[Row]:
    """The one object that `fd` holds, over as many lines as it likes, or else its rows, a line each."""
    data = read(fd, cap)
    if len(data) > cap:
        skip(1, f"longer than {cap} bytes")
        return
    try:
        found = [(1, parse(data.strip()))]
    except BadLine as bad:
        try:
            found = [(number, parse(line)) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        except BadLine:
            skip(1, str(bad))
            return
    for number, value in found:
        wrong = check(value) if check else None
        if wrong is None:
            yield value
        else:
            skip(number, wrong)


class Writer:
    """Buffered bytes to one descriptor; counts the seconds that its reader took (`waited`)."""

    def __init__(self, fd: int, line_buffered: bool = False) -> None:
        self.fd = fd
        self.waited = 0.0
        self._line_buffered = line_buffered
        self._parts: list[bytes] = []
        self._size = 0
        self._flushed = time.monotonic()

    def write(self, data: bytes) -> None:
        """Keep `data` and send what is due. Raises BrokenPipeError or WriteFailed."""
        self._parts.append(data)
        self._size += len(data)
        if (
            self._line_buffered
            or self._size >= _FLUSH_BYTES
            or time.monotonic() - self._flushed >= _FLUSH_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Send everything. Raises BrokenPipeError where the reader left, WriteFailed where it cannot be written."""
        data = memoryview(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        began = time.monotonic()
        try:
            while data:
                try:
                    data = data[os.write(self.fd, data):]
                except BlockingIOError:
                    _wait_writable(self.fd)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteFailed(f"cannot write: {strerror(error)}", write_hint(error)) from None
        finally:
            self._flushed = time.monotonic()
            self.waited += self._flushed - began


def write_hint(error: OSError) -> str | None:
    """What a person can do about a failed write."""
    if error.errno == errno.ENOSPC:
        return "free some space, or write somewhere else"
    if error.errno == errno.EBADF:
        return "standard output is closed"
    return None


def _wait_writable(fd: int) -> None:
    import select

    select.select([], [fd], [])


def emit(writer: Writer, found: Iterable[Row]) -> int:
    """Write each of `found` as one line; how many they were."""
    count = 0
    for row in found:
        writer.write(dumps(row))
        count += 1
    return count

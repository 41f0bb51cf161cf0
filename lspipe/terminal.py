"""A person at the terminal: found, spoken to, listened to; never through stdin, stdout or stderr."""

import contextlib
import os
import select
import time
from collections.abc import Iterable

from lspipe import stream
from lspipe.exits import Deadline, Precondition
from lspipe.narrow import readable

_LONGEST_ANSWER = 4096
_WAIT = 0.1


def find(hint: str) -> int:
    """A descriptor of the controlling terminal. Precondition, with `hint`, where there is none or where we are
    not in front of it: a job in the background would be stopped by its own question."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        raise Precondition("cannot ask: there is no terminal with a person at it", hint) from None
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(terminal) == os.getpgrp():
            return terminal
    os.close(terminal)
    raise Precondition("cannot ask: not in the foreground of the terminal", hint)


def line(text: str) -> bytes:
    """One line to print, with whatever could move the cursor, turn the text around or hide in it as an escape: what is
    consented to must be unmistakable."""
    return stream.plain(readable(text)).encode("utf-8") + b"\n"


def say(terminal: int, lines: Iterable[str]) -> None:
    """Print lines."""
    _write(terminal, b"".join(map(line, lines)))


def ask(terminal: int, question: str, seconds: float | None = None) -> str:
    """The next line that is typed, without its ends; empty where the terminal is gone.

    What was typed before the question is no answer to it. Raises Deadline after `seconds`.
    """
    import termios

    with contextlib.suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)
    _write(terminal, line(question).replace(b"\n", b" "))
    answer = b""
    until = None if seconds is None else time.monotonic() + seconds
    while not answer.endswith((b"\n", b"\r")):
        # In short waits: a signal just before a long one would be heeded only after it.
        if not select.select([terminal], [], [], _WAIT)[0]:
            if until is not None and time.monotonic() >= until:
                raise Deadline("time was over before there was an answer")
            continue
        data = os.read(terminal, 1024)
        if not data or len(answer) > _LONGEST_ANSWER:
            return ""
        answer += data
    return answer.decode("utf-8", "replace").strip()


def _write(terminal: int, data: bytes) -> None:
    while data:
        data = data[os.write(terminal, data):]

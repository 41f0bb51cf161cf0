"""One invocation of an executable, as its generator sees it: options, clock, report, writer, ledger."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from lspipe import ledger, stream
from lspipe.exits import Precondition, WriteFailed
from lspipe.report import Report


class ReaderLeft(BaseException):
    """stdout's reader is gone: an ordinary end."""


@dataclass
class Reach:
    """What a command may touch once it is locked down, as paths; and what it has opened before."""

    read: list[str | int] = field(default_factory=list)
    execute: list[str | int] = field(default_factory=list)
    write: list[str | int] = field(default_factory=list)
    may_signal: bool = False
    #: Whatever the command's `reach` wants to hand to its `rows`.
    given: Any = None


class Clock:
    """The time left of --timeout. It stands still while stdout's reader takes its time."""

    def __init__(self, limit: float | None, waited: Callable[[], float]) -> None:
        self._limit = limit
        self._began = time.monotonic()
        self._waited = waited
        self.expired_once = False

    def left(self, ceiling: float | None = None) -> float | None:
        """Seconds left, at most `ceiling`; None where nothing bounds it."""
        if self._limit is None:
            return ceiling
        left = max(0.0, self._limit - (time.monotonic() - self._began - self._waited()))
        return left if ceiling is None else min(left, ceiling)

    def expired(self) -> bool:
        """Whether time is over. A command that sees it stops looking and yields what it has."""
        if self._limit is not None and self.left() == 0.0:
            self.expired_once = True
        return self.expired_once


class Run:
    """One invocation, as a command's generator sees it."""

    def __init__(self, name: str, opts: SimpleNamespace, argv: Sequence[str]) -> None:
        self.name = name
        self.options = opts
        self.argv = list(argv)
        self.report = Report(name)
        self.report.log_json = getattr(opts, "log", "text") == "json"
        self.report.strict = getattr(opts, "strict", False)
        self.now = time.time_ns() // 1000
        self.writer = stream.Writer(1, getattr(opts, "line_buffered", False))
        self.clock = Clock(getattr(opts, "timeout", None), lambda: self.writer.waited)
        self.ledger: ledger.Run | None = None
        self.reach = Reach()
        self.since: int | None = None
        self.until: int | None = None
        self.stdout_closed = False
        #: Called with (spent) resources last in, first out, whatever happens.
        self.closing = contextlib.ExitStack()

    def need_ledger(self) -> ledger.Run:
        """The run directory, for a command that is about to own something. Raises Precondition without one."""
        if self.ledger is None:
            raise Precondition("cannot register in the ledger, so nothing may be started",
                               "make the state folder writable, or name another: LSPIPE_STATE_HOME")
        return self.ledger

    def write(self, data: bytes) -> None:
        """Text for stdout, of executables that do not print rows."""
        if self.stdout_closed:
            raise WriteFailed("cannot write: standard output is closed")
        try:
            self.writer.write(data)
        except BrokenPipeError:
            raise ReaderLeft from None

    def flush(self) -> None:
        """Send what was written."""
        try:
            self.writer.flush()
        except BrokenPipeError:
            raise ReaderLeft from None

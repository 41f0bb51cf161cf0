"""A running program: feed it, read its lines, hear its errors, end it with its whole process group."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from lspipe import ledger

#: The moment on time.monotonic() when time is over, or a function that gives the seconds left; None: no end.
Deadline = float | Callable[[], float | None] | None
_CHUNK = 1 << 18
_ERRORS = 1 << 15
#: Seconds to die of SIGKILL, which only a hanging disk prevents.
_UNKILLABLE = 2.0
#: Seconds without output after which somebody may want to know why.
QUIET = 2.0


class Child:
    """A running program. Read `lines()`, then `wait()`; or `stop()` it, as `Run.close()` does in the end."""

    def __init__(self, row: ledger.Resource, program: str, pid: int, ours: Sequence[int], stdin: bytes | None):
        self.program = program
        self.pid = pid
        #: Its exit code once it has ended, minus the signal where it died by one.
        self.code: int | None = None
        #: Lines that were longer than the cap and left out; whether time was over before the end of output.
        self.oversized = 0
        self.late = False
        self._row = row
        self._in, self._out, self._err = ours
        self._feed = memoryview(stdin or b"")
        self._said = b""
        self._pidfd = -1
        with contextlib.suppress(OSError, AttributeError):
            self._pidfd = os.pidfd_open(pid)
        self._send_input()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def chunks(self, deadline: Deadline = None, quiet: Callable[[], None] | None = None) -> Iterator[bytes]:
        """Its output in pieces, as they come. When time is over the program is stopped, `late` is set, and the
        pieces end. `quiet` is called once, where it says nothing for QUIET seconds.
        """
        left = _timer(deadline)
        patience = time.monotonic() + QUIET
        while self._out >= 0:
            seconds = left()
            if seconds is not None and seconds <= 0:
                self.late = True
                self.stop()
                return
            if quiet is not None:
                rest = patience - time.monotonic()
                if rest <= 0:
                    quiet()
                    quiet = None
                    continue
                seconds = rest if seconds is None else min(rest, seconds)
            ready = self._turn(seconds)
            if self._out not in ready:
                if self._pidfd in ready:
                    return  # it has ended and said all; something that it left behind holds the pipe
                continue
            data = _read(self._out)
            if data is None:
                continue
            if not data:
                self._out = _shut(self._out)
                return
            yield data
            patience = time.monotonic() + QUIET

    def lines(self, deadline: Deadline = None, cap: int = 1 << 20) -> Iterator[bytes]:
        """Lines of its output without their newline, as they come; the last one may lack it.

        A line of more than `cap` bytes is left out and counted in `oversized`. Time ends them as it does `chunks`.
        """
        rest, skipping = b"", False
        for data in self.chunks(deadline):
            data = rest + data
            *complete, rest = data.split(b"\n")
            if not skipping and len(data) <= cap:  # then every line in it is short enough
                yield from complete
                continue
            for line in complete:
                if skipping or len(line) > cap:
                    self.oversized += not skipping
                    skipping = False
                else:
                    yield line
            if len(rest) > cap and not skipping:
                self.oversized += 1
                skipping = True
            if skipping:
                rest = b""
        if rest and not self.late:
            yield rest

    def wait(self, seconds: float = 10.0) -> int:
        """Its exit code, minus the signal where it died by one. What it still prints is not wanted any more.

        When `seconds` are over it is stopped and `late` is set.
        """
        until = time.monotonic() + seconds
        self._out = _shut(self._out)
        while self.code is None and not self._ended():
            left = until - time.monotonic()
            if left <= 0:
                self.late = True
                break
            self._turn(left)
        return self.stop()

    def errors(self) -> str:
        """The beginning of what it said on stderr."""
        return self._said.decode("utf-8", "replace")

    def stop(self, grace: float = 0.2) -> int:
        """End it and its process group: TERM, at most `grace` seconds, KILL. Its exit code. May be called again."""
        if self.code is not None:
            return self.code
        if not self._ended():
            self._signal(signal.SIGTERM)
            self._wait_for_end(grace)
        # Before it is reaped: until then nobody else can get the number of its group.
        self._signal(signal.SIGKILL)
        self._wait_for_end(_UNKILLABLE)
        self.code = -int(signal.SIGKILL)
        if self._ended():
            _pid, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
            self._row.release()
        self._listen()
        self._in, self._out, self._err, self._pidfd = map(_shut, (self._in, self._out, self._err, self._pidfd))
        return self.code

    def _ended(self) -> bool:
        """Whether it has ended; it stays a zombie until `stop` reaps it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except OSError:  # no such group yet
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def _wait_for_end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._ended() and (left := until - time.monotonic()) > 0:
            if self._pidfd >= 0:
                select.select([self._pidfd], [], [], left)
            else:
                time.sleep(min(0.005, left))

    def _turn(self, seconds: float | None) -> set[int]:
        """Wait until something can be done, and do what is not for the caller: feed it, hear its errors.

        The descriptors that were ready; where there is no pidfd to wait for, none after a short while.
        """
        poll = select.poll()
        for descriptor in (self._out, self._err, self._pidfd):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        if self._in >= 0:
            poll.register(self._in, select.POLLOUT)
        if self._pidfd < 0:
            seconds = 0.02 if seconds is None else min(0.02, seconds)
        ready = {descriptor for descriptor, _event in poll.poll(None if seconds is None else seconds * 1000)}
        if self._in in ready:
            self._send_input()
        if self._err in ready:
            self._listen()
        return ready

    def _send_input(self) -> None:
        try:
            while self._feed:
                self._feed = self._feed[os.write(self._in, self._feed[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not want more
            pass
        self._in = _shut(self._in)

    def _listen(self) -> None:
        for _ in range(4):  # not for ever: it may talk faster than we listen
            data = _read(self._err) if self._err >= 0 else None
            if data is None:
                return
            if not data:
                self._err = _shut(self._err)
                return
            self._said += data[: _ERRORS - len(self._said)]


def _timer(deadline: Deadline) -> Callable[[], float | None]:
    if callable(deadline):
        return deadline
    if deadline is None:
        return lambda: None
    moment = deadline
    return lambda: moment - time.monotonic()


def _read(descriptor: int) -> bytes | None:
    """What is there now; None if nothing is, empty at the end."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def _shut(descriptor: int) -> int:
    if descriptor >= 0:
        os.close(descriptor)
    return -1

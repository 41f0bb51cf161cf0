"""The signals that end a run: each raises Stopped once, and clean-up is then left in peace."""

import os
import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds for what is left to say after a signal: its reader may be stuck.
_LAST_WORDS = 1.0


class Stopped(BaseException):
    """Raised by the signal handler; nothing but the runner may catch it."""


class Signals:
    """INT, TERM and HUP raise Stopped once. A second INT after an INT leaves the rest to ls-clean.

    The handler stays until the end and does nothing by then: where the system's SIG_IGN took its place, Python would
    complain of every signal that came at the same moment as the first.
    """

    def __init__(self) -> None:
        self.number = 0
        self._over = False
        self._free = False

    def __enter__(self) -> "Signals":
        for number in ENDING:
            # A parent that ignores HUP (nohup) or INT (a background job) means it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self.ignore()
        if self.number:
            raise Stopped  # Also where a library swallowed it, as SQLite does in a callback.

    def _handle(self, number: int, _frame: object) -> None:
        if self._free and not self.number:
            _die(number)
        if self.number or self._over:
            return
        self.number = number
        if number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)  # For a second Ctrl-C of an impatient person.
        raise Stopped

    def ignore(self) -> None:
        """Let clean-up run to its end."""
        self._over = True

    def release(self) -> None:
        """All is cleaned up: the next signal ends the process at once; after an earlier one there is a second left."""
        self._free = True
        if self.number:
            signal.signal(signal.SIGALRM, lambda _number, _frame: _die(self.number))
            signal.setitimer(signal.ITIMER_REAL, _LAST_WORDS)


def _die(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)

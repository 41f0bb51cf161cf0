"""Exit codes, and the exceptions that carry them from anywhere to the runner."""

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """What an executable tells its caller; the numbers are a stable interface."""

    OK = 0
    NO_ROWS = 1
    USAGE = 2
    NOT_FOUND = 3
    UPSTREAM = 4
    PRECONDITION = 5
    DEADLINE = 6
    SKIPPED = 7
    BUG = 70
    WRITE = 74
    HANGUP = 129
    INTERRUPT = 130
    TERMINATE = 143


#: One code wins, the first of these that applies; so 1 always means "looked everywhere, found nothing".
PRECEDENCE = (
    Exit.INTERRUPT, Exit.TERMINATE, Exit.HANGUP, Exit.BUG, Exit.WRITE, Exit.USAGE, Exit.NOT_FOUND,
    Exit.PRECONDITION, Exit.UPSTREAM, Exit.DEADLINE, Exit.SKIPPED, Exit.NO_ROWS, Exit.OK,
)


def strongest(codes: Iterable[int]) -> Exit:
    """The one code that wins among `codes`; OK when there are none, BUG for a number outside the table."""
    found = set(codes)
    if found - {int(code) for code in PRECEDENCE}:
        found.add(Exit.BUG)
    return next((code for code in PRECEDENCE if code in found), Exit.OK)


class LspipeError(Exception):
    """Foreseeable trouble: `message` says what failed, `hint` what to do; `code` becomes the exit code."""

    code = Exit.BUG

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Usage(LspipeError):
    """The caller's words are wrong."""

    code = Exit.USAGE


class NotFound(LspipeError):
    """A thing that the caller named does not exist."""

    code = Exit.NOT_FOUND


class Upstream(LspipeError):
    """A program or a file that lspipe reads failed (browser, rg, qmd)."""

    code = Exit.UPSTREAM


class Precondition(LspipeError):
    """Something must be there first: consent, a program, a package, a usable folder."""

    code = Exit.PRECONDITION


class Deadline(LspipeError):
    """Time was over before there was a row."""

    code = Exit.DEADLINE


class Refused(LspipeError):
    """Something that would have been skipped ended the run (--strict)."""

    code = Exit.SKIPPED


class Bug(LspipeError):
    """lspipe itself is wrong."""

    code = Exit.BUG


class WriteFailed(LspipeError):
    """What was found could not be written."""

    code = Exit.WRITE


def strerror(error: OSError) -> str:
    """An error of the system in a few words."""
    return (error.strerror or str(error)).lower()

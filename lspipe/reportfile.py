"""The file that --report names: opened before anything else, and never over what is no report."""

import contextlib
import errno
import os
import re
import stat
import time

from lspipe import paths
from lspipe.exits import Deadline, Precondition, Usage, WriteFailed
from lspipe.narrow import readable, within

#: A report is one line that begins so, or, where a disk was full, a part of it; anything else is somebody's file, what
#: --log json wrote, or many reports.
_REPORT = re.compile(rb'\{"command":"ls-[a-z]+","version":"[^\n]*\n?')
_LONGEST = 16 << 20
#: Names of open descriptors: they are used as they are, since to open them anew would begin at the file's start.
_OPEN = re.compile(r"/dev/fd/([0-9]{1,9})|/dev/(stdout)|/dev/(stderr)")
_LOOK = 0.02
_TRIES = 5


def open_file(path: str, wait: float | None) -> int:
    """A descriptor for the report at `path`, which is made, or emptied where it holds an earlier report.

    For the reader of a FIFO it waits, `wait` seconds at most where that is not None. Raises Usage where anything
    else is in the file or it is where the rows go, Deadline, WriteFailed.
    """
    shown = readable(path)
    if path == "-":
        raise Usage("--report takes a file, not '-'", "the open descriptor 3: --report /dev/fd/3")
    try:
        named = _OPEN.fullmatch(path)
        if named is not None:
            import fcntl

            number = int(named[1]) if named[1] else 1 if named[2] else 2
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
        if _is_ours(path):
            raise Usage(f"'{shown}' is in a folder that lspipe keeps its own files in", "name another place")
        return _open(path, wait)
    except (OSError, ValueError, OverflowError) as error:
        raise WriteFailed(f"cannot write the report '{shown}': {getattr(error, 'strerror', None) or error}") from None


def _open(path: str, wait: float | None) -> int:
    """A descriptor of what is at `path`, or of a new file; whatever changes there meanwhile is looked at anew."""
    for _ in range(_TRIES):
        try:
            kind = os.stat(path).st_mode
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                return os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            continue
        if stat.S_ISFIFO(kind):
            return _fifo(path, wait)
        # Without O_TRUNC: an argument that somebody slipped in must not cost a file. A FIFO by now is not waited for.
        access = os.O_RDWR if stat.S_ISREG(kind) else os.O_WRONLY
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(path, access | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                if stat.S_IFMT(os.fstat(fd).st_mode) == stat.S_IFMT(kind):
                    _empty(fd, readable(path))
                    os.set_blocking(fd, True)
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
    raise OSError(errno.EBUSY, "it changes each time it is looked at")


def _is_ours(path: str) -> bool:
    """Whether it would lie in the folder of the consent file, or among the runs: an empty file there does harm, too."""
    real = os.path.realpath(path)
    for home in (paths.config_home, paths.state_home):
        with contextlib.suppress(Precondition):  # There is no such folder.
            if within(real, os.path.realpath(home())):
                return True
    return False


def _empty(fd: int, shown: str) -> None:
    found = os.fstat(fd)
    if stat.S_ISBLK(found.st_mode):
        raise Usage(f"'{shown}' is a disk: it is left as it is", "name a file")
    if not stat.S_ISREG(found.st_mode):
        return
    for stream, name in ((1, "the rows"), (2, "the messages")):
        other = os.fstat(stream)
        if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino):
            raise Usage(f"'{shown}' is where {name} go", f"to have the report there, too: --report /dev/fd/{stream}")
    if found.st_size:
        if found.st_size > _LONGEST or not _REPORT.fullmatch(os.pread(fd, _LONGEST, 0)):
            raise Usage(f"'{shown}' is no earlier report: it is left as it is", "name another file, or remove it")
        os.ftruncate(fd, 0)


def _fifo(path: str, wait: float | None) -> int:
    if wait is None:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    until = time.monotonic() + wait
    while True:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() >= until:
                raise Deadline(f"nobody reads the report '{readable(path)}'") from None
            time.sleep(_LOOK)
            continue
        os.set_blocking(fd, True)
        return fd

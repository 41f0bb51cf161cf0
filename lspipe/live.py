"""Files that another program may be writing: opened safely, looked at before and after, never locked or changed.

What is opened here is opened before lock-down; afterwards only these descriptors are read.
"""

import contextlib
import errno
import os
import stat
import time
from typing import NamedTuple

from lspipe import journal
from lspipe.exits import Exit, LspipeError, strerror

#: Nothing larger is read: a sparse file of a terabyte must not fill the disk.
MOST = 16 << 30
TRIES = 3
#: Seconds between two tries, and what a commit gets to be over.
WAIT = 0.05
#: Two writes within one tick of the kernel's clock (1 to 10 ms) leave the same time behind.
_TICK = 0.02
_CHUNK = 8 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NOATIME = getattr(os, "O_NOATIME", 0)
_SIDES = ("-journal", "-wal")


class Late(Exception):
    """Time was over while a file was read. The runner says so; nothing is wrong with the file."""


def never() -> bool:
    """A `stop` that never says yes."""
    return False


class Unusable(LspipeError):
    """A file that cannot be read. `reason` is a word of the envelope: not-found, not-readable, encrypted, failed;
    `errno` is what the system said, if it did."""

    code = Exit.SKIPPED

    def __init__(self, reason: str, message: str, hint: str | None = None, errno: int | None = None) -> None:
        super().__init__(message, hint)
        self.reason = reason
        self.errno = errno


def open_at(folder: int, name: str) -> int:
    """A descriptor of the regular file `name`, ours, in the open `folder`. Raises Unusable.

    Waits for nothing (a FIFO is refused), follows no link, and leaves the access time alone where it may.
    """
    number = None
    try:
        why = _objection(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if why is None:
            fd = _open(folder, name)
            why = _objection(os.fstat(fd))  # It may be another one by now.
            if why is None:
                return fd
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        raise Unusable("not-found", f"there is no '{name}'") from None
    except OSError as error:
        why, number = strerror(error), error.errno
    raise Unusable("not-readable", f"'{name}': {why}", errno=number)


def folder_at(folder: int, *names: str) -> int | None:
    """A descriptor for listing the folder that these names lead to from the open `folder`; None where there is none.

    Every one of them is ours and no link. Raises Unusable.
    """
    fd = folder
    for name in names:
        why, below, number = None, -1, None
        try:
            below = _open(fd, name, os.O_DIRECTORY)
            if os.fstat(below).st_uid != os.geteuid():
                why = "it belongs to another user"
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            why = "not a folder, or a symbolic link"
        except OSError as error:
            number = error.errno
            why = "it is a symbolic link" if number == errno.ELOOP else strerror(error)
        finally:
            if fd != folder:
                os.close(fd)
        if why is not None:
            if below >= 0:
                os.close(below)
            raise Unusable("not-readable", f"'{name}': {why}", errno=number)
        fd = below
    return fd


def _objection(found: os.stat_result) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    return f"larger than {MOST >> 30} GiB" if found.st_size > MOST else None


def _open(folder: int, name: str, more: int = 0) -> int:
    try:
        return os.open(name, _OPEN | _NOATIME | more, dir_fd=folder)
    except PermissionError:  # O_NOATIME is for owners only; whose file it is, fstat says.
        return os.open(name, _OPEN | more, dir_fd=folder)


def _named(folder: int, name: str) -> os.stat_result | None:
    """What is there by that name now; None for nothing, and where the folder cannot be searched."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_file(fd: int, name: str, most: int) -> bytes:
    """The whole of a file that others may be writing, at most `most` bytes. Raises Unusable, which says `name`."""
    for _ in range(TRIES):
        before = settled(fd)
        if before.st_size > most:
            raise Unusable(
                "not-readable", f"'{name}' has {before.st_size >> 20} MiB; at most {most >> 20} MiB are read")
        data = bytearray(before.st_size)
        if fill(fd, data) and _signature(os.fstat(fd)) == _signature(before):
            return bytes(data)
        time.sleep(WAIT)
    raise torn(name)


def settled(fd: int) -> os.stat_result:
    """What a file looks like, after its last write is so old that one more would show."""
    found = os.fstat(fd)
    if 0 <= time.time_ns() - found.st_mtime_ns < _TICK * 1e9:
        time.sleep(_TICK)
        found = os.fstat(fd)
    return found


def torn(name: str) -> Unusable:
    """The reason to leave out a file that is being written whenever one looks."""
    return Unusable("failed", f"'{name}' changed each time it was read: its browser is writing", "run it again")


def fill(fd: int, into: bytearray) -> bool:
    """Read a file from its start into a buffer of its size; False where there was less."""
    view = memoryview(into)
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done:done + _CHUNK]], done)
        if got == 0:
            return False
        done += got
    return True


class State(NamedTuple):
    """What must not change while a database is copied."""

    main: tuple[int, ...]
    journal: tuple[object, ...]
    wal: bytes
    #: A journal or log came into being after this source was opened, or its database was replaced.
    strange: bool


class Source:
    """A database and its recovery files, held open."""

    def __init__(self, folder: int, name: str) -> None:
        """Open `name` in the open `folder`. Raises Unusable where it cannot be read."""
        self.name = name
        self.folder = os.dup(folder)
        self._sides: dict[str, int] = {}
        try:
            self.fd = open_at(folder, name)
        except Unusable:
            os.close(self.folder)
            raise
        for suffix in _SIDES:
            try:
                self._sides[suffix] = open_at(folder, name + suffix)
            except Unusable as error:
                if error.reason != "not-found":
                    self.close()
                    raise

    def close(self) -> None:
        """Let go of every descriptor; more than once is fine."""
        for fd in (self.folder, self.fd, *self._sides.values()):
            with contextlib.suppress(OSError):
                os.close(fd)
        self.folder = self.fd = -1
        self._sides = {}

    @property
    def size(self) -> int:
        """Bytes that a copy takes, recovery files included."""
        return sum(os.fstat(fd).st_size for fd in (self.fd, *self._sides.values()))

    @property
    def changed(self) -> int:
        """When it was last written to, recovery files included (ns)."""
        return max(os.fstat(fd).st_mtime_ns for fd in (self.fd, *self._sides.values()))

    def side(self, suffix: str) -> tuple[int | None, bool]:
        """(descriptor of a recovery file that is there, whether there is one that came after we looked)."""
        named = _named(self.folder, self.name + suffix)
        if named is None or named.st_size == 0:
            return None, False
        fd = self._sides.get(suffix)
        known = fd is not None and os.path.samestat(named, os.fstat(fd))
        return (fd, False) if known else (None, True)

    def state(self) -> State:
        """How things are now. A journal with a zero header may grow: it has not touched the database yet."""
        named = _named(self.folder, self.name)
        found = os.fstat(self.fd)
        strange = named is None or not os.path.samestat(named, found)
        rollback, new_rollback = self.side("-journal")
        log, new_log = self.side("-wal")
        hot: tuple[object, ...] = ()
        if rollback is not None:
            head = os.pread(rollback, 512, 0)
            if journal.is_hot(head) and len(head) == 512 and not self._settled_by_super(rollback):
                hot = (*_signature(os.fstat(rollback)), head)
        head = os.pread(log, journal.WAL_HEADER, 0) if log is not None else b""
        return State(_signature(found), hot, head, strange or new_rollback or new_log)

    def _settled_by_super(self, rollback: int) -> bool:
        """Whether the super-journal that a journal names is gone: its transaction was committed."""
        size = os.fstat(rollback).st_size
        tail = min(size, 8192)
        name = journal.super_journal(os.pread(rollback, tail, size - tail))
        return name is not None and not os.path.lexists(name)


def open_all(path: str) -> Source:
    """The database at `path` with its recovery files. Raises Unusable."""
    folder, name = os.path.split(path)
    try:
        fd = os.open(folder or ".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unusable("not-found", f"there is no '{name}'") from None
    except OSError as error:
        raise Unusable("not-readable", f"'{name}': {strerror(error)}") from None
    try:
        return Source(fd, name)
    finally:
        os.close(fd)

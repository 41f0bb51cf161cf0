"""One run directory on disk: its name, its lock, its rows, how it is born and buried.

`<pid>-<16 hex>/` holds `lock`, `owner.json`, `<n>.json` for each resource, `<n>.pid.json` for each that is a
process, and `tmp/`. It is born by renaming `.new-NAME` and dies by renaming to `.old-NAME`, so nobody meets a
half of one. The lock is the only proof of life: the kernel lets go of it when its last holder dies. Nothing
is synced: a crash of a process loses no page, and after one of the machine only directories are left.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from lspipe import identity

NEW, OLD = ".new-", ".old-"
NAME = re.compile(r"[0-9]{1,10}-[0-9a-f]{16}")
#: A directory that was never finished is nobody's after so long, where locks on directories do not work.
HALF_BORN_SECONDS = 60.0
_DIRECTORY = re.compile(rf"(?:\.new-|\.old-)?({NAME.pattern})")
_ROW = re.compile(r"(?:owner|([0-9]{1,9})(\.pid)?)\.json")
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_SHUT = os.O_CLOEXEC | os.O_NOFOLLOW
#: The largest number that the kernel takes for a process id.
_PID_MOST = (1 << 31) - 1
#: Folders in each other, of which each takes a descriptor while it is cleared; what is deeper is moved up first.
_DEEPEST = 32


def bare(name: str) -> str | None:
    """The run that a directory name stands for, in any stage of its life; None for any other name."""
    known = _DIRECTORY.fullmatch(name)
    return known[1] if known else None


def bear(root: str, owner: dict[str, Any]) -> tuple[str, int]:
    """Make the directory of this process in `root`; its name and its lock, held and close-on-exec.

    FileNotFoundError or BlockingIOError where a reaper took it for dead before it was locked: try another.
    """
    name = f"{os.getpid()}-{os.urandom(8).hex()}"
    new = os.path.join(root, NEW + name)
    with birth(root, fcntl.LOCK_SH):
        os.mkdir(new, 0o700)
        lock = -1
        try:
            lock = os.open(os.path.join(new, "lock"), os.O_RDWR | os.O_CREAT | os.O_EXCL | _SHUT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.mkdir(os.path.join(new, "tmp"), 0o700)
            write(new, "owner.json", owner)
            os.rename(new, os.path.join(root, name))
        except BaseException:
            bury(new)
            if lock >= 0:
                os.close(lock)
            raise
    return name, lock


@contextlib.contextmanager
def birth(root: str, how: int) -> Iterator[bool]:
    """Hold the lock of the run folder itself: shared while a directory is made, exclusive to learn that none
    is being made.

    Yields whether it is held. It never waits, and a birth goes on without: what is lost is only certainty.
    """
    held = False
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # busy, or a file system without locks on directories
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            held = True
        yield held
    finally:
        os.close(descriptor)


def write(folder: str, name: str, row: dict[str, Any]) -> None:
    """Write one JSON file, 0600, whole or not at all; OSError if it cannot be done."""
    hidden = os.path.join(folder, "." + name)
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SHUT, 0o600)
    try:
        try:
            left = memoryview(orjson.dumps(row) + b"\n")
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)
        os.rename(hidden, os.path.join(folder, name))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise


class Found(NamedTuple):
    """What a run directory says. `corrupt` counts rows that cannot be read: they are never guessed at."""

    owner: dict[str, Any] | None
    rows: dict[int, dict[str, Any]]
    processes: dict[int, dict[str, Any]]
    corrupt: int

    def elsewhere(self) -> bool:
        """Whether it belongs to another machine that shares this folder, whose locks prove nothing here."""
        return (self.owner is not None and self.owner["boot_id"] != identity.boot_id()
                and self.owner["host_id"] != identity.host_id())

    def before_boot(self) -> bool:
        """Whether it is from an earlier boot of this machine, so that none of its processes can be alive."""
        return self.owner is not None and self.owner["boot_id"] != identity.boot_id() and not self.elsewhere()


def read(path: str) -> Found:
    """The rows of one run directory; OSError if it is gone."""
    owner, rows, processes, corrupt = None, {}, {}, 0
    for name in os.listdir(path):
        known = _ROW.fullmatch(name)
        if known is None:
            continue
        try:
            row = _load(os.path.join(path, name))
            if known[1] is None:
                owner = _typed(row, pid=int, boot_id=(str, type(None)), host_id=str)
            elif known[2]:
                processes[int(known[1])] = _typed(row, pid=int, boot_id=(str, type(None)))
            else:
                rows[int(known[1])] = _typed(row, kind=str, owned=bool)
        except FileNotFoundError:
            continue  # released while we looked
        except (OSError, ValueError):
            corrupt += 1
    return Found(owner, rows, processes, corrupt)


def _load(path: str) -> Any:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SHUT)
    try:
        return orjson.loads(os.read(descriptor, 1 << 16))
    finally:
        os.close(descriptor)


def _typed(row: Any, **types: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or not all(isinstance(row.get(key), kind) for key, kind in types.items()):
        raise ValueError("not a row")
    if "pid" in types and (isinstance(row["pid"], bool) or not 0 < row["pid"] <= _PID_MOST):
        raise ValueError("no process id")
    return row


class Hold(NamedTuple):
    """What came of trying to take the lock of a run: free (`lock` is ours to close), held, none, gone."""

    state: str
    lock: int = -1


def take(path: str) -> Hold:
    """Take the lock of a run directory if its owner is dead. Never waits."""
    name = os.path.join(path, "lock")
    try:
        lock = os.open(name, os.O_RDWR | os.O_NONBLOCK | _SHUT)
    except FileNotFoundError:
        return Hold("none" if os.path.lexists(path) else "gone")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another reaper may have removed, and even its owner replaced, what we opened before we locked it.
        if os.path.samestat(os.fstat(lock), os.lstat(name)):
            return Hold("free", lock)
    except BlockingIOError:
        os.close(lock)
        return Hold("held")
    except OSError:
        pass
    os.close(lock)
    return Hold("gone")


def abandoned(path: str) -> bool:
    """Whether a `.new-` directory that nobody holds stays unfinished: none is being made, or it is old."""
    root = os.path.dirname(path)
    with birth(root, fcntl.LOCK_EX) as sure:
        return sure or time.time() - os.lstat(path).st_mtime > HALF_BORN_SECONDS


def bury(path: str, until: float | None = None) -> bool:
    """Rename a run directory to `.old-` and remove it; False if something is left. Stops at `until`.

    The lock goes last: whoever comes across the rest can still tell that nobody lives there.
    """
    root, name = os.path.split(path)
    run = bare(name)
    if run is None:
        return False
    old = os.path.join(root, OLD + run)
    try:
        if path != old:
            os.rename(path, old)
        descriptor = os.open(old, os.O_RDONLY | os.O_DIRECTORY | _SHUT)
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno in _NO_DESCRIPTOR and _clear_blindly(old)
    try:
        if not _clear(descriptor, ("owner.json", "lock"), until):
            return False
        for last in ("owner.json", "lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(last, dir_fd=descriptor)
        os.rmdir(old)
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno in _NO_DESCRIPTOR and _clear_blindly(old)
    finally:
        os.close(descriptor)
    return True


def _clear_blindly(old: str) -> bool:
    """Remove a directory in which nothing is left but what every run has, by names alone; False if there is more.

    For a process that has no descriptor left to look with.
    """
    rows = (os.path.join(old, f"{number}{kind}.json") for number in range(1, 100) for kind in ("", ".pid"))
    if any(map(os.path.lexists, rows)):
        return False
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(old, "tmp"))
        for last in ("owner.json", "lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(old, last))
        os.rmdir(old)
        return True
    return False


def _clear(folder: int, spare: Sequence[str], until: float | None) -> bool:
    """Remove all that is in an open folder but `spare`, following no link; False when time is over."""
    while not _clear_once(folder, spare, until, folder, _DEEPEST):
        if until is not None and time.monotonic() >= until:
            return False
    return True


def _clear_once(folder: int, spare: Sequence[str], until: float | None, top: int, levels: int) -> bool:
    """The same, but what lies more than `levels` deep goes to `top`; False where something is left to do."""
    # Who a process is goes after the row that names it: cut short in between, there must not be a row whose
    # process nobody can prove gone any more.
    whole = True
    for name in sorted(os.listdir(folder), key=lambda name: name.endswith(".pid.json")):
        if name in spare:
            continue
        if until is not None and time.monotonic() >= until:
            return False
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(seen.st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            if seen.st_mode & 0o700 != 0o700:  # a program may have made folders that it could not write itself
                os.chmod(name, 0o700, dir_fd=folder)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _SHUT, dir_fd=folder)
            try:
                if levels == 0:
                    whole = False
                    for inner in os.listdir(below):
                        os.rename(inner, f"moved-{os.urandom(8).hex()}", src_dir_fd=below, dst_dir_fd=top)
                elif not _clear_once(below, (), until, top, levels - 1):
                    return False
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:
            continue  # another one is removing it too
    return whole

"""The ledger that every executable registers with: what it runs and holds, written down before it exists.

Each executable has a directory of its own (`rundir`) for as long as it lives. Whoever is killed leaves it
behind; `sweep`, at the start of every executable, or `ls-clean` removes it and what it names.
"""

import contextlib
import functools
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lspipe import identity, paths, rundir
from lspipe.exits import Bug, LspipeError, Precondition

#: The variable by which a program that lspipe started, and all that comes of it, is known as ours.
TOKEN = "LSPIPE_RUN"
#: Kinds of resources that are processes.
PROCESSES = frozenset({"child", "stage", "server", "browser"})
#: Births that reapers may spoil one after the other.
_TRIES = 30
_ELSEWHERE = "make it writable, make room, or set LSPIPE_STATE_HOME to another folder"
_OPTION = re.compile(r"--[a-z][a-z0-9-]*|-[A-Za-z0-9]")


class Run:
    """The registration of this process. `path` is its directory, `tmp` the only place for temporary files."""

    def __init__(self, root: str, name: str, lock: int) -> None:
        self.name = name
        self.path = os.path.join(root, name)
        self.tmp = os.path.join(self.path, "tmp")
        #: The value of LSPIPE_RUN for whatever is started on behalf of this run.
        self.token = f"{state_hash()}:{name}"
        #: The only process that this object is good for: a forked child is somebody else.
        self.pid = os.getpid()
        #: What `close` calls first, last in first out; whoever starts a process puts its end here.
        self.closing: list[Callable[[], object]] = []
        self._lock = lock
        self._count = 0

    def add(self, kind: str, purpose: str, command: str | None = None, paths: Sequence[str] = (),
            port: int | None = None, owned: bool = True, stop: dict[str, Any] | None = None,
            max_age: float | None = None, exe: str | None = None) -> "Resource":
        """Write the row of a resource that does not exist yet. Precondition if it cannot be written: then the
        resource must not be made.

        `command` is a program and option names only (`command_line`). `owned=False` marks what is attached to
        and never signalled. `stop` is `{"signal": "TERM", "grace_ms": 2000}`.
        """
        if os.getpid() != self.pid:
            raise Bug("a forked child used the ledger of its parent")
        if kind in PROCESSES:
            _death_signal()  # loaded now: between fork and exec it is too late, and under a sandbox as well
        self._count += 1
        row = {"kind": kind, "purpose": purpose, "command": command, "paths": [text(path) for path in paths],
               "port": port, "owned": owned, "stop": stop, "max_age": max_age,
               "exe": _program(exe) if exe else None, "state": "intent", "created": time.time_ns() // 1000}
        resource = Resource(self, self._count, row)
        resource.write(f"{self._count}.json", row)
        return resource

    def close(self) -> None:
        """End every process that was started, remove the directory, let go of the lock. Never raises, may be
        called again, does nothing in a forked child. Needs no room on the disk and no right but to remove.
        """
        if self._lock < 0 or os.getpid() != self.pid:
            return
        for end in reversed(self.closing):
            with contextlib.suppress(Exception):
                end()
        rundir.bury(self.path)
        lock, self._lock = self._lock, -1
        os.close(lock)


class Resource:
    """One row of a run."""

    def __init__(self, run: Run, number: int, row: dict[str, Any]) -> None:
        self.run = run
        self.number = number
        self._row = row

    def live(self, pid: int | None = None, pgid: int | None = None) -> None:
        """Say that it exists now; for a process that cannot speak for itself, which one it is."""
        self._row["state"] = "live"
        if pid is None:
            self.write(f"{self.number}.json", self._row)
            return
        found = identity.recorded(pid)
        self.write(f"{self.number}.pid.json", found if pgid is None else {**found, "pgid": pgid})

    def enter(self, *, group: bool, death: int = signal.SIGKILL) -> None:
        """In the forked child, before anything else is done: an own process group, a signal when the parent
        dies, a look whether it has died already (then this process ends here), and its own row.

        The parent must have forked from its main thread: the signal follows the thread. Precondition where
        the row cannot be written; the child must end then.
        """
        if group:
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
        prctl = _death_signal()
        if prctl is not None:
            prctl(death)
        if os.getppid() != self.run.pid:
            os._exit(0)
        self.write(f"{self.number}.pid.json", identity.recorded(os.getpid()))

    def release(self) -> None:
        """Forget it: it does not exist any more. Needs no room on the disk."""
        for name in (f"{self.number}.json", f"{self.number}.pid.json"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.run.path, name))

    def write(self, name: str, row: dict[str, Any]) -> None:
        """Write one file of the run whole or not at all. Precondition if it cannot be done."""
        try:
            rundir.write(self.run.path, name, row)
        except OSError as error:
            raise Precondition(f"cannot write the ledger in '{self.run.path}': {error.strerror}",
                               _ELSEWHERE) from None


def register(argv0: str, option_names: Iterable[str], purpose: str, *, repo_root: str | None = None) -> Run:
    """Register this process. Precondition where the state folder cannot be used (read-only, full, not ours).

    `option_names` are names without values; whatever does not look like one is left out.
    """
    root = paths.run_root()
    paths.ensure_dir(os.path.dirname(root))
    paths.ensure_dir(root)
    owner = _owner(argv0, option_names, purpose, repo_root)
    try:
        for _ in range(_TRIES):
            # A reaper may take a directory that is a breath old for a dead one: then there is another.
            with contextlib.suppress(FileNotFoundError, BlockingIOError):
                return Run(root, *rundir.bear(root, owner))
    except OSError as error:
        raise Precondition(f"cannot register in '{root}': {error.strerror}", _ELSEWHERE) from None
    raise Precondition(f"cannot register in '{root}': it is removed while it is made", "try again")


def _owner(argv0: str, option_names: Iterable[str], purpose: str, repo_root: str | None) -> dict[str, Any]:
    cwd = None
    with contextlib.suppress(OSError):  # deleted
        cwd = os.getcwd()
    repo = repo_root or _repository(cwd)
    names = [name for name in option_names if _OPTION.fullmatch(name)]
    return {
        "kind": "owner", "purpose": purpose, "state": "live", "owned": True,
        "command": " ".join([text(os.path.basename(argv0)), *names]),
        "repo_root": repo and text(repo), "cwd": cwd and text(cwd), "parent_run": parent_run(),
        "exe": _program(sys.executable), "uid": os.geteuid(), "host_id": identity.host_id(),
        "created": time.time_ns() // 1000, **identity.recorded(os.getpid()),
    }


def sweep(budget: float = 0.005) -> int:
    """Remove dead run directories for at most `budget` seconds; how many. Never signals, waits or raises.

    What may have left a process behind is not touched: that is `ls-clean`'s.
    """
    until = time.monotonic() + budget
    removed = 0
    try:
        root = paths.run_root()
        paths.check_private(root)
        names = os.listdir(root)
    except (LspipeError, OSError):
        return 0
    first = os.getpid() % len(names) if names else 0  # else what cannot be removed uses up the time for ever
    for name in names[first:] + names[:first]:
        if time.monotonic() >= until:
            break
        with contextlib.suppress(OSError):
            removed += _sweep_one(os.path.join(root, name), name, until)
    return removed


def _sweep_one(path: str, name: str, until: float) -> bool:
    hold = rundir.take(path)
    try:
        if hold.state == "free":
            dead = _spent(path, name)
        else:  # without a lock: its owner, or who removed it, was killed at the first or the last step
            dead = hold.state == "none" and (
                name.startswith(rundir.OLD) or (name.startswith(rundir.NEW) and rundir.abandoned(path)))
        return dead and rundir.bury(path, until)
    finally:
        if hold.lock >= 0:
            os.close(hold.lock)


def _spent(path: str, name: str) -> bool:
    """Whether a dead run is nothing but a directory."""
    if name.startswith(rundir.NEW):
        return rundir.abandoned(path)
    found = rundir.read(path)
    if found.owner is None:
        return name.startswith(rundir.OLD) and not found.corrupt  # its removal had begun
    if found.elsewhere():
        return False
    if found.before_boot():
        return True
    return not found.corrupt and all(
        number in found.processes and identity.provably_gone(found.processes[number])
        for number, row in found.rows.items() if row["owned"] and row["kind"] in PROCESSES
    )


def command_line(argv: Sequence[str]) -> str:
    """Program and option names of a command line, for `Run.add`: no value, no operand, nothing behind `--`.

    A value that begins with a dash looks like a name, so give such values as `--option=value`.
    """
    names = []
    for word in argv[1:]:
        if word == "--":
            break
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if _OPTION.fullmatch(name):
            names.append(name)
    return " ".join([text(os.path.basename(argv[0])), *names])


def state_hash() -> str:
    """16 hex digits that tell two state folders apart, so that two installations never reap each other."""
    import hashlib

    return hashlib.sha256(os.fsencode(os.path.realpath(paths.run_root()))).hexdigest()[:16]


def parent_run() -> str | None:
    """The run that started this process, from the environment; None if it is not one of this state folder."""
    known, _, name = os.environ.get(TOKEN, "").partition(":")
    return name if rundir.NAME.fullmatch(name) and known == state_hash() else None


def text(path: str) -> str:
    """A path as text that JSON can hold; bytes that are not UTF-8 become `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _program(path: str) -> dict[str, Any] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return {"path": text(path), "dev": found.st_dev, "ino": found.st_ino}


def _repository(folder: str | None) -> str | None:
    while folder:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        folder = above if above != folder else None
    return None


@functools.cache
def _death_signal() -> Callable[[int], object] | None:
    """prctl(PR_SET_PDEATHSIG, number); None where the system has none."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    unused = ctypes.c_ulong(0)
    return lambda number: prctl(1, ctypes.c_ulong(number), unused, unused, unused)

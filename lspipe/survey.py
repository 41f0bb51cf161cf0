"""Which processes there are, whose children they are, and which run's token or lock they carry.

A third of what a killed owner leaves behind never reached a row: grandchildren, and children whose owner died
between the fork and the row. They are known by the variable LSPIPE_RUN in their environment; a child that was
forked and became no other program by the lock of its owner, which it still holds.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from lspipe import identity, ledger, rundir

_MARK = ledger.TOKEN.encode() + b"="


class Survey(NamedTuple):
    """Our own user's processes at one moment. A pid here is only a hint: hold it, then look again."""

    parents: dict[int, int]
    #: Run name to the pids that carry its token, for the runs of one state folder.
    tokens: dict[str, list[int]]


def ancestors() -> set[int]:
    """This process and all above it, so that nobody ever ends himself."""
    line: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in line:
        line.add(pid)
        try:
            pid = identity.facts(pid).ppid
        except OSError:
            break
    return line


def take(state: str) -> Survey:
    """Look at every process of this user once; `state` is the hash of the state folder."""
    parents: dict[int, int] = {}
    tokens: dict[str, list[int]] = {}
    for pid in _pids():
        try:
            parents[pid] = identity.facts(pid).ppid
        except OSError:
            continue
        run = token(pid, state)
        if run is not None:
            tokens.setdefault(run, []).append(pid)
    return Survey(parents, tokens)


def token(pid: int, state: str) -> str | None:
    """The run whose token process `pid` was started with, if it is one of this state folder."""
    for entry in _environment(pid):
        if entry.startswith(_MARK):
            known, _, name = entry[len(_MARK) :].decode("ascii", "replace").partition(":")
            return name if known == state and rundir.NAME.fullmatch(name) else None
    return None


def holders(lock: str, owner: int) -> tuple[int, ...]:
    """The processes that `holds` is true of."""
    return tuple(pid for pid in _pids() if pid != owner and holds(pid, lock, owner))


def holds(pid: int, lock: str, owner: int) -> bool:
    """Whether process `pid` holds the lock file `lock` by a descriptor that it inherited from `owner`.

    Whoever only tries the lock has a descriptor of his own, without a lock: proc_pid_fdinfo(5).
    """
    try:
        wanted = os.stat(lock)
        return any(os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), wanted) and _locks(pid, number, owner)
                   for number in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _locks(pid: int, descriptor: str, owner: int) -> bool:
    with open(f"/proc/{pid}/fdinfo/{descriptor}", "rb") as file:
        return any(line.startswith(b"lock:") and line.split()[5:6] == [b"%d" % owner] for line in file)


def name_of(pid: int) -> str | None:
    """The program name that the kernel knows of `pid`: at most 15 bytes, and no argument."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().rstrip(b"\n").decode("utf-8", "backslashreplace")
    except OSError:
        return None


def _pids() -> Iterator[int]:
    """Every process of the effective user."""
    if sys.platform == "darwin":
        yield from _mac_pids()
        return
    user = os.geteuid()
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat().st_uid == user:
                        yield int(entry.name)


def _environment(pid: int) -> list[bytes]:
    if sys.platform == "darwin":
        return _mac_environment(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _mac_pids() -> Iterator[int]:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    for process in psutil.process_iter(["uids"]):
        if process.info["uids"] and process.info["uids"].effective == os.geteuid():
            yield process.pid


def _mac_environment(pid: int) -> list[bytes]:
    import psutil

    try:
        return [f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()]
    except (psutil.Error, OSError):
        return []

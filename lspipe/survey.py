"""Which processes there are, whose children they are, and which run's token or lock they carry.

A third of what a killed owner leaves behind never reached a row: grandchildren, and children whose owner died
between the fork and the row. They are known by the variable LSPIPE_RUN in their environment; a child that was
forked and became no other program by the lock of its owner, which it still holds.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from lspipe import identity, ledger, rundir

#: How often to look, a millisecond apart, for the environment of a process in the middle of execve.
_EXEC_LOOKS = 100
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
    for entry in _environment(pid).split(b"\0"):
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


def _environment(pid: int) -> bytes:
    """What process `pid` was started with, NUL between the variables; empty where it may not be read."""
    if sys.platform == "darwin":
        return _mac_environment(pid)
    try:
        settled = False
        for _ in range(_EXEC_LOOKS):
            with open(f"/proc/{pid}/environ", "rb") as file:
                found = file.read()
            # Empty may mean: it has none, it is being replaced, or it was between the open and the read.
            if found or settled:
                return found
            settled = not _becoming(pid)
            if not settled:
                time.sleep(0.001)
    except OSError:
        pass
    return b""


def _becoming(pid: int) -> bool:
    """Whether `pid` is in the middle of execve: it has memory, but its new environment is not in place yet.

    Fields 23 (vsize) and 51 (env_end) of proc_pid_stat(5).
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[20] != b"0" and fields[48] == b"0"


def _mac_pids() -> Iterator[int]:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    for process in psutil.process_iter(["uids"]):
        if process.info["uids"] and process.info["uids"].effective == os.geteuid():
            yield process.pid


def _mac_environment(pid: int) -> bytes:
    import psutil

    try:
        variables = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return b""
    return b"\0".join(f"{name}={value}".encode() for name, value in variables.items())

"""strace as an enemy: which system calls of a run matter to what it leaves behind, and one of them made fatal."""

import contextlib
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import support
from support import Home

#: What makes, marks, moves, ends or removes something that outlives a process; `?`: not on every machine.
CREATE = ("open", "openat", "creat")
WRITE = ("write", "pwrite64", "ftruncate", "copy_file_range", "fsync")
MAKE = ("mkdir", "mkdirat", "rename", "renameat", "renameat2")
OTHER = ("unlink", "unlinkat", "rmdir", "flock", "clone", "clone3", "fork", "vfork", "execve", "setpgid", "prctl",
         "kill", "tgkill", "pidfd_open", "pidfd_send_signal", "wait4", "waitid", "landlock_restrict_self", "seccomp")
LIFECYCLE = CREATE + WRITE + MAKE + OTHER
#: What a full disk refuses.
ROOM = CREATE + WRITE + MAKE
_LINE = re.compile(r"(?:(\d+) +)?(\w+)\((.*)")


class Point(NamedTuple):
    """The `number`th call of this name that the owner makes, or that any process makes that has come of him."""

    call: str
    number: int
    everybody: bool = False

    def __str__(self) -> str:
        return f"{self.call}:{self.number}{'*' if self.everybody else ''}"


def strace() -> str:
    """The program; the test is skipped where it is missing or may not trace."""
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("strace is missing, or may not trace here")
    return found


def wrapped(log: Path, *options: str, everybody: bool = False, calls: Sequence[str] = LIFECYCLE) -> list[str]:
    """strace before a command line, as a grandchild: the command is the caller's own child and ends as it would."""
    return [strace(), "-D", "-qq", *(["-f"] if everybody else []), "-y", "-s", "200", "-e", "signal=none",
            "-e", "trace=" + ",".join("?" + name for name in calls), *options, "-o", str(log)]


def written(log: Path) -> None:
    """Wait until a strace of `wrapped`, which nobody is the parent of, has written all."""
    mark = os.fsencode(log)

    def over() -> bool:
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in Path(entry.path, "cmdline").read_bytes():
                    return False
        return True

    support.until(over, f"strace is over: {log}")


def points(log: Path, root: Path) -> list[Point]:
    """Every call in a log of `wrapped` that matters: of the owner, then of those that he forked.

    Files count only where they are below `root` and are made or written; nothing from before the run folder was
    looked at is counted.
    """
    counts: dict[str, Counter[str]] = {}
    found: dict[Point, None] = {}
    begun = False
    for line in log.read_text(errors="replace").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        pid, call, rest = match.groups()
        own = counts.setdefault(pid or "", Counter())
        own[call] += 1
        inside = str(root) in rest
        begun = begun or (inside and call in (*MAKE, "flock"))
        if begun and (inside and "O_CREAT" in rest if call in CREATE else inside if call in WRITE else True):
            found[Point(call, own[call], len(counts) > 1 and pid != next(iter(counts)))] = None
    return list(found)


def refused(log: Path, root: Path) -> bool | None:
    """Whether all that strace refused was made or written below `root`, as a full disk would; None: nothing was.

    Who was not the first to come to his `number`th call may have been about to read something.
    """
    lines = [line for line in log.read_text(errors="replace").splitlines() if "(INJECTED)" in line]
    found = [match and str(root) in line and (match[2] not in CREATE or "O_CREAT" in line)
             for line in lines for match in [_LINE.match(line)]]
    return all(found) if found else None


def sample(every: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of each call, evenly, the first and the last among them; all with LSPIPE_MATRIX=all."""
    if os.environ.get("LSPIPE_MATRIX") == "all":
        return list(every)
    kept = []
    for call in dict.fromkeys(point.call for point in every):
        same = [point for point in every if point.call == call]
        count = min(most, len(same))
        step = (len(same) - 1) / max(1, count - 1)
        kept += [same[round(number * step)] for number in range(count)]
    return kept


def carriers(home: Home, spared: Sequence[int] = ()) -> list[tuple[int, str]]:
    """Processes that have anything to do with `home` by what they were started with, and what they are."""
    mark = os.fsencode(home.root) + b"/"
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) in spared:
            continue
        try:
            known = (Path(entry.path, "environ").read_bytes(), Path(entry.path, "cmdline").read_bytes())
        except OSError:
            continue
        if any(mark in text for text in known) and int(entry.name) != os.getpid():
            found.append((int(entry.name), known[1].replace(b"\0", b" ").decode(errors="replace")[:200]))
    return found

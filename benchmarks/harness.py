"""Times whole processes in turn, A B A B ..., and prints their ratio: absolute times drift, ratios hold.

Each benchmark is one `Case`: a command, the floor that it is measured against in the same run, and the goal.
"""

import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.dirname(sys.executable)


@dataclass
class Took:
    """One run: wall and processor seconds, and the peak memory of its largest process in bytes."""

    wall: float
    cpu: float
    peak: int


@dataclass
class Case:
    """A command against its floor. `less` is a third command whose time is taken off the first."""

    name: str
    command: Sequence[str]
    floor: Sequence[str]
    goal: float
    less: Sequence[str] | None = None
    stdin: str = os.devnull
    floor_stdin: str = os.devnull
    runs: int = 7
    input_bytes: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[int, ...] = (0,)


def environment(home: str) -> dict[str, str]:
    """What the measured commands run in: folders of their own, nothing of the caller's."""
    return {
        "PATH": BIN + os.pathsep + os.environ.get("PATH", ""), "HOME": home, "LC_ALL": "C.UTF-8", "TZ": "UTC",
        **{f"LSPIPE_{name}_HOME": os.path.join(home, name.lower()) for name in ("CONFIG", "STATE", "CACHE")},
    }


def took(command: Sequence[str], env: Mapping[str, str], stdin: str, allowed: tuple[int, ...] = (0,)) -> Took:
    """Run `command` once, its output thrown away through a pipe that is read."""
    read, write = os.pipe()
    source = os.open(stdin, os.O_RDONLY)
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], list(command), dict(env), file_actions=[
        (os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)])
    os.close(write)
    os.close(source)
    while os.read(read, 1 << 20):
        pass
    os.close(read)
    _pid, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    if code not in allowed:
        raise SystemExit(f"{shlex.join(command)}: exit {code}")
    return Took(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def measure(case: Case, env: Mapping[str, str]) -> bool:
    """Run the case and print its line; whether the goal was met."""
    env = {**env, **case.env}
    ratios, own, floors, peaks = [], [], [], []
    for number in range(case.runs + 1):
        mine = took(case.command, env, case.stdin, case.allowed)
        floor = took(case.floor, env, case.floor_stdin)
        wall = mine.wall
        if case.less is not None:
            wall -= took(case.less, env, os.devnull).wall
        if number:  # The first is the warm-up.
            ratios.append(wall / floor.wall)
            own.append(wall)
            floors.append(floor.wall)
            peaks.append(mine.peak)
    ratio = statistics.median(ratios)
    met = ratio <= case.goal
    print(f"{case.name}\n  ratio {ratio:.2f} (goal {case.goal:g}; {min(ratios):.2f} to {max(ratios):.2f} in "
          f"{case.runs} runs){'' if met else '  MISSED'}")
    print(f"  {statistics.median(own) * 1000:.1f} ms against {statistics.median(floors) * 1000:.1f} ms; "
          f"peak {max(peaks) / 1e6:.0f} MB"
          + (f" = {max(peaks) / case.input_bytes:.2f} x the input" if case.input_bytes else ""))
    print(f"  {shlex.join(case.command)[:150]}\n  floor: {shlex.join(case.floor)[:150]}", flush=True)
    return met


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one benchmark, gone afterwards."""
    return tempfile.TemporaryDirectory(prefix="lspipe-bench-")

"""Running an executable with a limit of time and of memory, and how much of both it took."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
import support

#: Seconds of processor time and MiB of memory that nothing here may need. An interpreter with all packages takes 50.
SECONDS, MIB = 30, 400

#: From an interpreter of its own: a fork of a large one counts as large. Whoever takes too much time is killed.
_MEASURE = """
import json, resource, subprocess, sys
limit = int(sys.argv[2])
try:
    code = subprocess.call(sys.argv[3:], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
                           timeout=3 * limit)
except subprocess.TimeoutExpired:  # It waits for something.
    code = 124
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump({"mib": used.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1024),
               "seconds": used.ru_utime + used.ru_stime}, file)
sys.exit(code if code >= 0 else 128 - code)
"""


@dataclass(frozen=True)
class Limited(support.Done):
    """How it ended, with MiB at its peak and seconds of processor time."""

    mib: int
    seconds: float


def run(home: support.Home, name: str, *args: str | bytes, stdin: Iterable[bytes] = (), seconds: int = SECONDS,
        env: dict[str, str] | None = None) -> Limited:
    """Run an executable to its end with these pieces on its stdin. Fails where it breaks a limit or leaves anything."""
    done = measured(support.command(name, *args), home, stdin, seconds, env)
    assert done.code != 124 and done.seconds < seconds, f"{name}: {done.seconds} seconds, and it was not over"
    assert done.mib < MIB, f"{name}: {done.mib} MiB"
    assert home.runs == [], home.runs
    return done


def measured(argv: list[str | bytes], home: support.Home, stdin: Iterable[bytes] = (), seconds: int = SECONDS,
             env: dict[str, str] | None = None) -> Limited:
    """The same for any program, and without judging it."""
    file = home.root / "used.json"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _MEASURE, str(file), str(seconds), *argv],
        env=home.env() if env is None else env, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=home.home, start_new_session=True)
    assert process.stdin and process.stdout and process.stderr
    errors: list[bytes] = []
    feeder = threading.Thread(target=_pour, args=(process.stdin.fileno(), stdin))
    listener = threading.Thread(target=lambda: errors.append(support.drain(process.stderr.fileno())))
    feeder.start()
    listener.start()
    out = support.drain(process.stdout.fileno())
    listener.join()
    code = process.wait(support.PATIENCE)
    feeder.join()
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
    used = orjson.loads(file.read_bytes())
    file.unlink()
    return Limited(code, out, errors[0], int(used["mib"]), float(used["seconds"]))


def _pour(fd: int, parts: Iterable[bytes]) -> None:
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(fd, view):]
    except BrokenPipeError:
        pass
    finally:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, fd)
        os.close(null)

"""What strace sees of sockets, held against the list of what is allowed (allowed-sockets.txt)."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import injection
import support
from support import Done, Home

LIST = support.ROOT / "tests" / "allowed-sockets.txt"
CALLS = ("socket", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg", "io_uring_setup")
_LINE = re.compile(rf"(?:\d+ +)?((?:{'|'.join(CALLS)})\(.*)")


def wrapped(log: Path) -> list[str]:
    """strace before a command line: the sockets of it and of all that it starts go to `log`."""
    return [injection.strace(), "-f", "-qq", "-s", "200", "-e", "signal=none", "-o", str(log),
            "-e", "trace=" + ",".join("?" + call for call in CALLS)]


def watched(home: Home, log: Path, name: str, *args: str, stdin: bytes | None = None) -> Done:
    """Run an executable to its end under `wrapped`."""
    done = subprocess.run([*wrapped(log), *support.command(name, *args, python=["-B"])], env=home.env(), cwd=home.home,
                          capture_output=True, timeout=support.PATIENCE,
                          **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}))
    return Done(done.returncode, done.stdout, done.stderr)


def attempts(log: Path) -> list[str]:
    """Every attempt in a log, without the process that made it; of an interrupted line its beginning."""
    return [match[1] for line in log.read_text(errors="replace").splitlines() if (match := _LINE.match(line))]


def allowed(name: str, text: str | None = None) -> list[tuple[int, "re.Pattern[str]"]]:
    """(how often, what) of each line of the list about `name`."""
    found = []
    for line in (LIST.read_text() if text is None else text).splitlines():
        if line.strip() and not line.startswith("#"):
            about, most, call = line.split(None, 2)
            if about == name:
                found.append((int(most), re.compile(call)))
    return found


def strangers(name: str, seen: Sequence[str], text: str | None = None) -> list[str]:
    """The attempts that no line allows, or not so often."""
    left = [[most, call] for most, call in allowed(name, text)]
    found = []
    for attempt in seen:
        for entry in left:
            if entry[0] > 0 and entry[1].fullmatch(attempt):
                entry[0] -= 1
                break
        else:
            found.append(attempt)
    return found

"""What strace sees of every executable: no socket, no file changed, no other program, nothing read beside the grants.

The contract suite asks each executable's `--sandbox-report`; this looks from outside, before lock-down as well.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import support

from lspipe import landlock, sandbox, seccomp

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or seccomp.architecture() is None, reason="strace is of Linux")
each = pytest.mark.parametrize("one", support.executables(), ids=str)

#: Every call that opens, makes, changes or runs something, or reaches beyond the process.
TRACED = "trace=%network,%file,%desc,kill,tkill,tgkill,pidfd_send_signal,seccomp,clone,?fork,?vfork"
LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*)>)?(?: (E[A-Z]+) .*| \(.*\))?$")
CHANGES = {
    "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat",
    "symlink", "symlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown",
    "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat", "truncate", "ftruncate", "fallocate",
    "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "creat",
}
OPENS = {"open", "openat", "openat2", "creat"}
NETWORK = {"socket", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg"}


class Call(NamedTuple):
    """One system call that worked. `locked`: the process had locked itself down before."""

    pid: str
    name: str
    arguments: str
    target: str
    locked: bool

    @property
    def paths(self) -> list[str]:
        """The paths that it names: descriptors, strings, and what it opened. A relative one belongs nowhere."""
        folder = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", self.arguments)
        strings = re.findall(r'"((?:[^"\\]|\\.)*)"', self.arguments)
        named = [os.path.join(folder[1] if folder else "", text) for text in strings]
        if folder and not strings:
            named = [folder[1]]
        return [*named, *([self.target] if self.target.startswith("/") else [])]


def calls(log: Path) -> list[Call]:
    """What worked, in order; interrupted lines are put together."""
    begun: dict[str, str] = {}
    locked: set[str] = set()
    found = []
    for line in log.read_text(errors="surrogateescape").splitlines():
        pid = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line)
        if resumed:
            line = begun.pop(pid, "") + resumed[1]
        match = LINE.match(line)
        if not match or match[4] in ("-1", "?"):
            continue
        if match[2] == "seccomp" and "SECCOMP_SET_MODE_FILTER" in match[3]:
            locked.add(pid)
        if match[2] in ("clone", "fork", "vfork") and pid in locked:
            locked.add(match[4])
        found.append(Call(pid, match[2], match[3], match[5] or "", pid in locked))
    return found


def watched(one: support.Executable, home: support.Home) -> tuple[support.Done, list[Call]]:
    """One ordinary use of an executable under strace."""
    strace = shutil.which("strace")
    if not strace or subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("strace is missing, or may not trace here")
    pair = support.typical(one.name)
    log = home.root / "strace"
    done = subprocess.run(
        [strace, "-f", "-y", "-s", "4096", "-e", "signal=none", "-e", TRACED, "-o", str(log),
         *support.command(one.name, *pair.args(home), python=["-B"])],
        env=home.env(), cwd=home.home, capture_output=True, timeout=support.PATIENCE,
        **({"stdin": subprocess.DEVNULL} if pair.stdin is None else {"input": pair.stdin}))
    return support.Done(done.returncode, done.stdout, done.stderr), calls(log)


def under(path: str, *roots: object) -> bool:
    return any(path == str(root) or path.startswith(f"{root}/") for root in roots)


@each
def test_no_socket_no_change_no_other_program(one: support.Executable, home: support.Home) -> None:
    done, seen = watched(one, home)
    assert done.code == 0 and seen, done.err
    assert [call for call in seen if call.name in NETWORK] == []
    for call in seen:
        writes = call.name in OPENS and re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", call.arguments)
        if call.target.startswith("pipe:"):
            continue  # Its own pipe by another name: a stage's report.
        if writes or call.name in CHANGES:
            assert all(under(path, home.state, "/dev/null", "/dev/tty") for path in call.paths), call
    programs = {os.path.basename(call.paths[0]) for call in seen if call.name in ("execve", "execveat")}
    assert programs - {os.path.basename(os.path.realpath(sys.executable))} <= {
        os.path.basename(sys.executable),
        *([{"ls-qmd": "node"}.get(one.name, "rg")] if one.kind in ("source", "porcelain") else [])}


@each
def test_after_lock_down_only_what_is_granted_is_opened(one: support.Executable, home: support.Home) -> None:
    if landlock.version(sandbox.library()[0]) == 0:
        pytest.skip("this kernel has no Landlock")
    profile = home.home / ".config/chromium/Default"
    secrets = {str(profile / name) for name in ("Cookies", "Login Data", "Web Data")}
    for path in secrets:
        Path(path).write_text("secret")
    (home.home / "not-granted").mkdir()
    (home.home / "not-granted/note").write_text("async cancellation")
    done, seen = watched(one, home)
    assert done.code == 0 and any(call.locked for call in seen), done.err
    granted = [home.home / "notes", home.state, "/dev/null", "/dev/urandom",
               *map(os.path.realpath, sandbox.program_paths())]
    if one.name == "ls-consent":
        granted.append(home.config)  # Its own file.
    if one.name == "ls-qmd":
        program = shutil.which("qmd", path=os.pathsep.join(support.qmd_folders())) or ""
        granted.append(os.path.realpath(program).partition("/@tobilu/")[0])
    for call in seen:
        if call.name not in OPENS:
            continue
        assert call.target not in secrets and not under(call.target, home.home / "not-granted"), call
        if call.locked and call.target.startswith("/") and one.name not in ("ls-ps", "ls-clean"):
            assert under(call.target, *granted) or "O_PATH" in call.arguments, call

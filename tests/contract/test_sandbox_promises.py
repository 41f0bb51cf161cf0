"""`tests/sandbox-promises.toml`: each executable's sandbox report says that and no more, and strace sees the same."""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import support

from lspipe import landlock, probe, sandbox, seccomp

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or seccomp.architecture() is None, reason="Landlock and seccomp are of Linux")
ABI = landlock.version(sandbox.library()[0]) if sys.platform.startswith("linux") else 0
whole = pytest.mark.skipif(ABI < 6, reason=f"this kernel's Landlock is ABI {ABI}: less than the whole sandbox")
each = pytest.mark.parametrize("one", support.executables(), ids=str)

PROMISES = support.ROOT / "tests" / "sandbox-promises.toml"
CHROMIUM, FIREFOX = ".config/chromium/Default", ".mozilla/firefox/k3x9f2ab.default-release"
#: What a profile holds that nobody can grant.
SECRETS = {
    CHROMIUM: ("Cookies", "Network/Cookies", "Login Data", "Web Data"),
    FIREFOX: ("cookies.sqlite", "logins.json", "key4.db", "formhistory.sqlite", "prefs.js"),
}
#: What the issue of promise B names; none of it may ever vanish from the file.
NEVER_ALLOWED = (
    "read /etc/passwd", "socket: TCP", "socket: UDP", "socket: MPTCP", "socket: raw IP",
    "socket: Unix (path or abstract), stream", "sendto with TCP Fast Open", "system call io_uring_setup",
    "make a file in {home}", "write to {package}/__init__.py",
)


@functools.cache
def promises() -> list[dict[str, Any]]:
    with open(PROMISES, "rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["promise"]
    return found


def promised(name: str) -> dict[str, str]:
    """Attempt and answer for one executable on this machine."""
    mine = {name, "*", "*" + os.uname().machine}
    found: dict[str, str] = {}
    for promise in promises():
        if mine & set(promise["of"]):
            for kind in promise["answers"].values():
                found.update(kind)
    return {attempt: answer for attempt, answer in found.items() if answer != "-"}


def with_secrets(home: support.Home) -> support.Home:
    for folder, names in SECRETS.items():
        for name in names:
            file = home.home / folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text("secret")
    return home


def templated(text: str, home: support.Home) -> str:
    """An attempt without what differs from machine to machine."""
    text = re.sub(re.escape(str(home.state)) + r"/run/\d+-[0-9a-f]{16}", "{run}", text)
    text = re.sub(r"/proc/\d+/", "/proc/{parent}/", text)
    path = home.env()["PATH"]
    names = {"{state}": home.state, "{home}": home.home, "{config}": home.config, "{root}": home.root,
             "{package}": support.ROOT / "lspipe", "{python}": sys.executable,
             "{rg}": shutil.which("rg", path=path), "{node}": shutil.which("node", path=path)}
    for name, place in names.items():
        if place:
            text = re.sub(re.escape(str(place)) + r"(?![\w.-])", name, text)
    return text


def test_the_file_knows_every_executable_that_it_names_and_denies_what_it_must() -> None:
    names = {name for promise in promises() for name in promise["of"]} - {"*", "*x86_64", "*aarch64"}
    assert names <= set(support.scripts())
    for one in support.executables():
        mine = promised(one.name)
        assert set(mine.values()) <= {"allowed", "EACCES", "EPERM", "ENOSYS"}
        assert {attempt for attempt in NEVER_ALLOWED if mine.get(attempt) != "EACCES"} == set()
        for folder, secrets in SECRETS.items():
            if f"list {{home}}/{folder}" in mine:
                assert all(mine[f"read {{home}}/{folder}/{name}"] == "EACCES" for name in secrets)
    for one in support.of("source"):
        if f"list {{home}}/{CHROMIUM}" not in promised(one.name):
            assert one.name in ("ls-rg", "ls-qmd", "ls-files"), "a source of browsers that leaves the secrets out"


@whole
@each
def test_the_report_is_what_is_promised(one: support.Executable, home: support.Home) -> None:
    done = with_secrets(home).typical(one.name, "--sandbox-report")
    assert (done.code, done.err) == (0, b"")
    said = {templated(row["attempt"], home): row["kernel"] for row in done.rows}
    assert len(said) == len(done.rows)
    assert said == promised(one.name)
    assert all(row["ok"] for row in done.rows)


# From outside


class Call(NamedTuple):
    """One system call after lock-down, its constants raw."""

    pid: str
    name: str
    arguments: str
    answer: str


_CALL = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(?:<[^>]*>)?(?: (E[A-Z]+))?")


def joined(log: Path) -> list[str]:
    """The lines of strace; a call that was interrupted by another process's stands where it ended."""
    begun: dict[str, str] = {}
    found = []
    for line in log.read_text(errors="replace").splitlines():
        pid = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>")
        elif resumed := re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line):
            found.append(begun.pop(pid, "") + resumed[1])
        else:
            found.append(line)
    return found


def traced(one: support.Executable, home: support.Home) -> tuple[list[dict[str, Any]], list[Call]]:
    strace = shutil.which("strace")
    if not strace or subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("strace is missing, or may not trace here")
    log = home.root / "strace"
    pair = support.typical(one.name)
    args = support.with_options(pair.args(home), ["--sandbox-report"])
    done = subprocess.run(
        [strace, "-f", "-qq", "-X", "raw", "-s", "4096", "-e", "signal=none", "-o", str(log),
         *support.command(one.name, *args, python=["-B"])],
        env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = joined(log)
    start = max(number for number, line in enumerate(lines) if re.search(r"\bseccomp\(0x1, 0, ", line))
    found = [match.groups("") for match in map(_CALL.match, lines[start + 1:]) if match]
    calls = [Call(pid, name, arguments.rstrip(), error if result == "-1" else "allowed")
             for pid, name, arguments, result, error in found]
    return support.Done(0, done.stdout, b"").rows, calls


def seen(attempt: str, calls: list[Call]) -> set[str]:
    """How the kernel answered the system calls of one attempt, as strace saw it."""
    pid = calls[0].pid
    mine = [call for call in calls if call.pid == pid]
    children = [call for call in calls if call.pid != pid]
    forks = [call for call in mine if call.name in ("clone", "fork", "vfork") and call.answer == "allowed"]
    parents = [call.arguments.split(",")[0] for call in mine
               if call.name == "prlimit64" and "0x4, NULL" in call.arguments]
    sockets = [call for call in mine if call.name == "socket"]
    named = [entry[0] for entry in probe._SOCKETS]

    def answers(names: str, pattern: str, among: list[Call] = mine) -> set[str]:
        return {call.answer for call in among
                if re.fullmatch(names, call.name) and re.search(pattern, call.arguments)}

    def path(text: str) -> str:
        return '"' + re.escape(text) + '"'

    reading, writing = r", 0(?:x[0-9a-f]*[02468ace])?(?:\||\)|,|$)", r", 0x[0-9a-f]*[13579bdf]"
    if match := re.fullmatch(r"read /etc/passwd through '\.\.'", attempt):
        return answers("open|openat", r'/\.\./etc/passwd"')
    if re.fullmatch(r"read /etc/passwd through /proc/self/root", attempt):
        return answers("open|openat", path("/proc/self/root/etc/passwd"))
    if match := re.fullmatch(r"(?:read|list|read a granted file:) (/.*)", attempt):
        return answers("open|openat", path(match[1]) + reading)
    if match := re.fullmatch(r"write to (/.*)", attempt):
        return answers("open|openat", path(match[1]) + writing)
    if match := re.fullmatch(r"(remove|unlink|rename) (/.*)", attempt):
        return answers({"remove": "rmdir|unlinkat"}.get(match[1], match[1] + "(?:at2?)?"), path(match[2]))
    if match := re.fullmatch(r"make (?:and remove )?a (file|folder|symbolic link|FIFO) in (/.*)", attempt):
        names = {"file": "open|openat", "folder": "mkdir|mkdirat", "symbolic link": "symlink|symlinkat",
                 "FIFO": "mknod|mknodat"}[match[1]]
        return answers(names, re.escape(match[2]) + r"/\.probe-")
    if match := re.fullmatch(r"(signal 0|SIGURG) to (the parent process|itself)", attempt):
        number = "0" if match[1] == "signal 0" else str(int(signal.SIGURG))
        return answers("kill", f"^{pid if match[2] == 'itself' else parents[0]}, {number}$")
    if attempt == "signal 0 to the parent process by pidfd":
        return answers("pidfd_send_signal", r"^\d+, 0, ")
    if match := re.fullmatch(r"execute (/.*)", attempt):
        return {"allowed" if one == "EFAULT" else one for one in answers("execve", path(match[1]) + ", 0xf{16}, ")}
    if match := re.fullmatch(r"socket: every family below (\d+), type (\d)", attempt):
        found = [call for call in sockets[len(named) + 1:]
                 if re.search(rf"^0x?[0-9a-f]*, 0x{match[2]}\|", call.arguments)]
        return {call.answer for call in found} if len(found) == int(match[1]) else {f"{len(found)} were tried"}
    if match := re.fullmatch(r"socket: (.*)", attempt):
        call, (_, family, kind, _) = sockets[named.index(match[1])], probe._SOCKETS[named.index(match[1])]
        assert call.arguments.startswith(f"{family:#x}, {kind:#x}|"), call
        return {call.answer}
    if match := re.fullmatch(r"sendto with (an address|TCP Fast Open)", attempt):
        return answers("sendto", r'^-1, "x", 1, ' + ("0, " if match[1] == "an address" else "0x20000000, "))
    if attempt == "socketpair":
        return answers("socketpair", "")
    if attempt == "system call clone, new namespace":
        return answers("clone", "flags=0x20200")
    if attempt == "system call prlimit64, another process":
        return answers("prlimit64", f"^{parents[0]}, ")
    if match := re.fullmatch(r"system call ioctl, (\w+)", attempt):
        number = {"TIOCSTI": "0x5412", "TIOCLINUX": "0x541c", "FS_IOC_SETFLAGS": "0x40086602"}[match[1]]
        return answers("ioctl", f"^-1, {number}")
    if attempt == "system call getpid by the x32 table":
        # strace names both tables' calls alike; by its own table getpid() cannot fail.
        return answers("getpid|syscall_0x40000027", "") - {"allowed"}
    if match := re.fullmatch(r"system call (\w+)", attempt):
        number = seccomp.number((seccomp.REFUSED | seccomp.CONDITIONAL)[match[1]], seccomp.architecture()[0])
        return answers(f"{match[1]}|syscall_{number:#x}", "")  # The second where strace is older than the call.
    if attempt == "in a child process: read /etc/passwd":
        return answers("open|openat", path("/etc/passwd"), children)
    if attempt == "in a child process: a TCP socket":
        return answers("socket", "^0x2, 0x1", children)
    assert attempt == "signal a child process" and len(forks) == 1, attempt
    return answers("kill", rf"^{children[0].pid}, 9$")


@whole
@each
def test_strace_sees_the_answers_that_the_report_prints(one: support.Executable, home: support.Home) -> None:
    rows, calls = traced(one, with_secrets(home))
    assert len(rows) == len(promised(one.name))
    assert {row["attempt"]: seen(row["attempt"], calls) for row in rows} == {
        row["attempt"]: {row["kernel"]} for row in rows}


@whole
@each
def test_every_process_of_lspipe_locks_itself_down(one: support.Executable, home: support.Home) -> None:
    """The one that is started, and what it forks before it has done so."""
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("strace is not installed")
    pair = support.typical(one.name)
    log = home.root / "strace"
    done = subprocess.run(
        [strace, "-f", "-qq", "-e", "trace=clone,fork,vfork,landlock_restrict_self,seccomp", "-e", "signal=none",
         "-o", str(log), *support.command(one.name, *pair.args(home))], env=home.env(), cwd=home.home,
        capture_output=True, timeout=support.PATIENCE,
        **({"stdin": subprocess.DEVNULL} if pair.stdin is None else {"input": pair.stdin}))
    assert done.returncode == 0, done.stderr
    held: dict[str, set[str]] = {}
    first = None
    for line in joined(log):
        match = re.match(r"(\d+) +(\w+)\(.*\) += (\d+)", line)
        if not match:
            continue
        pid, name, result = match.groups()
        first = first or pid
        if name in ("clone", "fork", "vfork"):
            held[result] = set(held.get(pid, ())) | held.get(result, set())
        else:
            held.setdefault(pid, set()).add(name)
    assert first is not None and first in held
    assert {pid for pid, locks in held.items() if locks != {"landlock_restrict_self", "seccomp"}} == set()

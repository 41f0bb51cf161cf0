"""`--sandbox-report`: what it says holds, it does no harm where nothing is enforced, and strace sees the same."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lspipe import landlock, probe, sandbox, seccomp
from lspipe.sandbox import Rules

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or seccomp.architecture() is None, reason="Landlock and seccomp are of Linux")
ABI = landlock.version(sandbox.library()[0]) if sys.platform.startswith("linux") else 0
whole = pytest.mark.skipif(ABI < 6, reason=f"this kernel's Landlock is ABI {ABI}: less than the whole sandbox")

SCRIPT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import click, orjson
from lspipe import sandbox
given = json.loads(sys.argv[2])
canaries, how = given.pop("canaries", []), given.pop("how", {})
rules = sandbox.Rules(**{name: value if name == "may_signal" else tuple(value) for name, value in given.items()})
rules = rules._replace(read=(*sandbox.program_paths(), *rules.read))
state = sandbox.lock_down(rules, **how)
from lspipe import probe
print(json.dumps([state.detail, probe.probe(rules, canaries)]))
"""
ROOT = Path(sandbox.__file__).parent.parent


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A home with a browser's profile, a folder that is not granted, and a run directory."""
    for folder in ("home/profile/Network", "home/other", "state/run/1-a/tmp"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("History", "Cookies", "Login Data", "Network/Cookies"):
        (tmp_path / "home/profile" / name).write_text(name)
    (tmp_path / "home/other/note").write_text("note")
    return {"home": str(tmp_path / "home"), "profile": str(tmp_path / "home/profile"),
            "other": str(tmp_path / "home/other"), "run": str(tmp_path / "state/run/1-a"),
            "runs": str(tmp_path / "state/run"), "state": str(tmp_path / "state")}


def given(places: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"read": [f"{places['profile']}/History"], "write": [places["run"]], "entries": [places["runs"]], **more}


def report(places: dict[str, str], *before: str, **more: Any) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*before, sys.executable, "-c", SCRIPT, str(ROOT), json.dumps(given(places, **more))],
        cwd=places["home"], env={"HOME": places["home"], "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)[1]
    return rows


def wrong(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['attempt']}: {row['kernel']}" for row in rows if not row["ok"]]


def contents(folder: str) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(Path(folder).rglob("*"))}


@whole
def test_every_attempt_gets_the_answer_that_is_promised(places: dict[str, str]) -> None:
    rows = report(places, execute=[found("rg")] if shutil.which("rg") else [])
    assert wrong(rows) == []
    assert all(set(row) == {"attempt", "expected", "kernel", "ok"} for row in rows)
    tried = {row["attempt"]: row["expected"] for row in rows}
    profile = places["profile"]
    for path in ("Cookies", "Login Data", "Network/Cookies"):
        assert tried[f"read {profile}/{path}"] == "EACCES"
    assert f"read {profile}/History" not in tried
    for attempt in (
        f"list {profile}", f"list {places['home']}", "read /etc/passwd", "list /", f"write to {profile}/History",
        f"make a file in {places['runs']}", f"make a file in {places['state']}", f"list {places['runs']}",
        "socket: TCP", "socket: UDP", "socket: MPTCP", "sendto with TCP Fast Open", "socket: raw IP",
        "socket: Unix (path or abstract), stream", "socket: netlink", "socket: packet", "socket: vsock",
        "system call io_uring_setup", "system call ptrace", "system call process_vm_readv", "system call fchmod",
        "in a child process: a TCP socket", "execute /bin/sh",
    ):
        assert tried[attempt] == "EACCES", attempt
    assert tried["signal 0 to the parent process"] == tried["SIGURG to the parent process"] == "EPERM"
    assert tried[f"make and remove a file in {places['run']}"] == "allowed"
    assert len(tried) == len(rows) > 100


def found(name: str) -> str:
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name) or name


@whole
def test_canaries_must_be_refused(places: dict[str, str]) -> None:
    rows = report(places, canaries=[places["other"], f"{places['other']}/note", "/absent"])
    tried = {row["attempt"]: row["kernel"] for row in rows}
    assert tried[f"list {places['other']}"] == tried[f"read {places['other']}/note"] == "EACCES"
    assert not any("/absent" in attempt for attempt in tried)


@whole
def test_what_lies_beside_an_open_file_is_tried_too(places: dict[str, str]) -> None:
    """A database that was opened before lock-down is not granted by any path."""
    with open(f"{places['profile']}/History") as file:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            rules = Rules(read=sandbox.program_paths())
            sandbox.lock_down(rules)
            os.write(writer, json.dumps(probe.probe(rules)).encode())
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(file.closed)
            os._exit(1)
        os.close(writer)
        with os.fdopen(reader) as stream:
            tried = {row["attempt"]: row["kernel"] for row in json.load(stream)}
        assert os.waitpid(pid, 0)[1] == 0, "the probe left a process"
    for path in ("Cookies", "Login Data"):
        assert tried[f"read {places['profile']}/{path}"] == "EACCES"


@whole
def test_rules_that_allow_more_expect_more(places: dict[str, str]) -> None:
    rows = report(places, may_signal=True, read=["/etc", "/proc", places["home"]])
    assert wrong(rows) == []
    tried = {row["attempt"]: row["expected"] for row in rows}
    assert tried["signal 0 to the parent process"] == "allowed" and "SIGURG to the parent process" not in tried
    assert "read /etc/passwd" not in tried and f"list {places['home']}" not in tried


@whole
@pytest.mark.parametrize(("how", "lost"), [
    ({"abi": 5}, "signal|SIGURG"), ({"abi": 1}, "signal|SIGURG"),
    ({"filtered": False}, "socket|system call|sendto"),
    ({"abi": 0}, "read|list|write|remove|unlink|rename|make|execute|signal|SIGURG"),
])
def test_on_a_lesser_kernel_it_names_what_is_not_enforced(
    places: dict[str, str], how: dict[str, Any], lost: str
) -> None:
    missing = wrong(report(places, how=how))
    assert missing and all(re.search(lost, attempt) for attempt in missing)


def test_it_does_no_harm_where_nothing_is_enforced(places: dict[str, str]) -> None:
    before = contents(places["home"]), contents(places["state"])
    stamps = {path: os.stat(path).st_mtime_ns for path in before[0]}
    package = [Path(probe.__file__).with_name(name) for name in ("__init__.py", "probe.py", "sandbox.py")]
    mine = [(found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns) for found in map(os.stat, package)]
    rows = report(places, how={"abi": 0, "filtered": False})
    assert len(wrong(rows)) > 100
    for row in rows:
        if row["attempt"].startswith("system call") and "another process" not in row["attempt"]:
            assert row["kernel"] != "allowed", row
    assert (contents(places["home"]), contents(places["state"])) == before
    assert {path: os.stat(path).st_mtime_ns for path in stamps} == stamps
    assert [(found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns)
            for found in map(os.stat, package)] == mine


def test_paths_of_any_bytes_are_shown(tmp_path: Path) -> None:
    row = probe._row(os.fsdecode(b"read /a\xff\n"), "EACCES", "EACCES")
    assert row["attempt"] == "read /a\\udcff\n" and row["ok"]
    json.dumps(row).encode()


# --- from outside --------------------------------------------------------------------------------------------

CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+|\?)(?:<[^>]*>)?(?: (E[A-Z]+))?")


def watch(places: dict[str, str], tmp_path: Path, **more: Any) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    """The report, and (name, arguments, result, error) of each system call after lock-down, as strace saw it."""
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("there is no strace")
    log = tmp_path / "strace"
    if subprocess.run([strace, "-o", str(log), "true"], capture_output=True).returncode != 0:
        pytest.skip("strace may not trace here")
    # What a shell does before it runs the program is not the program.
    rows = report(places, strace, "-f", "-y", "-s", "4096", "-o", str(log), "-e", "signal=none", **more)
    lines = log.read_text(errors="replace").splitlines()
    start = max(n for n, line in enumerate(lines) if re.search(r"\bseccomp\(SECCOMP_SET_MODE_FILTER", line))
    return rows, [match.groups(default="") for match in map(CALL.match, lines[start + 1:]) if match]


@whole
def test_strace_sees_the_same_denials_from_outside(places: dict[str, str], tmp_path: Path) -> None:
    rows, calls = watch(places, tmp_path)
    assert wrong(rows) == []
    seen: dict[str, set[str]] = {}
    for name, _, result, error in calls:
        seen.setdefault(name, set()).add(error if result == "-1" else "allowed")
    sockets = [call for call in calls if call[0] == "socket"]
    assert len(sockets) > 130 and {error for _, _, _, error in sockets} == {"EACCES"}
    for name in seccomp.REFUSED:
        assert seen.get(name, {"EACCES"}) == {"EACCES"}, name
    assert sum(name in seen for name in seccomp.REFUSED) > 70  # By the name that this strace has for it.
    # Names that strace may not know yet are seen as syscall_0x...: none of those may succeed either.
    assert all(error for name, _, _, error in calls if name.startswith("syscall_"))
    for row in rows:
        match = re.fullmatch(r"(?:read|list) (/\S+)", row["attempt"])
        if match:
            opened = {error or "allowed" for name, arguments, _, error in calls
                      if name in ("open", "openat") and f'"{match[1]}"' in arguments}
            assert opened == {row["kernel"]}, row
    signals = {error for name, arguments, _, error in calls
               if name in ("kill", "pidfd_send_signal") and not arguments.endswith("SIGKILL")}
    assert signals == {"EPERM", ""}  # "": itself


@whole
def test_strace_sees_no_file_opened_but_what_is_granted(places: dict[str, str], tmp_path: Path) -> None:
    watch(places, tmp_path)
    readable = [os.path.realpath(path) for path in sandbox.program_paths()]
    lines = (tmp_path / "strace").read_text(errors="replace").splitlines()
    start = max(n for n, line in enumerate(lines) if "seccomp(SECCOMP_SET_MODE_FILTER" in line)
    opened = set()
    for line in lines[start + 1:]:
        assert not re.search(r"\b(?:creat|openat2)\(.*= \d", line), line
        match = re.search(r"\b(?:open|openat)\(.*, ([A-Z_|]+)(?:, \d+)?\) = \d+<([^>]*)>", line)
        if match:
            opened.add((match[2], "O_RDONLY" not in match[1] or "O_CREAT" in match[1]))
    assert len(opened) > 2
    for path, writes in opened:
        if path.startswith(places["run"] + "/") or path in ("/dev/null", "/dev/urandom"):
            continue
        assert not writes, path
        assert any(path == one or path.startswith(one + "/") for one in readable), path

"""A kernel that offers less than the whole sandbox, simulated by strace: said in the report, and no input is read where
the whole one is demanded.

Nothing in lspipe itself can be told to do with less: no option, variable or file weakens the sandbox.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
import support

from lspipe import landlock, sandbox, seccomp

ABI = landlock.version(sandbox.library()[0]) if sys.platform.startswith("linux") else 0
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or seccomp.architecture() is None or ABI < 6,
    reason="this kernel has not the whole sandbox")
each = pytest.mark.parametrize("one", support.executables(), ids=str)


class Kernel(NamedTuple):
    """What strace makes the kernel answer, and what the report must say then."""

    injected: tuple[str, ...]
    fs: str
    net: str
    signal: str
    #: Attempts of the report that go wrong are of these kinds.
    lost: str


NO_LANDLOCK = ("landlock_create_ruleset:error=EOPNOTSUPP",)
NO_SECCOMP = ("seccomp:error=ENOSYS",)
FILES = "read|list|write|remove|unlink|rename|make|execute|in a child process: read"
SIGNALS = "signal|SIGURG"
SOCKETS = "socket|sendto|system call|in a child process: a TCP socket"
#: The first landlock_create_ruleset asks for the version.
KERNELS = {
    "neither": Kernel(NO_LANDLOCK + NO_SECCOMP, "none", "none", "none", f"{FILES}|{SIGNALS}|{SOCKETS}"),
    "no Landlock": Kernel(NO_LANDLOCK, "none", "enforced", "none", f"{FILES}|{SIGNALS}"),
    "no seccomp": Kernel(NO_SECCOMP, "partial", "partial", "enforced", SOCKETS),
    "ABI 5": Kernel(("landlock_create_ruleset:retval=5:when=1",), "enforced", "enforced", "none", SIGNALS),
    "ABI 1": Kernel(("landlock_create_ruleset:retval=1:when=1",), "enforced", "enforced", "none", SIGNALS),
    "rules refused": Kernel(("landlock_restrict_self:error=E2BIG",), "none", "enforced", "none", f"{FILES}|{SIGNALS}"),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def on(kernel: Kernel, home: support.Home, name: str, *more: str, traced: str = "") -> tuple[support.Done, Path]:
    """The typical use of an executable on that kernel, and what strace saw. Its stdin is never empty: a source does
    not read it."""
    strace = shutil.which("strace")
    if not strace or subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("strace is missing, or may not trace here")
    if name in support.LEDGER:
        home.orphan()
    log = home.root / "strace"
    calls = ",".join(dict.fromkeys([*(one.partition(":")[0] for one in kernel.injected), *filter(None, [traced])]))
    pair = support.typical(name)
    done = subprocess.run(
        [strace, "-f", "-qq", "-y", "-e", "signal=none", "-e", f"trace={calls}", "-o", str(log),
         *(word for one in kernel.injected for word in ("-e", f"inject={one}")),
         *support.command(name, *support.with_options(pair.args(home), more))],
        env=home.env(), cwd=home.home, capture_output=True, timeout=support.PATIENCE,
        input=pair.stdin or b'{"source":"m","url":"x:1"}\n')
    return support.Done(done.returncode, done.stdout, done.stderr), log


@kernels
@pytest.mark.parametrize("name", ["ls-history", "ls-check", "ls-query"])
def test_the_report_says_what_is_not_enforced(name: str, kernel: Kernel, home: support.Home) -> None:
    report = home.root / "report.json"
    done, _ = on(kernel, home, name, "--report", str(report))
    assert done.code == 0 and done.out, "it runs with what there is"
    facts = orjson.loads(report.read_bytes())
    assert facts["sandbox"] == {"fs": kernel.fs, "net": kernel.net, "signal": kernel.signal}
    if name != "ls-query":
        assert any(note.startswith("sandbox: ") for note in facts["notes"]), facts["notes"]
    assert home.runs == []


@kernels
def test_the_sandbox_report_names_it_and_does_no_harm(kernel: Kernel, home: support.Home) -> None:
    profile = home.home / ".config/chromium/Default"
    (profile / "Cookies").write_text("secret")
    before = {path: path.stat().st_mtime_ns for path in home.home.rglob("*") if path.is_file()}
    done, _ = on(kernel, home, "ls-history", "--sandbox-report")
    assert done.code == 0, done.err
    wrong = [row["attempt"] for row in done.rows if not row["ok"]]
    assert wrong and all(re.match(kernel.lost, attempt) for attempt in wrong), wrong
    for kind in kernel.lost.split("|"):
        assert any(re.match(kind, attempt) for attempt in wrong), kind
    if kernel.fs == "none":
        assert f"read {profile / 'Cookies'}" in wrong
    assert {path: path.stat().st_mtime_ns for path in home.home.rglob("*") if path.is_file()} == before


#: What says which profiles and collections there are.
NAMES = ("profiles.ini", "Local State", "index.yml")
#: What reads the bytes of a file or of stdin.
READING = "read,pread64,preadv,preadv2,readv,mmap,sendfile,copy_file_range"


@each
@pytest.mark.parametrize("kernel", [KERNELS["neither"], KERNELS["ABI 5"]],
                         ids=["neither", "ABI 5"])
def test_where_the_whole_is_demanded_nothing_is_read(
    one: support.Executable, kernel: Kernel, home: support.Home
) -> None:
    done, log = on(kernel, home, one.name, "--require-sandbox", traced=READING)
    assert (done.code, done.out) == (5, b""), done.err
    support.assert_one_line(done.err, one.name)
    assert b"the kernel does not enforce the whole sandbox" in done.err
    assert home.runs == []
    granted = re.escape(str(home.home))
    reading = re.compile(rf"\b(?:{READING.replace(',', '|')})\((?:0<|\d+<({granted}[^>]*)>|.*, \d+<({granted}[^>]*)>)")
    for line in log.read_text(errors="replace").splitlines():
        match = reading.search(line)
        # Where the kernel can do all but hold signals, a source has learnt names first: that much is no secret.
        assert not match or kernel.net == "enforced" and os.path.basename(match[1] or match[2]) in NAMES, line


def test_each_stage_is_told_that_the_whole_is_demanded(home: support.Home) -> None:
    """A stage locks itself down alone: the coordinator's word does not bind it."""
    for demand in ([], ["--require-sandbox"]):
        plan = home.run("ls-query", "--plan", "--public", "--fields=title", *demand, "async").out.decode()
        plan += home.run("ls-query", "--plan", *demand, "--no-rerank", "async").out.decode()
        plan = "\n".join(line for line in plan.splitlines() if not line.startswith("#"))
        stages = [word for word in plan.replace("(", " ").split() if word.startswith("ls-")]
        assert len(stages) > 6
        assert plan.count("--require-sandbox") == (len(stages) if demand else 0)


def test_no_variable_weakens_it() -> None:
    """The modules of the sandbox read no environment at all, and the runner none that is about it."""
    for name in ("sandbox", "landlock", "seccomp", "runner"):
        text = (support.ROOT / "lspipe" / f"{name}.py").read_text()
        assert not re.search(r"\b(?:environ|getenv)\b", text), name

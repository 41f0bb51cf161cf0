"""SIGKILL, and a full disk, at every system call of an owner's life: afterwards nothing is left, nobody is harmed.

strace attaches to a forked owner and injects; without -f, for it would wait for the orphans and so hide them.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lspipe import child, ledger, reaper, survey
from lspipe.exits import Precondition

SH, SLEEP = (child.find_program(name, "/bin:/usr/bin") for name in ("sh", "sleep"))
STRACE = shutil.which("strace")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="strace is of Linux"),
    pytest.mark.skipif(STRACE is None, reason="no strace"),
]
#: What changes something that others can see, with the names it has on the machines of today.
CALLS = ("mkdir,mkdirat", "openat", "flock", "write", "rename,renameat,renameat2", "clone,fork,vfork", "setpgid",
         "kill", "waitid", "wait4", "unlink,unlinkat,rmdir")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LSPIPE_RUN", raising=False)
    ledger.register("ls-test", [], "source").close()
    with subprocess.Popen([SLEEP, "300"]) as decoy:
        yield tmp_path / "state" / "run"
        assert decoy.poll() is None
        decoy.kill()


def life(orphans: bool) -> None:
    """All that an executable does with the ledger: a file, a child, a child with a grandchild of another session."""
    if orphans:
        ledger._death_signal = lambda: None  # as where the system has no parent-death signal
    run = ledger.register("ls-test", [], "source")
    try:
        snapshot = run.add("snapshot", "history")
        with open(run.tmp + "/snapshot", "wb") as file:
            file.write(b"x" * 5000)
        snapshot.live()
        one = child.spawn(run, [SLEEP, "300"], env={}, stdin=None, purpose="test")
        child.spawn(run, [SH, "-c", f"setsid {SLEEP} 300 & exec {SLEEP} 300"], env={}, stdin=b"", purpose="test")
        os.unlink(run.tmp + "/snapshot")
        snapshot.release()
        one.stop()
    finally:
        run.close()


def live_under(inject: str, orphans: bool) -> int:
    """Fork an owner, let strace inject, and let him live; how he ended. -SIGKILL where it was injected."""
    go, ready = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # PR_SET_PTRACER_ANY, for Yama
            os.close(go[1])
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            life(orphans)
            code = 0
        except Precondition:
            code = 5
        finally:
            os._exit(code)
    os.close(go[0])
    os.read(ready[0], 1)
    with subprocess.Popen([STRACE, "-qq", "-o", os.devnull, "-e", inject, "-p", str(pid)]) as tracer:
        while b"TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_bytes():
            if tracer.poll() is not None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                pytest.skip("strace may not attach here")
        os.write(go[1], b"x")
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for descriptor in (go[1], *ready):
        os.close(descriptor)
    return code


def assert_nothing_stays(state: Path, where: str) -> int:
    """Reap; the number of rows that this took."""
    rows = list(reaper.reap(True))
    assert all(row["done"] for row in rows), (where, rows)
    assert os.listdir(state) == [], where
    assert survey.take(ledger.state_hash()).tokens == {}, where
    return len(rows)


@pytest.mark.parametrize("orphans", [False, True])
@pytest.mark.parametrize("calls", CALLS)
def test_killed_at_every_call(state: Path, calls: str, orphans: bool) -> None:
    left = 0
    for number in range(1, 200):
        ended = live_under(f"inject={calls}:signal=KILL:when={number}", orphans)
        left += assert_nothing_stays(state, f"{calls} {number}")
        if ended != -signal.SIGKILL:
            assert ended == 0 and number > 1
            break
    else:
        pytest.fail("it never ended")
    assert left > 0


@pytest.mark.parametrize("calls", ["mkdir,mkdirat", "openat", "write", "rename,renameat,renameat2"])
def test_a_full_disk_at_every_call(state: Path, calls: str) -> None:
    failed = 0
    for number in range(1, 200):
        ended = live_under(f"inject={calls}:error=ENOSPC:when={number}", False)
        assert_nothing_stays(state, f"{calls} {number}")
        failed += ended != 0
        # How many there are is known by the first that changes nothing, once some have.
        if ended == 0 and failed and number > 12:
            break
    assert failed


def test_undisturbed_it_ends_well_but_for_the_session_that_left_it(state: Path) -> None:
    assert live_under("trace=none", False) == 0
    assert os.listdir(state) == []
    assert_nothing_stays(state, "undisturbed")

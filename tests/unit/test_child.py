"""Running other programs: found safely, fed and read without a deadlock, bounded, and never left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lspipe import child, identity, ledger, rundir, sandbox
from lspipe.exits import Bug, Precondition

ROOT = Path(__file__).resolve().parents[2]
SH, CAT, SLEEP = (child.find_program(name, "/bin:/usr/bin") for name in ("sh", "cat", "sleep"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ledger.Run]:
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LSPIPE_RUN", raising=False)
    registered = ledger.register("ls-test", [], "source")
    yield registered
    registered.close()
    assert os.listdir(os.path.dirname(registered.path)) == []


def start(run: ledger.Run, *argv: str, stdin: bytes | None = None, **more) -> child.Child:
    return child.spawn(run, argv, env=more.pop("env", {}), stdin=stdin, purpose="test", **more)


def shell(run: ledger.Run, text: str, stdin: bytes | None = None, **more) -> child.Child:
    return start(run, SH, "-c", text, stdin=stdin, **more)


def rows(run: ledger.Run) -> rundir.Found:
    return rundir.read(run.path)


def gone(pid: int) -> bool:
    """Whether the process ends; it is waited for, and a test that fails here fails after the patience."""
    try:
        process = identity.Process(pid)
    except ProcessLookupError:
        return True
    try:
        until = time.monotonic() + 20
        while not process.ended() and time.monotonic() < until:
            time.sleep(0.002)
        return process.ended()
    finally:
        process.close()


# What it says and what it is told

@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no limit of data that is heeded")
@pytest.mark.parametrize(("more", "kib"), [({}, 2 << 20), ({"memory": 64 << 20}, 64 << 10)], ids=["usual", "chosen"])
def test_it_has_a_limit_of_memory(run: ledger.Run, more: dict[str, int], kib: int) -> None:
    with shell(run, "ulimit -d", **more) as one:
        assert b"".join(one.chunks()) == b"%d\n" % kib



def test_lines_come_without_their_newline_and_the_last_may_lack_it(run) -> None:
    program = shell(run, r"printf 'a\n\nb\r\nlast'")
    assert list(program.lines()) == [b"a", b"", b"b\r", b"last"]
    assert program.wait() == 0 and program.errors() == ""


def test_much_is_fed_and_read_at_the_same_time(run) -> None:
    data = b"".join(b"%d %s\n" % (number, b"x" * 90) for number in range(50_000))
    program = start(run, CAT, stdin=data)
    assert b"".join(line + b"\n" for line in program.lines()) == data
    assert program.wait() == 0


def test_input_that_is_not_wanted_is_no_trouble(run) -> None:
    program = shell(run, "exec 0<&-; echo done", stdin=b"x" * 5_000_000)
    assert list(program.lines()) == [b"done"]
    assert program.wait() == 0


def test_no_input_is_the_null_device_and_empty_input_ends(run) -> None:
    for stdin in (None, b""):
        assert list(start(run, CAT, stdin=stdin).lines()) == []


@pytest.mark.parametrize("length", [9, 10, 11, 300_000, 3_000_000])
def test_a_line_over_the_cap_is_left_out_and_counted(run, length: int) -> None:
    program = start(run, CAT, stdin=b"before\n" + b"x" * length + b"\nafter\n" + b"y" * length)
    kept = length <= 10
    found = list(program.lines(cap=10))
    assert found == ([b"before", b"x" * length, b"after", b"y" * length] if kept else [b"before", b"after"])
    assert program.oversized == (0 if kept else 2)


def test_errors_are_bounded_and_never_block(run) -> None:
    noise = "echo trouble >&2; head -c 3000000 /dev/zero | tr '\\0' e >&2; echo out"
    program = shell(run, f"{noise}; {CAT}", stdin=b"in\n")
    assert list(program.lines()) == [b"out", b"in"]
    assert program.wait() == 0
    assert program.errors().startswith("trouble\neeee") and len(program.errors()) == 1 << 15


def test_exit_codes_and_signals(run) -> None:
    assert shell(run, "exit 3").wait() == 3
    assert shell(run, "kill -KILL $$").wait() == -9
    program = shell(run, "echo said >&2; exit 2")
    assert (program.wait(), program.code, program.errors()) == (2, 2, "said\n")
    assert program.wait() == program.stop() == 2


def test_time_is_up(run) -> None:
    program = shell(run, f"echo first; exec {SLEEP} 60")
    lines = program.lines(time.monotonic() + 0.3)
    assert next(lines) == b"first"
    assert list(lines) == [] and program.late and program.code == -signal.SIGTERM
    left = [20.0, 0.0]  # a clock of the caller's
    program = shell(run, f"echo first; exec {SLEEP} 60")
    assert list(program.lines(lambda: left.pop(0))) == [b"first"] and program.late
    program = start(run, SLEEP, "60")
    assert program.wait(0.1) == -signal.SIGTERM and program.late


def test_what_it_leaves_in_its_group_ends_with_it(run) -> None:
    program = shell(run, f"{SLEEP} 60 & echo $!; exec {SLEEP} 0")
    lines = program.lines()
    left = int(next(lines))
    assert list(lines) == []  # though the one left behind holds the pipe
    assert program.wait() == 0 and gone(left)


def test_stop_kills_what_does_not_listen(run) -> None:
    program = shell(run, f"trap '' TERM; echo ready; while :; do {SLEEP} 1; done")
    assert next(program.lines()) == b"ready"
    assert program.stop(0.05) == -signal.SIGKILL
    assert rows(run).rows == {}


def test_a_stopped_program_ends_too(run) -> None:
    program = shell(run, "echo ready; kill -STOP $$")
    assert next(program.lines()) == b"ready"
    os.waitid(os.P_PID, program.pid, os.WSTOPPED)
    assert program.stop(0.05) == -signal.SIGKILL


def test_the_context_ends_it(run) -> None:
    with start(run, SLEEP, "60") as program:
        assert program.code is None
    assert program.code == -signal.SIGTERM


# What it is given


def test_the_environment_is_a_few_named_variables(run, monkeypatch) -> None:
    for name in ("RIPGREP_CONFIG_PATH", "LD_PRELOAD", "SECRET_TOKEN", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, "/outside")
    monkeypatch.setenv("PATH", f"relative::/tmp:{os.defpath}")
    monkeypatch.setenv("LANG", "C.UTF-8")
    env = {"EXTRA": "1", "RIPGREP_CONFIG_PATH": "/x", "LD_LIBRARY_PATH": "/x"}
    program = start(run, child.find_program("env"), env=env)
    found = dict(line.decode().split("=", 1) for line in program.lines())
    assert {**found, "PATH": ""} == {
        "LANG": "C.UTF-8", "EXTRA": "1", "TMPDIR": run.tmp, "PATH": "", "LSPIPE_RUN": run.token,
        **{name: os.environ[name] for name in ("LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ") if name in os.environ}}
    assert found["PATH"] == ":".join(folder for folder in os.defpath.split(":"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_it_has_three_descriptors_default_signals_and_its_own_group(run) -> None:
    outside = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(outside, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = start(run, sys.executable, "-SEc", (
            "import os, resource\n"
            "print(sorted(os.listdir('/proc/self/fd')))\n"
            "print(os.getpid() == os.getpgrp(), resource.getrlimit(resource.RLIMIT_CORE))\n"
            "print([l for l in open('/proc/self/status') if l[:6] in ('SigBlk', 'SigIgn')])\n"))
        fds, group, masks = (line.decode() for line in program.lines())
        assert program.wait() == 0, program.errors()
    finally:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        os.close(outside)
    assert fds == "['0', '1', '2', '3']"  # 3 is the listing itself
    assert group == "True (0, 0)"
    # Python itself ignores PIPE and XFSZ. Above 31 are real-time signals, two of which the C library keeps to itself.
    blocked, ignored = (int(mask, 16) & 0x7FFFFFFF for mask in re.findall("[0-9a-f]{16}", masks))
    assert (blocked, ignored) == (0, 0x01001000)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_it_works_where_our_own_standard_descriptors_are_closed(run, tmp_path) -> None:
    body = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from lspipe import child, ledger
run = ledger.register("ls-test", [], "source")
out = os.open({str(tmp_path / "out")!r}, os.O_WRONLY | os.O_CREAT)
out = os.dup2(out, 50)
os.closerange(0, 3)
program = child.spawn(run, [{CAT!r}], env={{}}, stdin=b"through\\n", purpose="test")
os.write(out, b"|".join(program.lines()) + b" %d" % program.wait())
run.close()
"""
    subprocess.run([sys.executable, "-c", body], check=True)
    assert (tmp_path / "out").read_bytes() == b"through 0"


def test_it_starts_in_the_folder_that_was_asked_for(run, tmp_path) -> None:
    assert list(shell(run, "pwd -P", cwd=str(tmp_path)).lines()) == [os.fsencode(os.path.realpath(tmp_path))]
    with pytest.raises(Precondition, match="No such file"):
        shell(run, "pwd", cwd=str(tmp_path / "nowhere"))


def test_an_inherited_ignored_child_signal_does_not_lose_the_exit_code(run) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert shell(run, "exit 5").wait() == 5
    finally:
        signal.signal(signal.SIGCHLD, before)


# The ledger


def test_the_row_is_there_before_the_program_and_says_who_it_is(run) -> None:
    program = shell(run, f"echo {run.path}/*.json; exec {SLEEP} 60")
    line = next(program.lines())
    assert line.split() == [os.fsencode(f"{run.path}/{name}.json") for name in ("1", "1.pid", "owner")]
    found = rows(run)
    assert found.rows[1]["command"] == "sh -c" and found.rows[1]["owned"] is True
    assert found.rows[1]["exe"]["ino"] == os.stat(SH).st_ino
    process = identity.Process(program.pid)
    assert process.differs(found.processes[1]) is None
    assert found.processes[1]["pgid"] == program.pid
    process.close()
    program.stop()
    assert rows(run).rows == {} and rows(run).processes == {}


@pytest.mark.parametrize("make", ["missing", "no exec bit", "folder"])
def test_a_program_that_cannot_start_leaves_nothing(run, tmp_path, make) -> None:
    target = tmp_path / "program"
    if make == "folder":
        target.mkdir()
    elif make != "missing":
        target.write_text("x")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(Precondition, match="cannot start '.*program'"):
        start(run, str(target))
    assert rows(run).rows == {} and rows(run).processes == {}
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_without_a_row_there_is_no_program(run) -> None:
    hidden = run.path + "-away"
    os.rename(run.path, hidden)
    try:
        with pytest.raises(Precondition, match="cannot write the ledger"):
            start(run, SLEEP, "60")
    finally:
        os.rename(hidden, run.path)


def test_a_child_that_cannot_write_its_own_row_does_not_become_the_program(run, tmp_path, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Precondition("cannot write the ledger: full")

    monkeypatch.setattr(ledger.Resource, "enter", fail)  # what a full disk does between the fork and the exec
    with pytest.raises(Precondition, match="cannot write the ledger: full"):
        shell(run, f"touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists() and rows(run).rows == {}


def test_only_the_main_thread_and_an_absolute_path_will_do(run) -> None:
    caught: list[Exception] = []

    def work() -> None:
        try:
            start(run, SLEEP, "60")
        except Bug as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(caught) == 1
    with pytest.raises(Bug):
        start(run, "sleep", "60")


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no parent-death signal")
def test_the_program_dies_with_a_killed_owner(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    body = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from lspipe import child, ledger
run = ledger.register("ls-test", [], "source")
print(child.spawn(run, [{SLEEP!r}, "60"], env={{}}, stdin=None, purpose="test").pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        pid = int(owner.stdout.readline())
        owner.kill()
    assert gone(pid)
    assert ledger.sweep(1.0) == 1


def test_a_signal_that_comes_while_it_starts_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    body = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from lspipe import child, ledger
class Stopped(BaseException): pass
def stop(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped
run = ledger.register("ls-test", [], "source")
signal.signal(signal.SIGTERM, stop)
try:
    print(flush=True)
    while True:
        child.spawn(run, [{SLEEP!r}, "61"], env={{}}, stdin=None, purpose="test").stop()
except Stopped:
    run.close()
try:
    os.waitpid(-1, os.WNOHANG)
    print("a child is left")
except ChildProcessError:
    print("none")
"""
    for number in range(8):
        with subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE) as owner:
            owner.stdout.readline()
            time.sleep(0.003 * number)  # where the signal falls is the point
            owner.send_signal(signal.SIGTERM)
            assert owner.stdout.read() == b"none\n"
    assert os.listdir(tmp_path / "state" / "run") == []


def test_it_works_under_the_sandbox_of_its_parent(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "outside").write_text("secret\n")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run = ledger.register("ls-test", [], "source")
            box = sandbox.lock_down(sandbox.Rules(
                read=sandbox.program_paths(), execute=(SH, CAT), write=(run.path,),
                entries=(os.path.dirname(run.path),)))
            program = shell(run, f"{CAT}; {CAT} {tmp_path}/outside; echo x >$TMPDIR/file; {CAT} $TMPDIR/file",
                            stdin=b"in\n")
            os.write(write, b"|".join(program.lines()))
            found = rows(run)
            ours = program.pid == found.processes[1]["pid"]
            program.wait()
            run.close()
            code = 3 if box.fs == "none" else 0 if ours else 2
        finally:
            os._exit(code)
    os.close(write)
    said = os.read(read, 1000)
    os.close(read)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 3:
        pytest.skip("this kernel has no Landlock")
    assert code == 0 and said == b"in|x"
    assert os.listdir(tmp_path / "state" / "run") == []


# Finding programs


def program_in(folder: Path, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    program = folder / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(mode)
    return program


def test_the_first_safe_program_in_path_wins(tmp_path, monkeypatch) -> None:
    good, other = program_in(tmp_path / "good"), program_in(tmp_path / "other")
    program_in(tmp_path / "open")
    (tmp_path / "open").chmod(0o777)
    program_in(tmp_path / "plain", 0o644)
    (tmp_path / "folder" / "tool").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    places = [tmp_path / name for name in ("none", "open", "plain", "folder")]
    path = ":".join(["good", "", ".", *map(str, places), str(good.parent), str(other.parent)])
    assert child.find_program("tool", path) == str(good)
    monkeypatch.setenv("PATH", path)
    assert child.find_program("tool") == str(good)
    assert child.find_program("tool", "", [str(other.parent)]) == str(other)


@pytest.mark.parametrize(("path", "hint"), [
    ("", "install tool"), ("open", "relative"), ("{}/open", "anybody can change it"),
    ("{}/loose", "anybody can change it"), ("{}/linked", "anybody can change it"),
    ("{}/above/bin", "anybody can change it")])
def test_a_program_that_anybody_can_change_is_passed_over(tmp_path, monkeypatch, path, hint) -> None:
    program_in(tmp_path / "open")
    (tmp_path / "open").chmod(0o777)
    program_in(tmp_path / "loose").chmod(0o757)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "tool").symlink_to(tmp_path / "open" / "tool")
    program_in(tmp_path / "above" / "bin")
    (tmp_path / "above").chmod(0o777)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Precondition, match="cannot find the program 'tool'") as caught:
        child.find_program("tool", path.format(tmp_path))
    assert hint in caught.value.hint
    (tmp_path / "above").chmod(0o1777)  # sticky: nobody can replace the folder in it
    assert child.find_program("tool", f"{tmp_path}/above/bin")

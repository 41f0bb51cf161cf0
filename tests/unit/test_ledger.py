"""The ledger on a real disk with real processes: births, deaths, locks, rows, and what is never written."""

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lspipe import identity, ledger, rundir, sandbox
from lspipe.exits import Bug, Precondition

ROOT = Path(__file__).resolve().parents[2]
RUN = 'run = ledger.register("ls-test", ["--words", "--glob"], "source")\n'
READY = "print(run.name, flush=True)\nsys.stdin.read()\n"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own; the path is that of `run` in it."""
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LSPIPE_RUN", raising=False)
    return tmp_path / "state" / "run"


def script(body: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "from lspipe import ledger\n" + body]


@contextlib.contextmanager
def owner(body: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that registers, does `body`, prints the name of its run, and waits; killed in the end."""
    command = script(RUN + body + READY)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def killed(body: str = "") -> str:
    """The name of a run whose owner was killed."""
    with owner(body) as (process, name):
        process.kill()
        process.wait()
    return name


def in_namespace(flags: str, body: str, *arguments: str) -> str:
    """Run shell text in namespaces of its own, as root there; skip where the system does not allow it."""
    command = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), flags]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare and the right to use it")
    done = subprocess.run([*command, "sh", "-ec", body, "sh", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_layout_is_private_and_complete(state: Path) -> None:
    before = os.umask(0)
    try:
        run = ledger.register("/usr/bin/ls-rg", ["--words"], "source")
        run.add("snapshot", "history")
    finally:
        os.umask(before)
    assert run.path == str(state / run.name) and rundir.NAME.fullmatch(run.name)
    assert run.name.startswith(f"{os.getpid()}-")
    found = {p.relative_to(state.parent.parent).as_posix(): stat.S_IMODE(p.stat().st_mode)
             for p in state.parent.rglob("*")}
    base = f"state/run/{run.name}"
    assert found == {"state/run": 0o700, base: 0o700, f"{base}/tmp": 0o700, f"{base}/lock": 0o600,
                     f"{base}/owner.json": 0o600, f"{base}/1.json": 0o600}
    assert not os.get_inheritable(run._lock)
    run.close()
    run.close()
    assert os.listdir(state) == []


def test_the_owner_says_who_he_is(state: Path, monkeypatch) -> None:
    (state.parent.parent / ".git").mkdir(parents=True)
    deep = state.parent.parent / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    run = ledger.register("/usr/bin/ls-rg", ["--words", "-n"], "source")
    found = rundir.read(run.path)
    run.close()
    told = found.owner
    assert told["command"] == "ls-rg --words -n" and told["purpose"] == "source" and told["kind"] == "owner"
    assert told["cwd"] == str(deep) and told["repo_root"] == str(state.parent.parent)
    assert told["pid"] == os.getpid() and told["uid"] == os.geteuid() and told["parent_run"] is None
    assert told["boot_id"] == identity.boot_id() and told["start_ticks"] == identity.facts(os.getpid()).start_ticks


def test_a_deleted_working_directory_and_a_path_that_is_no_text_are_no_trouble(state: Path, tmp_path, monkeypatch):
    odd = os.path.join(os.fsencode(tmp_path), b"bad\xff")
    os.mkdir(odd)
    monkeypatch.chdir(odd)
    run = ledger.register("ls-rg", [], "source")
    assert rundir.read(run.path).owner["cwd"] == str(tmp_path) + "/bad\\xff"
    run.close()
    os.rmdir(odd)
    run = ledger.register("ls-rg", [], "source")
    assert rundir.read(run.path).owner["cwd"] is None
    run.close()


SECRET = "xyzzyquery"


@pytest.mark.parametrize("argv", [
    ["/usr/bin/rg", f"--glob=*{SECRET}*", "--json", "--", SECRET], ["rg", "-F", SECRET], ["rg", f"-e{SECRET}"],
    ["rg", f"--{SECRET.upper()}"], ["rg", "--json", "--", f"--{SECRET}"], ["rg", f"--a {SECRET}"],
])
def test_the_words_of_a_query_never_reach_the_disk(state: Path, argv) -> None:
    run = ledger.register("ls-rg", [f"--{SECRET} x", SECRET, f"--glob={SECRET}"], "source")
    run.add("child", "search files", command=ledger.command_line(argv))
    written = b"".join(p.read_bytes() for p in state.rglob("*.json"))
    run.close()
    assert b"rg" in written
    assert SECRET.encode() not in written.lower()


def test_command_lines_keep_program_and_option_names() -> None:
    line = ledger.command_line(["/usr/bin/rg", "--json", "-n", "--sort=path", "-g*.py", "word", "--", "--file"])
    assert line == "rg --json -n --sort -g"


def test_the_lock_is_held_until_the_owner_dies(state: Path) -> None:
    with owner() as (process, name):
        path = str(state / name)
        assert rundir.take(path).state == "held"
        process.kill()
        process.wait()
        hold = rundir.take(path)
        assert hold.state == "free"
        assert rundir.take(path).state == "held"  # by us now: two reapers never work on one run
        os.close(hold.lock)


def test_take_refuses_what_was_replaced_meanwhile(state: Path) -> None:
    name = killed()
    path = state / name
    late = os.open(path / "lock", os.O_RDWR)
    assert rundir.bury(str(path)) and not path.exists()
    fcntl.flock(late, fcntl.LOCK_EX | fcntl.LOCK_NB)  # what a slow reaper would have got
    assert rundir.take(str(path)).state == "gone"
    os.close(late)


def test_a_lock_that_was_replaced_between_the_look_and_the_lock_is_not_believed(state: Path, monkeypatch) -> None:
    path = state / killed()
    real = fcntl.flock

    def slow(lock: int, how: int) -> None:
        (path / "lock").unlink()
        (path / "lock").touch()
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    assert rundir.take(str(path)).state == "gone"


@pytest.mark.parametrize("times", [1, ledger._TRIES - 1, ledger._TRIES])
def test_a_birth_that_a_reaper_took_for_dead_is_tried_again(state: Path, monkeypatch, times: int) -> None:
    real, taken = os.mkdir, []

    def mkdir(path: str, *how: int) -> None:
        real(path, *how)
        if ".new-" in path and not path.endswith("tmp") and len(taken) < times:
            taken.append(path)
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    if times == ledger._TRIES:
        with pytest.raises(Precondition, match="it is removed while it is made"):
            ledger.register("ls-rg", [], "source")
    else:
        ledger.register("ls-rg", [], "source").close()
    assert len(taken) == times and os.listdir(state) == []


def test_a_forked_child_can_neither_close_nor_add_and_its_lock_is_not_released(state: Path) -> None:
    run = ledger.register("ls-rg", [], "source")
    pid = os.fork()
    if pid == 0:
        run.close()
        try:
            run.add("child", "x")
        except Bug:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert rundir.take(run.path).state == "held"
    run.close()
    assert os.listdir(state) == []


def test_closing_ends_what_was_started_last_in_first_out_and_goes_on_after_trouble(state: Path) -> None:
    run = ledger.register("ls-rg", [], "source")
    called = []
    run.closing.append(lambda: called.append(1))
    run.closing.append(lambda: 1 / 0)
    run.closing.append(lambda: called.append(os.path.exists(run.path)))
    run.close()
    assert called == [True, 1]
    assert os.listdir(state) == []


def test_closing_removes_whatever_a_program_left_in_tmp_and_follows_no_link(state: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    run = ledger.register("ls-rg", [], "source")
    deep = Path(run.tmp) / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (deep / "link").symlink_to(tmp_path / "precious")
    os.mkfifo(deep / "fifo")
    os.mkdir(os.fsencode(deep) + b"/bad\xff")
    deep.chmod(0o500)
    deep.parent.chmod(0o000)
    run.close()
    assert os.listdir(state) == []
    assert (tmp_path / "precious" / "file").read_text() == "x"


def test_closing_when_somebody_deleted_everything(state: Path, tmp_path: Path) -> None:
    run = ledger.register("ls-rg", [], "source")
    state.rename(tmp_path / "elsewhere")
    run.close()
    assert ledger.sweep() == 0


def test_rows_are_written_whole_released_and_never_reused(state: Path) -> None:
    run = ledger.register("ls-rg", [], "source")
    first = run.add("snapshot", "history", paths=["/a"], max_age=60)
    second = run.add("attach", "tabs", owned=False, port=9222, stop={"signal": "TERM", "grace_ms": 100})
    second.live(os.getpid(), pgid=1)
    first.live()
    found = rundir.read(run.path)
    assert found.corrupt == 0
    assert found.rows[1]["state"] == "live" and found.rows[1]["paths"] == ["/a"] and found.rows[1]["max_age"] == 60
    assert found.rows[2]["owned"] is False and found.rows[2]["port"] == 9222
    assert found.processes[2]["pid"] == os.getpid() and found.processes[2]["pgid"] == 1
    second.release()
    second.release()
    assert set(rundir.read(run.path).rows) == {1} and rundir.read(run.path).processes == {}
    assert run.add("snapshot", "x").number == 3
    run.close()


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"kind": "child"}', b'{"kind": 1, "owned": true}', b"\xff"])
def test_torn_rows_are_counted_and_never_guessed(state: Path, torn: bytes) -> None:
    run = ledger.register("ls-rg", [], "source")
    run.add("child", "x")
    for name in ("1.json", "2.pid.json"):
        Path(run.path, name).write_bytes(torn)
    Path(run.path, ".3.json").write_bytes(b"half")
    found = rundir.read(run.path)
    assert (found.corrupt, found.rows, found.processes) == (2, {}, {})
    assert found.owner is not None
    Path(run.path, "owner.json").write_bytes(torn)
    assert rundir.read(run.path).owner is None
    run.close()


def test_the_parent_run_is_known_only_within_one_state_folder(state: Path, monkeypatch) -> None:
    run = ledger.register("ls-query", [], "porcelain")
    monkeypatch.setenv("LSPIPE_RUN", run.token)
    child = ledger.register("ls-rg", [], "source")
    assert rundir.read(child.path).owner["parent_run"] == run.name
    for strange in (f"{'0' * 16}:{run.name}", f"{run.token}x", "x", f"{ledger.state_hash()}:../../x"):
        monkeypatch.setenv("LSPIPE_RUN", strange)
        assert ledger.parent_run() is None
    child.close()
    run.close()


def test_two_state_folders_have_two_hashes_and_a_link_to_one_has_the_same(state: Path, tmp_path, monkeypatch) -> None:
    ledger.register("ls-rg", [], "source").close()
    first = ledger.state_hash()
    (tmp_path / "link").symlink_to("state")
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "link"))
    assert ledger.state_hash() == first
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "other"))
    assert ledger.state_hash() != first


# Where it cannot be done


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_run_folder_that_others_can_write_is_refused(state: Path, mode: int) -> None:
    state.mkdir(parents=True)
    state.parent.chmod(0o700)
    state.chmod(mode)
    with pytest.raises(Precondition, match="others can write"):
        ledger.register("ls-rg", [], "source")
    assert ledger.sweep() == 0 and os.listdir(state) == []
    state.chmod(0o700)
    state.parent.chmod(mode)
    with pytest.raises(Precondition, match="others can write"):
        ledger.register("ls-rg", [], "source")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_run_folder_of_another_user_is_refused(state: Path) -> None:
    state.mkdir(parents=True)
    os.chown(state.parent, 12345, -1)
    with pytest.raises(Precondition, match="belongs to another user"):
        ledger.register("ls-rg", [], "source")
    os.chown(state.parent, 0, -1)
    os.chown(state, 12345, -1)
    with pytest.raises(Precondition, match="belongs to another user"):
        ledger.register("ls-rg", [], "source")
    assert ledger.sweep() == 0


FULL = RUN + """
from lspipe.exits import Precondition
kept = run.add("snapshot", "kept")
try:
    with open(run.tmp + "/fill", "wb", 0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError:
    pass
try:
    run.add("snapshot", "refused")
    print("added")
except Precondition as error:
    print(error.message)
try:
    ledger.register("ls-other", [], "source")
    print("registered")
except Precondition as error:
    print(error.message)
print(sorted(os.listdir(run.path)), len(os.listdir(os.path.dirname(run.path))))
kept.release()
print(os.path.exists(run.path + "/1.json"))
run.close()
print(os.listdir(os.environ["LSPIPE_STATE_HOME"] + "/run"))
"""


def test_a_full_disk_stops_a_resource_before_it_exists_and_never_its_end(tmp_path: Path) -> None:
    body = 'mount -t tmpfs -o size=64k,mode=700 none "$1"; LSPIPE_STATE_HOME="$1" exec "$2" -c "$3"'
    said = in_namespace("-m", body, str(tmp_path), sys.executable, script(FULL)[2]).splitlines()
    assert "No space left on device" in said[0] and "cannot write the ledger" in said[0]
    assert "No space left on device" in said[1] and "cannot register" in said[1]
    assert said[2] == "['1.json', 'lock', 'owner.json', 'tmp'] 1"
    assert said[3:] == ["False", "[]"]


READ_ONLY = """
from lspipe.exits import Precondition
try:
    ledger.register("ls-rg", [], "source")
except Precondition as error:
    print(error.message)
print(ledger.sweep())
"""


def test_a_read_only_state_folder_is_one_clear_refusal(tmp_path: Path) -> None:
    body = ('mount -t tmpfs -o mode=700 none "$1"; mkdir -m 700 "$1/run"; mount -o remount,bind,ro "$1"; '
            'LSPIPE_STATE_HOME="$1" exec "$2" -c "$3"')
    said = in_namespace("-m", body, str(tmp_path), sys.executable, script(READ_ONLY)[2]).splitlines()
    assert said == [f"cannot register in '{tmp_path}/run': Read-only file system", "0"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write_is_refused(state: Path) -> None:
    state.mkdir(parents=True)
    state.parent.chmod(0o700)
    state.chmod(0o500)
    with pytest.raises(Precondition, match="Permission denied"):
        ledger.register("ls-rg", [], "source")


def test_a_locked_down_owner_can_still_remove_his_directory(state: Path) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run = ledger.register("ls-rg", [], "source")
            box = sandbox.lock_down(sandbox.Rules(write=(run.path,), entries=(str(state),)))
            row = run.add("snapshot", "history")
            Path(run.tmp, "copy").write_bytes(b"x")
            row.live()
            run.close()
            code = 3 if box.fs == "none" else 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 3:
        pytest.skip("this kernel has no Landlock")
    assert code == 0 and os.listdir(state) == []


# Sweeping


def test_sweep_removes_the_dead_and_leaves_the_living(state: Path) -> None:
    with owner() as (_process, alive):
        dead = [killed() for _ in range(2)]
        assert set(os.listdir(state)) == {alive, *dead}
        assert ledger.sweep(1.0) == 2
        assert os.listdir(state) == [alive]


def test_sweep_keeps_to_its_budget_and_goes_on_next_time(state: Path) -> None:
    name = killed()
    for number in range(2000):
        (state / name / "tmp" / str(number)).touch()
    for number in range(50):
        shutil.copytree(state / name, state / f"1-{number:016x}", ignore=lambda folder, names: {"tmp"} & {*names})
    assert ledger.sweep(0.0) == 0
    assert 0 < ledger.sweep() < 51  # 2,000 files and 51 directories are more than 5 ms
    while os.listdir(state):
        ledger.sweep(0.2)


CHILD = """
row = run.add("child", "sleep")
pid = os.fork()
if pid == 0:
    os.closerange(3, 100)
    row.enter(group=True)
    os.execv("/bin/sleep", ["sleep", "60"])
"""


def test_sweep_leaves_a_run_with_a_living_process_to_the_reaper(state: Path) -> None:
    # A survivor by purpose: its death signal is taken back.
    body = CHILD.replace("    os.execv", "    ledger._death_signal()(0)\n    os.execv")
    with owner(body) as (process, name):
        while not (state / name / "1.pid.json").exists():
            time.sleep(0.001)
        process.kill()
        process.wait()
    assert ledger.sweep(1.0) == 0
    written = orjson.loads((state / name / "1.pid.json").read_bytes())
    pid = written["pid"]
    assert written["pgid"] == pid
    gone = identity.Process(pid)
    gone.send(signal.SIGKILL)
    while not gone.ended():
        time.sleep(0.001)
    gone.close()
    assert ledger.sweep(1.0) == 1


def test_sweep_leaves_an_intent_without_a_pid_and_rows_it_cannot_read(state: Path) -> None:
    intent = killed('run.add("child", "x")\n')
    torn = killed()
    (state / torn / "1.json").write_bytes(b"{")
    nobody = killed()
    (state / nobody / "owner.json").unlink()
    thing = killed('run.add("snapshot", "x")\nrun.add("attach", "x", owned=False).live(1)\n')
    assert ledger.sweep(1.0) == 1
    assert set(os.listdir(state)) == {intent, torn, nobody} and thing not in os.listdir(state)


def test_sweep_leaves_another_host_and_takes_an_earlier_boot(state: Path) -> None:
    names = [killed('run.add("child", "x")\n'), killed(), killed()]
    changes = {"boot_id": "old"}, {"boot_id": "old", "host_id": "other"}, {"host_id": "renamed"}
    for name, change in zip(names, changes, strict=True):
        file = state / name / "owner.json"
        file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **change}))
    assert ledger.sweep(1.0) == 2
    assert os.listdir(state) == [names[1]]


def half(state: Path, stage: str, *, lock: bool) -> Path:
    state.mkdir(parents=True, exist_ok=True)
    state.parent.chmod(0o700)
    state.chmod(0o700)
    path = state / f"{stage}77777-{os.urandom(8).hex()}"
    path.mkdir(mode=0o700)
    if lock:
        (path / "lock").touch(0o600)
    return path


@pytest.mark.parametrize("lock", [True, False])
def test_a_birth_that_was_cut_short_is_removed_once_it_cannot_go_on(state: Path, lock: bool) -> None:
    path = half(state, ".new-", lock=lock)
    with rundir.birth(str(state), fcntl.LOCK_SH) as sure:  # some birth is going on, so it may be this one
        assert sure
        assert ledger.sweep(1.0) == 0 and path.exists()
        os.utime(path, (time.time() - 59,) * 2)
        assert ledger.sweep(1.0) == 0 and path.exists()
        os.utime(path, (time.time() - 61,) * 2)
        assert ledger.sweep(1.0) == 1
    path = half(state, ".new-", lock=lock)
    assert ledger.sweep(1.0) == 1 and os.listdir(state) == []


@pytest.mark.parametrize("lock", [True, False])
def test_a_death_that_was_cut_short_is_finished(state: Path, lock: bool) -> None:
    path = half(state, ".old-", lock=lock)
    (path / "tmp").mkdir()
    assert ledger.sweep(1.0) == 1 and os.listdir(state) == []


def test_what_is_no_run_is_left_alone(state: Path) -> None:
    half(state, "", lock=True)  # without owner.json, so nobody can tell
    (state / "notes.txt").write_text("x")
    (state / ".old-notes").mkdir()
    before = sorted(os.listdir(state))
    assert ledger.sweep(1.0) == 0 and sorted(os.listdir(state)) == before


def test_births_survive_reapers_that_never_rest(state: Path) -> None:
    state.mkdir(parents=True)
    state.chmod(0o700)
    state.parent.chmod(0o700)
    sweeper = f"print(flush=True)\nwhile os.getppid() == {os.getpid()}:\n    ledger.sweep(1.0)\n"
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            process = stack.enter_context(subprocess.Popen(script(sweeper), stdout=subprocess.PIPE))
            stack.callback(process.kill)
            process.stdout.readline()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            run = ledger.register("ls-rg", [], "source")
            run.add("snapshot", "x")
            assert os.path.exists(run.path + "/lock")
            run.close()
    assert os.listdir(state) == []


def test_the_death_signal_is_checked_against_a_parent_that_is_dead_already(state: Path) -> None:
    # The grandparent forks the owner, who forks the child and dies before the child enters.
    body = RUN + """
print(run.name, flush=True)
import signal
row = run.add("stage", "x")
go, went = os.pipe()
if os.fork() == 0:
    os.close(went)
    os.read(go, 1)  # until the owner is gone
    while os.getppid() == run.pid:
        pass
    row.enter(group=False)
    print("survived", flush=True)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(script(body), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert "survived" not in done.stdout and done.stdout.count("\n") == 1


def test_enter_fails_when_the_directory_is_gone(state: Path) -> None:
    run = ledger.register("ls-rg", [], "source")
    row = run.add("stage", "x")
    os.rename(run.path, state / f".old-{run.name}")  # what a reaper does first
    pid = os.fork()
    if pid == 0:
        try:
            row.enter(group=False)
        except Precondition:
            os._exit(9)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    run.close()


def test_identity_tells_processes_apart() -> None:
    mine = identity.recorded(os.getpid())
    me = identity.Process(os.getpid())
    assert me.differs(mine) is None and not me.ended()
    assert me.differs({**mine, "start_ticks": mine["start_ticks"] + 1}) == "identity differs"
    assert me.differs({**mine, "boot_id": "other"}) == "another boot"
    assert me.differs({**mine, "pidns": 1}) == "other pid namespace"
    assert me.differs({**mine, "start_ticks": None, "pidfs_ino": None}) == "identity unknown"
    if mine["pidfs_ino"] is not None:
        assert me.differs({**mine, "pidfs_ino": "1"}) == "identity differs"
        assert me.differs({**mine, "start_ticks": None}) is None
    me.close()
    assert not identity.provably_gone(mine)
    assert identity.provably_gone({**mine, "start_ticks": mine["start_ticks"] + 1})
    assert not identity.provably_gone({**mine, "start_ticks": None, "pidfs_ino": None})
    assert not identity.provably_gone({**mine, "pidns": 1})


def test_a_zombie_has_ended_and_a_dead_pid_cannot_be_held() -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    process = identity.Process(pid)
    written = identity.recorded(pid)
    assert not process.ended()
    process.send(signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert process.ended() and identity.provably_gone(written)
    os.waitpid(pid, 0)
    with pytest.raises(ProcessLookupError):
        identity.Process(pid)
    with pytest.raises(ProcessLookupError):
        process.send(signal.SIGTERM)
    process.close()


@pytest.mark.parametrize("row", [None, "1.json", "7.pid.json"])
def test_a_directory_is_removed_without_a_descriptor_only_if_no_row_is_left(state: Path, row: str | None) -> None:
    run = ledger.register("ls-test", [], "source")
    if row is not None:
        Path(run.path, row).write_bytes(b"{}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        gone = rundir.bury(run.path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    left = list((Path(run.path).parent / f".old-{run.name}").glob("*"))
    assert gone == (row is None)
    assert {one.name for one in left} == ({row, "lock", "owner.json", "tmp"} if row else set())
    run.close()
    assert rundir.bury(str(Path(run.path).parent / f".old-{run.name}"))

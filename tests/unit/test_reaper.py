"""Owners are killed for real; what they leave is found and ended, and nothing else is."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lspipe import child, identity, ledger, reaper, rundir, schema, survey

ROOT = Path(__file__).resolve().parents[2]
SH, SLEEP = (child.find_program(name, "/bin:/usr/bin") for name in ("sh", "sleep"))
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
HEAD = f"""
import json, os, signal, subprocess, sys, time
sys.path.insert(0, {str(ROOT)!r})
from lspipe import child, identity, ledger, reaper, rundir, survey
SH, SLEEP = {SH!r}, {SLEEP!r}
def survivor():  # as where the system has no parent-death signal
    ledger._death_signal = lambda: None
def start(*argv):
    return child.spawn(run, argv, env={{}}, stdin=None, purpose="test")
def ready(*words):
    print(run.name, *words, flush=True)
    sys.stdin.read()
"""
REGISTER = HEAD + 'run = ledger.register("ls-test", [], "source")\n'


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of its own (the path is that of `run` in it), where nothing is left in the end."""
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LSPIPE_RUN", raising=False)
    ledger.register("ls-test", [], "source").close()
    yield tmp_path / "state" / "run"
    assert survey.take(ledger.state_hash()).tokens == {}


@contextlib.contextmanager
def owner(body: str) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    """A registered process that does `body`; its run and the numbers that it told when it was ready."""
    command = [sys.executable, "-c", REGISTER + body]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            name, *told = process.stdout.readline().split()
            yield process, name, list(map(int, told))
        finally:
            process.kill()


def killed(body: str) -> tuple[str, list[int]]:
    """The same, after the owner was killed."""
    with owner(body) as (process, name, told):
        process.kill()
        process.wait()
    return name, told


@contextlib.contextmanager
def decoy(*argv: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """An innocent process; it must still run at the end."""
    with subprocess.Popen(argv or (SLEEP, "60"), env={**os.environ, **environ}) as process:
        try:
            yield process
            assert process.poll() is None
        finally:
            process.kill()


def running(pid: int) -> bool:
    try:
        process = identity.Process(pid)
    except ProcessLookupError:
        return False
    process.close()
    return True


def reap(apply: bool = True, grace: float = 5.0) -> list[dict]:
    rows = list(reaper.reap(apply, grace))
    fits = schema.checker("ledger")
    for row in rows:
        assert fits(row), (row, schema.reason("ledger", row))
    return rows


def listing() -> list[dict]:
    rows = list(reaper.listing())
    fits = schema.checker("ledger")
    for row in rows:
        assert fits(row), (row, schema.reason("ledger", row))
    return rows


def told(rows: list[dict]) -> list[tuple]:
    return [(row["kind"], row["pid"], row["action"], row["done"], row["reason"]) for row in rows]


SURVIVOR = 'survivor()\none = start(SLEEP, "60")\nready(one.pid)\n'


# Found and ended


def test_a_dry_run_says_what_the_real_one_does(state: Path) -> None:
    with decoy():
        name, (pid,) = killed(SURVIVOR)
        ours = int(name.partition("-")[0])
        assert ledger.sweep(1.0) == 0
        for _ in range(2):
            assert told(reap(apply=False)) == [
                ("child", pid, "signal", False, "owner is dead"), ("owner", ours, "remove", False, "owner is dead")]
        assert running(pid) and os.listdir(state) == [name]
        states = [(row["kind"], row["pid"], row["state"], row["command"]) for row in listing()]
        assert states == [("owner", ours, "dead", "ls-test"), ("child", pid, "orphan", "sleep")]
        assert told(reap()) == [
            ("child", pid, "signal", True, "owner is dead"), ("owner", ours, "remove", True, "owner is dead")]
        assert not running(pid) and os.listdir(state) == []
        assert reap() == [] and listing() == []


@LINUX
def test_a_child_whose_pid_never_reached_a_row_is_known_by_its_token(state: Path) -> None:
    with decoy(), decoy(LSPIPE_RUN="0123456789abcdef:1-0123456789abcdef"), decoy(LSPIPE_RUN="nonsense"):
        _name, (pid,) = killed("""
row = run.add("child", "test")  # the owner dies between the fork and the row
one = subprocess.Popen([SLEEP, "60"], env={"LSPIPE_RUN": run.token})
ready(one.pid)
""")
        assert ("child", pid, "signal", True, "owner is dead") in told(reap())
        assert not running(pid) and os.listdir(state) == []


@LINUX
def test_grandchildren_in_other_sessions_are_found_when_their_parent_is_gone(state: Path) -> None:
    _name, pids = killed("""
one = start(SH, "-c", "setsid $0 60 & setsid $0 60 & echo $!; wait", SLEEP)  # dies with its parent
last = int(next(one.lines()))
ready(one.pid, last)
""")
    rows = reap()
    signalled = [row for row in rows if row["action"] == "signal"]
    assert pids[1] in [row["pid"] for row in signalled] and len(signalled) >= 2
    assert all(row["done"] for row in rows) and not any(map(running, pids))
    assert os.listdir(state) == []


@LINUX
def test_descendants_with_another_environment_are_found_through_their_parent(state: Path) -> None:
    _name, pids = killed("""
survivor()
one = start(SH, "-c", "env -i setsid $0 -c 'echo $$; exec $0 60' $1 & wait", SH, SLEEP)
ready(one.pid, int(next(one.lines())))
""")
    assert [row["pid"] for row in reap() if row["action"] == "signal"] == pids
    assert not any(map(running, pids))


@LINUX
def test_what_a_child_of_a_row_has_started_is_found_where_nobody_carries_the_token(state: Path) -> None:
    _name, pids = killed("""
survivor()
one = start(SH, "-c", "exec env -i $0 -c 'setsid $1 60 & echo $!; wait' $0 $1", SH, SLEEP)
ready(one.pid, int(next(one.lines())))
""")
    assert survey.take(ledger.state_hash()).tokens == {}
    assert [row["pid"] for row in reap() if row["action"] == "signal"] == pids
    assert not any(map(running, pids))


@LINUX
def test_a_forked_child_that_holds_the_lock_of_a_dead_owner_is_known_by_it(state: Path) -> None:
    body = """
pid = os.fork()
if pid == 0:
    signal.pause()  # and has closed nothing
ready(pid)
"""
    with owner(body) as (process, name, (pid,)):  # noqa: SIM117
        with decoy(SH, "-c", f"exec 3<{state / name / 'lock'}; exec {SLEEP} 60"):  # has it open, and no lock
            assert reap() == []
            process.kill()
            process.wait()
            assert rundir.take(str(state / name)).state == "held"
            assert ledger.sweep(1.0) == 0 and os.listdir(state) == [name]
            ours = int(name.partition("-")[0])
            assert [(row["pid"], row["state"]) for row in listing()] == [(ours, "dead"), (pid, "orphan")]
            assert told(reap(apply=False))[0] == ("child", pid, "signal", False, "owner is dead")
            assert told(reap())[0] == ("child", pid, "signal", True, "owner is dead")
            assert not running(pid) and os.listdir(state) == []


@LINUX
def test_another_reaper_at_work_on_a_dead_run_is_no_heir_of_it(state: Path) -> None:
    name, _ = killed("ready()\n")
    body = f"""
hold = rundir.take({str(state / name)!r})
print(hold.state, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", HEAD + body]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "free\n"
        assert reap() == [] and other.poll() is None and os.listdir(state) == [name]
        other.kill()
    assert told(reap())[0][2:] == ("remove", True, "owner is dead")


@LINUX
def test_a_directory_that_another_reaper_has_is_waited_for(state: Path, monkeypatch) -> None:
    """It let go of the lock between the end of the processes and the removal, and another took it."""
    name, _ = killed("ready()\n")
    verdicts = reaper.end(True)
    hold = rundir.take(str(state / f".old-{name}"))
    assert hold.state == "free"
    monkeypatch.setattr(reaper, "_OTHERS", 0.0)
    assert told(list(reaper.bury(verdicts, True)))[0][2:] == ("remove", False, "another reaper is at work on it")
    monkeypatch.undo()
    looks = []

    def looked(path: str) -> rundir.Hold:
        looks.append(path)
        if len(looks) == 2:  # It has waited, and the other one comes to its end.
            rundir.bury(path)
            os.close(hold.lock)
        return take(path)

    take = rundir.take
    monkeypatch.setattr(rundir, "take", looked)
    assert told(list(reaper.bury(verdicts, True)))[0][2:4] == ("remove", True) and len(looks) == 2
    monkeypatch.undo()
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(state.parent))
    assert os.listdir(state) == []


@LINUX
def test_a_token_without_a_directory_is_an_orphan_unless_its_owner_may_live(state: Path) -> None:
    with owner('one = subprocess.Popen([SLEEP, "60"], env={"LSPIPE_RUN": run.token})\nready(one.pid)\n') as (
            process, name, (pid,)):
        (state / name).rename(state.parent / "moved")
        assert told(reap()) == [("child", pid, "keep", False, "its owner may be alive")]
        assert [(row["pid"], row["state"]) for row in listing()] == [(pid, "unknown")]
        process.kill()
        process.wait()
        assert [(row["pid"], row["state"]) for row in listing()] == [(pid, "orphan")]
        assert told(reap()) == [("child", pid, "signal", True, "owner is dead")]
        assert not running(pid)


@LINUX
def test_a_run_that_lost_its_lock_is_dead_only_when_its_owner_is(state: Path) -> None:
    with owner("ready()\n") as (process, name, _told):
        (state / name / "lock").unlink()
        os.utime(state / name, (0, 0))
        assert told(reap())[0][2:] == ("keep", False, "has no lock")
        process.kill()
        process.wait()
        assert told(reap())[0][2:] == ("remove", True, "owner is dead")


def test_term_comes_first_then_kill(state: Path, tmp_path: Path) -> None:
    marker = tmp_path / "asked"
    _name, pids = killed(f"""
survivor()
polite = start(SH, "-c", "exec 2>/dev/null; trap 'touch {marker}; exit' TERM; echo; while :; do $0 0.05; done", SLEEP)
deaf = start(SH, "-c", "trap '' TERM; echo; while :; do $0 0.05; done", SLEEP)
next(polite.lines()), next(deaf.lines())
ready(polite.pid, deaf.pid)
""")
    rows = {row["pid"]: row for row in reap(grace=2.0)}
    assert marker.exists() and all(rows[pid]["done"] for pid in pids) and not any(map(running, pids))


def test_a_row_may_name_its_own_stop_signal(state: Path, tmp_path: Path) -> None:
    marker = tmp_path / "asked"
    killed(f"""
survivor()
row = run.add("server", "test", stop={{"signal": "INT", "grace_ms": 5000}})
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(run._lock)
    row.enter(group=True)
    signal.signal(signal.SIGINT, lambda *_: open({str(marker)!r}, "w").close() or os._exit(0))
    os.write(write, b"x")
    while True:
        signal.pause()
os.read(read, 1)
ready(pid)
""")
    assert all(row["done"] for row in reap(grace=0.0)) and marker.exists()


@LINUX
def test_what_forks_while_it_is_being_ended_is_ended_too(state: Path) -> None:
    killed("""
survivor()
one = start(SH, "-c", "exec 2>/dev/null; trap 'setsid $0 60 & exit' TERM; echo; while :; do $0 0.05; done", SLEEP)
next(one.lines())
ready(one.pid)
""")
    rows = reap()
    assert sum(row["action"] == "signal" for row in rows) >= 2 and all(row["done"] for row in rows)
    assert os.listdir(state) == []


@LINUX
def test_what_is_forked_behind_the_look_by_one_that_ends_is_found_by_the_next(state: Path, monkeypatch) -> None:
    """A look at all processes takes a while: this one is over before the child forks, and then the child ends."""
    name, (pid,) = killed("""
survivor()
one = start(SH, "-c", "trap 'setsid $0 60 & exit' USR1; echo; while :; do $0 0.05; done", SLEEP)
next(one.lines())
ready(one.pid)
""")
    look, looks = survey.take, []

    def slow(known: str) -> survey.Survey:
        seen = look(known)
        looks.append(seen)
        if len(looks) == 1:
            os.kill(pid, signal.SIGUSR1)
            while running(pid):
                pass
        return seen

    monkeypatch.setattr(survey, "take", slow)
    rows = reap()
    monkeypatch.undo()
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(state.parent))
    assert all(row["done"] for row in rows) and os.listdir(state) == []
    assert survey.take(ledger.state_hash()).tokens == {}


@LINUX
def test_what_has_started_others_is_ended_after_them(state: Path, monkeypatch) -> None:
    """A reaper that is killed in between leaves the next one a way to what cannot be found by itself."""
    _name, pids = killed("""
survivor()
one = start(SH, "-c", "env -i setsid $0 -c 'echo $$; exec $0 60' $1 & wait", SH, SLEEP)
ready(one.pid, int(next(one.lines())))
""")
    order = []
    send = identity.Process.send

    def noted(process: identity.Process, number: int) -> None:
        order.append(process.pid)
        send(process, number)

    monkeypatch.setattr(identity.Process, "send", noted)
    reap()
    monkeypatch.undo()
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(state.parent))
    assert order[:2] == pids[::-1] and not any(map(running, pids))


def test_fifty_dead_runs_and_more_in_one_go(state: Path) -> None:
    (name, _), = [killed("ready()\n")]
    for number in range(60):
        copy = state / f"1-{number:016x}"
        copy.mkdir(mode=0o700)
        for file in ("lock", "owner.json"):
            (copy / file).write_bytes((state / name / file).read_bytes())
    rows = reap()
    assert len(rows) == 61 and all(row["done"] for row in rows) and os.listdir(state) == []


# Left alone


def test_living_runs_and_their_children_are_listed_and_left_alone(state: Path) -> None:
    with owner("""
one = start(SLEEP, "60")
file = run.add("snapshot", "history", paths=["/x"])
file.live()
run.add("child", "later")
ready(one.pid)
""") as (process, name, (pid,)):
        assert reap() == []
        rows = listing()
        assert [(row["kind"], row["pid"], row["state"]) for row in rows] == [
            ("owner", process.pid, "live"), ("child", pid, "live"), ("snapshot", None, "live"),
            ("child", None, "intent")]
        assert rows[2]["paths"] == ["/x"] and rows[1]["pgid"] == pid
        assert {row["run"] for row in rows} == {name} and {row["owner"]["pid"] for row in rows} == {process.pid}
        assert running(pid) and running(process.pid)
    reap()


def test_this_run_itself_is_not_listed(state: Path) -> None:
    run = ledger.register("ls-ps", [], "porcelain")
    assert listing() == [] and reap() == []
    run.close()


def test_what_was_attached_to_is_never_signalled(state: Path) -> None:
    with decoy() as browser:
        killed(f"""
row = run.add("attach", "tabs", owned=False, port=9222)
row.live({browser.pid})
row = run.add("browser", "tabs", owned=False)
row.live({browser.pid})
ready()
""")
        rows = told(reap())
        assert rows[:2] == [("attach", browser.pid, "keep", False, "attached to, not ours"),
                            ("browser", browser.pid, "keep", False, "attached to, not ours")]
        assert rows[2][2:4] == ("remove", True) and os.listdir(state) == []


@pytest.mark.parametrize(("change", "reason"), [
    ({"start_ticks": 1}, "identity differs"), ({"pidfs_ino": "1"}, "identity differs"),
    ({"boot_id": "other"}, "another boot"), ({"pidns": 1}, "other pid namespace"),
    ({"start_ticks": None, "pidfs_ino": None}, "identity unknown")])
def test_a_pid_that_is_somebody_else_by_now_is_not_signalled(state: Path, change, reason) -> None:
    with decoy() as other:
        name, _ = killed('run.add("child", "test")\nready()\n')
        written = {**identity.recorded(other.pid), **change}
        (state / name / "1.pid.json").write_bytes(orjson.dumps(written))
        rows = told(reap())
        assert rows[0] == ("child", other.pid, "keep", False, reason)
        assert rows[1][2:] == ("remove", True, "owner is dead") and os.listdir(state) == []


@pytest.mark.parametrize("torn", [b"", b'{"kind":', b'{"kind": "child", "owned": "yes"}'])
def test_corrupt_rows_are_counted_and_the_token_decides(state: Path, torn: bytes) -> None:
    with decoy() as other:
        name, (pid,) = killed(SURVIVOR)
        (state / name / "1.json").write_bytes(torn)
        (state / name / "2.json").write_bytes(torn)
        (state / name / "2.pid.json").write_bytes(orjson.dumps(identity.recorded(other.pid)))
        assert listing()[0]["reason"] == "2 rows cannot be read"
        rows = told(reap())
        assert ("child", pid, "signal", True, "owner is dead") in rows or sys.platform != "linux"
        assert ("unknown", other.pid, "keep", False, "its row cannot be read") in rows
        assert rows[-1][2:] == ("remove", True, "owner is dead; 2 rows cannot be read")
        assert os.listdir(state) == []


def test_rows_of_wrong_types_do_no_harm(state: Path) -> None:
    name, _ = killed("ready()\n")
    (state / name / "1.json").write_bytes(orjson.dumps({
        "kind": "Bad Kind", "owned": True, "purpose": 5, "command": [], "paths": [1, "a"], "stop": 7, "exe": "x",
        "port": "p", "max_age": "x"}))
    (state / name / "1.pid.json").write_bytes(orjson.dumps({"pid": 10**9, "boot_id": None, "pgid": "x"}))
    assert [row["kind"] for row in listing()] == ["owner", "unknown"]
    reap()
    assert os.listdir(state) == []


@pytest.mark.parametrize("change", [
    {"1.pid.json": {"pid": 1 << 40}}, {"1.pid.json": {"pid": 1 << 63}}, {"1.pid.json": {"pid": True}},
    {"1.json": {"paths": 5}}, {"1.json": {"max_age": False}}, {"1.pid.json": {"pgid": True, "pidns": False}},
    {"owner.json": {"pid": 1 << 40}}, {"owner.json": {"start_ticks": False}}], ids=str)
def test_numbers_that_are_none_stop_no_run_and_no_reaper(state: Path, change: dict[str, dict]) -> None:
    name, _ = killed("run.add('child', 'x').live(int(subprocess.check_output([SH, '-c', 'echo $$'])))\nready()\n")
    for file, values in change.items():
        row = orjson.loads((state / name / file).read_bytes())
        (state / name / file).write_bytes(orjson.dumps(row | values))
    judge = schema.checker("ledger")
    assert all(map(judge, listing())) and all(map(judge, reap(apply=False)))
    ledger.sweep(60.0)
    assert all(map(judge, reap()))
    assert os.listdir(state) == []


def test_folders_in_each_other_without_end_are_removed(state: Path) -> None:
    name, _ = killed("ready()\n")
    folder = os.open(state / name / "tmp", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("below", 0o700, dir_fd=folder)
        below = os.open("below", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    reap()
    assert os.listdir(state) == []


def rewrite(state: Path, name: str, **change: object) -> None:
    file = state / name / "owner.json"
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **change}))


def test_another_host_is_reported_and_an_earlier_boot_is_only_a_directory(state: Path) -> None:
    with decoy() as other:
        names = [killed('run.add("child", "test")\nready()\n')[0] for _ in range(2)]
        for name in names:
            (state / name / "1.pid.json").write_bytes(orjson.dumps(identity.recorded(other.pid)))
        rewrite(state, names[0], boot_id="old", host_id="other")
        rewrite(state, names[1], boot_id="old")
        assert {row["run"]: row["state"] for row in listing() if row["kind"] == "owner"} == {
            names[0]: "unknown", names[1]: "dead"}
        rows = {row["run"]: row for row in reap()}
        assert rows[names[0]]["action"] == "keep" and rows[names[0]]["reason"] == "belongs to another host"
        assert rows[names[1]]["action"] == "remove" and rows[names[1]]["done"]
        assert os.listdir(state) == [names[0]]
        reap()
        assert os.listdir(state) == [names[0]]


def test_what_is_no_run_of_ours_is_reported_and_kept(state: Path, tmp_path: Path) -> None:
    name, _ = killed("ready()\n")
    (state / name).chmod(0o770)
    (state / "notes").write_text("x")
    (state / "1-0123456789abcdef").symlink_to(tmp_path)
    os.mkdir(os.fsencode(state) + b"/\xff")
    rows = reap()
    assert {row["reason"] for row in rows} == {"not a run directory of ours"} and len(rows) == 4
    assert len(os.listdir(state)) == 4


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_run_of_another_user_is_kept(state: Path) -> None:
    name, _ = killed("ready()\n")
    os.chown(state / name, 12345, 12345)
    assert told(reap())[0][2:] == ("keep", False, "not a run directory of ours")
    os.chown(state / name, 0, 0)
    reap()
    assert os.listdir(state) == []


def test_a_birth_in_progress_is_kept(state: Path) -> None:
    path = state / ".new-77777-0123456789abcdef"
    path.mkdir(mode=0o700)
    with rundir.birth(str(state), rundir.fcntl.LOCK_SH):
        assert told(reap())[0][2:] == ("keep", False, "is being made")
    assert told(reap())[0][2:] == ("remove", True, "owner is dead") and os.listdir(state) == []


@LINUX
def test_a_reaper_never_ends_itself_or_what_started_it(state: Path) -> None:
    name, _ = killed("ready()\n")
    token = f"{ledger.state_hash()}:{name}"
    body = HEAD + "print(json.dumps([row['done'] for row in reaper.reap(True)]))"
    done = subprocess.run([SH, "-c", '"$0" -c "$1"; echo after', sys.executable, body], capture_output=True,
                          text=True, env={**os.environ, "LSPIPE_RUN": token})
    assert done.stdout == "[true]\nafter\n", done.stderr


@LINUX
def test_a_row_that_names_the_reaper_or_what_started_it_ends_neither(state: Path) -> None:
    """Not even where every mark of identity is right."""
    for whose in ("os.getpid()", "os.getppid()"):
        name, _ = killed("run.add('child', 'test'); ready()\n")
        body = HEAD + f"""
rundir.write({str(state / name)!r}, "1.pid.json", identity.recorded({whose}))
print(json.dumps([row["reason"] for row in reaper.reap(True) if row["kind"] == "child"]))
"""
        done = subprocess.run([SH, "-c", '"$0" -c "$1"; echo after', sys.executable, body], capture_output=True,
                              text=True)
        assert done.stdout == '["this very command"]\nafter\n', done.stderr


@LINUX
def test_a_process_that_may_not_be_signalled_is_reported_and_its_directory_kept(state: Path, monkeypatch) -> None:
    name, (pid,) = killed(SURVIVOR)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(identity.Process, "send", refuse)
    monkeypatch.setattr(reaper, "_UNKILLABLE", 0.0)
    rows = reap(grace=0.0)
    assert told(rows)[0] == ("child", pid, "signal", False, "cannot be signalled: Operation not permitted")
    assert (rows[1]["action"], rows[1]["done"]) == ("remove", False)
    monkeypatch.undo()
    monkeypatch.setenv("LSPIPE_STATE_HOME", str(state.parent))
    assert os.listdir(state) == [f".old-{name}"]
    assert all(row["done"] for row in reap()) and not running(pid) and os.listdir(state) == []


# Namespaces


def in_namespace(body: str, state: Path) -> str:
    command = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--pid", "--fork", "--mount-proc"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare and the right to use it")
    done = subprocess.run([*command, sys.executable, "-c", HEAD + body], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@LINUX
@pytest.mark.parametrize("same_ticks", [False, True])
def test_a_forced_reuse_of_a_pid_is_refused(state: Path, same_ticks: bool) -> None:
    said = json.loads(in_namespace(f"""
read, write = os.pipe()
owner = os.fork()
if owner == 0:
    survivor()
    run = ledger.register("ls-test", [], "source")
    os.write(write, b"%d" % start(SLEEP, "60").pid)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(owner, 0)
pid = int(os.read(read, 20))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)  # we are the init of this namespace
for _ in range(1000):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    decoy = subprocess.Popen([SLEEP, "60"])
    if decoy.pid == pid:
        break
    decoy.kill(), decoy.wait()
folder = os.environ["LSPIPE_STATE_HOME"] + "/run/"
row = folder + os.listdir(folder)[0] + "/1.pid.json"
written = json.load(open(row))
if {same_ticks}:  # as two processes of one 10 ms tick have
    written["start_ticks"] = identity.facts(pid).start_ticks
    json.dump(written, open(row, "w"))
rows = list(reaper.reap(True))
print(json.dumps([decoy.pid == pid, decoy.poll(), written["pidfs_ino"] is not None,
                  [[row["action"], row["done"], row["reason"]] for row in rows], os.listdir(folder)]))
""", state))
    if not said[0]:
        pytest.skip("no pid could be reused on purpose")
    if same_ticks and not said[2]:
        pytest.skip("this kernel has no pidfs")
    assert said[1] is None  # the decoy runs
    assert said[3:] == [[["keep", False, "identity differs"], ["remove", True, "owner is dead"]], []]


@LINUX
def test_a_child_of_one_who_got_the_pid_of_a_member_is_not_taken_for_its_child(state: Path) -> None:
    said = json.loads(in_namespace("""
from lspipe import remains
owner = os.fork()
if owner == 0:
    survivor()
    run = ledger.register("ls-test", [], "source")
    start(SLEEP, "60")
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(owner, 0)
(run,) = remains.in_folder()
remains.read_members(run, set())
(member,) = run.members
pid = member.process.pid
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)  # we are the init of this namespace
for _ in range(1000):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    other = subprocess.Popen([SH, "-c", "$0 60 & echo $!; wait", SLEEP], stdout=subprocess.PIPE, env={})
    child = int(other.stdout.readline())
    if other.pid == pid:
        break
    other.kill(), other.wait()
remains.find_members(run, survey.take(ledger.state_hash()), set())
print(json.dumps([other.pid == pid, identity.facts(child).ppid == pid, len(run.members)]), flush=True)
os._exit(0)
""", state))
    if not said[0]:
        pytest.skip("no pid could be reused on purpose")
    assert said[1:] == [True, 1]


@LINUX
def test_another_pid_namespace_is_only_a_directory(state: Path) -> None:
    said = json.loads(in_namespace("""
run = ledger.register("ls-test", [], "source")
survivor()
one = start(SLEEP, "60")
two = subprocess.Popen([SLEEP, "60"], env={"LSPIPE_RUN": run.token})
print(json.dumps([run.name, one.pid, two.pid]), flush=True)
os._exit(0)  # and the namespace ends with its init
""", state))
    name = said[0]
    row = state / name / "1.pid.json"
    with decoy() as other:  # with the number that the child had over there
        row.write_bytes(orjson.dumps({**orjson.loads(row.read_bytes()), "pid": other.pid}))
        assert ledger.sweep(1.0) == 0  # it names a process that cannot be judged from here
        rows = told(reap())
        assert rows[0] == ("child", other.pid, "keep", False, "other pid namespace")
        assert rows[1][2:] == ("remove", True, "owner is dead") and os.listdir(state) == []


@LINUX
def test_a_living_token_of_another_pid_namespace_is_not_signalled(state: Path) -> None:
    command = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--pid", "--fork", "--mount-proc"]
    body = REGISTER + """
one = subprocess.Popen([SLEEP, "60"], env={"LSPIPE_RUN": run.token})
os.close(run._lock)  # as if it were dead
ready(one.pid)
"""
    with subprocess.Popen([*command, sys.executable, "-c", body], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        if not line:
            pytest.skip("needs unshare and the right to use it")
        rows = reap()
        assert ("keep", False, "other pid namespace") in [(r["action"], r["done"], r["reason"]) for r in rows]
        assert not any(row["action"] == "signal" for row in rows)
        seen = survey.take(ledger.state_hash()).tokens
        assert len(seen) == 1  # it runs on
        assert [(r["action"], r["reason"]) for r in reap()] == [("keep", "other pid namespace")]
        process.stdin.close()
        process.wait()


# All at once

STORM = HEAD + """
import random, shutil
OWNERS, AT_ONCE = 80, 12
random.seed(7)
me = ledger.register("ls-storm", [], "porcelain")
decoys = [subprocess.Popen([SLEEP, "60"], env={"LSPIPE_RUN": token}) for token in
          ("", me.token, "0" * 16 + ":" + me.name) for _ in range(3)]

def work(number):
    global run
    if number % 2:
        survivor()
    run = ledger.register("ls-test", [], "source")
    with open(run.tmp + "/snapshot", "wb") as file:
        file.write(b"x" * 10000)
    start(SLEEP, "60")
    start(SH, "-c", "setsid $0 60 & exec $0 60", SLEEP)
    if number % 5 == 0:
        os.fork()  # holds the lock
    time.sleep(60)

read, write = os.pipe()
reaping = os.fork()
if reaping == 0:
    while os.getppid() == me.pid:
        try:
            os.write(write, b"x" * sum(row["action"] == "signal" for row in reaper.reap(True, 0.5)))
            ledger.sweep(0.005)
        except Exception as error:
            print("reaper:", repr(error), file=sys.stderr)
    os._exit(0)

alive, killed = {}, 0
for number in range(OWNERS):
    pid = os.fork()
    if pid == 0:
        try:
            work(number)
        finally:
            os._exit(1)
    alive[pid] = time.monotonic() + random.random() * (0.08 if number % 3 else 0.4)
    while len(alive) >= AT_ONCE or (number == OWNERS - 1 and alive):
        for pid, end in list(alive.items()):
            if time.monotonic() >= end:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                killed += os.WIFSIGNALED(status)
                del alive[pid]
        time.sleep(0.001)
os.kill(reaping, signal.SIGKILL)  # in the middle of whatever it does
os.waitpid(reaping, 0)
last = list(reaper.reap(True, 0.5))
os.set_blocking(read, False)
folder = os.path.dirname(me.path)
left = survey.take(ledger.state_hash()).tokens
print(json.dumps({"killed": killed, "signalled": len(os.read(read, 1 << 16)),
                  "undone": [row for row in last if not row["done"]],
                  "folders": [name for name in os.listdir(folder) if name != me.name],
                  "tokens": sorted(name for name in left if name != me.name),
                  "decoys": [process.poll() for process in decoys]}))
for process in decoys:
    process.kill()
    process.wait()
me.close()
"""


@LINUX
def test_a_storm_of_killed_owners_leaves_nothing_and_harms_nobody(state: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    said = json.loads(done.stdout)
    assert said["killed"] == 80
    assert said["signalled"] > 0  # half of those who got so far have children that outlive them
    assert said["undone"] == said["folders"] == said["tokens"] == []
    assert said["decoys"] == [None] * 9
    assert os.listdir(state) == []

"""Those who share a machine: two homes, two users, containers with one home, and clocks that jump. Each sees to its
own dead, and nobody to those of others.
"""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest
import support
from support import Home

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

#: A registered owner with a child that outlives it, as where there is no parent-death signal; says its child's pid.
OWNER = """
import sys
sys.path.insert(0, ROOT)
from lspipe import child, ledger
ledger._death_signal = lambda: None
run = ledger.register("ls-test", [], "source")
one = child.spawn(run, ["/bin/sleep", "600"], env={}, stdin=None, purpose="test")
print(one.pid, flush=True)
sys.stdin.read()
""".replace("ROOT", repr(str(support.ROOT)))


def home_at(place: Path) -> Home:
    place.mkdir()
    return Home(place, sample=True)


@contextlib.contextmanager
def owner(home: Home, *before: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """An owner, run by the program `before`, and the pid that his child has where he is."""
    with subprocess.Popen([*before, sys.executable, "-c", OWNER], env=home.env(), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            told = process.stdout.readline()
            assert told, process.stderr.read()
            yield process, int(told)
        finally:
            process.kill()


@contextlib.contextmanager
def decoy() -> Iterator["subprocess.Popen[bytes]"]:
    """An innocent process; it must still run at the end."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
            assert process.poll() is None
        finally:
            process.kill()


def tokens(home: Home) -> list[int]:
    """The processes that carry the token of any run of this home."""
    known = hashlib.sha256(os.fsencode(os.path.realpath(home.state / "run"))).hexdigest()[:16].encode()
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"LSPIPE_RUN=" + known in Path(entry.path, "environ").read_bytes():
                found.append(int(entry.name))
    return found


def clean(home: Home) -> list[tuple[str, str, bool]]:
    done = home.run("ls-clean", "--apply")
    assert done.code == 0, done
    return [(row["kind"], row["action"], row["done"]) for row in done.rows]


GONE = [("child", "signal", True), ("owner", "remove", True)]


def test_two_homes(tmp_path: Path) -> None:
    one, two = home_at(tmp_path / "one"), home_at(tmp_path / "two")
    with owner(one) as (first, child), owner(two) as (second, other):
        for process in (first, second):
            process.kill()
            process.wait()
        assert clean(one) == GONE and tokens(one) == [] and one.runs == []
        assert tokens(two) == [other] and len(two.runs) == 1 and child != other
        assert clean(one) == [] and tokens(two) == [other]
        assert clean(two) == GONE and tokens(two) == [] and two.runs == []


def test_a_home_by_two_names_is_one(tmp_path: Path) -> None:
    one = home_at(tmp_path / "one")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    with owner(one) as (process, child):
        process.kill()
        process.wait()
        done = one.run("ls-clean", "--apply", env=one.env(LSPIPE_STATE_HOME=str(tmp_path / "link/state")))
        assert [row["pid"] for row in done.rows if row["action"] == "signal" and row["done"]] == [child]
        assert tokens(one) == [] and one.runs == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_two_users(tmp_path: Path) -> None:
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    for folder in (*tmp_path.parents, tmp_path):
        if folder.stat().st_mode & 0o005 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    mine, theirs = home_at(tmp_path / "mine"), home_at(tmp_path / "theirs")
    for folder, _names, files in os.walk(theirs.root):
        for name in ("", *files):
            os.lchown(os.path.join(folder, name), 12345, 12345)
    tried = subprocess.run([*user, sys.executable, "-c", "import orjson, click"], capture_output=True)
    if tried.returncode != 0:
        pytest.skip("only root whose Python others can run")
    with owner(mine) as (first, child), owner(theirs, *user) as (second, other):
        for process in (first, second):
            process.kill()
            process.wait()
        refused = mine.run("ls-clean", "--apply", env=mine.env(LSPIPE_STATE_HOME=str(theirs.state)))
        assert (refused.code, refused.out) == (5, b"") and b"another user" in refused.err
        assert clean(mine) == GONE and tokens(mine) == [] and tokens(theirs) == [other]
        done = subprocess.run([*user, *support.command("ls-clean", "--apply")], env=theirs.env(), capture_output=True)
        assert done.returncode == 0, done
        assert tokens(theirs) == [] and theirs.runs == [] and child != other


def container() -> Sequence[str]:
    """A program that runs another one in namespaces of its own, as a container does."""
    before = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        subprocess.run([*before, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare and the right to use it")
    return before


def test_containers_that_share_a_home(tmp_path: Path) -> None:
    """A run that is locked is alive, whatever its pid means here; its end is seen from everywhere."""
    home = home_at(tmp_path / "home")
    inside = container()
    with owner(home, *inside) as (process, there):
        name, = home.runs
        with decoy() as other:
            row = home.state / "run" / name / "1.pid.json"
            row.write_bytes(orjson.dumps({**orjson.loads(row.read_bytes()), "pid": other.pid}))
            assert clean(home) == [] and home.runs == [name]
            states = {row["kind"]: row["state"] for row in home.run("ls-ps").rows}
            assert states["owner"] == "live"
            # One that has died over there, seen from a third place.
            process.kill()
            process.wait()
            support.until(lambda: not tokens(home), "the container has ended")
            done = subprocess.run([*inside, *support.command("ls-clean", "--apply")], env=home.env(),
                                  capture_output=True, timeout=support.PATIENCE)
            assert done.returncode == 0 and not any(b'"signal"' in line for line in done.stdout.splitlines()), done
            assert home.runs == [] and there > 0


def test_a_dead_owner_here_is_not_for_a_reaper_in_a_container(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    inside = container()
    with owner(home) as (process, child):
        process.kill()
        process.wait()
        done = subprocess.run([*inside, *support.command("ls-clean", "--apply")], env=home.env(), capture_output=True,
                              timeout=support.PATIENCE)
        assert done.returncode == 0 and not any(b'"signal"' in line for line in done.stdout.splitlines()), done
        assert tokens(home) == [child]
        clean(home)
        assert tokens(home) == [] and home.runs == []


@pytest.mark.parametrize("moment", [0, 315_532_800, 1_900_000_000, 2**33])
def test_a_clock_that_jumps(tmp_path: Path, moment: float) -> None:
    """Who is alive is for the kernel to say, not for a clock: neither times of files nor those in rows count."""
    home = home_at(tmp_path / "home")
    check = next(one for one in support.executables() if one.name == "ls-check")
    with support.at_work(home, check), owner(home) as (process, _child):
        process.send_signal(signal.SIGSTOP)
        living = set(home.runs)
        assert len(living) == 2
        for path in (home.state / "run").rglob("*.json"):
            row = orjson.loads(path.read_bytes())
            if "created" in row:
                path.write_bytes(orjson.dumps({**row, "created": int(moment * 1e6)}))
        for path in (*(home.state / "run").rglob("*"), home.state / "run"):
            os.utime(path, (moment, moment))
        assert clean(home) == [] and set(home.runs) == living
        home.run("ls-check", stdin=b"")  # Sweeps.
        assert set(home.runs) == living
        process.kill()
        process.wait()
        for path in (home.state / "run").rglob("*"):
            os.utime(path, (moment, moment))
        assert clean(home) == GONE and len(home.runs) == 1 and tokens(home) == []


def test_a_clock_since_boot_that_differs(tmp_path: Path) -> None:
    """In a time namespace start ticks read otherwise, and so prove nothing: what can be seen there is found by the
    token; the rest, where it is a container of another user as well, from outside."""
    home = home_at(tmp_path / "home")
    before = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--time", "--boottime", "100000", "--fork"]
    try:
        subprocess.run([*before, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare and the right to use it")
    with owner(home) as (process, child), decoy():
        elsewhere = [*before, *support.command("ls-clean", "--apply")]
        done = subprocess.run(elsewhere, env=home.env(), capture_output=True, timeout=support.PATIENCE)
        assert (done.returncode, done.stdout) == (0, b"") and tokens(home) == [child]
        process.kill()
        process.wait()
        done = subprocess.run(elsewhere, env=home.env(), capture_output=True, timeout=support.PATIENCE)
        assert done.returncode == 0, done
        home.run("ls-clean", "--apply")
        assert tokens(home) == [] and home.runs == []

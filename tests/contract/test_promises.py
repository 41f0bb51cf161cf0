"""The promises with something at stake: SIGKILL while a snapshot, a running rg or stages are held; a profile that
nobody granted, which is a trap that would hold whoever opens it.
"""

import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import orjson
import pytest
import support
from support import Home

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


def tree(folder: Path, count: int = 6000) -> None:
    """Enough text to keep rg busy while somebody looks."""
    pick = random.Random(3)
    lines = [f"async word{pick.randrange(99)} line {number} " + "x" * 60 + "\n" for number in range(400)]
    for number in range(count):
        place = folder / f"{number // 100:03}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:05}.txt").write_text("".join(pick.choices(lines, k=40)))


def rows_of_runs(home: Home) -> list[dict[str, object]]:
    """Every row file of every run that can be read at this moment."""
    found = []
    for path in (home.state / "run").glob("*/*.json"):
        try:
            found.append(orjson.loads(path.read_bytes()))
        except (OSError, orjson.JSONDecodeError):
            continue
    return found


def children_of(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def family_of(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        found += children_of(one)
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def cleaned(home: Home, mine: list[int], decoy: "subprocess.Popen[bytes]") -> None:
    """ls-ps shows what is left, ls-clean names it and touches nothing, --apply removes it; the decoy lives."""
    before = home.runs
    assert before
    names = {row["run"] for row in home.run("ls-ps").rows}
    assert names & set(before)
    dry = home.run("ls-clean")
    assert dry.code == 0 and {row["run"] for row in dry.rows} & set(before)
    assert not any(row["done"] for row in dry.rows)
    assert home.runs == before
    done = home.run("ls-clean", "--apply")
    assert done.code == 0, done.err
    assert all(row["done"] for row in done.rows)
    assert home.runs == []
    support.until(lambda: not any(map(alive, mine)), "every process of the dead run has ended")
    assert decoy.poll() is None
    assert home.run("ls-ps").out == b""


@linux
@pytest.mark.parametrize("name", ["ls-rg", "ls-query"])
def test_killed_with_a_running_rg_or_stages(home: Home, name: str) -> None:
    tree(home.home / "notes/many")
    args = {"ls-rg": ["async", "notes"], "ls-query": ["--source", "files,history", "async"]}[name]
    reader, writer = support.full_pipe()
    rg = shutil.which("rg", path=home.env()["PATH"])
    assert rg is not None, "rg is not installed"
    with subprocess.Popen([rg, "--json", "-f", "-", "--", str(home.home)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as decoy:
        with home.start(name, *args, stdout=writer) as process:
            os.close(writer)
            kinds = {"ls-rg": "child", "ls-query": "stage"}[name]
            support.until(lambda: any(row.get("kind") == kinds for row in rows_of_runs(home)), "it holds a " + kinds,
                          process)
            mine = family_of(process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait(support.PATIENCE)
        os.close(reader)
        try:
            cleaned(home, mine, decoy)
        finally:
            decoy.kill()


@linux
def test_killed_with_a_snapshot_on_disk(home: Home) -> None:
    """A database too large for memory is copied to a file that has no name any more: a kill leaves a directory."""
    profile = home.home / ".config/chromium/Default"
    shutil.rmtree(profile)
    import sqlite3

    profile.mkdir()
    base = sqlite3.connect(profile / "History")
    base.executescript("""
        CREATE TABLE urls(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, visit_count INTEGER DEFAULT 0,
            typed_count INTEGER DEFAULT 0, last_visit_time INTEGER NOT NULL, hidden INTEGER DEFAULT 0);
        CREATE TABLE visits(id INTEGER PRIMARY KEY, url INTEGER NOT NULL, visit_time INTEGER NOT NULL,
            from_visit INTEGER, transition INTEGER DEFAULT 805306368);
    """)
    base.executemany("INSERT INTO urls(url, title, last_visit_time) VALUES(?, ?, 13400000000000000)", (
        (f"https://example.org/{number}?" + "a" * 1000, "async page") for number in range(72_000)))
    base.execute("INSERT INTO visits(url, visit_time) SELECT id, last_visit_time FROM urls")
    base.commit()
    base.close()
    assert (profile / "History").stat().st_size > 64 << 20
    reader, writer = support.full_pipe()

    def holds(pid: int) -> bool:
        links = []
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                links.append(os.readlink(fd))
            except OSError:
                continue
        return any(str(home.state) in link and link.endswith("(deleted)") for link in links)

    with subprocess.Popen(["sleep", "600"]) as decoy:
        with home.start("ls-history", "async", stdout=writer) as process:
            os.close(writer)
            support.until(lambda: holds(process.pid), "it holds the snapshot", process)
            assert not [path for path in (home.state / "run").rglob("*") if path.stat().st_size > 1 << 20]
            process.send_signal(signal.SIGKILL)
            process.wait(support.PATIENCE)
        os.close(reader)
        try:
            cleaned(home, [process.pid], decoy)
        finally:
            decoy.kill()


@pytest.mark.parametrize("name", ["ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading", "ls-query"])
def test_a_profile_without_a_grant_is_never_opened(home: Home, name: str) -> None:
    """Its files are FIFOs: an open would wait for ever, or be seen by strace."""
    trap = home.home / ".config/chromium/Profile 1"
    trap.mkdir()
    for file in ("History", "History-journal", "Bookmarks", "Preferences", "Cookies", "Login Data"):
        os.mkfifo(trap / file)
    (trap / "Sessions").mkdir()
    os.mkfifo(trap / "Sessions/Session_13440000000000000")
    (trap / "Sync Data/LevelDB").mkdir(parents=True)
    os.mkfifo(trap / "Sync Data/LevelDB/000003.log")
    other = home.home / ".mozilla/firefox/zzzzzzzz.other"
    other.mkdir()
    for file in ("sessionstore.jsonlz4", "places.sqlite", "places.sqlite-wal", "cookies.sqlite", "logins.json",
                 "key4.db"):
        os.mkfifo(other / file)
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = home.root / "strace"
    for args in (["async"], ["--profile", "chromium/Profile 1", "async"], ["--profile", "Profile 1", "async"]):
        done = subprocess.run(
            [strace, "-f", "-qq", "-s", "4096", "-e", "trace=open,openat,openat2", "-o", str(log),
             *support.command(name, *args)],
            env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
        assert done.returncode in (0, 5, 7), done.stderr
        opened = log.read_text(errors="replace").splitlines()
        assert not [line for line in opened if "Profile 1" in line or "zzzz" in line]
        assert b"Traceback" not in done.stderr
    assert home.run(name, "--profile", "chromium/Profile 1", "async").code == 5 or name == "ls-query"


def test_secrets_of_a_granted_profile_are_refused_by_the_kernel(home: Home) -> None:
    profile = home.home / ".config/chromium/Default"
    for name in ("Cookies", "Login Data"):
        (profile / name).write_text("secret")
    for command in ("ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading"):
        answers = home.run(command, "--sandbox-report").rows
        for name in ("Cookies", "Login Data"):
            tried = [row for row in answers if row["attempt"] == f"read {profile / name}"]
            assert tried and all(row["kernel"] == "EACCES" for row in tried)
        assert all(row["ok"] for row in answers), [row for row in answers if not row["ok"]]


@linux
def test_a_stage_that_stands_still_is_late_and_the_others_answer(home: Home) -> None:
    os.mkfifo(home.home / "notes/.ignore")  # ripgrep waits for its writer, so that the stage is there to be stopped.

    def stage() -> int:
        for row in (home.state / "run").glob("*/*.json"):
            try:
                if orjson.loads(row.read_bytes()).get("purpose") == "files":
                    return int(orjson.loads(row.with_suffix(".pid.json").read_bytes())["pid"])
            except (OSError, orjson.JSONDecodeError, KeyError):
                continue
        return 0

    with home.start("ls-query", "--json", "--timeout", "2s", "--source", "files,history", "async") as process:
        support.until(stage, "the stage is there", process)
        mine = family_of(stage())
        os.kill(mine[0], signal.SIGSTOP)
        out, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 7, err
    answer = orjson.loads(out)
    assert ("files", "late") in {(one["source"], one["reason"]) for one in answer["privacy"]["excluded_sources"]}
    assert {row["source"] for row in answer["results"]} == {"history"}
    support.until(lambda: not any(map(alive, mine)), "every process of the stage has ended")
    assert home.run("ls-clean", "--apply").code == 0
    assert home.runs == []

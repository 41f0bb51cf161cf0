"""snapshot: consistent copies of live databases, and originals that nobody can tell were read."""

import contextlib
import gc
import os
import resource
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import profiles
import pytest
from profiles import Page

from lspipe import live, snapshot
from lspipe.snapshot import Unusable

TABLES = ("urls", "visits", "meta", "t", "u")


@pytest.fixture(params=["memory", "file"])
def how(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Both kinds of copies, whatever the size."""
    if request.param == "memory":
        return {}
    return {"run_tmp": str(tmp_path_factory.mktemp("run")), "memory": 0}


def rows(path: Path, sql: str, how: dict[str, object], tables: tuple[str, ...] = TABLES) -> list[tuple[object, ...]]:
    source = snapshot.open_all(str(path))
    try:
        conn = snapshot.connect(source, tables=tables, **how)  # type: ignore[arg-type]
        with contextlib.closing(conn):
            return conn.execute(sql).fetchall()
    finally:
        source.close()
        if "run_tmp" in how:
            assert os.listdir(str(how["run_tmp"])) == []


def descriptors() -> int:
    gc.collect()  # What an earlier test left to it must not be closed between two counts.
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


# ---- real profiles


@pytest.mark.parametrize(("name", "expected"), [("running", False), ("running_pending_commit", False),
                                                ("sigkill", True)])
def test_real_chromium(tmp_path: Path, how: dict[str, object], name: str, expected: bool) -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    folder = profiles.copied(profiles.FIXTURES / "chromium" / name, tmp_path / "profile")
    before = profiles.look(folder)
    found = {str(url) for url, in rows(folder / "Default/History", "SELECT url FROM urls", how)}
    assert len(found) >= 39
    assert any(url.endswith("/n/just-now") for url in found) is expected
    assert any(url.endswith("/n/before-kill") for url in found) is (name == "sigkill")
    assert not any("incognito-secret" in url or "lost-in-kill" in url for url in found)
    assert profiles.look(folder) == before


def test_real_firefox_has_the_visit_that_is_only_in_the_log(tmp_path: Path, how: dict[str, object]) -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    folder = profiles.copied(profiles.FIXTURES / "firefox/running", tmp_path / "profile")
    before = profiles.look(folder)
    sql = "SELECT url FROM moz_places"
    found = {str(url) for url, in rows(folder / "places.sqlite", sql, how, ("moz_places",))}
    assert "http://127.0.0.1:8765/n/just-now" in found
    assert profiles.look(folder) == before
    (folder / "places.sqlite-wal").unlink()
    found = {str(url) for url, in rows(folder / "places.sqlite", sql, how, ("moz_places",))}
    assert "http://127.0.0.1:8765/n/just-now" not in found


def test_access_times_stay(tmp_path: Path) -> None:
    if not hasattr(os, "O_NOATIME"):
        pytest.skip("no O_NOATIME on this system")
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    os.utime(path, ns=(10**18, 2 * 10**18))
    rows(path, "SELECT * FROM urls", {})
    assert path.stat().st_atime_ns == 10**18


# ---- writers that live and writers that died


KILLED = """
import os, signal, sqlite3, sys
path, mode = sys.argv[1:3]
conn = sqlite3.connect(path, isolation_level=None)
conn.execute("PRAGMA locking_mode = EXCLUSIVE")
conn.execute(f"PRAGMA journal_mode = {mode}")
conn.execute("PRAGMA cache_size = 3")
conn.execute("BEGIN")
conn.execute("UPDATE urls SET title = 'torn ' || title || hex(randomblob(200))")
conn.execute("DELETE FROM visits WHERE id % 2")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST"])
def test_hot_journal_of_a_killed_browser(tmp_path: Path, how: dict[str, object], mode: str) -> None:
    pages = [Page(f"http://a.test/{number}", f"title {number} " * 20) for number in range(400)]
    path = profiles.chromium_history(tmp_path / "p", pages)
    sql = "SELECT u.id, u.url, u.title, v.visit_time FROM urls u JOIN visits v ON v.url = u.id ORDER BY u.id"
    clean, whole = rows(path, sql, how), path.read_bytes()
    subprocess.run([sys.executable, "-c", KILLED, str(path), mode], check=False)
    assert path.read_bytes() != whole, "nothing reached the file: the case is empty"
    before = profiles.look(path.parent)
    assert rows(path, sql, how) == clean
    assert profiles.look(path.parent) == before


LIVE = """
import random, sqlite3, sys, time
path, mode = sys.argv[1:3]
conn = sqlite3.connect(path, isolation_level=None)
conn.execute("PRAGMA locking_mode = EXCLUSIVE")
conn.execute(f"PRAGMA journal_mode = {mode}")
conn.execute("PRAGMA cache_size = 4")
conn.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v, pad)")
conn.execute("CREATE TABLE IF NOT EXISTS u (k INTEGER PRIMARY KEY, v, pad)")
conn.execute("BEGIN")
for table in ("t", "u"):
    conn.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, 0, hex(randomblob(300)))", [(n,) for n in
    range(200)])
conn.execute("COMMIT")
print("ready", flush=True)
number = 0
while True:
    number += 1
    conn.execute("BEGIN")
    conn.execute("UPDATE t SET v = ?, pad = hex(randomblob(300))", (number,))
    conn.execute("UPDATE u SET v = ?, pad = hex(randomblob(300))", (number,))
    conn.execute("COMMIT")
    if sys.argv[3] == "once":
        break
    time.sleep(random.random() * 0.3)
print("done", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def browser(path: Path, mode: str, often: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", LIVE, str(path), mode, often], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None
    try:
        assert process.stdout.readline() == "ready\n"
        if often == "once":
            assert process.stdout.readline() == "done\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("mode", ["TRUNCATE", "WAL"])
def test_exclusively_locked_database(tmp_path: Path, how: dict[str, object], mode: str) -> None:
    path = tmp_path / "live.db"
    with browser(path, mode, "once"):
        with contextlib.closing(sqlite3.connect(path, timeout=0)) as conn, \
                pytest.raises(sqlite3.OperationalError, match="locked"):
            conn.execute("SELECT * FROM t")
        assert rows(path, "SELECT max(v), min(v), count(*) FROM t", how) == [(1, 1, 200)]


@pytest.mark.parametrize("mode", ["TRUNCATE", "WAL"])
def test_busy_writer_is_seen_before_or_after_a_commit_never_between(
        tmp_path: Path, how: dict[str, object], mode: str) -> None:
    path = tmp_path / "live.db"
    whole = 0
    with browser(path, mode, "always"):
        for _ in range(6):
            try:
                found = rows(path, "SELECT max(v), min(v), count(*) FROM (SELECT v FROM t UNION ALL SELECT v FROM u)",
                             how)
            except Unusable as error:
                assert error.reason == "failed" and "is writing" in error.message
                continue
            (newest, oldest, count), = found
            assert newest == oldest and count == 400
            whole += 1
    assert whole, "not one copy was whole: the case is empty"
    assert rows(path, "SELECT count(*) FROM t", how) == [(200,)]  # and after its end, killed as it was


def test_journal_that_came_after_we_looked(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        other = Path(f"{path}-journal")
        other.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(1000))
        with pytest.raises(Unusable, match="is writing"):
            snapshot.connect(source, tables=TABLES)
        other.write_bytes(b"")
        snapshot.connect(source, tables=TABLES).close()
        other.unlink()
        snapshot.connect(source, tables=TABLES).close()


def test_database_that_was_replaced(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        path.rename(tmp_path / "old")
        profiles.chromium_history(tmp_path, [Page("http://b.test/")])
        with pytest.raises(Unusable, match="is writing"):
            snapshot.connect(source, tables=TABLES)


def test_tables_that_are_only_in_the_log(tmp_path: Path, how: dict[str, object]) -> None:
    """A fresh profile: one page in the file itself, all else still in its log."""
    path = tmp_path / "places.sqlite"
    script = ("import os, sqlite3, sys; conn = sqlite3.connect(sys.argv[1]); conn.execute('PRAGMA journal_mode = WAL');"
              "conn.execute('CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT)');"
              "conn.execute(\"INSERT INTO moz_places VALUES (1, 'http://a.test/')\"); conn.commit(); os._exit(0)")
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert path.stat().st_size <= 4096 and Path(f"{path}-wal").stat().st_size > 4096
    assert rows(path, "SELECT url FROM moz_places", how, ("moz_places",)) == [("http://a.test/",)]


# ---- what is refused


def refused(path: Path, how: dict[str, object], tables: tuple[str, ...] = TABLES) -> Unusable:
    before = descriptors()
    with pytest.raises(Unusable) as caught:
        rows(path, "SELECT * FROM urls", how, tables)
    assert path.name.removesuffix("-journal") in caught.value.message or "'urls'" in caught.value.message
    assert descriptors() == before
    return caught.value


def test_things_that_are_no_database_file(tmp_path: Path, how: dict[str, object]) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    began = time.monotonic()
    for name, words in (("fifo", "regular"), ("link", "symbolic link"), ("loop", "symbolic link"),
                        ("folder", "regular")):
        error = refused(tmp_path / name, how)
        assert error.reason == "not-readable" and words in error.message
    assert refused(tmp_path / "absent", how).reason == "not-found"
    assert refused(tmp_path / "absent/History", how).reason == "not-found"
    assert time.monotonic() - began < 5


def test_a_link_that_comes_between_the_look_and_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "History").symlink_to("target")
    look = os.stat  # A moment before the file itself was there.
    monkeypatch.setattr(os, "stat", lambda *what, **how: look(*what, **{**how, "follow_symlinks": True}))
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(Unusable) as caught:
            live.open_at(folder, "History")
        assert caught.value.reason == "not-readable"
    finally:
        os.close(folder)


def test_journal_that_is_a_fifo(tmp_path: Path, how: dict[str, object]) -> None:
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    os.mkfifo(f"{path}-journal")
    assert refused(path, how).reason == "not-readable"


def test_file_of_another_user(tmp_path: Path) -> None:
    path = Path("/etc/passwd")  # root's, where the tests run as somebody else
    if os.geteuid() == 0:
        path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
        os.chown(path, 65534, 65534)
    assert "another user" in refused(path, {}).message


def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    path.chmod(0)
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    assert refused(path, {}).reason == "not-readable"


@pytest.mark.parametrize(("content", "words"), [
    (b"", "empty"), (b"hello", "not an SQLite database"), (os.urandom(5000), "not an SQLite database"),
    (b"SQLite format 3\0" + bytes(5000), "")])
def test_bytes_that_are_no_database(tmp_path: Path, how: dict[str, object], content: bytes, words: str) -> None:
    path = tmp_path / "History"
    path.write_bytes(content)
    error = refused(path, how)
    assert error.reason == "failed" and words in error.message


@pytest.mark.parametrize("made", [
    "CREATE VIEW urls AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS url FROM c",
    "CREATE VIRTUAL TABLE urls USING fts5(url)"])
def test_urls_that_is_no_table(tmp_path: Path, how: dict[str, object], made: str) -> None:
    path = tmp_path / "History"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE visits (id)")
    conn.execute(made)
    conn.commit()
    conn.close()
    error = refused(path, how)
    assert error.reason == "failed" and "'urls' is not a table" in error.message


def test_damaged_databases_end_in_an_answer_or_a_reason(tmp_path: Path, how: dict[str, object]) -> None:
    import random

    rng = random.Random(3)
    whole = profiles.chromium_history(tmp_path, [Page(f"http://a.test/{n}", "x" * 99) for n in range(90)]).read_bytes()
    path = tmp_path / "torn"
    for _ in range(60):
        torn = bytearray(whole)
        for _ in range(rng.randint(1, 30)):
            torn[rng.randrange(16, len(torn))] = rng.randrange(256)
        path.write_bytes(torn)
        os.utime(path, ns=(0, 0))
        with contextlib.suppress(Unusable, *snapshot.FAULTS):
            rows(path, "SELECT id, url, title FROM urls WHERE url LIKE '%a%'", how)


def test_disk_that_is_full(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = profiles.chromium_history(tmp_path, [Page(f"http://a.test/{n}", "x" * 999) for n in range(900)])
    run_tmp = tmp_path_factory.mktemp("run")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(Unusable, match="cannot copy 'History': file too large"):
            rows(path, "SELECT * FROM urls", {"run_tmp": str(run_tmp), "memory": 0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(run_tmp) == []


# ---- confinement


@pytest.fixture
def conn(tmp_path: Path, how: dict[str, object]) -> Iterator[sqlite3.Connection]:
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/", b"Gr\xfc\xdfe"), Page("http://b.test/")])
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        conn = snapshot.connect(source, tables=("urls", "visits"), **how)  # type: ignore[arg-type]
    yield conn
    conn.close()


@pytest.mark.parametrize("sql", [
    "SELECT * FROM downloads", "SELECT * FROM meta", "DELETE FROM urls", "INSERT INTO urls (url) VALUES ('x')",
    "CREATE TEMP TABLE x (y)", "ATTACH ':memory:' AS other", "PRAGMA journal_mode = WAL", "PRAGMA writable_schema = 1",
    "SELECT load_extension('x')", "SELECT randomblob(10) FROM urls", "SELECT readfile('/etc/passwd')",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c",
    "SELECT * FROM sqlite_sequence", "SELECT * FROM pragma_database_list", "VACUUM INTO '/tmp/x'"])
def test_only_named_tables_can_be_read(conn: sqlite3.Connection, sql: str) -> None:
    with pytest.raises(sqlite3.DatabaseError):
        conn.execute(sql).fetchall()
    assert len(conn.execute("SELECT id, url FROM urls").fetchall()) == 2


def test_text_is_decoded_with_replacement(conn: sqlite3.Connection) -> None:
    assert conn.execute("SELECT title FROM urls WHERE id = 1").fetchone() == ("Gr\ufffd\ufffde",)


def test_columns_are_those_of_the_table(conn: sqlite3.Connection) -> None:
    assert {"id", "url", "title", "hidden"} <= snapshot.columns(conn, "urls")
    assert snapshot.columns(conn, "nothing") == frozenset()


LONG = "SELECT count(*) FROM visits a, visits b, visits c, visits d, visits e, visits f"


def long_statement(tmp_path: Path, how: dict[str, object], stop: object = None) -> sqlite3.Connection:
    path = profiles.chromium_history(tmp_path, [Page(f"http://a.test/{number}") for number in range(200)])
    with contextlib.closing(snapshot.open_all(str(path))) as source:
        return snapshot.connect(source, tables=("urls", "visits"), stop=stop, **how)  # type: ignore[arg-type]


def test_time_that_is_over_at_the_beginning_is_no_fault_of_the_file(tmp_path: Path, how: dict[str, object]) -> None:
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    with contextlib.closing(sqlite3.connect(path)) as base:
        for number in range(300):  # It is asked every few hundred steps.
            base.execute(f"CREATE TABLE more{number} (x)")
    with contextlib.closing(snapshot.open_all(str(path))) as source, pytest.raises(sqlite3.OperationalError) as caught:
        snapshot.connect(source, tables=("urls", "visits"), stop=lambda: True, **how)  # type: ignore[arg-type]
    assert snapshot.interrupted(caught.value)


def test_stop_ends_a_long_statement(tmp_path: Path, how: dict[str, object]) -> None:
    asked = iter([False] * 5)
    conn = long_statement(tmp_path, how, lambda: next(asked, True))
    with pytest.raises(sqlite3.OperationalError) as caught:
        conn.execute(LONG).fetchone()
    assert snapshot.interrupted(caught.value)
    assert next(asked, None) is None
    with pytest.raises(sqlite3.Error) as other:
        conn.execute("SELECT nothing FROM urls")
    assert not snapshot.interrupted(other.value)
    conn.close()


def test_signal_is_heeded_during_a_long_statement(tmp_path: Path, how: dict[str, object]) -> None:
    class Alarm(BaseException):
        pass

    def ring(_number: int, _frame: object) -> None:
        raise Alarm

    conn = long_statement(tmp_path, how)
    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    began = time.monotonic()
    try:
        with pytest.raises((Alarm, sqlite3.OperationalError)) as caught:
            conn.execute(LONG).fetchone()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert time.monotonic() - began < 30, "the statement ran on"
    if isinstance(caught.value, sqlite3.Error):
        assert snapshot.interrupted(caught.value)
    conn.close()


# ---- small files


def test_read_file(tmp_path: Path) -> None:
    (tmp_path / "Bookmarks").write_bytes(b"x" * 1000)
    folder = os.open(tmp_path, os.O_RDONLY)
    fd = snapshot.open_at(folder, "Bookmarks")
    assert snapshot.read_file(fd, "Bookmarks", 1000) == b"x" * 1000
    with pytest.raises(Unusable, match="'Bookmarks' has 0 MiB; at most 0 MiB are read"):
        snapshot.read_file(fd, "Bookmarks", 999)
    assert stat.S_ISREG(os.fstat(fd).st_mode) and os.get_inheritable(fd) is False
    os.close(fd)
    os.close(folder)


def test_journal_of_a_database_that_was_empty(tmp_path: Path, how: dict[str, object]) -> None:
    """It is torn or forged: what it leaves is nothing, for which SQLite's deserialize has a MemoryError."""
    path = profiles.chromium_history(tmp_path, [Page("http://a.test/")])
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, 0, 512, 4096)
    Path(f"{path}-journal").write_bytes(head.ljust(8192, b"\0"))
    assert "0 bytes" in refused(path, how).message

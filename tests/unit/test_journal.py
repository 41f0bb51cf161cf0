"""journal: what comes out is what SQLite itself recovers, for whole, torn and forged files."""

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lspipe import journal

WRITER = """
import os, signal, sqlite3, sys
path, mode, locking, pages = sys.argv[1:5]
conn = sqlite3.connect(path, isolation_level=None)
conn.execute(f"PRAGMA locking_mode = {locking}")
conn.execute(f"PRAGMA journal_mode = {mode}")
conn.execute("PRAGMA synchronous = NORMAL")
conn.execute(f"PRAGMA cache_size = {pages}")
conn.execute("BEGIN")
conn.execute("UPDATE t SET v = 'changed ' || k || v WHERE k % 3 = 0")
conn.executemany("INSERT INTO t (v) VALUES (?)", [("late " * 40,)] * 800)
conn.execute("DELETE FROM t WHERE k % 7 = 1")
conn.execute("UPDATE t SET v = v || 'again' WHERE k % 5 = 2")
os.kill(os.getpid(), signal.SIGKILL)
"""


def build(path: Path, page_size: int = 1024, rows: int = 600) -> None:
    conn = sqlite3.connect(path)
    conn.execute(f"PRAGMA page_size = {page_size}")
    conn.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
    conn.executemany("INSERT INTO t (v) VALUES (?)", [(f"row {n} " * 12,) for n in range(rows)])
    conn.commit()
    conn.close()


def killed_writer(path: Path, mode: str, locking: str = "EXCLUSIVE", pages: int = 5) -> bytes:
    """The journal that a writer leaves when it is killed in the middle of a transaction that has spilled."""
    done = subprocess.run([sys.executable, "-c", WRITER, str(path), mode, locking, str(pages)], check=False)
    assert done.returncode == -signal.SIGKILL
    return Path(f"{path}-journal").read_bytes()


def recovered_by_sqlite(where: Path, db: bytes, suffix: str, side: bytes) -> bytes | None:
    """The bytes of a database after SQLite's own recovery; None where SQLite refuses to open it."""
    where.mkdir(exist_ok=True)
    path = where / "copy.db"
    for old in where.iterdir():
        old.unlink()
    path.write_bytes(db)
    Path(f"{path}{suffix}").write_bytes(side)
    conn = sqlite3.connect(path, isolation_level=None)
    try:
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if suffix == "-wal":
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        return None
    finally:
        conn.close()
    return path.read_bytes()


def content(db: bytes) -> list[str]:
    conn = sqlite3.connect(":memory:")
    conn.deserialize(journal.without_wal_mode(db[:20]) + db[20:])
    assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return list(conn.iterdump())


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST"])
@pytest.mark.parametrize("page_size", [512, 1024, 4096, 65536])
def test_hot_journal_of_a_killed_writer(tmp_path: Path, mode: str, page_size: int) -> None:
    path = tmp_path / "t.db"
    build(path, page_size)
    before = path.read_bytes()
    rollback = killed_writer(path, mode)
    torn = path.read_bytes()
    assert journal.is_hot(rollback)
    assert torn != before, "the writer never reached the database: the case is empty"
    result = journal.apply_journal(torn, rollback)
    assert result == recovered_by_sqlite(tmp_path / "own", torn, "-journal", rollback)
    assert content(result) == content(before)


def test_journal_has_several_segments_in_these_tests(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    build(path)
    rollback = killed_writer(path, "DELETE")
    assert rollback.count(journal.JOURNAL_MAGIC) > 2


def test_journal_without_spill_is_cold_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    build(path)
    before = path.read_bytes()
    rollback = killed_writer(path, "TRUNCATE", pages=100_000)
    assert len(rollback) > 1000 and not journal.is_hot(rollback)
    assert path.read_bytes() == before
    assert journal.apply_journal(before, rollback) == before


def hand_journal(pages: dict[int, bytes], limit: int, *, sector: int, page_size: int,
                 count: int | None = None, nonce: int = 0xFFFFFF00) -> bytes:
    """A rollback journal by the letter of the file format, one segment a page unless `count` is given."""
    out = bytearray()
    items = list(pages.items())
    groups = [items] if count is not None else [[item] for item in items]
    for group in groups:
        records = len(group) if count is None else count
        header = journal.JOURNAL_MAGIC + struct.pack(">5I", records, nonce, limit, sector, page_size)
        out += bytes(-len(out) % sector) + header.ljust(sector, b"\0")
        for number, page in group:
            at, checksum = page_size - 200, nonce
            while at > 0:
                checksum += page[at]
                at -= 200
            out += struct.pack(">I", number) + page + struct.pack(">I", checksum & 0xFFFFFFFF)
    return bytes(out)


@pytest.mark.parametrize("sector", [32, 512, 4096, 65536])
@pytest.mark.parametrize("count", [None, 0xFFFFFFFF])
def test_sector_sizes_and_unsynced_journals(tmp_path: Path, sector: int, count: int | None) -> None:
    path = tmp_path / "t.db"
    build(path)
    before = path.read_bytes()
    pages = {n: before[(n - 1) * 1024:n * 1024] for n in (1, 3, 9, len(before) // 1024)}
    torn = bytearray(before + bytes(5 * 1024))
    for number in pages:
        torn[(number - 1) * 1024:number * 1024] = os.urandom(1024)
    torn[:100] = before[:100]
    rollback = hand_journal(pages, len(before) // 1024, sector=sector, page_size=1024, count=count)
    if len(rollback) < 512:
        pytest.skip("a journal below 512 bytes is none")
    assert journal.apply_journal(torn, rollback) == before
    assert recovered_by_sqlite(tmp_path / "own", bytes(torn), "-journal", rollback) == before


def test_super_journal_is_read_from_the_end() -> None:
    name = b"/tmp/x-mj0A1B"
    tail = struct.pack(">I", 1) + name + struct.pack(">II", len(name), sum(name)) + journal.JOURNAL_MAGIC
    assert journal.super_journal(b"\0" * 600 + tail) == name
    assert journal.super_journal(b"\0" * 600 + tail[:-1] + b"\0") is None
    wrong = struct.pack(">I", 1) + name + struct.pack(">II", len(name), sum(name) + 1) + journal.JOURNAL_MAGIC
    assert journal.super_journal(b"\0" * 600 + wrong) is None


@pytest.mark.parametrize("limit", [0x7FFFFFFF, 0xFFFFFFFF])
def test_forged_page_count_allocates_nothing(limit: int) -> None:
    rollback = hand_journal({1: bytes(65536)}, limit, sector=512, page_size=65536)
    assert journal.journal_patch(rollback, 4096) is None


# ---- write-ahead logs


def wal_pair(where: Path, page_size: int = 1024, batches: int = 12) -> tuple[bytes, bytes]:
    """A database and its log as a running browser leaves them: nothing checkpointed, several commits."""
    path = where / "w.db"
    build(path, page_size, rows=60)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA wal_autocheckpoint = 0")
    for batch in range(batches):
        conn.execute("BEGIN")
        conn.executemany("INSERT INTO t (v) VALUES (?)", [(f"batch {batch} {n} " * 9,) for n in range(25)])
        conn.execute("DELETE FROM t WHERE k % 11 = ?", (batch % 11,))
        conn.execute("COMMIT")
    pair = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    conn.close()
    return pair


def naive_checksum(data: bytes, state: tuple[int, int], order: str) -> tuple[int, int]:
    s0, s1 = state
    for x0, x1 in struct.iter_unpack(order + "II", data):
        s0 = (s0 + x0 + s1) & 0xFFFFFFFF
        s1 = (s1 + x1 + s0) & 0xFFFFFFFF
    return s0, s1


def with_byte_order(wal: bytes, order: str) -> bytes:
    """The same log with checksums over words in `order`, as another machine would write them."""
    page_size, = struct.unpack(">I", wal[8:12])
    head = struct.pack(">I", 0x377F0682 | (order == ">")) + wal[4:24]
    state = naive_checksum(head, (0, 0), order)
    out = bytearray(head + struct.pack(">II", *state))
    for at in range(32, len(wal) - 24 - page_size + 1, 24 + page_size):
        state = naive_checksum(wal[at:at + 8] + wal[at + 24:at + 24 + page_size], state, order)
        out += wal[at:at + 16] + struct.pack(">II", *state) + wal[at + 24:at + 24 + page_size]
    return bytes(out)


def same_as_sqlite(where: Path, db: bytes, wal: bytes) -> bytes:
    result = journal.apply_wal(db, wal)
    own = recovered_by_sqlite(where, db, "-wal", wal)
    if own is not None:
        assert result == own
    return result


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("page_size", [512, 1024, 4096, 65536])
def test_wal_in_both_byte_orders(tmp_path: Path, page_size: int, order: str) -> None:
    db, wal = wal_pair(tmp_path, page_size)
    wal = with_byte_order(wal, order)
    result = same_as_sqlite(tmp_path / "own", db, wal)
    assert result != db
    assert content(result) == content(recovered_by_sqlite(tmp_path / "own", db, "-wal", wal) or b"")


def test_wal_that_outgrows_a_batch(tmp_path: Path) -> None:
    db, wal = wal_pair(tmp_path, 512, batches=60)
    assert len(wal) > 2 * 512 * 536
    same_as_sqlite(tmp_path / "own", db, wal)


def test_stale_frames_behind_a_restart_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    build(path, rows=60)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA wal_autocheckpoint = 0")
    conn.executemany("INSERT INTO t (v) VALUES (?)", [("x" * 500,)] * 200)
    conn.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    conn.execute("INSERT INTO t (v) VALUES ('after the restart')")
    db, wal = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    conn.close()
    patch = journal.wal_patch(wal, len(db))
    assert patch is not None and len(patch.pages) < 5 < len(wal) // 1048
    assert "after the restart" in str(content(same_as_sqlite(tmp_path / "own", db, wal)))


def test_uncommitted_frames_are_cut(tmp_path: Path) -> None:
    db, wal = wal_pair(tmp_path)
    frame = 24 + 1024
    starts = range(32, len(wal) - frame + 1, frame)
    commits = [n for n, at in enumerate(starts) if wal[at + 4:at + 8] != bytes(4)]
    middle = commits[5]
    cut = wal[:32 + (middle + 2) * frame + 100]
    assert journal.apply_wal(db, cut) == journal.apply_wal(db, wal[:32 + (middle + 1) * frame])
    same_as_sqlite(tmp_path / "own", db, cut)


def test_forged_wal_size_allocates_nothing(tmp_path: Path) -> None:
    db, wal = wal_pair(tmp_path, batches=1)
    frame = 24 + 1024
    forged = bytearray(wal)
    last = 32 + ((len(wal) - 32) // frame - 1) * frame
    forged[last + 4:last + 8] = b"\xff\xff\xff\xff"
    assert journal.wal_patch(with_byte_order(bytes(forged), "<"), len(db)) is None


def test_database_of_no_bytes_has_no_journals(tmp_path: Path) -> None:
    _, wal = wal_pair(tmp_path)
    assert journal.apply_wal(b"", wal) == b""
    assert journal.apply_journal(b"", hand_journal({1: bytes(1024)}, 1, sector=512, page_size=1024)) == b""


# ---- anything at all


@pytest.fixture(scope="module")
def torn_journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, bytes]:
    where = tmp_path_factory.mktemp("journal")
    path = where / "t.db"
    build(path)
    rollback = killed_writer(path, "TRUNCATE")
    return where / "own", path.read_bytes(), rollback


@pytest.fixture(scope="module")
def live_wal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, bytes]:
    where = tmp_path_factory.mktemp("wal")
    return where / "own", *wal_pair(where)


damage = st.tuples(st.floats(0, 1), st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=3))


def damaged(data: bytes, how: tuple[float, list[tuple[float, int]]]) -> bytes:
    out = bytearray(data[:int(len(data) * how[0])])
    for place, mask in how[1]:
        if out:
            out[min(int(place * len(out)), len(out) - 1)] ^= mask
    return bytes(out)


@settings(max_examples=60, deadline=None)
@given(how=damage)
def test_torn_journals_as_sqlite_reads_them(torn_journal: tuple[Path, bytes, bytes],
                                            how: tuple[float, list[tuple[float, int]]]) -> None:
    where, db, rollback = torn_journal
    torn = damaged(rollback, how)
    result = journal.apply_journal(db, torn)
    own = recovered_by_sqlite(where, db, "-journal", torn)
    if own is not None and journal.super_journal(torn) is None and len(own) < 4 * (len(db) + len(torn)):
        assert result == own


@settings(max_examples=60, deadline=None)
@given(how=damage)
def test_torn_wals_as_sqlite_reads_them(live_wal: tuple[Path, bytes, bytes],
                                        how: tuple[float, list[tuple[float, int]]]) -> None:
    where, db, wal = live_wal
    same_as_sqlite(where, db, damaged(wal, how))


@given(db=st.binary(max_size=2000), side=st.binary(max_size=3000), size=st.integers(0, 1 << 40))
def test_nothing_raises_on_any_bytes(db: bytes, side: bytes, size: int) -> None:
    for head in (b"", journal.JOURNAL_MAGIC, struct.pack(">III", 0x377F0682, 3007000, 512)):
        journal.apply_journal(db, head + side)
        journal.apply_wal(db, head + side)
        journal.journal_patch(head + side, size, db)
        journal.wal_patch(head + side, size)
        journal.super_journal(side + head)
    assert journal.is_hot(side) is side.startswith(journal.JOURNAL_MAGIC)

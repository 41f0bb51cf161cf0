"""ls-reading as it is run: the list in log and tables, of this machine and the account, damaged, or not there."""

import os
from pathlib import Path
from typing import Any

import profiles
import pytest
from profiles import DAY, NOON
from sessions import batch, leveldb_log, leveldb_table, manifest, reading
from support import Home
from test_browser_commands import chromium, reported
from test_browser_commands import grant as granted

NOW = ("--now", "2026-07-21T13:00:00Z")
A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"


def grant(path: Path, browser: str = "chromium", data: tuple[str, ...] = ("reading",)) -> dict[str, Any]:
    return granted(path, browser, data)


def key(url: str, account: bool = False) -> bytes:
    return (b"A-" if account else b"") + b"reading_list-dt-" + url.encode()


def database(profile: Path, files: dict[str, bytes]) -> Path:
    """The database of a profile."""
    folder = profile / "Sync Data/LevelDB"
    folder.mkdir(parents=True)
    for name, data in {**files, "LOCK": b"", "LOG": b"text"}.items():
        (folder / name).write_bytes(data)
    return folder


def test_the_reading_list(bare: Home) -> None:
    log = leveldb_log(
        batch(10, (key(A), reading(A, "Anton needle", added=NOON - DAY, status=2)),
              (key(B), reading(B, "Berta", status=1, read=NOON))),
        batch(20, (key("http://gone.test/"), reading("http://gone.test/", "gone"))),
        batch(30, (key("http://gone.test/"), None), (b"other-key", b"x")))
    table = leveldb_table([(key(C), 3, reading(C, "Cäsar", added=NOON - 2 * DAY, status=0)),
                           (key(B, account=True), 4, reading(B, "Berta again")),
                           (key("http://d.test/", account=True), 5, reading("http://d.test/", "Dora", added=NOON - 9))])
    database(chromium(bare), {**manifest([5], log=7), "000005.ldb": table, "000007.log": log})
    bare.consent(grant(chromium(bare)))
    before = profiles.look(bare.home)
    done = bare.run("ls-reading", *NOW)
    assert done.code == 0 and done.err == b""
    assert [(row["url"], row["meta"]["status"], row["meta"].get("opened"), row["provenance"]["origin"])
            for row in done.rows] == [
        (B, "read", None, "local"), ("http://d.test/", "unread", False, "account"), (A, "unread", False, "local"),
        (C, "unread", True, "local")]
    assert done.rows[0]["meta"]["read_at"] == done.rows[0]["accessed_at"] == "2026-07-21T12:00:00.000000Z"
    assert [row["url"] for row in bare.run("ls-reading", "--unread").rows] == ["http://d.test/", A, C]
    assert [row["url"] for row in bare.run("ls-reading", "needle", "casar").rows] in ([A, C], [C, A])
    assert [row["url"] for row in bare.run("ls-reading", *NOW, "--since", "3h").rows] == [B, "http://d.test/"]
    found = bare.run("ls-reading", *NOW, "needle").rows[0]
    assert found["corpus"] == [{"id": "reading:chromium/Default", "n": 4, "df": {"needle": 1}}]
    assert profiles.look(bare.home) == before and bare.runs == []


def test_no_list_is_an_empty_one(bare: Home) -> None:
    chromium(bare).mkdir(parents=True)
    other = bare.home / ".mozilla/firefox/x"
    other.mkdir(parents=True)
    bare.consent(grant(chromium(bare)), grant(other, "firefox"))
    done, report = reported(bare, "ls-reading")
    assert (done.code, done.out, done.err) == (0, b"", b"")
    assert report["notes"] == ["firefox/x: its browser has no reading list"]


def test_bad_databases_do_not_hide_the_good_ones(bare: Home) -> None:
    good = leveldb_log(batch(1, (key(A), reading(A, "x"))))
    for name in ("Good", "Torn", "Pipe", "Link", "Missing"):
        chromium(bare, name).mkdir(parents=True)
    database(chromium(bare, "Good"), {**manifest(log=3), "000003.log": good})
    torn = bytearray(leveldb_log(batch(1, (key(B), reading(B, "x"))), batch(2, (key(C), reading(C, "y")))))
    torn[20] ^= 255
    database(chromium(bare, "Torn"), {**manifest(log=3), "000003.log": bytes(torn)})
    os.mkfifo(database(chromium(bare, "Pipe"), manifest(log=3)) / "000003.log")
    (chromium(bare, "Link") / "Sync Data").symlink_to(chromium(bare, "Good") / "Sync Data")
    database(chromium(bare, "Missing"), {**manifest([8], log=3), "000003.log": good.replace(b"a.test", b"m.test")})
    bare.consent(*(grant(chromium(bare, name)) for name in ("Good", "Torn", "Pipe", "Link", "Missing")))
    before = profiles.look(bare.home)
    done, report = reported(bare, "ls-reading")
    assert done.code == 7 and A in {row["url"] for row in done.rows}
    assert {entry["profile"]: entry["reason"] for entry in report["skipped"]} == {
        "Torn": "failed", "Pipe": "not-readable", "Link": "not-readable", "Missing": "failed"}
    assert {row["provenance"]["profile"] for row in done.rows} <= {"Good", "Torn", "Missing"}
    assert profiles.look(bare.home) == before and b"Traceback" not in done.err


def test_without_consent(bare: Home) -> None:
    database(chromium(bare), {**manifest(log=3), "000003.log": leveldb_log(batch(1, (key(A), reading(A, "x"))))})
    bare.consent(grant(chromium(bare), data=("bookmarks",)))
    done = bare.run("ls-reading")
    assert done.code == 5 and done.out == b"" and b"--data reading" in done.err


def test_the_reading_list_of_a_real_profile(bare: Home) -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    root = profiles.copied(profiles.FIXTURES / "chromium/running", bare.home / "c")
    bare.consent(grant(root / "Default"))
    before = profiles.look(bare.home)
    done = bare.run("ls-reading", "--now", "2027-01-01T00:00:00Z")
    assert done.code == 0 and done.err == b""
    assert len(done.rows) == 2 and {row["meta"]["status"] for row in done.rows} == {"read", "unread"}
    assert all(row["title"] and row["accessed_at"] for row in done.rows)
    assert profiles.look(bare.home) == before and bare.runs == []

"""ls-history and ls-bookmarks as they are run: several profiles, bad ones among them, nothing changed, nothing left."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import profiles
import pytest
from profiles import DAY, NOON, Mark, Page, Visit, url_node
from support import Home
from test_snapshot import KILLED

NOW = ("--now", "2026-07-21T13:00:00Z")


def grant(path: Path, browser: str = "chromium", data: tuple[str, ...] = ("history", "bookmarks")) -> dict[str, Any]:
    return {"family": "browser", "browser": browser, "profile": path.name, "data": list(data), "path": str(path)}


def chromium(home: Home, name: str = "Default") -> Path:
    return home.home / ".config/chromium" / name


def reported(home: Home, name: str, *args: str) -> tuple[Any, dict[str, Any]]:
    """How it ended, and its report."""
    done = home.run(name, *NOW, "--report", str(home.root / "report"), *args)
    return done, orjson.loads((home.root / "report").read_bytes())


def test_bad_profiles_do_not_hide_the_good_ones(bare: Home) -> None:
    good = [Page("http://good.test/", "needle")]
    names = ["fifo", "link", "folder", "empty", "text", "view", "torn", "absent", "Good", "Hot"]
    for name in names:
        chromium(bare, name).mkdir(parents=True)
    os.mkfifo(chromium(bare, "fifo") / "History")
    secret = profiles.chromium_history(bare.root / "elsewhere", [Page("http://secret.test/", "needle")])
    (chromium(bare, "link") / "History").symlink_to(secret)
    (chromium(bare, "folder") / "History").mkdir()
    (chromium(bare, "empty") / "History").write_bytes(b"")
    (chromium(bare, "text") / "History").write_bytes(b"needle\n" * 999)
    conn = sqlite3.connect(chromium(bare, "view") / "History")
    conn.executescript("CREATE TABLE visits (url, visit_time); CREATE VIEW urls AS SELECT 1 AS id, 'needle' AS url;")
    conn.close()
    whole = profiles.chromium_history(chromium(bare, "torn"), good * 200).read_bytes()
    (chromium(bare, "torn") / "History").write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    profiles.chromium_history(chromium(bare, "Good"), good)
    hot = profiles.chromium_history(chromium(bare, "Hot"), [
        Page(f"http://hot.test/{n}", "needle " * 99) for n in range(99)])
    subprocess.run([sys.executable, "-c", KILLED, str(hot), "TRUNCATE"], check=False)
    bare.consent(*(grant(chromium(bare, name)) for name in names))
    before = profiles.look(bare.home)
    began = time.monotonic()
    done, report = reported(bare, "ls-history", "needle")
    assert time.monotonic() - began < 30
    assert done.code == 7
    assert {row["url"].partition("/")[2].partition("/")[0] for row in done.rows} == {""}
    assert {row["provenance"]["profile"] for row in done.rows} == {"Good", "Hot"}
    assert sum(row["provenance"]["profile"] == "Hot" for row in done.rows) == 99
    assert not any("torn " in (row["title"] or "") for row in done.rows), "rolled back"
    reasons = {entry["profile"]: (entry["reason"], entry["detail"]) for entry in report["skipped"]}
    assert {name: reason for name, (reason, _) in reasons.items()} == {
        "fifo": "not-readable", "link": "not-readable", "folder": "not-readable", "empty": "failed", "text": "failed",
        "view": "failed", "torn": "failed", "absent": "not-found"}
    assert "symbolic link" in reasons["link"][1] and "0 bytes" in reasons["empty"][1]
    assert "'urls' is not a table" in reasons["view"][1] and "not an SQLite database" in reasons["text"][1]
    lines = done.err.decode().splitlines()
    assert all(line.startswith("ls-history: ") for line in lines) and b"Traceback" not in done.err
    assert "ls-history: cannot read profile 'chromium/fifo': 'History': not a regular file" in lines
    assert profiles.look(bare.home) == before and bare.runs == []
    strict = bare.run("ls-history", "--strict", "needle")
    assert strict.code == 7 and strict.out == b"" and len(strict.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["ls-history", "ls-bookmarks"])
def test_without_consent(bare: Home, name: str) -> None:
    profiles.chromium_history(chromium(bare), [Page("http://a.test/")])
    os.mkfifo(chromium(bare) / "Bookmarks")
    done = bare.run(name, "a")
    assert done.code == 5 and done.out == b""
    first, second = done.err.decode().splitlines()
    assert "no consent" in first and second.startswith("ls-consent grant browser --data ")
    bare.consent(grant(chromium(bare), data=("history",)))
    assert bare.run("ls-bookmarks").code == 5
    assert bare.run("ls-history").code == 0


def test_profile_that_was_replaced(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), [Page("http://a.test/")])
    pinned = {**grant(chromium(bare)), "ino": str(chromium(bare).stat().st_ino), "dev": None, "boot_id": None}
    bare.consent(pinned)
    assert bare.run("ls-history").code == 0
    chromium(bare).rename(chromium(bare, "Old"))
    profiles.chromium_history(chromium(bare), [Page("http://b.test/")])
    done = bare.run("ls-history")
    assert done.code == 5 and b"changed since the grant" in done.err and done.out == b""


def test_profiles_by_name(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), [Page("http://a.test/", "one")])
    profiles.chromium_history(chromium(bare, "Profile 2"), [Page("http://b.test/", "two")])
    root = bare.home / ".mozilla/firefox"
    profiles.firefox_places(root / "x1.work", [Page("http://c.test/", "three")])
    profiles.local_state(bare.home / ".config/chromium", {"Default": "Person 1", "Profile 2": "Arbeit / 🦊"})
    profiles.profiles_ini(root, ("Profile0", {"Name": "default", "Path": "x1.work", "StoreID": "abc"}))
    profiles.profile_group(root, "abc", {"x1.work": "Grouped"})
    bare.consent(grant(chromium(bare)), grant(chromium(bare, "Profile 2")), grant(root / "x1.work", "firefox"))

    def found(*selectors: str) -> set[str]:
        done = bare.run("ls-history", *(f"--profile={selector}" for selector in selectors))
        assert done.code == 0, done.err
        return {row["url"] for row in done.rows}

    assert found() == {"http://a.test/", "http://b.test/", "http://c.test/"}
    assert found("chromium") == {"http://a.test/", "http://b.test/"}
    assert found("Arbeit / 🦊") == found("chromium/Profile 2") == {"http://b.test/"}
    assert found("Person 1", "Grouped") == {"http://a.test/", "http://c.test/"}
    names = {row["provenance"]["profile"]: row["provenance"].get("profile_name")
             for row in bare.run("ls-history").rows}
    assert names == {"Default": "Person 1", "Profile 2": "Arbeit / 🦊", "x1.work": "Grouped"}
    ranks = [(row["rank"], row["url"]) for row in bare.run("ls-history").rows]
    assert [rank for rank, _ in ranks] == [1, 2, 3]
    assert bare.run("ls-history", "--profile", "Default", "--profile", "Nobody").code == 3


def test_figures_of_each_profile_and_one_ranking(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), [
        Page("http://a.test/", "rare needle"), *(Page(f"http://a.test/{n}", "needle") for n in range(3))])
    other = profiles.firefox_places(bare.home / ".mozilla/firefox/x", [
        Page("http://b.test/", "needle"), Page("http://c.test/", "other")]).parent
    bare.consent(grant(chromium(bare)), grant(other, "firefox"))
    done = bare.run("ls-history", *NOW, "rare", "needle")
    assert done.rows[0]["url"] == "http://a.test/" and done.rows[0]["matched_terms"] == ["rare", "needle"]
    corpora = {row["corpus"][0]["id"]: row["corpus"][0] for row in done.rows}
    assert corpora == {
        "history:chromium/Default": {"id": "history:chromium/Default", "n": 4, "df": {"rare": 1, "needle": 4}},
        "history:firefox/x": {"id": "history:firefox/x", "n": 2, "df": {"rare": 0, "needle": 1}}}
    assert len({row["score"] for row in done.rows if row["matched_terms"] == ["needle"]}) == 1
    assert [row["id"] for row in done.rows[1:]] == sorted(row["id"] for row in done.rows[1:])
    assert bare.run("ls-history", *NOW, "rare", "needle").out == done.out
    cut, report = reported(bare, "ls-history", "-n", "2", "needle")
    assert len(cut.rows) == 2 and report["truncated"]


def test_the_same_page_has_the_same_id_in_every_later_run(bare: Home) -> None:
    """Results of overlapping runs can be put together: fused, they are there once."""
    old = [Page(f"http://a.test/{number}", "needle") for number in range(3)]
    profiles.chromium_history(chromium(bare), old)
    bare.consent(grant(chromium(bare)))
    first = bare.run("ls-history", *NOW, "needle")
    (chromium(bare) / "History").unlink()
    profiles.chromium_history(chromium(bare), [Page("http://b.test/", "needle"), *reversed(old)])
    second = bare.run("ls-history", *NOW, "needle")
    ids = [{row["url"]: row["id"] for row in done.rows} for done in (first, second)]
    assert len(ids[0]) == 3 and ids[0].items() <= ids[1].items() and len(set(ids[1].values())) == 4
    assert len(bare.run("ls-fuse", "--dedupe", "id", stdin=first.out + second.out).rows) == 4


def test_nothing_of_the_real_profiles_changes(bare: Home) -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    roots = [profiles.copied(profiles.FIXTURES / "chromium" / name, bare.home / name)
             for name in ("running", "running_pending_commit", "sigkill")]
    other = profiles.copied(profiles.FIXTURES / "firefox/running", bare.home / "firefox")
    bare.consent(*({**grant(root / "Default"), "profile": root.name} for root in roots), grant(other, "firefox"))
    before = profiles.look(bare.home)
    history = bare.run("ls-history", "--all", "--now", "2027-01-01T00:00:00Z")
    bookmarks = bare.run("ls-bookmarks", "--now", "2027-01-01T00:00:00Z")
    assert history.code == bookmarks.code == 0
    assert history.err == bookmarks.err == b""
    assert profiles.look(bare.home) == before and bare.runs == []
    seen = {(row["provenance"]["profile"], row["url"].rpartition("/")[2]) for row in history.rows}
    assert {name for name, page in seen if page == "just-now"} == {"sigkill", "firefox"}
    assert not any(page in ("incognito-secret", "lost-in-kill") for _, page in seen)
    assert {row["provenance"]["profile"] for row in bookmarks.rows} == {"running", "running_pending_commit", "sigkill",
                                                                       "firefox"}
    tagged = [row for row in bookmarks.rows if row["meta"].get("tags")]
    assert [row["meta"]["tags"] for row in tagged] == [["tag one", "étiquette"]]
    assert b"\x1b" not in history.out and b"\xe2\x80\xae" not in history.out, "controls are escaped"


# ---- copies


def padded(path: Path) -> None:
    """More than fits into memory, without taking long."""
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE pad (x)")
    conn.execute("INSERT INTO pad VALUES (zeroblob(70000000))")
    conn.commit()
    conn.close()


def test_large_history_leaves_nothing(bare: Home) -> None:
    path = profiles.chromium_history(chromium(bare), [Page(f"http://a.test/{n}", "needle") for n in range(5)])
    padded(path)
    bare.consent(grant(chromium(bare)))
    before = profiles.look(bare.home)
    done = bare.run("ls-history", "needle")
    assert done.code == 0 and len(done.rows) == 5 and done.err == b""
    assert bare.runs == [] and profiles.look(bare.home) == before


def test_large_history_without_a_place_for_the_copy(bare: Home) -> None:
    padded(profiles.chromium_history(chromium(bare), [Page("http://a.test/")]))
    bare.consent(grant(chromium(bare)))
    bare.state.write_bytes(b"a file where a folder should be")
    done = bare.run("ls-history")
    assert done.code == 5 and b"cannot register" in done.err and done.out == b""


def test_killed_while_it_holds_a_copy(bare: Home) -> None:
    """What a killed run leaves is a directory without a single file of the history in it."""
    padded(profiles.chromium_history(chromium(bare), [Page(f"http://a.test/{n}", "x" * 4000) for n in range(999)]))
    bare.consent(grant(chromium(bare)))
    with bare.start("ls-history") as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)  # It writes, so that it holds the copy.
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = [path for path in bare.state.rglob("*") if path.is_file()]
    assert bare.runs and not any(path.stat().st_size > 100_000 for path in left)
    assert not any("copy-" in path.name for path in left)


def test_time_that_is_over(bare: Home) -> None:
    path = profiles.chromium_history(chromium(bare), [Page("http://a.test/")])
    conn = sqlite3.connect(path)
    conn.execute("WITH RECURSIVE n(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM n WHERE x < 300000)"
                 " INSERT INTO urls (id, url, title, last_visit_time)"
                 " SELECT x, 'http://a.test/' || x, 'a needle', 1 FROM n")
    conn.commit()
    conn.close()
    bare.consent(grant(chromium(bare)))
    done, report = reported(bare, "ls-history", "--timeout", "50ms", "needle")
    assert done.code in (6, 7) and report["truncated"]
    assert b"internal error" not in done.err
    assert all(row["url"].startswith("http://a.test/") for row in done.rows)


# ---- bookmarks


def test_bookmarks_of_all_kinds(bare: Home) -> None:
    profiles.chromium_bookmarks(chromium(bare), bookmark_bar=[
        profiles.folder_node("Rust", url_node("Async", "http://a.test/", guid="1")), url_node("Other", "http://b.test/")])
    profiles.chromium_bookmarks(chromium(bare), "AccountBookmarks", synced=[
        url_node("Async", "http://a.test/", guid="1"), url_node("Async too", "http://c.test/", added=NOON - DAY)])
    other = profiles.firefox_places(bare.home / ".mozilla/firefox/x", (), {
        "menu": [Mark("Async three", "http://d.test/", tags=("rust",), added=NOON - 2 * DAY)]}).parent
    bare.consent(grant(chromium(bare)), grant(other, "firefox"))
    done = bare.run("ls-bookmarks", *NOW)
    assert [(row["url"], row["provenance"].get("origin"), row["meta"]["folder"]) for row in done.rows][2:] == [
        ("http://c.test/", "account", "Mobile bookmarks"), ("http://d.test/", None, "Bookmarks Menu")]
    assert {row["url"] for row in bare.run("ls-bookmarks", "--tag", "rust").rows} == {"http://a.test/", "http://d.test/"}
    assert {row["url"] for row in bare.run("ls-bookmarks", "--folder", "rust").rows} == {"http://a.test/"}
    found = bare.run("ls-bookmarks", *NOW, "rust").rows
    assert [(row["url"], row["matched_terms"]) for row in found] == [
        ("http://d.test/", ["rust"]), ("http://a.test/", ["rust"])], "a tag counts more than a folder"
    assert found[0]["corpus"] == [{"id": "bookmarks:firefox/x", "n": 1, "df": {"rust": 1}}]
    window = bare.run("ls-bookmarks", *NOW, "--since", "36h").rows
    assert {row["url"] for row in window} == {"http://a.test/", "http://b.test/", "http://c.test/"}
    assert len({row["id"] for row in done.rows}) == 4


def test_bookmark_files_that_cannot_be_read(bare: Home) -> None:
    for name in ("Encrypted", "Account", "Text", "Huge", "None"):
        chromium(bare, name).mkdir(parents=True)
    (chromium(bare, "Encrypted") / "EncryptedBookmarks2").write_bytes(b"v10")
    profiles.chromium_bookmarks(chromium(bare, "Account"), other=[url_node("Mine", "http://a.test/")])
    (chromium(bare, "Account") / "EncryptedAccountBookmarks2").write_bytes(b"v10")
    (chromium(bare, "Text") / "Bookmarks").write_bytes(b"no json")
    with open(chromium(bare, "Huge") / "Bookmarks", "wb") as file:
        file.truncate(200 << 20)
    bare.consent(*(grant(chromium(bare, name)) for name in ("Encrypted", "Account", "Text", "Huge", "None")))
    before = profiles.look(chromium(bare, "Account"))
    done, report = reported(bare, "ls-bookmarks")
    assert done.code == 7 and [row["url"] for row in done.rows] == ["http://a.test/"]
    reasons = {entry["profile"]: (entry["reason"], entry["detail"]) for entry in report["skipped"]}
    assert {name: reason for name, (reason, _) in reasons.items()} == {
        "Encrypted": "encrypted", "Account": "encrypted", "Text": "failed", "Huge": "not-readable"}
    assert "200 MiB; at most 64 MiB" in reasons["Huge"][1] and "not JSON" in reasons["Text"][1]
    assert profiles.look(chromium(bare, "Account")) == before


def test_visit_in_the_future_and_title_in_latin_1_among_good_ones(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), [
        Page("http://a.test/", "needle one"), Page("http://b.test/", "needle two", (Visit(raw=1 << 62),)),
        Page("http://c.test/", b"needle Gr\xfc\xdfe")])
    bare.consent(grant(chromium(bare)))
    done = bare.run("ls-history", *NOW, "needle")
    assert done.code == 0 and done.err == b""
    found = {row["url"]: row for row in done.rows}
    assert set(found) == {"http://a.test/", "http://b.test/", "http://c.test/"}
    assert found["http://b.test/"]["accessed_at"] is None
    assert found["http://b.test/"]["meta"]["time_quality"] == "impossible"
    assert found["http://c.test/"]["title"] == "needle Gr\ufffd\ufffde"
    assert found["http://c.test/"]["meta"]["lossy"] is True
    assert "lossy" not in found["http://a.test/"]["meta"]

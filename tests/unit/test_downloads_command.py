"""ls-downloads as it is run: Chromium's tables of all versions, Firefox's annotations, states, damage."""

import sqlite3
from pathlib import Path
from typing import Any

import orjson
import profiles
import pytest
from profiles import DAY, HOUR, NOON, WEBKIT
from support import Home
from test_browser_commands import chromium, reported
from test_browser_commands import grant as granted

NOW = ("--now", "2026-07-21T13:00:00Z")
#: Columns as they came: before them there were id, paths, times, bytes and state alone.
LATER = {"guid": "VARCHAR", "danger_type": "INTEGER", "opened": "INTEGER", "referrer": "VARCHAR", "tab_url": "VARCHAR",
         "mime_type": "VARCHAR", "hash": "BLOB"}


def grant(path: Path, browser: str = "chromium", data: tuple[str, ...] = ("downloads",)) -> dict[str, Any]:
    return granted(path, browser, data)


def history(profile: Path, *downloads: dict[str, Any], old: bool = False) -> Path:
    """A History with these downloads; `urls` of each is its chain."""
    path = profiles.chromium_history(profile, [])
    conn = sqlite3.connect(path)
    conn.execute("DROP TABLE downloads")
    later = {} if old else LATER
    conn.execute("CREATE TABLE downloads (id INTEGER PRIMARY KEY, target_path LONGVARCHAR NOT NULL,"
                 " start_time INTEGER, end_time INTEGER, received_bytes INTEGER, total_bytes INTEGER, state INTEGER"
                 + "".join(f", {name} {kind}" for name, kind in later.items()) + ")")
    conn.execute("CREATE TABLE downloads_url_chains (id INTEGER, chain_index INTEGER, url LONGVARCHAR)")
    for number, one in enumerate(downloads, 1):
        chain = one.pop("urls", ["http://a.test/file.bin"])
        row = {"target_path": "/d/file.bin", "start_time": NOON + WEBKIT - 5_000_000, "end_time": NOON + WEBKIT,
               "received_bytes": 10, "total_bytes": 10, "state": 1,
               **({} if old else {"guid": f"g{number}", "danger_type": 0, "opened": 0}), **one}
        conn.execute(f"INSERT INTO downloads (id, {', '.join(row)}) VALUES (?{', ?' * len(row)})",
                     (number, *row.values()))
        # The order in the file is not the order of the chain.
        conn.executemany("INSERT INTO downloads_url_chains VALUES (?, ?, ?)",
                         reversed([(number, index, url) for index, url in enumerate(chain)]))
    conn.commit()
    conn.close()
    return path


def places(profile: Path, *downloads: tuple[str, str | None, Any]) -> Path:
    """A places.sqlite with annotations: (url, destination, facts) of each."""
    path = profiles.firefox_places(profile)
    conn = sqlite3.connect(path)
    conn.executescript("""
        CREATE TABLE moz_anno_attributes (id INTEGER PRIMARY KEY, name VARCHAR(32) UNIQUE NOT NULL);
        CREATE TABLE moz_annos (id INTEGER PRIMARY KEY, place_id INTEGER NOT NULL, anno_attribute_id INTEGER,
            content LONGVARCHAR, dateAdded INTEGER DEFAULT 0, lastModified INTEGER DEFAULT 0);
        INSERT INTO moz_anno_attributes VALUES (3, 'downloads/metaData'), (5, 'downloads/destinationFileURI'),
            (6, 'other');
    """)
    for number, (url, destination, facts) in enumerate(downloads, 100):
        conn.execute("INSERT INTO moz_places (id, url, guid) VALUES (?, ?, ?)", (number, url, f"guid{number}"))
        text = facts if facts is None or isinstance(facts, str) else orjson.dumps(facts).decode()
        for attribute, content in ((6, "x"), (5, destination), (3, text)):
            if content is not None:
                conn.execute("INSERT INTO moz_annos (place_id, anno_attribute_id, content, dateAdded, lastModified)"
                             " VALUES (?, ?, ?, ?, ?)", (number, attribute, content, NOON, NOON))
    conn.commit()
    conn.close()
    return path


def firefox(home: Home) -> Path:
    return home.home / ".mozilla/firefox/x.default"


def test_downloads_of_chromium(bare: Home) -> None:
    history(chromium(bare), {
        "urls": ["http://short.test/1", "http://cdn.test/real/file.pdf?sig=x"], "target_path": "/home/ada/Größe 1.pdf",
        "mime_type": "application/pdf", "tab_url": "http://papers.test/", "referrer": "http://papers.test/list",
        "opened": 1, "received_bytes": 1500, "total_bytes": 1500})
    bare.consent(grant(chromium(bare)))
    before = profiles.look(bare.home)
    done = bare.run("ls-downloads", *NOW)
    assert done.code == 0 and done.err == b""
    row, = done.rows
    assert row["url"] == "http://cdn.test/real/file.pdf?sig=x", "where the redirects ended; one row a download"
    assert row["title"] == "Größe 1.pdf" and row["accessed_at"] == "2026-07-21T12:00:00.000000Z"
    assert row["meta"] == {
        "state": "complete", "path": "/home/ada/Größe 1.pdf", "bytes": 1500, "total": 1500, "mime": "application/pdf",
        "opened": True, "started_at": "2026-07-21T11:59:55.000000Z", "page": "http://papers.test/",
        "referrer": "http://papers.test/list"}
    assert row["provenance"]["method"] == "snapshot" and row["provenance"]["private"] is True
    assert profiles.look(bare.home) == before and bare.runs == []
    for words in ("grosse", "größe", "cdn", "papers", "site:cdn.test", "title:pdf"):
        assert bare.run("ls-downloads", *NOW, words).rows, words
    assert bare.run("ls-downloads", "short").rows == []


def test_states_dangers_and_times(bare: Home) -> None:
    running = {"state": 0, "end_time": 0, "received_bytes": 3, "total_bytes": -1, "start_time": NOON + WEBKIT - HOUR}
    history(chromium(bare), running, {"state": 2}, {"state": 4, "danger_type": 7}, {"state": 99, "danger_type": 98},
            {"end_time": 1 << 62}, {"received_bytes": 1 << 62})
    bare.consent(grant(chromium(bare)))
    done = bare.run("ls-downloads", *NOW)
    rows = {row["id"]: row for row in done.rows}
    assert len(rows) == 6, "each has its own id"
    metas = [row["meta"] for row in done.rows]
    assert sorted((meta["state"], meta.get("danger", "")) for meta in metas) == [
        ("99", "98"), ("cancelled", ""), ("complete", ""), ("complete", ""), ("in-progress", ""),
        ("interrupted", "dangerous-host")]
    early = next(row for row in done.rows if row["meta"]["state"] == "in-progress")
    assert early["accessed_at"] is None and early["meta"]["time_quality"] == "zero"
    assert early["meta"]["bytes"] == 3 and "total" not in early["meta"]
    assert early["meta"]["started_at"] == "2026-07-21T11:00:00.000000Z"
    assert sum("bytes" not in meta for meta in metas) == 1 and sum("time_quality" in meta for meta in metas) == 2


def test_a_table_without_the_later_columns_and_rows_without_a_chain(bare: Home) -> None:
    history(chromium(bare), {"urls": ["http://old.test/x"]}, {"urls": []}, old=True)
    bare.consent(grant(chromium(bare)))
    done = bare.run("ls-downloads", *NOW)
    assert done.code == 0 and [row["url"] for row in done.rows] == ["http://old.test/x"]


def test_the_window_is_about_the_end_or_the_beginning(bare: Home) -> None:
    history(chromium(bare), {"end_time": NOON + WEBKIT - 3 * DAY, "urls": ["http://old.test/"]},
            {"end_time": 0, "state": 0, "urls": ["http://running.test/"]}, {"urls": ["http://new.test/"]})
    bare.consent(grant(chromium(bare)))
    assert [row["url"] for row in bare.run("ls-downloads", *NOW, "--since", "2d").rows] == [
        "http://new.test/", "http://running.test/"]
    assert [row["url"] for row in bare.run("ls-downloads", *NOW, "--until", "2026-07-19").rows] == ["http://old.test/"]


def test_downloads_of_firefox(bare: Home) -> None:
    done_ms = (NOON - HOUR) // 1000
    places(firefox(bare),
           ("http://a.test/one", "file:///home/ada/%C3%9Cn%C3%AF.bin",
            {"state": 1, "deleted": False, "endTime": done_ms, "fileSize": 1500}),
           ("http://b.test/two", "file:///home/ada/two.zip", {"state": 3, "endTime": done_ms - 1000, "deleted": True}),
           ("http://c.test/three", "file:///home/ada/three", None),
           ("http://d.test/four", "not a file", "[broken"))
    bare.consent(grant(firefox(bare), "firefox"))
    done = bare.run("ls-downloads", *NOW)
    rows = {row["url"]: row for row in done.rows}
    assert done.code == 0 and len(rows) == 4
    one = rows["http://a.test/one"]
    assert one["title"] == "Ünï.bin" and one["accessed_at"] == "2026-07-21T11:00:00.000000Z"
    assert one["meta"] == {"state": "complete", "path": "/home/ada/Ünï.bin", "bytes": 1500, "total": 1500}
    two = rows["http://b.test/two"]["meta"]
    assert two["state"] == "cancelled" and two["deleted"] is True
    assert rows["http://c.test/three"]["meta"]["state"] == "in-progress"
    assert rows["http://d.test/four"]["title"] is None and rows["http://d.test/four"]["accessed_at"] is None
    assert [row["url"] for row in bare.run("ls-downloads", "uni").rows] == ["http://a.test/one"]


def test_bad_profiles_do_not_hide_the_good_ones(bare: Home) -> None:
    history(chromium(bare, "Good"), {"urls": ["http://good.test/"]})
    (chromium(bare, "text")).mkdir()
    (chromium(bare, "text") / "History").write_bytes(b"no database" * 999)
    conn = sqlite3.connect(profiles.chromium_history(chromium(bare, "bare"), []))
    conn.execute("DROP TABLE downloads")
    conn.close()
    bare.consent(*(grant(chromium(bare, name)) for name in ("Good", "text", "bare", "Good")))
    done, report = reported(bare, "ls-downloads")
    assert done.code == 7 and [row["url"] for row in done.rows] == ["http://good.test/"]
    assert {entry["profile"]: entry["reason"] for entry in report["skipped"]} == {"text": "failed", "bare": "failed"}


def test_without_consent_for_downloads_though_the_file_is_that_of_the_history(bare: Home) -> None:
    history(chromium(bare), {})
    bare.consent(grant(chromium(bare), data=("history",)))
    done = bare.run("ls-downloads")
    assert done.code == 5 and done.out == b"" and b"--data downloads" in done.err
    bare.consent(grant(chromium(bare)))
    assert bare.run("ls-history").code == 5


def test_downloads_of_real_profiles(bare: Home) -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    root = profiles.copied(profiles.FIXTURES / "chromium/sigkill", bare.home / "c")
    other = profiles.copied(profiles.FIXTURES / "firefox/running", bare.home / "f")
    bare.consent(grant(root / "Default"), grant(other, "firefox"))
    before = profiles.look(bare.home)
    done = bare.run("ls-downloads", "--now", "2027-01-01T00:00:00Z")
    assert done.code == 0 and done.err == b""
    assert [(row["provenance"]["browser"], row["url"], row["title"], row["meta"]["bytes"], row["meta"]["state"])
            for row in done.rows] == [
        ("firefox", "http://127.0.0.1:8765/dl.bin", "Ünï-dl.bin", 1500, "complete"),
        ("chromium", "http://127.0.0.1:8765/dl.bin", "dl.bin", 1500, "complete")]
    assert profiles.look(bare.home) == before and bare.runs == []

"""Orion as it is found and read: profiles with their names, history, bookmarks, reading list; made files only."""

import plistlib
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import safari
from profiles import HOUR, NOON
from support import Home

from lspipe.browsers import orion, profiles
from lspipe.live import Unusable

NOW = ("--now", "2026-07-21T13:00:00Z")
A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"
ROOT = "Library/Application Support/Orion"
UUID = "9C6B9D0E-27C6-4A43-8C2B-0D8D1E0E4A55"


def history(folder: Path, *pages: tuple[str, str | None, list[object]]) -> Path:
    """`history`: (url, title, times of visits)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "history"
    conn = sqlite3.connect(path)
    conn.executescript("""
        CREATE TABLE history_items (ID INTEGER PRIMARY KEY AUTOINCREMENT, URL TEXT, TITLE TEXT, HOST TEXT,
            LAST_VISIT_TIME TIMESTAMP DEFAULT CURRENT_TIMESTAMP, VISIT_COUNT INTEGER, TYPED_COUNT INTEGER);
        CREATE TABLE visits (ID INTEGER PRIMARY KEY AUTOINCREMENT, HISTORY_ITEM_ID INTEGER, VISIT_TIME TIMESTAMP DEFAULT
            CURRENT_TIMESTAMP);
    """)
    for number, (url, title, times) in enumerate(pages, start=1):
        conn.execute("INSERT INTO history_items (ID, URL, TITLE, LAST_VISIT_TIME, VISIT_COUNT) VALUES (?, ?, ?, ?, ?)",
                     (number, url, title, max(map(str, times), default=None), len(times)))
        conn.executemany("INSERT INTO visits (HISTORY_ITEM_ID, VISIT_TIME) VALUES (?, ?)",
                         [(number, at) for at in times])
    conn.commit()
    conn.close()
    return path


def favourites(folder: Path, *entries: dict[str, Any]) -> Path:
    return safari.plist(folder / "favourites.plist", {str(number): {"id": str(number), "index": number, **entry}
                                                      for number, entry in enumerate(entries)})


def grant(path: Path) -> dict[str, Any]:
    return {"family": "browser", "browser": "orion", "profile": path.name,
            "data": ["history", "bookmarks", "reading", "tabs", "downloads"], "path": str(path)}


def found(home: Home, name: str, *args: str) -> list[dict[str, Any]]:
    done = home.run(name, *NOW, *args)
    assert done.code == 0, done.err
    return done.rows


def test_profiles_with_names(tmp_path: Path) -> None:
    history(tmp_path / ROOT / "Defaults", (A, "Anton", []))
    favourites(tmp_path / ROOT / UUID)
    (tmp_path / ROOT / "snapshots").mkdir()
    history(tmp_path / "Library/Application Support/Orion RC/Defaults", (A, "Anton", []))
    safari.plist(tmp_path / ROOT / "profiles", {"defaults": {"name": "Ich", "color": 1}, "profiles": [
        {"name": "Arbeit 🦊", "identifier": UUID, "color": 2}, {"name": 7}, "x"]})
    listed = profiles.discover(str(tmp_path), {}, "darwin")
    assert {(one.browser, one.directory, one.name, one.default) for one in listed} == {
        ("orion", "Defaults", "Ich", True), ("orion", UUID, "Arbeit 🦊", False),
        ("orion-rc", "Defaults", "Defaults", True)}
    (tmp_path / ROOT / "profiles").write_bytes(b"bplist00nonsense")
    assert {one.name for one in profiles.discover(str(tmp_path), {}, "darwin")} == {"Defaults", UUID}


def test_history(bare: Home) -> None:
    folder = bare.home / ROOT / "Defaults"
    history(folder, (A, "Anton", ["2026-07-20 12:00:00", "2026-07-21 12:00:00"]),
            (B, "Berta", ["2026-07-21T11:00:00.250"]), (C, None, ["2026-07-19 12:00:00"]),
            ("http://odd.test/1", "odd", ["soon"]), ("http://odd.test/2", "odd", [None]),
            ("http://odd.test/3", "odd", ["2026-13-41 25:61:61"]), ("http://odd.test/4", "odd", [12345]))
    safari.plist(bare.home / ROOT / "profiles", {"defaults": {"name": "Ich"}, "profiles": []})
    bare.consent(grant(folder))
    rows = found(bare, "ls-history")
    assert [(row["url"], row["title"], row["accessed_at"]) for row in rows[:3]] == [
        (A, "Anton", "2026-07-21T12:00:00.000000Z"), (B, "Berta", "2026-07-21T11:00:00.000000Z"),
        (C, None, "2026-07-19T12:00:00.000000Z")]
    assert rows[0]["meta"]["visit_count"] == 2 and rows[0]["provenance"]["profile_name"] == "Ich"
    assert len(rows) == 7 and all(row["accessed_at"] is None and row["meta"]["time_quality"] for row in rows[3:])

    def urls(*args: str) -> list[str]:
        return [row["url"] for row in found(bare, "ls-history", *args)]

    assert urls("--since", "2026-07-21T11:00:01Z") == [A] and urls("--since", "2026-07-21T11:00:00Z") == [A, B]
    assert urls("--until", "2026-07-20") == [A, C]
    assert urls("berta") == [B] and urls("--top")[0] == A


def test_bookmarks_and_reading_list(bare: Home) -> None:
    folder = bare.home / ROOT / "Defaults"
    favourites(folder, {"type": "folder", "title": "Rust", "parentId": "1"},
               {"type": "folder", "title": "Top", "parentId": "0"},
               {"type": "bookmark", "title": "Anton", "url": A, "parentId": "0", "dateAdded": safari.date(NOON)},
               {"type": "bookmark", "title": "Berta", "url": B, "parentId": "none", "dateAdded": 77.5},
               {"type": "separator"}, {"type": "bookmark", "title": "none"})
    safari.plist(folder / "reading_list.plist", [
        {"id": "x", "title": "Later", "description": "a needle in it", "url": {"relative": C},
         "dateAdded": safari.date(NOON - HOUR), "index": 0}, {"title": "none"}, "x"])
    bare.consent(grant(folder))
    rows = {row["url"]: row for row in found(bare, "ls-bookmarks")}
    assert rows.keys() == {A, B} and rows[A]["meta"]["folder"] == "Top/Rust", "each folder once, though they are a ring"
    assert rows[A]["accessed_at"] == "2026-07-21T12:00:00.000000Z"
    assert rows[B]["accessed_at"] is None and rows[B]["meta"]["time_quality"] == "unknown"
    row, = found(bare, "ls-reading", "needle")
    assert (row["url"], row["title"], row["snippet"], row["accessed_at"]) == (
        C, "Later", "a needle in it", "2026-07-21T11:00:00.000000Z")
    assert "meta" not in row and found(bare, "ls-reading", "--unread")
    for name, words in (("ls-tabs", b"no list of tabs"), ("ls-downloads", b"no list of downloads")):
        done = bare.run(name, "--stats")
        assert done.code == 0 and done.out == b"" and words in done.err


@pytest.mark.parametrize("value", [[], {}, 1, "x", {"a": []}, {"a": {"url": 1}}, {"a": {"url": A, "parentId": "a"}},
                                   {"a": {"url": A, "dateAdded": datetime(1, 1, 1)}}])
def test_anything_in_the_property_lists(value: Any) -> None:
    data = plistlib.dumps(value, fmt=plistlib.FMT_BINARY)
    for read, right in ((orion.bookmarks, dict), (orion.reading, list)):
        if isinstance(value, right):
            assert all(one.url == A for one in read(data, "x", NOON))
        else:
            with pytest.raises(Unusable, match="another format"):
                list(read(data, "x", NOON))
    assert isinstance(orion.names(data), dict)
    with pytest.raises(Unusable):
        list(orion.bookmarks(data[:-1], "x", NOON))

#!/usr/bin/env python3
"""Make a sample state in a folder of its own: two browser profiles, notes, and a consent file for them.

    $ examples/sample_state.py DIR

Everything in it is made up. Ages are counted back from the present, so that the same query gives the same answer
on any day. Prints the shell lines that point lspipe at the state.
"""

import json
import os
import shlex
import sqlite3
import sys
import time
from urllib.parse import urlsplit

WEBKIT_OFFSET = 11_644_473_600_000_000  # µs from 1601 to 1970
HOUR = 3_600_000_000
DAY = 24 * HOUR

# (url, title, visits, age in hours of the newest visit)
CHROMIUM = [
    ("https://docs.example.org/rust/async/cancellation.html", "Cancellation - The Async Rust Book", 9, 27),
    ("https://docs.example.org/rust/async/select.html", "select! and dropping futures - The Async Rust Book", 4, 28),
    ("https://blog.example.net/2026/structured-concurrency", "Structured concurrency, or: go statement considered"
     " harmful", 2, 75),
    ("https://forum.example.com/t/rust-async-drop/1432", "Async drop: where are we? - Rust forum", 3, 51),
    ("https://shop.example.com/keyboards/split", "Split keyboards | Example shop", 6, 20),
    ("https://news.example.com/item?id=42001", "Show: a terminal file manager in 900 lines", 1, 6),
    ("https://docs.example.org/sqlite/wal.html", "Write-Ahead Logging", 5, 100),
    ("https://docs.example.org/python/asyncio-task.html", "Coroutines and Tasks - cancellation", 7, 125),
    ("https://wiki.example.org/wiki/M%C3%BCnchen", "München - Wiki", 1, 30),
    ("https://maps.example.com/?q=bakery+near+me", "bakery near me - Maps", 2, 3),
]
FIREFOX = [
    ("https://rust.example.io/std/task/enum.Poll.html", "Poll in std::task - Rust", 3, 49),
    ("https://papers.example.edu/async-cancellation.pdf", "Cancellation in asynchronous programs", 2, 30),
    ("https://mail.example.com/inbox", "Inbox (3)", 40, 1),
    ("https://recipes.example.org/rye-bread", "Rye bread, two days", 4, 55),
]
CHROMIUM_BOOKMARKS = {
    "Reading": [("https://docs.example.org/rust/async/cancellation.html", "Cancellation - The Async Rust Book", 40),
                ("https://blog.example.net/2026/pinning", "Pinning, explained with pictures (Rust async)", 12)],
    "Cooking": [("https://recipes.example.org/rye-bread", "Rye bread", 60)],
}
NOTES = {
    "rust/cancellation.md": "# Cancellation safety\n\nA future is cancelled when it is dropped. In Rust, async\n"
    "cancellation happens at every await point, so `select!` drops the other futures.\nKeep state outside of the"
    " future that may be dropped.\n\n## See also\n\nThe talk about structured concurrency.\n",
    "rust/pin.md": "# Pin\n\nWhy a self-referential future must not move.\n",
    "journal/2026-07.md": "# July\n\nTried the split keyboard. Baked rye bread.\nRead about async cancellation, at"
    " last.\n",
    "src/worker.py": "import asyncio\n\n\nasync def stop(task: asyncio.Task) -> None:\n    task.cancel()"
    "  # cancellation is a request\n    await asyncio.wait([task])\n",
    "recipes/rye.md": "# Rye bread\n\n500 g rye, 400 g water, 10 g salt. Two days.\n",
}


def chromium(profile: str, now: int) -> None:
    """A History with the tables that are needed, and Bookmarks."""
    os.makedirs(profile, 0o700)
    base = sqlite3.connect(os.path.join(profile, "History"))
    base.executescript("""
        CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
        INSERT INTO meta VALUES('version', '70');
        CREATE TABLE urls(id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR,
            visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL,
            last_visit_time INTEGER NOT NULL, hidden INTEGER DEFAULT 0 NOT NULL);
        CREATE TABLE visits(id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL, visit_time INTEGER NOT NULL,
            from_visit INTEGER, transition INTEGER DEFAULT 0 NOT NULL, visit_duration INTEGER DEFAULT 0 NOT NULL);
        CREATE TABLE keyword_search_terms(keyword_id INTEGER NOT NULL, url_id INTEGER NOT NULL,
            term LONGVARCHAR NOT NULL, normalized_term LONGVARCHAR NOT NULL);
    """)
    for url, title, visits, age in CHROMIUM:
        last = now - age * HOUR + WEBKIT_OFFSET
        row = base.execute("INSERT INTO urls(url, title, visit_count, last_visit_time) VALUES(?, ?, ?, ?)",
                           (url, title, visits, last))
        base.executemany("INSERT INTO visits(url, visit_time, transition) VALUES(?, ?, ?)",
                         [(row.lastrowid, last - number * DAY, 0x30000000) for number in range(visits)])
    base.commit()
    base.close()
    number = iter(range(4, 1000))

    def entry(url: str, title: str, age: int) -> dict[str, object]:
        one = next(number)
        return {"type": "url", "id": str(one), "guid": f"00000000-0000-4000-8000-{one:012d}", "name": title,
                "url": url, "date_added": str(now - age * DAY + WEBKIT_OFFSET)}

    folders = [{"type": "folder", "id": str(next(number)), "guid": f"00000000-0000-4000-9000-{len(name):012d}",
                "name": name, "children": [entry(*found) for found in entries]}
               for name, entries in CHROMIUM_BOOKMARKS.items()]
    roots = {"bookmark_bar": {"type": "folder", "id": "1", "name": "Bookmarks bar", "children": folders},
             "other": {"type": "folder", "id": "2", "name": "Other bookmarks", "children": []},
             "synced": {"type": "folder", "id": "3", "name": "Mobile bookmarks", "children": []}}
    with open(os.path.join(profile, "Bookmarks"), "w") as file:
        json.dump({"checksum": "", "roots": roots, "version": 1}, file)


def firefox(profile: str, now: int) -> None:
    """A places.sqlite with the tables that are needed: history, one tagged bookmark."""
    os.makedirs(profile, 0o700)
    base = sqlite3.connect(os.path.join(profile, "places.sqlite"))
    base.executescript("""
        CREATE TABLE moz_meta(key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
        CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR,
            visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL,
            frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT, url_hash INTEGER);
        CREATE TABLE moz_historyvisits(id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER,
            visit_date INTEGER, visit_type INTEGER, session INTEGER);
        CREATE TABLE moz_bookmarks(id INTEGER PRIMARY KEY, type INTEGER, fk INTEGER, parent INTEGER,
            position INTEGER, title LONGVARCHAR, dateAdded INTEGER, lastModified INTEGER, guid TEXT);
        CREATE TABLE moz_annos(id INTEGER PRIMARY KEY, place_id INTEGER, anno_attribute_id INTEGER, content TEXT);
        INSERT INTO moz_bookmarks VALUES(1, 2, NULL, 0, 0, '', 0, 0, 'root________');
        INSERT INTO moz_bookmarks VALUES(2, 2, NULL, 1, 0, 'menu', 0, 0, 'menu________');
        INSERT INTO moz_bookmarks VALUES(3, 2, NULL, 1, 1, 'toolbar', 0, 0, 'toolbar_____');
        INSERT INTO moz_bookmarks VALUES(4, 2, NULL, 1, 2, 'tags', 0, 0, 'tags________');
        INSERT INTO moz_bookmarks VALUES(5, 2, NULL, 1, 3, 'unfiled', 0, 0, 'unfiled_____');
        INSERT INTO moz_bookmarks VALUES(6, 2, NULL, 4, 0, 'papers', 0, 0, 'tagpapers___');
    """)
    for number, (url, title, visits, age) in enumerate(FIREFOX, 1):
        last = now - age * HOUR
        base.execute(
            "INSERT INTO moz_places(id, url, title, rev_host, visit_count, last_visit_date, guid)"
            " VALUES(?, ?, ?, ?, ?, ?, ?)",
            (number, url, title, (urlsplit(url).hostname or "")[::-1] + ".", visits, last, f"guid{number:08d}"))
        base.executemany("INSERT INTO moz_historyvisits(from_visit, place_id, visit_date, visit_type, session)"
                         " VALUES(0, ?, ?, 1, 0)", [(number, last - count * DAY) for count in range(visits)])
    added = now - 31 * DAY
    base.execute("INSERT INTO moz_bookmarks VALUES(7, 1, 2, 5, 0, 'Cancellation in asynchronous programs', ?, ?,"
                 " 'bookmark0001')", (added, added))
    base.execute("INSERT INTO moz_bookmarks VALUES(8, 1, 2, 6, 0, NULL, ?, ?, 'tagentry0001')", (added, added))
    base.commit()
    base.close()


def notes(folder: str, now: int) -> None:
    """A few files, each some days old."""
    for number, (name, text) in enumerate(NOTES.items(), 2):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        stamp = (now - number * DAY - HOUR) // 1_000_000
        os.utime(path, (stamp, stamp))


def main(folder: str) -> None:
    """Make the state in `folder`, which must not exist yet."""
    os.umask(0o077)
    folder = os.path.realpath(folder)
    os.makedirs(folder, 0o700)
    now = time.time_ns() // 1000
    profiles = {
        ("chromium", "Default"): os.path.join(folder, "home/.config/chromium/Default"),
        ("firefox", "k3x9f2ab.default-release"): os.path.join(
            folder, "home/.mozilla/firefox/k3x9f2ab.default-release"),
    }
    for (browser, _name), path in profiles.items():
        {"chromium": chromium, "firefox": firefox}[browser](path, now)
    with open(os.path.join(folder, "home/.mozilla/firefox/profiles.ini"), "w") as file:
        file.write("[Profile0]\nName=default-release\nIsRelative=1\nPath=k3x9f2ab.default-release\nDefault=1\n")
    notes(os.path.join(folder, "notes"), now)
    grants: list[dict[str, object]] = [
        {"family": "browser", "browser": browser, "profile": name, "data": ["history", "bookmarks"], "path": path}
        for (browser, name), path in profiles.items()]
    grants.append({"family": "files", "path": os.path.join(folder, "notes")})
    os.makedirs(os.path.join(folder, "config"), 0o700)
    with open(os.path.join(folder, "config/consent.json"), "w") as file:
        json.dump({"v": 1, "grants": grants}, file, indent=1)
    for name in ("config", "state", "cache"):
        print(f"export LSPIPE_{name.upper()}_HOME={shlex.quote(os.path.join(folder, name))}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: sample_state.py DIR")
    main(sys.argv[1])

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
import struct
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
# (window, url, title, age in hours since it was looked at, pinned, title of its group); without a title it has not
# been written yet, as happens with fresh tabs.
CHROMIUM_TABS = [
    (1, "https://calendar.example.com/week", "Calendar - this week", 2, True, None),
    (1, "https://forum.example.com/t/rust-async-drop/1432", "", 50, False, None),
    (1, "https://play.example.org/tokio/select", "Playground: select! in a loop (Rust async)", 1, False, "Async"),
    (1, "https://play.example.org/tokio/joinset", "Playground: JoinSet", 5, False, "Async"),
    (2, "https://maps.example.com/?q=bakery+near+me", "bakery near me - Maps", 3, False, None),
    (2, "chrome://settings/", "Settings", 4, False, None),
]
CHROMIUM_CLOSED = [("https://shop.example.com/keyboards/cart", "Cart | Example shop", 19)]
# (url, title, age in hours, pinned, number of its container)
FIREFOX_TABS = [
    ("https://mail.example.com/inbox", "Inbox (3)", 1, True, 0),
    ("https://tracker.example.edu/issues/77", "Cancel running jobs - issue 77", 26, False, 2),
]
# (url, where it came from, file name, type, bytes, age in hours)
CHROMIUM_DOWNLOADS = [
    ("https://papers.example.edu/download/14", "https://papers.example.edu/", "structured-concurrency.pdf",
     "application/pdf", 412_300, 74),
]
FIREFOX_DOWNLOADS = [
    ("https://rust.example.io/dist/rust-1.97-docs.tar.xz", "rust-1.97-docs.tar.xz", 21_004_288, 48),
]
# (url, title, age in days, whether it was read)
READING = [
    ("https://blog.example.net/2026/async-traits", "Async traits in Rust, a year later", 8, False),
    ("https://papers.example.edu/rye-starter", "On the keeping of rye starters", 21, True),
]
#: The kinds of data that the sample grants.
#: What is open on a phone: url, title, hours since it was looked at.
PHONE = [
    ("https://docs.example.org/rust/async/select", "select! - The Async Rust Book", 5),
    ("https://trains.example.com/to/the/sea", "Trains to the sea", 30),
]
GRANTED = {"chromium": ["history", "bookmarks", "tabs", "downloads", "reading"],
           "firefox": ["history", "bookmarks", "tabs", "downloads"]}
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
    """A History with the tables that are needed, Bookmarks, session files, the reading list."""
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
    _chromium_downloads(base, now)
    base.commit()
    base.close()
    _chromium_sessions(os.path.join(profile, "Sessions"), now)
    _chromium_synced(os.path.join(profile, "Sync Data/LevelDB"), now)
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


def _chromium_downloads(base: sqlite3.Connection, now: int) -> None:
    base.executescript("""
        CREATE TABLE downloads(id INTEGER PRIMARY KEY, guid VARCHAR NOT NULL, current_path LONGVARCHAR NOT NULL,
            target_path LONGVARCHAR NOT NULL, start_time INTEGER NOT NULL, received_bytes INTEGER NOT NULL,
            total_bytes INTEGER NOT NULL, state INTEGER NOT NULL, danger_type INTEGER NOT NULL,
            interrupt_reason INTEGER NOT NULL, end_time INTEGER NOT NULL, opened INTEGER NOT NULL,
            referrer VARCHAR NOT NULL, tab_url VARCHAR NOT NULL, mime_type VARCHAR(255) NOT NULL);
        CREATE TABLE downloads_url_chains(id INTEGER NOT NULL, chain_index INTEGER NOT NULL, url LONGVARCHAR NOT NULL,
            PRIMARY KEY(id, chain_index));
    """)
    for number, (url, page, name, kind, size, age) in enumerate(CHROMIUM_DOWNLOADS, 1):
        end = now - age * HOUR + WEBKIT_OFFSET
        path = f"/home/ada/Downloads/{name}"
        base.execute("INSERT INTO downloads VALUES(?, ?, ?, ?, ?, ?, ?, 1, 0, 0, ?, 0, ?, ?, ?)",
                     (number, f"00000000-0000-4000-a000-{number:012d}", path, path, end - 4_000_000, size, size, end,
                      page, page, kind))
        base.execute("INSERT INTO downloads_url_chains VALUES(?, 0, ?)", (number, url))


def _pickle(*values: int | str | bytes) -> bytes:
    """Chromium's pickle: numbers of 32 bits, text with its length, in front of it all the length of the whole."""
    out = b""
    for value in values:
        data = struct.pack("<i", len(value)) + value.encode() if isinstance(value, str) else value
        data = struct.pack("<i", data) if isinstance(data, int) else data
        out += data + bytes(-len(data) % 4)
    return struct.pack("<I", len(out)) + out


def _utf16(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return struct.pack("<i", len(data) // 2) + data


def _page(tab: int, url: str, title: str, at: int) -> bytes:
    stamp = struct.pack("<q", at + WEBKIT_OFFSET)
    return _pickle(tab, 0, url, _utf16(title), "", 1, 0, "", 2, url, 0, stamp, _utf16(""), 200)


def _session(path: str, commands: list[tuple[int, bytes]], now: int) -> None:
    """A session file: a header, then commands, the empty one at the end of the first state."""
    with open(path, "wb") as file:
        file.write(b"SNSS" + struct.pack("<i", 3))
        for number, data in [*commands, (255, b"")]:
            file.write(struct.pack("<HB", len(data) + 1, number) + data)
    os.utime(path, (now // 1_000_000, now // 1_000_000))


def _chromium_sessions(folder: str, now: int) -> None:
    """Which tabs are open, and which were closed lately."""
    os.makedirs(folder, 0o700)
    groups = sorted({group for *_, group in CHROMIUM_TABS if group})
    commands: list[tuple[int, bytes]] = []
    for number in sorted({window for window, *_ in CHROMIUM_TABS}):
        commands += [(9, struct.pack("<ii", number, 0)), (8, struct.pack("<ii", number, 0))]
    for tab, (window, url, title, age, pinned, group) in enumerate(CHROMIUM_TABS, 101):
        at = now - age * HOUR
        commands += [(0, struct.pack("<ii", window, tab)), (2, struct.pack("<ii", tab, tab)),
                     (6, _page(tab, url, title, at)), (7, struct.pack("<ii", tab, 0)),
                     (21, struct.pack("<i4xq", tab, at + WEBKIT_OFFSET))]
        if pinned:
            commands.append((12, struct.pack("<iB3x", tab, 1)))
        if group:
            commands.append((25, struct.pack("<i4xQQB7x", tab, 7, groups.index(group), 1)))
    commands += [(27, _pickle(struct.pack("<QQ", 7, number), _utf16(group), 1, 0, 0))
                 for number, group in enumerate(groups)]
    stamp = now - HOUR + WEBKIT_OFFSET
    _session(os.path.join(folder, f"Session_{stamp}"), commands, now)
    closed: list[tuple[int, bytes]] = []
    for tab, (url, title, age) in enumerate(CHROMIUM_CLOSED, 201):
        at = now - age * HOUR
        closed += [(4, struct.pack("<iiq", tab, 0, at + WEBKIT_OFFSET)), (1, _page(tab, url, title, at))]
    _session(os.path.join(folder, f"Tabs_{stamp}"), closed, now)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes((number & 127 | 128,)), number >> 7
    return out + bytes((number,))


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _record(data: bytes) -> bytes:
    """A record of a LevelDB log, with its masked checksum."""
    crc = _crc32c(b"\1" + data)
    masked = (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(data), 1) + data


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protocol buffer."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            out += _varint(number << 3 | 2) + _sized(value.encode() if isinstance(value, str) else value)
    return out


def _chromium_synced(folder: str, now: int) -> None:
    """The reading list and the tabs of a phone, in a LevelDB database that has nothing but its log yet."""
    os.makedirs(folder, 0o700)
    entries = []
    for url, title, age, read in READING:
        at = now - age * DAY
        entries.append((b"reading_list-dt-" + url.encode(), _message(
            (1, url), (2, title), (3, url), (4, at), (5, at), (6, 1 if read else 2))))
    owner, tabs = "p4HoNe0000000000000000==", range(1, len(PHONE) + 1)
    window = _message((1, 1), (2, 0), *((4, tab) for tab in tabs))
    entries.append((b"sessions-dt-head", _message((1, owner), (2, _message((2, window), (3, "Pocket phone"))))))
    for tab, (url, title, age) in zip(tabs, PHONE, strict=True):
        page = _message((2, url), (4, title), (9, (now - age * HOUR) // 1000))
        entries.append((b"sessions-dt-%d" % tab, _message((1, owner), (3, _message(
            (1, tab), (2, 1), (4, 0), (7, page), (14, (now - age * HOUR) // 1000))), (4, tab))))
    log = b"".join(_record(struct.pack("<QI", number, 1) + b"\1" + _sized(key) + _sized(value))
                   for number, (key, value) in enumerate(entries, 1))
    edit = b"\1" + _sized(b"leveldb.BytewiseComparator") + b"\2\3\3\4\4\0"
    for name, data in (("CURRENT", b"MANIFEST-000001\n"), ("MANIFEST-000001", _record(edit)), ("000003.log", log)):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def firefox(profile: str, now: int) -> None:
    """A places.sqlite with the tables that are needed: history, one tagged bookmark, a download; a session store."""
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
        CREATE TABLE moz_annos(id INTEGER PRIMARY KEY, place_id INTEGER, anno_attribute_id INTEGER, content TEXT,
            dateAdded INTEGER, lastModified INTEGER);
        CREATE TABLE moz_anno_attributes(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        INSERT INTO moz_anno_attributes VALUES(1, 'downloads/destinationFileURI'), (2, 'downloads/metaData');
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
    for number, (url, name, size, age) in enumerate(FIREFOX_DOWNLOADS, 1001):
        end = now - age * HOUR
        base.execute("INSERT INTO moz_places(id, url, title, visit_count, last_visit_date, guid)"
                     " VALUES(?, ?, ?, 0, ?, ?)", (number, url, name, end, f"guid{number:08d}"))
        base.execute("INSERT INTO moz_historyvisits(from_visit, place_id, visit_date, visit_type) VALUES(0, ?, ?, 7)",
                     (number, end))
        facts = json.dumps({"state": 1, "deleted": False, "endTime": end // 1000, "fileSize": size})
        for attribute, content in ((1, f"file:///home/ada/Downloads/{name}"), (2, facts)):
            base.execute("INSERT INTO moz_annos(place_id, anno_attribute_id, content, dateAdded, lastModified)"
                         " VALUES(?, ?, ?, ?, ?)", (number, attribute, content, end, end))
    base.commit()
    base.close()
    _firefox_session(profile, now)


def _firefox_session(profile: str, now: int) -> None:
    """What a running Firefox writes every 15 seconds; an LZ4 block of nothing but literals."""
    tabs = [{"entries": [{"url": url, "title": title}], "index": 1, "lastAccessed": (now - age * HOUR) // 1000,
             "pinned": pinned, "hidden": False, "userContextId": container}
            for url, title, age, pinned, container in FIREFOX_TABS]
    state = {"version": ["sessionrestore", 1], "windows": [{"tabs": tabs, "selected": 1, "_closedTabs": []}],
             "selectedWindow": 1, "session": {"lastUpdate": now // 1000}}
    data = json.dumps(state).encode()
    left = len(data) - 15
    block = b"\xf0" + b"\xff" * (left // 255) + bytes((left % 255,)) + data
    path = os.path.join(profile, "sessionstore-backups/recovery.jsonlz4")
    os.makedirs(os.path.dirname(path), 0o700)
    with open(path, "wb") as file:
        file.write(b"mozLz40\0" + struct.pack("<I", len(data)) + block)
    os.utime(path, (now // 1_000_000, now // 1_000_000))
    with open(os.path.join(profile, "containers.json"), "w") as file:
        json.dump({"version": 5, "identities": [{"userContextId": 2, "public": True, "icon": "briefcase",
                                                 "l10nId": "user-context-work"}]}, file)


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
        {"family": "browser", "browser": browser, "profile": name, "data": GRANTED[browser], "path": path}
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

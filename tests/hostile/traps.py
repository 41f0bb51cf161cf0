"""What a hostile machine may hold: texts that steer terminals, and databases, files and programs that are traps."""

import random
import sqlite3
import struct
from pathlib import Path
from typing import Any

import profiles
import sessions
from profiles import NOON, WEBKIT, Mark, Page
from support import Home

#: What no output may carry raw: escapes of a terminal, C1, DEL, what turns text round, has no width, or is a tag.
STEERING = "\x1b]0;owned\x07\x1b[31m\x9b31m\x85\x7f\u202e\u2066\u200b\u2028\ufeff\U000e0041\x08"
WORD = "needle"
STAMP = 13_440_000_000_000_000


def granted(path: Path, browser: str, *data: str) -> dict[str, Any]:
    """A grant for a profile."""
    return {"family": "browser", "browser": browser, "profile": path.name, "path": str(path),
            "data": list(data or ("history", "bookmarks", "tabs", "downloads", "reading"))}


def chromium(home: Home, name: str = "Default") -> Path:
    """The folder of a profile of Chromium."""
    return home.home / ".config/chromium" / name


def firefox(home: Home, name: str = "x.default") -> Path:
    """The folder of a profile of Firefox."""
    return home.home / ".mozilla/firefox" / name


def downloads(history: Path, *found: tuple[str, str]) -> None:
    """Put downloads (path, url) into a History."""
    with sqlite3.connect(history) as conn:
        conn.execute("DROP TABLE downloads")
        conn.execute("CREATE TABLE downloads (id INTEGER PRIMARY KEY, guid VARCHAR, target_path LONGVARCHAR NOT NULL,"
                     " start_time INTEGER, end_time INTEGER, received_bytes INTEGER, total_bytes INTEGER,"
                     " state INTEGER)")
        conn.execute("CREATE TABLE downloads_url_chains (id INTEGER, chain_index INTEGER, url LONGVARCHAR)")
        for number, (path, url) in enumerate(found, 1):
            conn.execute("INSERT INTO downloads VALUES (?, ?, ?, ?, ?, 1, 1, 1)",
                         (number, f"g{number}", path, NOON + WEBKIT, NOON + WEBKIT))
            conn.execute("INSERT INTO downloads_url_chains VALUES (?, 0, ?)", (number, url))
    conn.close()


def steering(home: Home) -> None:
    """Two profiles and a folder of notes in which every text is STEERING around WORD, all of it granted."""
    text, url = f"{STEERING}{WORD}{STEERING}", f"https://a.test/{WORD}{STEERING}"
    one, other, notes = chromium(home), firefox(home), home.home / "notes"
    downloads(profiles.chromium_history(one, [Page(url, text)]), (f"/d/{text}", url))
    profiles.chromium_bookmarks(one, other=[profiles.folder_node(text, profiles.url_node(text, url))])
    session = one / f"Sessions/Session_{STAMP}"
    session.parent.mkdir()
    session.write_bytes(sessions.snss(*sessions.simple_window(1, [(11, url, text)]), sessions.grouped(11, 5),
                                      sessions.group(5, text, 1)))
    folder = one / "Sync Data/LevelDB"
    folder.mkdir(parents=True)
    log = sessions.leveldb_log(sessions.batch(1, (b"reading_list-dt-" + url.encode(), sessions.reading(url, text))))
    for name, data in {**sessions.manifest([], log=7), "000007.log": log}.items():
        (folder / name).write_bytes(data)
    profiles.local_state(one.parent, {one.name: text})
    profiles.firefox_places(other, [Page(url + "2", text, description=text)], {
        "menu": [Mark(text, inside=[Mark(text, url + "2", tags=(text,))])]})
    with sqlite3.connect(other / "places.sqlite") as conn:
        conn.executescript("""
            CREATE TABLE moz_anno_attributes (id INTEGER PRIMARY KEY, name VARCHAR(32) UNIQUE NOT NULL);
            CREATE TABLE moz_annos (id INTEGER PRIMARY KEY, place_id INTEGER NOT NULL, anno_attribute_id INTEGER,
                content LONGVARCHAR, dateAdded INTEGER DEFAULT 0, lastModified INTEGER DEFAULT 0);
            INSERT INTO moz_anno_attributes VALUES (5, 'downloads/destinationFileURI');
        """)
        conn.execute("INSERT INTO moz_annos (place_id, anno_attribute_id, content, dateAdded) VALUES (1, 5, ?, ?)",
                     (f"file:///d/{text}", NOON))
    conn.close()
    store = other / "sessionstore-backups/recovery.jsonlz4"
    store.parent.mkdir()
    store.write_bytes(sessions.jsonlz4(sessions.firefox_state({"tabs": [sessions.firefox_tab(url + "2", text)]})))
    notes.mkdir()
    (notes / f"{STEERING.replace('/', '')}.md").write_text(f"# {text}\n\n{text}\n")
    home.consent(granted(one, "chromium"), granted(other, "firefox"), {"family": "files", "path": str(notes)})


def damaged(whole: bytes, seed: int) -> bytes:
    """A file with up to forty of its bytes flipped, past the first hundred, or its end missing."""
    pick = random.Random(seed)
    data = bytearray(whole)
    for _ in range(pick.randint(1, 40)):
        data[pick.randrange(100, len(data))] ^= 1 << pick.randrange(8)
    return bytes(data[:pick.randrange(200, len(data))] if seed % 9 == 0 else data)


def circling(path: Path, tables: tuple[str, ...], depth: int) -> None:
    """Make the tables of a small database trees whose pages name one child 400 times, `depth` levels deep."""
    conn = sqlite3.connect(path)
    wanted = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    roots = [conn.execute(wanted, (name,)).fetchone()[0] for name in tables]
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    data = bytearray(path.read_bytes())

    def branch(child: int) -> bytes:
        page = bytearray(size)
        at, places = size, []
        for key in range(1, 401):
            cell = struct.pack(">I", child) + (bytes([key]) if key < 128 else bytes([0x80 | key >> 7, key & 127]))
            at -= len(cell)
            page[at:at + len(cell)] = cell
            places.append(at)
        struct.pack_into(">BHHHBI", page, 0, 5, 0, len(places), at, 0, child)
        struct.pack_into(f">{len(places)}H", page, 12, *places)
        return bytes(page)

    for root in roots:
        data += data[(root - 1) * size:root * size]
        for _ in range(depth - 1):
            data += branch(len(data) // size)
        data[(root - 1) * size:root * size] = branch(len(data) // size)
    struct.pack_into(">I", data, 28, len(data) // size)
    path.write_bytes(data)


def program(folder: Path, name: str, proof: Path) -> Path:
    """An executable that leaves `proof` behind if anybody runs it."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\ntouch '{proof}'\n")
    file.chmod(0o755)
    return file

"""What a hostile machine may hold: texts that steer terminals, and databases, files and programs that are traps."""

import random
import sqlite3
import struct
from collections.abc import Callable, Sequence
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


def sharing(path: Path, table: str, count: int, values: Callable[[int], Sequence[int | str | None]]) -> None:
    """Put rows into a table of a small database that share all but their beginnings: one chain of overflow pages.

    `values` are those of row 1 to `count`; they may differ in what stands before the longest text, and are of one
    length.
    """
    conn = sqlite3.connect(path)
    (root,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    data = bytearray(path.read_bytes())
    least, most = (size - 12) * 32 // 255 - 23, size - 35

    def record(number: int, padding: int) -> bytes:
        found = list(values(number))
        longest = max((value for value in found if isinstance(value, str)), key=len)
        found[found.index(longest)] = longest + " " * padding
        kinds, content = b"", b""
        for value in found:
            text = value.encode() if isinstance(value, str) else b""
            kinds += _varint(13 + 2 * len(text)) if isinstance(value, str) else b"\0" if value is None else b"\6"
            content += struct.pack(">q", value) if isinstance(value, int) else text
        assert len(kinds) < 126
        return bytes([len(kinds) + 1]) + kinds + content

    # So that no more of a row than must be lies beside it.
    padding = next(more for more in range(size) if least + (len(record(1, more)) - least) % (size - 4) > most)
    rest = record(1, padding)[least:]
    assert rest == record(count, padding)[least:]
    first = len(data) // size + 1
    parts = [rest[at:at + size - 4] for at in range(0, len(rest), size - 4)]
    for number, part in enumerate(parts, first + 1):
        data += struct.pack(">I", number if number < first + len(parts) else 0) + part.ljust(size - 4, b"\0")

    def page(kind: int, cells: Sequence[bytes], right: int | None = None) -> bytes:
        made, at, places = bytearray(size), size, []
        for cell in cells:
            at -= len(cell)
            made[at:at + len(cell)] = cell
            places.append(at)
        struct.pack_into(">BHHHB", made, 0, kind, 0, len(cells), at, 0)
        if right is not None:
            struct.pack_into(">I", made, 8, right)
        struct.pack_into(f">{len(places)}H", made, 8 if right is None else 12, *places)
        return bytes(made)

    cells = []
    for number in range(1, count + 1):
        whole = record(number, padding)
        cells.append((number, _varint(len(whole)) + _varint(number) + whole[:least] + struct.pack(">I", first)))
    at_once = (size - 8) // (len(cells[-1][1]) + 2)
    level = []
    for begin in range(0, count, at_once):
        some = cells[begin:begin + at_once]
        data += page(13, [cell for _, cell in some])
        level.append((len(data) // size, some[-1][0]))
    while len(level) > 300:
        above = []
        for begin in range(0, len(level), 300):
            some_pages = level[begin:begin + 300]
            data += page(5, _children(some_pages), some_pages[-1][0])
            above.append((len(data) // size, some_pages[-1][1]))
        level = above
    data[(root - 1) * size:root * size] = page(5, _children(level), level[-1][0])
    struct.pack_into(">I", data, 28, len(data) // size)
    path.write_bytes(data)


def crowding(path: Path, count: int, columns: int, name: str) -> None:
    """Give a small database so many tables, in whose statements all but the beginning is shared."""
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE crowd (type, name, tbl_name, rootpage, sql)")
    conn.commit()
    (root,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'crowd'").fetchone()
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    listed = ", ".join(f"{name}{number}" for number in range(columns))

    def values(number: int) -> list[int | str | None]:
        table = f"t{number:08}"
        return ["table", table, table, root, f"CREATE TABLE {table}({listed})"]

    sharing(path, "crowd", count, values)
    data = bytearray(path.read_bytes())
    data[100:size] = bytes(size - 100)
    struct.pack_into(">BHHHBI", data, 100, 5, 0, 0, size, 0, root)  # The schema is that table.
    path.write_bytes(data)


def _children(level: Sequence[tuple[int, int]]) -> list[bytes]:
    """The cells of a branch for all but its last child."""
    return [struct.pack(">I", child) + _varint(key) for child, key in level[:-1]]


def _varint(number: int) -> bytes:
    found = [number & 127]
    while number := number >> 7:
        found.insert(0, number & 127 | 128)
    return bytes(found)


def program(folder: Path, name: str, proof: Path) -> Path:
    """An executable that leaves `proof` behind if anybody runs it."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\ntouch '{proof}'\n")
    file.chmod(0o755)
    return file

"""Builders of what GNOME Web keeps: its history, its bookmarks as a GVDB file, its session."""

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from profiles import NOON, Page


def history(folder: Path, pages: Sequence[Page], *, unit: int = 1, wal: bool = True) -> Path:
    """`ephy-history.db`; `unit` is microseconds in one of its: 1, or a million before version 3.37."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ephy-history.db"
    conn = sqlite3.connect(path)
    if wal:
        conn.execute("PRAGMA journal_mode = WAL")
    conn.executescript("""
        CREATE TABLE hosts (id INTEGER PRIMARY KEY,url LONGVARCAR,title LONGVARCAR,visit_count INTEGER DEFAULT 0 NOT
            NULL,zoom_level REAL DEFAULT 0.0);
        CREATE TABLE urls (id INTEGER PRIMARY KEY,host INTEGER NOT NULL REFERENCES hosts(id) ON DELETE CASCADE,url
            LONGVARCAR,title LONGVARCAR,sync_id LONGVARCAR,visit_count INTEGER DEFAULT 0 NOT NULL,typed_count INTEGER
            DEFAULT 0 NOT NULL,last_visit_time INTEGER,thumbnail_update_time INTEGER DEFAULT 0,hidden_from_overview
            INTEGER DEFAULT 0);
        CREATE TABLE visits (id INTEGER PRIMARY KEY,url INTEGER NOT NULL REFERENCES urls(id) ON DELETE
            CASCADE,visit_time INTEGER NOT NULL,visit_type INTEGER NOT NULL,referring_visit INTEGER);
        INSERT INTO hosts (id, url, title) VALUES (1, 'http://a.test/', 'a.test');
    """)
    for number, page in enumerate(pages, start=1):
        stored = [visit.at // unit if visit.raw is None else visit.raw for visit in page.visits]
        conn.execute("INSERT INTO urls (id, host, url, title, visit_count, last_visit_time) VALUES (?, 1, ?, ?, ?, ?)",
                     (number, page.url, page.title, len(stored), max(stored, default=page.last)))
        conn.executemany("INSERT INTO visits (url, visit_time, visit_type) VALUES (?, ?, 0)",
                         [(number, at) for at in stored])
    conn.commit()
    conn.close()
    return path


def session(folder: Path, *windows: tuple[int, Sequence[Mapping[str, str]]]) -> Path:
    """`session_state.xml`: of each window its active tab and the attributes of its tabs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "session_state.xml"
    lines = ['<?xml version="1.0"?>', "<session>"]
    for active, tabs in windows:
        lines.append(f'\t <window width="1024" height="768" is-maximized="0" is-fullscreen="0" active-tab="{active}">')
        lines += ["\t \t <embed " + " ".join(f"{key}={quoteattr(value)}" for key, value in tab.items()) + "/>"
                  for tab in tabs]
        lines.append("\t </window>")
    path.write_text("\n".join([*lines, "</session>", ""]))
    return path


# ---- GVDB (gvdb-builder.c) and GVariant


def _hash(key: bytes) -> int:
    value = 5381
    for byte in key:
        value = (value * 33 + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return value


Tree = Mapping[str, "tuple[str, bytes] | Tree | None"]


def gvdb(tree: Tree) -> bytes:
    """A file with tables (mappings), values ((type, serialized bytes)) and keys without one (None)."""
    data = bytearray(24)
    start, end = _table(data, tree)
    data[:24] = b"GVariant" + struct.pack("<IIII", 0, 0, start, end)
    return bytes(data)


def _table(data: bytearray, tree: Tree) -> tuple[int, int]:
    count = len(tree)
    ordered = sorted(tree, key=lambda key: _hash(key.encode()) % count)
    buckets = [sum(_hash(key.encode()) % count < number for key in ordered) for number in range(count)]
    data.extend(bytes(-len(data) % 4))
    start = len(data)
    items = start + 8 + 4 * count
    end = items + 24 * count
    data.extend(struct.pack(f"<II{count}I", 5 << 27, count, *buckets) + bytes(24 * count))
    for number, key in enumerate(ordered):
        raw, value = key.encode(), tree[key]
        key_start = len(data)
        data.extend(raw)
        if isinstance(value, tuple):
            kind = b"v"
            data.extend(bytes(-len(data) % 8))
            first = len(data)
            data.extend(value[1] + b"\0" + value[0].encode())
            last = len(data)
        elif value is None:
            kind, first, last = b"\0", 0, 0
        else:
            kind = b"H"
            first, last = _table(data, value)
        struct.pack_into("<IIIHcxII", data, items + 24 * number, _hash(raw), 0xFFFFFFFF, key_start, len(raw), kind,
                         first, last)
    return start, end


def _offsets(body: bytes, ends: Sequence[int]) -> bytes:
    width = next(width for width in (1, 2, 4, 8) if len(body) + width * len(ends) < 1 << 8 * width)
    return body + b"".join(end.to_bytes(width, "little") for end in ends)


def strings(values: Sequence[str]) -> bytes:
    """`as`, serialized."""
    body, ends = b"", []
    for value in values:
        body += value.encode() + b"\0"
        ends.append(len(body))
    return _offsets(body, ends)


def mark(title: str, tags: Sequence[str] = (), added: int = NOON, key: str = "id", old: bool = False,
         order: str = "<") -> tuple[str, bytes]:
    """The value of a bookmark: (xssxbas), or (xssdbas) in 3.24."""
    body = struct.pack(f"{order}q", added) + title.encode() + b"\0"
    ends = [len(body)]
    body += key.encode() + b"\0"
    ends.append(len(body))
    body += bytes(-len(body) % 8) + struct.pack(f"{order}{'d' if old else 'q'}", 0) + b"\1" + strings(tags)
    return "(xssdbas)" if old else "(xssxbas)", _offsets(body, list(reversed(ends)))


def bookmarks(folder: Path, marks: Mapping[str, tuple[str, bytes]], tags: Sequence[str] = ("Favorites",)) -> Path:
    """`bookmarks.gvdb`: values by url."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bookmarks.gvdb"
    path.write_bytes(gvdb({"tags": dict.fromkeys(tags), "bookmarks": marks}))
    return path

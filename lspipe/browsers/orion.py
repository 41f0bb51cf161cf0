"""Orion: its history, bookmarks and reading list (pure but for SQL).

The files are those that Kagi's own documentation names, their contents as the Orion extension of Raycast and
workflows for Alfred read them. Times of the history are texts in UTC, to the second. Open tabs are in files of which
no public source says the form; they are not read.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime

from lspipe import when
from lspipe.browsers import plist
from lspipe.browsers.bookmark import Bookmark
from lspipe.browsers.layout import Layout
from lspipe.browsers.readinglist import Reading
from lspipe.confine import columns, numbered
from lspipe.live import Unusable, never

TABLES = ("history_items", "visits")
_NUMBER = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})")
_DEEPEST = 100


def layout(conn: sqlite3.Connection) -> Layout:
    """The layout of Orion's `history`. Raises Unusable where it is no such database, FAULTS where it is damaged.

    `2026-04-30 10:00:00` is compared as the number 20260430100000.
    """
    pages, visits = columns(conn, "history_items"), columns(conn, "visits")
    if (not numbered(conn, "history_items") or "url" not in pages
            or not {"history_item_id", "visit_time"} <= visits):
        raise Unusable("failed", "'history' has no history_items and visits: another schema")

    def page(name: str) -> str:
        return f"p.{name}" if name in pages else "NULL"

    return Layout(
        pages="history_items", visits="visits", page="v.history_item_id", time=_number("v.visit_time"),
        title=page("title"), count=page("visit_count"),
        last=_number("p.last_visit_time") if "last_visit_time" in pages else "NULL", visitless=True,
        stored=_stored, decode=_decode,
    )


def _number(column: str) -> str:
    parts = " || ".join(f"substr({column}, {first}, {length})"
                        for first, length in ((1, 4), (6, 2), (9, 2), (12, 2), (15, 2), (18, 2)))
    return f"CAST({parts} AS INTEGER)"


def _stored(us: int) -> str:
    """The first second that is not before a time."""
    text = when.rfc3339(-(-us // when.SECOND) * when.SECOND)
    return "".join(re.findall("[0-9]+", text)[:6])


def _decode(value: object, now: int) -> when.Checked:
    if value is None:
        return None, "missing"
    found = _NUMBER.fullmatch(str(value))
    us = when.parse_rfc3339("{}-{}-{}T{}:{}:{}Z".format(*found.groups())) if found else None
    return (None, "impossible") if us is None else when.from_unix_us(us, now)


def bookmarks(data: bytes, name: str, now: int, stop: Callable[[], bool] = never) -> Iterator[Bookmark]:
    """The bookmarks of a favourites.plist, in the order of the file. Raises Unusable."""
    listed = plist.read(data, name, stop)
    if not isinstance(listed, dict):
        raise Unusable("failed", f"'{name}' has no bookmarks: another format")
    found = {key: value for key, value in listed.items() if isinstance(value, dict)}
    for key, one in found.items():
        url = plist.text(one.get("url"))
        if url is None or one.get("type") == "folder":
            continue
        added, quality = _date(one.get("dateAdded"), now)
        yield Bookmark(url, plist.text(one.get("title")), plist.text(one.get("id")) or plist.text(key),
                       _folder(found, one), (), added, quality)


def _folder(found: dict[str, dict[str, object]], one: dict[str, object]) -> tuple[str, ...]:
    """The titles of the folders that a bookmark lies in, from the outermost."""
    path: list[str] = []
    at, seen = one.get("parentId"), set()
    while isinstance(at, str) and at in found and at not in seen and len(path) < _DEEPEST:
        seen.add(at)
        title = plist.text(found[at].get("title"))
        if title:
            path.append(title)
        at = found[at].get("parentId")
    return tuple(reversed(path))


def reading(data: bytes, name: str, now: int, stop: Callable[[], bool] = never) -> Iterator[Reading]:
    """The entries of a reading_list.plist, in the order of the file. Raises Unusable."""
    listed = plist.read(data, name, stop)
    if not isinstance(listed, list):
        raise Unusable("failed", f"'{name}' has no reading list: another format")
    for one in map(plist.dictionary, listed):
        url = plist.text(plist.dictionary(one.get("url")).get("relative"))
        if url is not None:
            added, quality = _date(one.get("dateAdded"), now)
            yield Reading(url, plist.text(one.get("title")), None, added, quality, None, None, None,
                          plist.text(one.get("description")))


def _date(value: object, now: int) -> when.Checked:
    """A date; of a number nobody has said what it counts."""
    return plist.time(value, now) if isinstance(value, datetime) else (None, "missing" if value is None else "unknown")


def names(data: bytes) -> dict[str, str]:
    """Directory to shown name, from the list of `profiles`; nothing where that cannot be read."""
    try:
        listed = plist.dictionary(plist.read(data, "profiles"))
    except Unusable:
        return {}
    found = {plist.text(one.get("identifier")): plist.text(one.get("name"))
             for one in map(plist.dictionary, plist.array(listed.get("profiles")))}
    found["Defaults"] = plist.text(plist.dictionary(listed.get("defaults")).get("name"))
    return {key: name for key, name in found.items() if key is not None and name is not None}

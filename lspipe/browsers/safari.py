"""Safari's History.db, and its property lists of bookmarks, reading list and downloads (pure but for SQL).

A page's title belongs to its visits. Times are seconds since 2001-01-01 UTC, doubles. What Safari made by itself is
marked as synthesized, a hop of a redirect names where it led, and a page that came by iCloud has another origin than 0.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from lspipe import when
from lspipe.browsers import plist
from lspipe.browsers.bookmark import Bookmark
from lspipe.browsers.downloads import Download
from lspipe.browsers.layout import Layout
from lspipe.browsers.readinglist import Reading
from lspipe.confine import columns, numbered
from lspipe.live import Unusable, never

Stop = Callable[[], bool]
TABLES = ("history_items", "history_visits")
#: How Safari and its files call the profile that is always there.
DEFAULT = "DefaultProfile"
_OFFSET = -978_307_200_000_000
_READING = "com.apple.ReadingList"
#: What people see for the names of the two folders that are always there.
_SHOWN = {"BookmarksBar": "Favorites", "BookmarksMenu": "Bookmarks Menu"}


def layout(conn: sqlite3.Connection) -> Layout:
    """The layout of this History.db. Raises Unusable where it is no such database, FAULTS where it is damaged."""
    pages, visits = columns(conn, "history_items"), columns(conn, "history_visits")
    if (not numbered(conn, "history_items") or "url" not in pages
            or not {"history_item", "visit_time"} <= visits):
        raise Unusable("failed", "'History.db' has no history_items and history_visits: another schema")
    title = "NULL"
    if "title" in visits:
        title = ("(SELECT t.title FROM history_visits t WHERE t.history_item = p.id AND t.title <> ''"
                 " ORDER BY t.visit_time DESC LIMIT 1)")
    elif "title" in pages:
        title = "p.title"
    # +: its unique index makes SQLite believe that few visits have none.
    counted = [sql for name, sql in (("synthesized", "coalesce(v.synthesized, 0) = 0"),
                                     ("redirect_destination", "+v.redirect_destination IS NULL"),
                                     ("load_successful", "coalesce(v.load_successful, 1) <> 0")) if name in visits]
    return Layout(
        pages="history_items", visits="history_visits", page="v.history_item", time="v.visit_time", title=title,
        count="p.visit_count" if "visit_count" in pages else "NULL", counted=f"({' AND '.join(counted) or '1'})",
        synced="(coalesce(v.origin, 0) <> 0)" if "origin" in visits else None,
        offset=_OFFSET, stored=_stored, decode=when.from_mac,
    )


def _stored(us: int) -> str:
    """Half a microsecond before a time, as seconds: a double has an error of an eighth of one."""
    tenths = us * 10 - 5
    whole, rest = divmod(abs(tenths), 10_000_000)
    return f"{'-' if tenths < 0 else ''}{whole}.{rest:07d}"


def bookmarks(data: bytes, name: str, now: int, stop: Stop = never) -> Iterator[Bookmark]:
    """The bookmarks of a Bookmarks.plist without its reading list, in the order of the file. Raises Unusable."""
    for node, above in _nodes(data, name, stop):
        url = plist.text(node.get("URLString"))
        if url is None or any(folder.get("Title") == _READING for folder in above):
            continue
        titles = [plist.text(folder.get("Title")) for folder in above]
        path = tuple(_SHOWN.get(title, title) for title in titles if title)
        title = plist.text(plist.dictionary(node.get("URIDictionary")).get("title")) or plist.text(node.get("Title"))
        added, quality = _date(node.get("dateAdded"), now)
        yield Bookmark(url, title, plist.text(node.get("WebBookmarkUUID")), path, (), added, quality)


def _nodes(data: bytes, name: str, stop: Stop) -> Iterator[tuple[dict[Any, Any], tuple[Any, ...]]]:
    root = plist.read(data, name, stop)
    if not isinstance(root, dict) or not isinstance(root.get("Children"), list):
        raise Unusable("failed", f"'{name}' has no bookmarks: another format")
    return plist.nodes(root, "Children", len(data), name, stop)


def reading(data: bytes, name: str, now: int, stop: Stop = never) -> Iterator[Reading]:
    """The reading list of a Bookmarks.plist, in the order of the file; what was opened counts as read.

    Raises Unusable.
    """
    for node, above in _nodes(data, name, stop):
        url = plist.text(node.get("URLString"))
        if url is None or not any(folder.get("Title") == _READING for folder in above):
            continue
        facts, local = plist.dictionary(node.get("ReadingList")), plist.dictionary(node.get("ReadingListNonSync"))
        title = plist.text(plist.dictionary(node.get("URIDictionary")).get("title")) or plist.text(local.get("Title"))
        added, quality = _date(facts.get("DateAdded"), now)
        viewed = _date(facts.get("DateLastViewed"), now)[0]
        yield Reading(url, title, "unseen" if facts.get("DateLastViewed") is None else "read", added, quality, None,
                      viewed, None, plist.text(facts.get("PreviewText")) or plist.text(local.get("PreviewText")))


def downloads(data: bytes, name: str, now: int, profile: str, stop: Stop = never) -> Iterator[Download]:
    """The downloads of one profile from the Downloads.plist that all share, the last begun first. Raises Unusable.

    One without a profile is of the one that was there before there were any.
    """
    listed = plist.dictionary(plist.read(data, name, stop)).get("DownloadHistory")
    if not isinstance(listed, list):
        raise Unusable("failed", f"'{name}' has no downloads: another format")
    found = []
    for one in map(plist.dictionary, listed):
        url, owner = plist.text(one.get("DownloadEntryURL")), one.get("DownloadEntryProfileUUIDStringKey", DEFAULT)
        if url is None or not isinstance(owner, str) or owner.casefold() != profile.casefold():
            continue
        ended, quality = _date(one.get("DownloadEntryDateFinishedKey"), now)
        found.append(Download(
            url, plist.text(one.get("DownloadEntryIdentifier")), plist.text(one.get("DownloadEntryPath")), ended,
            quality, _date(one.get("DownloadEntryDateAddedKey"), now)[0],
            "complete" if one.get("DownloadEntryDateFinishedKey") is not None else None,
            received=_size(one.get("DownloadEntryProgressBytesSoFar")),
            total=_size(one.get("DownloadEntryProgressTotalToLoad"))))
    yield from sorted(found, key=lambda one: -(one.at or 0))


def _size(value: object) -> int | None:
    """A number of bytes; -1 stands for one that nobody knows."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _date(value: object, now: int) -> when.Checked:
    return (None, "missing") if value is None else plist.time(value, now)

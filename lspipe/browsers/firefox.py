"""Firefox's places.sqlite: which rows are pages, which visits count; and the bookmarks with their tags.

The numbers of visit types are those of nsINavHistoryService.idl. Times are microseconds since 1970. Where a
visit came from (this machine or Sync) is not kept.
"""

import sqlite3
from collections.abc import Iterator

from lspipe import when
from lspipe.browsers.bookmark import Bookmark
from lspipe.browsers.cursor import Cursor, as_text
from lspipe.browsers.layout import Layout
from lspipe.confine import columns, numbered
from lspipe.live import Unusable

DATABASE = "places.sqlite"
TABLES = ("moz_places", "moz_historyvisits")
BOOKMARK_TABLES = ("moz_bookmarks", "moz_places")
#: Embedded in a page, a download, in a frame.
_COUNTED = "(v.visit_type NOT IN (4, 7, 8))"
#: A link, typed, a bookmark: each earns a page a frecency above 0, unless it was an error page.
_EARNS = "(1, 2, 3)"
_ROOTS = {
    "menu________": "Bookmarks Menu", "toolbar_____": "Bookmarks Toolbar", "unfiled_____": "Other Bookmarks",
    "mobile______": "Mobile Bookmarks",
}
_TAGS = "tags________"
_BOOKMARK, _FOLDER = 1, 2
_DEEPEST = 100


def layout(conn: sqlite3.Connection) -> Layout:
    """The layout of this places.sqlite. Raises Unusable where it is no such database, FAULTS where it is damaged."""
    pages, visits = columns(conn, "moz_places"), columns(conn, "moz_historyvisits")
    if not numbered(conn, "moz_places") or "url" not in pages or not {"place_id", "visit_date"} <= visits:
        raise Unusable("failed", f"'{DATABASE}' has no moz_places and moz_historyvisits: another schema")

    def page(name: str) -> str:
        return f"p.{name}" if name in pages else "NULL"

    shown = [sql for name, sql in (("hidden", "p.hidden = 0"), ("visit_count", "p.visit_count > 0")) if name in pages]
    errors = None
    if "frecency" in pages and "visit_type" in visits:
        settled = " AND e.recalc_frecency = 0" if "recalc_frecency" in pages else ""
        errors = (
            f"SELECT e.id FROM moz_places e WHERE e.frecency = 0{settled} AND EXISTS"
            f" (SELECT 1 FROM moz_historyvisits v WHERE v.place_id = e.id AND v.visit_type IN {_EARNS})"
        )
    return Layout(
        pages="moz_places", visits="moz_historyvisits", page="v.place_id", time="v.visit_date",
        title=page("title"), text=page("description"), count=page("visit_count"), last=page("last_visit_date"),
        visited="p.last_visit_date IS NOT NULL" if "last_visit_date" in pages else "1",
        shown=" AND ".join(shown) or "1", counted=_COUNTED if "visit_type" in visits else "1", errors=errors,
        decode=when.from_unix_us,
    )


def bookmarks(conn: sqlite3.Connection, now: int) -> Iterator[Bookmark]:
    """The bookmarks, each with the path of its folder and its tags. Separators and saved searches are left out.

    Raises Unusable where it is no such database, FAULTS where it is damaged or interrupted.
    """
    marks, pages = columns(conn, "moz_bookmarks"), columns(conn, "moz_places")
    if not {"id", "type", "fk", "parent", "title"} <= marks or not {"id", "url"} <= pages:
        raise Unusable("failed", f"'{DATABASE}' has no moz_bookmarks and moz_places: another schema")
    cursor = Cursor(conn)
    guid = "b.guid" if "guid" in marks else "NULL"
    paths, tags_root = _folders(cursor, guid)
    tags = _tags(cursor, tags_root)
    added = "b.dateAdded" if "dateadded" in marks else "NULL"
    place_title = "p.title" if "title" in pages else "NULL"
    position = ", b.position" if "position" in marks else ""
    for parent, place, key, name, title, url, at in cursor.each(
            f"SELECT b.parent, b.fk, {guid}, b.title, {place_title}, p.url, {added} FROM moz_bookmarks b"
            f" JOIN moz_places p ON p.id = b.fk WHERE b.type = {_BOOKMARK} ORDER BY b.parent{position}, b.id"):
        address = as_text(url)
        if not address or address.startswith("place:") or parent not in paths:
            continue
        when_added, quality = when.from_unix_us(at, now)
        yield Bookmark(address, as_text(name) or as_text(title) or None, as_text(key) or None, paths[parent],
                       tuple(tags.get(place, ())), when_added, quality)
    if cursor.damaged:
        raise Unusable("failed", f"a part of '{DATABASE}' is damaged")


def _folders(cursor: Cursor, guid: str) -> tuple[dict[object, tuple[str, ...]], object]:
    """The path of every folder by its id, and the id of the root of tags, below which there are none."""
    rows = {row[0]: row[1:] for row in cursor.each(
        f"SELECT b.id, b.parent, b.title, {guid} FROM moz_bookmarks b WHERE b.type = {_FOLDER}")}
    tags_root = next((number for number, (_, _, key) in rows.items() if key == _TAGS), None)
    paths: dict[object, tuple[str, ...]] = {}
    for number in rows:
        path: list[str] = []
        at, seen = number, set()
        while at in rows and at not in seen and len(path) < _DEEPEST:
            seen.add(at)
            parent, title, key = rows[at]
            if at == tags_root:
                break
            if key != "root________":
                path.append(_ROOTS.get(as_text(key)) or as_text(title))
            at = parent
        if at != tags_root or tags_root is None:
            paths[number] = tuple(reversed(path))
    return paths, tags_root


def _tags(cursor: Cursor, root: object) -> dict[object, list[str]]:
    """The tags of each place: a tag is a folder below the root of tags that repeats the place."""
    found: dict[object, list[str]] = {}
    for place, title in cursor.each(
            "SELECT b.fk, t.title FROM moz_bookmarks t JOIN moz_bookmarks b ON b.parent = t.id"
            f" WHERE t.parent = ? AND t.type = {_FOLDER} AND b.fk IS NOT NULL ORDER BY t.title, t.id", (root,)):
        name = as_text(title)
        if name and name not in found.setdefault(place, []):
            found[place].append(name)
    return found

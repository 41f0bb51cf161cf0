"""Firefox's places.sqlite: which rows are pages, which visits count; and the bookmarks with their tags.

The numbers of visit types are those of nsINavHistoryService.idl. Times are microseconds since 1970. Where a
visit came from (this machine or Sync) is not kept.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lspipe import when
from lspipe.browsers.bookmark import Bookmark
from lspipe.browsers.cursor import CHUNK, Cursor, as_text
from lspipe.browsers.layout import Layout
from lspipe.confine import SHORT, Connection, columns, numbered
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
#: Characters of a url, a title and a guid that are kept; tags of one page.
_URL, _TITLE, _GUID, _TAGGED = 65_536, 4096, 255, 1000


def layout(conn: Connection) -> Layout:
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


def bookmarks(conn: Connection, now: int) -> Iterator[Bookmark]:
    """The bookmarks, each with the path of its folder and its tags. Separators and saved searches are left out.

    Raises Unusable where it is no such database, FAULTS where it is damaged or interrupted.
    """
    from more_itertools import chunked

    marks, pages = columns(conn, "moz_bookmarks"), columns(conn, "moz_places")
    if not {"id", "type", "fk", "parent", "title"} <= marks or not {"id", "url"} <= pages:
        raise Unusable("failed", f"'{DATABASE}' has no moz_bookmarks and moz_places: another schema")
    cursor = Cursor(conn)
    guid = f"substr(b.guid, 1, {_GUID})" if "guid" in marks else "NULL"
    paths, tags_root = _folders(cursor, guid)
    tags = _tags(cursor, tags_root)
    places = _Places(cursor, "title" in pages)
    added = "b.dateAdded" if "dateadded" in marks else "NULL"
    position = ", b.position" if "position" in marks else ""
    rows = cursor.each(f"SELECT b.id, b.parent, b.fk, {added} FROM moz_bookmarks b WHERE b.type = {_BOOKMARK}"
                       f" ORDER BY b.parent{position}, b.id", longest=SHORT)
    for some in chunked(rows, CHUNK):
        named = {row[0]: row[1:] for row in cursor.among(
            [row[0] for row in some],
            f"SELECT b.id, {guid}, substr(b.title, 1, {_TITLE}) FROM moz_bookmarks b WHERE b.id IN")}
        places.find(row[2] for row in some)
        for number, parent, place, at in some:
            address, length, title = places.known.get(place) or ("", 0, None)
            if not address or address.startswith("place:") or parent not in paths or number not in named:
                continue
            key, name = named[number]
            when_added, quality = when.from_unix_us(at, now)
            made = Bookmark(address, as_text(name) or title, as_text(key) or None, paths[parent], tags.get(place, ()),
                            when_added, quality, length=length)
            conn.look()
            conn.keep(made, made.title, made.guid)
            yield made
    if cursor.damaged:
        raise Unusable("failed", f"a part of '{DATABASE}' is damaged")


class _Places:
    """The pages of bookmarks, each read once: any number of bookmarks may be of one."""

    def __init__(self, cursor: Cursor, titled: bool) -> None:
        self._cursor = cursor
        self._asked = ("SELECT p.id, substr(p.url, 1, {}), length(p.url), {} FROM moz_places p WHERE p.id IN".format(
            _URL, f"substr(p.title, 1, {_TITLE})" if titled else "NULL"))
        self.known: dict[object, tuple[str, int, str | None]] = {}

    def find(self, ids: Iterable[object]) -> None:
        """Read those of these pages that are not known."""
        new = [number for number in dict.fromkeys(ids) if number not in self.known]
        for number, url, length, title in self._cursor.among(new, self._asked):
            self._cursor.conn.keep(url, title)
            address = as_text(url)
            self.known[number] = address, length if length and length > len(address) else 0, as_text(title) or None


def _folders(cursor: Cursor, guid: str) -> tuple[dict[object, tuple[str, ...]], object]:
    """The path of every folder by its id, and the id of the root of tags, below which there are none."""
    rows: dict[Any, tuple[Any, ...]] = {}
    for number, *facts in cursor.kept(f"SELECT b.id, b.parent, substr(b.title, 1, {_TITLE}), {guid}"
                                      f" FROM moz_bookmarks b WHERE b.type = {_FOLDER}"):
        cursor.conn.keep(most=8 * _DEEPEST)  # For its path.
        rows[number] = tuple(facts)
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


def _tags(cursor: Cursor, root: object) -> dict[object, tuple[str, ...]]:
    """The tags of each place: a tag is a folder below the root of tags that repeats the place."""
    names = {number: as_text(title) for number, title in cursor.kept(
        f"SELECT t.id, substr(t.title, 1, {_TITLE}) FROM moz_bookmarks t WHERE t.parent = ? AND t.type = {_FOLDER}",
        (root,))}
    held: dict[object, dict[str, None]] = {}
    tagged = "SELECT b.parent, b.fk FROM moz_bookmarks b WHERE b.fk IS NOT NULL"
    for number, place in cursor.each(tagged, longest=SHORT) if any(names.values()) else ():
        if names.get(number) and len(held.setdefault(place, {})) < _TAGGED:
            cursor.conn.keep(place)
            held[place][names[number]] = None
    return {place: tuple(sorted(found)) for place, found in held.items()}

"""GNOME Web (Epiphany): its history, its bookmarks with tags, and its windows with their tabs (pure but for SQL).

The history is that of lib/history/ephy-history-service-*-table.c: times are microseconds since 1970, seconds before
version 3.37; which of them, the newest tells. Bookmarks are those of src/bookmarks/ephy-bookmarks-export.c: values
`(xssxbas)` by url, `(xssdbas)` in 3.24. The session is that of src/ephy-session.c.
"""

import sqlite3
from collections.abc import Callable, Iterator

from lspipe import when
from lspipe.browsers import gvdb
from lspipe.browsers.bookmark import Bookmark
from lspipe.browsers.layout import Layout
from lspipe.browsers.tab import Entry, Tab
from lspipe.confine import columns, numbered
from lspipe.live import Late, Unusable, never

TABLES = ("urls", "visits")
#: Seconds since 1970 are smaller, microseconds larger.
_SECONDS = 100_000_000_000
#: The largest session that is read; it holds the back and forward lists.
SESSION_MOST = 32 << 20
_TABS = 100_000
#: Bookmarks, and bytes of a session, between two looks at the clock.
_STEPS, _PART = 1024, 1 << 16


def layout(conn: sqlite3.Connection) -> Layout:
    """The layout of this ephy-history.db. Raises Unusable where it is no such database, FAULTS where it is damaged."""
    pages, visits = columns(conn, "urls"), columns(conn, "visits")
    if not numbered(conn, "urls") or "url" not in pages or not {"url", "visit_time"} <= visits:
        raise Unusable("failed", "'ephy-history.db' has no urls and visits: another schema")

    def page(name: str) -> str:
        return f"p.{name}" if name in pages else "NULL"

    newest = [row[0] for row in conn.execute("SELECT max(visit_time) FROM visits WHERE typeof(visit_time) = 'integer'")]
    seconds = bool(newest) and isinstance(newest[0], int) and newest[0] < _SECONDS
    return Layout(
        pages="urls", visits="visits", page="v.url", time="v.visit_time", title=page("title"),
        count=page("visit_count"), last=page("last_visit_time"), visitless=True,
        stored=_in_seconds if seconds else str, decode=when.from_unix_s if seconds else when.from_unix_us,
    )


def _in_seconds(us: int) -> str:
    """The first second that is not before a time."""
    return str(-(-us // when.SECOND))


def bookmarks(data: bytes, name: str, now: int, stop: Callable[[], bool] = never) -> Iterator[Bookmark]:
    """The bookmarks of a bookmarks.gvdb, by their urls. Raises Unusable at the first thing that is damaged."""
    try:
        table, order = gvdb.root(data)
        found = table.table("bookmarks")
        if found is None:
            raise gvdb.Bad("it has no bookmarks")
        for number, item in enumerate(found.items()):
            if not number % _STEPS and stop():
                raise Late
            kinds, value = found.value(item)
            if kinds not in ("(xssxbas)", "(xssdbas)"):
                raise gvdb.Bad(f"a bookmark of another type: {kinds[:20]!a}")
            added, title, key, _, _, tags = gvdb.members(value, kinds[1:6] + "a", order)
            at, quality = when.from_unix_us(added, now)
            if item.key:
                yield Bookmark(item.key, str(title) or None, str(key) or None, (),
                               tuple(tags) if isinstance(tags, list) else (), at, quality)
    except gvdb.Bad as error:
        raise Unusable("failed", f"'{name}' is damaged: {error}") from None


def tabs(data: bytes, name: str, stop: Callable[[], bool] = never) -> list[Tab]:
    """The tabs of a session_state.xml, window by window. Raises Unusable.

    Entities and a document type, which the browser never writes, are refused: they are how a small file becomes a
    large one. Incognito windows and web apps have folders of their own, elsewhere.
    """
    from xml.parsers import expat

    found: list[Tab] = []
    window, chosen, index, inside = 0, -1, 0, False

    def begin(element: str, attributes: dict[str, str]) -> None:
        nonlocal window, chosen, index, inside
        if element == "session":
            inside = True
        elif not inside:
            raise Unusable("failed", f"'{name}' is no session: another format")
        if element == "window":
            window, index = window + 1, 0
            chosen = int(attributes["active-tab"]) if attributes.get("active-tab", "").isdecimal() else -1
        elif element == "embed" and window:
            if len(found) == _TABS:
                raise Unusable("failed", f"'{name}' has more than {_TABS} tabs")
            url = attributes.get("url")
            if url:
                # Title and back and forward list are attributes too.
                found.append(Tab(Entry(url, attributes.get("title") or None), window=window, index=index,
                                 active=index == chosen, pinned=attributes.get("pinned") == "true",
                                 unloaded=attributes.get("crashed") == "true"))
            index += 1

    def refuse(*_facts: object) -> None:
        raise Unusable("failed", f"'{name}' declares a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        for start in range(0, len(data), _PART):
            if stop():
                raise Late
            parser.Parse(data[start:start + _PART], False)
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError) as error:
        raise Unusable("failed", f"'{name}' is not XML: {error}") from None
    return found

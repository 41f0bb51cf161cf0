"""Chromium's History, schema versions 17 and later: which rows are pages, which visits count (columns by their names).

What chrome://history shows: visits that end a chain of redirects and are neither frames nor made from a
keyword. Times are microseconds since 1601-01-01 UTC.
"""

import sqlite3

from lspipe import when
from lspipe.browsers.layout import Layout
from lspipe.confine import columns, numbered
from lspipe.live import Unusable

DATABASE = "History"
TABLES = ("urls", "visits", "visit_source", "context_annotations")
OFFSET = 11_644_473_600_000_000
#: page_transition_types.h: the bit for the end of a chain with any core type but 3, 4 (frames) and 10 (made from a
#: keyword). Written as ranges: on millions of visits that takes half the time.
_CORE = "v.transition & 0x200000ff"
_COUNTED = (f"({_CORE} BETWEEN 0x20000000 AND 0x20000002 OR {_CORE} BETWEEN 0x20000005 AND 0x20000009"
            f" OR {_CORE} > 0x2000000a)")
_NOT_FOUND = 400  # The first HTTP status that is an error.


def layout(conn: sqlite3.Connection) -> Layout:
    """The layout of this History. Raises Unusable where it is no such database, FAULTS where it is damaged."""
    pages, visits = columns(conn, "urls"), columns(conn, "visits")
    if not numbered(conn, "urls") or "url" not in pages or not {"url", "visit_time"} <= visits:
        raise Unusable("failed", f"'{DATABASE}' has no urls and visits: another schema")

    def page(name: str) -> str:
        return f"p.{name}" if name in pages else "NULL"

    counted = _COUNTED if "transition" in visits else "1"
    return Layout(
        pages="urls", visits="visits", page="v.url", time="v.visit_time",
        title=page("title"), count=page("visit_count"), last=page("last_visit_time"),
        shown="p.hidden = 0" if "hidden" in pages else "1", counted=counted, synced=_synced(conn, visits),
        device="v.originator_cache_guid" if "originator_cache_guid" in visits else "NULL",
        errors=_errors(conn, visits, counted), visitless=True, offset=OFFSET, decode=when.from_webkit,
    )


def _synced(conn: sqlite3.Connection, visits: frozenset[str]) -> str | None:
    """A visit of another device: it says which, or its source is 0 (before version 55 that alone)."""
    parts = ["coalesce(v.originator_cache_guid, '') <> ''"] if "originator_cache_guid" in visits else []
    if "id" in visits and {"id", "source"} <= columns(conn, "visit_source"):
        parts.append("EXISTS (SELECT 1 FROM visit_source s WHERE s.id = v.id AND s.source = 0)")
    return f"({' OR '.join(parts)})" if parts else None


def _errors(conn: sqlite3.Connection, visits: frozenset[str], counted: str) -> str | None:
    """Pages of which every counted visit got an error. Newer versions mark them hidden as well."""
    if "id" not in visits or not {"visit_id", "response_code"} <= columns(conn, "context_annotations"):
        return None
    other = counted.replace("v.", "o.")
    return (
        # CROSS: errors are few, so that the loop over them has to be the outer one.
        "SELECT DISTINCT v.url FROM context_annotations a CROSS JOIN visits v ON v.id = a.visit_id"
        f" WHERE a.response_code >= {_NOT_FOUND} AND NOT EXISTS ("
        "SELECT 1 FROM visits o LEFT JOIN context_annotations b ON b.visit_id = o.id"
        f" WHERE o.url = v.url AND {other} AND coalesce(b.response_code, 0) < {_NOT_FOUND})"
    )

"""Titles of pages by their urls, from the database of a history that may be read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lspipe.browsers.cursor import CHUNK, Cursor, decoded
from lspipe.confine import columns

if TYPE_CHECKING:
    from lspipe.confine import Connection

#: The table of pages by engine.
PAGES = {"chromium": "urls", "firefox": "moz_places"}
_LONGEST = 4096


def titles(conn: "Connection", engine: str, urls: Iterable[str]) -> dict[str, str]:
    """The titles of those of `urls` that have one. Raises FAULTS where it was interrupted."""
    from more_itertools import sliced

    table = PAGES[engine]
    if not {"url", "title"} <= columns(conn, table):
        return {}
    asked = sorted(set(urls))
    cursor = Cursor(conn)
    found = {}
    for some in sliced(asked, CHUNK):
        for url, title in cursor.each(
                f"SELECT url, CAST(substr(title, 1, {_LONGEST}) AS BLOB) FROM {table} WHERE url IN"
                f" ({','.join('?' * len(some))}) AND title <> ''", some):
            if isinstance(url, str):
                found[url] = decoded(title)[0] or ""
    return found

"""The pages in the lists of open tabs that a history file does not hold yet, as a history of their own.

Chromium writes its history some ten seconds after a visit, and what is younger is lost when it is killed; its session
file has the page after three. Both store the very same time for one visit, so that a page which the file holds at
that time or later adds nothing.
"""

import sqlite3
from collections.abc import Iterable, Mapping

from lspipe import confine, urls, when
from lspipe.browsers.layout import Layout, Wanted
from lspipe.browsers.pages import History, Stored
from lspipe.browsers.tab import Entry, Tab, is_own

_TABLES = """
    CREATE TABLE pages(id INTEGER PRIMARY KEY, url TEXT, title TEXT, count INTEGER, last INTEGER);
    CREATE TABLE visits(page INTEGER, at INTEGER);
"""
_LAYOUT = Layout(
    pages="pages", visits="visits", page="v.page", time="v.at", title="p.title", count="p.count", last="p.last",
    synced="0", visitless=True, decode=when.from_unix_us,
)
#: What no browser writes into its history, and what Firefox does not write besides.
_PASSING = ("view-source:", "blob:", "javascript:")
_OF_FIREFOX = ("data:",)
_ERROR = 400  # The first HTTP status that is one.
_LONGEST = 1 << 20


def gathered(engine: str, tabs: Iterable[Tab], wanted: Wanted) -> dict[str, Entry]:
    """The last visit in scope of each page in the lists of `tabs`, with a title where any of these visits has one.

    By the address that the history would have: without a password. Pages of the browser itself are in no history.
    """
    found: dict[str, Entry] = {}
    passing = _PASSING + _OF_FIREFOX if engine == "firefox" else _PASSING
    for tab in tabs:
        if tab.kind == "devtools" or tab.unloaded:
            continue  # What is typed into an address bar was not visited.
        for entry in tab.entries:
            if not entry.url or is_own(entry.url) or entry.url[:20].lower().startswith(passing):
                continue
            if not _inside(entry.at, wanted) or (not wanted.everything and (entry.status or 0) >= _ERROR):
                continue
            url = urls.recorded(entry.url)
            old = found.get(url)
            if old is None or (entry.at or 0) > (old.at or 0):
                found[url] = entry if entry.title or old is None else entry._replace(title=old.title)
            elif entry.title and not old.title:
                found[url] = old._replace(title=entry.title)
    return found


def beside(history: History, entries: Mapping[str, Entry], wanted: Wanted, method: str) -> History | None:
    """What of `entries` is missing in `history` or newer there, as a history; None where that is nothing.

    A page that `history` holds with an older visit is from then on left to the new one, which takes over its title
    and how often it was visited. Raises FAULTS where it was interrupted.
    """
    if wanted.origin == "synced" or wanted.device is not None:
        return None
    fresh: dict[str, tuple[Entry, str | None, int | None]] = {
        url: (entry, entry.title, None) for url, entry in entries.items()}
    held: dict[str, list[Stored]] = {}
    for page in history.stored(sorted(fresh)):
        held.setdefault(page.url, []).append(page)
    left: list[int] = []
    for url, pages in held.items():  # More than one only in a damaged file: no index keeps urls apart.
        entry, title, _ = fresh.pop(url)
        newest = max(pages, key=lambda page: page.last or 0)
        if entry.at is not None and newest.last is not None and entry.at > newest.last:
            fresh[url] = entry, newest.title or title, newest.visits
            left += [page.id for page in pages if page.shown]
    if not fresh:
        return None
    history.leave_to_another(left)
    return History(_database(fresh), _LAYOUT, wanted, method)


def _inside(at: int | None, wanted: Wanted) -> bool:
    if at is None:
        return wanted.since is None and wanted.until is None
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)


def _database(found: Mapping[str, tuple[Entry, str | None, int | None]]) -> confine.Connection:
    conn = sqlite3.connect(":memory:", isolation_level=None, factory=confine.Connection)
    conn.executescript(_TABLES)
    rows = list(enumerate(sorted(found.items()), 1))
    conn.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?)", (
        (number, url[:_LONGEST], title, count, entry.at) for number, (url, (entry, title, count)) in rows))
    conn.executemany("INSERT INTO visits VALUES (?, ?)", (
        (number, entry.at) for number, (_, (entry, _title, _count)) in rows if entry.at is not None))
    conn.execute("CREATE INDEX visits_page ON visits(page)")
    confine.confine(conn, ("pages", "visits"), None)
    return conn

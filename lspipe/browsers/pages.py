"""The pages of one browser history, whatever its schema: which are in scope, which may hold a word, the newest.

Memory is bounded by the number of pages: rows come through cursors, never a table as a whole, and of many pages at
once only short texts are held (`Page.full`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lspipe import confine
from lspipe.browsers.cursor import CHUNK, Cursor, as_text, chunks, decoded, marks
from lspipe.browsers.layout import Conditions, Layout, Wanted, from_device

#: Characters of a url and of a title that are kept. A row has room for a mebibyte, and some `data:` urls do
#: not fit.
URL, TITLE = 65_536, 4096
#: Nobody visits a page more often: a larger number is a damaged one, and a sum of such would be no score.
_VISITS = 100_000_000
#: Characters of the description of a page, which Firefox cuts at 256; bytes of all texts of a page of which many are
#: held.
_TEXT, _HELD = 4096, 400
#: With fewer pages in scope each is fetched by its id, with more the whole table is searched.
_FEW = 50_000
#: Pages that are fetched before the first is given out.
_FIRST = 20

Seen = dict[int, tuple[Any, Any, Any]]
"""For a page its newest visit: (stored time, whether it was synced, the id of its device)."""


Candidate = tuple[int, str, str, str]
"""A page that may match, as far as matching needs it: id, url, title, text."""


class Page(NamedTuple):
    """A page in full. `seen` is its newest visit in scope, or None with the reason in `quality`."""

    id: int
    url: str
    length: int
    title: str | None
    text: str | None
    visits: int | None
    seen: int | None
    quality: str | None
    origin: str | None
    lossy: bool
    device: str | None = None
    full: bool = True  # False: without its texts, `History.whole` has them.


class Stored(NamedTuple):
    """A page by its url: whether it is `shown`, its title, how often and when it was last visited (None: unknown)."""

    id: int
    url: str
    shown: bool
    title: str | None
    visits: int | None
    last: int | None


class History:
    """A history in a connection that `snapshot.connect` made. Raises confine.FAULTS where it was interrupted."""

    def __init__(self, conn: confine.Connection, layout: Layout, wanted: Wanted, method: str = "snapshot") -> None:
        """`method` says in a row's provenance how this history was had."""
        self.cursor = Cursor(conn)
        self.method = method
        self.layout = layout
        self.wanted = wanted
        self.where = Conditions.of(layout, wanted)
        self._inside: set[int] | None = None
        self._outside: set[int] = set()
        self._elsewhere: set[int] = set()
        self._indexed = self.cursor.finds_by(layout.visits, layout.page.removeprefix("v."))
        self._all_seen: Seen | None = None

    def grace(self) -> None:
        """Let what was found be fetched, though time is over."""
        confine.grace(self.cursor.conn)

    def late(self) -> bool:
        """Whether time is over, grace or not."""
        return self.cursor.conn.late()

    def stored(self, urls: Sequence[str]) -> Iterator[Stored]:
        """What it holds of these urls, shown or not."""
        layout = self.layout
        known = {url: url for url in urls}
        sql = (f"SELECT p.id, p.url, {self.where.shown}, CAST(substr({layout.title}, 1, {TITLE}) AS BLOB),"
               f" {layout.count}, {layout.last} FROM {layout.pages} p WHERE p.url IN")
        for page, url, shown, title, count, last in self.cursor.among(urls, sql):
            # Any number of rows of a damaged file may have the same url.
            url = known.get(as_text(url))
            if type(page) is int and url is not None:
                self.cursor.conn.keep(title)
                yield Stored(page, url, bool(shown), decoded(title)[0],
                             count if type(count) is int else None, layout.decode(last, self.wanted.now)[0])

    def comes_from_device(self) -> bool:
        """Whether any visit at all came from the device that is wanted."""
        layout, wanted = self.layout, self.wanted
        if layout.device == "NULL" or wanted.device is None:
            return False
        which = from_device(layout, wanted.device, wanted.devices)
        return next(self.cursor.each(f"SELECT 1 FROM {layout.visits} v WHERE {which} LIMIT 1", (), confine.SHORT),
                    None) is not None

    def leave_to_another(self, ids: Iterable[int]) -> None:
        """Leave out these pages, all of them shown: another history of this profile has a newer visit of them."""
        self._elsewhere.update(ids)

    # ---- which pages are in scope

    def count(self) -> int:
        """How many pages are in scope. It finds out which, and so comes before `candidates`."""
        layout, where = self.layout, self.where
        errors = self._errors() | self._elsewhere
        if self.wanted.narrow:
            visited = f"SELECT {layout.page} FROM {layout.visits} v WHERE {where.visit} AND {where.window}"
            sql = f"SELECT p.id FROM {layout.pages} p WHERE {where.shown} AND p.id IN ({visited})"
            self._inside = self.cursor.ids(sql) | {page for page, *_ in self._expired()}
            self._inside -= errors
            return len(self._inside)
        self._outside = errors | (set() if where.visit == "1" else self._hops())
        # Where a part of the table is damaged, an index may still know how many there are.
        for condition in (where.shown, "1"):
            for found, in self.cursor.each(f"SELECT count(*) FROM {layout.pages} p WHERE {condition}",
                                          longest=confine.SHORT):
                return max(0, int(found) - len(self._outside))
        return 0

    def _errors(self) -> set[int]:
        """The shown pages that were never anything but an error."""
        layout = self.layout
        if self.wanted.everything or layout.errors is None:
            return set()
        sql = f"SELECT p.id FROM {layout.pages} p WHERE {self.where.shown} AND p.id IN ({layout.errors})"
        return self.cursor.ids(sql)

    def _hops(self) -> set[int]:
        """The shown pages that have visits, of which none counts: stations of redirects, frames."""
        layout, where = self.layout, self.where
        visits = f"SELECT {layout.page} FROM {layout.visits} v WHERE"
        shown = f"SELECT p.id FROM {layout.pages} p WHERE {where.shown} AND p.id IN"
        if not self._indexed:
            other = f"{visits} NOT {where.visit} EXCEPT {visits} {where.visit}"
            return self.cursor.ids(f"{shown} ({other})")
        # Few pages have such visits: asking for each of them is quicker than grouping all visits.
        return self.cursor.ids(f"{shown} ({visits} NOT {where.visit}) AND NOT EXISTS ("
                               f"SELECT 1 FROM {layout.visits} v WHERE {layout.page} = p.id AND {where.visit})")

    def _expired(self) -> Iterator[tuple[int, Any, None, None]]:
        """(id, stored time, None, None) of shown pages in scope whose visits are gone, the newest first."""
        layout, where = self.layout, self.where
        if where.expired == "0":
            return
        for page, at in self.cursor.each(
                f"SELECT p.id, {layout.last} FROM {layout.pages} p WHERE {where.shown} AND {where.expired}"
                f" AND {self._gone} ORDER BY {layout.last} DESC", longest=confine.SHORT):
            yield page, at, None, None

    @property
    def _gone(self) -> str:
        layout = self.layout
        if self._indexed:
            return f"NOT EXISTS (SELECT 1 FROM {layout.visits} v WHERE {layout.page} = p.id)"
        return f"p.id NOT IN (SELECT {layout.page} FROM {layout.visits} v WHERE {layout.page} IS NOT NULL)"

    # ---- which pages may hold a word

    def candidates(self, likes: Sequence[str] | None) -> Iterator[Candidate]:
        """The pages in scope that may hold one of `likes` (`matching.ascii_likes`); None: all of them.

        SQL looks at ASCII text alone: what has other letters, or an encoded url, is let through.
        """
        layout, inside, outside = self.layout, self._inside, self._outside
        condition, given = self.where.shown, []
        if likes is not None:
            # The title first: it is the shorter one, and more often holds the word.
            texts = [*(name for name in (layout.title, layout.text) if name != "NULL"), "p.url"]
            parts = [f"{name} LIKE ?" for name in texts for _ in likes]
            given = [f"%{word}%" for _ in texts for word in likes]
            # Of another length in bytes than in characters: it has letters outside ASCII, or a NUL.
            parts += [f"length({name}) <> length(CAST({name} AS BLOB))" for name in texts]
            # Encoded letters, an encoded host. (A class of characters in the pattern would take ten times as long.)
            parts += ["p.url GLOB '*%*'", "p.url GLOB '*xn--*'", "p.url GLOB '*XN--*'"]
            condition += f" AND {_any(parts)}"
        columns = f"p.id, p.url, {layout.title}, {layout.text}"
        if inside is not None and len(inside) < _FEW:
            sql = f"SELECT {columns} FROM {layout.pages} p WHERE {condition} AND p.id IN"
            rows = self.cursor.among(sorted(inside), sql, given)
        else:
            rows = self.cursor.all(layout.pages, columns, condition, given)
        for page, url, title, text in rows:
            if page in outside or (inside is not None and page not in inside) or type(page) is not int:
                continue
            if type(url) is not str or type(title) is not str or text is not None:
                url, title, text = as_text(url), as_text(title), as_text(text)
            if url:
                if len(url) + len(title) > _HELD:  # Whoever goes through it takes long.
                    self.cursor.conn.look()
                yield page, url[:URL], title[:URL], (text or "")[:URL]

    def visits(self) -> Iterator[tuple[int, int]]:
        """(id, how often it was visited) of the pages in scope; with a window, in that window. `count` comes before.

        Without one it is the browser's own figure, which outlives the visits that it has let expire.
        """
        layout, where, inside = self.layout, self.where, self._inside
        if inside is None:
            if layout.count != "NULL":
                sql = f"SELECT p.id, {layout.count} FROM {layout.pages} p WHERE {where.shown}"
            else:
                sql = f"SELECT {layout.page}, count(*) FROM {layout.visits} v WHERE {where.visit} GROUP BY 1"
            rows = self.cursor.alone(sql)
            yield from ((page, visits if visits <= _VISITS else 1) for page, visits in rows
                        if page not in self._outside and type(visits) is int and visits > 0)
            return
        counted = dict(self.cursor.alone(f"SELECT {layout.page}, count(*) FROM {layout.visits} v"
                                         f" WHERE {where.visit} AND {where.window} GROUP BY 1"))
        # One whose visits have expired was visited once at least.
        yield from ((page, counted.get(page, 1)) for page in sorted(inside))

    # ---- pages in full

    def urls(self, ids: Sequence[int]) -> Iterator[tuple[int, str]]:
        """(id, url) of these pages, in the order of their ids."""
        sql = f"SELECT p.id, substr(p.url, 1, {URL}) FROM {self.layout.pages} p WHERE p.id IN"
        for page, url in self.cursor.among(ids, sql):
            yield page, as_text(url)

    def held(self, ids: Sequence[int], seen: Seen | None = None) -> list[Page]:
        """The pages of these ids that can be read, in this order, those with long texts without them.

        `seen` are newest visits that are known.
        """
        newest = self._newest(ids) if seen is None else seen
        found = {row[0]: self._page(row, newest.get(row[0]), _HELD) for row in self._rows(ids)}
        return [page for page in map(found.get, ids) if page is not None and (page.url or not page.full)]

    def whole(self, page: Page) -> Page | None:
        """A page that is `held`, with its texts; None where it cannot be read any more."""
        if page.full:
            return page
        row = next(self._rows([page.id]), None)
        full = None if row is None else self._page(row, None)
        if full is None or not full.url:
            return None
        return page._replace(url=full.url, title=full.title, text=full.text, full=True)

    def _rows(self, ids: Sequence[int]) -> Iterator[Any]:
        layout = self.layout
        return self.cursor.among(ids, (
            f"SELECT p.id, CAST(substr(p.url, 1, {URL}) AS BLOB), length(p.url),"
            f" CAST(substr({layout.title}, 1, {TITLE}) AS BLOB), CAST(substr({layout.text}, 1, {_TEXT}) AS BLOB),"
            f" {layout.count}, {layout.last} FROM {layout.pages} p WHERE {self.where.shown} AND p.id IN"))

    def newest(self, ids: Sequence[int]) -> int | None:
        """When any of these pages was visited last, in scope; None where no such time is known."""
        newest = self._newest(ids)
        times = (self.layout.decode(newest[page][0], self.wanted.now)[0] for page in ids if page in newest)
        return max((time for time in times if time is not None), default=None)

    def _page(self, row: Sequence[Any], newest: tuple[Any, Any, Any] | None, most: int | None = None) -> Page:
        """A row as a page; with no texts where they have more bytes than `most`."""
        number, raw_url, length, raw_title, raw_text, count, last = row
        url, odd_url = decoded(raw_url)
        title, odd_title = decoded(raw_title)
        value, synced, device = (last, None, None) if newest is None else newest
        seen, quality = self.layout.decode(value, self.wanted.now)
        full = most is None or len(raw_url or "") + len(raw_title or "") + len(raw_text or "") <= most
        if not full:
            url = title = raw_text = None
        return Page(number, url or "", length or 0, title, decoded(raw_text)[0],
                    count if type(count) is int and 0 <= count <= _VISITS else None, seen, quality,
                    None if synced is None else "synced" if synced else "local", odd_url or odd_title,
                    as_text(device) or None, full)

    def _newest(self, ids: Sequence[int]) -> Seen:
        """The newest visit in scope of each page; where none is at a time that can be, the newest of all."""
        if not self._indexed:  # One pass over all visits, once.
            if self._all_seen is None:
                self._all_seen = self._newest_by("1", "1")
                self._all_seen.update(self._newest_by(self.where.window, "1"))
            return self._all_seen
        found: Seen = {}
        for chunk in chunks(ids):
            found.update(self._newest_by(self.where.window, f"{self.layout.page} IN {marks(chunk)}", chunk))
            rest = [number for number in chunk if number not in found]
            if rest and not self.wanted.narrow:
                found.update(self._newest_by("1", f"{self.layout.page} IN {marks(rest)}", rest))
        return found

    def _newest_by(self, window: str, which: str, given: Sequence[int] = ()) -> Seen:
        layout = self.layout
        # Beside max() SQLite takes what stands in the row that has it.
        sql = (f"SELECT {layout.page}, max({layout.time}), {layout.synced or 'NULL'}, {layout.device}"
               f" FROM {layout.visits} v WHERE {self.where.visit} AND {window} AND {which} GROUP BY 1")
        return {page: (at, synced, device) for page, at, synced, device in self.cursor.alone(sql, given)}

    # ---- the newest first

    def recent(self) -> Iterator[Page]:
        """The pages in scope, the newest first; those without a time at the end, by id."""
        return filter(None, map(self.whole, self.recent_held()))

    def recent_held(self) -> Iterator[Page]:
        """The same, those with long texts without them."""
        done = self._errors() | self._elsewhere
        pending: Seen = {}
        room = _FIRST
        for page, at, synced, device in self._by_time():
            if page not in done:
                done.add(page)
                pending[page] = (at, synced, device)
            if len(pending) == room:
                yield from self.held(list(pending), pending)
                pending, room = {}, CHUNK
        yield from self.held(list(pending), pending)
        if not self.wanted.narrow:
            for chunk in chunks(sorted(self._timeless() - done)):
                yield from self.held(chunk)

    def _by_time(self) -> Iterator[tuple[int, Any, Any, Any]]:
        import heapq

        layout, where = self.layout, self.where
        visits = self.cursor.each(
            f"SELECT {layout.page}, {layout.time}, {layout.synced or 'NULL'}, {layout.device} FROM {layout.visits} v"
            f" WHERE {where.visit} AND {where.window} ORDER BY {layout.time} DESC", longest=confine.SHORT)
        return heapq.merge(visits, self._expired(), key=lambda row: -row[1])

    def _timeless(self) -> set[int]:
        """The pages that have visits at times that cannot be, or none at all."""
        layout, where = self.layout, self.where
        found = self.cursor.ids(
            f"SELECT {layout.page} FROM {layout.visits} v WHERE {where.visit} AND NOT coalesce({where.possible}, 0)")
        if where.expired != "0":
            found |= self.cursor.ids(f"SELECT p.id FROM {layout.pages} p WHERE {where.shown}"
                                     f" AND NOT coalesce({where.expired}, 0) AND {self._gone}")
        return found


def _any(parts: Sequence[str]) -> str:
    """The conditions joined by OR, as a tree: SQLite limits how deep an expression may be, and not how wide."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return f"({_any(parts[:middle])} OR {_any(parts[middle:])})"

"""The most visited pages and sites of histories, those with the most visits in scope first."""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lspipe.browsers.pages import History, Page
from lspipe.browsers.ranking import Strengths

Matched = Mapping[int, Strengths]
"""The pages that match a query, by their id."""
_AT_ONCE = 200
#: Characters of a host with its port: a name has at most 253.
_LONGEST = 300
_END = re.compile(r"[/?#\\]")


class Often(NamedTuple):
    """A page and how often it was visited; for a site, of whose pages it is the one most visited, all of them.

    `page.seen` of a site is the newest visit of any of them.
    """

    profile: int
    page: Page
    visits: int
    site: str | None = None
    pages: int = 1


def most_visited(histories: Sequence[History], matched: Sequence[Matched | None], most: int | None) -> Iterator[Often]:
    """The pages in scope that match, None standing for all; at most so many. `History.count` comes first."""
    found = [(-visits, number, page) for number, (history, wanted) in enumerate(zip(histories, matched, strict=True))
             for page, visits in history.visits() if wanted is None or page in wanted]
    if most is not None and most < len(found) // 4:
        import heapq

        found = heapq.nsmallest(most, found)
    else:
        found.sort()
    yield from _in_full(histories, [(number, page, -visits) for visits, number, page in found[:most]])


class _Site:
    """A host: how often its pages were visited, which they are, and which was visited most."""

    def __init__(self, page: int) -> None:
        self.visits, self.best, self.pages = 0, page, array("q")


def sites(histories: Sequence[History], matched: Sequence[Matched | None], most: int | None) -> Iterator[Often]:
    """The same for sites: hosts of http(s) pages, each once in each history."""
    found: list[tuple[int, int, int, str, array[int]]] = []
    for number, (history, wanted) in enumerate(zip(histories, matched, strict=True)):
        visits = dict(history.visits())
        hosts: dict[str, _Site] = {}
        for page, url, _title, _text in history.candidates(None):
            if page in visits and (wanted is None or page in wanted) and url.startswith(("http://", "https://")):
                site = hosts.setdefault(_site(url), _Site(page))
                site.visits += visits[page]
                site.pages.append(page)
                if visits[page] > visits[site.best]:
                    site.best = page
        found += [(-site.visits, number, site.best, host, site.pages) for host, site in hosts.items() if host]
    found.sort(key=lambda site: site[:4])
    chosen = found[:most]
    pages = {(number, page): (host, ids) for _visits, number, page, host, ids in chosen}
    for one in _in_full(histories, [(number, page, -visits) for visits, number, page, *_ in chosen]):
        host, ids = pages[one.profile, one.page.id]
        seen = histories[one.profile].newest(ids)
        shown = one.page if seen is None else one.page._replace(seen=seen, quality=None)
        yield one._replace(page=shown, site=host, pages=len(ids))


def _site(url: str) -> str:
    """The host of an http(s) url, with a port that is not the usual one; "" for one that is too long to be one."""
    host = _END.split(url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2].lower()
    return host if len(host) <= _LONGEST else ""


def _in_full(histories: Sequence[History], found: list[tuple[int, int, int]]) -> Iterator[Often]:
    from more_itertools import sliced

    for some in sliced(found, _AT_ONCE):
        pages: dict[tuple[int, int], Page] = {}
        for number, history in enumerate(histories):
            wanted = [page for owner, page, _visits in some if owner == number]
            pages |= {(number, page.id): page for page in history.held(wanted)}
        for number, page, visits in some:
            held = pages.get((number, page))
            whole = None if held is None else histories[number].whole(held)
            if whole is not None:
                yield Often(number, whole, visits)

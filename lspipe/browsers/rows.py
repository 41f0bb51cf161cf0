"""Rows of visited pages and of bookmarks."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lspipe import row, when
from lspipe.browsers.granted import Granted, provenance
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.bookmark import Bookmark
    from lspipe.browsers.pages import Page
    from lspipe.runner import Run
    from lspipe.words import Query

HISTORY, BOOKMARKS = "history", "bookmarks"
#: A row has room for a mebibyte, and some `data:` and `javascript:` addresses do not fit.
_URL, _TITLE = 65_536, 4096


def asked(run: "Run", typed: Sequence[str]) -> tuple["Query", Row]:
    """The parsed query of a command's words, and what every row of its answer says of it; nothing without words."""
    from lspipe import words

    text = " ".join(os.fsencode(word).decode("utf-8", "replace") for word in typed)
    if not text.strip():
        return words.parse(""), {}
    run.report.query_id = row.query_id(text)
    return words.parse(text), {"query_id": run.report.query_id, "query": text}


def history_id(one: Granted, url: str) -> str:
    """The id of a visited page."""
    return row.identify(HISTORY, one.browser, one.profile, url)


def history(one: Granted, page: "Page", query: "Query", max_chars: int) -> Row:
    """The row of a visited page, without what only a list of results knows."""
    meta: dict[str, Any] = {}
    if page.visits is not None:
        meta["visit_count"] = page.visits
    if page.length > len(page.url):
        meta["url_length"] = page.length
    found = _row(history_id(one, page.url), HISTORY, page.title, page.url)
    if page.text:
        found |= _texts(page.text, query, max_chars)
    return _finish(found, page.seen, page.quality, page.lossy, one, page.origin, meta)


def bookmark_id(one: Granted, mark: "Bookmark") -> str:
    """The id of a bookmark: the same address may be in several folders."""
    return row.identify(BOOKMARKS, one.browser, one.profile, mark.url, mark.guid or "/".join(mark.folder))


def bookmark(one: Granted, mark: "Bookmark") -> Row:
    """The row of a bookmark, without what only a list of results knows."""
    meta: dict[str, Any] = {"folder": "/".join(mark.folder)}
    if mark.tags:
        meta["tags"] = list(mark.tags)
    url = mark.url[:_URL]
    if len(url) < len(mark.url):
        meta["url_length"] = len(mark.url)
    found = _row(bookmark_id(one, mark), BOOKMARKS, mark.title and mark.title[:_TITLE], url)
    return _finish(found, mark.added, mark.quality, False, one, mark.origin, meta)


#: The order in which people read a row.
_ORDER = ("id", "query_id", "query", "source", "rank", "score", "title", "url", "snippet", "text", "matched_terms",
          "accessed_at", "provenance", "corpus", "meta")


def arranged(found: Row) -> Row:
    """A row with its fields in their usual order."""
    return {key: found[key] for key in _ORDER if key in found}


def _row(number: str, source: str, title: str | None, url: str) -> Row:
    return {"id": number, "source": source, "title": title, "url": url}


def _texts(text: str, query: "Query", max_chars: int) -> Row:
    from lspipe import snippet

    found: Row = {"snippet": snippet.best(text, query)}
    if max_chars and len(text) > len(found["snippet"]):
        found["text"] = snippet.clip(text, max_chars)
    return found


def _finish(found: Row, at: int | None, quality: str | None, lossy: bool, one: Granted, origin: str | None,
            meta: dict[str, Any]) -> Row:
    found["accessed_at"] = None if at is None else when.rfc3339(at)
    if quality is not None:
        meta["time_quality"] = quality
    if lossy:
        meta["lossy"] = True
    found["provenance"] = provenance(one, origin)
    if meta:
        found["meta"] = meta
    return found

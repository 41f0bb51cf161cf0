"""Rows of what browsers keep: visited pages, bookmarks, tabs, downloads, the reading list."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lspipe import row, when
from lspipe.browsers.granted import Granted, provenance
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.bookmark import Bookmark
    from lspipe.browsers.downloads import Download
    from lspipe.browsers.pages import Page
    from lspipe.browsers.pagetext import PageText
    from lspipe.browsers.readinglist import Reading
    from lspipe.browsers.tab import Tab
    from lspipe.browsers.topmost import Often
    from lspipe.runner import Run
    from lspipe.words import Query

HISTORY, BOOKMARKS, TABS, DOWNLOADS, READING = "history", "bookmarks", "tabs", "downloads", "reading"
TAB_TEXT = "tab-text"
#: The method of what a running browser said.
LIVE = "cdp"
#: A row has room for a mebibyte, and some `data:` and `javascript:` addresses do not fit. As JSON a character of a
#: text may take six bytes.
_URL, _TITLE, _TEXT, _SELECTION = 65_536, 4096, 65_536, 20_000
#: Of names that many rows have in common: of a folder, a group, a workspace, a tag, and of what stands for one.
_NAME, _WORD = 1024, 255


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


def history(
    one: Granted, page: "Page", query: "Query", max_chars: int, method: str = "snapshot", device: str | None = None,
) -> Row:
    """The row of a visited page, without what only a list of results knows; `device` is the name of its device."""
    meta: dict[str, Any] = {}
    if page.device is not None:
        meta |= {"device": (device or page.device)[:_TITLE], "device_id": page.device[:_TITLE]}
    if page.visits is not None:
        meta["visit_count"] = page.visits
    if page.length > len(page.url):
        meta["url_length"] = page.length
    found = _row(history_id(one, page.url), HISTORY, page.title, page.url)
    if page.text:
        found |= _texts(page.text, query, max_chars)
    return _finish(found, page.seen, page.quality, page.lossy, one, page.origin, meta, method)


def often(
    one: Granted, found: "Often", query: "Query", max_chars: int, device: str | None = None,
) -> Row:
    """The row of a page that was visited often, or of a site, with the visits that were counted.

    A site's row has its root for a url, its host for a title, and the time of its newest visit.
    """
    page = found.page
    if found.site is not None:
        root = f"{page.url.partition('://')[0]}://{found.site}/"
        page = page._replace(url=root, length=len(root), title=found.site, text=None, visits=found.visits,
                             device=None)
    made = history(one, page, query, max_chars, device=device) | {"score": float(found.visits)}
    meta = dict(made.get("meta", {}))
    if found.site is not None:
        made["id"] = row.identify(HISTORY, one.browser, one.profile, page.url, "site")
        meta["pages"] = found.pages
    return made | {"meta": meta | {"visits_in_scope": found.visits}}


def bookmark_id(one: Granted, mark: "Bookmark") -> str:
    """The id of a bookmark: the same address may be in several folders."""
    return row.identify(BOOKMARKS, one.browser, one.profile, mark.url, mark.guid or folder_path(mark.folder))


def folder_path(folder: Sequence[str]) -> str:
    """The path of a folder, with room for every one that a person makes."""
    from lspipe.browsers.bookmark import joined

    return joined(folder, most=_TITLE)


def bookmark(one: Granted, mark: "Bookmark") -> Row:
    """The row of a bookmark, without what only a list of results knows."""
    from lspipe.browsers.bookmark import TAGS

    meta: dict[str, Any] = {"folder": folder_path(mark.folder)}
    if mark.tags:
        meta["tags"] = [tag[:_WORD] for tag in mark.tags[:TAGS]]
    if mark.pinned:
        meta["pinned"] = True
    if mark.workspace:
        meta["workspace"] = mark.workspace[:_NAME]
    url = mark.url[:_URL]
    if len(url) < max(mark.length, len(mark.url)):
        meta["url_length"] = max(mark.length, len(mark.url))
    found = _row(bookmark_id(one, mark), BOOKMARKS, mark.title and mark.title[:_TITLE], url)
    return _finish(found, mark.added, mark.quality, False, one, mark.origin, meta)


def used(tab: "Tab") -> tuple[int | None, str | None]:
    """When a tab was closed, else last looked at, else went to its page; or why there is no such time."""
    times = [(tab.last_active, tab.quality), (tab.entry.at, tab.entry.quality)]
    if tab.closed_quality is not None or tab.closed is not None:
        times.insert(0, (tab.closed, tab.closed_quality))
    return next((time for time in times if time[0] is not None), times[0])


def tab(one: Granted, tab: "Tab", saved: int | None, closed: bool, title: str | None, method: str = "session") -> Row:
    """The row of a tab, without what only a list of results knows; `saved` is when its file was written.

    `title` is one that stands elsewhere, for a tab that has none itself. A live tab that is in no file has no window.
    """
    place = f"{tab.window}:{tab.index}"
    if tab.device is not None:
        place = f"{tab.device.id} {place}"
    elif tab.window is None and method == LIVE:
        place = f"live {tab.key}"
    if closed:  # Where it was in its window, and when; one that was closed alone has no such place.
        place = f"closed {tab.closed} {tab.index if tab.closed_with else tab.key or tab.index}"
    state: dict[str, Any] = {"closed": True, "closed_with": tab.closed_with} if closed else {"active": tab.active}
    where: dict[str, Any] = {"window": tab.window, "index": tab.index, **state, "pinned": tab.pinned}
    if tab.window is None and method == LIVE:
        where = {}
    meta: dict[str, Any] = {
        **where,
        "focused": tab.focused or None, "hidden": tab.hidden or None, "unloaded": tab.unloaded or None,
        "kind": None if tab.kind == "normal" else tab.kind, "window_title": _name(tab.window_title),
        "group": tab.group and {"id": tab.group.id[:_WORD], "title": _name(tab.group.title),
                                "colour": tab.group.colour and tab.group.colour[:_WORD]},
        "container": _name(tab.container), "workspace": _name(tab.workspace),
        "folder": folder_path(tab.folder) or None,
        "last_active": None if tab.last_active is None else when.rfc3339(tab.last_active),
        "saved_at": None if saved is None else when.rfc3339(saved),
        "device": tab.device and (tab.device.name or tab.device.id)[:_NAME],
        "device_id": tab.device and tab.device.id[:_WORD],
    }
    url, own = _cut(tab.entry.url, meta), tab.entry.title
    if own is None and title:
        own, meta["title_from"] = title, HISTORY
    at, quality = used(tab)
    found = _row(row.identify(TABS, one.browser, one.profile, url, place), TABS, own and own[:_TITLE], url)
    if tab.device is not None:
        return _finish(found, at, quality, False, one, "synced", meta)
    return _finish(found, at, quality, False, one, "local", meta, method)


def with_text(found: Row, page: "PageText | None", query: "Query", max_chars: int) -> Row:
    """The row of a tab with the text of its page; `meta.text_status` says why it has none."""
    if page is None:
        return found
    from lspipe import snippet

    meta = dict(found.get("meta", {})) | {"text_status": page.status}
    if page.selection.strip() and max_chars:
        meta["selection"] = snippet.clip(page.selection, min(max_chars, _SELECTION))
    texts = _texts(page.text, query, min(max_chars, _TEXT)) if page.text.strip() else {}
    return found | texts | {"meta": meta}


def download(one: Granted, found: "Download") -> Row:
    """The row of a download, without what only a list of results knows."""
    meta: dict[str, Any] = {
        "state": found.state, "path": found.path and found.path[:_TITLE], "bytes": found.received,
        "total": found.total, "mime": found.mime and found.mime[:255], "danger": found.danger,
        "opened": found.opened or None, "deleted": found.deleted or None,
        "started_at": None if found.started is None else when.rfc3339(found.started),
        "page": found.page and found.page[:_TITLE], "referrer": found.referrer and found.referrer[:_TITLE],
    }
    url = _cut(found.url, meta, found.length)
    number = row.identify(DOWNLOADS, one.browser, one.profile, url, found.guid or found.path)
    made = _row(number, DOWNLOADS, found.name and found.name[:_TITLE], url)
    return _finish(made, found.ended, found.quality, False, one, "local", meta)


def reading(one: Granted, entry: "Reading", query: "Query", max_chars: int) -> Row:
    """The row of an entry of the reading list, without what only a list of results knows."""
    meta: dict[str, Any] = {
        "status": None if entry.state is None else "read" if entry.state == "read" else "unread",
        "opened": None if entry.state in ("read", None) else entry.state == "unread",
        "read_at": None if entry.first_read is None else when.rfc3339(entry.first_read),
    }
    url = _cut(entry.url, meta)
    number = row.identify(READING, one.browser, one.profile, url)
    made = _row(number, READING, entry.title and entry.title[:_TITLE], url)
    if entry.text:
        made |= _texts(entry.text[:_URL], query, max_chars)
    return _finish(made, entry.added, entry.quality, False, one, entry.origin, meta)


#: The order in which people read a row.
_ORDER = ("id", "query_id", "query", "source", "rank", "score", "title", "url", "snippet", "text", "matched_terms",
          "accessed_at", "provenance", "corpus", "meta")


def arranged(found: Row) -> Row:
    """A row with its fields in their usual order."""
    return {key: found[key] for key in _ORDER if key in found}


def _row(number: str, source: str, title: str | None, url: str) -> Row:
    return {"id": number, "source": source, "title": title, "url": url}


def _name(name: str | None) -> str | None:
    return name and name[:_NAME]


def _cut(url: str, meta: dict[str, Any], length: int = 0) -> str:
    """A url that fits into a row. Of `meta`, which says its length if it did not, what is None is taken out.

    `length` is that of a url of which `url` is the beginning.
    """
    for key in [key for key, value in meta.items() if value is None]:
        del meta[key]
    if max(length, len(url)) > _URL:
        meta["url_length"] = max(length, len(url))
    return url[:_URL]


def _texts(text: str, query: "Query", max_chars: int) -> Row:
    from lspipe import snippet

    found: Row = {"snippet": snippet.best(text, query)}
    if max_chars and len(text) > len(found["snippet"]):
        found["text"] = snippet.clip(text, max_chars)
    return found


def _finish(found: Row, at: int | None, quality: str | None, lossy: bool, one: Granted, origin: str | None,
            meta: dict[str, Any], method: str = "snapshot") -> Row:
    found["accessed_at"] = None if at is None else when.rfc3339(at)
    if quality is not None:
        meta["time_quality"] = quality
    if lossy:
        meta["lossy"] = True
    found["provenance"] = provenance(one, origin, method)
    if meta:
        found["meta"] = meta
    return found

"""Downloads in Chromium's History and in Firefox's places.sqlite: what was fetched, from where, and how it ended.

Chromium has a row for each download and one for each url on the way to it; the last of those is where it came
from. The numbers are those of components/history/core/browser/download_constants.h and
download_danger_type.h; they are microseconds since 1601. Firefox keeps annotations of the page that the url is, so
that the last download of a url is the one that is kept: toolkit/components/downloads/DownloadHistory.sys.mjs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from lspipe import matching, urls, when
from lspipe.browsers import ranking
from lspipe.browsers.cursor import Cursor, as_text, one
from lspipe.confine import SHORT, Connection, columns
from lspipe.live import Unusable

TABLES = {"chromium": ("downloads", "downloads_url_chains"),
          "firefox": ("moz_annos", "moz_anno_attributes", "moz_places")}
_STATES = {0: "in-progress", 1: "complete", 2: "cancelled", 3: "interrupted", 4: "interrupted"}
_DANGERS = {
    1: "dangerous-file", 2: "dangerous-url", 3: "dangerous-content", 4: "maybe-dangerous-content",
    5: "uncommon-content", 6: "user-validated", 7: "dangerous-host", 8: "potentially-unwanted",
    9: "allowlisted-by-policy", 10: "async-scanning", 11: "blocked-password-protected", 12: "blocked-too-large",
    13: "sensitive-content-warning", 14: "sensitive-content-block", 15: "deep-scanned-safe",
    16: "deep-scanned-opened-dangerous", 17: "prompt-for-scanning", 19: "dangerous-account-compromise",
}
_FIREFOX_STATES = {1: "complete", 2: "failed", 3: "cancelled", 4: "paused", 6: "blocked", 8: "blocked", 9: "blocked"}
_FILE, _FACTS = "downloads/destinationFileURI", "downloads/metaData"
#: Characters of a url or path, and of a shorter text, that are kept of one.
_TEXT, _WORD = 65_536, 1000
#: The texts of a download in Chromium, and which of them are short ones.
_TEXTS = ("guid", "target_path", "full_path", "current_path", "mime_type", "referrer", "tab_url", "url")
_WORDS = ("guid", "mime_type")


class Download(NamedTuple):
    """A download. `ended` is µs since 1970, or None with the reason in `quality`; `url` is where the bytes came from,
    `page` and `referrer` what led there; `danger` says more than that there was none."""

    url: str
    guid: str | None
    path: str | None
    ended: int | None
    quality: str | None
    started: int | None = None
    state: str | None = None
    danger: str | None = None
    received: int | None = None
    total: int | None = None
    mime: str | None = None
    referrer: str | None = None
    page: str | None = None
    opened: bool = False
    deleted: bool = False
    length: int = 0  # Of the whole url, where `url` is its beginning.

    @property
    def name(self) -> str | None:
        """The last part of the path."""
        return (self.path or "").replace("\\", "/").rpartition("/")[2] or None

    @property
    def at(self) -> int | None:
        """When it ended; of one that has not, when it began."""
        return self.started if self.ended is None else self.ended


def fields(one: Download) -> list[matching.Field]:
    """The searched parts of a download."""
    led = " ".join(urls.url_words(url) for url in dict.fromkeys((one.page, one.referrer)) if url and url != one.url)
    return ranking.fields(one.url, one.name or "", led)


def chromium(conn: Connection, now: int) -> Iterator[Download]:
    """The downloads of a History, the last begun first. Raises Unusable, and FAULTS where it is interrupted."""
    have = columns(conn, "downloads")
    if not {"id", "state", "start_time"} <= have:
        raise Unusable("failed", "'History' has no downloads: another schema")
    numbers = ("id", "start_time", "end_time", "state", "danger_type", "received_bytes", "total_bytes", "opened")
    cursor = Cursor(conn)
    chains = _chains(cursor, columns(conn, "downloads_url_chains"))
    asked = ", ".join(name if name in have else f"NULL AS {name}" for name in numbers)
    texts = ", ".join(f"substr({name}, 1, {_WORD if name in _WORDS else _TEXT})" if name in have else "NULL"
                      for name in _TEXTS)
    length = "length(url)" if "url" in have else "0"
    for place, *values in cursor.each(
            f"SELECT rowid, {asked} FROM downloads ORDER BY start_time DESC, id DESC", longest=SHORT):
        row = dict(zip(numbers, values, strict=True))
        found = one(cursor, f"SELECT {texts}, {length} FROM downloads WHERE rowid = ?", (place,)) or (None,) * 9
        guid, target, full, current, mime, referrer, page, url = (as_text(value) or None for value in found[:-1])
        size = found[-1]
        chain, whole = _last_url(cursor, chains.get(row["id"], ()))
        url, size = (chain, whole) if chain else (url, size) if url else (page or referrer, 0)
        if not url:
            continue
        ended, quality = when.from_webkit(row["end_time"], now)
        danger = row["danger_type"]
        made = Download(
            url, guid, target or full or current, ended, quality, _started(row["start_time"], now),
            _STATES.get(row["state"], _other(row["state"])), _DANGERS.get(danger, _other(danger)) if danger else None,
            _size(row["received_bytes"]), _size(row["total_bytes"]) or None, mime, referrer, page, bool(row["opened"]),
            length=size or 0)
        conn.keep(*made)
        yield made
    if cursor.damaged:
        raise Unusable("failed", "a part of 'History' is damaged")


def _started(value: object, now: int) -> int | None:
    """A start; before version 17 of the schema it was in seconds since 1970."""
    if type(value) is int and 0 < value < 100_000_000_000:
        return when.from_unix_s(value, now)[0]
    return when.from_webkit(value, now)[0]


def _chains(cursor: Cursor, have: frozenset[str]) -> dict[Any, list[int]]:
    """Where the urls of each download are, in their order, by its id."""
    found: dict[Any, list[int]] = {}
    if {"id", "chain_index", "url"} <= have:
        for number, place in cursor.kept(
                "SELECT id, rowid FROM downloads_url_chains ORDER BY id, chain_index", longest=SHORT):
            found.setdefault(number, []).append(place)
    return found


def _last_url(cursor: Cursor, places: Sequence[int]) -> tuple[str, int]:
    """The beginning of the last url, and how long it is; ("", 0) where there is none."""
    for place in reversed(places):
        found = one(cursor, f"SELECT substr(url, 1, {_TEXT}), length(url) FROM downloads_url_chains WHERE rowid = ?",
                    (place,))
        url = as_text(found[0]) if found else ""
        if url:
            return url, found[1]
    return "", 0


def firefox(conn: Connection, now: int) -> Iterator[Download]:
    """The downloads of a places.sqlite. Raises Unusable, and FAULTS where it is interrupted."""
    have, pages = columns(conn, "moz_annos"), columns(conn, "moz_places")
    if not ({"place_id", "anno_attribute_id", "content"} <= have and {"id", "url"} <= pages
            and {"id", "name"} <= columns(conn, "moz_anno_attributes")):
        raise Unusable("failed", "'places.sqlite' has no annotations: another schema")
    guid = f"substr(guid, 1, {_WORD})" if "guid" in pages else "NULL"
    changed = "a.lastModified" if "lastmodified" in have else "NULL"
    cursor = Cursor(conn)
    found: dict[Any, list[tuple[int, str, Any]]] = {}
    for place, number, name, at in cursor.kept(
            f"SELECT a.place_id, a.rowid, n.name, {changed} FROM moz_anno_attributes n"
            " JOIN moz_annos a ON a.anno_attribute_id = n.id"
            " WHERE n.name IN (?, ?) ORDER BY a.place_id DESC", (_FILE, _FACTS), SHORT):
        found.setdefault(place, []).append((number, as_text(name), at))
    for place, notes in found.items():
        page = one(cursor, f"SELECT substr(url, 1, {_TEXT}), length(url), {guid} FROM moz_places WHERE id = ?",
                   (place,))
        url = as_text(page[0]) if page else ""
        if not url:
            continue
        facts: dict[str, Any] = {"url": url, "length": page[1], "guid": as_text(page[2]) or None}
        for number, name, at in notes:
            content = one(cursor, f"SELECT substr(content, 1, {_TEXT}) FROM moz_annos WHERE rowid = ?", (number,))
            facts[name] = as_text(content[0]) if content else ""
            facts["at"] = at
        made = _annotated(facts, now)
        conn.keep(*made)
        yield made
    if cursor.damaged:
        raise Unusable("failed", "a part of 'places.sqlite' is damaged")


def _annotated(found: dict[str, Any], now: int) -> Download:
    try:
        facts = orjson.loads(found.get(_FACTS, "{}"))
    except orjson.JSONDecodeError:
        facts = {}
    facts = facts if isinstance(facts, dict) else {}
    # Without its facts it is still under way, or nobody saw the end of it.
    ended, quality = when.from_unix_ms(facts.get("endTime"), now)
    if ended is None and quality == "missing" and facts.get("state") == 1:
        ended, quality = when.from_unix_us(found["at"], now)
    state = facts.get("state")
    named = _FIREFOX_STATES.get(state, _other(state)) if type(state) is int else "in-progress"
    started = when.from_unix_us(found["at"], now)[0] if ended is None else None
    size = _size(facts.get("fileSize"))
    return Download(found["url"], found["guid"], _path(found.get(_FILE, "")), ended, quality, started, named,
                    received=size, total=size, deleted=facts.get("deleted") is True, length=found["length"] or 0)


def _path(url: str) -> str | None:
    """The path of a `file:` url as text."""
    try:
        return urls.file_path(url).decode("utf-8", "replace")
    except ValueError:
        return None


def _other(number: object) -> str | None:
    return None if number is None else str(number)[:40]


def _size(value: object) -> int | None:
    """A number of bytes; none that no file has."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None

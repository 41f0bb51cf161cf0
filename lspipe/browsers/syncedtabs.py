"""The tabs of a person's other devices as sync has brought them: Chromium's LevelDB, Firefox's records (pure).

Chromium: keys `sessions-dt-...`, values the protocol buffer `SessionSpecifics` of session_specifics.proto: one header
a device, which says which tabs its windows hold, and one value a tab; a tab that no window names is a leftover.
Firefox: synced-tabs.db, a JSON record a device, the `TabsRecord` of components/tabs in application-services.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from lspipe import when
from lspipe.browsers import devices, jsonfile, protobuf
from lspipe.browsers.leveldb_files import Bad
from lspipe.browsers.tab import Device, Entry, Group, Tab
from lspipe.live import Late, Unusable, never

if TYPE_CHECKING:
    from lspipe.confine import Connection

PREFIXES = tuple(store + kind for store in devices.STORES for kind in (b"sessions-dt-", b"sessions" + devices.OWN))
#: The table of Firefox's database; devices, and tabs of all of them, that are listed.
TABLE = "tabs"
_DEVICES, _MOST = 10_000, 100_000
#: Pages in the lists of all tabs, of which a browser syncs a dozen each.
_PAGES = 500_000
_TAG, _HEADER, _TAB = 1, 2, 3
_WINDOW, _CLIENT = 2, 3
_SHOWS, _KIND, _TABS = 2, 3, 4
_NUMBER, _CURRENT, _PINNED, _PAGE, _ACTIVE = 1, 4, 5, 7, 14
_URL, _TITLE, _AT, _STATUS = 2, 4, 9, 20
_POPUP = 2


class Synced(NamedTuple):
    """The tabs of all other devices, these devices, and how many values could not be read."""

    tabs: list[Tab]
    devices: list[Device]
    broken: int


# ---- Chromium


def of_chromium(values: Mapping[bytes, bytes], now: int, stop: Callable[[], bool] = never) -> Synced:
    """What the database holds under PREFIXES and the names of devices, window by window. Raises Unusable, Late."""
    known, mine = devices.names(values), devices.own(values, b"sessions")
    headers: dict[str, bytes] = {}
    tabs: dict[str, dict[int, Tab]] = {}
    broken = pages = 0
    for key, value in sorted(values.items()):
        if b"sessions-dt-" not in key[:14]:
            continue
        if stop():
            raise Late
        fields = protobuf.last(value)
        tag = None if fields is None else protobuf.text(fields.get(_TAG))
        if fields is None or tag is None:
            broken += 1
            continue
        header, tab = fields.get(_HEADER), fields.get(_TAB)
        if isinstance(header, bytes):
            headers[tag] = header
        elif isinstance(tab, bytes):
            try:
                number, made, held = _tab(tab, now)
            except Bad:
                broken += 1
                continue
            pages += held
            if pages > _PAGES:
                raise Unusable("failed", f"it holds more than {_PAGES} pages")
            if made is not None:
                tabs.setdefault(tag, {})[number] = made
    found: list[Tab] = []
    listed: dict[str, Device] = {number: Device(number, name) for number, name in known.items()}
    for tag, content in sorted(headers.items()):
        try:
            parts = protobuf.fields(content)
            device = listed[tag] = Device(tag, protobuf.text(dict(parts).get(_CLIENT)) or known.get(tag))
            if tag not in mine:
                found += _windows(parts, tabs.get(tag, {}), device)
        except Bad:
            broken += 1
    return Synced(found, [device for number, device in listed.items() if number not in mine], broken)


def _windows(fields: Iterable[tuple[int, protobuf.Value]], tabs: Mapping[int, Tab], device: Device) -> Iterator[Tab]:
    ordinal = 0
    seen: set[int] = set()
    for number, window in fields:
        if number != _WINDOW or not isinstance(window, bytes):
            continue
        inner = protobuf.fields(window)
        last = dict(inner)
        held = [tab for key, value in inner if key == _TABS for tab in protobuf.numbers(value)]
        filled = [tab for tab in dict.fromkeys(held) if tab in tabs and tab not in seen]
        seen.update(filled)
        ordinal += bool(filled)
        # A device that has no such order, as a phone, says -1.
        shows = protobuf.signed(last.get(_SHOWS))
        shown = held[shows] if shows is not None and 0 <= shows < len(held) else None
        for index, key in enumerate(filled):
            tab = tabs[key]
            tab.window, tab.index, tab.device, tab.active = ordinal, index, device, key == shown
            tab.kind = "popup" if last.get(_KIND) == _POPUP else "normal"
            yield tab


def _tab(data: bytes, now: int) -> tuple[int, Tab | None, int]:
    """(number, tab, how many pages it has); None for a tab that shows nothing. Raises Bad."""
    fields = protobuf.fields(data)
    last = dict(fields)
    number = last.get(_NUMBER)
    pages = [entry for key, value in fields if key == _PAGE and isinstance(value, bytes)
             and (entry := _page(protobuf.last(value), now)) is not None]
    if not isinstance(number, int) or not pages:
        return 0, None, 0
    current = protobuf.signed(last.get(_CURRENT)) or 0
    active, quality = when.from_unix_ms(protobuf.signed(last.get(_ACTIVE)), now)
    return number, Tab(pages[max(0, min(current, len(pages) - 1))], tuple(pages), pinned=last.get(_PINNED) == 1,
                       key=str(number), last_active=active, quality=quality), len(pages)


def _page(fields: Mapping[int, protobuf.Value] | None, now: int) -> Entry | None:
    url = None if fields is None else protobuf.text(fields.get(_URL))
    if fields is None or url is None:
        return None
    at, quality = when.from_unix_ms(protobuf.signed(fields.get(_AT)), now)
    status = fields.get(_STATUS)
    return Entry(url, protobuf.text(fields.get(_TITLE)), at, quality, status if isinstance(status, int) else None)


# ---- Firefox


def records(conn: "Connection") -> Iterator[tuple[object, object]]:
    """The records of Firefox's database: pairs of a device's id and its JSON. Raises Unusable, FAULTS."""
    from lspipe.browsers.cursor import Cursor
    from lspipe.confine import SHORT

    cursor = Cursor(conn)
    places = [place for (place,) in cursor.kept("SELECT rowid FROM tabs ORDER BY guid", longest=SHORT)]
    for place in places[:_DEVICES]:
        yield from cursor.each("SELECT substr(guid, 1, 255), record FROM tabs WHERE rowid = ?", (place,))
    if cursor.damaged:
        raise Unusable("failed", "a part of it is damaged")


def of_firefox(records: Iterable[tuple[object, object]], now: int) -> Synced:
    """What the records hold: pairs of a device's id and its JSON. Raises Unusable."""
    found: list[Tab] = []
    listed: list[Device] = []
    broken = 0
    for number, record in records:
        data = record.encode("utf-8", "replace") if isinstance(record, str) else record
        try:
            state = jsonfile.loads(data, "a record") if isinstance(data, bytes) else None
        except (orjson.JSONDecodeError, Unusable):
            state = None
        if not isinstance(state, dict) or not isinstance(state.get("tabs"), list):
            broken += 1
            continue
        device = Device(str(number or state.get("id")), _text(state.get("clientName")))
        listed.append(device)
        windows: dict[str, int] = {}
        places: dict[str, int] = {}
        for raw in state["tabs"]:
            tab = _remote(raw, state, now)
            if tab is None:
                broken += 1
                continue
            own = str(raw.get("windowId") or "")
            tab.device, tab.window = device, windows.setdefault(own, len(windows) + 1)
            tab.index = places.get(own, 0)
            places[own] = tab.index + 1
            found.append(tab)
            if len(found) > _MOST:
                raise Unusable("failed", f"it holds more than {_MOST} tabs")
    return Synced(found, listed, broken)


def _remote(raw: object, state: Mapping[str, Any], now: int) -> Tab | None:
    urls = raw.get("urlHistory") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(urls, list):
        return None
    pages = [Entry(url, None) for one in urls if (url := _text(one)) is not None]  # The one that is shown first.
    if not pages:
        return None
    title = _text(raw.get("title"))
    pages[0] = pages[0]._replace(title=None if title == pages[0].url else title)
    used, quality = when.from_unix_s(raw.get("lastUsed"), now)
    groups, number = state.get("tabGroups"), raw.get("tabGroupId")
    group = groups.get(number) if isinstance(groups, dict) and isinstance(number, str) else None
    return Tab(pages[0], tuple(reversed(pages)), pinned=raw.get("pinned") is True,
               group=Group(str(number), _text(group.get("name")), _text(group.get("color")))
               if isinstance(group, dict) else None, last_active=used, quality=quality)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

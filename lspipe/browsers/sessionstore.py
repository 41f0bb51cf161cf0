"""Firefox's session stores: open and closed tabs, with windows, groups, containers; Zen's sidebar (pure).

A store is JSON, compressed since Firefox 56 (`mozlz4`). Nothing in it can be relied on: whatever is not what it
should be counts as not there. Times are milliseconds since 1970. Private windows are not stored, and one that
says that it is private is left out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from lspipe import when
from lspipe.browsers import jsonfile, mozlz4
from lspipe.browsers.tab import Entry, Group, Tab
from lspipe.live import Unusable

BACKUPS = "sessionstore-backups"
#: Written every 15 seconds, its predecessor, and what is left after a clean exit; without compression before 56.
_LATEST = tuple(f"{stem}{ending}" for stem, ending in (
    (f"{BACKUPS}/recovery", ".jsonlz4"), ("sessionstore", ".jsonlz4"), (f"{BACKUPS}/recovery", ".baklz4"),
    (f"{BACKUPS}/recovery", ".js"), ("sessionstore", ".js"), (f"{BACKUPS}/recovery", ".bak")))
_PREVIOUS = (f"{BACKUPS}/previous.jsonlz4", f"{BACKUPS}/previous.js")
_UPGRADE = (f"{BACKUPS}/upgrade.jsonlz4-", f"{BACKUPS}/upgrade.js-")
#: Zen 1.18 and later: the one sidebar that all its windows show, and its copy.
SIDEBAR = ("zen-sessions.jsonlz4", "zen-sessions-backup/clean.jsonlz4")
#: How far the sidebar may be behind the store, which is written along with it.
_BEHIND = 3600 * when.SECOND
#: The largest file that is read.
MOST = 64 << 20
_DEEPEST = 20
#: Names that Firefox translates. As keys they are the older and the newer form.
_CONTAINERS = {"userContextPersonal.label": "Personal", "user-context-personal": "Personal",
               "userContextWork.label": "Work", "user-context-work": "Work",
               "userContextBanking.label": "Banking", "user-context-banking": "Banking",
               "userContextShopping.label": "Shopping", "user-context-shopping": "Shopping"}

State = dict[str, Any]


def newest_first(found: Mapping[str, int]) -> list[str]:
    """The stores among `found`, paths in the profile with their times of change, in the order to try them."""
    latest = sorted((name for name in _LATEST if name in found), key=lambda name: -found[name])
    upgrades = sorted((name for name in found if name.startswith(_UPGRADE)), reverse=True)
    return [*latest, *(name for name in _PREVIOUS if name in found), *upgrades]


def parse(data: bytes, name: str) -> State:
    """A store, or Zen's sidebar. Raises Unusable."""
    if not data:
        raise Unusable("failed", f"'{name}' is empty")
    value = _json(mozlz4.unpacked(data, name) if data.startswith(mozlz4.MAGIC) else data, name)
    if not isinstance(value, dict) or not any(isinstance(value.get(key), list) for key in ("windows", "tabs")):
        raise Unusable("failed", f"'{name}' holds no windows: another format")
    return value


def _json(data: bytes | bytearray, name: str) -> Any:
    try:
        return jsonfile.loads(data, name)
    except orjson.JSONDecodeError:
        pass
    try:  # Half a surrogate pair in a title, which only this one takes.
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise Unusable("failed", f"'{name}' is not JSON: {str(error)[:80]}") from None


def containers(data: bytes) -> dict[int, str]:
    """Number to name of the cookie containers, from containers.json; nothing where that is broken."""
    try:
        identities = _list(_dict(_json(data, "containers.json")), "identities")
    except Unusable:
        return {}
    found = {}
    for one in identities:
        number = one.get("userContextId")
        name = _text(one.get("name")) or _CONTAINERS.get(str(one.get("l10nID") or one.get("l10nId")))
        if type(number) is int and name:
            found[number] = name
    return found


def saved(state: State, now: int) -> when.Checked:
    """When a store or a sidebar was written."""
    at = _dict(state.get("session")).get("lastUpdate", state.get("lastCollected"))
    return when.from_unix_ms(at, now)


def with_sidebar(store: State | None, sidebar: State, now: int) -> State:
    """Zen's store, with its sidebar in the place of the windows that show it.

    Where the store is much newer, the sidebar is a leftover. All windows show the same tabs, so they are one.
    """
    if store is None:
        return {"windows": [sidebar], **_only(sidebar, "lastCollected")}
    ahead = (saved(store, now)[0] or 0) - (saved(sidebar, now)[0] or 0)
    if ahead > _BEHIND or not _list(sidebar, "tabs"):
        return store
    windows = _list(store, "windows")
    number = store.get("selectedWindow")
    shown, used = set(), None
    for position, window in enumerate(windows, start=1):
        tabs, selected = _raw(window, "tabs"), window.get("selected")
        if not window.get("isZenUnsynced") and type(selected) is int and 0 < selected <= len(tabs):
            key = _dict(tabs[selected - 1]).get("zenSyncId")
            shown.add(str(key))
            used = str(key) if position == number else used
    own = [window for window in windows if window.get("isZenUnsynced")]
    merged = {**_only(sidebar, "tabs", "groups", "folders", "spaces"), "shown": shown, "used": used}
    return {**store, "windows": [merged, *own], "selectedWindow": None}


def _only(state: State, *keys: str) -> State:
    return {key: state[key] for key in keys if key in state}


# ---- Open tabs


def open_tabs(state: State, now: int, names: Mapping[int, str] | None = None) -> list[Tab]:
    """The tabs of all windows; `names` are those of the containers. A tab that windows share is listed once."""
    found: list[Tab] = []
    seen: set[str] = set()
    ordinal = 0
    for position, window in enumerate(_list(state, "windows"), start=1):
        if window.get("isPrivate"):
            continue
        ordinal += 1
        for tab in _window(window, ordinal, position == state.get("selectedWindow"), now, names or {}):
            if tab.key is None or tab.key not in seen:
                found.append(tab)
                seen.add(tab.key or "")
    return found


def _window(window: State, ordinal: int, used: bool, now: int, names: Mapping[int, str]) -> Iterator[Tab]:
    place = _Place(window, names)
    shown, focus = window.get("shown"), window.get("used")
    for index, raw in enumerate(_raw(window, "tabs")):
        tab = place.tab(_dict(raw), now)
        if tab is None:
            continue
        tab.window, tab.index = ordinal, index
        tab.active = tab.key in shown if isinstance(shown, set) else index + 1 == window.get("selected")
        tab.focused = tab.active and (used or (focus is not None and tab.key == focus))
        yield tab


class _Place:
    """What a window says about the groups, folders and workspaces that its tabs name."""

    def __init__(self, window: State, names: Mapping[int, str]) -> None:
        self.names = names
        self.kind = "popup" if window.get("isPopup") else "app" if window.get("isTaskbarTab") else "normal"
        self.folders = {str(one.get("id")): one for one in _list(window, "folders")}
        self.spaces = {str(one.get("uuid")): _text(one.get("name")) for one in _list(window, "spaces")}
        self.groups = {str(one.get("id")): _group(one) for one in _list(window, "groups") if not one.get("splitView")}

    def tab(self, raw: State, now: int) -> Tab | None:
        """A tab, or None for one that shows nothing, or that is private."""
        pages = tuple(entry for one in _list(raw, "entries") if (entry := _entry(one)) is not None)
        entry = _current(raw, pages)
        if entry is None or raw.get("isPrivate") or raw.get("zenIsEmpty"):
            return None
        name = _text(raw.get("zenStaticLabel"))
        group, container, space = raw.get("groupId"), raw.get("userContextId"), raw.get("zenWorkspace")
        seen, quality = when.from_unix_ms(raw.get("lastAccessed"), now)
        return Tab(
            entry._replace(title=name) if name else entry, pages or (entry,), kind=self.kind,
            pinned=raw.get("pinned") is True or raw.get("zenEssential") in (True, "true"),
            hidden=raw.get("hidden") is True, unloaded=not pages,
            group=None if str(group) in self.folders else self.groups.get(str(group)),
            container=self.names.get(container, str(container)) if type(container) is int and container else None,
            workspace=self.spaces.get(str(space)) or _text(space), folder=self._path(str(group)),
            key=_text(raw.get("zenSyncId")), last_active=seen, quality=quality)

    def _path(self, folder: str) -> tuple[str, ...]:
        names: list[str] = []
        for _ in range(_DEEPEST):
            one = self.folders.get(folder)
            if one is None:
                break
            if not one.get("splitViewGroup"):
                names.append(_text(one.get("name")) or "")
            folder = str(one.get("parentId"))
        return tuple(reversed(names))


def _entry(one: State) -> Entry | None:
    url, title = _text(one.get("url")), _text(one.get("title"))
    # A page without a title has its address for one.
    return None if url is None else Entry(url, None if title == url else title)


def _current(raw: State, pages: tuple[Entry, ...]) -> Entry | None:
    """The page that a tab shows, by its index from 1; the last one where that leads nowhere.

    One that was never loaded has no pages, but what was put into its address bar or, in Zen, where it is pinned.
    """
    entries, index = _raw(raw, "entries"), raw.get("index")
    if pages:
        at = index if type(index) is int else len(entries)
        return _entry(_dict(entries[max(0, min(at, len(entries)) - 1)])) or pages[-1]
    typed = _text(raw.get("userTypedValue"))
    if typed is not None and ("://" in typed or typed.startswith("about:")) and " " not in typed:
        return Entry(typed, None)
    return _entry(_dict(_dict(raw.get("_zenPinnedInitialState")).get("entry")))


def _group(one: State) -> Group:
    return Group(str(one.get("id")), _text(one.get("name")), _text(one.get("color")))


# ---- Closed tabs


def closed_tabs(state: State, now: int, names: Mapping[int, str] | None = None) -> list[Tab]:
    """Tabs that were closed alone, with a group or with a window, the last closed first.

    Groups that were saved count as closed: their tabs are not open.
    """
    names = names or {}
    found: list[Tab] = []
    opened = [one for one in _list(state, "windows") if not one.get("isPrivate")]
    gone = [one for one in _list(state, "_closedWindows") if not one.get("isPrivate")]
    for window in (*opened, *gone):
        place = _Place(window, names)
        found += _closings(_list(window, "_closedTabs"), place, now)
        found += _closed_groups(_list(window, "closedGroups"), place, now)
    found += _closed_groups(_list(state, "savedGroups"), _Place({}, names), now)
    gone.sort(key=lambda one: -(when.from_unix_ms(one.get("closedAt"), now)[0] or 0))
    for number, window in enumerate(gone, start=1):
        closed, quality = when.from_unix_ms(window.get("closedAt"), now)
        for tab in _window(window, number, False, now, names):
            tab.closed, tab.closed_quality, tab.closed_with = closed, quality, "window"
            found.append(tab)
    return sorted(found, key=lambda tab: -(tab.closed or 0))


def _closed_groups(groups: Iterable[State], place: _Place, now: int) -> Iterator[Tab]:
    for one in groups:
        for tab in _closings(_list(one, "tabs"), place, now, one.get("closedAt")):
            tab.group, tab.closed_with = _group(one), "group"
            yield tab


def _closings(closings: Iterable[State], place: _Place, now: int, at: object = None) -> Iterator[Tab]:
    """Each has its tab in `state`, and the title that was shown; `at` is when the whole of them was closed."""
    for index, one in enumerate(closings):
        tab = place.tab(_dict(one.get("state")), now)
        if tab is not None:
            title = _text(one.get("title"))
            if title and tab.entry.title is None and title != tab.entry.url:
                tab.entry = tab.entry._replace(title=title)
            tab.index = index
            tab.closed, tab.closed_quality = when.from_unix_ms(one.get("closedAt") or at, now)
            yield tab


# ---- What may be anything


def _text(value: object) -> str | None:
    """Text that is not empty, with U+FFFD for half surrogate pairs."""
    if not isinstance(value, str) or not value:
        return None
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _dict(value: object) -> State:
    return value if isinstance(value, dict) else {}


def _raw(state: State, key: str) -> list[Any]:
    value = state.get(key)
    return value if isinstance(value, list) else []


def _list(state: State, key: str) -> list[State]:
    """The objects in a list; whatever else is in it is passed over."""
    return [one for one in _raw(state, key) if isinstance(one, dict)]

"""Safari's open tabs of one profile, from the SafariTabs.db that all of them share, and those of other devices (pure).

Safari 15 and later keep windows, tab groups, tabs and profiles in one database (WebBookmarkTabCollection of
WebBookmarks.framework): tabs and groups are rows of `bookmarks`, a tab's parent is its group, a profile is a folder
of subtype 2. A window is listed if it says itself that it is not private, and its tabs if window and group are the
profile's own: whatever cannot be told is left out, and counted.
"""

from collections.abc import Iterator
from typing import Any

from lspipe import stream, when
from lspipe.browsers import plist
from lspipe.browsers.cursor import Cursor, as_text
from lspipe.browsers.safari import DEFAULT, Stop
from lspipe.browsers.syncedtabs import Synced
from lspipe.browsers.tab import Device, Entry, Group, Tab
from lspipe.confine import SHORT, Connection, columns, numbered
from lspipe.live import Late, Unusable, never

TABLES = ("bookmarks", "windows", "windows_tab_groups", "windows_unnamed_tab_groups")
_FOLDER, _PROFILE = 1, 2
_ROOT = 0
_DEEPEST = 50
#: Tabs of all windows: thousands of windows can claim to show the same thousands of tabs.
_TABS = 100_000
_BLOB = 1 << 20
#: Bytes of a row as a dict.
_DICT = 500
_WINDOWS = ("id", "uuid", "active_tab_group_id", "active_profile_id", "local_tab_group_id", "private_tab_group_id",
            "is_last_session", "date_closed", "extra_attributes")
_ROWS = ("id", "parent", "type", "subtype", "title", "url", "order_index", "external_uuid", "server_id", "deleted")
_BLOBS = ("extra_attributes", "local_attributes")
#: Of the texts above the characters that are kept, of the blob of a window the bytes.
_CUT = {"url": 65_536, "title": 4096, "uuid": 255, "external_uuid": 255, "server_id": 255,
        "extra_attributes": _BLOB + 1}

Row = dict[str, Any]


def profile_name(conn: Connection, folder: str) -> str | None:
    """What the profile whose folder has this name is called; None where that is not told. Raises FAULTS."""
    rows = _rows(Cursor(conn), conn)
    number = _profile(rows, folder)
    return None if number is None else as_text(rows[number]["title"]) or None


def tabs(conn: Connection, folder: str, now: int) -> tuple[list[Tab], list[str]]:
    """(the open tabs of a profile, window by window, and remarks on what was left out).

    `folder` is the name of the profile's folder, or "DefaultProfile". Raises Unusable, and FAULTS where it is
    interrupted.
    """
    have, windows = columns(conn, "bookmarks"), columns(conn, "windows")
    if not {"id", "parent", "type", "title", "url"} <= have or not {"id", "active_tab_group_id"} <= windows:
        raise Unusable("failed", "'SafariTabs.db' has no bookmarks and windows: another schema")
    cursor = Cursor(conn)
    store = _Store(cursor, conn, folder)
    found, unclear, nobodys = [], 0, 0
    shown = _open(list(_select(cursor, "windows", _WINDOWS, windows)))
    for window in shown:
        private = store.is_private(window)
        if private is None:
            unclear += 1
        own = store.is_own(window) if private is False else False
        if own:
            found.append(window)
        nobodys += own is None
    listed: list[Tab] = []
    looked_at = 0
    for number, window in enumerate(found, start=1):
        looked_at = _counted(looked_at + store.size(window), "SafariTabs.db")
        listed += store.tabs(window, number, now)
    notes = _notes(unclear)
    if nobodys:
        notes.append(_left_out(nobodys, "of which profile it is", "of which profile they are"))
    if cursor.damaged:
        raise Unusable("failed", "a part of 'SafariTabs.db' is damaged")
    return listed, notes


def _counted(tabs: int, name: str) -> int:
    if tabs > _TABS:
        raise Unusable("failed", f"'{name}' has more than {_TABS} tabs")
    return tabs


def _notes(unclear: int) -> list[str]:
    return [_left_out(unclear, "that it is not private", "that they are not private")] if unclear else []


def _left_out(windows: int, one: str, many: str) -> str:
    return stream.counted(windows, f"window is left out: it cannot be told {one}",
                          f"windows are left out: it cannot be told {many}")


CLOUD_TABLES = ("cloud_tabs", "cloud_tab_devices")


def profiles(conn: Connection) -> int:
    """How many profiles there are. Raises FAULTS."""
    return sum(row["type"] == _FOLDER and row["subtype"] == _PROFILE for row in _rows(Cursor(conn), conn).values())


def cloud_tabs(conn: Connection, now: int) -> Synced:
    """The tabs of a CloudTabs.db, device by device: those that iCloud brought, and sent. Raises Unusable, FAULTS."""
    have, devices = columns(conn, "cloud_tabs"), columns(conn, "cloud_tab_devices")
    if not {"url", "device_uuid"} <= have or not {"device_uuid", "device_name"} <= devices:
        raise Unusable("failed", "'CloudTabs.db' has no cloud_tabs: another schema")
    cut = {"tab_uuid": 255, "title": _CUT["title"], "url": _CUT["url"]}
    asked = ", ".join("NULL" if name not in have else f"substr(t.{name}, 1, {cut[name]})" if name in cut
                      else f"t.{name}" for name in ("tab_uuid", "title", "url", "is_pinned", "last_viewed_time"))
    cursor = Cursor(conn)
    found: list[Tab] = []
    names = dict(cursor.kept("SELECT substr(device_uuid, 1, 255), substr(device_name, 1, 4096) FROM cloud_tab_devices"))
    listed = {number: Device(as_text(number), as_text(names[number]) or None)
              for number in sorted(names, key=lambda number: (as_text(names[number]), as_text(number)))}
    held: dict[Any, list[tuple[Any, ...]]] = {number: [] for number in listed}
    for device, *facts in cursor.kept(f"SELECT substr(t.device_uuid, 1, 255), {asked} FROM cloud_tabs t"
                                      " ORDER BY t.rowid"):
        if device in held:
            held[device].append(tuple(facts))
    for number, (device, tabs) in enumerate(((device, tabs) for device, tabs in held.items() if tabs), 1):
        for index, (key, title, url, pinned, seen) in enumerate(tabs):
            if as_text(url):
                _counted(len(found) + 1, "CloudTabs.db")
                at, quality = (None, "missing") if not seen else when.from_mac(seen, now)
                found.append(Tab(Entry(as_text(url), as_text(title) or None), window=number, index=index,
                                 pinned=pinned == 1, key=as_text(key) or None, last_active=at, quality=quality,
                                 device=listed[device]))
    if cursor.damaged:
        raise Unusable("failed", "a part of 'CloudTabs.db' is damaged")
    return Synced(found, list(listed.values()), 0)


def _select(cursor: Cursor, table: str, names: tuple[str, ...], have: frozenset[str]) -> Iterator[Row]:
    """Rows with these columns, None for one that is not there. Raises Unusable where they have no numbers."""
    if not numbered(cursor.conn, table):
        raise Unusable("failed", f"'SafariTabs.db' has {table} without numbers: another schema")
    asked = ", ".join("NULL" if name not in have else f"substr({name}, 1, {_CUT[name]})" if name in _CUT else name
                      for name in names)
    for values in cursor.kept(f"SELECT {asked} FROM {table} ORDER BY id"):
        cursor.conn.keep(most=_DICT)
        yield dict(zip(names, values, strict=True))


def _rows(cursor: Cursor, conn: Connection) -> dict[int, Row]:
    return {row["id"]: row for row in _select(cursor, "bookmarks", _ROWS, columns(conn, "bookmarks"))
            if not row["deleted"]}


def _profile(rows: dict[int, Row], folder: str) -> int | None:
    """The row of the profile whose folder has this name."""
    wanted = folder.casefold()
    return next((number for number, row in rows.items() if row["type"] == _FOLDER and row["subtype"] == _PROFILE
                 and wanted in (as_text(row["external_uuid"]).casefold(), as_text(row["server_id"]).casefold())), None)


def _open(windows: list[Row]) -> list[Row]:
    """The windows that are open; where none is, those of the last session."""
    return [one for one in windows if one["date_closed"] is None] or [one for one in windows if one["is_last_session"]]


def _attributes(blob: object, name: str) -> Row | None:
    """A property list in a column; None where there is none, or a broken one."""
    if not isinstance(blob, bytes) or not blob or len(blob) > _BLOB:
        return None
    try:
        value = plist.read(blob, name)
    except Unusable:
        return None
    return value if isinstance(value, dict) else None


class _Store:
    """The rows of one database, and which of them are one profile's."""

    def __init__(self, cursor: Cursor, conn: Connection, folder: str) -> None:
        self._cursor = cursor
        self._rows = _rows(cursor, conn)
        self._default = folder == DEFAULT
        self._own = _profile(self._rows, folder)
        self._profiles = {number for number, row in self._rows.items()
                          if row["type"] == _FOLDER and row["subtype"] == _PROFILE}
        self._blobs = [name for name in _BLOBS if name in columns(conn, "bookmarks")]
        self._private: set[Any] = set()
        if "private_tab_group_id" in columns(conn, "windows"):
            self._private = cursor.ids("SELECT private_tab_group_id FROM windows")
        self._active: dict[tuple[Any, Any], Any] = {}
        if {"window_id", "tab_group_id", "active_tab_id"} <= columns(conn, "windows_tab_groups"):
            self._active = {(window, group): tab for window, group, tab in cursor.kept(
                "SELECT window_id, tab_group_id, active_tab_id FROM windows_tab_groups", longest=SHORT)}
        self._unnamed: set[tuple[Any, Any]] = set()
        if {"window_id", "tab_group_id"} <= columns(conn, "windows_unnamed_tab_groups"):
            self._unnamed = set(cursor.kept("SELECT window_id, tab_group_id FROM windows_unnamed_tab_groups",
                                            longest=SHORT))
        self._children: dict[Any, list[Row]] = {}
        for row in self._rows.values():
            if row["type"] != _FOLDER:
                self._children.setdefault(row["parent"], []).append(row)

    def is_private(self, window: Row) -> bool | None:
        """Whether a window is a private one; None where it does not say."""
        if window["active_tab_group_id"] in self._private:
            return True
        said = (_attributes(window["extra_attributes"], "window") or {}).get("IsPrivateWindow")
        return said if isinstance(said, bool) else None

    def is_own(self, window: Row) -> bool | None:
        """Whether it is a window of the profile, and shows a group of it; None where it has no profile."""
        group = window["active_tab_group_id"]
        owner = window["active_profile_id"]
        if owner is None:  # Before there were profiles; else the window's own attributes know.
            named = (_attributes(window["extra_attributes"], "window") or {}).get("ProfileUUID")
            owner = _profile(self._rows, named) if isinstance(named, str) else None
            if owner is None and (isinstance(named, str) and named != DEFAULT or self._profiles - {self._own}):
                return None
        if not self._is_me(owner):
            return False
        if group == window["local_tab_group_id"] or (window["id"], group) in self._unnamed:
            return True
        at, steps = group, 0
        while at in self._rows and at not in self._profiles and steps < _DEEPEST:
            at = self._rows[at]["parent"]
            steps += 1
        if at in self._profiles:
            return self._is_me(at)
        return at in (_ROOT, None) and self._is_me(None)

    def _is_me(self, profile: int | None) -> bool:
        return self._default if profile is None else profile == self._own

    def size(self, window: Row) -> int:
        """How many rows of tabs its active group has."""
        return len(self._children.get(window["active_tab_group_id"], ()))

    def tabs(self, window: Row, number: int, now: int) -> Iterator[Tab]:
        """The tabs of a window's active group."""
        group = window["active_tab_group_id"]
        rows = sorted(self._children.get(group, ()), key=lambda row: (_order(row["order_index"]), row["id"]))
        attributes = self._attributes([row["id"] for row in rows])
        folder = self._rows.get(group)
        own = folder is None or group == window["local_tab_group_id"] or (window["id"], group) in self._unnamed
        named = None
        if folder is not None and not own and as_text(folder["title"]):
            named = Group(as_text(folder["external_uuid"]) or str(group), as_text(folder["title"]))
        for index, row in enumerate(rows):
            local_url, local_title, seen = attributes.get(row["id"], (None, None, None))
            url = as_text(row["url"]) or local_url
            if url:
                last, quality = (None, "missing") if seen is None else plist.time(seen, now)
                yield Tab(Entry(url, as_text(row["title"]) or local_title), window=number,
                          index=index, active=self._active.get((window["id"], group)) == row["id"], group=named,
                          key=as_text(row["external_uuid"]) or None, last_active=last, quality=quality)

    def _attributes(self, ids: list[int]) -> dict[int, tuple[str | None, str | None, Any]]:
        """Url, title and last visit as the attributes of tabs have them: those that are synced, this machine's."""
        if not self._blobs:
            return {}
        columns = ", ".join(f"substr({name}, 1, {_BLOB + 1})" if name in self._blobs else "NULL" for name in _BLOBS)
        found = {}
        for number, extra, local in self._cursor.among(ids, f"SELECT id, {columns} FROM bookmarks WHERE id IN"):
            synced, own = _attributes(extra, "tab") or {}, _attributes(local, "tab") or {}
            url, title = plist.text(synced.get("LocalURL")), plist.text(synced.get("LocalTitle"))
            found[number] = (url and url[:_CUT["url"]], title and title[:_CUT["title"]],
                             synced.get("DateLastViewed", own.get("LastVisitTime")))
            self._cursor.conn.keep(*found[number])
        return found


def _order(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def last_session(data: bytes, name: str, now: int, stop: Stop = never) -> tuple[list[Tab], list[str]]:
    """The same of the LastSession.plist of Safari 14 and older, which has no profiles. Raises Unusable."""
    windows = plist.dictionary(plist.read(data, name, stop)).get("SessionWindows")
    if not isinstance(windows, list):
        raise Unusable("failed", f"'{name}' has no windows: another format")
    listed: list[Tab] = []
    number = unclear = looked_at = 0
    for window in map(plist.dictionary, windows):
        if stop():
            raise Late
        if window.get("IsPrivateWindow") is not False:
            unclear += window.get("IsPrivateWindow") is not True
            continue
        number += 1
        chosen, states = window.get("SelectedTabIndex"), plist.array(window.get("TabStates"))
        looked_at = _counted(looked_at + len(states), name)
        for index, one in enumerate(map(plist.dictionary, states)):
            url = plist.text(one.get("TabURL"))
            if url:
                seen = one.get("LastVisitTime")
                last, quality = (None, "missing") if seen is None else plist.time(seen, now)
                listed.append(Tab(Entry(url, plist.text(one.get("TabTitle"))), window=number, index=index,
                                  active=index == chosen, key=plist.text(one.get("TabUUID")),
                                  last_active=last, quality=quality))
    return listed, _notes(unclear)

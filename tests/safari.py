"""Builders of what Safari keeps: databases and property lists in the form of the real ones.

The statements are those of Safari 17 and later (WebBookmarkTabCollection of WebBookmarks.framework; History.db). Times
are microseconds since 1970; what is stored is seconds since 2001, a double, or a date.
"""

import plistlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from profiles import NOON

#: From 1970 to 2001, in µs.
EPOCH = 978_307_200_000_000
CONTAINER = "Library/Containers/com.apple.Safari/Data/Library/Safari"
OLD = "Library/Safari"
WORK = "0B8A3C1E-6E0B-4C41-9D7C-7F2E0F8D1A11"
HOME = "5D0B5A77-52C5-4B8C-8B61-5B1B1B2B9C22"


def seconds(us: int) -> float:
    """The time as Safari's databases hold it: the double that is nearest."""
    return (us - EPOCH) / 1_000_000


def date(us: int) -> datetime:
    """The time as a property list holds it."""
    return datetime(1970, 1, 1) + timedelta(microseconds=us)


def plist(path: Path, value: Any, xml: bool = False) -> Path:
    """A property list as Safari writes it: binary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(plistlib.dumps(value, fmt=plistlib.FMT_XML if xml else plistlib.FMT_BINARY, sort_keys=False))
    return path


def blob(value: Mapping[str, Any]) -> bytes:
    """A property list in a column."""
    return plistlib.dumps(dict(value), fmt=plistlib.FMT_BINARY)


# ---- History


@dataclass(frozen=True)
class Visit:
    """One visit; `to` is the number of the visit that it was redirected to, from 1 in the order of the file."""

    at: int = NOON
    title: str | None = None
    synthesized: bool = False
    loaded: bool = True
    origin: int = 0
    to: int | None = None
    raw: object = None


@dataclass(frozen=True)
class Page:
    """One page."""

    url: str
    visits: Sequence[Visit] = (Visit(),)
    count: int | None = None


def history(folder: Path, pages: Sequence[Page], *, wal: bool = True, old: bool = False) -> Path:
    """`History.db` in `folder`; `old` is a schema without origin, score and the like."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "History.db"
    conn = sqlite3.connect(path)
    if wal:
        conn.execute("PRAGMA journal_mode = WAL")
    more = "" if old else (", origin INTEGER NOT NULL DEFAULT 0, generation INTEGER NOT NULL DEFAULT 0,"
                           " attributes INTEGER NOT NULL DEFAULT 0, score INTEGER NOT NULL DEFAULT 0")
    conn.executescript(f"""
        CREATE TABLE history_items (id INTEGER PRIMARY KEY AUTOINCREMENT, url TEXT NOT NULL UNIQUE, domain_expansion
            TEXT NULL, visit_count INTEGER NOT NULL, daily_visit_counts BLOB NOT NULL, weekly_visit_counts BLOB NULL,
            autocomplete_triggers BLOB NULL, should_recompute_derived_visit_counts INTEGER NOT NULL,
            visit_count_score INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE history_visits (id INTEGER PRIMARY KEY AUTOINCREMENT, history_item INTEGER NOT NULL REFERENCES
            history_items(id) ON DELETE CASCADE, visit_time REAL NOT NULL, title TEXT NULL, load_successful BOOLEAN
            NOT NULL DEFAULT 1, http_non_get BOOLEAN NOT NULL DEFAULT 0, synthesized BOOLEAN NOT NULL DEFAULT 0,
            redirect_source INTEGER NULL UNIQUE, redirect_destination INTEGER NULL UNIQUE{more});
        CREATE TABLE history_tombstones (id INTEGER PRIMARY KEY AUTOINCREMENT, start_time REAL NOT NULL, end_time REAL
            NOT NULL, url TEXT, generation INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE metadata (key TEXT NOT NULL UNIQUE, value);
        CREATE INDEX history_visits__last_visit ON history_visits (history_item, visit_time DESC, synthesized ASC);
        CREATE INDEX history_visits__origin ON history_visits (history_item);
    """)
    for number, page in enumerate(pages, start=1):
        conn.execute("INSERT INTO history_items (id, url, visit_count, daily_visit_counts,"
                     " should_recompute_derived_visit_counts) VALUES (?, ?, ?, X'', 0)",
                     (number, page.url, len(page.visits) if page.count is None else page.count))
        for visit in page.visits:
            values: dict[str, Any] = {
                "history_item": number, "visit_time": seconds(visit.at) if visit.raw is None else visit.raw,
                "title": visit.title, "load_successful": visit.loaded, "synthesized": visit.synthesized,
                "redirect_destination": visit.to, **({} if old else {"origin": visit.origin})}
            conn.execute(f"INSERT INTO history_visits ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                         tuple(values.values()))
    conn.commit()
    conn.close()
    return path


# ---- Bookmarks, reading list, downloads


def leaf(title: str, url: str, added: int | None = None, **more: Any) -> dict[str, Any]:
    """A bookmark."""
    made: dict[str, Any] = {"URIDictionary": {"title": title}, "URLString": url,
                            "WebBookmarkType": "WebBookmarkTypeLeaf", "WebBookmarkUUID": f"UUID-{title}-{url}", **more}
    return made if added is None else {**made, "dateAdded": date(added)}


def folder(title: str, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A folder."""
    return {"Title": title, "WebBookmarkType": "WebBookmarkTypeList", "WebBookmarkUUID": f"LIST-{title}",
            "Children": list(children), **more}


def read_later(title: str, url: str, added: int = NOON, viewed: int | None = None, text: str = "") -> dict[str, Any]:
    """An entry of the reading list."""
    seen = {} if viewed is None else {"DateLastViewed": date(viewed)}
    facts = {"DateAdded": date(added), "PreviewText": text, **seen}
    return leaf(title, url, ReadingList=facts, ReadingListNonSync={"neverFetchMetadata": False, "Title": title})


def bookmarks(where: Path, bar: Sequence[dict[str, Any]] = (), menu: Sequence[dict[str, Any]] = (),
              reading: Sequence[dict[str, Any]] = (), **how: Any) -> Path:
    """`Bookmarks.plist` in the folder `where`."""
    history = {"Title": "History", "WebBookmarkIdentifier": "History", "WebBookmarkType": "WebBookmarkTypeProxy",
               "WebBookmarkUUID": "PROXY"}
    root = folder("", history, folder("BookmarksBar", *bar), folder("BookmarksMenu", *menu),
                  folder("com.apple.ReadingList", *reading, ShouldOmitFromUI=True), WebBookmarkFileVersion=1)
    return plist(where / "Bookmarks.plist", root, **how)


def download(url: str, path: str, started: int = NOON, ended: int | None = NOON, owner: str | None = "DefaultProfile",
             size: int = 1480) -> dict[str, Any]:
    """An entry of `Downloads.plist`; without an owner as before Safari 17."""
    made: dict[str, Any] = {
        "DownloadEntryIdentifier": f"ID-{url}", "DownloadEntryURL": url, "DownloadEntryPath": path,
        "DownloadEntryDateAddedKey": date(started), "DownloadEntryProgressBytesSoFar": size,
        "DownloadEntryProgressTotalToLoad": size, "DownloadEntryBookmarkBlob": b"book\0",
        "DownloadEntryRemoveWhenDoneKey": False}
    if ended is not None:
        made["DownloadEntryDateFinishedKey"] = date(ended)
    return made if owner is None else {**made, "DownloadEntryProfileUUIDStringKey": owner}


def downloads(where: Path, *entries: dict[str, Any]) -> Path:
    """`Downloads.plist` in the folder `where`."""
    return plist(where / "Downloads.plist", {"DownloadHistory": list(entries)})


# ---- Tabs


@dataclass(frozen=True)
class Tab:
    """A tab; `seen` is when it was last looked at."""

    title: str | None
    url: str | None
    seen: int | None = None
    deleted: bool = False
    local: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """A window and the group that it shows. `private` None: it does not say; `profile` is the name of a folder.

    group   title of a saved group, or "" for the window's own
    owner   the profile in which the saved group lies, where that is another one
    """

    tabs: Sequence[Tab]
    private: bool | None = False
    profile: str | None = "DefaultProfile"
    group: str = ""
    owner: str | None = None
    active: int = 0
    closed: bool = False
    last_session: bool = False
    private_group: bool = False
    attributes: object = None


_SCHEMA = """
    CREATE TABLE bookmarks (id INTEGER PRIMARY KEY AUTOINCREMENT, special_id INTEGER DEFAULT 0, parent INTEGER, type
        INTEGER, title TEXT, url TEXT COLLATE NOCASE, num_children INTEGER DEFAULT 0, editable INTEGER DEFAULT 1,
        deletable INTEGER DEFAULT 1, hidden INTEGER DEFAULT 0, hidden_ancestor_count INTEGER DEFAULT 0, order_index
        INTEGER NOT NULL, external_uuid TEXT UNIQUE, read INTEGER DEFAULT NULL, last_modified REAL DEFAULT NULL,
        server_id TEXT, sync_key TEXT, sync_data BLOB, added INTEGER DEFAULT 1, deleted INTEGER DEFAULT 0,
        extra_attributes BLOB DEFAULT NULL, local_attributes BLOB DEFAULT NULL, date_closed REAL DEFAULT NULL,
        last_selected_child INTEGER DEFAULT NULL, subtype INTEGER DEFAULT 0);
    CREATE TABLE windows (id INTEGER PRIMARY KEY, active_tab_group_id INTEGER DEFAULT NULL, active_profile_id INTEGER
        DEFAULT NULL, date_closed REAL DEFAULT NULL, extra_attributes BLOB DEFAULT NULL, is_last_session INTEGER
        DEFAULT 0, local_tab_group_id INTEGER DEFAULT NULL, private_tab_group_id INTEGER DEFAULT NULL, scene_id TEXT
        DEFAULT NULL, uuid TEXT NOT NULL UNIQUE, restoration_archive BLOB DEFAULT NULL);
    CREATE TABLE windows_tab_groups (id INTEGER PRIMARY KEY, active_tab_id INTEGER DEFAULT NULL, tab_group_id INTEGER
        NOT NULL, window_id INTEGER NOT NULL, UNIQUE (tab_group_id, window_id));
    CREATE TABLE windows_profiles (id INTEGER PRIMARY KEY, active_tab_group_id INTEGER DEFAULT NULL, profile_id INTEGER
        NOT NULL, window_id INTEGER NOT NULL, UNIQUE (profile_id, window_id));
    CREATE TABLE windows_unnamed_tab_groups (id INTEGER PRIMARY KEY, tab_group_id INTEGER NOT NULL, window_id INTEGER
        NOT NULL, UNIQUE (tab_group_id, window_id));
    INSERT INTO bookmarks (id, parent, type, title, order_index, external_uuid) VALUES (0, NULL, 1, 'Root', 0, 'Root');
"""


def tabs(where: Path, windows: Sequence[Window], profiles: Mapping[str, str] | None = None, *,
         before_profiles: bool = False) -> Path:
    """`SafariTabs.db` in the folder `where`. `profiles` are folder names to titles, besides the first one.

    `before_profiles` is Safari 15 and 16: windows without a profile.
    """
    where.mkdir(parents=True, exist_ok=True)
    path = where / "SafariTabs.db"
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.executescript(_SCHEMA)
    owners: dict[str | None, int | None] = {None: None}
    if not before_profiles:
        for uuid, title in {"DefaultProfile": "", **(profiles or {})}.items():
            owners[uuid] = _row(conn, parent=0, type=1, subtype=2, title=title, external_uuid=uuid, server_id=uuid)
    for number, window in enumerate(windows, start=1):
        owner = owners.get(window.profile) if not before_profiles else None
        above = None
        if window.group:
            holder = window.owner or window.profile
            above = 0 if holder in ("DefaultProfile", None) else owners[holder]
        group = _row(conn, parent=above, type=1, title=window.group, external_uuid=f"GROUP-{number}")
        children = [_row(
            conn, parent=group, type=0, title=tab.title, url=tab.url, order_index=index, deleted=int(tab.deleted),
            external_uuid=f"TAB-{number}-{index}",
            extra_attributes=None if tab.seen is None else blob({"DateLastViewed": date(tab.seen)}),
            local_attributes=blob(tab.local) if tab.local else None) for index, tab in enumerate(window.tabs)]
        attributes: Any = window.attributes
        if attributes is None and window.private is not None:
            attributes = blob({"IsPrivateWindow": window.private, "IsPopupWindow": False,
                               **({} if window.profile is None else {"ProfileUUID": window.profile})})
        conn.execute(
            "INSERT INTO windows (id, active_tab_group_id, active_profile_id, date_closed, extra_attributes,"
            " is_last_session, local_tab_group_id, private_tab_group_id, uuid) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, group, owner, seconds(NOON) if window.closed else None, attributes, int(window.last_session),
             None if window.group or window.private_group else group, group if window.private_group else None,
             f"WINDOW-{number}"))
        if children:
            conn.execute("INSERT INTO windows_tab_groups (active_tab_id, tab_group_id, window_id) VALUES (?, ?, ?)",
                         (children[window.active], group, number))
    if before_profiles:
        conn.execute("ALTER TABLE windows DROP COLUMN active_profile_id")
        conn.execute("DROP TABLE windows_profiles")
        conn.execute("DROP TABLE windows_unnamed_tab_groups")
    conn.commit()
    conn.close()
    return path


def _row(conn: sqlite3.Connection, **values: Any) -> int:
    values = {"order_index": 0, **values}
    return int(conn.execute(f"INSERT INTO bookmarks ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                            tuple(values.values())).lastrowid or 0)


def cloud_tabs(where: Path, devices: Mapping[str, Sequence[Tab]]) -> Path:
    """`CloudTabs.db` in the folder `where`: the tabs of each device by its name."""
    where.mkdir(parents=True, exist_ok=True)
    path = where / "CloudTabs.db"
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.executescript("""
        CREATE TABLE cloud_tab_devices (device_uuid TEXT PRIMARY KEY NOT NULL, system_fields BLOB NOT NULL, device_name
            TEXT, device_type_identifier TEXT, has_duplicate_device_name BOOLEAN DEFAULT 0, is_ephemeral_device BOOLEAN
            DEFAULT 0, last_modified REAL NOT NULL);
        CREATE TABLE cloud_tabs (tab_uuid TEXT PRIMARY KEY NOT NULL, system_fields BLOB NOT NULL, device_uuid TEXT NOT
            NULL, position BLOB NOT NULL, title TEXT, url TEXT NOT NULL, is_showing_reader BOOLEAN DEFAULT 0, is_pinned
            BOOLEAN DEFAULT 0, reader_scroll_position_page_index INTEGER, scene_id TEXT, last_viewed_time REAL DEFAULT
            0, topic_title TEXT);
    """)
    for name, tabs in devices.items():
        conn.execute("INSERT INTO cloud_tab_devices VALUES (?, X'', ?, 'iPhone', 0, 0, 0)", (f"D-{name}", name))
        conn.executemany(
            "INSERT INTO cloud_tabs (tab_uuid, system_fields, device_uuid, position, title, url, last_viewed_time)"
            " VALUES (?, X'', ?, X'', ?, ?, ?)",
            [(f"T-{name}-{number}", f"D-{name}", tab.title, tab.url or "", 0 if tab.seen is None else seconds(tab.seen))
             for number, tab in enumerate(tabs)])
    conn.commit()
    conn.close()
    return path


def last_session(where: Path, *windows: dict[str, Any]) -> Path:
    """`LastSession.plist` of Safari 14 and older."""
    return plist(where / "LastSession.plist", {"SessionVersion": "1.0", "SessionWindows": list(windows)})


def session_window(*tabs: tuple[str, str], private: bool | None = False, selected: int = 0) -> dict[str, Any]:
    """A window of it: (title, url) of each tab."""
    made: dict[str, Any] = {"SelectedTabIndex": selected, "WindowUUID": f"W-{tabs}", "TabStates": [
        {"TabTitle": title, "TabURL": url, "TabUUID": f"T-{url}", "LastVisitTime": seconds(NOON), "TabIndex": index,
         "SessionState": b"\0" * 8} for index, (title, url) in enumerate(tabs)]}
    return made if private is None else {**made, "IsPrivateWindow": private}

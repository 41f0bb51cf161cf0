"""Builders of browser profiles: databases of every schema that is met, bookmark files, profile lists, hostile ones.

Times are microseconds since 1970 UTC; the builders store them as the browser does.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

#: Noon of the day that golden pairs and examples call the present: 2026-07-21.
NOON = 1_784_635_200_000_000
HOUR = 3_600_000_000
DAY = 24 * HOUR
WEBKIT = 11_644_473_600_000_000
#: Transitions of Chromium: a link, a typed url, the bits for the ends of a redirect chain.
LINK, TYPED, AUTO_SUBFRAME, MANUAL_SUBFRAME, KEYWORD_GENERATED = 0, 1, 3, 4, 10
CHAIN_START, CHAIN_END, SERVER_REDIRECT = 0x10000000, 0x20000000, 0x80000000
WHOLE_CHAIN = CHAIN_START | CHAIN_END
#: Schema versions of Chromium's History at which something that is read here came or went.
VERSIONS = (18, 20, 21, 28, 32, 42, 48, 52, 54, 55, 58, 59, 63, 66, 67, 68, 69, 70)
#: Real profiles, where the machine has them.
FIXTURES = Path(os.environ.get("LSPIPE_FIXTURES", "/nonexistent")) / "browsers"


@dataclass(frozen=True)
class Visit:
    """One visit. `raw` stores a number as it is, whatever it means; `device` is where a synced one came from."""

    at: int = NOON
    transition: int = LINK | WHOLE_CHAIN
    device: str = ""
    code: int | None = None
    source: int | None = None
    kind: int = 1
    raw: int | None = None


@dataclass(frozen=True)
class Page:
    """One page of a history. `title` may be bytes that are no UTF-8."""

    url: str
    title: str | bytes | None = ""
    visits: Sequence[Visit] = (Visit(),)
    hidden: bool = False
    count: int | None = None
    last: int | None = None
    description: str | None = None
    frecency: int = 100


def _text(value: str | bytes | None) -> tuple[str, Any]:
    """An SQL expression and its value, so that bytes are stored as text."""
    return ("CAST(? AS TEXT)", value) if isinstance(value, bytes) else ("?", value)


# ---- Chromium


def chromium_schema(version: int) -> list[str]:
    """The tables of a History of schema `version` that hold urls and visits."""
    def since(first: int, *names: str) -> list[str]:
        return list(names) if version >= first else []

    visits = ["id INTEGER PRIMARY KEY" + (" AUTOINCREMENT" if version >= 55 else ""), "url INTEGER NOT NULL",
              "visit_time INTEGER NOT NULL", "from_visit INTEGER",
              *since(66, "external_referrer_url TEXT"), "transition INTEGER DEFAULT 0 NOT NULL",
              "segment_id INTEGER", *(["is_indexed BOOLEAN"] if version < 21 else []),
              *since(21, "visit_duration INTEGER DEFAULT 0 NOT NULL"),
              *since(42, "incremented_omnibox_typed_score BOOLEAN DEFAULT FALSE NOT NULL"),
              *(["publicly_routable BOOLEAN DEFAULT FALSE NOT NULL"] if 44 <= version < 49 else []),
              *since(49, "opener_visit INTEGER"),
              *since(55, "originator_cache_guid TEXT", "originator_visit_id INTEGER"),
              *since(56, "originator_from_visit INTEGER", "originator_opener_visit INTEGER"),
              *since(59, "is_known_to_sync BOOLEAN DEFAULT FALSE NOT NULL"),
              *since(63, "consider_for_ntp_most_visited BOOLEAN DEFAULT FALSE NOT NULL"),
              *since(67, "visited_link_id INTEGER DEFAULT 0 NOT NULL"), *since(69, "app_id TEXT")]
    urls = ["id INTEGER PRIMARY KEY" + (" AUTOINCREMENT" if version >= 32 else ""), "url LONGVARCHAR",
            "title LONGVARCHAR", "visit_count INTEGER DEFAULT 0 NOT NULL",
            "typed_count INTEGER DEFAULT 0 NOT NULL", "last_visit_time INTEGER NOT NULL",
            "hidden INTEGER DEFAULT 0 NOT NULL",
            *(["favicon_id INTEGER DEFAULT 0 NOT NULL"] if version < 32 else [])]
    made = [f"CREATE TABLE urls({', '.join(urls)})", f"CREATE TABLE visits({', '.join(visits)})",
            "CREATE TABLE visit_source(id INTEGER PRIMARY KEY, source INTEGER NOT NULL)",
            "CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR)",
            "CREATE INDEX visits_url_index ON visits (url)", "CREATE INDEX visits_time_index ON visits (visit_time)",
            "CREATE INDEX urls_url_index ON urls (url)",
            "CREATE TABLE downloads (id INTEGER PRIMARY KEY, guid VARCHAR NOT NULL, target_path LONGVARCHAR)",
            f"INSERT INTO meta VALUES ('version', '{version}')"]
    if version >= 55:
        made.append("CREATE TABLE context_annotations(visit_id INTEGER PRIMARY KEY,"
                    " context_annotation_flags INTEGER NOT NULL"
                    + (", response_code INTEGER DEFAULT 0 NOT NULL)" if version >= 56 else ")"))
    if 42 <= version < 68:
        made.append("CREATE TABLE typed_url_sync_metadata(storage_key INTEGER PRIMARY KEY NOT NULL, value BLOB)")
    return made


def chromium_history(profile: Path, pages: Iterable[Page], *, version: int = 70, name: str = "History") -> Path:
    """`History` of schema `version` in `profile`, with these pages in the order of their ids."""
    profile.mkdir(parents=True, exist_ok=True)
    path = profile / name
    conn = sqlite3.connect(path)
    for statement in chromium_schema(version):
        conn.execute(statement)
    columns = {row[1] for row in conn.execute("PRAGMA table_info(visits)")}
    codes = any(row[1] == "response_code" for row in conn.execute("PRAGMA table_info(context_annotations)"))
    for number, page in enumerate(pages, start=1):
        expression, title = _text(page.title)
        stored = [webkit(visit) for visit in page.visits]
        last = page.last if page.last is not None else max(stored, default=0)
        conn.execute(
            "INSERT INTO urls (id, url, title, visit_count, typed_count, last_visit_time, hidden)"
            f" VALUES (?, ?, {expression}, ?, 0, ?, ?)",
            (number, page.url, title, len(stored) if page.count is None else page.count, last, int(page.hidden)),
        )
        for visit, at in zip(page.visits, stored, strict=True):
            values: dict[str, Any] = {"url": number, "visit_time": at, "from_visit": 0,
                                      "transition": signed(visit.transition)}
            if "originator_cache_guid" in columns:
                values["originator_cache_guid"] = visit.device
            cursor = conn.execute(f"INSERT INTO visits ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                                  tuple(values.values()))
            source = 0 if visit.device and "originator_cache_guid" not in columns else visit.source
            if source is not None:
                conn.execute("INSERT INTO visit_source VALUES (?, ?)", (cursor.lastrowid, source))
            if codes and visit.code is not None:
                conn.execute("INSERT INTO context_annotations (visit_id, context_annotation_flags, response_code)"
                             " VALUES (?, 0, ?)", (cursor.lastrowid, visit.code))
    conn.commit()
    conn.close()
    return path


def webkit(visit: Visit) -> int:
    """The time of a visit as Chromium stores it."""
    return visit.at + WEBKIT if visit.raw is None else visit.raw


def signed(transition: int) -> int:
    """A transition as it is stored: 32 bits with a sign."""
    return transition - (1 << 32) if transition >= 1 << 31 else transition


def redirect_chain(urls: Sequence[str], title: str, at: int = NOON) -> list[Page]:
    """The rows that Chromium writes for a page that was reached through redirects: one a hop, all with its title."""
    last = len(urls) - 1
    return [
        Page(url, title, (Visit(at, TYPED | (CHAIN_START if number == 0 else SERVER_REDIRECT)
                                | (CHAIN_END if number == last else 0)),))
        for number, url in enumerate(urls)
    ]


def url_node(name: str, url: str, *, added: int | None = NOON, guid: str | None = None, **extra: Any) -> dict[str, Any]:
    """A bookmark of Chromium's JSON."""
    node = {"type": "url", "name": name, "url": url,
            "guid": guid or hashlib.sha256(f"{name}\0{url}".encode()).hexdigest()[:32], "id": "1", **extra}
    if added is not None:
        node["date_added"] = str(added + WEBKIT if added else 0)
    return node


def folder_node(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    """A folder of Chromium's JSON."""
    return {"type": "folder", "name": name, "children": list(children), "date_added": "0", "date_modified": "0",
            "guid": hashlib.sha256(name.encode()).hexdigest()[:32], "id": "2"}


def chromium_bookmarks(profile: Path, name: str = "Bookmarks", **roots: Any) -> Path:
    """A bookmark file with these roots (`bookmark_bar`, `other`, `synced`): lists of nodes, or anything else."""
    profile.mkdir(parents=True, exist_ok=True)
    titles = {"bookmark_bar": "Bookmarks bar", "other": "Other bookmarks", "synced": "Mobile bookmarks"}
    made = {key: folder_node(titles.get(key, key), *value) if isinstance(value, list) else value
            for key, value in roots.items()}
    path = profile / name
    path.write_bytes(orjson.dumps({"checksum": "", "roots": made, "sync_metadata": "AAAA", "version": 1}))
    return path


def local_state(root: Path, names: Mapping[str, str]) -> Path:
    """Chromium's list of profiles: directory to shown name."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "Local State"
    path.write_bytes(orjson.dumps({"profile": {"info_cache": {key: {"name": name, "user_name": ""}
                                                             for key, name in names.items()}}}))
    return path


# ---- Arc


def arc_tab(url: str, title: str, *, name: str | None = None, created: float | None = None) -> dict[str, Any]:
    """A pinned tab of Arc's sidebar; `name` is one that a person gave it."""
    return {"data": {"tab": {"savedURL": url, "savedTitle": title, "timeLastActiveAt": 0}}, "title": name,
            "createdAt": NOON / 1e6 - 978_307_200 if created is None else created}


def arc_folder(title: str, *inside: dict[str, Any]) -> dict[str, Any]:
    """A folder of Arc's sidebar."""
    return {"data": {"list": {}}, "title": title, "inside": list(inside)}


def arc_sidebar(
    *spaces: Mapping[str, Any], favourites: Sequence[tuple[Any, Sequence[dict[str, Any]]]] = (), newer: bool = True,
    alternating: bool = True, children: bool = True,
) -> dict[str, Any]:
    """StorableSidebar.json with these spaces (title, pinned, unpinned, profile) and favourites (profile, tabs).

    `newer` names containers in `newContainerIDs`, `alternating` puts ids between the objects, and without `children`
    items know their parent only.
    """
    items: list[Any] = []

    def put(parent: str | None, one: Mapping[str, Any]) -> str:
        number = f"ID-{len(items):08d}"
        made = {"id": number, "parentID": parent, "title": one.get("title"), "data": one["data"],
                "createdAt": one.get("createdAt", 0)}
        items.extend([number, made] if alternating else [made])
        inside = [put(number, inner) for inner in one.get("inside", ())]
        if children:
            made["childrenIds"] = inside
        return number

    def container(kind: Mapping[str, Any], inside: Iterable[Mapping[str, Any]]) -> str:
        return put(None, {"data": {"itemContainer": {"containerType": kind}}, "inside": list(inside)})

    listed: list[Any] = []
    for number, space in enumerate(spaces):
        name = f"SPACE-{number}"
        pinned, unpinned = (container({"spaceItems": {"_0": name}}, space.get(key, ())) for key in ("pinned",
                                                                                                    "unpinned"))
        made = {"id": name, "title": space["title"], "profile": space.get("profile", {"default": True}),
                "newContainerIDs": [{"unpinned": {"_0": {"shared": {}}}}, unpinned, {"pinned": {}}, pinned],
                "containerIDs": ["pinned", pinned, "unpinned", unpinned]}
        if not newer:
            del made["newContainerIDs"]
        listed.extend([name, made] if alternating else [made])
    top: list[Any] = []
    for profile, tabs in favourites:
        top += [profile, container({"topApps": {"_0": profile}} if newer else {}, tabs)]
    return {"version": 1, "sidebar": {"containers": [
        {"global": {}}, {"spaces": listed, "items": items, "topAppsContainerIDs": [] if newer else top}]}}


# ---- Firefox


@dataclass(frozen=True)
class Mark:
    """One entry under a folder of Firefox's bookmarks; without `url` a folder, which `inside` may fill."""

    title: str | None
    url: str | None = None
    tags: Sequence[str] = ()
    inside: Sequence["Mark"] = field(default_factory=tuple)
    added: int = NOON
    separator: bool = False


FIREFOX_ROOTS = {"menu": "menu________", "toolbar": "toolbar_____", "tags": "tags________",
                 "unfiled": "unfiled_____", "mobile": "mobile______"}


def firefox_places(profile: Path, pages: Iterable[Page] = (), marks: Mapping[str, Sequence[Mark]] | None = None, *,
                   old: bool = False, wal: bool = True) -> Path:
    """`places.sqlite` in `profile`; `old` is a schema without description, site_name, source and the like."""
    profile.mkdir(parents=True, exist_ok=True)
    path = profile / "places.sqlite"
    conn = sqlite3.connect(path)
    if wal:
        conn.execute("PRAGMA journal_mode = WAL")
    later = "" if old else (", description TEXT, preview_image_url TEXT, site_name TEXT, origin_id INTEGER,"
                            " recalc_frecency INTEGER NOT NULL DEFAULT 0")
    conn.executescript(f"""
        CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host
        LONGVARCHAR,
            visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT
            NULL, frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT, foreign_count
            INTEGER DEFAULT 0 NOT NULL{", favicon_id INTEGER" if old else ""}{later});
        CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER,
            visit_date INTEGER, visit_type INTEGER, session INTEGER
            {"" if old else ", source INTEGER DEFAULT 0 NOT NULL, triggeringPlaceId INTEGER"});
        CREATE TABLE moz_bookmarks (id INTEGER PRIMARY KEY, type INTEGER, fk INTEGER DEFAULT NULL, parent
        INTEGER,
            position INTEGER, title LONGVARCHAR, keyword_id INTEGER, folder_type TEXT, dateAdded INTEGER,
            lastModified INTEGER, guid TEXT);
        CREATE INDEX moz_historyvisits_placedateindex ON moz_historyvisits (place_id, visit_date);
        CREATE INDEX moz_historyvisits_dateindex ON moz_historyvisits (visit_date);
        CREATE INDEX moz_places_frecencyindex ON moz_places (frecency);
        CREATE TABLE moz_inputhistory (place_id INTEGER, input LONGVARCHAR, use_count INTEGER);
    """)
    for page in pages:
        expression, title = _text(page.title)
        stored = [visit.at if visit.raw is None else visit.raw for visit in page.visits]
        count = sum(visit.kind not in (4, 7, 8, 9) for visit in page.visits) if page.count is None else page.count
        last = page.last if page.last is not None else max(stored, default=None)
        cursor = conn.execute(
            "INSERT INTO moz_places (url, title, visit_count, hidden, frecency, last_visit_date)"
            f" VALUES (?, {expression}, ?, ?, ?, ?)",
            (page.url, title, count, int(page.hidden), page.frecency, last))
        if not old and page.description is not None:
            conn.execute("UPDATE moz_places SET description = ? WHERE id = ?", (page.description, cursor.lastrowid))
        conn.executemany("INSERT INTO moz_historyvisits (from_visit, place_id, visit_date, visit_type, session)"
                         " VALUES (0, ?, ?, ?, 0)",
                         [(cursor.lastrowid, at, visit.kind) for visit, at in zip(page.visits, stored, strict=True)])
    _firefox_bookmarks(conn, marks or {})
    conn.commit()
    conn.close()
    return path


def _firefox_bookmarks(conn: sqlite3.Connection, marks: Mapping[str, Sequence[Mark]]) -> None:
    def add(kind: int, parent: int, position: int, title: str | None, place: int | None, guid: str, at: int) -> int:
        return int(conn.execute(
            "INSERT INTO moz_bookmarks (type, fk, parent, position, title, dateAdded, lastModified, guid)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (kind, place, parent, position, title, at, at, guid)).lastrowid or 0)

    def place(url: str) -> int:
        row = conn.execute("SELECT id FROM moz_places WHERE url = ?", (url,)).fetchone()
        return int(row[0] if row else conn.execute("INSERT INTO moz_places (url) VALUES (?)", (url,)).lastrowid)

    counter = iter(range(1, 1 << 30))
    root = add(2, 0, 0, "", None, "root________", NOON)
    ids = {name: add(2, root, number, name, None, guid, NOON)
           for number, (name, guid) in enumerate(FIREFOX_ROOTS.items())}
    tags: dict[str, int] = {}

    def fill(parent: int, entries: Sequence[Mark]) -> None:
        for position, mark in enumerate(entries):
            guid = f"guid{next(counter):08d}"
            if mark.separator:
                add(3, parent, position, None, None, guid, mark.added)
            elif mark.url is None:
                fill(add(2, parent, position, mark.title, None, guid, mark.added), mark.inside)
            else:
                number = place(mark.url)
                add(1, parent, position, mark.title, number, guid, mark.added)
                for tag in mark.tags:
                    if tag not in tags:
                        tags[tag] = add(2, ids["tags"], len(tags), tag, None, f"tag_{len(tags):08d}", mark.added)
                    add(1, tags[tag], 0, None, number, f"tagged{next(counter):06d}", mark.added)

    for name, entries in marks.items():
        fill(ids[name], entries)


def profiles_ini(root: Path, *sections: tuple[str, Mapping[str, str]]) -> Path:
    """Firefox's list of profiles."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "profiles.ini"
    path.write_text("".join(f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in values.items()) + "\n"
                            for name, values in sections))
    return path


def profile_group(root: Path, store: str, names: Mapping[str, str]) -> Path:
    """The database of a profile group of Firefox 138 and later: path to shown name."""
    folder = root / "Profile Groups"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{store}.sqlite"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE Profiles (id INTEGER NOT NULL PRIMARY KEY, path TEXT NOT NULL UNIQUE,"
                 " name TEXT NOT NULL, avatar TEXT NOT NULL, themeId TEXT NOT NULL)")
    conn.executemany("INSERT INTO Profiles (path, name, avatar, themeId) VALUES (?, ?, 'star', 'x')", names.items())
    conn.commit()
    conn.close()
    return path


# ---- Anything


def look(folder: Path) -> dict[str, tuple[int, int, bytes | str]]:
    """Everything below a folder: kind and rights, time of change, content. Equal twice: nothing was touched."""
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        facts = path.lstat()
        content: bytes | str = ""
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_mtime_ns, content)
    return found


def copied(source: Path, target: Path) -> Path:
    """A writable copy of a fixture with its times; `.gz` files unpacked."""
    import gzip

    shutil.copytree(source, target, copy_function=shutil.copy2)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    for packed in target.rglob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return target

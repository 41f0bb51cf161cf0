"""What sync leaves in a profile: devices and their tabs, made by the letter of the public formats.

Chromium: device_info_specifics.proto, session_specifics.proto, tab_navigation.proto, data_type_state.proto of
components/sync/protocol; keys as blocking_data_type_store_impl.cc and session_store.cc make them. Firefox: the schema
and the record of components/tabs in application-services.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from profiles import NOON
from sessions import batch, leveldb_log, manifest, pickle, sized, varint

PHONE, LAPTOP, HERE = "phoneAAAAAAAAAAAAAAAAAA==", "laptopBBBBBBBBBBBBBBBBB==", "hereCCCCCCCCCCCCCCCCCCC=="


def message(*fields: tuple[int, Any]) -> bytes:
    """A protocol buffer of numbers (also negative ones), text and bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value & (1 << 64) - 1)
        else:
            out += varint(number << 3 | 2) + sized(value.encode() if isinstance(value, str) else value)
    return out


def device(number: str, name: str, store: bytes = b"") -> tuple[bytes, bytes]:
    """What is known of a device."""
    return (store + b"device_info-dt-" + number.encode(),
            message((1, number), (2, name), (3, 6), (4, "Chrome ANDROID-PHONE 156.0"), (8, NOON // 1000),
                    (9, message((1, 1))), (19, 5), (20, 2)))


def here(number: str = HERE, kind: bytes = b"sessions") -> tuple[bytes, bytes]:
    """Which device this one is."""
    return kind + b"-GlobalMetadata", message((1, message((1, 50119), (2, b"token"))), (5, number), (9, 3))


def navigation(url: str, title: str = "", at: int | None = NOON) -> bytes:
    return message((2, url), (3, ""), (4, title), (6, 1), (8, 7), *(() if at is None else ((9, at // 1000),)),
                   (15, 1 << 60), (20, 200), (25, 1))


def tab(owner: str, number: int, *pages: bytes, current: int = 0, pinned: bool = False, active: int | None = None,
        window: int = 1) -> tuple[bytes, bytes]:
    """An open tab of a device."""
    content = message((1, number), (2, window), (3, 0), (4, current), (5, pinned), *((7, page) for page in pages),
                      (13, 1), *(() if active is None else ((14, active // 1000),)))
    return _key(owner, number), message((1, owner), (3, content), (4, number))


def header(owner: str, name: str, *windows: Sequence[int], shows: int = 0, kind: int = 1) -> tuple[bytes, bytes]:
    """A device's windows, by the numbers of their tabs."""
    content = message(*((2, message((1, 1 + number), (2, shows), (3, kind), *((4, tab) for tab in tabs)))
                        for number, tabs in enumerate(windows)), (3, name), (4, 6), (5, 2))
    return _key(owner, -1), message((1, owner), (2, content))


def _key(owner: str, number: int) -> bytes:
    return b"sessions-dt-" + pickle(owner, number)


def database(profile: Path, *entries: tuple[bytes, bytes]) -> Path:
    """Chromium's database of what it syncs."""
    folder = profile / "Sync Data/LevelDB"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**manifest(log=3), "000003.log": leveldb_log(batch(1, *entries))}.items():
        (folder / name).write_bytes(data)
    return folder


def records(profile: Path, *found: dict[str, Any] | str) -> Path:
    """Firefox's database of the tabs of other devices, in WAL mode as Firefox leaves it."""
    profile.mkdir(parents=True, exist_ok=True)
    base = sqlite3.connect(profile / "synced-tabs.db")
    base.executescript(
        "PRAGMA journal_mode=WAL;"
        "CREATE TABLE tabs (guid TEXT NOT NULL PRIMARY KEY, record TEXT NOT NULL, last_modified INTEGER NOT NULL);"
        "CREATE TABLE moz_meta (key TEXT PRIMARY KEY, value NOT NULL); PRAGMA user_version=2;")
    for number, one in enumerate(found):
        guid = one["id"] if isinstance(one, dict) else f"broken{number}"
        text = one if isinstance(one, str) else orjson.dumps(one).decode()
        base.execute("INSERT INTO tabs VALUES (?, ?, ?)", (guid, text, NOON // 1000))
    base.commit()
    base.close()
    return profile / "synced-tabs.db"

"""Chromium's bookmark files (JSON): every root of the local and of the account file.

Chromium itself accepts missing and repeated ids and guids and a missing date; so does this. Browsers derived from it
add roots: Vivaldi its bin, Edge its workspaces, Opera a root of roots (`custom_root`, with a bin of its own).
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from lspipe import live, when
from lspipe.browsers import jsonfile
from lspipe.browsers.bookmark import NAME, Bookmark

#: The readable files, and for each the ones in its place where the browser encrypts them.
FILES = {
    "Bookmarks": ("EncryptedBookmarks2", "EncryptedBookmarks"),
    "AccountBookmarks": ("EncryptedAccountBookmarks2", "EncryptedAccountBookmarks"),
}
ORIGINS = {"Bookmarks": "local", "AccountBookmarks": "account"}
#: 100,000 bookmarks take about 40 MiB.
MOST = 64 << 20
#: Folders in each other, more than a parser of JSON follows; names in the paths of all folders.
_DEEPEST, _NAMES = 1000, 5_000_000
#: Bookmarks between two looks at the clock.
_STEPS = 1024
#: Both files are written within seconds of each other (ns).
_LATER = 3_600_000_000_000
#: What is in the bin is no bookmark any more.
_BINS = {"trash"}


def parse(data: bytes, name: str) -> dict[str, Any]:
    """The roots of the bookmark file `name`. Raises Unusable where it is none."""
    try:
        value = jsonfile.loads(data, name)
    except orjson.JSONDecodeError as error:
        raise live.Unusable("failed", f"'{name}' is not JSON: {error}") from None
    roots = value.get("roots") if isinstance(value, dict) else None
    if not isinstance(roots, dict):
        raise live.Unusable("failed", f"'{name}' has no bookmark roots: another format")
    return roots


def bookmarks(
    roots: dict[str, Any], origin: str, now: int, stop: Callable[[], bool] = live.never,
) -> Iterator[Bookmark]:
    """The bookmarks below all roots, in the order of the file.

    Raises Unusable where their folders have no end, Late where `stop` says yes.
    """
    tops: list[tuple[str, dict[str, Any]]] = []
    for key, root in roots.items():
        if not isinstance(root, dict) or key in _BINS:
            continue
        if isinstance(root.get("children"), list) or root.get("type") is not None:
            tops.append((key, root))
        else:
            tops += [(inner, folder) for inner, folder in root.items()
                     if isinstance(folder, dict) and inner not in _BINS]
    yield from _below(tops, origin, now, stop)


def _below(
    roots: list[tuple[str, dict[str, Any]]], origin: str, now: int, stop: Callable[[], bool],
) -> Iterator[Bookmark]:
    keys = {id(root): key for key, root in roots}
    stack: list[tuple[Any, tuple[str, ...]]] = [(root, ()) for _, root in reversed(roots)]
    steps = names = 0
    while stack:
        node, path = stack.pop()
        steps += 1
        if not steps % _STEPS and stop():
            raise live.Late
        if not isinstance(node, dict):
            continue
        name, url = _text(node.get("name")), _text(node.get("url"))
        children = node.get("children")
        if isinstance(children, list):
            inner = (*path, (name or keys.get(id(node), ""))[:NAME])
            names += len(inner) if children else 0
            if len(inner) > _DEEPEST or names > _NAMES:
                raise live.Unusable("failed", "its folders lie deeper in each other than any browser's")
            stack.extend((child, inner) for child in reversed(children))
        elif url and node.get("type", "url") == "url":
            added, quality = when.from_webkit(node.get("date_added"), now)
            yield Bookmark(url, name, _text(node.get("guid")), path, (), added, quality, origin)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def open_file(folder: int, name: str) -> tuple[int, bool]:
    """(descriptor of bookmark file `name` in the open profile `folder`, whether the encrypted one beside it is newer).

    Raises Unusable: `encrypted` where only that one is there.
    """
    newest = 0
    for other in FILES[name]:
        with contextlib.suppress(OSError):
            newest = max(newest, os.stat(other, dir_fd=folder, follow_symlinks=False).st_mtime_ns)
    try:
        fd = live.open_at(folder, name)
    except live.Unusable as error:
        if error.reason == "not-found" and newest:
            raise live.Unusable("encrypted", f"its browser keeps '{name}' encrypted") from None
        raise
    return fd, newest > os.fstat(fd).st_mtime_ns + _LATER


def read(fd: int, name: str, now: int, stop: Callable[[], bool] = live.never) -> list[Bookmark]:
    """The bookmarks of an open file. Raises Unusable where it is too large or none, Late where `stop` says yes."""
    return list(bookmarks(parse(live.read_file(fd, name, MOST), name), ORIGINS[name], now, stop))

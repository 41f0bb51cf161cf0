"""Chromium's bookmark files (JSON): every root of the local and of the account file.

Chromium itself accepts missing and repeated ids and guids and a missing date; so does this. Browsers derived from it
add roots: Vivaldi its bin, Edge its workspaces, Opera a root of roots (`custom_root`, with a bin of its own).
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import orjson

from lspipe import live, when
from lspipe.browsers import jsonfile
from lspipe.browsers.bookmark import Bookmark

#: The readable files, and for each the ones in its place where the browser encrypts them.
FILES = {
    "Bookmarks": ("EncryptedBookmarks2", "EncryptedBookmarks"),
    "AccountBookmarks": ("EncryptedAccountBookmarks2", "EncryptedAccountBookmarks"),
}
ORIGINS = {"Bookmarks": "local", "AccountBookmarks": "account"}
#: 100,000 bookmarks take about 40 MiB.
MOST = 64 << 20
_DEEPEST = 200
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


def bookmarks(roots: dict[str, Any], origin: str, now: int) -> Iterator[Bookmark]:
    """The bookmarks below all roots, in the order of the file."""
    for key, root in roots.items():
        if not isinstance(root, dict) or key in _BINS:
            continue
        if isinstance(root.get("children"), list) or root.get("type") is not None:
            yield from _below(root, key, origin, now)
        else:
            for inner, folder in root.items():
                if isinstance(folder, dict) and inner not in _BINS:
                    yield from _below(folder, inner, origin, now)


def _below(root: dict[str, Any], key: str, origin: str, now: int) -> Iterator[Bookmark]:
    stack: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    while stack:
        node, path = stack.pop()
        if not isinstance(node, dict):
            continue
        name, url = _text(node.get("name")), _text(node.get("url"))
        children = node.get("children")
        if isinstance(children, list) and len(path) < _DEEPEST:
            inner = (*path, name or (key if node is root else ""))
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


def read(fd: int, name: str, now: int) -> list[Bookmark]:
    """The bookmarks of an open file. Raises Unusable where it is too large or none."""
    return list(bookmarks(parse(live.read_file(fd, name, MOST), name), ORIGINS[name], now))

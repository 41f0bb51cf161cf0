"""Arc's sidebar (StorableSidebar.json): the pinned tabs and the favourites of one profile, as bookmarks (pure).

Arc has no bookmark file; what is kept is pinned. The file is not documented. Its shape, as Arc 1 writes it and as
several public importers read it: `sidebar.containers` has an object with `spaces` and `items`, lists in which an id
and its object alternate. A space names its containers (`newContainerIDs`, in older files `containerIDs`) after
`pinned` or `unpinned`; an item names those in it (`childrenIds`) and is a tab, a folder (`list`), a tab group, a split
view or a container. Whatever is not what it should be counts as not there. Times are seconds since 2001.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from lspipe import live, when
from lspipe.browsers import jsonfile
from lspipe.browsers.bookmark import Bookmark

NAME = "StorableSidebar.json"
MOST = 64 << 20
FAVOURITES = "Favorites"
_DEEPEST = 64
#: Items between two looks at the clock.
_STEPS = 2048

Object = dict[str, Any]


def open_file(folder: int) -> int:
    """A descriptor of the sidebar beside the user data folder that holds the open profile `folder`. Raises Unusable."""
    above = live.folder_at(folder, "..", "..")
    if above is None:
        raise live.Unusable("not-found", f"there is no '{NAME}'")
    try:
        return live.open_at(above, NAME)
    finally:
        os.close(above)


def read(fd: int, directory: str, now: int, stop: Callable[[], bool] = live.never) -> list[Bookmark]:
    """The pins of the profile that lies in `directory`. Raises Unusable, and Late where `stop` says yes."""
    return list(pins(parse(live.read_file(fd, NAME, MOST)), directory, now, stop))


def parse(data: bytes) -> list[Object]:
    """The containers that have spaces and items. Raises Unusable where there is none: that is not an empty sidebar."""
    try:
        value = jsonfile.loads(data, NAME)
    except orjson.JSONDecodeError as error:
        raise live.Unusable("failed", f"'{NAME}' is not JSON: {error}") from None
    found = [one for one in _objects(_dict(_dict(value).get("sidebar")).get("containers"))
             if "spaces" in one or "items" in one]
    if not found:
        raise live.Unusable("failed", f"'{NAME}' has no spaces: another format")
    return found


def pins(
    containers: Iterable[Object], directory: str, now: int, stop: Callable[[], bool] = live.never,
) -> Iterator[Bookmark]:
    """The pinned tabs of the spaces of a profile, in their order, then its favourites, each once.

    What does not say whose it is, in a way that is known, is nobody's.
    """
    seen: set[str] = set()
    for container in containers:
        items = dict(_named(container.get("items")))
        inside, roots = _inside(items), set[str]()
        for number, (_, space) in enumerate(_named(container.get("spaces")), start=1):
            if _owner(space.get("profile", {"default": True})) == directory:
                title = _text(space.get("title")) or f"Space {number}"
                places = space.get("newContainerIDs") or space.get("containerIDs")
                for root in (name for mark, name in _pairs(places) if _says(mark, "pinned") and name not in roots):
                    roots.add(root)  # What is below it is listed once, whoever names it.
                    yield from _below(items, inside, root, (title,), title, now, seen, stop)
        favourites = [name for mark, name in _pairs(container.get("topAppsContainerIDs")) if _owner(mark) == directory]
        favourites += [name for name, one in items.items() if _owner(_dict(_dict(_dict(_dict(one.get("data")).get(
            "itemContainer")).get("containerType")).get("topApps")).get("_0")) == directory]
        for root in dict.fromkeys(favourites):
            yield from _below(items, inside, root, (FAVOURITES,), None, now, seen, stop)


def _below(
    items: dict[str, Object], inside: Mapping[str, list[str]], root: str, path: tuple[str, ...], space: str | None,
    now: int, seen: set[str], stop: Callable[[], bool],
) -> Iterator[Bookmark]:
    stack = [(name, path) for name in reversed(_children(items, inside, root))]
    steps = 0
    while stack:
        steps += 1
        if not steps % _STEPS and stop():
            raise live.Late
        name, folder = stack.pop()
        item = items.get(name)
        if item is None or name in seen:
            continue
        seen.add(name)
        data, title = _dict(item.get("data")), _text(item.get("title"))
        if isinstance(data.get("tab"), dict):
            url = _text(data["tab"].get("savedURL"))
            if url is not None:
                added, quality = when.from_mac(item.get("createdAt"), now)
                yield Bookmark(url, title or _text(data["tab"].get("savedTitle")), name, folder, (), added, quality,
                               "local", True, space)
        elif len(folder) < _DEEPEST:
            title = title or _text(_dict(data.get("tabGroup")).get("title"))
            inner = folder if "splitView" in data or "itemContainer" in data or title is None else (*folder, title)
            stack.extend((child, inner) for child in reversed(_children(items, inside, name)))


def _inside(items: dict[str, Object]) -> dict[str, list[str]]:
    """The names of the items that name each as their parent."""
    found: dict[str, list[str]] = {}
    for key, one in items.items():
        parent = one.get("parentID")
        if isinstance(parent, str):
            found.setdefault(parent, []).append(key)
    return found


def _children(items: dict[str, Object], inside: Mapping[str, list[str]], name: str) -> list[str]:
    listed = _dict(items.get(name)).get("childrenIds")
    if isinstance(listed, list):
        return [one for one in listed if isinstance(one, str)]
    return inside.get(name, [])


def _owner(profile: object) -> str | None:
    """The directory of a profile: `{"default": true}`, or `{"custom": {"_0": {"directoryBasename": "Profile 1"}}}`."""
    if _says(profile, "default"):
        return "Default"
    return _text(_dict(_dict(_dict(profile).get("custom")).get("_0")).get("directoryBasename"))


def _says(mark: object, word: str) -> bool:
    return mark == word or (isinstance(mark, dict) and word in mark and mark[word] is not False)


def _pairs(value: object) -> Iterator[tuple[object, str]]:
    """What alternates with names: (mark, name)."""
    found: Sequence[object] = value if isinstance(value, list) else ()
    for mark, name in zip(found, found[1:], strict=False):
        if isinstance(name, str) and not (isinstance(mark, str) and mark not in ("pinned", "unpinned")):
            yield mark, name


def _named(value: object) -> Iterator[tuple[str, Object]]:
    """The objects of a list in which ids and objects alternate, or of objects alone that hold their ids."""
    before: object = None
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            name = before if isinstance(before, str) else one.get("id")
            if isinstance(name, str):
                yield name, one
        before = one


def _objects(value: object) -> list[Object]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

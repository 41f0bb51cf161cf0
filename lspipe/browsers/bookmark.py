"""A bookmark, whatever browser it is from: its searched fields, and whether it is in a folder or has a tag (pure)."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from lspipe import folding, matching
from lspipe.browsers import ranking

#: Characters of a name, and of a path: any number of bookmarks may be in one folder, or have one tag.
NAME, PATH = 1024, 1024
#: Tags of one bookmark.
TAGS = 100


class Bookmark(NamedTuple):
    """`folder` is the path from the root down; `added` is µs since 1970, or None with the reason in `quality`;
    `pinned` is one that stands in a sidebar, perhaps in a `workspace`."""

    url: str
    title: str | None
    guid: str | None
    folder: tuple[str, ...]
    tags: tuple[str, ...]
    added: int | None
    quality: str | None
    origin: str | None = None
    pinned: bool = False
    workspace: str | None = None
    length: int = 0  # Of the whole url, where `url` is its beginning.


def fields(mark: Bookmark) -> list[matching.Field]:
    """The searched parts of a bookmark."""
    found = ranking.fields(mark.url, mark.title or "")
    if mark.tags:
        found.append(matching.Field("tags", joined(mark.tags[:TAGS], " "), ranking.TAGS))
    found.append(matching.Field("text", joined(mark.folder), ranking.FOLDER))
    return found


def joined(names: Sequence[str], between: str = "/", most: int = PATH) -> str:
    """Names as one text, of which only the beginning is made where it is longer than any."""
    left, found = most, []
    for name in names:
        if left <= 0:
            break
        found.append(name[:left])
        left -= len(name) + 1
    return between.join(found)[:most]


@functools.lru_cache(1024)
def _folded(name: str) -> str:
    """A name as names are compared; each is that of many."""
    return folding.fold(name[:NAME]).strip()


def in_folder(mark: Bookmark, wanted: str) -> bool:
    """Whether a folder on the bookmark's path has that name; `Reading/Rust` is two folders, one right in the other.

    Case and accents do not count.
    """
    names = [_folded(name) for name in mark.folder]
    parts = [_folded(name) for name in wanted.strip("/").split("/")]
    whole = [_folded(wanted)]  # A name may hold a slash itself.
    return any(names[at:at + len(run)] == run for run in (parts, whole) for at in range(len(names)))


def has_tag(mark: Bookmark, wanted: str, tags: bool) -> bool:
    """Whether the bookmark has this tag; where its browser has no `tags`, whether it is in a folder of that name."""
    name = _folded(wanted)
    return any(_folded(one) == name for one in (mark.tags if tags else mark.folder))


def added_within(mark: Bookmark, since: int | None, until: int | None) -> bool:
    """Whether it was added in that time; one without a time was not."""
    if since is None and until is None:
        return True
    return mark.added is not None and (since is None or mark.added >= since) and (
        until is None or mark.added < until)


def merged(local: Sequence[Bookmark], account: Sequence[Bookmark]) -> list[Bookmark]:
    """Two lists as one: what the second repeats of the first, by guid or by url, is left out."""
    guids = {one.guid for one in local if one.guid}
    addresses = {one.url for one in local}
    return [*local, *(one for one in account if one.guid not in guids and one.url not in addresses)]

"""A bookmark, whatever browser it is from: its searched fields, and whether it is in a folder or has a tag (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

from lspipe import folding, matching
from lspipe.browsers import ranking


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
        found.append(matching.Field("tags", " ".join(mark.tags), ranking.TAGS))
    found.append(matching.Field("text", "/".join(mark.folder), ranking.FOLDER))
    return found


def in_folder(mark: Bookmark, wanted: str) -> bool:
    """Whether a folder on the bookmark's path has that name; `Reading/Rust` is two folders, one right in the other.

    Case and accents do not count.
    """
    names = [folding.fold(name).strip() for name in mark.folder]
    parts = [folding.fold(name).strip() for name in wanted.strip("/").split("/")]
    whole = [folding.fold(wanted).strip()]  # A name may hold a slash itself.
    return any(names[at:at + len(run)] == run for run in (parts, whole) for at in range(len(names)))


def has_tag(mark: Bookmark, wanted: str, tags: bool) -> bool:
    """Whether the bookmark has this tag; where its browser has no `tags`, whether it is in a folder of that name."""
    name = folding.fold(wanted).strip()
    return any(folding.fold(one).strip() == name for one in (mark.tags if tags else mark.folder))


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

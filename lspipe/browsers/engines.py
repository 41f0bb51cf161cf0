"""What reads the files of each engine: the one place where commands choose by it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lspipe import live

if TYPE_CHECKING:
    from lspipe.browsers.bookmark import Bookmark
    from lspipe.browsers.downloads import Download
    from lspipe.browsers.layout import Layout
    from lspipe.browsers.readinglist import Reading
    from lspipe.confine import Connection

Stop = Callable[[], bool]
"""What is asked now and then whether time is over; then a reader raises Late."""


def history(engine: str) -> "tuple[Sequence[str], Callable[[Connection], Layout]]":
    """(tables, what makes the layout) of an engine's history. Only that engine's reader is imported."""
    if engine == "firefox":
        from lspipe.browsers import firefox

        return firefox.TABLES, firefox.layout
    if engine == "safari":
        from lspipe.browsers import safari

        return safari.TABLES, safari.layout
    if engine == "orion":
        from lspipe.browsers import orion

        return orion.TABLES, orion.layout
    if engine == "epiphany":
        from lspipe.browsers import epiphany

        return epiphany.TABLES, epiphany.layout
    from lspipe.browsers import chromium

    return chromium.TABLES, chromium.layout


def bookmarks(engine: str, fd: int, name: str, now: int, stop: Stop) -> "Iterator[Bookmark]":
    """The bookmarks of a file of its own; Chromium's and Firefox's are read otherwise. Raises Unusable."""
    if engine == "epiphany":
        from lspipe.browsers import epiphany, gvdb

        return epiphany.bookmarks(live.read_file(fd, name, gvdb.MOST), name, now, stop)
    from lspipe.browsers import orion, plist, safari

    read = safari.bookmarks if engine == "safari" else orion.bookmarks
    return read(live.read_file(fd, name, plist.MOST), name, now, stop)


def reading(engine: str, fd: int, name: str, now: int, stop: Stop) -> "Iterator[Reading]":
    """The reading list of a property list: Safari's or Orion's. Raises Unusable."""
    from lspipe.browsers import orion, plist, safari

    read = safari.reading if engine == "safari" else orion.reading
    return read(live.read_file(fd, name, plist.MOST), name, now, stop)


def downloads(profile: str, fd: int, name: str, now: int, stop: Stop) -> "Iterator[Download]":
    """The downloads of a profile of Safari. Raises Unusable."""
    from lspipe.browsers import plist, safari

    return safari.downloads(live.read_file(fd, name, plist.MOST), name, now, profile, stop)

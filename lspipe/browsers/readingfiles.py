"""Chromium's reading list as it lies in the open files of its database."""

from collections.abc import Callable

from lspipe.browsers import readinglist, syncstore
from lspipe.browsers.readinglist import Reading
from lspipe.live import never


def read(files: dict[str, int], now: int, stop: Callable[[], bool] = never) -> tuple[list[Reading], int]:
    """The entries, and how many records, blocks, files and entries are broken. Raises Unusable, Late."""
    contents = syncstore.read(files, list(readinglist.PREFIXES.values()), stop)
    found = list(readinglist.entries(contents.values, now, stop))
    entries = [entry for entry in found if entry is not None]
    return entries, contents.broken + len(found) - len(entries)

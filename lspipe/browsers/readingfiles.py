"""Chromium's reading list as it lies in the open files of its database."""

from lspipe.browsers import readinglist, syncstore
from lspipe.browsers.readinglist import Reading


def read(files: dict[str, int], now: int) -> tuple[list[Reading], int]:
    """The entries, and how many records, blocks, files and entries are broken. Raises Unusable."""
    contents = syncstore.read(files, list(readinglist.PREFIXES.values()))
    found = list(readinglist.entries(contents.values, now))
    entries = [entry for entry in found if entry is not None]
    return entries, contents.broken + len(found) - len(entries)

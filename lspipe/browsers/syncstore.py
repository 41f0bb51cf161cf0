"""Chromium's `Sync Data/LevelDB`: a database that is opened before lock-down and never through LevelDB.

A running browser writes to its log and now and then replaces tables; the manifest says which count. Where a table
that it lists was replaced between the listing and the opening, the listing is made again.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from lspipe import live
from lspipe.browsers import leveldb
from lspipe.live import Unusable

#: Where it lies in a profile.
_PLACE = ("Sync Data", "LevelDB")
#: More files than a database of this size has: 2 MiB a table.
_FILES = 500
#: Bytes of all of them: files with nothing in them can claim to be as long as they like.
_MOST = 128 << 20


def open_files(folder: int, stack: ExitStack) -> dict[str, int]:
    """The open files of the database in the open profile `folder`, by name; none where there is no database.

    Raises Unusable where one of them cannot be opened.
    """
    inner = live.folder_at(folder, *_PLACE)
    if inner is None:
        return {}
    stack.callback(os.close, inner)
    for _ in range(live.TRIES):
        with ExitStack() as opening:
            found: dict[str, int] = {}
            names = leveldb.wanted(os.listdir(inner))
            if len(names) > _FILES:
                raise Unusable("failed", f"'{'/'.join(_PLACE)}' has {len(names)} files")
            for name in names:
                try:
                    found[name] = live.open_at(inner, name)
                except Unusable as error:
                    if error.reason != "not-found":
                        raise
                    break  # It has just been replaced.
                opening.callback(os.close, found[name])
            else:
                stack.push(opening.pop_all())
                return found
    raise live.torn("LevelDB")


def read(
    files: Mapping[str, int], prefixes: Sequence[bytes], stop: Callable[[], bool] = live.never,
) -> leveldb.Contents:
    """What open files hold under these prefixes; nothing where there is no database. Raises Unusable, Late."""
    if not files:
        return leveldb.Contents({}, 0)
    size = sum(os.fstat(fd).st_size for fd in files.values())
    if size > _MOST:
        raise Unusable("not-readable",
                       f"'{'/'.join(_PLACE)}' has {size >> 20} MiB; at most {_MOST >> 20} MiB are read")
    return leveldb.read({name: live.read_file(fd, name, leveldb.MOST) for name, fd in files.items()}, prefixes, stop)

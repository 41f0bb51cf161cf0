"""The files of one profile, opened along the folder of its grant: most are in it, some of Safari's beside it."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from lspipe import live
from lspipe.browsers import profiles, safariplaces
from lspipe.live import Source, Unusable


def _ways(engine: str, path: str, kind: str) -> Iterator[Sequence[str]]:
    if engine == "safari":
        yield from safariplaces.ways(path, kind)
    else:
        yield ()


def folder(engine: str, path: str, fd: int, kind: str, name: str, stack: ExitStack) -> int:
    """A descriptor of the folder that holds the file `name` with one kind of data of the profile at `path`, open as
    `fd`; its own folder where none does. `stack` closes it. Raises Unusable."""
    forbidden = None
    for way in _ways(engine, path, kind):
        inner = fd
        if way:
            try:
                found = live.folder_at(fd, *way)
            except Unusable as error:
                if error.errno in (errno.EPERM, errno.EACCES):
                    forbidden = forbidden or error
                continue  # Else it is a link, or somebody else's: not the folder that Safari has there.
            if found is None:
                continue
            inner = found
            stack.callback(os.close, inner)
        if _there(inner, name):
            return inner
    if forbidden is not None:
        raise forbidden
    return fd


def _there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # Opening it will say why it cannot be read.
    return True


def open_file(engine: str, path: str, fd: int, kind: str, name: str, stack: ExitStack) -> int:
    """A descriptor of the file `name`, which `stack` closes. Raises Unusable."""
    found = live.open_at(folder(engine, path, fd, kind, name, stack), name)
    stack.callback(os.close, found)
    return found


def source(engine: str, path: str, fd: int, kind: str, stack: ExitStack, name: str | None = None) -> Source:
    """The database `name`, or the first one, with one kind of data, which `stack` closes. Raises Unusable."""
    name = name or profiles.files(engine, kind)[0]
    found = Source(folder(engine, path, fd, kind, name, stack), name)
    stack.callback(found.close)
    return found

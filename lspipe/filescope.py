"""Paths that a person names for a search of files, and the ignore files that have a say in it."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence

from lspipe import paths
from lspipe.exits import Precondition, Usage

_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_IN_GIT = (".git", "info", "exclude")


def working_directory() -> str | None:
    """Where we are; None where that has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def absolute(operands: Sequence[str]) -> list[str]:
    """The operands, absolute and free of symbolic links; the working directory where there are none.

    Raises Usage for one that is no path, Precondition where the working directory is needed and gone.
    """
    here = working_directory() or "/"
    if working_directory() is None and not (operands and all(map(os.path.isabs, operands))):
        raise Precondition("the working directory is gone", "name absolute paths")
    if not all(operands):
        raise Usage("an empty PATH", "a dot is the working directory: .")
    return [paths.real(os.path.join(here, operand)) for operand in operands or ["."]]


def trouble(path: str) -> tuple[str, str] | None:
    """Why an absolute path cannot be searched, as (reason, words): it is not there, or neither a file nor a folder.

    A search of a FIFO or a device would wait for ever.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return "not-found", "no such file or folder"
        return "not-readable", (error.strerror or "cannot be reached").lower()
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return "not-readable", "neither a file nor a folder"


def ignore_files(root: str, path: str) -> Iterator[str]:
    """The ignore files that exist in the folders from `root` down to the one that holds `path`, which is below it.

    ripgrep obeys them, though they lie outside of what it is told to search.
    """
    folder = path
    while folder != root:
        folder = os.path.dirname(folder)
        for name in (*_IGNORE_FILES, os.path.join(*_IN_GIT)):
            file = os.path.join(folder, name)
            if os.path.isfile(file):
                yield file


def ignored_above(root: str) -> bool:
    """Whether there is an ignore file in a folder above `root`."""
    above = root
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        if any(os.path.isfile(os.path.join(above, name)) for name in _IGNORE_FILES):
            return True
    return False


def traps(roots: Sequence[str], hidden: bool) -> Iterator[str]:
    """The FIFOs in the place of ignore files in and below `roots`, for whose writers ripgrep would wait."""
    for root in roots:
        for folder, folders, names in os.walk(root):
            if not hidden:
                folders[:] = [name for name in folders if not name.startswith(".")]
            for path in (os.path.join(folder, name) for name in _IGNORE_FILES if name in names):
                with contextlib.suppress(OSError):
                    if stat.S_ISFIFO(os.lstat(path).st_mode):
                        yield path

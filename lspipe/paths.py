"""Folders and safe opening: config, state and cache homes, private directories, private files.

Every folder is 0700 and every file 0600; one that others own or can write is refused, because whoever can
write there decides what this program does.
"""

import contextlib
import os
import stat
import sys

from lspipe.exits import Precondition

#: How often to look at a path that changes under one's eyes.
_LOOKS = 20
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def config_home() -> str:
    """The folder of consent and settings: LSPIPE_CONFIG_HOME, else `lspipe` in the XDG config folder."""
    return _home("LSPIPE_CONFIG_HOME", "XDG_CONFIG_HOME", ".config")


def state_home() -> str:
    """The folder of the ledger: LSPIPE_STATE_HOME, else `lspipe` in the XDG state folder."""
    return _home("LSPIPE_STATE_HOME", "XDG_STATE_HOME", ".local/state")


def cache_home() -> str:
    """The folder of indexes: LSPIPE_CACHE_HOME, else `lspipe` in the XDG cache folder."""
    return _home("LSPIPE_CACHE_HOME", "XDG_CACHE_HOME", ".cache")


def run_root() -> str:
    """The folder that holds one directory per running executable."""
    return os.path.join(state_home(), "run")


def user_folder(xdg: str, below_home: str) -> str:
    """The XDG folder `xdg` as programs beside lspipe find it, on every system; Precondition without one."""
    chosen = os.environ.get(xdg, "")
    home = os.environ.get("HOME", "")
    if not (os.path.isabs(chosen) or os.path.isabs(home)):
        raise Precondition("cannot find the home folder: HOME is not set", f"set HOME or {xdg}")
    return os.path.normpath(chosen if os.path.isabs(chosen) else os.path.join(home, below_home))


def foreign_home() -> str | None:
    """The home folder, where it belongs to another user, as after sudo; None where it is ours or is not there."""
    home = os.path.expanduser("~")
    try:
        return None if os.stat(home).st_uid == os.geteuid() else home
    except OSError:
        return None


def real(path: str) -> str:
    """`path` free of symbolic links, as far as it exists. Precondition where it changes whenever one looks.

    `os.path.realpath` alone raises OSError where what was a link is something else a moment later.
    """
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError):
            return os.path.realpath(path)
    shown = os.fsencode(path).decode("utf-8", "replace")
    raise Precondition(f"cannot resolve '{shown}': it changes all the time", "run it again")


def _home(own: str, xdg: str, below_home: str) -> str:
    """An absolute path, by the first of: our variable, the XDG variable, the system's habit, HOME.

    A relative XDG path is ignored, as the XDG base directory specification demands; ours is resolved.
    """
    chosen = os.environ.get(own)
    if chosen:
        try:
            return os.path.abspath(chosen)
        except OSError:
            raise Precondition(f"cannot resolve {own}: the working directory is gone",
                               f"set {own} to an absolute path") from None
    base = os.environ.get(xdg, "")
    if os.path.isabs(base):
        return os.path.join(os.path.normpath(base), "lspipe")
    if sys.platform == "darwin":
        return _mac_home(xdg)
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        raise Precondition("cannot find the home folder: HOME is not set", f"set HOME or {own}")
    return os.path.join(os.path.normpath(home), below_home, "lspipe")


def _mac_home(xdg: str) -> str:
    """The macOS folder that plays the part of the XDG folder `xdg`."""
    import platformdirs

    folder = {"XDG_CONFIG_HOME": platformdirs.user_config_dir, "XDG_STATE_HOME": platformdirs.user_state_dir,
              "XDG_CACHE_HOME": platformdirs.user_cache_dir}[xdg]
    return str(folder("lspipe", appauthor=False))


def ensure_dir(path: str) -> str:
    """Make `path` and its missing parents 0700 and return it; Precondition if it cannot be ours alone.

    Nothing is created below a folder of another ordinary user: `sudo ls-history` must not leave root's
    folders in somebody's home.
    """
    path = os.path.abspath(path)
    missing = []
    above = path
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    if missing:
        _check_parent(above, path)
    try:
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another executable started at the same moment
                os.mkdir(folder, 0o700)
    except OSError as error:
        raise Precondition(f"cannot make the folder '{path}': {error.strerror}", _elsewhere()) from None
    if not stat.S_ISDIR(check_private(path).st_mode):
        raise Precondition(f"refusing '{path}': not a folder", _elsewhere())
    return path


def _check_parent(above: str, path: str) -> None:
    try:
        owner = os.stat(above).st_uid
    except OSError as error:
        raise Precondition(f"cannot make the folder '{path}': {error.strerror}", _elsewhere()) from None
    if owner not in (os.geteuid(), 0):
        raise Precondition(f"cannot make the folder '{path}': '{above}' belongs to another user",
                           _elsewhere())


def check_private(what: str | int) -> os.stat_result:
    """Refuse, with Precondition, a path or descriptor that others own or can write; its `stat` otherwise.

    A symbolic link of ours (or the administrator's) is followed: people keep their folders
    elsewhere. One planted by somebody else is not.
    """
    try:
        if isinstance(what, str):
            link = os.lstat(what)
            if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), 0):
                raise Precondition(f"refusing '{what}': another user's symbolic link", _elsewhere())
        found = os.stat(what)
    except OSError as error:
        raise Precondition(f"cannot use '{what}': {error.strerror}", _elsewhere()) from None
    name = f"'{what}'" if isinstance(what, str) else "an open file"
    _refuse(name, found)
    return found


def _refuse(name: str, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise Precondition(f"refusing {name}: it belongs to another user", _elsewhere())
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise Precondition(f"refusing {name}: others can write it", "chmod go-w, after a look at what is in it")


def open_private(path: str, flags: int = os.O_RDONLY) -> int:
    """A close-on-exec descriptor of the regular file `path` that is ours alone; a new file is 0600.

    Never waits (a FIFO is refused, not opened for ever) and never follows a symbolic link. Precondition when
    it is not ours alone; FileNotFoundError, as from `os.open`, when it does not exist.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Precondition(f"cannot open '{path}': {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Precondition(f"refusing '{path}': not a regular file")
        _refuse(f"'{path}'", found)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _elsewhere() -> str:
    return "set LSPIPE_STATE_HOME, LSPIPE_CONFIG_HOME or LSPIPE_CACHE_HOME to a folder of your own"

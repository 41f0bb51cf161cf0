"""The session files of a profile, opened before lock-down; afterwards the newest that can be read, as tabs.

A browser keeps several: the one that it writes, the one before it, copies. Which is the newest is told from names
and times; one that cannot be read gives way to the next.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from lspipe import live, stream
from lspipe.browsers import closedtabs, sessionstore, snss, webkitsessions
from lspipe.browsers.opened import Connect, Found, Opened
from lspipe.browsers.tab import first_usable
from lspipe.live import Unusable

_FOLDER, _ENCRYPTED = "Sessions", "Sessions_Encrypted"
_CONTAINERS = "containers.json"
_CONTAINERS_MOST = 4 << 20
#: Files that are opened at most, the newest first. A browser keeps two, after crashes some more.
_OPENED = 6
#: Chromium writes both twins at once (ns).
_LATER = 60_000_000_000


def open_files(engine: str, folder: int, closed: bool, stack: ExitStack, path: str = "") -> Opened:
    """Open what says which tabs are open, or were `closed`, in the profile at `path`, open as `folder`; `stack` closes
    it.

    Raises Unusable where there is nothing, or nothing that may be read.
    """
    opened = Opened(closed, path)
    if engine in webkitsessions.ENGINES:
        webkitsessions.open_files(opened, engine, folder, stack)
    elif engine == "firefox":
        _open_stores(opened, folder, stack)
    else:
        _open_sessions(opened, folder, snss.CLOSED if closed else snss.OPEN, stack)
    return opened


def read(
    engine: str, opened: Opened, now: int, stop: Callable[[], bool] = live.never, connect: Connect | None = None,
) -> Found:
    """The tabs of the newest file that can be read. Raises Unusable, and Late where `stop` says yes.

    `connect` is what Safari's database is opened with; then FAULTS go through as well.
    """
    if engine in webkitsessions.ENGINES:
        return webkitsessions.read(engine, opened, now, stop, connect)
    return (_read_stores if engine == "firefox" else _read_sessions)(opened, now)


def _open_all(
    folder: int, names: Sequence[str], shown: str, into: dict[str, int], failures: list[Unusable], stack: ExitStack,
) -> None:
    """Open those of `names` that are there; those that may not be opened are `failures`."""
    for name in names[:_OPENED]:
        try:
            fd = live.open_at(folder, name)
        except Unusable as error:
            if error.reason != "not-found":
                failures.append(error)
            continue
        stack.callback(os.close, fd)
        into[shown + name] = fd


def _listed(folder: int, name: str, stack: ExitStack) -> tuple[int, dict[str, int]]:
    """The folder `name`, open, and what is in it with its time of change (ns); nothing where it is not there."""
    fd = live.folder_at(folder, name)
    if fd is None:
        return -1, {}
    stack.callback(os.close, fd)
    return fd, _changed(fd, os.listdir(fd))


def _changed(folder: int, names: Sequence[str]) -> dict[str, int]:
    found = {}
    for name in names:
        try:
            found[name] = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns
        except OSError:
            continue  # It is gone by now, as happens.
    return found


# ---- Chromium


def _open_sessions(opened: Opened, folder: int, prefix: str, stack: ExitStack) -> None:
    inner, found = _listed(folder, _FOLDER, stack)
    names: Sequence[str] = snss.newest_first(found, prefix)
    if not names:
        inner, names = folder, snss.OLD[prefix]
        found = _changed(folder, names)
    _open_all(inner, names, "", opened.stores, opened.failures, stack)
    if opened.failures and not opened.stores:
        raise opened.failures[0]
    twins: dict[str, int] = {}
    with suppress(Unusable):  # Only its times are of interest.
        twins = _listed(folder, _ENCRYPTED, stack)[1]
    encrypted = max((twins[name] for name in snss.newest_first(twins, prefix)), default=None)
    if encrypted is None:
        return
    if not opened.stores:
        raise Unusable("encrypted", f"its browser keeps '{_FOLDER}' encrypted")
    if encrypted > max(found[name] for name in opened.stores if name in found) + _LATER:
        opened.notes.append(f"'{_FOLDER}' is older than the encrypted files beside it")


def _read_sessions(opened: Opened, now: int) -> Found:
    parse = closedtabs.closed_tabs if opened.closed else snss.open_tabs
    if opened.closed and not opened.stores:
        return Found([], now, [], opened.notes)
    name, session, failures = first_usable(
        [(name, _reader(fd, name, snss.MOST)) for name, fd in opened.stores.items()],
        lambda data, name: parse(data, name, now))
    notes = list(opened.notes)
    if session.skipped:
        notes.append(f"{stream.counted(session.skipped, 'record', 'records')} of '{name}' cannot be read")
    return Found(session.tabs, _saved(opened.stores[name]), opened.failures + failures, notes)


def _reader(fd: int, name: str, most: int) -> Callable[[], bytes]:
    return lambda: live.read_file(fd, name, most)


def _saved(fd: int) -> int:
    return os.fstat(fd).st_mtime_ns // 1000


# ---- Firefox


def _open_stores(opened: Opened, folder: int, stack: ExitStack) -> None:
    inner, backups = _listed(folder, sessionstore.BACKUPS, stack)
    found = {f"{sessionstore.BACKUPS}/{name}": at for name, at in backups.items()}
    found |= _changed(folder, ["sessionstore.jsonlz4", "sessionstore.js"])
    for name in sessionstore.newest_first(found)[:_OPENED]:
        inside = name.startswith(sessionstore.BACKUPS)
        _open_all(inner if inside else folder, [name.rpartition("/")[2]],
                  f"{sessionstore.BACKUPS}/" if inside else "", opened.stores, opened.failures, stack)
    for name in sessionstore.SIDEBAR:
        above, _, last = name.rpartition("/")
        with suppress(Unusable):  # Folders of other names are no browser's.
            place = _listed(folder, above, stack)[0] if above else folder
            if place >= 0:
                _open_all(place, [last], f"{above}/" if above else "", opened.sidebars, opened.failures, stack)
    if opened.failures and not opened.stores and not opened.sidebars:
        raise opened.failures[0]
    # Without it containers have their numbers for names: that is no reason to leave a profile out.
    listed: dict[str, int] = {}
    _open_all(folder, [_CONTAINERS], "", listed, [], stack)
    opened.containers = listed.get(_CONTAINERS)


def _read_stores(opened: Opened, now: int) -> Found:
    names: dict[int, str] = {}
    if opened.containers is not None:
        with suppress(Unusable):
            names = sessionstore.containers(live.read_file(opened.containers, _CONTAINERS, _CONTAINERS_MOST))
    store = None
    missing: Unusable | None = None
    failures: list[Unusable] = []
    files = opened.stores | opened.sidebars
    saved = max((_saved(fd) for fd in files.values()), default=now)
    try:
        name, store, failures = first_usable(_readers(opened.stores), sessionstore.parse)
        saved = _saved(files[name])
    except Unusable as error:
        missing = error
    if opened.sidebars:
        try:
            _, sidebar, passed = first_usable(_readers(opened.sidebars), sessionstore.parse)
        except Unusable as error:
            failures.append(error)
        else:
            failures += passed
            store = sessionstore.with_sidebar(store, sidebar, now)
    if store is None:
        assert missing is not None
        raise missing
    listing = sessionstore.closed_tabs if opened.closed else sessionstore.open_tabs
    return Found(listing(store, now, names), saved, opened.failures + failures, list(opened.notes))


def _readers(files: dict[str, int]) -> list[tuple[str, Callable[[], bytes]]]:
    return [(name, _reader(fd, name, sessionstore.MOST)) for name, fd in files.items()]

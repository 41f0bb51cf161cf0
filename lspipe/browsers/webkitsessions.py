"""The session files of Safari and GNOME Web: opened before lock-down, afterwards read as tabs.

The form of Orion's is not publicly known.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, closing

from lspipe import live
from lspipe.browsers import places, profiles, safariplaces
from lspipe.browsers.opened import Connect, Found, Opened
from lspipe.browsers.tab import Tab
from lspipe.live import Unusable

ENGINES = ("safari", "epiphany", "orion")


def open_files(opened: Opened, engine: str, folder: int, stack: ExitStack) -> None:
    """Open what says which tabs are open. Raises Unusable."""
    names = profiles.files(engine, "tabs")
    if opened.closed or not names:
        what = "closed tabs" if names else "tabs"
        opened.notes.append(f"its browser has no list of {what} that can be read")
    elif engine == "epiphany":
        opened.stores[names[0]] = places.open_file(engine, opened.path, folder, "tabs", names[0], stack)
    else:
        try:
            opened.database = places.source(engine, opened.path, folder, "tabs", stack)
        except Unusable as error:  # Safari 14 and older has another file, and no profiles.
            if error.reason != "not-found" or safariplaces.is_made(opened.path):
                raise
            opened.stores[names[1]] = places.open_file(engine, opened.path, folder, "tabs", names[1], stack)


def read(engine: str, opened: Opened, now: int, stop: Callable[[], bool], connect: Connect | None) -> Found:
    """The tabs. Raises Unusable, Late, and FAULTS where a database is damaged or a statement was interrupted."""
    from lspipe.browsers import epiphany, plist, safari, safaritabs

    tabs: list[Tab] = []
    notes, saved = list(opened.notes), now
    if opened.database is not None:
        assert connect is not None
        saved = opened.database.changed // 1000
        name = os.path.basename(opened.path) if safariplaces.is_made(opened.path) else safari.DEFAULT
        with closing(connect(opened.database, safaritabs.TABLES)) as conn:
            tabs, more = safaritabs.tabs(conn, name, now)
            notes += more
    for name, fd in opened.stores.items():
        saved = os.fstat(fd).st_mtime_ns // 1000
        if engine == "epiphany":
            tabs = epiphany.tabs(live.read_file(fd, name, epiphany.SESSION_MOST), name, stop)
        else:
            tabs, more = safaritabs.last_session(live.read_file(fd, name, plist.MOST), name, now, stop)
            notes += more
    return Found(tabs, saved, [], notes)

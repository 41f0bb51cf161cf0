"""Chromium's `Tabs_*` files: what was closed lately, as the menu that opens it again has it (pure).

They are SNSS files (`snss`) with commands of their own, those of tab_restore_service_impl.cc. A command belongs to
the tab, window or group that was begun before it. After a clean exit the windows that it closed are in here, too.
"""

import struct
from collections.abc import Iterator

from lspipe.browsers.pickles import Broken, Pages, Pickle, colour, moment
from lspipe.browsers.snss import PAGES, THINGS, Command, Session, TooMuch, carry_out, structs, window_kind
from lspipe.browsers.tab import Group, Tab

_OLD_WINDOW, _TAB, _TIME = struct.Struct("<iii"), struct.Struct("<ii"), struct.Struct("<q")


def closed_tabs(data: bytes, name: str, now: int) -> Session:
    """The tabs of a `Tabs_*` file: closed alone, or with a window or a group. Raises Unusable as `snss` does."""
    replay = _Replay(data)
    skipped, torn = carry_out(data, name, replay.commands())
    tabs = list(replay.tabs(now))
    return Session(tabs, torn, skipped + replay.skipped)


class _Tab:
    """A closed tab; `pages` are the places of its pages in the file, numbered as they come."""

    __slots__ = ("at", "group", "pages", "pinned", "selected")

    def __init__(self, selected: int, at: int) -> None:
        self.selected = selected
        self.at = at
        self.pinned = False
        self.group: Group | None = None
        self.pages: dict[int, int] = {}


class _Closing:
    """What was closed in one go: a tab, or a `window` or `group` with its tabs, which are by their number."""

    __slots__ = ("at", "group", "kind", "shows", "tabs", "title", "what")

    def __init__(self, what: str | None, at: int = 0, shows: int = -1) -> None:
        self.what = what
        self.at = at
        self.shows = shows
        self.kind = 0
        self.title: str | None = None
        self.group: Group | None = None
        self.tabs: dict[int, _Tab] = {}


class _Replay:
    """The commands of `Tabs_*` files, and what they have built so far."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.skipped = 0
        self._closings: dict[int, _Closing] = {}
        self._holders: dict[int, _Closing] = {}
        self._whole: _Closing | None = None
        self._awaited = 0
        self._tab: _Tab | None = None
        self._pages = 0

    def commands(self) -> dict[int, Command]:
        """By their number, not kept, as those of `snss`."""
        return structs({
            1: ("", self._visit), 2: ("i", self._restore), 3: ("", self._old_window), 4: ("", self._begin_tab),
            5: ("", self._pin), 9: ("", self._window), 10: ("", self._group), 12: ("", self._name),
            13: ("", self._begin_group),
        })

    def _restore(self, number: int) -> None:
        """What was opened again is closed no longer."""
        self._whole = self._tab = None
        self._forget(number)

    def _forget(self, number: int) -> None:
        closing = self._closings.pop(number, None)
        if closing is None:
            closing = self._holders.pop(number, None)
            if closing is not None:
                closing.tabs.pop(number, None)

    def _begin(self, number: int, closing: _Closing, tabs: int = 0) -> None:
        self._forget(number)
        self._closings[number] = closing
        self._whole, self._awaited, self._tab = closing, tabs, None
        if len(self._closings) + len(self._holders) > THINGS:
            raise TooMuch

    def _window(self, at: int, end: int) -> None:
        pickle = Pickle(self._data, at, end)
        number, shows, tabs, closed = pickle.integer(), pickle.integer(), pickle.integer(), pickle.time()
        closing = _Closing("window", closed, shows)
        try:
            for _ in range(5):  # Place, size, and how it was shown.
                pickle.integer()
            pickle.string()  # Its workspace, an id of the window manager.
            closing.kind = pickle.integer()
        except Broken:
            pass  # Older versions end before.
        self._begin(number, closing, tabs)

    def _old_window(self, at: int, end: int) -> None:
        if end - at < _OLD_WINDOW.size:
            raise Broken
        number, shows, tabs = _OLD_WINDOW.unpack_from(self._data, at)
        closed, = _TIME.unpack_from(self._data, at + 12) if end - at >= 20 else (0,)
        self._begin(number, _Closing("window", closed, shows), tabs)

    def _begin_group(self, at: int, end: int) -> None:
        pickle = Pickle(self._data, at, end)
        token = pickle.token()
        number, tabs, _browser = pickle.integer(), pickle.integer(), pickle.integer()
        closing = _Closing("group")
        closing.group = Group(token, pickle.string16() or None, colour(pickle.integer()))
        self._begin(number, closing, tabs)

    def _begin_tab(self, at: int, end: int) -> None:
        if end - at < _TAB.size:
            raise Broken
        number, selected = _TAB.unpack_from(self._data, at)
        closed, = _TIME.unpack_from(self._data, at + 8) if end - at >= 16 else (0,)
        tab = _Tab(selected, closed)
        whole = self._whole
        if whole is None or self._awaited <= 0:
            self._begin(number, whole := _Closing(None))
        else:
            self._awaited -= 1
            tab.group = whole.group
            self._holders[number] = whole
            if len(self._closings) + len(self._holders) > THINGS:
                raise TooMuch
        whole.tabs[number] = self._tab = tab

    def _visit(self, at: int, end: int) -> None:
        """A page. Its own index counts pages that were not written; Chromium numbers them anew as well."""
        if self._tab is None or end - at < 12:
            raise Broken
        pages = self._tab.pages
        pages[len(pages)] = at
        self._pages += 1
        if self._pages > PAGES:
            raise TooMuch

    def _pin(self, _at: int, _end: int) -> None:
        if self._tab is None:
            raise Broken
        self._tab.pinned = True  # Written only where it is.

    def _group(self, at: int, end: int) -> None:
        group = Pickle(self._data, at, end).group()
        if self._tab is None:
            raise Broken
        self._tab.group = group

    def _name(self, at: int, end: int) -> None:
        pickle = Pickle(self._data, at, end)
        pickle.integer()
        if self._whole is None:
            raise Broken
        self._whole.title = pickle.string() or None

    def tabs(self, now: int) -> Iterator[Tab]:
        """The last closed first, the tabs of a window in their order."""
        windows = 0
        for closing in reversed(self._closings.values()):
            whole = closing.what == "window"
            filled = [(number, tab) for number, tab in closing.tabs.items() if tab.pages]
            windows += whole and bool(filled)
            for index, (number, tab) in enumerate(filled):
                pages = Pages(self._data, tab.pages, now)
                entry = pages.current(tab.selected)
                if entry is None or not entry.url:  # Chromium writes none where one is too long.
                    self.skipped += 1
                    continue
                closed, quality = moment(tab.at or closing.at, now)
                yield Tab(entry, pages, windows if whole else None, index, window_kind(closing.kind), closing.title,
                          whole and index == closing.shows, pinned=tab.pinned, group=tab.group, key=str(number),
                          closed=closed, closed_quality=quality, closed_with=closing.what)

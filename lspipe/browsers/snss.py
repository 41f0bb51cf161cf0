"""Chromium's session files (SNSS): their log of commands, and the tabs that it leaves open (pure).

A file is a header and a log of commands, and what it says is what is left when they are carried out in order.
The structures are those of command_storage_backend.cc and session_service_commands.cc: C structs with their
padding, and pickles, all little-endian, times in microseconds since 1601. Where Chromium gives up, at a command
that it does not know or that is too short, the command is passed over. Private windows are in no such file.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from lspipe.browsers.pickles import Broken, Pages, Pickle, group_id, moment
from lspipe.browsers.tab import Group, Tab
from lspipe.live import Unusable

#: How the names of the files begin that hold open tabs, and closed ones.
OPEN, CLOSED = "Session_", "Tabs_"
#: Their names before version 86, the newer file first; they lie in the profile itself.
OLD = {OPEN: ("Current Session", "Last Session"), CLOSED: ("Current Tabs", "Last Tabs")}
#: Two thousand tabs with long back lists take some 50 MiB.
MOST = 128 << 20
#: Tabs, windows or groups in one file, and the pages of all its tabs together.
THINGS, PAGES = 50_000, 500_000
#: Pages looked at while pruning, all in all. A browser keeps some 50 in each tab.
_STEPS = 20_000_000

_PLAIN, _MARKED, _ENCRYPTED = 1, 3, (2, 4, 5)
_MARKER = 255
_head = struct.Struct("<HB").unpack_from
_page = struct.Struct("<4xii").unpack_from
_KINDS = {0: "normal", 1: "popup", 2: "app", 3: "devtools", 4: "app"}

Command = tuple[int, Callable[..., tuple[Any, ...]] | None, Callable[..., None]]
"""(size of its struct, what unpacks that, what carries it out). A pickle is not unpacked, but given by its place."""


class Session(NamedTuple):
    """What a file holds.

    tabs      open ones by window and place; closed ones, the last closed first
    torn      it ends in the middle of a command: the last write was lost, or is still under way
    skipped   commands and tabs that cannot be read
    """

    tabs: list[Tab]
    torn: bool = False
    skipped: int = 0


def newest_first(names: Iterable[str], prefix: str) -> list[str]:
    """Those of `names` that begin with OPEN or CLOSED, by the time in them: after a crash two are left."""
    numbered = []
    for name in names:
        number = name.removeprefix(prefix)
        if name.startswith(prefix) and number.isascii() and number.isdigit() and len(number) < 20:
            numbered.append((int(number), name))
    return [name for _, name in sorted(numbered, reverse=True)]


def open_tabs(data: bytes, name: str, now: int) -> Session:
    """The tabs of a `Session_*` file. Raises Unusable: it is none, it is encrypted, it was never finished."""
    replay = _Replay(data)
    skipped, torn = carry_out(data, name, replay.commands())
    tabs = list(replay.tabs(now))
    return Session(tabs, torn, skipped + replay.skipped)


class TooMuch(Exception):
    """More than any browser writes."""


def structs(table: dict[int, tuple[str, Callable[..., None]]]) -> dict[int, Command]:
    """Commands from the layout of their structs; "" stands for a pickle."""
    return {number: (struct.calcsize("<" + layout), struct.Struct("<" + layout).unpack_from if layout else None, act)
            for number, (layout, act) in table.items()}


def carry_out(data: bytes, name: str, commands: dict[int, Command]) -> tuple[int, bool]:
    """Carry out every command of a file, in order; (how many cannot be read, whether it is torn). Raises Unusable."""
    marked = _version(data, name) == _PLAIN
    find = commands.get
    skipped = 0
    at, total = 8, len(data)
    while at + 3 <= total:
        size, number = _head(data, at)
        end = at + 2 + size
        if size == 0 or end > total:
            break
        command = find(number)
        if command is not None:
            least, unpack, act = command
            if size <= least:
                skipped += 1
            else:
                try:
                    if unpack is None:
                        act(at + 3, end)
                    else:
                        act(*unpack(data, at + 3))
                except Broken:
                    skipped += 1
                except TooMuch:
                    raise Unusable("failed", f"'{name}' holds more than any browser writes") from None
        elif number == _MARKER:
            marked = True
        at = end
    if not marked:
        raise Unusable("failed", f"'{name}' was never finished: its first state has no end")
    return skipped, at < total


def _version(data: bytes, name: str) -> int:
    if len(data) < 8 or data[:4] != b"SNSS":
        raise Unusable("failed", f"'{name}' is no session file")
    version = int.from_bytes(data[4:8], "little", signed=True)
    if version in _ENCRYPTED:
        raise Unusable("encrypted", f"'{name}' is encrypted")
    if version not in (_PLAIN, _MARKED):
        raise Unusable("failed", f"'{name}' is a session file of version {version}, which is not known")
    return version


def window_kind(number: int) -> str:
    """`SessionWindow::WindowType` in a word."""
    return _KINDS.get(number, "normal")


class _Tab:
    """A tab under construction; `pages` are the places of its pages in the file, by their index."""

    __slots__ = ("group", "index", "looked_at", "pages", "pinned", "selected", "window")

    def __init__(self) -> None:
        self.window = 0
        self.index = self.selected = -1
        self.pinned = False
        self.group: str | None = None
        self.looked_at: int | None = None
        self.pages: dict[int, int] = {}


class _Window:
    """A window under construction. Until its kind was said, Chromium does not take it for one."""

    __slots__ = ("kind", "shows", "title")

    def __init__(self) -> None:
        self.kind: int | None = None
        self.shows = -1
        self.title: str | None = None


class _Replay:
    """The commands of `Session_*` files, and what they have built so far."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.skipped = 0
        self._tabs: dict[int, _Tab] = {}
        self._windows: dict[int, _Window] = {}
        self._groups: dict[str, Group] = {}
        self._used = 0
        self._pages = self._steps = 0

    def commands(self) -> dict[int, Command]:
        """By their number. Kept here they would keep the file in memory: they know whose they are."""
        return structs({
            0: ("ii", self._put), 2: ("ii", self._place), 5: ("ii", self._prune_back), 6: ("", self._visit),
            7: ("ii", self._select), 8: ("ii", self._show), 9: ("ii", self._be), 11: ("ii", self._prune_front),
            12: ("iB", self._pin), 16: ("i4xq", self._close), 17: ("i4xq", self._close_window), 20: ("i", self._use),
            21: ("i4xq", self._look), 24: ("iii", self._prune), 25: ("i4xQQB", self._group),
            27: ("", self._describe), 31: ("", self._name),
        })

    def _new(self, number: int) -> _Tab:
        tab = self._tabs[number] = _Tab()
        if len(self._tabs) > THINGS:
            raise TooMuch
        return tab

    def _window(self, number: int) -> _Window:
        window = self._windows.get(number)
        if window is None:
            window = self._windows[number] = _Window()
            if len(self._windows) > THINGS:
                raise TooMuch
        return window

    def _put(self, window: int, number: int) -> None:
        (self._tabs.get(number) or self._new(number)).window = window

    def _place(self, number: int, index: int) -> None:
        (self._tabs.get(number) or self._new(number)).index = index

    def _select(self, number: int, index: int) -> None:
        (self._tabs.get(number) or self._new(number)).selected = index

    def _pin(self, number: int, pinned: int) -> None:
        (self._tabs.get(number) or self._new(number)).pinned = pinned != 0

    def _look(self, number: int, at: int) -> None:
        (self._tabs.get(number) or self._new(number)).looked_at = at

    def _group(self, number: int, high: int, low: int, grouped: int) -> None:
        (self._tabs.get(number) or self._new(number)).group = group_id(high, low) if grouped else None

    def _visit(self, at: int, end: int) -> None:
        if end - at < 12:
            raise Broken
        number, index = _page(self._data, at)
        pages = (self._tabs.get(number) or self._new(number)).pages
        if index not in pages:
            self._pages += 1
            if self._pages > PAGES:
                raise TooMuch
        pages[index] = at

    def _prune_back(self, number: int, index: int) -> None:
        tab = self._tabs.get(number) or self._new(number)
        self._keep(tab, {own: at for own, at in tab.pages.items() if own < index})

    def _prune_front(self, number: int, count: int) -> None:
        self._prune(number, 0, count)

    def _prune(self, number: int, index: int, count: int) -> None:
        """Take `count` pages out, from the one numbered `index`; those after them move up."""
        if index < 0 or count <= 0:
            raise Broken
        tab = self._tabs.get(number) or self._new(number)
        if tab.selected >= index + count:
            tab.selected -= count
        elif tab.selected >= index:
            tab.selected = index - 1
        self._keep(tab, {own if own < index else own - count: at for own, at in tab.pages.items()
                         if not index <= own < index + count})

    def _keep(self, tab: _Tab, pages: dict[int, int]) -> None:
        self._pages += len(pages) - len(tab.pages)
        self._steps += len(tab.pages)
        if self._steps > _STEPS:
            raise TooMuch
        tab.pages = pages

    def _close(self, number: int, _at: int) -> None:
        tab = self._tabs.pop(number, None)
        if tab is not None:
            self._pages -= len(tab.pages)

    def _close_window(self, number: int, _at: int) -> None:
        self._windows.pop(number, None)

    def _be(self, number: int, kind: int) -> None:
        self._window(number).kind = kind

    def _show(self, number: int, index: int) -> None:
        self._window(number).shows = index

    def _use(self, number: int) -> None:
        self._used = number

    def _name(self, at: int, end: int) -> None:
        pickle = Pickle(self._data, at, end)
        number, title = pickle.integer(), pickle.string()
        self._window(number).title = title or None

    def _describe(self, at: int, end: int) -> None:
        group = Pickle(self._data, at, end).group()
        self._groups[group.id] = group
        if len(self._groups) > THINGS:
            raise TooMuch

    def tabs(self, now: int) -> Iterator[Tab]:
        """The tabs that have a page and a window, window by window."""
        filled: dict[int, list[tuple[int, int, _Tab]]] = {}
        for number, tab in self._tabs.items():
            if tab.pages and tab.window in self._windows:
                filled.setdefault(tab.window, []).append((tab.index, number, tab))
        real = sorted(number for number in filled if self._windows[number].kind is not None)
        for ordinal, own in enumerate(real, start=1):
            window = self._windows[own]
            kind = window_kind(window.kind or 0)
            places = sorted(filled[own])  # No two tabs have the same number.
            shown = next((at for at, place in enumerate(places) if place[0] == window.shows), 0)
            for index, (_, number, tab) in enumerate(places):
                pages = Pages(self._data, tab.pages, now)
                entry = pages.current(tab.selected)
                if entry is None or not entry.url:  # Chromium writes none where one is too long.
                    self.skipped += 1
                    continue
                seen, quality = moment(tab.looked_at, now)
                active = index == shown
                yield Tab(entry, pages, ordinal, index, kind, window.title, active, active and own == self._used,
                          tab.pinned, group=self._groups.get(tab.group, Group(tab.group)) if tab.group else None,
                          key=str(number), last_active=seen, quality=quality)

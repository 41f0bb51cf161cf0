"""A tab, whatever browser it is from, and the choice of the newest file that can be read (pure)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from lspipe import matching
from lspipe.browsers import ranking
from lspipe.browsers.bookmark import NAME, joined
from lspipe.live import Unusable

T = TypeVar("T")


class Entry(NamedTuple):
    """A page in the back and forward list of a tab.

    at       when it was visited, µs since 1970, or None with the reason in `quality`
    status   HTTP status, where the file holds it
    """

    url: str
    title: str | None
    at: int | None = None
    quality: str | None = "missing"
    status: int | None = None


class Group(NamedTuple):
    """A tab group. Its title may be empty: many have nothing but a colour."""

    id: str
    title: str | None = None
    colour: str | None = None


class Device(NamedTuple):
    """Another device of the same person."""

    id: str
    name: str | None = None


@dataclass(slots=True)
class Tab:
    """A tab that is open or, with `closed`, was closed lately. Times are µs since 1970.

    entry         the page that it shows
    entries       all its pages from the first to the last, each decoded when it is asked for
    window        number of its window, from 1; the tabs of a closed window have a number in common, too
    index         place in the window, from 0
    kind          of the window: normal, popup, app or devtools
    active        the one that its window shows
    focused       active in the window that was used last
    hidden        out of sight: in another workspace, or by an add-on
    unloaded      never loaded since the browser started, as far as the file says so
    container     name of its cookie container; the number of one that no longer exists
    folder        names of the folders that it lies in, from the outermost
    key           the browser's own id of the tab, stable within one run of it
    last_active   when it was last looked at, or None with the reason in `quality`
    closed        when it was closed, or None with the reason in `closed_quality`
    closed_with   `window` or `group`, where the whole of that was closed
    device        the device that it is open on; None for this one
    """

    entry: Entry
    entries: Iterable[Entry] = ()
    window: int | None = None
    index: int = 0
    kind: str = "normal"
    window_title: str | None = None
    active: bool = False
    focused: bool = False
    pinned: bool = False
    hidden: bool = False
    unloaded: bool = False
    group: Group | None = None
    container: str | None = None
    workspace: str | None = None
    folder: tuple[str, ...] = ()
    key: str | None = None
    last_active: int | None = None
    quality: str | None = "missing"
    closed: int | None = None
    closed_quality: str | None = None
    closed_with: str | None = None
    device: Device | None = None


#: Schemes of pages that browsers and their extensions make themselves.
_OWN = ("about", "arc", "brave", "chrome", "chrome-error", "chrome-extension", "chrome-native", "chrome-search",
        "chrome-untrusted", "chromewebdata", "devtools", "edge", "extension", "moz-extension", "opera", "resource",
        "vivaldi")


def is_own(url: str) -> bool:
    """Whether it is a page of the browser itself. The reader view of a page is not one."""
    return url.partition(":")[0].lower() in _OWN and not url.startswith("about:reader?")


def is_internal(tab: Tab) -> bool:
    """Whether it shows a page of the browser itself."""
    return tab.kind == "devtools" or is_own(tab.entry.url)


def fields(tab: Tab, title: str | None = None, text: str = "") -> list[matching.Field]:
    """The searched parts of a tab; `title` is one for a tab that has none itself, `text` what its page shows."""
    found = ranking.fields(tab.entry.url, tab.entry.title or title or "", text)
    if tab.group is not None and tab.group.title:
        found.append(matching.Field("tags", tab.group.title[:NAME], ranking.TAGS))
    names = [name[:NAME] for name in (tab.container, tab.workspace) if name]
    names += [joined([name for name in tab.folder if name])] if tab.folder else []
    if names:
        found.append(matching.Field("text", "/".join(names), ranking.FOLDER))
    return found


def first_usable(
    files: Iterable[tuple[str, Callable[[], bytes]]], parse: Callable[[bytes, str], T],
) -> tuple[str, T, list[Unusable]]:
    """(name, what `parse` makes of it, why the ones before it were passed over) of the first file that can be used.

    `files` are names and what reads them, in the order of preference; one that is not there counts for nothing.
    Raises the Unusable of the first one that says more than `not-found`, where none can be used.
    """
    failures: list[Unusable] = []
    missing: Unusable | None = None
    for name, read in files:
        try:
            return name, parse(read(), name), failures
        except Unusable as error:
            if error.reason == "not-found":
                missing = missing or error
            else:
                failures.append(error)
    raise failures[0] if failures else missing or Unusable("not-found", "there is no session file")

"""The open tabs of a running Chromium: which port shows which granted profile, and its pages with what files know.

Consent comes first. The default context of a browser is the profile that was used last, and the protocol does not say
which one that is; so a port is spoken with only where the profiles that its browser has loaded leave no doubt: a
single one, or several that are all granted, which their session files then tell apart.
"""

import fcntl
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from lspipe.browsers import ports
from lspipe.browsers.cdp import Page, Session
from lspipe.browsers.endpoint import Limit, Wires, socket_path
from lspipe.browsers.granted import Granted
from lspipe.browsers.ports import Address
from lspipe.browsers.tab import Entry, Tab
from lspipe.live import Unusable, open_at


@dataclass
class Line:
    """A port that a browser of granted profiles listens on, connected to. `path` is what its file says, if that is of
    this port; `profiles` are those that its default context may be; `waits` is the file, open, to wait in line at."""

    address: Address
    path: str | None
    profiles: tuple[Granted, ...]
    sure: bool
    wires: Wires
    waits: int | None = None


@dataclass(frozen=True)
class _Place:
    """Where a browser may listen: what there is to know before a connection."""

    address: Address
    path: str | None
    root: int
    profiles: tuple[Granted, ...]
    sure: bool


def connect(asked: Sequence[Granted], given: Address | None, seconds: float, stack: ExitStack) -> Line:
    """A line to the first browser that listens and shows nothing but profiles that are `asked`; `stack` closes it.

    Nothing is sent yet. At most one port is connected to, twice, where the system says who listens. Raises Unusable
    with the reason.
    """
    reasons: list[str] = []
    for root, profiles in _roots(asked, stack):
        for address in [given] if given is not None else _addresses(root):
            try:
                place = _place(root, address, profiles)
                wires = Wires(address, seconds)
            except Unusable as error:
                reasons.append(error.message)
                if error.reason == "failed" and ports.can_tell():
                    raise
                continue
            stack.callback(wires.close)
            line = Line(address, place.path, place.profiles, place.sure, wires)
            if place.path is not None:
                line.waits = open_at(root, ports.FILE)
                stack.callback(os.close, line.waits)
            return line
    if reasons:
        raise Unusable("not-found", reasons[0])
    where = f"on {given}" if given is not None else "on a debugging port"
    raise Unusable("not-found", f"no browser of a granted profile listens {where}")


def _roots(asked: Sequence[Granted], stack: ExitStack) -> Iterable[tuple[int, list[Granted]]]:
    """The open user-data folders of Chromium profiles, each once, with the profiles in it."""
    found: dict[tuple[int, int], tuple[int, list[Granted]]] = {}
    for one in asked:
        if one.engine == "chromium":
            place = "." if ports.is_root(one.folder) else ".."
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=one.folder)
            stack.callback(os.close, fd)
            facts = os.fstat(fd)
            found.setdefault((facts.st_dev, facts.st_ino), (fd, []))[1].append(one)
    return found.values()


def _addresses(root: int) -> Iterator[Address]:
    """Where its browser may listen: the port of its file; then the common one, if the system says who listens."""
    told = ports.port_file(root)
    if told:
        yield Address("127.0.0.1", told[0])
    if ports.can_tell() and ports.listening(Address("127.0.0.1", ports.COMMON)):
        yield Address("127.0.0.1", ports.COMMON)


def _place(root: int, address: Address, profiles: Sequence[Granted]) -> _Place:
    """What may be shown of the browser of `root` that listens on `address`. Raises Unusable where nothing may."""
    told = ports.port_file(root)
    path = told[1] if told and told[0] == address.port else None
    if ports.can_tell():
        listener = ports.listener(address, root)
        if listener is None:
            raise Unusable("not-found", f"no browser of a granted profile listens on {address}")
        loaded = listener.loaded
    elif path is None:
        raise Unusable("not-found", f"nothing says whose browser listens on {address}")
    else:
        loaded = ports.people(root)
    names = {ports.ITSELF if ports.is_root(one.folder) else os.path.basename(one.path): one for one in profiles}
    possible = tuple(one for name, one in names.items() if name in loaded)
    if not possible:
        raise Unusable("not-found", f"the browser on {address} has other profiles open than those that are granted")
    if loaded - set(names):
        raise Unusable("not-found", f"the browser on {address} has other profiles open too, and does not say whose tabs"
                                    " it shows")
    return _Place(address, path, root, possible, len(loaded) == 1)


class Dialog(Unusable):
    """The browser would ask a person first."""


def speak(line: Line, limit: Limit) -> Session:
    """A session with the browser. Raises Dialog where it would ask a person first, and Unusable."""
    path = socket_path(line.wires, limit)
    if path is None:
        raise Dialog("failed", f"the browser on {line.address} asks a person at each connection",
                     "ls-tabs --from live waits for the answer")
    if line.path is not None and path != line.path:
        raise Unusable("failed", f"another browser answers on {line.address} than its file says")
    return Session(line.wires, path, limit)


def speak_with_leave(line: Line, limit: Limit) -> Session:
    """The same where a person has to say yes: one request, no other try, and never two that wait at once."""
    if line.waits is None or line.path is None:
        raise Unusable("failed", f"what answers on {line.address} is no Chromium browser")
    if not ports.can_tell():
        raise Unusable("failed", f"nothing says whose browser listens on {line.address}")
    try:
        fcntl.flock(line.waits, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Unusable("failed", "another run waits for the answer of a person already", "answer its dialog") from None
    return Session(line.wires, line.path, limit)


def whose(line: Line, pages: Sequence[Page], known: Mapping[str, Sequence[Tab]]) -> Granted:
    """The profile that the pages are of: the only one that is loaded, else the one whose file has the most of them.

    `known` has the tabs of the session files by the profiles' labels. Raises Unusable where it cannot be told.
    """
    if line.sure:
        return line.profiles[0]
    urls = {page.url for page in pages}
    ranked = sorted(((len(urls & {tab.entry.url for tab in known.get(one.label, ())}), one.label, one)
                     for one in line.profiles), reverse=True)
    if ranked[0][0] == 0 or ranked[0][0] == ranked[1][0]:
        raise Unusable("failed", f"the browser on {line.address} has several profiles open, and does not say whose tabs"
                                 " it shows")
    return ranked[0][2]


def joined(pages: Sequence[Page], known: Sequence[Tab]) -> list[tuple[Tab, Page]]:
    """Each page as a tab, with what the session file knows of it: those that it has in its order, then the others.

    One to one: pages and tabs of equal url and title find each other first, then those of equal url.
    """
    partner: dict[int, int] = {}  # Page to tab, by their places.
    free = set(range(len(known)))
    for exact in (True, False):
        waiting: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        for number, tab in enumerate(known):
            if number in free:
                waiting[tab.entry.url, (tab.entry.title or "") if exact else ""].append(number)
        for place, page in enumerate(pages):
            found = waiting.get((page.url, page.title if exact else ""))
            if place not in partner and found:
                partner[place] = found.popleft()
                free.discard(partner[place])
    order = sorted(range(len(pages)), key=lambda place: (partner.get(place, len(known)), place))
    return [(_tab(pages[place], known[partner[place]] if place in partner else None), pages[place]) for place in order]


def _tab(page: Page, known: Tab | None) -> Tab:
    title = page.title or None
    if known is None:
        return Tab(Entry(page.url, title), key=page.id)
    return replace(known, entry=known.entry._replace(title=title or known.entry.title))



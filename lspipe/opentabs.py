"""The tabs of one profile: its files opened before lock-down and read afterwards, with titles from its history."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lspipe import attached
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.exits import LspipeError, Precondition
from lspipe.live import Source, Unusable
from lspipe.run import Run

if TYPE_CHECKING:
    from lspipe.attached import Live
    from lspipe.browsers.opened import Found, Opened
    from lspipe.browsers.pagetext import PageText
    from lspipe.browsers.tab import Tab
    from lspipe.confine import Connection

Scope = Callable[["Tab"], bool]


class Profile(NamedTuple):
    """A profile; its open session files, or why there are none; the database of its history where that is granted."""

    profile: Granted
    files: "Opened | None"
    problem: Unusable | None
    history: Source | None


class Shown(NamedTuple):
    """A tab with what its row says besides; `saved` is when its file was written, `title` one from the history."""

    tab: "Tab"
    saved: int | None = None
    title: str | None = None
    method: str = "session"
    text: "PageText | None" = None


def open_files(run: Run, one: Granted, closed: bool, history: int | None) -> Profile:
    """Open the session files of a profile, and the database in the folder `history`, open, for titles."""
    from lspipe.browsers import profiles, sessionfiles, titles

    try:
        files = sessionfiles.open_files(one.engine, one.folder, closed, run.closing, one.path)
    except Unusable as error:
        return Profile(one, None, error, None)
    source = None
    if history is not None and one.engine in titles.PAGES:
        with contextlib.suppress(Unusable):
            source = Source(history, profiles.files(one.engine, made.HISTORY)[0])
            run.closing.callback(source.close)
    return Profile(one, files, None, source)


def read(run: Run, one: Profile) -> "Found":
    """The tabs of the open files. Raises Unusable, and Late and FAULTS as sessionfiles does."""
    from lspipe.browsers import sessionfiles

    def connect(source: Source, tables: Sequence[str]) -> "Connection":
        from lspipe import snapshot

        return granted.connect(run, source, tables, snapshot.MEMORY)

    assert one.files is not None
    return sessionfiles.read(one.profile.engine, one.files, run.now, run.clock.expired, connect)


def tried(run: Run, one: Profile) -> "Found | Unusable":
    """The tabs of a Chromium's session file, or why there are none."""
    try:
        return read(run, one)
    except Unusable as error:
        return error


def of_browser(
    run: Run, one: Profile, found: "Found | Unusable | None", live: "Live", in_scope: Scope, text: bool,
) -> list[Shown]:
    """The tabs that the browser shows, with what the file knows of them, and their text where it is asked for."""
    from lspipe.browsers import livetabs, pagetext

    known, saved = [], None
    if found is None or isinstance(found, Unusable):
        why = found or one.problem
        run.report.note(f"{one.profile.label}: no windows and groups: {why.message if why else 'no session file'}")
    else:
        known, saved = found.tabs, found.saved
    pairs = [(tab, page) for tab, page in livetabs.joined(live.pages, known) if in_scope(tab)]
    texts = {}
    if text:
        attached.renew(run, live)
        texts = pagetext.texts(live.session, [page for _, page in pairs])
        run.clock.expired()  # Where it is over not all texts are there; the tabs are.
    live.session.close()
    titles = _titles(run, one, [tab for tab, _ in pairs])
    return [Shown(tab, saved, None if tab.entry.title else titles.get(tab.entry.url), made.LIVE, texts.get(page.id))
            for tab, page in pairs]


def of_files(run: Run, one: Profile, found: "Found", in_scope: Scope) -> list[Shown]:
    """The tabs of the session file; what could not be read of it is said."""
    for note in found.notes:
        run.report.note(f"{one.profile.label}: {note}")
    for failure in found.failures:
        if failure.reason != "failed":  # What fails is begun, or half written: browsers keep the one before it.
            granted.leave_out(run, made.TABS, one.profile, failure)
        run.report.note(f"{one.profile.label}: an older file is read, for {failure.message}")
    tabs = [tab for tab in found.tabs if in_scope(tab)]
    titles = _titles(run, one, tabs)
    return [Shown(tab, found.saved, None if tab.entry.title else titles.get(tab.entry.url)) for tab in tabs]


def _titles(run: Run, one: Profile, tabs: "Sequence[Tab]") -> dict[str, str]:
    """Titles by url from the history, for tabs that have none. That it cannot be read is no fault of the tabs."""
    urls = [tab.entry.url for tab in tabs if tab.entry.title is None]
    if one.history is None or not urls:
        return {}
    from lspipe import confine, snapshot
    from lspipe.browsers import titles

    try:
        with contextlib.closing(granted.connect(run, one.history, [titles.PAGES[one.profile.engine]],
                                                snapshot.MEMORY)) as conn:
            return titles.titles(conn, one.profile.engine, urls)
    except (Unusable, Precondition, *confine.FAULTS) as error:
        if not isinstance(error, LspipeError) and confine.interrupted(error) and not run.clock.expired():
            raise  # By a signal.
        run.report.note(f"{one.profile.label}: no titles from the history: {error}")
        return {}

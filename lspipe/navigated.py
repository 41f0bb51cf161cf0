"""What open tabs add to a history: the lists of their session file, and what a running Chromium tells of them itself.

Whatever can be opened or connected to is so before lock-down, and read after. A session file needs the grant for
tabs, a browser that is asked the one for tab-text besides.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from lspipe import attached, stream
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.exits import Precondition, Upstream
from lspipe.live import Unusable
from lspipe.narrow import grant_command
from lspipe.run import Run

if TYPE_CHECKING:
    from lspipe.browsers.livetabs import Line
    from lspipe.browsers.opened import Opened
    from lspipe.browsers.pages import History
    from lspipe.browsers.tab import Tab


class Ways(NamedTuple):
    """The open session files by the profiles' labels; a line to a browser, or why there is none."""

    sessions: "dict[str, Opened]"
    line: "Line | None" = None
    silent: Unusable | None = None


class Lists(NamedTuple):
    """The tabs of a profile, whose lists add to its history: those of the session file, and those that were told."""

    saved: "Sequence[Tab]" = ()
    told: "Sequence[Tab]" = ()


# ---- Before lock-down


def opened(
    run: Run, asked: Sequence[Granted], tabs: Sequence[Granted], texts: Sequence[Granted], opts: SimpleNamespace
) -> Ways:
    """Open what there is for the profiles `asked`; `tabs` and `texts` are granted for these kinds.

    Session files that may not or cannot be read are said, and the history goes on without them.
    """
    by_label = {one.label: one for one in tabs}
    sessions = {one.label: found for one in asked if (found := _session(run, one, by_label.get(one.label))) is not None}
    if opts.tabs_from == "disk":
        return Ways(sessions)
    labels = {one.label for one in asked} & by_label.keys()
    chromium = [one for one in texts if one.label in labels and one.engine == "chromium"]
    if not chromium and opts.tabs_from == "auto":
        return Ways(sessions)
    if not chromium:
        raise Precondition("nothing live: no Chromium profile is granted for history, tabs and tab-text",
                           "ls-consent list shows what is granted")
    try:
        return Ways(sessions, attached.connect(run, chromium, getattr(opts, "address", None)))
    except Unusable as error:
        if opts.tabs_from == "live":
            raise Precondition(f"nothing live: {error.message}",
                               "start it with --remote-debugging-port=0, or leave --from live out") from None
        return Ways(sessions, None, error)


def _session(run: Run, one: Granted, tabs: Granted | None) -> "Opened | None":
    from lspipe.browsers import sessionfiles

    if one.engine not in ("chromium", "firefox"):
        run.report.note(f"{one.label}: its browser keeps no back and forward lists that can be read")
        return None
    if tabs is None:
        command = grant_command("browser", one.label, made.TABS)
        _skip(run, one, Unusable("no-consent", "no consent", command), f"cannot look at the open tabs of '{one.label}'",
              command)
        return None
    try:
        return sessionfiles.open_files(tabs.engine, tabs.folder, False, run.closing)
    except Unusable as error:
        _no_tabs(run, one, error)
        return None


def _no_tabs(run: Run, one: Granted, error: Unusable) -> None:
    """Say why the tabs of a profile are missing; a browser that keeps no session has none."""
    if error.reason == "not-found":
        run.report.note(f"{one.label}: no open tabs: {error.message}")
    else:
        _skip(run, one, error, f"cannot read the open tabs of '{one.label}'", error.message)


def _skip(run: Run, one: Granted, error: Unusable, what: str, detail: str) -> None:
    run.report.skip(f"{what}: {error.message}", error.reason, error.hint, what=f"open tabs of '{one.label}'",
                    source=made.TABS, browser=one.browser, profile=one.profile, detail=detail)


# ---- After


def read(run: Run, asked: Sequence[Granted], ways: Ways, opts: SimpleNamespace) -> dict[str, Lists]:
    """The tabs by the labels of their profiles. What cannot be read is said."""
    must = opts.tabs_from == "live"
    saved = {one.label: tabs for one in asked if one.label in ways.sessions
             and (tabs := _saved(run, one, ways.sessions[one.label])) is not None}
    found: dict[str, Lists] = {} if must else {label: Lists(tabs) for label, tabs in saved.items()}
    error = ways.silent
    if ways.line is not None:
        try:
            label, told = _ask(run, ways.line, saved, must)
            found[label] = found.get(label, Lists())._replace(told=told)
        except Unusable as unusable:
            if must and not run.clock.expired():
                raise Upstream(f"nothing live: {unusable.message}", unusable.hint) from None
            error = unusable
    if error is not None:
        run.report.note(f"the browser was not asked what its files do not have: {error.message}")
    return found


def _saved(run: Run, one: Granted, session: "Opened") -> "list[Tab] | None":
    from lspipe.browsers import sessionfiles

    if run.clock.expired():
        return None
    try:
        found = sessionfiles.read(one.engine, session, run.now)
    except Unusable as error:
        _no_tabs(run, one, error)
        return None
    for failure in found.failures:
        run.report.note(f"{one.label}: an older session file is read, for {failure.message}")
    return found.tabs


def _ask(run: Run, line: "Line", known: "Mapping[str, Sequence[Tab]]", must: bool) -> "tuple[str, list[Tab]]":
    """The label of the profile that a browser shows, and its tabs with their lists, which have no times.

    A browser that would ask a person first is not asked. Raises Unusable.
    """
    from lspipe.browsers import cdp
    from lspipe.browsers.tab import Entry, Tab

    live = attached.speak(run, line, known, must, person=False)
    if must:
        attached.renew(run, live)
    lists = cdp.navigation(live.session, live.pages)
    live.session.close()
    silent = len(live.pages) - len(lists)
    if silent:
        tabs = stream.counted(silent, "tab did not tell where it had been", "tabs did not tell where they had been")
        run.report.note(f"{live.profile.label}: {tabs}")
    return live.profile.label, [
        Tab(Entry(page.url, page.title or None),
            tuple(Entry(one.url, one.title or None) for one in lists[page.id] if ":" in one.url), key=page.id)
        for page in live.pages if page.id in lists]


def beside(one: Granted, history: "History", lists: Lists) -> "Iterator[History]":
    """What the tabs of a profile have that its history does not: those of the file, then what only the browser told."""
    from lspipe.browsers import sessionpages

    wanted = history.wanted
    saved = sessionpages.gathered(one.engine, lists.saved, wanted)
    told = sessionpages.gathered(one.engine, lists.told, wanted)
    for url in saved.keys() & told.keys():  # The file writes a page down before it has its title.
        saved[url] = saved[url]._replace(title=saved[url].title or told[url].title)
    rest = {url: entry for url, entry in told.items() if url not in saved}
    for entries, method in ((saved, "session"), (rest, "cdp")):
        found = sessionpages.beside(history, entries, wanted, method)
        if found is not None:
            yield found

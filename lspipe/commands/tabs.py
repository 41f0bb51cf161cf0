"""List and search the tabs that are open, in every granted browser profile, from its session files.

    $ ls-tabs
    $ ls-tabs rust async
    $ ls-tabs --closed

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -. A
tab matches when any word does, and comes first the more of the query it covers. Without words the tabs that were
looked at last come first; --since and --until are about the time when they were.

The browser need not run and notices nothing; private windows are in no file, and where Safari's say so they are left
out. Files lag behind: Chromium writes after some 3 seconds, Firefox after 15, GNOME Web after one, and meta.saved_at
says when. A tab whose title the file does not hold gets it from the history, if that is granted too, and
meta.title_from says so. Pages of the browser itself are left out without --all.

--device NAME lists what is open on another device instead, as far as sync has brought it here: by the device's name,
by the first characters of its id, or `all` of them. meta.device and meta.device_id say which one it is. Safari counts
this machine among its devices.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import click

from lspipe import access, browsing, options, runner, synced
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.exits import LspipeError, Precondition, Usage
from lspipe.live import Source, Unusable
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.opened import Opened
    from lspipe.browsers.tab import Tab

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-tabs", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--closed", is_flag=True, help="Tabs and windows that were closed lately, instead of open ones.")
@click.option("--device", metavar="NAME",
              help="Tabs of another device, as sync brought them: its name, how its id begins, or all.")
@click.option("--all", "everything", is_flag=True, help="Also pages of the browser itself: settings, new tabs.")
@click.option("--all-terms", is_flag=True, help="Only tabs that hold every word.")
def cli(**given: object) -> SimpleNamespace:
    if given["device"] is not None and given["closed"]:
        raise Usage("--device lists open tabs: it does not go with --closed")
    return options.namespace(**given)


class Profile(NamedTuple):
    """A profile, its open session files, and the database of its history where that is granted."""

    profile: Granted
    files: "Opened"
    history: Source | None


class Shown(NamedTuple):
    """A tab with what its row says besides."""

    tab: "Tab"
    saved: int | None = None
    title: str | None = None


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """The granted profiles. Their files are opened before lock-down: no path of theirs need be readable."""
    held = access.obtain(run, granted.request(made.TABS, opts.profile),
                         granted.existing(os.path.expanduser("~"), os.environ))
    return runner.Reach(given=(granted.profiles_of(held), browsing.granted_besides(made.HISTORY, opts, run)))


def opening(opts: SimpleNamespace, run: runner.Run) -> None:
    """Open the session files of each profile, and the history that may have their titles."""
    from lspipe.browsers import profiles, sessionfiles, titles

    asked, histories = run.reach.given
    if opts.device is not None:
        run.reach.given = synced.open_all(run, asked)
        granted.check_any(run, asked)
        return
    folders = {one.label: one.folder for one in histories}
    opened = []
    for one in asked:
        try:
            files = sessionfiles.open_files(one.engine, one.folder, opts.closed, run.closing, one.path)
        except Unusable as error:
            granted.leave_out(run, made.TABS, one, error)
            continue
        history = None
        if one.label in folders and one.engine in titles.PAGES:
            with contextlib.suppress(Unusable):
                history = Source(folders[one.label], profiles.files(one.engine, made.HISTORY)[0])
                run.closing.callback(history.close)
        opened.append(Profile(one, files, history))
    run.reach.given = opened
    granted.check_any(run, asked)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the last looked at first."""
    from lspipe.browsers import listed, tab

    query, common = made.asked(run, opts.words)
    kind = listed.Kind[Shown](
        made.TABS,
        lambda one: tab.fields(one.tab, one.title),
        lambda one: made.used(one.tab)[0],
        lambda profile, one: made.tab(profile, one.tab, one.saved, opts.closed, one.title))
    found: Iterable[tuple[Granted, list[Shown]]]
    if opts.device is None:
        found = ((one.profile, _tabs(opts, run, one)) for one in run.reach.given)
    else:
        found = [(profile, [Shown(tab) for tab in _in_scope(opts, run, tabs)])
                 for profile, tabs in synced.tabs(run, run.reach.given, opts.device)]
    yield from listed.ranked(kind, found, query, common, opts.all_terms)
    granted.check_any(run, [one.profile for one in run.reach.given])


def _tabs(opts: SimpleNamespace, run: runner.Run, one: Profile) -> list[Shown]:
    """The tabs of a profile that are in scope; what cannot be read of it is said."""
    from lspipe import snapshot
    from lspipe.browsers import sessionfiles

    if run.clock.expired():
        return []
    with granted.tolerant(run, made.TABS, one.profile, "the session file"):
        found = sessionfiles.read(
            one.profile.engine, one.files, run.now, run.clock.expired,
            lambda source, tables: granted.connect(run, source, tables, snapshot.MEMORY))
        for note in found.notes:
            run.report.note(f"{one.profile.label}: {note}")
        for failure in found.failures:
            if failure.reason != "failed":  # What fails is begun, or half written: browsers keep the one before it.
                granted.leave_out(run, made.TABS, one.profile, failure)
            run.report.note(f"{one.profile.label}: an older file is read, for {failure.message}")
        tabs = _in_scope(opts, run, found.tabs)
        titles = _titles(run, one, [one.entry.url for one in tabs if one.entry.title is None])
        return [Shown(one, found.saved, None if one.entry.title else titles.get(one.entry.url)) for one in tabs]
    return []


def _in_scope(opts: SimpleNamespace, run: runner.Run, tabs: "Iterable[Tab]") -> "list[Tab]":
    from lspipe.browsers import listed, tab

    return [one for one in tabs if (opts.everything or not tab.is_internal(one))
            and listed.within(made.used(one)[0], run.since, run.until)]


def _titles(run: runner.Run, one: Profile, urls: list[str]) -> dict[str, str]:
    """Titles from the history for tabs without one. That it cannot be read is no fault of the tabs."""
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


main = runner.Tool(cli, rows, reach=reach, opening=opening)

"""List and search the open tabs of every granted browser profile, live or from its session files.

    $ ls-tabs
    $ ls-tabs rust async
    $ ls-tabs --closed

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -. A
tab matches when any word does, and comes first the more of the query it covers. Without words the tabs that were
looked at last come first; --since and --until are about the time when they were.

A Chromium that listens on a debugging port is asked itself (--from live), where it answers without asking a person;
everything else, Firefox always, is read from the session files, for which no browser need run (--from disk). Either
way the browser's pages notice nothing, and private windows never appear. Files lag behind: Chromium writes after some
3 seconds, Firefox after 15, GNOME Web after one, and meta.saved_at says when. A tab whose title the file does not hold
gets it from the history, if that is granted too, and meta.title_from says so. Pages of the browser itself are left out
without --all.

--device NAME lists what is open on another device instead, as far as sync has brought it here: by the device's name,
by the first characters of its id, or `all` of them. meta.device and meta.device_id say which one it is. Safari counts
this machine among its devices.

With --text, which needs a grant of its own (tab-text), each live tab has the text that it shows and what is selected
in it, and the words are looked for there too. A page that does not answer says why in meta.text_status. Values of
form fields are never read.
"""

import os
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import click

from lspipe import access, attached, browsing, opentabs, options, runner, synced
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.exits import Precondition, Upstream, Usage
from lspipe.live import Unusable
from lspipe.opentabs import Profile, Shown
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.attached import Live
    from lspipe.browsers.livetabs import Line
    from lspipe.browsers.opened import Found
    from lspipe.browsers.tab import Tab

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-tabs", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--from", "origin", type=click.Choice(["auto", "live", "disk"]), default="auto", show_default=True,
              help="Ask the running browser, read its files, or ask it where that needs no dialog.")
@click.option("--cdp", metavar="ADDRESS", envvar="LSPIPE_CDP", show_envvar=True,
              help="Where the browser listens: 127.0.0.1:PORT or [::1]:PORT. Without: where its profile says.")
@click.option("--text", is_flag=True, help="Also the text of the pages, and what is selected (live, tab-text grant).")
@click.option("--closed", is_flag=True, help="Tabs and windows that were closed lately, instead of open ones.")
@click.option("--device", metavar="NAME",
              help="Tabs of another device, as sync brought them: its name, how its id begins, or all.")
@click.option("--all", "everything", is_flag=True, help="Also pages of the browser itself: settings, new tabs.")
@click.option("--all-terms", is_flag=True, help="Only tabs that hold every word.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


class Given(NamedTuple):
    """The profiles, and the line to a browser of some of them, or why there is none."""

    profiles: list[Profile]
    line: "Line | None"
    silent: Unusable | None


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """The granted profiles. Their files are opened before lock-down: no path of theirs need be readable."""
    _check(opts)
    exists = granted.existing(os.path.expanduser("~"), os.environ)
    asked = granted.profiles_of(access.obtain(run, granted.request(made.TABS, opts.profile), exists))
    if opts.text:
        texts = granted.profiles_of(access.obtain(run, granted.request(made.TAB_TEXT, opts.profile), exists))
        readable = {one.label for one in texts}
        asked = [one for one in asked if one.label in readable]
        if not asked:
            raise Precondition("no profile has a grant for tabs and one for their text (tab-text)",
                               "ls-consent list shows what is granted")
    return runner.Reach(given=(asked, browsing.granted_besides(made.HISTORY, opts, run)))


def _check(opts: SimpleNamespace) -> None:
    """Raise Usage for options that contradict each other."""
    if opts.device is not None and (opts.closed or _must_be_live(opts)):
        raise Usage("--device lists open tabs that sync brought: it goes with none of --closed, --from live, --text")
    if opts.closed and (opts.origin == "live" or opts.text):
        raise Usage("what was closed is in files alone: --closed goes with neither --from live nor --text")
    if opts.text and opts.origin == "disk":
        raise Usage("the text of pages is in no file: --text does not go with --from disk")
    if opts.cdp is not None:
        from lspipe.browsers import ports

        opts.address = ports.parse(opts.cdp)


def opening(opts: SimpleNamespace, run: runner.Run) -> None:
    """Connect to a browser, without a word; open the session files of each profile, and its history for titles."""
    asked, histories = run.reach.given
    if opts.device is not None:
        run.reach.given = synced.open_all(run, asked)
        granted.check_any(run, asked)
        return
    line, silent = None, None
    if opts.origin != "disk" and not opts.closed and any(one.engine == "chromium" for one in asked):
        try:
            line = attached.connect(run, asked, getattr(opts, "address", None))
        except Unusable as error:
            silent = error
    if _must_be_live(opts) and line is None:
        raise _no_line(opts, silent)
    shown = [one for one in asked if line is None or not _must_be_live(opts) or one in line.profiles]
    for one in asked:
        if one not in shown:
            _not_live(opts, run, one)
    folders = {one.label: one.folder for one in histories}
    opened = [opentabs.open_files(run, one, opts.closed, folders.get(one.label)) for one in shown]
    for found in opened:
        if found.problem is not None and (line is None or found.profile not in line.profiles):
            granted.leave_out(run, made.TABS, found.profile, found.problem)
    run.reach.given = Given(opened, line, silent)
    if line is None:
        granted.check_any(run, asked)


def _must_be_live(opts: SimpleNamespace) -> bool:
    return bool(opts.origin == "live" or opts.text)


def _no_line(opts: SimpleNamespace, silent: Unusable | None) -> Precondition:
    without = "leave out " + ("--text" if opts.text else "--from live")
    if silent is not None:
        return Precondition(f"no live tabs: {silent.message}",
                            f"start the browser with --remote-debugging-port=0, or {without}")
    which = "is among those that --profile names" if opts.profile else "is granted"
    return Precondition(f"no live tabs: no profile of a Chromium {which}, and no other browser has a live mode",
                        without)


def _not_live(opts: SimpleNamespace, run: runner.Run, one: Granted) -> None:
    """A profile that only files show is left out where only live tabs are asked for; said aloud if it was named."""
    error = Unusable("failed", "its browser is not the one that answers" if one.engine == "chromium"
                     else "its browser has no live mode")
    if opts.profile:
        granted.leave_out(run, made.TABS, one, error)
    else:
        run.report.exclude(error.reason, what=f"profile '{one.label}'", source=made.TABS, browser=one.browser,
                           profile=one.profile, detail=error.message)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the last looked at first."""
    from lspipe.browsers import listed, tab

    query, common = made.asked(run, opts.words)
    kind = listed.Kind[Shown](
        made.TABS,
        lambda one: tab.fields(one.tab, one.title, one.text.text if one.text else ""),
        lambda one: made.used(one.tab)[0],
        lambda profile, one: made.with_text(
            made.tab(profile, one.tab, one.saved, opts.closed, one.title, one.method), one.text, query,
            opts.max_chars))
    found: Iterable[tuple[Granted, list[Shown]]]
    if opts.device is not None:
        profiles = [one.profile for one in run.reach.given]
        found = [(profile, [Shown(one) for one in tabs if _in_scope(opts, run, one)])
                 for profile, tabs in synced.tabs(run, run.reach.given, opts.device)]
    else:
        profiles = [one.profile for one in run.reach.given.profiles]
        found = _here(opts, run, run.reach.given.profiles)
    yield from listed.ranked(kind, found, query, common, opts.all_terms, run.clock.expired)
    granted.check_any(run, profiles)


def _here(opts: SimpleNamespace, run: runner.Run, profiles: list[Profile]) -> Iterator[tuple[Granted, list[Shown]]]:
    """The tabs of this machine, profile by profile."""
    line = run.reach.given.line
    read = {one.profile.label: opentabs.tried(run, one) for one in profiles
            if line is not None and one.profile in line.profiles and one.files is not None}
    live = _ask(opts, run, read)
    for one in profiles:
        yield one.profile, _tabs(opts, run, one, read.get(one.profile.label), live)


def _ask(opts: SimpleNamespace, run: runner.Run, read: "dict[str, Found | Unusable]") -> "Live | None":
    """What the browser answers. Where it need not be live, the report says why it is not."""
    line, silent = run.reach.given.line, run.reach.given.silent
    error = silent
    if line is not None:
        try:
            known = {label: one.tabs for label, one in read.items() if not isinstance(one, Unusable)}
            return attached.speak(run, line, known, _must_be_live(opts), opts.origin == "live")
        except Unusable as unusable:
            error = unusable
    if error is None or run.clock.expired():
        return None
    if _must_be_live(opts):
        raise Upstream(f"no live tabs: {error.message}", error.hint)
    run.report.note(f"tabs are from session files: {error.message}")
    return None


def _tabs(opts: SimpleNamespace, run: runner.Run, one: Profile, found: "Found | Unusable | None",
          live: "Live | None") -> list[Shown]:
    """The tabs of a profile that are in scope; what cannot be read of it is said."""
    if run.clock.expired():
        return []

    def in_scope(tab: "Tab") -> bool:
        return _in_scope(opts, run, tab)

    with granted.tolerant(run, made.TABS, one.profile, "the session file"):
        if live is not None and live.profile == one.profile:
            return opentabs.of_browser(run, one, found, live, in_scope, opts.text)
        if _must_be_live(opts):
            _not_live(opts, run, one.profile)
            return []
        if isinstance(found, Unusable):
            raise found
        if found is not None or one.files is not None:
            return opentabs.of_files(run, one, found or opentabs.read(run, one), in_scope)
        if run.reach.given.line is not None and one.profile in run.reach.given.line.profiles:
            assert one.problem is not None
            raise one.problem  # Not said before: the browser might have answered.
    return []


def _in_scope(opts: SimpleNamespace, run: runner.Run, one: "Tab") -> bool:
    from lspipe.browsers import listed, tab

    return bool(opts.everything or not tab.is_internal(one)) and listed.within(
        made.used(one)[0], run.since, run.until)


main = runner.Tool(cli, rows, reach=reach, opening=opening)

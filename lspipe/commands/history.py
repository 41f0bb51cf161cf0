"""Search the pages that were visited, in every granted browser profile.

    $ ls-history rust async
    $ ls-history --since yesterday -n 20
    $ ls-history --top --since 30d
    $ ls-history --live -n 5

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -. A
page matches when any word does, and comes first the more of the query it covers, rare words counting more. Without
words the newest pages come first.

A page that was reached through redirects is one row: the place where they ended. Without --all, hidden pages, parts
of pages and error pages are left out. --since and --until choose pages by their visits: a page is in if any visit
is, accessed_at is its newest visit in that time, and meta.visit_count counts all of them.

--top puts the most visited pages first and --sites the most visited sites, a row for each host; the score is then the
number of visits, those in the time of --since and --until if one is given, and words only choose.

--live adds what the file does not hold yet: Chromium writes it ten seconds after a visit, and loses what is younger
when it is killed. It is the pages that the open tabs can go back and forward to, from the session file, which needs
the grant for tabs too; provenance.method of these rows is session. A page that the file has as well is one row, with
the newer visit.

What Chromium's sync brought from another device has its name in meta.device, and its id in meta.device_id. --device
NAME takes visits of one device only, by its name, by the first characters of its id, or of `all` other devices.
Firefox does not keep which device a visit was on.
"""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import click

from lspipe import browsing, live, options, runner, synced
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.exits import Usage
from lspipe.narrow import grant_command
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.opened import Opened
    from lspipe.browsers.pages import History, Page
    from lspipe.words import Query

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-history", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--all", "everything", is_flag=True, help="Also redirects, hidden pages and error pages.")
@click.option("--all-terms", is_flag=True, help="Only pages that hold every word.")
@click.option("--top", is_flag=True, help="The most visited pages first.")
@click.option("--sites", is_flag=True, help="Sites instead of pages, the most visited first.")
@click.option("--live", is_flag=True, help="Also what the file does not hold yet, from the open tabs.")
@click.option("--device", metavar="NAME",
              help="Only visits of another device: its name, how its id begins, or all.")
@click.option("--origin", type=click.Choice(["local", "synced"]),
              help="Only visits of this machine, or only those that came by sync.")
def cli(**given: object) -> SimpleNamespace:
    if given["live"] and (given["top"] or given["sites"]):
        raise Usage("--live knows no number of visits: it does not go with --top and --sites")
    if given["device"] is not None and given["origin"] == "local":
        raise Usage("--device is about visits of other devices: it does not go with --origin local")
    return options.namespace(**given)


class Source(NamedTuple):
    """A profile with its open database, the names of its other devices and, with --live, its open session files."""

    profile: Granted
    database: "live.Source"
    names: synced.Names
    session: "Opened | None" = None


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """The profiles granted for their history and, with --live, those granted for their tabs as well."""
    found = browsing.reach(made.HISTORY)(opts, run)
    found.given = found.given, browsing.granted_besides(made.TABS, opts, run) if opts.live else []
    return found


def opening(opts: SimpleNamespace, run: runner.Run) -> None:
    """Open the database of each profile and, with --live, its session files."""
    asked, tabs = run.reach.given
    folders = {one.label: one for one in tabs}
    opened = []
    for one in asked:
        source = granted.database(run, made.HISTORY, one)
        if source is not None:
            opened.append(Source(one, source, synced.Names.of(run, one),
                                 _session(run, one, folders.get(one.label)) if opts.live else None))
    run.reach.given = opened
    granted.check_any(run, asked, made.HISTORY)


def _session(run: runner.Run, one: Granted, tabs: Granted | None) -> "Opened | None":
    """The open session files; that there are none to be read is said, and the history goes on without them."""
    from lspipe.browsers import sessionfiles

    if one.engine not in ("chromium", "firefox"):
        run.report.note(f"{one.label}: its browser keeps no back and forward lists that can be read")
        return None
    if tabs is None:
        command = grant_command("browser", one.label, made.TABS)
        run.report.skip(f"cannot look at the open tabs of '{one.label}': no consent", "no-consent", command,
                        what=f"open tabs of '{one.label}'", source=made.TABS, browser=one.browser,
                        profile=one.profile, detail=command)
        return None
    try:
        return sessionfiles.open_files(tabs.engine, tabs.folder, False, run.closing)
    except live.Unusable as error:
        _no_tabs(run, one, error)
        return None


def _no_tabs(run: runner.Run, one: Granted, error: live.Unusable) -> None:
    """Say why the open tabs are missing; a browser that keeps no session has none."""
    if error.reason == "not-found":
        run.report.note(f"{one.label}: no open tabs: {error.message}")
    else:
        run.report.skip(f"cannot read the open tabs of '{one.label}': {error.message}", error.reason, error.hint,
                        what=f"open tabs of '{one.label}'", source=made.TABS, browser=one.browser,
                        profile=one.profile, detail=error.message)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the newest first."""
    query, common = made.asked(run, opts.words)
    with contextlib.ExitStack() as stack:
        searched = list(_histories(opts, run, stack))
        if opts.device is not None:
            _check_device(opts.device, run, searched)
        granted.check_any(run, [source.profile for source in run.reach.given], made.HISTORY)
        if opts.top or opts.sites:
            found = _most_visited(opts, run, query, searched)
        else:
            found = (_ranked(opts, run, query, searched) if query.wanted
                     else _newest(run, query, opts.max_chars, searched))
        for rank, row in enumerate(found, 1):
            yield made.arranged(common | row | {"rank": rank})
        for one, history in searched:
            if history.cursor.damaged:
                granted.leave_out(run, made.HISTORY, one.profile, live.Unusable("failed", "a part of it is damaged"))


def _histories(
    opts: SimpleNamespace, run: runner.Run, stack: contextlib.ExitStack
) -> Iterator[tuple[Source, "History"]]:
    """The histories that can be read, each in a connection of its own, and behind it what its tabs have besides."""
    from lspipe import snapshot
    from lspipe.browsers import engines, pages
    from lspipe.browsers.layout import Wanted

    room = snapshot.MEMORY  # For all profiles together.
    for one in run.reach.given:
        tables, layout = engines.history(one.profile.engine)
        devices = () if opts.device is None else tuple(one.names.ids(opts.device))
        wanted = Wanted(run.now, run.since, run.until, opts.origin, opts.everything, opts.device, devices)
        with granted.tolerant(run, made.HISTORY, one.profile, one.database.name):
            conn = stack.enter_context(contextlib.closing(granted.connect(run, one.database, tables, room)))
            room = max(0, room - one.database.size)
            history = pages.History(conn, layout(conn), wanted)
            more = None if one.session is None else _beside(run, one.profile, one.session, history)
            yield one, history
            if more is not None:
                stack.callback(more.cursor.conn.close)
                yield one, more


def _check_device(typed: str, run: runner.Run, searched: list[tuple[Source, "History"]]) -> None:
    """Raise NotFound where neither a name nor a visit knows the device."""
    known: dict[str, str] = {}
    for one, history in searched:
        with granted.tolerant(run, made.HISTORY, one.profile, one.database.name):
            if history.comes_from_device():
                return
            known |= one.names.all()
    if searched and not run.clock.expired():
        synced.check(typed, known)


def _row(one: Source, history: "History", page: "Page", query: "Query", max_chars: int) -> Row:
    return made.history(one.profile, page, query, max_chars, history.method, one.names.name(page.device))


def _beside(run: runner.Run, one: Granted, session: "Opened", history: "History") -> "History | None":
    """What the tabs of a profile have that its history does not; what cannot be read of them is said."""
    from lspipe.browsers import sessionfiles, sessionpages

    if run.clock.expired():
        return None
    try:
        found = sessionfiles.read(one.engine, session, run.now)
    except live.Unusable as error:
        _no_tabs(run, one, error)
        return None
    for failure in found.failures:
        run.report.note(f"{one.label}: an older session file is read, for {failure.message}")
    entries = sessionpages.gathered(one.engine, found.tabs, history.wanted)
    return sessionpages.beside(history, entries, history.wanted, "session")


def _ranked(
    opts: SimpleNamespace, run: runner.Run, query: "Query", searched: list[tuple[Source, "History"]]
) -> Iterator[Row]:
    from lspipe.browsers import matches, ranking

    found = matches.Matches(lambda number, url: made.history_id(searched[number][0].profile, url))
    judge = ranking.Judge(query, opts.all_terms)
    for one, history in searched:
        judge = ranking.Judge(query, opts.all_terms)
        with granted.tolerant(run, made.HISTORY, one.profile, "the database"):
            found.search(history, judge)
    corpora: dict[str, Row] = {}
    for (one, _), n, df in zip(searched, found.n, found.df, strict=True):  # A profile's file and its tabs are one.
        label = one.profile.label
        corpus = corpora.setdefault(label, {"id": f"{made.HISTORY}:{label}", "n": 0, "df": {}})
        corpus["n"] += n
        corpus["df"] = {key: count + corpus["df"].get(key, 0) for key, count in df.items()}
    for hit in found.ranked(judge, None if opts.limit is None else opts.limit + 1):
        one, history = searched[hit.profile]
        yield _row(one, history, hit.page, query, opts.max_chars) | {
            "score": hit.score, "matched_terms": judge.matched(hit.strengths),
            "corpus": [corpora[one.profile.label]]}


def _newest(
    run: runner.Run, query: "Query", max_chars: int, searched: list[tuple[Source, "History"]]
) -> Iterator[Row]:
    from lspipe import words
    from lspipe.browsers import matches, ranking

    matcher = words.Matcher(query)
    found = matches.newest([history for _, history in searched],
                           lambda number, url: made.history_id(searched[number][0].profile, url))
    with granted.in_time(run):
        for number, page in found:
            if matcher.match(ranking.fields(page.url, page.title or "", page.text or "")) is not None:
                one, history = searched[number]
                yield _row(one, history, page, query, max_chars)


def _most_visited(
    opts: SimpleNamespace, run: runner.Run, query: "Query", searched: list[tuple[Source, "History"]]
) -> Iterator[Row]:
    from lspipe.browsers import ranking, topmost

    histories: list[History] = []
    profiles: list[Source] = []
    matched: list[topmost.Matched | None] = []
    judge = ranking.Judge(query, opts.all_terms)
    for one, history in searched:
        with granted.tolerant(run, made.HISTORY, one.profile, "the database"):
            history.count()
            found = dict(judge.pages(history.candidates(judge.likes))) if query.terms else None
            histories.append(history)
            profiles.append(one)
            matched.append(found)
    most = None if opts.limit is None else opts.limit + 1
    listing = topmost.sites if opts.sites else topmost.most_visited
    with granted.in_time(run):
        for often in listing(histories, matched, most):
            one = profiles[often.profile]
            row = made.often(one.profile, often, query, opts.max_chars, histories[often.profile].wanted.narrow,
                             one.names.name(often.page.device))
            strengths = (matched[often.profile] or {}).get(often.page.id, ())
            yield row | ({"matched_terms": judge.matched(strengths)} if query.wanted else {})


main = runner.Tool(cli, rows, reach=reach, opening=opening)

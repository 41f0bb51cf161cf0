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
number of visits, those in the time of --since and --until if one is given, and words only choose. It is also in
meta.visits_in_scope, which ls-show shows: 41×.

--live adds what the file does not hold yet: Chromium writes it ten seconds after a visit, and loses what is younger
when it is killed. It is the pages that the open tabs can go back and forward to, from the session file, which needs
the grant for tabs too; provenance.method of these rows is session. Where tab-text is granted besides, a Chromium that
listens on a debugging port is asked itself, and what the session file does not have either is cdp: such a row has no
time. A page that the file has as well is one row, with the newer visit.

What Chromium's sync brought from another device has its name in meta.device, and its id in meta.device_id. --device
NAME takes visits of one device only, by its name, by the first characters of its id, or of `all` other devices.
Firefox does not keep which device a visit was on.
"""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import click

from lspipe import browsing, live, navigated, options, runner, synced
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.exits import Usage
from lspipe.row import Row

if TYPE_CHECKING:
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
@click.option("--from", "tabs_from", type=click.Choice(["auto", "live", "disk"]), default="auto", show_default=True,
              help="With --live: from the running browser, its session file, or both where it answers.")
@click.option("--cdp", metavar="ADDRESS", envvar="LSPIPE_CDP", show_envvar=True,
              help="With --live: where the browser listens. Without: where its profile says.")
@click.option("--device", metavar="NAME",
              help="Only visits of another device: its name, how its id begins, or all.")
@click.option("--origin", type=click.Choice(["local", "synced"]),
              help="Only visits of this machine, or only those that came by sync.")
def cli(**given: object) -> SimpleNamespace:
    if given["live"] and (given["top"] or given["sites"]):
        raise Usage("--live knows no number of visits: it does not go with --top and --sites")
    if given["device"] is not None and given["origin"] == "local":
        raise Usage("--device is about visits of other devices: it does not go with --origin local")
    about_tabs = {"--from": "tabs_from", "--cdp": "cdp"}  # LSPIPE_CDP is there for ls-tabs too.
    without = next((option for option, name in about_tabs.items() if options.typed(name)), None)
    if without and not given["live"]:
        raise Usage(f"{without} says where open tabs are had from: it goes with --live alone")
    return options.namespace(**given)


class Source(NamedTuple):
    """A profile with its open database and the names of its other devices."""

    profile: Granted
    database: live.Source
    names: synced.Names


class Given(NamedTuple):
    """The profiles that can be read and, with --live, the ways to their open tabs."""

    sources: list[Source]
    ways: navigated.Ways | None


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """The profiles granted for their history and, with --live, those for their tabs and the text of these as well."""
    found = browsing.reach(made.HISTORY)(opts, run)
    if opts.live and opts.cdp is not None:
        from lspipe.browsers import ports

        opts.address = ports.parse(opts.cdp)
    others = [browsing.granted_besides(kind, opts, run) if opts.live else [] for kind in (made.TABS, made.TAB_TEXT)]
    found.given = found.given, *others
    return found


def opening(opts: SimpleNamespace, run: runner.Run) -> None:
    """Open the database of each profile and, with --live, the ways to its open tabs."""
    asked, tabs, texts = run.reach.given
    sources = [Source(one, source, synced.Names.of(run, one)) for one in asked
               if (source := granted.database(run, made.HISTORY, one)) is not None]
    profiles = [source.profile for source in sources]
    run.reach.given = Given(sources, navigated.opened(run, profiles, tabs, texts, opts) if opts.live else None)
    granted.check_any(run, asked, made.HISTORY)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the newest first."""
    query, common = made.asked(run, opts.words)
    with contextlib.ExitStack() as stack:
        searched = list(_histories(opts, run, stack))
        if opts.device is not None:
            _check_device(opts.device, run, searched)
        granted.check_any(run, [source.profile for source in run.reach.given.sources], made.HISTORY)
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

    sources, ways = run.reach.given
    lists = {} if ways is None else navigated.read(run, [one.profile for one in sources], ways, opts)
    room = snapshot.MEMORY  # For all profiles together.
    for one in sources:
        tables, layout = engines.history(one.profile.engine)
        devices = () if opts.device is None else tuple(one.names.ids(opts.device))
        wanted = Wanted(run.now, run.since, run.until, opts.origin, opts.everything, opts.device, devices)
        with granted.tolerant(run, made.HISTORY, one.profile, one.database.name):
            conn = stack.enter_context(contextlib.closing(granted.connect(run, one.database, tables, room)))
            room = max(0, room - one.database.size)
            history = pages.History(conn, layout(conn), wanted)
            found = lists.get(one.profile.label)
            more = [] if found is None else list(navigated.beside(one.profile, history, found))
            yield one, history
            for other in more:
                stack.callback(other.cursor.conn.close)
                yield one, other


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
    with granted.in_time(run):
        for hit in found.ranked(judge, None if opts.limit is None else opts.limit + 1):
            one, history = searched[hit.profile]
            yield _row(one, history, hit.page, query, opts.max_chars) | {
                "score": hit.score, "matched_terms": judge.matched(hit.strengths),
                "corpus": [corpora[one.profile.label]]}


def _newest(
    run: runner.Run, query: "Query", max_chars: int, searched: list[tuple[Source, "History"]]
) -> Iterator[Row]:
    from lspipe import matching
    from lspipe.browsers import matches, ranking

    matcher = matching.Matcher(query)
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
            row = made.often(one.profile, often, query, opts.max_chars, one.names.name(often.page.device))
            strengths = (matched[often.profile] or {}).get(often.page.id, ())
            yield row | ({"matched_terms": judge.matched(strengths)} if query.wanted else {})


main = runner.Tool(cli, rows, reach=reach, opening=opening)

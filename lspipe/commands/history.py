"""Search the pages that were visited, in every granted browser profile.

    $ ls-history rust async
    $ ls-history --since yesterday -n 20
    $ ls-history --top --since 30d

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -. A
page matches when any word does, and comes first the more of the query it covers, rare words counting more. Without
words the newest pages come first.

A page that was reached through redirects is one row: the place where they ended. Without --all, hidden pages, parts
of pages and error pages are left out. --since and --until choose pages by their visits: a page is in if any visit
is, accessed_at is its newest visit in that time, and meta.visit_count counts all of them.

--top puts the most visited pages first and --sites the most visited sites, a row for each host; the score is then the
number of visits, those in the time of --since and --until if one is given, and words only choose.
"""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from lspipe import browsing, options, runner
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.live import Unusable
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.pages import History
    from lspipe.words import Query

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-history", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--all", "everything", is_flag=True, help="Also redirects, hidden pages and error pages.")
@click.option("--all-terms", is_flag=True, help="Only pages that hold every word.")
@click.option("--top", is_flag=True, help="The most visited pages first.")
@click.option("--sites", is_flag=True, help="Sites instead of pages, the most visited first.")
@click.option("--origin", type=click.Choice(["local", "synced"]),
              help="Only visits of this machine, or only those that came by sync.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the newest first."""
    query, common = made.asked(run, opts.words)
    with contextlib.ExitStack() as stack:
        searched = list(_histories(opts, run, stack))
        granted.check_any(run, [one for one, _source in run.reach.given])
        if opts.top or opts.sites:
            found = _most_visited(opts, run, query, searched)
        else:
            found = (_ranked(opts, run, query, searched) if query.wanted
                     else _newest(run, query, opts.max_chars, searched))
        for rank, one in enumerate(found, 1):
            yield made.arranged(common | one | {"rank": rank})
        for profile, history in searched:
            if history.cursor.damaged:
                granted.leave_out(run, made.HISTORY, profile, Unusable("failed", "a part of it is damaged"))


def _histories(
    opts: SimpleNamespace, run: runner.Run, stack: contextlib.ExitStack
) -> Iterator[tuple[Granted, "History"]]:
    """The histories that can be read, each in a connection of its own."""
    from lspipe import snapshot
    from lspipe.browsers import chromium, firefox, pages
    from lspipe.browsers.layout import Wanted

    wanted = Wanted(run.now, run.since, run.until, opts.origin, opts.everything)
    room = snapshot.MEMORY  # For all profiles together.
    for one, source in run.reach.given:
        engine = firefox if one.engine == "firefox" else chromium
        with granted.tolerant(run, made.HISTORY, one, source.name):
            conn = stack.enter_context(contextlib.closing(granted.connect(run, source, engine.TABLES, room)))
            room = max(0, room - source.size)
            yield one, pages.History(conn, engine.layout(conn), wanted)


def _ranked(
    opts: SimpleNamespace, run: runner.Run, query: "Query", searched: list[tuple[Granted, "History"]]
) -> Iterator[Row]:
    from lspipe.browsers import matches, ranking

    found = matches.Matches(lambda number, url: made.history_id(searched[number][0], url))
    judge = ranking.Judge(query, opts.all_terms)
    for one, history in searched:
        judge = ranking.Judge(query, opts.all_terms)
        with granted.tolerant(run, made.HISTORY, one, "the database"):
            found.search(history, judge)
    corpora = [[{"id": f"{made.HISTORY}:{one.label}", "n": n, "df": df}]
               for (one, _), n, df in zip(searched, found.n, found.df, strict=True)]
    for hit in found.ranked(judge, None if opts.limit is None else opts.limit + 1):
        yield made.history(searched[hit.profile][0], hit.page, query, opts.max_chars) | {
            "score": hit.score, "matched_terms": judge.matched(hit.strengths), "corpus": corpora[hit.profile]}


def _newest(
    run: runner.Run, query: "Query", max_chars: int, searched: list[tuple[Granted, "History"]]
) -> Iterator[Row]:
    from lspipe import words
    from lspipe.browsers import matches, ranking

    matcher = words.Matcher(query)
    found = matches.newest([history for _, history in searched],
                           lambda number, url: made.history_id(searched[number][0], url))
    with granted.in_time(run):
        for number, page in found:
            if matcher.match(ranking.fields(page.url, page.title or "", page.text or "")) is not None:
                yield made.history(searched[number][0], page, query, max_chars)


def _most_visited(
    opts: SimpleNamespace, run: runner.Run, query: "Query", searched: list[tuple[Granted, "History"]]
) -> Iterator[Row]:
    from lspipe.browsers import ranking, topmost

    histories: list[History] = []
    profiles: list[Granted] = []
    matched: list[topmost.Matched | None] = []
    judge = ranking.Judge(query, opts.all_terms)
    for one, history in searched:
        with granted.tolerant(run, made.HISTORY, one, "the database"):
            history.count()
            found = dict(judge.pages(history.candidates(judge.likes))) if query.terms else None
            histories.append(history)
            profiles.append(one)
            matched.append(found)
    most = None if opts.limit is None else opts.limit + 1
    listing = topmost.sites if opts.sites else topmost.most_visited
    with granted.in_time(run):
        for often in listing(histories, matched, most):
            row = made.often(profiles[often.profile], often, query, opts.max_chars,
                             histories[often.profile].wanted.narrow)
            strengths = (matched[often.profile] or {}).get(often.page.id, ())
            yield row | ({"matched_terms": judge.matched(strengths)} if query.wanted else {})


main = runner.Tool(cli, rows, reach=browsing.reach(made.HISTORY),
                   opening=browsing.open_databases(made.HISTORY))

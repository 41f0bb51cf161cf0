"""Rerank fused rows by how well they answer the query: words, nearness, and on request newness.

    $ ls-fuse <(ls-history rust) <(ls-rg --words rust .) | ls-rerank -n 10
    $ ls-history rust async | ls-rerank --recency browser

The first --depth rows are scored, by rank where all have one; the others follow in the order they had. The score is
BM25 over word stems of title, url, folder, tags, snippet and text, where a word weighs by how rare it is in all that
was searched (`corpus`), and 0.2 for words that stand together, and 0.1 for how much of the query there is. The best
row has 1. --recency adds at most a tenth of that for newness, half as much for each 30 days of age (--now).

Rows over a cap wait behind the others and fill up what is left. With -n the cap is 60 % of it, for each family that
--cap does not name. Equal scores keep the order they had.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import click

from lspipe import fuse, options, row, runner, score
from lspipe.exits import Precondition
from lspipe.row import Row

READS, EMITS, ZONE = "row", "row", "local"


@options.command("ls-rerank", kind="transform", reads=READS, emits=EMITS)
@click.option("-q", "--query", metavar="WORDS", help="Rank by these words, not by the query of the rows.")
@click.option("--mode", type=click.Choice(["lexical", "semantic", "hybrid"]), default="lexical", show_default=True,
              help="By words, by meaning, or both.")
@click.option("--depth", type=options.Count(0, options.MOST), default=100, show_default=True, metavar="N",
              help="Score the first N rows.")
@click.option("--recency", multiple=True, metavar="NAME", help="Newness counts for a source or family, or all.")
@click.option("--cap", multiple=True, metavar="NAME=N", help="At most N of a source or family before the others.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def rows(opts: SimpleNamespace, upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """The reranked list."""
    if opts.mode == "semantic":
        raise Precondition("no model for --mode semantic", "rank by words: --mode lexical")
    if opts.mode == "hybrid":
        run.report.note("no model: lexical instead of hybrid")
    caps = fuse.numbers(opts.cap, "--cap", int)
    query = None if opts.query is None else options.printable(opts.query)
    strangers = fuse.strangers([*caps, *(name for name in opts.recency if name != "all")])
    ranked = score.rerank(
        fuse.met(upstream, strangers), query, depth=opts.depth, recency=opts.recency, now=run.now,
        caps=caps, every_family=None if opts.limit is None else score.share(opts.limit), limit=opts.limit,
    )
    run.report.query_id = row.query_id(ranked.query) if ranked.query else None
    run.report.counts.update(ranked.counts)
    run.report.truncated |= ranked.truncated
    for note in ranked.notes:
        run.report.note(note)
    run.report.strangers("is of", strangers)
    yield from ranked.rows


main = runner.Tool(cli, rows)

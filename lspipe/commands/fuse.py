"""Fuse ranked lists into one: what was found twice becomes one row, and scores 0..1.

    $ ls-fuse <(ls-history rust) <(ls-bookmarks rust) <(ls-rg --words rust .)
    $ { ls-history rust; ls-bookmarks rust; } | ls-fuse --weight bookmarks=2 -n 10

A list is what one source found in one way for one query. The share of a row in it is weight / (k + rank); a row
without rank is numbered by its arrival. The same page (its url without case of the host, default port, anchor and
tracking) or the same file is one row: the best-ranked, with the terms, the longest text, the newest time and the
sources of all, and private if any is. Its shares are added where the lists searched the same documents (a common
corpus id), and else the largest counts. Rows that were fused before keep their order and scores.

Where all rows have ranks, the order of files and lines does not matter. Equal scores are in the order of ids.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import click

from lspipe import fuse, options, runner
from lspipe.row import Row

READS, EMITS, ZONE = "row", "row", "local"


@options.command("ls-fuse", kind="transform", reads=READS, emits=EMITS)
@click.option("--k", type=options.Count(0, 1_000_000), default=fuse.K, show_default=True, metavar="K",
              help="The higher, the less the first ranks differ.")
@click.option("--weight", multiple=True, metavar="NAME=W", help="Weight of a source or family (1).")
@click.option("--cap", multiple=True, metavar="NAME=N", help="At most N of a source or family before the others.")
@click.option("--dedupe", type=click.Choice(["url", "id"]), default="url", show_default=True,
              help="What makes two rows the same; id keeps the lines of a file apart.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def rows(opts: SimpleNamespace, upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """The fused list."""
    weights = fuse.numbers(opts.weight, "--weight", float)
    caps = fuse.numbers(opts.cap, "--cap", int)
    strangers = fuse.strangers([*weights, *caps])
    fused = fuse.fuse(fuse.met(upstream, strangers), k=opts.k, weights=weights, caps=caps, dedupe=opts.dedupe,
                      limit=opts.limit)
    run.report.counts.update(fused.counts)
    run.report.truncated |= fused.truncated
    if fused.again:
        run.report.note("one ranked list already: its order and scores stay")
    run.report.strangers("is of", strangers)
    yield from fused.rows


main = runner.Tool(cli, rows)

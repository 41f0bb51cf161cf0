"""Check rows against the schema: the good ones pass, the others are named.

    $ ls-history rust | ls-check > rows.jsonl
    $ ls-check --as query request.json

A line that does not fit is reported on stderr with its number and every reason, and the exit code is 7. With
--strict the first one ends the run.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import click

from lspipe import options, runner, schema
from lspipe.row import Row

READS, EMITS, ZONE = "row", "row", "local"


@options.command("ls-check", kind="transform", reads=READS, emits=EMITS)
@click.option("--as", "which", type=click.Choice(schema.NAMES), default="row", show_default=True,
              help="The schema to check against.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def judge(opts: SimpleNamespace) -> Callable[[Row], str | None]:
    """Every reason why a line does not fit the schema that was asked for."""

    def wrong(value: Row) -> str | None:
        if schema.checker(opts.which)(value):
            return None
        return "; ".join(schema.explain(opts.which, value)) or "does not fit"

    return wrong


def rows(_opts: SimpleNamespace, upstream: Iterator[Row], _run: runner.Run) -> Iterator[Row]:
    """What came through is good."""
    yield from upstream


def whole(opts: SimpleNamespace) -> bool:
    """Consent, query, envelope and report are files of one object, and may be written over several lines."""
    return opts.which in ("consent", "query", "envelope", "report")


main = runner.Tool(cli, rows, judge=judge, whole=whole)

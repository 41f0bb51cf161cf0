"""List what lspipe has running or left behind, from the ledger.

    $ ls-ps
    $ ls-ps --tsv

A row for each run but this one, and for each process and resource of it. Its state is intent (written down, not
there yet) or live; after the owner's death orphan for what still runs, dead for the rest; unknown, with the
reason, for what cannot be judged from here. ls-clean removes what is dead.
"""

from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace

import click

from lspipe import options, reaper, runner, stream, table
from lspipe.row import Row

READS, EMITS, ZONE = None, "ledger", "local"
COLUMNS = ("repo_root", "cwd", "pid", "pgid", "kind", "port", "purpose", "command", "run", "parent_run",
           "state", "owned")


@options.command("ls-ps", kind="porcelain", reads=READS, emits=EMITS)
@click.option("--tsv", is_flag=True, help=f"Tab-separated columns: {', '.join(COLUMNS)}.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def opening(_opts: SimpleNamespace, run: runner.Run) -> None:
    """Look before lock-down: Landlock hides what other processes carry."""
    run.reach.given = list(reaper.listing())


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row | bytes]:
    """What there is, or its columns."""
    for row in islice(run.reach.given, opts.limit):
        if not opts.tsv:
            yield row
            continue
        run.report.rows_out += 1
        yield "\t".join(map(_cell, (row[name] for name in COLUMNS))).encode("utf-8", "replace") + b"\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return table.clean(value if isinstance(value, str) else stream.dumps(value, newline=False).decode())


main = runner.Tool(cli, rows, opening=opening, sweeps=False)

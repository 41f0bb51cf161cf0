"""End and remove what killed runs of lspipe left behind; without --apply only say what would be done.

    $ ls-clean
    $ ls-clean --apply

A row for each thing, with what becomes of it: signal (TERM, a grace, KILL), remove, or keep, and why. Only what
is ours is signalled: a process that was written down and is still the same by pid, boot, start time and pidfd, that
carries the token or the lock of a dead run, or that such a one has started. What was attached to, other
hosts, other pid namespaces and other users are left alone. Nothing is asked.
"""

import os
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace

import click

from lspipe import options, paths, reaper, runner
from lspipe.row import Row

READS, EMITS, ZONE = None, "ledger", "local"


@options.command("ls-clean", kind="porcelain", reads=READS, emits=EMITS)
@click.option("--apply", is_flag=True, help="Do it.")
@click.option("--grace", type=options.Seconds(), default=2.0, metavar="LENGTH",
              help="How long a process may take to end before it is killed (2s).")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def reach(opts: SimpleNamespace, _run: runner.Run) -> runner.Reach:
    """Directories are removed after lock-down, from the run folder alone."""
    return runner.Reach(write=[paths.run_root()] if opts.apply else [], given=[])


def opening(opts: SimpleNamespace, run: runner.Run) -> None:
    """End processes before lock-down: Landlock hides what they carry, and lets nobody signal them."""
    if not opts.sandbox_report:
        grace = run.clock.left(opts.grace)
        run.reach.given = reaper.end(opts.apply, opts.grace if grace is None else grace)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """What was or would be done."""
    done = list(reaper.bury(run.reach.given, opts.apply))
    for row in done:
        if opts.apply and row["action"] != "keep" and not row["done"]:
            what = f"process {row['pid']}" if row["action"] == "signal" else f"run {row['run']}"
            run.report.skip(f"cannot {row['action']} {what}: {row['reason']}", row["reason"])
    corrupt = sum(verdict.corrupt for verdict in run.reach.given)
    if corrupt:
        run.report.counts["unreadable_rows"] = corrupt
    yield from islice(done, opts.limit)
    waiting = sum(row["action"] != "keep" for row in done)
    if waiting and not opts.apply and os.isatty(1):
        run.flush()
        run.report.say("note", f"{waiting} to do: ls-clean --apply")


main = runner.Tool(cli, rows, reach=reach, opening=opening, sweeps=False)

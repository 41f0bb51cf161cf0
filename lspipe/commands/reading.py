"""List and search the reading list of every granted profile, unread and read.

    $ ls-reading
    $ ls-reading --unread rust

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -.
Without words the entries that were added last come first; --since and --until are about the time when they were added.

meta.status is unread or read, and meta.opened says whether the browser has seen an unread one opened. In Safari what
was opened is read; Orion does not tell. The snippet is how the page begins, where the list holds that. Firefox and
GNOME Web have no reading list.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import click

from lspipe import browsing, options, runner, stream
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.live import Unusable
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.readinglist import Reading

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-reading", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--unread", is_flag=True, help="Only what was not marked as read.")
@click.option("--all-terms", is_flag=True, help="Only entries that hold every word.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


class Opened(NamedTuple):
    """A profile with the open files of its database, by name."""

    profile: Granted
    files: dict[str, int]


def opening(_opts: SimpleNamespace, run: runner.Run) -> None:
    """Open the files of each profile's database. One that was never made is a list without entries."""
    from lspipe.browsers import profiles, syncstore

    asked, opened = run.reach.given, []
    shared = granted.Shared(run)
    for one in asked:
        if not profiles.files(one.engine, made.READING):
            run.report.note(f"{one.label}: its browser has no reading list")
            continue
        if one.engine != "chromium":
            name = profiles.files(one.engine, made.READING)[0]
            fd = granted.file(run, made.READING, one, name)
            if fd is not None and not shared.known(one, fd):
                opened.append(Opened(one, {name: fd}))
            continue
        try:
            opened.append(Opened(one, syncstore.open_files(one.folder, run.closing)))
        except Unusable as error:
            granted.leave_out(run, made.READING, one, error)
    run.reach.given = opened
    if asked:
        granted.check_any(run, asked)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the last added first."""
    from lspipe.browsers import listed, readinglist

    query, common = made.asked(run, opts.words)
    kind = listed.Kind["Reading"](made.READING, readinglist.searched, lambda one: one.added,
                                  lambda profile, one: made.reading(profile, one, query, opts.max_chars))
    found = ((one.profile, _entries(opts, run, one)) for one in run.reach.given)
    yield from listed.ranked(kind, found, query, common, opts.all_terms, run.clock.expired)
    if run.reach.given:
        granted.check_any(run, [one.profile for one in run.reach.given])


def _entries(opts: SimpleNamespace, run: runner.Run, one: Opened) -> "list[Reading]":
    """The entries of a profile that are in scope; what cannot be read of it is said."""
    from lspipe.browsers import engines, listed, readingfiles

    entries: list[Reading] = []
    with granted.tolerant(run, made.READING, one.profile, "the reading list"):
        if not run.clock.expired():
            if one.profile.engine == "chromium":
                found, broken = readingfiles.read(one.files, run.now, run.clock.expired)
            else:
                found, broken = [], 0
                for name, fd in one.files.items():
                    found += engines.reading(one.profile.engine, fd, name, run.now, run.clock.expired)
            entries = [entry for entry in found if listed.within(entry.added, run.since, run.until)
                       and not (opts.unread and entry.state == "read")]
            if broken:
                parts = stream.counted(broken, "part of the reading list is", "parts of the reading list are")
                granted.leave_out(run, made.READING, one.profile, Unusable("failed", f"{parts} damaged or missing"))
    return entries


main = runner.Tool(cli, rows, reach=browsing.reach(made.READING), opening=opening)

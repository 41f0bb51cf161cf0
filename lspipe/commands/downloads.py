"""List and search what was downloaded, by file name, address and page, in every granted profile.

    $ ls-downloads
    $ ls-downloads --since 30d pdf

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -. The
title of a download is its file name; the page that it was started from is searched as well. Without words the last
ones come first; --since and --until are about the time when they ended, or began where they have not.

url is where the bytes came from, at the end of all redirects. meta.path is where the browser put them; whether a file
is still there nobody looks. Chromium says more of its downloads than Firefox, which keeps the last one of an address,
and Safari, which forgets them after a day unless it is told otherwise.
"""

import contextlib
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from lspipe import browsing, options, runner
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.live import Source
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.downloads import Download

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-downloads", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--all-terms", is_flag=True, help="Only downloads that hold every word.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


def opening(_opts: SimpleNamespace, run: runner.Run) -> None:
    """Open the database of each profile, or its list: what is given are then pairs of both."""
    from lspipe.browsers import profiles

    asked, opened = [], []
    for one in run.reach.given:
        names = profiles.files(one.engine, made.DOWNLOADS)
        if not names:
            run.report.note(f"{one.label}: its browser has no list of downloads that can be read")
            continue
        asked.append(one)
        found = (granted.file(run, made.DOWNLOADS, one, names[0]) if one.engine == "safari"
                 else granted.database(run, made.DOWNLOADS, one))
        if found is not None:
            opened.append((one, found))
    run.reach.given = opened
    if asked:
        granted.check_any(run, asked)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the last ended first."""
    from lspipe.browsers import downloads, listed

    query, common = made.asked(run, opts.words)
    kind = listed.Kind["Download"](made.DOWNLOADS, downloads.fields, lambda one: one.at, made.download)
    found = ((one, _downloads(run, one, source)) for one, source in run.reach.given)
    yield from listed.ranked(kind, found, query, common, opts.all_terms, run.clock.expired)
    if run.reach.given:
        granted.check_any(run, [one for one, _source in run.reach.given])


def _downloads(run: runner.Run, one: Granted, source: Source | int) -> "Iterator[Download]":
    """The downloads of a profile that are in scope; what cannot be read of it is said."""
    from lspipe import snapshot
    from lspipe.browsers import downloads, engines, listed, safari, safariplaces

    if isinstance(source, int):
        name = os.path.basename(one.path) if safariplaces.is_made(one.path) else safari.DEFAULT
        with granted.tolerant(run, made.DOWNLOADS, one, "Downloads.plist"):
            yield from (found for found in engines.downloads(name, source, "Downloads.plist", run.now,
                                                             run.clock.expired)
                        if listed.within(found.at, run.since, run.until))
        return
    read = downloads.firefox if one.engine == "firefox" else downloads.chromium
    with granted.tolerant(run, made.DOWNLOADS, one, source.name), contextlib.closing(
            granted.connect(run, source, downloads.TABLES[one.engine], snapshot.MEMORY)) as conn:
        yield from (found for found in read(conn, run.now) if listed.within(found.at, run.since, run.until))


main = runner.Tool(cli, rows, reach=browsing.reach(made.DOWNLOADS), opening=opening)

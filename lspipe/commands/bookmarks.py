"""Search the bookmarks of every granted browser profile, by title, address, folder and tags.

    $ ls-bookmarks rust async
    $ ls-bookmarks --folder Reading --since 90d

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -. A
bookmark matches when any word does, and comes first the more of the query it covers. Without words the bookmarks
that were added last come first; --since and --until are about the time when they were added.

Chromium's account bookmarks are searched as well, each bookmark once, and so is the one file of all Safari profiles.
What is pinned in Arc's sidebar counts as a bookmark: meta.pinned says so, and meta.workspace is its space. Tags of
Firefox and GNOME Web are in meta.tags; a browser without tags has folders, and --tag is then the name of one.
"""

import contextlib
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import click

from lspipe import browsing, options, runner
from lspipe.browsers import granted
from lspipe.browsers import rows as made
from lspipe.browsers.granted import Granted
from lspipe.live import Source, Unusable
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.browsers.bookmark import Bookmark

READS, EMITS, ZONE = None, "row", "local"


@options.command("ls-bookmarks", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--tag", multiple=True, metavar="NAME", help="Only with this tag; repeatable: with all of them.")
@click.option("--folder", multiple=True, metavar="NAME",
              help="Only in or below this folder: a name, or a path like Reading/Rust; repeatable.")
@click.option("--all-terms", is_flag=True, help="Only bookmarks that hold every word.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


class Opened(NamedTuple):
    """A profile with its database, or its bookmark files by name."""

    profile: Granted
    source: Source | None
    files: dict[str, int]


def opening(_opts: SimpleNamespace, run: runner.Run) -> None:
    """Open the files of each profile."""
    from lspipe.browsers import profiles

    opened = []
    shared = granted.Shared(run)
    for one in run.reach.given:
        if one.engine == "firefox":
            source = granted.database(run, made.BOOKMARKS, one)
            if source is not None:
                opened.append(Opened(one, source, {}))
        elif one.engine == "chromium":
            opened.append(Opened(one, None, _files(run, one)))
        else:
            name = profiles.files(one.engine, made.BOOKMARKS)[0]
            fd = granted.file(run, made.BOOKMARKS, one, name)
            if fd is not None and not shared.known(one, fd):
                opened.append(Opened(one, None, {name: fd}))
    run.reach.given = opened


def _files(run: runner.Run, one: Granted) -> dict[str, int]:
    from lspipe.browsers import arcsidebar, bookmarks_json, profiles

    found = {}
    if profiles.beside(one.browser, made.BOOKMARKS):
        try:
            found[arcsidebar.NAME] = arcsidebar.open_file(one.folder)
        except Unusable as error:
            if error.reason != "not-found":
                granted.leave_out(run, made.BOOKMARKS, one, error)
        else:
            run.closing.callback(os.close, found[arcsidebar.NAME])
    for name in bookmarks_json.FILES:
        try:
            fd, stale = bookmarks_json.open_file(one.folder, name)
        except Unusable as error:
            if error.reason != "not-found":
                granted.leave_out(run, made.BOOKMARKS, one, error)
            continue
        run.closing.callback(os.close, fd)
        found[name] = fd
        if stale:
            run.report.note(f"{one.label}: '{name}' is older than the encrypted file beside it")
    return found


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """Ranked by the query; without one, and for a query of nothing but filters, the last added first."""
    from lspipe.browsers import bookmark, ranking

    query, common = made.asked(run, opts.words)
    judge = ranking.Judge(query, opts.all_terms)
    n, df = 0, dict(judge.df)
    corpora: dict[str, Row] = {}
    found: list[tuple[Granted, Bookmark, ranking.Strengths]] = []
    for one in run.reach.given:
        judge, count = ranking.Judge(query, opts.all_terms), 0
        for mark in _bookmarks(run, one):
            if run.clock.expired():
                break
            if _in_scope(opts, run, one.profile, mark):
                count += 1
                strengths = judge(bookmark.fields(mark))
                if strengths is not None:
                    found.append((one.profile, mark, strengths))
        n += count
        df = {key: df[key] + more for key, more in judge.df.items()}
        corpora[one.profile.label] = {"id": f"{made.BOOKMARKS}:{one.profile.label}", "n": count, "df": judge.df}

    def order(one: "tuple[Granted, Bookmark, ranking.Strengths]") -> tuple[float, int, str]:
        profile, mark, strengths = one
        score = judge.score(strengths, n, df) if query.wanted else 0.0
        age = 0 if query.wanted else -(mark.added or 0)
        return -score, age, made.bookmark_id(profile, mark)

    for rank, (profile, mark, strengths) in enumerate(sorted(found, key=order), 1):
        row = common | made.bookmark(profile, mark) | {"rank": rank}
        if query.wanted:
            row |= {"score": judge.score(strengths, n, df), "matched_terms": judge.matched(strengths),
                    "corpus": [corpora[profile.label]]}
        yield made.arranged(row)
    granted.check_any(run, [one.profile for one in run.reach.given])


def _in_scope(opts: SimpleNamespace, run: runner.Run, one: Granted, mark: "Bookmark") -> bool:
    from lspipe.browsers import bookmark

    return (
        bookmark.added_within(mark, run.since, run.until)
        and all(bookmark.has_tag(mark, name, one.engine in ("firefox", "epiphany")) for name in opts.tag)
        and (not opts.folder or any(bookmark.in_folder(mark, name) for name in opts.folder))
    )


def _bookmarks(run: runner.Run, one: Opened) -> "Iterator[Bookmark]":
    """All bookmarks of a profile; what cannot be read of it is said."""
    from lspipe import snapshot
    from lspipe.browsers import arcsidebar, bookmark, bookmarks_json, engines, firefox

    if one.source is not None:
        with granted.tolerant(run, made.BOOKMARKS, one.profile, one.source.name), contextlib.closing(
                granted.connect(run, one.source, firefox.BOOKMARK_TABLES, snapshot.MEMORY)) as conn:
            yield from firefox.bookmarks(conn, run.now)
        return
    if one.profile.engine != "chromium":
        for name, fd in one.files.items():
            with granted.tolerant(run, made.BOOKMARKS, one.profile, name):
                yield from engines.bookmarks(one.profile.engine, fd, name, run.now, run.clock.expired)
        return
    found: dict[str, list[Bookmark]] = {}
    for name, fd in one.files.items():
        with granted.tolerant(run, made.BOOKMARKS, one.profile, name):
            found[name] = (arcsidebar.read(fd, os.path.basename(one.profile.path), run.now, run.clock.expired)
                           if name == arcsidebar.NAME else bookmarks_json.read(fd, name, run.now, run.clock.expired))
    yield from found.get(arcsidebar.NAME, [])
    yield from bookmark.merged(found.get("Bookmarks", []), found.get("AccountBookmarks", []))


main = runner.Tool(cli, rows, reach=browsing.reach(made.BOOKMARKS), opening=opening)

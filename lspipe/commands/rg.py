"""Search the contents of files: ripgrep's own matches, a row a line.

    $ ls-rg TODO src
    $ ls-rg --words 'rust "async runtime" -draft' ~/notes

PATTERN is a regular expression of ripgrep and finds exactly what rg finds, by path (folder by folder) and line.
As in rg, .gitignore counts inside a git repository, .ignore and .rgignore everywhere; hidden and binary files are
passed over; links are followed only where they are named. Without PATH the working directory is searched. Only what
is granted is read: neither rg's configuration file, nor the global ignore file of git, nor ignore files above a
grant.

With --words the pattern is a query (words, "phrases", -word, title:word, url:word), matched in any case and with or
without accents. A row is then a file: its best line, ranked by how rare the words are in the files that were
searched. Words such as `the` or `how` count only where there is nothing else.
"""

import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from lspipe import access, child, filerow, filescope, options, pinned, rghits, rgrecords, ripgrep, row, runner
from lspipe.exits import NotFound, Precondition, Usage
from lspipe.narrow import Narrowed, Refusal, Request, Scope
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe import wordfiles

READS, EMITS, ZONE = None, "row", "local"
_SNIPPET = 300
#: Bytes of the largest file that is searched where rg had not enough memory for all of them.
_LARGEST = 16 << 20
#: The keys of a ranked row, in the order of every source.
_ORDER = ("id", "query_id", "query", "source", "rank", "score", "title", "url", "snippet", "text", "matched_terms",
          "accessed_at", "location", "provenance", "corpus", "meta")
#: Options of rg that are other ones here.
_HABITS = {
    "-n": "-n N is the most rows; each row has its line anyway", "-w": r"whole words: '\bWORD\b'",
    "-S": "-i ignores case", "-s": "case counts unless -i is given", "-v": "rg -v, or --words with -word",
    "-c": "count the rows: | wc -l", "-A": "-C N: lines before and after", "-B": "-C N: lines before and after",
    "--json": "rows are JSON Lines already", "-r": "folders are searched whole anyway", "-uu": "--no-ignore --hidden",
    "-u": "--no-ignore; --hidden for hidden files",
}


@options.command("ls-rg", kind="source", reads=READS, emits=EMITS, habits=_HABITS)
@click.argument("arguments", nargs=-1, metavar="[PATTERN] [PATH]...")
@click.option("-e", "--regexp", "patterns", multiple=True, metavar="PATTERN",
              help="A pattern; repeatable. Every argument is then a PATH.")
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="The pattern is plain text.")
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are alike.")
@click.option("-g", "--glob", "globs", multiple=True, metavar="GLOB", help="Only files like this; !GLOB: not these.")
@click.option("-t", "--type", "types", multiple=True, metavar="TYPE", help="Only files of this type (py, md, ...).")
@click.option("--hidden", is_flag=True, help="Hidden files, too.")
@click.option("--no-ignore", is_flag=True, help="Files that ignore files name, too.")
@click.option("-C", "--context", type=options.Count(0, 1000), default=0, metavar="N",
              help="In text, N lines before and after.")
@click.option("-l", "--files-with-matches", "first", is_flag=True, help="A row a file, with its first match.")
@click.option("--words", "by_words", is_flag=True, help="PATTERN is a query: words, \"phrases\", -word.")
@click.option("--all-terms", is_flag=True, help="With --words: a file must hold every word.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


@dataclass(frozen=True)
class Search:
    """What is looked for, and the granted places to look in."""

    patterns: tuple[str, ...]
    look: ripgrep.Look
    program: str
    granted: Narrowed
    roots: list[str]
    #: Where globs count from; and rg does not start where there is no working directory.
    folder: str
    plan: "wordfiles.Plan | None" = None

    @functools.cached_property
    def any_public(self) -> bool:
        """Whether there is a grant whose rows are public."""
        return any(scope.grant.public for scope in self.granted.allowed)


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """The granted part of the paths, and ripgrep."""
    if opts.sandbox_report and not opts.arguments and not opts.patterns:
        return runner.Reach()  # Nothing is searched: what is refused is the same.
    patterns, operands = _asked(opts)
    look = ripgrep.Look(opts.fixed, opts.ignore_case, opts.globs, opts.types, opts.hidden, opts.no_ignore,
                        opts.context if opts.max_chars and not opts.first else 0, opts.first)
    plan = None
    if opts.by_words:
        from lspipe import wordfiles

        plan = wordfiles.plan(options.printable(patterns[0]), opts.all_terms)
        patterns = wordfiles.patterns(plan)
        look = replace(look, first=not plan.terms, ordered=False)
    ripgrep.feed(patterns)  # Says what is wrong with them before anything else is done.
    if opts.profile:
        run.report.note("files have no profiles: --profile is not used")
    paths = _present(filescope.absolute(operands), run)
    held = access.obtain(run, Request("files", paths=paths)) if paths else []
    program = _program()
    rules: list[str | int] = [*access.read_rules(held)]
    if not opts.no_ignore:
        rules += _ignore_rules(held, run)
    granted = Narrowed(tuple(one.scope for one in held))
    search = Search(tuple(patterns), look, program, granted, sorted(granted.roots, key=_parts),
                    filescope.working_directory() or "/", plan)
    return runner.Reach(read=rules, execute=[program], given=search)


def _asked(opts: SimpleNamespace) -> tuple[list[str], list[str]]:
    """The patterns and the paths."""
    operands = list(opts.arguments)
    patterns = list(opts.patterns)
    if not patterns:
        if not operands:
            raise Usage("there is no PATTERN", "try: ls-rg --help")
        patterns.append(operands.pop(0))
    if opts.by_words:
        others = {"-e": opts.patterns, "-F": opts.fixed, "-i": opts.ignore_case, "-C": opts.context, "-l": opts.first}
        for name in (name for name, given in others.items() if given):
            raise Usage(f"{name} does not go with --words", "a query is matched in any case, and a row is a file")
        if not patterns[0].strip():
            raise Usage("the query is empty", "give it a word")
    elif opts.all_terms:
        raise Usage("--all-terms goes with --words")
    return patterns, operands


def _present(paths: list[str], run: runner.Run) -> tuple[str, ...]:
    """The paths that can be searched; what is wrong with the others is said."""
    good = []
    for path in paths:
        wrong = filescope.trouble(path)
        if wrong is None:
            good.append(path)
            continue
        reason, detail = wrong
        message, shown = f"cannot search '{options.printable(path)}': {detail}", options.printable(path)
        if reason == "not-found":
            run.report.exclude(reason, what=shown)
            run.report.error(NotFound(message))
        else:
            run.report.skip(message, reason, what=shown)
    return tuple(good)


def _program() -> str:
    try:
        return child.find_program("rg", extra=[os.path.dirname(os.path.abspath(sys.executable))])
    except Precondition as error:
        raise Precondition(error.message, "install ripgrep: apt install ripgrep, or brew install ripgrep") from None


def _ignore_rules(held: list[access.Held], run: runner.Run) -> Iterator[int]:
    """The ignore files between each grant and what is searched below it: rg reads them as well."""
    for one in held:
        root = one.scope.grant.path
        for file in (file for path in one.scope.paths for file in filescope.ignore_files(root, path)):
            got = pinned.hold(Scope(one.scope.grant, (file,)))
            if not isinstance(got, Refusal):  # A link would lead out of the grant.
                run.closing.callback(access.Held(one.scope, got).close)
                yield from got
        if filescope.ignored_above(root):
            run.report.note(f"ignore files above '{options.printable(root)}' are not granted and do not count")


def _parts(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """A row for each matching line, or, by words, for each matching file."""
    search: Search = run.reach.given
    if not search.roots or (search.plan is not None and search.plan.hopeless):
        return
    find = _by_words if search.plan is not None else _by_pattern
    begun = False
    try:
        for found in find(opts, search, run):
            begun = True
            yield found
    except ripgrep.OutOfMemory as error:
        if begun:
            raise
        look = replace(search.look, largest=_LARGEST)
        yield from find(opts, replace(search, look=look), run)  # What is beside a file that is too large is found.
        run.report.skip(f"files above {_LARGEST >> 20} MiB were left out: {error.message}", "not-readable")


def _folder() -> str | None:
    """Where rg starts: here (None), where its globs belong, or where the working directory is gone, at the top."""
    try:
        os.getcwd()
    except OSError:
        return "/"
    return None


def _hits(search: Search, run: runner.Run, keep: int, tally: rghits.Tally) -> Iterator[rghits.Hit]:
    """What rg finds, until it ends or time is over; then what it could not read is said."""
    argv = ripgrep.arguments(search.program, search.look, search.roots)
    with child.spawn(run.need_ledger(), argv, env={}, stdin=ripgrep.feed(search.patterns), purpose="search",
                     cwd=_folder()) as rg:
        quiet = None if search.look.no_ignore else lambda: _say_traps(search, run)
        records = rgrecords.split(rg.chunks(run.clock.left, quiet))
        yield from rghits.hits(records, tally, keep, search.look.context)
        if rg.late:
            run.clock.expired()
            return
        code = rg.wait()
    if tally.searched is None:
        raise ripgrep.fatal(code, rg.errors())
    if tally.searched == tally.matched and search.plan is not None:
        tally.searched = max(tally.matched, _listed(search, run))
    run.report.counts["files_with_matches"] = tally.matched
    if tally.searched > tally.matched or search.plan is not None:
        run.report.counts["files_searched"] = tally.searched
    if tally.binary:
        run.report.counts["binary_files"] = tally.binary
    unreadable = False
    for path, why in ripgrep.troubles(rg.errors()):
        if path is None:
            run.report.note(f"rg: {why}")
        else:
            unreadable = True
            run.report.skip(f"cannot read '{path}': {why}", "not-readable", what=path)
    if code not in (0, 1) and not unreadable:
        run.report.skip(f"rg could not search everything: {ripgrep.one_line(rg.errors()) or f'exit {code}'}", "failed")


def _say_traps(search: Search, run: runner.Run) -> None:
    """rg has said nothing for a while: it may be at work, or wait for ever for an ignore file that is a FIFO."""
    for path in filescope.traps(search.roots, search.look.hidden):
        if run.clock.expired():
            return
        run.report.say("warning", f"rg may be waiting for '{options.printable(path)}', a FIFO in the place of an ignore"
                       " file", "remove it, or search with --no-ignore")


def _listed(search: Search, run: runner.Run) -> int:
    """How many files there are to search, for the rg that does not say it."""
    argv = ripgrep.listing(search.program, search.look, search.roots)
    with child.spawn(run.need_ledger(), argv, env={}, stdin=None, purpose="list", cwd=search.folder) as rg:
        return sum(piece.count(b"\0") for piece in rg.chunks(run.clock.left))


def _facts(search: Search, run: runner.Run, path: bytes) -> filerow.FileFacts:
    public = search.any_public and search.granted.is_public(os.fsdecode(path))
    return filerow.FileFacts(path, "ripgrep", not public, run.now)


def _by_pattern(opts: SimpleNamespace, search: Search, run: runner.Run) -> Iterator[Row]:
    pattern = options.printable("\n".join(search.patterns))
    file: rghits.File | None = None
    rank = 0
    for hit in _hits(search, run, max(opts.max_chars, _SNIPPET), rghits.Tally()):
        if hit.file is not file:
            file, facts = hit.file, _facts(search, run, hit.file.path)
            inside = facts.within(run.since, run.until)
        elif search.look.first:
            continue
        if not inside:
            continue
        rank += 1
        line, column, text = hit.line, hit.column, hit.text
        meta = {"pattern": pattern, "matches": hit.found}
        key = None if search.look.first else f"{line}:{column}"
        found = facts.row(rank, rghits.around(text, hit.at, _SNIPPET), meta, line, column, key)
        if opts.max_chars and (hit.around or len(text) > _SNIPPET):
            found["text"] = (hit.around or text)[:opts.max_chars]
        yield found


def _by_words(opts: SimpleNamespace, search: Search, run: runner.Run) -> Iterator[Row]:
    from lspipe import snippet, wordfiles

    assert search.plan is not None
    query = search.plan.query
    run.report.query_id = row.query_id(query.text)
    common: Row = {"query_id": run.report.query_id, "query": query.text}
    tally, ranking = rghits.Tally(), wordfiles.Ranking(search.plan)
    for path, counted in ranking.files(_hits(search, run, rghits.KEPT, tally)):
        facts = _facts(search, run, path)
        if facts.within(run.since, run.until):
            ranking.add(facts, counted)
    if tally.searched is not None:
        name = "files:" + ":".join(map(options.printable, search.roots))
        common["corpus"] = [{"id": name, "n": tally.searched, "df": ranking.frequencies()}]
    for rank, (facts, counted, score) in enumerate(ranking.ranked(tally.searched), 1):
        best = counted.best
        meta: dict[str, Any] = {"line_count": counted.line_count}
        if counted.others:
            meta["lines"] = counted.others
        shown = snippet.best(best.text, query, _SNIPPET)
        found = facts.row(rank, shown, meta, best.line, best.column, None) | common
        found |= {"score": score, "matched_terms": ranking.matched(counted)}
        if opts.max_chars:
            place = best.offset + best.column - 1
            found["text"] = filerow.excerpt(facts.path, place, opts.max_chars) or best.text[:opts.max_chars]
        yield {key: found[key] for key in _ORDER if key in found}


main = runner.Tool(cli, rows, reach=reach)

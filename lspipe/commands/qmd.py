"""Search a Markdown wiki, through qmd: a row a page.

    $ ls-qmd 'rust async cancellation'
    $ ls-qmd --collection notes 'how do I cancel a task?'

QUERY is words, "phrases" and -word; title:word and url:word must be in the title and the path. Words such as `the`
or `how` are left out unless nothing else is there. qmd finds the pages that hold all words, each also by its stem or
as the beginning of a longer one. Where there is no such page, the rarest words are asked for that some page holds
together, unless --all-terms is given.

The order is qmd's; its scores are rounded until they say nothing, and are left out. qmd runs on a private copy of its
index (above 256 MiB on the original, and the report says so) and is never given a network. `qmd update` is yours to
run: pages are found as they were then.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from lspipe import access, child, filescope, options, paths, qmd, qmdprogram, row, runner, stream
from lspipe.exits import Deadline, NotFound, Precondition, Upstream, Usage
from lspipe.matching import Field, Matcher
from lspipe.narrow import Request, Scope, plain_path, within
from lspipe.row import Row
from lspipe.words import Query, Term

if TYPE_CHECKING:
    from lspipe import qmdindex, snapshot

READS, EMITS, ZONE = None, "row", "local"
#: Bytes that qmd may have: its models take some of them.
_MEMORY = 8 << 30
#: Seconds for all that qmd does, where --timeout does not say otherwise.
_SECONDS = 10.0
_SNIPPET = 300
#: An answer that is longer is not read.
_MOST = 64 << 20


@options.command("ls-qmd", kind="source", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="QUERY...")
@click.option("--collection", "collections", multiple=True, metavar="NAME", help="Only this collection; repeatable.")
@click.option("--path", "folders", multiple=True, metavar="PATH", help="Only pages whose file is below PATH.")
@click.option("--qmd-mode", "mode", type=click.Choice(qmd.MODES), default="search", show_default=True,
              help="By words (search), or by meaning, which needs qmd's models.")
@click.option("--all-terms", is_flag=True, help="A page must hold every word.")
def cli(**given: object) -> SimpleNamespace:
    return options.namespace(**given)


@dataclass(frozen=True)
class Search:
    """What is asked, of what, and by what."""

    asked: qmd.Question
    scopes: tuple[Scope, ...]
    folders: tuple[str, ...]
    program: qmdprogram.Program
    index: str
    source: "snapshot.Source"
    config: bytes | None
    #: The folder of the models, where they are used.
    cache: str | None
    until: float

    @property
    def names(self) -> set[str] | None:
        """The collections that may be read; None: all."""
        if any(not scope.collections for scope in self.scopes):
            return None
        return {name for scope in self.scopes for name in scope.collections}

    def private(self, collection: str) -> bool:
        """Whether no public grant covers a collection."""
        return not any(scope.grant.public and (not scope.collections or collection in scope.collections)
                       for scope in self.scopes)


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """The granted collections, qmd, and its index, held open."""
    from lspipe import qmdindex

    text = options.printable(" ".join(opts.words))
    if not text.strip() and not opts.sandbox_report:
        raise Usage("the query is empty", "give it a word")
    if opts.profile:
        run.report.note("a wiki has no profiles: --profile is not used")
    folders = _folders(opts.folders)
    cache, config = paths.user_folder("XDG_CACHE_HOME", ".cache"), paths.user_folder("XDG_CONFIG_HOME", ".config")
    index = qmdindex.file_of(cache)
    held = access.obtain(run, Request("wiki", collections=opts.collections, index=index))
    program = qmdprogram.find()
    source = qmdindex.open_index(index)
    run.closing.callback(source.close)
    settings = qmdindex.read_config(config)
    models = os.path.join(cache, "qmd", "models")
    missing = qmdprogram.missing_models(opts.mode, models, (settings or b"").decode("utf-8", "replace"))
    if missing:
        raise Precondition(f"--qmd-mode {opts.mode} needs models that are not there: {', '.join(missing)}",
                           "qmd pull fetches them; --qmd-mode search needs none")
    read: list[str | int] = list(program.read)
    if opts.mode != "search":
        read.append(models)
    write: list[str | int] = []
    if source.size > qmdindex.MOST:
        write.append(os.path.dirname(index))
        run.report.note(f"the index of qmd has {source.size >> 20} MiB, too much to copy: qmd ran on the original and"
                        " could write in its folder")
    search = Search(qmd.question(text, opts.all_terms), tuple(one.scope for one in held), folders, program, index,
                    source, settings, cache if opts.mode != "search" else None,
                    time.monotonic() + (_SECONDS if opts.timeout is None else opts.timeout))
    return runner.Reach(read=read, execute=[program.node], write=write, given=search)


def _folders(operands: Sequence[str]) -> tuple[str, ...]:
    if not operands:
        return ()
    found = filescope.absolute(operands)
    for path in found:
        wrong = filescope.trouble(path)
        if wrong is not None:
            raise NotFound(f"cannot search '{options.printable(path)}': {wrong[1]}")
    return tuple(found)


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[Row]:
    """A row for each page, in qmd's order."""
    from lspipe import qmdindex

    search: Search = run.reach.given
    run.report.query_id = row.query_id(search.asked.query.text)
    if search.asked.hopeless:
        return
    place = qmdindex.prepare(search.source, search.index, search.config, run.need_ledger().tmp)
    run.closing.callback(place.clear)
    conn = qmdindex.connect(place)
    try:
        parts = _parts(opts, search, qmdindex.collections(conn), run)
    finally:
        conn.close()
    if not parts:
        return
    if search.config is None:
        place.configure([part.collection for part in parts])
    if opts.mode != "search" and not qmdindex.has_vectors(place):
        raise Precondition(f"the index of qmd has no vectors, which --qmd-mode {opts.mode} needs", "qmd embed")
    terms, found = _ask(opts, search, place, parts, run)
    if found.strange:
        strange = stream.counted(found.strange, "result of qmd is", "results of qmd are")
        run.report.skip(f"{strange} of another shape", "failed", count=found.strange)
    conn = qmdindex.connect(place)
    place.clear()  # What is open can still be read.
    try:
        yield from _rows(opts, search, parts, terms, found.hits, conn, run)
    finally:
        conn.close()


def _parts(opts: SimpleNamespace, search: Search, known: "list[qmdindex.Collection]",
           run: runner.Run) -> "list[qmdindex.Part]":
    """What is searched of the collections that there are."""
    from lspipe import qmdindex

    allowed = [one for one in known if search.names is None or one.name in search.names]
    if opts.collections:
        granted = {scope.grant.collection for scope in search.scopes}
        named = [one.name for one in known if None in granted or one.name in granted]
        for name in opts.collections:
            if name not in {one.name for one in known}:
                run.report.error(NotFound(f"there is no collection '{options.printable(name)}'",
                                          "there are: " + ", ".join(named)))
        allowed = [one for one in allowed if one.name in opts.collections]
    elif search.names is None:
        allowed = [one for one in allowed if one.default]
    else:
        _say_missing(search.names - {one.name for one in known}, bool(allowed), run)
    if not search.folders:
        return [qmdindex.Part(one) for one in allowed]
    found = qmdindex.below(allowed, search.folders)
    if not found:
        run.report.note("no collection lies below --path")
    return found


def _say_missing(names: set[str], others: bool, run: runner.Run) -> None:
    """Say which granted collections qmd does not have. Raises NotFound where there are no others."""
    for name in sorted(names):
        message = f"there is no collection '{options.printable(name)}'"
        if not others:
            raise NotFound(message, "qmd collection list shows those that there are")
        run.report.skip(f"{message}, which is granted", "not-found", what=f"collection '{name}'", source="wiki",
                        detail=message)


def _ask(opts: SimpleNamespace, search: Search, place: "qmdindex.Place", parts: "list[qmdindex.Part]",
         run: runner.Run) -> tuple[Sequence[Term], qmd.Answer]:
    """The words that were asked for in the end, and the answer."""
    from lspipe import qmdindex

    asked = search.asked
    if opts.mode != "search":
        return asked.terms, _call(opts, search, place, parts, " ".join(asked.query.text.split()), run)
    terms: Sequence[Term] = asked.terms
    found = _call(opts, search, place, parts, asked.text(terms), run)
    if not found.hits and len(terms) > 1 and not opts.all_terms:
        names = [part.collection.name for part in parts]
        terms = qmdindex.fewer(place, asked, names, lambda: _left(search, run) <= 0)
        if terms and len(terms) < len(asked.terms):
            run.report.note("no page holds every word; asked for: " + ", ".join(term.text for term in terms))
            found = _call(opts, search, place, parts, asked.text(terms), run)
    return terms, found


def _left(search: Search, run: runner.Run) -> float:
    left = search.until - time.monotonic()
    return run.clock.left(left) or 0.0 if left > 0 else 0.0


def _call(opts: SimpleNamespace, search: Search, place: "qmdindex.Place", parts: "list[qmdindex.Part]", text: str,
          run: runner.Run) -> qmd.Answer:
    """One run of qmd."""
    filtered = search.asked.checked or any(part.below for part in parts) or (run.since, run.until) != (None, None)
    limit = None if filtered or opts.limit is None else opts.limit + 1  # One more shows whether that was all.
    names = dict.fromkeys(part.collection.name for part in parts)
    argv = qmd.arguments(search.program.command, opts.mode, text, list(names), limit, opts.max_chars > 0)
    pieces, size = [], 0
    with child.spawn(run.need_ledger(), argv, env=place.environment(search.cache), stdin=None, purpose="qmd",
                     cwd="/", memory=_MEMORY) as process:
        for piece in process.chunks(lambda: _left(search, run)):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST:
                raise Upstream(f"qmd printed more than {_MOST >> 20} MiB", "ask for less: -n 100")
        code = 0 if process.late else process.wait(_left(search, run))
        if process.late:
            raise Deadline("qmd had not answered when time was over", "give it more: --timeout 60s")
        errors = process.errors()
    wrong = qmd.trouble(code, errors, _node(search, run) if qmd.ask_version(code, errors) else None)
    if wrong is not None:
        raise wrong
    return qmd.answer(b"".join(pieces))


def _node(search: Search, run: runner.Run) -> str | None:
    """The version of Node, asked only when qmd has failed: it costs as much as half a search."""
    argv = [search.program.node, "--version"]
    with child.spawn(run.need_ledger(), argv, env={}, stdin=None, purpose="node", cwd="/") as process:
        said = b"".join(process.chunks(time.monotonic() + 2.0))
    return said.decode("ascii", "replace").strip() or None


def _rows(opts: SimpleNamespace, search: Search, parts: "list[qmdindex.Part]", terms: Sequence[Term],
          hits: Sequence[qmd.Hit], conn: Any, run: runner.Run) -> Iterator[Row]:
    from lspipe import qmdindex, snippet, when

    query = search.asked.query
    bound = Matcher(Query("", tuple(term for term in query.terms if term.field))) if search.asked.checked else None
    matcher = Matcher(query) if opts.mode != "search" else None
    below: dict[str, list[str]] = {}
    for part in parts:
        below.setdefault(part.collection.name, []).append(part.below)
    homes = {part.collection.name: part.collection.path for part in parts}
    rank = 0
    for hit in hits:
        # qmd was asked for these collections; that it kept to them is not left to it.
        if not any(hit.within(folder) for folder in below.get(hit.collection, ())):
            continue
        fields = [Field("title", hit.title or ""), Field("url", f"{hit.collection}/{hit.path}"),
                  Field("text", hit.body)]
        if bound is not None and bound.match(fields[:2]) is None:
            continue
        changed = qmdindex.modified(conn, hit.collection, hit.path)
        if not _within(changed, run):
            continue
        rank += 1
        line = qmd.place(hit, query)
        # A search by words finds what holds all of them; a search by meaning may hold any, or none.
        matched: Sequence[str] = [term.text for term in terms]
        if matcher is not None:
            match = matcher.match(fields)
            matched = match.terms if match else ()
        where: dict[str, Any] = {} if line is None else {"line": line}
        home = homes[hit.collection]
        # A path of the index that leads out of its collection is no file of it.
        if (home is not None and plain_path(path := os.path.join(home, hit.path)) is not None
                and within(path, home) and os.path.lexists(path)):
            where = {"path": path, **where}
        found: Row = {
            "id": row.identify("wiki", None, None, hit.url), "query_id": run.report.query_id, "query": query.text,
            "source": "wiki", "rank": rank, "title": hit.title, "url": hit.url,
            "snippet": snippet.best(qmd.around(hit, line), query, _SNIPPET),
        }
        if opts.max_chars:
            found["text"] = qmd.excerpt(hit, line, opts.max_chars)
        found |= {
            "matched_terms": list(matched), "accessed_at": None if changed is None else when.rfc3339(changed),
            "location": where,
            "provenance": {"retriever": "wiki", "method": "qmd", "acl": "authorized",
                           "private": search.private(hit.collection)},
            "meta": {"collection": hit.collection, "docid": hit.docid}
            | ({"time_quality": "missing"} if changed is None else {}),
        }
        yield found


def _within(changed: int | None, run: runner.Run) -> bool:
    if run.since is None and run.until is None:
        return True
    return changed is not None and (run.since is None or run.since <= changed) and (
        run.until is None or changed < run.until)


main = runner.Tool(cli, rows, reach=reach)

"""Ask every granted source at once: plans a pipeline, runs it, prints ranked results or one envelope.

    $ ls-query 'rust async cancellation'
    $ ls-query --source history,files --since 7d --json 'parser error'

QUERY is words, "phrases", -word, site:host, title:word and url:word; write -- before a query that begins with -.
Each source is asked for 100 rows, and 10 results are printed (-n): a list for people. --jsonl prints the rows,
--json one object for the whole answer, and --plan the bash that gives the same rows. In the last line, on stderr,
the numbers of the sources are those before the same pages and files of several sources became one result.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import click
import orjson

from lspipe import (
    access,
    answer,
    consent,
    lockdown,
    options,
    paths,
    pipeline,
    render,
    request,
    row,
    runner,
    schema,
    stream,
    table,
    words,
)
from lspipe.exits import NotFound, Precondition, Usage, strerror
from lspipe.narrow import Grant
from lspipe.row import Row

READS, EMITS, ZONE = None, "envelope", "local"
_FILE_CAP = 1 << 20


@options.command("ls-query", kind="porcelain", reads=READS, emits=EMITS)
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--source", multiple=True, metavar="NAME", help="Ask only these sources or families.")
@click.option("--path", multiple=True, metavar="PATH", help="Search files only here; else every granted root.")
@click.option("--mode", type=click.Choice(["lexical", "semantic", "hybrid"]), help="How to rerank; hybrid.")
@click.option("--rerank/--no-rerank", default=None, help="Rerank the fused results, or leave it.")
@click.option("--cap", multiple=True, metavar="NAME=N", help="At most N of a source or family in front.")
@click.option("--weight", multiple=True, metavar="NAME=W", help="Weight of a source or family.")
@click.option("--all-terms", is_flag=True, help="Only what holds every word.")
@click.option("--fields", metavar="A,B.C", help="With a form: keep these fields, dotted; id stays.")
@click.option("--public", is_flag=True, help="Ask and print only what was granted as public.")
@click.option("--raw", is_flag=True, help="Do not hide secrets in urls, titles and texts.")
@click.option("--query-file", metavar="FILE", help="Read the query as a JSON object from FILE, - for stdin.")
@click.option("--json", "form", flag_value="json", help="Print the envelope: one JSON object.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print the rows.")
@click.option("--plan", "form", flag_value="plan", help="Print the bash that does the same; run nothing.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour and links.")
def cli(**given: object) -> SimpleNamespace:
    if given["form"] is None and options.typed("fields"):
        raise Usage("--fields goes with --json, --jsonl or --plan: the list has its own")
    origin = click.get_current_context().get_parameter_source("source")
    return options.namespace(**given, sources_by_default=origin is click.core.ParameterSource.DEFAULT_MAP)


def reach(opts: SimpleNamespace, run: runner.Run) -> runner.Reach:
    """Plan before anything is registered: a question that nobody may be asked starts nothing."""
    began = time.monotonic()
    forms = [form for form in ("--json", "--jsonl", "--plan") if form in options.option_names(run.argv)]
    if len(forms) > 1:
        raise Usage(f"{forms[0]} and {forms[1]} are two forms: the answer has one")
    if opts.sandbox_report:
        return runner.Reach(may_signal=True)
    lockdown.demand(run, signals=True)  # Its stages are held in that, too.
    query = _query(opts, run)
    if opts.form is None:
        query = replace(query, fields=())  # The list shows what it shows; fields are for rows.
    run.report.query_id = row.query_id(query.text)
    granted = consent.load(paths.config_home())
    run.report.consent_file = granted.file
    if query.profiles:
        query = _with_known_profiles(query, granted.grants, run)
    planned = request.plan(query, granted.grants)
    if not planned.plan.sources:
        # One that has ended, or is for somebody else, says more than one that never was.
        first = next((one for one in planned.refused if one.detail != "no grant"), planned.refused[0])
        what = f"{access.label(first)}: " if first.profile else ""
        raise Precondition(
            f"no source may be asked: {first.source}: {what}{first.detail} ({granted.note or granted.file})",
            first.command or "ls-consent list")
    for name, refusal in request.unheard(query, planned.refused):
        if not refusal.lapsed:
            run.report.skip(f"cannot ask {name}: {request.why(refusal)}", "no-consent", refusal.command,
                            source=refusal.source, detail=refusal.command)
    for refusal in [*(one for one in planned.refused if one.lapsed), *planned.lapsed]:
        run.report.skip(f"{refusal.source}: {access.message(refusal)}", refusal.reason, refusal.command,
                        **access.facts(refusal))
    for refusal in request.unsaid(query, planned.refused):
        run.report.exclude("no-consent", source=refusal.source, detail=refusal.command)
    # The coordinator locks itself down after the last fork, without a signal scope: it stops its own stages.
    return runner.Reach(may_signal=True, given=(query, planned, began))


def _with_known_profiles(query: request.Query, grants: Sequence[Grant], run: runner.Run) -> request.Query:
    """The query without the profiles that nobody knows: said here once, where each source would say it."""
    from lspipe import browsing

    names = browsing.shown_names(query.profiles)
    strange = browsing.unknown(query.profiles, grants, names)
    errors = []
    for word in strange:
        what = f"profile '{options.printable(word)}'"
        run.report.exclude("not-found", source="query", what=what, detail=f"no {what}")
        errors.append(NotFound(f"no {what}", "ls-consent list --found shows the profiles that there are"))
    if len(strange) == len(query.profiles):
        raise errors[0]
    for error in errors:
        run.report.error(error)
    return replace(query, profiles=tuple(word for word in query.profiles if word not in strange), names=names)


def _query(opts: SimpleNamespace, run: runner.Run) -> request.Query:
    """From the query file, then the flags, which win."""
    asked = _from_file(opts.query_file) if opts.query_file else {}
    if opts.words and opts.query_file:
        raise Usage("give the words or --query-file, not both")
    text = asked.get("query") if opts.query_file else " ".join(opts.words) or None
    if text is None:
        raise Usage("which words?", "ls-query 'rust async', or ls-query --query-file FILE")
    text = options.printable(text)
    if not words.parse(text).terms:
        raise Usage("the query has no words")
    scope = asked.get("scope", {})
    profiles = scope.get("profile", ())
    chosen = [name for value in opts.source for name in value.split(",")] or asked.get("sources", [])
    since, until = run.since, run.until
    if since is None and "since" in scope or until is None and "until" in scope:
        since, until = _times(scope, run, since, until)
    folders = opts.path or tuple(scope.get("paths", ()))
    return request.Query(
        text=text, now=run.now,
        named=tuple(chosen), sources=_expand(opts, chosen),
        paths=tuple(_real(path) for path in folders),
        profiles=opts.profile or ((profiles,) if isinstance(profiles, str) else tuple(profiles)),
        since=since, until=until,
        limit=opts.limit if opts.limit is not None else asked.get("limit", request.LIMIT),
        mode=opts.mode or asked.get("mode", "hybrid"),
        rerank=opts.rerank if opts.rerank is not None else asked.get("rerank", True),
        fields=render.split_fields(opts.fields) or tuple(asked.get("output_schema", ())),
        caps=request.pairs(opts.cap, "--cap", int), weights=request.pairs(opts.weight, "--weight", float),
        public=opts.public, raw=opts.raw, all_terms=opts.all_terms,
        timeout=opts.timeout if opts.timeout is not None else request.DEADLINE,
        max_chars=opts.max_chars, require_sandbox=opts.require_sandbox,
    )


def _expand(opts: SimpleNamespace, chosen: list[str]) -> tuple[str, ...]:
    try:
        return request.expand(chosen)
    except Usage as error:
        if opts.sources_by_default:
            raise Precondition(f"config.toml: {error.message}", error.hint) from None
        raise


def _times(scope: dict[str, str], run: runner.Run, since: int | None, until: int | None) -> tuple[Any, Any]:
    from lspipe import when

    try:
        if since is None and "since" in scope:
            since = when.since(scope["since"], run.now)
        if until is None and "until" in scope:
            until = when.until(scope["until"], run.now)
    except ValueError as error:
        raise Usage(f"query file: scope: {error}") from None
    if when.reversed_range(since, until):
        raise Usage("query file: scope: until is before since")
    return since, until


def _real(path: str) -> str:
    if "\0" in path:
        raise Usage(f"no path holds NUL: '{options.printable(path)}'")
    real = paths.real(path)
    if not os.path.lexists(real):
        raise NotFound(f"cannot search '{options.printable(path)}': no such file or folder")
    return real


def _from_file(name: str) -> dict[str, Any]:
    shown = options.printable(name)
    try:
        fd = 0 if name == "-" else os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = stream.read(fd, _FILE_CAP)
        finally:
            if fd != 0:
                os.close(fd)
    except FileNotFoundError:
        raise NotFound(f"cannot open '{shown}': no such file") from None
    except OSError as error:
        raise Usage(f"cannot read '{shown}': {strerror(error)}") from None
    if len(data) > _FILE_CAP:
        raise Usage(f"'{shown}' is longer than {_FILE_CAP} bytes")
    try:
        value = stream.parse(data.strip())
    except stream.BadLine as bad:
        raise Usage(f"'{shown}': {bad}") from None
    wrong = schema.explain("query", value)
    if wrong:
        raise Usage(f"'{shown}': {wrong[0]}", "ls-check --as query shows every reason")
    return value


def rows(opts: SimpleNamespace, _upstream: Iterator[Row], run: runner.Run) -> Iterator[bytes]:
    """Run the plan and print the answer in the form that was asked for."""
    query, planned, began = run.reach.given
    if opts.form == "plan":
        yield planned.plan.bash().encode()
        return
    line = pipeline.Pipeline(run, planned.plan)
    forked = time.monotonic()
    line.start()
    lockdown.enter(run)
    run.report.note("the coordinator may signal the stages that it forked")
    if opts.form == "jsonl":
        for data in line.lines(query.timeout):
            run.report.rows_out += 1
            yield data
        answer.judge(line, run)
        return
    found = [orjson.loads(data) for data in line.lines(query.timeout)]
    run.report.rows_out = len(found)
    answer.judge(line, run)
    if opts.form == "json":
        yield stream.dumps_pretty(answer.envelope(opts, query, planned, line, found, run, (forked - began) * 1000))
        return
    yield from _list(opts, query, found, run)
    run.flush()
    answer.summary(line, query, planned, run)


def _list(opts: SimpleNamespace, query: request.Query, found: list[Row], run: runner.Run) -> Iterator[bytes]:
    color = table.use_color(opts.color, os.environ, 1)
    cells = table.columns(os.environ, 1)
    marked = words.parse(query.text) if color else None
    for number, item in enumerate(found, 1):
        yield render.result(item, number, cells, color, run.now, marked).encode("utf-8", "replace") + b"\n"


main = runner.Tool(cli, rows, reach=reach, locks=False, settings="query")

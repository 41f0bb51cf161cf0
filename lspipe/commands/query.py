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
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import click
import orjson

from lspipe import consent, options, paths, pipeline, render, request, row, runner, schema, stream, table, words
from lspipe.exits import Deadline, Exit, LspipeError, NotFound, Precondition, Upstream, Usage
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
    runner.demand_sandbox(run, signals=True)  # Its stages are held in that, too.
    query = _query(opts, run)
    if opts.form is None:
        query = replace(query, fields=())  # The list shows what it shows; fields are for rows.
    run.report.query_id = row.query_id(query.text)
    granted = consent.load(paths.config_home())
    run.report.consent_file = granted.file
    if query.profiles:
        query = replace(query, profiles=_known(query.profiles, run))
    planned = request.plan(query, granted.grants)
    if not planned.plan.sources:
        # One that has ended, or is for somebody else, says more than one that never was.
        first = next((one for one in planned.refused if one.detail != "no grant"), planned.refused[0])
        raise Precondition(f"no source may be asked: {first.source}: {first.detail} ({granted.note or granted.file})",
                           first.command or "ls-consent list")
    said: set[str] = set()
    for name, refusal in request.unheard(query, planned.refused):
        run.report.skip(f"cannot ask {name}: {request.why(refusal)}", "no-consent", refusal.command,
                        source=refusal.source, detail=refusal.command)
        said.update(request.expand([name]))
    for refusal in planned.refused:
        if refusal.source not in said:
            run.report.exclude("no-consent", source=refusal.source, detail=refusal.command)
    # The coordinator locks itself down after the last fork, without a signal scope: it stops its own stages.
    return runner.Reach(may_signal=True, given=(query, planned, began))


def _known(profiles: tuple[str, ...], run: runner.Run) -> tuple[str, ...]:
    """The profiles without those that nobody knows: said here once, where each source would say it."""
    from lspipe import browsing

    strange = browsing.unknown(profiles)
    hint = "ls-consent list --found shows the profiles that there are"
    errors = [NotFound(f"no profile '{options.printable(word)}'", hint) for word in strange]
    if len(strange) == len(profiles):
        raise errors[0]
    for error in errors:
        run.report.error(error)
    return tuple(word for word in profiles if word not in strange)


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
        raise Usage(f"cannot read '{shown}': {(error.strerror or '').lower()}") from None
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
    runner.lock_down(run)
    run.report.note("the coordinator may signal the stages that it forked")
    if opts.form == "jsonl":
        for data in line.lines(query.timeout):
            run.report.rows_out += 1
            yield data
        _judge(line, run)
        return
    found = [orjson.loads(data) for data in line.lines(query.timeout)]
    run.report.rows_out = len(found)
    _judge(line, run)
    if opts.form == "json":
        answer = _envelope(opts, query, planned, line, found, run, (forked - began) * 1000)
        yield stream.dumps_pretty(answer)
        return
    yield from _list(opts, query, found, run)
    run.flush()
    _footer(line, query, planned, run)


def _judge(line: pipeline.Pipeline, run: runner.Run) -> None:
    """Exit codes and reports of the stages become the run's own."""
    sources = len(line.plan.sources)
    reasons: list[str] = []
    for child in line.children[:sources]:
        facts = child.facts
        for skipped in facts.get("skipped", ()):
            run.report.exclude(**{"source": child.stage.label, **skipped})
        why = _reason(child)
        if why is None:
            continue
        run.report.codes.add(Exit.SKIPPED)
        if why == "partial":
            continue
        reasons.append(why)
        if why not in {found["reason"] for found in child.facts.get("skipped", ())}:
            detail = f"signal {-child.code}" if child.code < 0 else None
            run.report.exclude(why, source=child.stage.label, detail=detail)
    if len(reasons) == sources:
        run.report.error(_none_answered(reasons, {child.code for child in line.children[:sources]}))
    run.report.sandbox = _weakest(line, run)
    run.report.rows_in = sum(child.facts.get("rows_out", 0) for child in line.children[:sources])
    for child in line.children[:sources]:
        run.report.counts[child.stage.label] = child.facts.get("rows_out", 0)
    run.report.counts.update(_redactions(line))
    for child in line.children[sources:]:
        if child.stopped_late:
            raise Deadline(f"{child.stage.name} took too long", "ask for less, or give it more: --timeout 60s")
        if child.code < 0:
            raise Upstream(f"{child.stage.name} was killed by signal {-child.code}")
        if child.code not in (Exit.OK, Exit.NO_ROWS):
            run.report.codes.add(child.code)
        for note in child.facts.get("notes", ()):
            run.report.note(note)
        run.report.truncated |= bool(child.facts.get("truncated"))
    run.report.truncated |= any(child.facts.get("truncated") for child in line.children[:sources])


def _redactions(line: pipeline.Pipeline) -> dict[str, int]:
    """How many secrets the last row stage has hidden; empty where there was none (--raw)."""
    stage = next((child for child in line.children if child.stage.label == "redact"), None)
    return {} if stage is None else {"redactions": stage.facts.get("counts", {}).get("redactions", 0)}


def _none_answered(reasons: list[str], codes: set[int]) -> LspipeError:
    if set(reasons) == {"no-consent"}:
        return Precondition("no source may be asked", "ls-consent list shows what is granted")
    if set(reasons) == {"not-found"}:
        return NotFound("what was named is in no source", "ls-consent list --found shows the profiles that there are")
    if set(reasons) == {"late"}:
        return Deadline("time was over before there was a row", "give it more: --timeout 60s")
    if codes == {Exit.PRECONDITION}:
        return Precondition("no source could be asked", "the lines above say what is missing")
    return Upstream("every source failed")


_REASONS = {
    int(Exit.NOT_FOUND): "not-found", int(Exit.DEADLINE): "late",
    int(Exit.SKIPPED): "partial",
}


def _reason(child: pipeline.Child) -> str | None:
    """Why a source gave less than all, None where it did not; `partial` where its own report says what."""
    if child.stopped_late:
        return "late"
    if child.code in (Exit.OK, Exit.NO_ROWS):
        return None
    if child.code == Exit.PRECONDITION and child.facts.get("skipped"):
        return str(child.facts["skipped"][0]["reason"])  # Without one it is a program that is missing.
    return _REASONS.get(child.code, "failed")


_WORDS = ("no-consent", "not-found", "not-readable", "encrypted", "failed", "late")


def _excluded(run: runner.Run) -> list[dict[str, Any]]:
    found = []
    for skipped in run.report.quoted()["skipped"]:
        reason = skipped["reason"]
        found.append({
            "source": skipped.get("source") or "query", "browser": skipped.get("browser"),
            "profile": skipped.get("profile"), "reason": reason if reason in _WORDS else "not-readable",
            "detail": skipped.get("detail") or (None if reason in _WORDS else reason),
        })
    return found


def _weakest(line: pipeline.Pipeline, run: runner.Run) -> dict[str, str]:
    """Of the stages and the coordinator, which alone must be able to signal: its stages, and a note says so."""
    order = ("enforced", "partial", "none")
    boxes = [child.facts.get("sandbox", {}) for child in line.children]
    boxes.append({**run.report.sandbox, "signal": "enforced"})
    return {kind: max((box.get(kind, "none") for box in boxes), key=order.index) for kind in ("fs", "net", "signal")}


def _timing(line: pipeline.Pipeline, plan_ms: float) -> dict[str, float | None]:
    sources = len(line.plan.sources)
    retrieved = max(child.ended or line.began for child in line.children[:sources])
    ends: dict[str, float | None] = {child.stage.label: child.ended for child in line.children[sources:]}
    fused = ends.get("fuse") or retrieved
    reranked = ends.get("rerank")
    return {
        "plan": round(plan_ms, 1),
        "retrieve": round((retrieved - line.began) * 1000, 1),
        "fuse": round(max(0.0, fused - retrieved) * 1000, 1),
        "rerank": None if reranked is None else round(max(0.0, reranked - fused) * 1000, 1),
    }


def _envelope(
    opts: SimpleNamespace, query: request.Query, planned: request.Planned, line: pipeline.Pipeline,
    found: list[Row], run: runner.Run, plan_ms: float,
) -> dict[str, Any]:
    hidden = {"query", "query_id", "corpus"} | (set() if opts.max_chars is not None else {"text"})
    results = []
    for item in found:
        shown = {key: value for key, value in item.items() if key not in hidden}
        if not query.fields:
            shown.setdefault("retriever_scores", {"lexical": None, "semantic": None, "recency": None})
        results.append(shown)
    answer = {
        "query_id": run.report.query_id, "query": query.text, "results": results,
        # Without a model folder there is no other mode to be in.
        "mode": "lexical",
        "fusion": {"method": "weighted-rrf", "k": request.FUSE_K, "weights": dict(query.weights),
                   "source_caps": dict(planned.caps)},
        "truncated": run.report.truncated,
        "privacy": {"excluded_sources": _excluded(run), "redactions": _redactions(line).get("redactions")},
        "timing_ms": _timing(line, plan_ms),
        "sandbox": run.report.sandbox,
        "notes": run.report.quoted()["notes"],
    }
    if not schema.checker("envelope")(answer):
        raise LspipeError(f"made an envelope that is none: {schema.reason('envelope', answer)}")
    return answer


def _list(opts: SimpleNamespace, query: request.Query, found: list[Row], run: runner.Run) -> Iterator[bytes]:
    color = table.use_color(opts.color, os.environ, 1)
    cells = table.columns(os.environ, 1)
    marked = words.parse(query.text) if color else None
    for number, item in enumerate(found, 1):
        yield render.result(item, number, cells, color, run.now, marked).encode("utf-8", "replace") + b"\n"


def _footer(line: pipeline.Pipeline, query: request.Query, planned: request.Planned, run: runner.Run) -> None:
    """`10 of 112: history 80, files 40; tabs: no consent (COMMAND)`, on stderr: of 112 results, 8 of them in both."""
    counts = {child.stage.label: child.facts.get("rows_out", 0) for child in line.children[: len(planned.asked)]}
    fuse = next(child for child in line.children if child.stage.label == "fuse")
    results = fuse.facts.get("counts", {}).get("documents", sum(counts.values()))
    parts = [f"{run.report.rows_out} of {results}: "
             + ", ".join(f"{name} {count}" for name, count in counts.items())]
    said = {source for name, _refusal in request.unheard(query, planned.refused) for source in request.expand([name])}
    for refusal in planned.refused:
        if refusal.source not in said:
            command = f" ({refusal.command})" if refusal.command else ""
            parts.append(f"{refusal.source}: {request.why(refusal)}{command}")
    for child in line.children[: len(planned.asked)]:
        why = _reason(child)
        if why is not None:
            parts.append(f"{child.stage.label}: {why}")
    hidden = _redactions(line).get("redactions", 0)
    if hidden:
        parts.append(f"{hidden} secret{'' if hidden == 1 else 's'} hidden (--raw)")
    run.report.say("note", "; ".join(parts))


main = runner.Tool(cli, rows, reach=reach, locks=False)

"""The answer of ls-query: what its stages ended with becomes its own, the envelope, and the last line."""

from types import SimpleNamespace
from typing import Any

from lspipe import pipeline, request, runner, schema
from lspipe.exits import Deadline, Exit, LspipeError, NotFound, Precondition, Upstream
from lspipe.row import Row


def judge(line: pipeline.Pipeline, run: runner.Run) -> None:
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
    late = ", ".join(child.stage.name for child in line.children[sources:] if child.stopped_late)
    if late:  # One of them is slow, and the others wait for it.
        if not run.report.rows_out:
            raise Deadline(f"{late} took too long", "ask for less, or give it more: --timeout 60s")
        run.report.truncated = True
        run.report.skip(f"{late} took too long: these rows are what there was until then", "late",
                        "ask for less, or give it more: --timeout 60s")
    for child in line.children[sources:]:
        if child.stopped_late:
            continue
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


def envelope(
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


def summary(line: pipeline.Pipeline, query: request.Query, planned: request.Planned, run: runner.Run) -> None:
    """`10 of 112: history 80, files 40; tabs: no consent (COMMAND)`, on stderr: of 112 results, 8 of them in both."""
    counts = {child.stage.label: child.facts.get("rows_out", 0) for child in line.children[: len(planned.asked)]}
    fuse = next(child for child in line.children if child.stage.label == "fuse")
    results = fuse.facts.get("counts", {}).get("documents", sum(counts.values()))
    parts = [f"{run.report.rows_out} of {results}: "
             + ", ".join(f"{name} {count}" for name, count in counts.items())]
    for refusal in request.unsaid(query, planned.refused):
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

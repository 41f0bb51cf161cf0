"""Reranking: one score of words, nearness, coverage and newness, for the first rows of a list (pure).

A score is bm25 / T + 0.2 proximity + 0.1 coverage + 0.1 recency, where T is the number that gives the best
row exactly 1: each part but the first is worth at most that share of the top score. Nothing but T depends
on which other rows are there, and the best row is the last to be cut off. So a second run over the output,
or over the first rows of it, gives the same bytes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from lspipe.exits import Usage
from lspipe.fuse import DIGITS, Label, label, spread
from lspipe.merge import Corpora, pack
from lspipe.row import Row, normalize_query

if TYPE_CHECKING:
    from lspipe.lexical import Marks

PROXIMITY = 0.2
COVERAGE = 0.1
RECENCY = 0.1
#: After this time the bonus for being new is half of what it was.
HALF_LIFE_HOURS = 30 * 24


class Reranked(NamedTuple):
    """One ranked list. `rows` are built as they are taken, and share one `corpus` object."""

    rows: Iterator[Row]
    query: str
    #: scored, unscored (beyond the depth), waiting (over a cap)
    counts: dict[str, int]
    #: The limit held back at least one row.
    truncated: bool
    notes: tuple[str, ...]


def rerank(
    rows: Iterable[Row],
    query: str | None = None,
    *,
    depth: int = 100,
    recency: Collection[str] = (),
    now: int = 0,
    caps: Mapping[str, int] | None = None,
    every_family: int | None = None,
    limit: int | None = None,
) -> Reranked:
    """`rows` by how well they answer `query`, which is the one that they carry where none is given.

    The first `depth` are scored, by rank where all have one and else by arrival; the others keep that order
    behind them, with score 0. `recency` names the sources and families whose newness at `now`
    (microseconds) counts, "all" for every one. Caps come last (see `fuse.spread`). Sets score,
    retriever_scores and rank; `corpus` becomes the union, on every row. Order: score, then the order that
    was. Raises Usage for rows of no query or of two.
    """
    held = _Held()
    for row in rows:
        held.add(row)
    if not held.packed:
        return Reranked(iter(()), query or "", {"scored": 0, "unscored": 0, "waiting": 0}, False, ())
    from lspipe.lexical import lexical  # What it needs would be half of the start of a run without rows.

    corpus = held.corpora.union()
    order = held.order()
    pool: list[Row] = [orjson.loads(held.packed[number]) for number in order[:depth]]
    query = held.query() if query is None else query
    marks = lexical(pool, query, corpus)
    notes = []
    if marks is None:
        notes.append("no word to score by: the order stays")
        pool = []
    else:
        if not any(entry["n"] for entry in corpus):
            notes.append("no corpus figures: all words weigh the same")
        pool = _scored(pool, marks, [newness(row, recency, now) for row in pool])
    rest = order[len(pool) :]
    # What is not scored stays behind what is, also behind what waits.
    labels = [label(row) for row in pool] or [held.labels[number] for number in rest]
    chosen, waiting = spread(labels, caps or {}, every_family)
    chosen += range(len(labels), len(order))
    counts = {"scored": len(pool), "unscored": len(rest), "waiting": waiting}

    def build() -> Iterator[Row]:
        for rank, place in enumerate(chosen[:limit], 1):
            if place < len(pool):
                row = pool[place]
            else:
                row = orjson.loads(held.packed[rest[place - len(pool)]])
                own = 0.0 if marks is not None else min(max(row.get("score", 0.0), 0.0), 1.0)
                _write(row, own, None, None)
            row["rank"] = rank
            if corpus:
                row["corpus"] = corpus
            yield row

    return Reranked(build(), query, counts, limit is not None and limit < len(order), tuple(notes))


def share(limit: int) -> int:
    """How many of `limit` rows one family may fill before the others have had their turn: 60 %."""
    return max(1, -(-limit * 6 // 10))


def _scored(pool: Sequence[Row], marks: "Sequence[Marks]", new: Sequence[float | None]) -> list[Row]:
    """The rows with their scores, best first."""
    extras = [PROXIMITY * mark.proximity + COVERAGE * mark.coverage for mark in marks]
    bonuses = [RECENCY * (share or 0.0) for share in new]
    top = max((mark.bm25 / (1 - extra - bonus)
               for mark, extra, bonus in zip(marks, extras, bonuses, strict=True)), default=0.0)
    totals = []
    for row, mark, extra, bonus, share in zip(pool, marks, extras, bonuses, new, strict=True):
        own = mark.bm25 / top + extra if top else 0.0
        total = own + bonus if top else 0.0
        _write(row, min(total, 1.0), min(own, 1.0), share)
        totals.append(total)
    # Stable: equal totals keep the order that was.
    places = sorted(range(len(pool)), key=totals.__getitem__, reverse=True)
    return [pool[place] for place in places]


def _write(row: Row, score: float, own: float | None, share: float | None) -> None:
    row["score"] = round(float(score), DIGITS)
    scores = {"lexical": None if own is None else round(own, DIGITS), "semantic": None, "recency": share}
    row["retriever_scores"] = scores | {
        key: value for key, value in (row.get("retriever_scores") or {}).items() if key not in scores
    }


def newness(row: Row, recency: Collection[str], now: int) -> float | None:
    """1 within the hour, half of it after each half-life; None where it does not count or is not known."""
    if "all" not in recency and not set(recency).intersection(label(row)):
        return None
    from lspipe import when

    seen = when.parse_rfc3339(row.get("accessed_at") or "")
    if seen is None:
        return None
    return float(round(0.5 ** (when.hours_between(seen, now) / HALF_LIFE_HOURS), DIGITS))


class _Held:
    """All rows, packed, and beside them what their order and labels are made of."""

    def __init__(self) -> None:
        self.packed: list[bytes] = []
        self.labels: list[Label] = []
        self.corpora = Corpora()
        self._keys: list[tuple[int, str]] = []
        self._queries: dict[str, str] = {}
        self._last: tuple[Any, Any] = (None, None)

    def add(self, row: Row) -> None:
        """Keep one row."""
        shared = (row.get("corpus"), row.get("query"))
        if shared != self._last:  # Nearly always it is what the row before said.
            self._last = shared
            self.corpora.add(shared[0] or ())
            if shared[1] is not None:
                self._queries.setdefault(normalize_query(shared[1]), shared[1])
        if "corpus" in row:
            row = row.copy()
            del row["corpus"]
        self.labels.append(label(row))
        self._keys.append((int(row.get("rank") or 0), row.get("id") or ""))
        self.packed.append(pack(row))

    def order(self) -> list[int]:
        """The rows by rank, or by arrival where one has none."""
        numbers = list(range(len(self.packed)))
        if all(rank for rank, _ in self._keys):
            numbers.sort(key=lambda number: (*self._keys[number], self.packed[number]))
        return numbers

    def query(self) -> str:
        """The one query of all rows. Raises Usage for none and for two."""
        found = sorted(self._queries)
        if len(found) > 1:
            raise Usage(f"rows of two queries: '{found[0]}' and '{found[1]}'", "say which: -q WORDS")
        if not found:
            raise Usage("the rows carry no query", "say what to rank them by: -q WORDS")
        return found[0]

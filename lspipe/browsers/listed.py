"""Ranked rows of what a profile keeps as a list that fits into memory: tabs, downloads, the reading list."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from lspipe.browsers import ranking, rows
from lspipe.browsers.granted import Granted
from lspipe.live import never
from lspipe.row import Row

if TYPE_CHECKING:
    from lspipe.matching import Field
    from lspipe.words import Query

T = TypeVar("T")
#: Seconds of processor time for what was found, when time is over.
_GRACE = 1.0


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What is listed: its source, its searched parts, when it was last used, and its row without rank and score."""

    source: str
    fields: Callable[[T], Sequence["Field"]]
    at: Callable[[T], int | None]
    row: Callable[[Granted, T], Row]


def within(at: int | None, since: int | None, until: int | None) -> bool:
    """Whether a time is in that window; no time is in none."""
    if since is None and until is None:
        return True
    return at is not None and (since is None or at >= since) and (until is None or at < until)


def ranked(
    kind: Kind[T], found: Iterable[tuple[Granted, Iterable[T]]], query: "Query", common: Row, all_terms: bool = False,
    stop: Callable[[], bool] = never,
) -> Iterator[Row]:
    """The rows of what matches, the best first; of equal ones, and without a query, the last used first.

    `found` has everything in scope, profile by profile: words are weighed by all of it. Where `stop` says yes,
    those that are looked at within a second: what was found by then is not lost for that it was found at the end.
    """
    left: float | None = None
    judge = ranking.Judge(query, all_terms)
    n, df = 0, dict(judge.df)
    corpora: list[Row] = []
    matched: list[tuple[int, Granted, T, ranking.Strengths]] = []
    for number, (profile, things) in enumerate(found):
        judge, count = ranking.Judge(query, all_terms), 0
        for thing in things:
            if stop():
                left = time.process_time() + _GRACE if left is None else left
                if time.process_time() > left:
                    break
            count += 1
            strengths = judge(kind.fields(thing))
            if strengths is not None:
                matched.append((number, profile, thing, strengths))
        n += count
        df = {key: df[key] + more for key, more in judge.df.items()}
        corpora.append({"id": f"{kind.source}:{profile.label}", "n": count, "df": judge.df})

    def order(one: tuple[int, Granted, T, ranking.Strengths]) -> tuple[float, int]:
        return -judge.score(one[3], n, df) if query.wanted else 0.0, -(kind.at(one[2]) or 0)

    for rank, (number, profile, thing, strengths) in enumerate(sorted(matched, key=order), 1):
        row = common | kind.row(profile, thing) | {"rank": rank}
        if query.wanted:
            row |= {"score": judge.score(strengths, n, df), "matched_terms": judge.matched(strengths),
                    "corpus": [corpora[number]]}
        yield rows.arranged(row)

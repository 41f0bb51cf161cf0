"""Weighted reciprocal rank fusion over lists that mostly hold different things: shares, dedupe, caps (pure).

A list is the rows with equal query_id, source and provenance.method. A document's share of a list is weight
/ (k + rank), with its best rank there (reciprocal rank fusion: Cormack, Clarke, Buettcher, SIGIR 2009).
Plain fusion adds all shares. That suits several rankings of one collection; here a page that two sources
merely both hold would then beat every better page. So only the shares of lists over one corpus (a common
corpus id) are added, and of different corpora the largest counts.

Rows wait as JSON: as dicts, 100,000 of them would take five times the memory.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from lspipe.merge import Corpora, merge, own_id, place_of
from lspipe.row import Row, family

K = 60
#: Decimals of a score.
DIGITS = 6
_ABSENT = float("nan")
_NEVER = float("inf")

#: Source and family: what caps and weights go by.
Label = tuple[str, str]


class Fused(NamedTuple):
    """One ranked list. `rows` are built as they are taken, and share one `corpus` object."""

    rows: Iterator[Row]
    #: lists, documents, merged (rows that went into another one), waiting (documents over a cap)
    counts: dict[str, int]
    #: The limit held back at least one document.
    truncated: bool
    #: The rows were one fused list already: order and scores stay, `k` and `weights` are not spent twice.
    again: bool


def fuse(
    rows: Iterable[Row],
    *,
    k: float = K,
    weights: Mapping[str, float] | None = None,
    caps: Mapping[str, int] | None = None,
    dedupe: str = "url",
    limit: int | None = None,
) -> Fused:
    """All `rows`, of any number of lists, as one list ranked 1..n with scores 0..1 of six decimals.

    `weights` and `caps` are by source or family; a source's own weight wins, and both caps hold. `dedupe`
    is `url` (canonical url, files by path) or `id`. Rows must fit the row schema. A row without `rank` is
    numbered by its arrival in its list; where all have ranks, the order of `rows` changes nothing. Order:
    score, then id.
    """
    held = _Held(dedupe)
    for row in rows:
        held.add(row)
    held.weigh(weights or {})
    best = [held.best(members) for members in held.members]
    again = held.is_one_list()
    if again:
        scores = held.scores
        order = sorted(range(len(best)), key=held.ranks.__getitem__)
    else:
        shares = held.shares(k)
        top = max(shares, default=0.0) or 1.0
        scores = array("d", (round(share / top, DIGITS) for share in shares))
        order = held.by_id(best)
        order.sort(key=shares.__getitem__, reverse=True)  # Stable: ids decide between equal shares.
    chosen, waiting = spread([held.label(best[place]) for place in order], caps or {})
    counts = {
        "lists": len(held.lists), "documents": len(order), "merged": len(held.packed) - len(order),
        "waiting": waiting,
    }
    written = [order[index] for index in chosen[:limit]]
    return Fused(held.build(written, best, scores), counts, len(written) < len(order), again)


def spread(
    labels: Sequence[Label], caps: Mapping[str, int], every_family: int | None = None
) -> tuple[list[int], int]:
    """An order of the places of `labels` in which those over a cap wait behind the others, and how many wait.

    `every_family` caps each family that `caps` does not name. Nothing is dropped.
    """
    if not caps and every_family is None:
        return list(range(len(labels))), 0
    otherwise = _NEVER if every_family is None else every_family
    taken: list[int] = []
    waiting: list[int] = []
    sources: Counter[str] = Counter()
    families: Counter[str] = Counter()
    for place, (source, kin) in enumerate(labels):
        if sources[source] >= caps.get(source, _NEVER) or families[kin] >= caps.get(kin, otherwise):
            waiting.append(place)
        else:
            taken.append(place)
            sources[source] += 1
            families[kin] += 1
    return taken + waiting, len(waiting)


def label(row: Row) -> Label:
    """Source and family of a row."""
    return row["source"], family(row)


class _List:
    """One list: its number, how many rows came, and which corpora they name."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.ids: set[str] = set()
        self.corpus: Any = None


class _Held:
    """All rows, packed, and beside them what shares and order are made of."""

    def __init__(self, dedupe: str) -> None:
        self._by_id = dedupe == "id"
        self.packed: list[bytes] = []
        self.ids: list[str] = []
        self.ranks = array("q")
        self.scores = array("d")
        self._list = array("l")
        self._label = array("l")
        self.lists: dict[tuple[str | None, str, str | None], _List] = {}
        self._labels: dict[Label, int] = {}
        self._names: list[Label] = []
        self._weights: list[float] = []
        self._corpora = Corpora()
        #: The row numbers of each document, by what makes them the same one and in order of arrival.
        self._places: dict[str, list[int]] = {}
        self.members: list[list[int]] = []

    def add(self, row: Row) -> None:
        """Keep one row."""
        number = len(self.packed)
        name = label(row)
        provenance = row.get("provenance")
        key = (row.get("query_id"), name[0], provenance.get("method") if provenance else None)
        found = self.lists.get(key)
        if found is None:
            found = self.lists[key] = _List(len(self.lists))
        found.count += 1
        rank, score = row.get("rank"), row.get("score")
        self.ranks.append(found.count if rank is None else int(rank))
        self.scores.append(_ABSENT if rank is None or score is None else score)
        self._list.append(found.number)
        self._label.append(self._labels.setdefault(name, len(self._labels)))
        identity = row.get("id") or own_id(row)
        self.ids.append(identity)
        members = self._places.setdefault(identity if self._by_id else place_of(row["url"]), [])
        if not members:
            self.members.append(members)
        members.append(number)
        if "corpus" in row:
            # A source writes the same figures on all its rows: kept once, not with each.
            row = dict(row)
            corpus = row.pop("corpus")
            if corpus != found.corpus:
                found.corpus = corpus
                found.ids.update(entry["id"] for entry in corpus)
                self._corpora.add(corpus)
        self.packed.append(orjson.dumps(row))

    def label(self, number: int) -> Label:
        """Source and family of a row."""
        return self._names[self._label[number]]

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Fix the weight of each source and family, once all rows are here."""
        self._names = list(self._labels)
        self._weights = [weights.get(source, weights.get(kin, 1.0)) for source, kin in self._names]

    def _weight(self, number: int) -> float:
        return self._weights[self._label[number]]

    def is_one_list(self) -> bool:
        """Whether `fuse` or a reranker wrote the rows: no doubles, ranks 1..n, rounded scores 0..1."""
        count = len(self.packed)
        return (
            len(self.members) == count
            and sorted(self.ranks) == list(range(1, count + 1))
            and all(0.0 <= score <= 1.0 and score == round(score, DIGITS) for score in self.scores)
        )

    def best(self, members: list[int]) -> int:
        """The best-ranked row of a document."""
        return members[0] if len(members) == 1 else min(members, key=self._goodness)

    def _goodness(self, number: int) -> tuple[int, float, str, bytes]:
        return self.ranks[number], -self._weight(number), self.ids[number], self.packed[number]

    def by_id(self, best: Sequence[int]) -> list[int]:
        """The documents in the order of their ids; handmade ids may repeat, and then their places decide."""
        keys = [self.ids[number] for number in best]
        if len(set(keys)) == len(keys):
            return sorted(range(len(keys)), key=keys.__getitem__)
        places = list(self._places)
        return sorted(range(len(keys)), key=lambda document: (keys[document], places[document]))

    def shares(self, k: float) -> list[float]:
        """The share of each document."""
        groups = self._corpus_groups()
        shares = []
        for members in self.members:
            if len(members) == 1:
                shares.append(self._weight(members[0]) / (k + self.ranks[members[0]]))
                continue
            of_list: dict[int, float] = {}
            for number in members:
                which = self._list[number]
                share = self._weight(number) / (k + self.ranks[number])
                of_list[which] = max(share, of_list.get(which, 0.0))
            of_group: dict[int, list[float]] = {}
            for which, share in of_list.items():
                of_group.setdefault(groups[which], []).append(share)
            shares.append(max(map(math.fsum, of_group.values())))
        return shares

    def _corpus_groups(self) -> list[int]:
        """For each list the number of the group of lists over one corpus; a list without figures is alone."""
        lists = list(self.lists.values())
        group = list(range(len(lists)))
        holder: dict[str, int] = {}
        for found in lists:
            for name in found.ids:
                other, mine = group[holder.setdefault(name, found.number)], group[found.number]
                if other != mine:
                    group = [other if member == mine else member for member in group]
        return group

    def build(self, order: Iterable[int], best: Sequence[int], scores: Sequence[float]) -> Iterator[Row]:
        """The documents of `order` as rows ranked 1..n."""
        corpus = self._corpora.union()
        for rank, document in enumerate(order, 1):
            members = self.members[document]
            row: Row
            if len(members) == 1:
                row = orjson.loads(self.packed[members[0]])
            else:
                members = sorted(members, key=self._goodness)
                row = merge([orjson.loads(self.packed[number]) for number in members])
            row["id"] = self.ids[best[document]]
            row["rank"] = rank
            row["score"] = scores[document]
            row.setdefault("provenance", {}).setdefault("private", True)
            if corpus:
                row["corpus"] = corpus
            yield row

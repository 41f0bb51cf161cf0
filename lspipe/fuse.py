"""Weighted reciprocal rank fusion over lists that mostly hold different things: shares, dedupe, caps (pure).

A list is the rows with equal query_id, source and provenance.method. A document's share of a list is weight
/ (k + rank), with its best rank there (reciprocal rank fusion: Cormack, Clarke, Buettcher, SIGIR 2009).
Plain fusion adds all shares. That suits several rankings of one collection; here a page that two sources
merely both hold would then beat every better page. So only the shares of lists over one corpus (a common
corpus id) are added, and of different corpora the largest counts.

Rows wait as JSON: as dicts, 100,000 of them would take five times the memory.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from lspipe.exits import Usage
from lspipe.merge import Corpora, merge, own_id, pack, place_of
from lspipe.row import FAMILIES, Row, family

K = 60
#: Decimals of a score.
DIGITS = 6
_ABSENT = float("nan")
_NEVER = float("inf")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_HIGHEST = 10**9

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
    held.settle(weights or {})
    again = held.is_one_list()
    if again:
        scores: Sequence[float] = held.scores
        order = held.by_rank()
    else:
        shares = held.shares(k)
        top = max(shares, default=0.0) or 1.0
        scores = array("d", [round(share / top, DIGITS) for share in shares])
        order = held.by_id()
        order.sort(key=shares.__getitem__, reverse=True)  # Stable: ids decide between equal shares.
    waiting = 0
    documents = len(order)
    if caps:
        chosen, waiting = spread([held.label(document) for document in order], caps)
        order = [order[place] for place in chosen]
    counts = {
        "lists": len(held.lists), "documents": documents, "merged": len(held) - documents, "waiting": waiting,
    }
    written = order[:limit]
    return Fused(held.build(written, scores), counts, len(written) < documents, again)


def spread(
    labels: Sequence[Label], caps: Mapping[str, int], every_family: int | None = None
) -> tuple[list[int], int]:
    """An order of the places of `labels` in which those over a cap wait behind the others, and how many wait.

    `every_family` caps each family that `caps` does not name. Nothing is dropped.
    """
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


def numbers(values: Iterable[str], option: str, kind: type[int] | type[float]) -> dict[str, Any]:
    """`NAME=NUMBER` words of an option by source or family, the last of a name. Raises Usage."""
    found: dict[str, Any] = {}
    for value in values:
        name, _, number = value.rpartition("=")
        try:
            parsed = kind(number)
        except ValueError:
            parsed = -1
        # The schema's form of a source; of weights none whose sum could leave the numbers.
        if not (_NAME.fullmatch(name) and 0 <= parsed <= _HIGHEST):
            raise Usage(f"{option} takes NAME=NUMBER, not '{value}'", f"say {option} browser=2: a source or a family")
        found[name] = parsed
    return found


def strangers(names: Iterable[str]) -> dict[str, None]:
    """Of the names of sources and families those that lspipe has none of: rows made by hand may, or nobody."""
    known = {*FAMILIES, *FAMILIES.values()}
    return {name: None for name in names if name not in known}


def met(rows: Iterable[Row], names: dict[str, None]) -> Iterable[Row]:
    """The rows; once they are through, those of the names are left that are the source or family of none."""
    return _met(rows, names) if names else rows


def _met(rows: Iterable[Row], names: dict[str, None]) -> Iterator[Row]:
    for row in rows:
        for name in label(row):
            names.pop(name, None)
        yield row


class _List:
    """One list: its number, how many rows came, and which corpora they name."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.ids: set[str] = set()
        self.corpus: Any = None


class _Held:
    """All rows, packed, and beside them what shares and order are made of. Rows and documents are numbers."""

    def __init__(self, dedupe: str) -> None:
        self._by_id = dedupe == "id"
        self._packed: list[bytes] = []
        self._ids: list[str] = []
        self._ranks = array("q")
        self.scores = array("d")
        self._kind = array("l")
        self.lists: dict[tuple[str | None, str, str | None], _List] = {}
        #: List and label of a row, by what they depend on; and the number of this kind of row.
        self._kinds: dict[tuple[Any, ...], tuple[int, _List]] = {}
        self._labels: list[Label] = []
        self._corpora = Corpora()
        #: The document at each place (canonical url, path or id), and its first row; and all rows where it has several.
        self._places: dict[str, int] = {}
        self._first = array("l")
        self._merged: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def documents(self) -> range:
        """The numbers of all documents, in the order of their arrival."""
        return range(len(self._first))

    def add(self, row: Row) -> None:
        """Keep one row."""
        number = len(self._packed)
        provenance = row.get("provenance") or {}
        key = (row.get("query_id"), row["source"], provenance.get("method"), provenance.get("retriever"))
        kind, found = self._kinds.get(key) or self._new_kind(key, row)
        found.count += 1
        if "corpus" in row:
            # A source writes the same figures on all its rows: kept once, not with each.
            row = row.copy()
            corpus = row.pop("corpus")
            if corpus != found.corpus:
                found.corpus = corpus
                found.ids.update(entry["id"] for entry in corpus)
                self._corpora.add(corpus)
        identity = row.get("id") or own_id(row)
        place = identity if self._by_id else place_of(row["url"], row.get("location"))
        document = self._places.setdefault(place, len(self._first))
        if document == len(self._first):
            self._first.append(number)
        else:
            self._merged.setdefault(document, [self._first[document]]).append(number)
        rank, score = row.get("rank"), row.get("score")
        self._ranks.append(found.count if rank is None else int(rank))
        self.scores.append(_ABSENT if rank is None or score is None else score)
        self._kind.append(kind)
        self._ids.append(identity)
        self._packed.append(pack(row))

    def _new_kind(self, key: tuple[Any, ...], row: Row) -> tuple[int, _List]:
        found = self.lists.setdefault(key[:3], _List(len(self.lists)))
        self._kinds[key] = len(self._kinds), found
        self._labels.append(label(row))
        return self._kinds[key]

    def settle(self, weights: Mapping[str, float]) -> None:
        """Once all rows are here: weigh them, and put the best row of each document first."""
        self._weights = [weights.get(source, weights.get(kin, 1.0)) for source, kin in self._labels]
        for document, members in self._merged.items():
            members.sort(key=self._goodness)
            self._first[document] = members[0]

    def _goodness(self, row: int) -> tuple[int, float, str, bytes]:
        return self._ranks[row], -self._weights[self._kind[row]], self._ids[row], self._packed[row]

    def label(self, document: int) -> Label:
        """Source and family of a document."""
        return self._labels[self._kind[self._first[document]]]

    def is_one_list(self) -> bool:
        """Whether `fuse` or a reranker wrote the rows: no doubles, ranks 1..n, rounded scores 0..1."""
        count = len(self)
        return (
            not self._merged
            and count == max(self._ranks, default=0) == len(set(self._ranks))
            and all(0.0 <= score <= 1.0 and score == round(score, DIGITS) for score in self.scores)
        )

    def by_rank(self) -> list[int]:
        """The documents of one list in its order."""
        return sorted(self.documents, key=self._ranks.__getitem__)

    def by_id(self) -> list[int]:
        """The documents in the order of their ids; handmade ids may repeat, and then their places decide."""
        ids = [self._ids[row] for row in self._first]
        if len(set(ids)) == len(ids):
            return sorted(self.documents, key=ids.__getitem__)
        places = list(self._places)
        return sorted(self.documents, key=lambda document: (ids[document], places[document]))

    def shares(self, k: float) -> list[float]:
        """The share of each document."""
        weights = self._weights
        shares = [weights[kind] / (k + rank) for kind, rank in zip(self._kind, self._ranks, strict=True)]
        found = [shares[row] for row in self._first]
        groups = self._corpus_groups()
        for document, members in self._merged.items():
            found[document] = self._united(members, shares, groups)
        return found

    def _united(self, members: Sequence[int], shares: Sequence[float], groups: Sequence[int]) -> float:
        lists = [found.number for _, found in self._kinds.values()]
        of_list: dict[int, float] = {}
        for row in members:
            which = lists[self._kind[row]]
            of_list[which] = max(shares[row], of_list.get(which, 0.0))
        of_group: dict[int, list[float]] = {}
        for which, share in of_list.items():
            of_group.setdefault(groups[which], []).append(share)
        return max(map(math.fsum, of_group.values()))

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

    def build(self, order: Iterable[int], scores: Sequence[float]) -> Iterator[Row]:
        """The documents of `order` as rows ranked 1..n."""
        corpus = self._corpora.union()
        packed = self._packed
        for rank, document in enumerate(order, 1):
            first = self._first[document]
            row: Row
            if document in self._merged:
                row = merge([orjson.loads(packed[member]) for member in self._merged[document]])
            else:
                row = orjson.loads(packed[first])
            row["id"] = self._ids[first]
            row["rank"] = rank
            row["score"] = scores[document]
            row.setdefault("provenance", {}).setdefault("private", True)
            if corpus:
                row["corpus"] = corpus
            yield row

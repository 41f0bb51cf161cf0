"""The pages that match, from several profiles, in the order of their rank; a few bytes a page until they are asked for.

The order is by score, and for equal scores by the id of the row. An id is a hash of the url: it is worked out only
for the scores that are reached, so that asking for the first hundred of a million stays cheap.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lspipe.browsers.pages import History, Page
from lspipe.browsers.ranking import Judge, Strengths

_AT_ONCE = 200


class Found(NamedTuple):
    """A page that matches."""

    profile: int
    page: Page
    strengths: Strengths
    score: float


class Matches:
    """What matches in the histories that were searched. `n` and `df` are of each; together they weigh the words."""

    def __init__(self, identify: Callable[[int, str], str]) -> None:
        """`identify` gives the id of a row from the number of its profile and its url."""
        self._identify = identify
        self._histories: list[History] = []
        self._pages: list[dict[Strengths, array[int]]] = []
        self.n: list[int] = []
        self.df: list[dict[str, int]] = []

    def search(self, history: History, judge: Judge) -> None:
        """Search one more history. What was found is kept where it is interrupted, and the error goes through."""
        found: dict[Strengths, array[int]] = {}
        self._histories.append(history)
        self._pages.append(found)
        self.n.append(0)
        self.df.append({})
        try:
            self.n[-1] = history.count()
            for number, strengths in judge.pages(history.candidates(judge.likes)):
                if strengths not in found:
                    found[strengths] = array("q")
                found[strengths].append(number)
        finally:
            self.df[-1] = judge.df
            history.grace()

    def __len__(self) -> int:
        return sum(len(ids) for found in self._pages for ids in found.values())

    def ranked(self, judge: Judge, most: int | None = None) -> Iterator[Found]:
        """All of them, the best first; at most so many."""
        n = sum(self.n)
        df = {key: sum(one.get(key, 0) for one in self.df) for key in judge.df}
        scores: dict[float, list[Strengths]] = {}
        for strengths in {strengths for found in self._pages for strengths in found}:
            scores.setdefault(judge.score(strengths, n, df), []).append(strengths)
        left = len(self) if most is None else most
        for score in sorted(scores, reverse=True):
            for found in self._group(score, scores[score], left):
                yield found
                left -= 1
            if left <= 0:
                return

    def _group(self, score: float, kinds: Sequence[Strengths], most: int) -> Iterator[Found]:
        """The first pages of one score, by id; where time is over, the first of those whose ids are known by then."""
        parts = [(number, strengths) for number in range(len(self._histories)) for strengths in kinds]
        keys, ids, owners = array("Q"), array("q"), array("L")
        for owner, (number, strengths) in enumerate(parts):
            for page, url in self._histories[number].urls(self._pages[number].get(strengths, ())):
                if len(keys) % _AT_ONCE == 0 and len(keys) >= min(most, _AT_ONCE) and self._histories[number].late():
                    break
                keys.append(int(self._identify(number, url).rpartition("_")[2], 16))
                ids.append(page)
                owners.append(owner)
        if most < len(keys) // 2:
            import heapq

            order = heapq.nsmallest(most, range(len(keys)), key=keys.__getitem__)
        else:
            order = sorted(range(len(keys)), key=keys.__getitem__)[:most]
        for start in range(0, len(order), _AT_ONCE):
            some = order[start:start + _AT_ONCE]
            pages: dict[tuple[int, int], Page] = {}
            for number in range(len(self._histories)):
                wanted = [ids[at] for at in some if parts[owners[at]][0] == number]
                pages |= {(number, page.id): page for page in self._histories[number].held(wanted)}
            for at in some:
                number, strengths = parts[owners[at]]
                held = pages.get((number, ids[at]))
                whole = None if held is None else self._histories[number].whole(held)
                if whole is not None:
                    yield Found(number, whole, strengths, score)


def newest(histories: Sequence[History], identify: Callable[[int, str], str]) -> Iterator[tuple[int, Page]]:
    """(number of the history, page) of all pages in scope, the newest first; equal times by id, no time last."""
    import heapq
    from itertools import groupby

    def ordered(number: int, history: History) -> Iterator[tuple[tuple[bool, int, str], int, Page]]:
        def keyed(page: Page) -> tuple[tuple[bool, int, str], int, Page] | None:
            whole = history.whole(page)
            return None if whole is None else ((page.seen is None, -(page.seen or 0), identify(number, whole.url)),
                                               number, page)

        for _, pages in groupby(history.recent_held(), key=lambda page: page.seen):
            yield from sorted(filter(None, map(keyed, pages)), key=lambda one: one[0])

    streams = [ordered(number, history) for number, history in enumerate(histories)]
    for _, number, page in heapq.merge(*streams, key=lambda one: one[0]):
        whole = histories[number].whole(page)
        if whole is not None:
            yield number, whole

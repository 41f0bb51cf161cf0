"""Files that hold the words of a query: what ripgrep is asked for, then exact counting and ranking.

ripgrep is asked for more than what matches, never for less; what comes back is judged by `lspipe.words`, as every
source does. A phrase has to stand on one line.

The score of a file is, over the words, the sum of ln(1 + N/df) * (1 + ln tf) * strength, divided by
sqrt(1 + length/1000): N files were searched, df of them hold the word, tf of the file's lines do, length is its size
in bytes, and strength is 1 for a whole token and 0.8 for one that only begins with the word.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lspipe import matching, rghits, wordpatterns, words
from lspipe.filerow import FileFacts
from lspipe.lexical import STOP
from lspipe.matching import Field, Matcher
from lspipe.words import Query, Term

#: How many lines of a file are named beside its best one, and how many characters of that are kept.
LINES, BEST_CHARS = 20, 1000


class Plan(NamedTuple):
    """A query, cut into what is looked for in the text and what the path decides.

    `terms` are looked for in the text: the first `wanted` of them, and then those that must not be there.
    """

    query: Query
    terms: tuple[Term, ...]
    wanted: int
    all_terms: bool

    @property
    def hopeless(self) -> bool:
        """Whether no file can match: a site is asked for, or something in which there is no letter and no digit."""
        return bool(self.query.sites) or self.query.empty


def plan(text: str, all_terms: bool = False) -> Plan:
    """What to look for. Words that say nothing about a subject (`the`, `how`) count only where nothing else is
    wanted, or all words are."""
    query = words.parse(text)
    wanted = [term for term in query.wanted if term.field is None]
    telling = [term for term in wanted if term.phrase or term.key not in STOP]
    if telling and not all_terms:
        wanted = telling
    unwanted = [term for term in query.excluded if term.field is None]
    return Plan(query, (*wanted, *unwanted), len(wanted), all_terms)


def patterns(plan: Plan) -> list[str]:
    """For ripgrep; one of them is in every line that holds a term. Any line, where no text is wanted."""
    return wordpatterns.patterns(plan.terms) if plan.wanted else ["^"]


@dataclass(eq=False)
class Counted:
    """What was found in one file."""

    best: rghits.Hit
    #: By number of the term: how many lines hold it, and the best strength.
    counts: list[int]
    strengths: list[float]
    #: How many lines hold any of them.
    line_count: int = 0
    #: The best lines: what each is worth, and minus its number.
    lines: list[tuple[float, int]] = field(default_factory=list)
    #: The terms that name or path hold, as typed.
    by_path: Sequence[str] = ()

    def keep(self, worth: float, line: rghits.Hit) -> None:
        """Remember a line if it is among the best."""
        entry = (worth, -line.line)
        if not self.lines or entry > max(self.lines):
            self.best = line
        self.lines.append(entry)
        if len(self.lines) > LINES + 1:
            self.lines.remove(min(self.lines))

    @property
    def others(self) -> list[int]:
        """The numbers of the best lines but the first, ascending."""
        return sorted(-number for _worth, number in sorted(self.lines)[:-1])


class Ranking:
    """Counts which terms of a plan are where, and ranks the files that are asked for."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # All terms are wanted here, also those that must not be there: what counts is whether they are.
        self._matcher = Matcher(Query("", tuple(term._replace(exclude=False) for term in plan.terms)))
        by_path = tuple(term for term in plan.query.terms if term.field is not None)
        self._path_matcher = Matcher(Query("", by_path)) if by_path else None
        #: By number of the term: in how many files it is.
        self._df = [0] * len(plan.terms)
        self._files: list[tuple[FileFacts, Counted]] = []

    def files(self, hits: Iterable[rghits.Hit]) -> Iterator[tuple[bytes, Counted]]:
        """The path of each file that the query asks for, and what was counted in it."""
        size = len(self._plan.terms)
        for file, lines in itertools.groupby(hits, key=lambda hit: hit.file):
            counted = None
            for line in lines:
                counted = counted or Counted(line, [0] * size, [0.0] * size)
                self._count(counted, line)
            if counted is None or not counted.lines or not self._accepts(counted):
                continue
            found = self._on_path(file.path)
            if found is not None:
                counted.by_path = found
                counted.best = self._at_first_word(counted.best)
                yield file.path, counted

    def _count(self, counted: Counted, line: rghits.Hit) -> None:
        match = self._matcher.match((Field("text", line.text),))
        if match is None:
            if not self._plan.wanted:
                counted.keep(0.0, line)
            return
        counted.line_count += 1
        for index, strength in enumerate(match.strengths):
            if strength:
                if not counted.counts[index]:
                    self._df[index] += 1
                counted.counts[index] += 1
                counted.strengths[index] = max(counted.strengths[index], strength)
        counted.keep(math.fsum(match.strengths[:self._plan.wanted]), line)

    def _accepts(self, counted: Counted) -> bool:
        wanted, unwanted = counted.counts[:self._plan.wanted], counted.counts[self._plan.wanted:]
        if any(unwanted):
            return False
        return all(wanted) if self._plan.all_terms or not wanted else any(wanted)

    def _on_path(self, path: bytes) -> Sequence[str] | None:
        """The terms with title: and url: that hold of this path; None where it is out."""
        if self._path_matcher is None:
            return ()
        text = path.decode("utf-8", "replace")
        found = self._path_matcher.match((Field("title", text.rpartition("/")[2]), Field("path", text)))
        return None if found is None else found.terms

    def _at_first_word(self, line: rghits.Hit) -> rghits.Hit:
        found = matching.places(line.text, self._matcher.query)
        return rghits.moved(line, found[0][0] if found else line.at, BEST_CHARS)

    def add(self, facts: FileFacts, counted: Counted) -> None:
        """Rank this file, too."""
        self._files.append((facts, counted))

    def ranked(self, searched: int | None) -> list[tuple[FileFacts, Counted, float]]:
        """The files that were added with their scores, best first, ties by id.

        `searched` is how many files there were; where time was over and nobody knows, they are compared with each
        other alone.
        """
        n = len(self._files) if searched is None else searched
        scored = [(facts, counted, self._score(counted, n, facts.size)) for facts, counted in self._files]
        return sorted(scored, key=lambda one: (-one[2], one[0].id))

    def _score(self, counted: Counted, n: int, length: int) -> float:
        wanted = list(zip(counted.counts, counted.strengths, self._df, strict=True))[:self._plan.wanted]
        total = math.fsum(math.log(1 + max(n, df) / df) * (1 + math.log(count)) * strength
                          for count, strength, df in wanted if count)
        return round(total / math.sqrt(1 + max(length, 0) / 1000), 6)

    def matched(self, counted: Counted) -> list[str]:
        """The terms that the file holds, as typed, in the query's order."""
        wanted = self._plan.terms[:self._plan.wanted]
        held = {term for term, count in zip(wanted, counted.counts, strict=False) if count}
        found = [term.text for term in self._plan.query.wanted
                 if term in held or (term.field is not None and term.text in counted.by_path)]
        return list(dict.fromkeys(found))

    def frequencies(self) -> dict[str, int]:
        """In how many files each wanted word is."""
        keys = (term.key for term in self._plan.terms[:self._plan.wanted])
        return dict(zip(keys, self._df, strict=False))

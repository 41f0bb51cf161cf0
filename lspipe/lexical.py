"""What a row says about a query: BM25 over porter stems, proximity and coverage (pure).

BM25 is that of Robertson and Zaragoza (The Probabilistic Relevance Framework, 2009) with k1 1.2 and b 0.75,
the stems are those that SQLite's FTS5 makes, and rarity comes from the `corpus` figures: all candidates
hold the words, so that counting among them would make every word common. No mark of a row depends on which
other rows are there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lspipe import folding, matching, urls, words
from lspipe.row import Row

if TYPE_CHECKING:
    import sqlite3

K1 = 1.2
B = 0.75
#: The length, in words, of a row of usual length. A constant, not the average of the candidates: see above.
USUAL = 50
#: A word in the title counts as two.
TITLE = 2
#: Words further apart than this are not near each other.
NEAR = 16
#: How many characters of one field are read: a row may hold a megabyte of text.
READ = 20_000

#: How FTS5 makes stems of tokens.
TOKENIZE = "porter unicode61"

_COLUMNS = ("title", "url", "labels", "snippet", "text", "joined")
#: A place is the number of the column times this, plus the offset in it.
_COLUMN = 1 << 32
_JOINED = _COLUMNS.index("joined") * _COLUMN
_RUN = re.compile(r"[^\W_]+")

#: Words that say nothing about the subject of a question; left out unless nothing else is there.
STOP = frozenset((
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being",
    "but", "by", "can", "could", "did", "do", "does", "doing", "each", "for", "from", "had", "has",
    "have", "having", "he", "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my",
    "no", "nor", "not", "of", "on", "or", "our", "she", "should", "so", "some", "such", "than", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "us",
    "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why",
    "will", "with", "would", "you", "your",
))


class Marks(NamedTuple):
    """What one row earns: BM25, at least 0; nearness and coverage, 0..1."""

    bm25: float
    proximity: float
    coverage: float


@dataclass
class Unit:
    """The stem of a word, or those of a phrase; how rare it is and how often it was asked for."""

    stems: tuple[str, ...]
    idf: float
    times: int = 1


def lexical(rows: Sequence[Row], query: str, corpus: Sequence[Mapping[str, Any]]) -> list[Marks] | None:
    """The marks of each row; None where the query holds no word to score by.

    Searched are title, decoded url, folder and tags, snippet and text. `corpus` is the union for all rows;
    where it is empty all words weigh the same.
    """
    import sqlite3

    base = sqlite3.connect(":memory:")
    try:
        asked = units(base, words.parse(query), corpus)
        if not asked:
            return None
        lengths = _fill(base, rows)
        # For each row the places of each unit.
        places: list[dict[int, list[int]]] = [{} for _ in rows]
        for number, unit in enumerate(asked):
            for row, place in _occurrences(base, unit.stems):
                places[row].setdefault(number, []).append(place)
        return [_mark(asked, found, length) for found, length in zip(places, lengths, strict=True)]
    finally:
        base.close()


def units(base: "sqlite3.Connection", query: words.Query, corpus: Sequence[Mapping[str, Any]]) -> list[Unit]:
    """The wanted terms of the query as stems, with their rarity. One that is asked for twice counts twice.

    A phrase, and a word of several parts such as `time-sharing`, is one unit: the sources report one figure for it.
    """
    terms = [term for term in query.terms if not term.exclude and term.field != "site"]
    terms = [term for term in terms if term.phrase or term.key not in STOP] or terms
    n = sum(entry["n"] for entry in corpus)
    _table(base, "asked", ("term",), ((_apart(term.words),) for term in terms))
    stems: dict[int, list[str]] = {}
    for number, stem in base.execute("SELECT doc, term FROM asked_stems ORDER BY doc, offset"):
        stems.setdefault(number, []).append(stem)
    found: dict[tuple[str, ...], Unit] = {}
    for number, term in enumerate(terms):
        df = sum(entry["df"].get(term.key, 0) for entry in corpus)
        idf = matching.idf(n, df) if n else 1.0
        key = tuple(stems.get(number, ()))
        if key in found:
            found[key].times += 1
            found[key].idf = min(idf, found[key].idf)
        elif key:
            found[key] = Unit(key, idf)
    return list(found.values())


def _table(
    base: "sqlite3.Connection", name: str, columns: Sequence[str], rows: Iterable[tuple[str, ...]]
) -> None:
    """An FTS5 table of `rows`, numbered from 0, and `<name>_stems`: every stem with its place."""
    base.execute(
        f"CREATE VIRTUAL TABLE {name} USING fts5({','.join(columns)}, content='', columnsize=0,"
        f" tokenize='{TOKENIZE}')"
    )
    base.executemany(
        f"INSERT INTO {name}(rowid,{','.join(columns)}) VALUES (?{',?' * len(columns)})",
        ((number, *row) for number, row in enumerate(rows)),
    )
    base.execute(f"CREATE VIRTUAL TABLE {name}_stems USING fts5vocab({name}, instance)")


def _apart(tokens: Iterable[str]) -> str:
    """Tokens as text for FTS5; a CJK letter is a token of its own, so that a word in a run is found."""
    return " ".join(
        " ".join(token) if not token.isascii() and any(map(folding.is_cjk, token)) else token for token in tokens
    )


def _texts(row: Row) -> tuple[str, str, str, str, str]:
    """What is searched, in the order of the columns."""
    meta = row.get("meta") or {}
    text = row.get("text") or ""
    snippet = row.get("snippet") or ""
    if text and snippet and " ".join(snippet.split()).strip("… ") in " ".join(text.split()):
        snippet = ""  # It is a window of the text, and would count twice.
    labels = " ".join([*_strings(meta.get("folder")), *_strings(meta.get("tags"))])
    return row.get("title") or "", urls.url_words(row["url"]), labels, snippet, text


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _fill(base: "sqlite3.Connection", rows: Iterable[Row]) -> list[int]:
    """Index the rows; the length of each, in words."""
    lengths: list[int] = []

    def contents() -> Iterator[tuple[str, ...]]:
        for row in rows:
            fields: list[str] = []
            joined: list[str] = []
            length = 0
            for text in _texts(row):
                text = text[:READ]
                tokens = [token.text for token in folding.tokens(text)]
                length += len(tokens) if fields else TITLE * len(tokens)
                fields.append(_apart(tokens))
                # `JavaScript` is cut into java and script, and is found as javascript, too.
                known = set(tokens)
                joined += [run for run in _RUN.findall(folding.fold(text)) if run not in known]
            lengths.append(length)
            yield (*fields, _apart(joined))

    _table(base, "found", _COLUMNS, contents())
    return lengths


def _occurrences(base: "sqlite3.Connection", stems: Sequence[str]) -> list[tuple[int, int]]:
    """(row, place) of each place where the stems stand in this order."""
    found: set[tuple[int, int]] = set()
    for shift, stem in enumerate(stems):
        here = {
            (row, _COLUMNS.index(column) * _COLUMN + offset - shift)
            for row, column, offset in base.execute(
                "SELECT doc, col, offset FROM found_stems WHERE term = ?", (stem,)
            )
        }
        found = found & here if shift else here
    return sorted(found)


def _mark(asked: Sequence[Unit], found: Mapping[int, Sequence[int]], length: int) -> Marks:
    norm = K1 * (1 - B + B * length / USUAL)
    whole = sum(unit.idf for unit in asked) or 1.0  # A handmade `corpus` may have a word in all of 2**53 documents.
    bm25 = coverage = 0.0
    for number, places in found.items():
        unit = asked[number]
        frequency = sum(TITLE if place < _COLUMN else 1 for place in places)
        bm25 += unit.times * unit.idf * frequency * (K1 + 1) / (frequency + norm)
        coverage += unit.idf / whole
    return Marks(bm25, min(1.0, _nearness(asked, found) / whole), min(1.0, coverage))


def _nearness(asked: Sequence[Unit], found: Mapping[int, Sequence[int]]) -> float:
    """The sum over pairs of units of the lesser rarity divided by the square of their least distance."""
    line = sorted((place, number) for number, places in found.items() for place in places if place < _JOINED)
    least: dict[tuple[int, int], int] = {}
    for at, (place, number) in enumerate(line):
        for other_place, other in line[at + 1 :]:
            distance = other_place - place
            if distance > NEAR:
                break
            if other != number and distance:
                pair = (number, other) if number < other else (other, number)
                least[pair] = min(distance, least.get(pair, distance))
    return sum(min(asked[a].idf, asked[b].idf) / (apart * apart) for (a, b), apart in least.items())

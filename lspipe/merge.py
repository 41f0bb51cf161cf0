"""Several rows that are the same result made one, and the corpus figures of many rows united (pure).

Modules that most rows do not need are imported where one does: starting is what most runs spend their time on.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from lspipe.row import Row, identify, is_private

#: How many other matching lines a merged file names.
LINES = 20
#: The highest number that JSON holds exactly; the schema has no higher one.
MOST = 2**53 - 1


#: A url that is its own canonical form; most are, and looking is quicker than taking it apart.
_CANONICAL = re.compile(r"https?://[a-z0-9.-]+/[^?#]+\Z")


def place_of(url: str, location: Any = None) -> str:
    """What makes two urls the same result: the path of a file, a wiki's page among them, else the canonical url."""
    if _CANONICAL.match(url):
        return url
    from lspipe import urls

    path = location.get("path") if isinstance(location, dict) and url[:6] == "qmd://" else None
    if isinstance(path, str) and path[:1] == "/":
        return "file:" + path

    if url[:5].lower() == "file:":
        try:
            return "file:" + urls.file_path(url).decode("utf-8", "surrogateescape")
        except ValueError:
            pass
    return urls.canonical(url)


def own_id(row: Row) -> str:
    """An id for a row that came without one."""
    provenance = row.get("provenance") or {}
    location = row.get("location") or {}
    line = location.get("line")
    key = None if line is None else f"{int(line)}:{int(location.get('column', 1))}"
    return identify(row["source"], provenance.get("browser"), provenance.get("profile"), row["url"], key)


def merge(rows: Sequence[Row]) -> Row:
    """One row of several that are the same result, best first: the fields of the first, and what the others
    add.

    `matched_terms` united in the query's order, the longest `text`, the newest `accessed_at`, private if
    any is. Sets `meta.sources` and, for a file, `meta.lines`: the lines of the best of the others,
    ascending.
    """
    best = dict(rows[0])
    meta = dict(best.get("meta") or {})
    terms = _union(row.get("matched_terms") for row in rows)
    if terms:
        asked = _places(best.get("query") or "")
        best["matched_terms"] = sorted(terms, key=lambda term: asked.get(term, len(asked)))
    text = max((row.get("text") or "" for row in rows), key=len)
    if text:
        best["text"] = text
    newest = max(row.get("accessed_at") or "" for row in rows)
    if newest and newest != best.get("accessed_at"):
        best["accessed_at"] = newest
        meta.pop("time_quality", None)  # It said why there was no time.
    if any(map(is_private, rows)):
        best["provenance"] = {**(best.get("provenance") or {}), "private": True}
    meta["sources"] = sorted({row["source"] for row in rows}.union(*map(_sources, rows)))
    own = (best.get("location") or {}).get("line")
    lines = [line for line in _union(map(_lines, rows)) if line != own][:LINES]
    if lines:
        meta["lines"] = sorted(lines)
    best["meta"] = meta
    return best


def _union(parts: Iterable[Sequence[Any] | None]) -> list[Any]:
    return list(dict.fromkeys(item for part in parts for item in part or ()))


def _gathered(row: Row, key: str) -> list[Any]:
    """What an earlier merge has left in `meta`; anything may stand there in a handmade row."""
    value = (row.get("meta") or {}).get(key)
    return value if isinstance(value, list) else []


def _sources(row: Row) -> list[str]:
    return [name for name in _gathered(row, "sources") if isinstance(name, str)]


def _lines(row: Row) -> list[int]:
    found = [(row.get("location") or {}).get("line"), *_gathered(row, "lines")]
    return [int(line) for line in found
            if isinstance(line, int | float) and not isinstance(line, bool) and 1 <= line <= MOST]


@functools.lru_cache(maxsize=8)
def _places(query: str) -> dict[str, int]:
    """Where each word of the query stands in it."""
    from lspipe import words

    places: dict[str, int] = {}
    for term in words.parse(query).wanted:
        places.setdefault(term.text, len(places))
    return places


#: Corpora that are known of an answer: one for each profile, folder and wiki, so far beyond what anybody has.
_ENTRIES = 200


class Corpora:
    """The union of `corpus` figures: one entry for each id, and the larger figure where two differ."""

    def __init__(self) -> None:
        self._n: dict[str, int] = {}
        self._df: dict[str, dict[str, int]] = {}

    def add(self, corpus: Iterable[Mapping[str, Any]]) -> None:
        """Take in the entries of one row."""
        for entry in corpus:
            name = entry["id"]
            self._n[name] = max(int(entry["n"]), self._n.get(name, 0))
            known = self._df.setdefault(name, {})
            for word, count in entry["df"].items():
                known[word] = max(int(count), known.get(word, 0))

    def union(self) -> list[dict[str, Any]]:
        """The entries sorted by id and their words sorted, so that equal figures are equal bytes.

        Every row carries all of them, so that there are at most _ENTRIES, the largest: else the rows of made-up sources
        would grow by the square of their number.
        """
        names = sorted(self._n)
        if len(names) > _ENTRIES:
            names = sorted(sorted(names, key=lambda name: -self._n[name])[:_ENTRIES])
        return [{"id": name, "n": self._n[name], "df": dict(sorted(self._df[name].items()))} for name in names]


def pack(row: Row) -> bytes:
    """A row as JSON, to be kept: a copy, because what orjson returns holds on to several times its length."""
    return bytes(memoryview(orjson.dumps(row)))

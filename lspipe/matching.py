"""Whether a row matches a query, where, and how much of the query it covers (pure).

A word matches where a token begins with it, and anywhere inside a run of Chinese, Japanese or Korean: `github`,
`git` and `hub` find `GitHub`, `ithub` does not.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lspipe import urls
from lspipe.folding import Text, fold, is_cjk
from lspipe.words import Query, Term, site_form

#: What a word counts where it only begins a token, against 1 for a whole one.
PREFIX = 0.8
#: So many words are looked for in SQL, and so many letters of each.
_LIKES, _LIKE = 200, 64
_LETTER = re.compile(r"[^\W_]")


class Field(NamedTuple):
    """A part of a row that is searched, and its weight (> 0).

    The names are "title", "host", "path", "url", "text" and "tags".

    A phrase matches inside one field: for `docs.rs/tokio` to match, "url" has to hold host and path as well.
    """

    name: str
    text: str
    weight: float = 1.0


class Match(NamedTuple):
    """The typed text of the wanted terms that a row holds, and a strength for every wanted term, 0 for none."""

    terms: tuple[str, ...]
    strengths: tuple[float, ...]


def _occurrences(term: Term, text: Text) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whole) of each match, in places of the folded text; whole: it is tokens and not a part.

    The words of a term follow each other with no letter or digit between, all but the last as whole tokens;
    the last one too in a phrase. CJK words need not be whole anywhere, nor begin a token.
    """
    low, first = text.low, term.words[0]
    inside = is_cjk(first[0])
    start = low.find(first)
    while start >= 0:
        begins = text.boundary(start)
        if begins or inside:
            end = _end(term, text, start)
            if end is not None:
                ends = text.boundary(end)
                if ends or not term.phrase or is_cjk(low[end - 1]):
                    yield start, end, begins and ends
        start = low.find(first, start + 1)


def _end(term: Term, text: Text, start: int) -> int | None:
    low = text.low
    end = start + len(term.words[0])
    for word in term.words[1:]:
        if not text.boundary(end) and not is_cjk(low[end - 1]):
            return None
        following = _LETTER.search(low, end)
        if following is None:
            return None
        at = following.start()
        if not low.startswith(word, at) or not (text.boundary(at) or is_cjk(word[0])):
            return None
        end = at + len(word)
    return end


def _strength(term: Term, raw: str, low: str) -> float:
    """1 where the term is whole tokens, PREFIX where it only begins one, 0 where it is not."""
    if len(term.words) == 1 and not term.phrase and raw.isascii():
        return _ascii_strength(term.words[0], raw, low)
    best = 0.0
    for _start, _end, whole in _occurrences(term, Text(raw, low)):
        if whole:
            return 1.0
        best = PREFIX
    return best


def _ascii_strength(word: str, raw: str, low: str) -> float:
    """What `_strength` is for one word in ASCII text: nearly all that is ever asked, so without the objects."""
    best = 0.0
    start = low.find(word)
    while start >= 0:
        if start == 0 or not low[start - 1].isalnum() or (raw[start - 1].islower() and raw[start].isupper()):
            end = start + len(word)
            if end == len(low) or not low[end].isalnum() or (raw[end - 1].islower() and raw[end].isupper()):
                return 1.0
            best = PREFIX
        start = low.find(word, start + 1)
    return best


class _Probe(NamedTuple):
    """A term as a Matcher asks for it: where, and whether a row without it is out."""

    term: Term
    first: str
    names: frozenset[str] | None
    required: bool


_NAMES = {"title": frozenset({"title"}), "url": frozenset({"host", "path", "url"})}


class Matcher:
    """A query made ready for many rows.

    A row matches when any wanted term does (with `all_terms`: when every one does), every `title:` and `url:`
    term among them does, no excluded term does, and it is at one of the sites. A query of only exclusions and
    sites, and a blank one, match with no strengths; one without any letter or digit never matches.
    """

    def __init__(self, query: Query, all_terms: bool = False) -> None:
        self.query = query
        self._never = query.empty and not query.text.isspace() and query.text != ""
        self._wanted = [_probe(term, all_terms or term.field is not None) for term in query.wanted]
        self._firsts = [probe.first for probe in self._wanted]
        self._excluded = [_probe(term, False) for term in query.excluded]
        self._sites = tuple(term.words[0] for term in query.sites)
        self._excluded_sites = tuple(term.words[0] for term in query.excluded_sites)

    def match(self, fields: Sequence[Field]) -> Match | None:
        """What the row with these fields matches; None where it does not.

        `site:` looks at the fields named "host", and where there is none at a "url" that holds a whole url.
        """
        if self._never or (self._wanted and self._hopeless(fields)):
            return None
        texts = [_prepared(field) for field in fields]
        terms = []
        strengths = []
        for probe in self._wanted:
            strength = _best(probe, texts)
            if strength:
                terms.append(probe.term.text)
            elif probe.required:
                return None
            strengths.append(strength)
        if strengths and not terms:
            return None
        if any(_best(probe, texts) for probe in self._excluded):
            return None
        if (self._sites or self._excluded_sites) and not self._at_site(fields):
            return None
        return Match(tuple(terms), tuple(strengths))

    def _hopeless(self, fields: Sequence[Field]) -> bool:
        """Whether a row of ASCII text, as most are, holds no wanted word even as a part of one."""
        text = "\n".join([field.text for field in fields])
        if not text.isascii():
            return False
        low = text.lower()
        return "xn--" not in low and not any(word in low for word in self._firsts)

    def _at_site(self, fields: Sequence[Field]) -> bool:
        names = [name for field in fields if field.name == "host" for name in field.text.split()]
        if not names:
            names = [urls.host(field.text) for field in fields if field.name == "url"]
        hosts = [site_form(name) for name in names]
        if any(_at(host, site) for host in hosts for site in self._excluded_sites):
            return False
        return not self._sites or any(_at(host, site) for host in hosts for site in self._sites)


def _at(host: str, site: str) -> bool:
    return host == site or host.endswith("." + site)


def _probe(term: Term, required: bool) -> _Probe:
    return _Probe(term, term.words[0], _NAMES.get(term.field or ""), required)


def _prepared(field: Field) -> tuple[str, str, str, float]:
    """(name, text, folded text, weight); a host in all its forms: as stored, in letters, as `xn--`."""
    name, text, weight = field
    if text.isascii():
        low = text.lower()
        if name != "host" or "xn--" not in low:
            return name, text, low, weight
    if name == "host":
        forms = text.split()
        forms += [urls.unicode_host(form) for form in forms]
        forms += [urls.ascii_host(form) for form in forms]
        text = " ".join(dict.fromkeys(forms))
    return name, text, fold(text), weight


def _best(probe: _Probe, texts: list[tuple[str, str, str, float]]) -> float:
    """The greatest strength of a term in a row."""
    term, first, names, _required = probe
    best = 0.0
    for name, text, low, weight in texts:
        if first in low and weight > best and (names is None or name in names):
            best = max(best, weight * _strength(term, text, low))
    return best


def idf(n: int, df: int) -> float:
    """How rare a word is: ln(1 + (n - df + 0.5) / (df + 0.5)), which is Robertson's weight kept above zero.

    `n` documents, `df` of them with the word; figures that cannot be (df > n) are brought into range.
    """
    n = max(n, 0)
    df = min(max(df, 0), n)
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


def coverage_score(match: Match, query: Query, n: int, df: Mapping[str, int]) -> float:
    """How much of the query a row covers: the sum of rarity times strength over the wanted terms. Finite.

    `df` counts documents by `Term.key`; a term that it does not name is as rare as can be.
    """
    pairs = zip(query.wanted, match.strengths, strict=True)
    return math.fsum(idf(n, df.get(term.key, 0)) * strength for term, strength in pairs if strength)


def places(text: str, query: Query) -> list[tuple[int, int, int]]:
    """(start, end, number of the wanted term) of every match in the text, in order; fields are not asked."""
    prepared = Text(text, fold(text))
    return sorted(
        (*prepared.span(start, end), number)
        for number, term in enumerate(query.wanted)
        for start, end, _whole in _occurrences(term, prepared)
    )


def spans(text: str, query: Query) -> list[tuple[int, int]]:
    """The stretches of the text that match a wanted term, in order; those that touch are one."""
    merged: list[tuple[int, int]] = []
    for start, end, _number in places(text, query):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def ascii_likes(query: Query) -> list[str] | None:
    """Words, one of which is in every ASCII text that the query matches; None where there are none such.

    For SQL: `column LIKE '%word%' OR ...`; they hold neither `%` nor `_`. A row in which a column is not
    ASCII, or a url holds `%` or `xn--`, has to be let through: it is matched in a form that is not stored.
    Where there are more than _LIKES, looking for each is no gain, and more than SQL takes; nor does it take long ones.
    """
    words = {max(term.words, key=len)[:_LIKE]: None for term in query.wanted}
    if not 0 < len(words) <= _LIKES or not all(word.isascii() for word in words):
        return None
    return list(words)

"""The query language: folding, tokens, parsing, matching, coverage (pure).

A query is words, "phrases", -word, site:host, title:word and url:word. Text and query are folded alike
(NFKC, casefold, marks removed). A word matches where a token begins with it, and anywhere inside a run of
Chinese, Japanese or Korean. `GitHub` is one word and two tokens: `github`, `git` and `hub` find it, `ithub`
does not.
"""

import bisect
import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lspipe import urls
from lspipe.row import normalize_query as normalize

__all__ = [
    "CJK", "PREFIX", "Field", "Match", "Matcher", "Query", "Term", "Token", "ascii_likes",
    "coverage_score", "fold", "idf", "is_cjk", "normalize", "parse", "places", "spans", "tokens",
]

#: What a word counts where it only begins a token, against 1 for a whole one.
PREFIX = 0.8
#: So many words are looked for in SQL, and so many letters of each.
_LIKES, _LIKE = 200, 64

# Hangul, Han, kana and Bopomofo, each range by its first and its last letter.
_CJK_RANGES = (
    "\u1100\u11ff", "\u2e80\u2fdf", "\u3005\u3007", "\u3021\u3029", "\u3031\u3035", "\u303b\u303c",
    "\u3041\u3096", "\u309d\u309f", "\u30a1\u30fa", "\u30fc\u30ff", "\u3105\u312f", "\u3131\u318e",
    "\u31a0\u31bf", "\u31f0\u31ff", "\u3400\u4dbf", "\u4e00\u9fff", "\ua960\ua97c", "\uac00\ud7a3",
    "\ud7b0\ud7fb", "\uf900\ufaff", "\U0001aff0\U0001b16f", "\U00020000\U000323af",
)

#: The letters of the scripts in which a word matches anywhere inside a run, as the body of a character class,
#: good for `re` and for ripgrep.
CJK = "".join(f"{pair[0]}-{pair[1]}" for pair in _CJK_RANGES)

_RUN = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"[^\W_]")
#: One token of ASCII text: a run of letters and digits, cut where a capital follows a small letter.
_ASCII_TOKEN = re.compile(r"(?=[A-Za-z0-9])[A-Z0-9]*(?:[a-z]+[0-9][A-Z0-9]*)*[a-z]*")

# What the Unicode tables leave to the language: the Turkish dotless i is the small form of I, which everybody
# else writes i; a tatweel stretches an Arabic word on the page and is no letter of it.
_LETTERS = {"ı": "i", "\u0640": ""}
# Invisible, but the border of words in Thai and Khmer: the one format character that is not ignored.
_ZERO_WIDTH_SPACE = "\u200b"


class _Cjk(dict[str, bool]):
    """Whether each character is in CJK, worked out when first met: quicker than a pattern, above all to set up."""

    def __missing__(self, char: str) -> bool:
        self[char] = found = any(pair[0] <= char <= pair[1] for pair in _CJK_RANGES)
        return found


_IS_CJK = _Cjk()


def is_cjk(char: str) -> bool:
    """Whether a character is a letter of a script in which a word matches anywhere inside a run."""
    return _IS_CJK[char]


@functools.cache
def _syllable() -> re.Pattern[str]:
    """Letters of Hangul that compose to one syllable (Unicode, section 3.12)."""
    open_ones = "".join(map(chr, range(0xAC00, 0xD7A4, 28)))
    return re.compile(f"[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[{open_ones}][\u11a8-\u11c2]")


def _ignored(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] == "M" or (category == "Cf" and char != _ZERO_WIDTH_SPACE)


class _Fold(dict[int, str]):
    """What each character folds to, worked out when first met: "" for marks and invisible characters."""

    def __missing__(self, code: int) -> str:
        text = unicodedata.normalize("NFD", chr(code))
        for _ in range(2):  # Decomposing can bring up letters that still have a case (Unicode, D146).
            text = unicodedata.normalize("NFKD", text.casefold())
        text = "".join(_LETTERS.get(char, char) for char in text if not _ignored(char))
        self[code] = text = unicodedata.normalize("NFC", text)
        return text


_FOLD = _Fold()


def fold(text: str) -> str:
    """The form in which text and query are compared: NFKC, casefold, marks removed.

    Idempotent, and the same for every normalization form of a text. Invisible format characters (soft hyphen,
    joiners, direction marks) go as the marks do.
    """
    if text.isascii():
        return text.lower()
    # One character after the other is exact: without the marks nothing is reordered, and of what is left only
    # Hangul composes across characters, which the last step does.
    return unicodedata.normalize("NFC", text.translate(_FOLD))


class _Text:
    """A text and its folded form, with the way back from places in the second to places in the first."""

    __slots__ = ("_owners", "low", "plain", "raw")

    def __init__(self, raw: str, low: str) -> None:
        self.raw = raw
        self.low = low
        self.plain = raw.isascii()
        self._owners: list[int] | None = None

    def boundary(self, at: int) -> bool:
        """Whether one token ends or another begins at this place of the folded text."""
        low, raw = self.low, self.raw
        if at <= 0 or at >= len(low):
            return True
        before, after = low[at - 1], low[at]
        if not (before.isalnum() and after.isalnum()):
            return True
        if self.plain:
            return raw[at - 1].islower() and raw[at].isupper()
        if _IS_CJK[before] != _IS_CJK[after]:
            return True
        return raw[self.owners[at - 1]].islower() and raw[self.owners[at]].isupper()

    @property
    def owners(self) -> list[int]:
        """For each folded character the place of the character that it came from."""
        if self._owners is None:
            owners = [at for at, char in enumerate(self.raw) for _ in _FOLD[ord(char)]]
            if len(owners) != len(self.low):
                first = bytearray(b"\1" * len(owners))
                for found in _syllable().finditer(self.raw.translate(_FOLD)):
                    first[found.start() + 1 : found.end()] = bytes(found.end() - found.start() - 1)
                owners = list(itertools.compress(owners, first))
            self._owners = owners
        return self._owners

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the folded text stands in the text, with the marks after its last letter."""
        if self.plain:
            return start, end
        owners = self.owners
        stop = owners[end] if end < len(owners) else len(self.raw)
        return owners[start], max(stop, owners[end - 1] + 1)


class Token(NamedTuple):
    """A folded token, and where it stands in the text as it was."""

    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The tokens of a text: runs of letters and digits, cut also at `_`, at aB and where a CJK run ends."""
    if text.isascii():
        return [Token(found.group().lower(), *found.span()) for found in _ASCII_TOKEN.finditer(text)]
    prepared = _Text(text, fold(text))
    low, letters = prepared.low, [text[owner] for owner in prepared.owners]
    cuts = [
        at
        for at in range(1, len(low))
        if _IS_CJK[low[at - 1]] != _IS_CJK[low[at]] or (letters[at - 1].islower() and letters[at].isupper())
    ]
    result = []
    for run in _RUN.finditer(low):
        start, end = run.span()
        for stop in (*cuts[bisect.bisect_right(cuts, start) : bisect.bisect_left(cuts, end)], end):
            result.append(Token(low[start:stop], *prepared.span(start, stop)))
            start = stop
    return result


class Term(NamedTuple):
    """One word of a query; `words` are its folded tokens, several for a phrase or a word like `node.js`."""

    text: str
    words: tuple[str, ...]
    phrase: bool = False
    field: str | None = None
    exclude: bool = False

    @property
    def key(self) -> str:
        """The name under which sources count the documents that hold it."""
        return " ".join(self.words)


@dataclass(frozen=True)
class Query:
    """A parsed query: all its terms as typed, and by what they do, there without doubles."""

    text: str
    terms: tuple[Term, ...]

    @functools.cached_property
    def wanted(self) -> tuple[Term, ...]:
        """The terms that a row is ranked by."""
        return self._pick(site=False, exclude=False)

    @functools.cached_property
    def excluded(self) -> tuple[Term, ...]:
        """The terms that a row must not match."""
        return self._pick(site=False, exclude=True)

    @functools.cached_property
    def sites(self) -> tuple[Term, ...]:
        """The hosts, one of which a row must be at."""
        return self._pick(site=True, exclude=False)

    @functools.cached_property
    def excluded_sites(self) -> tuple[Term, ...]:
        """The hosts that a row must not be at."""
        return self._pick(site=True, exclude=True)

    @property
    def empty(self) -> bool:
        """No term at all: nothing was typed, or nothing in it was a letter or a digit."""
        return not self.terms

    def _pick(self, site: bool, exclude: bool) -> tuple[Term, ...]:
        chosen: dict[tuple[object, ...], Term] = {}
        for term in self.terms:
            if term.exclude == exclude and (term.field == "site") == site:
                chosen.setdefault((term.words, term.phrase, term.field), term)
        return tuple(chosen.values())


_TERM = re.compile(
    r"""(?P<minus>-(?!-))?              # `--force` is a word, not an exclusion
        (?:(?P<field>title|url|site):(?=\S))?
        (?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))""",
    re.VERBOSE | re.IGNORECASE,
)


def parse(text: str) -> Query:
    """The query that a text is; every text is one.

    A quote that is not closed reaches to the end, an unknown prefix is part of its word, and what holds no
    letter and no digit is no term.
    """
    terms = []
    for found in _TERM.finditer(text):
        typed = found["phrase"] if found["word"] is None else found["word"]
        field = found["field"].lower() if found["field"] else None
        words = _site_words(typed) if field == "site" else _words(typed)
        if words:
            exclude = found["minus"] is not None
            terms.append(Term(typed.strip(), words, found["word"] is None, field, exclude))
    return Query(text, tuple(terms))


def _words(text: str) -> tuple[str, ...]:
    # Not cut at aB: `JavaScript` has to find `javascript`, and `javascript` finds both anyway.
    low = fold(text)
    runs = _RUN.findall(low)
    if not low.isascii():
        runs = ["".join(part) for run in runs for _cjk, part in itertools.groupby(run, is_cjk)]
    return tuple(runs)


def _site_words(text: str) -> tuple[str, ...]:
    """The host in the value of `site:`, which may also be `*.host` or a whole url."""
    name = urls.host(text if "://" in text else "//" + text.strip())
    name = _site_form(name.removeprefix("*"))
    return (name,) if name else ()


def _site_form(name: str) -> str:
    """A host as it is compared: in lower case, with letters for `xn--`, without a dot at either end."""
    name = urls.unicode_host(name)
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).lower()
    return name.strip(".")


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


def _occurrences(term: Term, text: _Text) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whole) of each match, in places of the folded text; whole: it is tokens and not a part.

    The words of a term follow each other with no letter or digit between, all but the last as whole tokens;
    the last one too in a phrase. CJK words need not be whole anywhere, nor begin a token.
    """
    low, first = text.low, term.words[0]
    inside = _IS_CJK[first[0]]
    start = low.find(first)
    while start >= 0:
        begins = text.boundary(start)
        if begins or inside:
            end = _end(term, text, start)
            if end is not None:
                ends = text.boundary(end)
                if ends or not term.phrase or _IS_CJK[low[end - 1]]:
                    yield start, end, begins and ends
        start = low.find(first, start + 1)


def _end(term: Term, text: _Text, start: int) -> int | None:
    low = text.low
    end = start + len(term.words[0])
    for word in term.words[1:]:
        if not text.boundary(end) and not _IS_CJK[low[end - 1]]:
            return None
        following = _LETTER.search(low, end)
        if following is None:
            return None
        at = following.start()
        if not low.startswith(word, at) or not (text.boundary(at) or _IS_CJK[word[0]]):
            return None
        end = at + len(word)
    return end


def _strength(term: Term, raw: str, low: str) -> float:
    """1 where the term is whole tokens, PREFIX where it only begins one, 0 where it is not."""
    if len(term.words) == 1 and not term.phrase and raw.isascii():
        return _ascii_strength(term.words[0], raw, low)
    best = 0.0
    for _start, _end, whole in _occurrences(term, _Text(raw, low)):
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
        hosts = [_site_form(name) for name in names]
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
    prepared = _Text(text, fold(text))
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

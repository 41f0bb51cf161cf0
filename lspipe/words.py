"""The query language: what a query asks for, as it was typed (pure).

A query is words, "phrases", -word, site:host, title:word and url:word; how text matches it is in `matching`.
"""

import functools
import itertools
import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from lspipe import folding, urls


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
    low = folding.fold(text)
    runs = folding.RUN.findall(low)
    if not low.isascii():
        runs = ["".join(part) for run in runs for _cjk, part in itertools.groupby(run, folding.is_cjk)]
    return tuple(runs)


def _site_words(text: str) -> tuple[str, ...]:
    """The host in the value of `site:`, which may also be `*.host` or a whole url."""
    name = urls.host(text if "://" in text else "//" + text.strip())
    name = site_form(name.removeprefix("*"))
    return (name,) if name else ()


def site_form(name: str) -> str:
    """A host as it is compared: in lower case, with letters for `xn--`, without a dot at either end."""
    name = urls.unicode_host(name)
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name).lower()
    return name.strip(".")

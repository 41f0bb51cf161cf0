"""Matching and ranking of what browsers keep: fields and their weights, word counts of everything in scope (pure)."""

import re
from collections.abc import Iterable, Iterator, Sequence

from lspipe import folding, matching, urls, words

#: Title over host and path over the rest of the url. A tag was chosen by a person, as a title was.
TITLE, HOST, PATH, REST, TAGS, FOLDER, TEXT = 1.0, 0.8, 0.7, 0.4, 1.0, 0.6, 0.4

Strengths = tuple[float, ...]

_ADDRESS = (HOST, PATH, REST)
#: The same parts as `urls.word_parts` has, of an address without user, port and encoded characters.
_CUT = re.compile(r"https?://([^/?#@:%]*)([^?#%]*)([^%]*)\Z").match
#: Letters and digits that a url encodes. Spaces and marks, encoded or not, are only borders of words.
_ENCODED = re.compile("%(?:[4-9A-Fa-f]|3[0-9])")
#: A character that may become ASCII, or nothing, when it is folded: none of the letters and marks of these scripts.
_FOLDS = re.compile(
    "[^\x00-\x7f\u0391-\u03a9\u03b1-\u03c9\u0400-\u0482\u048a-\u052f\u05d0-\u05ea\u0620-\u063f\u0641-\u064a\u0e01-\u0e30"
    "\u2010-\u2027\u2030-\u2046\u2190-\u2211\u2500-\u27bf\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\U0001f300-\U0001faff]")


def fields(url: str, title: str, text: str = "") -> list[matching.Field]:
    """The searched parts of a page."""
    host, path, rest = urls.word_parts(url)
    return [matching.Field("title", title, TITLE), matching.Field("host", host, HOST),
            matching.Field("path", path, PATH), matching.Field("url", rest, REST),
            matching.Field("text", text, TEXT)]


class Judge:
    """Says how well documents match a query, and counts in how many each of its words occurs.

    The count is of all documents that are shown to it, also of those that an exclusion, a `site:` or a required
    term keeps out of the results: `df` is about the words, not about the answer.
    """

    def __init__(self, query: words.Query, all_terms: bool = False) -> None:
        self.query = query
        self._match = matching.Matcher(query, all_terms).match
        wanted = query.wanted
        plain = not (all_terms or query.excluded or query.sites or query.excluded_sites
                     or any(term.field for term in wanted))
        #: Words that SQL may look for beforehand.
        self.likes = matching.ascii_likes(query)
        #: The words of a query so simple that ASCII text can be judged without a Matcher.
        self._simple = ([term.words[0] for term in wanted]
                        if plain and all(len(term.words) == 1 and not term.phrase and term.key.isascii()
                                         for term in wanted) else [])
        self._alone = [] if plain else [matching.Matcher(words.Query(term.text, (term,))).match for term in wanted]
        #: How many documents matched with which strengths; without results, which terms.
        self._counts: dict[Strengths, int] = {}

    def pages(self, found: Iterable[tuple[int, str, str, str]]) -> Iterator[tuple[int, Strengths]]:
        """(id, strengths) of the pages that match, of (id, url, title, text).

        Of a million urls most that come here are ASCII and match: they are judged in this loop, by the rule that a
        Matcher has for `fields`, without making them.
        """
        simple, counts, nothing = self._simple, self._counts, (0.0,) * len(self._simple)
        for number, url, title, text in found:
            low_url = url.lower()
            plain = title.isascii() and url.isascii() and not text and "xn--" not in low_url
            if not plain or not simple or ("%" in url and not _is_plain(url, low_url)):
                judged = self.page(url, title, text)
                if judged is not None:
                    yield number, judged
                continue
            low, parts = title.lower(), None
            strengths: Strengths = ()
            for word in simple:
                best = _ascii_strength(word, title, low) if word in low else 0.0
                if best < HOST and word in low_url:
                    if parts is None:
                        cut = _CUT(url)
                        parts = cut.groups() if cut is not None else urls.word_parts(url)
                    for weight, part in zip(_ADDRESS, parts, strict=True):
                        if best < weight:
                            low_part = part.lower()
                            if word in low_part:
                                best = max(best, weight * _ascii_strength(word, part, low_part))
                strengths += (best,)
            if strengths != nothing:
                counts[strengths] = counts.get(strengths, 0) + 1
                yield number, strengths

    def page(self, url: str, title: str, text: str) -> Strengths | None:
        """One strength a wanted term, None where the page does not match."""
        if self.likes is not None:
            low = url.lower()
            plain = _is_plain(url, low)
            shown = f"{title} {text}" if text else title
            if not (plain and shown.isascii()) and not self._may_hold(url, low, plain, shown):
                return None
        return self(fields(url, title, text))

    def __call__(self, document: Sequence[matching.Field]) -> Strengths | None:
        """The same for a document that is given in fields."""
        found = self._match(document)
        if self._alone:
            self._count(tuple(1.0 if match(document) is not None else 0.0 for match in self._alone))
        elif found is not None:
            self._count(found.strengths)
        return None if found is None else found.strengths

    def _count(self, strengths: Strengths) -> None:
        if any(strengths):
            self._counts[strengths] = self._counts.get(strengths, 0) + 1

    def _may_hold(self, url: str, low_url: str, plain: bool, shown: str) -> bool:
        """Whether it is worth taking the document apart: one of the words is in it once it is decoded and folded."""
        assert self.likes is not None
        low = shown.lower()
        for word in self.likes:
            if word in low_url or word in low:
                return True
        folded = "" if plain else folding.fold(urls.decoded(url) + " " + urls.host_forms(url)[1])
        if _FOLDS.search(shown):
            # No word holds a space, and what is ASCII between two of them has been looked at.
            folded += " " + folding.fold(" ".join([part for part in shown.split() if not part.isascii()]))
        return any(word in folded for word in self.likes)

    @property
    def df(self) -> dict[str, int]:
        """By folded word, in how many documents it occurs."""
        found = {term.key: 0 for term in self.query.wanted}
        for strengths, count in self._counts.items():
            for key in {term.key for term, one in zip(self.query.wanted, strengths, strict=True) if one}:
                found[key] += count
        return found

    def matched(self, strengths: Strengths) -> list[str]:
        """The matched words as typed, in the query's order."""
        return [term.text for term, one in zip(self.query.wanted, strengths, strict=True) if one]

    def score(self, strengths: Strengths, n: int, df: dict[str, int]) -> float:
        """How much of the query is covered, rare words counting more."""
        return round(matching.coverage_score(matching.Match((), strengths), self.query, n, df), 6)


def _is_plain(url: str, low: str) -> bool:
    """Whether the words of a url can be read in it as it is stored."""
    return url.isascii() and "xn--" not in low and not ("%" in url and _ENCODED.search(url))


def _ascii_strength(word: str, text: str, low: str) -> float:
    """`matching.Matcher`'s rule for one word in ASCII text: a token begins at its ends, at `_`, and between aB."""
    best, at, length = 0.0, low.find(word), len(low)
    while at >= 0:
        if at == 0 or not low[at - 1].isalnum() or (text[at - 1].islower() and text[at].isupper()):
            end = at + len(word)
            if end == length or not low[end].isalnum() or (text[end - 1].islower() and text[end].isupper()):
                return 1.0
            best = matching.PREFIX
        at = low.find(word, at + 1)
    return best

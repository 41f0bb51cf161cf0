"""Matching and ranking of what browsers keep: fields and their weights, word counts of everything in scope (pure)."""

from collections.abc import Sequence

from lspipe import urls, words

#: Title over host and path over the rest of the url. A tag was chosen by a person, as a title was.
TITLE, HOST, PATH, REST, TAGS, FOLDER, TEXT = 1.0, 0.8, 0.7, 0.4, 1.0, 0.6, 0.4

Strengths = tuple[float, ...]


def fields(url: str, title: str, text: str = "") -> list[words.Field]:
    """The searched parts of a page."""
    host, path, rest = urls.word_parts(url)
    return [words.Field("title", title, TITLE), words.Field("host", host, HOST), words.Field("path", path, PATH),
            words.Field("url", rest, REST), words.Field("text", text, TEXT)]


class Judge:
    """Says how well documents match a query, and counts in how many each of its words occurs.

    The count is of all documents that are shown to it, also of those that an exclusion, a `site:` or a required
    term keeps out of the results: `df` is about the words, not about the answer.
    """

    def __init__(self, query: words.Query, all_terms: bool = False) -> None:
        self.query = query
        self._match = words.Matcher(query, all_terms).match
        wanted = query.wanted
        plain = not (all_terms or query.excluded or query.sites or query.excluded_sites
                     or any(term.field for term in wanted))
        #: Words that SQL may look for beforehand.
        self.likes = words.ascii_likes(query)
        #: The words of a query so simple that ASCII text can be judged without a Matcher.
        self._simple = ([term.words[0] for term in wanted]
                        if plain and all(len(term.words) == 1 and not term.phrase and term.key.isascii()
                                         for term in wanted) else [])
        self._alone = [] if plain else [words.Matcher(words.Query(term.text, (term,))).match for term in wanted]
        #: How many documents matched with which strengths; without results, which terms.
        self._counts: dict[Strengths, int] = {}

    def page(self, url: str, title: str, text: str) -> Strengths | None:
        """One strength a wanted term, None where the page does not match."""
        if self.likes is not None:
            low = url.lower()
            if url.isascii() and title.isascii() and "%" not in url and "xn--" not in low and text.isascii():
                if self._simple:
                    strengths = self._ascii(url, low, title, text)
                    self._count(strengths)
                    return strengths if any(strengths) else None
            elif not self._may_hold(url, title, text):
                return None
        return self(fields(url, title, text))

    def __call__(self, document: Sequence[words.Field]) -> Strengths | None:
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

    def _ascii(self, url: str, low_url: str, title: str, text: str) -> Strengths:
        """What a Matcher would say of `fields`, for single words and ASCII text, without making them all."""
        found = []
        low_title, parts = title.lower(), None
        for word in self._simple:
            best = TITLE * _ascii_strength(word, title, low_title) if word in low_title else 0.0
            if best < HOST and word in low_url:
                if parts is None:
                    parts = [(weight, part, part.lower())
                             for weight, part in zip((HOST, PATH, REST), urls.word_parts(url), strict=True)]
                for weight, part, low in parts:
                    if weight > best and word in low:
                        best = max(best, weight * _ascii_strength(word, part, low))
            if best < TEXT and text:
                best = max(best, TEXT * _ascii_strength(word, text, text.lower()))
            found.append(best)
        return tuple(found)

    def _may_hold(self, url: str, title: str, text: str) -> bool:
        """Whether it is worth taking the document apart."""
        assert self.likes is not None
        low = url.lower()
        found = low if url.isascii() and "%" not in url and "xn--" not in low else words.fold(urls.url_words(url))
        if any(word in found for word in self.likes):
            return True
        found = words.fold(f"{title} {text}" if text else title)
        return any(word in found for word in self.likes)

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
        return round(words.coverage_score(words.Match((), strengths), self.query, n, df), 6)


def _ascii_strength(word: str, text: str, low: str) -> float:
    """`words.Matcher`'s rule for one word in ASCII text: a token begins at its ends, at `_`, and between aB."""
    best, at, length = 0.0, low.find(word), len(low)
    while at >= 0:
        if at == 0 or not low[at - 1].isalnum() or (text[at - 1].islower() and text[at].isupper()):
            end = at + len(word)
            if end == length or not low[end].isalnum() or (text[end - 1].islower() and text[end].isupper()):
                return 1.0
            best = words.PREFIX
        at = low.find(word, at + 1)
    return best

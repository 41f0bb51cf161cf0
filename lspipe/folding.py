"""How text is compared: folding, and what a token is (pure).

Text and query are folded alike (NFKC, casefold, marks removed). `GitHub` is one word and two tokens; a run of
Chinese, Japanese or Korean is one token, in which a word matches anywhere.
"""

import bisect
import functools
import itertools
import re
import unicodedata
from typing import NamedTuple

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

#: A run of letters and digits.
RUN = re.compile(r"[^\W_]+")
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


class Text:
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
    prepared = Text(text, fold(text))
    low, letters = prepared.low, [text[owner] for owner in prepared.owners]
    cuts = [
        at
        for at in range(1, len(low))
        if _IS_CJK[low[at - 1]] != _IS_CJK[low[at]] or (letters[at - 1].islower() and letters[at].isupper())
    ]
    result = []
    for run in RUN.finditer(low):
        start, end = run.span()
        for stop in (*cuts[bisect.bisect_right(cuts, start) : bisect.bisect_left(cuts, end)], end):
            result.append(Token(low[start:stop], *prepared.span(start, stop)))
            start = stop
    return result

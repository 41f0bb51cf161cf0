"""A pattern for ripgrep that matches every line in which `lspipe.words` may find a word of a query, and few others.

Each letter becomes the class of all characters that fold to it, marks may stand between letters, and a word must
begin where a token may begin.
"""

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from lspipe import folding
from lspipe.words import Term

#: Where the characters live that fold to something else: to Latin letters and digits, and to any (Unicode 14 to 17).
_LATIN = (
    (0xAA, 0x234), (0x2B0, 0x2E4), (0x1D2C, 0x1EFA), (0x2070, 0x218A), (0x2460, 0x24EB), (0x2C7C, 0x2C7E),
    (0x3250, 0x32D0), (0x3358, 0x3400), (0xA7F1, 0xA7F5), (0xFB00, 0xFB07), (0xFF10, 0xFF5B), (0x107A5, 0x107A6),
    (0x1D400, 0x1D6A5), (0x1D7CE, 0x1D800), (0x1F100, 0x1F191), (0x1FBF0, 0x1FBFA),
)
_ANY = (
    (0xAA, 0x6D4), (0x929, 0xB95), (0xE33, 0x10FD), (0x13F8, 0x13FE), (0x1B06, 0x1B13), (0x1C80, 0x218A),
    (0x2460, 0x24EB), (0x2C00, 0x2D70), (0x2E9F, 0x3400), (0xA640, 0xA7FA), (0xAB5C, 0xABC0), (0xF900, 0xFFDD),
    (0x10400, 0x10596), (0x10781, 0x107BB), (0x10C80, 0x10CB3), (0x1109A, 0x110AC), (0x118A0, 0x118C0),
    (0x16E40, 0x16E60), (0x1D400, 0x1D800), (0x1E900, 0x1E922), (0x1EE00, 0x1EEBC), (0x1F100, 0x1F252),
    (0x1FBF0, 0x1FBFA), (0x2F800, 0x2FA1E),
)
#: Of a longer word only so much is looked for: its pattern must not grow without end. Nor must that of a word in
#: which very many ligatures could stand.
_LETTERS, _LIGATURES = 32, 6
#: Nor that of a phrase: of a longer one its first words will do.
_PHRASE = 6
#: With more terms ripgrep refuses to compile all their spellings.
_SPELLED = 50
_NOT_ASCII = r"(?-u:[\x80-\xff])"
#: What folding ignores between two letters: marks, invisible characters, the tatweel.
_IGNORED = r"[\p{M}\p{Cf}\x{640}]*"
#: Any byte of a character that is no ASCII letter or digit; also one of text that is not UTF-8.
_APART = "(?-u:[^A-Za-z0-9])"


def patterns(terms: Sequence[Term]) -> list[str]:
    """One pattern for each term; of very many only their ASCII spelling, and one for every line that is not ASCII."""
    if len(terms) > _SPELLED:
        first = dict.fromkeys(term.words[0][:_LETTERS] for term in terms)
        return [*(f"(?i-u:{word})" for word in first if word.isascii()), _NOT_ASCII]
    forms = _forms(frozenset("".join(word for term in terms for word in term.words)))
    return [_pattern(term, forms) for term in terms]


class _Forms(NamedTuple):
    """How letters may be written: `single` maps one to all characters that fold to it alone, `several` maps the
    letters of a ligature and its like to the characters that fold to them."""

    single: dict[str, str]
    several: dict[str, str]


@functools.lru_cache(maxsize=4)
def _forms(letters: frozenset[str]) -> _Forms:
    """The forms of these folded letters."""
    ranges = _LATIN if all(map(str.isascii, letters)) else _ANY
    characters = [chr(code) for start, stop in ranges for code in range(start, stop)]
    # One call for all of them is what makes this fast: the exact folding of each is asked only where it may matter.
    # A dotless i folds to i, which no table of Unicode says.
    rough = unicodedata.normalize("NFKD", "\n".join(characters)).casefold().replace("ı", "i").split("\n")
    single: dict[str, list[str]] = {letter: [letter] for letter in sorted(letters)}
    several: dict[str, list[str]] = {}
    for character, decomposed in zip(characters, rough, strict=True):
        if letters.isdisjoint(decomposed):
            continue
        folded = folding.fold(character)
        if folded in single:
            single[folded].append(character)
        elif len(folded) > 1 and folded.isalnum():
            several.setdefault(folded, []).append(character)
    for letter, forms in single.items():
        forms += [form for form in (letter.upper(), letter.title()) if len(form) == 1]
        decomposed = unicodedata.normalize("NFD", letter)
        if len(decomposed) > 1 and folding.fold(decomposed) == letter:  # A syllable of Hangul, typed as its letters.
            several.setdefault(letter, []).append(decomposed)
    return _Forms(
        {letter: "".join(dict.fromkeys(forms)) for letter, forms in single.items()},
        # A syllable is written as one sequence, a ligature as any one of several characters.
        {text: forms[0] if len(text) == 1 else f"[{''.join(forms)}]" for text, forms in several.items()},
    )


def _pattern(term: Term, forms: _Forms) -> str:
    first, *others = term.words
    if len(first) > _LETTERS:
        first, others = first[:_LETTERS], []
    rest = ""
    for word in others[:_PHRASE]:
        rest += f"{_APART}*{_spelled(word[:_LETTERS], forms)}"
        if len(word) > _LETTERS:
            break
    if folding.is_cjk(first[0]):
        return _spelled(first, forms) + rest
    start = f"(?:^|{_APART}){_spelled(first, forms)}"
    capitals = "".join(form for form in forms.single[first[0]] if form.isupper())
    if capitals:  # A token begins at the B of aB, too.
        tail = _then(_spelled(first[1:], forms))
        start = f"(?:{start}|(?-u:[a-z])[{capitals}]{tail})"
    return start + rest


def _spelled(word: str, forms: _Forms) -> str:
    """A pattern for the word in all its spellings; also for a ligature that it ends in the middle of."""
    starts = sum(word.startswith(letters, at) for letters in forms.several for at in range(len(word)))
    return _tail(word, forms.single, forms.several if starts <= _LIGATURES else {})


def _tail(word: str, single: dict[str, str], several: dict[str, str]) -> str:
    if not word:
        return ""
    options = [f"[{single[word[0]]}]" + _then(_tail(word[1:], single, several))]
    for letters, written in several.items():
        if word.startswith(letters):
            options.append(written + _then(_tail(word[len(letters):], single, several)))
        elif letters.startswith(word):
            options.append(written)
    return options[0] if len(options) == 1 else "(?:" + "|".join(options) + ")"


def _then(tail: str) -> str:
    return _IGNORED + tail if tail else ""

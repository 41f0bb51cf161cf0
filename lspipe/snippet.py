"""Snippets: the stretch of a text around its densest match, and clipping that splits nothing (pure)."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

from lspipe import folding, matching, words

ELLIPSIS = "…"

_JOINER = "\u200d"
_FLAGS = 4096  # Letters of flags in a row, beyond which nobody counts which two belong together.


def border(text: str, at: int) -> bool:
    """Whether a text may be cut here without splitting what people see as one character.

    The rules of UAX #29 that matter in practice: marks, joiners, emoji modifiers and tags stay with what they
    follow, both letters of a flag together, and the letters of a Hangul syllable too.
    """
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after.isascii():
        return (before, after) != ("\r", "\n")
    if before == _JOINER or _extends(after):
        return False
    if "\U0001f1e6" <= after <= "\U0001f1ff":
        first = at
        while first > 0 and "\U0001f1e6" <= text[first - 1] <= "\U0001f1ff":
            first -= 1
            if at - first > _FLAGS:
                return False
        return (at - first) % 2 == 0
    if "\u1100" <= after <= "\u115f":
        return not "\u1100" <= before <= "\u115f"
    if "\u1160" <= after <= "\u11ff":
        return not ("\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3")
    return True


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf")
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or char in "\uff9e\uff9f\u0e33\u0eb3"  # Letters by name, marks by use.
    )


def _at_space(text: str, at: int) -> bool:
    """Where a line may break: at a space, and beside the characters of scripts that have none."""
    before, after = text[at - 1], text[at]
    return before.isspace() or after.isspace() or folding.is_cjk(before) or folding.is_cjk(after)


def _at_word(text: str, at: int) -> bool:
    """Where no word is split."""
    if not text[at].isalnum():
        return True
    before = at - 1
    while before > 0 and _extends(text[before]):
        before -= 1
    return not text[before].isalnum()


def _cut(text: str, places: Iterable[int], otherwise: int) -> int:
    """The first of the places, all inside the text, at which cutting it hurts least; else the other one."""
    places = [place for place in places if border(text, place)]
    for good in (_at_space, _at_word):
        for place in places:
            if good(text, place):
                return place
    return next(iter(places), otherwise)


def clip(text: str, limit: int) -> str:
    """The text in at most `limit` characters, cut at the border of a word and ended with `…`.

    A word is split only where it takes more than half of the room, and what is seen as one character never.
    """
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    room = limit - 1
    end = _cut(text, range(room, room // 2, -1), 0)
    if not end:
        end = max((place for place in range(room // 2 + 1) if border(text, place)), default=0)
    return text[:end].rstrip() + ELLIPSIS


def best(text: str, query: words.Query | str, limit: int = 300) -> str:
    """At most `limit` characters of the text, its white space collapsed, where it matches the query best.

    Best is where the most different terms stand close together, then the most matches, then the first. Without
    a match it is the beginning.
    """
    if isinstance(query, str):
        query = words.parse(query)
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    room = limit - 2 * len(ELLIPSIS)
    found = matching.places(flat, query) if room > 0 else []
    if not found:
        return clip(flat, limit)
    start, end = _densest(found, room)
    if end - start > room:
        return ELLIPSIS + clip(flat[start:], limit - 1) if start else clip(flat, limit)
    begin = start - (room - (end - start)) // 4  # The rest of the room goes behind the match.
    if begin <= 0:
        begin, stop = 0, limit - 1
    else:
        begin = _cut(flat, range(max(1, min(begin, len(flat) - limit + 1)), start), start)
        stop = begin + room
    if begin and len(flat) - begin < limit:
        stop = len(flat)
    elif stop > end:
        stop = _cut(flat, range(stop, end, -1), end)
    return ELLIPSIS * (begin > 0) + flat[begin:stop].strip() + ELLIPSIS * (stop < len(flat))


def _densest(found: list[tuple[int, int, int]], room: int) -> tuple[int, int]:
    """(start, end) of the matches that fit into the room and hold the most terms, then the most matches."""
    most = (0, 0)
    chosen = found[0][:2]
    inside: Counter[int] = Counter()
    last = 0
    for first, (start, _end, number) in enumerate(found):
        while last < len(found) and (last <= first or found[last][1] - start <= room):
            inside[found[last][2]] += 1
            last += 1
        value = (len(inside), last - first)
        if value > most:
            most = value
            chosen = start, max(end for _start, end, _number in found[first:last])
        inside[number] -= 1
        if not inside[number]:
            del inside[number]
    return chosen

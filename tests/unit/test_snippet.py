"""Snippets and clipping."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lspipe import folding, matching, snippet, words
from lspipe.snippet import ELLIPSIS, best, border, clip

FAMILY = "👨\u200d👩\u200d👧"
NFD = unicodedata.normalize("NFD", "한")
WHOLE = [
    FAMILY, "🇩🇪", "👍🏽", "❤\ufe0f", "e\u0301", "z\u0301\u0302\u0303", "한", NFD, "1\ufe0f\u20e3",
    "กำ", "ﾊﾞ", "🏴\U000e0067\U000e0062\U000e007f", "a", "東", " ", ".",
]
pieces = st.lists(st.sampled_from(WHOLE), max_size=40)
prose = st.lists(
    st.sampled_from(["rust", "async", "cancellation", "Straße", "東京都", "a", "-", "e\u0301te\u0301" * 3]), max_size=60
)


def places(parts: list[str]) -> set[int]:
    """Where the text that is made of the parts may be cut."""
    found, at = {0}, 0
    for part in parts:
        at += len(part)
        found.add(at)
    return found


@given(pieces)
def test_borders_are_where_the_characters_end(parts: list[str]) -> None:
    text = "".join(parts)
    assert {at for at in range(len(text) + 1) if border(text, at)} == places(parts)


@given(st.text(max_size=60), st.integers(-2, 70))
def test_clip_keeps_to_the_limit_and_changes_nothing_else(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    assert len(clipped) <= max(limit, 0)
    if clipped != text:
        assert len(text) > limit
        assert text.startswith(clipped.removesuffix(ELLIPSIS))
        assert limit < 1 or clipped.endswith(ELLIPSIS)


@given(pieces, st.integers(1, 60))
def test_clip_splits_no_character(parts: list[str], limit: int) -> None:
    text = "".join(parts)
    clipped = clip(text, limit)
    if clipped != text:
        kept = clipped.removesuffix(ELLIPSIS)
        assert len(kept) in places(parts) or text[len(kept)].isspace()


@given(prose, st.integers(1, 80))
@example(["cancellation"] * 5, 13)
def test_clip_splits_no_word_that_fits(parts: list[str], limit: int) -> None:
    text = " ".join(parts)
    kept = clip(text, limit).removesuffix(ELLIPSIS)
    following = text[len(kept) :]
    if kept and re.match(r"\w", following) and not folding.is_cjk(following[0]) and not folding.is_cjk(kept[-1]):
        split = re.search(r"[\w\u0301]+\Z", kept)
        assert split is None or len(split[0]) >= (limit - 1) // 2


@pytest.mark.parametrize(
    ("text", "limit", "clipped"),
    [
        ("one two three", 13, "one two three"), ("one two three", 12, "one two…"),
        ("one two three", 8, "one two…"),
        ("one two three", 7, "one…"), ("one, two", 7, "one,…"), ("abcdefghij", 5, "abcd…"),
        ("a/bc/defgh", 7, "a/bc/…"),
        ("a bcdefghijk", 8, "a bcdef…"), ("東京都庁の展望台", 5, "東京都庁…"), ("ab", 1, "…"),
        ("ab", 0, ""), ("", 0, ""),
        ("e\u0301" * 4, 4, "e\u0301…"), ("🇩🇪🇫🇷x", 4, "🇩🇪…"), (FAMILY + "x", 5, "…"),
        ("x \u0301y z", 4, "x \u0301…"), ("x \u0301y z", 3, "x…"),
    ],
)
def test_clip_examples(text: str, limit: int, clipped: str) -> None:
    assert clip(text, limit) == clipped


@given(st.text(max_size=80), st.text(max_size=10), st.integers(-2, 60))
def test_best_keeps_to_the_limit_and_cites(text: str, query: str, limit: int) -> None:
    check_citation(text, query, limit)


@given(
    prose,
    st.sampled_from(["rust", "strasse async", "京都", '"async a"', "ete", "x", "a -rust"]),
    st.integers(-2, 90),
)
def test_best_shows_a_match(parts: list[str], query: str, limit: int) -> None:
    text = "  ".join(parts)
    shown = check_citation(text, query, limit)
    parsed = words.parse(query)
    found = [end - start for start, end, _number in matching.places(" ".join(text.split()), parsed)]
    if found and max(found) <= limit - 2:
        assert matching.places(shown, parsed)


def check_citation(text: str, query: str, limit: int) -> str:
    flat = " ".join(text.split())
    shown = best(text, query, limit)
    assert len(shown) <= max(limit, 0)
    if flat == shown:
        return shown
    assert len(flat) > limit
    if limit >= 1:
        assert ELLIPSIS in (shown[:1], shown[-1:])
    cited = shown[shown.startswith(ELLIPSIS) and not flat.startswith(ELLIPSIS) :]
    assert cited.removesuffix(ELLIPSIS) in flat
    return shown


def test_best_is_where_most_terms_are_together() -> None:
    dense = "here rust meets async cancellation at last "
    text = "rust " * 40 + "filler " * 60 + dense + "filler " * 60 + "async " * 40
    shown = best(text, "async rust cancellation", 80)
    assert "rust meets async cancellation" in shown
    assert shown.startswith(ELLIPSIS) and shown.endswith(ELLIPSIS)


def test_best_takes_the_first_of_equals_and_the_beginning_without_a_match() -> None:
    text = "first rust " + "x " * 200 + "second rust " + "y " * 200
    assert best(text, "rust", 40).startswith("first rust x")
    assert best(text, "nothing", 12) == "first rust…"
    assert best(text, "", 12) == "first rust…"
    assert best(text, "-x", 12) == "first rust…"


def test_best_gives_context_before_and_reaches_the_end() -> None:
    text = "alpha beta " * 50 + "the match stands here and ends"
    shown = best(text, "match", 60)
    assert shown.endswith("the match stands here and ends")
    assert shown.startswith("…") and 50 <= len(shown) <= 60
    shown = best(text + " gamma" * 50, words.parse("match"), 60)
    assert re.search(r"\w the match stands", shown) and shown.endswith("…")


def test_best_collapses_white_space() -> None:
    assert best(" a\n\n\tb\u3000c ", "x") == "a b c"
    assert best("", "x") == ""


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("die lange " * 40 + "Straße " + "nach Hause " * 40, "strasse", "Straße"),
        ("東京都庁の展望台" * 60 + "から富士山が見える" + "日本語の文章" * 60, "富士山", "富士山"),
        (unicodedata.normalize("NFD", "가나다라 " * 90 + "한국어 " + "마바사 " * 90), "한국", NFD),
        ("x" * 500 + " rust", "rust", "rust"), ("rust" + "x" * 500, "rust", "rust"),
    ],
)
def test_best_in_other_scripts_and_in_long_words(text: str, query: str, found: str) -> None:
    shown = best(text, query)
    assert found in shown
    assert len(shown) <= 300


def test_a_match_longer_than_the_room() -> None:
    assert best("aa bb " + "cccccccccccc dd", "cccccccccccc", 8) == "…cccccc…"
    assert best("cccccccccccc dd", "cccccccccccc", 8) == "ccccccc…"


def test_long_texts() -> None:
    text = "rust and async " * 20_000
    assert len(best(text, "async rust nothing")) <= 300
    assert snippet.clip("🇩🇪" * 100_000, 300).endswith("🇩🇪…")
    assert snippet.clip("e" + "\u0301" * 100_000, 300) == ELLIPSIS

"""Text on a terminal: cleaning, width, fitting, links, colour."""

import os
import pty
import re
import unicodedata
import urllib.parse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lspipe import table

FAMILY = "👨\u200d👩\u200d👧"
NASTY = (
    "\x00\x07\t\n\r\x1b\x7f\x85\x9b\xad\u061c\u180e\u200b\u200d\u200e\u2028\u202e\u2060\u2066\ufe0f\ufeff"
    "\ud800\udfff\U000e0001\U000e0041\U000e0100"
)
nasty = st.text(alphabet=st.one_of(st.sampled_from(NASTY + "aé東👍 [;m\\"), st.characters()), max_size=40)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def harmful(text: str) -> list[str]:
    """What the promise about output names, by its own definition: controls, format characters, surrogates."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    # Signs of Arabic, Syriac, Kaithi and Egyptian writing that count as format characters and have a shape.
    seen = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001345f]")
    found = [char for char in text if unicodedata.category(char) in kinds and not seen.match(char)]
    return found + [char for char in text if char in "\ufe0f\U000e0100"]


# Cleaning


@pytest.mark.parametrize("text", ["a" + "\u0301" * 100_000, ("a" + "\u0301" * 50) * 100, "\u0f40" + "\u0fb1" * 10_000])
def test_marks_upon_marks_are_bounded(text: str) -> None:
    fitted = table.fit(text, 80)
    assert table.width(fitted) <= 80 and len(fitted) < 1000 and fitted.startswith(text[:5])
    assert table.fit(fitted, 80) == fitted


@given(nasty)
@example(NASTY)
def test_clean_leaves_nothing_harmful_and_is_idempotent(text: str) -> None:
    cleaned = table.clean(text)
    assert harmful(cleaned) == []
    assert table.clean(cleaned) == cleaned
    cleaned.encode()


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_clean_leaves_text_alone(text: str) -> None:
    assert table.clean(text) == re.sub("[\u115f\u1160\u3164\uffa0]", "", text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\tb\nc", "a b c"), ("a\r\n\n\tb", "a b"), ("\x1b]0;owned\x07x", "]0;ownedx"),
        ("\x9b31mred", "31mred"),
        ("exe\u202egpj.doc", "exegpj.doc"), ("\u2066a\u2069", "a"), ("so\u00adft", "soft"),
        ("a\u200bb\ufeffc", "abc"),
        ("a\U000e0041\U000e007fb", "ab"), ("a\ud800b", "ab"), ("a\x85b\u2028c", "a b c"), ("a\x7fb", "ab"),
        ("cafe\u0301 हिन्दी 東京 👍🏽", "cafe\u0301 हिन्दी 東京 👍🏽"), ("", ""), ("a\xa0b", "a\xa0b"),
    ],
)
def test_clean_examples(text: str, cleaned: str) -> None:
    assert table.clean(text) == cleaned


# Width


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0), ("abc", 3), ("Straße", 6), ("東京", 4), ("ｆｕ", 4), ("ﾊﾝ", 2), ("한국", 4),
        (unicodedata.normalize("NFD", "한국"), 4), ("cafe\u0301", 4), ("a\x1b\x07b", 2), ("a\u200bb", 2),
        ("\ufeff", 0),
        ("👍", 2), ("👍🏽", 2), (FAMILY, 2), ("🇩🇪", 2), ("❤", 1), ("❤\ufe0f", 2), ("1\ufe0f\u20e3", 2),
        ("👩\u200d⚕\ufe0f", 2),
        ("🏴\U000e0067\U000e0062\U000e007f", 2), ("👍👍", 4), ("x👍🏽y", 4), ("\U0001fae8", 2),
        ("\U00031350", 2),
        ("שלום", 4), ("مُحَمَّد", 4), ("ไทย", 3), ("กี่", 1), ("—…", 2), ("\u3000", 2), ("東\u3099", 2),
        ("क्\u200dष", 2),
    ],
)
def test_widths(text: str, cells: int) -> None:
    assert table.width(text) == cells


@given(nasty, nasty)
@example("👍\u200d", "")
def test_width_is_never_negative_and_at_most_twice_the_length(one: str, other: str) -> None:
    assert 0 <= table.width(one) <= 2 * len(one)
    assert table.width(one + " " + other) == table.width(one) + 1 + table.width(other)


# Fitting


@given(nasty, st.integers(-1, 50))
@example("東京都", 4)
@example(FAMILY * 3, 3)
def test_fit_never_takes_more_cells(text: str, cells: int) -> None:
    fitted = table.fit(text, cells)
    assert table.width(fitted) <= max(cells, 0)
    if fitted != text:
        assert table.width(text) > cells
        assert text.startswith(fitted.removesuffix("…"))


@pytest.mark.parametrize(
    ("text", "cells", "fitted"),
    [
        ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("ab cd", 4, "ab…"), ("東京都", 6, "東京都"),
        ("東京都", 5, "東京…"),
        ("東京都", 4, "東…"), ("東京都", 2, "…"), ("cafe\u0301s!", 5, "cafe\u0301…"), ("🇩🇪🇫🇷", 3, "🇩🇪…"),
        (FAMILY + "xy", 3, FAMILY + "…"),
        ("abc", 1, "…"), ("abc", 0, ""), ("", 0, ""), ("👍🏽👍🏽", 3, "👍🏽…"),
    ],
)
def test_fit_examples(text: str, cells: int, fitted: str) -> None:
    assert table.fit(text, cells) == fitted


@given(nasty, st.integers(-1, 50))
@example("東京都", 4)
@example(FAMILY * 3, 3)
def test_fit_end_never_takes_more_cells(text: str, cells: int) -> None:
    fitted = table.fit_end(text, cells)
    assert table.width(fitted) <= max(cells, 0)
    if fitted != text:
        assert table.width(text) > cells
        assert text.endswith(fitted.removeprefix("…"))


@pytest.mark.parametrize(("text", "cells", "fitted"), [
    ("/home/ada/notes/rust.md:12", 12, "…/rust.md:12"), ("/a b/c", 4, "…b/c"), ("/a b/c", 5, "…b/c"), ("abc", 3, "abc"),
    ("abc", 1, "…"), ("abc", 0, ""), ("東京都", 5, "…京都"), ("🇩🇪🇫🇷", 3, "…🇫🇷"), ("x" + FAMILY, 2, "…"),
])
def test_of_a_path_the_end_counts(text: str, cells: int, fitted: str) -> None:
    assert table.fit_end(text, cells) == fitted


# Colour and links


@given(nasty, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=5))
def test_paint_adds_nothing_but_colour_to_clean_text(text: str, spans: list[tuple[int, int]]) -> None:
    cleaned = table.clean(text)
    painted = table.paint(cleaned, sorted(spans))
    assert ESCAPE.sub("", painted) == cleaned
    assert harmful(ESCAPE.sub("", table.paint(text, sorted(spans)))) == []
    assert painted.count("\x1b[0m") * 2 == painted.count("\x1b")


def test_paint_examples() -> None:
    assert table.paint("a rust b", [(2, 6)]) == "a \x1b[1;33mrust\x1b[0m b"
    assert table.paint("ab", []) == "ab"
    assert table.paint("ab", [(0, 1), (1, 2)], "2") == "\x1b[2ma\x1b[0m\x1b[2mb\x1b[0m"


@given(nasty)
def test_a_link_cannot_be_left(tail: str) -> None:
    url = "https://a.b/" + tail
    shown = table.link(url, "text")
    found = re.fullmatch(r"\x1b\]8;;([!-~]*)\x1b\\text\x1b\]8;;\x1b\\", shown)
    assert found
    stored = url.encode("utf-8", "surrogatepass")
    assert urllib.parse.unquote_to_bytes(found[1]) == urllib.parse.unquote_to_bytes(stored)


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "", "x", "ssh://a", "file://b/x", "http:x", "https://" + "a" * 9999],
)
def test_other_urls_are_no_links(url: str) -> None:
    assert table.link(url, "text") == "text"


def test_link_examples() -> None:
    assert table.link("file:///a%20b", "é") == "\x1b]8;;file:///a%20b\x1b\\é\x1b]8;;\x1b\\"
    assert table.link("HTTPS://a.b/café \x1b%41", "x").startswith("\x1b]8;;HTTPS://a.b/caf%C3%A9%20%1B%41\x1b\\x\x1b]8")


def test_columns() -> None:
    read, write = os.pipe()
    try:
        assert table.columns({}, read) == 80
        assert table.columns({"COLUMNS": "132"}, read) == 132
        for wrong in ("0", "-5", "wide", "", "8 ", "999999"):
            assert table.columns({"COLUMNS": wrong}, read) == 80
    finally:
        os.close(read)
        os.close(write)
    assert table.columns({}, 987_654) == table.columns({}, -1) == 80


def test_columns_and_colour_on_a_terminal() -> None:
    main, side = pty.openpty()
    try:
        assert table.columns({}, side) == 80  # A new one has no size.
        import fcntl
        import struct
        import termios

        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 101, 0, 0))
        assert table.columns({}, side) == 101
        assert table.columns({"COLUMNS": "60"}, side) == 60
        assert table.use_color("auto", {"TERM": "xterm"}, side)
        assert table.use_color("auto", {"TERM": "xterm", "NO_COLOR": ""}, side)
        assert not table.use_color("auto", {"TERM": "xterm", "NO_COLOR": "1"}, side)
        assert not table.use_color("auto", {"TERM": "dumb"}, side)
        assert not table.use_color("auto", {}, side)
        assert not table.use_color("never", {"TERM": "xterm"}, side)
        assert table.use_color("always", {"TERM": "dumb", "NO_COLOR": "1"}, side)
    finally:
        os.close(main)
        os.close(side)


def test_colour_without_a_terminal() -> None:
    with open(os.devnull) as null:
        assert not table.use_color("auto", {"TERM": "xterm"}, null.fileno())
        assert table.use_color("always", {}, null.fileno())
    assert not table.use_color("auto", {"TERM": "xterm"}, 987_654)

"""ls-history --top and --sites: most visited pages and sites, whatever the schema, the window, the words."""

import sqlite3
from typing import Any

import orjson
import profiles
import pytest
from profiles import DAY, NOON, Page, Visit
from support import Home
from test_browser_commands import chromium, grant

NOW = ("--now", "2026-07-21T13:00:00Z")


def visits(*ages: float) -> tuple[Visit, ...]:
    """Visits so many days ago."""
    return tuple(Visit(NOON - int(age * DAY)) for age in ages)


PAGES = [
    Page("http://a.test/often", "needle often", visits(1, 2, 10, 11, 12)),
    Page("http://a.test/lately", "needle lately", visits(0, 0.1, 0.2)),
    Page("http://b.test/once", "other", visits(5)),
    Page("http://b.test:81/twice", "needle twice", visits(3, 30)),
    Page("data:text/plain,x", "no site", visits(1)),
]


@pytest.fixture(params=["chromium", "firefox"])
def one(request: Any, bare: Home) -> Home:
    """A home with one profile of either kind."""
    if request.param == "chromium":
        profiles.chromium_history(chromium(bare), PAGES)
        bare.consent(grant(chromium(bare)))
    else:
        path = profiles.firefox_places(bare.home / ".mozilla/firefox/x", PAGES)
        bare.consent(grant(path.parent, "firefox"))
    return bare


def found(home: Home, *args: str) -> list[tuple[str, float]]:
    done = home.run("ls-history", *NOW, *args)
    assert done.code == 0 and done.err == b"", done.err
    assert [row["rank"] for row in done.rows] == list(range(1, len(done.rows) + 1))
    return [(row["url"].partition("//")[2] or row["url"], row["score"]) for row in done.rows]


def test_the_most_visited_pages(one: Home) -> None:
    assert found(one, "--top", "-n", "3") == [("a.test/often", 5), ("a.test/lately", 3), ("b.test:81/twice", 2)]
    assert len(found(one, "--top")) == 5
    assert found(one, "--top", "--all-terms", "needle", "twice") == [("b.test:81/twice", 2)]
    assert found(one, "--top", "site:b.test") == [("b.test:81/twice", 2), ("b.test/once", 1)]
    assert found(one, "--top", "--", "-needle", "site:b.test") == [("b.test/once", 1)]
    assert found(one, "--top", "-n", "1") == [("a.test/often", 5)]
    assert one.run("ls-history", "--top", *NOW).out == one.run("ls-history", "--top", *NOW).out


def test_in_a_window_its_visits_alone_count(one: Home) -> None:
    assert found(one, "--top", "--since", "3d") == [("a.test/lately", 3), ("a.test/often", 2), ("data:text/plain,x", 1)]
    row = one.run("ls-history", *NOW, "--top", "--since", "3d", "often").rows[0]
    assert row["meta"]["visit_count"] == 5 and row["meta"]["visits_in_scope"] == 2
    assert row["matched_terms"] == ["often"]


def test_the_most_visited_sites(one: Home) -> None:
    assert found(one, "--sites") == [("a.test/", 8), ("b.test:81/", 2), ("b.test/", 1)]
    first = one.run("ls-history", *NOW, "--sites", "-n", "1").rows
    assert len(first) == 1 and first[0]["title"] == "a.test"
    assert first[0]["meta"]["visit_count"] == 8 and first[0]["meta"]["pages"] == 2
    assert first[0]["accessed_at"] == "2026-07-21T12:00:00.000000Z"  # Of the page that was visited less, but lately.
    assert found(one, "--sites", "needle", "--since", "3d12h") == [("a.test/", 5), ("b.test:81/", 1)]


@pytest.mark.parametrize(("args", "lines"), [
    (("--top", "-n", "2"), [" 1 history   needle often — a.test/often 5× 1d",
                            " 2 history   needle lately — a.test/lately 3× 1h"]),
    (("--top", "--since", "3d", "often"), [" 1 history   needle often — a.test/often 2× 1d"]),
    (("--sites", "-n", "2"), [" 1 history   a.test 8× 1h", " 2 history   b.test:81 2× 3d"]),
    (("often",), [" 1 history   needle often — a.test/often 1d"]),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_a_person_sees_what_they_are_ranked_by(one: Home, args: tuple[str, ...], lines: list[str]) -> None:
    found = one.run("ls-history", *NOW, *args)
    shown = one.run("ls-show", *NOW, stdin=found.out)
    assert (shown.code, shown.out.decode().splitlines()) == (0, lines)


@pytest.mark.parametrize("count", [True, 0, -1, 1.5, "41", 10**9, [], None])
def test_what_is_no_number_of_visits_is_not_shown(bare: Home, count: Any) -> None:
    row = {"source": "mine", "url": "https://a.test/", "title": "a.test", "meta": {"visits_in_scope": count}}
    assert bare.run("ls-show", stdin=orjson.dumps(row)).out == b" 1 mine      a.test\n"


@pytest.mark.parametrize("columns", ["45", "60", "80", "120"])
def test_the_visits_are_within_the_width(bare: Home, columns: str) -> None:
    row = {"source": "history", "url": "https://a.test/" + "way/" * 40, "title": "very often " * 20,
           "accessed_at": "2026-07-20T13:00:00.000000Z", "meta": {"visits_in_scope": 41}}
    line, = bare.run("ls-show", *NOW, stdin=orjson.dumps(row), env=bare.env(COLUMNS=columns)).out.decode().splitlines()
    assert line.endswith(" 41× 1d") and len(line) <= int(columns)


def test_a_page_whose_visits_have_expired_keeps_its_figure(bare: Home) -> None:
    gone = Page("http://gone.test/", "gone", (), count=40, last=NOON - 200 * DAY + profiles.WEBKIT)
    profiles.chromium_history(chromium(bare), [*PAGES, gone])
    bare.consent(grant(chromium(bare)))
    assert found(bare, "--top", "-n", "1") == [("gone.test/", 40)]
    assert ("gone.test/", 1.0) in found(bare, "--top", "--since", "300d")
    assert found(bare, "--sites", "-n", "1") == [("gone.test/", 40)]


def test_redirects_and_frames_do_not_count(bare: Home) -> None:
    frame = Page("http://f.test/", "frame", tuple(Visit(NOON - n, profiles.AUTO_SUBFRAME | profiles.WHOLE_CHAIN)
                                                  for n in range(9)))
    profiles.chromium_history(chromium(bare), [*PAGES, frame])
    bare.consent(grant(chromium(bare)))
    assert "f.test/" not in dict(found(bare, "--top"))
    assert "f.test/" not in dict(found(bare, "--sites", "--since", "1d"))


def test_profiles_together(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), PAGES)
    other = profiles.firefox_places(bare.home / ".mozilla/firefox/x", [
        Page("http://z.test/", "z", visits(*range(1, 5)))]).parent
    bare.consent(grant(chromium(bare)), grant(other, "firefox"))
    assert found(bare, "--top", "-n", "3") == [("a.test/often", 5), ("z.test/", 4), ("a.test/lately", 3)]
    assert found(bare, "--sites", "-n", "2") == [("a.test/", 8), ("z.test/", 4)]


@pytest.mark.parametrize("count", [2**63 - 1, 10**15 + 1, 10**9, -5, "many"], ids=str)
def test_a_number_of_visits_that_cannot_be(count: object, bare: Home) -> None:
    """It is no score and is not shown; the page is there, and so are the others."""
    path = profiles.chromium_history(chromium(bare), PAGES)
    with sqlite3.connect(path) as conn:
        conn.execute("UPDATE urls SET visit_count = ? WHERE url = 'http://b.test/once'", (count,))
    conn.close()
    bare.consent(grant(chromium(bare)))
    assert found(bare, "--top", "-n", "1") == [("a.test/often", 5)]
    assert found(bare, "--sites", "-n", "1") == [("a.test/", 8)]
    row, = bare.run("ls-history", *NOW, "--", "other").rows
    assert "visit_count" not in row.get("meta", {})

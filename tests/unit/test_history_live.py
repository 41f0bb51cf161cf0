"""ls-history --live: what the tabs of the session file have that the history file does not; the rules of a history."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import profiles
import pytest
import sessions
from hypothesis import given
from hypothesis import strategies as st
from profiles import DAY, FIXTURES, HOUR, NOON, Page, Visit
from sessions import firefox_state, firefox_tab, in_window, page, selected, window
from support import Home
from test_browser_commands import chromium, grant, reported
from test_tabs_command import firefox, session, store

from lspipe import confine
from lspipe.browsers import sessionpages
from lspipe.browsers.layout import Layout, Wanted
from lspipe.browsers.pages import History
from lspipe.browsers.tab import Entry, Tab

NOW = ("--now", "2026-07-21T13:00:00Z")
OLD, NEW, BOTH = "http://a.test/old", "http://a.test/new", "http://a.test/both"
GRANTED = ("history", "tabs")
MINUTE = 60_000_000


def visited(*entries: tuple[str, str, int | None], tab: int = 11, chosen: int = 0, status: int = 200) -> Any:
    """A window with one tab that went to these pages: (url, title, when)."""
    found = [*window(1), *in_window(1, tab, 0), selected(tab, chosen)]
    return found + [page(tab, index, url, title, at=at, status=status)
                    for index, (url, title, at) in enumerate(entries)]


def made(home: Home, pages: list[Page], *commands: Any, data: tuple[str, ...] = GRANTED) -> Path:
    profile = chromium(home)
    profiles.chromium_history(profile, pages)
    session(profile, *commands)
    home.consent(grant(profile, data=data))
    return profile


def seen(done: Any) -> list[tuple[str, str, str]]:
    """(url, method, time of day) of the rows."""
    assert done.code == 0, done.err
    return [(row["url"], row["provenance"]["method"], (row["accessed_at"] or "?" * 20)[11:19]) for row in done.rows]


def test_what_the_file_does_not_hold_yet(bare: Home) -> None:
    made(bare, [Page(OLD, "Anton", [Visit(NOON - HOUR)]), Page(BOTH, "Berta", [Visit(NOON), Visit(NOON - DAY)])],
         *visited((OLD, "", NOON - HOUR), (BOTH, "", NOON + 30 * MINUTE), (NEW, "Cäsar", NOON + 50 * MINUTE),
                  ("chrome://settings/", "Settings", NOON + 55 * MINUTE)))
    before = profiles.look(bare.home)
    done = bare.run("ls-history", "--live", *NOW)
    assert seen(done) == [(NEW, "session", "12:50:00"), (BOTH, "session", "12:30:00"), (OLD, "snapshot", "11:00:00")]
    rows = {row["url"]: row for row in done.rows}
    assert rows[NEW]["title"] == "Cäsar" and "meta" not in rows[NEW]
    assert rows[BOTH]["title"] == "Berta" and rows[BOTH]["meta"] == {"visit_count": 2}, "what the file knows of it"
    assert rows[NEW]["provenance"] == {"retriever": "browser", "method": "session", "acl": "authorized",
                                       "private": True, "browser": "chromium", "profile": "Default",
                                       "origin": "local"}
    plain = bare.run("ls-history", *NOW)
    assert seen(plain) == [(BOTH, "snapshot", "12:00:00"), (OLD, "snapshot", "11:00:00")]
    assert {row["id"] for row in plain.rows} == {rows[OLD]["id"], rows[BOTH]["id"]}, "one page, one id"
    assert profiles.look(bare.home) == before and bare.runs == []
    assert bare.run("ls-history", "--live", *NOW).out == done.out


def test_words_figures_and_filters_hold_over_both(bare: Home) -> None:
    made(bare, [Page(OLD, "needle", [Visit(NOON - HOUR)]), Page("http://a.test/other", "hay")],
         *visited((OLD, "", NOON + MINUTE), (NEW, "needle and thread", NOON), ("http://b.test/", "", NOON)))
    done = bare.run("ls-history", "--live", *NOW, "needle", "thread")
    assert [(row["url"], row["rank"], row["matched_terms"]) for row in done.rows] == [
        (NEW, 1, ["needle", "thread"]), (OLD, 2, ["needle"])]
    corpus = [{"id": "history:chromium/Default", "n": 4, "df": {"needle": 2, "thread": 1}}]
    assert [row["corpus"] for row in done.rows] == [corpus, corpus], "of the file and the tabs together"
    assert [row["url"] for row in bare.run("ls-history", "--live", *NOW, "site:b.test").rows] == ["http://b.test/"]
    assert len(bare.run("ls-history", "--live", *NOW, "-n", "1", "needle").rows) == 1
    checked = bare.bash("ls-history --live needle | ls-check")
    assert checked.returncode == 0 and len(checked.stdout.splitlines()) == 2, checked.stderr


def test_a_window_of_time_takes_the_visit_that_is_in_it(bare: Home) -> None:
    made(bare, [Page(BOTH, "Berta", [Visit(NOON - DAY)])],
         *visited((BOTH, "", NOON + 30 * MINUTE), (NEW, "", NOON - 2 * HOUR), ("http://a.test/never", "", None)))
    day = ("--since", "2026-07-20", "--until", "2026-07-20")
    assert seen(bare.run("ls-history", "--live", *NOW, *day)) == [(BOTH, "snapshot", "12:00:00")]
    assert seen(bare.run("ls-history", "--live", *NOW, "--since", "1h")) == [(BOTH, "session", "12:30:00")]
    assert [row["url"] for row in bare.run("ls-history", "--live", *NOW).rows] == [BOTH, NEW, "http://a.test/never"]
    assert seen(bare.run("ls-history", "--live", *NOW, "--origin", "local"))[0] == (BOTH, "session", "12:30:00")
    assert bare.run("ls-history", "--live", *NOW, "--origin", "synced").rows == []


def test_pages_that_a_history_does_not_show(bare: Home) -> None:
    hop = Page("http://a.test/hop", "", [Visit(NOON, transition=0)])
    hidden = Page("http://a.test/hidden", "", hidden=True)
    made(bare, [hop, hidden, Page("http://a.test/twice", "held")],
         *visited(("http://a.test/hop", "", NOON), ("http://a.test/hidden", "", NOON), ("about:blank", "", NOON),
                  ("view-source:http://a.test/", "", NOON), ("chrome-extension://x/y", "", NOON),
                  ("http://a.test/twice", "one", NOON - MINUTE), ("http://a.test/twice", "two", NOON)))
    assert [row["title"] for row in bare.run("ls-history", "--live", *NOW).rows] == ["held"]
    assert len(bare.run("ls-history", "--live", "--all", *NOW).rows) == 3


def test_error_pages_come_with_all(bare: Home) -> None:
    made(bare, [], *visited((NEW, "Not found", NOON), status=404))
    assert bare.run("ls-history", "--live", *NOW).rows == []
    assert seen(bare.run("ls-history", "--live", "--all", *NOW)) == [(NEW, "session", "12:00:00")]


def test_pages_left_behind_count_and_pruned_ones_do_not(bare: Home) -> None:
    made(bare, [], *visited((OLD, "back", NOON), (NEW, "shown", NOON + 1), (BOTH, "forward", NOON + 2), chosen=1),
         sessions.pruned(11, 2, 1))
    assert [row["title"] for row in bare.run("ls-history", "--live", *NOW).rows] == ["shown", "back"]


def test_only_history_is_granted(bare: Home) -> None:
    made(bare, [Page(OLD, "held")], *visited((NEW, "", NOON)), data=("history",))
    done, report = reported(bare, "ls-history", "--live")
    assert done.code == 7 and [row["url"] for row in done.rows] == [OLD]
    assert done.err.decode().splitlines() == [
        "ls-history: cannot look at the open tabs of 'chromium/Default': no consent",
        "ls-consent grant browser --data tabs chromium/Default"]
    assert report["skipped"] == [{
        "reason": "no-consent", "what": "open tabs of 'chromium/Default'", "source": "tabs", "browser": "chromium",
        "profile": "Default", "detail": "ls-consent grant browser --data tabs chromium/Default"}]
    done = bare.run("ls-history", "--live", *NOW, "nothing-like-it")
    assert done.code == 7 and done.rows == [], "the history was read: that is no failure upstream"
    bare.consent(grant(chromium(bare), data=("tabs",)))
    assert bare.run("ls-history", "--live").code == 5


def test_session_files_that_cannot_be_read(bare: Home) -> None:
    profile = made(bare, [Page(OLD, "held")], *visited((NEW, "", NOON)))
    (file,) = (profile / "Sessions").iterdir()
    file.write_bytes(b"SNSS" + bytes(99))
    done, report = reported(bare, "ls-history", "--live")
    assert done.code == 7 and [row["url"] for row in done.rows] == [OLD]
    assert b"cannot read the open tabs of 'chromium/Default'" in done.err and report["skipped"][0]["source"] == "tabs"
    session(profile, *visited((NEW, "", NOON)), name="Session_13430000000000000")
    done, report = reported(bare, "ls-history", "--live")
    assert done.code == 0 and {row["url"] for row in done.rows} == {OLD, NEW}
    assert any("an older session file is read" in note for note in report["notes"])
    shutil.rmtree(profile / "Sessions")
    done, report = reported(bare, "ls-history", "--live")
    assert done.code == 0 and [row["url"] for row in done.rows] == [OLD], "a browser that never kept a session"
    assert any("no open tabs" in note for note in report["notes"])


def test_counts_of_visits_are_not_live(bare: Home) -> None:
    made(bare, [Page(OLD, "held")])
    for option in ("--top", "--sites"):
        done = bare.run("ls-history", "--live", option)
        assert done.code == 2 and b"--live knows no number of visits" in done.err


def test_firefox_keeps_no_times_in_its_session(bare: Home) -> None:
    profile = firefox(bare)
    profiles.firefox_places(profile, [Page(OLD, "held", [Visit(NOON)])])
    private = {"tabs": [firefox_tab("http://secret.test/", "secret")], "isPrivate": True}
    typed = firefox_tab(None, userTypedValue="http://typed.test/")
    store(profile, firefox_state({"tabs": [firefox_tab(OLD, "held"), firefox_tab(NEW, "not held"), typed]}, private))
    bare.consent(grant(profile, "firefox", GRANTED))
    done = bare.run("ls-history", "--live", *NOW)
    assert [(row["url"], row["accessed_at"], row["provenance"]["method"]) for row in done.rows] == [
        (OLD, "2026-07-21T12:00:00.000000Z", "snapshot"), (NEW, None, "session")]
    assert done.rows[1]["meta"] == {"time_quality": "missing"}


def test_a_page_with_a_password_is_the_page_without_it(bare: Home) -> None:
    profile = firefox(bare)
    profiles.firefox_places(profile, [Page("http://a.test/in", "held"), Page("http://xn--mnchen-3ya.test/", "also")])
    store(profile, firefox_state({"tabs": [
        firefox_tab("http://me:hunter2@a.test/in", "held"), firefox_tab("http://münchen.test/", "also"),
        firefox_tab("http://me:hunter2@a.test/new", "new"), firefox_tab("data:text/html,x", "no browser keeps it")]}))
    bare.consent(grant(profile, "firefox", GRANTED))
    done = bare.run("ls-history", "--live", *NOW)
    assert [(row["title"], row["url"]) for row in done.rows if row["provenance"]["method"] == "session"] == [
        ("new", "http://a.test/new")]
    assert len(done.rows) == 3 and b"hunter2" not in done.out


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no real profiles")
def test_the_visit_that_a_kill_lost(bare: Home) -> None:
    profile = profiles.copied(FIXTURES / "chromium/sigkill/Default", chromium(bare))
    bare.consent(grant(profile, data=GRANTED))
    lost = [row for row in bare.run("ls-history", "--live").rows if row["url"].endswith("/n/lost-in-kill")]
    assert [row["provenance"]["method"] for row in lost] == ["session"]
    assert bare.run("ls-history", "url:lost-in-kill").rows == []




TIMES = st.integers(NOON - 50, NOON + 50)
URLS = st.sampled_from([f"http://a.test/{number}" for number in range(4)])


@given(st.lists(st.tuples(URLS, TIMES, st.booleans()), max_size=6), st.lists(st.tuples(URLS, st.none() | TIMES),
       max_size=8), st.none() | TIMES, st.none() | TIMES)
def test_each_page_is_there_once_with_its_newest_visit(
    held: list[tuple[str, int, bool]], walked: list[tuple[str, int | None]], since: int | None, until: int | None,
) -> None:
    """Also where a damaged file has an address twice, and where some of them are hidden."""
    conn = sqlite3.connect(":memory:", factory=confine.Connection)
    conn.executescript("CREATE TABLE p(id INTEGER PRIMARY KEY, url, last, hidden); CREATE TABLE v(page, at);"
                       "CREATE INDEX i ON v(page)")
    for number, (url, at, hidden) in enumerate(held, 1):
        conn.execute("INSERT INTO p VALUES (?, ?, ?, ?)", (number, url, at, hidden))
        conn.execute("INSERT INTO v VALUES (?, ?)", (number, at))
    wanted = Wanted(NOON + 1000, since, until)
    file = History(conn, Layout(pages="p", visits="v", page="v.page", time="v.at", last="p.last",
                                shown="p.hidden = 0"), wanted)
    entries = sessionpages.gathered("chromium", [Tab(Entry(url, None), [Entry(url, None, at)]) for url, at in walked],
                                    wanted)
    more = sessionpages.beside(file, entries, wanted, "session")
    found = [*file.recent(), *(more.recent() if more is not None else ())]
    assert file.count() + (more.count() if more is not None else 0) == len(found)

    def inside(at: int) -> bool:
        return (since is None or at >= since) and (until is None or at < until)

    last: dict[str, int | None] = {}
    for url, at in walked:
        newest = max((old for other, old, _ in held if other == url), default=None)
        counts = inside(at) if at is not None else (since, until) == (None, None)
        if counts and (newest is None or (at is not None and at > newest)):
            last[url] = max(at or 0, last.get(url) or 0) or None
    expected = sorted([*last.items()] + [
        (url, at) for url, at, hidden in held if not hidden and url not in last and inside(at)], key=str)
    assert sorted([(page.url, page.seen) for page in found], key=str) == expected

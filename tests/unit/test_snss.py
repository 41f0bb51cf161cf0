"""snss and closedtabs: what is open and what was closed, as Chromium itself would restore it."""

import gc
import os
import struct
from typing import Any

import orjson
import profiles
import pytest
import sessions
from hypothesis import example, given
from hypothesis import strategies as st
from sessions import NOON, grouped, in_window, page, pinned, pruned, selected, simple_window, timed, window

from lspipe.browsers import closedtabs, snss, tab
from lspipe.live import Unusable

NOW = NOON + 3_600_000_000
A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"
TOKEN = 0x387847755ABF81385C11CFEB8FE5EC3C


def opened(*commands: tuple[int, bytes], **more: Any) -> list[tab.Tab]:
    return snss.open_tabs(sessions.snss(*commands, **more), "Session_1", NOW).tabs


def closed(*commands: tuple[int, bytes], **more: Any) -> list[tab.Tab]:
    return closedtabs.closed_tabs(sessions.snss(*commands, **more), "Tabs_1", NOW).tabs


def urls(tabs: list[tab.Tab]) -> list[str]:
    return [one.entry.url for one in tabs]


def history(one: tab.Tab) -> list[str]:
    return [entry.url for entry in one.entries]


TWO_WINDOWS = [
    *simple_window(7, [(71, A, "Anton"), (72, B, "Berta")], shows=1), *simple_window(5, [(51, C, "Cäsar 🚀")]),
    pinned(71), sessions.group(TOKEN, "Gruppe ü", 2), grouped(72, TOKEN), timed(21, 51), (20, struct.pack("<i", 7)),
]


def test_two_windows() -> None:
    tabs = opened(*TWO_WINDOWS)
    assert [(one.window, one.index, one.entry.url, one.entry.title) for one in tabs] == [
        (1, 0, C, "Cäsar 🚀"), (2, 0, A, "Anton"), (2, 1, B, "Berta")]
    assert [one.active for one in tabs] == [True, False, True]
    assert [one.focused for one in tabs] == [False, False, True]
    assert [one.pinned for one in tabs] == [False, True, False]
    assert [one.group for one in tabs] == [None, None, tab.Group(f"{TOKEN:032x}", "Gruppe ü", "red")]
    assert (tabs[0].last_active, tabs[0].quality) == (NOON, None)
    assert (tabs[1].last_active, tabs[1].quality) == (None, "missing")
    assert tabs[0].entry[2:] == (NOON, None, 200)
    assert [one.key for one in tabs] == ["51", "71", "72"]


def test_version_1_needs_no_marker_and_its_pages_end_early() -> None:
    tabs = opened(*window(1), *in_window(1, 2, 0), page(2, 0, A, "Old", short=True), version=1)
    assert [one.entry for one in tabs] == [tab.Entry(A, "Old", None, "missing", None)]


def test_version_3_without_marker_was_never_finished() -> None:
    with pytest.raises(Unusable, match="never finished") as caught:
        opened(*TWO_WINDOWS, marker=-1)
    assert caught.value.reason == "failed"


@pytest.mark.parametrize("version", [2, 4, 5])
def test_encrypted(version: int) -> None:
    with pytest.raises(Unusable, match="encrypted") as caught:
        opened(version=version)
    assert caught.value.reason == "encrypted"


@pytest.mark.parametrize("data", [b"", b"SNSS", b"SNSS\3\0\0", b"SQLite format 3\0", b"SNSS" + struct.pack("<i", 6),
                                  b"SNSS" + struct.pack("<i", -1)])
def test_other_files(data: bytes) -> None:
    with pytest.raises(Unusable) as caught:
        snss.open_tabs(data, "Session_1", NOW)
    assert caught.value.reason == "failed"


def test_an_empty_session_has_no_tabs() -> None:
    assert opened() == []
    assert closed() == []


def test_cut_anywhere_keeps_what_was_written() -> None:
    data = sessions.snss(*TWO_WINDOWS, marker=0)
    for size in range(11, len(data)):
        session = snss.open_tabs(data[:size], "Session_1", NOW)
        assert set(urls(session.tabs)) <= {A, B, C}
    assert snss.open_tabs(data[:-1], "Session_1", NOW).torn
    assert not snss.open_tabs(data, "Session_1", NOW).torn
    assert len(snss.open_tabs(data[:-1], "Session_1", NOW).tabs) == 3


def test_a_command_of_no_size_ends_the_file() -> None:
    data = sessions.snss(*TWO_WINDOWS) + b"\0\0" + sessions.record(*page(71, 0, "https://later.example/"))
    session = snss.open_tabs(data, "Session_1", NOW)
    assert session.torn and urls(session.tabs) == [C, A, B]


def test_unknown_commands_are_passed_over() -> None:
    strange = [(131, b"x" * 40), (132, b""), (200, b"\xff" * 3000), (35, sessions.pickle("wayland")), (1, b"1234")]
    mixed = [part for command in TWO_WINDOWS for part in (command, *strange)]
    session = snss.open_tabs(sessions.snss(*mixed), "Session_1", NOW)
    assert (urls(session.tabs), session.skipped) == ([C, A, B], 0)


def test_commands_that_are_too_short_are_counted() -> None:
    short = [(number, b"\1") for number in (0, 2, 5, 6, 7, 8, 9, 11, 12, 16, 17, 20, 21, 24, 25, 27, 31)]
    session = snss.open_tabs(sessions.snss(*TWO_WINDOWS, *short), "Session_1", NOW)
    assert (urls(session.tabs), session.skipped) == ([C, A, B], len(short))


def test_closing() -> None:
    assert urls(opened(*TWO_WINDOWS, timed(16, 71))) == [C, B]
    assert urls(opened(*TWO_WINDOWS, timed(17, 7))) == [C]
    # Its id appears again only as part of a command that comes late: no window comes from that.
    assert urls(opened(*TWO_WINDOWS, timed(17, 7), (8, struct.pack("<ii", 7, 0)))) == [C]
    assert urls(opened(*TWO_WINDOWS, timed(17, 7), *window(7))) == [C, A, B]


def test_a_tab_without_window_or_page_is_none() -> None:
    assert opened(page(1, 0, A), *in_window(2, 3, 0), *window(2)) == []
    # Until its kind is said, it is a window that Chromium does not restore.
    assert opened(page(1, 0, A), *in_window(2, 1, 0), (8, struct.pack("<ii", 2, 0))) == []


def test_moving_within_and_between_windows() -> None:
    tabs = opened(*TWO_WINDOWS, *in_window(5, 71, 1), (2, struct.pack("<ii", 51, 9)))
    assert [(one.window, one.index, one.entry.url) for one in tabs] == [(1, 0, A), (1, 1, C), (2, 0, B)]


def test_equal_places_go_by_the_number_of_the_tab() -> None:
    tabs = opened(*window(1), *in_window(1, 9, 4), page(9, 0, B), *in_window(1, 8, 4), page(8, 0, A))
    assert [(one.index, one.entry.url) for one in tabs] == [(0, A), (1, B)]


@pytest.mark.parametrize(("number", "word"), [(0, "normal"), (1, "popup"), (2, "app"), (3, "devtools"), (4, "app"),
                                              (77, "normal"), (-1, "normal")])
def test_kinds_of_windows(number: int, word: str) -> None:
    assert [one.kind for one in opened(*TWO_WINDOWS, *window(7, kind=number))] == ["normal", word, word]


def test_window_titles() -> None:
    tabs = opened(*TWO_WINDOWS, (31, sessions.pickle(7, "Arbeit")), (31, sessions.pickle(5, "")))
    assert [one.window_title for one in tabs] == [None, "Arbeit", "Arbeit"]


def test_the_current_page_is_the_selected_one() -> None:
    pages = [*window(1), *in_window(1, 2, 0), page(2, 0, A), page(2, 1, B), page(2, 4, C)]
    assert [urls(opened(*pages, selected(2, index))) for index in (-1, 0, 1, 2, 3, 4, 5, 1 << 30)] == [
        [A], [A], [B], [C], [C], [C], [C], [C]]
    assert history(opened(*pages)[0]) == [A, B, C]


def test_a_page_is_replaced() -> None:
    tabs = opened(*window(1), *in_window(1, 2, 0), page(2, 0, A), page(2, 0, B, "New"))
    assert [one.entry[:2] for one in tabs] == [(B, "New")]
    assert history(tabs[0]) == [B]


def test_pruning_from_back_front_and_middle() -> None:
    def left(*commands: tuple[int, bytes], at: int = 4) -> tuple[list[str], str]:
        found = opened(*window(1), *in_window(1, 2, 0), *(page(2, index, f"u{index}") for index in range(5)),
                       selected(2, at), *commands)
        return history(found[0]), found[0].entry.url

    assert left((5, struct.pack("<ii", 2, 3)), at=1) == (["u0", "u1", "u2"], "u1")
    assert left((11, struct.pack("<ii", 2, 2))) == (["u2", "u3", "u4"], "u4")
    assert left(pruned(2, 1, 2)) == (["u0", "u3", "u4"], "u4")
    for at, url in ((0, "u0"), (1, "u0"), (2, "u0"), (3, "u3")):
        assert left(pruned(2, 1, 2), at=at) == (["u0", "u3", "u4"], url)
    assert left(pruned(2, 1, 2), page(2, 3, "new"), selected(2, 3)) == (["u0", "u3", "u4", "new"], "new")
    assert left(pruned(2, 1, 2), pruned(2, 1, 1)) == (["u0", "u4"], "u4")
    for nothing in (pruned(2, -1, 3), pruned(2, 1, 0), pruned(2, 1, -7), (11, struct.pack("<ii", 2, 0))):
        assert left(nothing) == (["u0", "u1", "u2", "u3", "u4"], "u4")


def test_all_pages_pruned_is_no_tab() -> None:
    assert opened(*window(1), *in_window(1, 2, 0), page(2, 0, A), pruned(2, 0, 5)) == []


def test_groups_change_and_end() -> None:
    other = TOKEN ^ 1
    assert [one.group for one in opened(*TWO_WINDOWS, grouped(72, None))] == [None] * 3
    moved = opened(*TWO_WINDOWS, grouped(71, other), sessions.group(other, "", 99), sessions.group(TOKEN, "Neu", 8))
    assert [one.group for one in moved] == [
        None, tab.Group(f"{other:032x}", None, "grey"), tab.Group(f"{TOKEN:032x}", "Neu", "orange")]
    bare = opened(*TWO_WINDOWS[:-4], grouped(72, TOKEN))
    assert bare[-1].group == tab.Group(f"{TOKEN:032x}")


@pytest.mark.parametrize(("raw", "text"), [
    (b"\x3d\xd8", "\ufffd"), (b"\x80\xde\x41\x00", "\ufffdA"), (b"\x3d\xd8\x41\x00", "\ufffdA"),
    ("🚀".encode("utf-16-le"), "🚀"), (b"\0\0A\0", "\0A"),
])
def test_half_surrogates(raw: bytes, text: str) -> None:
    found = opened(*window(1), *in_window(1, 2, 0), page(2, 0, A, raw))
    assert found[0].entry.title == text
    assert orjson.dumps(found[0].entry.title)


def test_a_url_that_is_not_utf8_and_one_that_was_too_long() -> None:
    tabs = opened(*window(1), *in_window(1, 2, 0), page(2, 0, b"https://a.example/\xff\xfe"),
                  *in_window(1, 3, 1), page(3, 0, "", "A title"))
    assert [one.entry[:2] for one in tabs] == [("https://a.example/\ufffd\ufffd", None)]


@pytest.mark.parametrize(("stamp", "expected"), [
    (0, (None, "missing")), (17_000_000, (None, "impossible")), (NOW + 2 * 86_400_000_000 + sessions.WEBKIT,
                                                              (None, "future")),
    (-5, (None, "negative")), ((1 << 63) - 1, (None, "impossible")), (NOON + sessions.WEBKIT, (NOON, None)),
])
def test_times(stamp: int, expected: tuple[int | None, str | None]) -> None:
    """17 s since 1601 is what a clock counted since the start of the machine looks like, as before 2023."""
    if stamp:
        found = opened(*TWO_WINDOWS, (21, struct.pack("<i4xq", 51, stamp)))[0]
        assert (found.last_active, found.quality) == expected
    else:
        found = opened(*TWO_WINDOWS)[1]
        assert (found.last_active, found.quality) == expected


def test_broken_pages_give_way_to_others() -> None:
    cut = [(6, struct.pack("<Iii", 99, 2, index) + struct.pack("<i", size) + b"abc")
           for index, size in ((1, 1 << 30), (2, -1), (3, 4), (4, -(1 << 31)))]
    session = snss.open_tabs(sessions.snss(*window(1), *in_window(1, 2, 0), page(2, 0, A), *cut, selected(2, 3),
                                           page(3, 0, B), *in_window(1, 3, 1)), "Session_1", NOW)
    assert urls(session.tabs) == [A, B]
    assert history(session.tabs[0]) == [A]
    session = snss.open_tabs(sessions.snss(*window(1), *in_window(1, 2, 0), *cut), "Session_1", NOW)
    assert (session.tabs, session.skipped) == ([], 1)


def test_a_page_ends_where_its_command_ends() -> None:
    for short in range(1, 12):
        # First what fills it up to four bytes, then the title itself.
        cut = sessions.navigation(2, 0, A, "Title", short=True)[:-8 - short]
        found = opened(*window(1), *in_window(1, 2, 0), (6, cut), *window(3))
        assert [one.entry.title for one in found] == (["Title"] if short <= 2 else []), short
    exact = sessions.navigation(2, 0, A, "Ab", short=True)[:-8]
    assert opened(*window(1), *in_window(1, 2, 0), (6, exact))[0].entry == tab.Entry(A, "Ab", None, "missing", None)


def test_names_by_the_number_in_them() -> None:
    names = ["Session_9", "Session_10", "Tabs_99", "Session_", "Session_x", "Session_1.bak", "Session_²",
             "Session_13440495894387869", "Apps_5", "Session_" + "9" * 40]
    assert snss.newest_first(names, snss.OPEN) == ["Session_13440495894387869", "Session_10", "Session_9"]
    assert snss.newest_first(names, snss.CLOSED) == ["Tabs_99"]


def test_the_next_older_file_is_taken() -> None:
    files = {"Session_3": sessions.snss(version=5), "Session_2": sessions.snss(*TWO_WINDOWS, marker=-1),
             "Session_1": sessions.snss(*TWO_WINDOWS)}

    def parse(data: bytes, name: str) -> snss.Session:
        return snss.open_tabs(data, name, NOW)

    def choose(*names: str) -> tuple[str, snss.Session, list[Unusable]]:
        return tab.first_usable(((name, lambda name=name: read(name)) for name in names), parse)

    def read(name: str) -> bytes:
        if name not in files:
            raise Unusable("not-found", f"there is no '{name}'")
        return files[name]

    name, session, why = choose("Session_4", *snss.newest_first(files, snss.OPEN))
    assert (name, len(session.tabs)) == ("Session_1", 3)
    assert [error.reason for error in why] == ["encrypted", "failed"]
    with pytest.raises(Unusable, match="encrypted"):
        choose("Session_9", "Session_3", "Session_2")
    with pytest.raises(Unusable) as caught:
        choose("Session_9")
    assert caught.value.reason == "not-found"
    with pytest.raises(Unusable) as caught:
        choose()
    assert caught.value.reason == "not-found"


# ---- Closed tabs


def test_closed_tabs_windows_and_groups() -> None:
    tabs = closed(
        *sessions.closed_tab(1, [(A, "First"), (B, "Second")], chosen=1, at=NOON - 5, pin=True),
        sessions.closed_window(9, 2, shows=1, at=NOON - 3), *sessions.closed_tab(2, [(A, "")], at=None),
        *sessions.closed_tab(3, [(B, "")], at=NOON - 2),
        sessions.closed_group(TOKEN, 8, 1, "Gruppe", 3), *sessions.closed_tab(4, [(C, "")]),
        *sessions.closed_tab(5, [(C, "alone")]), (10, sessions.pickle(("t", TOKEN), ("w", "G"), 1, 0)),
    )
    assert [(one.entry.url, one.window, one.index, one.closed, one.closed_with) for one in tabs] == [
        (C, None, 0, NOON, None), (C, None, 0, NOON, "group"), (A, 1, 0, NOON - 3, "window"),
        (B, 1, 1, NOON - 2, "window"), (B, None, 0, NOON - 5, None)]
    assert [one.active for one in tabs] == [False, False, False, True, False]
    assert [one.pinned for one in tabs] == [False] * 4 + [True]
    assert tabs[0].group == tab.Group(f"{TOKEN:032x}", "G", "blue")
    assert tabs[1].group == tab.Group(f"{TOKEN:032x}", "Gruppe", "yellow")
    assert history(tabs[4]) == [A, B]


def test_what_was_opened_again_is_closed_no_more() -> None:
    both = [sessions.closed_window(9, 2), *sessions.closed_tab(2, [(A, "")]), *sessions.closed_tab(3, [(B, "")]),
            *sessions.closed_tab(5, [(C, "")])]
    for number, left in ((5, [A, B]), (9, [C]), (2, [C, B]), (77, [C, A, B])):
        assert urls(closed(*both, (2, struct.pack("<i", number)))) == left
    again = [*both, (2, struct.pack("<i", 5)), *sessions.closed_tab(5, [(B, "again")])]
    assert [one.entry.title for one in closed(*again)] == ["again", None, None]


def test_a_tab_closed_twice_is_once_there() -> None:
    assert [one.entry.title for one in closed(*sessions.closed_tab(1, [(A, "old")]), *sessions.closed_tab(2, [(B, "")]),
                                              *sessions.closed_tab(1, [(A, "new")]))] == ["new", None]


def test_older_forms_of_closed_windows_and_tabs() -> None:
    tabs = closed((3, struct.pack("<iii", 9, 0, 1)), (4, struct.pack("<ii", 1, 0)), (1, sessions.navigation(1, 0, A)),
                  (3, struct.pack("<iiiq", 8, 0, 1, NOON + sessions.WEBKIT)), (4, struct.pack("<ii", 2, 5)),
                  (1, sessions.navigation(2, 3, B)), version=1)
    assert [(one.entry.url, one.window, one.closed, one.closed_quality) for one in tabs] == [
        (B, 1, NOON, None), (A, 2, None, "zero")]


def test_closed_things_without_pages_are_nothing() -> None:
    assert closed(*sessions.closed_tab(1, []), sessions.closed_window(9, 3), (1, sessions.navigation(1, 0, A)),
                  (5, b"\1"), (12, sessions.pickle(9, "Name"))) == []


# ---- Real files


def real(name: str, kind: str) -> snss.Session:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    folder = profiles.FIXTURES / "chromium" / name / "Default/Sessions"
    newest = snss.newest_first(os.listdir(folder), kind)[0]
    read = snss.open_tabs if kind == snss.OPEN else closedtabs.closed_tabs
    session = read((folder / newest).read_bytes(), newest, 1_796_100_000_000_000)
    assert (session.torn, session.skipped) == (False, 0)
    assert not any("incognito-secret" in entry.url for one in session.tabs for entry in one.entries)
    return session


@pytest.mark.parametrize("name", ["running", "running_pending_commit"])
def test_real_tabs_are_those_of_the_browser(name: str) -> None:
    tabs = real(name, snss.OPEN).tabs
    live = orjson.loads((profiles.FIXTURES / "chromium/expected_live_tabs.json").read_bytes())["tabs"]
    # One window was alive and in no file: a browser's mistake, seen once.
    live = [one for one in live if not one["url"].endswith("/t/8")]
    assert [(one.key, one.index, one.entry.url, one.entry.title or one.entry.url, one.pinned, one.active)
            for one in tabs] == [
        (str(one["id"]), one["index"], one["url"], one["title"], one["pinned"], one["active"]) for one in live]
    grouped_ids = [one["groupId"] for one in live]
    assert [one.group is not None for one in tabs] == [number != -1 for number in grouped_ids]
    assert {(one.group.title, one.group.colour) for one in tabs if one.group} == {("Gruppe ü", "red")}
    assert all(one.last_active for one in tabs)


def test_real_tabs_after_a_kill() -> None:
    tabs = real("sigkill", snss.OPEN).tabs
    assert [one.entry.url.rpartition("/n/")[2] for one in tabs[-2:]] == ["before-kill", "lost-in-kill"]
    assert [(one.active, one.focused) for one in tabs] == [(False, False)] * 10 + [(True, True)]
    assert len(tabs) == 11


def test_real_closed_tabs() -> None:
    tabs = real("sigkill", snss.CLOSED).tabs
    assert [(one.window, one.closed_with) for one in tabs] == [(1, "window")] * 9 + [(2, "window")] * 2 + [(None, None)]
    assert [one.entry.title for one in tabs[-3:]] == ["한국어 페이지", "Numbered page just-now", "ไทย"]
    assert [one.entry.title for one in real("running", snss.CLOSED).tabs] == ["ไทย"]


def test_real_encrypted_twins_say_so() -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    for path in (profiles.FIXTURES / "chromium/running/Default/Sessions_Encrypted").iterdir():
        with pytest.raises(Unusable) as caught:
            snss.open_tabs(path.read_bytes(), path.name, NOW)
        assert caught.value.reason == "encrypted"


# ---- Against the browser's own rules, taken literally


Pages = list[tuple[int, str]]


def closest(pages: Pages, index: int) -> int:
    """The place of the first page whose index is at least `index`."""
    return next((at for at, (own, _) in enumerate(pages) if own >= index), len(pages))


def by_the_rules(steps: list[tuple[str, int, int, int]]) -> dict[int, tuple[Pages, int]]:
    """Tabs as Chromium builds them: sorted lists of pages, and the index of the current one in its list."""
    tabs: dict[int, tuple[Pages, list[int]]] = {}
    for count, (what, number, index, amount) in enumerate(steps):
        if what == "close":
            tabs.pop(number, None)
            continue
        pages, current = tabs.setdefault(number, ([], [-1]))
        if what == "visit":
            at = closest(pages, index)
            if at < len(pages) and pages[at][0] == index:
                pages[at] = (index, f"u{count}")
            else:
                pages.insert(at, (index, f"u{count}"))
        elif what == "select":
            current[0] = index
        elif what == "back":
            del pages[closest(pages, index):]
        else:
            index = 0 if what == "front" else index
            if index <= current[0] < index + amount:
                current[0] = index - 1
            elif current[0] >= index + amount:
                current[0] -= amount
            del pages[closest(pages, index):closest(pages, index + amount)]
            pages[:] = [(own if own < index else own - amount, url) for own, url in pages]
    return {number: (pages, min(closest(pages, current[0]), len(pages) - 1))
            for number, (pages, current) in tabs.items() if pages}


def command(count: int, what: str, number: int, index: int, amount: int) -> tuple[int, bytes]:
    if what == "visit":
        return page(number, index, f"u{count}")
    if what == "select":
        return selected(number, index)
    if what == "close":
        return timed(16, number)
    if what == "back":
        return 5, struct.pack("<ii", number, index)
    return (11, struct.pack("<ii", number, amount)) if what == "front" else pruned(number, index, amount)


STEPS = st.lists(st.tuples(st.sampled_from(["visit", "visit", "visit", "select", "back", "front", "prune", "close"]),
                           st.integers(1, 3), st.integers(0, 6), st.integers(1, 4)), max_size=40)


@given(STEPS)
def test_replaying_is_what_the_browser_does(steps: list[tuple[str, int, int, int]]) -> None:
    logged = [command(count, *step) for count, step in enumerate(steps)]
    homes = [part for number in (1, 2, 3) for part in in_window(50, number, number)]
    # The places come last: a tab that was closed is a new one where it is named again.
    found = opened(*window(50), *logged, *homes)
    expected = by_the_rules(steps)
    assert {int(one.key or 0): history(one) for one in found} == {
        number: [url for _, url in pages] for number, (pages, _) in expected.items()}
    assert {int(one.key or 0): one.entry.url for one in found} == {
        number: pages[at][1] for number, (pages, at) in expected.items()}


# ---- Hostile files


SEEDS = [
    sessions.snss(*TWO_WINDOWS, marker=3), sessions.snss(*TWO_WINDOWS, version=1),
    sessions.snss(sessions.closed_window(9, 2), *sessions.closed_tab(2, [(A, "x")]), *sessions.closed_tab(3, [(B, "")]),
                  sessions.closed_group(TOKEN, 8, 1, "G", 3), *sessions.closed_tab(4, [(C, "")], pin=True)),
    sessions.snss(*window(1), *in_window(1, 2, 0), *(page(2, index, f"u{index}", "t") for index in range(9)),
                  pruned(2, 1, 3), (5, struct.pack("<ii", 2, 4)), (31, sessions.pickle(1, "name"))),
]


@pytest.mark.parametrize("read", [snss.open_tabs, closedtabs.closed_tabs])
@sessions.fuzzed()
@given(data=sessions.mangled(SEEDS))
@example(data=sessions.snss((6, struct.pack("<Iiii", 0, 1, 0, 1 << 30)), *window(1), *in_window(1, 1, 0)))
@example(data=sessions.snss((27, sessions.pickle(("t", 1), 0x7FFFFFFF))))
@example(data=sessions.snss((13, sessions.pickle(("t", 1), 1, -5, 0, ("w", ""), -1)), (4, bytes(8))))
@example(data=sessions.snss((4, bytes(8)), (1, struct.pack("<Iii", 0, 0, 0))))
def test_fuzz(read: Any, data: bytes) -> None:
    try:
        session = read(data, "Session_1", NOW)
    except Unusable:
        return
    for one in session.tabs:
        texts = [text for entry in (one.entry, *one.entries) for text in entry] + [one.window_title, *(one.group or ())]
        assert orjson.dumps(texts)
        assert sum(1 for _ in one.entries) <= len(data)


@pytest.mark.parametrize("commands", [
    [(0, struct.pack("<ii", 1, number)) for number in range(101)],
    [(9, struct.pack("<ii", number, 0)) for number in range(101)],
    [sessions.group(number, "G", 1) for number in range(101)],
])
def test_more_things_than_anybody_has(monkeypatch: pytest.MonkeyPatch, commands: list[tuple[int, bytes]]) -> None:
    monkeypatch.setattr(snss, "THINGS", 100)
    assert opened(*commands[:100]) == []
    with pytest.raises(Unusable, match="more than any browser"):
        opened(*commands)


@pytest.mark.parametrize("commands", [
    [(4, struct.pack("<ii", number, 0)) for number in range(101)],
    [sessions.closed_window(0, 200), *((4, struct.pack("<ii", number, 0)) for number in range(1, 101))],
    [(4, struct.pack("<ii", 0, 0)), *((1, sessions.navigation(0, 0, A)) for _ in range(101))],
])
def test_more_closed_than_anybody_has(monkeypatch: pytest.MonkeyPatch, commands: list[tuple[int, bytes]]) -> None:
    monkeypatch.setattr(closedtabs, "THINGS", 100)
    monkeypatch.setattr(closedtabs, "PAGES", 100)
    assert len(closed(*commands[:-1])) <= 1
    with pytest.raises(Unusable, match="more than any browser"):
        closed(*commands)


def test_pruning_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snss, "_STEPS", 10_000)
    with pytest.raises(Unusable, match="more than any browser"):
        opened(*(page(2, index + 100_000, "u") for index in range(100)), *[pruned(2, 0, 1)] * 200)


def test_more_pages_than_any_list_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snss, "PAGES", 100)
    pages = [page(2, index, "u") for index in range(101)]
    with pytest.raises(Unusable):
        opened(*pages)
    # What was closed or pruned makes room.
    assert opened(*pages[:60], timed(16, 2), *pages[:60], pruned(2, 0, 50), *pages[50:80]) == []


def test_memory_stays_below_a_multiple_of_the_file() -> None:
    data = sessions.large_session(1 << 20)
    used = sessions.peak(lambda: snss.open_tabs(data, "Session_1", NOW))
    assert used < 2 * len(data)


@pytest.mark.parametrize("read", [snss.open_tabs, closedtabs.closed_tabs])
def test_the_file_goes_with_the_tabs(read: Any) -> None:
    """Nothing holds its bytes in a circle, which would take as long as Python likes to be found."""
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(20):
            read(SEEDS[0] if read is snss.open_tabs else SEEDS[2], "Session_1", NOW)
        assert len(gc.get_objects()) < before + 20
    finally:
        gc.enable()


def test_a_tab_whose_address_is_not_stored_is_counted() -> None:
    """It is no row, and no reason to lose the others; nor is a page before it what it shows."""
    data = sessions.snss(*window(1), *simple_window(7, [(71, A, "Anton"), (72, "", ""), (73, C, "Cäsar")]),
                         page(72, 1, B, "Berta"))
    found = snss.open_tabs(data, "Session_1", NOW)
    assert [one.entry.url for one in found.tabs] == [A, C] and found.skipped == 1

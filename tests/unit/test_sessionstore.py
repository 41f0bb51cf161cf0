"""sessionstore: the tabs of Firefox and Zen, and stores in which nothing is what it should be."""

import contextlib
import copy
from typing import Any

import orjson
import profiles
import pytest
import sessions
from hypothesis import example, given
from hypothesis import strategies as st
from sessions import NOON, firefox_state, firefox_tab, jsonlz4

from lspipe.browsers import sessionstore
from lspipe.browsers.tab import Entry, Group, Tab, first_usable
from lspipe.live import Unusable

NOW = NOON + 3_600_000_000
A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"


def opened(*windows: Any, names: dict[int, str] | None = None, **more: Any) -> list[Tab]:
    state = sessionstore.parse(jsonlz4(firefox_state(*windows, **more)), "recovery.jsonlz4")
    return sessionstore.open_tabs(state, NOW, names)


def closed(*windows: Any, names: dict[int, str] | None = None, **more: Any) -> list[Tab]:
    state = sessionstore.parse(jsonlz4(firefox_state(*windows, **more)), "recovery.jsonlz4")
    return sessionstore.closed_tabs(state, NOW, names)


def urls(tabs: list[Tab]) -> list[str]:
    return [one.entry.url for one in tabs]


def test_windows_tabs_groups() -> None:
    tabs = opened(
        {"tabs": [firefox_tab(A, "Anton", pinned=True), firefox_tab(B, "Berta", groupId="g1"), firefox_tab(C, C)],
         "groups": [{"id": "g1", "name": "Gruppe ü", "color": "red", "collapsed": False}], "selected": 3},
        {"tabs": [firefox_tab(A, "Again", hidden=True, groupId="unknown")], "isPopup": True}, selectedWindow=2)
    assert [(one.window, one.index, one.entry.url, one.entry.title, one.kind) for one in tabs] == [
        (1, 0, A, "Anton", "normal"), (1, 1, B, "Berta", "normal"), (1, 2, C, None, "normal"),
        (2, 0, A, "Again", "popup")]
    assert [(one.active, one.focused) for one in tabs] == [(False, False)] * 2 + [(True, False), (True, True)]
    assert [(one.pinned, one.hidden) for one in tabs] == [(True, False)] + [(False, False)] * 2 + [(False, True)]
    assert [one.group for one in tabs] == [None, Group("g1", "Gruppe ü", "red"), None, None]
    assert {(one.last_active, one.quality, one.unloaded) for one in tabs} == {(NOON, None, False)}


def test_the_current_page_by_its_index_from_one() -> None:
    def tab(**more: Any) -> dict[str, Any]:
        return {"entries": [{"url": url, "title": f"T {url}"} for url in (A, B, C)], **more}

    expected = [(1, A), (2, B), (3, C), (4, C), (0, A), (-5, A), (1 << 60, C), ("2", C), (None, C), (2.5, C), (True, C)]
    for index, url in expected:
        found = opened({"tabs": [tab(index=index)]})[0]
        assert (index, found.entry) == (index, Entry(url, f"T {url}"))
    assert opened({"tabs": [tab()]})[0].entry.url == C
    assert [entry.url for entry in opened({"tabs": [tab()]})[0].entries] == [A, B, C]


def test_pages_that_are_none_are_left_out() -> None:
    raw = {"entries": [{"url": A}, {"title": "no url"}, 7, None, {"url": ""}, {"url": B, "title": 5}], "index": 2}
    found = opened({"tabs": [raw]})[0]
    assert list(found.entries) == [Entry(A, None), Entry(B, None)]
    assert found.entry.url == B


def test_tabs_that_were_never_loaded() -> None:
    tabs = opened({"tabs": [
        firefox_tab(None, userTypedValue=A), firefox_tab(None, userTypedValue="what I typed"), firefox_tab(None),
        firefox_tab(None, userTypedValue="localhost:80"), firefox_tab(None, userTypedValue="about:config"),
        firefox_tab(None, userTypedValue=7), {}, firefox_tab(B)]})
    assert [(one.index, one.entry.url, one.unloaded) for one in tabs] == [
        (0, A, True), (4, "about:config", True), (7, B, False)]
    assert [list(one.entries) for one in tabs] == [[one.entry] for one in tabs]


def test_containers_by_name() -> None:
    data = orjson.dumps({"version": 5, "identities": [
        {"userContextId": 1, "public": True, "l10nID": "userContextPersonal.label"},
        {"userContextId": 2, "public": True, "l10nId": "user-context-work"},
        {"userContextId": 3, "public": True, "l10nID": "userContextBanking.label", "name": "My bank"},
        {"userContextId": 6, "name": "Prüfung 🧪"}, {"userContextId": 7}, {"userContextId": "8", "name": "x"}, 5]})
    names = sessionstore.containers(data)
    assert names == {1: "Personal", 2: "Work", 3: "My bank", 6: "Prüfung 🧪"}
    tabs = opened({"tabs": [firefox_tab(A, userContextId=number) for number in (0, 1, 6, 99, "1", None, True)]},
                  names=names)
    assert [one.container for one in tabs] == [None, "Personal", "Prüfung 🧪", "99", None, None, None]
    for broken in (b"", b"{", b"[]", b"7", b'{"identities": 5}', b'{"identities": {"a": 1}}', b"\xff\xfe"):
        assert sessionstore.containers(broken) == {}


def test_private_windows_and_tabs_never_appear() -> None:
    secret = "https://secret.example/"
    state = firefox_state({"tabs": [firefox_tab(secret)], "isPrivate": True, "_closedTabs": [
                              {"state": firefox_tab(secret), "closedAt": NOON // 1000}]},
                          {"tabs": [firefox_tab(A), firefox_tab(secret, isPrivate=True)]},
                          _closedWindows=[{"isPrivate": True, "tabs": [firefox_tab(secret)]}])
    assert [(one.window, one.entry.url) for one in sessionstore.open_tabs(state, NOW)] == [(1, A)]
    assert sessionstore.closed_tabs(state, NOW) == []


def test_times_that_cannot_be() -> None:
    values = [0, -5, None, "soon", 10 ** 40, (NOW + 2 * 86_400_000_000) // 1000, 1.5e300]
    tabs = opened({"tabs": [firefox_tab(A, lastAccessed=value) for value in values[:4]]})
    assert [(one.last_active, one.quality) for one in tabs] == [
        (None, "zero"), (None, "negative"), (None, "missing"), (None, "impossible")]
    state = firefox_state({"tabs": [firefox_tab(A, lastAccessed=value) for value in values[4:]]})
    assert [one.quality for one in sessionstore.open_tabs(state, NOW)] == ["impossible", "future", "impossible"]


def test_half_surrogates_in_the_json() -> None:
    text = '{"windows":[{"tabs":[{"entries":[{"url":"https://a.example/","title":"x \\ud83d y"}]}]}]}'
    found = sessionstore.open_tabs(sessionstore.parse(sessions.mozlz4(text.encode()), "x"), NOW)
    assert found[0].entry == Entry(A, "x \ufffd y")
    assert orjson.dumps(found[0].entry.title)


def test_bytes_that_are_not_utf8_in_the_json() -> None:
    data = b'{"windows":[{"tabs":[{"entries":[{"url":"https://a.example/","title":"x \xff y"}]}]}]}'
    assert sessionstore.open_tabs(sessionstore.parse(data, "sessionstore.js"), NOW)[0].entry.title == "x \ufffd y"


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"7", b"null", b'"windows"', b"{}", b'{"windows": {}}', b'{"windows": 5, "tabs": "x"}',
    b'{"windows":' + b"[" * 5000 + b"]" * 5000 + b"}", b"\0" * 50, sessions.mozlz4(b"not json"), sessions.mozlz4(b""),
    sessions.mozlz4(b'{"windows": []}')[:-3], sessions.mozlz4(b'{"windows": []}', 0x7FFFFFFF),
])
def test_what_is_no_store_says_so(data: bytes) -> None:
    with pytest.raises(Unusable) as caught:
        sessionstore.parse(data, "recovery.jsonlz4")
    assert caught.value.reason == "failed"
    assert "recovery.jsonlz4" in caught.value.message


def test_an_empty_store_has_no_tabs() -> None:
    assert opened() == []
    assert opened({"tabs": []}) == []
    assert closed() == []


def test_the_order_of_stores() -> None:
    found = {"sessionstore-backups/recovery.jsonlz4": 50, "sessionstore-backups/recovery.baklz4": 40,
             "sessionstore.jsonlz4": 45, "sessionstore-backups/previous.jsonlz4": 99, "prefs.js": 100,
             "sessionstore-backups/upgrade.jsonlz4-20250101": 97, "sessionstore-backups/upgrade.jsonlz4-20260101": 98}
    order = sessionstore.newest_first(found)
    assert order == ["sessionstore-backups/recovery.jsonlz4", "sessionstore.jsonlz4",
                     "sessionstore-backups/recovery.baklz4", "sessionstore-backups/previous.jsonlz4",
                     "sessionstore-backups/upgrade.jsonlz4-20260101", "sessionstore-backups/upgrade.jsonlz4-20250101"]
    found["sessionstore.jsonlz4"] = 51
    assert sessionstore.newest_first(found)[0] == "sessionstore.jsonlz4"
    assert sessionstore.newest_first({}) == []


def test_a_broken_store_gives_way_to_the_next() -> None:
    files = {"sessionstore-backups/recovery.jsonlz4": jsonlz4(firefox_state({"tabs": [firefox_tab(A)]}))[:-9],
             "sessionstore-backups/recovery.baklz4": jsonlz4(firefox_state({"tabs": [firefox_tab(B)]}))}
    order = sessionstore.newest_first(dict.fromkeys(files, 1))
    name, state, why = first_usable(((name, lambda name=name: files[name]) for name in order), sessionstore.parse)
    assert (name, [error.reason for error in why]) == ("sessionstore-backups/recovery.baklz4", ["failed"])
    assert urls(sessionstore.open_tabs(state, NOW)) == [B]


# ---- Closed


def test_closed_tabs_groups_and_windows() -> None:
    def gone(url: str, ago: int, **more: Any) -> dict[str, Any]:
        return {"state": firefox_tab(url), "title": f"T {url}", "closedAt": (NOON - ago * 1_000_000) // 1000, **more}

    group = {"id": "g1", "name": "Alt", "color": "blue", "closedAt": (NOON - 3_000_000) // 1000}
    tabs = closed(
        {"tabs": [firefox_tab(A)], "_closedTabs": [gone(A, 1), gone(B, 4)],
         "closedGroups": [{**group, "tabs": [{"state": firefox_tab(C)}]}]},
        _closedWindows=[{"tabs": [firefox_tab(B, "one"), firefox_tab(C, "two")], "selected": 2, "closedAt":
                         (NOON - 2_000_000) // 1000, "_closedTabs": [gone(A, 9)]},
                        {"tabs": [firefox_tab(A)], "closedAt": NOON // 1000}],
        savedGroups=[{"id": "s", "name": "Saved", "color": "green", "closedAt": (NOON - 8_000_000) // 1000,
                      "tabs": [gone(B, 8)]}])
    assert [((NOON - (one.closed or 0)) // 1_000_000, one.entry.url, one.window, one.closed_with) for one in tabs] == [
        (0, A, 1, "window"), (1, A, None, None), (2, B, 2, "window"), (2, C, 2, "window"), (3, C, None, "group"),
        (4, B, None, None), (8, B, None, "group"), (9, A, None, None)]
    assert tabs[1].entry.title == f"T {A}"
    assert [one.active for one in tabs[2:4]] == [False, True]
    assert tabs[4].group == Group("g1", "Alt", "blue")
    assert tabs[6].group == Group("s", "Saved", "green")


# ---- Zen


SPACES = [{"uuid": "{s1}", "name": "Arbeit"}, {"uuid": "{s2}", "name": "Privat"}]
FOLDERS = [{"id": "f1", "name": "Lesen", "parentId": None}, {"id": "f2", "name": "Tief", "parentId": "f1"},
           {"id": "v1", "name": "", "parentId": "f2", "splitViewGroup": True}]
GROUPS = [{"id": "f1", "name": "Lesen", "color": "zen-workspace-color"}, {"id": "v1", "splitView": True},
          {"id": "g9", "name": "Gruppe", "color": "red"}, {"id": "v2", "splitView": True}]


def zen_tabs() -> list[dict[str, Any]]:
    return [
        firefox_tab(A, "Essential", zenSyncId="1", zenEssential=True, zenWorkspace=None, userContextId=2),
        firefox_tab("about:blank", zenSyncId="2", zenIsEmpty=True, groupId="f1", pinned=True),
        firefox_tab(B, "In a folder", zenSyncId="3", groupId="f2", pinned=True, zenWorkspace="{s1}"),
        firefox_tab(C, "Split", zenSyncId="4", groupId="v1", zenWorkspace="{s1}", zenStaticLabel="My own name"),
        firefox_tab(A, "Grouped", zenSyncId="5", groupId="g9", zenWorkspace="{s2}", hidden=True),
        firefox_tab(None, zenSyncId="6", zenWorkspace="{s3}", pinned=True, groupId="v2",
                    _zenPinnedInitialState={"entry": {"url": B, "title": "Pinned"}, "image": None}),
    ]


def sidebar(at: int = NOON, **more: Any) -> dict[str, Any]:
    return {"lastCollected": at // 1000, "tabs": zen_tabs(), "folders": FOLDERS, "groups": GROUPS, "spaces": SPACES,
            **more}


def test_zen_workspaces_folders_essentials() -> None:
    state = sessionstore.with_sidebar(None, sessionstore.parse(jsonlz4(sidebar()), "zen-sessions.jsonlz4"), NOW)
    tabs = sessionstore.open_tabs(state, NOW, {2: "Work"})
    assert [(one.entry.title, one.workspace, one.folder, one.group) for one in tabs] == [
        ("Essential", None, (), None), ("In a folder", "Arbeit", ("Lesen", "Tief"), None),
        ("My own name", "Arbeit", ("Lesen", "Tief"), None), ("Grouped", "Privat", (), Group("g9", "Gruppe", "red")),
        ("Pinned", "{s3}", (), None)]
    assert [one.pinned for one in tabs] == [True, True, False, False, True]
    assert [one.hidden for one in tabs] == [False, False, False, True, False]
    assert [one.unloaded for one in tabs] == [False, False, False, False, True]
    assert (tabs[0].container, tabs[0].key) == ("Work", "1")
    assert sessionstore.saved(state, NOW) == (NOON, None)


def test_zen_windows_share_their_tabs() -> None:
    store = firefox_state({"tabs": zen_tabs(), "selected": 3}, {"tabs": zen_tabs(), "selected": 5},
                          {"tabs": [firefox_tab(C, "Own", zenSyncId="77")], "isZenUnsynced": True}, selectedWindow=2)
    merged = sessionstore.with_sidebar(copy.deepcopy(store), sidebar(), NOW)
    tabs = sessionstore.open_tabs(merged, NOW)
    assert [(one.window, one.key, one.active, one.focused) for one in tabs] == [
        (1, "1", False, False), (1, "3", True, False), (1, "4", False, False), (1, "5", True, True),
        (1, "6", False, False), (2, "77", True, False)]
    # Without a sidebar the store alone says as much, each tab once.
    alone = sessionstore.open_tabs(store, NOW)
    assert [one.key for one in alone] == ["1", "3", "4", "5", "6", "77"]


def test_a_copy_with_pages_wins_over_an_empty_one() -> None:
    store = firefox_state({"tabs": [firefox_tab(None, zenSyncId="1")]}, {"tabs": [firefox_tab(A, zenSyncId="1")]})
    assert [(one.window, one.entry.url) for one in sessionstore.open_tabs(store, NOW)] == [(2, A)]


@pytest.mark.parametrize(("behind", "expected"), [(0, 5), (30 * 60, 5), (-90_000, 5), (7200, 1)])
def test_a_sidebar_that_was_left_behind(behind: int, expected: int) -> None:
    store = firefox_state({"tabs": [firefox_tab(A)]}, at=NOON)
    state = sessionstore.with_sidebar(store, sidebar(NOON - behind * 1_000_000), NOON + 10 ** 12)
    assert len(sessionstore.open_tabs(state, NOW)) == expected


def test_a_sidebar_without_tabs_changes_nothing() -> None:
    store = firefox_state({"tabs": [firefox_tab(A)]})
    assert sessionstore.with_sidebar(store, {"tabs": [], "lastCollected": NOW}, NOW) == store


def test_folders_in_a_circle() -> None:
    loop = [{"id": "a", "name": "A", "parentId": "b"}, {"id": "b", "name": "B", "parentId": "a"}]
    found = opened({"tabs": [firefox_tab(A, groupId="a")], "folders": loop})
    assert 2 <= len(found[0].folder) <= 20


# ---- Real stores


def test_real_firefox() -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    folder = profiles.FIXTURES / "firefox/running/sessionstore-backups"
    state = sessionstore.parse((folder / "recovery.jsonlz4").read_bytes(), "recovery.jsonlz4")
    now = 1_796_100_000_000_000
    tabs = sessionstore.open_tabs(state, now)
    live = orjson.loads((profiles.FIXTURES / "firefox/expected_live_tabs.json").read_bytes())
    # What WebDriver sees: the private window too, and not the tab that was unloaded.
    assert {one["url"] for one in live} - {"about:privatebrowsing"} == {
        url for url in urls(tabs) if not url.endswith("/t/5")}
    assert [(one.window, one.index, one.pinned, one.active, one.focused) for one in tabs] == [
        (1, 0, True, False, False), (1, 1, False, False, False), (1, 2, False, True, False),
        (1, 3, False, False, False), (1, 4, False, False, False), (1, 5, False, False, False),
        (2, 0, False, True, True)]
    assert [one.group for one in tabs] == [None] * 4 + [Group("1796022629040-8", "Gruppe ü", "red")] * 2 + [None]
    assert len(list(tabs[2].entries)) == 50
    assert all(one.last_active and one.container is None for one in tabs)
    assert sessionstore.saved(state, now) == (1_796_022_643_989_000, None)
    assert sessionstore.closed_tabs(state, now) == []
    everything = [entry.url for one in tabs for entry in one.entries]
    assert not any("incognito-secret" in url or "privatebrowsing" in url for url in everything)
    older = sessionstore.parse((folder / "recovery.baklz4").read_bytes(), "recovery.baklz4")
    assert urls(sessionstore.open_tabs(older, now)) == ["about:blank"]


# ---- Anything instead of what should be there


JUNK = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
                    max_leaves=6)
WHOLE = firefox_state(
    {"tabs": zen_tabs(), "groups": GROUPS, "folders": FOLDERS, "spaces": SPACES, "closedGroups": [
        {"id": "g", "tabs": [{"state": firefox_tab(A), "closedAt": 1}]}],
     "_closedTabs": [{"state": firefox_tab(A), "title": "x", "closedAt": NOON // 1000}]},
    _closedWindows=[{"tabs": [firefox_tab(A)], "closedAt": 7}], savedGroups=[{"id": "s", "tabs": [{"state": {}}]}])


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys that lead to every value inside a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path for key in keys for path in ((*above, key), *paths(value[key], (*above, key)))]


def spoilt(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """A store of which some values are something else."""
    state = orjson.loads(orjson.dumps(WHOLE))
    for path, junk in changes:
        at = state
        with contextlib.suppress(LookupError, TypeError):
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = junk
    return state


SPOILT = st.lists(st.tuples(st.sampled_from(paths(WHOLE)), JUNK), min_size=1, max_size=4).map(spoilt)


@sessions.fuzzed()
@given(state=SPOILT)
@example(state={"windows": [{"tabs": [{"entries": [{"url": A}], "index": 10 ** 400}], "selected": {}}]})
@example(state={"windows": [{"tabs": [firefox_tab(A, groupId=[])], "folders": [{"id": [], "parentId": {}}]}]})
def test_fuzz_of_values(state: Any) -> None:
    for found in (state, sessionstore.with_sidebar(state, sidebar(), NOW), sessionstore.with_sidebar(None, state, NOW)):
        for one in (*sessionstore.open_tabs(found, NOW), *sessionstore.closed_tabs(found, NOW)):
            assert one.entry.url and isinstance(one.entry.url, str)
            texts = [text for entry in (one.entry, *one.entries) for text in entry]
            assert orjson.dumps([*texts, *(one.group or ()), one.container, one.workspace, one.key, *one.folder])


@sessions.fuzzed()
@given(data=sessions.mangled([jsonlz4(WHOLE), orjson.dumps(WHOLE)]))
def test_fuzz_of_bytes(data: bytes) -> None:
    try:
        state = sessionstore.parse(data, "x")
    except Unusable:
        return
    sessionstore.open_tabs(state, NOW)
    sessionstore.closed_tabs(state, NOW)
    sessionstore.saved(state, NOW)

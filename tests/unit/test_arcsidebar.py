"""arcsidebar: the pins of a profile and of no other, in every shape of the file, and nothing else."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import NOON, arc_folder, arc_sidebar, arc_tab

from lspipe.browsers import arcsidebar
from lspipe.browsers.bookmark import Bookmark
from lspipe.live import Late, Unusable

NOW = NOON + 3_600_000_000
WORK: dict[str, Any] = {"custom": {"_0": {"directoryBasename": "Profile 1", "machineID": "m"}}}


def pins(value: Any, directory: str = "Default") -> list[Bookmark]:
    return list(arcsidebar.pins(arcsidebar.parse(orjson.dumps(value)), directory, NOW))


def test_pins_with_space_folder_title_and_time() -> None:
    value = arc_sidebar(
        {"title": "Home", "pinned": [arc_tab("http://a.test/", "Anton"),
                                     arc_folder("Reading", arc_folder("Rust", arc_tab("http://b.test/", "Berta")))],
         "unpinned": [arc_tab("http://today.test/", "open today")]},
        {"title": "Work", "profile": WORK, "pinned": [arc_tab("http://c.test/", "Carla", name="Renamed")]})
    assert [(one.url, one.title, one.folder, one.workspace) for one in pins(value)] == [
        ("http://a.test/", "Anton", ("Home",), "Home"),
        ("http://b.test/", "Berta", ("Home", "Reading", "Rust"), "Home")]
    work, = pins(value, "Profile 1")
    assert (work.url, work.title, work.folder) == ("http://c.test/", "Renamed", ("Work",))
    assert (work.added, work.quality, work.pinned, work.origin) == (NOON, None, True, "local")
    assert pins(value, "Profile 2") == []


def test_favourites_belong_to_their_profile() -> None:
    for newer in (False, True):
        value = arc_sidebar({"title": "Home", "pinned": []}, newer=newer, favourites=[
            ({"default": True}, [arc_tab("http://fav.test/", "F")]), (WORK, [arc_tab("http://work.test/", "W")])])
        assert [(one.url, one.folder, one.workspace) for one in pins(value)] == [
            ("http://fav.test/", (arcsidebar.FAVOURITES,), None)]
        assert [one.url for one in pins(value, "Profile 1")] == ["http://work.test/"]


def test_tabs_of_a_split_view_and_of_a_group_are_in_their_folder() -> None:
    split = {"data": {"splitView": {}}, "title": None, "inside": [arc_tab("http://a.test/", "A")]}
    group = {"data": {"tabGroup": {"title": "Group"}}, "title": None, "inside": [arc_tab("http://b.test/", "B")]}
    assert [(one.url, one.folder) for one in pins(arc_sidebar({"title": "Home", "pinned": [split, group]}))] == [
        ("http://a.test/", ("Home",)), ("http://b.test/", ("Home", "Group"))]


def test_older_shapes() -> None:
    """Containers named in `containerIDs`; objects without ids before them; children known by their parent alone."""
    for old in ({"newer": False}, {"newer": False, "alternating": False}, {"children": False}):
        value = arc_sidebar({"title": "Home", "pinned": [arc_folder("F", arc_tab("http://a.test/", "A"))]}, **old)
        assert [(one.url, one.folder) for one in pins(value)] == [("http://a.test/", ("Home", "F"))], old


def test_what_does_not_say_whose_it_is_is_nobodys() -> None:
    for profile in ({"shared": {}}, "Default?", None, {"custom": {"_0": {}}}, {"default": False}, 7):
        value = arc_sidebar({"title": "X", "profile": profile, "pinned": [arc_tab("http://a.test/", "A")]})
        assert pins(value) == [], profile


def test_an_item_that_contains_itself_is_met_once() -> None:
    value = arc_sidebar({"title": "Home", "pinned": [arc_folder("F", arc_tab("http://a.test/", "A"))]})
    items = value["sidebar"]["containers"][1]["items"]
    folder = next(one for one in items if isinstance(one, dict) and one.get("title") == "F")
    folder["childrenIds"] += [folder["id"], folder["parentID"], "gone", 7]
    assert [one.url for one in pins(value)] == ["http://a.test/"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"sidebar": {"containers": []}}',
                                  b'{"sidebar": {"containers": [{"global": {}}]}}', b'{"sidebar": 7}'])
def test_another_format_is_an_error_and_not_an_empty_sidebar(data: bytes) -> None:
    with pytest.raises(Unusable) as caught:
        arcsidebar.parse(data)
    assert caught.value.reason == "failed" and arcsidebar.NAME in caught.value.message


def test_a_sidebar_without_pins_is_empty() -> None:
    assert pins(arc_sidebar({"title": "Home", "pinned": []})) == []


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["spaces", "items", "pinned", "id", "data", "tab", "savedURL", "childrenIds", "parentID", "newContainerIDs",
         "containerIDs", "topAppsContainerIDs", "profile", "custom", "_0", "default", "title"]), inner, max_size=4),
    max_leaves=30)


@given(JSON, JSON, JSON)
def test_any_values_are_survived(spaces: Any, items: Any, favourites: Any) -> None:
    container = {"spaces": spaces, "items": items, "topAppsContainerIDs": favourites}
    for one in arcsidebar.pins([container], "Default", NOW):
        assert one.url and one.pinned


def test_it_takes_time_by_the_size_of_the_file_and_ends_where_time_is_over() -> None:
    count, looks = 40_000, 0
    names = [f"i{number}" for number in range(count)]
    items = [part for name in names for part in (name, {"id": name, "data": {"list": {}}})]
    for roots in (["pinned", "R"], ["pinned", "R"] * count):
        containers = arcsidebar.parse(orjson.dumps({"sidebar": {"containers": [{
            "spaces": ["s", {"id": "s", "newContainerIDs": roots}],
            "items": ["R", {"id": "R", "data": {}, "childrenIds": names}, *items]}]}}))

        def stop() -> bool:
            nonlocal looks
            looks += 1
            return False

        looks = 0
        assert list(arcsidebar.pins(containers, "Default", NOW, stop)) == []
        assert 0 < looks < 2 * count / 1024
        with pytest.raises(Late):
            list(arcsidebar.pins(containers, "Default", NOW, lambda: True))

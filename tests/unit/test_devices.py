"""--device of ls-history and ls-tabs: what came from which other device, and what cannot be told."""

from typing import Any

import devices
import profiles
from devices import HERE, LAPTOP, PHONE, device, header, here, message, navigation, records, tab
from hypothesis import given
from hypothesis import strategies as st
from profiles import DAY, HOUR, NOON, Page, Visit
from sessions import fuzzed, simple_window
from support import Home
from test_browser_commands import chromium, grant, reported
from test_tabs_command import firefox, session

from lspipe.browsers import devices as known
from lspipe.browsers import protobuf, syncedtabs

NOW = ("--now", "2026-07-21T13:00:00Z")
A, B, C, D = "http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/"
BOTH = ("history", "tabs")


def by_device(done: Any) -> list[tuple[str, str | None, str | None]]:
    assert done.code == 0, done.err
    return [(row["url"], row.get("meta", {}).get("device"), row["provenance"].get("origin")) for row in done.rows]


# ---- ls-history


def history(home: Home) -> None:
    profiles.chromium_history(chromium(home), [
        Page(A, "Anton", [Visit(NOON)]), Page(B, "Berta", [Visit(NOON - HOUR, device=PHONE), Visit(NOON - DAY)]),
        Page(C, "Cäsar", [Visit(NOON - DAY, device=PHONE), Visit(NOON - 2 * HOUR, device=LAPTOP)]),
        Page(D, "Dora", [Visit(NOON - 3 * HOUR, device="unknownDDDDDDDDDDDDDDD==")])])
    devices.database(chromium(home), device(PHONE, "Pixel 9"), device(LAPTOP, "Work Laptop", b"A-"),
                     device(HERE, "This one"), (b"device_info-dt-broken", b"\x0a\xff"))
    home.consent(grant(chromium(home), data=("history",)))


def test_a_synced_visit_says_where_it_was(bare: Home) -> None:
    history(bare)
    before = profiles.look(bare.home)
    done = bare.run("ls-history", *NOW)
    assert by_device(done) == [(A, None, "local"), (B, "Pixel 9", "synced"), (C, "Work Laptop", "synced"),
                               (D, "unknownDDDDDDDDDDDDDDD==", "synced")], "the device of the newest visit"
    assert done.rows[1]["meta"] == {"device": "Pixel 9", "device_id": PHONE, "visit_count": 2}
    assert "device" not in done.rows[0].get("meta", {})
    assert profiles.look(bare.home) == before and bare.runs == []
    searched = bare.run("ls-history", *NOW, "casar")
    assert by_device(searched) == [(C, "Work Laptop", "synced")]


def test_visits_of_one_device(bare: Home) -> None:
    history(bare)
    phone = [(B, "Pixel 9", "synced"), (C, "Pixel 9", "synced")]
    for typed in ("Pixel 9", "pixel 9", PHONE, "phoneA"):
        assert by_device(bare.run("ls-history", *NOW, "--device", typed)) == phone, typed
    assert [row["accessed_at"][:10] for row in bare.run("ls-history", *NOW, "--device", "Pixel 9").rows] == [
        "2026-07-21", "2026-07-20"]
    assert by_device(bare.run("ls-history", *NOW, "--device", "all"))[1:] == [
        (C, "Work Laptop", "synced"), (D, "unknownDDDDDDDDDDDDDDD==", "synced")]
    assert by_device(bare.run("ls-history", *NOW, "--device", "Pixel 9", "--since", "3h")) == phone[:1]
    assert by_device(bare.run("ls-history", *NOW, "--device", "Work Laptop", "berta", "casar")) == [
        (C, "Work Laptop", "synced")]
    top = bare.run("ls-history", *NOW, "--device", "Pixel 9", "--top")
    assert {(row["url"], row["score"], row["meta"]["device"]) for row in top.rows} == {
        (B, 1.0, "Pixel 9"), (C, 1.0, "Pixel 9")}
    assert by_device(bare.run("ls-history", *NOW, "--device", "This one")) == [], "it is known, and visited nothing"


def test_devices_that_nothing_knows(bare: Home) -> None:
    history(bare)
    done = bare.run("ls-history", "--device", "x' OR '1'='1")
    assert done.code == 3 and done.rows == []
    assert done.err.decode().splitlines() == [
        "ls-history: no device 'x' OR '1'='1'", "devices: 'Pixel 9', 'This one', 'Work Laptop'"]
    assert bare.run("ls-history", "--device", "all", "--origin", "local").code == 2
    profiles.firefox_places(firefox(bare), [Page(A, "x")])
    bare.consent(grant(firefox(bare), "firefox"))
    done = bare.run("ls-history", "--device", "Pixel 9")
    assert done.code == 3 and done.err.splitlines()[1] == b"no other device is known"
    assert by_device(bare.run("ls-history", "--device", "all")) == []


def test_old_schemas_and_lost_names(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), [Page(A, "old")], version=54)
    profiles.chromium_history(chromium(bare, "New"), [Page(B, "new", [Visit(device=PHONE)])])
    folder = devices.database(chromium(bare, "New"), device(PHONE, "Pixel 9"))
    bare.consent(grant(chromium(bare), data=("history",)), grant(chromium(bare, "New"), data=("history",)))
    assert by_device(bare.run("ls-history", *NOW, "--device", "all")) == [(B, "Pixel 9", "synced")]
    (folder / "000003.log").chmod(0)
    (folder / "000003.log").unlink()
    (folder / "000003.log").symlink_to("/etc/passwd")
    done, report = reported(bare, "ls-history")
    assert sorted(by_device(done)) == [(A, None, "local"), (B, PHONE, "synced")]
    assert any("no names of devices" in note for note in report["notes"])


def test_live_pages_are_of_this_machine(bare: Home) -> None:
    history(bare)
    session(chromium(bare), *simple_window(1, [(11, "http://e.test/", "Emil")]))
    bare.consent(grant(chromium(bare), data=BOTH))
    assert len(bare.run("ls-history", *NOW, "--live").rows) == 5
    assert len(bare.run("ls-history", *NOW, "--live", "--device", "all").rows) == 3


# ---- ls-tabs


def synced(home: Home) -> None:
    devices.database(
        chromium(home), here(), device(PHONE, "Pixel 9"), device(HERE, "This one"), device("idle==", "Old tablet"),
        header(PHONE, "Pixel 9", [1, 2], [3, 9], shows=1),
        tab(PHONE, 1, navigation(A, "Anton", NOON - DAY), navigation(B, "Berta", NOON - HOUR), current=1),
        tab(PHONE, 2, navigation(C, "Cäsar needle", NOON - 2 * HOUR), active=NOON, pinned=True),
        tab(PHONE, 3, navigation("chrome://newtab/", "New tab")),
        tab(PHONE, 4, navigation("http://leftover.test/", "in no window")),
        header(HERE, "This one", [7]), tab(HERE, 7, navigation("http://here.test/", "of this machine")),
        header(LAPTOP, "Work Laptop", [5]), tab(LAPTOP, 5, navigation(D, "Dora", None), current=99))
    session(chromium(home), *simple_window(1, [(11, "http://e.test/", "Emil")]))
    home.consent(grant(chromium(home), data=("tabs",)))


def test_tabs_of_other_devices(bare: Home) -> None:
    synced(bare)
    before = profiles.look(bare.home)
    done = bare.run("ls-tabs", *NOW, "--device", "Pixel 9")
    assert by_device(done) == [(C, "Pixel 9", "synced"), (B, "Pixel 9", "synced")]
    assert done.rows[0]["meta"] == {
        "window": 1, "index": 1, "active": True, "pinned": True, "last_active": "2026-07-21T12:00:00.000000Z",
        "device": "Pixel 9", "device_id": PHONE}
    assert done.rows[0]["provenance"]["method"] == "snapshot"
    assert done.rows[1]["accessed_at"] == "2026-07-21T11:00:00.000000Z" and done.rows[1]["title"] == "Berta"
    assert by_device(bare.run("ls-tabs", *NOW, "--device", "all"))[2:] == [(D, "Work Laptop", "synced")]
    assert len(bare.run("ls-tabs", *NOW, "--device", "all", "--all").rows) == 4
    assert by_device(bare.run("ls-tabs", *NOW, "--device", "all", "needle")) == [(C, "Pixel 9", "synced")]
    assert by_device(bare.run("ls-tabs", *NOW, "--device", "all", "--since", "30d", "--until", "90m")) == [
        (B, "Pixel 9", "synced")]
    assert by_device(bare.run("ls-tabs", *NOW, "--device", "old tablet")) == [], "it is known, and nothing is open"
    assert [row["url"] for row in bare.run("ls-tabs", *NOW).rows] == ["http://e.test/"]
    assert profiles.look(bare.home) == before and bare.runs == []
    checked = bare.bash("ls-tabs --device all | ls-check")
    assert checked.returncode == 0 and len(checked.stdout.splitlines()) == 3, checked.stderr


def test_a_tab_that_its_window_names_again_is_one_tab(bare: Home) -> None:
    devices.database(chromium(bare), here(), header(PHONE, "Pixel 9", [1, 1, 1, 2, 1], [2, 1, 1]),
                     device(PHONE, "Pixel 9"),
                     tab(PHONE, 1, navigation(A, "Anton", NOON)), tab(PHONE, 2, navigation(B, "Berta", NOON - HOUR)))
    bare.consent(grant(chromium(bare), data=("tabs",)))
    assert [(row["url"], row["meta"]["index"]) for row in bare.run("ls-tabs", *NOW, "--device", "all").rows] == [
        (A, 0), (B, 1)]


def test_tabs_of_devices_that_are_not_there(bare: Home) -> None:
    synced(bare)
    done = bare.run("ls-tabs", "--device", "This one")
    assert done.code == 3, "no other device is called so"
    assert done.err.splitlines()[1] == b"devices: 'Old tablet', 'Pixel 9', 'Work Laptop'"
    assert bare.run("ls-tabs", "--device", "all", "--closed").code == 2
    bare.consent(grant(chromium(bare), data=("history",)))
    assert bare.run("ls-tabs", "--device", "all").code == 5
    chromium(bare, "Never").mkdir()
    bare.consent(grant(chromium(bare, "Never"), data=("tabs",)))
    assert by_device(bare.run("ls-tabs", "--device", "all")) == [], "it never synced"


def test_broken_values_do_not_hide_the_good_ones(bare: Home) -> None:
    devices.database(chromium(bare), header(PHONE, "Pixel 9", [1, 2]), tab(PHONE, 1, navigation(A, "Anton")),
                     (b"sessions-dt-x", b"\xff\xff"), (b"sessions-dt-y", message((1, LAPTOP), (2, b"\x12\xff"))),
                     (b"sessions-dt-z", message((1, PHONE), (3, b"\x08"), (4, 2))))
    bare.consent(grant(chromium(bare), data=("tabs",)))
    done, report = reported(bare, "ls-tabs", "--device", "all")
    assert done.code == 7 and [row["url"] for row in done.rows] == [A]
    assert report["skipped"][0]["detail"] == "3 parts of its synced tabs are damaged or missing"


def test_tabs_that_firefox_synced(bare: Home) -> None:
    records(firefox(bare), {
        "id": "abc123", "clientName": "Fennec on Pixel", "tabs": [
            {"title": "Anton", "urlHistory": [A, B], "icon": None, "lastUsed": NOON // 1_000_000},
            {"title": "Cäsar", "urlHistory": [C], "icon": None, "lastUsed": NOON // 1_000_000 - 60, "pinned": True,
             "index": 1, "windowId": "w2", "tabGroupId": "g"},
            {"title": "nothing", "urlHistory": []}],
        "tabGroups": {"g": {"id": "g", "name": "Reise", "color": "blue", "collapsed": False}}}, "no JSON",
        {"id": "def456", "clientName": "", "tabs": []})
    bare.consent(grant(firefox(bare), "firefox", ("tabs",)))
    before = profiles.look(bare.home)
    done, report = reported(bare, "ls-tabs", "--device", "fennec on pixel")
    assert done.code == 7 and report["skipped"][0]["detail"].startswith("2 parts")
    assert [(row["url"], row["title"], row["accessed_at"][11:16]) for row in done.rows] == [
        (A, "Anton", "12:00"), (C, "Cäsar", "11:59")]
    assert done.rows[1]["meta"] == {
        "window": 2, "index": 0, "active": False, "pinned": True, "last_active": "2026-07-21T11:59:00.000000Z",
        "group": {"id": "g", "title": "Reise", "colour": "blue"}, "device": "Fennec on Pixel", "device_id": "abc123"}
    assert bare.run("ls-tabs", "--device", "def456").rows == []
    assert profiles.look(bare.home) == before and bare.runs == []


# ---- Pure parts


@given(st.lists(st.tuples(st.integers(1, 500), st.one_of(st.integers(-2 ** 63, 2 ** 63 - 1), st.binary(max_size=300)))))
def test_fields_come_back(fields: list[tuple[int, int | bytes]]) -> None:
    expected = [(number, value & (1 << 64) - 1 if isinstance(value, int) else value) for number, value in fields]
    assert protobuf.fields(message(*fields)) == expected
    assert [protobuf.signed(value) for _, value in protobuf.fields(message(*fields))] == [
        value if isinstance(value, int) else None for _, value in fields]


@fuzzed()
@given(st.data())
def test_damaged_values_raise_nothing(data: Any) -> None:
    from sessions import mangled

    whole = [value for _, value in (header(PHONE, "x", [1]), tab(PHONE, 1, navigation(A, "Anton")), device(PHONE, "x"))]
    values = {key: data.draw(mangled(whole)) for key in (
        b"sessions-dt-a", b"sessions-dt-b", b"A-sessions-dt-c", b"device_info-dt-" + PHONE.encode(), here()[0])}
    found = syncedtabs.of_chromium(values, NOON)
    assert all(tab.entry.url and tab.device is not None for tab in found.tabs)
    known.names(values)
    syncedtabs.of_firefox([("x", data.draw(st.text(max_size=40)))], NOON)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["tabs", "clientName", "urlHistory", "title", "lastUsed", "windowId", "tabGroups", "tabGroupId", "g"]),
        inner, max_size=5), max_leaves=15))
def test_records_of_any_shape_raise_nothing(record: Any) -> None:
    import orjson

    syncedtabs.of_firefox([("x", orjson.dumps(record, option=orjson.OPT_PASSTHROUGH_SUBCLASS).decode())]
                          if not _large(record) else [], NOON)


def _large(value: Any) -> bool:
    """Integers beyond 64 bits, which orjson does not write."""
    if isinstance(value, dict):
        return any(map(_large, value.values()))
    if isinstance(value, list):
        return any(map(_large, value))
    return isinstance(value, int) and not -2 ** 63 <= value < 2 ** 64


def test_a_database_of_long_and_empty_files_is_not_read(bare: Home) -> None:
    history(bare)
    inner = chromium(bare) / "Sync Data/LevelDB"
    for number in range(900, 940):
        with open(inner / f"{number:06}.log", "wb") as file:
            file.truncate(60 << 20)
    bare.consent(grant(chromium(bare), data=BOTH))
    done = bare.run("ls-tabs", *NOW, "--device", "all")
    assert done.code == 4 and b"MiB are read" in done.err, done
    done = bare.run("ls-history", *NOW)
    assert done.code in (0, 7) and len(done.rows) == 4, done

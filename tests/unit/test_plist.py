"""Property lists, GVDB files and sessions that an attacker made: read in little memory, or refused in one way."""

import plistlib
import random
import struct
from datetime import datetime, timedelta
from typing import Any

import epiphany
import orjson
import pytest
import safari
import sessions
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import NOON

from lspipe import when
from lspipe.browsers import epiphany as web
from lspipe.browsers import gvdb, orion, plist, safaritabs
from lspipe.browsers import safari as reader
from lspipe.browsers.tab import Tab
from lspipe.live import Late, Unusable

VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-1 << 63, (1 << 64) - 1), st.floats(allow_nan=False), st.binary(max_size=20),
              st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
              st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda at: at.replace(microsecond=0))),
    lambda inner: st.one_of(st.lists(inner, max_size=20),
                            st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), inner,
                                            max_size=9)),
    max_leaves=40)
MARKS = plistlib.dumps(safari.folder("", safari.folder("BookmarksBar", safari.leaf("Ä", "http://a.test/", NOON)),
                                     safari.folder("com.apple.ReadingList", safari.read_later("b", "http://b.test/"))),
                       fmt=plistlib.FMT_BINARY)
SEEDS = [MARKS, plistlib.dumps({"DownloadHistory": [safari.download("http://a.test/", "/a")]}, fmt=plistlib.FMT_BINARY),
         plistlib.dumps({"SessionWindows": [safari.session_window(("a", "http://a.test/"))]}, fmt=plistlib.FMT_XML)]


def binary(*objects: bytes, offsets: list[int] | None = None, top: int = 0, ref: int = 1, size: int = 4) -> bytes:
    """A binary property list of these objects; `offsets` where they are not those."""
    data, places = b"bplist00", []
    for one in objects:
        places.append(len(data))
        data += one
    table = len(data)
    for place in places if offsets is None else offsets:
        data += place.to_bytes(size, "big")
    return data + struct.pack(">6xBBQQQ", size, ref, len(places if offsets is None else offsets), top, table)


@given(VALUES)
def test_both_forms_are_read_as_the_library_reads_them(value: Any) -> None:
    data = plistlib.dumps(value, fmt=plistlib.FMT_BINARY, sort_keys=False)
    assert plist.read(data, "x") == plistlib.loads(data)


def test_half_a_surrogate_pair_costs_one_title() -> None:
    broken = binary(b"\xd1\x01\x02", b"\x51a", b"\x63\x00A\xd8\x00\x00B")
    assert plist.read(broken, "x") == {"a": "A\ufffdB"}
    with pytest.raises(ValueError):
        plistlib.loads(broken)
    assert plist.read(binary(b"\xd1\x01\x02", b"\x51a", b"\x52\xff!"), "x") == {"a": "?!"}
    xml = b"<?xml version='1.0'?><plist><dict><key>a</key><string>\xed\xa0\x80!</string></dict></plist>"
    assert plist.read(xml, "x")["a"].endswith("!")


def test_small_files_that_claim_much() -> None:
    array = b"\xaf\x12" + (5000).to_bytes(4, "big") + bytes([1]) * 5000
    claims = [
        binary(array, b"\x08", offsets=[8, 8 + len(array)] + [8] * 5000),  # Many objects in the same bytes.
        binary(b"\xaf\x13" + (1 << 62).to_bytes(8, "big")), binary(b"\x4f\x13" + (1 << 62).to_bytes(8, "big")),
        binary(b"\x08", offsets=[1 << 31]), binary(b"\x08", top=7), binary(b"\x08", ref=0),
        binary(b"\x08", size=8)[:-1], b"bplist00" + struct.pack(">6xBBQQQ", 1, 1, 1 << 63, 0, 8),
        b"bplist00" + struct.pack(">6xBBQQQ", 8, 8, 1, 0, 8),
        binary(*[bytes([0xA1, n + 1]) for n in range(250)], b"\x08") + b"x"]

    def read_all() -> None:
        for data in claims:
            with pytest.raises(Unusable):
                plist.read(data, "x")

    assert sessions.peak(read_all) < 30 << 20


def test_references_that_become_more_than_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one byte each: in memory sixteen."""
    count = 4_000_001
    data = binary(b"\xaf\x13" + struct.pack(">Q", count) + bytes([1]) * count, b"\x08")

    def read() -> None:
        with pytest.raises(Unusable, match="more references"):
            plist.read(data, "x")

    assert sessions.peak(read) < 2 << 20
    monkeypatch.setattr(plist, "_REFERENCES", 3)
    assert plist.read(binary(b"\xa3\1\1\1", b"\x08"), "x") == [False] * 3
    with pytest.raises(Unusable, match="more references"):
        plist.read(binary(b"\xd2\1\2\3\3", b"\x51a", b"\x51b", b"\x08"), "x")


def test_deep_nesting() -> None:
    deep = binary(*[b"\xa1" + (n + 1).to_bytes(2, "big") for n in range(20_000)], b"\x08", ref=2)
    with pytest.raises(Unusable):
        plist.read(deep, "x")
    xml = b"<?xml version='1.0'?><plist>" + b"<array>" * 100_000 + b"</array>" * 100_000 + b"</plist>"
    assert list(orion.reading(xml, "x", NOON)) == []
    inner = b"<dict><key>URLString</key><string>http://a.test/</string></dict>"
    for _ in range(250):
        inner = b"<dict><key>Children</key><array>" + inner + b"</array></dict>"
    with pytest.raises(Unusable, match="without end"):
        list(reader.bookmarks(b"<?xml version='1.0'?><plist>" + inner + b"</plist>", "x", NOON))


def test_time_that_is_over() -> None:
    """The clock is asked while a file is checked, parsed and walked, whichever of them takes long."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > left

    marks = [safari.leaf(f"Title {n}", f"http://host{n}.test/", NOON) for n in range(3000)]
    tree = safari.folder("", safari.folder("BookmarksBar", *marks))
    gvdb_file = epiphany.gvdb({"bookmarks": {f"http://{n}.test/": epiphany.mark("a") for n in range(2000)}})
    session = b"<session><window>" + b'<embed url="http://a.test/"/>' * 9000 + b"</window></session>"
    for read, data, looks in (
            (reader.bookmarks, plistlib.dumps(tree, fmt=plistlib.FMT_BINARY), 10),
            (reader.bookmarks, plistlib.dumps(tree, fmt=plistlib.FMT_XML), 1), (web.bookmarks, gvdb_file, 2),
            (lambda data, name, _now, stop: web.tabs(data, name, stop), session, 4)):
        asked, left = 0, 1 << 30
        assert list(read(data, "x", NOON, stop))
        assert asked >= looks
        for most in range(asked):
            asked, left = 0, most
            with pytest.raises(Late):
                list(read(data, "x", NOON, stop))


def ring() -> bytes:
    """A folder that is its own child."""
    return binary(b"\xd1\x01\x02", b"\x58Children", b"\xa1\x00")


def laughs() -> bytes:
    """Forty folders, each with the next one ten times: 10^40 bookmarks in a few hundred bytes."""
    objects = [b"\x58Children", b"\x59URLString", b"\x5ehttp://a.test/"]
    for level in range(40):
        objects += [bytes([0xD1, 0, 4 + 2 * level]), bytes([0xAA]) + bytes([5 + 2 * level]) * 10]
    return binary(*objects, b"\xd1\x01\x02", top=3)


@pytest.mark.parametrize("data", [ring(), laughs()], ids=["ring", "laughs"])
@pytest.mark.parametrize("read", [reader.bookmarks, reader.reading])
def test_trees_that_are_none(read: Any, data: bytes) -> None:
    plist.read(data, "x")

    def walk() -> None:
        with pytest.raises(Unusable, match="without end"):
            list(read(data, "x", NOON))

    assert sessions.peak(walk) < 10 << 20


@pytest.mark.parametrize("head", [
    b"<!DOCTYPE plist [<!ENTITY a 'x'>]>", b"<!DOCTYPE plist [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>",
    b"<!DOCTYPE plist [<!ENTITY % a 'x'> %a;]>"])
def test_entities_are_refused(head: bytes) -> None:
    with pytest.raises(Unusable):
        plist.read(b"<?xml version='1.0'?>" + head + b"<plist><string>&a;</string></plist>", "x")


def test_the_declaration_that_apple_writes_is_not() -> None:
    data = plistlib.dumps({"a": 1}, fmt=plistlib.FMT_XML)
    assert b"<!DOCTYPE plist PUBLIC" in data and plist.read(data, "x") == {"a": 1}


def test_a_large_list_of_bookmarks() -> None:
    marks = [safari.leaf(f"Title {n}", f"http://host{n}.test/", NOON) for n in range(20_000)]
    data = plistlib.dumps(safari.folder("", safari.folder("BookmarksBar", *marks)), fmt=plistlib.FMT_BINARY)
    assert len(list(reader.bookmarks(data, "x", NOON))) == 20_000


@pytest.mark.parametrize("value", [
    datetime(1, 1, 1), datetime(1970, 1, 1), datetime(9999, 12, 31), datetime(1960, 1, 1), True, float("nan"),
    float("inf"), 1 << 70, "x", None, [1]])
def test_times_that_cannot_be(value: Any) -> None:
    at, quality = plist.time(value, NOON)
    assert at is None and quality


@given(st.integers(0, NOON))
def test_dates_are_microseconds(us: int) -> None:
    assert plist.time(datetime(1970, 1, 1) + timedelta(microseconds=us + 1), NOON) == (us + 1, None)
    assert when.from_mac(safari.seconds(safari.EPOCH + us % (NOON - safari.EPOCH) + 1), NOON) == (
        safari.EPOCH + us % (NOON - safari.EPOCH) + 1, None)


@sessions.fuzzed()
@given(data=sessions.mangled(SEEDS))
@example(data=ring())
@example(data=laughs())
@example(data=binary(b"\x33" + struct.pack(">d", 1e300)))
@example(data=binary(b"\x33" + struct.pack(">d", float("nan"))))
@example(data=binary(b"\x82abc"))
@example(data=b"<?xml version='1.0'?><plist><date>x</date></plist>")
@example(data=b"<?xml version='1.0'?><plist><dict><date>2026</date></dict></plist>")
@example(data=b"<?xml version='1.0'?><plist><integer>0x</integer></plist>")
@example(data=b"<?xml version='1.0'?><plist><data>=</data></plist>")
@example(data=b"<?xml version='1.0' encoding='utf-16'?><plist/>")
@example(data=b"<?xml version='1.0' encoding='no-such'?><plist/>")
def test_fuzz_of_property_lists(data: bytes) -> None:
    for read in (reader.bookmarks, reader.reading, orion.bookmarks, orion.reading,
                 lambda *given: reader.downloads(*given, "DefaultProfile"),
                 lambda *given: safaritabs.last_session(*given)[0]):
        try:
            found = list(read(data, "x", NOON))
        except Unusable:
            continue
        assert orjson.dumps([one.entry.url if isinstance(one, Tab) else [*map(str, one)][:2] for one in found])
    assert isinstance(orion.names(data), dict)


# ---- GVDB


@given(st.dictionaries(st.text(min_size=1, max_size=30),
                       st.tuples(st.text(max_size=300), st.lists(st.text(max_size=99))), max_size=30))
def test_what_is_in_is_found(marks: dict[str, tuple[str, list[str]]]) -> None:
    marks = {_plain(url): (_plain(title), [_plain(tag) for tag in tags]) for url, (title, tags) in marks.items()}
    marks.pop("", None)
    data = epiphany.gvdb({"tags": {}, "bookmarks": {
        url: epiphany.mark(title, tags) for url, (title, tags) in marks.items()}})
    found = {one.url: (one.title or "", list(one.tags)) for one in web.bookmarks(data, "x", NOON)}
    assert found == marks


def _plain(text: str) -> str:
    """Text as C has it: UTF-8 without a NUL."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def test_the_other_byte_order() -> None:
    data = epiphany.gvdb({"bookmarks": {"http://a.test/": epiphany.mark("Anton", ["x"], order=">")}})
    one, = web.bookmarks(b"raVGtnai" + data[8:], "x", NOON)
    assert (one.title, one.tags, one.added) == ("Anton", ("x",), NOON)


def test_tables_that_claim_much() -> None:
    data = bytearray(epiphany.gvdb({"bookmarks": {f"http://{n}.test/": epiphany.mark("a" * 99) for n in range(200)}}))
    table = gvdb.root(bytes(data))[0].table("bookmarks")
    assert table is not None
    for number in range(200):  # Each key is the rest of the one before it, and of the whole file.
        at = table._items + 24 * number
        struct.pack_into("<I", data, at + 4, (number + 1) % 200)
        struct.pack_into("<IH", data, at + 8, 0, 0xFFFF)

    def read() -> None:
        with pytest.raises(Unusable, match="damaged"):
            list(web.bookmarks(bytes(data), "x", NOON))

    assert sessions.peak(read) < 20 << 20


def test_values_that_share_their_bytes() -> None:
    """A thousand items that all name one value of a megabyte: a gigabyte of titles."""
    marks = {f"http://{number}.test/": epiphany.mark("a") for number in range(1000)}
    data = bytearray(epiphany.gvdb({"bookmarks": {**marks, "http://long.test/": epiphany.mark("t" * 1_000_000)}}))
    table = gvdb.root(bytes(data))[0].table("bookmarks")
    assert table is not None
    long, = (item for item in table.items() if item.key == "http://long.test/")
    for number in range(1001):
        struct.pack_into("<II", data, table._items + 24 * number + 16, long.start, long.end)

    def read() -> None:
        with pytest.raises(Unusable, match="share their bytes"):
            list(web.bookmarks(bytes(data), "x", NOON))

    assert sessions.peak(read) < 20 << 20


GVDB = epiphany.gvdb({"tags": {"Favorites": None}, "bookmarks": {
    "http://a.test/": epiphany.mark("Anton", ["Favorites", "x"]),
    "http://b.test/": epiphany.mark("b" * 300, ["c" * 300])}})


@sessions.fuzzed()
@given(data=sessions.mangled([GVDB]))
@example(data=b"GVariant" + struct.pack("<IIII", 0, 0, 24, 24))
@example(data=b"GVariant" + struct.pack("<IIII", 1, 0, 24, 32) + bytes(8))
@example(data=b"GVariant" + struct.pack("<IIII", 0, 0, 24, 32) + struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF))
def test_fuzz_of_gvdb(data: bytes) -> None:
    try:
        found = list(web.bookmarks(data, "x", NOON))
    except Unusable:
        return
    assert orjson.dumps([[one.url, one.title, one.guid, one.tags, one.added] for one in found])


def test_fuzz_of_every_byte() -> None:
    chance = random.Random(5)
    for at in range(len(GVDB)):
        for value in (0, 0x7F, 0xFF, chance.randrange(256)):
            data = GVDB[:at] + bytes([value]) + GVDB[at + 1:]
            try:
                for one in web.bookmarks(data, "x", NOON):
                    orjson.dumps([one.url, one.title, one.tags])
            except Unusable:
                continue


@sessions.fuzzed()
@given(data=sessions.mangled([b'<?xml version="1.0"?><session><window active-tab="0"><embed url="http://a.test/"'
                              b' title="a" pinned="true"/></window></session>']))
def test_fuzz_of_sessions(data: bytes) -> None:
    try:
        found = web.tabs(data, "x")
    except Unusable:
        return
    assert orjson.dumps([[tab.entry.url, tab.entry.title] for tab in found])

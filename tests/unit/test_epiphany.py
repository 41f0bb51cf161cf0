"""GNOME Web as it is found and read: history, bookmarks with tags, tabs; and what the real one wrote.

REAL was written by GNOME Web 43.1: it had loaded three bookmarks that `epiphany.bookmarks` made, and added one.
"""

import base64
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import epiphany
import profiles as made
import pytest
from profiles import DAY, HOUR, NOON, Page, Visit
from support import Home

from lspipe.browsers import epiphany as reader
from lspipe.browsers import gvdb, profiles
from lspipe.live import Unusable

NOW = ("--now", "2026-07-21T13:00:00Z")
A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"
REAL = zlib.decompress(base64.b85decode(
    "c-nIhODxJv%qwAl0tq0FfG{<fpkg38kHJ6YKM;WAI2k+`Qh@XwAifehuLdM8%f`UK0u)yP(kVckl%JoSn^=@x3^j`dY8E39Gehwmb{kWWUXVF_"
    "3}p--fV3=7!QN*bl3+7|Y%9hxh6tbooLCtcVrBYtK;j^_5>R~xkX{YM?|0`ig2X{=HK6znAPsU)MoCG5mA-zGUP)?ki9XZ;0cwY3!`T=@%JUgA"
    "Q%Zm&8W7@P(5NUbu1HEO)`S|63^AZ$6c7y%;XDck6#yoBW0drs$dEJ&hz7v2P@i!w<4i`3Lc-9<T+aXq4XrFJ&CT`m^HTLPN^*1T3vCUN%N_r`"
    "RE5JWz*s;pcia-o@{2No1r0+{X>o}{PGVj<1DA*pKYoiW^npbf%%Vh9BZDNUaXWL?{jE=AV+cr0PgMY_Q8>KlQPY}74RaL^H$Q5a#}Jui<n9w{"
    ";pwDX;)vo7T?K@VC5h?9XmtUo{FX3WavfCOg35VLB&}D^%M^mdbJ4`%UW5A#0HNR_^8"))


def folder(home: Home) -> Path:
    return home.home / ".local/share/epiphany"


def grant(home: Home, *data: str) -> dict[str, Any]:
    return {"family": "browser", "browser": "epiphany", "profile": "Default", "path": str(folder(home)),
            "data": list(data or ("history", "bookmarks", "tabs", "downloads", "reading"))}


def found(home: Home, name: str, *args: str) -> list[dict[str, Any]]:
    done = home.run(name, *NOW, *args)
    assert done.code == 0, done.err
    return done.rows


def urls(home: Home, name: str, *args: str) -> list[str]:
    return [row["url"] for row in found(home, name, *args)]


def test_roots(tmp_path: Path) -> None:
    epiphany.history(tmp_path / ".local/share/epiphany", [Page(A)])
    epiphany.history(tmp_path / ".var/app/org.gnome.Epiphany/data/epiphany", [Page(A)])
    epiphany.bookmarks(tmp_path / "elsewhere/epiphany", {})
    listed = profiles.discover(str(tmp_path), {"XDG_DATA_HOME": str(tmp_path / "elsewhere")}, "linux")
    assert {one.directory for one in listed} == {"Default", "Default@2", "Default@flatpak"}
    assert {one.browser for one in listed} == {"epiphany"} == {one.engine for one in listed}
    assert len(profiles.discover(str(tmp_path), {"XDG_DATA_HOME": "relative"}, "linux")) == 2
    (tmp_path / "linked").symlink_to(tmp_path / ".local/share")
    assert len(profiles.discover(str(tmp_path), {"XDG_DATA_HOME": str(tmp_path / "linked")}, "linux")) == 2
    assert profiles.discover(str(tmp_path), {}, "darwin") == []


@pytest.mark.parametrize("unit", [1, 1_000_000])
def test_history_in_microseconds_and_in_seconds(bare: Home, unit: int) -> None:
    epiphany.history(folder(bare), [
        Page(A, "Anton", (Visit(NOON - DAY), Visit(NOON))), Page(B, "Berta", (Visit(NOON - HOUR),)),
        Page(C, "gone", (), last=(NOON - 2 * DAY) // unit)], unit=unit)
    bare.consent(grant(bare))
    rows = found(bare, "ls-history")
    assert [(row["url"], row["title"], row["accessed_at"]) for row in rows] == [
        (A, "Anton", "2026-07-21T12:00:00.000000Z"), (B, "Berta", "2026-07-21T11:00:00.000000Z"),
        (C, "gone", "2026-07-19T12:00:00.000000Z")]
    assert rows[0]["meta"]["visit_count"] == 2 and "origin" not in rows[0]["provenance"]
    assert urls(bare, "ls-history", "--since", "2026-07-21T11:00:01Z") == [A]
    assert urls(bare, "ls-history", "--since", "2026-07-21T11:00:00Z") == [A, B]
    assert urls(bare, "ls-history", "--until", "2026-07-21T11:00:00Z", "--since", "2026-07-21") == [B]
    assert urls(bare, "ls-history", "berta") == [B] and urls(bare, "ls-history", "--top")[0] == A


def test_bookmarks_with_tags(bare: Home) -> None:
    epiphany.bookmarks(folder(bare), {
        A: epiphany.mark("Anton", ["Favorites", "rust lang"], key="one"),
        B + "?q=%20": epiphany.mark("B" * 300, added=NOON - DAY, key="two", old=True), C: epiphany.mark("", added=0)})
    bare.consent(grant(bare))
    before = made.look(bare.home)
    rows = found(bare, "ls-bookmarks")
    assert [(row["url"], row["title"], row["accessed_at"], row["meta"].get("tags")) for row in rows] == [
        (A, "Anton", "2026-07-21T12:00:00.000000Z", ["Favorites", "rust lang"]),
        (B + "?q=%20", "B" * 300, "2026-07-20T12:00:00.000000Z", None), (C, None, None, None)]
    assert rows[2]["meta"]["time_quality"] == "zero"
    assert urls(bare, "ls-bookmarks", "--tag", "RUST lang") == [A] == urls(bare, "ls-bookmarks", "rust")
    assert urls(bare, "ls-bookmarks", "--since", "2h") == [A]
    assert made.look(bare.home) == before and bare.runs == []


def test_bookmarks_that_the_real_one_wrote() -> None:
    marks = {mark.url: mark for mark in reader.bookmarks(REAL, "bookmarks.gvdb", 1 << 60)}
    assert len(marks) == 4
    one = marks["http://127.0.0.1:8977/one.html?q=1"]
    assert (one.title, one.tags, one.guid, one.added) == ("One Ä", ("Favorites", "rust lang"), "id", NOON)
    own = marks["http://127.0.0.1:8978/two.html?q=a%20b"]
    assert (own.tags, own.guid, own.added) == ((), "Yj2GLU8IB-tA", 1_796_052_205_071_545)
    long = next(mark for url, mark in marks.items() if url.startswith("http://c.test/"))
    assert len(long.title or "") == 400 and long.tags == ("a", "b" * 300)
    tags = gvdb.root(REAL)[0].table("tags")
    assert tags is not None and {item.key for item in tags.items()} == {"Favorites", "rust lang"}


def test_tabs(bare: Home) -> None:
    epiphany.session(folder(bare), (1, [{"url": A, "title": "Anton", "pinned": "true", "history": "AgAA"},
                                        {"url": B + "?a=1&b=2", "title": 'Ä <&> "x"'}]),
                     (0, [{"url": "about:overview", "title": ""}, {"url": C, "title": "", "crashed": "true"}]))
    os.utime(folder(bare) / "session_state.xml", ns=(NOON * 1000, NOON * 1000))
    bare.consent(grant(bare))
    rows = found(bare, "ls-tabs")
    assert [(row["url"], row["title"], row["meta"]) for row in rows] == [
        (A, "Anton", {"window": 1, "index": 0, "active": False, "pinned": True,
                      "saved_at": "2026-07-21T12:00:00.000000Z", "time_quality": "missing"}),
        (B + "?a=1&b=2", 'Ä <&> "x"', {"window": 1, "index": 1, "active": True, "pinned": False,
                                       "saved_at": "2026-07-21T12:00:00.000000Z", "time_quality": "missing"}),
        (C, None, {"window": 2, "index": 1, "active": False, "pinned": False, "unloaded": True,
                   "saved_at": "2026-07-21T12:00:00.000000Z", "time_quality": "missing"})]
    assert len(found(bare, "ls-tabs", "--all")) == 4
    assert urls(bare, "ls-tabs", "anton") == [A]


def test_what_it_does_not_keep_is_said(bare: Home) -> None:
    epiphany.history(folder(bare), [Page(A)])
    bare.consent(grant(bare))
    for name in ("ls-downloads", "ls-reading"):
        done = bare.run(name, "--stats")
        assert done.code == 0 and done.out == b"" and b"epiphany/Default" in done.err
    done = bare.run("ls-tabs")
    assert done.code == 4 and b"there is no 'session_state.xml'" in done.err


def test_other_kinds_of_data_are_not_opened(bare: Home) -> None:
    epiphany.history(folder(bare), [Page(A)])
    os.mkfifo(folder(bare) / "bookmarks.gvdb")
    os.mkfifo(folder(bare) / "session_state.xml")
    bare.consent(grant(bare, "history"))
    assert urls(bare, "ls-history") == [A]
    assert bare.run("ls-bookmarks").code == 5 == bare.run("ls-tabs").code
    bare.consent(grant(bare))
    assert bare.run("ls-bookmarks").code == 4 == bare.run("ls-tabs").code


BOMB = ('<?xml version="1.0"?><!DOCTYPE session [<!ENTITY a "' + "x" * 1000 + '">'
        + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(10))
        + f']><session><window active-tab="0"><embed url="{A}" title="&k;"/></window></session>')


@pytest.mark.parametrize("data", [
    BOMB, f'<!DOCTYPE session SYSTEM "file:///etc/passwd"><session><window><embed url="{A}"/></window></session>',
    "", "needle", "<session><window>", "<session/>" * 2, "\0" * 99, "<session>" + "<window>" * 9000,
    "<html><session/></html>"],
    ids=["laughs", "external", "empty", "text", "open", "two roots", "zeros", "deep", "other"])
def test_hostile_sessions(bare: Home, data: str) -> None:
    folder(bare).mkdir(parents=True)
    (folder(bare) / "session_state.xml").write_text(data)
    bare.consent(grant(bare))
    done = bare.run("ls-tabs")
    assert done.code == 4 and done.out == b"" and b"Traceback" not in done.err
    assert len(done.err.splitlines()) <= 3


def test_odd_sessions() -> None:
    def tabs(text: str) -> list[tuple[str, str | None, bool]]:
        return [(tab.entry.url, tab.entry.title, tab.active) for tab in reader.tabs(text.encode(), "x")]

    assert tabs(f'<session><embed url="{A}"/><window active-tab="-1"><embed/><embed url="{B}" title="&#x41;"/></window>'
                "</session>") == [(B, "A", False)]
    assert tabs(f'<session><window active-tab="99999999999999999999"><embed url="{A}"/></window></session>') == [
        (A, None, False)]
    with pytest.raises(Unusable, match="more than"):
        tabs("<session><window>" + f'<embed url="{A}"/>' * 100_001 + "</window></session>")


def test_keys_whose_parents_lead_in_a_circle_are_not_followed_for_ever() -> None:
    count = 500_000
    items = b"".join(struct.pack("<IIIHcxII", 0, (number + 1) % count, 0, 0, b"v", 0, 0) for number in range(count))
    table = gvdb.Table(struct.pack("<II", 0, 0) + items, 0, 8 + len(items))
    looks = 0
    asked = gvdb.Table._item

    def item(self: gvdb.Table, number: int) -> Any:
        nonlocal looks
        looks += 1
        return asked(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gvdb.Table, "_item", item)
        with pytest.raises(gvdb.Bad, match="no end"):
            list(table.items())
    assert looks < 10 * count

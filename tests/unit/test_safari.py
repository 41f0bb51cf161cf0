"""Safari as it is found and read: profiles, history, bookmarks, reading list, downloads, tabs; nobody else's rows.

The files are made, in the form of the real ones; the real browser is nowhere here.
"""

import errno
import os
import plistlib
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import profiles as made
import pytest
import safari
from profiles import DAY, HOUR, NOON
from safari import CONTAINER, HOME, OLD, WORK, Page, Tab, Visit, Window, leaf
from support import Home

from lspipe import confine, fulldisk, narrow, pinned, when
from lspipe.browsers import layout, places, profiles, safaritabs
from lspipe.browsers import safari as safarifiles
from lspipe.live import Source, Unusable

NOW = ("--now", "2026-07-21T13:00:00Z")
A, B, C, D = "http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/"
ALL = ("history", "bookmarks", "tabs", "downloads", "reading")


def old(home: Home) -> Path:
    return home.home / OLD


def container(home: Home) -> Path:
    return home.home / CONTAINER


def profile(home: Home, uuid: str = WORK) -> Path:
    folder = container(home) / "Profiles" / uuid
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def grant(path: Path, name: str | None = None, data: tuple[str, ...] = ALL) -> dict[str, Any]:
    return {"family": "browser", "browser": "safari", "profile": name or path.name, "data": list(data),
            "path": str(path)}


def found(home: Home, name: str, *args: str, code: int = 0) -> list[dict[str, Any]]:
    done = home.run(name, *NOW, *args)
    assert done.code == code, done.err
    return done.rows


def urls(home: Home, name: str, *args: str) -> list[str]:
    return [row["url"] for row in found(home, name, *args)]


# ---- Where profiles are


def test_three_profiles_and_more(tmp_path: Path) -> None:
    safari.history(tmp_path / OLD, [Page(A)])
    (tmp_path / CONTAINER).mkdir(parents=True)
    safari.tabs(tmp_path / CONTAINER, [], {WORK: "Arbeit", HOME: "Zuhause / 🦊"})
    for uuid in (WORK, HOME, "0" * 36):
        safari.history(tmp_path / CONTAINER / "Profiles" / uuid, [Page(B)])
    listed = profiles.discover(str(tmp_path), {}, "darwin")
    assert sorted((one.browser, one.directory, one.default) for one in listed) == [
        ("safari", "0" * 36, False), ("safari", WORK, False), ("safari", HOME, False), ("safari", "Default", True)]
    assert next(one.path for one in listed if one.default) == str(tmp_path / OLD)
    assert {one.name for one in listed} == {one.directory for one in listed}, "names are in a database: after a grant"
    paths = [one.path for one in listed]
    assert profiles.shown_names(paths) == {}
    assert set(profiles.shown_names(paths, groups=True).values()) == {"Arbeit", "Zuhause / 🦊"}
    assert profiles.discover(str(tmp_path), {}, "linux") == []


def test_the_first_profile_is_one_though_it_has_two_folders(tmp_path: Path) -> None:
    safari.tabs(tmp_path / CONTAINER, [])
    assert [one.path for one in profiles.discover(str(tmp_path), {}, "darwin")] == [str(tmp_path / CONTAINER)]
    safari.bookmarks(tmp_path / OLD)
    assert [one.path for one in profiles.discover(str(tmp_path), {}, "darwin")] == [str(tmp_path / OLD)]


# ---- History


def test_history_with_titles_of_visits(bare: Home) -> None:
    safari.history(old(bare), [
        Page(A, (Visit(NOON - DAY, "Then"), Visit(NOON, "Now"), Visit(NOON + 1, None)), count=7),
        Page(B, (Visit(NOON - HOUR, "Berta", origin=1),)),
        Page(C, (Visit(title="made up", synthesized=True),)), Page(D, (Visit(title="broken", loaded=False),)),
        Page("http://hop.test/", (Visit(title="Now", to=2),))])
    bare.consent(grant(old(bare), "Default"))
    rows = found(bare, "ls-history")
    assert [(row["url"], row["title"], row["accessed_at"], row["provenance"]["origin"]) for row in rows] == [
        (A, "Now", "2026-07-21T12:00:00.000001Z", "local"), (B, "Berta", "2026-07-21T11:00:00.000000Z", "synced")]
    assert rows[0]["meta"]["visit_count"] == 7
    assert rows[0]["provenance"] | {"browser": "safari", "profile": "Default"} == rows[0]["provenance"]
    assert sorted(urls(bare, "ls-history", "--all")) == sorted([A, B, C, D, "http://hop.test/"])
    assert urls(bare, "ls-history", "now") == [A] and urls(bare, "ls-history", "then") == []
    assert urls(bare, "ls-history", "--origin", "synced") == [B]
    assert urls(bare, "ls-history", "--top") == [A, B]


@pytest.mark.parametrize("at", [NOON, NOON + 1, NOON - 1, 1_000_000_000_000_001, 999_999_999_999_999])
def test_a_time_is_the_microsecond_that_was_stored(tmp_path: Path, at: int) -> None:
    path = safari.history(tmp_path, [Page(A, (Visit(at),))])
    conn = sqlite3.connect(path)
    stored, = conn.execute("SELECT visit_time FROM history_visits").fetchone()
    assert when.from_mac(stored, NOON) == (at, None)
    schema = safarifiles.layout(conn)
    for since, until, inside in ((at, at + 1, 1), (at + 1, at + 2, 0), (at - 1, at, 0)):
        window = layout.Conditions.of(schema, layout.Wanted(NOON, since, until)).window
        assert conn.execute(f"SELECT count(*) FROM history_visits v WHERE {window}").fetchone() == (inside,)
    conn.close()


def test_impossible_times_lose_no_other_row(bare: Home) -> None:
    odd = [0.0, -1.0, 1e300, float("inf"), "soon", b"\xff", 9e15]
    safari.history(old(bare), [Page(f"http://odd.test/{number}", (Visit(title="odd", raw=value),))
                               for number, value in enumerate(odd)] + [Page(A, (Visit(title="good"),))])
    bare.consent(grant(old(bare), "Default"))
    rows = found(bare, "ls-history")
    assert rows[0]["url"] == A and len(rows) == 1 + len(odd)
    assert all(row["accessed_at"] is None and row["meta"]["time_quality"] for row in rows[1:])
    assert urls(bare, "ls-history", "--since", "7d") == [A]


def test_what_is_in_the_log_alone(bare: Home) -> None:
    path = safari.history(old(bare), [Page(A, (Visit(title="checkpointed"),))])
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA wal_autocheckpoint = 0")
    conn.execute("INSERT INTO history_items (url, visit_count, daily_visit_counts,"
                 " should_recompute_derived_visit_counts) VALUES (?, 1, X'', 0)", (B,))
    conn.execute("INSERT INTO history_visits (history_item, visit_time, title) VALUES (2, ?, 'of the last minutes')",
                 (safari.seconds(NOON + 1),))
    conn.commit()
    assert path.with_name("History.db-wal").stat().st_size
    bare.consent(grant(old(bare), "Default"))
    before = made.look(bare.home)
    assert urls(bare, "ls-history") == [B, A]
    assert made.look(bare.home) == before and bare.runs == []
    conn.close()


def test_an_older_schema(bare: Home) -> None:
    safari.history(old(bare), [Page(A, (Visit(title="old"),))], old=True)
    bare.consent(grant(old(bare), "Default"))
    row, = found(bare, "ls-history", "old")
    assert row["title"] == "old" and "origin" not in row["provenance"]


# ---- Bookmarks and reading list


def test_bookmarks_and_reading_list_are_one_file_of_all_profiles(bare: Home) -> None:
    safari.bookmarks(
        old(bare), [leaf("Anton", A, NOON), safari.folder("Rust", leaf("Berta", B))], [leaf("Cäsar", C)],
        [safari.read_later("Later", D, NOON - HOUR, text="It begins with a needle."),
         safari.read_later("Read", "http://e.test/", NOON, viewed=NOON)])
    bare.consent(grant(old(bare), "Default"), grant(profile(bare)))
    rows = found(bare, "ls-bookmarks")
    assert [(row["url"], row["title"], row["meta"]["folder"], row["provenance"]["profile"]) for row in rows] == [
        (A, "Anton", "Favorites", WORK)] + sorted([
            (B, "Berta", "Favorites/Rust", WORK), (C, "Cäsar", "Bookmarks Menu", WORK)],
            key=lambda row: next(one["id"] for one in rows if one["url"] == row[0]))
    assert rows[0]["accessed_at"] == "2026-07-21T12:00:00.000000Z" and rows[1]["meta"]["time_quality"] == "missing"
    assert urls(bare, "ls-bookmarks", "--folder", "Rust") == [B] == urls(bare, "ls-bookmarks", "--tag", "rust")
    assert sorted(urls(bare, "ls-bookmarks", "--profile", "Default")) == [A, B, C]
    read, later = found(bare, "ls-reading")
    assert (read["url"], read["title"], read["meta"]) == ("http://e.test/", "Read", {
        "status": "read", "read_at": "2026-07-21T12:00:00.000000Z"})
    assert (later["url"], later["snippet"], later["meta"]) == (
        D, "It begins with a needle.", {"status": "unread", "opened": False})
    assert urls(bare, "ls-reading", "needle") == [D] == urls(bare, "ls-reading", "--unread")
    assert urls(bare, "ls-reading", "--since", "30m", "--until", "now") == []


def test_property_lists_of_both_kinds(bare: Home) -> None:
    bare.consent(grant(old(bare), "Default"))
    for xml in (True, False):
        safari.bookmarks(old(bare), [leaf("Ä & <b>", A + "?x=1&y=%20")], xml=xml)
        row, = found(bare, "ls-bookmarks")
        assert (row["title"], row["url"]) == ("Ä & <b>", A + "?x=1&y=%20")


# ---- Downloads


def test_downloads_are_of_the_profile_that_they_name(bare: Home) -> None:
    safari.downloads(
        old(bare), safari.download(A + "a.pdf", "/Users/ada/Downloads/a.pdf", ended=NOON),
        safari.download(B + "b.pdf", "/Users/ada/Downloads/b.pdf", owner=WORK, ended=NOON),
        safari.download(C + "c.pdf", "/Users/ada/Downloads/c.pdf", owner=None, ended=None, started=NOON - HOUR,
                        size=-1),
        safari.download(D + "d.pdf", "/Users/ada/Downloads/d.pdf", owner=HOME))
    bare.consent(grant(old(bare), "Default"))
    first, last = found(bare, "ls-downloads")
    assert (first["url"], first["title"], first["accessed_at"]) == (A + "a.pdf", "a.pdf", "2026-07-21T12:00:00.000000Z")
    assert first["meta"] == {"state": "complete", "path": "/Users/ada/Downloads/a.pdf", "bytes": 1480, "total": 1480,
                             "started_at": "2026-07-21T12:00:00.000000Z"}
    assert last["url"] == C + "c.pdf" and "state" not in last["meta"] and "bytes" not in last["meta"]
    bare.consent(grant(profile(bare)))
    row, = found(bare, "ls-downloads")
    assert row["url"] == B + "b.pdf"


# ---- Tabs


def test_tabs_of_windows_with_groups(bare: Home) -> None:
    safari.tabs(container(bare), [
        Window([Tab("Anton", A, NOON - HOUR), Tab("Berta", B, NOON)], active=1),
        Window([Tab("Cäsar", C), Tab("gone", "http://gone.test/", deleted=True), Tab("empty", "")], group="Reise"),
        Window([Tab("Dora", D)], closed=True)])
    bare.consent(grant(old(bare), "Default"))
    old(bare).mkdir(parents=True)
    rows = found(bare, "ls-tabs")
    assert [row["url"] for row in rows] == [B, A, C]
    assert [(row["meta"]["window"], row["meta"]["index"], row["meta"]["active"]) for row in rows] == [
        (1, 1, True), (1, 0, False), (2, 0, True)]
    assert rows[2]["meta"]["group"] == {"id": "GROUP-2", "title": "Reise", "colour": None}
    assert rows[0]["accessed_at"] == "2026-07-21T12:00:00.000000Z" and rows[2]["accessed_at"] is None
    assert rows[0]["provenance"]["method"] == "session"
    assert urls(bare, "ls-tabs", "reise") == [C]


def test_private_windows_never(bare: Home) -> None:
    secret = "http://n.test/private"
    safari.tabs(container(bare), [
        Window([Tab("secret", secret + "1")], private=True),
        Window([Tab("secret", secret + "2")], private_group=True),
        Window([Tab("secret", secret + "3")], private=None),
        Window([Tab("secret", secret + "4")], attributes=b"bplist00" + b"\xff" * 40),
        Window([Tab("secret", secret + "5")], attributes=safari.blob({"IsPopupWindow": False})),
        Window([Tab("secret", secret + "6")], attributes=safari.blob({"IsPrivateWindow": 0})),
        Window([Tab("open", A)])])
    old(bare).mkdir(parents=True)
    bare.consent(grant(old(bare), "Default"))
    done = bare.run("ls-tabs", *NOW, "--all", "--report", str(bare.root / "report"))
    assert [row["url"] for row in done.rows] == [A] and done.code == 0
    assert b"secret" not in done.out + done.err + (bare.root / "report").read_bytes()
    notes = orjson.loads((bare.root / "report").read_bytes())["notes"]
    assert "safari/Default: 4 windows are left out: it cannot be told that they are not private" in notes


def test_tabs_of_a_profile_are_nobody_elses(bare: Home) -> None:
    safari.tabs(container(bare), [
        Window([Tab("mine", A)], profile="DefaultProfile"),
        Window([Tab("work", B)], profile=WORK),
        Window([Tab("group of work", C)], profile=WORK, group="Projekt"),
        Window([Tab("work's group in another's window", "http://mixed.test/1")], group="Fremd", owner=WORK),
        Window([Tab("other's group in work's window", "http://mixed.test/2")], profile=WORK, group="Fremd", owner=HOME),
        Window([Tab("whose?", "http://mixed.test/3")], profile=None)], {WORK: "Arbeit", HOME: "Zuhause"})
    old(bare).mkdir(parents=True)
    for path, name, mine in ((old(bare), "Default", [A]), (profile(bare), None, [B, C]),
                             (profile(bare, HOME), None, [])):
        bare.consent(grant(path, name))
        assert sorted(urls(bare, "ls-tabs", "--all")) == mine
    done = bare.run("ls-tabs", "--report", str(bare.root / "report"))
    notes = orjson.loads((bare.root / "report").read_bytes())["notes"]
    assert f"safari/{HOME}: 1 window is left out: it cannot be told of which profile it is" in notes
    assert done.out == b""
    bare.consent(grant(profile(bare)))
    rows = found(bare, "ls-tabs")
    assert {row["provenance"]["profile_name"] for row in rows} == {"Arbeit"}
    assert len(found(bare, "ls-tabs", "--profile", "Arbeit")) == 2
    assert bare.run("ls-tabs", "--profile", "Zuhause").code in (3, 5)


def test_tabs_before_there_were_profiles(bare: Home) -> None:
    safari.tabs(old(bare), [Window([Tab("Anton", A)], profile=None), Window([Tab("x", B)], private=True, profile=None)],
                before_profiles=True)
    bare.consent(grant(old(bare), "Default"))
    assert urls(bare, "ls-tabs") == [A]


def test_tabs_of_the_last_session_where_no_window_is_open(bare: Home) -> None:
    safari.tabs(container(bare), [Window([Tab("Anton", A)], closed=True, last_session=True),
                                  Window([Tab("older", B)], closed=True)])
    old(bare).mkdir(parents=True)
    bare.consent(grant(old(bare), "Default"))
    assert urls(bare, "ls-tabs") == [A]


def test_last_session_of_safari_14(bare: Home) -> None:
    safari.last_session(
        old(bare), safari.session_window(("Anton", A), ("Berta", B), selected=1),
        safari.session_window(("secret", "http://n.test/private"), private=True),
        safari.session_window(("unclear", "http://n.test/unclear"), private=None))
    bare.consent(grant(old(bare), "Default"))
    rows = found(bare, "ls-tabs")
    assert {(row["url"], row["meta"]["active"], row["accessed_at"]) for row in rows} == {
        (A, False, "2026-07-21T12:00:00.000000Z"), (B, True, "2026-07-21T12:00:00.000000Z")}


def test_files_that_claim_a_million_times_their_size(bare: Home) -> None:
    """Windows that are all the same one, with tabs that are."""
    one = {"IsPrivateWindow": False, "TabStates": [{"TabURL": A}] * 1000}
    safari.last_session(old(bare), *[one] * 1000)
    safari.tabs(container(bare), [Window([Tab("Anton", A)])])
    with sqlite3.connect(container(bare) / "SafariTabs.db") as conn:
        group, = conn.execute("SELECT active_tab_group_id FROM windows").fetchone()
        conn.executemany("INSERT INTO bookmarks (parent, type, title, url, order_index) VALUES (?, 0, 't', ?, 0)",
                         [(group, A)] * 1000)
        conn.executemany(
            "INSERT INTO windows (active_tab_group_id, active_profile_id, local_tab_group_id, extra_attributes, uuid)"
            " SELECT active_tab_group_id, active_profile_id, local_tab_group_id, extra_attributes, ? FROM windows"
            " WHERE id = 1", [(f"W{number}",) for number in range(1000)])
    conn.close()
    for place in (old(bare), container(bare)):
        bare.consent(grant(place))
        done = bare.run("ls-tabs", *NOW)
        assert done.code == 4 and b"more than 100000 tabs" in done.err, done


def test_tabs_of_other_devices(bare: Home) -> None:
    safari.cloud_tabs(container(bare), {
        "Ada's iPhone": [Tab("Anton", A, NOON), Tab(None, B)], "Büro": [Tab("Cäsar", C)]})
    safari.tabs(container(bare), [Window([Tab("Dora", D)])])
    old(bare).mkdir(parents=True)
    bare.consent(grant(old(bare), "Default"))
    assert urls(bare, "ls-tabs") == [D], "only where they are asked for"
    rows = found(bare, "ls-tabs", "--device", "ada's iphone")
    assert [(row["url"], row["title"], row["accessed_at"], row["meta"]["device"]) for row in rows] == [
        (A, "Anton", "2026-07-21T12:00:00.000000Z", "Ada's iPhone"), (B, None, None, "Ada's iPhone")]
    assert {row["provenance"]["origin"] for row in rows} == {"synced"}
    assert urls(bare, "ls-tabs", "--device", "Büro") == [C] == urls(bare, "ls-tabs", "--device", "all", "casar")
    assert len(urls(bare, "ls-tabs", "--device", "all")) == 3
    done = bare.run("ls-tabs", "--device", "none")
    assert done.code == 3 and b"'B\xc3\xbcro'" in done.err


def test_tabs_of_other_devices_are_nobodys_where_there_are_profiles(bare: Home) -> None:
    safari.cloud_tabs(container(bare), {"iPhone": [Tab("Anton", A)]})
    safari.tabs(container(bare), [], {WORK: "Arbeit"})
    old(bare).mkdir(parents=True)
    bare.consent(grant(old(bare), "Default"), grant(profile(bare)))
    done = bare.run("ls-tabs", "--device", "all")
    assert done.out == b"" and done.code == 7 and b"of which profile" in done.err


def test_the_last_session_of_old_is_of_the_first_profile_alone(bare: Home) -> None:
    safari.last_session(old(bare), safari.session_window(("mine", A)))
    bare.consent(grant(profile(bare)))
    done = bare.run("ls-tabs")
    assert done.code == 4 and done.out == b""


def test_tabs_of_other_devices_need_the_list_of_profiles(bare: Home) -> None:
    safari.cloud_tabs(container(bare), {"iPhone": [Tab("Anton", A)]})
    old(bare).mkdir(parents=True)
    bare.consent(grant(old(bare), "Default"))
    assert urls(bare, "ls-tabs", "--device", "iphone") == [A], "Safari before there were profiles"
    os.mkfifo(container(bare) / "SafariTabs.db")
    done = bare.run("ls-tabs", "--device", "iphone")
    assert done.code == 4 and done.out == b"" and b"not a regular file" in done.err


def test_closed_tabs_are_not_told(bare: Home) -> None:
    safari.tabs(container(bare), [Window([Tab("Anton", A)])])
    old(bare).mkdir(parents=True)
    bare.consent(grant(old(bare), "Default"))
    done = bare.run("ls-tabs", "--closed", "--report", str(bare.root / "report"))
    assert done.code == 0 and done.out == b""
    assert "no list of closed tabs" in orjson.loads((bare.root / "report").read_bytes())["notes"][0]


# ---- What a grant opens


def test_a_grant_opens_its_kind_of_data_and_no_other(bare: Home) -> None:
    """Each file that a kind of data does not need is a FIFO: opening it would wait for ever."""
    kinds = {"history": ["ls-history"], "bookmarks": ["ls-bookmarks"], "downloads": ["ls-downloads"],
             "reading": ["ls-reading"], "tabs": ["ls-tabs"]}
    for kind, (command,) in kinds.items():
        root = Home(bare.root / kind) if (bare.root / kind).mkdir() is None else bare
        needed = profiles.files("safari", kind)
        for folder in (old(root), container(root), profile(root)):
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("History.db", "Bookmarks.plist", "Downloads.plist", "Cookies.binarycookies", "CloudTabs.db",
                         "RecentlyClosedTabs.plist", "LastSession.plist", "SafariTabs.db"):
                if name not in needed:
                    os.mkfifo(folder / name)
        safari.history(old(root), [Page(A)]) if kind == "history" else None
        if kind in ("bookmarks", "reading"):
            safari.bookmarks(old(root), [leaf("a", A)], reading=[safari.read_later("a", A)])
        if kind == "downloads":
            safari.downloads(old(root), safari.download(A, "/a"))
        if kind == "tabs":
            safari.tabs(container(root), [Window([Tab("a", A)])])
        root.consent(grant(old(root), "Default", (kind,)))
        assert urls(root, command) == [A], kind
        other = next(name for name in ("ls-history", "ls-downloads") if name != command)
        assert root.run(other).code == 5


def test_links_beside_a_profile_are_not_followed(bare: Home) -> None:
    elsewhere = bare.root / "elsewhere"
    safari.tabs(elsewhere, [Window([Tab("a", A)])])
    old(bare).mkdir(parents=True)
    container(bare).parent.mkdir(parents=True)
    container(bare).symlink_to(elsewhere)
    bare.consent(grant(old(bare), "Default"))
    done = bare.run("ls-tabs")
    assert done.code == 4 and done.out == b"" and b"LastSession.plist" in done.err


# ---- Full Disk Access


def test_full_disk_access_is_for_safaris_folders_alone() -> None:
    home = "/Users/ada/Library"
    safaris = [f"{home}/Safari", f"{home}/Safari/x",
               f"{home}/Containers/com.apple.Safari/Data/Library/Safari/Profiles/X"]
    others = [f"{home}/Application Support/Google/Chrome/Default", f"{home}/Application Support/Orion/Defaults",
              f"{home}/Containers/com.apple.Notes", "/home/ada/Safari", f"{home}/Safari Notes"]
    assert all(fulldisk.hint(errno.EPERM, path) == fulldisk.HINT for path in safaris)
    assert not any(fulldisk.hint(errno.EPERM, path) for path in others)
    assert not any(fulldisk.hint(number, path) for path in safaris for number in (errno.EACCES, errno.ENOENT, None))


def denied(monkeypatch: pytest.MonkeyPatch, *parts: str) -> None:
    """Make the system answer as macOS does without Full Disk Access: EPERM for whatever lies in such a folder."""
    real_open, real_stat, real_list = os.open, os.stat, os.listdir

    def place(path: Any, folder: int | None) -> str:
        text = os.fsdecode(path) if not isinstance(path, int) else ""
        above = "" if folder is None else os.readlink(f"/proc/self/fd/{folder}")
        return os.path.normpath(os.path.join(above, text))

    def check(path: Any, folder: int | None = None, inside: bool = False) -> None:
        if any(part + ("/" if inside else "") in place(path, folder) for part in parts):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)

    def opening(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        check(path, dir_fd)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    def stating(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        check(path, dir_fd, inside=True)
        return real_stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def listing(path: Any = ".") -> list[str]:
        check(path)
        return real_list(path)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "stat", stating)
    monkeypatch.setattr(os, "listdir", listing)


#: The same in a process of its own, for the executables: Python reads it at its start.
HIDDEN = f"""
import errno, os
def hidden(real):
    def call(path, *args, dir_fd=None, **more):
        above = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{{dir_fd}}")
        text = "" if isinstance(path, int) else os.path.normpath(os.path.join(above, os.fsdecode(path)))
        if "/{OLD}" in text and not (real is os_stat and text.endswith("/{OLD}")):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        return real(path, *args, **({{}} if dir_fd is None else {{"dir_fd": dir_fd}}), **more)
    return call
os_stat = os.stat
os.open, os.stat = hidden(os.open), hidden(os_stat)
"""


def test_one_line_says_what_to_do_and_other_browsers_are_listed(bare: Home) -> None:
    safari.history(old(bare), [Page(A)])
    chromium = bare.home / "Library/Application Support/Chromium/Default"
    made.chromium_history(chromium, [made.Page(B, "other")])
    bare.consent(grant(old(bare), "Default"), {
        "family": "browser", "browser": "chromium", "profile": "Default", "data": ["history"], "path": str(chromium)})
    assert sorted(urls(bare, "ls-history")) == [A, B]
    (bare.root / "hook").mkdir()
    (bare.root / "hook/sitecustomize.py").write_text(HIDDEN)
    done = bare.run("ls-history", *NOW, env=bare.env(PYTHONPATH=str(bare.root / "hook")))
    assert done.code == 7 and [row["url"] for row in done.rows] == [B]
    lines = done.err.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("ls-history: cannot read profile 'safari/Default': not readable: ")
    assert "operation not permitted; allow your terminal" in lines[0] and "Full Disk Access" in lines[0]
    bare.consent(grant(old(bare), "Default"))
    alone = bare.run("ls-history", *NOW, env=bare.env(PYTHONPATH=str(bare.root / "hook")))
    assert alone.code == 5 and alone.out == b"" and b"Full Disk Access" in alone.err


def test_what_macos_hides_is_not_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safari.history(tmp_path / OLD, [Page(A)])
    made.chromium_history(tmp_path / "Library/Application Support/Chromium/Default", [made.Page(B)])
    fd = os.open(tmp_path / OLD, os.O_RDONLY)
    denied(monkeypatch, "/Library/Safari")
    listed = {f"{one.browser}/{one.directory}" for one in profiles.discover(str(tmp_path), {}, "darwin")}
    assert listed == {"safari/Default", "chromium/Default"}, "the others are listed all the same"
    with pytest.raises(Unusable) as caught:
        Source(fd, "History.db")
    assert (caught.value.reason, caught.value.errno) == ("not-readable", errno.EPERM)
    held = pinned.hold(narrow.Scope(narrow.Grant("browser", "safari", "Default", data=("history",),
                                                    path=str(tmp_path / OLD)), (str(tmp_path / OLD),)))
    assert isinstance(held, narrow.Refusal) and held.reason == "not-readable"
    assert "operation not permitted" in held.detail and held.detail.endswith(fulldisk.HINT) and "\n" not in held.detail
    monkeypatch.undo()
    os.close(fd)


def test_a_container_that_is_hidden_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import ExitStack

    safari.history(tmp_path / OLD, [Page(A)])
    safari.tabs(tmp_path / CONTAINER, [])
    fd = os.open(tmp_path / OLD, os.O_RDONLY)
    denied(monkeypatch, "/com.apple.Safari")
    with ExitStack() as stack, pytest.raises(Unusable) as caught:
        places.source("safari", str(tmp_path / OLD), fd, "tabs", stack)
    assert caught.value.reason == "not-readable" and caught.value.errno == errno.EPERM
    monkeypatch.undo()
    os.close(fd)


# ---- Whatever may be in a file


def test_bad_files_do_not_hide_the_good_ones(bare: Home) -> None:
    kinds = {"Bookmarks.plist": "ls-bookmarks", "Downloads.plist": "ls-downloads", "History.db": "ls-history"}
    made.chromium_history(bare.home / ".config/chromium/Default", [made.Page(A, "good")])
    made.chromium_bookmarks(bare.home / ".config/chromium/Default", bookmark_bar=[made.url_node("good", A)])
    chromium = {"family": "browser", "browser": "chromium", "profile": "Default",
                "data": ["history", "bookmarks"], "path": str(bare.home / ".config/chromium/Default")}
    bare.consent(grant(old(bare), "Default"), chromium)
    old(bare).mkdir(parents=True)
    for name, command in kinds.items():
        for data in (b"", b"needle" * 99, b"bplist00", b"bplist00" + bytes(32), plistlib.dumps([1, "x"]),
                     b"<?xml version='1.0'?><plist><dict>"):
            (old(bare) / name).write_bytes(data)
            done = bare.run(command, *NOW)
            assert b"Traceback" not in done.err
            assert done.code == (4 if command == "ls-downloads" else 7), (name, data, done)
            assert [row["url"] for row in done.rows] == ([] if command == "ls-downloads" else [A])
        (old(bare) / name).unlink()


def test_a_database_of_tabs_with_anything_in_it(tmp_path: Path) -> None:
    path = safari.tabs(tmp_path, [Window([Tab("Anton", A)])])
    conn = sqlite3.connect(path, factory=confine.Connection)
    odd = ["x", b"\xff\xfe", -1, 1 << 62, 3.5, None]
    for number, value in enumerate(odd):
        conn.execute("INSERT INTO bookmarks (parent, type, subtype, title, url, order_index, external_uuid,"
                     " extra_attributes, deleted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
                     (value, value, value, value, value, 0 if value is None else value, f"odd{number}", value))
        conn.execute("INSERT INTO windows (active_tab_group_id, active_profile_id, extra_attributes,"
                     " local_tab_group_id, private_tab_group_id, uuid) VALUES (?, ?, ?, ?, NULL, ?)",
                     (value, value, value, value, f"w{number}"))
    # A group that is its own ancestor.
    conn.execute("INSERT INTO bookmarks (id, parent, type, title, order_index)"
                 " VALUES (900, 901, 1, 'a', 0), (901, 900, 1, 'b', 0)")
    conn.execute("INSERT INTO windows (active_tab_group_id, active_profile_id, extra_attributes, uuid)"
                 " VALUES (900, 1, ?, 'loop')", (safari.blob({"IsPrivateWindow": False}),))
    found, notes = safaritabs.tabs(conn, "DefaultProfile", NOON)
    assert [tab.entry.url for tab in found] == [A] and len(notes) == 1
    conn.close()

"""Derived browsers as they are read by the executables: Opera's root, Arc's pins, Zen, extra bookmark roots, homes."""

import functools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import profiles
import pytest
from profiles import DAY, HOUR, NOON, Mark, Page, arc_folder, arc_sidebar, arc_tab, folder_node, url_node
from sessions import firefox_state, firefox_tab, simple_window
from support import Home
from test_browser_commands import NOW, chromium, grant, reported
from test_tabs_command import session, store

from lspipe import offer
from lspipe.browsers import profiles as table
from lspipe.commands import consent as command
from lspipe.narrow import Grant
from lspipe.run import Run

A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"
ALL = ("history", "bookmarks", "tabs")


def urls(home: Home, name: str, *args: str) -> list[str]:
    done = home.run(name, *NOW, *args)
    assert done.code == 0, done.err
    return [row["url"] for row in done.rows]


def arc(home: Home, directory: str = "Default") -> Path:
    return home.home / "Library/Application Support/Arc/User Data" / directory


def sidebar(home: Home, value: Any) -> Path:
    path = arc(home).parent.parent / "StorableSidebar.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else orjson.dumps(value))
    return path


# ---- Opera


def test_opera_keeps_its_files_in_the_root(bare: Home) -> None:
    root = bare.home / ".config/opera"
    profiles.chromium_history(root, [Page(A, "history of Opera")])
    profiles.chromium_bookmarks(root, bookmark_bar=[url_node("bar", B)])
    session(root, *simple_window(1, [(11, C, "a tab")]))
    (root / "Cookies").write_bytes(b"secret")
    found, = bare.run("ls-consent", "list", "--found", "--json").rows[0]["found"]
    assert (found["browser"], found["profile"], found["path"]) == ("opera", "Default", str(root))
    bare.consent({**grant(root, "opera", ALL), "profile": "Default"})
    before = profiles.look(bare.home)
    assert (urls(bare, "ls-history"), urls(bare, "ls-bookmarks"), urls(bare, "ls-tabs")) == ([A], [B], [C])
    assert urls(bare, "ls-history", "--profile", "opera/Default") == [A]
    assert profiles.look(bare.home) == before


def test_bookmarks_of_operas_root_of_roots_without_its_bin(bare: Home) -> None:
    root = bare.home / ".config/opera"
    profiles.chromium_bookmarks(root, bookmark_bar=[url_node("bar", A)], custom_root={
        "speedDial": folder_node("Speed Dial", folder_node("Laptop", url_node("dial", B))),
        "trash": folder_node("Trash", url_node("gone", "http://gone.test/")),
        "unsorted": folder_node("", url_node("loose", C)), "userRoot": folder_node("User"), "odd": 7})
    bare.consent({**grant(root, "opera", ALL), "profile": "Default"})
    rows = {row["url"]: row["meta"]["folder"] for row in bare.run("ls-bookmarks", *NOW).rows}
    assert rows == {A: "Bookmarks bar", B: "Speed Dial/Laptop", C: "unsorted"}


def test_extra_roots_are_read_and_bins_are_not(bare: Home) -> None:
    """Vivaldi's bin, Edge's workspaces, and whatever else stands among the roots."""
    profiles.chromium_bookmarks(chromium(bare), bookmark_bar=[url_node("bar", A)], other=[], synced=[],
                                trash=[url_node("gone", "http://gone.test/")], workspaces_v2=[url_node("space", B)],
                                sync_transaction_version="7", empty=None, listed=[], flag=True)
    bare.consent(grant(chromium(bare), "vivaldi"))
    assert sorted(urls(bare, "ls-bookmarks")) == [A, B]


# ---- Arc


def test_arcs_pins_are_bookmarks_of_the_profile_whose_space_they_are_in(bare: Home) -> None:
    for name in ("Default", "Profile 1"):
        profiles.chromium_history(arc(bare, name), [Page("http://visited.test/", "x")])
    work = {"custom": {"_0": {"directoryBasename": "Profile 1"}}}
    sidebar(bare, arc_sidebar(
        {"title": "Home", "pinned": [arc_folder("Reading", arc_tab(A, "Async"))], "unpinned": [arc_tab(B, "today")]},
        {"title": "Work", "profile": work, "pinned": [arc_tab(C, "Plan", created=0)]}))
    bare.consent(grant(arc(bare), "arc"))
    before = profiles.look(bare.home)
    row, = bare.run("ls-bookmarks", *NOW).rows
    assert (row["url"], row["title"], row["accessed_at"]) == (A, "Async", "2026-07-21T12:00:00.000000Z")
    assert row["meta"] == {"folder": "Home/Reading", "pinned": True, "workspace": "Home"}
    assert row["provenance"] | {"browser": "arc", "profile": "Default", "origin": "local"} == row["provenance"]
    assert urls(bare, "ls-bookmarks", "--folder", "reading") == [A] and urls(bare, "ls-bookmarks", "async") == [A]
    assert profiles.look(bare.home) == before and bare.runs == []
    bare.consent(grant(arc(bare), "arc"), grant(arc(bare, "Profile 1"), "arc"))
    assert urls(bare, "ls-bookmarks") == [A, C] and urls(bare, "ls-bookmarks", "--profile", "Profile 1") == [C]
    profiles.chromium_bookmarks(arc(bare), other=[url_node("the same", A)])
    assert urls(bare, "ls-bookmarks", "--profile", "Default") == [A, A], "a pin is another thing than a bookmark"


@pytest.mark.parametrize("kind", ["history", "tabs"])
def test_a_sidebar_is_opened_for_bookmarks_alone(bare: Home, kind: str) -> None:
    profiles.chromium_history(arc(bare), [Page(A, "x")])
    session(arc(bare), *simple_window(1, [(11, A, "x")]))
    path = sidebar(bare, b"")
    path.unlink()
    os.mkfifo(path)
    bare.consent(grant(arc(bare), "arc", (kind,)))
    assert urls(bare, f"ls-{kind}") == [A], "whoever opens it waits for ever"
    bare.consent(grant(arc(bare), "brave"))
    assert bare.run("ls-bookmarks").code == 0, "nor by a browser that has none"


@pytest.mark.parametrize(("how", "reason"), [
    ("format", "failed"), ("text", "failed"), ("link", "not-readable"), ("fifo", "not-readable"),
    ("folder", "not-readable")])
def test_a_sidebar_that_cannot_be_read_hides_no_bookmark(bare: Home, how: str, reason: str) -> None:
    profiles.chromium_bookmarks(arc(bare), other=[url_node("mine", A)])
    bare.consent(grant(arc(bare), "arc"))
    assert urls(bare, "ls-bookmarks") == [A], "Arc where nothing was ever pinned"
    path = sidebar(bare, {"text": b"{"}.get(how, b'{"sidebar": {"containers": []}}'))
    if reason == "not-readable":
        path.unlink()
    if how == "link":
        secret = arc_sidebar({"title": "S", "pinned": [arc_tab("http://secret.test/", "")]})
        path.with_name("secret.json").write_bytes(orjson.dumps(secret))
        path.symlink_to("secret.json")
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    done, report = reported(bare, "ls-bookmarks")
    assert done.code == 7 and [row["url"] for row in done.rows] == [A]
    entry, = report["skipped"]
    assert entry["reason"] == reason and "StorableSidebar.json" in entry["detail"]


def test_a_grant_of_arcs_bookmarks_says_that_it_opens_the_sidebar(
    bare: Home, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a person is asked on macOS."""
    profiles.chromium_history(arc(bare), [Page(A, "x")])
    monkeypatch.setenv("HOME", str(bare.home))
    monkeypatch.setattr(table, "discover", functools.partial(table.discover, platform="darwin"))
    found = command._discover(Run("ls-consent", SimpleNamespace(), []))
    terms = Grant("browser", browser="arc", profile="Default", data=("history", "bookmarks"), path=str(arc(bare)))
    asked = list(offer.question([terms], found, {}, "consent.json"))
    assert "    bookmarks: Bookmarks, AccountBookmarks, ../../StorableSidebar.json" in asked
    assert "    history: History, Sync Data/LevelDB" in asked


# ---- Firefox's children


def test_the_sidebar_of_zen_in_its_own_root(bare: Home) -> None:
    profile = bare.home / ".config/zen/ab12.Default (release)"
    profiles.firefox_places(profile, [Page(A, "visited")], {"toolbar": [Mark("marked", B)]})
    profiles.profiles_ini(profile.parent, ("Profile0", {"Name": "Ada", "IsRelative": "1", "Path": profile.name}))
    store(profile, firefox_state({"tabs": [firefox_tab("http://stale.test/")]}), "sessionstore.jsonlz4", at=NOON - DAY)
    tab = firefox_tab(C, "Carla", zenSyncId="1", zenWorkspace="{1}")
    store(profile, {"tabs": [tab], "spaces": [{"uuid": "{1}", "name": "Werkstatt"}], "lastCollected": NOON // 1000},
          "zen-sessions.jsonlz4", at=NOON - HOUR)
    bare.consent(grant(profile, "zen", ALL))
    assert (urls(bare, "ls-history"), urls(bare, "ls-bookmarks")) == ([A], [B])
    row, = [row for row in bare.run("ls-tabs", *NOW).rows if row["url"] == C]
    assert row["meta"]["workspace"] == "Werkstatt"
    assert row["provenance"]["browser"] == "zen" and row["provenance"]["profile_name"] == "Ada"
    assert row["meta"]["saved_at"].startswith("2026-07-2"), "how old the file is"


def test_rows_say_the_name_from_a_profile_group_and_from_a_list_elsewhere(bare: Home) -> None:
    root, disk = bare.home / ".mozilla/firefox", bare.root / "disk/profile"
    for path, url in ((root / "a.default", A), (root / "Profiles/b.Work", B), (disk, C)):
        profiles.firefox_places(path, [Page(url, "x")])
    profiles.profiles_ini(
        root, ("Profile0", {"Name": "default", "Path": "a.default", "StoreID": "0a1b"}),
        ("Profile1", {"Name": "Disk", "IsRelative": "0", "Path": str(disk)}))
    profiles.profile_group(root, "0a1b", {"a.default": "Original", "Profiles/b.Work": "Work", "c.gone": "Gone"})
    paths = [root / "a.default", root / "Profiles/b.Work", disk]
    bare.consent(*(grant(path, "firefox") for path in paths))
    before = profiles.look(bare.home)
    rows = bare.run("ls-history", *NOW).rows
    assert {row["url"]: row["provenance"]["profile_name"] for row in rows} == {A: "Original", B: "Work", C: "Disk"}
    for name, url in (("Original", A), ("Work", B), ("Disk", C)):
        assert urls(bare, "ls-history", "--profile", name) == [url]
    assert profiles.look(bare.home) == before


def test_a_profile_that_no_list_names_needs_no_home(bare: Home) -> None:
    profile = profiles.firefox_places(bare.root / "copied", [Page(A, "x")]).parent
    bare.consent(grant(profile, "firefox"))
    done = bare.run("ls-history", *NOW, env=bare.env(HOME=None))
    assert (done.code, done.err) == (0, b"") and "profile_name" not in done.rows[0]["provenance"]


def test_a_profile_on_a_disk_that_is_not_there_is_said(bare: Home) -> None:
    profiles.chromium_history(chromium(bare), [Page(A, "x")])
    bare.consent(grant(chromium(bare)), grant(bare.root / "disk/unplugged", "firefox"))
    done, report = reported(bare, "ls-history")
    assert done.code == 7 and [row["url"] for row in done.rows] == [A]
    assert [(entry["profile"], entry["reason"]) for entry in report["skipped"]] == [("unplugged", "not-found")]
    assert b"cannot reach" in done.err


# ---- Homes


def test_where_it_looked_is_said_where_there_is_no_browser(bare: Home) -> None:
    done = bare.run("ls-consent", "grant", "browser", "--data", "history")
    assert (done.code, done.out) == (3, b"")
    assert b"no browser profile found" in done.err and os.fsencode(bare.home) in done.err


@pytest.mark.parametrize("command", [("ls-history",), ("ls-tabs",), ("ls-consent", "list", "--found")])
def test_a_home_of_somebody_else_is_said(bare: Home, command: tuple[str, ...]) -> None:
    """As under sudo, where HOME may be the one of the person who called it."""
    profiles.chromium_history(chromium(bare), [Page(A, "x")])
    session(chromium(bare), *simple_window(1, [(11, A, "x")]))
    bare.consent(grant(chromium(bare), data=ALL))
    assert b"belongs to another user" not in bare.run(*command).err
    other = "/"
    if os.geteuid() == 0:
        other = str(bare.root / "other")
        os.mkdir(other)
        os.chown(other, 12345, -1)
    done = bare.run(*command, env=bare.env(HOME=other))
    assert done.code == 0 and f"HOME is '{other}', which belongs to another user" in done.err.decode()

"""A machine with more than ten roots, as years of use leave them: each profile once, the one in use first."""

import functools
import os
import re
from pathlib import Path

import profiles
import pytest
from profiles import DAY, NOON, Page
from sessions import firefox_state, firefox_tab, jsonlz4, simple_window, snss
from support import Home

from .test_consent_command import ASKED, Person

#: Browser and profile to (place, shown name before a grant, shown name in rows, days since it was used), each once.
PROFILES = {
    "brave/Default": (".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser/Default", "Ada", "Ada", 9),
    "chromium/Profile 7": ("dotfiles/chromium/Profile 7", "Arbeit / 🦊", "Arbeit / 🦊", 40),
    "chromium/Default": ("snap/chromium/2890/.config/chromium/Default", "Default", None, 8),
    "firefox/a.default": (".mozilla/firefox/a.default", "default", None, 900),
    "firefox/b.default-release": ("snap/firefox/common/.mozilla/firefox/b.default-release", "default-release",
                                  "Original", 1),
    "firefox/c.Work": ("snap/firefox/common/.mozilla/firefox/c.Work", "c.Work", "Work", 2),
    "firefox/d.default": (".var/app/org.mozilla.firefox/.mozilla/firefox/d.default", "default", None, 3),
    "firefox/e.default": ("xdg/mozilla/firefox/e.default", "new", "new", 0),
    "firefox/profile of Ada": ("disk/profile of Ada", "disk", "disk", 4),
    "opera/Default": ("dotfiles/opera", "Default", None, 30),
    "vivaldi/Default": ("dotfiles/vivaldi/Default", "Person 1", "Person 1", 50),
    "zen/f.Default (release)": (".zen/f.Default (release)", "Default (release)", None, 6),
}


def url(label: str) -> str:
    return f"http://{label.partition('/')[0]}.test/{list(PROFILES).index(label)}"


@pytest.fixture
def machine(bare: Home) -> Home:
    """Native, snap, flatpak and XDG roots, leftovers, links and groups; profiles with a page and an open tab each."""
    home = bare.home
    for label, (place, _, _, age) in PROFILES.items():
        path = home / place
        if label.startswith(("firefox", "zen")):
            main = profiles.firefox_places(path, [Page(url(label), "page")], wal=False)
            (path / "sessionstore.jsonlz4").write_bytes(jsonlz4(firefox_state({"tabs": [firefox_tab(url(label))]})))
        else:
            main = profiles.chromium_history(path, [Page(url(label), "page")])
            (path / "Sessions").mkdir()
            (path / "Sessions/Session_13440000000000000").write_bytes(snss(*simple_window(1, [(11, url(label), "x")])))
        for one in (main, path / "Sessions", path / "sessionstore.jsonlz4"):
            if one.exists():
                os.utime(one, ns=((NOON - age * DAY) * 1000,) * 2)
    (home / ".config").symlink_to("dotfiles")
    # Links to what is found already, and circles.
    (home / "snap/chromium/current").symlink_to("2890")
    (home / "snap/chromium/common").mkdir()
    (home / "snap/chromium/common/chromium").symlink_to(home / "dotfiles/chromium")
    (home / "xdg/chromium").symlink_to(home / ".config/chromium")
    (home / "dotfiles/opera/loop").symlink_to(".")
    (home / "dotfiles/vivaldi/Profile 2").symlink_to("Default")
    # What is no profile.
    for name in ("Guest Profile", "System Profile"):
        profiles.chromium_history(home / "dotfiles/chromium" / name, [Page("http://guest.test/")])
    (home / ".config/google-chrome/Default").mkdir(parents=True)
    profiles.local_state(home / "dotfiles/chromium", {"Profile 7": "Arbeit / 🦊", "Profile 1": "deleted"})
    profiles.local_state(home / "dotfiles/vivaldi", {"Default": "Person 1"})
    profiles.local_state((home / PROFILES["brave/Default"][0]).parent, {"Default": "Ada"})
    # Firefox: a leftover of before the move to snap, a group with a dead row, a profile on a disk, an unplugged one.
    profiles.profiles_ini(home / ".mozilla/firefox", ("Profile0", {"Name": "default", "Path": "a.default",
                                                                   "Default": "1"}),
                          ("Profile1", {"Name": "disk", "IsRelative": "0", "Path": str(home / "disk/profile of Ada")}),
                          ("Profile2", {"Name": "unplugged", "IsRelative": "0", "Path": str(home / "gone")}))
    snap = home / "snap/firefox/common/.mozilla/firefox"
    profiles.profiles_ini(snap, ("Profile0", {"Name": "default-release", "IsRelative": "1", "StoreID": "4f96",
                                              "Path": "b.default-release"}),
                          ("Install4F96D1932A9F858E", {"Default": "b.default-release"}))
    profiles.profile_group(snap, "4f96", {"b.default-release": "Original", "c.Work": "Work", "z.deleted": "Dead"})
    profiles.profiles_ini(home / ".var/app/org.mozilla.firefox/.mozilla/firefox",
                          ("Profile0", {"Name": "default", "Path": "d.default"}))
    profiles.profiles_ini(home / "xdg/mozilla/firefox", ("Profile0", {"Name": "new", "Path": "e.default"}))
    profiles.profiles_ini(home / ".zen", ("Profile0", {"Name": "Default (release)", "Path": "f.Default (release)"}))
    bare.env = functools.partial(Home.env, bare, XDG_CONFIG_HOME=str(home / "xdg"))  # type: ignore[method-assign]
    return bare


def label(found: dict[str, str]) -> str:
    return f"{found['browser']}/{found['profile']}"


def test_each_profile_is_found_once_and_the_one_in_use_comes_first(machine: Home) -> None:
    before = profiles.look(machine.home)
    found = machine.run("ls-consent", "list", "--found", "--json").rows[0]["found"]
    assert {label(one): (Path(one["path"]).relative_to(machine.home).as_posix(), one["name"]) for one in found} == {
        name: (place, shown) for name, (place, shown, _, _) in PROFILES.items()}
    assert len(found) == len(PROFILES) == len({os.stat(one["path"]).st_ino for one in found})
    assert [label(one) for one in found if one["browser"] == "firefox"] == [
        "firefox/e.default", "firefox/b.default-release", "firefox/c.Work", "firefox/d.default",
        "firefox/profile of Ada", "firefox/a.default"], "the leftover in ~/.mozilla comes last"
    assert [label(one) for one in found if one["browser"] == "chromium"] == ["chromium/Default", "chromium/Profile 7"]
    assert profiles.look(machine.home) == before


def test_what_a_person_grants_there_is_read_and_nothing_else(machine: Home) -> None:
    person = Person(machine, "grant", "browser", "--data", "history,tabs")
    screen = person.read_until("Which, by number? ")
    listed = re.findall(r'^ +(\d+) (\S+?/.+?) "(.*?)", granted: nothing\r?$', screen, re.MULTILINE)
    assert {name: shown for _, name, shown in listed} == {name: one[1] for name, one in PROFILES.items()}
    chosen = [number for number, name, _ in listed if name != "firefox/a.default"]
    person.type(" ".join(chosen).encode() + b"\n")
    person.read_until(ASKED)
    person.type(b"y\n")
    done = person.end()
    assert done.code == 0 and len(done.out.splitlines()) == len(PROFILES) - 1
    # Whoever opened what is not granted would wait for ever.
    for name in ("places.sqlite", "sessionstore.jsonlz4"):
        path = machine.home / ".mozilla/firefox/a.default" / name
        path.unlink()
        os.mkfifo(path)
    before = profiles.look(machine.home)
    expected = {name: one for name, one in PROFILES.items() if name != "firefox/a.default"}
    for command in ("ls-history", "ls-tabs"):
        done = machine.run(command, "--now", "2026-07-21T13:00:00Z")
        assert (done.code, done.err) == (0, b"")
        rows = {label(row["provenance"]): (row["url"], row["provenance"].get("profile_name")) for row in done.rows}
        assert rows == {name: (url(name), None if shown == name.partition("/")[2] else shown) for name, (
            _, first, last, _) in expected.items() for shown in [last or first]}, command
        assert len(done.rows) == len(expected), "each once"
    for word, name in (("Work", "firefox/c.Work"), ("firefox/new", "firefox/e.default"),
                       ("disk", "firefox/profile of Ada"), ("Arbeit / 🦊", "chromium/Profile 7"),
                       ("opera", "opera/Default")):
        assert [row["url"] for row in machine.run("ls-history", "--profile", word).rows] == [url(name)]
    assert profiles.look(machine.home) == before and machine.runs == []
    assert machine.run("ls-history", "--profile", "a.default").code == 5


def test_a_grant_written_by_hand_reads_the_same(machine: Home) -> None:
    machine.consent(*({"family": "browser", "browser": name.partition("/")[0], "profile": name.partition("/")[2],
                       "data": ["history", "tabs"], "path": str(machine.home / place)}
                      for name, (place, _, _, _) in PROFILES.items()))
    for command in ("ls-history", "ls-tabs"):
        done = machine.run(command, "--now", "2026-07-21T13:00:00Z")
        assert done.code == 0 and sorted(row["url"] for row in done.rows) == sorted(map(url, PROFILES))

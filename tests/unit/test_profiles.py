"""profiles: every root, every list of profiles, and nothing read but names."""

import os
import sqlite3
from pathlib import Path

import profiles as made
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import Page

from lspipe.browsers import known, profiles
from lspipe.browsers.profiles import Profile, discover

HISTORY = (Page("http://a.test/"),)


def found(home: Path, platform: str = "linux", **environ: str) -> list[Profile]:
    return discover(str(home), environ, platform)


def labels(home: Path, platform: str = "linux", **environ: str) -> set[str]:
    return {f"{one.browser}/{one.directory}" for one in found(home, platform, **environ)}


def test_nothing_installed(tmp_path: Path) -> None:
    assert found(tmp_path) == [] and found(tmp_path / "absent") == []


@pytest.mark.parametrize(("root", "browser"), [
    (".config/chromium", "chromium"), ("snap/chromium/common/chromium", "chromium"),
    ("snap/chromium/2890/.config/chromium", "chromium"),
    (".var/app/org.chromium.Chromium/config/chromium", "chromium"), (".config/google-chrome", "chrome"),
    (".var/app/com.google.Chrome/config/google-chrome", "chrome"), (".config/google-chrome-beta", "chrome-beta"),
    (".config/BraveSoftware/Brave-Browser", "brave"), (".config/BraveSoftware/Brave-Origin", "brave-origin"),
    (".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser", "brave"),
    (".config/microsoft-edge", "edge"), (".config/vivaldi", "vivaldi")])
def test_chromium_roots_on_linux(tmp_path: Path, root: str, browser: str) -> None:
    made.chromium_history(tmp_path / root / "Default", HISTORY)
    assert labels(tmp_path) == {f"{browser}/Default"}
    assert found(tmp_path)[0].path == str(tmp_path / root / "Default")
    assert found(tmp_path, "darwin") == []


@pytest.mark.parametrize(("root", "browser"), [
    (".mozilla/firefox", "firefox"), (".config/mozilla/firefox", "firefox"),
    ("snap/firefox/common/.mozilla/firefox", "firefox"),
    (".var/app/org.mozilla.firefox/.mozilla/firefox", "firefox"), (".librewolf", "librewolf"),
    (".var/app/io.gitlab.librewolf-community/.librewolf", "librewolf")])
def test_firefox_roots_on_linux(tmp_path: Path, root: str, browser: str) -> None:
    made.firefox_places(tmp_path / root / "ab12.default-release")
    made.profiles_ini(tmp_path / root, ("Profile0", {"Name": "Ada", "IsRelative": "1", "Path": "ab12.default-release"}))
    one, = found(tmp_path)
    assert (one.browser, one.engine, one.directory, one.name) == (browser, "firefox", "ab12.default-release", "Ada")


@pytest.mark.parametrize(("root", "browser"), [
    ("Google/Chrome/Default", "chrome"), ("BraveSoftware/Brave-Browser/Profile 2", "brave"),
    ("Microsoft Edge/Default", "edge"), ("Firefox/Profiles/x.default", "firefox"),
    ("LibreWolf/Profiles/y.default", "librewolf")])
def test_roots_on_mac(tmp_path: Path, root: str, browser: str) -> None:
    folder = tmp_path / "Library/Application Support" / root
    (made.firefox_places if browser in ("firefox", "librewolf") else lambda path: made.chromium_history(path, HISTORY))(
        folder)
    assert labels(tmp_path, "darwin") == {f"{browser}/{folder.name}"}
    assert found(tmp_path) == []


def placed(home: Path, browser: known.Browser, root: str) -> tuple[Path, str]:
    """A profile in a root of the table, and the system that the root is for."""
    kind, _, rest = root.partition("/")
    above = home / {"home": "", "config": ".config", "mac": "Library/Application Support"}[kind]
    path = above / rest.replace("*", "2890") / "Profile 1"
    if browser.engine == "firefox":
        made.firefox_places(path)
    else:
        made.chromium_history(path, HISTORY)
    return path, "darwin" if kind == "mac" else "linux"


@pytest.mark.parametrize(("browser", "root"), [
    pytest.param(one, root, id=f"{one.name}-{root}") for one in known.BROWSERS if one.engine in ("chromium", "firefox")
    for root in one.roots])
def test_every_root_of_the_table_is_found_on_its_system_and_on_no_other(
    tmp_path: Path, browser: known.Browser, root: str,
) -> None:
    path, system = placed(tmp_path, browser, root)
    one, = found(tmp_path, system)
    assert (one.browser, one.directory, one.path) == (browser.name, "Profile 1", str(path))
    assert found(tmp_path, "linux" if system == "darwin" else "darwin") == []


def test_every_browser_of_the_table_stands_there_once() -> None:
    names = [one.name for one in known.BROWSERS]
    roots = [root for one in known.BROWSERS for root in one.roots]
    assert len(set(names)) == len(names) and len(set(roots)) == len(roots)
    assert all(one.engine in known.FILES and one.roots for one in known.BROWSERS)
    assert {one for one, _ in known.BESIDE} <= set(names)


@pytest.mark.parametrize("root", [".config/opera", ".config/opera-beta", "snap/opera/402/.config/opera",
                                  ".var/app/com.opera.Opera/config/opera", ".config/opera-gx"])
def test_a_root_that_is_the_profile_itself(tmp_path: Path, root: str) -> None:
    """Opera with its files in the root, or in `Default` below it, or in both after an update."""
    made.chromium_history(tmp_path / root, HISTORY)
    made.local_state(tmp_path / root, {"Default": "Ada"})
    (tmp_path / root / "loop").symlink_to(".")
    (tmp_path / root / "Crash Reports").mkdir()
    one, = found(tmp_path)
    assert (one.directory, one.name, one.path, one.default) == ("Default", "Ada", str(tmp_path / root), True)
    assert profiles.shown_names([one.path]) == {one.path: "Ada"}
    os.utime(tmp_path / root / "History", (1, 1))
    made.chromium_history(tmp_path / root / "Default", HISTORY)
    newer, older = found(tmp_path)
    assert (newer.directory, newer.path, newer.default) == ("Default", str(tmp_path / root / "Default"), True)
    assert (older.directory, older.path, older.default) == (os.path.basename(root), str(tmp_path / root), False)


def test_an_empty_leftover_root_shadows_nothing(tmp_path: Path) -> None:
    (tmp_path / ".mozilla/firefox/Crash Reports").mkdir(parents=True)
    made.profiles_ini(tmp_path / ".mozilla/firefox", ("Profile0", {"Path": "gone.default", "Default": "1"}))
    made.firefox_places(tmp_path / ".config/mozilla/firefox/x.default")
    (tmp_path / ".config/BraveSoftware/Brave-Browser/Default").mkdir(parents=True)
    made.chromium_history(tmp_path / ".config/BraveSoftware/Brave-Origin/Default", HISTORY)
    assert labels(tmp_path) == {"firefox/x.default", "brave-origin/Default"}


def test_the_old_root_and_the_new_one_are_both_read(tmp_path: Path) -> None:
    for root in (".mozilla/firefox", ".config/mozilla/firefox"):
        made.firefox_places(tmp_path / root / "same.default")
    assert labels(tmp_path) == {"firefox/same.default", "firefox/same.default@2"}


def test_names_of_profiles_follow_no_rule(tmp_path: Path) -> None:
    root = tmp_path / ".mozilla/firefox"
    for name in ("Work", "no dot", "x.y.z"):
        made.firefox_places(root / name)
    made.profiles_ini(root, ("ProfileX", {"Path": "Work"}), ("Profile", {"Path": "no dot", "Name": "Nöte/🦊"}),
                      ("Profile7", {"Path": "x.y.z", "IsRelative": "7"}))
    assert {(one.directory, one.name) for one in found(tmp_path)} == {
        ("Work", "Work"), ("no dot", "Nöte/🦊"), ("x.y.z", "x.y.z")}


def test_a_profile_without_history_is_as_fresh_as_its_session(tmp_path: Path) -> None:
    stale = made.chromium_history(tmp_path / ".config/chromium/Default", HISTORY)
    os.utime(stale, (1, 1))
    (tmp_path / ".config/chromium/Profile 1/Sessions").mkdir(parents=True)
    made.firefox_places(tmp_path / ".mozilla/firefox/old")
    os.utime(tmp_path / ".mozilla/firefox/old/places.sqlite", (2, 2))
    (tmp_path / ".mozilla/firefox/new/sessionstore-backups").mkdir(parents=True)
    made.profiles_ini(tmp_path / ".mozilla/firefox", ("Profile0", {"Path": "new"}))
    assert [one.directory for one in found(tmp_path)] == ["new", "Profile 1", "old", "Default"]


def test_xdg_variable_and_its_fallback(tmp_path: Path) -> None:
    made.chromium_history(tmp_path / "elsewhere/chromium/Default", HISTORY)
    made.chromium_history(tmp_path / ".config/google-chrome/Default", HISTORY)
    made.firefox_places(tmp_path / "elsewhere/mozilla/firefox/x.default")
    assert labels(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "elsewhere")) == {
        "chromium/Default", "chrome/Default", "firefox/x.default"}
    assert labels(tmp_path, XDG_CONFIG_HOME="relative") == {"chrome/Default"}


def test_names_of_local_state_and_directories_that_are_no_profile(tmp_path: Path) -> None:
    root = tmp_path / ".config/google-chrome"
    for name in ("Profile 7", "Guest Profile", "System Profile"):
        made.chromium_history(root / name, HISTORY)
    (root / "Profile 8").mkdir()
    (root / "Profile 9").mkdir()
    (root / "Profile 9/EncryptedBookmarks2").write_bytes(b"")
    (root / "ShaderCache").mkdir()
    made.local_state(root, {"Profile 7": "Arbeit / 🦊", "Profile 1": "gone", "Default": "gone too"})
    assert {(one.directory, one.name) for one in found(tmp_path)} == {
        ("Profile 7", "Arbeit / 🦊"), ("Profile 9", "Profile 9")}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"profile": 3}', b'{"profile": {"info_cache": []}}',
                                     b'{"profile": {"info_cache": {"Default": {"name": 5}}}}', b"\xff\xfe"])
def test_local_state_that_is_broken(tmp_path: Path, content: bytes) -> None:
    root = tmp_path / ".config/chromium"
    made.chromium_history(root / "Default", HISTORY)
    (root / "Local State").write_bytes(content)
    assert [one.name for one in found(tmp_path)] == ["Default"]


def test_local_state_that_is_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    root = tmp_path / ".config/chromium"
    made.chromium_history(root / "Default", HISTORY)
    os.mkfifo(root / "Local State")
    assert [one.name for one in found(tmp_path)] == ["Default"]


def test_links_and_twins_are_one_profile(tmp_path: Path) -> None:
    """~/.config that is a link, a profile that is a link (profile-sync-daemon), and a loop."""
    real = tmp_path / "dotfiles/chromium"
    made.chromium_history(tmp_path / "ram/Default", HISTORY)
    real.mkdir(parents=True)
    (real / "Default").symlink_to(tmp_path / "ram/Default")
    (real / "Profile 1").symlink_to("Profile 1")
    (tmp_path / ".config").symlink_to("dotfiles")
    one, = found(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "dotfiles"))
    assert one.path == str(tmp_path / "ram/Default")
    assert one.directory == "Default"


def test_two_installations_of_one_browser_have_two_names(tmp_path: Path) -> None:
    for root in (".config/chromium", "snap/chromium/common/chromium",
                 ".var/app/org.chromium.Chromium/config/chromium", "snap/chromium/12/.config/chromium"):
        made.chromium_history(tmp_path / root / "Default", HISTORY)
    named = {one.path.removeprefix(str(tmp_path)): one.directory for one in found(tmp_path)}
    assert named == {"/.config/chromium/Default": "Default",
                     "/snap/chromium/common/chromium/Default": "Default@snap",
                     "/snap/chromium/12/.config/chromium/Default": "Default@3",
                     "/.var/app/org.chromium.Chromium/config/chromium/Default": "Default@flatpak"}


def test_freshest_first(tmp_path: Path) -> None:
    for number, root in enumerate((".mozilla/firefox", "snap/firefox/common/.mozilla/firefox")):
        path = made.firefox_places(tmp_path / root / "x.default")
        os.utime(path, ns=(0, 10**18 + number))
    first, second = found(tmp_path)
    assert "snap" in first.path and first.fresh == second.fresh + 1
    (Path(second.path) / "places.sqlite-wal").write_bytes(b"x")
    assert "snap" not in found(tmp_path)[0].path


# ---- Firefox's lists


def test_installations_default_and_absolute_paths(tmp_path: Path) -> None:
    root, disk = tmp_path / ".mozilla/firefox", tmp_path / "disk/profile of Ada"
    for name in ("a.default", "b.default-release", "c.dev-edition"):
        made.firefox_places(root / name)
    made.firefox_places(disk)
    made.profiles_ini(
        root, ("Install4F96D1932A9F858E", {"Default": "b.default-release", "Locked": "1"}),
        ("Install11457493C5A56847", {"Default": "c.dev-edition"}),
        ("Profile0", {"Name": "default", "IsRelative": "1", "Path": "a.default", "Default": "1"}),
        ("Profile1", {"Name": "default-release", "IsRelative": "1", "Path": "b.default-release"}),
        ("Profile2", {"Name": "dev", "Path": "c.dev-edition"}),
        ("Profile3", {"Name": "disk", "IsRelative": "0", "Path": str(disk)}),
        ("Profile4", {"Name": "unplugged", "IsRelative": "0", "Path": str(tmp_path / "gone")}),
        ("Profile5", {"Name": "no path"}), ("General", {"Version": "2"}))
    assert {(one.name, one.default) for one in found(tmp_path)} == {
        ("default", False), ("default-release", True), ("dev", True), ("disk", False)}
    assert {one.path for one in found(tmp_path)} >= {str(disk)}


def test_default_without_installations(tmp_path: Path) -> None:
    root = tmp_path / ".mozilla/firefox"
    for name in ("a", "b"):
        made.firefox_places(root / name)
    made.profiles_ini(root, ("Profile0", {"Path": "a"}), ("Profile1", {"Path": "b", "Default": "1"}))
    assert {(one.directory, one.name, one.default) for one in found(tmp_path)} == {("a", "a", False), ("b", "b", True)}


def test_profile_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / ".mozilla/firefox"
    for name in ("a.default-release", "Profiles/b.Work"):
        made.firefox_places(root / name)
    made.profiles_ini(root, ("Profile0", {"Name": "default-release", "Path": "a.default-release", "StoreID": "0a1b"}))
    database = made.profile_group(root, "0a1b", {"a.default-release": "Original", "Profiles/b.Work": "Work",
                                                 "c.deleted": "Gone"})
    assert {(one.directory, one.name) for one in found(tmp_path)} == {
        ("a.default-release", "default-release"), ("b.Work", "b.Work")}
    paths = [one.path for one in found(tmp_path)]
    before = made.look(tmp_path)
    assert set(profiles.shown_names(paths, groups=True).values()) == {"Original", "Work"}
    assert made.look(tmp_path) == before
    database.write_bytes(b"not a database")
    assert set(profiles.shown_names(paths, groups=True).values()) == {"default-release"}
    # Before a grant the database is not even opened.
    opened: list[object] = []
    original = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or original(path, *rest, **more))
    found(tmp_path)
    profiles.shown_names(paths)
    assert opened and not any("sqlite" in str(path) for path in opened)


def test_profile_that_is_only_a_directory(tmp_path: Path) -> None:
    made.firefox_places(tmp_path / ".mozilla/firefox/orphan.default")
    (tmp_path / ".mozilla/firefox/Crash Reports").mkdir()
    assert labels(tmp_path) == {"firefox/orphan.default"}


def test_names_are_found_again_from_the_path(tmp_path: Path) -> None:
    made.chromium_history(tmp_path / ".config/chromium/Profile 1", HISTORY)
    made.local_state(tmp_path / ".config/chromium", {"Profile 1": "Work"})
    mac = tmp_path / "Library/Application Support/Firefox"
    made.firefox_places(mac / "Profiles/x.default")
    made.profiles_ini(mac, ("Profile0", {"Name": "Home", "IsRelative": "1", "Path": "Profiles/x.default"}))
    paths = [str(tmp_path / ".config/chromium/Profile 1"), str(mac / "Profiles/x.default"), str(tmp_path / "nothing")]
    assert profiles.shown_names(paths) == {paths[0]: "Work", paths[1]: "Home"}


@given(st.binary(max_size=400))
def test_any_bytes_are_a_list(data: bytes) -> None:
    for _name, values in profiles.ini(data):
        assert all(key == key.strip() for key in values)


@given(st.lists(st.tuples(st.sampled_from(["Path", "Name", "IsRelative"]), st.text(max_size=20)), max_size=6))
def test_any_values_are_survived(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    home = tmp_path_factory.mktemp("home")
    root = home / ".mozilla/firefox"
    root.mkdir(parents=True)
    text = "[Profile0]\n" + "".join(f"{key}={value}\n" for key, value in pairs)
    (root / "profiles.ini").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert found(home) == []


def test_nothing_but_names_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.chromium_history(tmp_path / ".config/chromium/Default", HISTORY)
    made.local_state(tmp_path / ".config/chromium", {"Default": "x"})
    made.firefox_places(tmp_path / ".mozilla/firefox/x.default")
    made.profiles_ini(tmp_path / ".mozilla/firefox", ("Profile0", {"Path": "x.default"}))
    opened: list[str] = []
    original = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or original(path, *rest, **more))
    monkeypatch.setattr("builtins.open", lambda *_: pytest.fail("something was opened another way"))
    monkeypatch.setattr(sqlite3, "connect", lambda *_: pytest.fail("a database was opened"))
    assert len(found(tmp_path)) == 2
    names = {os.path.basename(str(path)) for path in opened}
    assert names == {"chromium", "firefox", "Local State", "profiles.ini"}


def test_files_of_each_kind() -> None:
    assert profiles.files("chromium", "history")[0] == "History"
    assert profiles.files("chromium", "bookmarks") == ("Bookmarks", "AccountBookmarks")
    assert profiles.files("firefox", "bookmarks") == ("places.sqlite",)
    assert profiles.files("firefox", "reading") == () and profiles.files("other", "history") == ()


def test_engine_of_a_browser_that_is_not_in_the_table(tmp_path: Path) -> None:
    made.firefox_places(tmp_path)
    assert profiles.engine_of("mullvad", str(tmp_path)) == "firefox"
    assert profiles.engine_of("helium", str(tmp_path / "x")) == "chromium"
    assert profiles.engine_of("edge", str(tmp_path)) == "chromium"
    for sign, engine in (("History.db", "safari"), ("ephy-history.db", "epiphany"), ("favourites.plist", "orion")):
        (tmp_path / engine).mkdir()
        (tmp_path / engine / sign).touch()
        assert profiles.engine_of("other", str(tmp_path / engine)) == engine

"""Sources on profiles of real browsers: while they run, after a clean end, after SIGKILL; nothing is changed."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import driver
import marionette
import support
from support import Done, Home

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
needs_firefox = pytest.mark.skipif(shutil.which("firefox-esr") is None, reason="firefox-esr is not installed")


def grant(home: Home, browser: str, profile: Path, *more: str) -> None:
    home.consent({"family": "browser", "browser": browser, "profile": profile.name, "path": str(profile),
                  "data": ["history", "bookmarks", "tabs", "downloads", "reading", *more]})


def titles(home: Home, words: str = "lspipe") -> set[str]:
    """What ls-history finds, without a complaint."""
    done = home.run("ls-history", words)
    assert done.code == 0, done.err
    return {row["title"] for row in done.rows}


def visited(home: Home, words: str, page: str) -> bool:
    """Whether the page is found; a browser that has not made its file yet is no failure while we wait."""
    done: Done = home.run("ls-history", words)
    return any(row["url"].endswith(page) for row in done.rows)


@needs_chromium
def test_chromium_running_killed_and_restarted(bare: Home) -> None:
    root = bare.home / ".config/chromium"
    profile = root / "Default"
    profile.mkdir(parents=True)
    grant(bare, "chromium", profile)
    with driver.server() as base:
        with driver.chromium(bare.home, f"{base}/first") as browser:
            support.until(lambda: visited(bare, "lspipe", "/first"), "the first visit is committed", browser.process)
            with browser.frozen():
                before = driver.state_of(root)
                assert titles(bare) == {"Lspipe page /first"}
                assert bare.run("ls-bookmarks").code in (0, 7)
                for name in ("ls-downloads", "ls-reading"):
                    done = bare.run(name)
                    assert (done.code, done.out, done.err) == (0, b"", b""), name
                assert driver.state_of(root) == before
            driver.open_tab(root, f"{base}/second")
            support.until(lambda: visited(bare, "lspipe", "/second"), "the second visit is committed", browser.process)
            browser.kill()
        before = driver.state_of(root)
        assert titles(bare) == {"Lspipe page /first", "Lspipe page /second"}
        assert driver.state_of(root) == before
        with driver.chromium(bare.home, f"{base}/third") as browser:
            support.until(lambda: visited(bare, "lspipe", "/third"), "the third visit is committed", browser.process)
            browser.quit()
        before = driver.state_of(root)
        assert titles(bare) == {f"Lspipe page /{name}" for name in ("first", "second", "third")}
        assert driver.state_of(root) == before
    assert bare.runs == []


@needs_firefox
def test_firefox_running_killed_and_restarted(bare: Home) -> None:
    profile = bare.home / ".mozilla/firefox/k3x9f2ab.default-release"
    with driver.server() as base:
        with driver.firefox(bare.home, f"{base}/first") as browser:
            grant(bare, "firefox", profile)
            support.until(lambda: visited(bare, "lspipe", "/first"), "the first visit is there", browser.process)
            with browser.frozen():
                before = driver.state_of(profile)
                assert titles(bare) == {"Lspipe page /first"}
                assert bare.run("ls-bookmarks").code == 0
                assert bare.run("ls-downloads").code == 0
                assert driver.state_of(profile) == before
            browser.kill()
        before = driver.state_of(profile)
        assert titles(bare) == {"Lspipe page /first"}
        assert driver.state_of(profile) == before
        with driver.firefox(bare.home, f"{base}/second") as browser:
            support.until(lambda: visited(bare, "lspipe", "/second"), "the second visit is there", browser.process)
            browser.quit()
        before = driver.state_of(profile)
        assert titles(bare) == {"Lspipe page /first", "Lspipe page /second"}
        assert driver.state_of(profile) == before
    assert bare.runs == []


#: Two windows with every kind of tab, a private one, a closed tab; it ends when all pages have their titles.
FIREFOX_WINDOWS = """
    const [base] = args;
    const until = async happened => {
        while (!happened()) await new Promise(next => setTimeout(next, 20));
    };
    const add = (where, path, more = {}) => where.gBrowser.addTab(base + path, {
        triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal(), ...more});
    const open = async how => {
        const found = first.OpenBrowserWindow(how);
        await until(() => found.gBrowserInit?.delayedStartupFinished);
        return found;
    };
    const first = Services.wm.getMostRecentWindow("navigator:browser");
    const tabs = {pinned: add(first, "/pinned"), work: add(first, "/work", {userContextId: 2}),
                  grouped: add(first, "/grouped"), unloaded: add(first, "/unloaded"), hidden: add(first, "/hidden"),
                  closed: add(first, "/closed")};
    first.gBrowser.pinTab(tabs.pinned);
    first.gBrowser.addTabGroup([tabs.grouped], {label: "Research", color: "blue"});
    tabs.second = add(await open({}), "/second");
    tabs.secret = add(await open({private: true}), "/secret");
    const settled = ([name, tab]) => tab.linkedBrowser.contentTitle === "Lspipe page /" + name;
    await until(() => Object.entries(tabs).every(settled));
    first.gBrowser.discardBrowser(tabs.unloaded, true);
    first.gBrowser.hideTab(tabs.hidden, "a test");
    first.gBrowser.removeTab(tabs.closed);
    first.gBrowser.addTab(base + "/lazy", {triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal(),
                                           createLazyBrowser: true, lazyTabTitle: "Never loaded"});
    return [tabs.unloaded.hasAttribute("pending"), tabs.hidden.hidden];
"""


def tabs(home: Home, *args: str) -> dict[str, dict[str, Any]]:
    """The open tabs by the ends of their urls; none while there is no file."""
    done = home.run("ls-tabs", *args)
    assert done.code in (0, 4, 7), done.err
    return {row["url"].rpartition("/")[2]: row for row in done.rows}


def windows(found: dict[str, dict[str, Any]]) -> set[frozenset[str]]:
    """Which tabs share a window."""
    numbers = {row["meta"]["window"] for row in found.values()}
    return {frozenset(name for name, row in found.items() if row["meta"]["window"] == number) for number in numbers}


@needs_chromium
def test_tabs_of_chromium_while_it_runs_and_after_a_kill(bare: Home) -> None:
    root = bare.home / ".config/chromium"
    profile = root / "Default"
    profile.mkdir(parents=True)
    grant(bare, "chromium", profile)
    with driver.server() as base:
        with driver.chromium(bare.home, f"{base}/one") as browser:
            support.until(lambda: "one" in tabs(bare), "the first tab is written", browser.process)
            driver.open_tab(root, f"{base}/two")
            driver.open_window(root, f"{base}/three")
            driver.open_private(root, f"{base}/secret")
            driver.open_tab(root, f"{base}/four")
            new = {"two", "three", "four"}
            support.until(lambda: new <= set(tabs(bare)), "the new ones are written", browser.process)
            support.until(lambda: visited(bare, "lspipe", "/four"), "the last visit is committed", browser.process)
            with browser.frozen():
                before = driver.state_of(root)
                found = tabs(bare)
                assert driver.state_of(root) == before
            browser.kill()
        assert set(found) == {"one", "two", "three", "four"}
        assert frozenset({"one", "two"}) <= next(one for one in windows(found) if "one" in one)
        assert "three" not in next(one for one in windows(found) if "one" in one)
        assert {row["title"] for row in found.values()} == {f"Lspipe page /{name}" for name in found}
        before = driver.state_of(root)
        assert set(tabs(bare)) == set(found)
        assert "secret" not in tabs(bare, "--closed", "--all")
        assert driver.state_of(root) == before
    assert bare.runs == []


@needs_firefox
def test_tabs_of_firefox_while_it_runs_and_after_a_kill(bare: Home) -> None:
    profile = bare.home / ".mozilla/firefox/k3x9f2ab.default-release"
    with driver.server() as base:
        with driver.firefox(bare.home, f"{base}/one", f"{base}/two") as browser:
            grant(bare, "firefox", profile)
            support.until(lambda: {"one", "two"} <= set(tabs(bare)), "both tabs are written", browser.process)
            with browser.frozen():
                before = driver.state_of(profile)
                found = tabs(bare)
                assert driver.state_of(profile) == before
            browser.kill()
        assert {name: row["title"] for name, row in found.items()} == {
            "one": "Lspipe page /one", "two": "Lspipe page /two"}
        assert [len(one) for one in windows(found)] == [2]
        before = driver.state_of(profile)
        assert set(tabs(bare)) == {"one", "two"}
        assert driver.state_of(profile) == before
    assert bare.runs == []


@needs_firefox
def test_every_kind_of_tab_of_firefox_while_it_runs_and_after_a_kill(bare: Home) -> None:
    profile = bare.home / ".mozilla/firefox/k3x9f2ab.default-release"
    expected = {"one", "pinned", "work", "grouped", "unloaded", "hidden", "lazy", "second"}
    with driver.server() as base:
        with driver.firefox(bare.home, f"{base}/one", driven=True) as browser:
            grant(bare, "firefox", profile)
            session = marionette.Marionette(profile, browser.process)
            assert session.run(FIREFOX_WINDOWS, base) == [True, True], "one is unloaded, one is hidden"
            support.until(lambda: set(tabs(bare)) == expected and "closed" in tabs(bare, "--closed"),
                          "all of them are written", browser.process)
            with browser.frozen():
                before = driver.state_of(profile)
                found, closed = bare.run("ls-tabs").rows, bare.run("ls-tabs", "--closed").rows
                live = bare.run("ls-history", "--live").rows
                assert driver.state_of(profile) == before
            session.close()
            browser.kill()
        rows = {row["url"].rpartition("/")[2]: row for row in found}
        assert {name: row["title"] for name, row in rows.items()} == {
            **{name: f"Lspipe page /{name}" for name in expected}, "lazy": "Never loaded"}
        assert windows(rows) == {frozenset(expected - {"second"}), frozenset({"second"})}
        facts = {name: {key: row["meta"].get(key) for key in ("pinned", "container", "hidden", "group", "active")}
                 for name, row in rows.items()}
        plain = {"pinned": False, "container": None, "hidden": None, "group": None, "active": False}
        group = facts["grouped"].pop("group")
        assert {**facts, "grouped": {**facts["grouped"], "group": None}} == {
            **dict.fromkeys(expected, plain), "one": {**plain, "active": True},
            "pinned": {**plain, "pinned": True}, "work": {**plain, "container": "Work"},
            "hidden": {**plain, "hidden": True}}
        assert (group["title"], group["colour"]) == ("Research", "blue")
        assert [rows[name]["meta"]["index"] for name in ("pinned", "one", "work")] == [0, 1, 2]
        assert [row["url"].rpartition("/")[2] for row in closed] == ["closed"]
        assert {row["provenance"]["method"] for row in live if row["url"].endswith("/lazy")} == {"session"}
        assert not any("secret" in str(row) for row in (*found, *closed, *live))
        before = driver.state_of(profile)
        assert bare.run("ls-tabs").rows == found and bare.run("ls-tabs", "--closed").rows == closed
        for name, *args in (["ls-tabs", "--all"], ["ls-tabs", "--closed", "--all"], ["ls-history", "--live", "--all"],
                            ["ls-query", "--json", "secret"]):
            assert b"/secret" not in bare.run(name, *args).out, name
        assert driver.state_of(profile) == before
    assert bare.runs == []


@needs_chromium
def test_a_young_visit_of_chromium_outlives_the_browser(bare: Home) -> None:
    root = bare.home / ".config/chromium"
    profile = root / "Default"
    profile.mkdir(parents=True)
    grant(bare, "chromium", profile)

    def live(*args: str) -> dict[str, dict[str, Any]]:
        done = bare.run("ls-history", "--live", *args)
        return {row["url"].rpartition("/")[2]: row for row in done.rows}

    with driver.server() as base, driver.chromium(bare.home, f"{base}/old") as browser:
        support.until(lambda: visited(bare, "lspipe", "/old"), "the first visit is committed", browser.process)
        driver.open_private(root, f"{base}/secret")
        driver.open_tab(root, f"{base}/young")
        support.until(lambda: "young" in live(), "its tab is written", browser.process)
        with browser.frozen():
            before = driver.state_of(root)
            found, held = live(), {row["url"].rpartition("/")[2]: row for row in bare.run("ls-history").rows}
            assert driver.state_of(root) == before
        browser.kill()
    assert set(found) == {"old", "young"} and found["old"] == {**held["old"], "rank": 2}
    assert found["young"]["provenance"]["method"] == ("snapshot" if "young" in held else "session")
    after = live()
    assert set(after) == {"old", "young"} and after["young"]["id"] == found["young"]["id"]
    assert set(live("--all")) == {"old", "young"} and bare.runs == []


@needs_chromium
def test_a_running_chromium_tells_what_no_file_has_yet(bare: Home) -> None:
    root = bare.home / ".config/chromium"
    profile = root / "Default"
    profile.mkdir(parents=True)
    grant(bare, "chromium", profile)
    opened: list[str] = []

    def live(*args: str) -> dict[str, dict[str, Any]]:
        done = bare.run("ls-history", "--live", *args)
        assert done.code == 0, done.err
        return {row["url"].rpartition("/")[2]: row for row in done.rows}

    def told() -> bool:
        """Whether a page was told that was opened a moment ago."""
        opened.append(f"young{len(opened)}")
        driver.open_tab(root, f"{base}/{opened[-1]}")
        found = live("--from", "live")
        return opened[-1] in found and found[opened[-1]]["provenance"]["method"] == "cdp"

    with driver.server() as base, driver.chromium(bare.home, f"{base}/old") as browser:
        support.until(lambda: visited(bare, "lspipe", "/old"), "the first visit is committed", browser.process)
        driver.open_private(root, f"{base}/secret")
        done = bare.run("ls-history", "--live", "--from", "live")
        assert done.code == 5 and b"tab-text" in done.err, "the list of a live tab is what its text is: granted by name"
        grant(bare, "chromium", profile, "tab-text")
        support.until(told, "a page that no file has", browser.process)
        young = live("--from", "live", opened[-1])[opened[-1]]
        assert young["title"] == f"Lspipe page /{opened[-1]}" and "old" in live()
        found = live("--all")
        assert set(found) == {"old", *opened} and len(found) == len(opened) + 1
        assert b"secret" not in bare.run("ls-history", "--live", "--from", "live", "--all").out
        browser.kill()
    done = bare.run("ls-history", "--live", "--from", "live")
    assert done.code == 5 and b"nothing live" in done.err
    assert "old" in live(), "files are enough where nobody answers"
    assert bare.runs == []

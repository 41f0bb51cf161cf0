"""ls-history on profiles of real browsers: while they run, after a clean end, after SIGKILL; nothing is changed."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import driver
import support
from support import Done, Home

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
needs_firefox = pytest.mark.skipif(shutil.which("firefox-esr") is None, reason="firefox-esr is not installed")


def grant(home: Home, browser: str, profile: Path) -> None:
    home.consent({"family": "browser", "browser": browser, "profile": profile.name, "data": ["history", "bookmarks"],
                  "path": str(profile)})


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

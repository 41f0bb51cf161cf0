"""ls-history --live over a debugging port: what a browser tells of the lists of its tabs, and browsers that lie."""

from pathlib import Path
from typing import Any

import profiles
import pytest
from cdpserver import PRIVATE, Browser, page
from profiles import NOON, Page, Visit
from support import Done, Home
from test_browser_commands import chromium, grant, reported
from test_history_live import BOTH, GRANTED, NEW, NOW, OLD, made, visited

YOUNG, SECRET = "http://a.test/young", "http://secret.test/"
ALL = (*GRANTED, "tab-text")


@pytest.fixture
def profile(bare: Home) -> Path:
    """A profile with a history, a session file that has one page more, and grants to all of it."""
    return made(bare, [Page(OLD, "old", [Visit(NOON)]), Page(BOTH, "both")],
                *visited((OLD, "", NOON), (NEW, "", NOON + 60_000_000)), data=ALL)


def lists(browser: Browser, **found: Any) -> None:
    """Have the browser tell these lists: by the last digit of a target's id."""
    def reply(own: Browser, message: dict[str, Any]) -> list[Any]:
        method, params = message["method"], message.get("params", {})
        if method == "Target.attachToTarget":
            result: Any = {"sessionId": "S" + params["targetId"][-1]}
        elif method == "Page.getNavigationHistory":
            result = found.get("of" + message["sessionId"][1:])
        else:
            return own.usual(message)
        answer = {"id": message["id"], "result": result}
        return [] if result is None else [answer | (
            {"sessionId": message["sessionId"]} if "sessionId" in message else {})]

    browser.reply = reply


def entries(*urls: str, current: int = 0) -> dict[str, Any]:
    return {"currentIndex": current, "entries": [
        {"id": number, "url": url, "userTypedURL": url, "title": f"title of {url[-5:]}", "transitionType": "typed"}
        for number, url in enumerate(urls, 1)]}


def seen(done: Done) -> dict[str, tuple[str, str | None]]:
    assert done.code == 0, done.err
    return {row["url"]: (row["provenance"]["method"], row["title"]) for row in done.rows}


def test_what_only_the_browser_knows(bare: Home, profile: Path) -> None:
    targets = [page(1, YOUNG, "Young"), page(2, SECRET, "Secret", PRIVATE)]
    with Browser(profile, *targets) as browser:
        lists(browser, of1=entries(OLD, NEW, "chrome://settings/", "http://me:hunter2@a.test/young", "no-url"),
              of2=entries(SECRET))
        before = profiles.look(bare.home)
        both = bare.run("ls-history", "--live", *NOW)
        told = bare.run("ls-history", "--live", "--from", "live", *NOW)
        disk = bare.run("ls-history", "--live", "--from", "disk", *NOW)
        assert profiles.look(bare.home) == before
    assert seen(both) == {NEW: ("session", "title of t/new"), OLD: ("snapshot", "old"), BOTH: ("snapshot", "both"),
                          YOUNG: ("cdp", "title of young")}
    assert seen(told)[NEW] == ("cdp", "title of t/new") and set(seen(told)) == set(seen(both))
    assert seen(disk) == {url: facts for url, facts in seen(both).items() if url != YOUNG} | {NEW: ("session", None)}
    young = next(row for row in both.rows if row["url"] == YOUNG)
    assert young["accessed_at"] is None and young["meta"] == {"time_quality": "missing"}
    assert {row["id"] for row in both.rows} == {row["id"] for row in told.rows}
    assert set(browser.methods) == {"Target.getBrowserContexts", "Target.getTargets", "Target.attachToTarget",
                                    "Page.getNavigationHistory", "Target.detachFromTarget"}
    assert b"hunter2" not in both.out + told.out and bare.runs == []


def test_the_text_of_tabs_is_granted_by_name(bare: Home, profile: Path) -> None:
    bare.consent(grant(profile, data=GRANTED))
    with Browser(profile, page(1, YOUNG)) as browser:
        lists(browser, of1=entries(YOUNG))
        assert YOUNG not in seen(bare.run("ls-history", "--live", *NOW))
        done = bare.run("ls-history", "--live", "--from", "live", *NOW)
        assert done.code == 5 and b"tab-text" in done.err and done.out == b""
        assert browser.connections == 0
        bare.consent(grant(profile, data=ALL))
        assert bare.run("ls-history", *NOW).code == 0 and browser.connections == 0, "nobody asked for it"
        assert YOUNG in seen(bare.run("ls-history", "--live", *NOW))


@pytest.mark.parametrize("answer", [
    [], {}, {"entries": 5, "currentIndex": 0}, {"entries": [5], "currentIndex": 0}, {"entries": [{"url": None}]},
    {"entries": [{"url": None, "title": None}], "currentIndex": "x"}, None], ids=repr)
def test_lists_of_another_shape(bare: Home, profile: Path, answer: Any) -> None:
    with Browser(profile, page(1, YOUNG), page(2, BOTH)) as browser:
        lists(browser, of1=answer, of2=entries("http://a.test/good"))
        done, report = reported(bare, "ls-history", "--live")
    assert done.code == 0 and done.err == b""
    assert {row["url"] for row in done.rows} == {OLD, NEW, BOTH, "http://a.test/good"}
    silent = "chromium/Default: 1 tab did not tell where it had been"
    assert (silent in report["notes"]) == (answer != {"entries": [{"url": None, "title": None}], "currentIndex": "x"})


def test_nobody_answers(bare: Home, profile: Path) -> None:
    done, report = reported(bare, "ls-history", "--live")
    assert done.code == 0 and len(done.rows) == 3
    assert any(note.startswith("the browser was not asked what its files do not have") for note in report["notes"])
    done = bare.run("ls-history", "--live", "--from", "live", *NOW)
    assert done.code == 5 and b"nothing live" in done.err
    with Browser(profile, page(1, YOUNG)) as browser:
        browser.version = browser.hang
        done, report = reported(bare, "ls-history", "--live")
        assert done.code == 0 and len(done.rows) == 3 and report["notes"]
        browser.version = browser.refuse("404 Not Found")  # It would ask a person: never for a history.
        done, report = reported(bare, "ls-history", "--live")
        assert done.code == 0 and any("asks a person" in note for note in report["notes"])
        done = bare.run("ls-history", "--live", "--from", "live", *NOW)
        assert done.code == 4 and b"asks a person" in done.err
    assert bare.runs == []


def test_firefox_has_no_live_mode(bare: Home) -> None:
    folder = bare.home / ".mozilla/firefox/x.default"
    profiles.firefox_places(folder, [Page(OLD, "old")])
    profiles.chromium_history(chromium(bare), [Page(BOTH, "both")])
    bare.consent(grant(folder, "firefox", ALL), grant(chromium(bare), data=ALL))
    with Browser(chromium(bare), page(1, YOUNG)) as browser:
        lists(browser, of1=entries(YOUNG))
        assert set(seen(bare.run("ls-history", "--live", *NOW))) == {OLD, BOTH, YOUNG}
    bare.consent(grant(folder, "firefox", ALL))
    assert bare.run("ls-history", "--live", "--from", "live", *NOW).code == 5


def test_where_tabs_are_had_from_is_a_question_of_live_alone(bare: Home, profile: Path) -> None:
    with Browser(profile, page(1, YOUNG)) as browser:
        for args in (("--from", "live"), ("--from=auto",), ("--cdp", browser.address), ("--cdp=nowhere",)):
            done = bare.run("ls-history", *args, *NOW)
            assert done.code == 2 and b"goes with --live alone" in done.err and done.out == b""
        assert bare.run("ls-history", *NOW, env=bare.env(LSPIPE_CDP=browser.address)).code == 0
        assert browser.connections == 0
        lists(browser, of1=entries(YOUNG))
        assert YOUNG in seen(bare.run("ls-history", "--live", *NOW, env=bare.env(LSPIPE_CDP=browser.address)))
        done = bare.run("ls-history", "--live", "--cdp=localhost:9222", *NOW)
        assert done.code == 2 and b"127.0.0.1:PORT" in done.err

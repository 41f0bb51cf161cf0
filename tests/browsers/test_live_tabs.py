"""ls-tabs against a Chromium that runs: what it shows, that nobody notices, what it reaches for, the text of pages."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import driver
import sockets
import support
from driver import Devtools, Witness
from support import Done, Home

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")

SECRET = "/n/incognito-secret"
FIVE = {"/pinned", "/grouped", "/discarded", "/loop", "/plain"}
LOOP = "tell('looping').then(() => setTimeout(() => { for (;;); }, 50))"


@contextmanager
def browsing(home: Home) -> Iterator[tuple[Witness, Devtools, driver.Browser]]:
    """A granted Chromium with a hand, a server that sees everything, and a connection of the test's own."""
    root = home.home / ".config/chromium"
    (root / "Default").mkdir(parents=True)
    home.consent({"family": "browser", "browser": "chromium", "profile": "Default", "path": str(root / "Default"),
                  "data": ["history", "tabs", "tab-text"]})
    with driver.witness() as witness, driver.chromium(home.home, "about:blank", hand=True) as browser, \
            driver.devtools(root) as tools:
        yield witness, tools, browser


def open_page(witness: Witness, tools: Devtools, path: str, ready: str = "ready", **how: object) -> dict[str, Any]:
    """Open a tab as a person would, and wait until its page says that it is ready."""
    options = {"url": witness.base + path, "active": False, **how}
    found: dict[str, Any] = tools.hand(f"chrome.tabs.create({driver.json.dumps(options)})")
    support.until(lambda: witness.told(path, ready), f"{path} is {ready}")
    return found


def rows(done: Done) -> dict[str, dict[str, Any]]:
    """The rows by the paths of their urls."""
    assert done.code == 0 and done.err == b"", done
    return {"/" + row["url"].split("/", 3)[3]: row for row in done.rows}


def shown(home: Home, *args: str) -> dict[str, dict[str, Any]]:
    return rows(home.run("ls-tabs", *args))


def nothing_happened(witness: Witness, tools: Devtools, before: tuple[Any, ...]) -> None:
    """Neither a page nor the server saw anything, and no tab is another or elsewhere.

    Each page that can still answer is made to say something now: all that it had to say before came earlier.
    """
    seen, targets = before
    support.until(lambda: tools.targets() == targets, "the same targets, at the same addresses, none attached to")
    for target in targets:
        path = target["url"].removeprefix(witness.base)
        if target["url"].startswith(witness.base) and path not in ("/loop", "/alert", "/discarded", "/crashed"):
            tools.run(target["targetId"], "tell('mark')")
            support.until(lambda path=path: witness.told(path, "mark"), f"{path} has spoken")  # type: ignore[misc]
    assert [one for one in witness.seen[len(seen):] if not one[1].endswith("mark")] == []
    witness.seen[:] = seen


def test_five_tabs_live_and_from_disk_and_nobody_notices(bare: Home) -> None:
    with browsing(bare) as (witness, tools, browser):
        witness.pages["/loop"] = ("", LOOP, "")
        open_page(witness, tools, "/pinned", pinned=True)
        grouped = open_page(witness, tools, "/grouped")
        tools.hand(f"chrome.tabs.group({{tabIds: [{grouped['id']}]}})"
                   ".then(group => chrome.tabGroups.update(group, {title: 'Work', color: 'red'}))")
        discarded = open_page(witness, tools, "/discarded")
        tools.hand(f"chrome.windows.create({{url: {witness.base + '/plain'!r}}})")
        support.until(lambda: witness.told("/plain", "ready"), "the second window is there")
        open_page(witness, tools, "/loop", "looping")
        tools.hand(f"chrome.windows.create({{url: {witness.base + SECRET!r}, incognito: true}})")
        support.until(lambda: witness.told(SECRET, "ready"), "the private window is there")
        tools.hand(f"chrome.tabs.discard({discarded['id']})")

        def written() -> bool:
            done = bare.run("ls-tabs", "--from=disk")
            found = rows(done) if done.code == 0 else {}  # A browser that has not made its file yet is no failure.
            return set(found) == FIVE and found["/grouped"]["meta"].get("group", {}).get("title") == "Work" and all(
                row["title"] for row in found.values())

        support.until(written, "the session file has all of it, and the history the titles", browser.process)
        before = list(witness.seen), tools.targets()
        live, disk = shown(bare), shown(bare, "--from=disk")
        nothing_happened(witness, tools, before)
        for found, method in ((live, "cdp"), (disk, "session")):
            assert set(found) == FIVE
            assert {row["provenance"]["method"] for row in found.values()} == {method}
            assert {path: row["title"] for path, row in found.items()} == {path: f"Lspipe page {path}" for path in FIVE}
            assert [path for path, row in found.items() if row["meta"]["pinned"]] == ["/pinned"]
            group = {path: row["meta"]["group"] for path, row in found.items() if "group" in row["meta"]}
            assert {path: (one["title"], one["colour"]) for path, one in group.items()} == {"/grouped": ("Work", "red")}
            windows = {row["meta"]["window"] for row in found.values()}
            assert len(windows) == 2
            assert {path for path, row in found.items()
                    if row["meta"]["window"] == found["/plain"]["meta"]["window"]} == {"/plain", "/loop"}
        assert {row["id"] for row in live.values()} == {row["id"] for row in disk.values()}
        assert SECRET.encode() not in b"".join(
            bare.run("ls-tabs", "--all", *args).out for args in ([], ["--from=disk"], ["--text"], ["--closed"]))
        browser.kill()
        assert set(shown(bare)) == FIVE
        done = bare.run("ls-tabs", "--from=live")
        assert done.code == 5 and done.out == b""
    assert bare.runs == []


def test_every_socket_is_of_that_port(bare: Home) -> None:
    with browsing(bare) as (witness, tools, _browser):
        open_page(witness, tools, "/plain")
        support.until(lambda: bare.run("ls-tabs", "--from=disk").code == 0, "there is a session file")
        port = int((bare.home / ".config/chromium/DevToolsActivePort").read_text().split()[0])
        for name, args, most in (("ls-tabs", ["--from=live"], 2), ("ls-tabs", ["--text"], 2),
                                 ("ls-tabs", ["--from=disk"], 0), ("ls-tabs", ["--closed"], 0),
                                 ("ls-history", ["--live", "--from=live"], 2), ("ls-history", ["--live"], 2),
                                 ("ls-history", ["--live", "--from=disk"], 0), ("ls-history", [], 0)):
            done = sockets.watched(bare, bare.root / "strace", name, *args)
            assert done.code == 0, done
            seen = sockets.attempts(bare.root / "strace")
            assert sockets.strangers(f"{name}-live", seen) == []
            assert sum(one.startswith("socket(") for one in seen) == most
            assert sum(f"sin_port=htons({port})" in one for one in seen) == most
            assert most or seen == []


FORM = ("<p id=text>Visible words, <b>needle</b> among them<p hidden>hidden words<p style='display:none'>unseen words"
        "<script>/* scripted words */</script><style>p { color: #123 }</style>"
        "<input id=name value=typed-in-field><input id=pass type=password value=typed-password>"
        "<textarea id=area>typed-in-area</textarea><iframe srcdoc='framed words'></iframe>")
SELECT = {
    "/selected": "getSelection().selectAllChildren(document.getElementById('text'))",
    "/all": "getSelection().selectAllChildren(document.body)",
    "/field": "const one = document.getElementById('name'); one.focus(); one.select()",
    "/password": "const one = document.getElementById('pass'); one.focus(); one.select()",
    "/left": "const one = document.getElementById('area'); one.focus(); one.select(); one.blur()",
}


def test_text_and_nobody_notices(bare: Home) -> None:
    with browsing(bare) as (witness, tools, _browser):
        witness.pages |= {path: (script, "", FORM) for path, script in SELECT.items()}
        witness.pages["/loop"] = ("", LOOP, FORM)
        witness.pages["/alert"] = ("", "tell('asking').then(() => setTimeout(() => alert('!'), 50))", FORM)
        witness.pages["/emoji"] = ("", "", "<p>\ud83d\ude00 \u202e escaped \x1b[2J".encode(
            "utf-16", "surrogatepass").decode("utf-16"))
        for path in (*SELECT, "/emoji", "/crashed"):
            open_page(witness, tools, path)
        discarded = open_page(witness, tools, "/discarded")
        open_page(witness, tools, "/loop", "looping")
        tools.hand(f"chrome.windows.create({{url: {witness.base + SECRET!r}, incognito: true}})")
        support.until(lambda: witness.told(SECRET, "ready"), "the private window is there")
        tools.hand(f"chrome.tabs.discard({discarded['id']})")
        crash(tools, witness.base + "/crashed")
        tools.hand(f"chrome.windows.create({{url: {witness.base + '/alert'!r}}})")  # In front: elsewhere none is shown.
        support.until(lambda: witness.told("/alert", "asking"), "the dialog is there")
        before = list(witness.seen), tools.targets()
        found = shown(bare, "--text")
        done = bare.run("ls-tabs", "--text", "needle")
        nothing_happened(witness, tools, before)
        assert {path: row["meta"]["text_status"] for path, row in found.items()} == {
            **dict.fromkeys((*SELECT, "/emoji"), "ok"),
            **dict.fromkeys(("/loop", "/alert", "/discarded", "/crashed"), "timeout")}
        assert {path: row["title"] for path, row in found.items()} == {path: f"Lspipe page {path}" for path in found}
        for path in SELECT:
            text = found[path].get("text") or found[path]["snippet"]
            assert "Visible words, needle among them" in text
            assert not any(f"{word} words" in text for word in ("hidden", "unseen", "scripted", "framed"))
        out = driver.json.dumps(found)
        assert not any(secret in out for secret in ("typed-in", "typed-password", "forged", SECRET))
        assert {path: row["meta"]["selection"].split() for path, row in found.items()
                if "selection" in row["meta"]} == {"/selected": ["Visible", "words,", "needle", "among", "them"],
                                                   "/all": ["Visible", "words,", "needle", "among", "them"]}
        assert all("text" not in found[path] for path in ("/loop", "/alert", "/discarded", "/crashed"))
        assert set(rows(done)) == set(SELECT)
        assert all("needle" in row["snippet"] and row["matched_terms"] == ["needle"] for row in done.rows)
        empty = shown(bare, "--text", "--max-chars=0")
        assert not any("text" in row or "selection" in row["meta"] for row in empty.values())
    assert bare.runs == []


def crash(tools: Devtools, url: str) -> None:
    """Have the page's process end as in a crash."""
    target = next(one["targetId"] for one in tools.targets() if one["url"] == url)
    session = tools.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
    tools.crash(session)
    tools.call("Target.detachFromTarget", {"sessionId": session})


def test_text_needs_a_grant_of_its_own(bare: Home) -> None:
    with browsing(bare) as (witness, tools, _browser):
        open_page(witness, tools, "/plain")
        grant = {"family": "browser", "browser": "chromium", "profile": "Default",
                 "path": str(bare.home / ".config/chromium/Default")}
        bare.consent({**grant, "data": ["tabs"]})
        done = bare.run("ls-tabs", "--text")
        assert done.code == 5 and done.out == b"" and b"--data tab-text" in done.err
        assert set(shown(bare, "--from=live")) == {"/plain"}
        bare.consent({**grant, "data": ["tab-text"]})
        assert bare.run("ls-tabs", "--text").code == 5


def test_two_hundred_tabs(bare: Home) -> None:
    with browsing(bare) as (witness, tools, browser):
        for number in range(200):
            tools.call("Target.createTarget", {"url": f"{witness.base}/{number}", "background": True})
        support.until(lambda: all(witness.told(f"/{number}", "ready") for number in range(200)), "all are there")
        assert set(shown(bare)) == {f"/{number}" for number in range(200)}
        found = shown(bare, "--text")
        assert {row["meta"]["text_status"] for row in found.values()} == {"ok"} and len(found) == 200
        with browser.frozen():
            done = bare.run("ls-tabs", "--text", "--timeout=2")
            assert done.code == 6 and done.out == b""

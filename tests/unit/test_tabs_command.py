"""ls-tabs as it is run: session files of several profiles, bad ones among them, nothing changed, nothing private."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import profiles
import pytest
import sessions
from profiles import DAY, HOUR, NOON, Page
from sessions import closed_tab, closed_window, firefox_state, firefox_tab, grouped, jsonlz4, simple_window, snss, timed
from support import Home
from test_browser_commands import chromium, reported
from test_browser_commands import grant as granted

NOW = ("--now", "2026-07-21T13:00:00Z")
A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"
STAMP = 13_440_000_000_000_000


def grant(path: Path, browser: str = "chromium", data: tuple[str, ...] = ("tabs",)) -> dict[str, Any]:
    return granted(path, browser, data)


def session(profile: Path, *commands: tuple[int, bytes], name: str = f"Session_{STAMP}", folder: str = "Sessions",
            at: int = NOON, **more: Any) -> Path:
    """A session file of Chromium, last changed at some time."""
    path = profile / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(snss(*commands, **more))
    os.utime(path, ns=(at * 1000, at * 1000))
    return path


def store(profile: Path, state: Any, name: str = "sessionstore-backups/recovery.jsonlz4", at: int = NOON) -> Path:
    """A session store of Firefox."""
    path = profile / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(state if isinstance(state, bytes) else jsonlz4(state))
    os.utime(path, ns=(at * 1000, at * 1000))
    return path


def firefox(home: Home, name: str = "x.default") -> Path:
    return home.home / ".mozilla/firefox" / name


def urls(done: Any) -> list[str]:
    assert done.code == 0, done.err
    return [row["url"] for row in done.rows]


def test_tabs_of_chromium_with_all_that_is_known_of_them(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "Anton"), (12, B, "Berta")], shows=1),
            *simple_window(2, [(13, C, "Cäsar"), (14, "http://d.test/x", "Dora")]),
            sessions.pinned(11), grouped(12, 5), sessions.group(5, "Arbeit", 1),
            timed(21, 11, NOON - DAY), timed(21, 12, NOON - HOUR), timed(21, 13, NOON - 2 * HOUR),
            (20, (2).to_bytes(4, "little")))
    bare.consent(grant(chromium(bare)))
    before = profiles.look(bare.home)
    done = bare.run("ls-tabs", *NOW)
    assert urls(done) == ["http://d.test/x", B, C, A], "the last looked at first; a page's own time stands in"
    rows = {row["url"]: row for row in done.rows}
    assert done.rows[0]["accessed_at"] == "2026-07-21T12:00:00.000000Z" and "last_active" not in done.rows[0]["meta"]
    assert rows[B]["meta"] == {
        "window": 1, "index": 1, "active": True, "pinned": False,
        "group": {"id": f"{5:032x}", "title": "Arbeit", "colour": "blue"},
        "last_active": "2026-07-21T11:00:00.000000Z", "saved_at": "2026-07-21T12:00:00.000000Z"}
    assert rows[A]["meta"]["pinned"] is True and rows[A]["meta"]["active"] is False
    assert rows[C]["meta"]["focused"] is True and rows[C]["meta"]["window"] == 2
    assert rows[A]["accessed_at"] == "2026-07-20T12:00:00.000000Z"
    assert rows[A]["provenance"] == {"retriever": "browser", "method": "session", "acl": "authorized", "private": True,
                                     "browser": "chromium", "profile": "Default", "origin": "local"}
    assert profiles.look(bare.home) == before and bare.runs == []
    assert len({row["id"] for row in done.rows}) == 4
    assert bare.run("ls-tabs", *NOW).out == done.out


def test_search_by_title_address_and_group(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "needle"), (12, "http://needle.test/", "x"), (13, C, "other")]),
            grouped(13, 5), sessions.group(5, "needle works", 1))
    bare.consent(grant(chromium(bare)))
    done = bare.run("ls-tabs", *NOW, "needle")
    assert set(urls(done)) == {A, "http://needle.test/", C}
    assert done.rows[0]["corpus"] == [{"id": "tabs:chromium/Default", "n": 3, "df": {"needle": 3}}]
    assert done.rows[-1]["url"] == "http://needle.test/" and done.rows[0]["matched_terms"] == ["needle"]
    assert urls(bare.run("ls-tabs", "--", "needle", "-other")) == [A, "http://needle.test/"]
    assert urls(bare.run("ls-tabs", "--all-terms", "needle", "other")) == [C]
    assert urls(bare.run("ls-tabs", "site:c.test")) == [C]


def test_the_newest_file_and_an_older_one_where_it_is_not_finished(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "old")]), name=f"Session_{STAMP}", at=NOON + HOUR)
    session(chromium(bare), *simple_window(1, [(11, B, "new")]), name=f"Session_{STAMP + 1}")
    bare.consent(grant(chromium(bare)))
    assert urls(bare.run("ls-tabs")) == [B], "the number in the name counts"
    session(chromium(bare), *simple_window(1, [(11, C, "begun")]), name=f"Session_{STAMP + 2}", marker=-1)
    done, report = reported(bare, "ls-tabs")
    assert urls(done) == [B]
    assert any(f"Session_{STAMP + 2}' was never finished" in note for note in report["notes"])


def test_files_of_old_versions_lie_in_the_profile(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "old")]), name="Current Session", folder="", version=1)
    session(chromium(bare), *closed_tab(12, [(B, "closed")]), name="Current Tabs", folder="", version=1)
    bare.consent(grant(chromium(bare)))
    assert urls(bare.run("ls-tabs")) == [A]
    assert urls(bare.run("ls-tabs", "--closed")) == [B]


def test_encrypted_sessions_are_said(bare: Home) -> None:
    for name in ("Only", "Inside", "Newer", "Twin"):
        chromium(bare, name).mkdir(parents=True)
    session(chromium(bare, "Only"), (1, b"x"), folder="Sessions_Encrypted", version=5)
    session(chromium(bare, "Inside"), (1, b"x"), version=5)
    session(chromium(bare, "Newer"), *simple_window(1, [(11, A, "stale")]))
    session(chromium(bare, "Newer"), (1, b"x"), folder="Sessions_Encrypted", version=5, at=NOON + 2 * HOUR)
    session(chromium(bare, "Twin"), *simple_window(1, [(11, B, "fresh")]))
    session(chromium(bare, "Twin"), (1, b"x"), folder="Sessions_Encrypted", version=5, at=NOON + 1_000_000)
    bare.consent(*(grant(chromium(bare, name)) for name in ("Only", "Inside", "Newer", "Twin")))
    done, report = reported(bare, "ls-tabs")
    assert done.code == 7 and {row["url"] for row in done.rows} == {A, B}
    assert {(entry["profile"], entry["reason"]) for entry in report["skipped"]} == {
        ("Only", "encrypted"), ("Inside", "encrypted")}
    assert [note for note in report["notes"] if "older than" in note] == [
        "chromium/Newer: 'Sessions' is older than the encrypted files beside it"]
    bare.consent(grant(chromium(bare, "Only")))
    assert bare.run("ls-tabs").code == 4, "nothing could be looked at: no empty answer"


def test_an_encrypted_file_that_is_newer_than_a_plain_one_is_no_secret(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "stale")]))
    session(chromium(bare), (1, b"x"), name=f"Session_{STAMP + 1}", version=5)
    bare.consent(grant(chromium(bare)))
    done, report = reported(bare, "ls-tabs")
    assert done.code == 7 and [row["url"] for row in done.rows] == [A]
    assert report["skipped"][0]["reason"] == "encrypted"


def test_titles_come_from_the_history_only_if_that_is_granted(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, ""), (12, B, "its own"), (13, C, "")]))
    profiles.chromium_history(chromium(bare), [Page(A, "from history"), Page(B, "another"), Page(C, "")])
    bare.consent(grant(chromium(bare), data=("tabs", "history")))
    rows = {row["url"]: row for row in bare.run("ls-tabs", *NOW).rows}
    assert (rows[A]["title"], rows[A]["meta"]["title_from"]) == ("from history", "history")
    assert rows[B]["title"] == "its own" and "title_from" not in rows[B]["meta"]
    assert rows[C]["title"] is None and "title_from" not in rows[C]["meta"]
    assert urls(bare.run("ls-tabs", "from")) == [A], "it is searched as well"
    bare.consent(grant(chromium(bare)))
    (chromium(bare) / "History").unlink()
    os.mkfifo(chromium(bare) / "History")  # Whoever opens it waits for ever.
    rows = {row["url"]: row for row in bare.run("ls-tabs", *NOW).rows}
    assert rows[A]["title"] is None and set(rows) == {A, B, C}


def test_a_history_that_cannot_be_read_hides_no_tab(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "")]))
    (chromium(bare) / "History").write_bytes(b"no database" * 999)
    bare.consent(grant(chromium(bare), data=("tabs", "history")))
    done, report = reported(bare, "ls-tabs")
    assert urls(done) == [A] and done.err == b""
    assert any("no titles from the history" in note for note in report["notes"])


def test_titles_from_a_history_in_the_middle_of_a_transaction(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "")]))
    path = profiles.chromium_history(chromium(bare), [Page(A, "committed")])
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA locking_mode = EXCLUSIVE")
    conn.execute("BEGIN EXCLUSIVE")
    bare.consent(grant(chromium(bare), data=("tabs", "history")))
    assert [row["title"] for row in bare.run("ls-tabs", *NOW).rows] == ["committed"]
    conn.close()


def test_pages_of_the_browser_itself_only_with_all(bare: Home) -> None:
    own = ["chrome://version/", "about:blank", "chrome-extension://x/y.html", "devtools://devtools/z", "edge://newtab"]
    session(chromium(bare), *simple_window(1, [(11 + n, url, "") for n, url in enumerate([*own, A])]))
    kept = ["about:reader?url=http%3A%2F%2Fr.test%2F", "file:///tmp/x", "data:text/plain,x", "view-source:http://v.test"]
    tabs = [firefox_tab(url) for url in ["about:newtab", "moz-extension://x/", *kept]]
    store(firefox(bare), firefox_state({"tabs": tabs}))
    bare.consent(grant(chromium(bare)), grant(firefox(bare), "firefox"))
    assert set(urls(bare.run("ls-tabs"))) == {A, *kept}
    assert len(urls(bare.run("ls-tabs", "--all"))) == 12


def test_closed_tabs_and_windows(bare: Home) -> None:
    session(chromium(bare), *closed_tab(11, [(A, "alone")], at=NOON - HOUR), closed_window(5, 2, at=NOON - 2 * HOUR),
            *closed_tab(12, [(B, "first")], at=None), *closed_tab(13, [(B, "second")], at=None, pin=True),
            name=f"Tabs_{STAMP}")
    store(firefox(bare), firefox_state(
        {"tabs": [firefox_tab("http://open.test/")],
         "_closedTabs": [{"state": firefox_tab(C, "Carla"), "closedAt": (NOON - DAY) // 1000}]}))
    bare.consent(grant(chromium(bare)), grant(firefox(bare), "firefox"))
    done = bare.run("ls-tabs", *NOW, "--closed")
    assert urls(done) == [A, B, B, C]
    assert [row["accessed_at"][:13] for row in done.rows] == ["2026-07-21T11", "2026-07-21T10", "2026-07-21T10",
                                                              "2026-07-20T12"]
    assert all(row["meta"]["closed"] is True and "active" not in row["meta"] for row in done.rows)
    assert [row["meta"].get("closed_with") for row in done.rows] == [None, "window", "window", None]
    assert len({row["id"] for row in done.rows}) == 4
    assert "http://open.test/" not in done.out.decode()
    assert urls(bare.run("ls-tabs", *NOW, "--closed", "--since", "150m")) == [A]


def test_a_profile_that_has_closed_nothing(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "x")]))
    bare.consent(grant(chromium(bare)))
    done = bare.run("ls-tabs", "--closed")
    assert (done.code, done.out, done.err) == (0, b"", b"")


def test_tabs_of_firefox(bare: Home) -> None:
    profile = firefox(bare)
    private = {"tabs": [firefox_tab("http://private.test/", "private")], "isPrivate": True,
               "_closedTabs": [{"state": firefox_tab("http://private.test/2"), "closedAt": NOON // 1000}]}
    store(profile, firefox_state(
        {"tabs": [firefox_tab(A, "Anton", pinned=True), firefox_tab(B, "Berta", groupId="g1", userContextId=2),
                  firefox_tab(C, "Carla", hidden=True, userContextId=99),
                  firefox_tab(None, userTypedValue="http://typed.test/")],
         "groups": [{"id": "g1", "name": "Arbeit", "color": "red"}], "selected": 2}, private))
    (profile / "containers.json").write_bytes(orjson.dumps({"identities": [{"userContextId": 2, "name": "Büro"}]}))
    bare.consent(grant(profile, "firefox"))
    done = bare.run("ls-tabs", *NOW)
    rows = {row["url"]: row["meta"] for row in done.rows}
    assert set(rows) == {A, B, C, "http://typed.test/"}, done.err
    assert rows[A]["pinned"] is True and rows[B]["active"] is True
    assert rows[B]["group"] == {"id": "g1", "title": "Arbeit", "colour": "red"} and rows[B]["container"] == "Büro"
    assert rows[C]["hidden"] is True and rows[C]["container"] == "99"
    assert rows["http://typed.test/"]["unloaded"] is True
    assert urls(bare.run("ls-tabs", "buro")) == [B] and urls(bare.run("ls-tabs", "arbeit")) == [B]
    assert b"private" not in done.out.replace(b'"private":true', b"")
    assert b"private.test" not in bare.run("ls-tabs", "--closed", "--all").out


def test_the_newest_store_that_can_be_read(bare: Home) -> None:
    profile = firefox(bare)
    store(profile, firefox_state({"tabs": [firefox_tab(A)]}), "sessionstore.jsonlz4", at=NOON - DAY)
    store(profile, firefox_state({"tabs": [firefox_tab(B)]}), "sessionstore-backups/recovery.baklz4", at=NOON - HOUR)
    bare.consent(grant(profile, "firefox"))
    assert urls(bare.run("ls-tabs")) == [B]
    store(profile, b"mozLz40\0" + b"\xff\xff\xff\x7f" + b"forged size")
    done, report = reported(bare, "ls-tabs")
    assert urls(done) == [B] and any("an older file is read" in note for note in report["notes"])


def test_the_sidebar_of_zen(bare: Home) -> None:
    profile = bare.home / ".zen/x.default"
    space = {"uuid": "{1}", "name": "Werkstatt"}
    store(profile, firefox_state({"tabs": [firefox_tab(B, zenSyncId="1")]}))
    store(profile, {"tabs": [firefox_tab(A, "Anton", zenSyncId="2", zenWorkspace="{1}", zenEssential=True)],
                    "spaces": [space], "lastCollected": NOON // 1000}, "zen-sessions.jsonlz4")
    bare.consent({**grant(profile, "zen"), "browser": "firefox"})
    done = bare.run("ls-tabs", *NOW)
    assert urls(done) == [A]
    assert done.rows[0]["meta"]["workspace"] == "Werkstatt" and done.rows[0]["meta"]["pinned"] is True


def test_bad_profiles_do_not_hide_the_good_ones(bare: Home) -> None:
    names = ["fifo", "link", "folder-link", "text", "empty", "huge", "none", "Good"]
    for name in names:
        chromium(bare, name).mkdir(parents=True)
    secret = session(bare.root / "elsewhere", *simple_window(1, [(11, "http://secret.test/", "x")]))
    for name in ("fifo", "link", "text", "empty", "huge"):
        (chromium(bare, name) / "Sessions").mkdir()
    os.mkfifo(chromium(bare, "fifo") / f"Sessions/Session_{STAMP}")
    (chromium(bare, "link") / f"Sessions/Session_{STAMP}").symlink_to(secret)
    (chromium(bare, "folder-link") / "Sessions").symlink_to(secret.parent)
    (chromium(bare, "text") / f"Sessions/Session_{STAMP}").write_bytes(b"no session at all")
    (chromium(bare, "empty") / f"Sessions/Session_{STAMP}").write_bytes(b"")
    with open(chromium(bare, "huge") / f"Sessions/Session_{STAMP}", "wb") as file:
        file.truncate(1 << 30)
    session(chromium(bare, "Good"), *simple_window(1, [(11, A, "x")]))
    other = firefox(bare, "torn")
    store(other, jsonlz4(firefox_state({"tabs": [firefox_tab("http://torn.test/")]}))[:60])
    bare.consent(*(grant(chromium(bare, name)) for name in names), grant(other, "firefox"))
    before = profiles.look(bare.home)
    done, report = reported(bare, "ls-tabs")
    assert done.code == 7 and [row["url"] for row in done.rows] == [A]
    assert {entry["profile"]: entry["reason"] for entry in report["skipped"]} == {
        "fifo": "not-readable", "link": "not-readable", "folder-link": "not-readable", "text": "failed",
        "empty": "failed", "huge": "not-readable", "none": "not-found", "torn": "failed"}
    assert b"Traceback" not in done.err and b"secret" not in done.out
    assert profiles.look(bare.home) == before and bare.runs == []
    strict = bare.run("ls-tabs", "--strict")
    assert strict.code == 7 and strict.out == b"" and len(strict.err.splitlines()) == 1


def test_what_is_beside_the_session_does_not_hide_it(bare: Home) -> None:
    session(chromium(bare, "pipe"), *simple_window(1, [(11, A, "x")]))
    os.mkfifo(chromium(bare, "pipe") / f"Sessions/Session_{STAMP + 1}")
    session(chromium(bare, "twin"), *simple_window(1, [(11, B, "x")]))
    (chromium(bare, "twin") / "Sessions_Encrypted").symlink_to(chromium(bare, "pipe"))
    profile = firefox(bare)
    store(profile, firefox_state({"tabs": [firefox_tab(C, userContextId=2)]}))
    os.mkfifo(profile / "containers.json")
    (profile / "zen-sessions-backup").symlink_to(profile)
    bare.consent(grant(chromium(bare, "pipe")), grant(chromium(bare, "twin")), grant(profile, "firefox"))
    done, report = reported(bare, "ls-tabs")
    assert {row["url"]: row["meta"].get("container") for row in done.rows} == {A: None, B: None, C: "2"}
    assert done.code == 7 and [(entry["profile"], entry["reason"]) for entry in report["skipped"]] == [
        ("pipe", "not-readable")]


def test_without_consent(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "x")]))
    bare.consent(grant(chromium(bare), data=("history", "bookmarks")))
    done = bare.run("ls-tabs")
    assert done.code == 5 and done.out == b"" and b"ls-consent grant browser --data tabs" in done.err


def test_long_titles_and_urls_fit_into_a_row(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, "http://a.test/" + "x" * 10_000, "t" * 10_000)]))
    store(firefox(bare), firefox_state({"tabs": [firefox_tab("data:text/html," + "y" * 2_000_000, "u" * 2_000_000)]}))
    bare.consent(grant(chromium(bare)), grant(firefox(bare), "firefox"))
    done = bare.run("ls-tabs", *NOW)
    assert done.code == 0 and len(done.rows) == 2
    assert sorted(len(row["title"]) for row in done.rows) == [4096, 4096]
    assert {row["meta"].get("url_length") for row in done.rows} == {None, 2_000_015}


def test_through_the_whole_pipeline(bare: Home) -> None:
    session(chromium(bare), *simple_window(1, [(11, A, "needle"), (12, B, "")]))
    bare.consent(grant(chromium(bare)))
    done = bare.run("ls-query", *NOW, "--source", "tabs", "--jsonl", "needle")
    assert [(row["source"], row["url"]) for row in done.rows] == [("tabs", A)] and done.code == 0
    assert b"ls-tabs" in bare.run("ls-query", *NOW, "--plan", "--source", "browser", "needle").out


# ---- real profiles


@pytest.fixture
def real(bare: Home) -> Home:
    """The real profiles, copied, tabs and history of all of them granted."""
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    grants = []
    for name in ("running", "running_pending_commit", "sigkill"):
        root = profiles.copied(profiles.FIXTURES / "chromium" / name, bare.home / name)
        grants.append({**grant(root / "Default", data=("tabs", "history")), "profile": name})
    other = profiles.copied(profiles.FIXTURES / "firefox/running", bare.home / "firefox")
    bare.consent(*grants, grant(other, "firefox", ("tabs", "history")))
    return bare


def of(done: Any, profile: str) -> list[dict[str, Any]]:
    assert done.code == 0 and done.err == b"", done.err
    return [row for row in done.rows if row["provenance"]["profile"] == profile]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["meta"]["window"], row["meta"]["index"]))


def test_real_profiles_list_what_their_browser_had_open(real: Home) -> None:
    before = profiles.look(real.home)
    done = real.run("ls-tabs", "--all", "--now", "2027-01-01T00:00:00Z")
    live = orjson.loads((profiles.FIXTURES / "chromium/expected_live_tabs.json").read_bytes())["tabs"]
    # One window was alive and in no file.
    live = [one for one in live if not one["url"].endswith("/t/8")]
    rows = in_order(of(done, "running"))
    assert [(row["url"], row["meta"]["index"], row["meta"]["pinned"], row["meta"]["active"], "group" in row["meta"])
            for row in rows] == [
        (one["url"], one["index"], one["pinned"], one["active"], one["groupId"] != -1) for one in live]
    titled = [(row["title"], one["title"]) for row, one in zip(rows, live, strict=True) if row["title"]]
    assert titled and all(own == expected for own, expected in titled)
    killed = [row["url"].rpartition("/n/")[2] for row in in_order(of(done, "sigkill"))]
    assert killed[-2:] == ["before-kill", "lost-in-kill"]
    assert of(done, "firefox")
    assert b"incognito-secret" not in done.out
    assert b"incognito-secret" not in real.run("ls-tabs", "--all", "--closed").out
    assert profiles.look(real.home) == before and real.runs == []
    shown = of(real.run("ls-tabs", "--now", "2027-01-01T00:00:00Z"), "running")
    assert not any(row["url"].startswith(("chrome:", "about:")) for row in shown)


def test_real_firefox_with_groups_and_pins(real: Home) -> None:
    rows = in_order(of(real.run("ls-tabs", "--all", "--now", "2027-01-01T00:00:00Z"), "firefox"))
    live = orjson.loads((profiles.FIXTURES / "firefox/expected_live_tabs.json").read_bytes())
    # The protocol leaves out a discarded tab, and tells of a private window.
    assert {row["url"].rpartition("8765")[2] for row in rows} - {"/t/5"} == {
        one["url"].rpartition("8765")[2] for one in live} - {"about:privatebrowsing"}
    assert [row["meta"]["pinned"] for row in rows] == [True] + [False] * 6
    assert [row["meta"].get("group", {}).get("title") for row in rows] == [None] * 4 + ["Gruppe ü"] * 2 + [None]
    assert [row["meta"]["window"] for row in rows] == [1] * 6 + [2]
    assert all(row["meta"]["saved_at"] and row["accessed_at"] for row in rows)

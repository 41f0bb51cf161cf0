"""Profiles that real browsers wrote: each source gives what they hold, and nothing gives the private page."""

from collections import Counter
from typing import Any

import orjson
import profiles
import pytest
from profiles import FIXTURES
from support import Home

KINDS = ("history", "bookmarks", "tabs", "downloads", "reading")
NOW = ("--now", "2027-01-01T00:00:00Z")
SECRET = b"incognito-secret"
CHROMIUM = ("running", "running_pending_commit", "sigkill")

pytestmark = pytest.mark.skipif(not FIXTURES.is_dir(), reason="no real profiles")


@pytest.fixture
def real(bare: Home) -> Home:
    """Copies of all of them, all of it granted; each profile is called after its fixture."""
    found = [("chromium", name, profiles.copied(FIXTURES / "chromium" / name, bare.home / name) / "Default")
             for name in CHROMIUM]
    found.append(("firefox", "firefox", profiles.copied(FIXTURES / "firefox/running", bare.home / "firefox")))
    bare.consent(*({"family": "browser", "browser": browser, "profile": name, "data": list(KINDS), "path": str(path)}
                   for browser, name, path in found))
    return bare


def asked(home: Home, name: str, *args: str) -> Any:
    """A run that ends well and says nothing."""
    done = home.run(name, *NOW, *args)
    assert (done.code, done.err) == (0, b""), (name, args, done.err)
    return done


def counts(done: Any) -> dict[str, int]:
    """Rows by profile."""
    return dict(Counter(row["provenance"]["profile"] for row in done.rows))


def holders(done: Any, page: str) -> set[str]:
    """The profiles with a row of the page."""
    return {row["provenance"]["profile"] for row in done.rows if row["url"].endswith(f"/n/{page}")}


def test_each_source_gives_what_the_profiles_hold(real: Home) -> None:
    before = profiles.look(real.home)
    history, live = asked(real, "ls-history"), asked(real, "ls-history", "--live")
    assert counts(history) == {"running": 35, "running_pending_commit": 35, "sigkill": 37, "firefox": 32}
    assert holders(history, "just-now") == {"sigkill", "firefox"}, "of Firefox only in its log"
    assert holders(history, "before-kill") == {"sigkill"} and holders(history, "lost-in-kill") == set()
    assert holders(live, "lost-in-kill") == {"sigkill"}
    assert counts(live) == {**counts(history), "sigkill": 38, "firefox": 33}
    assert {row["id"] for row in history.rows} < {row["id"] for row in live.rows}, "one page, one row"
    assert len(asked(real, "ls-history", "--sites").rows) == 16
    assert counts(asked(real, "ls-bookmarks")) == dict.fromkeys((*CHROMIUM, "firefox"), 7)
    downloads = asked(real, "ls-downloads")
    assert {(row["url"].rpartition("/")[2], row["meta"]["state"], row["meta"]["bytes"]) for row in downloads.rows} == {
        ("dl.bin", "complete", 1500)} and counts(downloads) == dict.fromkeys((*CHROMIUM, "firefox"), 1)
    reading = asked(real, "ls-reading")
    assert counts(reading) == dict.fromkeys(CHROMIUM, 2)
    assert {row["meta"]["status"] for row in reading.rows} == {"read", "unread"}
    tabs = asked(real, "ls-tabs")
    assert counts(tabs) == {"running": 7, "running_pending_commit": 7, "sigkill": 9, "firefox": 6}
    assert len(asked(real, "ls-tabs", "--closed").rows) == 12
    for name in ("ls-history", "ls-tabs"):  # Nobody was signed in.
        assert asked(real, name, "--device", "all").rows == []
    assert profiles.look(real.home) == before and real.runs == []


@pytest.mark.parametrize("name", [f"ls-{kind}" for kind in KINDS])
def test_the_private_page_is_in_no_row(real: Home, name: str) -> None:
    more = {"ls-history": [["--all"], ["--live", "--all"], ["--top"], ["--sites"], ["--device", "all"]],
            "ls-tabs": [["--all"], ["--closed", "--all"], ["--device", "all", "--all"]],
            "ls-reading": [["--unread"]]}.get(name, [])
    for args in ([], *more, ["incognito", "secret"], ["url:incognito-secret"]):
        done = real.run(name, *NOW, "--report", str(real.root / "report"), *args)
        assert done.code == 0, (args, done.err)
        assert SECRET not in done.out + done.err + (real.root / "report").read_bytes(), args
    for profile in (*CHROMIUM, "firefox"):
        assert SECRET not in real.run(name, *NOW, "--profile", profile).out


def test_the_private_page_is_in_no_answer(real: Home) -> None:
    envelope = real.run("ls-query", *NOW, "--json", "--max-chars", "2000", "-n", "500", "incognito", "secret", "n")
    found = orjson.loads(envelope.out)
    assert envelope.code == 0 and len(found["results"]) == 7
    assert {result["provenance"]["profile"] for result in found["results"]} == {*CHROMIUM, "firefox"}
    assert SECRET not in envelope.out + envelope.err
    for args in (["--jsonl", "-n", "500", "page"], ["page"], ["--source", "browser", "--jsonl", "secret"],
                 ["--mode", "lexical", "--json", "numbered"]):
        done = real.run("ls-query", *NOW, *args)
        assert done.code == 0 and SECRET not in done.out + done.err, args
    piped = real.bash("ls-fuse <(ls-history secret) <(ls-tabs --all) <(ls-tabs --closed --all) | ls-rerank -q secret"
                      " | ls-show --as tsv")
    assert piped.returncode == 0 and SECRET not in piped.stdout + piped.stderr

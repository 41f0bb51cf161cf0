"""ls-consent: only a person at a terminal grants; anyone may list, and revoke at once."""

import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import support
from person import ASKED, Person
from support import Done, Home

from lspipe import consent, narrow, pinned, schema

ROOT = os.geteuid() == 0
BROWSER = ("grant", "browser", "chromium/Default", "--data", "history,bookmarks")


def run(home: Home, *args: str | bytes, **how: object) -> Done:
    return home.run("ls-consent", *args, **how)


def grants(home: Home) -> list[narrow.Grant]:
    return list(consent.load(str(home.config)).grants)


def whole(home: Home, *args: str) -> dict:
    done = run(home, "list", "--json", *args)
    assert (done.code, done.err) == (0, b"")
    value, = done.rows
    assert schema.explain("consent", value) == []
    return value


def listed(home: Home, *args: str) -> list[dict]:
    return whole(home, *args)["grants"]


def grant(home: Home, *args: str | bytes, answer: bytes = b"y\n", **how: bytes) -> tuple[Done, str]:
    """Run `ls-consent ARGS` in front of a person who gives `answer` to the question; and what was on the screen."""
    person = Person(home, *args, **how)
    screen = person.read_until(ASKED)
    person.type(answer)
    return person.end(), screen


# grant


def test_a_person_grants_a_folder(bare: Home) -> None:
    notes = bare.home / "notes"
    notes.mkdir()
    (notes / "today.md").write_text("secret words")
    done, screen = grant(bare, "grant", "files", "notes", "--expires", "30d")
    assert (done.code, done.err) == (0, b"")
    assert done.out.decode().startswith(f"granted {notes}, until 20")
    one, = grants(bare)
    assert (one.family, one.path, one.audience, one.public) == ("files", str(notes), ("shell",), False)
    assert one.ino == notes.stat().st_ino and one.boot_id
    assert one.expires_at - one.granted_at == 30 * 86_400_000_000
    assert abs(one.granted_at / 1e6 - time.time()) < support.PATIENCE
    assert str(notes) in screen and "today.md" in screen and "it has 1 entry: " in screen
    assert "to shell, until 20" in screen and "marked private" in screen
    assert str(bare.config / "consent.json") in screen
    assert "secret words" not in screen
    assert [row["state"] for row in listed(bare)] == ["ok"]
    assert not bare.runs


def test_a_person_grants_a_profile(home: Home) -> None:
    home.consent()
    done, screen = grant(home, *BROWSER)
    assert done.out.decode() == "granted chromium/Default (history, bookmarks), until revoked\n"
    one, = grants(home)
    assert (one.browser, one.profile, one.data) == ("chromium", "Default", ("history", "bookmarks"))
    assert one.path == os.path.realpath(home.home / ".config/chromium/Default")
    assert "chromium/Default" in screen and "firefox/k3x9f2ab.default-release" in screen
    assert "history: History" in screen and "bookmarks: Bookmarks" in screen
    assert "Cookies" not in screen
    assert [row["state"] for row in listed(home)] == ["ok"]


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"no\n", b"yes please\n", b"\x04", b"Y y\n", b"\xff\n"])
def test_any_other_answer_grants_nothing(answer: bytes, bare: Home) -> None:
    done, _ = grant(bare, "grant", "wiki", answer=answer)
    assert (done.code, done.out) == (5, b"")
    assert done.err == b"ls-consent: nothing granted: the answer was not yes\n"
    assert not (bare.config / "consent.json").exists()
    assert not bare.runs


def test_what_is_asked_about_hides_nothing(bare: Home) -> None:
    """A folder whose name looks like another's is shown with what makes the difference."""
    for name in ("notes", "notes\u200b", "\u202eseton"):
        (bare.home / name).mkdir()
    _done, screen = grant(bare, "grant", "files", "notes\u200b", answer=b"n\n")
    assert "notes\\u200b" in screen and "\u200b" not in screen
    _done, screen = grant(bare, "grant", "files", "\u202eseton", answer=b"n\n")
    assert "\\u202eseton" in screen and "\u202e" not in screen


@pytest.mark.parametrize("answer", [b"y\n", b"Y\n", b"yes\n", b" YES \n"])
def test_yes_is_yes(answer: bytes, bare: Home) -> None:
    done, _ = grant(bare, "grant", "wiki", answer=answer)
    assert (done.code, done.out) == (0, b"granted wiki, until revoked\n")
    assert grants(bare)[0].index == str(bare.home / ".cache/qmd/index.sqlite")  # Where qmd would have it.


def test_neither_stdin_nor_what_was_typed_before_is_an_answer(bare: Home) -> None:
    done, _ = grant(bare, "grant", "wiki", answer=b"n\n", stdin=b"y\ny\n", typed=b"y\ny\n")
    assert (done.code, grants(bare)) == (5, [])


def test_a_terminal_that_goes_away_grants_nothing(bare: Home) -> None:
    person = Person(bare, "grant", "wiki")
    person.read_until(ASKED)
    os.close(person.master)
    person.master = os.open(os.devnull, os.O_RDONLY)
    assert person.end().code in (5, -signal.SIGHUP)
    assert grants(bare) == [] and not bare.runs


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_question(number: int, bare: Home) -> None:
    person = Person(bare, "grant", "wiki")
    person.read_until(ASKED)
    person.process.send_signal(number)
    done = person.end()
    assert (done.code, done.err) == (-number, b"")
    assert grants(bare) == [] and not bare.runs


def test_a_question_may_have_a_deadline(bare: Home) -> None:
    person = Person(bare, "grant", "wiki", "--timeout", "0.2")
    person.read_until(ASKED)
    assert person.end().code == 6
    assert grants(bare) == []


def by_hand(err: bytes) -> str:
    """The JSON in the hint."""
    return err.decode()[err.decode().index("{"):].strip()


@pytest.mark.parametrize("stdin", [None, b"y\n"])
def test_without_a_terminal_it_says_how_to_write_the_file(stdin: bytes | None, bare: Home) -> None:
    (bare.home / "notes").mkdir()
    done = run(bare, "grant", "files", "notes", "--expires", "7d", "--public", stdin=stdin)
    assert (done.code, done.out) == (5, b"")
    support.assert_one_line(done.err, "ls-consent")
    assert b"cannot ask: there is no terminal" in done.err
    file = bare.config / "consent.json"
    assert str(file) in done.err.decode() and "mode 0600" in done.err.decode()
    assert not file.exists()
    file.write_text(by_hand(done.err))
    file.chmod(0o600)
    one, = grants(bare)
    assert (one.path, one.public, one.ino) == (str(bare.home / "notes"), True, None)
    assert [row["state"] for row in listed(bare)] == ["not pinned"]
    more = run(bare, "grant", "wiki", "a\"b")
    assert 'add to "grants"' in more.err.decode()
    file.write_text(file.read_text().replace("]}", "," + by_hand(more.err) + "]}"))
    assert [one.label for one in grants(bare)] == [str(bare.home / "notes"), 'wiki/a"b']


def test_a_job_in_the_background_is_not_stopped_by_its_own_question(bare: Home) -> None:
    words = " ".join(shlex.quote(os.fsdecode(word)) for word in support.command("ls-consent", "grant", "wiki"))
    master, slave = os.openpty()
    process = subprocess.Popen(
        ["bash", "-c", f"set -m; {words} & wait $!"], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=bare.env(), cwd=bare.home, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    out, err = process.communicate(timeout=support.PATIENCE)
    os.close(master)
    assert (process.returncode, out) == (5, b"")
    assert b"not in the foreground" in err


def test_profiles_are_chosen_by_number(home: Home) -> None:
    home.consent()
    person = Person(home, "grant", "browser", "--data", "all")
    screen = person.read_until("Which, by number? ")
    assert re.search(r"^ +1 chromium/Default ", screen, re.MULTILINE)
    assert re.search(r"^ +2 firefox/k3x9f2ab", screen, re.MULTILINE)
    person.type(b"2, 2 9\n")
    assert "chromium" not in person.read_until(ASKED)[len(screen):]
    person.type(b"y\n")
    assert person.end().code == 0
    one, = grants(home)
    assert one.label == "firefox/k3x9f2ab.default-release"
    assert one.data == ("history", "bookmarks", "tabs", "downloads", "reading")


@pytest.mark.parametrize("answer", [b"\n", b"0\n", b"3\n", b"x\n", b"-1\n"])
def test_choosing_none_grants_nothing(answer: bytes, home: Home) -> None:
    home.consent()
    person = Person(home, "grant", "browser", "--data", "history")
    person.read_until("Which, by number? ")
    person.type(answer)
    assert person.end().code == 5
    assert grants(home) == []


def test_the_words_on_the_screen_cannot_play_with_it(bare: Home) -> None:
    root = bare.home / ".config/chromium"
    (root / "Default").mkdir(parents=True)
    (root / "Default" / "History").write_bytes(b"")
    evil = "\x1b]0;owned\x07 \x9b2J \u202eevil \u200b"
    (root / "Local State").write_bytes(orjson.dumps({"profile": {"info_cache": {"Default": {"name": evil}}}}))
    folder = bare.home / "a\x1b[2Jb"
    folder.mkdir()
    (folder / "\x1b[31mred").write_text("")
    for args in (("grant", "browser", "Default", "--data", "history"), ("grant", "files", str(folder))):
        done, screen = grant(bare, *args)
        assert done.code == 0
        for text in (screen.replace("\r\n", "\n"), done.out.decode(), run(bare, "list").out.decode(),
                     run(bare, "list", "--json", "--found").out.decode()):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]", text)
    assert grants(bare)[1].path == str(folder)


def test_a_folder_that_is_not_utf8(bare: Home) -> None:
    folder = os.fsencode(bare.home) + b"/caf\xe9"
    os.mkdir(folder)
    assert grant(bare, "grant", "files", folder)[0].code == 0
    one, = grants(bare)
    assert os.fsencode(one.path) == folder
    row, = listed(bare)
    assert "path_b64" in row and "path" not in row
    os.rename(folder, folder + b"2")
    assert listed(bare)[0]["state"] == "missing"
    assert "caf\ufffd" in run(bare, "list").out.decode()
    assert run(bare, "revoke", folder).code == 0
    assert grants(bare) == []


def test_a_link_is_granted_as_what_it_names(bare: Home) -> None:
    (bare.home / "notes").mkdir()
    (bare.home / "link").symlink_to("notes")
    assert grant(bare, "grant", "files", "link/../link")[0].code == 0
    assert [one.path for one in grants(bare)] == [str(bare.home / "notes")]


@pytest.mark.parametrize("args", [("wiki", "diary"), ("files", "more")], ids=" ".join)
def test_a_grant_lists_what_is_granted_of_its_family_and_no_other(home: Home, args: tuple[str, str]) -> None:
    (home.home / "more").mkdir()
    first = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*first, {"family": "wiki", "collection": "notes", "expires_at": "2099-01-01T00:00:00Z"})
    screen = grant(home, "grant", *args, answer=b"n\n")[1].replace("\r\n", "\n")
    assert "chromium" not in screen and "firefox" not in screen
    notes = str(home.home / "notes")
    assert screen.startswith({
        "wiki": "Granted of wiki so far:\n    wiki/notes, until 2099-01-01T00:00Z\nThe grant opens:\n",
        "files": f"Granted of files so far:\n    {notes}, until revoked\nThe grant opens:\n",
    }[args[0]])
    assert "it has 0 entries\n" in screen or args[0] == "wiki"


def test_an_agent_in_the_audience_is_said_aloud(bare: Home) -> None:
    done, screen = grant(bare, "grant", "wiki", "diary", "--audience", "mcp,shell")
    assert done.code == 0
    assert "no sandbox stops" in screen and "to shell, mcp" in screen
    assert grants(bare)[0].audience == ("shell", "mcp")
    assert "no sandbox stops" not in grant(bare, "grant", "wiki")[1]


def test_a_whole_home_says_which_profiles_are_in_it(home: Home) -> None:
    screen = grant(home, "grant", "files", str(home.home), answer=b"n\n")[1]
    assert f"cookies and passwords too: {os.path.realpath(home.home)}/.config/chromium/Default" in screen


def test_granting_again_replaces_the_terms(home: Home) -> None:
    home.consent()
    assert grant(home, *BROWSER)[0].code == 0
    assert grant(home, "grant", "browser", "Default", "--data", "history", "--expires", "1h")[0].code == 0
    bookmarks, history = grants(home)
    assert (bookmarks.data, bookmarks.expires_at) == (("bookmarks",), None)
    assert history.data == ("history",) and history.expires_at


def test_a_profile_replaced_since_asks_again(home: Home) -> None:
    home.consent()
    assert grant(home, *BROWSER)[0].code == 0
    profile = home.home / ".config/chromium/Default"
    shutil.copytree(profile, profile.with_name("copy"))
    profile.rename(profile.with_name("old"))
    profile.with_name("copy").rename(profile)
    row, = listed(home)
    assert row["state"] == "changed"
    assert "another folder is in its place" in run(home, "list").out.decode()
    assert grant(home, *BROWSER)[0].code == 0
    assert [row["state"] for row in listed(home)] == ["ok"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing")
def test_before_a_grant_nothing_but_names_is_read(home: Home, tmp_path: Path) -> None:
    home.consent()
    profile = home.home / ".config/chromium/Default"
    for name in ("History", "Bookmarks", "Cookies", "Login Data"):
        (profile / name).unlink(missing_ok=True)
        os.mkfifo(profile / name)
    log = tmp_path / "strace"
    done = subprocess.run(
        ["strace", "-f", "-o", str(log), "-e", "trace=open,openat,openat2", *support.command("ls-consent", "list",
         "--found")], env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        timeout=support.PATIENCE)
    assert done.returncode == 0
    assert b"chromium/Default" in done.stdout and b"not granted" in done.stdout
    opened = re.findall(r'open\w*\([^"]*"([^"]*)"', log.read_text())
    assert any("Local State" in path or "profiles.ini" in path for path in opened), "nothing was measured"
    for path in opened:
        assert os.path.basename(path) not in ("History", "Bookmarks", "Cookies", "Login Data", "places.sqlite")


# Usage and other trouble


@pytest.mark.parametrize(("args", "code", "words"), [
    (["grant"], 2, "grant what?"),
    (["grant", "mail"], 2, "grant what?"),
    (["grant", "files"], 2, "PATH"),
    (["grant", "files", "/nowhere/at/all"], 3, "no such file or directory"),
    (["grant", "files", "/dev/null"], 2, "not a folder"),
    (["grant", "files", ".", "--data", "history"], 2, "--data goes with grant browser"),
    (["grant", "browser", "chromium"], 2, "needs --data"),
    (["grant", "browser", "chromium", "--data", "cookies"], 2, "history, bookmarks"),
    (["grant", "browser", "chromium", "--data", ","], 2, "--data takes"),
    (["grant", "browser", "chromium", "--data", "history", "--public"], 2, "private"),
    (["grant", "browser", "opera/x", "--data", "history"], 3, "found: chromium/Default, firefox/k3x9f2ab"),
    (["grant", "wiki", "--expires", "soon"], 2, "not a length of time"),
    (["grant", "wiki", "--expires", "0s"], 2, "no time in which"),
    (["grant", "wiki", "--expires", "2020-01-31"], 2, "no time in which"),
    (["grant", "wiki", "--expires", "2020-13-31"], 2, "--expires: "),
    (["grant", "wiki", "--expires", "99999999999w"], 2, "no time in which"),
    (["grant", "wiki", "--audience", "world"], 2, "shell, mcp, serve"),
    (["grant", "wiki", "--all"], 2, "--all goes with revoke"),
    (["grant", "wiki", "--json"], 2, "--json goes with list"),
    (["grant", "wiki", "--source", "files"], 2, "--source goes with list and revoke"),
    (["list", "--data", "history"], 2, "--data goes with grant"),
    (["list", "files"], 2, "list takes no words"),
    (["list", "--source", "cookies"], 2, "unknown source 'cookies'"),
    (["revoke"], 2, "revoke what?"),
    (["revoke", "1", "--all"], 2, "revoke what?"),
    (["revoke", "--all", "--source", "files"], 2, "revoke what?"),
    (["revoke", "4"], 3, "no such grant: '4'"),
    (["revoke", "0"], 3, "no such grant"),
    (["revoke", "opera"], 3, "no such grant: 'opera'"),
    (["revoke", "1", "opera"], 3, "no such grant: 'opera'"),
    (["revoke", "files", "--source", "history"], 3, "no such grant: 'files'"),
    (["widen"], 2, "widen"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_what_cannot_be_done_is_said_in_one_line(args: list[str], code: int, words: str, home: Home) -> None:
    before = (home.config / "consent.json").read_bytes()
    done = run(home, *args)
    assert (done.code, done.out) == (code, b""), done.err
    support.assert_one_line(done.err, "ls-consent")
    assert words in done.err.decode()
    assert (home.config / "consent.json").read_bytes() == before
    assert not home.runs


def broken(home: Home) -> dict[str, Callable[[], object]]:
    file = home.config / "consent.json"
    return {
        "not JSON": lambda: file.write_text("{"),
        "others can write it": lambda: file.chmod(0o622),
        "others can read it": lambda: file.chmod(0o644),
        "format version 2": lambda: file.write_text('{"v":2,"grants":[]}'),
    }


@pytest.mark.parametrize("words", ["not JSON", "others can write it", "others can read it", "format version 2"])
def test_a_file_that_cannot_be_used(words: str, home: Home) -> None:
    broken(home)[words]()
    for args in (["list"], ["list", "--json"], ["grant", "wiki"], ["revoke", "1"], ["revoke", "--source", "files"]):
        done = run(home, *args)
        assert (done.code, done.out) == (5, b""), args
        support.assert_one_line(done.err, "ls-consent")
        assert words in done.err.decode()
    assert run(home, "revoke", "--all").code == 0
    assert grants(home) == []
    assert (home.config / "consent.json").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_can_write(home: Home) -> None:
    home.config.chmod(0o777)
    for args in (["list"], ["grant", "wiki"], ["revoke", "1"], ["revoke", "--all"]):
        done = run(home, *args)
        assert done.code == 5, args
        assert b"others can write it" in done.err
    home.config.chmod(0o700)
    assert len(grants(home)) == 3


# list


def test_an_empty_list(bare: Home) -> None:
    done = run(bare, "list")
    assert (done.code, done.err) == (0, b"")
    assert done.out.decode() == f"{bare.config}/consent.json: no grants (ls-consent grant --help)\n"
    assert run(bare) == done
    assert whole(bare) == {"v": 1, "file": str(bare.config / "consent.json"), "grants": []}
    assert run(bare, "list", "--exit-status").code == 1


def test_the_list_as_an_object(home: Home) -> None:
    value = whole(home)
    assert value["file"] == str(home.config / "consent.json") and "found" not in value
    assert [(row["n"], row["state"]) for row in value["grants"]] == [(n, "not pinned") for n in (1, 2, 3)]
    assert whole(home, "--found")["found"] == []
    assert [row["n"] for row in listed(home, "--source", "bookmarks")] == [1, 2]
    assert [row["n"] for row in listed(home, "--source", "files")] == [3]
    assert [row["n"] for row in listed(home, "--source", "browser", "-n", "1")] == [1]
    assert [row["n"] for row in listed(home, "--source", "tabs")] == [1, 2]
    assert listed(home, "--source", "tab-text") == []


def test_each_state_in_the_list(bare: Home) -> None:
    for name in ("here", "changed"):
        (bare.home / name).mkdir()
    here = consent.as_json(pinned.pin(narrow.Grant("files", path=str(bare.home / "here"))))
    bare.consent(
        here, {**here, "path": str(bare.home / "changed")}, {"family": "files", "path": str(bare.home / "gone")},
        {"family": "files", "path": str(bare.home / "here"), "expires_at": "2001-02-03T04:05:06Z"},
        {"family": "wiki"}, {"family": "wiki", "collection": "notes", "index": "/nowhere"},
    )
    states = ["ok", "changed", "missing", "expired", "not pinned", "ok"]
    assert [row["state"] for row in listed(bare)] == states
    lines = run(bare, "list").out.decode().splitlines()
    assert lines[0] == str(bare.config / "consent.json")
    assert [line[4:15].strip() for line in lines if line[1:2].isdigit()] == states
    assert "ended 2001-02-03T04:05:06" in "\n".join(lines)


def test_the_list_on_a_terminal_and_in_a_pipe_is_the_same(home: Home) -> None:
    for args in (["list"], ["list", "--json"], ["list", "--found"]):
        piped = run(home, *args)
        master, slave = os.openpty()
        done = run(home, *args, stdout=slave)
        os.close(slave)
        screen = support.drain(master).replace(b"\r\n", b"\n")
        os.close(master)
        assert (done.code, screen) == (0, piped.out)


def test_what_was_found_and_is_not_granted(home: Home) -> None:
    home.consent({"family": "browser", "browser": "chromium", "profile": "Default", "data": ["tabs"],
                  "path": str(home.home / ".config/chromium/Default")})
    value = whole(home, "--found")
    firefox = home.home / ".mozilla/firefox/k3x9f2ab.default-release"
    assert value["found"] == [
        {"browser": "firefox", "profile": firefox.name, "name": "default-release", "path": str(firefox)}]
    assert len(value["grants"]) == 1
    assert f"not granted firefox/{firefox.name}" in run(home, "list", "--found").out.decode()


def test_the_list_is_itself_a_consent_file_that_grants_no_more(home: Home) -> None:
    before = grants(home)
    (home.config / "consent.json").write_bytes(run(home, "list", "--json", "--found").out)
    assert grants(home) == before


def test_the_report_names_the_file(home: Home) -> None:
    report = home.root / "report.json"
    assert run(home, "list", "--report", str(report)).code == 0
    assert orjson.loads(report.read_bytes())["consent_file"] == str(home.config / "consent.json")


# revoke


@pytest.mark.parametrize(("args", "left"), [
    (["1"], ["firefox", "files"]),
    (["3", "1"], ["firefox"]),
    (["chromium/Default"], ["firefox", "files"]),
    (["Default"], ["firefox", "files"]),
    (["chromium"], ["firefox", "files"]),
    (["default-release"], ["chromium", "files"]),
    (["browser"], ["files"]),
    (["files"], ["chromium", "firefox"]),
    (["notes"], ["chromium", "firefox"]),
    (["./notes/"], ["chromium", "firefox"]),
    (["--source", "browser"], ["files"]),
    (["--source", "all"], []),
    (["--all"], []),
    (["browser", "notes"], []),
])
def test_revoke_acts_at_once(args: list[str], left: list[str], home: Home) -> None:
    done = run(home, "revoke", *args)
    assert (done.code, done.err) == (0, b"")
    assert [one.browser or one.family for one in grants(home)] == left
    assert len(done.lines) == 3 - len(left)
    assert all(line.startswith(b"revoked ") for line in done.lines)
    assert not home.runs


def test_revoke_one_kind_of_data(home: Home) -> None:
    first, second, _notes = [set(one.data) for one in grants(home)]
    assert run(home, "revoke", "chromium/Default", "--source", "bookmarks").code == 0
    assert [set(one.data) for one in grants(home)] == [first - {"bookmarks"}, second, set()]
    assert run(home, "revoke", "--source", "history").code == 0
    assert [set(one.data) for one in grants(home)] == [first - {"bookmarks", "history"}, second - {"history"}, set()]


def test_revoke_tabs_means_their_text_too(bare: Home) -> None:
    bare.consent({"family": "browser", "browser": "x", "profile": "y", "data": ["tabs", "tab-text", "history"],
                  "path": "/p"})
    assert run(bare, "revoke", "--source", "tabs").code == 0
    assert [one.data for one in grants(bare)] == [("history",)]


def test_revoke_a_folder_that_is_gone(home: Home) -> None:
    shutil.rmtree(home.home / "notes")
    assert run(home, "revoke", str(home.home / "notes")).code == 0
    assert len(grants(home)) == 2


def test_revoke_where_there_is_nothing(bare: Home) -> None:
    assert run(bare, "revoke", "--all") == Done(0, b"", b"")
    assert run(bare, "revoke", "1").code == 3
    shutil.rmtree(bare.config)
    assert run(bare, "revoke", "--all") == Done(0, b"", b"")
    done = run(bare, "revoke", "1")
    assert (done.code, done.err) == (3, f"ls-consent: no grants: there is no folder '{bare.config}'\n".encode())
    assert not bare.config.exists()


def test_commands_at_the_same_time_lose_nothing(bare: Home) -> None:
    people = []
    for number in range(4):
        (bare.home / f"notes{number}").mkdir()
        people.append(Person(bare, "grant", "files", f"notes{number}"))
    for person in people:
        person.read_until(ASKED)
    for person in people:
        person.type(b"y\n")
    assert [person.end().code for person in people] == [0] * 4
    assert {one.path for one in grants(bare)} == {str(bare.home / f"notes{number}") for number in range(4)}


@pytest.mark.skipif(ROOT, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(home: Home) -> None:
    home.config.chmod(0o500)
    done = run(home, "revoke", "1")
    home.config.chmod(0o700)
    assert done.code in (5, 74) and done.out == b""
    support.assert_one_line(done.err, "ls-consent")
    assert len(grants(home)) == 3


def test_a_config_folder_that_does_not_exist_is_made_by_a_grant_alone(bare: Home) -> None:
    os.rmdir(bare.config)
    assert run(bare, "list").code == 0
    assert run(bare, "grant", "wiki").code == 5
    assert not bare.config.exists()
    assert grant(bare, "grant", "wiki")[0].code == 0
    assert bare.config.stat().st_mode & 0o777 == 0o700



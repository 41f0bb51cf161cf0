"""Promise C through the executables: whatever is asked, in whatever way, only what is granted is read."""

import contextlib
import ctypes
import os
import shutil
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import support
from hypothesis import given, settings
from hypothesis import strategies as st
from support import CANARY, Home

from lspipe import when

HISTORY = ("ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading")
ASKING = ("ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading", "ls-rg", "ls-query")
asking = pytest.mark.parametrize("name", ASKING)
ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Two granted profiles, a third that is not, and one that is granted for bookmarks alone; a granted folder beside
    one that is not, which links lead to."""
    home = Home(tmp_path_factory.mktemp("consented"), sample=True)
    browser = home.home / ".config/chromium"
    for name in ("Profile 1", "Profile 2"):
        shutil.copytree(browser / "Default", browser / name)
        support.poison(browser / name)
    # Of Profile 2 the bookmarks are granted: they are those of Default, and everything else is poisoned.
    shutil.copy2(browser / "Default/Bookmarks", browser / "Profile 2/Bookmarks")
    secret = home.home / "secret"
    (secret / "deep").mkdir(parents=True)
    for file in (secret / "note.md", secret / "deep/note.md", home.home / "loose.md"):
        file.write_text(f"async {CANARY}\n")
    (home.home / "notes/out").symlink_to(secret)
    (home.home / "notes/out.md").symlink_to(secret / "note.md")
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*grants, {"family": "browser", "browser": "chromium", "profile": "Profile 2", "data": ["bookmarks"],
                           "path": str(browser / "Profile 2")})
    return home


def allowed(home: Home, row: dict[str, Any]) -> bool:
    """Whether a grant covers the row, by what the row says of itself."""
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    said = row["provenance"]
    if said["retriever"] == "browser":
        kind = {"history": "history", "bookmarks": "bookmarks", "tabs": "tabs", "downloads": "downloads",
                "reading": "reading"}[row["source"]]
        return any(grant["family"] == "browser" and kind in grant["data"]
                   and (grant["browser"], grant["profile"]) == (said["browser"], said["profile"]) for grant in grants)
    path = os.path.realpath(row["location"]["path"])
    return any(grant["family"] == "files" and (path + "/").startswith(grant["path"] + "/") for grant in grants)


WORDS = st.sampled_from(["async", "rust", CANARY, "note", "-e", "--"])
PROFILES = st.sampled_from(["chromium", "chromium/Default", "Default", "chromium/Profile 1", "Profile 1", "Profile 2",
                            "chromium/../Profile 1", "firefox", "*", "", "Profile 1/", "default-release"])
PATHS = st.sampled_from([
    "notes", "notes/..", "notes/../secret", "secret", "secret/deep", "secret/note.md", "loose.md", ".", "..", "/",
    "notes/out", "notes/out/", "notes/out/deep", "notes/out.md", "notes/rust", "~", "/proc/self/cwd/secret", ".config",
    ".config/chromium/Profile 1", "notes//rust/./", "/dev/fd/0"])
SOURCES = st.sampled_from(["history", "bookmarks", "tabs", "downloads", "reading", "files", "browser", "all"])
VARIABLES = st.dictionaries(
    st.sampled_from(["LSPIPE_CDP", "LSPIPE_MODEL", "LSPIPE_RUN", "LSPIPE_CONSENT", "LSPIPE_GRANT", "LSPIPE_AUDIENCE",
                     "LSPIPE_DEBUG", "LSPIPE_SOURCE", "LSPIPE_PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PWD"]),
    st.sampled_from(["1", "/", "all", "mcp", "chromium/Profile 1", "secret", "127.0.0.1:1"]), max_size=3)
STDIN = st.sampled_from([b"", b"y\n", b'{"v":1,"grants":[{"family":"files","path":"/"}]}\n'])


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, list[str], dict[str, Any] | None]:
    """An executable, its arguments, and a query file where there is one."""
    name = draw(st.sampled_from([*ASKING, "ls-query", "ls-query", "ls-rg"]))
    words = draw(st.lists(WORDS, min_size=1, max_size=2))
    profiles = draw(st.lists(PROFILES, max_size=2))
    paths = draw(st.lists(PATHS, max_size=3))
    options = draw(st.lists(st.sampled_from(["--now=2020-01-01T00:00:00Z", "--strict", "--limit=1000", "--debug"]),
                            max_size=2, unique=True))
    if name == "ls-rg":
        more = draw(st.lists(st.sampled_from(["--hidden", "--no-ignore", "--words", "-g*.md", "-C3"]), max_size=3,
                             unique=True))
        return name, [*options, *more, words[0], *paths], None
    if name != "ls-query":
        return name, [*options, *(f"--profile={one}" for one in profiles), *words], None
    query = None
    if draw(st.booleans()):
        scope: dict[str, Any] = {}
        if paths and all(paths):
            scope["paths"] = [path for path in paths if path]
        if profiles and profiles[0]:
            scope["profile"] = profiles[0]
        query = {"query": " ".join(words), "scope": scope, "sources": draw(st.lists(SOURCES, max_size=2, unique=True)),
                 **draw(st.sampled_from([{}, {"grants": [{"family": "files", "path": "/"}]}, {"audience": "mcp"}]))}
        return name, ["--jsonl", *options, "--query-file={root}/query.json"], query
    args = [f"--profile={one}" for one in profiles] + [f"--path={one}" for one in paths]
    args += [f"--source={one}" for one in draw(st.lists(SOURCES, max_size=2))]
    return name, ["--jsonl", *options, *args, "--", *words], query


@settings(max_examples=60)
@given(asked(), VARIABLES, STDIN)
def test_rows_lie_within_the_grants(
    shared: Home, question: tuple[str, list[str], dict[str, Any] | None], variables: dict[str, str], stdin: bytes
) -> None:
    name, args, query = question
    if query is not None:
        (shared.root / "query.json").write_bytes(orjson.dumps(query))
    report = shared.root / "report.json"
    report.unlink(missing_ok=True)
    done = shared.run(name, f"--report={report}", *(word.replace("{root}", str(shared.root)) for word in args),
                      stdin=stdin, env=shared.env(**variables))
    assert done.code in (0, 2, 3, 4, 5, 7), done
    for row in done.rows:
        assert allowed(shared, row), row
    # Its own words may be in what it says; nobody else's are.
    said = done.out + done.err + (report.read_bytes() if report.exists() else b"")
    if not any(CANARY in word for word in [*args, str(query)]):
        assert CANARY.encode() not in said
    assert shared.runs == []


def test_the_canary_is_found_where_it_is_granted(shared: Home, tmp_path: Path) -> None:
    """The property above can fail: with everything granted the same questions find it."""
    other = tmp_path / "config"
    other.mkdir(mode=0o700)
    browser = shared.home / ".config/chromium/Profile 1"
    (other / "consent.json").write_bytes(orjson.dumps({"v": 1, "grants": [
        {"family": "files", "path": str(shared.home)},
        {"family": "browser", "browser": "chromium", "profile": "Profile 1", "data": ["history", "bookmarks"],
         "path": str(browser)}]}))
    (other / "consent.json").chmod(0o600)
    env = shared.env(LSPIPE_CONFIG_HOME=str(other))
    for name, args in (("ls-history", ["async"]), ("ls-bookmarks", ["async"]), ("ls-rg", ["async", "notes/out"]),
                       ("ls-query", ["--jsonl", "--source=files", "--path=secret", "async"])):
        assert CANARY.encode() in shared.run(name, *args, env=env).out, name


# Time


def ending(home: Home, at: int) -> None:
    """All that is granted ends at that time (µs)."""
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*({**grant, "expires_at": when.rfc3339(at)} for grant in grants))


@asking
def test_a_grant_that_has_ended_stays_ended(name: str, home: Home) -> None:
    """--now is what relative times and recency are counted from; it is not the clock of consent."""
    ended = time.time_ns() // 1000 - 3_600_000_000
    ending(home, ended)
    args = ["async", str(home.home / "notes")] if name == "ls-rg" else ["async"]
    for now in ([], ["--now", when.rfc3339(ended - 3_600_000_000)], ["--now", "1970-01-01T00:00:01Z"]):
        done = home.run(name, *now, *args)
        assert (done.code, done.out) == (5, b""), done
        support.assert_one_line(done.err, name)
        assert b"the grant ended" in done.err


@pytest.mark.skipif(sys.platform == "darwin", reason="needs a small pipe")
@pytest.mark.parametrize("one", [one for one in support.of("source") if one.name != "ls-qmd"], ids=str)
def test_a_run_uses_the_grants_as_at_its_start(one: support.Executable, home: Home) -> None:
    """What is revoked while it runs is for the next run; what is granted, too."""
    whole = home.typical(one.name).out
    with support.at_work(home, one) as process:
        done = home.run("ls-consent", "revoke", "--all")
        assert done.code == 0, done.err
        reader = os.open(f"/proc/{process.pid}/fd/1", os.O_RDONLY)
        got = b""
        while process.poll() is None or got == b"":
            got += os.read(reader, 1 << 16)
            if got.endswith(whole[-20:]):
                break
        assert process.wait(support.PATIENCE) == 0
        os.close(reader)
    assert got.lstrip(b"\n") == whole
    assert home.typical(one.name).code == 5


def test_a_grant_that_ends_during_a_run(home: Home) -> None:
    one = next(one for one in support.executables() if one.name == "ls-history")
    whole = home.typical(one.name).out
    for seconds in (2, 8, 32):  # A busy machine may need longer than that to start.
        at = time.time_ns() // 1000 + seconds * 1_000_000
        ending(home, at)
        with contextlib.suppress(AssertionError), support.at_work(home, one) as process:
            support.until(lambda at=at: time.time_ns() // 1000 > at, "the grant has ended", process)
            got = os.read(reader := os.open(f"/proc/{process.pid}/fd/1", os.O_RDONLY), 1 << 20)
            while not got.endswith(whole[-20:]):
                got += os.read(reader, 1 << 16)
            os.close(reader)
            assert process.wait(support.PATIENCE) == 0
            break
    else:
        raise AssertionError("it never got to work")
    assert got.lstrip(b"\n") == whole
    assert home.typical(one.name).code == 5


# Files of consent that cannot be used


def _huge(file: Path) -> None:
    with open(file, "r+b") as out:
        out.truncate(100 << 20)


def _link(file: Path) -> None:
    file.rename(file.with_name("elsewhere.json"))
    file.symlink_to(file.with_name("elsewhere.json"))


def _replaced(file: Path, make: Any) -> None:
    file.unlink()
    make(file)


SPOILT = {
    "others can write it": lambda file: file.chmod(0o602), "the group can write it": lambda file: file.chmod(0o620),
    "others can read it": lambda file: file.chmod(0o604),
    "others can write its folder": lambda file: file.parent.chmod(0o777),
    "the group can write its folder": lambda file: file.parent.chmod(0o770),
    "a link": _link, "a FIFO": lambda file: _replaced(file, os.mkfifo),
    "a folder": lambda file: _replaced(file, os.mkdir), "100 MB": _huge,
    "not JSON": lambda file: file.write_bytes(b'{"v":1,'), "empty": lambda file: file.write_bytes(b""),
    "an unknown key": lambda file: file.write_bytes(file.read_bytes().replace(b'{"v":1', b'{"all":true,"v":1')),
    "an unknown key in a grant": lambda file: file.write_bytes(file.read_bytes().replace(
        b'{"family":"files"', b'{"recursive":true,"family":"files"')),
    "another version": lambda file: file.write_bytes(file.read_bytes().replace(b'"v":1', b'"v":2')),
    "a path with ..": lambda file: file.write_bytes(file.read_bytes().replace(b"/notes", b"/notes/..")),
    "nested deep": lambda file: file.write_bytes(b'{"v":1,"grants":' + b"[" * 100_000),
}


def refused(home: Home, name: str) -> None:
    args = ["async", str(home.home / "notes")] if name == "ls-rg" else ["async"]
    done = home.run(name, *args)
    assert (done.code, done.out) == (5, b""), done
    support.assert_one_line(done.err, name)
    assert home.runs == []


@asking
def test_a_consent_file_that_cannot_be_used_grants_nothing(name: str, home: Home) -> None:
    file = home.config / "consent.json"
    good = file.read_bytes()
    for what, spoil in SPOILT.items():
        spoil(file)
        try:
            refused(home, name)
        except AssertionError as error:
            raise AssertionError(what) from error
        if file.is_symlink() or not file.is_dir():
            file.unlink()
        else:
            file.rmdir()
        home.config.chmod(0o700)
        file.touch(0o600)
        file.write_bytes(good)


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
@asking
def test_a_consent_file_of_another_user_grants_nothing(name: str, home: Home) -> None:
    os.chown(home.config / "consent.json", 12345, 12345)
    refused(home, name)
    os.chown(home.config / "consent.json", 0, 0)
    os.chown(home.config, 12345, 12345)
    refused(home, name)


# What is not granted is not opened


@contextlib.contextmanager
def traps(paths: Sequence[Path]) -> Iterator[list[str]]:
    """FIFOs with a writer waiting at each, who is let in by whoever opens it to read: the names of those."""
    sprung: list[str] = []
    ending = threading.Event()

    def wait(path: Path) -> None:
        os.close(os.open(path, os.O_WRONLY))
        if not ending.is_set():
            sprung.append(str(path))

    waiting = []
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        waiting.append(threading.Thread(target=wait, args=(path,)))
        waiting[-1].start()
    try:
        yield sprung
    finally:
        ending.set()
        for path, thread in zip(paths, waiting, strict=True):
            while thread.is_alive():
                with contextlib.suppress(OSError):
                    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                thread.join(0.01)


_IN_OPEN = 0x20


@contextlib.contextmanager
def opened(paths: Sequence[Path]) -> Iterator[list[str]]:
    """The kernel's word (inotify) for every one of these files that is opened: also by whoever passes FIFOs over."""
    calls = ctypes.CDLL(None, use_errno=True)
    queue = calls.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert queue >= 0
    names = {calls.inotify_add_watch(queue, os.fsencode(path), _IN_OPEN): str(path) for path in paths}
    assert -1 not in names and len(names) == len(paths)
    found: list[str] = []
    try:
        yield found
        with contextlib.suppress(BlockingIOError):
            while data := os.read(queue, 1 << 16):
                while data:
                    watch, _, _, length = struct.unpack_from("iIII", data)
                    found.append(names[watch])
                    data = data[16 + length:]
    finally:
        os.close(queue)


_CHROMIUM = ("History", "History-journal", "Bookmarks", "Preferences", "Secure Preferences", "Cookies", "Login Data",
             "Web Data", "Sessions/Session_13440000000000000", "Sessions/Tabs_13440000000000000",
             "Sync Data/LevelDB/000003.log", "Sync Data/LevelDB/CURRENT")
_FIREFOX = ("places.sqlite", "places.sqlite-wal", "sessionstore.jsonlz4", "sessionstore-backups/recovery.jsonlz4",
            "cookies.sqlite", "logins.json", "key4.db")


def not_granted(home: Home) -> list[Path]:
    """Profiles and files that nobody granted, at every place where they could be met."""
    chromium, firefox = home.home / ".config/chromium", home.home / ".mozilla/firefox"
    return [*(chromium / "Profile 1" / name for name in _CHROMIUM), chromium / "Profile 2",
            *(firefox / "zzzzzzzz.other" / name for name in _FIREFOX),
            *(home.home / ".config/google-chrome/Default" / name for name in _CHROMIUM[:3]),
            home.home / "secret/note.md", home.home / "loose.md", home.home / ".gitconfig",
            home.home / ".config/ripgrep.conf", home.home / ".config/git/ignore"]


MORE = {
    "ls-consent": (["list", "--found"], ["grant", "browser", "chromium/Profile 1", "--data", "all"],
                   ["grant", "files", "secret"], ["revoke", "1"]),
    "ls-rg": (["async"], ["async", "secret", "loose.md"], ["--hidden", "async", "."], ["--words", "async", "/"]),
    "ls-query": (["--source=all", "async"], ["--path=.", "async"], ["--profile=Profile 1", "async"],
                 ["--plan", "async"]),
}
for _name in HISTORY:
    MORE[_name] = (["async"], ["--profile=Profile 1", "async"], ["--profile=chromium/Profile 2", "async"],
                   ["--profile=zzzzzzzz.other", "async"])


@pytest.mark.parametrize("one", support.executables(), ids=str)
def test_what_is_not_granted_is_never_opened(one: support.Executable, home: Home) -> None:
    profile = home.home / ".config/chromium/Profile 3"  # As good as the granted one.
    shutil.copytree(home.home / ".config/chromium/Default", profile)
    other = home.home / ".mozilla/firefox/yyyyyyyy.real"
    shutil.copytree(home.home / ".mozilla/firefox/k3x9f2ab.default-release", other)
    folder = home.home / "not-granted"
    shutil.copytree(home.home / "notes", folder)
    real = [path for place in (profile, other, folder) for path in place.rglob("*") if path.is_file()]
    assert len(real) > 10
    with traps(not_granted(home)) as sprung, opened(real) as seen:
        assert home.typical(one.name).code == 0
        assert home.typical(one.name, "--sandbox-report").code == 0
        for args in MORE.get(one.name, ()):
            done = home.run(one.name, *args)
            assert done.code in (0, 3, 5, 7), (args, done)
            assert b"Traceback" not in done.err
        assert sprung == []
    assert seen == []


def test_public_asks_nothing_that_is_private(home: Home) -> None:
    """It is not only left out in the end: it is not looked at."""
    private = [home.home / ".config/chromium/Default/History", home.home / "notes/rust/pin.md"]
    with opened(private) as seen:
        assert home.run("ls-query", "--public", "async").code == 5
    assert seen == []
    with opened(private) as seen:
        assert home.run("ls-query", "async").code == 0
    assert len(set(seen)) == 2


@pytest.mark.parametrize("name", HISTORY)
def test_a_fifo_in_a_granted_profile_is_not_opened_either(name: str, home: Home) -> None:
    """Whoever opens a FIFO lets its writer go on, and a device may do worse: it is looked at first."""
    places = []
    for folder, names in ((home.home / ".config/chromium/Default", _CHROMIUM),
                          (home.home / ".mozilla/firefox/k3x9f2ab.default-release", _FIREFOX)):
        shutil.rmtree(folder)
        places += [folder / name for name in names]
    with traps(places) as sprung:
        done = home.run(name, "async")
        assert (done.code in (4, 7), done.out) == (True, b""), done
        assert sprung == []


def test_a_trap_springs_when_it_is_opened(home: Home) -> None:
    """The test above can fail: what is granted is opened."""
    place = home.home / "granted.md"
    with traps([place]) as sprung:
        threading.Thread(target=lambda: os.close(os.open(place, os.O_RDONLY))).start()
        support.until(lambda: sprung, "the trap was sprung")


@pytest.mark.parametrize("name", HISTORY)
def test_a_profile_whose_grant_has_ended_is_never_opened(name: str, home: Home) -> None:
    """Nor is the database of its profile group, which shows names only after a grant."""
    firefox = home.home / ".mozilla/firefox"
    profile = firefox / "k3x9f2ab.default-release"
    (firefox / "profiles.ini").write_text(
        "[Profile0]\nName=default-release\nIsRelative=1\nPath=k3x9f2ab.default-release\nStoreID=abc123\n")
    group = firefox / "Profile Groups/abc123.sqlite"
    group.parent.mkdir()
    base = sqlite3.connect(group)
    base.execute("CREATE TABLE Profiles(id INTEGER PRIMARY KEY, path TEXT, name TEXT)")
    base.execute("INSERT INTO Profiles(path, name) VALUES('k3x9f2ab.default-release', 'Work')")
    base.commit()
    base.close()
    if name != "ls-reading":  # Firefox has no reading list.
        with opened([group]) as seen:
            assert home.run(name, "--profile=Work", "async").code == 0
        assert seen, "with a grant its name is looked up"
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    at = when.rfc3339(time.time_ns() // 1000 - 1)
    home.consent(*({**grant, "expires_at": at} if grant.get("browser") == "firefox" else grant for grant in grants))
    files = [path for place in (profile, group.parent) for path in place.rglob("*") if path.is_file()]
    for granted in (True, False):  # Another profile still is, or none.
        with opened(files) as seen:
            for args in ([], ["--profile=Work"], ["--profile=firefox"], ["--profile=k3x9f2ab.default-release"]):
                code = home.run(name, *args, "async").code
                # That it is left out is said where another one answers.
                said = 0 if name == "ls-reading" else 7  # Nobody was granted Firefox's.
                assert code in ((said,) if granted and not args else (3, 5)), (args, code)
        assert seen == []
        ending(home, time.time_ns() // 1000 - 1)

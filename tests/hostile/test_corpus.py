"""The hostile corpus: each threat through every executable that could meet it, with limits of time and memory.

What must hold for all: the right exit code, an error of one line, nothing raw in what is printed, what is beside the
trap found as if it were not there, nothing left behind.
"""

import os
import pty
import re
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import limits
import orjson
import profiles
import pytest
import sessions
import support
import traps
from profiles import Page
from support import Home

BROWSER = ("ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading")
READERS = ("ls-fuse", "ls-rerank", "ls-check", "ls-redact", "ls-show")
FORMS = ("table", "jsonl", "urls", "paths", "tsv", "results", "exa")
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
#: What ls-show and porcelain tables write themselves: colours and links.
OURS = re.compile(rb"\x1b\[[0-9;]*m|\x1b\]8;;[!-~]*\x1b\\")
NOW = ("--now", "2026-07-21T13:00:00Z")


def clear(done: support.Done, name: str) -> None:
    """Nothing raw is printed, and errors are lines that name the program."""
    out, err = done.out.decode(), done.err.decode()
    assert not RAW.search(out), RAW.search(out)
    assert not RAW.search(err), err
    assert "Traceback" not in err and "internal error" not in err, err


# Threats 1 and 9: texts that steer a terminal or hide in it


def calls(home: Home) -> Iterator[tuple[str, list[str]]]:
    """Every way to print what a source has found."""
    for name in BROWSER:
        yield name, [*NOW, traps.WORD]
        yield name, [*NOW, "-n", "3"]
    yield "ls-history", [*NOW, "--top"]
    yield "ls-history", [*NOW, "--sites"]
    yield "ls-bookmarks", [*NOW, "--folder", f"{traps.STEERING}{traps.WORD}{traps.STEERING}"]
    notes = str(home.home / "notes")
    yield from [("ls-rg", ["-C1", traps.WORD, notes]), ("ls-rg", ["--words", traps.WORD, notes]),
                ("ls-rg", ["-l", traps.WORD, notes])]
    for form in ([], ["--json"], ["--jsonl"], ["--plan"], ["--no-rerank"]):
        yield "ls-query", [*NOW, *form, "--path", notes, traps.WORD]
    yield "ls-consent", ["list"]


def test_titles_that_steer_a_terminal(bare: Home) -> None:
    traps.steering(bare)
    rows: list[bytes] = []
    for name, args in calls(bare):
        done = limits.run(bare, name, *args)
        clear(done, name)
        assert done.code == 0 and done.out, (name, args, done.err)
        if name in BROWSER or name == "ls-rg":
            rows += done.lines
            # A site is shown by its host; the path of a file is encoded.
            if "--sites" not in args and name != "ls-rg":
                assert any(traps.STEERING in f"{row['url']} {row['title']}" for row in done.rows), (name, args)
    data = b"".join(row + b"\n" for row in rows)
    for name in READERS:
        for more in ([["--as", form] for form in FORMS] + [["--color=always"]] if name == "ls-show" else
                     [["-q", traps.WORD]] if name == "ls-rerank" else [[]]):
            done = limits.run(bare, name, *more, stdin=[data])
            shown = OURS.sub(b"", done.out) if "--color=always" in more else done.out
            clear(support.Done(done.code, shown, done.err), name)
            assert done.code in ((7,) if more == ["--as", "paths"] else (0,)), (name, more, done.err)


def test_the_same_on_a_terminal(bare: Home) -> None:
    """Escapes on a terminal are those of ls-show and of porcelain tables: colour and links, and no others."""
    traps.steering(bare)
    rows = limits.run(bare, "ls-history", *NOW).out
    for name, args in [*calls(bare), ("ls-show", []), ("ls-show", ["--as", "tsv"])]:
        leader, follower = pty.openpty()
        found: list[bytes] = []
        reader = threading.Thread(target=lambda fd=leader, into=found: into.append(support.drain(fd)))
        reader.start()
        with subprocess.Popen(support.command(name, *args), env=bare.env(TERM="xterm-256color"), cwd=bare.home,
                              stdin=subprocess.PIPE, stdout=follower, stderr=follower) as process:
            assert process.stdin
            process.stdin.write(rows if name == "ls-show" else b"")
            process.stdin.close()
            code = process.wait(support.PATIENCE)
        os.close(follower)
        reader.join()
        os.close(leader)
        text = OURS.sub(b"", found[0]).replace(b"\r\n", b"\n").decode()
        assert code == 0, (name, args, text)
        assert not RAW.search(text), (name, args, RAW.search(text))
        assert b"owned\x07" not in found[0]


def test_names_of_files_that_are_no_text_or_several_lines(bare: Home) -> None:
    """Through the search, and through a plan that is run by a shell."""
    notes = os.fsencode(bare.home / "notes")
    os.mkdir(notes)
    for name in (b"new\nline.md", b"bad\xff.md", b"-rf.md", b"$(touch ran).md", b"'\"`.md", b"\x1b[31m.md",
                 b"dir\n\xff"):
        if name.startswith(b"dir"):
            os.mkdir(notes + b"/" + name)
            name += b"/a.md"
        with open(notes + b"/" + name, "wb") as file:
            file.write(b"needle\n")
    bare.consent({"family": "files", "path": str(bare.home / "notes")})
    done = limits.run(bare, "ls-rg", "needle", notes)
    assert done.code == 0 and len(done.rows) == 7
    clear(done, "ls-rg")
    for path in (notes, notes + b"/dir\n\xff", notes + b"/new\nline.md", notes + b"/$(touch ran).md"):
        asked = [*NOW, "--source", "files", "--path", path, "needle"]
        rows = limits.run(bare, "ls-query", "--jsonl", *asked)
        plan = limits.run(bare, "ls-query", "--plan", *asked)
        clear(plan, "ls-query")
        assert rows.code == 0 and rows.out
        assert bare.bash(plan.out).stdout == rows.out
    assert not list(bare.home.rglob("ran"))


# Threats 2 to 8: JSON that is too large, too deep, or none; as rows in tests/contract/test_stream.py

JSON = {
    "100 MB": b'{"query": "' + b"x" * (100 << 20) + b'"}', "2,000,000 keys": b"{" + b",".join(
        b'"%d":0' % number for number in range(2_000_000)) + b"}", "depth 100,000": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "NaN": b'{"query": NaN, "limit": NaN}',
    "1e999": b'{"query": "a", "limit": 1e999, "v": 1e999}', "2**64": b'{"query": "a", "limit": 18446744073709551616}',
    "5000 digits": b'{"query": "a", "limit": ' + b"9" * 5000 + b"}", "bytes": b'{"query": "\xff"}',
    "lone surrogate": b'{"query": "\\ud800"}', "NUL": b'{"query": "a\0"}', "nothing": b"",
    "UTF-16": "{}".encode("utf-16"),
}


@pytest.mark.parametrize("kind", JSON)
def test_json_that_is_too_much_or_none(kind: str, bare: Home) -> None:
    """As query, consent, settings, bookmarks, session store, names of profiles: never a bug, and never much memory."""
    data = JSON[kind]
    traps.steering(bare)
    query = bare.root / "query.json"
    query.write_bytes(data)
    done = limits.run(bare, "ls-query", "--query-file", str(query))
    assert (done.code, done.out) == (2, b"")
    support.assert_one_line(done.err, "ls-query")
    assert limits.run(bare, "ls-query", "--query-file", "-", stdin=[data]).code == 2
    for which in ("query", "consent", "envelope", "report", "row"):
        done = limits.run(bare, "ls-check", "--as", which, stdin=[data])
        assert done.code == (0 if not data else 2 if which == "row" and data[:1] == b"[" else 7), done.err
        clear(done, "ls-check")
    bookmarks, names = traps.chromium(bare) / "Bookmarks", traps.chromium(bare).parent / "Local State"
    store = traps.firefox(bare) / "sessionstore-backups/recovery.jsonlz4"
    for file in (bookmarks, names):
        file.write_bytes(data)
    store.write_bytes(sessions.mozlz4(data))
    for name in ("ls-bookmarks", "ls-tabs"):
        done = limits.run(bare, name, traps.WORD)
        assert done.code == 7 and {row["provenance"]["browser"] for row in done.rows} == {
            "firefox" if name == "ls-bookmarks" else "chromium"}, (name, done.err)
        clear(done, name)
        assert len(done.err.splitlines()) <= 2, done.err
    assert limits.run(bare, "ls-history", traps.WORD).code == 0  # Without the shown name.
    for name, code in (("config.toml", 5), ("consent.json", 5)):
        file = bare.config / name
        file.write_bytes(data)
        file.chmod(0o600)
        done = limits.run(bare, "ls-query", traps.WORD)
        # Settings may be empty; the bookmarks and tabs of one profile are spoilt.
        assert done.code == (7 if name == "config.toml" and not data else code)
        assert bool(done.out) == (done.code == 7)
        clear(done, "ls-query")
        if name == "config.toml":
            file.unlink()


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such limit")
def test_a_file_that_needs_more_memory_than_there_is(bare: Home) -> None:
    """It is left out, and what is beside it is found."""
    for profile, many in (("Default", 100_000), ("Profile 1", 3)):
        folder = traps.chromium(bare).parent / profile
        folder.mkdir(parents=True, exist_ok=True)
        marks = [{"type": "url", "id": str(number), "name": f"{traps.WORD} {number}", "url": f"http://a.test/{number}"}
                 for number in range(many)]
        (folder / "Bookmarks").write_bytes(orjson.dumps({"roots": {"other": {"type": "folder", "children": marks}}}))
    bare.consent(*({"family": "browser", "browser": "chromium", "profile": name, "data": ["bookmarks"],
                    "path": str(traps.chromium(bare).parent / name)} for name in ("Default", "Profile 1")))
    done = bare.run("ls-bookmarks", traps.WORD, before=lambda: resource.setrlimit(
        resource.RLIMIT_DATA, (100 << 20, resource.RLIM_INFINITY)))
    assert done.code == 7 and [row["provenance"]["profile"] for row in done.rows] == ["Profile 1"] * 3
    assert done.err == (b"ls-bookmarks: cannot read profile 'chromium/Default': Bookmarks needs more memory than it may"
                        b" have\n")


# Threats 10 to 13: a program that is to be run, an option that is to be smuggled

TEMPTING = ("--pre=./ran.sh", "-z", "--files", "--socket", "-rf", "$(touch ran)", "`touch ran`", "; touch ran",
            "| touch ran", "--hostname-bin=./ran.sh", "-f/etc/passwd", "--json",
            "--query-file=/etc/passwd", "'; touch ran; '", "\\'")


@pytest.mark.parametrize("name", [*BROWSER, "ls-rg", "ls-qmd", "ls-query"])
def test_a_query_is_never_an_option_nor_a_program(name: str, home: Home) -> None:
    if name == "ls-qmd":
        support.need_qmd()
        (home.root / "wiki").mkdir()
        home = Home(home.root / "wiki", sample=True, wiki=True)
    proof = home.home / "ran"
    traps.program(home.home, "ran.sh", proof)
    for query in TEMPTING:
        done = limits.run(home, name, *(["--words"] if name == "ls-rg" else []), "--", query)
        assert done.code in (0, 2), done.err
        clear(done, name)
        if name == "ls-query" and "touch" in query:
            plan = limits.run(home, name, "--plan", "--", query)
            if plan.code == 0:
                assert home.bash(plan.out).returncode == 0
    assert not proof.exists()


def test_an_environment_that_names_programs(home: Home) -> None:
    """Of all that other programs would run for it, nothing runs: neither in rg, nor in Node."""
    support.need_qmd()
    (home.root / "wiki").mkdir()
    place = Home(home.root / "wiki", sample=True, wiki=True)
    proof, folder = place.home / "ran", place.home / "bin"
    script = traps.program(folder, "ran.sh", proof)
    node = place.home / "ran.js"
    node.write_text(f"require('fs').writeFileSync({orjson.dumps(str(proof)).decode()}, '')")
    (place.home / "rgrc").write_text(f"--pre={script}\n--hostname-bin={script}\n")
    env = place.env(
        RIPGREP_CONFIG_PATH=str(place.home / "rgrc"), NODE_OPTIONS=f"--require={node}", NODE_PATH=str(place.home),
        BASH_ENV=str(script), ENV=str(script), PAGER=str(script), EDITOR=str(script), BROWSER=str(script),
        GIT_EXTERNAL_DIFF=str(script), LESSOPEN=f"|{script}", SHELL=str(script), QMD_EMBED_MODEL=str(script),
        LSPIPE_RUN="\n", TZ="/etc/passwd", COLUMNS="-1", INDEX_PATH="/etc/passwd", QMD_CONFIG_DIR="/etc")
    for name, args in (("ls-query", ["--jsonl", "--timeout=60s", "async"]), ("ls-rg", ["async", "notes"]),
                       ("ls-qmd", ["--timeout=60s", "async"]), ("ls-history", ["--since", "yesterday", "async"])):
        done = limits.run(place, name, *args, env=env)
        assert done.code == 0 and (done.out or name == "ls-history"), (name, done.err)
    assert not proof.exists()


@pytest.mark.parametrize("name", ["rg", "qmd", "node", "gzip"])
@pytest.mark.parametrize("how", ["world-writable", "relative", "empty"])
def test_a_program_that_somebody_put_on_the_path(name: str, how: str, home: Home) -> None:
    support.need_qmd()
    (home.root / "wiki").mkdir()
    place = Home(home.root / "wiki", sample=True, wiki=True)
    proof, folder = place.root / "ran", place.home / "bin"
    traps.program(folder, name, proof)
    folder.chmod(0o777 if how == "world-writable" else 0o755)
    first = {"world-writable": str(folder), "relative": "bin", "empty": ""}[how]
    if how == "empty":
        traps.program(place.home, name, proof)
    env = place.env(PATH=f"{first}:{place.env()['PATH']}")
    for command, args in (("ls-rg", ["async", "notes"]), ("ls-qmd", ["async", "--timeout=60s"]),
                          ("ls-query", ["--jsonl", "--timeout=60s", "async"])):
        done = limits.run(place, command, *args, env=env)
        assert done.code == 0 and done.out, (command, done.err)
    assert not proof.exists()


# Threat 14: what waits for ever where it is opened

CHROMIUM_FILES = ("History", "History-journal", "History-wal", "Bookmarks", "AccountBookmarks", "Sessions",
                  f"Sessions/Session_{traps.STAMP + 9}", "Sync Data/LevelDB/CURRENT", "Sync Data/LevelDB/000009.log")
FIREFOX_FILES = ("places.sqlite", "places.sqlite-wal", "sessionstore.jsonlz4", "containers.json",
                 "sessionstore-backups/recovery.jsonlz4", "sessionstore-backups")


@pytest.mark.parametrize(("browser", "file"), [*(("chromium", file) for file in CHROMIUM_FILES),
                                               *(("firefox", file) for file in FIREFOX_FILES)])
def test_a_fifo_in_the_place_of_a_file_of_a_profile(browser: str, file: str, bare: Home) -> None:
    """With a writer who never writes, so that an open alone would not wait, but a read would."""
    traps.steering(bare)
    trap = (traps.chromium if browser == "chromium" else traps.firefox)(bare, "Trap")
    trap.mkdir()
    place = trap / file
    place.parent.mkdir(parents=True, exist_ok=True)
    if file.endswith(("-journal", "-wal")):
        make = profiles.chromium_history if browser == "chromium" else profiles.firefox_places
        make(trap, [Page("http://b.test/")])
        place.unlink(missing_ok=True)
    os.mkfifo(place)
    consent = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    bare.consent(*consent, traps.granted(trap, browser))
    writer = os.open(place, os.O_RDWR)
    try:
        for name in (*BROWSER, "ls-query"):
            args = ["--jsonl", "--source", "browser"] if name == "ls-query" else []
            done = limits.run(bare, name, *args, traps.WORD)
            assert done.code in (0, 7) and done.out, (name, done.err)
            assert {row["provenance"]["profile"] for row in done.rows} <= {"Default", "x.default"}
            clear(done, name)
    finally:
        os.close(writer)


@pytest.mark.parametrize("name", ["consent.json", "config.toml", "consent.lock"])
def test_a_fifo_in_the_place_of_a_file_of_ours(name: str, home: Home) -> None:
    file = home.config / name
    file.unlink(missing_ok=True)
    os.mkfifo(file, 0o600)
    writer = os.open(file, os.O_RDWR)
    try:
        args = ["revoke", "--all"] if name == "consent.lock" else ["async"]
        command = "ls-consent" if name == "consent.lock" else "ls-query"
        done = limits.run(home, command, *args)
        assert (done.code, done.out) == (5, b"")
        support.assert_one_line(done.err, command)
        assert b"not a regular file" in done.err
    finally:
        os.close(writer)


def test_fifos_and_nonsense_in_the_place_of_dead_runs(home: Home) -> None:
    """In the ledger: they are swept, listed and removed, and nothing waits or breaks."""
    junk = [b"[]", b"{}", b"null", b'{"pid":1e99}', b"[[[[", b'{"owner":{"pid":"x"}}', b"\xff", b"9" * 5000, None]
    for number, content in enumerate(junk):
        run = home.state / f"run/{99000 + number}-{number:016x}"
        run.mkdir(parents=True, mode=0o700)
        home.state.chmod(0o700)
        for name in ("lock", "owner.json", "1.json", "1.pid.json", "x.json", "99999999999999999999.json"):
            if content is None:
                os.mkfifo(run / name, 0o600)
            else:
                (run / name).write_bytes(content)
                (run / name).chmod(0o600)
    for name, args in (("ls-ps", []), ("ls-clean", []), ("ls-history", ["async"]), ("ls-query", ["--jsonl", "async"])):
        done = limits.measured(support.command(name, *args), home)
        assert done.code in (0, 7) and done.mib < limits.MIB, (name, done)
        clear(done, name)


# Threat 15: a way out of what was granted


@pytest.mark.parametrize("target", ["/etc", "/dev", "/proc/self", "elsewhere"])
def test_a_profile_that_leads_elsewhere(target: str, bare: Home) -> None:
    traps.steering(bare)
    other = bare.root / "elsewhere"
    profiles.chromium_history(other, [Page("http://secret.test/", traps.WORD)])
    link = traps.chromium(bare, "Link")
    link.symlink_to(other if target == "elsewhere" else target)
    consent = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    bare.consent(*consent, traps.granted(link, "chromium"))
    for name in BROWSER:
        done = limits.run(bare, name, traps.WORD)
        assert done.code == 7 and done.out and b"secret.test" not in done.out, (name, done.err)
        clear(done, name)


# Threats 16 to 18: databases


def recursive(kind: str, name: str, *columns: str) -> str:
    """A view that never ends, or a table that is a module's."""
    names = ", ".join(columns)
    if kind == "view":
        values = ", ".join("i" for _ in columns)
        return (f"CREATE VIEW {name}({names}) AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c)"
                f" SELECT {values} FROM c")
    return f"CREATE VIRTUAL TABLE {name} USING fts5({names})"


@pytest.mark.parametrize("kind", ["view", "virtual table"])
@pytest.mark.parametrize("name", ["urls", "visits", "downloads", "downloads_url_chains", "moz_places", "moz_bookmarks",
                                  "moz_historyvisits", "moz_annos"])
def test_a_table_that_is_a_program(name: str, kind: str, bare: Home) -> None:
    traps.steering(bare)
    moz = name.startswith("moz_")
    trap = (traps.firefox if moz else traps.chromium)(bare, "Trap")
    path = profiles.firefox_places(trap, wal=False) if moz else profiles.chromium_history(trap, [Page("http://b.test/")])
    if name == "downloads_url_chains":
        traps.downloads(path, ("/d/x", "http://b.test/"))
    with sqlite3.connect(path) as conn:
        columns = [row[1] for row in conn.execute(f"PRAGMA table_info({name})")] or ["id", "place_id", "content"]
        conn.execute(f"DROP TABLE IF EXISTS {name}")
        conn.execute(recursive(kind, name, *columns))
    conn.close()
    consent = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    bare.consent(*consent, traps.granted(trap, "firefox" if moz else "chromium", "history", "bookmarks", "downloads"))
    for command in ("ls-history", "ls-bookmarks", "ls-downloads"):
        for args in ([], [traps.WORD]):
            done = limits.run(bare, command, *args)
            assert done.code in (0, 7) and done.out, (command, done.err)
            clear(done, command)


def test_values_that_are_larger_than_memory_should_be(bare: Home) -> None:
    """A column that is worked out to 100 MB, and a title of 50 MB, beside good ones."""
    traps.steering(bare)
    path = traps.chromium(bare) / "History"
    with sqlite3.connect(path) as conn:
        conn.execute("ALTER TABLE urls ADD COLUMN big TEXT AS (hex(zeroblob(50000000)))")
        conn.execute("INSERT INTO urls (url, title, last_visit_time)"
                     " VALUES ('http://b.test/', hex(zeroblob(25000000)), 1)")
        conn.execute("INSERT INTO urls (url, title, last_visit_time)"
                     " VALUES ('http://c.test/' || hex(zeroblob(25000000)), 'needle', 1)")
    conn.close()
    for args in ([], [traps.WORD], ["--top"]):
        done = limits.run(bare, "ls-history", *args)
        assert done.code in (0, 7) and any(traps.STEERING in row["url"] for row in done.rows), done.err
        clear(done, "ls-history")


def test_more_values_than_fit_into_memory(bare: Home) -> None:
    """18 MB of empty lists, which become 500 MB: in Firefox's store they are 70 KB on the disk."""
    traps.steering(bare)
    data = b'{"roots":{},"windows":[],"x":[' + b"[]," * 6_000_000 + b"[]]}"
    profile = traps.chromium(bare)
    for file in (profile / "Bookmarks", profile.parent / "Local State"):
        file.write_bytes(data)
    (traps.firefox(bare) / "sessionstore-backups/recovery.jsonlz4").write_bytes(sessions.mozlz4(data))
    for name, browser in (("ls-bookmarks", "firefox"), ("ls-tabs", "chromium")):
        done = limits.run(bare, name, traps.WORD)
        assert done.code == 7 and {row["provenance"]["browser"] for row in done.rows} == {browser}, (name, done.err)
        assert b"holds more values than any browser writes" in done.err
        clear(done, name)


def shared(home: Home, kind: str, count: int, text: str) -> None:
    """A profile of some megabytes, beside good ones, in which many rows are one long text but for their beginnings."""
    traps.steering(home)
    trap = (traps.firefox if kind == "moz_bookmarks" else traps.chromium)(home, "Trap")
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*grants, traps.granted(trap, "firefox" if kind == "moz_bookmarks" else "chromium"))
    if kind == "moz_bookmarks":
        path = profiles.firefox_places(trap, [Page("http://b.test/")], wal=False)
    else:
        path = profiles.chromium_history(trap, [Page("http://b.test/")])
        traps.downloads(path, ("/d/x", "http://b.test/"))
    at = profiles.NOON + profiles.WEBKIT
    with sqlite3.connect(path) as conn:
        conn.execute("PRAGMA journal_mode = DELETE")
        if kind == "urls":
            conn.execute("DROP INDEX urls_url_index")
            conn.executemany("INSERT INTO visits (url, visit_time, transition, from_visit)"
                             " VALUES (?, ?, 0x30000000, 0)", [(number, at) for number in range(1, count + 1)])
        columns = [row[1] for row in conn.execute(f"PRAGMA table_info({kind})")]
    conn.close()
    long = f"https://a.test/{traps.WORD}/{text}"
    known: dict[str, object] = {
        "url": long, "title": traps.WORD, "visit_count": 1, "typed_count": 0, "last_visit_time": at, "hidden": 0,
        "target_path": long, "start_time": at, "end_time": at, "state": 1, "chain_index": 0}
    if kind == "moz_bookmarks":
        known = {"type": 1, "fk": 1, "parent": 3, "position": 0, "title": long, "dateAdded": profiles.NOON}

    def values(number: int) -> list[int | str | None]:
        return [number if name == "id" and kind == "downloads_url_chains" else known.get(name) for name in columns]

    traps.sharing(path, kind, count, values)
    assert path.stat().st_size < 10_000_000


@pytest.mark.parametrize("kind", ["urls", "downloads", "downloads_url_chains", "moz_bookmarks"])
def test_rows_that_share_a_long_text(kind: str, bare: Home) -> None:
    """A chain of pages that belongs to five hundred rows: neither memory nor time is the product of the two."""
    shared(bare, kind, 500, "x" * 2_000_000)
    commands = {"urls": ["ls-history"], "moz_bookmarks": ["ls-bookmarks"]}.get(kind, ["ls-downloads"])
    for command in commands:
        more = [["--top"], ["--sites"]] if command == "ls-history" else []
        for args in ([], [traps.WORD], ["zzz"], *more):
            done = limits.run(bare, command, *NOW, "--timeout", "2s", *args, seconds=8)
            assert done.mib < 150 and done.code in (0, 6, 7), (command, args, done.mib, done.err)
            clear(done, command)
        assert limits.run(bare, command, *NOW, "-n", "3").mib < 150


def test_a_signal_while_long_texts_are_searched(bare: Home) -> None:
    shared(bare, "urls", 4000, "x" * 2_000_000)

    def seconds(process: "subprocess.Popen[bytes]") -> float:
        used = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")

    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    with bare.start("ls-history", "zzz") as process:
        support.until(lambda: seconds(process) > 1, "it searches", process)
        before = seconds(process)
        process.terminate()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == -15
    assert used.ru_utime + used.ru_stime < before + 1.5, (before, used)


@pytest.mark.parametrize("columns", [490, 90])
def test_a_schema_that_is_larger_than_its_file(columns: int, bare: Home) -> None:
    """Thousands of tables whose statements share a chain of pages: SQLite keeps every one of them."""
    traps.steering(bare)
    trap = traps.chromium(bare, "Trap")
    traps.crowding(profiles.chromium_history(trap, [Page("http://b.test/")]), 12_000, columns, "c" * 180)
    grants = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    bare.consent(*grants, traps.granted(trap, "chromium"))
    for command in ("ls-history", "ls-downloads"):
        done = limits.run(bare, command, *NOW, traps.WORD)
        assert done.code == 7 and done.mib < 150 and done.rows, (done.mib, done.err)
        clear(done, command)


@pytest.mark.parametrize("kind", ["bookmarks", "downloads"])
def test_rows_that_name_one_row_again_and_again(kind: str, bare: Home) -> None:
    """A page with a url of a megabyte, in a file with nothing wrong, and 600 bookmarks or annotations of it."""
    traps.steering(bare)
    path = traps.firefox(bare) / "places.sqlite"
    url = "https://a.test/" + "a" * 1_000_000
    with sqlite3.connect(path) as conn:
        page = conn.execute("INSERT INTO moz_places (url, title, guid) VALUES (?, 'needle', 'g')", (url,)).lastrowid
        if kind == "bookmarks":
            menu = conn.execute("SELECT id FROM moz_bookmarks WHERE guid = 'menu________'").fetchone()[0]
            conn.executemany("INSERT INTO moz_bookmarks (type, fk, parent, position, title, dateAdded, guid)"
                             " VALUES (1, ?, ?, ?, 'needle', 1, ?)",
                             [(page, menu, number, f"g{number}") for number in range(600)])
        else:
            conn.executemany("INSERT INTO moz_annos (place_id, anno_attribute_id, content) VALUES (?, 5, ?)",
                             [(page, f"file:///{number}") for number in range(600)])
    conn.close()
    done = limits.run(bare, f"ls-{kind}", *NOW, "-n", "1000")
    assert done.mib < 150 and done.code == 0, (done.mib, done.err)
    found = [row for row in done.rows if row["meta"].get("url_length") == len(url)]
    assert len(found) == (600 if kind == "bookmarks" else 1)
    clear(done, f"ls-{kind}")


def test_more_rows_than_can_be_kept(bare: Home) -> None:
    """Half a million of them in a file of ten megabytes: that is said, and the others are listed."""
    traps.steering(bare)
    trap = traps.chromium(bare, "Trap")
    path = profiles.chromium_history(trap, [Page("http://b.test/")])
    traps.downloads(path)
    with sqlite3.connect(path) as conn:
        conn.execute("ALTER TABLE downloads ADD COLUMN url")
        conn.executemany("INSERT INTO downloads (id, target_path, state, start_time, url)"
                         " VALUES (?, '/d', 1, 1, 'http://b.test/')", [(number,) for number in range(300_000)])
    conn.close()
    grants = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    bare.consent(*grants, traps.granted(trap, "chromium"))
    done = limits.run(bare, "ls-downloads", *NOW, "-n", "3", "--since", "2020-01-01")
    assert done.code == 7 and done.mib < 200 and b"more in it than" in done.err, (done.mib, done.err)
    assert {row["provenance"]["profile"] for row in done.rows} <= {"Default", "x.default"} and done.rows


def test_names_of_parameters_that_are_a_megabyte_long(bare: Home) -> None:
    """What is known of names is kept, of these it must not be."""
    rows = (b'{"source":"x","url":"https://h.test/?%d' % number + b"a" * 1_000_000 + b'=x"}\n' for number in range(100))
    done = limits.run(bare, "ls-redact", stdin=rows)
    assert done.code == 0 and len(done.rows) == 100
    clear(done, "ls-redact")


@pytest.mark.parametrize("kind", ["History", "places.sqlite", "Bookmarks", "session", "store", "LevelDB"])
def test_two_hundred_damaged_files_beside_a_good_one(kind: str, bare: Home) -> None:
    """In one run, each a profile of its own."""
    traps.steering(bare)
    one, other = traps.chromium(bare), traps.firefox(bare)
    pages = [Page(f"http://b.test/{number}", f"needle {number}") for number in range(60)]
    moz = kind in ("places.sqlite", "store")
    source = {"History": "History", "places.sqlite": "places.sqlite", "Bookmarks": "Bookmarks",
              "session": f"Sessions/Session_{traps.STAMP}", "store": "sessionstore-backups/recovery.jsonlz4",
              "LevelDB": "Sync Data/LevelDB/000007.log"}[kind]
    whole = ((other if moz else one) / source).read_bytes()
    if kind == "History":
        path = profiles.chromium_history(bare.root / "made", pages)
        traps.downloads(path, *((f"/d/{page.title}", page.url) for page in pages))
        whole = path.read_bytes()
    elif kind == "places.sqlite":
        whole = profiles.firefox_places(bare.root / "made", pages, {
            "menu": [profiles.Mark(str(page.title), page.url) for page in pages]}, wal=False).read_bytes()
    grants = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    for seed in range(200):
        trap = (traps.firefox if moz else traps.chromium)(bare, f"Trap {seed}")
        file = trap / source
        file.parent.mkdir(parents=True)
        if kind == "LevelDB":
            for name, data in sessions.manifest([], log=7).items():
                (file.parent / name).write_bytes(data)
        file.write_bytes(traps.damaged(whole, seed))
        grants.append(traps.granted(trap, "firefox" if moz else "chromium"))
    bare.consent(*grants)
    commands = {"History": ["ls-history", "ls-downloads"], "places.sqlite": ["ls-history", "ls-bookmarks"],
                "Bookmarks": ["ls-bookmarks"], "LevelDB": ["ls-reading"]}.get(kind, ["ls-tabs"])
    for command in commands:
        for args in ([], [traps.WORD]):
            done = limits.run(bare, command, *args)
            assert done.code == 7, done.err
            assert {"Default", "x.default"} & {row["provenance"]["profile"] for row in done.rows}, done.err
            clear(done, command)


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_pages_of_a_database_that_lead_in_a_circle(browser: str, depth: int, bare: Home) -> None:
    """Some kilobytes that hold more rows than anybody could read: what is read of them is bounded by their size."""
    traps.steering(bare)
    pages = [Page(f"http://b.test/{number}", "needle") for number in range(20)]
    trap = (traps.chromium if browser == "chromium" else traps.firefox)(bare, "Trap")
    if browser == "chromium":
        path = profiles.chromium_history(trap, pages)
        traps.downloads(path, *((f"/d/{number}", page.url) for number, page in enumerate(pages)))
        traps.circling(path, ("urls", "visits", "downloads", "downloads_url_chains"), depth)
    else:
        path = profiles.firefox_places(trap, pages, {"menu": [profiles.Mark("needle", page.url) for page in pages]},
                                       wal=False)
        traps.circling(path, ("moz_places", "moz_historyvisits", "moz_bookmarks"), depth)
    consent = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    bare.consent(*consent, traps.granted(trap, browser, "history", "bookmarks", "downloads"))
    for command in ("ls-history", "ls-bookmarks", "ls-downloads"):
        more = [["--top"], ["--sites"]] if command == "ls-history" else []
        for args in ([], [traps.WORD], ["--since", "2000-01-01"], *more):
            done = limits.run(bare, command, *NOW, *args)
            assert done.code in (0, 7), done.err
            assert {"Default", "x.default"} & {row["provenance"]["profile"] for row in done.rows}, (command, done.err)
            assert len(done.out) < 20_000_000, (command, args, len(done.out))
            clear(done, command)


def beside(home: Home, browser: str, *kinds: str) -> Path:
    """A profile to spoil, granted beside good ones."""
    traps.steering(home)
    trap = (traps.firefox if browser == "firefox" else traps.chromium)(home, "Trap")
    trap.mkdir(parents=True)
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*grants, traps.granted(trap, browser, *kinds))
    return trap


def mark(name: str) -> dict[str, object]:
    return {"type": "url", "name": name, "url": f"http://b.test/{name}", "date_added": "13350000000000000"}


def test_a_folder_that_many_bookmarks_are_in(bare: Home) -> None:
    """Its name is not searched from end to end for each of them, and time that is over ends it."""
    folder = {"type": "folder", "name": "n" * 100_000, "children": [mark(f"m{number}") for number in range(20_000)]}
    trap = beside(bare, "chromium", "bookmarks")
    (trap / "Bookmarks").write_bytes(orjson.dumps({"roots": {"bookmark_bar": folder}}))
    for args in (["zzz"], ["--timeout", "2s", "n"], ["--folder", "n" * 100_000, "zzz"], ["--tag", "zzz"]):
        done = limits.run(bare, "ls-bookmarks", *NOW, "-n", "5", *args, seconds=10)
        assert done.code in (0, 6, 7) and done.mib < 150, (args[0], done.err)
        assert all(len(row["meta"]["folder"]) <= 4096 for row in done.rows)
        clear(done, "ls-bookmarks")


def test_names_that_are_longer_than_a_row(bare: Home) -> None:
    """Of folders, groups, workspaces, containers: a row with them can be read by the next command."""
    long = "\x01" * 400_000
    firefox = beside(bare, "firefox", "tabs")
    (firefox / "sessionstore-backups").mkdir()
    tabs = [{"entries": [{"url": f"http://b.test/{number}", "title": "needle"}], **more} for number, more in enumerate((
        {"groupId": "g"}, {"groupId": "f"}, {"zenWorkspace": "s"}, {"zenWorkspace": long}, {"userContextId": 5}))]
    window = {"tabs": tabs, "groups": [{"id": "g", "name": long, "color": long}],
              "folders": [{"id": "f", "name": long, "parentId": "f"}], "spaces": [{"uuid": "s", "name": long}]}
    (firefox / "sessionstore-backups/recovery.js").write_bytes(orjson.dumps({"windows": [window]}))
    (firefox / "containers.json").write_bytes(orjson.dumps({"identities": [{"userContextId": 5, "name": long}]}))
    grants = orjson.loads((bare.config / "consent.json").read_bytes())["grants"]
    chromium = traps.chromium(bare, "Trap")
    chromium.mkdir()
    bare.consent(*grants, traps.granted(chromium, "chromium", "bookmarks"))
    folder = {"type": "folder", "name": long, "children": [mark("needle")]}
    (chromium / "Bookmarks").write_bytes(orjson.dumps({"roots": {"bookmark_bar": folder}}))
    for name, count in (("ls-tabs", 5), ("ls-bookmarks", 1)):
        done = limits.run(bare, name, *NOW, traps.WORD)
        found = [line for line, row in zip(done.lines, done.rows, strict=True) if "b.test" in row["url"]]
        assert done.code == 0 and len(found) == count and max(map(len, found)) < 200_000, done.err
        fused = limits.run(bare, "ls-fuse", stdin=[done.out])
        assert fused.code == 0 and len(fused.lines) == len(done.lines), fused.err


def test_names_that_many_tabs_share(bare: Home) -> None:
    firefox = beside(bare, "firefox", "tabs")
    (firefox / "sessionstore-backups").mkdir()
    folders = [{"id": f"f{at}", "name": "n" * 20_000, "parentId": f"f{at + 1}"} for at in range(20)]
    tabs = [{"entries": [{"url": f"http://b.test/{at}", "title": "t"}], "groupId": "f0"} for at in range(4000)]
    (firefox / "sessionstore-backups/recovery.js").write_bytes(
        orjson.dumps({"windows": [{"tabs": tabs, "folders": folders}]}))
    for args in (["zzz"], ["--timeout", "3s", "n"], []):
        done = limits.run(bare, "ls-tabs", *NOW, *args, seconds=10)
        assert done.code in (0, 7) and done.mib < 150 and len(done.out) < 30_000_000, (args, len(done.out), done.err)


# Threats 25 and 26: what takes a search for ever


def test_what_would_take_a_search_for_ever(bare: Home) -> None:
    import gzip

    tree = bare.home / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("a" * 100_000 + "\n" + ("a" * 40 + "!\n") * 2000 + "needle\n")
    with gzip.open(tree / "bomb.gz", "wb", 9) as file:
        for _ in range(256):
            file.write(bytes(1 << 20))
    bare.consent({"family": "files", "path": str(tree)})
    for args in (["(a+)+b"], ["(a|a)*b"], ["(a*)*b"], ["--words", "(a+)+b"], ["-F", "(a+)+b"], ["needle"],
                 ["--words", "needle"], ["."], ["-C1000", "a"]):
        done = limits.run(bare, "ls-rg", *args, "tree")
        assert done.code == 0, done.err
        assert (traps.WORD in done.out.decode()) is (args[-1] in (".", traps.WORD)) or "-C1000" in args
        clear(done, "ls-rg")
    # ripgrep 13 makes up its mind about this for minutes; the deadline holds there, too.
    assert limits.run(bare, "ls-rg", "--timeout", "3s", "-e", "(a{1000}){1000}", "tree").code in (0, 2, 6)
    for pattern in (r"\w{1000000}", "(" * 100_000, "b" * 100_000, "[" * 1000, "x{99999999999}",
                    "(?"):
        done = limits.run(bare, "ls-rg", "-e", pattern, "tree")
        assert done.code in (0, 2), (pattern[:20], done.err)
        clear(done, "ls-rg")
        if done.code:
            support.assert_one_line(done.err, "ls-rg")
            assert len(done.err) < 1000, done.err


# Threat 28: what was planted where we write


def test_a_setting_whose_name_has_parts_without_end(home: Home) -> None:
    file = home.config / "config.toml"
    for text in (".".join(["a"] * 200_000) + " = 1", f"a = {{{'.'.join(['a'] * 200_000)} = 1}}"):
        file.write_text(text)
        file.chmod(0o600)
        done = limits.measured(support.command("ls-query", "async"), home)
        assert done.code == 5 and b"dots" in done.err, done
        clear(done, "ls-query")


def test_a_link_where_consent_is_written(home: Home) -> None:
    victim = home.home / "victim"
    victim.write_text("mine\n")
    (home.config / "consent.json.new").symlink_to(victim)
    assert limits.run(home, "ls-consent", "revoke", "--all").code == 0
    assert victim.read_text() == "mine\n"
    (home.config / "consent.lock").unlink()
    (home.config / "consent.lock").symlink_to(victim)
    done = limits.run(home, "ls-consent", "revoke", "--all")
    assert done.code == 5 and victim.read_text() == "mine\n"
    support.assert_one_line(done.err, "ls-consent")


def test_an_answer_that_comes_late_on_a_descriptor_that_does_not_wait(home: Home) -> None:
    """Somebody else's end of a terminal or pipe may have made ours non-blocking."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with home.start("ls-query", "--jsonl", "--query-file", "-", stdin=reader) as process:
        support.until(lambda: _sleeps(process.pid), "it waits", process)
        os.write(writer, b'{"query": "async"}')
        os.close(writer)
        out, err = process.communicate(timeout=support.PATIENCE)
    os.close(reader)
    assert process.returncode == 0 and out, err


def _sleeps(pid: int) -> bool:
    """Whether it waits in select, or has failed to."""
    return Path(f"/proc/{pid}/wchan").read_text() not in ("0", "") or support.waits_on(pid, 0)

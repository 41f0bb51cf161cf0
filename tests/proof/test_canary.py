"""A word of a query, a title and a url that nobody else knows: where they turn up, and where they must not.

They may be in what is printed, in what was there before, and in the command lines that a person typed and that qmd is
given (it takes its query in no other way). Not in the ledger, in no other file, in no message, in no report, and on
no other command line.
"""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import injection
import orjson
import pytest
import support
from support import Home

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strace is of Linux")

WORD, TITLE, URL = "zanquerywort", "zantitlewort", "zanurlwort"
ALL = tuple(map(str.encode, (WORD, TITLE, URL)))
each = pytest.mark.parametrize("one", support.executables(), ids=str)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
ROW = {"query": WORD, "query_id": "ls_9c2e41d07ab3f815", "source": "history", "url": f"https://example.org/{URL}",
       "title": f"{TITLE} {WORD}", "snippet": f"{WORD} {TITLE}", "matched_terms": [WORD], "rank": 1, "score": 1.0,
       "id": "res_3b1f0c9a2d4e5f67"}


def plant(home: Home) -> None:
    """The canaries in every kind of data, beside what is there."""
    profile = home.home / ".config/chromium/Default"
    with contextlib.closing(sqlite3.connect(profile / "History")) as base, base:
        base.execute("UPDATE urls SET title = ? || title, url = url || ?", (f"{TITLE} {WORD} ", f"/{URL}"))
    marks = json.loads((profile / "Bookmarks").read_text())

    def mark(node: dict) -> None:
        if node.get("type") == "url":
            node.update(name=f"{TITLE} {WORD}", url=f"https://example.org/{URL}")
        for child in node.get("children", ()):
            mark(child)

    for root in marks["roots"].values():
        if isinstance(root, dict):
            mark(root)
    (profile / "Bookmarks").write_text(json.dumps(marks))
    (home.home / "notes" / f"{URL}.md").write_text(f"# {TITLE}\n\n{WORD} in a note\n")


#: Sources whose data is binary: what the sample has is found by its words, and its titles and urls are the canaries.
BINARY = ("ls-tabs", "ls-downloads", "ls-reading")


def canaries(one: support.Executable, home: Home) -> tuple[bytes, ...]:
    """The word of the query, then what is found by it."""
    if one.name not in BINARY:
        return ALL
    row = home.run(one.name, *arguments(one, home)[0]).rows[0]
    return (ALL[0], row["title"].encode(), row["url"].encode())


def arguments(one: support.Executable, home: Home) -> tuple[list[str], bytes | None]:
    """What to run with the canaries: words for a source, rows for a reader."""
    if one.name in BINARY:
        return [*support.typical(one.name).args(home), WORD], None
    if one.name == "ls-consent":
        return ["list", "--source", "files"], None
    if one.kind == "porcelain" and one.name != "ls-query":
        return [], None
    if one.reader:
        return [], orjson.dumps(ROW) + b"\n" + orjson.dumps({**ROW, "rank": 2, "id": "res_3b1f0c9a2d4e5f68"}) + b"\n"
    return [WORD], None


@pytest.fixture
def planted(tmp_path: Path, request: pytest.FixtureRequest) -> Home:
    one = request.node.callspec.params["one"]
    home = Home(tmp_path, sample=True)
    plant(home)
    if one.name in ("ls-qmd", "ls-query"):
        support.make_wiki(home.home, home.home / "notes")
        home.wiki = True
        grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
        home.consent(*grants, {"family": "wiki"})
    return home


def holding(folder: Path, marks: Sequence[bytes] = ALL) -> dict[str, bytes]:
    """The files below `folder` that hold a canary, in their bytes or their name, and the bytes."""
    found = {}
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if any(word in data or word in os.fsencode(path) for word in marks):
            found[str(path.relative_to(folder))] = data
    return found


def text_of(line: str) -> bytes:
    """The strings of a line of strace, put together: what it wrote, or the words of a command."""
    return b"\n".join(string.encode() for string in _STRING.findall(line))


@each
def test_no_canary_is_left_or_told(
    one: support.Executable, planted: Home, record_property: Callable[[str, object], None]
) -> None:
    home = planted
    args, stdin = arguments(one, home)
    marks = canaries(one, home)
    scratch = home.root / "tmp"
    scratch.mkdir()
    before, report, log = holding(home.root, marks), home.root / "report", home.root / "strace"
    done = subprocess.run(
        [injection.strace(), "-f", "-qq", "-y", "-s", "1000000", "-e", "signal=none", "-o", str(log),
         "-e", "trace=execve,write,pwrite64,writev,pwritev,sendto,sendmsg,?rename,?renameat,?renameat2,?link,?linkat,"
               "?symlink,?symlinkat,openat,?open,?creat,?mkdir,?mkdirat,prctl",
         *support.command(one.name, *support.with_options(
             args, ["--report", str(report), "--stats", "--debug"]), python=["-B"])],
        env=home.env(TMPDIR=str(scratch)), cwd=home.home, capture_output=True, timeout=support.PATIENCE,
        **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}))
    assert done.returncode == 0, done.stderr
    told = done.stdout if one.emits_rows or one.name in ("ls-query", "ls-show") else None
    if told is not None:
        assert any(word in told for word in marks), "the canary was never there"
    else:
        assert not any(word in done.stdout for word in marks)
    assert not any(word in done.stderr + report.read_bytes() for word in marks)
    programs = writes = 0
    for number, line in enumerate(log.read_text(errors="surrogateescape").splitlines()):
        call = re.match(r"\d+ +(\w+)\(", line)
        if call is None:
            continue
        data = text_of(line)
        if call[1] == "execve":
            programs += 1
            typed = number == 0
            asked = b'"search"' in data and b"qmd" in data
            words = marks[1:] if typed or asked else marks
            assert not any(word in data for word in words), line[:2000]
        elif call[1] in ("openat", "open"):
            assert "O_CREAT" not in line or not any(word in data for word in marks), line[:2000]
        else:
            target = re.search(r"\((\d+)<([^>]*)>", line)
            writes += 1
            # Its own pipes, and the copy of qmd's index, which it has to have.
            if target and (not target[2].startswith("/") or re.search(r"/tmp/(index\.sqlite|copy-)[^/]*$", target[2])):
                continue
            assert not any(word in data for word in marks), line[:2000]
    assert programs and writes
    record_property("count: command lines searched for canaries", programs)
    record_property("count: writes searched for canaries", writes)
    log.unlink()
    assert holding(home.root, marks) == before


@each
def test_no_canary_on_a_command_line_or_in_the_ledger_at_work(one: support.Executable, planted: Home) -> None:
    """In the middle of its work, as any user of the machine sees it in the list of processes."""
    home = planted
    args, stdin = arguments(one, home)
    marks = canaries(one, home)
    if one.name in support.LEDGER:
        home.orphan()
    before = holding(home.root, marks)
    command = support.command(one.name, *args)
    reader, writer = support.full_pipe()
    feed, fed = support.small_pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, reader)
        process = stack.enter_context(home.start(one.name, *args, stdin=feed, stdout=writer))
        os.close(feed)
        os.close(writer)
        if stdin is not None:
            os.write(fed, stdin)
        os.close(fed)
        support.until(lambda: home.runs and support.waits_on(process.pid, 1), "it writes", process)
        family = [process.pid]
        for pid in family:
            with contextlib.suppress(OSError):
                family += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        for pid in family:
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                typed = line.rstrip(b"\0").split(b"\0") == list(map(os.fsencode, command))
                asked = b"qmd" in line and b"\0search\0" in line
                assert not any(word in line for word in (marks[1:] if typed or asked else marks)), line
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                assert not any(word in environ for word in marks)
        now = holding(home.root, marks)
        copies = {name for name in now if re.search(r"^state/run/[^/]+/tmp/", name)}
        assert {name: data for name, data in now.items() if name not in copies} == before
    home.run("ls-clean", "--apply")
    assert holding(home.root, marks) == before


#: What makes each complain, with the canaries in reach.
BAD = [b'{"source": 5, "title": ["%s"], "url": "%s"}\n' % (ALL[1], ALL[2]),
       b'{"source": "history", "url": {"%s": "%s"}}\n' % (ALL[0], ALL[2]),
       b'{"source": "history", "url": "%s", "score": "%s"}\n' % (ALL[2], ALL[1]),
       b'{"source": "history", "url": "%s" %s\n' % (ALL[2], ALL[1]),
       b'"%s"\n' % ALL[1], b'%s\n' % ALL[0]]


@each
@pytest.mark.parametrize("log", ["text", "json"])
def test_no_canary_in_a_complaint(one: support.Executable, planted: Home, log: str) -> None:
    home = planted
    args, _stdin = arguments(one, home)
    marks = canaries(one, home)
    report = home.root / "report"
    options = ["--log", log, "--report", str(report), "--stats"]
    if one.reader:
        done = home.run(one.name, *options, stdin=b"".join(BAD))
        assert done.code == 7, done
    else:
        profile = home.home / ".config/chromium/Default"
        for name in ("History", "Bookmarks"):
            data = (profile / name).read_bytes()
            (profile / name).write_bytes(data[:2000] + bytes(3000) + data[2000:4000])
        shutil.rmtree(profile / "Sessions", ignore_errors=True)
        (home.home / "notes" / "denied").mkdir(mode=0)
        done = home.run(one.name, *support.with_options(args, options))
    told = done.err + report.read_bytes()
    assert not any(word in told for word in marks), told


def test_the_search_for_canaries_finds_them(tmp_path: Path) -> None:
    home = Home(tmp_path, sample=True)
    plant(home)
    found = holding(home.root)
    assert {f"home/notes/{URL}.md", "home/.config/chromium/Default/History",
            "home/.config/chromium/Default/Bookmarks"} <= set(found)
    assert text_of('1 execve("/bin/x", ["x", "a \\" ' + WORD + '"], 0x1) = 0').count(ALL[0]) == 1

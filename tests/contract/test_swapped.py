"""The symlink-swap race: what is granted is exchanged for a link to what is not, over and over, while it is read."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import support
from support import CANARY, Home

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="renameat2 is of Linux")
#: Seconds of each race.
LONG = 2.0

#: Exchanges the two names of each pair, in one system call each, until its stdin ends; says how often.
SWAP = """
import ctypes, json, os, select, sys
call = ctypes.CDLL(None, use_errno=True).renameat2
pairs = [(os.fsencode(one), os.fsencode(other)) for one, other in json.loads(sys.argv[1])]
done = 0
while not select.select([0], [], [], 0)[0]:
    for one, other in pairs:
        if call(-100, one, -100, other, 2) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        done += 1
if done % (2 * len(pairs)):
    for one, other in pairs:
        call(-100, one, -100, other, 2)
print(done)
"""

#: Forks the executables from one warm interpreter, one after the other, for some seconds; says what came of it.
RACE = """
import importlib, json, os, sys, time
sys.path.insert(0, sys.argv[1])
seconds, questions, canary = float(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4].encode()
from lspipe import runner
tools = {name: importlib.import_module("lspipe.commands." + name.removeprefix("ls-")).main for name, _ in questions}
found = {"runs": 0, "rows": 0, "refused": 0, "leaks": []}
until = time.monotonic() + seconds
while time.monotonic() < until or found["runs"] < 4 * len(questions):
    name, argv = questions[found["runs"] % len(questions)]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.closerange(3, 64)
            code = runner.execute(tools[name], argv)
        finally:
            os._exit(code & 0xFF)
    os.close(writer)
    out = b""
    while chunk := os.read(reader, 1 << 16):
        out += chunk
    os.close(reader)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found["runs"] += 1
    lines = [line for line in out.splitlines() if line.startswith(b"{")]
    found["rows"] += len(lines)
    found["refused"] += code in (3, 4, 5, 7)
    if canary in out or code not in (0, 3, 4, 5, 7):
        found["leaks"].append([name, argv, code, out[-500:].decode("utf-8", "replace")])
print(json.dumps(found))
"""


def prepared(home: Home, pinned: bool) -> None:
    """Beside each granted thing one that is not and says the canary, and a link that leads to it."""
    browser = home.home / ".config/chromium"
    shutil.copytree(browser / "Default", browser / "Profile 1")
    support.poison(browser / "Profile 1")
    secret = home.home / "secret"
    shutil.copytree(home.home / "notes", secret)
    for file in [path for path in secret.rglob("*") if path.is_file() and not path.is_symlink()]:
        file.write_text(f"async {CANARY} cancellation\n")
    if pinned:
        grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
        home.consent(*({**grant, "ino": str(os.stat(grant["path"]).st_ino)} for grant in grants))


def link(at: Path, to: Path) -> list[str]:
    """A pair to exchange: the thing at `at`, and a link to `to` beside it."""
    beside = at.with_name(at.name + ".link")
    beside.symlink_to(to)
    return [str(at), str(beside)]


def pairs(home: Home, what: str) -> list[list[str]]:
    notes, secret = home.home / "notes", home.home / "secret"
    default, other = home.home / ".config/chromium/Default", home.home / ".config/chromium/Profile 1"
    if what == "the granted things":
        return [link(notes, secret), link(default, other)]
    if what == "what is in them":
        return [link(notes / "rust", secret / "rust"), link(default / "History", other / "History"),
                link(default / "Bookmarks", other / "Bookmarks"), link(default / "Sessions", other / "Sessions")]
    return [link(notes / "rust/pin.md", secret / "rust/pin.md"),
            link(notes / "rust/cancellation.md", secret / "rust/cancellation.md")]


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "not pinned"])
@pytest.mark.parametrize("what", ["the granted things", "what is in them", "single files"])
def test_what_is_swapped_for_a_link_never_leaks(
    what: str, pinned: bool, home: Home, record_property: Callable[[str, object], None]
) -> None:
    prepared(home, pinned)
    notes = str(home.home / "notes")
    questions = [
        ["ls-rg", ["async", notes]], ["ls-rg", ["async", notes + "/rust"]], ["ls-rg", ["--words", "async", notes]],
        ["ls-rg", ["async", notes + "/rust/pin.md", notes + "/rust/cancellation.md"]],
        ["ls-history", ["async"]], ["ls-bookmarks", ["async"]], ["ls-history", ["--top"]],
    ]
    swapped = pairs(home, what)
    with subprocess.Popen([sys.executable, "-c", SWAP, orjson.dumps(swapped).decode()], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as swapping:
        raced = subprocess.run(
            [sys.executable, "-c", RACE, str(support.ROOT), str(LONG), orjson.dumps(questions).decode(), CANARY],
            env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE * 3)
        assert swapping.poll() is None, "the swapping went on to the end"
        out, _ = swapping.communicate()
    assert raced.returncode == 0, raced.stderr
    found = orjson.loads(raced.stdout)
    record_property("count", f"swap race, {what}: {found['runs']} runs, {int(out)} swaps, {found['rows']} rows,"
                             f" {found['refused']} refused, {len(found['leaks'])} leaks")
    assert found["leaks"] == []
    assert found["rows"] and int(out) > found["runs"]
    assert home.runs == []


@pytest.mark.parametrize(("name", "args"), [
    ("ls-rg", ["async", "shortcut"]), ("ls-rg", ["--words", "async", "shortcut/rust"]),
    ("ls-query", ["--jsonl", "--path={home}/shortcut", "--source=files", "async"])])
def test_a_link_that_is_something_else_a_moment_later(name: str, args: list[str], home: Home) -> None:
    """Between the look that finds a link and the one that follows it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    place = home.home / "shortcut"
    place.symlink_to("notes")
    for times, code in (("1", 0), ("1+", 5)):
        done = subprocess.run(
            [strace, "-f", "-qq", "-o", os.devnull, "-P", str(place), "-e", "trace=?readlink,readlinkat",
             "-e", f"inject=?readlink,readlinkat:error=EINVAL:when={times}",
             *support.command(name, *(word.replace("{home}", str(home.home)) for word in args))],
            env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
        assert done.returncode == code, done.stderr
        assert bool(done.stdout) is (code == 0)
        if code:
            own = [line for line in done.stderr.splitlines(keepends=True) if b"strace: " not in line]
            support.assert_one_line(b"".join(own), name)

"""SIGKILL, and a full disk, at every system call of every executable that makes something: then ls-clean, and nothing
is left, nobody is harmed, and the consent file is the old one or the new one.

The table of modes is below; a new kind of owner is a line there. LSPIPE_MATRIX=all tries every point of each.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cdpserver
import injection
import orjson
import pytest
import support
from person import ASKED, Person
from support import Done, Home

from lspipe import consent

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strace is of Linux")


def large_history(home: Home) -> None:
    """A database that is too large for a copy in memory."""
    with contextlib.closing(sqlite3.connect(home.home / ".config/chromium/Default/History")) as base, base:
        base.execute("CREATE TABLE filler AS SELECT zeroblob(70000000) AS much")


def orphaned(home: Home) -> None:
    home.orphan()


@dataclass(frozen=True)
class Mode:
    """What an executable makes when it is run so. `before` is done in its home once, `each` before every run."""

    name: str
    args: tuple[str, ...]
    before: Callable[[Home], None] | None = None
    each: Callable[[Home], None] | None = None
    wiki: bool = False
    #: Whether there is a person who says yes.
    asks: bool = False
    #: Whether a browser of the user's own listens on a debugging port, which is asked.
    browser: bool = False
    #: Calls that matter besides, and how many of each are tried.
    calls: tuple[str, ...] = ()
    most: int = 6


MODES = {
    "snapshot": Mode("ls-history", ("async",), large_history),
    "child": Mode("ls-rg", ("async", "notes")),
    "qmd": Mode("ls-qmd", ("async",), wiki=True),
    "orchestration": Mode("ls-query", ("async",), wiki=True),
    "grant": Mode("ls-consent", ("grant", "files", "."), asks=True),
    "revoke": Mode("ls-consent", ("revoke", "1")),
    "reaper": Mode("ls-clean", ("--apply",), each=orphaned),
    "live": Mode("ls-tabs", ("--from=live",), browser=True, most=3,
                 calls=("socket", "connect", "sendto", "recvfrom", "pselect6", "select", "poll")),
}
#: What the browser shows.
TAB = "http://open.test/"
#: What a run may say when it could not go on, or when a program of it was killed.
EXPECTED = {0, 4, 5, 7, 74}


@contextlib.contextmanager
def browsing(home: Home) -> Iterator["subprocess.Popen[bytes]"]:
    """A browser that has the granted profile open and listens; it is only ever asked which tabs there are."""
    with subprocess.Popen([sys.executable, cdpserver.__file__, str(home.home / ".config/chromium/Default"), TAB],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline().strip().isdigit()
            yield process
            assert process.poll() is None, "the browser is alive"
            out, _ = process.communicate(timeout=support.PATIENCE)
            assert set(orjson.loads(out)) == {"Target.getBrowserContexts", "Target.getTargets"}
        finally:
            process.kill()


@contextlib.contextmanager
def bystanders(mode: Mode, home: Home, other: Home, *browsers: int) -> Iterator[list[int]]:
    """Processes that must be alive at the end: the same command line in another home, a run in this one, and the
    `browsers`, which others end."""
    check = next(one for one in support.executables() if one.name == "ls-check")
    with contextlib.ExitStack() as stack:
        spared = [stack.enter_context(support.at_work(home, check))]
        if mode.asks:
            twin = Person(other, *mode.args)
            stack.callback(twin.end)
            stack.callback(twin.process.kill)
            twin.read_until(ASKED)
            spared.append(twin.process)
        else:
            reader, writer = support.full_pipe()
            stack.callback(os.close, reader)
            spared.append(stack.enter_context(other.start(mode.name, *mode.args, stdout=writer)))
            os.close(writer)
        yield [*(process.pid for process in spared), *browsers]
        # The twin of one that prints nothing has ended by itself.
        assert spared[0].poll() is None
        assert spared[1].poll() in ((None, 0) if mode.name in ("ls-clean", "ls-consent") else (None,))


def live(mode: Mode, home: Home, *inject: str, log: Path, everybody: bool = False) -> Done:
    """One run under strace."""
    before = injection.wrapped(log, *inject, everybody=everybody, calls=injection.LIFECYCLE + mode.calls)
    if mode.asks:
        person = Person(home, *mode.args, before=before)
        if person.sees(ASKED):
            person.type(b"y\n")
        return person.end()
    with subprocess.Popen([*before, *support.command(mode.name, *mode.args)], env=home.env(), cwd=home.home,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        out, err = process.communicate(timeout=support.PATIENCE)
    return Done(process.returncode, out, err)


def labels(home: Home) -> list[str]:
    return [grant.label for grant in consent.load(str(home.config)).grants]


@pytest.mark.parametrize("fault", ["killed", "full disk"])
@pytest.mark.parametrize("mode", MODES)
def test_at_every_call(mode: str, fault: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with contextlib.ExitStack() as stack:
        try_all(MODES[mode], fault, tmp_path, record_property, stack)


def try_all(how: Mode, fault: str, tmp_path: Path, record_property: Callable[[str, object], None],
            stack: contextlib.ExitStack) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    home, other = (Home(tmp_path / name, sample=True, wiki=how.wiki) for name in ("here", "there"))
    for one in (home, other):
        if how.before is not None:
            how.before(one)
    browsers = [stack.enter_context(browsing(one)).pid for one in (home, other) if how.browser]
    log, pristine = tmp_path / "strace", (home.config / "consent.json").read_bytes()
    home.run("ls-check", stdin=b"")  # Makes the folder of runs.
    old = labels(home)

    def once(*inject: str, everybody: bool) -> Done:
        (home.config / "consent.json").write_bytes(pristine)
        if how.each is not None:
            home._orphan = None
            how.each(home)
        return live(how, home, *inject, log=log, everybody=everybody)

    undisturbed = once(everybody=True)
    assert undisturbed.code == 0, undisturbed
    assert not how.browser or [row["url"] for row in undisturbed.rows] == [TAB]
    injection.written(log)
    new = labels(home)
    every = [point for point in injection.points(log, home.root)
             if fault == "killed" or point.call in injection.ROOM]
    tried = injection.sample(every, how.most)
    with bystanders(how, home, other, *browsers) as spared:
        living = set(os.listdir(home.state / "run"))
        hit = left = 0
        for point in tried:
            what = "signal=KILL" if fault == "killed" else "error=ENOSPC"
            done = once("-e", f"inject={point.call}:{what}:when={point.number}", everybody=point.everybody)
            where = f"{how.name} {fault} at {point}"
            refused = None
            if fault != "killed":
                injection.written(log)
                refused = injection.refused(log, home.root)
            by_signal = fault == "killed" and done.code == -signal.SIGKILL
            hit += by_signal or refused is not None or (fault == "killed" and point.everybody and done.code != 0)
            if refused or (fault == "killed" and not by_signal):
                assert done.code in EXPECTED, (where, done)
                assert b"Traceback" not in done.err and b"internal error" not in done.err, (where, done)
            left += bool(set(os.listdir(home.state / "run")) - living)
            nothing_stays(home, living, spared, where)
            assert labels(home) in (old, new), where
        assert all(Path(f"/proc/{pid}").exists() for pid in spared) or how.name in ("ls-clean", "ls-consent")
    if how.browser:
        assert once(everybody=True).out == undisturbed.out, "the browser shows what it did"
    # Something must have been at stake.
    assert hit > len(tried) / 2 and (left > 0 or fault != "killed"), (hit, left, len(tried))
    record_property(f"count: points {fault}", hit)
    record_property(f"count: points {fault}, then something left to ls-clean", left)
    record_property("count: points left out (LSPIPE_MATRIX=all tries them)", len(every) - len(tried))


def nothing_stays(home: Home, living: set[str], spared: list[int], where: str) -> None:
    """The real ls-clean, and then no directory, and no process."""
    done = home.run("ls-clean", "--apply")
    assert done.code == 0 and all(row["done"] for row in done.rows if row["action"] != "keep"), (where, done)
    assert set(os.listdir(home.state / "run")) == living, where
    support.until(lambda: not injection.carriers(home, spared), f"no process is left: {where}: "
                  f"{injection.carriers(home, spared)}")

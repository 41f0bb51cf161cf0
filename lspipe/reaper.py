"""List what is running and what was left behind, and put an end to the latter: for ls-ps and ls-clean.

Only what is ours (`remains`) is ever signalled, and only through a hold that reuse of the pid cannot move.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lspipe import ledger, rundir, survey
from lspipe.remains import find_members, in_folder, read_members, without_folder
from lspipe.runs import Member, Row, Run, owner_row

_SIGNALS = {"TERM": signal.SIGTERM, "INT": signal.SIGINT, "HUP": signal.SIGHUP, "QUIT": signal.SIGQUIT}
#: Dead runs that are dealt with at one time: each needs a few descriptors.
_BATCH = 50
#: How often to look again for what was forked while its parents were being ended; and how often in a row nothing
#: must run: a look takes a while, and what is forked behind it by one that ends before it comes along is in no look.
_ROUNDS, _QUIET = 6, 2
#: Seconds: the longest grace a row can ask for; to die of SIGKILL, which only a hanging disk prevents; for another
#: reaper to come to an end.
_MAX_GRACE, _UNKILLABLE, _OTHERS = 10.0, 2.0, 5.0


def listing() -> Iterator[Row]:
    """A ledger row for every run but this one, and for all that it names or has started.

    `state` is intent or live while the owner lives; then orphan for a process that still runs, and dead for
    the rest; unknown, with a `reason`, for what cannot be judged from here. Precondition where the folder is
    not ours alone.
    """
    seen, spared = survey.take(ledger.state_hash()), survey.ancestors()
    for runs in (in_folder(), without_folder(seen)):
        for run in runs:
            try:
                if run.state == "live" and run.owner.get("pid") == os.getpid():
                    continue
                read_members(run, spared)
                find_members(run, seen, spared)
                if run.path is not None:
                    yield owner_row(run)
                for member in run.members:
                    yield member.row
            finally:
                run.close()


class Verdict(NamedTuple):
    """What has come of a run that is not alive: the finished rows of its members, and the row of its directory
    where that can go. `corrupt` counts rows that could not be read."""

    members: list[Row]
    directory: Row | None = None
    path: str = ""
    removable: bool = False
    corrupt: int = 0


def reap(apply: bool, grace: float = 2.0) -> Iterator[Row]:
    """End and remove what dead runs left behind, or with `apply` false only say what would be done.

    A ledger row for each thing, with `action` (signal, remove, keep), `done`, and `reason`. A process gets its
    stop signal, at most `grace` seconds (its own row may ask for up to ten), then SIGKILL. Precondition where
    the folder is not ours alone.
    """
    return bury(end(apply, grace), apply)


def end(apply: bool, grace: float = 2.0) -> list[Verdict]:
    """The first half of `reap`: end the processes, without which no directory may go.

    Under a sandbox it would be blind: Landlock hides what other processes carry from all but root.
    """
    verdicts: list[Verdict] = []
    batch: list[Run] = []
    for run in in_folder():
        if run.state == "dead":
            batch.append(run)
        elif run.state == "unknown":
            run.close()
            verdicts.append(Verdict([{**owner_row(run), "action": "keep", "done": False}]))
        if len(batch) == _BATCH:
            verdicts += _end_runs(batch, apply, grace)
            batch = []
    verdicts += _end_runs(batch, apply, grace)
    return verdicts + _end_runs(list(without_folder(survey.take(ledger.state_hash()))), apply, grace)


def bury(verdicts: Iterable[Verdict], apply: bool) -> Iterator[Row]:
    """The second half: remove the directories in which nothing runs any more, and tell all rows."""
    until = time.monotonic() + _OTHERS
    for verdict in verdicts:
        yield from verdict.members
        if verdict.directory is None:
            continue
        row = {**verdict.directory, "action": "remove", "done": False}
        if apply:
            trouble = _bury(verdict.path, until) if verdict.removable else "something of it still runs"
            row |= {"done": True} if trouble is None else {"reason": trouble}
        yield row


def _bury(path: str, until: float) -> str | None:
    """Remove a directory, waiting until then for another reaper that has it; why it is still there."""
    while True:
        hold = rundir.take(path)
        try:
            if hold.state == "gone":
                return None
            if hold.state != "held":
                return None if rundir.bury(path) else "its files cannot be removed"
        finally:
            if hold.lock >= 0:
                os.close(hold.lock)
        if time.monotonic() >= until:
            return "another reaper is at work on it"
        time.sleep(0.01)


def _end_runs(batch: Sequence[Run], apply: bool, grace: float) -> list[Verdict]:
    if not batch:
        return []
    spared = survey.ancestors()
    try:
        for run in batch:
            if apply:
                _hide(run)
            read_members(run, spared)
        quiet = 0
        for _ in range(_ROUNDS):
            seen = survey.take(ledger.state_hash())
            for run in batch:
                find_members(run, seen, spared)
            running = [member for run in batch for member in run.members if not member.ended]
            quiet = 0 if running else quiet + 1
            if not apply or quiet == _QUIET:
                break
            if running:
                _end(running, grace)
        return [_judge(run, apply) for run in batch]
    finally:
        for run in batch:
            run.close()


def _hide(run: Run) -> None:
    """Take the directory out of its children's sight, and only then believe its rows.

    A child on its way from the fork to the exec either has written its row by now, or cannot write it any more
    and ends.
    """
    if run.path is None or run.lock < 0:
        return
    root, name = os.path.split(run.path)
    with contextlib.suppress(OSError):
        if not name.startswith(rundir.OLD):
            path = os.path.join(root, rundir.OLD + run.name)
            os.rename(run.path, path)
            run.path = path
        run.found = rundir.read(run.path)


def _end(members: Sequence[Member], grace: float) -> None:
    """The stop signal, a grace, SIGKILL; each after what it has started, which it may be the only way to find."""
    members = members[::-1]
    for member in members:
        stop = member.row["stop"] or {}
        wanted = stop.get("grace_ms")
        if isinstance(wanted, int | float):
            grace = max(grace, min(_MAX_GRACE, wanted / 1000))
        _send(member, _SIGNALS.get(str(stop.get("signal")), signal.SIGTERM))
    _await(members, grace)
    for member in members:
        if not member.ended:
            _send(member, signal.SIGKILL)
    _await(members, _UNKILLABLE)


def _send(member: Member, number: int) -> None:
    assert member.process is not None
    try:
        member.process.send(number)
    except ProcessLookupError:
        pass
    except OSError as error:
        member.why = f"cannot be signalled: {error.strerror}"


def _await(members: Sequence[Member], seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        running = [member.process for member in members if member.process is not None and not member.ended]
        if not running:
            return
        poll = select.poll()
        for process in running:
            if process.fileno() >= 0:
                poll.register(process, select.POLLIN)
            else:  # no pidfd on this system
                left = min(left, 0.01)
        poll.poll(left * 1000)


def _judge(run: Run, apply: bool) -> Verdict:
    rows = []
    for member in run.members:
        if member.process is not None:
            done = apply and member.ended
            why = "does not end" if apply and not done and member.why == run.reason else member.why
            rows.append({**member.row, "action": "signal", "done": done, "reason": why})
        elif member.why not in ("gone", "no process"):
            rows.append({**member.row, "action": "keep", "done": False, "reason": member.why})
    if run.path is None:
        return Verdict(rows)
    directory = owner_row(run)
    directory["reason"] = "; ".join(filter(None, (run.reason, directory.get("reason"))))
    return Verdict(rows, directory, run.path, all(member.ended for member in run.members), run.found.corrupt)

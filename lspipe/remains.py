"""The runs that are there, alive or dead, and what belongs to each: judged, held, and told.

A process belongs to a run if its pid, boot, start ticks and pidfs inode are those that were written down, if it
carries the run's token or lock, or if such a one has started it. Every hint is looked at again while the process
is held. What belongs to another host, another pid namespace or another user is told and left alone.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator

from lspipe import identity, ledger, paths, rundir, survey
from lspipe.exits import Precondition
from lspipe.runs import Member, Row, Run, process_row, resource_row

Proof = Callable[[identity.Process], bool]


def in_folder() -> Iterator[Run]:
    """Every run directory, by name. Precondition where the folder is not ours alone."""
    root = paths.run_root()
    if not os.path.lexists(root):
        return
    if not stat.S_ISDIR(paths.check_private(root).st_mode):
        raise Precondition(f"cannot use '{root}': not a folder", "move it away, or name another: LSPIPE_STATE_HOME")
    for name in sorted(os.listdir(root)):
        run = _look(root, name)
        if run is not None:
            yield run


def without_folder(seen: survey.Survey) -> Iterator[Run]:
    """Runs whose directory is gone but whose token is still carried."""
    root = paths.run_root()
    for name in sorted(seen.tokens):
        # Looked up after the processes were: a run that was born since has a directory now.
        if not any(os.path.lexists(os.path.join(root, stage + name)) for stage in ("", rundir.OLD, rundir.NEW)):
            yield Run(name, None, "dead")


def _look(root: str, name: str) -> Run | None:
    """What one entry of the run folder is; None if it is gone by now."""
    path, known = os.path.join(root, name), rundir.bare(name)
    hold = rundir.Hold("gone")
    try:
        seen = os.lstat(path)
        ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022
        if known is None or not ours:
            return Run(known or ledger.text(name), path, "unknown", "not a run directory of ours")
        hold = rundir.take(path)
        run = Run(known, path, "dead", found=rundir.read(path))
        if hold.state == "held" and _owner_gone(run):
            run.heirs = survey.holders(os.path.join(path, "lock"), run.owner["pid"])
            if not run.heirs:  # he may have ended by now; or another reaper is at work
                hold = rundir.take(path)
        run.lock = hold.lock
    except OSError as error:
        if hold.lock >= 0:
            os.close(hold.lock)
        if isinstance(error, FileNotFoundError):
            return None
        return Run(known or ledger.text(name), path, "unknown", f"cannot be read: {error.strerror}")
    if hold.state == "gone":
        return None
    if hold.state == "held":
        run.state = "dead" if run.heirs else "live"
    elif reason := _spared(run, name, hold.state, seen.st_mtime):
        run.state, run.reason = "unknown", reason
    return run


def _owner_gone(run: Run) -> bool:
    """Whether the owner is dead by all that was written of him, whatever the lock says."""
    return bool(run.owner) and not run.found.elsewhere() and identity.provably_gone(run.owner)


def _spared(run: Run, name: str, lock: str, changed: float) -> str | None:
    """Why a run that nobody holds is left alone all the same."""
    assert run.path is not None
    if name.startswith(rundir.NEW):
        return None if rundir.abandoned(run.path) else "is being made"
    if run.found.elsewhere():
        return "belongs to another host"
    if lock == "none" and not name.startswith(rundir.OLD):
        # Somebody deleted its lock. It is dead all the same if its owner is, by all that was written of him.
        old = time.time() - changed > rundir.HALF_BORN_SECONDS
        return None if old and _owner_gone(run) else "has no lock"
    return None


def read_members(run: Run, spared: set[int]) -> None:
    """Add the members that the rows of the run name. A process among `spared` is never held."""
    found = run.found
    for number in sorted({*found.rows, *found.processes}):
        row, written = found.rows.get(number), found.processes.get(number)
        why, process = _identify(run, row, written, spared)
        told = resource_row(run, row or {}, written or {}, _state(run, row, written, why, process))
        if process is not None:  # under a sandbox it could not read its own ticks
            told["start_ticks"] = process.facts.start_ticks
        run.members.append(Member(told, why, process))


def _identify(run: Run, row: Row | None, written: Row | None, spared: set[int]
              ) -> tuple[str, identity.Process | None]:
    """Why a row is no process of ours, or the process, held, if it is the one that was written."""
    if row is None:  # torn; or its owner was killed while he released it, and then its process was over
        over = written is not None and identity.provably_gone(written)
        return "gone" if over else "its row cannot be read", None
    if not row["owned"]:
        return "attached to, not ours", None
    if written is None:
        return "no process", None
    if run.found.before_boot():
        return "gone", None
    if written["pid"] in spared:
        return "this very command", None
    try:
        process = identity.Process(written["pid"])
    except ProcessLookupError:
        return "gone", None
    except OSError as error:
        return f"cannot be held: {error.strerror}", None
    differs = process.differs(written)
    if differs is None:
        return run.reason, process
    process.close()
    return differs, None


def _state(run: Run, row: Row | None, written: Row | None, why: str, process: identity.Process | None) -> str:
    if process is not None:
        return "live" if run.state == "live" else "orphan"
    if run.state == "live" and row is not None and why != "gone":
        return "live" if written is not None or row.get("state") == "live" else "intent"
    return "dead"


def find_members(run: Run, seen: survey.Survey, spared: set[int]) -> None:
    """Add the members that carry the token or the lock of the run, and all that any member has started."""
    held = {member.process.pid: member.process for member in run.members if member.process is not None}
    tried = spared | {member.row["pid"] for member in run.members if member.row["state"] == "unknown"}
    state = ledger.state_hash()
    lock = os.path.join(run.path or "", "lock")

    def carries_token(process: identity.Process) -> bool:
        return survey.token(process.pid, state) == run.name

    def carries_lock(process: identity.Process) -> bool:
        return survey.holds(process.pid, lock, run.owner["pid"])

    def descends(process: identity.Process) -> bool:
        parent = held.get(process.facts.ppid)
        return parent is not None and not parent.ended()  # then that number was still its own

    hints: list[tuple[int, Proof]] = [(pid, carries_token) for pid in seen.tokens.get(run.name, ())]
    hints += [(pid, carries_lock) for pid in run.heirs]
    while True:
        for pid, proof in hints:
            if pid not in tried and (pid not in held or held[pid].ended()):
                tried.add(pid)
                member = _hold(run, pid, proof)
                if member is not None:
                    run.members.append(member)
                    if member.process is not None:
                        held[pid] = member.process
        hints = [(pid, descends) for pid, parent in seen.parents.items()
                 if parent in held and pid not in held and pid not in tried]
        if not hints:
            return


def _hold(run: Run, pid: int, proof: Proof) -> Member | None:
    """A process as a member if, while it is held, it still proves to be one."""
    try:
        process = identity.Process(pid)
    except OSError:
        return None
    try:
        if proof(process):
            why = _foreign(run, pid) or ("its owner may be alive" if _owner_lives(run, process) else run.reason)
            row = process_row(run, process)
            if why == run.reason:
                return Member(row, why, process)
            process.close()
            return Member({**row, "state": "unknown", "reason": why}, why)
    except OSError:
        pass
    process.close()
    return None


def _foreign(run: Run, pid: int) -> str | None:
    """Processes of another pid namespace are for a reaper there, also where ours is above it and sees them."""
    if run.owner and not run.found.before_boot():
        ours = run.owner.get("pidns") == identity.pid_namespace()
    else:
        ours = identity.namespace_depth(pid) == 1
    return None if ours else "other pid namespace"


def _owner_lives(run: Run, process: identity.Process) -> bool:
    """Whether the owner of a run without a directory may be the one who still has its pid: he is older."""
    if run.path is not None:
        return False
    try:
        return identity.facts(int(run.name.partition("-")[0])).start_ticks <= process.facts.start_ticks
    except OSError:
        return False

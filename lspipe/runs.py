"""A run as it was found, what belongs to it, and both as rows of `schemas/ledger.schema.json`."""

import os
import re
from dataclasses import dataclass, field
from typing import Any

from lspipe import identity, ledger, rundir, stream, survey

Row = dict[str, Any]

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_FIELDS = (
    "repo_root", "cwd", "pid", "pgid", "kind", "port", "purpose", "command", "run", "parent_run", "state", "owned",
    "owner", "start_ticks", "boot_id", "pidns", "exe", "paths", "stop", "max_age", "reason")
_OWNER = ("pid", "start_ticks", "pidfs_ino", "boot_id", "pidns", "uid", "host_id")


@dataclass
class Member:
    """One row of a run. `process` is held if it is ours; else `why` says what it is."""

    row: Row
    why: str
    process: identity.Process | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs."""
        return self.process is None or self.process.ended()


@dataclass
class Run:
    """A run that is in the folder, or only in the environment of processes (`path` is None)."""

    name: str
    path: str | None
    #: live or dead, or "unknown" where it is left alone because of `reason`.
    state: str
    reason: str = "owner is dead"
    found: rundir.Found = field(default_factory=lambda: rundir.Found(None, {}, {}, 0))
    lock: int = -1
    #: Processes that inherited the lock of an owner who is dead.
    heirs: tuple[int, ...] = ()
    members: list[Member] = field(default_factory=list)

    @property
    def owner(self) -> Row:
        """What the owner wrote of himself; empty where that cannot be read."""
        return self.found.owner or {}

    def close(self) -> None:
        """Let go of the lock and of every process."""
        for member in self.members:
            if member.process is not None:
                member.process.close()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def owner_row(run: Run) -> Row:
    """The row of the owner itself, or of a directory that says nothing; `reason` where there is trouble."""
    trouble = {}
    if run.state == "unknown":
        trouble["reason"] = run.reason
    elif run.found.corrupt:
        trouble["reason"] = f"{stream.counted(run.found.corrupt, 'row', 'rows')} cannot be read"
    return _row(run, _own(run.owner), kind="owner", pid=run.owner.get("pid"), state=run.state, owned=True,
                paths=[ledger.text(run.path)] if run.path else [], **trouble)


def resource_row(run: Run, row: Row, written: Row, state: str) -> Row:
    kind = row.get("kind", "unknown")
    return _row(run, _own({**row, **written}), kind=kind if _KIND.fullmatch(kind) else "unknown",
                pid=written.get("pid"), state=state, owned=row.get("owned") is not False)


def process_row(run: Run, process: identity.Process) -> Row:
    """The row of a process that nobody wrote one for."""
    return _row(run, _own({}), kind="child", pid=process.pid, pgid=process.facts.pgid,
                command=survey.name_of(process.pid), state="live" if run.state == "live" else "orphan", owned=True,
                start_ticks=process.facts.start_ticks, boot_id=identity.boot_id(), pidns=identity.pid_namespace())


def _row(run: Run, own: Row, **more: object) -> Row:
    """A ledger row in the order of its fields, with what the owner says for all rows of his run."""
    owner = run.owner
    values = {
        **own, "run": run.name, "parent_run": _text(owner.get("parent_run")),
        "repo_root": _text(owner.get("repo_root")), "cwd": _text(owner.get("cwd")),
        "owner": {key: owner.get(key) for key in _OWNER} if owner else None, **more,
    }
    return {name: values[name] for name in _FIELDS if name in values}


def _own(row: Row) -> Row:
    """What a row says of its own thing; a value of a wrong type counts as none."""
    exe, stop, age, paths = row.get("exe"), row.get("stop"), row.get("max_age"), row.get("paths")
    return {
        "purpose": _text(row.get("purpose")) or "unknown", "command": _text(row.get("command")),
        "pgid": _whole(row.get("pgid")), "start_ticks": _whole(row.get("start_ticks")),
        "boot_id": _text(row.get("boot_id")), "pidns": _whole(row.get("pidns")), "port": _whole(row.get("port")),
        "exe": exe if isinstance(exe, dict) else None, "stop": stop if isinstance(stop, dict) else None,
        "paths": [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else [],
        "max_age": age if isinstance(age, int | float) and not isinstance(age, bool) else None,
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""A plan of stages: print it as bash, or fork it from one warm interpreter, join it with pipes, and watch over it.

A stage is an executable and its argument vector, exactly as a person would type them. Each forked stage closes all
that is not its own, then registers, checks consent and locks itself down as the executable would.
"""

import importlib
import os
import selectors
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from lspipe import ledger, runner, stream
from lspipe.exits import Bug, Exit, LspipeError
from lspipe.signals import ENDING

#: The stages that a plan may hold, and the module of each. Resolved by name: the registry test checks the list.
STAGES = {
    "ls-history": "history", "ls-bookmarks": "bookmarks", "ls-tabs": "tabs", "ls-downloads": "downloads",
    "ls-reading": "reading", "ls-rg": "rg", "ls-qmd": "qmd",
    "ls-fuse": "fuse", "ls-rerank": "rerank", "ls-redact": "redact", "ls-show": "show",
}
#: What two or more stages import when they come to it: SQLite, OpenSSL, the query language, the layout of a history.
_SHARED = ("hashlib", "lspipe.matching", "lspipe.lexical", "lspipe.snapshot", "lspipe.browsers.layout",
           "lspipe.browsers.ranking")
#: How long a stage may take beyond its own --timeout before it is stopped, and to end once it is told to.
_PATIENCE = 1.0
_LEAST = 5.0
_GRACE = 1.0


@dataclass(frozen=True)
class Stage:
    """One executable with its arguments; `label` is the source it asks, for reports."""

    name: str
    argv: tuple[str, ...]
    label: str = ""


@dataclass(frozen=True)
class Plan:
    """Sources side by side into the first transform, which the others follow. `remarks` explain what is not asked."""

    sources: tuple[Stage, ...]
    transforms: tuple[Stage, ...]
    remarks: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All of them, sources first."""
        return self.sources + self.transforms

    def bash(self) -> str:
        """The same as text for bash; running it gives the same rows."""
        lines = [f"# {stream.plain(remark)}" for remark in self.remarks]
        first, *others = self.transforms
        parts = [" ".join(map(stream.quote, (first.name, *first.argv)))]
        parts += [f"  <({' '.join(map(stream.quote, (stage.name, *stage.argv)))})" for stage in self.sources]
        lines.append(" \\\n".join(parts) + "".join(
            f" |\n{' '.join(map(stream.quote, (stage.name, *stage.argv)))}" for stage in others))
        return "\n".join(lines) + "\n"


def load(names: Sequence[str]) -> dict[str, runner.Tool]:
    """The executables of these names, imported: before the fork, so that it is paid once."""
    return {name: importlib.import_module("lspipe.commands." + STAGES[name]).main for name in set(names)}


@dataclass
class Child:
    """A forked stage, while it runs and after."""

    stage: Stage
    pid: int
    pidfd: int
    report_fd: int
    resource: ledger.Resource
    report: bytes = b""
    status: int | None = None
    ended: float | None = None
    stopped_late: bool = False

    @property
    def code(self) -> int:
        """Its exit code; minus the signal where it died by one."""
        if self.status is None:
            return -int(signal.SIGKILL)
        return os.waitstatus_to_exitcode(self.status)

    @property
    def facts(self) -> dict[str, Any]:
        """Its report object, empty where it could not write one."""
        try:
            found = orjson.loads(self.report)
        except orjson.JSONDecodeError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass
class Pipeline:
    """A started plan. Read `lines()` to the end, then look at `children`. `close()` stops what still runs."""

    run: runner.Run
    plan: Plan
    children: list[Child] = field(default_factory=list)
    out_fd: int = -1
    began: float = 0.0

    def start(self) -> None:
        """Fork every stage; the coordinator is single-threaded and has no open database here."""
        tools = load([stage.name for stage in self.plan.stages])
        _warm()
        self.began = time.monotonic()
        self.run.closing.callback(self.close)
        feeds = []
        for stage in self.plan.sources:
            read, write = os.pipe()
            self._fork(tools[stage.name], stage, stage.argv, stdout=write, keep=())
            os.close(write)
            feeds.append(read)
        operands = tuple(f"/dev/fd/{fd}" for fd in feeds)
        stdin = -1
        for number, stage in enumerate(self.plan.transforms):
            read, write = os.pipe()
            first = number == 0
            argv = stage.argv + operands if first else stage.argv
            self._fork(tools[stage.name], stage, argv, stdout=write, stdin=stdin, keep=tuple(feeds) if first else ())
            os.close(write)
            if first:
                for fd in feeds:
                    os.close(fd)
            else:
                os.close(stdin)
            stdin = read
        self.out_fd = stdin

    def _fork(
        self, tool: runner.Tool, stage: Stage, argv: tuple[str, ...], *, stdout: int, keep: tuple[int, ...],
        stdin: int = -1,
    ) -> None:
        report_read, report_write = os.pipe()
        owner = self.run.need_ledger()
        resource = owner.add("stage", stage.label, command=ledger.command_line([stage.name, *argv]))
        # A signal waits: in the parent until the stage is on the list that close() stops, in the stage until the
        # parent's handlers are gone, which would clean up the parent's run.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            pid = os.fork()
            if pid == 0:
                self._become(tool, stage, argv, resource, mask, stdin, stdout, report_write, keep)
            pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
            self.children.append(Child(stage, pid, pidfd, report_read, resource))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(report_write)

    def _become(
        self, tool: runner.Tool, stage: Stage, argv: tuple[str, ...], resource: ledger.Resource,
        mask: Iterable[int], stdin: int, stdout: int, report: int, keep: tuple[int, ...],
    ) -> NoReturn:
        """In the fork, with signals blocked: be the stage, and end."""
        code = int(Exit.BUG)
        try:
            for number in ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.dup2(stdin if stdin >= 0 else os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(stdout, 1)
            _close_all_but({0, 1, 2, report, *keep})
            resource.enter(group=False)
            os.environ[ledger.TOKEN] = self.run.need_ledger().token
            log = ["--log=json"] if self.run.report.log_json else []
            code = runner.execute(tool, ["--report", f"/dev/fd/{report}", *log, *argv])
            if code < 0:
                signal.signal(-code, signal.SIG_DFL)
                os.kill(os.getpid(), -code)
        except BaseException as error:  # Nothing of the parent's may run here: say it and end.
            code = int(error.code if isinstance(error, LspipeError) else Exit.BUG)
            kind = "" if isinstance(error, LspipeError) else f"{type(error).__name__}: "
            os.write(2, f"{stage.name}: {kind}{stream.plain(str(error))}\n".encode())
        finally:
            os._exit(code & 0xFF)

    def lines(self, limit: float | None) -> Iterator[bytes]:
        """The last stage's lines, newline included. Sources are stopped `limit` seconds after the start."""
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.out_fd, selectors.EVENT_READ, None)
            for child in self.children:
                selector.register(child.report_fd, selectors.EVENT_READ, child)
            open_fds = 1 + len(self.children)
            while open_fds:
                for key, _events in selector.select(self._until_late(limit)):
                    data = os.read(key.fd, 1 << 16)
                    child = key.data
                    if not data:
                        selector.unregister(key.fd)
                        open_fds -= 1
                        if child is not None:
                            self._reap(child)
                        continue
                    if child is not None:
                        child.report += data
                        continue
                    *complete, rest = (rest + data).split(b"\n")
                    for line in complete:
                        yield line + b"\n"
                self._stop_late(limit)
        if rest:
            yield rest

    def _until_late(self, limit: float | None) -> float | None:
        if limit is None or all(child.ended is not None for child in self.children):
            return None
        return max(0.05, min(0.0 if child.stopped_late else -self._over(child, limit)
                             for child in self.children if child.ended is None))

    def _elapsed(self) -> float:
        return time.monotonic() - self.began - self.run.writer.waited

    def _over(self, child: Child, limit: float) -> float:
        """Seconds by which a stage that has not ended is late, below 0 where it is not: a source has its --timeout, and
        a transform as much again (and not less than _LEAST)."""
        allowed = limit + _PATIENCE
        if child.stage not in self.plan.sources:
            allowed += max(limit, _LEAST) + _PATIENCE
        return self._elapsed() - allowed

    def _stop_late(self, limit: float | None) -> None:
        """TERM to a stage that is late, so that it takes its things along; KILL where that does not help."""
        for child in self.children:
            if limit is None or child.ended is not None or (over := self._over(child, limit)) < 0:
                continue
            if not child.stopped_late:
                child.stopped_late = True
                _signal(child, signal.SIGTERM)
            elif over > _GRACE:
                _signal(child, signal.SIGKILL)

    def _reap(self, child: Child) -> None:
        """Its report pipe is closed, so it has ended or is about to."""
        _pid, child.status = os.waitpid(child.pid, 0)
        child.ended = time.monotonic()
        child.resource.release()

    def close(self) -> None:
        """Stop what still runs: TERM, a short grace, KILL. Idempotent."""
        waiting = [child for child in self.children if child.status is None]
        for child in waiting:
            _signal(child, signal.SIGTERM)
        until = time.monotonic() + _GRACE
        for child in waiting:
            while child.status is None:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.status = status
                elif time.monotonic() > until:
                    _signal(child, signal.SIGKILL)
                    _pid, child.status = os.waitpid(child.pid, 0)
                else:
                    _wait(child, until)
            child.resource.release()
        for child in self.children:
            for fd in (child.pidfd, child.report_fd):
                if fd >= 0:
                    os.close(fd)
            child.pidfd = child.report_fd = -1
        if self.out_fd >= 0:
            os.close(self.out_fd)
            self.out_fd = -1


def _wait(child: Child, until: float) -> None:
    import select

    left = max(0.0, until - time.monotonic())
    select.select([child.pidfd] if child.pidfd >= 0 else [], [], [], min(left, 0.01 if child.pidfd < 0 else left))


def _signal(child: Child, number: int) -> None:
    """Only through the pidfd where there is one: a pid may be somebody else's by now."""
    try:
        if child.pidfd >= 0:
            signal.pidfd_send_signal(child.pidfd, number)
        elif child.status is None:  # Not reaped yet, so the pid cannot have been given away.
            os.kill(child.pid, number)
    except ProcessLookupError:
        pass


def _warm() -> None:
    """Import and compile what every stage needs, once."""
    from lspipe import sandbox, schema

    sandbox.warm()
    for name in _SHARED:
        importlib.import_module(name)
    if not schema.checker("row")({"source": "warm", "url": "warm:"}):
        raise Bug("the row schema refuses a row")


def _close_all_but(kept: set[int]) -> None:
    """Close every other descriptor: the coordinator's lock above all, which a forked child would keep held."""
    last = -1
    for fd in sorted(kept):
        if last + 1 < fd:  # An empty range starting at 0 would be all of them to the system call.
            os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))

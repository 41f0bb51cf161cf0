"""What a run gives up before it reads anything: all that its kernel rules do not name, and memory without end."""

import contextlib
import os

from lspipe import sandbox
from lspipe.exits import Precondition
from lspipe.run import Run

#: Bytes of memory for the data of a source.
_MEMORY = 768 << 20


def rules(run: Run) -> sandbox.Rules:
    """The kernel rules of this run: program and libraries, what `reach` says, the own run directory."""
    write = list(run.reach.write)
    entries: list[str | int] = []
    if run.ledger is not None:
        write.append(run.ledger.path)
        entries.append(os.path.dirname(run.ledger.path))
    return sandbox.Rules(
        read=(*sandbox.program_paths(), *run.reach.read),
        execute=tuple(run.reach.execute),
        write=tuple(write),
        entries=tuple(entries),
        may_signal=run.reach.may_signal,
    )


def demand(run: Run, signals: bool = False) -> None:
    """Raise Precondition where --require-sandbox is given and the kernel offers less for files and sockets, with
    `signals` for them as well: before anything is looked at."""
    if run.options.require_sandbox:
        state = sandbox.offered()
        _refuse_less(_weak(state, not signals))


def _weak(state: sandbox.State, may_signal: bool) -> list[str]:
    """What of the sandbox is not enforced, in words for a message."""
    parts = {"fs": state.fs, "net": state.net} | ({} if may_signal else {"signal": state.signal})
    return [f"{name} {value}" for name, value in parts.items() if value != sandbox.ENFORCED]


def _refuse_less(weak: list[str]) -> None:
    if weak:
        raise Precondition(f"the kernel does not enforce the whole sandbox: {', '.join(weak)}",
                           "leave out --require-sandbox to run with what there is")


def enter(run: Run) -> None:
    """Give up everything but `rules(run)`. Raises Precondition where it must be whole and is not."""
    state = sandbox.lock_down(rules(run))
    run.report.sandbox = {"fs": state.fs, "net": state.net, "signal": state.signal}
    weak = _weak(state, run.reach.may_signal)
    if run.options.require_sandbox:
        _refuse_less(weak)
    if weak:
        run.report.note(f"sandbox: {state.detail}" if state.detail else "sandbox: " + ", ".join(weak))


def bound_memory() -> None:
    """What a source reads may be made by others: it gets no more memory than the worst honest file takes.

    Beyond, Python raises MemoryError, and the profile or the file is left out.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard, _MEMORY) if limit != resource.RLIM_INFINITY]
    with contextlib.suppress(OSError, ValueError):  # A system that has no such limit.
        resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))

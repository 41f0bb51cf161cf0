"""The frame that every executable runs in: options, ledger, sandbox, streams, signals, exit code.

The order is the promise: options, consent narrowed, dead runs swept, registered, opened, locked down; only then is
input read. A command module hands over a click command and one generator; everything that can go wrong around
them is dealt with here, once.
"""

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

import click

from lspipe import inputs, ledger, lockdown, options, reportfile, row, schema, stream
from lspipe.exits import Bug, Exit, LspipeError, Precondition, Usage, WriteFailed, strongest
from lspipe.report import Report
from lspipe.row import Row
from lspipe.run import Reach as Reach
from lspipe.run import ReaderLeft
from lspipe.run import Run as Run
from lspipe.signals import ENDING, Signals, Stopped

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_FULL = (errno.ENOSPC, errno.EDQUOT)

Rows = Callable[[SimpleNamespace, Iterator[Row], Run], Iterable[Row | bytes]]


@dataclass(frozen=True)
class Tool:
    """One executable: its click command, its generator, and what it reaches for. Calling it is the whole process."""

    cli: options.Command
    rows: Rows
    #: Narrows consent and says what may be read; runs before anything is registered or opened.
    reach: Callable[[SimpleNamespace, Run], Reach] | None = None
    #: Opens what must be open before lock-down.
    opening: Callable[[SimpleNamespace, Run], None] | None = None
    #: How rows are judged as they enter, where it is not by the schema that the command reads.
    judge: Callable[[SimpleNamespace], Callable[[Row], str | None]] | None = None
    #: Whether an input may be one object over several lines, as a person writes it, instead of rows.
    whole: Callable[[SimpleNamespace], bool] | None = None
    #: False for the coordinator, which locks itself down after it has forked its stages.
    locks: bool = True
    #: The table of config.toml that sets its defaults. Sources and transforms read no configuration.
    settings: str | None = None
    #: False for those that show or remove dead runs themselves.
    sweeps: bool = True

    @property
    def name(self) -> str:
        """The executable's name."""
        return str(self.cli.name)

    def __call__(self) -> NoReturn:
        """Run with the process's arguments and end the process: with the exit code, or by the signal that came."""
        number = execute(self, sys.argv[1:])
        if number < 0:
            signal.signal(-number, signal.SIG_DFL)
            os.kill(os.getpid(), -number)
            number = 128 - number  # Only where the signal is blocked.
        # All is written and given back. To take the interpreter apart would be a seventh of a short run.
        os._exit(number)


def execute(tool: Tool, argv: Sequence[str]) -> int:
    """Run `tool`; the exit code, or a signal's number, negative, where the process should die by it."""
    signals = Signals()
    closed = _occupy_closed_fds()
    os.umask(0o077)
    run: Run | None = None
    report_fd = -1
    early = Report(tool.name)  # For trouble before there is a run.
    early.log_json = options.wants_json_log(argv)
    trouble: Exception | None = None
    try:
        with signals:
            opts = _parse(tool, argv)
            run = Run(tool.name, opts, argv)
            run.stdout_closed = 1 in closed
            report_fd = reportfile.open_file(opts.report, opts.timeout) if opts.report else -1
            _prepare(run)
            _work(tool, run, 0 in closed)
    except (ReaderLeft, Stopped):
        pass
    except Exception as error:  # The one place where a bug ends; everywhere else it travels.
        trouble = error
    finally:
        signals.ignore()
        if run is not None:
            run.closing.close()
            if run.ledger is not None:
                run.ledger.close()
    # What is said from here on may wait for a reader that never comes: nothing is left to be cleaned up.
    signals.release()
    if isinstance(trouble, options.Print):
        return _print(trouble.text, 1 in closed, early)
    if trouble is not None:
        _say(trouble, run.report if run else early, run.options.debug if run else "--debug" in argv, signals.number)
    if run is None:
        return -signals.number if signals.number else int(strongest(early.codes))
    try:
        return _finish(run, signals.number, report_fd)
    finally:
        if report_fd >= 0:
            os.close(report_fd)


def _say(trouble: Exception, report: Report, debug: bool, signal_number: int) -> None:
    """What went wrong: foreseen, scarce, or a bug, which a signal may be the cause of."""
    known = trouble if isinstance(trouble, LspipeError) else _scarce(trouble)
    if known is not None:
        report.error(known)
    elif not signal_number:
        _say_bug(report, trouble, debug)


def _parse(tool: Tool, argv: Sequence[str]) -> SimpleNamespace:
    configured: dict[str, Any] = {}
    if tool.settings is not None:
        from lspipe import settings

        configured = settings.defaults(tool.cli, tool.settings, argv)
    try:
        parsed = tool.cli.main(args=list(argv), prog_name=tool.name, standalone_mode=False, default_map=configured)
    except click.UsageError as error:
        wrong = error.param if isinstance(error, click.BadParameter) else None
        if wrong is not None and wrong.name in configured and not set(wrong.opts) & set(argv):
            message = error.format_message().rstrip(".")
            raise Precondition(f"config.toml: {message}", "mend it, or move it away") from None
        meant = options.left_out(tool.cli, argv, error)
        hint = options.habit(tool.cli, error) or f"try: {tool.name} --help"
        if meant is not None:
            hint = f"to leave a word out: {meant}"
        raise Usage(error.format_message().rstrip(".").replace("\n", " "), hint) from None
    assert isinstance(parsed, SimpleNamespace)
    return parsed


def _print(text: bytes, stdout_closed: bool, report: Report) -> int:
    writer = stream.Writer(1)
    try:
        if stdout_closed:
            raise WriteFailed("cannot write: standard output is closed")
        writer.write(text)
        writer.flush()
    except BrokenPipeError:
        pass
    except WriteFailed as error:
        report.error(error)
    return int(strongest(report.codes))


def _occupy_closed_fds() -> set[int]:
    """The standard descriptors that came closed, now the null device: else the next file opened becomes stdout."""
    closed = set()
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            closed.add(fd)
            os.open(os.devnull, os.O_RDWR)
    return closed


def _prepare(run: Run) -> None:
    """Resolve the times that options name."""
    opts = run.options
    wanted = [getattr(opts, name, None) for name in ("now", "since", "until")]
    if not any(wanted):
        return
    from lspipe import when

    try:
        if wanted[0]:
            now = when.parse_rfc3339(wanted[0])
            if now is None:
                raise ValueError(f"--now takes an RFC 3339 time, not '{wanted[0]}'")
            run.now = now
        run.since = when.since(wanted[1], run.now) if wanted[1] else None
        run.until = when.until(wanted[2], run.now) if wanted[2] else None
    except ValueError as error:
        raise Usage(str(error)) from None
    if when.reversed_range(run.since, run.until):
        raise Usage("--until is before --since")


def _work(tool: Tool, run: Run, stdin_closed: bool) -> None:
    if tool.cli.kind == "source":
        lockdown.bound_memory()
    reads = tool.cli.reads is not None
    if reads and not run.options.files and not run.options.sandbox_report:
        if stdin_closed:
            raise Usage("standard input is closed", "give it rows: ls-history words | " + tool.name)
        if os.isatty(0):
            run.report.codes.add(Exit.USAGE)
            os.write(2, tool.cli.short_help_text(click.Context(tool.cli, info_name=tool.name)).encode())
            return
    lockdown.demand(run)
    if tool.reach is not None:
        run.reach = tool.reach(run.options, run)
    if tool.sweeps:
        ledger.sweep()
    _register(tool, run)
    opened = inputs.open_all(run) if reads else []
    if tool.opening is not None:
        tool.opening(run.options, run)
    if tool.locks or run.options.sandbox_report:
        lockdown.enter(run)
    if run.options.sandbox_report:
        from lspipe import probe

        for answer in probe.probe(lockdown.rules(run)):
            run.write(stream.dumps(answer))
        run.flush()
        return
    wrong = tool.judge(run.options) if tool.judge is not None else inputs.judge(tool.cli.reads)
    whole = tool.whole is not None and tool.whole(run.options)
    _pump(tool, run, inputs.rows(run, opened, wrong, whole))


def _register(tool: Tool, run: Run) -> None:
    # A signal waits until there is somebody who takes away what was made.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        run.ledger = ledger.register(tool.name, options.option_names(run.argv), tool.cli.kind)
        run.report.registered = True
    except (LspipeError, OSError) as error:
        # One that owns nothing may go on: need_ledger() stops the others before they create anything.
        run.report.note(f"not registered: {error}")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _pump(tool: Tool, run: Run, upstream: Iterator[Row]) -> None:
    """From the generator to stdout, at most --limit rows."""
    emits = tool.cli.emits
    judged = tool.judge is None
    # Porcelain prints whole documents, or acts on what it lists: it minds its limit itself.
    limit = run.options.limit if emits is not None and tool.cli.kind != "porcelain" else None
    found = iter(tool.rows(run.options, upstream, run))
    try:
        if limit != 0:
            check: Callable[[Any], bool] | None = None
            for item in found:
                if isinstance(item, bytes):
                    run.write(item)
                    continue
                if check is None and judged:
                    check = schema.checker(str(emits))
                if check is not None and not check(item):
                    raise Bug(f"made a row that is none: {schema.reason(str(emits), item)}")
                run.report.rows_out += 1
                data = stream.dumps(item)
                if emits == "row" and len(data) > stream.LINE_CAP:
                    run.report.note("a row was cut: it was longer than a row may be")
                    data = stream.dumps(row.shortened(item))
                run.write(data)
                if run.report.rows_out == limit:
                    break
        # Whether more was held back costs one more search: only for a report that says it.
        if limit is not None and run.report.rows_out == limit and (run.options.report or run.options.stats):
            run.flush()
            more = next(found, None) is not None  # First: the generator itself may say that it is truncated.
            run.report.truncated |= more
        run.flush()
    except LspipeError:
        with contextlib.suppress(WriteFailed, ReaderLeft):
            run.flush()  # What was found before the trouble is not lost.
        raise
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()


def _scarce(error: Exception) -> Precondition | None:
    """What the system refused for want of something: no bug of ours."""
    if isinstance(error, MemoryError):
        why = "not enough memory"
    elif isinstance(error, OSError) and error.errno in _FULL:
        return Precondition(f"cannot go on: {os.strerror(error.errno or 0).lower()}",
                            "make room, or set LSPIPE_STATE_HOME to another folder")
    elif isinstance(error, OSError) and error.errno in _SCARCE:
        why = os.strerror(error.errno).lower()
    else:
        return None
    return Precondition(f"cannot go on: {why}", "a limit is too low for it: see ulimit -a")


def _say_bug(report: Report, error: Exception, debug: bool) -> None:
    report.codes.add(Exit.BUG)
    report.say("error", f"internal error: {type(error).__name__}: {error}",
               None if debug else "run it with --debug for the traceback", int(Exit.BUG))
    if debug:
        import traceback

        os.write(2, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))


def _finish(run: Run, signal_number: int, report_fd: int) -> int:
    """Say what is left to say; the exit code, or minus the signal."""
    report = run.report
    report.strict = False  # The run is over: nothing is left to be ended.
    if run.clock.expired_once:
        report.truncated = True
        if report.rows_out == 0:
            report.error(_deadline())
        else:
            report.skip("time was over: these rows are what was found until then", "late")
    report.finish()
    if run.options.exit_status and report.rows_out == 0:
        report.codes.add(Exit.NO_ROWS)
    code = int(strongest(report.codes))
    if signal_number:
        code = 128 + signal_number
    if run.options.stats:
        report.say("note", report.stats_line(code))
    if report_fd >= 0:
        try:
            writer = stream.Writer(report_fd)
            writer.write(stream.dumps(report.as_dict(code)))
            writer.flush()
        except (WriteFailed, BrokenPipeError) as error:
            report.error(WriteFailed(f"cannot write the report: {error}"))
            code = int(strongest([*report.codes, *([code] if not signal_number else [])]))
    return -signal_number if signal_number else code


def _deadline() -> LspipeError:
    from lspipe.exits import Deadline

    return Deadline("time was over before there was a row", "give it more: --timeout 60s")

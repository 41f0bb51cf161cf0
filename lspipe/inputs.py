"""What a transform or a sink reads: its operands or stdin, opened before lock-down, their rows checked."""

import os
from collections.abc import Callable, Iterator
from typing import Any

from lspipe import options, schema, stream
from lspipe.exits import NotFound, strerror
from lspipe.row import Row
from lspipe.run import Run

_ROWS = "rows are JSON Lines, as sources print them: of ls-query take --jsonl"


def open_all(run: Run) -> list[tuple[str, int]]:
    """(name, descriptor) of each operand, stdin without one. What cannot be opened is said; the rest goes on."""
    inputs: list[tuple[str, int]] = []
    for name in run.options.files or ["-"]:
        shown = options.printable(name)
        if name == "-":
            inputs.append((shown, 0))
            continue
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            os.read(fd, 0)  # A directory opens, and says so only here.
            inputs.append((shown, fd))
        except FileNotFoundError:
            run.report.error(NotFound(f"cannot open '{shown}': no such file"))
        except OSError as error:
            run.report.skip(f"cannot read '{shown}': {strerror(error)}", "not-readable", input=shown)
    return inputs


def rows(
    run: Run, inputs: list[tuple[str, int]], wrong: Callable[[Row], str | None], whole: bool = False
) -> Iterator[Row]:
    """The rows of every input in turn, checked by `wrong` as they enter; with `whole` an input may be one object."""
    read = stream.document if whole else stream.rows
    for name, fd in inputs:
        def skip(number: int, reason: str, name: str = name) -> None:
            hint = _ROWS if number == 1 and reason.startswith("not JSON") else None
            run.report.skip(f"{name}: line {number}: {reason}", reason, hint, input=name, line=number)

        try:
            for row in read(fd, skip, wrong):
                run.report.rows_in += 1
                yield row
        except OSError as error:
            run.report.skip(f"cannot read '{name}': {strerror(error)}", "not-readable", input=name)
        if fd != 0:
            os.close(fd)


def judge(name: str | None) -> Callable[[Row], str | None]:
    """What is wrong with a row, by schema `name`; compiled when the first one comes."""
    checking: list[Callable[[Any], bool]] = []

    def wrong(row: Row) -> str | None:
        if not checking:
            checking.append(schema.checker(str(name)))
        return None if checking[0](row) else schema.reason(str(name), row)

    return wrong

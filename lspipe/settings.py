"""config.toml: the defaults that a person has set for ls-query and ls-show. No other executable reads it."""

import os
from collections.abc import Sequence
from typing import Any

import click

from lspipe import options, paths
from lspipe.exits import Precondition

#: The tables that it may have, each of an executable.
TABLES = ("query", "show")
#: Options of a single call: a default for them would surprise.
UNCONFIGURED = {"query_file", "report", "now", "sandbox_report", "debug", "null", "raw"}
#: No file is larger, in bytes.
_LARGEST = 1 << 20
#: No more full stops are in it: what tomllib does with a key of many parts takes time by the square of them.
_DOTS = 2000


def defaults(command: options.Command, table: str, argv: Sequence[str]) -> dict[str, Any]:
    """The defaults of the executable whose table this is, by option name. Raises Precondition.

        [query]
        limit = 20
        source = ["history", "files"]
    """
    if not options.PRINTING.isdisjoint(argv):
        return {}  # Help is there also for whoever has broken the file.
    try:
        path = os.path.join(paths.config_home(), "config.toml")
    except Precondition:
        return {}  # No home folder, no defaults.
    if not os.path.lexists(path):
        return {}
    import tomllib

    try:
        with open(paths.open_private(path), "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"larger than {_LARGEST} bytes")
        if data.count(b".") > _DOTS:
            raise ValueError(f"more than {_DOTS} dots")
        tables = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # tomllib's own error, and that of decode(), are ValueErrors.
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Precondition(f"cannot read '{path}': {why}", "mend it, or move it away") from None
    strange = sorted(set(tables) - set(TABLES))
    if strange:
        raise Precondition(f"'{path}' has no table [{strange[0]}]", "it may have: [query], [show]")
    found = tables.get(table, {})
    known = {param.opts[-1].lstrip("-"): param for param in command.params
             if isinstance(param, click.Option) and param.expose_value and param.name not in UNCONFIGURED}
    values = {}
    if not isinstance(found, dict):
        raise Precondition(f"'{path}': '{table}' is no table", f"begin it with a line [{table}]")
    for key, value in found.items():
        if key not in known:
            raise Precondition(f"'{path}': [{table}] has no default '{key}'", "it may set: " + ", ".join(sorted(known)))
        fitting = _fitting(known[key], value)
        if fitting is None:
            raise Precondition(f"'{path}': [{table}] {key} is not of a kind that --{key} takes",
                               "mend it, or move it away")
        if fitting is not False or known[key].is_bool_flag:  # `json = false` chooses no form, also not another's.
            values[str(known[key].name)] = fitting
    return values


def _fitting(param: click.Option, value: Any) -> Any:
    """A default as click takes it; None where a person could not have typed it. (click takes it as it comes, and
    falls over a table, say.)

    An option that is given once takes a list of words as a person types it, `a,b,c`; one that is given often takes
    one word for a list of one.
    """
    if param.is_flag:
        if not isinstance(value, bool):
            return None
        return value if param.is_bool_flag else value and param.flag_value
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            return None
        return value if param.multiple else ",".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and isinstance(param.type, click.types.IntParamType):
        return None  # It would be cut.
    return [str(value)] if param.multiple else value

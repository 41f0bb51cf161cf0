"""The options that every executable shares, their help, and the click command class that carries them."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from lspipe import __version__

#: What each class of executable is, in the order of the README's table.
KINDS = ("source", "transform", "sink", "porcelain")
#: No number of rows or characters is higher: beyond, it fits neither into JSON nor into what counts in C.
MOST = 10**9
#: Nor is a deadline, in seconds: what the system waits with counts milliseconds in 31 bits.
LONGEST = 2_000_000.0
#: Options that only print.
PRINTING = frozenset({"-h", "--help", "--version", "--schema"})


class Print(Exception):
    """Raised by an option that only prints: the runner writes `text` to stdout and ends with 0."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.text = text


if TYPE_CHECKING:
    _SecondsBase = click.ParamType[float]
else:
    _SecondsBase = click.ParamType  # Older releases of click do not take a type argument.


class Seconds(_SecondsBase):
    """A length of time: `10s`, `500ms`, `2m`, or a bare number of seconds. Gives seconds as a float."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from lspipe import when

        try:
            plain = isinstance(value, int | float) or value.replace(".", "", 1).isdigit()
            seconds = float(value) if plain else when.duration(value) / 1e6
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)
        if not 0 <= seconds <= LONGEST:  # config.toml has inf, nan and numbers below 0.
            self.fail(f"not from 0 to {LONGEST:.0f} seconds", param, ctx)
        return seconds


class Count(click.IntRange):
    """A number from `min` to `max`."""

    name = "number"


class Shared(click.Option):
    """An option that means the same in every executable; help lists these last."""


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        raise Print(f"{ctx.command.name} {__version__}\n".encode())


def _print_schema(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from lspipe import schema

        assert isinstance(ctx.command, Command)
        if ctx.command.emits is None:
            raise click.UsageError(f"{ctx.command.name} prints text, not rows of a schema")
        raise Print(schema.text(ctx.command.emits))


def _print_help(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        raise Print((ctx.get_help() + "\n").encode())


def _common(kind: str) -> list[click.Parameter]:
    eager = {"is_flag": True, "is_eager": True, "expose_value": False}
    params: list[click.Parameter] = [
        Shared(["-n", "--limit"], type=Count(0, MOST), metavar="N", help="At most N rows."),
        Shared(["--exit-status"], is_flag=True, help="Exit 1 if there are no rows."),
        Shared(["--timeout"], type=Seconds(), metavar="LENGTH", help="Stop after so long: 10s, 500ms, 2m."),
        Shared(["--now"], metavar="TIME", help="Take TIME (RFC 3339) as the present."),
        Shared(["--report"], metavar="FILE", help="Write facts about the run to FILE, as one JSON object."),
        Shared(["--stats"], is_flag=True, help="Print the same in short on stderr."),
        Shared(["--log"], type=click.Choice(["text", "json"]), default="text", help="Form of errors on stderr."),
        Shared(["--line-buffered"], is_flag=True, help="Send each row at once."),
        Shared(["--require-sandbox"], is_flag=True, help="Fail where the kernel cannot enforce all of it."),
        Shared(["--sandbox-report"], is_flag=True, help="Try what is forbidden; print what the kernel says."),
        Shared(["--debug"], is_flag=True, help="Print the traceback of a bug."),
        Shared(["--schema"], callback=_print_schema, help="Print the schema of what is emitted.", **eager),
        Shared(["--version"], callback=_print_version, help="Print the version.", **eager),
        Shared(["-h", "--help"], callback=_print_help, help="Print this help.", **eager),
    ]
    if kind in ("transform", "sink"):
        params.insert(9, Shared(["--strict"], is_flag=True, help="End at the first line that is not a row."))
    if kind == "source":
        params.insert(9, Shared(["--strict"], is_flag=True, help="End at the first thing that has to be skipped."))
    return params


def _scope(max_chars: int | None = 2000) -> list[click.Parameter]:
    return [
        Shared(["--since"], metavar="TIME", help="Not older than TIME: 24h, 7d, yesterday, a date."),
        Shared(["--until"], metavar="TIME", help="Not newer than TIME; a day is meant whole."),
        Shared(["--profile"], multiple=True, metavar="NAME",
               help="Only this profile: chromium/Default, Default, chromium, or its shown name."),
        Shared(["--max-chars"], type=Count(0, MOST), default=max_chars, metavar="N",
               show_default=max_chars is not None, help="Characters of text in a row; 0 leaves it out."),
    ]


class Command(click.Command):
    """A click command with the shared options of its kind and the help of lspipe."""

    def __init__(self, name: str, *, kind: str, reads: str | None, emits: str | None,
                 habits: Mapping[str, str] = MappingProxyType({}), **extra: Any) -> None:
        """`habits`: of options that a person may know from another program, what to do here."""
        extra["add_help_option"] = False
        params = list(extra.pop("params", None) or [])
        if reads is not None and kind in ("transform", "sink"):
            params.append(click.Argument(["files"], nargs=-1, metavar="[FILE]..."))
        if kind == "source" or name == "ls-query":
            params += _scope(2000 if kind == "source" else None)
        super().__init__(name, params=params + _common(kind), **extra)
        self.kind = kind
        self.reads = reads
        self.emits = emits
        self.habits = habits

    @property
    def documentation(self) -> str:
        """The docstring of the module that defines the command."""
        assert self.callback is not None
        return sys.modules[self.callback.__module__].__doc__ or ""

    @property
    def summary(self) -> str:
        """The first line of the module's docstring."""
        return self.documentation.partition("\n")[0]

    @property
    def examples(self) -> list[str]:
        """The shell lines of the docstring, without their `$ `."""
        stripped = (line.strip() for line in self.documentation.splitlines())
        return [line[2:] for line in stripped if line.startswith("$ ")]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.width = 80
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.summary)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")
        prose = [part for part in self.documentation.split("\n\n")[1:] if not part.strip().startswith("$ ")]
        for part in prose:
            formatter.write_paragraph()
            formatter.write_text(" ".join(part.split()))
        own = [p for p in self.params if isinstance(p, click.Option) and not isinstance(p, Shared)]
        shared = [p for p in self.params if isinstance(p, Shared)]
        for title, params in (("Options", own), ("Common options", shared)):
            records = [record for p in params if (record := p.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=26)
        if self.emits is not None:
            from lspipe import schema

            with formatter.section(f"Fields of {'an' if self.emits[0] in 'aeiou' else 'a'} {self.emits}"):
                formatter.write_dl([(field.name, field.description) for field in schema.describe(self.emits)])

    def short_help_text(self, ctx: click.Context) -> str:
        """Usage, summary and examples: what a person sees who calls a reader without input."""
        lines = [self.get_usage(ctx), self.summary, *("  " + example for example in self.examples)]
        return "\n".join([*lines, f"{self.name} --help shows all options", ""])


def command(
    name: str, *, kind: str, reads: str | None, emits: str | None, habits: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[..., Any]], Command]:
    """Decorate the callback of executable `name`; its own options stand between this and the function."""
    return click.command(name, cls=Command, kind=kind, reads=reads, emits=emits, habits=habits)


def namespace(**given: Any) -> SimpleNamespace:
    """What every callback returns: the values as attributes."""
    return SimpleNamespace(**given)


def typed(name: str) -> bool:
    """Whether the parameter was typed, and comes neither from config.toml nor from the environment; for callbacks."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def option_names(argv: Sequence[str]) -> list[str]:
    """The names of the options in `argv`, without any value: all that may reach the disk of a command line."""
    names = []
    for word in argv:
        if word == "--":
            break
        if word.startswith("--"):
            names.append(word.partition("=")[0])
        elif len(word) > 1 and word.startswith("-") and word[1].isalpha():
            names.append(word[:2])
    return names


def left_out(command: Command, argv: Sequence[str], error: click.UsageError) -> str | None:
    """The same command line with `--` in its place, where what click takes for options is a `-word` of the query:
    `ls-history -- rust -async`. None where it is something else."""
    known = {name: param for param in command.params if isinstance(param, click.Option)
             for name in (*param.opts, *param.secondary_opts)}
    files = "--words" in known  # Its query is one argument, and paths follow.
    if "--words" not in argv if files else not any("QUERY" in str(param.metavar) for param in command.params):
        return None
    typed: list[str] = []
    words: list[str] = []
    meant: list[str] = []
    rest = iter(argv)
    for word in rest:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if word == "--":
            words += rest
        elif _excludes(word, known):
            meant.append(word)
            words.append(word)
        elif len(word) > 1 and word.startswith("-"):
            typed.append(word)
            if word == name and name in known and not known[name].is_flag:
                typed += islice(rest, 1)
        else:
            words.append(word)
    if isinstance(error, click.NoSuchOption):
        wrong = [word for word in meant if not error.option_name.startswith("--") and error.option_name[1:] in word]
    else:
        param = error.param if isinstance(error, click.BadParameter) else None
        wrong = [word for word in meant if param is not None and known.get(word[:2]) is param]
    if not wrong:
        return None
    if files:
        query = max(2, 1 + max(at for at, word in enumerate(words) if word in meant))
        words = [" ".join(words[:query]), *words[query:]]
    from lspipe import stream

    return " ".join(map(stream.quote, [str(command.name), *typed, "--", *words]))


def habit(command: Command, error: click.UsageError) -> str | None:
    """What to do instead of an option as another program has it; None where nothing is known."""
    if isinstance(error, click.NoSuchOption):
        return command.habits.get(error.option_name)
    names = error.param.opts if isinstance(error, click.BadParameter) and error.param else ()
    return next((command.habits[name] for name in names if name in command.habits), None)


def _excludes(word: str, known: Mapping[str, click.Option]) -> bool:
    """Whether a word can only be one that a query leaves out: no options, and none that lacks its second dash."""
    if not (len(word) > 2 and word[0] == "-" and word[1].isalpha()) or "-" + word.partition("=")[0] in known:
        return False
    first = known.get(word[:2])
    if first is None or first.is_flag:
        return any("-" + letter not in known for letter in word[1:])
    return isinstance(first.type, click.types.IntParamType) and word[2].isalpha()


def wants_json_log(argv: Sequence[str]) -> bool:
    """Whether `argv` asks for `--log json`, where it is too wrong to be parsed."""
    words = list(argv[: argv.index("--")]) if "--" in argv else list(argv)
    return "--log=json" in words or any(words[at:at + 2] == ["--log", "json"] for at in range(len(words)))


def printable(value: str) -> str:
    """A word from argv as text: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(value).decode("utf-8", "replace")

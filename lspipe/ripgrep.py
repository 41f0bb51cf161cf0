"""ripgrep: the argument vector that asks for its matches, and what its complaints mean."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lspipe.exits import LspipeError, Upstream, Usage

_SYSTEM_ERROR = re.compile(
    r"(?P<path>.*?)(?:: IO error for operation on (?P=path))?: (?P<why>[^:]+) \(os error \d+\)", re.DOTALL
)


@dataclass(frozen=True)
class Look:
    """What to look for and where, in ripgrep's own terms."""

    fixed: bool = False
    ignore_case: bool = False
    globs: Sequence[str] = ()
    types: Sequence[str] = ()
    hidden: bool = False
    no_ignore: bool = False
    context: int = 0
    #: Only the first matching line of each file.
    first: bool = False
    #: By path, folder by folder; else as found, which is faster and differs from run to run.
    ordered: bool = True
    #: Bytes of the largest file that is searched; None: all are.
    largest: int | None = None


def arguments(program: str, look: Look, roots: Sequence[str]) -> list[str]:
    """The argument vector. Patterns are not in it, where every user of the machine could read them: they are fed
    to standard input (`feed`). Nothing that a person types can become an option.

    A configuration file could name a program to run, and the global git configuration lies outside every grant:
    neither is read. Files are never mapped into memory: one that shrinks meanwhile would kill ripgrep.
    """
    argv = [program, "--json", "--no-mmap", *_selection(look)]
    switches = {"--sort=path": look.ordered, "--fixed-strings": look.fixed, "--ignore-case": look.ignore_case,
                "--max-count=1": look.first, f"--context={look.context}": look.context > 0}
    argv += [name for name, on in switches.items() if on]
    return [*argv, "--file=-", "--", *roots]


def listing(program: str, look: Look, roots: Sequence[str]) -> list[str]:
    """The argument vector that lists the files which the same search looks into, each ended by NUL."""
    return [program, "--files", "--null", *_selection(look), "--", *roots]


def _selection(look: Look) -> list[str]:
    """The options that say which files are searched."""
    chosen = ["--no-config", "--no-ignore-global"]
    switches = {"--hidden": look.hidden, "--no-ignore": look.no_ignore,
                f"--max-filesize={look.largest}": look.largest is not None}
    chosen += [name for name, on in switches.items() if on]
    return [*chosen, *(f"--glob={glob}" for glob in look.globs), *(f"--type={name}" for name in look.types)]


def feed(patterns: Sequence[str]) -> bytes:
    """The patterns for ripgrep's standard input, one a line. Usage where one cannot be passed so, or is empty.

    ripgrep strips one carriage return from the end of such a line, so a pattern that ends with one gets another.
    """
    lines = []
    for pattern in patterns:
        if not pattern:
            raise Usage("the pattern is empty: it would match every line", "give it a word")
        if "\n" in pattern:
            raise Usage("a line break is not allowed in a pattern", "give each line its own: -e ONE -e TWO")
        data = pattern.encode("utf-8", "surrogateescape")  # Not by the locale: ripgrep knows no other encoding.
        lines.append(data + b"\r\n" if data.endswith(b"\r") else data + b"\n")
    return b"".join(lines)


class OutOfMemory(Upstream):
    """A search took more memory than it may: for one very large file or line, or an ignore file."""


def fatal(code: int, errors: str) -> LspipeError:
    """Why a search ended before its summary: words that ripgrep does not accept, or its death."""
    if "memory allocation of" in errors:
        return OutOfMemory("rg needed more memory than it may have",
                        "a very large .ignore, or a very long line, does that: try --no-ignore, or leave it out: -g")
    if code < 0:
        return Upstream(f"rg was killed by signal {-code}", "what it had found until then is above")
    if code == 2 and errors:
        line = one_line(errors)
        return Usage(line, "rg --type-list shows them" if "unrecognized file type" in line
                     else "its syntax: https://docs.rs/regex/latest/regex/#syntax")
    return Upstream(f"rg ended with {code}" + (f": {one_line(errors)}" if errors else ""), "see: rg --version")


def one_line(errors: str) -> str:
    """ripgrep's own words, which may be several lines with a drawing, as one."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    first = lines[0].removeprefix("rg: ") if lines else ""
    first = re.sub(r"^<stdin>:\d+: ", "", first)
    last = next((line for line in reversed(lines) if line.startswith("error: ")), None)
    return first.rstrip(":") + (": " + last.removeprefix("error: ") if last else "")


class Trouble(NamedTuple):
    """One line of ripgrep's stderr: `path` could not be read; None where it says something else."""

    path: str | None
    why: str


def troubles(errors: str) -> list[Trouble]:
    """What ripgrep could not read, in its order."""
    found = []
    # Not by lines, since there may be a line break in the name of a file; but ripgrep 13 marks no beginning.
    messages = ("\n" + errors).split("\nrg: ")[1:] if errors.startswith("rg: ") else errors.splitlines()
    for message in messages:
        known = _SYSTEM_ERROR.fullmatch(message.rstrip())
        if known:
            found.append(Trouble(known["path"], known["why"].lower()))
        else:
            found.append(Trouble(None, " ".join(message.split())))
    return found

"""The parts of the README that are made from the code, and its examples.

`python tests/readme.py --write` renews the parts between the markers.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import orjson  # noqa: E402
from support import ROOT, executables  # noqa: E402

from lspipe import schema  # noqa: E402
from lspipe.browsers import known  # noqa: E402

README = ROOT / "README.md"
_PART = re.compile(r"(<!-- begin: (\w+) -->\n)(.*?)(<!-- end: \2 -->)", re.DOTALL)
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands() -> str:
    """The table of executables, in the order of pyproject.toml."""
    lines = ["| name | class | what it does |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.kind} | {one.cli.summary} |" for one in executables()]
    return "\n".join(lines) + "\n"


#: The browsers that the tests start; what the others write is made in the tests, as it is documented.
STARTED = {"chromium", "firefox"}
_PLACES = {"home": "~/", "config": "~/.config/", "data": "~/.local/share/", "mac": "Application Support/",
           "library": ""}


def browsers() -> str:
    """The table of browsers and the folders that they are looked for in, in the order of the code."""
    lines = ["| browser | on Linux | on macOS, in `~/Library` |", "|---|---|---|"]
    for one in known.BROWSERS:
        places: dict[bool, list[str]] = {False: [], True: []}
        for root in one.roots:
            kind, _, rest = root.partition("/")
            places[kind in ("mac", "library")].append(f"`{_PLACES[kind]}{rest}`")
        name = f"**`{one.name}`**" if one.name in STARTED else f"`{one.name}`"
        lines.append(f"| {name} | {'<br>'.join(places[False])} | {'<br>'.join(places[True])} |")
    return "\n".join(lines) + "\n"


def fields(name: str) -> str:
    """The table of a schema's fields."""
    lines = ["| field | type | required | what it is | example |", "|---|---|---|---|---|"]
    for one in schema.describe(name):
        kind = one.type.replace("|", " or ")
        example = orjson.dumps(one.example).decode().replace("|", "\\|")
        lines.append(f"| `{one.name}` | {kind} | {'yes' if one.required else ''} | {one.description} | `{example}` |")
    return "\n".join(lines) + "\n"


def made(name: str) -> str:
    """What must stand between the markers of part `name`."""
    if name == "browsers":
        return browsers()
    return commands() if name == "commands" else fields(name)


def parts() -> Iterator[tuple[str, str]]:
    """(name, text) of every part in the README."""
    for match in _PART.finditer(README.read_text()):
        yield match.group(2), match.group(3)


class Example(NamedTuple):
    """One `$ ` line, and the output that the README shows for it (empty: not shown)."""

    command: str
    shown: list[str]

    def __str__(self) -> str:
        return self.command


def examples(text: str) -> Iterator[Example]:
    """The shell lines of every console block."""
    for block in _BLOCK.findall(text):
        found: list[Example] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Example(line[2:], []))
            elif found:
                found[-1].shown.append(line)
        yield from found


if __name__ == "__main__" and "--write" in sys.argv:
    def renewed(found: re.Match[str]) -> str:
        return found.group(1) + made(found.group(2)) + found.group(4)

    README.write_text(_PART.sub(renewed, README.read_text()))

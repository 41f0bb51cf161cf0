"""Imports go down only, and the things that one place does are done in that place alone."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import support

PACKAGE = support.ROOT / "lspipe"
FILES = sorted(path for path in PACKAGE.rglob("*.py"))

#: Pure modules, and those above the libraries. What is not named here is a library (1) or a command (3).
PURE = {"exits", "row", "when", "folding", "words", "matching", "urls", "merge", "fuse", "lexical", "score", "snippet",
        "redact", "journal", "narrow", "secretforms", "secrethints", "secrettext", "secreturl"}
FRAME = {"access", "answer", "attached", "browsing", "navigated", "opentabs", "synced", "options", "settings", "run",
         "inputs", "lockdown", "runner", "pipeline", "request"}
LEVELS = {**dict.fromkeys(PURE, 0), **dict.fromkeys(FRAME, 2)}

#: What the commands of browsers share.
SHARED = ("attached", "browsing", "navigated", "opentabs", "synced")
#: Who may import the browsers: their commands with what these share, consent (what is there to grant), and later the
#: index.
BROWSER_COMMANDS = {"history", "bookmarks", "tabs", "downloads", "reading", "consent"}
#: Everything that can reach a network, and who may name it: the sandbox, which forbids it and tries whether it did.
NETWORK = {
    "socket", "socketserver", "ssl", "http", "ftplib", "imaplib", "poplib", "smtplib", "telnetlib", "nntplib",
    "xmlrpc", "wsgiref", "asyncio", "urllib.request", "urllib.robotparser", "webbrowser", "multiprocessing",
    "websockets", "requests", "httpx", "aiohttp", "urllib3", "trio", "anyio", "paramiko", "curl_cffi", "grpc",
}
NETWORK_ALLOWED = {"sandbox", "seccomp", "landlock", "probe", "browsers.endpoint", "browsers.cdp"}
#: pipeline: a forked stage has no exec that would give it its ledger token.
ENVIRONMENT_ALLOWED = {"paths", "options", "runner", "child", "ledger", "pipeline"}
#: They fork: a child must not run what its parent has registered for its end. runner: the end of every executable.
EXIT_ALLOWED = {"pipeline", "ledger", "child", "probe", "runner"}
THIRD_PARTY = {"orjson", "click", "jsonschema", "jsonschema_rs", "referencing", "psutil", "websockets",
               "more_itertools", "platformdirs"}


def module(path: Path) -> str:
    """`commands.show` for lspipe/commands/show.py; `` for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module(path) for path in FILES}


def level(name: str) -> int:
    if name in ("", "commands", "browsers", "index", "schemas"):
        return 0
    return 3 if name.startswith("commands.") else LEVELS.get(name, 1)


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(dotted name, line, whether at the top of the module) of everything that is imported anywhere in it.

    What only a type checker sees is left out.
    """
    tree = ast.parse(path.read_bytes())
    only_types = {
        id(inner) for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node in tree.body
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: a relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno, node in tree.body


def own(dotted: str) -> str | None:
    """The module of lspipe that `dotted` means; None for others."""
    if dotted != "lspipe" and not dotted.startswith("lspipe."):
        return None
    name = dotted.removeprefix("lspipe").removeprefix(".")
    while name and name not in NAMES:
        name = name.rpartition(".")[0]
    return name


def each(*, library: bool = True, commands: bool = True) -> pytest.MarkDecorator:
    paths = [path for path in FILES if (commands if module(path).startswith("commands.") else library)]
    return pytest.mark.parametrize("path", paths, ids=[module(path) or "lspipe" for path in paths])


def test_there_is_something_to_look_at() -> None:
    assert {"runner", "stream", "commands.check"} <= NAMES


@each()
def test_imports_go_down_only(path: Path) -> None:
    here = level(module(path))
    for dotted, line, _top in imports(path):
        below = own(dotted)
        if below is not None:
            assert level(below) <= here, f"{path.name}:{line}: {dotted} is above level {here}"


@each()
def test_nobody_imports_a_command(path: Path) -> None:
    for dotted, line, _top in imports(path):
        below = own(dotted) or ""
        assert not below.startswith("commands."), f"{path.name}:{line}: imports the command {dotted}"
        if dotted == "importlib" or dotted.startswith("importlib."):
            assert module(path) == "pipeline", f"{path.name}:{line}: imports by name, as pipeline alone may"


def test_imports_have_no_circle() -> None:
    graph = {module(path): {name for dotted, _, top in imports(path) if top and (name := own(dotted))}
             for path in FILES}
    seen: dict[str, str] = {}

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert seen.get(name) != "open", " -> ".join((*way, name))
        if name in seen:
            return
        seen[name] = "open"
        for below in sorted(graph.get(name, ()) - {name}):
            visit(below, (*way, name))
        seen[name] = "done"

    for name in sorted(graph):
        visit(name, ())


@each()
def test_only_browser_commands_reach_browsers(path: Path) -> None:
    name = module(path)
    allowed = (name in SHARED or name.startswith("browsers")
               or name.startswith("commands.") and name.removeprefix("commands.") in BROWSER_COMMANDS)
    for dotted, line, _top in imports(path):
        assert allowed or not (own(dotted) or "").startswith("browsers"), f"{path.name}:{line}: {dotted}"


@each()
def test_only_named_modules_know_of_a_network(path: Path) -> None:
    if module(path) in NETWORK_ALLOWED:
        return
    for dotted, line, _top in imports(path):
        parts = dotted.split(".")
        heads = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if module(path) == "commands.history" and "websockets" in heads:
            continue
        assert not heads & NETWORK, f"{path.name}:{line}: {dotted}"


@each()
def test_packages_beyond_the_hot_path_are_imported_where_they_are_used(path: Path) -> None:
    for dotted, line, top in imports(path):
        head = dotted.partition(".")[0]
        if head in sys.stdlib_module_names or head == "lspipe":
            continue
        assert head in THIRD_PARTY, f"{path.name}:{line}: {head} is not among the dependencies"
        assert not top or head in ("orjson", "click"), f"{path.name}:{line}: {head} at the top of the module"
        if level(module(path)) == 0:
            assert head == "orjson", f"{path.name}:{line}: {head} in a pure module"


@each()
def test_only_the_frame_prints_exits_and_reads_the_environment(path: Path) -> None:
    name = module(path)
    tree = ast.parse(path.read_bytes())
    # A command, and what commands share, may hand the environment whole to a function that asks for it; it reads
    # nothing of it itself.
    handed = {id(value) for node in ast.walk(tree) if isinstance(node, ast.Call)
              and (name in SHARED or name.startswith("commands."))
              for value in node.args}
    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "input", "exit", "quit", "breakpoint", "eval", "exec"), where
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert "SystemExit" not in ast.unparse(node.exc), where
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            assert text not in ("sys.exit", "os.system", "os.popen", "sys.stdin", "sys.stdout", "sys.stderr"), where
            if text in ("os.environ", "os.environb", "os.getenv") and name not in ENVIRONMENT_ALLOWED:
                assert id(node) in handed, f"{where}: {text}"
            if text in ("os._exit", "os.abort"):
                assert name in EXIT_ALLOWED, f"{where}: {text}"


@each()
def test_an_exception_that_is_not_foreseen_travels(path: Path) -> None:
    """Stopped and ReaderLeft are BaseExceptions: who catches one without passing it on eats a Ctrl-C."""
    tree = ast.parse(path.read_bytes())
    forked = {id(handler) for node in ast.walk(tree)
              if isinstance(node, ast.Try) and module(path) in EXIT_ALLOWED
              and any("os._exit" in ast.unparse(last) for last in (node.finalbody or node.handlers[-1].body)[-1:])
              for handler in node.handlers}
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            where = f"{path.name}:{node.lineno}"
            caught = "" if node.type is None else ast.unparse(node.type)
            if node.type is None or "BaseException" in caught:
                passed_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
                assert passed_on or id(node) in forked, where
            if "Stopped" in caught or "ReaderLeft" in caught or "KeyboardInterrupt" in caught:
                assert module(path) == "runner", f"{where}: only the runner may catch {caught}"


@each(library=False)
def test_a_command_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_bytes())
    lines = (ast.get_docstring(tree) or "").splitlines()
    assert lines and lines[0].endswith(".") and len(lines[0]) <= 100, "the first line is one sentence"
    assert sum(line.strip().startswith("$ ") for line in lines) >= 2, "two examples"
    assigned: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign):
            assigned |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    assert {"READS", "EMITS", "ZONE", "main"} <= assigned
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"cli", "rows"} <= functions


@each(commands=False)
def test_a_module_says_in_one_line_what_it_is(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    assert text.splitlines()[0].endswith((".", ":")) if text else module(path) == "", "no docstring"

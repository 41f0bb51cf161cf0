"""Helpers of the tests: the registry of executables, isolated homes, golden pairs, events instead of sleeps."""

import contextlib
import fcntl
import functools
import importlib
import importlib.util
import os
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "bin"
GOLDEN = ROOT / "tests" / "golden"
#: No wait in a test is longer; a good program never comes near it.
PATIENCE = 60.0
#: (what, seconds) of every end by a signal, for the summary.
MEASURED: list[tuple[str, float]] = []
#: The present of every golden pair and contract case.
NOW = "2026-07-21T12:00:00.000000Z"
#: They print what other runs left behind: nothing, unless there is something.
LEDGER = ("ls-ps", "ls-clean")
#: A run directory, at any moment of its life, and what is in it.
_RUN = re.compile(r"^run/(?:\.new-|\.old-)?[0-9]+-[0-9a-f]{16}/.*")


# The registry


@dataclass(frozen=True)
class Executable:
    """One line of [project.scripts]."""

    name: str
    target: str

    @property
    def module_name(self) -> str:
        return self.target.partition(":")[0]

    @functools.cached_property
    def module(self) -> Any:
        return importlib.import_module(self.module_name)

    @property
    def tool(self) -> Any:
        return getattr(self.module, self.target.partition(":")[2])

    @property
    def cli(self) -> Any:
        return self.tool.cli

    @property
    def kind(self) -> str:
        """source, transform, sink or porcelain; `broken` where it cannot even be imported (a test says so)."""
        try:
            return str(self.cli.kind)
        except Exception:
            return "broken"

    @property
    def reader(self) -> bool:
        """Whether it reads rows from stdin."""
        return self.kind in ("transform", "sink")

    @property
    def emits_rows(self) -> bool:
        return bool(self.kind in ("source", "transform") and self.cli.emits == "row")

    def __str__(self) -> str:
        return self.name


@functools.cache
def scripts() -> dict[str, str]:
    """[project.scripts] of pyproject.toml."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        found: dict[str, str] = tomllib.load(file)["project"]["scripts"]
    return found


@functools.cache
def executables() -> tuple[Executable, ...]:
    """Every executable that exists, in the order of pyproject.toml."""
    return tuple(Executable(name, target) for name, target in scripts().items())


def of(*kinds: str) -> list[Executable]:
    """The executables of these kinds."""
    return [one for one in executables() if one.kind in kinds]


def exists(name: str) -> bool:
    """Whether there is an executable `name` that can be imported."""
    return any(one.name == name and one.kind != "broken" for one in executables())


# Golden pairs


@dataclass(frozen=True)
class Golden:
    """A golden pair `NAME--case`: what goes in (.args, .in) and what must come out (.out, .err, .code)."""

    name: str
    case: str

    def _file(self, kind: str) -> Path:
        return GOLDEN / f"{self.name}--{self.case}.{kind}"

    def _bytes(self, kind: str) -> bytes:
        file = self._file(kind)
        return file.read_bytes() if file.exists() else b""

    def args(self, home: "Home") -> list[str]:
        """One argument a line; {home} stands for the home folder."""
        return [line.replace("{home}", str(home.home)) for line in self._file("args").read_text().splitlines()]

    @property
    def stdin(self) -> bytes | None:
        """None: the null device."""
        return self._bytes("in") if self._file("in").exists() else None

    @property
    def out(self) -> bytes:
        return self._bytes("out")

    @property
    def err(self) -> bytes:
        return self._bytes("err")

    @property
    def code(self) -> int:
        return int(self._bytes("code") or b"0")

    def write(self, done: "Done") -> None:
        """Take what came out as what must come out."""
        self._file("out").write_bytes(done.out)
        for kind, data in (("err", done.err), ("code", b"%d\n" % done.code if done.code else b"")):
            if data:
                self._file(kind).write_bytes(data)
            else:
                self._file(kind).unlink(missing_ok=True)

    def __str__(self) -> str:
        return f"{self.name}--{self.case}"


def goldens() -> list[Golden]:
    """All of them, found by their file names."""
    pairs = (file.stem.split("--", 1) for file in sorted(GOLDEN.glob("*--*.args")))
    return [Golden(name, case) for name, case in pairs]


def typical(name: str) -> Golden:
    """The pair that the contract suite runs as the executable's ordinary use: it ends with 0 and prints something."""
    return Golden(name, "typical")


# What nobody granted

#: A word that stands in what is not granted, and nowhere else.
CANARY = "zzcanary"


def poison(profile: Path) -> None:
    """Every page and bookmark of this Chromium profile says the canary."""
    base = sqlite3.connect(profile / "History")
    base.execute("UPDATE urls SET title = 'async ' || ?, url = url || ?", (CANARY, CANARY))
    base.commit()
    base.close()
    text = (profile / "Bookmarks").read_bytes()
    (profile / "Bookmarks").write_bytes(text.replace(b'"name": "', b'"name": "async ' + CANARY.encode() + b" "))


# qmd


@functools.cache
def qmd_folders() -> tuple[str, ...]:
    """Folders for PATH with a qmd and a Node that runs it; none where there are none.

    LSPIPE_TEST_QMD names a folder in which npm installed both; else PATH is searched.
    """
    place = os.environ.get("LSPIPE_TEST_QMD")
    path = os.environ.get("PATH", os.defpath)
    if place:
        inside = [*Path(place).glob("node_modules/node*/bin"), Path(place, "node_modules/.bin"), Path(place)]
        path = os.pathsep.join(map(str, inside))
    node, qmd = shutil.which("node", path=path), shutil.which("qmd", path=path)
    if node is None or qmd is None:
        return ()
    said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=PATIENCE).stdout
    if not said.startswith("v") or int(said[1:].partition(".")[0]) < 22:
        return ()
    return tuple(dict.fromkeys(map(os.path.dirname, (node, qmd))))


def need_qmd() -> None:
    """Skip the test where there is no qmd."""
    if not qmd_folders():
        import pytest

        pytest.skip("no qmd with Node >= 22 on PATH or in LSPIPE_TEST_QMD")


def make_wiki(home: Path, folder: Path, name: str = "notes") -> None:
    """Have the real qmd index the Markdown files in `folder` for whoever lives in `home`."""
    need_qmd()
    env = {"PATH": ":".join([*qmd_folders(), "/usr/bin", "/bin"]), "HOME": str(home), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["qmd", "collection", "add", str(folder), "--name", name], env=env, cwd=home,
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done


@functools.cache
def _sample_wiki(now: int, folder: Path) -> Path:
    """A home, made once in `folder`, whose qmd has indexed the sample notes."""
    home = folder / f"wiki-{now}"
    home.mkdir()
    _sample_state().notes(str(home / "notes"), now)
    make_wiki(home, home / "notes")
    return home


# Running


@dataclass(frozen=True)
class Done:
    """How a process ended. `code` is negative where a signal ended it."""

    code: int
    out: bytes
    err: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.lines]


@functools.cache
def kept() -> frozenset[tuple[str, str]]:
    """(folder, name) of the files that SECURITY.md lists as left behind."""
    table = (ROOT / "SECURITY.md").read_text().partition("<!-- begin: kept -->")[2].partition("<!-- end: kept -->")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    return frozenset((row[1], row[0].strip("`")) for row in cells)


def left(home: "Home") -> set[tuple[str, str]]:
    """(folder, name as SECURITY.md writes it) of everything in the folders of lspipe."""
    found = set()
    for kind, folder in (("configuration", home.config), ("state", home.state), ("cache", home.cache)):
        for above, folders, files in os.walk(folder):
            inside = os.path.relpath(above, folder)
            for name in [*files, *(f"{name}/" for name in folders)]:
                place = name if inside == "." else f"{inside}/{name}"
                found.add((kind, _RUN.sub("run/<pid>-<16 hex>/", place)))
    return found


@dataclass
class Home:
    """A home folder and the three folders of lspipe under `root`, and the processes that live in them."""

    root: Path
    sample: bool = False
    #: The present of the sample, in µs: NOW.
    now: int = 1_784_635_200_000_000
    #: With the notes in a granted wiki of the real qmd as well.
    wiki: bool = False
    #: A home that `make_wiki` was called for: this one gets a copy of its index.
    elsewhere: Path | None = None
    home: Path = field(init=False)
    config: Path = field(init=False)
    state: Path = field(init=False)
    cache: Path = field(init=False)
    _orphan: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.home, self.config = self.root / "home", self.root / "config"
        self.state, self.cache = self.root / "state", self.root / "cache"
        self.home.mkdir(mode=0o700)
        self.config.mkdir(mode=0o700)
        if self.sample:
            self._make_sample()
        if self.wiki:
            self._make_wiki()
        if self.elsewhere is not None:
            self._copy_wiki(self.elsewhere)

    def _make_sample(self) -> None:
        """Two browser profiles and notes, as `make demo` has them, all of it granted."""
        state, now = _sample_state(), self.now
        chromium = self.home / ".config/chromium/Default"
        firefox = self.home / ".mozilla/firefox/k3x9f2ab.default-release"
        state.chromium(str(chromium), now)
        state.firefox(str(firefox), now)
        (firefox.parent / "profiles.ini").write_text(
            "[Profile0]\nName=default-release\nIsRelative=1\nPath=k3x9f2ab.default-release\nDefault=1\n"
        )
        state.notes(str(self.home / "notes"), now)
        self.consent(
            *({"family": "browser", "browser": browser, "profile": path.name, "data": state.GRANTED[browser],
               "path": str(path)} for browser, path in (("chromium", chromium), ("firefox", firefox))),
            {"family": "files", "path": str(self.home / "notes")},
        )

    def _make_wiki(self) -> None:
        """The index of the sample notes, moved to this home."""
        need_qmd()
        self._copy_wiki(_sample_wiki(self.now, self.root.parent))  # All tests of a run share that.
        base = sqlite3.connect(self.home / ".cache/qmd/index.sqlite")
        base.execute("UPDATE store_collections SET path = ?", (str(self.home / "notes"),))
        base.commit()
        base.close()
        grants = orjson.loads((self.config / "consent.json").read_bytes())["grants"]
        self.consent(*grants, {"family": "wiki"})

    def _copy_wiki(self, made: Path) -> None:
        for folder in (".cache/qmd", ".config/qmd"):
            shutil.copytree(made / folder, self.home / folder)

    def consent(self, *grants: dict[str, Any]) -> None:
        """Write the consent file."""
        file = self.config / "consent.json"
        file.write_bytes(orjson.dumps({"v": 1, "grants": list(grants)}))
        file.chmod(0o600)

    def env(self, **changes: str | None) -> dict[str, str]:
        """The whole environment of a run; None takes a variable away."""
        programs = [os.path.dirname(sys.executable), *filter(None, [folder_of("rg")]),
                    *(qmd_folders() if self.wiki or self.elsewhere else ()), "/usr/bin", "/bin"]
        given: dict[str, str | None] = {
            "PATH": ":".join(dict.fromkeys(programs)), "HOME": str(self.home), "TZ": "UTC", "LC_ALL": "C.UTF-8",
            "LSPIPE_CONFIG_HOME": str(self.config), "LSPIPE_STATE_HOME": str(self.state),
            "LSPIPE_CACHE_HOME": str(self.cache), **changes,
        }
        if self.wiki:  # Where qmd keeps its index, whether or not there is a HOME.
            given = {"XDG_CACHE_HOME": str(self.home / ".cache"), "XDG_CONFIG_HOME": str(self.home / ".config"),
                     **given}
        if os.environ.get("LSPIPE_COVERAGE"):
            given = {name: os.environ[name] for name in ("LSPIPE_COVERAGE", "PYTHONPATH")} | given
        return {name: value for name, value in given.items() if value is not None}

    def run(
        self, name: str, *args: str | bytes, stdin: bytes | int | None = None, stdout: int = subprocess.PIPE,
        env: dict[str, str] | None = None, before: Callable[[], object] | None = None, python: Sequence[str] = (),
        cwd: str | Path | None = None,
    ) -> Done:
        """Run executable `name` to its end. `stdin`: bytes, a descriptor, or the null device."""
        given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {
            "stdin": subprocess.DEVNULL if stdin is None else stdin}
        before_it = left(self)
        done = subprocess.run(
            command(name, *args, python=python), stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE,
            env=self.env() if env is None else env, preexec_fn=before, cwd=cwd or self.home,
            start_new_session=True, **given,  # No terminal: nobody is asked anything.
        )
        made = left(self) - before_it - kept()
        assert not made, f"{name} left what SECURITY.md does not list: {made}"
        return Done(done.returncode, done.stdout or b"", done.stderr)

    def links(self) -> Path:
        """A folder for PATH: wrappers named like the executables that start them with this very interpreter."""
        folder = self.root / "bin"
        if not folder.exists():
            folder.mkdir()
            for one in executables():
                wrapper = folder / one.name
                wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{BIN / one.name}" "$@"\n')
                wrapper.chmod(0o755)
        return folder

    def bash(self, text: str | bytes) -> "subprocess.CompletedProcess[bytes]":
        """Run shell text as a person would, in this home, with the checkout's executables in front."""
        env = self.env()
        env["PATH"] = f"{self.links()}:{env['PATH']}"
        return subprocess.run(["bash", "-c", text], cwd=self.home, env=env, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)

    def orphan(self) -> None:
        """A dead run that names a process which never said who it is: ls-clean's to remove, nobody else's.

        Once in a home; `runs` does not count it.
        """
        if self._orphan is None:
            one = next(one for one in executables() if one.name == "ls-check")
            others = set(self.runs)
            with at_work(self, one) as process:
                (self._orphan,) = set(self.runs) - others
                process.kill()
                process.wait()
            row = {"kind": "child", "purpose": "made for a test", "command": "sleep", "paths": [], "port": None,
                   "owned": True, "stop": None, "max_age": None, "exe": None, "state": "intent", "created": 0}
            file = self.state / "run" / self._orphan / "1.json"
            file.write_bytes(orjson.dumps(row))
            file.chmod(0o600)

    def typical(self, name: str, *more: str | bytes, **how: Any) -> Done:
        """Run `name` as its typical golden pair does, with `more` options; where it is about dead runs, with one."""
        if name in LEDGER:
            self.orphan()
        pair = typical(name)
        how.setdefault("stdin", pair.stdin)
        return self.run(name, *with_options(pair.args(self), more), **how)

    @contextlib.contextmanager
    def start(
        self, name: str, *args: str | bytes, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE,
        env: dict[str, str] | None = None, before: Callable[[], object] | None = None,
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Start it; it is dead when the block ends."""
        process = subprocess.Popen(
            command(name, *args), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, bufsize=0,
            env=self.env() if env is None else env, preexec_fn=before, cwd=self.home, start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    @property
    def runs(self) -> list[str]:
        """What is in the folder of runs: nothing, where all ended well."""
        try:
            return sorted(set(os.listdir(self.state / "run")) - {self._orphan})
        except FileNotFoundError:
            return []


@functools.cache
def _sample_state() -> Any:
    found = importlib.util.spec_from_file_location("sample_state", ROOT / "examples" / "sample_state.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def command(name: str, *args: str | bytes, python: Sequence[str] = ()) -> list[str | bytes]:
    """The command line of executable `name` in the checkout."""
    return [sys.executable, *python, str(BIN / name), *args]


def with_options(args: Sequence[str | bytes], more: Sequence[str | bytes]) -> list[str | bytes]:
    """`args` with the options `more` before a `--`."""
    cut = args.index("--") if "--" in args else len(args)
    return [*args[:cut], *more, *args[cut:]]


@functools.cache
def folder_of(program: str) -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), program)
    found = beside if os.access(beside, os.X_OK) else shutil.which(program)
    return os.path.dirname(found) if found else None


# Events


def small_pipe() -> tuple[int, int]:
    """A pipe that holds as little as the system allows (Linux: one page)."""
    reader, writer = os.pipe()
    if sys.platform == "linux":
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    return reader, writer


def full_pipe() -> tuple[int, int]:
    """A pipe that holds all it can: the next writer waits."""
    reader, writer = small_pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"\n")
    os.set_blocking(writer, True)
    return reader, writer


def until(happened: Callable[[], object], what: str, process: "subprocess.Popen[bytes] | None" = None) -> None:
    """Wait for something that no descriptor tells; an early end of `process` fails with its last words."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if process is not None and process.poll() is not None:
            assert process.stderr is not None
            raise AssertionError(f"ended with {process.returncode} before {what}: {process.stderr.read()!r}")
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.002)


def drain(fd: int) -> bytes:
    """All that comes until the end of the stream; a pty says EIO there."""
    parts = []
    with contextlib.suppress(OSError):
        while chunk := os.read(fd, 1 << 16):
            parts.append(chunk)
    return b"".join(parts)


def feed(writer: int, data: bytes, process: "subprocess.Popen[bytes]") -> None:
    """Write all of `data`; once more than the pipe holds is gone, the reader has begun to read."""
    os.set_blocking(writer, False)
    view = memoryview(data)
    deadline = time.monotonic() + PATIENCE
    while view:
        _, ready, _ = select.select([], [writer], [], 0.05)
        if not ready:
            assert process.poll() is None and time.monotonic() < deadline, _last_words(process)
            continue
        try:
            view = view[os.write(writer, view):]
        except BlockingIOError:
            continue
        except BrokenPipeError:
            process.wait(PATIENCE)
            raise AssertionError(_last_words(process)) from None
    os.set_blocking(writer, True)


def _last_words(process: "subprocess.Popen[bytes]") -> str:
    if process.poll() is None:
        return "it never read its input"
    assert process.stderr is not None
    return f"ended with {process.returncode}: {process.stderr.read()!r}"


def waits_on(pid: int, fd: int) -> bool:
    """Whether the process sleeps in a system call on `fd` (Linux); elsewhere whether it sleeps."""
    try:
        words = Path(f"/proc/{pid}/syscall").read_text().split()
        if len(words) > 2:
            return int(words[1], 16) == fd
        if words[0] == "running":
            return False
    except (OSError, ValueError):
        pass
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return state.startswith("S")


@contextlib.contextmanager
def small_input(home: Home, name: str, *args: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Executable `name` and the write end of its stdin, which the caller closes."""
    reader, writer = small_pipe()
    with home.start(name, *args, stdin=reader) as process:
        os.close(reader)
        yield process, writer


@contextlib.contextmanager
def at_work(home: Home, one: Executable, *more: str, **how: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Executable `one`, registered, locked down and in the middle of its work, which it cannot end by itself.

    A reader waits for more input; any other for room in the pipe of its stdout.
    """
    pair = typical(one.name)
    args = with_options(pair.args(home), more)
    if one.name in LEDGER:
        home.orphan()
    if one.reader:
        reader, writer = small_pipe()
        with home.start(one.name, *args, stdin=reader, **how) as process:
            os.close(reader)
            try:
                feed(writer, b"\n" * 5000, process)
                yield process
            finally:
                os.close(writer)
        return
    reader, writer = full_pipe()
    with home.start(one.name, *args, stdout=writer, **how) as process:
        os.close(writer)
        try:
            until(lambda: home.runs and waits_on(process.pid, 1), "it writes", process)
            yield process
        finally:
            os.close(reader)


def end_by(process: "subprocess.Popen[bytes]", *numbers: int, what: str) -> Done:
    """Send the signals; how it ended, and for the summary how long that took."""
    began = time.monotonic()
    for number in numbers:
        process.send_signal(number)
    code = process.wait(PATIENCE)
    MEASURED.append((f"{what}, {'+'.join(signal.Signals(number).name for number in numbers)}",
                     time.monotonic() - began))
    assert process.stderr is not None
    return Done(code, b"", process.stderr.read())


# What an executable emits


def strangers(schema: dict[str, Any], value: Any, place: str = "") -> Iterator[str]:
    """The properties of `value` that the schema does not name, dotted: it is open for others, closed for us.

    An object for which the schema names no property at all (`meta`) may hold anything.
    """
    if isinstance(value, dict) and schema.get("properties"):
        for key, inner in value.items():
            below = schema["properties"].get(key)
            if below is None:
                yield f"{place}{key}"
            elif isinstance(below, dict):
                yield from strangers(below, inner, f"{place}{key}.")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for inner in value:
            yield from strangers(schema["items"], inner, place)


def assert_one_line(err: bytes, name: str) -> None:
    """An error as people see it: one line that names the program, at most one more that says what to do."""
    text = err.decode("utf-8")
    lines = text.splitlines()
    assert text.endswith("\n") and 1 <= len(lines) <= 2, text
    assert lines[0].startswith(f"{name}: "), text
    assert "Traceback" not in text and "Error:" not in text, text

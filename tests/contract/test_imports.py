"""Start-up is a feature: what is not needed on the hot path is not imported there."""

import subprocess
import sys

import pytest
import support

#: Never at the start: each is imported where it is used.
FORBIDDEN = {
    "jsonschema", "jsonschema_rs", "referencing", "rpds", "attrs", "psutil", "websockets", "more_itertools",
    "platformdirs", "importlib.metadata", "importlib.resources", "importlib.util", "pkg_resources", "setuptools",
    "asyncio", "subprocess", "multiprocessing", "concurrent.futures", "tempfile", "shutil", "sqlite3", "ctypes",
    "socket", "ssl", "http", "urllib.request", "email", "logging", "argparse", "json.tool", "pydoc", "unittest",
    "hashlib", "random", "secrets", "configparser", "tomllib", "zipfile", "xml", "numpy",
}
#: What a run needs beyond its start: the libraries of the sandbox, of the ledger, of a rank.
LATER = {"ctypes", "hashlib", "sqlite3", "random", "secrets"}


def imported(err: bytes) -> set[str]:
    """The module names that -X importtime printed."""
    return {line.rpartition("|")[2].strip() for line in err.decode().splitlines() if line.startswith("import time:")}


def brought(names: set[str]) -> set[str]:
    """`names` without what the interpreter imports by itself before it runs anything (site, .pth files)."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", "import click, orjson"], capture_output=True)
    return names - imported(done.stderr)


@pytest.mark.parametrize("one", support.executables(), ids=str)
def test_the_start_imports_nothing_that_is_not_needed(one: support.Executable, bare: support.Home) -> None:
    done = bare.run(one.name, "--version", python=["-X", "importtime"])
    assert done.code == 0
    names = imported(done.err)
    assert {"click", "orjson", "lspipe.runner"} <= names, "nothing was measured"
    assert not brought(names) & FORBIDDEN


@pytest.mark.parametrize("one", support.of("transform", "sink"), ids=str)
def test_no_row_no_validator(one: support.Executable, home: support.Home) -> None:
    done = home.run(one.name, stdin=b"", python=["-X", "importtime"])
    assert done.code == 0
    names = imported(done.err)
    assert "lspipe.sandbox" in names, "nothing was measured"
    assert not brought(names) & (FORBIDDEN - LATER)


@pytest.mark.parametrize("one", support.of("transform", "sink"), ids=str)
def test_one_row_one_validator(one: support.Executable, home: support.Home) -> None:
    """The other way round, so that the two tests above cannot pass by measuring nothing."""
    row = b'{"source":"mine","url":"x:1","query":"q","query_id":"ls_0000000000000000"}\n'
    names = imported(home.run(one.name, stdin=row, python=["-X", "importtime"]).err)
    assert "jsonschema_rs" in names
    assert not brought(names) & {"jsonschema", "referencing", "psutil", "websockets", "subprocess", "asyncio"}

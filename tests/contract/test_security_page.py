"""SECURITY.md agrees with the tests: each statement names one that exists, and no file stays that it does not list."""

import ast
import functools
import re
from pathlib import Path

import pytest
import support
from support import Home

PAGE = support.ROOT / "SECURITY.md"
TESTS = support.ROOT / "tests"
_TEST = re.compile(r"`([\w/]+\.py)(?:::(test_\w+))?`")
#: A word of a query that no file may hold.
CANARY = "wolframcanary"


def statements() -> list[str]:
    """The sentences that promise or explain something: list items, and the prose of the first section."""
    text = PAGE.read_text().split("\n## ", 1)[1].rpartition("\n## How to report")[0]
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^<!--.*$", "", text, flags=re.MULTILINE)
    blocks = re.split(r"\n\n|\n(?=- )", text)
    return [" ".join(block.split()) for block in blocks if block.strip() and not block.startswith(("#", "What"))]


def sentences() -> list[str]:
    """Each with what stands behind it: test names, up to the next sentence."""
    found = []
    for block in statements():
        parts = re.split(r"(?<=[.`)])\s+(?=[A-Z])", block.removeprefix("- "))
        # What follows a colon belongs to the sentence; a sentence without a name leans on the next that has one.
        joined = ""
        for part in parts:
            joined = f"{joined} {part}".strip()
            if _TEST.search(joined) or "not tested" in joined:
                found.append(joined)
                joined = ""
        if joined:
            found.append(joined)
    return found


@functools.cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("sentence", sentences(), ids=lambda text: text[:40])
def test_each_statement_names_a_test_or_says_that_there_is_none(sentence: str) -> None:
    named = _TEST.findall(sentence)
    assert named or "not tested" in sentence, sentence
    for file, name in named:
        assert (TESTS / file).is_file(), f"no such file: tests/{file}"
        assert not name or name in functions(TESTS / file), f"tests/{file} has no {name}"


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.lstat().st_size)
            for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("one", support.executables(), ids=str)
def test_no_other_file_is_left(home: Home, one: support.Executable) -> None:
    """After ordinary use, after a question with a canary, and after a kill."""
    before = tree(home.home)
    home.typical(one.name)
    if one.kind == "source" or one.name == "ls-query":
        home.run(one.name, CANARY)
    if one.name not in support.LEDGER:
        with support.at_work(home, one) as process:
            process.kill()
            process.wait()
    assert support.left(home) <= support.kept()
    changed = {name for name, facts in tree(home.home).items() if before.get(name) != facts}
    assert not changed
    for folder in (home.config, home.state, home.cache):
        for path in folder.rglob("*") if folder.exists() else ():
            assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path


def test_each_file_on_the_page_can_be_there(home: Home) -> None:
    """The list is not longer than the truth: each file is seen once, by its name in the code or on disk."""
    home.run("ls-consent", "revoke", "--all")
    names = {name for _folder, name in support.left(home)}
    assert {"consent.json", "consent.lock", "run/"} <= names
    source = "\n".join(path.read_text() for path in (support.ROOT / "lspipe").glob("*.py"))
    assert '".new"' in source and '"config.toml"' in source and '"consent.lock"' in source

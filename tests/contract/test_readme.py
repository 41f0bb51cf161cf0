"""The README agrees with the code, and every example in it and in the help runs as it is written."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import readme
import support

sys.path.insert(0, str(support.ROOT / "tests/browsers"))

import driver

#: Where a browser runs, it has its own ideas about the network.
EXAMPLES = [pytest.param(one, marks=pytest.mark.network) if "--text" in one.command else one
            for one in readme.examples(readme.README.read_text())]
#: But those that need a person at a terminal: test_consent_command.py has one.
HELP = [(one.name, line) for one in support.executables() if one.kind != "broken" for line in one.cli.examples
        if not line.startswith("ls-consent grant")]


@pytest.mark.parametrize(("name", "text"), list(readme.parts()), ids=lambda value: str(value).split("\n")[0][:20])
def test_made_parts_are_fresh(name: str, text: str) -> None:
    assert text == readme.made(name), "run: python tests/readme.py --write"


#: The present of all examples, so that the wiki is made once.
PRESENT = time.time_ns() // 1000


@pytest.fixture
def today(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[support.Home]:
    """The sample state as of now: examples say `--since 7d`. With a wiki where an example is of ls-qmd.

    Where one is about the text of tabs, it is the home of a Chromium that runs, with a page about the same.
    """
    lines = [str(value) for value in request.node.callspec.params.values()]
    if any("--text" in line for line in lines):
        yield from _browsing(support.Home(tmp_path))
    else:
        yield support.Home(tmp_path, sample=True, now=PRESENT, wiki=any("ls-qmd" in line for line in lines))


def _browsing(home: support.Home) -> Iterator[support.Home]:
    if support.shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    root = home.home / ".config/chromium"
    (root / "Default").mkdir(parents=True)
    home.consent({"family": "browser", "browser": "chromium", "profile": "Default", "path": str(root / "Default"),
                  "data": ["tabs", "tab-text"]})
    with driver.witness() as witness:
        witness.pages["/"] = ("", "", "<p>How async cancellation works.")
        with driver.chromium(home.home, witness.base + "/") as browser:
            support.until(lambda: witness.told("/", "ready"), "its page is there", browser.process)
            yield home


def _bash(home: support.Home, line: str) -> subprocess.CompletedProcess[bytes]:
    return home.bash("set -o pipefail; " + line)


def _needs(line: str) -> str | None:
    for program in ("jq", "fzf"):
        if f"{program} " in line and support.shutil.which(program) is None:
            return program
    return None


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_readme_example(today: support.Home, example: readme.Example) -> None:
    missing = _needs(example.command)
    if missing:
        pytest.skip(f"{missing} is not installed")
    done = _bash(today, example.command)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    if example.shown:
        assert done.stdout.decode().splitlines() == example.shown
    elif not example.command.startswith(("ls-ps", "ls-clean")):
        assert done.stdout, "it prints nothing"


@pytest.mark.parametrize(("name", "line"), HELP, ids=lambda value: str(value))
def test_help_example(today: support.Home, name: str, line: str) -> None:
    """The examples of --help, over inputs of the names that they use."""
    missing = _needs(line)
    if missing:
        pytest.skip(f"{missing} is not installed")
    assert name in line
    rows = _bash(today, "ls-history async").stdout
    for file in ("rows.jsonl", "a.jsonl", "b.jsonl"):
        (today.home / file).write_bytes(rows)
    (today.home / "request.json").write_text('{"query": "async"}\n')
    (today.home / "src").mkdir()
    (today.home / "src/plan.txt").write_text("TODO: begin\n")
    grants = json.loads((today.config / "consent.json").read_bytes())["grants"]
    today.consent(*grants, {"family": "files", "path": str(today.home / "src")})
    done = _bash(today, line)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr

"""An earlier lspipe, this one, and the earlier one again, over one home: what each keeps stays readable to the other.

The earlier one is the last release, by its tag; where there is none, the oldest commit with all that is needed here.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import support
from support import Home

NEEDED = ("ls-history", "ls-rg", "ls-query", "ls-show", "ls-consent", "ls-ps", "ls-clean")
SETTINGS = "[query]\nlimit = 2\n"


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(support.ROOT), *words], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no git checkout")
    return done.stdout


def earlier() -> str:
    """The commit to come from."""
    tags = git("tag", "--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-version:refname").split()
    if tags:
        return tags[0]
    for commit in git("log", "--reverse", "--format=%H", "--", "pyproject.toml").split():
        scripts = git("show", f"{commit}:pyproject.toml")
        if all(re.search(rf"^{name} = ", scripts, re.MULTILINE) for name in NEEDED):
            return commit
    return "HEAD"  # With a history of one commit it is this one.


def wheel(source: Path, into: Path) -> Path:
    done = subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", into, source],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found, = into.glob("*.whl")
    return found


class Installed:
    """One environment in which now this, now that wheel is installed. What lspipe depends on is where it is here."""

    def __init__(self, folder: Path, wheels: dict[str, Path]) -> None:
        venv.create(folder, with_pip=True)
        self.bin = folder / "bin"
        self.wheels = wheels
        (site,) = folder.glob("lib/python*/site-packages")
        # A plain path: the .pth files in that folder, and with them a checkout that is installed there, do not count.
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, which: str) -> None:
        done = subprocess.run(
            [self.bin / "python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall",
             self.wheels[which]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        where = subprocess.run([self.bin / "python", "-I", "-c", "import lspipe; print(lspipe.__file__)"], text=True,
                               capture_output=True).stdout
        assert where.startswith(str(self.bin.parent)), where

    def run(self, home: Home, name: str, *args: str) -> support.Done:
        done = subprocess.run([self.bin / name, *args], env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=support.PATIENCE)
        return support.Done(done.returncode, done.stdout, done.stderr)

    def killed(self, home: Home) -> None:
        """Leave a dead run behind."""
        before = set(home.runs)
        reader, writer = support.full_pipe()
        with subprocess.Popen([self.bin / "ls-history", "async"], env=home.env(), cwd=home.home, stdout=writer,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            os.close(writer)
            support.until(lambda: set(home.runs) - before and support.waits_on(process.pid, 1), "it writes", process)
            process.send_signal(signal.SIGKILL)
        os.close(reader)
        assert set(home.runs) - before


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("upgrade")
    then, now = folder / "then", folder / "now"
    then.mkdir()
    archive = folder / "then.tar"
    git("archive", "--format=tar", f"--output={archive}", earlier())
    with tarfile.open(archive) as tar:
        tar.extractall(then, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(then)
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(support.ROOT, now, symlinks=True, ignore=left_out)
    wheels = {}
    for which, source in (("then", then), ("now", now)):
        (folder / f"{which}-wheel").mkdir()
        wheels[which] = wheel(source, folder / f"{which}-wheel")
    yield Installed(folder / "venv", wheels)


def grants(home: Home) -> list[str]:
    return [grant.get("path", grant["family"]) for grant in
            orjson.loads((home.config / "consent.json").read_bytes())["grants"]]


def works(one: Installed, home: Home, expected: list[str]) -> None:
    """It reads the grants and the settings, finds, and removes what a killed run has left, whoever's it was."""
    listed = one.run(home, "ls-consent", "list", "--json")
    assert (listed.code, listed.err) == (0, b"")
    assert [grant["path"] for grant in listed.rows[0]["grants"]] == expected
    for name, args in (("ls-history", ["async"]), ("ls-rg", ["async", str(home.home / "notes")])):
        done = one.run(home, name, *args)
        assert (done.code, done.err) == (0, b"") and done.rows, name
    answer = one.run(home, "ls-query", "--jsonl", "async")
    assert answer.code == 0 and len(answer.rows) == 2, "the limit of config.toml"
    assert one.run(home, "ls-ps").code == 0
    cleaned = one.run(home, "ls-clean", "--apply")
    assert cleaned.code == 0, cleaned.err
    assert home.runs == []


def test_there_and_back(installed: Installed, home: Home) -> None:
    (home.home / "more").mkdir()
    (home.home / "again").mkdir()
    rows = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*rows, *({"family": "files", "path": str(home.home / name)} for name in ("more", "again")))
    (home.config / "config.toml").write_text(SETTINGS)
    (home.config / "config.toml").chmod(0o600)
    expected = grants(home)
    for which, gone in (("then", "more"), ("now", "again"), ("then", None)):
        installed.install(which)
        works(installed, home, expected)  # Also the run that the one before has left.
        if gone is not None:  # It writes the file in its own way.
            done = installed.run(home, "ls-consent", "revoke", str(home.home / gone))
            assert done.code == 0, done.err
            expected = [path for path in expected if path != str(home.home / gone)]
            assert grants(home) == expected
        installed.killed(home)
    assert (home.config / "config.toml").read_text() == SETTINGS
    assert len(expected) == 3
    assert installed.run(home, "ls-clean", "--apply").code == 0

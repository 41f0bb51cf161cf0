"""The ways to run it: from the checkout, editable, as a wheel without development packages, and from an sdist.

These tests fetch the packages that lspipe depends on, as an installation does.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import support

ARCHIVE = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "Makefile", "CHANGELOG.md", "CONTRIBUTING.md")
FOLDERS = ("bin", "lspipe", "schemas", "tests", "examples", "benchmarks")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, symbolic links kept."""
    folder = tmp_path_factory.mktemp("source") / "lspipe"
    folder.mkdir()
    for name in ARCHIVE:
        shutil.copy2(support.ROOT / name, folder / name)
    for name in FOLDERS:
        shutil.copytree(support.ROOT / name, folder / name, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return folder


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """stdout of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist, and the wheel that is built from it and not from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source)
    return folder


def make_venv(folder: Path, *what: str | Path) -> Path:
    """A new environment with `what` installed; its bin folder."""
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "-q", "--no-cache-dir", *what)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel_bin(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and what it depends on, and nothing else."""
    wheel, = dist.glob("*.whl")
    return make_venv(tmp_path_factory.mktemp("wheel"), wheel)


@pytest.fixture(scope="module")
def editable(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    yield make_venv(tmp_path_factory.mktemp("editable"), "-e", source), source


def works(bin_folder: Path, home: support.Home) -> None:
    """Every executable says its version and its help, and the main job gives rows."""
    env = {**home.env(), "PATH": f"{bin_folder}:/usr/bin:/bin"}
    elsewhere = home.home
    for one in support.executables():
        program = bin_folder / one.name
        assert run(program, "--version", cwd=elsewhere, env=env).startswith(one.name + " ")
        assert one.cli.summary.split()[0] in run(program, "--help", cwd=elsewhere, env=env)
    assert "Cancellation" in run(bin_folder / "ls-query", "--source", "history", "async cancellation", cwd=elsewhere,
                                 env=env)
    assert '"$id": "urn:lspipe:row:1"' in run(bin_folder / "ls-history", "--schema", cwd=elsewhere, env=env)
    assert home.runs == []


def test_wheel_in_a_clean_environment(wheel_bin: Path, home: support.Home) -> None:
    works(wheel_bin, home)
    packages = run(wheel_bin / "python", "-m", "pip", "list", "--format=freeze").lower()
    assert "pytest" not in packages and "hypothesis" not in packages


def test_editable_follows_the_checkout(editable: tuple[Path, Path], home: support.Home) -> None:
    bin_folder, source = editable
    works(bin_folder, home)
    module = source / "lspipe/commands/check.py"
    module.write_text(module.read_text().replace('"""Check rows', '"""Verify rows', 1))
    assert "Verify rows" in run(bin_folder / "ls-check", "--help", cwd=home.home, env=home.env())


def test_checkout_links_work_from_anywhere(home: support.Home, tmp_path: Path) -> None:
    foreign = tmp_path / "ls-check"
    foreign.symlink_to(support.BIN / "ls-check")
    env = {**home.env(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    assert run(foreign, "--version", cwd=home.home, env=env).startswith("ls-check ")


def test_checkout_without_packages_says_what_to_do(home: support.Home, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    done = subprocess.run([tmp_path / "empty/bin/python", support.BIN / "ls-check"], env=home.env(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 5
    assert "make .venv" in done.stderr and "Traceback" not in done.stderr


def test_what_the_archives_hold(dist: Path) -> None:
    wheel, = dist.glob("*.whl")
    sdist, = dist.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    here = {str(path.relative_to(support.ROOT)) for path in (support.ROOT / "lspipe").rglob("*.py")}
    here |= {f"lspipe/schemas/{path.name}" for path in (support.ROOT / "schemas").glob("*.json")}
    assert here <= in_wheel
    assert not any(name.startswith(("tests/", "bin/")) for name in in_wheel)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"schemas/row.schema.json", "bin/ls-query", "tests/conftest.py", "README.md", "LICENSE"} <= names
    assert not any(os.path.basename(name).endswith(".pyc") for name in names | in_wheel)

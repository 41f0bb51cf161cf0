"""One list of executables in five places: pyproject.toml, bin/, the modules, the golden pairs, the README."""

import os
import re
import stat

import pytest
import support

README = support.ROOT / "README.md"
NAMES = set(support.scripts())


def test_every_executable_can_be_imported() -> None:
    for one in support.executables():
        assert callable(one.tool), one.name
        assert one.tool.name == one.name
        assert one.kind in ("source", "transform", "sink", "porcelain")


@pytest.mark.parametrize("one", support.executables(), ids=str)
def test_a_name_leads_to_its_module(one: support.Executable) -> None:
    assert re.fullmatch(r"ls-[a-z]+", one.name)
    assert one.target == f"lspipe.commands.{one.name.removeprefix('ls-')}:main"


def test_scripts_are_the_modules() -> None:
    modules = {path.stem for path in (support.ROOT / "lspipe" / "commands").glob("*.py")} - {"__init__"}
    assert {name.removeprefix("ls-") for name in NAMES} == modules


def test_scripts_are_the_links_in_bin() -> None:
    assert {path.name for path in support.BIN.iterdir()} == NAMES


def test_bin_holds_one_launcher_and_relative_links_to_it() -> None:
    files = [path for path in support.BIN.iterdir() if not path.is_symlink()]
    assert len(files) == 1
    launcher = files[0]
    assert launcher.stat().st_mode & stat.S_IXUSR
    assert launcher.read_text().startswith("#!/usr/bin/env python3\n")
    assert len(launcher.read_text().splitlines()) <= 20
    for path in support.BIN.iterdir():
        if path != launcher:
            assert os.readlink(path) == launcher.name


def test_scripts_have_a_typical_golden_pair() -> None:
    assert {pair.name for pair in support.goldens() if pair.case == "typical"} == NAMES


def test_golden_files_belong_to_a_pair_of_an_executable() -> None:
    pairs = {str(pair) for pair in support.goldens()}
    for file in support.GOLDEN.glob("*--*"):
        assert file.stem in pairs, f"{file.name} has no .args"
        assert file.suffix in (".args", ".in", ".out", ".err", ".code"), file.name
    assert {pair.name for pair in support.goldens()} <= NAMES


@pytest.mark.skipif(not README.exists(), reason="no README.md yet")
def test_the_readme_lists_the_executables_with_their_class_and_summary() -> None:
    rows = re.findall(r"^\| *`(ls-[a-z]+)` *\| *(\w+) *\| *(.+?) *\|$", README.read_text(), re.MULTILINE)
    assert [name for name, _, _ in rows] == sorted({name for name, _, _ in rows}, key=[n for n, _, _ in rows].index)
    assert {name: (kind, summary) for name, kind, summary in rows} == {
        one.name: (one.kind, one.cli.summary) for one in support.executables()
    }


def test_the_schemas_of_the_package_are_the_ones_of_the_project() -> None:
    link = support.ROOT / "lspipe" / "schemas"
    assert link.is_symlink() and os.readlink(link) == "../schemas"


def test_every_package_is_listed() -> None:
    import tomllib

    with open(support.ROOT / "pyproject.toml", "rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    folders = {path.parent for path in (support.ROOT / "lspipe").rglob("*.py")}
    found = {".".join(folder.relative_to(support.ROOT).parts) for folder in folders} | {"lspipe.schemas"}
    assert listed == found


def test_the_stages_of_the_pipeline_are_registered() -> None:
    pipeline = pytest.importorskip("lspipe.pipeline", reason="no pipeline yet")
    for name, module in pipeline.STAGES.items():
        assert support.scripts().get(name) == f"lspipe.commands.{module}:main", name

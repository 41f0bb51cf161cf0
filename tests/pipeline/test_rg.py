"""ls-rg against the real ripgrep: the same matches, whatever the tree and the pattern; and every trap on the way."""

import base64
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
import support
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lspipe import matching, rgrecords, row, schema, urls, words

SCHEMA = schema.load("row")
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
AS_ROOT = os.geteuid() == 0


def rg() -> str:
    found = support.folder_of("rg")
    if found is None:
        pytest.skip("there is no rg on this machine")
    return os.path.join(found, "rg")


@pytest.fixture
def place(bare: support.Home) -> support.Home:
    """A home with a granted, empty folder `tree`, which is the working directory of what runs."""
    rg()
    (bare.home / "tree").mkdir()
    bare.consent({"family": "files", "path": str(bare.home / "tree")})
    return bare


def write(home: support.Home, **files: str | bytes) -> Path:
    """Files in the tree; `__` in a name is a folder, `_` a dot."""
    tree = home.home / "tree"
    for name, data in files.items():
        path = tree / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return tree


def found(home: support.Home, *args: str | bytes, code: int = 0, **how: Any) -> list[dict[str, Any]]:
    """The rows of a run in the tree that ends with `code`; without trouble, nothing is said."""
    done = home.run("ls-rg", *args, cwd=how.pop("cwd", home.home / "tree"), **how)
    assert done.code == code, done.err
    if code == 0:
        assert done.err == b""
    assert home.runs == []
    for one in done.rows:
        assert list(support.strangers(SCHEMA, one)) == []
    return done.rows


def path_of(one: dict[str, Any]) -> bytes:
    where = one["location"]
    path = os.fsencode(where["path"]) if "path" in where else base64.b64decode(where["path_b64"])
    assert urls.file_path(one["url"]) == path
    return path


def names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [one["title"] for one in rows]


def places(rows: Sequence[dict[str, Any]]) -> list[tuple[bytes, int, int]]:
    return [(path_of(one), one["location"]["line"], one["location"]["column"]) for one in rows]


def of_rg(home: support.Home, *args: str, folder: Path | None = None) -> tuple[list[tuple[bytes, int, int]], int]:
    """What rg itself finds in the tree, as `places` has it; and its exit code."""
    tree = folder or home.home / "tree"
    done = subprocess.run([rg(), "--json", "--no-config", "--sort=path", *args, str(tree)], capture_output=True,
                          cwd=tree, stdin=subprocess.DEVNULL)
    result = []
    for line in done.stdout.splitlines():
        message = orjson.loads(line)
        if message["type"] == "match":
            data = message["data"]
            path = data["path"]
            raw = os.fsencode(path["text"]) if "text" in path else base64.b64decode(path["bytes"])
            start = data["submatches"][0]["start"] if data["submatches"] else 0
            result.append((raw, data["line_number"], start + 1))
    return result, done.returncode


# The same matches

NAMES = st.sampled_from([b"a", b"b.txt", b"B.md", b"a-b", b".hidden", b"bad\xff", b"new\nline", "é".encode(), b"c.py"])
FOLDERS = st.sampled_from([b"", b"", b"sub", b"sub/deep", b".git", b"a.d"])
CONTENTS = st.lists(st.one_of(
    st.text(alphabet="ab .-*\\(é日ſK\r\t", max_size=12).map(str.encode), st.binary(max_size=8),
), max_size=8).map(b"\n".join)
PATTERNS = st.one_of(
    st.text(alphabet="ab .*?+\\()[]{}|^$-é日K\r", min_size=1, max_size=6),
    st.sampled_from(["--pre=x", "-e", "-", "--", "(?i)B", r"\bab\b", r"[^\n]", r"\p{L}", "a{2,}", r"(?-u:\xff)", "x*",
                     "^$", "^"]),
)


@FEW
@given(files=st.dictionaries(st.tuples(FOLDERS, NAMES), CONTENTS, max_size=6),
       patterns=st.lists(PATTERNS, min_size=1, max_size=2),
       fixed=st.booleans(), ignore_case=st.booleans(), hidden=st.booleans())
def test_the_matches_are_those_of_rg(tmp_path_factory: pytest.TempPathFactory, files: dict[tuple[bytes, bytes], bytes],
                                     patterns: list[str], fixed: bool, ignore_case: bool, hidden: bool) -> None:
    home = support.Home(tmp_path_factory.mktemp("case"))
    tree = home.home / "tree"
    tree.mkdir()
    home.consent({"family": "files", "path": str(tree)})
    for (folder, name), data in files.items():
        where = os.path.join(os.fsencode(tree), folder)
        os.makedirs(where, exist_ok=True)
        with open(os.path.join(where, name), "wb") as file:
            file.write(data)
    switches = [flag for flag, on in (("-F", fixed), ("-i", ignore_case), ("--hidden", hidden)) if on]
    given_patterns = [word for pattern in patterns for word in ("-e", pattern)]
    expected, code = of_rg(home, *switches, *given_patterns)
    done = home.run("ls-rg", *switches, *given_patterns, str(tree))
    if code == 2 and not expected:
        assert done.code == 2 and done.out == b"", done.err
        support.assert_one_line(done.err, "ls-rg")
    else:
        assert done.code == 0, done.err
        assert places(done.rows) == expected


@pytest.mark.parametrize("args", [
    ["needle"], ["-F", "n.e"], ["-i", "NEEDLE"], ["-g", "*.py", "needle"], ["-g", "!*.py", "needle"],
    ["-g", "sub/*.md", "needle"], ["-g", "/a.py", "needle"], ["-t", "py", "needle"], ["-t", "py", "-t", "md", "needle"],
    ["--hidden", "needle"], ["--no-ignore", "needle"], ["-e", "other", "-e", "needle"], ["-e", "-needle"],
    ["-i", "-g", "*.py", "--hidden", "--no-ignore", "needle"],
], ids=" ".join)
def test_options_are_those_of_rg(place: support.Home, args: list[str]) -> None:
    tree = write(place, a_py="a needle\nNeedle\nnie\n", sub__b_md="needle\n-needle\n",
                 sub__deep__c_py="other\nneedle\n", _hidden_py="needle\n", ignored_py="needle\n",
                 _ignore="ignored.py\n", z="n.e needle")
    expected, _ = of_rg(place, *args)
    assert expected
    assert places(found(place, *args)) == expected
    assert places(found(place, *args, str(tree))) == expected


def test_ignore_files_of_git_count_in_a_repository_alone(place: support.Home) -> None:
    tree = write(place, a_log="needle\n", b_txt="needle\n", _gitignore="*.log\n")
    assert names(found(place, "needle")) == ["a.log", "b.txt"]
    (tree / ".git").mkdir()
    assert names(found(place, "needle")) == ["b.txt"]
    assert names(found(place, "--no-ignore", "needle")) == ["a.log", "b.txt"]


def test_an_ignore_file_between_the_grant_and_the_path_counts(place: support.Home) -> None:
    tree = write(place, _ignore="*.log\n", sub__a_log="needle\n", sub__b_txt="needle\n", sub___rgignore="c*\n",
                 sub__c_txt="needle")
    assert names(found(place, "needle", "sub")) == ["b.txt"]
    assert places(found(place, "needle", "sub")) == of_rg(place, "needle", folder=tree / "sub")[0]


def test_an_ignore_file_above_the_grant_does_not_count_and_the_report_says_so(place: support.Home) -> None:
    write(place, a_log="needle\n")
    (place.home / ".ignore").write_text("*.log\n")
    report = place.root / "report"
    assert names(found(place, "--report", str(report), "needle")) == ["a.log"]
    assert "ignore files above" in orjson.loads(report.read_bytes())["notes"][0]


def test_an_ignore_file_that_is_a_link_out_of_the_grant_is_not_read(place: support.Home) -> None:
    tree = write(place, sub__a_log="needle\n")
    (place.home / "secret").write_text("*.log\n")
    (tree / ".ignore").symlink_to(place.home / "secret")
    assert names(found(place, "needle", "sub")) == ["a.log"]


def test_the_order_is_by_path_folder_by_folder_and_by_line(place: support.Home) -> None:
    write(place, a__x="n\nn\n", a_txt="n\n", Z="n\n", b__c__d="n\n", b__a="n\n")
    rows = found(place, "n")
    assert [(one["location"]["path"].partition("/tree/")[2], one["location"]["line"]) for one in rows] == [
        ("Z", 1), ("a/x", 1), ("a/x", 2), ("a.txt", 1), ("b/a", 1), ("b/c/d", 1)]
    assert [one["rank"] for one in rows] == [1, 2, 3, 4, 5, 6]
    assert len({one["id"] for one in rows}) == 6
    assert found(place, "n") == rows


def test_operands_that_overlap_give_each_line_once(place: support.Home) -> None:
    tree = write(place, sub__a="n\n", b="n\n")
    (tree / "link").symlink_to("sub")
    for args in (["sub", ".", "sub/a"], [".", "."], ["link", "."]):
        assert names(found(place, "n", *args)) == ["b", "a"]
    assert names(found(place, "n", "link/a", "sub")) == ["a"]


def test_a_row_a_file(place: support.Home) -> None:
    write(place, a="x\nneedle 1\nneedle 2\n", b="needle\n", c="x\n")
    rows = found(place, "-l", "-C3", "needle")
    assert [(one["title"], one["location"]["line"], one["snippet"]) for one in rows] == [
        ("a", 2, "needle 1"), ("b", 1, "needle")]
    assert rows[0]["id"] == row.identify("files", None, None, rows[0]["url"])
    assert all("text" not in one for one in rows)


def test_context_is_text(place: support.Home) -> None:
    write(place, a="1\n2\nneedle\n4\nneedle\n6\n7\n")
    rows = found(place, "-C1", "needle")
    assert [one["text"] for one in rows] == ["2\nneedle\n4", "4\nneedle\n6"]
    assert [one["snippet"] for one in rows] == ["needle", "needle"]
    assert all("text" not in one for one in found(place, "-C1", "--max-chars", "0", "needle"))
    assert [len(one["text"]) for one in found(place, "-C1", "--max-chars", "5", "needle")] == [5, 5]


def test_what_a_row_says(place: support.Home) -> None:
    write(place, notes_md="\tA  needle, a needle\n")
    os.utime(place.home / "tree/notes.md", (0, 1_700_000_000))
    (one,) = found(place, "needle")
    path = str(place.home / "tree/notes.md")
    assert one == {
        "id": row.identify("files", None, None, "file://" + path, "1:5"), "source": "files", "rank": 1,
        "title": "notes.md", "url": "file://" + path, "snippet": "A needle, a needle",
        "accessed_at": "2023-11-14T22:13:20.000000Z", "location": {"path": path, "line": 1, "column": 5},
        "provenance": {"retriever": "files", "method": "ripgrep", "acl": "authorized", "private": True},
        "meta": {"pattern": "needle", "matches": ["needle", "needle"]},
    }


def test_since_and_until_are_about_the_last_change(place: support.Home) -> None:
    tree = write(place, old="n", new="n")
    os.utime(tree / "old", (0, 1_700_000_000))
    os.utime(tree / "new", (0, 1_784_600_000))
    now = ["--now", support.NOW]
    assert names(found(place, *now, "--since", "7d", "n")) == ["new"]
    assert names(found(place, *now, "--until", "2025-01-01", "n")) == ["old"]
    assert names(found(place, *now, "--words", "--since", "7d", "n")) == ["new"]


# Patterns that are traps


@pytest.mark.parametrize("pattern", [
    "--pre=./canary", "-", "--", "--files", "-f/etc/passwd", "--hostname-bin=./canary"])
def test_a_pattern_never_becomes_an_option(place: support.Home, pattern: str) -> None:
    tree = write(place, a=f"x {pattern} y\n", canary="#!/bin/sh\ntouch ran\n")
    (tree / "canary").chmod(0o755)
    for args in (["-F", "-e", pattern, "."], ["-F", "-e", pattern], ["-F", "--", pattern, "."],
                 ["-e", re.escape(pattern)]):
        assert names(found(place, *args)) == ["a"], args
    done = place.run("ls-rg", pattern, ".", cwd=tree)
    assert done.code in (0, 2)
    assert not (tree / "ran").exists()


def test_a_configuration_of_rg_is_not_read(place: support.Home) -> None:
    tree = write(place, a="needle\n", canary="#!/bin/sh\ntouch ran\n", config="--pre=./canary\n--invert-match\n")
    (tree / "canary").chmod(0o755)
    env = place.env(RIPGREP_CONFIG_PATH=str(tree / "config"), RUST_LOG="debug")
    assert names(found(place, "needle", env=env)) == ["a"]
    assert not (tree / "ran").exists()


def test_a_path_that_looks_like_an_option(place: support.Home) -> None:
    tree = write(place)
    (tree / "--pre=x").write_text("needle\n")
    assert names(found(place, "needle", "--", "--pre=x")) == ["--pre=x"]


@pytest.mark.parametrize(("args", "message"), [
    ([], b"there is no PATTERN"),
    ([""], b"the pattern is empty"), (["-e", ""], b"the pattern is empty"), (["-F", "-e", "a", "-e", ""], b"empty"),
    (["--words", " "], b"the query is empty"),
    (["a\nb"], b"a line break is not allowed"), (["-F", "a\nb"], b"a line break is not allowed"),
    (["a("], b"regex parse error: unclosed group"), (["a{2"], b"regex parse error"),
    (["(?<=a)b"], b"look-around"), ([r"a\nb"], b"is not allowed in a regex"),
    (["-t", "nonsense", "a"], b"unrecognized file type: nonsense"), (["-g", "{a", "a"], b"error parsing glob"),
    ([b"a\xff"], b"found invalid UTF-8"), (["-C", "-1", "a"], b"-C"),
    (["--all-terms", "a"], b"--all-terms goes with --words"), (["--words", "-e", "a"], b"-e does not go with --words"),
    (["--words", "-l", "a"], b"-l does not go with --words"), (["a", ""], b"an empty PATH"),
])
def test_words_that_are_wrong(place: support.Home, args: list[str | bytes], message: bytes) -> None:
    write(place, a="a\n")
    done = place.run("ls-rg", *args, cwd=place.home / "tree")
    assert done.code == 2 and done.out == b""
    support.assert_one_line(done.err, "ls-rg")
    assert message in done.err


def test_a_carriage_return_at_the_end_of_a_pattern(place: support.Home) -> None:
    write(place, a="x\r\nx\ny\r\n")
    assert [one["location"]["line"] for one in found(place, "x\r")] == [1]
    assert [one["location"]["line"] for one in found(place, "-F", "-e", "y\r", "-e", "q")] == [3]


# What may be read


def test_no_consent(bare: support.Home) -> None:
    rg()
    (bare.home / "my notes").mkdir()
    done = bare.run("ls-rg", "x", "my notes")
    assert (done.code, done.out) == (5, b"")
    assert done.err.decode().splitlines() == [f"ls-rg: cannot read '{bare.home}/my notes': no consent",
                                              f"ls-consent grant files '{bare.home}/my notes'"]
    assert bare.run("ls-rg", "x").err.decode().splitlines()[1] == f"ls-consent grant files {bare.home}"


def test_one_of_several_is_not_granted(place: support.Home) -> None:
    write(place, a="needle\n")
    (place.home / "other").mkdir()
    (place.home / "other/b").write_text("needle\n")
    done = place.run("ls-rg", "needle", "tree", "other")
    assert done.code == 7 and names(done.rows) == ["a"]
    support.assert_one_line(done.err, "ls-rg")
    assert f"ls-consent grant files {place.home}/other".encode() in done.err


@pytest.mark.parametrize("missing", ["none", "a/none", "../none", "none/" * 3 + "x"])
def test_a_named_path_does_not_exist(place: support.Home, missing: str) -> None:
    write(place, a="needle\n")
    done = place.run("ls-rg", "needle", ".", missing, cwd=place.home / "tree")
    assert done.code == 3 and names(done.rows) == ["a"]
    support.assert_one_line(done.err, "ls-rg")
    done = place.run("ls-rg", "needle", missing, cwd=place.home / "tree")
    assert (done.code, done.out) == (3, b"")
    support.assert_one_line(done.err, "ls-rg")


def test_above_the_grants_the_granted_part_is_searched(place: support.Home) -> None:
    write(place, a="needle\n")
    (place.home / "secret").write_text("needle\n")
    for done in (place.run("ls-rg", "needle", cwd=place.home), place.run("ls-rg", "needle", str(place.home))):
        assert done.code == 0 and names(done.rows) == ["a"]
        assert b"only as far as granted" in done.err


def test_a_link_out_of_the_grant_is_no_way_out(place: support.Home) -> None:
    tree = write(place, a="needle\n")
    (place.home / "secret").write_text("needle\n")
    (tree / "link").symlink_to("../secret")
    (tree / "all").symlink_to("..")
    assert names(found(place, "needle")) == ["a"]
    for operand in ("link", "all/secret"):
        done = place.run("ls-rg", "needle", operand, cwd=tree)
        assert (done.code, done.out) == (5, b"") and b"secret': no consent" in done.err
    (place.home / "way").symlink_to("tree")
    assert places(found(place, "needle", "way", cwd=place.home)) == places(found(place, "needle"))


def test_a_public_grant_makes_public_rows(place: support.Home) -> None:
    write(place, open__a="n", b="n")
    tree = place.home / "tree"
    place.consent({"family": "files", "path": str(tree)},
                  {"family": "files", "path": str(tree / "open"), "public": True})
    for args in (["n"], ["--words", "n"]):
        rows = found(place, *args)
        assert {one["title"]: one["provenance"]["private"] for one in rows} == {"a": False, "b": True}


def test_fifos_and_devices(place: support.Home) -> None:
    tree = write(place, a="needle\n")
    os.mkfifo(tree / "fifo")
    assert names(found(place, "needle")) == ["a"]
    for args, rows in ((["fifo"], []), (["a", "fifo"], ["a"]), (["/dev/zero", "a"], ["a"]), (["/dev/stdin"], [])):
        done = place.run("ls-rg", "needle", *args, cwd=tree)
        assert done.code == 7 and names(done.rows) == rows
        support.assert_one_line(done.err, "ls-rg")
        assert b"neither a file nor a folder" in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no limit of data that is heeded")
def test_what_is_beside_a_file_that_takes_too_much_memory_is_found(place: support.Home) -> None:
    """One line of 130 MB: rg, whose data are limited here, keeps all of it several times."""
    tree = write(place, a="needle first\n", z="needle last\n")
    (tree / "m").write_bytes(b"needle " * (18 << 20) + b"\n")
    limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (600 << 20, 600 << 20))  # noqa: E731
    for args in (["--words", "needle"], ["needle"]):
        done = place.run("ls-rg", *args, "tree", before=limit)
        assert (done.code, sorted(names(done.rows))) == (7, ["a", "z"]), done.err
        assert done.err == b"ls-rg: files above 16 MiB were left out: rg needed more memory than it may have\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no limit of data that is heeded")
def test_a_sparse_ignore_file_takes_no_memory_without_end(place: support.Home) -> None:
    """1 GiB that is nowhere on the disk: without a limit rg takes 13 times that."""
    tree = write(place, a="needle\n")
    with (tree / ".ignore").open("wb") as file:
        file.truncate(1 << 30)
    done = place.run("ls-rg", "needle", "tree")
    assert done.code == 4 and b"rg needed more memory than it may have" in done.err


@pytest.mark.parametrize("name", [".ignore", ".rgignore"])
def test_an_ignore_file_that_is_a_fifo_is_named(place: support.Home, name: str) -> None:
    """ripgrep waits for its writer; whoever waits for ripgrep is told what it waits for."""
    tree = write(place, a="needle\n", below__b="needle\n")
    os.mkfifo(tree / "below" / name)
    done = place.run("ls-rg", "--timeout", "6s", "needle", "tree")
    assert done.code in (6, 7) and names(done.rows) in ([], ["a"])
    lines = done.err.decode().splitlines()
    assert lines[:2] == [f"ls-rg: rg may be waiting for '{tree}/below/{name}', a FIFO in the place of an ignore file",
                         "remove it, or search with --no-ignore"]
    assert names(found(place, "--no-ignore", "needle")) == ["a", "b"]


@pytest.mark.skipif(AS_ROOT, reason="root reads everything")
def test_an_unreadable_file_among_good_ones(place: support.Home) -> None:
    tree = write(place, a="needle\n", b="needle\n", c="needle\n", d__e="needle\n")
    (tree / "b").chmod(0)
    (tree / "d").chmod(0)
    done = place.run("ls-rg", "needle", cwd=tree)
    (tree / "d").chmod(0o700)
    assert done.code == 7 and names(done.rows) == ["a", "c"]
    assert sorted(done.err.decode().splitlines()) == [
        f"ls-rg: cannot read '{tree}/b': permission denied", f"ls-rg: cannot read '{tree}/d': permission denied"]


def test_a_working_directory_that_is_gone(place: support.Home) -> None:
    tree = write(place, a="needle\n")
    (tree / "gone").mkdir()

    def leave() -> None:
        os.chdir(tree / "gone")
        os.rmdir(tree / "gone")

    assert names(found(place, "needle", str(tree), before=leave)) == ["a"]
    (tree / "gone").mkdir()
    done = place.run("ls-rg", "needle", cwd=tree, before=leave)
    assert (done.code, done.out) == (5, b"")
    support.assert_one_line(done.err, "ls-rg")


# Names and contents


@pytest.mark.parametrize("name", [
    b"bad\xff", b"new\nline", b" ", b"%41#?", "e\u0301\u202e".encode(), b"-x", b"\x1b[31m"])
def test_names(place: support.Home, name: bytes) -> None:
    tree = os.fsencode(write(place))
    with open(os.path.join(tree, name), "wb") as file:
        file.write(b"needle\n")
    for args in (["needle"], ["needle", b"--", os.path.join(tree, name)], ["--words", "needle"]):
        (one,) = found(place, *args)
        assert path_of(one) == os.path.join(tree, name)
        assert ("path_b64" in one["location"]) == (b"\xff" in name)


def test_nothing_raw_reaches_the_terminal(place: support.Home) -> None:
    tree = write(place, a="\x1b]0;x\x07 needle \u202e\x9b\n")
    os.rename(tree / "a", os.fsencode(tree) + b"/\x1b[31m")
    for args in (["needle"], ["--words", "needle"]):
        out = place.run("ls-rg", *args, cwd=tree).out
        assert out and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae", out)


def test_binary_files(place: support.Home) -> None:
    tree = write(place, early=b"\0 needle\n", late=b"needle\n" * 20_000 + b"\0\nneedle\n", text="needle\n")
    for operand in (".", "early", "late"):
        argv = [rg(), "--no-mmap", "--json", "--no-config", "--sort=path", "needle", str(tree / operand)]
        done = subprocess.run(argv, capture_output=True)
        assert len(found(place, "needle", operand)) == done.stdout.count(b'"type":"match"') > 0
    assert names(found(place, "-l", "needle")) == ["late", "text"]
    report = place.root / "report"
    found(place, "--report", str(report), "--words", "needle")
    assert orjson.loads(report.read_bytes())["counts"] == {
        "binary_files": 1, "files_searched": 3, "files_with_matches": 2}


def test_line_ends_and_encodings(place: support.Home) -> None:
    write(place, crlf=b"a\r\nneedle\r\n", utf16=b"\xff\xfe" + "x\ncafé needle\n".encode("utf-16-le"),
          bom=b"\xef\xbb\xbfneedle\n", latin=b"caf\xe9 needle\n", open=b"needle")
    rows = found(place, "needle")
    assert [(one["title"], one["location"]["line"], one["location"]["column"], one["snippet"]) for one in rows] == [
        ("bom", 1, 1, "needle"), ("crlf", 2, 1, "needle"), ("latin", 1, 6, "caf\ufffd needle"),
        ("open", 1, 1, "needle"), ("utf16", 2, 7, "café needle")]
    assert found(place, "needle$", "crlf") == []


_PEAK = """
import os, resource, sys
sys.path.insert(0, sys.argv.pop(1))
from lspipe import runner
from lspipe.commands import rg
code = runner.execute(rg.main, sys.argv[1:])
os.write(2, b"%d" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
sys.exit(code)
"""


def peak(home: support.Home, *args: str) -> tuple[list[dict[str, Any]], int]:
    """The rows, and the most memory that ls-rg itself held, in bytes (rg holds much more, on its own account)."""
    done = subprocess.run([sys.executable, "-c", _PEAK, str(support.ROOT), *args], cwd=home.home / "tree",
                          env=home.env(), capture_output=True, check=True)
    return [orjson.loads(line) for line in done.stdout.splitlines()], int(done.stderr)


@pytest.mark.parametrize(("args", "columns"), [
    (["needle"], (5_000_002, 1)), (["-C1", "needle"], (5_000_002, 1)), (["x"], (1, 8)), ([".*"], (1, 1))], ids=str)
def test_a_line_of_ten_megabytes(place: support.Home, args: list[str], columns: tuple[int, int]) -> None:
    write(place, a=b"x" * 5_000_000 + b" needle " + b"y" * 5_000_000 + b"\nneedle x\n")
    _rows, floor = peak(place, "needle", "-n0")
    rows, most = peak(place, *args)
    assert [one["location"]["line"] for one in rows] == [1, 2]
    assert tuple(one["location"]["column"] for one in rows) == columns
    assert len(rows[0]["snippet"]) <= 300 and len(rows[0].get("text", "")) <= 2000
    if args[-1] == "needle":
        assert "needle" in rows[0]["snippet"] and "needle" in rows[0]["text"]
    assert most < floor + 6 * rgrecords.HELD


def test_a_line_that_is_longer_than_what_is_held(place: support.Home) -> None:
    write(place, a=b"start " + b"x" * (rgrecords.HELD * 2) + b" needle\nneedle\n")
    _rows, floor = peak(place, "needle", "-n0")
    rows, most = peak(place, "needle")
    assert [one["location"]["line"] for one in rows] == [1, 2]
    assert rows[0]["location"]["column"] == rgrecords.HELD * 2 + 8
    assert most < floor + 6 * rgrecords.HELD


def test_long_lines_by_words(place: support.Home) -> None:
    write(place, a=b"x" * 70_000 + b" needle " + b"y" * 3_000_000 + b"\n", b="needle\n")
    rows = found(place, "--words", "needle")
    assert {one["title"]: (one["location"]["line"], one["location"]["column"]) for one in rows} == {
        "a": (1, 70_002), "b": (1, 1)}


# How it ends


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no /proc on this system")


@pytest.fixture
def large(place: support.Home) -> support.Home:
    """A tree in which rg is not done before its reader has read."""
    write(place, **{f"f{number}": "needle and some more\n" * 3000 for number in range(40)})
    return place


def start(home: support.Home, *args: str) -> Any:
    """ls-rg, blocked on a full pipe; gives (process, read end, pid of rg)."""
    reader, writer = support.small_pipe()
    context = home.start("ls-rg", *args, str(home.home / "tree"), stdout=writer)
    process = context.__enter__()
    os.close(writer)
    support.until(lambda: children(process.pid) and support.waits_on(process.pid, 1), "rows are waiting", process)
    return context, process, reader, children(process.pid)[0]


@needs_proc
def test_the_pattern_is_in_no_argument_and_no_variable(large: support.Home) -> None:
    context, process, reader, child = start(large, "-e", "needle", "--line-buffered")
    try:
        for name in ("cmdline", "environ"):
            assert b"needle" not in Path(f"/proc/{child}/{name}").read_bytes()
        environ = Path(f"/proc/{child}/environ").read_bytes()
        assert set(re.findall(rb"(?:^|\0)([A-Z_]+)=", environ)) <= {
            b"LANG", b"LANGUAGE", b"LC_ALL", b"LC_CTYPE", b"LC_MESSAGES", b"TZ", b"PATH", b"TMPDIR", b"LSPIPE_RUN"}
        stored = b"".join(path.read_bytes() for path in (large.state / "run").rglob("*.json"))
        assert b"needle" not in stored and b'"child"' in stored
    finally:
        os.close(reader)
        process.wait(support.PATIENCE)
        context.__exit__(None, None, None)
    assert process.returncode == 0 and large.runs == [] and not os.path.exists(f"/proc/{child}")


@needs_proc
def test_a_reader_that_leaves_ends_rg(large: support.Home) -> None:
    context, process, reader, child = start(large, "needle")
    os.read(reader, 1)
    os.close(reader)
    process.wait(support.PATIENCE)
    assert process.returncode == 0 and process.stderr.read() == b""
    context.__exit__(None, None, None)
    assert large.runs == [] and not os.path.exists(f"/proc/{child}")


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_an_rg_that_dies(large: support.Home, number: int) -> None:
    context, process, reader, child = start(large, "needle")
    os.kill(child, number)
    out = support.drain(reader)
    os.close(reader)
    process.wait(support.PATIENCE)
    err = process.stderr.read()
    context.__exit__(None, None, None)
    assert process.returncode == 4
    support.assert_one_line(err, "ls-rg")
    assert f"rg was killed by signal {int(number)}".encode() in err
    assert out.endswith(b"\n") and 0 < len(out.splitlines()) < 120_000
    assert large.runs == []


@needs_proc
def test_time_is_over_and_what_was_found_is_there(large: support.Home) -> None:
    """The clock stands still while the reader takes its time, so rg has to be what does not go on."""
    context, process, reader, child = start(large, "--timeout", "300ms", "needle")
    os.kill(child, signal.SIGSTOP)
    out = support.drain(reader)
    os.close(reader)
    process.wait(support.PATIENCE)
    err = process.stderr.read()
    context.__exit__(None, None, None)
    assert process.returncode == 7 and b"time was over" in err
    assert 0 < len(out.splitlines()) < 120_000
    assert large.runs == [] and not os.path.exists(f"/proc/{child}")


def test_no_time_at_all(large: support.Home) -> None:
    for args in (["needle"], ["--words", "needle"]):
        done = large.run("ls-rg", "--timeout", "0", *args, str(large.home / "tree"))
        assert (done.code, done.out) == (6, b"")


def test_a_limit_ends_the_search(large: support.Home) -> None:
    report = large.root / "report"
    assert len(found(large, "-n3", "--report", str(report), "needle")) == 3
    assert orjson.loads(report.read_bytes())["truncated"] is True
    assert len(found(large, "--words", "-n3", "needle")) == 3


def test_rg_is_missing(place: support.Home, tmp_path: Path) -> None:
    """Also beside the interpreter, where the extra puts it: so it has to be one that stands alone."""
    write(place, a="needle\n")
    (tmp_path / "alone").mkdir()
    python = tmp_path / "alone/python"
    python.symlink_to(os.path.realpath(sys.executable))
    env = place.env(PATH="/nowhere", PYTHONPATH=os.path.dirname(os.path.dirname(click.__file__)))
    done = subprocess.run([python, support.BIN / "ls-rg", "needle", "."], cwd=place.home / "tree", env=env,
                          capture_output=True)
    assert (done.returncode, done.stdout) == (5, b"")
    support.assert_one_line(done.stderr, "ls-rg")
    assert b"apt install ripgrep" in done.stderr


def test_an_rg_that_anybody_can_replace_is_not_run(place: support.Home, tmp_path: Path) -> None:
    write(place, a="needle\n")
    fake = tmp_path / "open/rg"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    fake.chmod(0o755)
    fake.parent.chmod(0o777)
    env = place.env()
    for folder in (str(fake.parent), "tree"):
        assert names(found(place, "needle", env={**env, "PATH": folder + ":" + env["PATH"]})) == ["a"]
    assert not (tmp_path / "ran").exists()


# The query language


def lines_of(tree: Path) -> Iterator[tuple[str, int, str]]:
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            for number, line in enumerate(path.read_text().split("\n"), 1):
                yield path.name, number, line


WORDS = st.sampled_from(["rust", "async", "cafe", "café", "日本", "node.js", '"async rust"', "the", "HTTP", "ru"])
TEXTS = st.lists(st.sampled_from(
    ["rust", "Rust", "trust", "async", "asyncRust", "café", "cafe\u0301s", "日本語", "the", "node.js", "http_server",
     "async rust", "async, rust", "proﬁle", ""]), max_size=5).map(" ".join)


@FEW
@given(query=st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
       contents=st.lists(st.lists(TEXTS, max_size=4).map("\n".join), min_size=1, max_size=5))
def test_by_words_the_files_are_those_in_which_a_line_matches(
        tmp_path_factory: pytest.TempPathFactory, query: str, contents: list[str]) -> None:
    home = support.Home(tmp_path_factory.mktemp("case"))
    tree = home.home / "tree"
    tree.mkdir()
    home.consent({"family": "files", "path": str(tree)})
    for number, text in enumerate(contents):
        (tree / f"file{number}.txt").write_text(text)
    parsed = words.parse(query)
    telling = words.Query("", tuple(term for term in parsed.terms if term.key != "the") or parsed.terms)
    matcher = matching.Matcher(telling)
    expected: dict[str, set[int]] = {}
    df: dict[str, set[str]] = {term.key: set() for term in telling.wanted}
    for name, number, line in lines_of(tree):
        match = matcher.match([matching.Field("text", line)])
        if match is not None:
            expected.setdefault(name, set()).add(number)
            for term, strength in zip(telling.wanted, match.strengths, strict=True):
                if strength:
                    df[term.key].add(name)
    done = home.run("ls-rg", "--words", "--", query, str(tree))
    assert done.code == 0, done.err
    assert {one["title"]: {one["location"]["line"], *one["meta"].get("lines", [])} for one in done.rows} == expected
    for one in done.rows:
        counts = {key: len(holding) for key, holding in df.items()}
        assert one["corpus"] == [{"id": f"files:{tree}", "n": len(contents), "df": counts}]
        assert one["meta"]["line_count"] == len(expected[one["title"]])
    assert [(-one["score"], one["id"]) for one in done.rows] == sorted((-one["score"], one["id"]) for one in done.rows)
    assert [one["rank"] for one in done.rows] == list(range(1, len(done.rows) + 1))


def test_a_row_by_words(place: support.Home) -> None:
    tree = write(place, a_md="# Title\n\nOf async\nrust and async things\nasync\n", b_md="an asynchronous one\n",
                 c_md="nothing\n")
    first, second = found(place, "--words", "async rust")
    assert first["query"] == "async rust" and first["query_id"] == row.query_id("async rust")
    assert (first["title"], first["location"]["line"], first["location"]["column"]) == ("a.md", 4, 1)
    assert first["meta"] == {"line_count": 3, "lines": [3, 5]}
    assert (first["matched_terms"], second["matched_terms"]) == (["async", "rust"], ["async"])
    assert first["corpus"] == [{"id": f"files:{tree}", "n": 3, "df": {"async": 2, "rust": 1}}]
    assert first["text"] == (tree / "a.md").read_text()
    assert first["id"] == row.identify("files", None, None, first["url"])
    assert "pattern" not in first["meta"]
    assert all("text" not in one for one in found(place, "--words", "--max-chars", "0", "async rust"))


@pytest.mark.parametrize(("args", "expected"), [
    (["cafe"], ["a"]), (["CAFÉ"], ["a"]), (["ru"], ["b", "c"]), (["rust"], ["b"]), (["日本"], ["d"]), (["本"], ["d"]),
    (['"async runtime"'], ["b"]), (["async -runtime"], ["c"]), (["runtime async", "--all-terms"], ["b", "c"]),
    (["title:b async"], ["b"]), (["url:tree title:c ru"], ["c"]), (["async -title:b"], ["c"]), (["title:d"], ["d"]),
    (["-async -cafe"], ["d"]), (["site:docs.rs"], []), (["site:docs.rs rust"], []), (["!!!"], []), (["zzz"], []),
    (["-x"], ["a", "b", "c", "d"]),
], ids=str)
def test_the_query_language(place: support.Home, args: list[str], expected: list[str]) -> None:
    third = "async run\n" if "-runtime" in args[0] else "async run\nruntimes and trust\n"
    write(place, a="un café\n", b="an async runtime in rust\n", c=third, d="日本語\n")
    assert sorted(names(found(place, "--words", *args[1:], "--", args[0]))) == expected


def test_rows_by_words_are_the_same_twice(large: support.Home) -> None:
    once = large.run("ls-rg", "--words", "needle some", cwd=large.home / "tree")
    assert once.rows and once.out == large.run("ls-rg", "--words", "needle some", cwd=large.home / "tree").out


def test_several_roots_are_one_corpus(place: support.Home) -> None:
    tree = write(place, a__x="n", b__y="n", c__z="n")
    rows = found(place, "--words", "n", "b", "a")
    assert rows[0]["corpus"] == [{"id": f"files:{tree}/a:{tree}/b", "n": 2, "df": {"n": 2}}]


@pytest.mark.parametrize("words", ["cafe", "Straße", "日本"])
def test_words_do_not_depend_on_the_locale(home: support.Home, words: str) -> None:
    (home.home / "notes" / "words.md").write_text("Café, Straße, 日本語\n")
    done = [home.run("ls-rg", "--words", words, str(home.home / "notes"), env=home.env(**more))
            for more in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})]
    assert [(one.code, one.err) for one in done] == [(0, b""), (0, b"")]
    assert done[0].out == done[1].out and len(done[0].rows) == 1

"""Fuzzing of everything that reads what others wrote: rows, query words, urls, query files, settings, grants.

As many examples each as LSPIPE_FUZZ says, for a run of minutes. What once fell stays as an @example.
The readers of binary files are fuzzed beside their own tests.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import support
from hypothesis import example, given
from hypothesis import strategies as st
from sessions import fuzzed

from lspipe import (
    consent,
    inputs,
    matching,
    narrow,
    options,
    pinned,
    qmd,
    request,
    runner,
    schema,
    stream,
    urls,
    words,
)
from lspipe.exits import Exit, LspipeError

LIMITS = (0, 1, -1, 2**31, 2**53 - 1, 2**53, -(2**53), 2**63, 2**64, 10**30)
NAUGHTY = ("", " ", "\0", "-", "--", "-x", '"', "a:b:c", "site:", "title:\"", "://", "http://[", "http://[::1",
           "file://", "http://a:99999999/", "xn--", "http://xn--\u00e9/", "%", "%ff%00", "..", "/", "\u202e",
           "\U0001f468\u200d\U0001f469",
           "a\u0301" * 50, "\u0130\u0131\ufb03", "\u1100\u1161", "\U000e0041", "\r\n", "日本語", "0", "1e999",
           "NaN", "null", "2026-07-21T12:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "0000-99-99T99:99:99.000000Z",
           "7d", "-1d", "99999999999999999999d", "yesterday", "history", "all", "browser", "lexical", "/etc", "id",
           "meta.sources")
texts = st.sampled_from(NAUGHTY) | st.text(max_size=30)
numbers = st.sampled_from(LIMITS) | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8)


def shaped(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that look like those of a schema: its properties, with values that fit and others."""
    return _object(schema.load(name))


def _object(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    known = {key: _value(inner) for key, inner in node.get("properties", {}).items()}
    needed = {key: known[key] for key in node.get("required", ()) if key in known}
    most = st.fixed_dictionaries(needed, optional={key: value for key, value in known.items() if key not in needed})
    return most | st.builds(lambda one, more: {**one, **more}, most, st.dictionaries(texts, anything, max_size=2))


def _value(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    kinds = node.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fitting = [st.sampled_from(node["examples"])] if node.get("examples") else []
    if "enum" in node:
        fitting.append(st.sampled_from(node["enum"]))
    if "object" in kinds:
        fitting.append(_object(node) if node.get("properties") else st.dictionaries(texts, anything, max_size=3))
    if "array" in kinds:
        fitting.append(st.lists(_value(node.get("items", {})), max_size=3))
    if "string" in kinds and "pattern" not in node:
        fitting.append(texts)
    if "integer" in kinds or "number" in kinds:
        fitting.append(st.integers(node.get("minimum", 0), node.get("maximum", 2**53)))
    # One in some eight is anything at all.
    return st.one_of(*fitting, *fitting, anything) if fitting else anything


def as_line(value: Any) -> bytes:
    """JSON as others may write it: the standard library writes integers of any size, and NaN."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


# Rows through every transform and sink


def through(name: str, argv: list[str], lines: list[bytes]) -> tuple[list[Any], int]:
    """What the executable makes of these lines, in this process and as its frame does it: what leaves, how many were
    skipped."""
    tool = next(one for one in support.executables() if one.name == name).tool
    run = runner.Run(name, tool.cli.main(args=argv, prog_name=name, standalone_mode=False), argv)
    run.now = 1_784_635_200_000_000
    run.report.say = lambda *_said: None  # type: ignore[method-assign, assignment]
    wrong = tool.judge(run.options) if tool.judge is not None else inputs.judge(tool.cli.reads)
    with tempfile.TemporaryFile() as file:
        file.write(b"\n".join(lines))
        file.seek(0)
        fd = os.dup(file.fileno())
        found = list(tool.rows(run.options, inputs.rows(run, [("-", fd)], wrong), run))
    for item in found:
        if not isinstance(item, bytes):
            assert schema.checker("row")(item), schema.reason("row", item)
            assert orjson.loads(stream.dumps(item)) is not None
    written = [line for line in b"\n".join(lines).removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    # A row with a path that needs -0 came in, and is passed over later.
    late = sum(one["reason"] == "control characters in a path" for one in run.report.skipped)
    assert run.report.rows_in + run.report.skipped_count - late == len(written)
    return found, run.report.skipped_count


READERS = [("ls-fuse", []), ("ls-fuse", ["--dedupe=id", "--cap=files=1", "--weight=wiki=0", "-n2"]),
           ("ls-rerank", ["-q", "rust \"a b\" -x title:y"]), ("ls-rerank", ["-q", "日本", "--recency=all", "-n1"]),
           ("ls-check", []), ("ls-redact", []), ("ls-redact", ["--public"]),
           *(("ls-show", ["--as", form]) for form in ("table", "jsonl", "urls", "paths", "tsv", "results", "exa")),
           ("ls-show", ["--color=always"]), ("ls-show", ["--as=tsv", "--fields=meta,provenance.private,corpus,id"]),
           ("ls-show", ["--public", "--as=paths", "-0"])]


@pytest.mark.parametrize(("name", "argv"), READERS, ids=lambda one: one if isinstance(one, str) else " ".join(one))
@fuzzed()
@given(rows=st.lists(shaped("row") | anything, max_size=6), garbage=st.none() | st.binary(max_size=40))
@example(rows=[{"source": "own", "url": "u:", "location": {"path_b64": "L3RtcC9i/w=="}}], garbage=None)
def test_any_json_through_every_reader(name: str, argv: list[str], rows: list[Any], garbage: bytes | None) -> None:
    lines = [as_line(row) for row in rows]
    if garbage is not None:
        lines.append(garbage.replace(b"\n", b""))
    if lines and (lines[0].strip() == b"{" or lines[0].strip()[:1] == b"["):
        lines.insert(0, b"null")  # An array in the first line is refused whole.
    found, _ = through(name, argv, lines)
    if found and name == "ls-fuse":
        again, skipped = through("ls-fuse", [], [orjson.dumps(one) for one in found])
        assert skipped == 0 and len(again) <= len(found)
        assert through("ls-rerank", ["-q", "x"], [orjson.dumps(one) for one in found])[1] == 0


# Bytes


@fuzzed()
@given(data=st.lists(st.binary(max_size=30) | anything.map(as_line) | st.sampled_from(
    [b"\xef\xbb\xbf", b"\xff\xfe{\0}\0", b"{}", b'{"a":' * 40, b"[" * 40, b"\r", b"{\"\\ud800\":1}", b"1" * 400]),
    max_size=8), cap=st.integers(1, 64))
def test_bytes_to_rows(data: list[bytes], cap: int) -> None:
    whole = b"\n".join(data)
    with tempfile.TemporaryFile() as file:
        file.write(whole)
        for read in (stream.rows, stream.document):
            file.seek(0)
            skipped: list[int] = []
            with contextlib.suppress(LspipeError):
                for row in read(file.fileno(), lambda number, _why, into=skipped: into.append(number), None, cap):
                    assert isinstance(row, dict) and stream.depth(row) <= stream.DEPTH_CAP
            assert all(1 <= number <= whole.count(b"\n") + 1 for number in skipped)


@fuzzed()
@given(query=st.lists(texts, max_size=5).map(" ".join), text=st.lists(texts, max_size=5).map(" ".join))
def test_words_of_any_kind(query: str, text: str) -> None:
    parsed = words.parse(query)
    matcher = matching.Matcher(parsed)
    matcher.match([matching.Field("title", text), matching.Field("url", text), matching.Field("text", query)])
    for start, end in matching.spans(text, parsed):
        assert 0 <= start < end <= len(text)


@fuzzed()
@given(url=st.lists(texts | st.sampled_from(["http://", "https://user:pw@", "file:///", "[", "]", ":", "//", "?", "#",
                                             "@"]), max_size=6).map("".join))
@example(url="http://[fe80::1%25eth0]:80/")
@example(url="file://host/%2e%2e/%00")
def test_urls_of_any_kind(url: str) -> None:
    canonical = urls.canonical(url)
    assert urls.canonical(canonical) == canonical
    assert isinstance(urls.url_words(url), str)
    urls.place(url)
    with contextlib.suppress(ValueError):
        assert isinstance(urls.file_path(url), bytes)


# What qmd answers

hits = st.fixed_dictionaries({"file": texts | st.builds("qmd://{}/{}".format, texts, texts)}, optional={
    "line": anything, "title": anything, "docid": anything, "snippet": anything, "body": anything, "score": anything})


@fuzzed()
@given(value=st.lists(hits | anything, max_size=4) | anything, query=texts, limit=st.integers(0, 50))
def test_any_json_as_an_answer_of_qmd(value: Any, query: str, limit: int) -> None:
    try:
        answer = qmd.answer(as_line(value))
    except LspipeError as error:
        assert error.code == Exit.UPSTREAM
        return
    for hit in answer.hits:
        line = qmd.place(hit, words.parse(query))
        assert len(qmd.excerpt(hit, line, limit)) <= limit
        orjson.dumps([hit.url, hit.title, hit.docid, qmd.around(hit, line)])


# What ls-query is asked, and told by its settings


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


GRANTS = [{"family": "browser", "browser": "chromium", "profile": "Default", "path": "/nonexistent/Default",
           "data": ["history", "bookmarks", "tabs", "downloads", "reading"]},
          {"family": "files", "path": "/nonexistent/notes", "public": True}, {"family": "wiki"}]


@pytest.fixture(scope="module", autouse=True)
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration folder of this module, with grants to things that are not there."""
    place = tmp_path_factory.mktemp("config")
    place.chmod(0o700)
    file = place / "consent.json"
    file.write_bytes(orjson.dumps({"v": 1, "grants": GRANTS}))
    file.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LSPIPE_CONFIG_HOME", str(place))
        patch.chdir(place)
        yield place


def ask(argv: list[str]) -> None:
    """Plan a question as ls-query does, up to the start of its stages, whose arguments must be good ones.

    What is wrong with it is an LspipeError of one line that says so, and never a bug.
    """
    tool = next(one for one in support.executables() if one.name == "ls-query").tool
    try:
        run = runner.Run("ls-query", runner._parse(tool, argv), argv)
        runner._prepare(run)
        found = tool.reach(run.options, run)
    except LspipeError as error:
        assert error.code in (Exit.USAGE, Exit.NOT_FOUND, Exit.PRECONDITION), error
        assert error.message.strip(), "it says nothing"
        stream.plain(error.message).encode("utf-8", "replace")
        return
    _, planned, _ = found.given
    planned.plan.bash().encode()
    for stage in planned.plan.stages:
        command = next(one for one in support.executables() if one.name == stage.name).tool
        runner._parse(command, list(stage.argv))


@fuzzed()
@given(value=shaped("query") | anything)
def test_any_json_as_a_query_file(value: Any) -> None:
    Path("query.json").write_bytes(as_line(value))
    ask(["--query-file", "query.json"])


@fuzzed()
@given(data=st.binary(max_size=60) | st.builds(lambda a, b: a[:b], shaped("query").map(as_line), st.integers(0, 200)))
def test_any_bytes_as_a_query_file(data: bytes) -> None:
    Path("query.json").write_bytes(data)
    ask(["--query-file", "query.json"])


NAMES = [str(param.opts[-1]).lstrip("-")
         for param in next(one for one in support.executables() if one.name == "ls-query").cli.params]


def toml(value: Any) -> str:
    """A value of TOML; what TOML lacks as text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, int | float):
        return str(value)
    text = json.dumps(str(value).encode("utf-8", "replace").decode(), ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


@fuzzed()
@given(tables=st.dictionaries(st.sampled_from(["query", "show", "other"]) | texts, st.dictionaries(
    st.sampled_from(NAMES), anything, max_size=3) | anything, max_size=2) | st.builds(
        lambda inner: {"query": inner}, st.dictionaries(st.sampled_from(NAMES), anything, max_size=2)),
       tail=st.just("") | st.sampled_from(["[query", "limit = 1", "\0", "a.b.c = {", "[[query]]", "x = 2026-07-21",
                                           "[" * 5000]))
def test_any_settings(config: Path, tables: dict[str, Any], tail: str) -> None:
    file = config / "config.toml"
    body = "\n".join(f"{toml(name)} = {toml(table)}" for name, table in tables.items())
    file.write_bytes(f"{body}\n{tail}".encode())
    file.chmod(0o600)
    try:
        ask(["words"])
        show = next(one for one in support.executables() if one.name == "ls-show").tool
        with contextlib.suppress(LspipeError):
            runner._parse(show, [])
    finally:
        file.unlink()


@fuzzed()
@given(data=st.binary(max_size=60))
def test_any_bytes_as_settings(config: Path, data: bytes) -> None:
    file = config / "config.toml"
    file.write_bytes(data)
    file.chmod(0o600)
    try:
        ask(["words"])
    finally:
        file.unlink()


@fuzzed()
@given(value=shaped("consent") | st.lists(shaped("consent")).map(lambda found: {
    "v": 1, "grants": [grant for one in found for grant in one.get("grants", ()) or ()]
    if all(isinstance(one.get("grants", []), list) for one in found) else []}) | anything,
       now=st.sampled_from([0, 253_402_300_799_999_999]))
def test_any_json_as_consent(value: Any, now: int) -> None:
    try:
        grants = consent._parse("consent.json", as_line(value))
    except LspipeError as error:
        assert error.code == Exit.PRECONDITION and error.message
        return
    again = {"v": 1, "grants": [consent.as_json(grant) for grant in grants]}
    assert consent._parse("consent.json", orjson.dumps(again)) == grants
    for grant in grants:
        pinned.state(grant, now)
    request.plan(request.Query("words", now), grants).plan.bash().encode()
    for family in narrow.FAMILIES:
        narrow.narrow(grants, narrow.Request(family, "history" if family == "browser" else None))


@fuzzed()
@given(argv=st.lists(texts | st.sampled_from([f"--{name}" for name in NAMES]) | st.builds(
    "--{}={}".format, st.sampled_from(NAMES), texts), max_size=5))
def test_any_arguments(argv: list[str]) -> None:
    if any(word in options.PRINTING or "sandbox-report" in word or word.startswith(("--report", "--query-file"))
           or word == "-h" for word in argv):
        return
    with contextlib.suppress(ValueError):  # No argument holds NUL.
        ask([os.fsdecode(os.fsencode(word.replace("\0", ""))) for word in argv])

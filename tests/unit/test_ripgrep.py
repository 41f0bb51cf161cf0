"""ripgrep's arguments, its messages, long records, context, complaints; files as rows; query words as patterns."""

import base64
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import support
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lspipe import (
    filerow,
    filescope,
    folding,
    matching,
    rghits,
    rgrecords,
    ripgrep,
    urls,
    wordfiles,
    wordpatterns,
    words,
)
from lspipe.exits import Precondition, Upstream, Usage

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

#: Lines as files hold them: ASCII, marks, ligatures, CJK, control characters, bytes that are not UTF-8.
TEXTS = st.text(alphabet="ab Z\"\\\t\r\x1f\x7fé́ﬁ日本🎉\u2028", max_size=40)
LINES = st.one_of(TEXTS.map(str.encode), st.binary(max_size=40)).map(lambda data: data.replace(b"\n", b""))


def value(data: bytes) -> dict[str, str]:
    """Text or bytes, as rg says it."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode()}


def dumped(kind: str, **data: Any) -> bytes:
    return orjson.dumps({"type": kind, "data": data})


def line_record(line: bytes, spans: Sequence[tuple[int, int]] = (), number: int = 1, offset: int = 0,
                path: bytes = b"/f", kind: str = "match") -> bytes:
    found = [{"match": value(line[start:end]), "start": start, "end": end} for start, end in spans]
    return dumped(kind, path=value(path), lines=value(line), line_number=number, absolute_offset=offset,
                  submatches=found)


BEGIN = dumped("begin", path={"text": "/f"})
END = dumped("end", path={"text": "/f"}, binary_offset=None, stats={})
SUMMARY = dumped("summary", elapsed_total={}, stats={"searches": 3})


def found(*records: bytes | rgrecords.Long, keep: int = 300, context: int = 0) -> list[rghits.Hit]:
    return list(rghits.hits(records, rghits.Tally(), keep, context))


# Arguments


def test_nothing_that_is_typed_becomes_an_option() -> None:
    look = ripgrep.Look(globs=("--pre=x",), types=("--files",), context=2)
    argv = ripgrep.arguments("/bin/rg", look, ["--pre=x", "/a"])
    assert argv[argv.index("--"):] == ["--", "--pre=x", "/a"]
    assert not [word for word in argv[:argv.index("--")] if word.startswith("--pre")]
    assert {"--glob=--pre=x", "--type=--files", "--context=2", "--no-config", "--file=-"} <= set(argv)


@pytest.mark.parametrize("pattern", ["", "a\nb", "\n"])
def test_patterns_that_a_line_cannot_hold(pattern: str) -> None:
    with pytest.raises(Usage):
        ripgrep.feed(["x", pattern])


def test_patterns_are_lines() -> None:
    assert ripgrep.feed(["a", "-e", "b\r", os.fsdecode(b"\xff")]) == b"a\n-e\nb\r\r\n\xff\n"


# Records


@FEW
@given(st.lists(LINES), st.lists(st.integers(1, 30), min_size=1))
def test_records_do_not_depend_on_the_pieces(lines: list[bytes], sizes: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    chunks, at = [], 0
    while at < len(data):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(data[at:at + size])
        at += size
    assert list(rgrecords.split(chunks)) == lines
    assert list(rgrecords.split([data[:-1]])) == lines[:-1]


@pytest.mark.parametrize("size", [rgrecords.WHOLE + 1, rgrecords.HELD + 1])
def test_a_long_record_is_held_as_far_as_allowed(size: int) -> None:
    data = b"x" * size
    small, large, last = rgrecords.split([b"a\n" + data[:7], data[7:] + b"\nb\n"])
    assert (small, last) == (b"a", b"b")
    assert isinstance(large, rgrecords.Long) and large.head == data[:rgrecords.HELD]


@FEW
@given(LINES, st.data())
def test_a_long_record_says_what_a_parsed_one_does(line: bytes, data: st.DataObject) -> None:
    starts = sorted(data.draw(st.lists(st.integers(0, len(line)), max_size=3, unique=True)))
    record = line_record(line, [(start, min(start + 2, len(line))) for start in starts], 7, 99)
    read = rgrecords.read(rgrecords.Long(record))
    assert read is not None
    assert (read.matches, read.number, read.offset, read.data) == (True, 7, 99, line)
    assert read.start == (starts[0] if starts else None)
    whole, cut = found(BEGIN, record), found(BEGIN, rgrecords.Long(record))
    assert [(hit.line, hit.column, hit.text, hit.found[:1]) for hit in whole] == [
        (hit.line, hit.column, hit.text, hit.found) for hit in cut]


@FEW
@given(LINES, st.integers(0, 200))
def test_a_record_may_be_cut_anywhere_in_its_line(line: bytes, length: int) -> None:
    record = line_record(line, [(0, 1)])
    start = record.index(b'"lines":{"') + 19
    stop = record.index(b'"},"line_number":')
    cut = min(start + length, stop)
    read = rgrecords.read(rgrecords.Long(record[:cut], record[stop:]))
    assert read is not None and (read.number, read.start) == (1, 0)
    assert line.startswith(read.data)
    if cut == stop:
        assert read.data == line


@pytest.mark.parametrize("pieces", [1, 7, 1 << 18])
def test_what_follows_an_endless_line_is_found(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    monkeypatch.setattr(rgrecords, "HELD", 500)
    monkeypatch.setattr(rgrecords, "WHOLE", 200)
    record = line_record(b"start " + b"x" * 2000 + b" needle", [(2007, 2013)], 12, 34)
    chunks = [(record + b"\n")[at:at + pieces] for at in range(0, len(record) + 1, pieces)]
    (long,) = rgrecords.split(chunks)
    assert isinstance(long, rgrecords.Long) and len(long.head) == 500
    (hit,) = found(BEGIN, long, keep=50)
    assert (hit.line, hit.column, hit.offset) == (12, 2008, 34)
    assert 0 < len(hit.text) <= 50


@pytest.mark.parametrize("record", [b"x", b"{}", b"[]", b'{"type":"match","data":{}}', b'{"type":"match","data":[]}',
                                    b'{"type":"begin","data":{"path":1}}', b'{"type":"summary","data":{}}'])
def test_what_is_no_message_is_said(record: bytes) -> None:
    with pytest.raises(Upstream):
        found(record)
    with pytest.raises(Upstream):
        found(rgrecords.Long(record))


def test_unknown_messages_are_passed_over() -> None:
    assert len(found(BEGIN, dumped("novelty", x=1), line_record(b"a\n", [(0, 1)]), END, SUMMARY)) == 1


def test_the_tally() -> None:
    tally = rghits.Tally()
    binary = dumped("end", path={"text": "/f"}, binary_offset=7, stats={})
    list(rghits.hits([BEGIN, END, BEGIN, binary], tally, 10))
    assert (tally.searched, tally.matched, tally.binary) == (None, 2, 1)
    list(rghits.hits([SUMMARY], tally, 10))
    assert tally.searched == 3


# Hits


def test_places_are_bytes_and_texts_are_characters() -> None:
    (hit,) = found(BEGIN, line_record("日本 needle\r\n".encode(), [(7, 13)]))
    assert (hit.column, hit.at, hit.text, hit.found) == (8, 3, "日本 needle", ["needle"])


def test_a_match_inside_a_character() -> None:
    (hit,) = found(BEGIN, line_record("é\n".encode(), [(1, 2)]))
    assert (hit.column, hit.text) == (2, "é")


def test_a_line_that_is_not_utf8() -> None:
    (hit,) = found(BEGIN, line_record(b"caf\xe9 needle\n", [(5, 11)]))
    assert (hit.column, hit.text, hit.text[hit.at:]) == (6, "caf\ufffd needle", "needle")


def test_a_path_that_is_not_utf8() -> None:
    (hit,) = found(dumped("begin", path=value(b"/b\xff")), line_record(b"a", [(0, 1)], path=b"/b\xff"))
    assert hit.file.path == b"/b\xff"


@FEW
@given(st.text(max_size=200), st.text(min_size=1, max_size=5), st.text(max_size=200), st.integers(8, 60))
def test_a_clipped_line_holds_its_match(before: str, needle: str, after: str, keep: int) -> None:
    line = "".join(ch for ch in before + needle + after if ch not in "\r\n").encode("utf-8", "replace")
    start = len("".join(ch for ch in before if ch not in "\r\n").encode("utf-8", "replace"))
    if start >= len(line):
        return
    (hit,) = found(BEGIN, line_record(line, [(start, start + 1)]), keep=keep)
    text = line.decode()
    assert len(hit.text) <= keep and hit.text in text
    if len(text) <= keep:
        assert hit.text == text
    assert hit.text[hit.at:hit.at + 1] == line[start:].decode()[:1]


def test_many_matches_in_a_line_are_bounded() -> None:
    (hit,) = found(BEGIN, line_record(b"a" * 100, [(at, at + 1) for at in range(100)]))
    assert hit.found == ["a"] * rghits.FOUND


@FEW
@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 4))
def test_context_is_what_is_around(marks: list[bool], context: int) -> None:
    wanted = {at for at, mark in enumerate(marks) if mark}
    near = {at for at in range(len(marks)) if any(abs(at - other) <= context for other in wanted)}
    records = [line_record(b"line %d\n" % at, [(0, 4)] if at in wanted else [], at + 1,
                           kind="match" if at in wanted else "context") for at in sorted(near)]
    hits = found(BEGIN, *records, END, BEGIN, line_record(b"other\n", [(0, 1)]), END, context=context, keep=10_000)
    expected = ["\n".join(f"line {at}" for at in range(max(0, one - context), min(len(marks), one + context + 1)))
                for one in sorted(wanted)]
    assert [hit.around for hit in hits] == [*expected, "other"]
    assert [hit.line for hit in hits] == [*(one + 1 for one in sorted(wanted)), 1]


def test_context_that_is_too_long_keeps_the_match() -> None:
    records = [line_record(b"x" * 50 + b"\n", kind="context", number=1), line_record(b"needle\n", [(0, 6)], 2),
               line_record(b"y" * 50 + b"\n", kind="context", number=3)]
    (hit,) = found(BEGIN, *records, END, context=1, keep=60)
    assert hit.around is not None and len(hit.around) == 60 and "needle" in hit.around


@FEW
@given(st.text(alphabet="ab \t日", max_size=100), st.integers(0, 100), st.integers(10, 40))
def test_a_snippet_is_short_and_flat(text: str, at: int, limit: int) -> None:
    shown = rghits.around(text, min(at, len(text)), limit)
    assert len(shown) <= limit
    assert shown == " ".join(shown.split())
    if len(" ".join(text.split())) <= limit:
        assert shown == " ".join(text.split())


def test_a_snippet_begins_a_little_before_the_match() -> None:
    text = "word " * 100 + "needle " + "word " * 100
    shown = rghits.around(text, 500, 100)
    assert shown.startswith("…word") and "needle" in shown and shown.endswith("…")


@FEW
@given(TEXTS, st.integers(0, 40), st.integers(0, 40))
def test_a_hit_moves_by_bytes(text: str, old: int, new: int) -> None:
    old, new = min(old, len(text)), min(new, len(text))
    hit = rghits.Hit(rghits.File(b""), 1, len(text[:old].encode()) + 1, text, old, [], 0)
    moved = rghits.moved(hit, new, 8)
    assert moved.column == len(text[:new].encode()) + 1
    assert len(moved.text) <= max(8, len(text) if len(text) <= 8 else 8)
    assert moved.text[moved.at:moved.at + 1] == text[new:new + 1]


# Complaints


def test_complaints_are_told_apart() -> None:
    errors = ("rg: /a/b: Permission denied (os error 13)\nrg: /a/new\nline: No such file or directory (os error 2)\n"
              "rg: /d: e: IO error for operation on /d: e: Permission denied (os error 13)\n"
              "rg: /a/.ignore: line 1: error parsing glob\n")
    assert ripgrep.troubles(errors) == [
        ("/a/b", "permission denied"), ("/a/new\nline", "no such file or directory"), ("/d: e", "permission denied"),
        (None, "/a/.ignore: line 1: error parsing glob"),
    ]
    assert ripgrep.troubles("") == []
    of_rg_13 = "/a: Permission denied (os error 13)\n/b: x\n"
    assert ripgrep.troubles(of_rg_13) == [("/a", "permission denied"), (None, "/b: x")]


@pytest.mark.parametrize(("code", "errors", "kind", "words_"), [
    (2, "rg: regex parse error:\n    (?:a()\n    ^\nerror: unclosed group\n", Usage,
     "regex parse error: unclosed group"),
    (2, "rg: unrecognized file type: x\n", Usage, "unrecognized file type: x"),
    (2, "rg: <stdin>:1: found invalid UTF-8\n", Usage, "found invalid UTF-8"),
    (-9, "", Upstream, "rg was killed by signal 9"),
    (101, "thread 'main' panicked\n", Upstream, "rg ended with 101: thread 'main' panicked"),
    (0, "", Upstream, "rg ended with 0"),
    (2, "", Upstream, "rg ended with 2"),
])
def test_why_a_search_ended_early(code: int, errors: str, kind: type[Exception], words_: str) -> None:
    error = ripgrep.fatal(code, errors)
    assert type(error) is kind and error.message == words_


# Paths and files


def test_named_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path(os.path.realpath(tmp_path))
    (real / "a").mkdir()
    (real / "link").symlink_to("a")
    monkeypatch.chdir(real)
    assert filescope.absolute(["link/x", str(real / "a"), "a/../b"]) == [
        str(real / "a/x"), str(real / "a"), str(real / "b")]
    assert filescope.absolute([]) == [str(real)]
    with pytest.raises(Usage):
        filescope.absolute([""])
    os.rmdir(real / "a")
    (real / "gone").mkdir()
    monkeypatch.chdir(real / "gone")
    os.rmdir(real / "gone")
    assert filescope.absolute(["/"]) == ["/"]
    for operands in ([], ["x"]):
        with pytest.raises(Precondition):
            filescope.absolute(operands)
    monkeypatch.chdir(real)


def test_what_cannot_be_searched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    assert filescope.trouble(str(tmp_path)) is None
    assert filescope.trouble(str(tmp_path / "file")) is None
    assert filescope.trouble(str(tmp_path / "fifo")) == ("not-readable", "neither a file nor a folder")
    assert filescope.trouble("/dev/null") == ("not-readable", "neither a file nor a folder")
    for name in ("none", "file/none", "x" * 300):
        assert filescope.trouble(str(tmp_path / name)) == ("not-found", "no such file or folder")


def test_ignore_files_between_a_grant_and_a_path(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    for file in (".ignore", "a/.gitignore", "a/b/.ignore"):
        (root / file).touch()
    assert list(filescope.ignore_files(str(root), str(root / "a/b"))) == [
        str(root / "a/.gitignore"), str(root / ".ignore")]
    assert list(filescope.ignore_files(str(root), str(root))) == []
    assert filescope.ignored_above(str(root / "a"))
    (tmp_path / ".rgignore").touch()
    assert filescope.ignored_above(str(root))


NOW = 1_784_635_200_000_000


@pytest.mark.parametrize("name", [b"plain.txt", "naïve \u202e.md".encode(), b"new\nline", b"bad\xff", b"100%#?.txt"])
def test_a_file_as_a_row(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        file.write(b"x")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    row = filerow.FileFacts(path, "ripgrep", True, NOW).row(3, "x", {}, 4, 5, "4:5")
    assert urls.file_path(row["url"]) == path
    where = row["location"]
    assert (os.fsencode(where["path"]) if "path" in where else base64.b64decode(where["path_b64"])) == path
    assert (where["line"], where["column"], row["rank"]) == (4, 5, 3)
    assert row["title"] == name.decode("utf-8", "replace")
    assert row["accessed_at"] == "2023-11-14T22:13:20.123456Z"
    assert row["provenance"] == {"retriever": "files", "method": "ripgrep", "acl": "authorized", "private": True}


def test_rows_of_one_file_share_nothing_that_changes(tmp_path: Path) -> None:
    facts = filerow.FileFacts(os.fsencode(tmp_path / "gone"), "ripgrep", False, NOW)
    first, second = (facts.row(1, "", {}, line, 1, str(line)) for line in (1, 2))
    assert first["id"] != second["id"] != facts.id
    assert first["location"]["line"] == 1 and facts.row(1, "", {}, 9, 9, None)["id"] == facts.id
    assert first["accessed_at"] is None and first["meta"] == {"time_quality": "missing"}


def test_a_time_window(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "f")
    Path(os.fsdecode(path)).touch()
    os.utime(path, ns=(0, 1_000_000_000_000_000_000))
    facts, gone = (filerow.FileFacts(one, "ripgrep", True, NOW) for one in (path, path + b"-"))
    time = 1_000_000_000_000_000
    assert [facts.within(*bounds) for bounds in (
        (None, None), (time, None), (time + 1, None), (None, time), (None, time + 1))] == [
        True, True, False, False, True]
    assert gone.within(None, None) and not gone.within(0, None) and not gone.within(None, time)


@FEW
@given(st.lists(st.text(alphabet="ab é日", max_size=30), max_size=30), st.integers(0, 29), st.integers(40, 120))
def test_an_excerpt_is_the_file_or_holds_the_line(tmp_path: Path, lines: list[str], at: int, limit: int) -> None:
    at = min(at, max(0, len(lines) - 1))
    data = "".join(line + "\n" for line in lines).encode()
    (tmp_path / "f").write_bytes(data)
    offset = len("".join(line + "\n" for line in lines[:at]).encode())
    text = filerow.excerpt(os.fsencode(tmp_path / "f"), offset, limit)
    assert text is not None and len(text) <= limit
    if len(data) <= limit:
        assert text == data.decode()
    elif lines:
        assert lines[at][:20] in text


@pytest.mark.parametrize("data", [b"\xff\xfea\0", b"\xfe\xff\0a"])
def test_no_excerpt_of_utf16(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    assert filerow.excerpt(os.fsencode(tmp_path / "f"), 0, 10) is None


def test_no_excerpt_of_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to("f")
    for name in ("fifo", "link", "none", "."):
        assert filerow.excerpt(os.fsencode(tmp_path / name), 0, 10) is None


# Query words

#: All characters that fold to letters that the queries below are made of, and some that do not.
_ALPHABET = "abfiklst ABFST01_-.éÉßﬁﬀﬆſKＡ①ªªİı\u00ad\u0301日本語한글ᄒ"
QUERIES = st.text(alphabet="abfiklst AB0é日한\"-.", max_size=12)


def rg() -> str:
    folder = support.folder_of("rg")
    if folder is None:
        pytest.skip("there is no rg on this machine")
    return os.path.join(folder, "rg")


def lines_found(patterns: list[str], lines: list[str], tmp_path: Path) -> set[int]:
    """The numbers of the lines that rg finds."""
    (tmp_path / "lines").write_bytes("".join(line + "\n" for line in lines).encode())
    done = subprocess.run([rg(), "--no-config", "--no-mmap", "-n", "-f", "-", "--", str(tmp_path / "lines")],
                          input="".join(pattern + "\n" for pattern in patterns).encode(), capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return {int(line.split(b":", 1)[0]) - 1 for line in done.stdout.splitlines()}


@FEW
@given(QUERIES, st.lists(st.text(alphabet=_ALPHABET, max_size=12), min_size=1, max_size=40))
def test_rg_finds_every_line_that_the_words_match(tmp_path: Path, text: str, lines: list[str]) -> None:
    terms = [term for term in words.parse(text).terms if term.field is None]
    if not terms:
        return
    matcher = matching.Matcher(words.Query("", tuple(term._replace(exclude=False) for term in terms)))
    expected = {at for at, line in enumerate(lines) if matcher.match([matching.Field("text", line)])}
    assert expected <= lines_found(wordpatterns.patterns(terms), lines, tmp_path)


@FEW
@given(QUERIES, st.lists(st.text(alphabet=_ALPHABET, max_size=12), min_size=1, max_size=40))
def test_rg_finds_every_line_that_one_of_very_many_words_matches(tmp_path: Path, text: str, lines: list[str]) -> None:
    terms = [term for term in words.parse(text).terms if term.field is None]
    if not terms:
        return
    matcher = matching.Matcher(words.Query("", tuple(term._replace(exclude=False) for term in terms)))
    expected = {at for at, line in enumerate(lines) if matcher.match([matching.Field("text", line)])}
    many = [*terms, *(words.Term(f"zz{number}q", (f"zz{number}q",)) for number in range(100))]
    assert expected <= lines_found(wordpatterns.patterns(many), lines, tmp_path)


@pytest.mark.parametrize("query", [
    " ".join(f"word{number}x" for number in range(5000)), " ".join(f"-no{number}" for number in range(5000)) + " yes",
    " ".join(f'"a{number} b c"' for number in range(2000)), "a-b-c-d-" * 5000, "\ufdfa" * 3000, "日本語" * 5000,
    "a\u0301" * 5000, "x" * 50_000, "title:a " * 5000 + "b", "aB" * 20_000])
def test_a_query_of_any_length_is_one_that_ripgrep_takes(query: str, tmp_path: Path) -> None:
    lines_found(wordfiles.patterns(wordfiles.plan(query)), ["nothing"], tmp_path)


def test_every_form_of_a_latin_letter_is_known(tmp_path: Path) -> None:
    """Over all of Unicode: what folds to a word, letter by letter, is found by the pattern for it."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    forms: dict[str, list[str]] = {}
    for code in range(0x80, 0x110000):
        if not 0xD800 <= code < 0xE000:
            folded = folding.fold(chr(code))
            if folded and set(folded) <= set(letters):
                forms.setdefault(folded, []).append(chr(code))
    assert len(forms) > 100
    lines = [character for characters in forms.values() for character in characters]
    for letter in letters:
        terms = [words.Term(letter, (letter,))]
        expected = {at for at, line in enumerate(lines) if folding.fold(line).startswith(letter)}
        assert lines_found(wordpatterns.patterns(terms), lines, tmp_path) == expected


@pytest.mark.parametrize(("query", "line"), [
    ("cafe", "un café"), ("cafe", "cafe\u0301"), ("café", "CAFE"), ("strasse", "Straße"), ("profile", "proﬁle"),
    ("prof", "proﬁt"), ("foo", "barFoo"), ("bar", "foo_bar"), ("語", "日本語"), ("한글", "\u1112\u1161\u11ab글"),
    ("node.js", "Node.js"), ('"a b"', "a, b"), ("и", "й"), ("α", "ά"), ("istanbul", "İstanbul"),
    ("cooperate", "co\u00adoperate"),
])
def test_spellings(tmp_path: Path, query: str, line: str) -> None:
    plan = wordfiles.plan(query)
    assert lines_found(wordfiles.patterns(plan), [line], tmp_path) == {0}


@pytest.mark.parametrize(("query", "line"), [("rust", "trust"), ("rust", "ruts"), ("語", "日本"), ("b", "ab")])
def test_patterns_do_not_find_everything(tmp_path: Path, query: str, line: str) -> None:
    assert lines_found(wordfiles.patterns(wordfiles.plan(query)), [line], tmp_path) == set()


@pytest.mark.parametrize("word", ["f" * 40, "ss" * 30, "ffi" * 500, "日" * 500, "st" * 16])
def test_patterns_stay_short(tmp_path: Path, word: str) -> None:
    patterns = wordpatterns.patterns([words.Term(word, (word, "b"))])
    assert len(patterns[0]) < 50_000
    assert lines_found(patterns, [word + " b"], tmp_path) == {0}


# Ranking


def facts(tmp_path: Path, name: str, size: int = 100) -> filerow.FileFacts:
    (tmp_path / name).write_bytes(b"x" * size)
    return filerow.FileFacts(os.fsencode(tmp_path / name), "ripgrep", True, NOW)


def ranked(tmp_path: Path, query: str, files: dict[str, list[str]],
           all_terms: bool = False) -> tuple[list[tuple[str, list[str], list[int]]], wordfiles.Ranking]:
    """(name, matched terms, best line and the others) of the files in order."""
    ranking = wordfiles.Ranking(wordfiles.plan(query, all_terms))
    hits = []
    for name, lines in files.items():
        file = rghits.File(b"/x/" + name.encode())
        hits += [rghits.Hit(file, at, 1, line, 0, [], 0) for at, line in enumerate(lines, 1)]
    for path, counted in ranking.files(hits):
        ranking.add(facts(tmp_path, os.path.basename(path).decode()), counted)
    result = [(one.name, ranking.matched(counted), [counted.best.line, *counted.others])
              for one, counted, _score in ranking.ranked(100)]
    return result, ranking


def test_rare_words_and_more_words_come_first(tmp_path: Path) -> None:
    found_, ranking = ranked(tmp_path, "rust tokio", {
        "one": ["rust"], "two": ["rust"], "three": ["tokio"], "both": ["x", "rust", "rust and tokio", "tokio"]})
    assert [name for name, *_ in found_] == ["both", "three", *(name for name, *_ in found_[2:])]
    assert found_[0] == ("both", ["rust", "tokio"], [3, 2, 4])
    assert ranking.frequencies() == {"rust": 3, "tokio": 2}


def test_a_whole_word_counts_more_than_its_beginning(tmp_path: Path) -> None:
    found_, _ = ranked(tmp_path, "cancel", {"a": ["cancellation"], "b": ["cancel"]})
    assert [name for name, *_ in found_] == ["b", "a"]


def test_excluded_words_rule_out_the_file(tmp_path: Path) -> None:
    found_, ranking = ranked(tmp_path, "rust -draft", {"a": ["rust", "a draft"], "b": ["rust"]})
    assert [name for name, *_ in found_] == ["b"]
    assert ranking.frequencies() == {"rust": 2}


def test_all_terms_may_stand_on_different_lines(tmp_path: Path) -> None:
    files = {"a": ["rust", "tokio"], "b": ["rust"]}
    assert [name for name, *_ in ranked(tmp_path, "rust tokio", files, all_terms=True)[0]] == ["a"]


def test_title_and_url_ask_for_the_path(tmp_path: Path) -> None:
    files = {"readme.md": ["rust"], "other.md": ["rust"]}
    assert ranked(tmp_path, "rust title:readme", files)[0] == [("readme.md", ["rust", "readme"], [1])]
    assert [name for name, *_ in ranked(tmp_path, "rust -title:readme", files)[0]] == ["other.md"]
    assert ranked(tmp_path, "title:readme", files)[0] == [("readme.md", ["readme"], [1])]
    assert ranked(tmp_path, "rust url:nowhere", files)[0] == []


def test_words_that_say_nothing_do_not_count(tmp_path: Path) -> None:
    assert [term.text for term in wordfiles.plan("how to rust").terms] == ["rust"]
    assert [term.text for term in wordfiles.plan("how to").terms] == ["how", "to"]
    assert [term.text for term in wordfiles.plan("how to rust", all_terms=True).terms] == ["how", "to", "rust"]
    assert [term.text for term in wordfiles.plan('"how to" rust').terms] == ["how to", "rust"]


@pytest.mark.parametrize("query", ["site:docs.rs", "rust site:docs.rs", "!!!", "-"])
def test_what_no_file_can_match(query: str) -> None:
    assert wordfiles.plan(query).hopeless


def test_ties_are_broken_by_id_and_scores_are_finite(tmp_path: Path) -> None:
    files = {name: ["rust"] for name in "abcdef"}
    ranking = wordfiles.Ranking(wordfiles.plan("rust"))
    hits = [rghits.Hit(rghits.File(b"/x/" + name.encode()), 1, 1, "rust", 0, [], 0) for name in files]
    for path, counted in ranking.files(hits):
        ranking.add(facts(tmp_path, os.path.basename(path).decode()), counted)
    for searched in (None, 0, 1, 6, 10**9):
        result = ranking.ranked(searched)
        assert [one.id for one, *_ in result] == sorted(one.id for one, *_ in result)
        assert all(0 < score < 1e6 for *_, score in result)


@FEW
@given(st.lists(st.integers(1, 60), max_size=60))
def test_the_best_lines_are_kept(worths: list[int]) -> None:
    file = rghits.File(b"")
    hits = [rghits.Hit(file, at, 1, "", 0, [], 0) for at in range(1, len(worths) + 1)]
    if not hits:
        return
    counted = wordfiles.Counted(hits[0], [], [])
    for worth, hit in zip(worths, hits, strict=True):
        counted.keep(float(worth), hit)
    order = sorted(range(len(worths)), key=lambda at: (-worths[at], at))
    assert counted.best.line == order[0] + 1
    assert counted.others == sorted(at + 1 for at in order[1:wordfiles.LINES + 1])


@given(st.lists(st.tuples(st.integers(1, 3), st.text("ab", max_size=6), st.integers(0, 6), st.booleans()), max_size=20),
       st.integers(1, 5), st.integers(0, 30))
def test_context_is_what_stands_around_cut_around_the_match(
        lines: list[tuple[int, str, int, bool]], context: int, keep: int) -> None:
    """Whatever is forgotten in between: the lines within reach, joined, `keep` characters of them."""
    window = rghits._Window(context, keep)
    number, hits, got = 0, [], []
    for step, text, at, matches in lines:
        number += step
        hit = rghits.Hit(rghits.File(b""), number, 1, text, min(at, len(text)), [], 0)
        hits.append((hit, matches))
        got += window.add(hit, matches)
    got += window.flush()
    expected = []
    for hit in (hit for hit, matches in hits if matches):
        near = [other for other, _ in hits if abs(other.line - hit.line) <= context]
        whole = "\n".join(other.text for other in near)
        begin = sum(len(other.text) + 1 for other in near if other.line < hit.line) + hit.at - keep // 2
        begin = max(0, min(begin, len(whole) - keep))
        expected.append((hit.line, whole[begin:begin + keep]))
    assert [(hit.line, hit.around) for hit in got] == expected

"""Every reader against every line that is not a row: one line of trouble each, nothing lost beside it."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator

import orjson
import pytest
import support

READERS = support.of("transform", "sink")
each = pytest.mark.parametrize("one", READERS, ids=str)

MIB = 1 << 20


def row(number: int, **more: object) -> bytes:
    """A good row; all of them are of one list."""
    return orjson.dumps({
        "source": "mine", "url": f"https://example.org/{number}", "title": f"row {number}", "query": "row",
        "query_id": "ls_0000000000000000", "rank": number, **more,
    }) + b"\n"


def as_rows(one: support.Executable) -> list[str]:
    """The arguments that make a reader print JSON Lines."""
    return ["--as", "jsonl"] if one.kind == "sink" else []


def urls(done: support.Done) -> list[str]:
    return sorted(found["url"] for found in done.rows)


BAD = {
    "not JSON": b"nonsense\n",
    "cut short": b'{"source":"mine","url":\n',
    "NaN": row(2).replace(b'"rank":2', b'"score":NaN'),
    "1e999": row(2).replace(b'"rank":2', b'"score":1e999'),
    "invalid UTF-8": row(2).replace(b"row 2", b"row \xff"),
    "NUL": row(2).replace(b"row 2", b"row \0"),
    "lone surrogate": row(2).replace(b"row 2", b"row \\ud800"),
    "depth 100,000": row(2).replace(b'"rank":2', b'"deep":' + b"[" * 100_000 + b"]" * 100_000),
    "depth 33": row(2).replace(b'"rank":2', b'"deep":' + b"[" * 32 + b"]" * 32),
    "2,000,000 keys": b'{"source":"mine","url":"x:2",' + b",".join(b'"%d":0' % n for n in range(2_000_000)) + b"}\n",
    "over the cap by one": row(2, text="x").replace(b'"x"', b'"' + b"x" * (MIB - len(row(2, text=""))  + 2) + b'"'),
    "no object": b"[1, 2]\n",
    "no source": b'{"url":"x:2"}\n',
    "no url": b'{"source":"mine"}\n',
    "a source that is no word": row(2, source="My Source"),
    "rank 0": row(2, rank=0),
    "a rank that is a fraction": row(2).replace(b'"rank":2', b'"rank":1.5'),
    "a time that is none": row(2, accessed_at="yesterday"),
    "1e300 documents": row(2, corpus=[{"id": "c", "n": 1e300, "df": {}}]),
    "1e300 documents with a word": row(2, corpus=[{"id": "c", "n": 1, "df": {"row": 1e300}}]),
    "line 1e300": row(2, location={"line": 1e300}),
}


@each
def test_lines_that_are_no_rows_are_skipped_and_named(one: support.Executable, bare: support.Home) -> None:
    """All of them in one stream, each between two good rows."""
    report = bare.root / "report.json"
    data = row(1) + b"".join(bad + row(number) for number, bad in enumerate(BAD.values(), 2))
    done = bare.run(one.name, "--report", str(report), *as_rows(one), stdin=data)
    skipped = {found["line"]: found["reason"] for found in orjson.loads(report.read_bytes())["skipped"]}
    expected = {2 * number: name for number, name in enumerate(BAD, 1)}
    assert {expected.get(line, f"line {line}") for line in skipped} == set(BAD)
    assert all(0 < len(reason) < 250 for reason in skipped.values())
    assert urls(done) == sorted(f"https://example.org/{number}" for number in range(1, len(BAD) + 2))
    assert done.code == 7
    first = done.err.decode().splitlines()[0]
    assert first.startswith(f"{one.name}: -: line 2: ") and len(first) < 300
    assert not bare.runs


def test_the_longest_line_is_exactly_as_long_as_promised(bare: support.Home) -> None:
    """The other side of "over the cap by one"."""
    line = BAD["over the cap by one"].replace(b"xx", b"x", 1)
    assert len(line.rstrip(b"\n")) == MIB
    assert bare.run("ls-check", stdin=line).code == 0


GOOD = {
    "CRLF": (row(1) + row(2)).replace(b"\n", b"\r\n"),
    "no last newline": (row(1) + row(2)).rstrip(b"\n"),
    "a byte order mark": b"\xef\xbb\xbf" + row(1) + row(2),
    "blank lines": b"\n\n \n" + row(1) + b"\t\n\r\n" + row(2) + b"\n\n",
    "spaces around": b"  " + row(1).rstrip(b"\n") + b"\t \n" + row(2),
    "duplicate keys": row(1).replace(b'{"', b'{"title":"other","', 1) + row(2),
    "depth 32": row(1).replace(b'"rank":1', b'"rank":1,"deep":' + b"[" * 31 + b"]" * 31) + row(2),
    "a number beyond 64 bits": row(1).replace(b'"rank":1', b'"rank":1,"big":18446744073709551616') + row(2),
    "an escaped NUL": row(1).replace(b"row 1", b"row \\u0000") + row(2),
    "characters that hide": row(1).replace(b"row 1", "row \u202e\u200b\U000e0041".encode()) + row(2),
}


@each
def test_what_is_only_unusual_is_read(one: support.Executable, bare: support.Home) -> None:
    """Each in a file of its own: some are unusual only at its beginning or its end."""
    files = []
    for name, data in GOOD.items():
        files.append(bare.root / name.replace(" ", "-").replace(",", ""))
        files[-1].write_bytes(data.replace(b"example.org/", b"example.org/" + name.encode().hex().encode() + b"/"))
    done = bare.run(one.name, *as_rows(one), *map(str, files))
    assert (done.code, done.err) == (0, b"")
    assert urls(done) == sorted(
        f"https://example.org/{name.encode().hex()}/{number}" for name in GOOD for number in (1, 2))


@each
def test_unknown_keys_pass_through(one: support.Executable, bare: support.Home) -> None:
    own = {"own": {"deep": [1, None, "é"]}, "meta": {"own": "x"}, "location": {"own": 1},
           "provenance": {"own": True, "private": True}}
    (found,) = bare.run(one.name, *as_rows(one), stdin=row(1, **own)).rows
    for key, value in own.items():
        for inner in value:
            assert found[key][inner] == value[inner], key


@each
def test_what_leaves_carries_no_raw_control_character(one: support.Executable, bare: support.Home) -> None:
    hidden = "".join(map(chr, [*range(1, 0x20), *range(0x7F, 0xA0), 0x200B, 0x202E, 0x2066, 0xFEFF, 0xE0041]))
    data = row(1, title=hidden, url="x:" + hidden, snippet=hidden) + hidden.replace("\n", "").encode() + b"\n"
    unsafe = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\u2066\ufeff\U000e0000-\U000e007f]")
    for args in ([["--as", form] for form in ("table", "jsonl", "urls", "tsv", "results", "exa")]
                 if one.kind == "sink" else [[]]):
        done = bare.run(one.name, *args, stdin=data)
        assert done.code == 7, args
        assert not unsafe.search(done.out.decode()), args
        assert not unsafe.search(done.err.decode()), args


@each
@pytest.mark.parametrize("data", [b'{\n "source": "mine"\n}\n', b"[" + row(1).strip() + b"]\n", b"\n[\n"])
def test_pretty_printed_json_gets_advice(one: support.Executable, data: bytes, bare: support.Home) -> None:
    done = bare.run(one.name, stdin=data)
    assert (done.code, done.out) == (2, b"")
    said = f"{one.name}: pretty-printed or array JSON: use jq -c, or jq -c '.[]'\n"
    assert done.err.decode() == said + ("of ls-query take --jsonl, not --json\n" if data[:1] == b"{" else "")
    assert not bare.runs


@each
@pytest.mark.parametrize("data", [b'{"results":[]}\n', b'\n{"query":"x","results":[' + row(1).strip() + b"]}"])
def test_an_envelope_gets_advice(one: support.Executable, data: bytes, bare: support.Home) -> None:
    done = bare.run(one.name, stdin=data)
    assert (done.code, done.out) == (2, b"")
    assert done.err.decode() == f"{one.name}: an envelope, not rows: use ls-query --jsonl, or jq -c '.results[]'\n"
    assert not bare.runs


@each
def test_what_only_looks_like_an_envelope_is_a_line(one: support.Executable, bare: support.Home) -> None:
    """A row may have results, and an object between rows is one bad line."""
    done = bare.run(one.name, *as_rows(one), stdin=row(1, results=[]) + b'{"results":[]}\n' + row(2))
    assert (done.code, len(done.rows)) == (7, 2)
    done = bare.run(one.name, *as_rows(one), stdin=b'{"url":"x:","results":[]}\n' + row(2))
    assert (done.code, len(done.rows)) == (7, 1)


@each
def test_strict_ends_at_the_first_bad_line(one: support.Executable, bare: support.Home) -> None:
    done = bare.run(one.name, "--strict", *as_rows(one), stdin=row(1) + row(2) + b"nonsense\n" + row(4))
    assert done.code == 7
    assert done.err.decode().startswith(f"{one.name}: -: line 3: ")
    assert "https://example.org/4" not in urls(done)
    assert not bare.runs


@each
def test_many_bad_lines_are_counted_and_not_all_shown(one: support.Executable, bare: support.Home) -> None:
    report = bare.root / "report.json"
    done = bare.run(one.name, "--report", str(report), *as_rows(one), stdin=b"x\n" * 1000 + row(1))
    assert (done.code, len(done.rows)) == (7, 1)
    assert len(done.err.splitlines()) < 10 and b"99" in done.err.splitlines()[-1]
    facts = orjson.loads(report.read_bytes())
    assert facts["skipped_count"] == 1000 and len(facts["skipped"]) == 100
    assert facts["skipped"][2]["line"] == 3


@each
def test_files_are_read_in_turn_and_named(one: support.Executable, bare: support.Home) -> None:
    first, second = bare.root / "a.jsonl", bare.root / "b.jsonl"
    first.write_bytes(row(1) + b"x\n")
    second.write_bytes(b"x\n" + row(2))
    done = bare.run(one.name, *as_rows(one), str(first), "-", str(second), stdin=row(3))
    assert urls(done) == [f"https://example.org/{number}" for number in (1, 2, 3)]
    assert done.code == 7
    assert done.err.decode().count(": line ") == 2
    assert f"{first}: line 2" in done.err.decode() and f"{second}: line 1" in done.err.decode()


@each
def test_a_file_that_is_not_there_costs_itself_alone(one: support.Executable, bare: support.Home) -> None:
    good = bare.root / "a.jsonl"
    good.write_bytes(row(1))
    done = bare.run(one.name, *as_rows(one), str(bare.root / "none"), str(good))
    assert (done.code, urls(done)) == (3, ["https://example.org/1"])
    support.assert_one_line(done.err, one.name)
    done = bare.run(one.name, *as_rows(one), str(bare.root), str(good))
    assert (done.code, urls(done)) == (7, ["https://example.org/1"])
    support.assert_one_line(done.err, one.name)


@each
def test_operands_that_are_pipes_are_read(one: support.Executable, bare: support.Home) -> None:
    """What bash makes of <(...)."""
    pipes = [os.pipe(), os.pipe()]
    for number, (_, writer) in enumerate(pipes, 1):
        os.write(writer, row(number))
        os.close(writer)
    fds = [reader for reader, _ in pipes]
    done = subprocess.run(
        support.command(one.name, *as_rows(one), *(f"/dev/fd/{fd}" for fd in fds)), env=bare.env(), pass_fds=fds,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=support.PATIENCE)
    for fd in fds:
        os.close(fd)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 2


def gush(size: int) -> Iterator[bytes]:
    """One line of `size` bytes, in pieces."""
    yield b'{"source":"mine","url":"'
    for _ in range(size // MIB):
        yield b"x" * MIB
    yield b'"}\n'


@each
def test_a_line_of_100_megabytes_needs_little_memory(one: support.Executable, bare: support.Home) -> None:
    out, err, code, used = measured(support.command(one.name, *as_rows(one)), bare, (row(1), *gush(100 * MIB), row(3)))
    assert (code, len(out.splitlines())) == (7, 2)
    assert b"line 2: longer than 1048576 bytes" in err
    # An interpreter with the packages takes some 50 MB; the line must not add to that.
    assert used["kib"] < 150_000, used
    # It is passed over at the speed of a pipe; parsing or collecting it would take many times that.
    assert used["seconds"] < 5, used


def test_the_limit_of_memory_can_be_missed(bare: support.Home) -> None:
    """What the measure above shows for a program that collects the line."""
    hoarder = [sys.executable, "-c", "import sys; sys.stdin.buffer.read()"]
    assert measured(hoarder, bare, gush(200 * MIB))[3]["kib"] > 150_000


_MEASURE = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump({"kib": used.ru_maxrss // (1024 if sys.platform == "darwin" else 1), "seconds": used.ru_utime}, file)
sys.exit(code)
"""


def measured(
    argv: list[str | bytes] | list[str], home: support.Home, parts: Iterable[bytes]
) -> tuple[bytes, bytes, int, dict[str, float]]:
    """stdout, stderr, exit code, and peak memory and processor time of `argv` with `parts` on its stdin.

    From an interpreter of its own: a fork of a large one counts as large.
    """
    file = home.root / "used.json"
    process = subprocess.Popen([sys.executable, "-c", _MEASURE, str(file), *argv], env=home.env(), bufsize=0,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin

    def pour() -> None:
        assert process.stdin
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(process.stdin.fileno(), view):]
        process.stdin.close()

    thread = threading.Thread(target=pour)
    thread.start()
    assert process.stdout and process.stderr
    out, err = process.stdout.read(), process.stderr.read()
    thread.join()
    code = process.wait(support.PATIENCE)
    process.stdout.close()
    process.stderr.close()
    return out, err, code, orjson.loads(file.read_bytes())


def test_a_document_may_stand_on_several_lines(home: support.Home) -> None:
    text = b'{\n  "v": 1,\n  "grants": [\n    {"family": "files", "path": "/srv"}\n  ]\n}\n'
    done = home.run("ls-check", "--as", "consent", stdin=text)
    assert (done.code, done.out) == (0, b'{"v":1,"grants":[{"family":"files","path":"/srv"}]}\n')
    assert home.run("ls-check", "--as", "query", stdin=b'{"query": "a"}\n{"query": "b"}\n').code == 0
    bad = home.run("ls-check", "--as", "query", stdin=b'{\n"limit": "x"\n}')
    assert bad.code == 7 and b"limit" in bad.err and b"query" in bad.err
    assert home.run("ls-check", "--as", "query", stdin=b'{\n"query": \n').code == 7
    envelope = home.run("ls-query", "--json", "async").out
    assert home.run("ls-check", "--as", "envelope", stdin=envelope).code == 0


@each
def test_figures_at_the_edge(one: support.Executable, bare: support.Home) -> None:
    """What the schema lets pass, every reader can take."""
    most = 2**53 - 1
    data = b"".join([
        row(1, corpus=[{"id": "c", "n": most, "df": {"row": most}}], score=1e15),
        row(2, corpus=[{"id": "c", "n": 0, "df": {"row": most}}], score=-1e15, rank=most),
        row(3, location={"path": "/a", "line": most, "column": most}, meta={"lines": [1e300, -1, 1.5], "sources": "x"}),
        row(3, location={"path": "/a", "line": 1}, meta={"lines": [1e300, 2, None], "sources": [1, "y", None]}),
    ])
    done = bare.run(one.name, *as_rows(one), stdin=data)
    assert (done.code, done.err) == (0, b"")
    assert set(urls(done)) == {f"https://example.org/{number}" for number in (1, 2, 3)}

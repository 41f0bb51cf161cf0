"""Properties of the stream: any chunking gives the same lines, what is written is safe and means the same."""

import json
import math
import os
import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lspipe import stream
from lspipe.exits import Usage, WriteFailed

CAP = 32

#: Written out once more, by name of the class of characters, so that a slip in the module's own list shows.
UNSAFE = (
    set(map(chr, range(0x20))) | {"\x7f"} | set(map(chr, range(0x80, 0xA0)))
    | set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    | set("\u200b\u200c\u200d\u2060\ufeff\u180e\u2028\u2029")
    | set("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2061\u2064\u206a\ufff0\ufffb")
    | set(map(chr, range(0xFE00, 0xFE10))) | set(map(chr, range(0x1D173, 0x1D17B)))
    | set(map(chr, range(0xE0000, 0xE1000))) | {"\U0001bca0", "\U0001bca3"}
)

texts = st.text(st.characters(codec="utf-8") | st.sampled_from(sorted(UNSAFE)) | st.sampled_from('\\"/u'))
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | finite
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def packets(chunks: list[bytes]) -> int:
    """The read end of a pipe that gives `chunks` one read at a time (Linux: packet mode)."""
    reader, writer = os.pipe2(os.O_DIRECT) if sys.platform == "linux" else os.pipe()
    for chunk in chunks:
        os.write(writer, chunk)
    os.close(writer)
    return reader


def read_lines(chunks: list[bytes], cap: int = CAP) -> list[tuple[int, bytes | None]]:
    fd = packets(chunks)
    try:
        return [tuple(line) for line in stream.lines(fd, cap)]
    finally:
        os.close(fd)


def split(data: bytes, cap: int = CAP) -> list[tuple[int, bytes | None]]:
    """What `lines` promises, in the plainest words."""
    parts = data.split(b"\n")
    if parts[-1] == b"":
        parts.pop()
    return [(number, part if len(part) <= cap else None) for number, part in enumerate(parts, 1)]


pieces = st.binary(min_size=1, max_size=CAP * 2) | st.sampled_from(
    [b"\n", b"\n\n", b"a" * CAP, b"a" * (CAP + 1), b"a" * CAP + b"\n", b"a" * (CAP + 1) + b"\n", b"\r\n"]
)


@given(st.lists(pieces, max_size=15))
def test_lines_over_any_chunking_are_those_of_split(chunks: list[bytes]) -> None:
    assert read_lines(chunks) == split(b"".join(chunks))


@pytest.mark.parametrize("before", [0, 1, CAP - 1, CAP, CAP + 1])
@pytest.mark.parametrize("after", [b"", b"\n", b"\nnext", b"x\nnext\n"])
def test_a_line_at_the_cap_cut_anywhere(before: int, after: bytes) -> None:
    assert read_lines([part for part in (b"a" * before, b"b" * (CAP - before), after) if part]) == split(
        b"a" * before + b"b" * (CAP - before) + after
    )


def test_lines_wait_on_a_descriptor_that_does_not_block() -> None:
    import threading

    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    found = stream.lines(reader)
    os.write(writer, b"one\ntwo")
    assert next(found) == (1, b"one")
    threading.Timer(0.05, lambda: (os.write(writer, b"!\n"), os.close(writer))).start()
    assert list(found) == [(2, b"two!")]
    os.close(reader)


@given(values)
def test_dumps_means_the_same_to_any_reader(value: object) -> None:
    data = stream.dumps(value)
    assert data.endswith(b"\n") and data.count(b"\n") == 1
    assert json.loads(data) == value
    assert orjson.loads(data) == value


@given(values)
def test_dumps_holds_no_unsafe_character(value: object) -> None:
    assert not UNSAFE & set(stream.dumps(value, newline=False).decode())


@given(values)
def test_dumps_pretty_is_safe_and_means_the_same(value: object) -> None:
    data = stream.dumps_pretty(value)
    assert json.loads(data) == value
    assert not (UNSAFE - {"\n"}) & set(data.decode())


@given(texts)
def test_plain_is_one_safe_line(text: str) -> None:
    assert not UNSAFE & set(stream.plain(text))


def test_every_unsafe_character_leaves_as_an_escape() -> None:
    for char in sorted(UNSAFE):
        assert stream.dumps(char, newline=False).isascii(), hex(ord(char))
        assert json.loads(stream.dumps(char)) == char
        assert stream.plain(char).isascii(), hex(ord(char))


def test_harmless_text_stays_readable() -> None:
    assert stream.dumps("né 日本 🦀 ß", newline=False) == '"né 日本 🦀 ß"'.encode()


def nested(value: object) -> int:
    """The depth by its definition, recursively: only for small values."""
    if isinstance(value, dict):
        return 1 + max(map(nested, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(nested, value), default=0)
    return 0


@given(values)
def test_depth_is_that_of_the_definition(value: object) -> None:
    assert stream.depth(value) == nested(value)


def test_depth_survives_what_breaks_recursion() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert stream.depth(value) == 100_000
    while isinstance(value, list):  # Taken apart by hand: so does the interpreter survive it.
        value = value[0]


@pytest.mark.parametrize(
    ("levels", "good"), [(31, True), (32, True), (33, False), (1000, False), (100_000, False)]
)
@pytest.mark.parametrize("kind", ["objects", "arrays"])
def test_rows_are_at_most_32_deep(levels: int, good: bool, kind: str) -> None:
    opening, closing = (b'{"a":', b"}") if kind == "objects" else (b"[", b"]")
    # The row itself is the first level.
    data = b'{"a":' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"
    if good:
        assert stream.depth(stream.parse(data)) == levels
    else:
        with pytest.raises(stream.BadLine):
            stream.parse(data)


BAD = {
    "NaN": b'{"score":NaN}', "Infinity": b'{"score":Infinity}', "too large a number": b'{"score":1e999}',
    "invalid UTF-8": b'{"title":"\xff"}', "overlong UTF-8": b'{"title":"\xc0\x80"}',
    "surrogate in UTF-8": b'{"title":"\xed\xa0\x80"}', "lone high surrogate": b'{"title":"\\ud800"}',
    "lone low surrogate": b'{"title":"\\udc00"}', "raw NUL": b'{"title":"\x00"}', "tab": b'{"title":"\t"}',
    "two objects": b"{}{}", "trailing comma": b'{"a":1,}', "single quotes": b"{'a':1}",
    "comment": b"{} // no", "cut short": b'{"a":', "a number": b"1", "a string": b'"x"', "an array": b"[]",
    "null": b"null",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_not_a_row_is_named_in_a_few_words(data: bytes) -> None:
    with pytest.raises(stream.BadLine) as caught:
        stream.parse(data)
    assert 0 < len(str(caught.value)) < 100
    assert not UNSAFE & set(str(caught.value))


def test_a_number_that_is_no_number_never_becomes_one() -> None:
    for text in (b"NaN", b"-Infinity", b"1e999", b"-1e999"):
        with pytest.raises(stream.BadLine):
            stream.parse(b'{"score":' + text + b"}")
    assert math.isfinite(stream.parse(b'{"score":1e308}')["score"])


def read_rows(data: bytes, **more: object) -> tuple[list[dict[str, object]], list[tuple[int, str]]]:
    skipped: list[tuple[int, str]] = []
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    try:
        return list(stream.rows(reader, lambda n, why: skipped.append((n, why)), **more)), skipped
    finally:
        os.close(reader)


def test_a_broken_line_costs_itself_alone() -> None:
    found, skipped = read_rows(b'{"a":1}\n\n{"a":\n{"a":2}')
    assert found == [{"a": 1}, {"a": 2}]
    assert [number for number, _ in skipped] == [3]


def test_a_byte_order_mark_and_crlf_are_forgiven() -> None:
    assert read_rows(b'\xef\xbb\xbf{"a":1}\r\n{"a":2}\r\n') == ([{"a": 1}, {"a": 2}], [])
    assert [number for number, _ in read_rows(b'{"a":1}\n\xef\xbb\xbf{"a":2}\n')[1]] == [2]


@pytest.mark.parametrize(
    "data", [b'{\n  "a": 1\n}\n', b'[{"a":1}]\n', b'\n\n [\n{"a":1}\n]\n', b'\xef\xbb\xbf{\n"a":1}']
)
def test_pretty_printed_json_and_arrays_end_at_once_with_advice(data: bytes) -> None:
    with pytest.raises(Usage) as caught:
        read_rows(data)
    assert caught.value.message == "pretty-printed or array JSON: use jq -c, or jq -c '.[]'"


def test_such_a_line_later_on_is_only_a_broken_line() -> None:
    found, skipped = read_rows(b'{"a":1}\n{\n[1]\n{"a":2}\n')
    assert (found, [number for number, _ in skipped]) == ([{"a": 1}, {"a": 2}], [2, 3])


def test_the_check_names_what_it_refuses() -> None:
    found, skipped = read_rows(b'{"a":1}\n{"a":2}\n', check=lambda row: "odd" if row["a"] == 1 else None)
    assert (found, skipped) == ([{"a": 2}], [(1, "odd")])


def test_a_writer_sends_when_it_is_told_to() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    buffered = stream.Writer(writer)
    buffered.write(b"a")
    buffered.flush()
    assert os.read(reader, 10) == b"a"
    at_once = stream.Writer(writer, line_buffered=True)
    at_once.write(b"b\n")
    assert os.read(reader, 10) == b"b\n"
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        at_once.write(b"c\n")
    os.close(writer)
    with pytest.raises(WriteFailed):
        at_once.write(b"d\n")


def test_a_writer_waits_for_a_slow_reader_and_counts_it() -> None:
    import threading

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    sender = stream.Writer(writer)
    wanted = os.urandom(1 << 20)
    got: list[bytes] = []

    def drain() -> None:
        while chunk := os.read(reader, 1 << 16):
            got.append(chunk)

    thread = threading.Thread(target=drain)
    thread.start()
    sender.write(wanted)
    sender.flush()
    os.close(writer)
    thread.join()
    os.close(reader)
    assert b"".join(got) == wanted
    assert sender.waited > 0

"""mozlz4: what Firefox compressed comes out again, and nothing that a header claims is believed."""

import random
import struct
import sys

import pytest
import sessions
from hypothesis import example, given
from hypothesis import strategies as st

from lspipe.browsers import jsonfile, mozlz4
from lspipe.live import Unusable

TEXT = b'{"windows":[' + b'{"tabs":[{"entries":[{"url":"https://a.example/"}]}]},' * 40 + b"{}]}"


@pytest.mark.parametrize(("packed", "plain"), [
    ("6d6f7a4c7a34300007000000707b2261223a317d", b'{"a":1}'),
    ("6d6f7a4c7a3430001c0000004861626364" "0400c078797a313233343536373839", b"abcdabcdabcdabcdxyz123456789"),
    ("6d6f7a4c7a34300000000000", b""),
])
def test_known_blocks(packed: str, plain: bytes) -> None:
    assert mozlz4.unpacked(bytes.fromhex(packed), "x") == plain


def test_what_the_library_of_lz4_writes() -> None:
    packed = "ff0654686520717569636b2062726f776e20666f782e201500ffff5050456e642e0a"
    plain = b"The quick brown fox. " * 30 + b"End.\n"
    data = mozlz4.MAGIC + struct.pack("<I", len(plain)) + bytes.fromhex(packed)
    assert mozlz4.unpacked(data, "x") == plain


@given(st.one_of(st.binary(max_size=400), st.lists(st.sampled_from([b"a", b"ab", b"abc", b"https://", b"\0"]),
                                                  max_size=400).map(b"".join)))
@example(b"a" * 5000)
@example(bytes(70_000))
@example(b"abcdefgh" * 600 + b"x")
def test_there_and_back(data: bytes) -> None:
    assert mozlz4.unpacked(sessions.mozlz4(data), "x") == data


def test_long_ways_back() -> None:
    noise = random.Random(1).randbytes(65_400)
    data = noise + noise[:300] + b"end"
    packed = sessions.mozlz4(data)
    assert len(packed) < len(noise) + 600
    assert mozlz4.unpacked(packed, "x") == data


@pytest.mark.parametrize("size", [0x7FFFFFFF, 0xFFFFFFFF, mozlz4.MOST + 1, 100_000])
def test_a_forged_size_allocates_nothing(size: int) -> None:
    data = sessions.mozlz4(b"abc", size)
    with pytest.raises(Unusable) as caught:
        mozlz4.unpacked(data, "x")
    assert caught.value.reason == "failed"

    def act() -> None:
        with pytest.raises(Unusable):
            mozlz4.unpacked(data, "x")

    assert sessions.peak(act) < 1 << 20


@pytest.mark.parametrize("size", [-1, 1])
def test_a_size_that_is_not_what_comes_out(size: int) -> None:
    with pytest.raises(Unusable, match="damaged"):
        mozlz4.unpacked(sessions.mozlz4(TEXT, len(TEXT) + size), "x")


def test_a_bomb_is_held_to_its_bound() -> None:
    """A run of zeros as long as LZ4 can say it: 255 bytes a byte."""
    size = 4 << 20
    block = b"\x1f\0\1\0" + b"\xff" * ((size - 20) // 255) + b"\0" + b"\x50" + bytes(5)
    packed = mozlz4.MAGIC + struct.pack("<I", size) + block
    with pytest.raises(Unusable, match="MiB are unpacked"):
        mozlz4.unpacked(packed, "x", most=1 << 20)
    small = mozlz4.MAGIC + struct.pack("<I", 2000) + block
    used = sessions.peak(lambda: pytest.raises(Unusable, mozlz4.unpacked, small, "x"))
    assert used < 1 << 20


def test_cut_anywhere() -> None:
    packed = sessions.mozlz4(TEXT)
    for size in range(len(packed)):
        with pytest.raises(Unusable):
            mozlz4.unpacked(packed[:size], "x")


@pytest.mark.parametrize("block", [
    b"\x10a\0\0",  # A match that begins nowhere.
    b"\x10a\2\0",  # Before the beginning.
    b"\x10a\1",  # Half an offset.
    b"\xf0" + b"\xff" * 50,  # A length without end.
    b"\x40a",  # Fewer literals than promised.
    b"",
])
def test_broken_blocks(block: bytes) -> None:
    with pytest.raises(Unusable):
        mozlz4.unpacked(mozlz4.MAGIC + struct.pack("<I", 20) + block, "x")


@pytest.mark.parametrize("data", [b"", b"mozLz40", b"mozLz40\0", b"mozLz40\0\1\0\0", b"mozLz41\0" + bytes(20),
                                  b'{"windows":[]}'])
def test_other_files(data: bytes) -> None:
    with pytest.raises(Unusable):
        mozlz4.unpacked(data, "x")


SEEDS = [sessions.mozlz4(TEXT), sessions.mozlz4(bytes(3000)), sessions.mozlz4(random.Random(2).randbytes(200))]


@sessions.fuzzed()
@given(data=sessions.mangled(SEEDS))
@example(data=mozlz4.MAGIC + struct.pack("<I", 255 * 6) + b"\x1f\0\1\0\xff\xff")
def test_fuzz(data: bytes) -> None:
    try:
        out = mozlz4.unpacked(data, "x", most=1 << 20)
    except Unusable:
        return
    assert len(out) == int.from_bytes(data[8:12], "little") <= 255 * len(data)
    assert sys.getsizeof(out) < 2 * len(out) + 1000


WIDE = "😀".encode()


@pytest.mark.parametrize("data", [
    b'{"a":"' + b"a" * 34_000_000 + WIDE + b'"}', b'{"a":"' + WIDE + b"a" * 34_000_000 + b'"}',
    b'{"a":"' + b"a" * 34_000_000 + b'\\ud83d\\ude00"}', b'{"a":"' + b"a\\\"" * 12_000_000 + WIDE + b'"}',
    b'{"a":"' + b"a" * 70_000_000 + "Ж".encode() + b'"}', b"[" + (b'"' + b"a" * 4000 + WIDE + b'",') * 9000 + b"1]",
    b'{"a":"' + b"\\\\" * 20_000_000 + WIDE + b'"}'])
def test_texts_that_become_four_times_as_long(data: bytes) -> None:
    """One character makes every other of its text as wide as itself."""
    with pytest.raises(Unusable, match="longer texts"):
        jsonfile.check(data, "x")


def test_long_texts_that_do_not() -> None:
    many = b'"' + WIDE + b'","\\"' + b"a" * 400 + b'","' + "Ж".encode() + b'"'
    for data in (b'{"a":"' + b"a" * 70_000_000 + b'"}', b"[" + b",".join([many] * 90_000) + b"]"):
        jsonfile.check(data, "x")

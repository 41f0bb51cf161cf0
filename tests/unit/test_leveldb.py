"""leveldb and readinglist: what a database holds in the end, as LevelDB itself would say."""

import base64
import contextlib
import os
import random
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import orjson
import profiles
import pytest
import sessions
from hypothesis import example, given
from hypothesis import strategies as st
from sessions import NOON, batch, leveldb_log, leveldb_table, manifest, reading

from lspipe.browsers import leveldb, leveldb_files, protobuf, readinglist
from lspipe.live import Late, Unusable

NOW = NOON + 3_600_000_000
PREFIXES = list(readinglist.PREFIXES.values())
LOCAL, ACCOUNT = PREFIXES
KEYS = [LOCAL + b"https://a.example/", LOCAL + b"https://b.example/", ACCOUNT + b"https://c.example/"]


def values(files: Mapping[str, bytes], prefixes: list[bytes] = PREFIXES, broken: int = 0) -> dict[bytes, bytes]:
    contents = leveldb.read(files, prefixes)
    assert contents.broken == broken
    return contents.values


# ---- A database that LevelDB wrote: a table of first versions, one of changes and deletions, a log; Snappy


#: Each file compressed by zlib, in base64.
WRITTEN = {
    "000005.ldb":
        "eNqNlm1sU1UYx8/T3W73sg7areg2NnanRUFYd+9te9sOHHNqQcABk7dN3FbW27XSvWQti/hhWSHZCPgWE00WiXN8MfGDwkcTSTQmJibG"
        "8I0PaGICqCgI400RKT5nvfe0a7uxJid7bvrb6a//5/Scc47fR6p6QtpItFfrjg6EBxtCiQZJgjpihv3xwX5NHExEtGExFEwExcGwGD88"
        "0CumKomt0m4VemQQzQdTMfJOjPAK1GN1CisXPKFXbnhSrzzg0CsVVumVF57SKx88rVd+WI3VhzFSQ/AFdJzfcbLjXCFNWYI1i9R8Jktz"
        "LdNcxzQbmKaTaTYyTYlpykxTydWs+64SCmoqErgWqenO0vQwTZVpepmmj2n6mWYT01zPNDfkanJvHb9UUNMlwbOL1GzO0tzINFuY5nNM"
        "s5VpPs80X2CaLzLNQK7mwfFfWs/xNzYQb++wFgxFB/q6Y9F4gopGEomheFNjYzya0CSn9kawfyimNQaHE9Fe/CsB/X98LamLjKwh7vLS"
        "7bGQmIgmYpooVY86iUMc+2Ry8qeLHxSttgl2yVSzolduTRJeBpN5rClJtqwhziQhsoqlk/Diw6mypE2wSqbamkjABBZcdaVlR0i9cx0Q"
        "uW0t4cotfjMvS9XjMuHEu7YJm2Ce2HKGTmhpnyBIKBM4XROWFLiTBogSeBcwvrIMohjIbR1xBSZorksziMtAbumImyJuWJZB3AZyU0c8"
        "FPGANYN4DGSGIg7JxFK//VnJlfP8jWbijyyUuqzmxS6rYNNzr4+MriW+cksmd1ml4TjEG1PZwWOeXurmhXLzeDOz8xp21/Uv4KOQDyoy"
        "X8BnIH/piJ8ifrBnEL+BXKNIus1K6wRdsUVl46TOGTBho7ny0o4qTqHLghNTNuzzKp5IAVwNEiwvO6LETETBCZ08cIqk8tBOZ7yqf6hM"
        "P1SGx/KazIt/TvU7ZpdBmPb48QI9/iM3+j3yR7sXEb3iyotecUHlvNErrnT0V3Kj11dOVXb0bO38PnftVBdYO7/piEoRFVZkENVAftUR"
        "vcs17fk9vjy3x7UFenxpbo9XFujxRYpYZ3scOFOEPxlutsUXitItPvw550q3+AFtcXbq37d9++D4o7cZd17objDPu82409vMf1M524yH"
        "bjMeKM7eZjzpbYYT71M1c5KoFFKhpI0hqoH8qyNeiniBzyBeA7mnIz6K+EDIID4D+UdH/BTxw5IM4jeQvymyDWOq7YwHR7RQdyJ4oLtv"
        "ePDQUHCVBS8Hm4Sj5gpHnB4N+E5cTC0jtcvsdqFThs2pMBkNZ23kjdaP10/ykfypZi8aCryEZ07hyVywxazhdCNhulC3YnU8TPPbplcq"
        "vKxXXmjTKx9s1ys/7EirVFYs6cQ9e2eqj4z2kbRle65lifNW1byWsgKvLGC5K8tyN7Pcwyz3Mst9zLKDWXZmLPGi8Gq25f5cy+JrqY55"
        "LRUFXlvAsivLsptZ9jDLILM8wCx7mWUoY4n3BC3bMpxr2XOr+PQPxfNYuhToW8AyYlha3BBFLnWW1J5t2jr7UR54nX0HFQ4y3xjz7We+"
        "A7lSq5NHxowH8vXN6dNJDu9ARbkXX7x+EgGsp4BUcU11xCLjRU9YyX0KbSKxKHidEkTHjyZ8W+A0eCjA5jtF+ODnsjcPGDo257D05B+W"
        "eBwLOywnzTOmN1sIpyitLTg7HhRCi/19/q6JeIdR1tW6kR7/nNC86+3SGfwxcjl5wjcWCX9xgsNydOnPpj0O1MWljY+XrdNAHxVcQ4KD"
        "O1HehQ8ubJXg4M9UTNd3kYTcZTlvfw+g+qs6DGQjjm4cgzi+wHEdRwNGtRPHIRyTOM7isNAErYcrZ64u5+8t/9JEHvXae3/shOPQpgv/"
        "A8HXEo4=",
    "000008.ldb":
        "eNpr5/xgw2CeVZSamJKZlx6fk1lcoptSoptRUlJQbKWvX5xZkmqgl1qRmFuQk6qfWFSSmQykDRjzGcCASz6jTJMhQEjIL7VcoSSzJCdV"
        "wUDh2fSlz+askaozZVBRaFgwc+adx1OZNQQ5RQwYZaQZDJ06GDgMGSpZ2zkYZGX85ECcakF5lnwjN1sGDiPGYk55Fi5FvfcMDIZ+2gws"
        "QsKSJ1gMjQRPtlkwcCh8mc97GmyQrEy+qVsfA4cpY0lQHwNQoVEfA4NpGJBpwcCi8FGwT5CTsY+FwQykxoyhhrOPB6jDwk2egcOCsZRT"
        "3sqaEaRnLQODRdhaiJ53gmshTpRlMHJjZ+IxMmSo5ewXMOTIZyzj5DabxRBkxqA3i4HFyDAIyAY55vV83auCnIruLPkmThqMPEYmjOUI"
        "t5jA3PIC4havq0AVZgx1EJeYu61l4DBnrEB2iTnMJU9BLlExYASFL4hgnFKw795x5g92BKLJGCOajBkL4NFUUpKHFlHGKBH1dz5aRJmB"
        "IsqMoYq1XYRBnyOLsZCTm4HLKI7By4RBbzIDg1nQZAYvU2Aw/JrPO5nl13xOiLYsS6fJDByWjEV+HQxemgx6HQwMlkEdIJUsCt956xk0"
        "UL3WMzc3AsZhOPBp4QYGS2Z8fjQyx/CkETAcIb5kWMTMwMlSzPgfApYzXwMbaw/ETCBGvSWHaxMrRz9rNANBEP67oVul1P02AH2Gxws=",
    "000009.log":
        "eNrL2nNYazEDYz0DBDCCsEFRamJKZl56fE5mcYluSoluRklJQbGVvn5+Xk6lbmaebklGqm5OfrpeakVibkFOqn4KlwIhJUJcnnkKQEEF"
        "oKAUQdUKDQtmzrzzeCqzBoxhwNQd43Opi4GxAdmlWo66uNyamJycX5pXAjcykEsCl5QQuyNERAqnEoW586EOgjEMmLblHOeyZWBsRHIQ"
        "gz4u5xRnlqQawY1LLCrJTAbSRgCON4GL",
    "CURRENT":
        "eNrzdfTzdHMNDtE1AAFzLgAjqQO2",
    "MANIFEST-000007":
        "eNrjauKYG8nAyCiVk1qWmpOSpOdUWZJanlmc6pyfW5BYlFiSX8TOwPpcQjIltSwzOTU+My8tXzelRNfAgFGeAQxkixPLUlPiSxKT4tOL"
        "8ksLQLLGlox5ENnoqF+ytQyMTJycDMxcLHXsDBzz2cyLUhNTMvPS43Myi0tAyjNKSgqKrfT1izNLUg30UisScwtyUvUTi0oyk4G0AWM+"
        "xCy8+iwx9FkyFkH0AQBFCEOR",
}


def written() -> dict[str, bytes]:
    return {name: zlib.decompress(base64.b64decode(text)) for name, text in WRITTEN.items()}


def test_what_leveldb_wrote() -> None:
    files = written()
    assert any(data[-8:] == bytes.fromhex("57fb808b247547db") for data in files.values())
    found = values(files)
    sites = {number for number in range(30) if number % 5 != 1 and number != 2}
    assert set(found) == {LOCAL + b"https://site%d.example/article/%d" % (number, number) for number in sites} | {
        LOCAL + b"https://only-in-the-log.example/", ACCOUNT + b"https://account.example/"}
    rows = [one for one in readinglist.entries(found, NOW) if one]
    assert {one.title for one in rows if "site" in one.url} == {
        f"New title {number} 日本" if number % 3 == 0 else f"Old title {number}" for number in sites}
    everything = values(files, [b""])
    assert len(everything) == 105
    assert everything[b"device_info-dt-07"] == b"some other data of sync " * 4
    assert values(files, [b"saved_tab_group-dt-3"]) == {
        b"saved_tab_group-dt-%d" % number: b"groups of tabs " * 6 for number in range(30, 40)}


def test_only_the_blocks_that_may_hold_a_key_are_unpacked() -> None:
    files = written()
    table = bytearray(files["000005.ldb"])
    table[10] ^= 1  # In the first block, far from the reading list.
    files["000005.ldb"] = bytes(table)
    assert values(files, [LOCAL]) == values(written(), [LOCAL])
    assert leveldb.read(files, [b""]).broken == 1


# ---- Real profiles


@pytest.mark.parametrize("name", ["running", "sigkill"])
def test_real_reading_list(name: str) -> None:
    if not profiles.FIXTURES.is_dir():
        pytest.skip("no real profiles: LSPIPE_FIXTURES is not set")
    folder = profiles.FIXTURES / "chromium" / name / "Default/Sync Data/LevelDB"
    names = leveldb.wanted(os.listdir(folder))
    assert names == ["000003.log", "CURRENT", "MANIFEST-000001"]
    rows = list(readinglist.entries(values({one: (folder / one).read_bytes() for one in names}), 1_796_100_000_000_000))
    assert [(one.url, one.title, one.state, one.origin) for one in rows if one] == [
        ("http://127.0.0.1:8765/t/2", "Read done", "read", "local"),
        ("http://127.0.0.1:8765/t/19", "Read later 日本", "unseen", "local")]
    assert all(one and one.added and one.changed and one.quality is None for one in rows)
    assert [one.first_read is not None for one in rows if one] == [True, False]


# ---- Logs, tables, sequence numbers


def test_the_highest_sequence_wins_wherever_it_is() -> None:
    a, b, c = KEYS
    files = {"000009.log": leveldb_log(batch(1, (a, b"log 1"), (b, b"log 2"), (b"other", b"x"))),
             "000003.ldb": leveldb_table([(a, 7, b"table 7"), (a, 2, b"old"), (c, 3, b"here")]),
             "000004.sst": leveldb_table([(b, 9, None), (c, 8, None), (c, 9, b"again")], pack=False)}
    assert values(files) == {a: b"table 7", c: b"again"}


def test_records_over_several_blocks() -> None:
    random.seed(3)
    large = [(LOCAL + b"%d" % number, random.randbytes(size)) for number, size in
             enumerate((10, 32768, 100_000, 32761, 7, 32768 - 7 - 12 - 30, 65536))]
    data = leveldb_log(*(batch(number, change) for number, change in enumerate(large)))
    assert values({"000001.log": data}) == dict(large)


def test_every_end_of_a_block() -> None:
    """In the last six bytes of a block no record begins."""
    for left in range(16):
        room = 32768 - 7 - left - len(batch(1, (KEYS[0], b""))) - 2
        data = leveldb_log(batch(1, (KEYS[0], bytes(room))), batch(2, (KEYS[1], b"two")))
        assert values({"000001.log": data}) == {KEYS[0]: bytes(room), KEYS[1]: b"two"}


def test_a_torn_log_keeps_what_was_written() -> None:
    data = leveldb_log(batch(1, (KEYS[0], b"one")), batch(2, (KEYS[1], b"two" * 19_000)))
    first = len(leveldb_log(batch(1, (KEYS[0], b"one"))))
    for size in (first, first + 3, first + 7, first + 50, 32768, len(data) - 1):
        assert values({"000001.log": data[:size]}) == {KEYS[0]: b"one"}
    assert values({"000001.log": data[:first - 1]}) == {}
    # Room that was set aside is no damage.
    assert values({"000001.log": data + bytes(100_000)}) == values({"000001.log": data})


def test_a_broken_record_costs_itself() -> None:
    parts = [batch(number, (LOCAL + b"%d" % number, b"value %d" % number)) for number in range(5)]
    data = bytearray(leveldb_log(*parts))
    data[data.index(b"value 2")] ^= 1
    found = values({"000001.log": bytes(data)}, broken=1)
    assert sorted(found) == [LOCAL + b"%d" % number for number in (0, 1, 3, 4)]


def fragment(kind: int, data: bytes) -> bytes:
    return sessions.masked_crc(bytes((kind,)) + data) + struct.pack("<HB", len(data), kind) + data


def test_fragments_that_do_not_fit_together() -> None:
    one, two = batch(1, (KEYS[0], b"one")), batch(2, (KEYS[1], b"two"))
    alone = [fragment(3, one), fragment(4, one), fragment(5, one), fragment(2, one), fragment(2, one[:9])]
    for start in (*alone, b"".join(alone)):
        assert values({"000001.log": start + fragment(1, two)}) == {KEYS[1]: b"two"}
        whole = fragment(2, two[:5]) + fragment(3, two[5:20]) + fragment(4, two[20:])
        assert values({"000001.log": start + whole}) == {KEYS[1]: b"two"}
    # What comes between two parts of a record ends it.
    torn = fragment(2, one[:9]) + fragment(1, two) + fragment(4, one[9:])
    assert values({"000001.log": torn}) == {KEYS[1]: b"two"}


def test_a_wrong_length_costs_the_rest_of_the_block() -> None:
    filler = batch(1, (b"filler", bytes(33_000)))
    data = bytearray(leveldb_log(batch(0, (KEYS[0], b"one")), filler, batch(2, (KEYS[1], b"two"))))
    data[4:6] = b"\xff\xff"
    assert values({"000001.log": bytes(data)}, broken=1) == {KEYS[1]: b"two"}


@pytest.mark.parametrize("bad", [
    struct.pack("<QI", 1, 5), struct.pack("<QI", 1, 1) + b"\7" + sessions.sized(KEYS[0]),
    struct.pack("<QI", 1, 1) + b"\1" + b"\xff" * 12, struct.pack("<QI", 1, 1) + b"\1\xff\x7f" + KEYS[0],
    struct.pack("<QI", 1, 0xFFFFFFFF), struct.pack("<QI", 1, 1) + b"\0" + bytes((len(KEYS[0]) + 1,)),
    struct.pack("<QI", 1, 1) + b"\1" + sessions.sized(KEYS[0]) + b"\3ab",
])
def test_broken_batches(bad: bytes) -> None:
    bad += b"" if KEYS[0] in bad else KEYS[0]
    good = batch(9, (KEYS[1], b"two"))
    assert values({"000001.log": leveldb_log(bad, good)}, broken=1) == {KEYS[1]: b"two"}


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("per_block", [1, 3, 1000])
def test_tables(pack: bool, per_block: int) -> None:
    entries = [(b"%s%04d" % (prefix, number), number + 1, b"value %d " % number * (number % 7))
               for prefix in (b"a-", LOCAL, ACCOUNT, b"z-", b"reading_list-md-") for number in range(50)]
    files = {"000001.ldb": leveldb_table(entries, per_block=per_block, pack=pack)}
    assert values(files) == {key: value for key, _, value in entries if key.startswith((LOCAL, ACCOUNT))}
    assert values(files, [b""]) == {key: value for key, _, value in entries}


def test_a_broken_block_costs_itself() -> None:
    entries = [(LOCAL + b"%02d" % number, number, b"value %02d" % number) for number in range(20)]
    data = bytearray(leveldb_table(entries, per_block=5, pack=False))
    data[data.index(b"value 07")] ^= 1
    assert len(values({"000001.ldb": bytes(data)}, broken=1)) == 15


def test_a_table_without_end() -> None:
    good = leveldb_table([(KEYS[0], 1, b"one")])
    for bad in (b"", good[:-1], good[1:], bytes(48), good[:-48] + b"\xff" * 40 + good[-8:]):
        assert values({"000001.ldb": bad, "000002.ldb": leveldb_table([(KEYS[1], 1, b"two")])}, broken=1) == {
            KEYS[1]: b"two"}


@pytest.mark.parametrize("bad", [
    b"\x01\x09\x01" + KEYS[0][:9] + b"x",  # Shares with a key that is not there.
    b"\0\x63\x01" + KEYS[0], b"\0\x03\x7f" + KEYS[0], b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0" + KEYS[0],
    b"\0\x03\0abc",  # Too short for a sequence number.
])
def test_broken_entries(bad: bytes) -> None:
    block = bad + struct.pack("<II", 0, 1) + b"\0"
    out = block + sessions.masked_crc(block)
    found, out = sessions._leveldb_block(out, [(b"\xff" * 9, b"\0" + sessions.varint(len(block) - 1))], False)
    data = out + (b"\0\0" + found).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")
    assert values({"000001.ldb": data}, broken=1) == {}


def test_other_compressions_are_counted() -> None:
    data = bytearray(leveldb_table([(KEYS[0], 1, b"one")], pack=False))
    end = data.index(b"one") + 3 + 8
    data[end] = 2  # Zstandard, which Chromium does not write.
    data[end + 1:end + 5] = sessions.masked_crc(bytes(data[:end + 1]))
    assert values({"000001.ldb": bytes(data)}, broken=1) == {}


# ---- The manifest


def test_leftovers_do_not_count() -> None:
    key = KEYS[0]
    files = {"000003.log": leveldb_log(batch(1, (key, b"deleted since"))), "000005.ldb": leveldb_table([]),
             "000004.ldb": leveldb_table([(key, 3, b"deleted since")]), "000007.log": leveldb_log(
                 batch(9, (KEYS[1], b"new")))}
    assert values({**files, **manifest(tables=[4, 5], gone=[4], log=7)}) == {KEYS[1]: b"new"}
    # Without a manifest everything counts.
    assert set(values(files)) == {KEYS[0], KEYS[1]}


def test_a_table_that_is_missing_is_counted() -> None:
    files = {"000007.log": leveldb_log(batch(9, (KEYS[1], b"new"))), **manifest(tables=[4], log=7)}
    assert values(files, broken=1) == {KEYS[1]: b"new"}


def test_a_broken_manifest_lets_everything_count() -> None:
    files = {"000003.log": leveldb_log(batch(1, (KEYS[0], b"one")))}
    listed = manifest(tables=[], log=9)
    assert values({**files, **listed}) == {}
    torn = bytearray(listed["MANIFEST-000002"])
    torn[12] ^= 1
    assert values({**files, **listed, "MANIFEST-000002": bytes(torn)}, broken=1) == {KEYS[0]: b"one"}
    for edit in (b"\x63", b"\2", b"\2\xff", b"\7\0\4"):
        strange = {**listed, "MANIFEST-000002": leveldb_log(edit)}
        assert values({**files, **strange}, broken=1) == {KEYS[0]: b"one"}
    for other in ({"CURRENT": b"MANIFEST-000077\n"}, {"CURRENT": b"\xff\n"}, {"CURRENT": b""}):
        assert values({**files, **listed, **other}) == {KEYS[0]: b"one"}


def test_no_database() -> None:
    for files in ({}, {"CURRENT": b"MANIFEST-000002\n"}, {"LOG": b"x", "x.log": b"", "1.ldb.bak": b""}):
        with pytest.raises(Unusable) as caught:
            leveldb.read(files, PREFIXES)
        assert caught.value.reason == "not-found"


def test_the_names_that_are_read() -> None:
    names = ["LOG", "LOG.old", "LOCK", "CURRENT", "MANIFEST-000001", "000005.ldb", "000004.sst", "000003.log", "x.log",
             "000003.log.bak", "000006.dbtmp", "²3.log", "9" * 30 + ".ldb", ".log"]
    assert leveldb.wanted(names) == ["000003.log", "000004.sst", "000005.ldb", "CURRENT", "MANIFEST-000001"]


# ---- Snappy and checksums


@pytest.mark.parametrize(("packed", "plain"), [
    ("00", b""), ("0308616263", b"abc"), ("0c046162260200", b"ab" * 6),
    # As a library packs it.
    ("90031c6162636465666768fe0800fe0800fe0800fe0800fe0800fe08001108", b"abcdefgh" * 50),
])
def test_known_snappy_blocks(packed: str, plain: bytes) -> None:
    assert leveldb_files.snappy(bytes.fromhex(packed)) == plain


@given(st.one_of(st.binary(max_size=300), st.lists(st.sampled_from([b"a", b"ab", b"https://", bytes(70)]),
                                                  max_size=300).map(b"".join)))
@example(bytes(70_000))
@example(random.Random(4).randbytes(66_000) * 2)
def test_snappy_there_and_back(data: bytes) -> None:
    assert leveldb_files.snappy(sessions.snappy(data)) == data


@pytest.mark.parametrize("data", [
    b"", b"\xff\xff\xff\xff\x7f", b"\x03\x04ab", b"\x03\x08abcd", b"\x04\x01\x01", b"\x04\x00a\x01\x00",
    b"\x04\x00a\x02", b"\x08\x00a\x0d\x09", b"\x03\x08abc\x00", b"\x05\x08abc", b"\x03\xf8", b"\x05\x00a\x0f\x01\x00",
])
def test_broken_snappy_blocks(data: bytes) -> None:
    with pytest.raises(leveldb_files.Bad):
        leveldb_files.snappy(data)


def test_a_forged_size_of_snappy_allocates_nothing() -> None:
    data = sessions.varint(1 << 31) + bytes(1000)
    assert sessions.peak(lambda: pytest.raises(leveldb_files.Bad, leveldb_files.snappy, data)) < 1 << 20


def test_a_block_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sessions.snappy(bytes(5000))
    assert len(leveldb_files.snappy(data)) == 5000
    monkeypatch.setattr(leveldb_files, "_LARGEST", 4999)
    with pytest.raises(leveldb_files.Bad):
        leveldb_files.snappy(data)


@pytest.mark.parametrize(("data", "expected"), [
    (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E),
])
def test_crc32c_of_rfc_3720(data: bytes, expected: int) -> None:
    assert leveldb_files.crc32c(data) == expected
    assert leveldb_files.crc32c(data[5:], leveldb_files.crc32c(data[:5])) == expected


# ---- The reading list


def test_reading_list_entries() -> None:
    found = {
        LOCAL + b"https://a.example/": reading("https://a.example/", "Anton", added=NOON - 1, status=0),
        LOCAL + b"https://b.example/": reading("https://b.example/", "Bücher 📚", status=1, read=NOON + 5,
                                               changed=NOON + 6),
        ACCOUNT + b"https://b.example/": reading("https://b.example/", "Again", added=NOON + 9),
        ACCOUNT + b"https://c.example/": reading("https://c.example/", None, status=None, added=NOON - 3),
        LOCAL + b"https://d.example/": reading("https://d.example/", "x", added=0, status=77),
        LOCAL + b"broken": b"\x0a\xff", LOCAL + b"odd": b"\x0b", b"bookmarks-dt-x": reading("https://x.example/", "x"),
    }
    rows = list(readinglist.entries(found, NOW))
    assert rows[:4] == [
        readinglist.Reading("https://b.example/", "Bücher 📚", "read", NOON, None, NOON + 6, NOON + 5, "local"),
        readinglist.Reading("https://a.example/", "Anton", "unread", NOON - 1, None, NOON - 1, None, "local"),
        readinglist.Reading("https://c.example/", None, "unseen", NOON - 3, None, NOON - 3, None, "account"),
        readinglist.Reading("https://d.example/", "x", "unseen", None, "zero", None, None, "local")]
    assert rows[4:] == [None, None]


def test_a_url_from_the_id_or_the_key() -> None:
    only_id = sessions.varint(1 << 3 | 2) + sessions.sized(b"https://a.example/")
    rows = list(readinglist.entries({LOCAL + b"https://k.example/\xff": b"", LOCAL + b"x": only_id, LOCAL: b""}, NOW))
    assert [one and one.url for one in rows] == ["https://a.example/", "https://k.example/\ufffd", None]


def test_fields_that_came_later_are_passed_over() -> None:
    extra = b"".join((sessions.varint(20 << 3 | 1) + bytes(8), sessions.varint(21 << 3 | 5) + bytes(4),
                      sessions.varint(22 << 3 | 2) + sessions.sized(b"new"), sessions.varint(17 << 3) + b"\x05"))
    rows = list(readinglist.entries({KEYS[0]: reading("https://a.example/", "A", added=-5, extra=extra)}, NOW))
    assert [(one.title, one.quality) for one in rows if one] == [("A", "negative")]


# ---- Hostile files


ENTRIES: list[Any] = [(LOCAL + b"%02d" % number, number, reading(f"https://{number}.example/", "T" * number))
                      for number in range(12)]
LOG_SEED = leveldb_log(*(batch(number, (key, value), (b"x", None)) for key, number, value in ENTRIES))
TABLE_SEEDS = [leveldb_table(ENTRIES), leveldb_table(ENTRIES, pack=False, per_block=1)]


@sessions.fuzzed()
@given(log=sessions.mangled([LOG_SEED]), table=sessions.mangled(TABLE_SEEDS),
       listed=sessions.mangled([manifest([2], 1)["MANIFEST-000002"]]))
@example(log=struct.pack("<IHB", 0, 12, 1) + struct.pack("<QI", 1, 0xFFFFFFFF), table=bytes(48), listed=b"")
def test_fuzz_of_files(log: bytes, table: bytes, listed: bytes) -> None:
    files = {"000001.log": log, "000002.ldb": table, "CURRENT": b"MANIFEST-000002\n", "MANIFEST-000002": listed}
    contents = leveldb.read(files, PREFIXES)
    for one in readinglist.entries(contents.values, NOW):
        assert one is None or orjson.dumps([one.url, one.title, one.added, one.state])


@sessions.fuzzed()
@given(data=sessions.mangled([reading("https://a.example/", "Title", read=5)]))
def test_fuzz_of_entries(data: bytes) -> None:
    rows = list(readinglist.entries({KEYS[0]: data}, NOW))
    assert len(rows) == 1
    assert rows[0] is None or orjson.dumps(rows[0].url)


@sessions.fuzzed()
@given(data=sessions.mangled([sessions.snappy(b"https://a.example/ " * 30 + bytes(300))]))
def test_fuzz_of_snappy(data: bytes) -> None:
    with contextlib.suppress(leveldb_files.Bad):
        assert len(leveldb_files.snappy(data)) <= 22 * len(data)


def test_a_block_that_is_named_again_and_again() -> None:
    body = sessions.leveldb_table([(KEYS[0], 1, b"one")], pack=False)
    handle = sessions.varint(0) + sessions.varint(body.index(b"one") + 3 + 8)
    listed = [(KEYS[0] + struct.pack("<Q", number), handle) for number in range(50)]
    out = body[:-48]
    found, out = sessions._leveldb_block(out, listed, False)
    data = out + (b"\0\0" + found).ljust(40, b"\0") + body[-8:]
    assert values({"000001.ldb": data}, broken=1) == {KEYS[0]: b"one"}


def test_keys_that_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bytes in a block make a key of many thousand."""
    monkeypatch.setattr(leveldb, "_SPENT", 1 << 20)
    start = LOCAL + b"k" * 8000
    block = sessions.varint(0) + sessions.varint(len(start) + 8) + b"\0" + start + struct.pack("<Q", 1 << 8 | 1)
    for _ in range(2000):
        block += sessions.varint(len(start)) + b"\x08\0" + struct.pack("<Q", 2 << 8 | 1)
    block += struct.pack("<II", 0, 1)
    out = block + b"\0" + sessions.masked_crc(block + b"\0")
    found, out = sessions._leveldb_block(out, [(b"\xff" * 9, sessions.varint(0) + sessions.varint(len(block)))], False)
    data = out + (b"\0\0" + found).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")
    with pytest.raises(Unusable, match="unpacks to more"):
        leveldb.read({"000001.ldb": data}, PREFIXES)


def test_more_entries_than_anybody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leveldb, "_KEPT", 10_000)
    with pytest.raises(Unusable, match="holds more"):
        values({"000001.log": leveldb_log(*(batch(n, (LOCAL + b"%d" % n, bytes(100))) for n in range(99)))})


def test_blocks_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a checksum to be worked out: that of the same bytes is, once."""
    counted: list[int] = []
    whole = leveldb_files.crc32c
    monkeypatch.setattr(leveldb_files, "crc32c", lambda data, crc=0: (counted.append(len(data)), whole(data, crc))[1])
    listed = [(KEYS[0] + b"%04d" % number + struct.pack("<Q", 1 << 8 | 1),
               sessions.varint(number) + sessions.varint(19_000 - number)) for number in range(300)]
    found, out = sessions._leveldb_block(bytes(20_000), listed, False)
    data = out + (b"\0\0" + found).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")
    assert values({"000001.ldb": data}, broken=2) == {}
    assert sum(counted) <= len(data)


@pytest.mark.parametrize("files", [
    {"000001.log": leveldb_log(batch(1, (KEYS[0], b"one")))}, {"000001.ldb": leveldb_table([(KEYS[0], 1, b"one")])}])
def test_no_time(files: dict[str, bytes]) -> None:
    with pytest.raises(Late):
        leveldb.read(files, PREFIXES, lambda: True)
    with pytest.raises(Late):
        list(readinglist.entries(values(files), NOW, lambda: True))


def test_a_manifest_that_lists_more_tables_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leveldb, "_LISTED", 10)
    files = {"000001.log": leveldb_log(batch(1, (KEYS[0], b"one")))}
    assert values({**files, **manifest(range(10, 21), log=1)}, broken=1) == {KEYS[0]: b"one"}


def test_a_message_of_more_fields_than_anybody_writes() -> None:
    """Two bytes each, which would become a hundred of memory."""
    assert len(protobuf.fields(b"\x08\x01" * 100_000)) == len(protobuf.numbers(b"\x01" * 100_000)) == 100_000
    assert protobuf.last(b"\x08\x01" * 100_001) is None
    assert list(readinglist.entries({KEYS[0]: b"\x08\x01" * 100_001}, NOW)) == [None]
    with pytest.raises(leveldb_files.Bad):
        protobuf.numbers(b"\x01" * 100_001)

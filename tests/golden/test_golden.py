"""Golden pairs: what goes in and what must come out, found by their file names.

`NAME--case.args` holds one argument a line ({home} is the sample home), `.in` the input, `.out`, `.err` and `.code`
what must come of it; a missing one means none, none and 0. LSPIPE_GOLDEN_WRITE=1 writes what came out.
"""

import os
import re
from pathlib import Path

import orjson
import pytest
import support

from lspipe import schema

PAIRS = support.goldens()
ROW = schema.load("row")


def settle(data: bytes, home: support.Home) -> bytes:
    """The same for every place of the home folder, every run, every duration."""
    folder = str(home.home).encode()
    if folder in data:
        # The id of a file is a hash of its path.
        data = re.sub(rb'"id":"res_[0-9a-f]{16}"(?=[^\n]*' + re.escape(folder) + rb")", b'"id":"res_"', data)
        data = data.replace(folder, b"{home}")
    data = data.replace(str(home.config).encode(), b"{config}").replace(str(home.state).encode(), b"{state}")
    return re.sub(rb'"(plan|retrieve|fuse|rerank|timing_ms)":( ?)[0-9.]+', rb'"\1":\g<2>0', data)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_golden(pair: support.Golden, home: support.Home) -> None:
    done = home.run(pair.name, *pair.args(home), stdin=pair.stdin)
    done = support.Done(done.code, settle(done.out, home), settle(done.err, home))
    if os.environ.get("LSPIPE_GOLDEN_WRITE"):
        pair.write(done)
    assert done.err == pair.err
    assert done.out == pair.out
    assert done.code == pair.code
    assert not home.runs


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.name in {str(one) for one in support.of("source")}],
                         ids=str)
def test_a_source_emits_what_the_schema_names_and_nothing_else(pair: support.Golden) -> None:
    for line in pair.out.splitlines():
        row = orjson.loads(line)
        assert list(support.strangers(ROW, row)) == []
        assert schema.explain("row", row) == []
        # What every row of ours says of itself.
        assert {"id", "source", "url", "provenance"} <= set(row)
        assert {"retriever", "method", "acl", "private"} <= set(row["provenance"])


def test_the_walker_finds_a_stranger() -> None:
    row = {"source": "x", "url": "x", "colour": 1, "provenance": {"colour": 1}, "corpus": [{"id": "x", "colour": 1}],
           "meta": {"colour": 1}}
    assert list(support.strangers(ROW, row)) == ["colour", "provenance.colour", "corpus.colour"]


def test_times_are_utc_and_nothing_of_this_machine_is_in_a_pair() -> None:
    for file in Path(support.GOLDEN).glob("*--*"):
        text = file.read_bytes()
        for path in (str(support.ROOT), os.path.expanduser("~") + "/", "/tmp/"):
            assert path.encode() not in text, file.name
        assert not re.search(rb'_at":"[^"]*[^Z"]"', text), file.name

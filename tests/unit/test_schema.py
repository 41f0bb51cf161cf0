"""The schema files: described, exemplified, and judged alike by both engines."""

import copy
import json
import warnings
from collections.abc import Iterator
from typing import Any

import jsonschema
import jsonschema_rs
import orjson
import pytest
import referencing
import support
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lspipe import schema

SCHEMAS = {name: schema.load(name) for name in schema.NAMES}


def both(document: dict[str, Any], value: Any) -> tuple[bool, bool]:
    """What jsonschema and jsonschema-rs say; the first never fetches anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slow = jsonschema.Draft202012Validator(document, registry=referencing.Registry()).is_valid(value)
    return slow, jsonschema_rs.Draft202012Validator(document).is_valid(value)


def properties(node: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(JSON pointer, subschema) of every property that is described, not of those that only add a condition."""
    if not isinstance(node, dict):
        return
    for key, below in node.get("properties", {}).items():
        if isinstance(below, dict):
            yield f"{place}/properties/{key}", below
            yield from properties(below, f"{place}/properties/{key}")
    for key in ("items", "additionalProperties"):
        yield from properties(node.get(key), f"{place}/{key}")
    for key, below in node.get("$defs", {}).items():
        yield from properties(below, f"{place}/$defs/{key}")


PROPERTIES = [(name, place, node) for name, one in SCHEMAS.items() for place, node in properties(one, "#")]


def walk(node: Any) -> Iterator[Any]:
    yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(below)


def test_every_schema_file_is_known_and_every_known_one_a_file() -> None:
    assert {file.name for file in (support.ROOT / "schemas").glob("*.json")} == {
        f"{name}.schema.json" for name in schema.NAMES}


@pytest.mark.parametrize("name", schema.NAMES)
def test_a_schema_is_a_good_schema(name: str) -> None:
    one = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(one)
    jsonschema_rs.Draft202012Validator(one)
    assert one["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert one["$id"] == f"urn:lspipe:{name}:1"
    assert one["description"] and one["type"] == "object"


@pytest.mark.parametrize("name", schema.NAMES)
def test_a_schema_uses_nothing_that_the_engines_read_differently(name: str) -> None:
    for node in walk(SCHEMAS[name]):
        if isinstance(node, dict):
            assert not isinstance(node.get("format"), str), "format is not a gate"
            pattern = node.get("pattern", "")
            assert "\\p{" not in pattern and "\\P{" not in pattern and "\\d" not in pattern, pattern
            assert str(node.get("$ref", "#")).startswith(("#", "urn:lspipe:")), "nothing is ever fetched"


@pytest.mark.parametrize(("name", "place", "node"), PROPERTIES, ids=[f"{n}{p[1:]}" for n, p, _ in PROPERTIES])
def test_every_property_is_described_and_its_examples_are_good(name: str, place: str, node: dict[str, Any]) -> None:
    assert node.get("description", "").strip(), "no description"
    assert node.get("examples"), "no examples"
    inside = {"$defs": {"whole": SCHEMAS[name]}, "$ref": f"urn:lspipe:{name}:1{place}"}
    for example in node["examples"]:
        assert both(inside, example) == (True, True), example


def whole(name: str) -> dict[str, Any]:
    """An object of the first example of each top-level property."""
    return {key: below["examples"][0] for key, below in SCHEMAS[name]["properties"].items() if "examples" in below}


@pytest.mark.parametrize("name", schema.NAMES)
def test_the_first_examples_together_are_a_good_object(name: str) -> None:
    value = whole(name)
    assert both(SCHEMAS[name], value) == (True, True)
    assert schema.checker(name)(value)
    assert schema.explain(name, value) == []


@pytest.mark.parametrize("name", schema.NAMES)
def test_without_a_required_property_it_is_not(name: str) -> None:
    for key in SCHEMAS[name].get("required", ()):
        value = whole(name)
        del value[key]
        assert both(SCHEMAS[name], value) == (False, False), key
        assert not schema.checker(name)(value)
        assert key in schema.reason(name, value)
        assert any(key in line for line in schema.explain(name, value))


odd = st.sampled_from([
    None, True, 0, -1, 1, 1.5, 2**53, 1e300, "", "x", "Ü", "A b", "a" * 70, [], [1], ["x"], {}, {"a": 1},
    "2026-07-21T09:12:00.000000Z", "2026-07-21T09:12:00Z", "2026-07-21", {"private": "no"}, [{"id": "x"}],
])  # No text that ends in a newline: there `$` means another thing to jsonschema, as to Python's re.


def spots(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from spots(below, (*place, key))


@pytest.mark.parametrize("name", schema.NAMES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_engines_judge_what_is_bent_alike(name: str, data: st.DataObject) -> None:
    value = copy.deepcopy(whole(name))
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(spots(value))
        if not places:
            break
        *path, last = data.draw(st.sampled_from(places))
        holder = value
        for key in path:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = copy.deepcopy(data.draw(odd))
        else:
            del holder[last]
    slow, fast = both(SCHEMAS[name], value)
    assert slow == fast, value
    # And what lspipe says of it, in three ways, is the same again.
    assert schema.checker(name)(value) == slow
    assert (schema.explain(name, value) == []) == slow
    assert (schema.reason(name, value) == "valid") == slow


@pytest.mark.parametrize("value", [None, 1, "x", [], [{}]])
@pytest.mark.parametrize("name", schema.NAMES)
def test_what_is_no_object_is_refused_without_a_crash(name: str, value: Any) -> None:
    assert both(SCHEMAS[name], value) == (False, False)
    assert not schema.checker(name)(value)
    assert schema.reason(name, value) != "valid" and schema.explain(name, value)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_is_refused(score: float) -> None:
    value = {**whole("row"), "score": score}
    assert not schema.checker("row")(value)
    assert "score" in schema.reason("row", value)
    assert any("score" in line for line in schema.explain("row", value))


@pytest.mark.parametrize("name", [name for name in schema.NAMES if "score" not in SCHEMAS[name]["properties"]])
@pytest.mark.parametrize("score", ["high", None, [1], float("nan")])
def test_score_means_nothing_where_the_schema_does_not_know_it(name: str, score: Any) -> None:
    value = {**whole(name), "score": score}
    good = both(SCHEMAS[name], value)[1]
    assert schema.checker(name)(value) == good
    assert (schema.explain(name, value) == []) == good
    assert (schema.reason(name, value) == "valid") == good


def test_a_row_may_carry_what_nobody_knows() -> None:
    value = {"source": "mine", "url": "x:1", "own": {"deep": [1]}, "meta": {"own": 1}, "provenance": {"own": 1}}
    assert both(SCHEMAS["row"], value) == (True, True)


def test_a_reason_is_one_short_line() -> None:
    value = {**whole("row"), "rank": "x" * 5000, "source": "No\nNo"}
    for line in (schema.reason("row", value), *schema.explain("row", value)):
        assert len(line) <= 200 and "\n" not in line


@pytest.mark.parametrize("bent", [
    {"source": 5, "title": ["SECRET"]}, {"url": {"SECRET": "SECRET"}}, {"score": "SECRET"}, {"rank": -1},
    {"source": "SECRET"}, {"id": ["SECRET"]}, {"corpus": [{"id": "x", "n": 1, "df": {"SECRET": "SECRET"}}]},
    {"provenance": {"private": "SECRET"}}, {"accessed_at": "SECRET"}, {"snippet": ["SECRET"]}], ids=str)
def test_a_reason_never_quotes_what_is_wrong(bent: dict[str, Any]) -> None:
    """It goes to stderr and into reports."""
    for value in ({**whole("row"), **bent}, ["SECRET"], "SECRET"):
        assert not schema.checker("row")(value)
        lines = [schema.reason("row", value), *schema.explain("row", value)]
        assert not any("SECRET" in line or "\0" in line for line in lines), lines


def test_a_reason_says_where_and_why() -> None:
    bent = {"source": "a", "url": "x:", "rank": "first", "corpus": [{"id": "x", "n": 1, "df": {"word": "many"}}]}
    assert schema.explain("row", bent) == [
        "corpus.0.df.*: this text is not of type 'integer'", "rank: this text is not of type 'integer'"]


def test_what_must_not_be_there_is_said_in_words() -> None:
    bent = {"v": 1, "grants": [{"family": "wiki", "path": "/home/ada/notes"}]}
    assert schema.explain("consent", bent) == ["grants.0: a property that must not be there"]
    assert schema.reason("consent", bent) == "grants.0.path: must not be there"


def test_describe_follows_the_file() -> None:
    fields = list(schema.describe("row"))
    assert [one.name for one in fields] == list(json.loads(schema.text("row"))["properties"])
    assert {one.name for one in fields if one.required} == set(SCHEMAS["row"]["required"])


@pytest.mark.parametrize("pair", support.goldens(), ids=str)
def test_rows_of_golden_pairs_are_judged_alike(pair: support.Golden) -> None:
    for line in (pair.stdin or b"").splitlines() + pair.out.splitlines():
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        slow, fast = both(SCHEMAS["row"], value)
        assert slow == fast, line

"""The schema files: load, check a row quickly, explain what is wrong slowly, describe the fields.

The files in `schemas/` are the single source of validation, of `--schema`, of the fields in `--help` and of the
tables in the README. jsonschema-rs judges rows; jsonschema words the explanations of `ls-check`.
"""

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas")
#: What stands in an explanation for the value that is wrong: values are private.
_MASK = "\0"
_KINDS = {dict: "an object", list: "a list", str: "this text", bool: "this boolean", int: "this number",
          float: "this number"}
NAMES = ("row", "query", "envelope", "report", "error", "ledger", "consent")


def text(name: str) -> bytes:
    """The schema file of `name` as it stands on disk."""
    with open(os.path.join(FOLDER, name + ".schema.json"), "rb") as file:
        return file.read()


@functools.cache
def load(name: str) -> dict[str, Any]:
    """The schema `name` as an object (shared: do not change it)."""
    schema: dict[str, Any] = orjson.loads(text(name))
    return schema


@functools.cache
def _validator(name: str) -> Any:
    import jsonschema_rs  # 30 ms: only once there is something to check

    return jsonschema_rs.Draft202012Validator(load(name), mask=_MASK)


@functools.cache
def checker(name: str) -> Callable[[Any], bool]:
    """A fast yes or no for objects of schema `name`; a score that is not finite is a no."""
    is_valid: Callable[[Any], bool] = _validator(name).is_valid
    if "score" not in load(name)["properties"]:
        return is_valid
    isfinite = math.isfinite

    def check(value: Any) -> bool:
        return bool(is_valid(value)) and isfinite(value.get("score", 0))

    return check


def _score_is_odd(name: str, value: Any) -> bool:
    """Whether it has a score that is no finite number, which a schema cannot say."""
    score = value.get("score") if isinstance(value, dict) and "score" in load(name)["properties"] else None
    return isinstance(score, float) and not math.isfinite(score)


def reason(name: str, value: Any) -> str:
    """Why `value` does not fit schema `name`, as one short line: a dotted place and the first thing wrong."""
    for error in _validator(name).iter_errors(value):
        words = str(error.message).replace(_MASK, _kind(error.instance))
        if words.startswith("False schema"):
            words = "must not be there"
        return _line(name, error.instance_path, words)
    return "score: not a finite number" if _score_is_odd(name, value) else "valid"


def explain(name: str, value: Any) -> list[str]:
    """Every reason why `value` does not fit, by jsonschema, in the order of the places. Empty: it fits."""
    import jsonschema
    import referencing

    # Without an explicit registry jsonschema would fetch an http `$ref` from the network.
    validator = jsonschema.Draft202012Validator(load(name), registry=referencing.Registry())
    found = sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    lines = []
    for error in found:
        words = error.message
        if words.startswith("False schema"):  # Its place is that of the object which has the property.
            words = "a property that must not be there"
        elif words.startswith(quoted := repr(error.instance)):
            words = _kind(error.instance) + words[len(quoted):]
        lines.append(_line(name, error.absolute_path, words))
    if not lines and _score_is_odd(name, value):
        lines.append("score: not a finite number")
    return lines


def _kind(value: Any) -> str:
    """A value as explanations show it: what it is, and nothing of what is in it."""
    return _KINDS.get(type(value), "null")


def _line(name: str, path: Iterable[Any], words: str) -> str:
    """A dotted place, of which only numbers and what the schema itself names are shown, and what is wrong there."""
    known = _properties(name)
    place = ".".join(str(part) if isinstance(part, int) or part in known else "*" for part in path)
    return shorten(f"{place}: {words}" if place else words)


@functools.cache
def _properties(name: str) -> frozenset[str]:
    found: set[str] = set()
    waiting: list[Any] = [load(name)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found.update(one["properties"] if isinstance(one.get("properties"), dict) else ())
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return frozenset(found)


def shorten(line: str, limit: int = 200) -> str:
    """At most `limit` characters."""
    return line if len(line) <= limit else line[: limit - 1] + "…"


class FieldInfo(NamedTuple):
    """One property of a schema, as the help and the README show it."""

    name: str
    type: str
    required: bool
    description: str
    example: Any


def describe(name: str) -> Iterator[FieldInfo]:
    """The top-level properties of schema `name`, in the file's order."""
    schema = load(name)
    required = set(schema.get("required", ()))
    for key, value in schema["properties"].items():
        kind = value.get("type", "any")
        shown = "|".join(kind) if isinstance(kind, list) else str(kind)
        yield FieldInfo(key, shown, key in required, value["description"], value["examples"][0])

"""The protocol's own description, as its official package has it, and whether lines keep to it.

What the description says of a whole line lets everything through that might be somebody's extension. So a line is looked at by
what its method takes and gives, and, where it is ours, for fields that nobody described.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import jsonschema_rs
import msgspec
from tests.acp.wire import Direction

ROOT = Path(__file__).parents[3]
INSTALLED = ROOT / "build" / "acp" / "node_modules"
SCHEMAS = INSTALLED / "@agentclientprotocol" / "sdk" / "schema" / "v1"

Edition: TypeAlias = Literal["schema", "schema.unstable"]
Part: TypeAlias = Literal["params", "result"]
Schema: TypeAlias = dict[str, Any]
# Who answers, as the description calls it.
SIDES = {"to_agent": ("agent", "protocol"), "to_client": ("client", "protocol")}
_BACK: dict[Direction, Direction] = {"to_agent": "to_client", "to_client": "to_agent"}
# Keys of a schema under which schemas for parts of a value stand by name, or one for each item.
_BY_NAME = ("properties", "patternProperties")
_WITHIN = ("anyOf", "oneOf", "allOf")


class Described(NamedTuple):
    """Which part of which method a shape of the description is."""

    method: str
    side: str
    part: Part


@cache
def load(edition: Edition) -> Schema:
    """The description; `make test-peers` fetches it."""
    schema: Schema = msgspec.json.decode((SCHEMAS / f"{edition}.json").read_bytes())
    return schema


@cache
def described(edition: Edition) -> dict[Described, str]:
    """Every part of every method, with the name of its shape."""
    found = {}
    for name, shape in load(edition)["$defs"].items():
        if "x-method" in shape:
            part: Part = "result" if name.endswith("Response") else "params"
            found[Described(shape["x-method"], shape["x-side"], part)] = name
    return found


def update_names(edition: Edition) -> set[str]:
    """Every session/update that is described."""
    return {one["properties"]["sessionUpdate"]["const"] for one in load(edition)["$defs"]["SessionUpdate"]["oneOf"]}


@cache
def validator(edition: Edition, name: str, *, exact: bool) -> jsonschema_rs.Validator:
    """What checks one shape; `exact` allows no field that is not described."""
    schema = load(edition)
    definitions = schema["$defs"]
    whole: Schema = {"$schema": schema["$schema"], "$defs": definitions, "$ref": f"#/$defs/{name}"}
    if exact:
        whole = copy.deepcopy(whole) | {"unevaluatedProperties": False}
        for definition in whole["$defs"].values():
            _close(definition)
    return jsonschema_rs.Draft202012Validator(whole)


class Said(NamedTuple):
    """The part of a line that a method describes, or the error that it brings. `asked` tells who was asked."""

    direction: Direction
    method: str
    asked: Direction
    part: Part | Literal["error"]
    value: Any


def said(lines: Iterable[tuple[Direction, bytes | str]]) -> Iterator[Said]:
    """What stands in recorded traffic, answers with the method that they answer."""
    asked: dict[tuple[Direction, object], str] = {}
    for direction, line in lines:
        one = msgspec.json.decode(line)
        if "method" in one:
            if "id" in one:
                asked[direction, one["id"]] = one["method"]
            yield Said(direction, one["method"], direction, "params", one.get("params", {}))
            continue
        method = asked.pop((_BACK[direction], one["id"]), "(nobody asked)")
        part: Literal["result", "error"] = "result" if "result" in one else "error"
        yield Said(direction, method, _BACK[direction], part, one[part])


def validate_wire(lines: Iterable[tuple[Direction, bytes | str]], *, exact: bool = False) -> None:
    """Raises AssertionError with all that is wrong with recorded traffic. `exact` is for lines of our own making: they hold
    nothing that is not described. Methods that nobody described are passed over, unless `exact`."""
    problems: list[str] = []
    for one in said(lines):
        if one.part == "error":
            found = _problems(validator("schema", "Error", exact=exact), one.value)
        else:
            found = _wrong_with(one.method, one.asked, one.part, one.value, exact=exact)
        problems += [f"{one.direction} {one.method} {problem}" for problem in found]
    assert problems == [], "\n".join(problems)


def _wrong_with(method: str, asked: Direction, part: Part, value: Any, *, exact: bool) -> Iterator[str]:
    """By the settled description where it has the method, and by the other one too: that one knows all fields."""
    known = False
    for edition in ("schema", "schema.unstable"):
        for side in SIDES[asked]:
            name = described(edition).get(Described(method, side, part))
            if name is not None:
                known = True
                closed = exact and edition == "schema.unstable"
                yield from _problems(validator(edition, name, exact=closed), value)
    if not known and exact:
        yield f"is not described: {method} as {part}"


def _problems(check: jsonschema_rs.Validator, value: Any) -> Iterator[str]:
    for error in check.iter_errors(value):
        yield f"{'/'.join(str(one) for one in error.instance_path)}: {error.message[:400]}"


def _close(schema: Any) -> None:
    """No value within this one may have a field that is not described. The value itself may: whoever refers to a shape may add
    to it."""
    if not isinstance(schema, dict):
        return
    parts = [part for key in _BY_NAME for part in schema.get(key, {}).values()]
    parts += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    for part in parts:
        if isinstance(part, dict) and ("$ref" in part or "properties" in part or any(key in part for key in _WITHIN)):
            part["unevaluatedProperties"] = False
        _close(part)
    for key in _WITHIN:
        for inner in schema.get(key, ()):
            _close(inner)

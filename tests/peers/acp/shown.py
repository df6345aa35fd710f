"""What there is to show of the protocol's description, and what a message shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
from tests.acp.wire import Direction
from tests.peers.acp.schema import SIDES, Described, Schema, described, load, said

# Room for what two programs agree on outside of the protocol. Every shape has it, and we never read it.
_ANYBODYS = "_meta"
_ALTERNATIVES = ("anyOf", "oneOf")
_NESTED = ("items", "additionalProperties")
_ERROR = "Error"


def places() -> set[str]:
    """Every property and every fixed value that a settled message can hold: `Shape.property`, `Shape = value`."""
    found: set[str] = set()
    waiting = [*described("schema").values(), _ERROR]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        for place in _places(load("schema")["$defs"][name], name):
            if not place.startswith("#"):
                found.add(place)
            elif place[1:] not in seen:
                seen.add(place[1:])
                waiting.append(place[1:])
    return found


def shown(lines: Iterable[tuple[Direction, str]]) -> set[str]:
    """The places that have a value in these lines. What is null shows nothing."""
    found: set[str] = set()
    for one in said(lines):
        if one.part == "error":
            found |= set(_shown(load("schema")["$defs"][_ERROR], one.value, _ERROR))
            continue
        for side in SIDES[one.asked]:
            name = described("schema").get(Described(one.method, side, one.part))
            if name is not None:
                found |= set(_shown(load("schema")["$defs"][name], one.value, name))
    return found


def _places(schema: Schema, owner: str) -> Iterator[str]:
    """What is to be shown of a schema; `#Name` for a shape that it refers to."""
    if "$ref" in schema:
        yield f"#{_name(schema)}"
    yield from (f"{owner} = {value}" for value in _fixed(schema))
    for name, part in _properties(schema):
        yield f"{owner}.{name}"
        yield from _places(part, f"{owner}.{name}")
    for key in (*_ALTERNATIVES, "allOf"):
        for part in schema.get(key, ()):
            yield from _places(part, owner)
    for key in _NESTED:
        if isinstance(schema.get(key), dict):
            yield from _places(schema[key], owner)


def _shown(schema: Schema, value: Any, owner: str) -> Iterator[str]:
    """What a value shows of the schema that it keeps to."""
    if "$ref" in schema:
        yield from _shown(load("schema")["$defs"][_name(schema)], value, _name(schema))
    yield from (f"{owner} = {fixed}" for fixed in _fixed(schema) if fixed == value)
    for part in (*schema.get("allOf", ()), *_meant(schema, value)):
        yield from _shown(part, value, owner)
    if isinstance(value, dict):
        yield from _shown_within(schema, value, owner)
    if isinstance(value, list):
        for item in value:
            yield from _shown(schema.get("items", {}), item, owner)


def _meant(schema: Schema, value: Any) -> Iterator[Schema]:
    """Of each set of alternatives the first one that allows the value: the last ones take whatever nobody knows."""
    for key in _ALTERNATIVES:
        allowed = (part for part in schema.get(key, ()) if _check(msgspec.json.encode(part)).is_valid(value))
        yield from islice(allowed, 1)


def _shown_within(schema: Schema, value: dict[str, Any], owner: str) -> Iterator[str]:
    named = dict(_properties(schema))
    for name, part in named.items():
        if value.get(name) is not None:
            yield f"{owner}.{name}"
            yield from _shown(part, value[name], f"{owner}.{name}")
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        for name in value.keys() - named:
            yield from _shown(others, value[name], owner)


def _properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, part in schema.get("properties", {}).items():
        if name != _ANYBODYS:
            yield name, part if isinstance(part, dict) else {}


def _fixed(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).removeprefix("#/$defs/")


@cache
def _check(schema: bytes) -> jsonschema_rs.Validator:
    whole = load("schema")
    return jsonschema_rs.Draft202012Validator(
        {"$schema": whole["$schema"], "$defs": whole["$defs"]} | msgspec.json.decode(schema)
    )

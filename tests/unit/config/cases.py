"""Every setting as a case: where it stands, what it can be, and what else must be set for it to make sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from threadline.config.schema import (
    FreeSection,
    NamedSections,
    Section,
    SectionList,
    SettingPath,
    ValueType,
    dotted_path,
    fields_of,
)
from threadline.config.secrets import Secret, mask_password
from threadline.config.settings import Settings

ZONES = ("Europe/Berlin", "America/New_York", "UTC")
# What only an agent that is a program of its own has.
ACP = ("preset", "command", "env", "cwd", "permissions", "mode", "auth_method")
NETWORKS = ("127.0.0.1", "10.0.0.0/8", "10.1.2.3/8", "::1", "fd00::/8")


class Case(NamedTuple):
    """A setting at a concrete place."""

    place: SettingPath
    value_type: ValueType

    def __str__(self) -> str:
        return dotted_path(self.place)


def every_case(kind: type[msgspec.Struct] = Settings, at: SettingPath = ()) -> Iterator[Case]:
    """All settings that are declared. Sections that people name have the name of their example."""
    for field in fields_of(kind):
        place = (*at, field.name)
        match field.shape:
            case ValueType() as value_type:
                yield Case(place, value_type)
            case Section(inner):
                yield from every_case(inner, place)
            case NamedSections(inner):
                yield from every_case(inner, (*place, field.example))
            case SectionList(inner):
                yield from every_case(inner, (*place, 0))
            case FreeSection():
                pass


def values_of(value_type: ValueType) -> st.SearchStrategy[Any]:
    """Raw values that the setting can have."""
    match value_type.kind:
        case "switch":
            return st.booleans()
        case "whole":
            return st.integers(int(value_type.least or 0), int(value_type.most or 10**6))
        case "number":
            return st.floats(value_type.least, value_type.most)
        case "choice":
            return st.sampled_from(value_type.choices)
        case "secret":
            return st.sampled_from(["env:API_KEY", "file:/etc/key", "file:~/my key", "command:pass show 'api key'"])
        case "list":
            assert value_type.item is not None
            return st.lists(values_of(value_type.item), max_size=3)
        case "text":
            return _texts(value_type)


def companions(place: SettingPath, value: Any) -> dict[str, Any]:
    """What must be set beside it, because settings lean on each other."""
    name = place[-1]
    if place[0] == "agents" and name in ("call", "model", "kind"):
        kind = {"call": "function", "model": "model"}.get(str(name), value)
        beside = {
            "kind": kind,
            "call": "a.b:c" if kind == "function" else None,
            "model": "x:y" if kind == "model" else None,
        }
        return {"agents": {place[1]: {key: text for key, text in beside.items() if text is not None and key != name}}}
    if place[0] == "agents" and name in ACP:
        beside = {"kind": "acp", "preset": "claude"}
        return {"agents": {place[1]: {key: text for key, text in beside.items() if key != name}}}
    if name in ("default_agent", "agent"):
        return {"agents": {value: {}}}
    return {}


def required(place: SettingPath) -> dict[str, Any]:
    """An entry of a list of sections with all that it needs, and a platform where that can be named."""
    kind = next(
        field.shape.kind
        for field in fields_of(Settings)
        if field.name == place[0] and isinstance(field.shape, SectionList)
    )
    return {field.name: field.example for field in fields_of(kind) if field.is_required or field.name == "platform"}


def document(place: SettingPath, value: Any) -> dict[str, Any]:
    """A document that sets this, and nothing else that is not needed for it."""
    inner: Any = value
    if any(isinstance(part, int) for part in place):
        inner = [required(place) | {str(place[-1]): value}]
        place = place[:1]
    for part in reversed(place):
        inner = {part: inner}
    assert isinstance(inner, dict)
    return inner


def joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two documents as one; where both set the same, the second counts."""
    both = dict(one)
    for name, value in other.items():
        earlier = both.get(name)
        both[name] = joined(earlier, value) if isinstance(earlier, dict) and isinstance(value, dict) else value
    return both


def value_at(settings: Settings, place: SettingPath) -> Any:
    """What the settings have there, as raw values."""
    found: Any = settings
    for part in place:
        found = getattr(found, part) if isinstance(part, str) and isinstance(found, msgspec.Struct) else found[part]
    if isinstance(found, Secret):
        return found.reference
    return list(found) if isinstance(found, tuple) else found


def _texts(value_type: ValueType) -> st.SearchStrategy[str]:
    if value_type.check is not None:
        return st.sampled_from(NETWORKS if "network" in value_type.allowed else ZONES)
    if value_type.pattern is not None:
        return st.from_regex(value_type.pattern).filter(_can_be_shown)
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
    return st.text(alphabet, min_size=1, max_size=20).filter(_can_be_shown)


def _can_be_shown(text: str) -> bool:
    return mask_password(text) == text and "\x00" not in text

"""Settings in variables: which one a variable means, and what its text says."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from threadline.config.declared import (
    PREFIX,
    Many,
    Named,
    Part,
    Place,
    Rest,
    all_settings,
    dotted,
    fields_of,
    find_field,
    has_rest,
    variable_of,
)
from threadline.config.leaf import Leaf, free_value

CONFIG_VARIABLE = "THREADLINE_CONFIG"

# These begin like settings and are none: they name the file, scale the tests, or tell a child process where it is.
NOT_SETTINGS = frozenset(
    {CONFIG_VARIABLE, "THREADLINE_SOAK", "THREADLINE_SEED", "THREADLINE_SESSION_KEY", "THREADLINE_PROCESS_ID"}
)

Target: TypeAlias = tuple[Place, Leaf | Many | Rest]


class Assignment(msgspec.Struct, frozen=True):
    """What a variable sets."""

    place: Place
    value: object
    variable: str


class Unusable(Exception):
    """A variable that begins like a setting and sets none; the text says what to do."""


def read_variables(
    root: type[msgspec.Struct], environment: Mapping[str, str], raw: Mapping[str, object]
) -> tuple[list[Assignment], list[str]]:
    """All that the variables set, and what is wrong with them.

    Names are read without regard to case, and `__` stands between sections. A name in the file (`raw`) is
    meant where it differs in case or in `-` alone. A variable that is empty counts as not set.
    """
    assignments: dict[Place, Assignment] = {}
    problems: list[str] = []
    for variable, text in sorted(environment.items()):
        if not variable.upper().startswith(PREFIX) or variable.upper() in NOT_SETTINGS or not text:
            continue
        try:
            assignment = _assignment(root, variable, text, raw)
        except Unusable as cause:
            problems.append(f"{variable}: {cause}")
            continue
        earlier = assignments.setdefault(assignment.place, assignment)
        if earlier is not assignment:
            problems.append(f"{variable}: {earlier.variable} sets {dotted(assignment.place)} as well; keep one of them")
    return list(assignments.values()), problems


def _assignment(root: type[msgspec.Struct], variable: str, text: str, raw: Mapping[str, object]) -> Assignment:
    parts = variable[len(PREFIX) :].lower().split("__")
    place, shape = _target(root, parts, raw, ())
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise Unusable("its value is no UTF-8 text; set it again") from cause
    value = shape.from_variable(text) if isinstance(shape, Leaf) else free_value(text)
    return Assignment(place, value, variable)


def _target(kind: type[msgspec.Struct], parts: list[str], raw: object, at: Place) -> Target:
    """The place that the parts of a name lead to, and what can stand there."""
    if not parts:
        first = next(iter(fields_of(kind))).name
        raise Unusable(f"{dotted(at)} is a section; set its settings, such as {variable_of((*at, first))}")
    field = find_field(kind, parts[0])
    if field is None:
        if has_rest(kind) and all(parts):
            return (*at, *_spelled(parts, raw)), Rest()
        raise Unusable(_no_such(kind, parts, at))
    place, rest, inner = (*at, field.name), parts[1:], _inner(raw, field.name)
    match field.shape:
        case Part(section):
            return _target(section, rest, inner, place)
        case Named(section):
            if not rest:
                raise Unusable(
                    f"{dotted(place)} are sections; name one, such as {variable_of((*place, field.example))}__…"
                )
            (name,) = _spelled(rest[:1], inner)
            return _target(section, rest[1:], _inner(inner, name), (*place, name))
        case Leaf() | Many() if rest:
            raise Unusable(f"{dotted(place)} is one setting: use {variable_of(place)}")
        case Leaf() | Many() as shape:
            return place, shape
        case Rest():
            raise AssertionError("what is left over has no name of its own")


def _spelled(parts: list[str], raw: object) -> Iterator[str]:
    """Names as the file spells them, where it has them."""
    for part in parts:
        names = [name for name in raw if _folded(name) == _folded(part)] if isinstance(raw, Mapping) else []
        name = names[0] if names else part
        yield name
        raw = _inner(raw, name)


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


def _inner(raw: object, name: str) -> object:
    return raw.get(name) if isinstance(raw, Mapping) else None


def _no_such(kind: type[msgspec.Struct], parts: list[str], at: Place) -> str:
    known = [field.name for field in fields_of(kind)]
    near = difflib.get_close_matches(parts[0], known, n=1)
    if near:
        rest = "".join(f"__{part.upper()}" for part in parts[1:])
        return f"there is no such setting; did you mean {variable_of((*at, near[0]))}{rest}?"
    # Without what all of them begin with, or everything would be near.
    wanted = variable_of((*at, "__".join(parts))).removeprefix(PREFIX)
    everywhere = sorted({setting.variable.removeprefix(PREFIX) for setting in all_settings(kind, at)})
    close = difflib.get_close_matches(wanted, everywhere, n=1)
    if close:
        return f"there is no such setting; did you mean {PREFIX}{close[0]}?"
    return "there is no such setting; `threadline config init` writes a file with all there are"

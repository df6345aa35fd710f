"""On which line of a TOML file each value stands. The parser does not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

from threadline.config.declared import Place


def lines_of(text: str) -> dict[Place, int]:
    """The line of every section and every value in a sound TOML text, counted from one.

    What stands inside of a list or an inline table is on the line on which that begins.
    """
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    section: Place = ()
    for number, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            section = _section(parsed, counts, is_list=statement.lstrip().startswith("[["))
            lines.setdefault(section, number)
            continue
        for place in _places(parsed):
            lines.setdefault((*section, *place), number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the number of its first line: the fewest lines that are sound by themselves."""
    begun, number = "", 1
    for count, line in enumerate(text.split("\n"), 1):
        begun, number = f"{begun}{line}\n", number if begun else count
        try:
            parsed = tomllib.loads(begun)
        except tomllib.TOMLDecodeError:
            continue
        if parsed:
            yield number, begun
        begun = ""


def _section(parsed: Mapping[str, object], counts: dict[Place, int], *, is_list: bool) -> Place:
    """The place that a header opens. Inside of a list of tables it is the last of them."""
    place: Place = ()
    inner: object = parsed
    while isinstance(inner, Mapping) and inner:
        ((name, inner),) = inner.items()
        place = (*place, name)
        inner = inner[0] if isinstance(inner, list) else inner
        if place in counts and not (is_list and not inner):
            place = (*place, counts[place] - 1)
    if is_list:
        counts[place] = counts.get(place, 0) + 1
        place = (*place, counts[place] - 1)
    return place


def _places(value: object, at: Place = ()) -> Iterator[Place]:
    if at:
        yield at
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _places(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, (*at, number))

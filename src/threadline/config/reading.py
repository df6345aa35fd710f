"""From plain values to settings. All that is wrong is told at once, each with its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from threadline.config.declared import Field, Many, Named, Part, Place, Rest, all_settings, dotted, fields_of
from threadline.config.leaf import Leaf, Unfit, found
from threadline.config.secret import HOW_TO_REFER, plain_secrets
from threadline.errors import ConfigError, InvalidRequest

S = TypeVar("S", bound=msgspec.Struct)

_FAILED = object()


class Problem(msgspec.Struct, frozen=True):
    """Something that can't be used, and where it stands."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.place)}: {self.text}" if self.place else self.text


def read_settings(kind: type[S], raw: Mapping[str, object], at: Place = ()) -> S:
    """The section `kind` as `raw` sets it, for whoever declares settings of their own.

    `ConfigError` names all that is wrong, a line each; `at` is the section's place in the file.
    """
    reader = Reader(kind)
    section = reader.read(kind, raw, at)
    if section is None or reader.problems:
        raise ConfigError("\n".join(str(problem) for problem in reader.problems))
    return section


class Reader:
    """Reads sections and keeps the problems that it meets."""

    def __init__(self, root: type[msgspec.Struct]) -> None:
        self._root = root
        self.problems: list[Problem] = []

    def read(self, kind: type[S], raw: object, at: Place) -> S | None:
        """The section; `None` where it can't be made at all. Either way the problems tell."""
        if not isinstance(raw, Mapping):
            self._object(at, f"found {found(raw)}; this is a section: write [{dotted(at)}] and its settings below")
            return None
        fields = fields_of(kind)
        values = {
            field.name: self._field(field, raw[field.name], at) for field in _declared(fields) if field.name in raw
        }
        self._rest(fields, raw, at, values)
        missing = [field.name for field in _declared(fields) if field.is_required and field.name not in raw]
        for name in missing:
            self._object(at, f"{name} is missing; it has no default")
        made = {name: value for name, value in values.items() if value is not _FAILED}
        if missing or any(field.is_required and field.name not in made for field in fields):
            return None
        try:
            return kind(**made)
        except InvalidRequest as cause:
            self._object(at, str(cause))
            return None

    def _field(self, field: Field, raw: object, at: Place) -> Any:
        place = (*at, field.name)
        match field.shape:
            case Leaf() as leaf:
                return self._leaf(leaf, raw, place)
            case Part(kind):
                section = self.read(kind, raw, place)
                return _FAILED if section is None else section
            case Named(kind, key):
                return self._named(kind, key, raw, place)
            case Many(kind):
                return self._many(kind, raw, place)
            case Rest():
                raise AssertionError("what is left over has no name of its own")

    def _leaf(self, leaf: Leaf, raw: object, place: Place) -> object:
        try:
            return leaf.read(raw)
        except Unfit as unfit:
            self._object(place, str(unfit))
            return _FAILED

    def _named(self, kind: type[S], key: Leaf, raw: object, at: Place) -> Any:
        if not isinstance(raw, Mapping):
            self._object(at, f"found {found(raw)}; write a section for each: [{dotted(at)}.NAME]")
            return _FAILED
        named = {}
        for name, inner in raw.items():
            if self._leaf(key, name, (*at, name)) is not _FAILED:
                named[name] = self.read(kind, inner, (*at, name))
        return {name: section for name, section in named.items() if section is not None}

    def _many(self, kind: type[S], raw: object, at: Place) -> Any:
        if not isinstance(raw, list | tuple):
            self._object(at, f"found {found(raw)}; write a section for each: [[{dotted(at)}]]")
            return _FAILED
        sections = [self.read(kind, inner, (*at, number)) for number, inner in enumerate(raw)]
        return tuple(section for section in sections if section is not None)

    def _rest(self, fields: tuple[Field, ...], raw: Mapping[str, object], at: Place, values: dict[str, object]) -> None:
        """What is not declared goes where a section takes it, and is a problem elsewhere."""
        known = [field.name for field in _declared(fields)]
        others = {name: value for name, value in raw.items() if name not in known}
        collector = next((field.name for field in fields if isinstance(field.shape, Rest)), None)
        if collector is None:
            for name in others:
                self._object((*at, name), f"there is no such setting{self._hint(name, known, at)}")
            return
        values[collector] = others
        for inner in plain_secrets(others):
            self._object((*at, *inner), f"this is a secret, which is never written here; {HOW_TO_REFER}")

    def _hint(self, name: str, known: Iterable[str], at: Place) -> str:
        near = difflib.get_close_matches(str(name).lower(), list(known), n=1)
        if near:
            return f"; did you mean {dotted((*at, near[0]))}?"
        elsewhere = {setting.name: setting.name.rpartition(".")[2] for setting in all_settings(self._root)}
        same = [dotted_name for dotted_name, last in elsewhere.items() if last == name]
        return f"; did you mean {same[0]}?" if same else f"; use one of {', '.join(known)}"

    def _object(self, place: Place, text: str) -> None:
        self.problems.append(Problem(place, text))


def _declared(fields: tuple[Field, ...]) -> Iterable[Field]:
    return [field for field in fields if not isinstance(field.shape, Rest)]

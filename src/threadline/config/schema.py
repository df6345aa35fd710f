"""What may stand in the configuration: sections, their fields, and the values of each setting."""

from __future__ import annotations

import inspect as python_inspect
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from threadline.config.secrets import Secret, mask_password
from threadline.errors import ConfigError, InvalidRequest

ValueKind: TypeAlias = Literal["text", "whole", "number", "switch", "choice", "secret", "list"]

_YES = frozenset({"yes", "true", "1", "on"})
_NO = frozenset({"no", "false", "0", "off"})
_LONGEST_SHOWN = 60


class InvalidValue(Exception):
    """A value that can't stand where it stands. The text says what is allowed; it never holds a secret."""


class ValueType(msgspec.Struct, frozen=True, kw_only=True):
    """The values that one setting can have."""

    kind: ValueKind
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    # In words, where kind and bounds do not say it.
    allowed: str = ""
    # Raises `InvalidRequest` for what a pattern can't tell.
    check: Callable[[str], object] | None = None
    # Ids are text, but people write those that look like numbers as numbers.
    takes_numbers: bool = False
    item: ValueType | None = None

    @property
    def words(self) -> str:
        """What is allowed, as a sentence goes on after "use"."""
        if self.allowed:
            return self.allowed
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "list":
            return f"a list: each {self.item.words}" if self.item else "a list"
        return _KIND_WORDS[self.kind] + _bounds(self.least, self.most)

    def read(self, raw: object) -> object:
        """The value of the setting; `Unfit` for what can't be one."""
        if self.kind == "list":
            return self._read_list(raw)
        if self.kind == "secret":
            return _read_secret(raw)
        if self.kind in ("text", "choice"):
            return self._read_text(raw)
        return self._read_plain(raw)

    def from_variable(self, text: str) -> object:
        """What a variable's text means here, for `read`. Text that means nothing stays as it is."""
        if self.kind == "list":
            return _list_from(text)
        bare = text.strip()
        if self.kind == "switch":
            folded = bare.lower()
            return True if folded in _YES else False if folded in _NO else text
        if self.kind in ("whole", "number"):
            return _number_from(bare, text)
        return text

    def _read_list(self, raw: object) -> tuple[object, ...]:
        if not isinstance(raw, list | tuple) or self.item is None:
            raise self._unfit(raw)
        return tuple(self.item.read(inner) for inner in raw)

    def _read_text(self, raw: object) -> str:
        if self.takes_numbers and isinstance(raw, int) and not isinstance(raw, bool):
            raw = str(raw)
        if not isinstance(raw, str) or (self.choices and raw not in self.choices):
            raise self._unfit(raw)
        if not raw:
            raise InvalidValue(f"found nothing between the quotes; use {self.words}, or leave it out")
        if self.pattern is not None and not re.search(self.pattern, raw):
            raise self._unfit(raw)
        if self.check is not None:
            try:
                self.check(raw)
            except InvalidRequest as cause:
                raise InvalidValue(str(cause)) from cause
        return raw

    def _read_plain(self, raw: object) -> bool | int | float:
        if self.kind == "switch":
            if isinstance(raw, bool):
                return raw
            raise self._unfit(raw)
        wanted = int if self.kind == "whole" else (int, float)
        if not isinstance(raw, wanted) or isinstance(raw, bool) or not self._is_within(raw):
            raise self._unfit(raw)
        return raw if self.kind == "whole" else float(raw)

    def _is_within(self, number: float) -> bool:
        if not math.isfinite(number):
            return False
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def _unfit(self, raw: object) -> InvalidValue:
        return InvalidValue(f"found {describe_value(raw)}; use {self.words}")


_KIND_WORDS: dict[str, str] = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "switch": "true or false",
    "secret": "a reference: env:NAME, file:/PATH or command:PROGRAM ARGUMENTS",
}


def describe_value(raw: object) -> str:
    """A value from outside as an error names it: short, on one line, without passwords."""
    if isinstance(raw, Mapping):
        return "a table"
    if isinstance(raw, list | tuple):
        return "a list"
    if isinstance(raw, datetime | date | time):
        return "a date or time"
    if isinstance(raw, str):
        text = mask_password(raw)
        return json.dumps(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…", ensure_ascii=False)
    return str(raw).lower()[:_LONGEST_SHOWN]


def parse_free_value(text: str) -> object:
    """What a variable's text means where nobody declared a type: a TOML value if it is one, else the text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # More than one name: the text held a line end and what follows is no part of a value.
    return parsed["value"] if parsed.keys() == {"value"} else text


def _list_from(text: str) -> object:
    if text.lstrip().startswith("["):
        return parse_free_value(text)
    return [piece for part in text.split(",") if (piece := part.strip())]


def _number_from(bare: str, text: str) -> object:
    try:
        return int(bare)
    except ValueError:
        pass
    try:
        return float(bare)
    except ValueError:
        return text


def _read_secret(raw: object) -> Secret:
    try:
        return Secret(raw if isinstance(raw, str) else "")
    except ConfigError as cause:
        # Without its cause: a traceback must not lead to the text either.
        raise InvalidValue(str(cause)) from None


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {_plain(least)} to {_plain(most)}"
    if least is not None:
        return f", at least {_plain(least)}"
    return "" if most is None else f", at most {_plain(most)}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


PREFIX = "THREADLINE_"

# The way to a value: names of sections and settings, and the places in lists of tables.
SettingPath: TypeAlias = tuple[str | int, ...]


class Section(msgspec.Struct, frozen=True):
    """A section inside of another: `[web]`."""

    kind: type[msgspec.Struct]


class NamedSections(msgspec.Struct, frozen=True):
    """Sections that people name: `[agents.NAME]`."""

    kind: type[msgspec.Struct]
    key: ValueType


class SectionList(msgspec.Struct, frozen=True):
    """A list of sections: `[[bindings]]`."""

    kind: type[msgspec.Struct]


class FreeSection(msgspec.Struct, frozen=True):
    """Whatever else stands in a section, as it is."""


Shape: TypeAlias = ValueType | Section | NamedSections | SectionList | FreeSection


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a section."""

    name: str
    shape: Shape
    help: str
    default: Any
    is_required: bool
    # What holds where nothing is set, and a value to show where there is no default.
    unset: str
    example: Any


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as people see it. `default` is said in words, because it may depend on the machine."""

    name: str
    variable: str
    default: str
    help: str
    allowed: str = ""


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The names that a section knows, in the order of their declaration."""
    described = inspect.type_info(kind)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"{kind.__name__} is no section")
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(field, _choices(hints[field.name])) for field in described.fields)


def find_field(kind: type[msgspec.Struct], name: str) -> Field | None:
    """The field of that name; what a `Rest` collects has none."""
    return next(
        (field for field in fields_of(kind) if field.name == name and not isinstance(field.shape, FreeSection)), None
    )


def allows_unknown(kind: type[msgspec.Struct]) -> bool:
    """Whether the section takes names that are not declared."""
    return any(isinstance(field.shape, FreeSection) for field in fields_of(kind))


def section_help(kind: type[msgspec.Struct]) -> str:
    """What a section is for: the first sentence of its docstring."""
    return python_inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def dotted_path(place: SettingPath) -> str:
    """A place as people write it: `web.port`, `bindings#2.agent` (counted from one)."""
    text = ""
    for part in place:
        text += f"#{part + 1}" if isinstance(part, int) else f".{part}" if text else part
    return text


def variable_of(place: SettingPath) -> str:
    """The variable that sets this place; a list of tables is set as a whole."""
    names: list[str] = []
    for part in place:
        if isinstance(part, int):
            break
        names.append(part.upper().replace("-", "_"))
    return PREFIX + "__".join(names)


def all_settings(kind: type[msgspec.Struct], at: SettingPath = ()) -> Iterator[Setting]:
    """Every setting below a section. NAME stands for the names that people choose."""
    for field in fields_of(kind):
        place = (*at, field.name)
        match field.shape:
            case Section(inner):
                yield from all_settings(inner, place)
            case NamedSections(inner):
                yield from all_settings(inner, (*place, "NAME"))
            case SectionList(inner):
                yield from all_settings(inner, (*place, 0))
            case FreeSection():
                name, variable = f"{dotted_path(at)}.*", f"{variable_of(at)}__*"
                yield Setting(name=name, variable=variable, default="", help=field.help, allowed="any value")
            case ValueType() as leaf:
                yield _setting(field, leaf, place)


def _setting(field: Field, leaf: ValueType, place: SettingPath) -> Setting:
    name = dotted_path(place).replace("#1", "[]")
    default = field.unset or ("required" if field.is_required else default_text(field.default))
    return Setting(name=name, variable=variable_of(place), default=default, help=field.help, allowed=leaf.words)


def default_text(value: Any) -> str:
    """A default as people write it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return "empty" if value == () else str(value)


def _choices(hint: Any) -> tuple[str, ...]:
    """What a `Literal` in an annotation allows, in the order of its declaration; the inspection sorts it."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((found for inner in get_args(hint) if (found := _choices(inner))), ())


def _field(field: inspect.Field, choices: tuple[str, ...]) -> Field:
    type_, said = _unwrapped(field.type)
    said |= {"choices": choices}
    description = (field.type.extra_json_schema or {}) if isinstance(field.type, inspect.Metadata) else {}
    return Field(
        name=field.name,
        shape=FreeSection() if said.get("rest") else _shape(type_, said),
        help=str(description.get("description", "")),
        default=_default(field),
        is_required=field.required,
        unset=said.get("unset", ""),
        example=said.get("example"),
    )


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _unwrapped(type_: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    """The type itself, without `None` as another choice, and all that is said about it."""
    said: dict[str, Any] = {}
    while isinstance(type_, inspect.Metadata | inspect.UnionType):
        if isinstance(type_, inspect.Metadata):
            said |= type_.extra or {}
            type_ = type_.type
        else:
            (type_,) = (member for member in type_.types if not isinstance(member, inspect.NoneType))
    return type_, said


def _shape(type_: inspect.Type, said: dict[str, Any]) -> Shape:
    if isinstance(type_, inspect.StructType) and type_.cls is not Secret:
        return Section(type_.cls)
    if isinstance(type_, inspect.DictType) and isinstance(type_.value_type, inspect.StructType):
        key, key_said = _unwrapped(type_.key_type)
        return NamedSections(type_.value_type.cls, _leaf(key, key_said | {"choices": said["choices"]}))
    if isinstance(type_, inspect.VarTupleType) and isinstance(type_.item_type, inspect.StructType):
        return SectionList(type_.item_type.cls)
    return _leaf(type_, said)


def _leaf(type_: inspect.Type, said: dict[str, Any]) -> ValueType:
    rules = {name: said[name] for name in ("allowed", "check", "takes_numbers") if name in said}
    match type_:
        case inspect.BoolType():
            return ValueType(kind="switch", **rules)
        case inspect.IntType(ge=least, le=most):
            return ValueType(kind="whole", least=least, most=most, **rules)
        case inspect.FloatType(ge=least, le=most):
            return ValueType(kind="number", least=least, most=most, **rules)
        case inspect.StrType(pattern=pattern):
            return ValueType(kind="text", pattern=pattern, **rules)
        case inspect.LiteralType(values=values):
            return ValueType(kind="choice", choices=said.get("choices") or tuple(map(str, values)), **rules)
        case inspect.StructType():
            return ValueType(kind="secret", **rules)
        case inspect.VarTupleType(item_type=item):
            return ValueType(kind="list", item=_leaf(*_unwrapped(item)), **rules)
    raise TypeError(f"{type_} can't be a setting")

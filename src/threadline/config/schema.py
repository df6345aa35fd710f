"""The schema of the configuration: the fields of a section, and the type of each value.

Reading, variables, help and the reference page ask here, and nowhere else.
"""

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
    """A value that the setting can't have. The text says what is allowed; it never holds a secret."""


class ValueType(msgspec.Struct, frozen=True, kw_only=True):
    """The type of a setting: which values it can have, and how they are read."""

    kind: ValueKind
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    # What is allowed, as text, where kind and bounds do not say it.
    allowed: str = ""
    # Raises `InvalidRequest` for a text that the pattern can't rule out.
    check: Callable[[str], object] | None = None
    # Ids are text, but people write those that look like numbers as numbers.
    takes_numbers: bool = False
    item: ValueType | None = None

    @property
    def words(self) -> str:
        """Return what is allowed, as a phrase that follows "use"."""
        if self.allowed:
            return self.allowed
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "list":
            return f"a list: each {self.item.words}" if self.item else "a list"
        return _KIND_WORDS[self.kind] + _bounds(self.least, self.most)

    def read(self, raw: object) -> object:
        """Return the value of the setting; raise `InvalidValue` if `raw` can't be one."""
        if self.kind == "list":
            return self._read_list(raw)
        if self.kind == "secret":
            return _read_secret(raw)
        if self.kind in ("text", "choice"):
            return self._read_text(raw)
        return self._read_plain(raw)

    def from_variable(self, text: str) -> object:
        """Return the raw value that a variable's text stands for, for `read` to check. Other text is returned as it is."""
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
            raise self._invalid(raw)
        return tuple(self.item.read(inner) for inner in raw)

    def _read_text(self, raw: object) -> str:
        if self.takes_numbers and isinstance(raw, int) and not isinstance(raw, bool):
            raw = str(raw)
        if not isinstance(raw, str) or (self.choices and raw not in self.choices):
            raise self._invalid(raw)
        if not raw:
            raise InvalidValue(f"found nothing between the quotes; use {self.words}, or leave it out")
        if self.pattern is not None and not re.search(self.pattern, raw):
            raise self._invalid(raw)
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
            raise self._invalid(raw)
        number_type = int if self.kind == "whole" else (int, float)
        if not isinstance(raw, number_type) or isinstance(raw, bool) or not self._is_within(raw):
            raise self._invalid(raw)
        return raw if self.kind == "whole" else float(raw)

    def _is_within(self, number: float) -> bool:
        if not math.isfinite(number):
            return False
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def _invalid(self, raw: object) -> InvalidValue:
        return InvalidValue(f"found {describe_value(raw)}; use {self.words}")


_KIND_WORDS: dict[str, str] = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "switch": "true or false",
    "secret": "a reference: env:NAME, file:/PATH or command:PROGRAM ARGUMENTS",
}


def describe_value(raw: object) -> str:
    """Return a value as an error names it: short, on one line, without passwords."""
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
    """Return the value of a variable whose type is not declared: the TOML value if its text is one, else the text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # More than one name: the text holds a line end, and what follows it is no part of the value.
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

# The path to a value: names of sections and settings, and the indexes in lists of tables.
SettingPath: TypeAlias = tuple[str | int, ...]


class Section(msgspec.Struct, frozen=True):
    """A section inside another section: `[web]`."""

    kind: type[msgspec.Struct]


class NamedSections(msgspec.Struct, frozen=True):
    """Sections with names that people choose: `[agents.NAME]`."""

    kind: type[msgspec.Struct]
    key: ValueType


class SectionList(msgspec.Struct, frozen=True):
    """A list of sections: `[[bindings]]`."""

    kind: type[msgspec.Struct]


class FreeSection(msgspec.Struct, frozen=True):
    """The settings of a section that are not declared; their values are kept as they are."""


Shape: TypeAlias = ValueType | Section | NamedSections | SectionList | FreeSection


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One declared name in a section."""

    name: str
    shape: Shape
    help: str
    default: Any
    is_required: bool
    # `unset` says what applies where nothing is set; `example` is shown where there is no default.
    unset: str
    example: Any


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as people see it. `default` is a text, because it may depend on the machine."""

    name: str
    variable: str
    default: str
    help: str
    allowed: str = ""


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a section, in the order of their declaration."""
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind.__name__} is not a section")
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(field, _choices(hints[field.name])) for field in info.fields)


def find_field(kind: type[msgspec.Struct], name: str) -> Field | None:
    """Return the field of that name, or None. Settings that a `FreeSection` collects have no field."""
    return next(
        (field for field in fields_of(kind) if field.name == name and not isinstance(field.shape, FreeSection)), None
    )


def allows_unknown(kind: type[msgspec.Struct]) -> bool:
    """Return whether the section takes names that are not declared."""
    return any(isinstance(field.shape, FreeSection) for field in fields_of(kind))


def section_help(kind: type[msgspec.Struct]) -> str:
    """Return what a section is for: the first paragraph of its docstring."""
    return python_inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def dotted_path(path: SettingPath) -> str:
    """Return a path as people write it: `web.port`, `bindings#2.agent` (counted from one)."""
    text = ""
    for part in path:
        text += f"#{part + 1}" if isinstance(part, int) else f".{part}" if text else part
    return text


def variable_of(path: SettingPath) -> str:
    """Return the name of the variable that sets this path. A list of tables is set as a whole."""
    names: list[str] = []
    for part in path:
        if isinstance(part, int):
            break
        names.append(part.upper().replace("-", "_"))
    return PREFIX + "__".join(names)


def all_settings(kind: type[msgspec.Struct], at: SettingPath = ()) -> Iterator[Setting]:
    """Yield every setting below a section. NAME stands for the names that people choose."""
    for field in fields_of(kind):
        path = (*at, field.name)
        match field.shape:
            case Section(inner):
                yield from all_settings(inner, path)
            case NamedSections(inner):
                yield from all_settings(inner, (*path, "NAME"))
            case SectionList(inner):
                yield from all_settings(inner, (*path, 0))
            case FreeSection():
                name, variable = f"{dotted_path(at)}.*", f"{variable_of(at)}__*"
                yield Setting(name=name, variable=variable, default="", help=field.help, allowed="any value")
            case ValueType() as value_type:
                yield _setting(field, value_type, path)


def _setting(field: Field, value_type: ValueType, path: SettingPath) -> Setting:
    name = dotted_path(path).replace("#1", "[]")
    default = field.unset or ("required" if field.is_required else default_text(field.default))
    return Setting(name=name, variable=variable_of(path), default=default, help=field.help, allowed=value_type.words)


def default_text(value: Any) -> str:
    """Return a default value as people write it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return "empty" if value == () else str(value)


def _choices(hint: Any) -> tuple[str, ...]:
    """Return the values of a `Literal` in an annotation as declared: msgspec's inspection sorts them."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((choices for inner in get_args(hint) if (choices := _choices(inner))), ())


def _field(field: inspect.Field, choices: tuple[str, ...]) -> Field:
    type_, extra = _unwrapped(field.type)
    extra |= {"choices": choices}
    description = (field.type.extra_json_schema or {}) if isinstance(field.type, inspect.Metadata) else {}
    return Field(
        name=field.name,
        shape=FreeSection() if extra.get("rest") else _shape(type_, extra),
        help=str(description.get("description", "")),
        default=_default(field),
        is_required=field.required,
        unset=extra.get("unset", ""),
        example=extra.get("example"),
    )


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _unwrapped(type_: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    """Return the type without `None` as an alternative, and the `extra` of all its annotations."""
    extra: dict[str, Any] = {}
    while isinstance(type_, inspect.Metadata | inspect.UnionType):
        if isinstance(type_, inspect.Metadata):
            extra |= type_.extra or {}
            type_ = type_.type
        else:
            (type_,) = (member for member in type_.types if not isinstance(member, inspect.NoneType))
    return type_, extra


def _shape(type_: inspect.Type, extra: dict[str, Any]) -> Shape:
    if isinstance(type_, inspect.StructType) and type_.cls is not Secret:
        return Section(type_.cls)
    if isinstance(type_, inspect.DictType) and isinstance(type_.value_type, inspect.StructType):
        key, key_extra = _unwrapped(type_.key_type)
        return NamedSections(type_.value_type.cls, _value_type(key, key_extra | {"choices": extra["choices"]}))
    if isinstance(type_, inspect.VarTupleType) and isinstance(type_.item_type, inspect.StructType):
        return SectionList(type_.item_type.cls)
    return _value_type(type_, extra)


def _value_type(type_: inspect.Type, extra: dict[str, Any]) -> ValueType:
    rules = {name: extra[name] for name in ("allowed", "check", "takes_numbers") if name in extra}
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
            return ValueType(kind="choice", choices=extra.get("choices") or tuple(map(str, values)), **rules)
        case inspect.StructType():
            return ValueType(kind="secret", **rules)
        case inspect.VarTupleType(item_type=item):
            return ValueType(kind="list", item=_value_type(*_unwrapped(item)), **rules)
    raise TypeError(f"{type_} can't be a setting")

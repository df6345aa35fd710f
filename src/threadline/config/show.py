"""The configuration as text: what holds, and a file to start with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from threadline.config.declared import (
    Field,
    Many,
    Named,
    Part,
    Place,
    Rest,
    dotted,
    fields_of,
    section_help,
)
from threadline.config.leaf import Leaf
from threadline.config.secret import Secret, without_password
from threadline.config.settings import Config, Origin, Settings
from threadline.config.toml import toml_key, toml_value

_STARTER_HEAD = """\
# Threadline's configuration. Every setting is here with its default; take the # away to change one.
# A variable goes before this file: THREADLINE_WEB__PORT=9000 sets port in [web].
# Secrets are never written here but referred to: env:NAME, file:/PATH or command:PROGRAM ARGUMENTS.
"""


def show(config: Config) -> str:
    """All settings as TOML, each that is no default with the place that it came from.

    Of a secret the reference is shown, of a URL no password. Otherwise the text, read again, means the same.
    """
    lines = [f"# {config.path}" if config.path else "# No file was read."]
    lines += _shown(Settings, config, (), config.origins)
    return "\n".join(lines) + "\n"


def init_text() -> str:
    """A file to start with: every setting, its help and its default, with a mark before each line."""
    return _STARTER_HEAD + "\n".join(_started(Settings, (), is_live=True)) + "\n"


def _shown(
    kind: type[msgspec.Struct], section: msgspec.Struct, at: Place, origins: Mapping[Place, Origin]
) -> Iterator[str]:
    for field in _settings_first(kind):
        value, place = getattr(section, field.name), (*at, field.name)
        match field.shape:
            case Leaf():
                yield _line(field, value, origins.get(place))
            case Rest():
                for name, inner in value.items():
                    yield f"{toml_key(name)} = {toml_value(_harmless(inner))}{_comment(origins.get((*at, name)))}"
            case Part(inner_kind):
                yield from ("", f"[{_key(place)}]", *_shown(inner_kind, value, place, origins))
            case Named(inner_kind):
                for name, inner in value.items():
                    named = (*place, name)
                    yield from ("", f"[{_key(named)}]", *_shown(inner_kind, inner, named, origins))
            case Many(inner_kind):
                for number, inner in enumerate(value):
                    numbered = (*place, number)
                    yield from ("", f"[[{_key(place)}]]", *_shown(inner_kind, inner, numbered, origins))


def _settings_first(kind: type[msgspec.Struct]) -> list[Field]:
    """In TOML what follows a section's header belongs to it, so that settings stand before sections."""
    return sorted(fields_of(kind), key=lambda field: not isinstance(field.shape, Leaf | Rest))


def _line(field: Field, value: object, origin: Origin | None) -> str:
    if value is None:
        return f"# {field.name} is not set{f': {field.unset}' if field.unset else ''}"
    return f"{field.name} = {toml_value(_harmless(value))}{_comment(origin)}"


def _comment(origin: Origin | None) -> str:
    return "" if origin is None else f"  # {origin}"


def _key(place: Place) -> str:
    return toml_key(*(str(part) for part in place if isinstance(part, str)))


def _harmless(value: object) -> object:
    """The value as anybody may see it."""
    if isinstance(value, Secret):
        return value.reference
    if isinstance(value, str):
        return without_password(value)
    if isinstance(value, Mapping):
        return {name: _harmless(inner) for name, inner in value.items()}
    return [_harmless(inner) for inner in value] if isinstance(value, list | tuple) else value


def _started(kind: type[msgspec.Struct], at: Place, *, is_live: bool) -> Iterator[str]:
    for field in _settings_first(kind):
        place = (*at, field.name)
        match field.shape:
            case Leaf():
                yield from _started_setting(field)
            case Rest():
                yield from ("", f"# {field.help} follow here.")
            case Part(inner):
                yield from _started_section(inner, f"[{dotted(place)}]", place, is_live=is_live)
            case Named(inner):
                # A section that is there by itself can be headed as well: its settings then land in it.
                is_there = field.example in field.default
                named = (*place, field.example)
                yield from _started_section(inner, f"[{dotted(named)}]", named, is_live=is_live and is_there)
            case Many(inner):
                yield from _started_section(inner, f"[[{dotted(place)}]]", place, is_live=False)


def _started_section(kind: type[msgspec.Struct], header: str, place: Place, *, is_live: bool) -> Iterator[str]:
    yield from ("", f"# {section_help(kind)}", header if is_live else f"#{header}")
    yield from _started(kind, place, is_live=is_live)


def _started_setting(field: Field) -> Iterator[str]:
    has_default = not field.is_required and field.default is not None
    value = field.default if has_default else field.example
    unset = f" If it is not set: {field.unset}." if field.unset else ""
    words = (
        f" One of {', '.join(field.shape.choices)}." if isinstance(field.shape, Leaf) and field.shape.choices else ""
    )
    yield from ("", f"# {field.help}.{words}{unset}", f"#{field.name} = {toml_value(_harmless(value))}")

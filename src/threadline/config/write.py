"""The configuration as text: the settings in force, the starter file, new sections in the file, and the reference page."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path

import msgspec

from threadline.config.load import NOT_SETTINGS, load_config
from threadline.config.read import parse_toml
from threadline.config.schema import (
    Field,
    FreeSection,
    NamedSections,
    Section,
    SectionList,
    SettingPath,
    ValueType,
    default_text,
    dotted_path,
    fields_of,
    section_help,
    variable_of,
)
from threadline.config.secrets import Secret, mask_password
from threadline.config.settings import Config, Origin, Settings
from threadline.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def toml_key(*names: str) -> str:
    """Return a dotted TOML key, with quotes where they are needed."""
    return ".".join(name if _BARE.fullmatch(name) else _text(name) for name in names)


def toml_value(value: object) -> str:
    """Return a value as TOML on one line. Characters that can't be seen are escaped, so it is safe to print."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(str(name))} = {toml_value(entry)}" for name, entry in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    raise TypeError(f"{type(value).__name__} has no TOML form")


def _text(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(character) or _visible(character) for character in text) + '"'


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


_STARTER_HEAD = """\
# Threadline's configuration. Every setting is here with its default; take the # away to change one.
# A variable goes before this file: THREADLINE_WEB__PORT=9000 sets port in [web].
# Secrets are never written here but referred to: env:NAME, file:/PATH or command:PROGRAM ARGUMENTS.
"""


def render_config(config: Config) -> str:
    """Return all settings as TOML; each that is not a default has its origin beside it.

    Secrets appear as references, and passwords of URLs are masked. Apart from these, loading the text gives the same settings.
    """
    lines = [f"# {config.path}" if config.path else "# No file was read."]
    lines += _rendered(Settings, config, (), config.origins)
    return "\n".join(lines) + "\n"


def starter_text() -> str:
    """Return a file to start with: every setting with its help and its default, each line commented out."""
    return _STARTER_HEAD + "\n".join(_starter_lines(Settings, (), is_live=True)) + "\n"


def _rendered(
    kind: type[msgspec.Struct], section: msgspec.Struct, at: SettingPath, origins: Mapping[SettingPath, Origin]
) -> Iterator[str]:
    for field in _settings_first(kind):
        value, path = getattr(section, field.name), (*at, field.name)
        match field.shape:
            case ValueType():
                yield _line(field, value, origins.get(path))
            case FreeSection():
                for name, inner in value.items():
                    yield f"{toml_key(name)} = {toml_value(_without_passwords(inner))}{_comment(origins.get((*at, name)))}"
            case Section(inner_kind):
                yield from ("", f"[{_key(path)}]", *_rendered(inner_kind, value, path, origins))
            case NamedSections(inner_kind):
                for name, inner in value.items():
                    named = (*path, name)
                    yield from ("", f"[{_key(named)}]", *_rendered(inner_kind, inner, named, origins))
            case SectionList(inner_kind):
                for number, inner in enumerate(value):
                    numbered = (*path, number)
                    yield from ("", f"[[{_key(path)}]]", *_rendered(inner_kind, inner, numbered, origins))


def _settings_first(kind: type[msgspec.Struct]) -> list[Field]:
    """Return settings before sections: in TOML, everything below the header of a section belongs to that section."""
    return sorted(fields_of(kind), key=lambda field: not isinstance(field.shape, ValueType | FreeSection))


def _line(field: Field, value: object, origin: Origin | None) -> str:
    if value is None:
        return f"# {field.name} is not set{f': {field.unset}' if field.unset else ''}"
    return f"{field.name} = {toml_value(_without_passwords(value))}{_comment(origin)}"


def _comment(origin: Origin | None) -> str:
    return "" if origin is None else f"  # {origin}"


def _key(path: SettingPath) -> str:
    return toml_key(*(str(part) for part in path if isinstance(part, str)))


def _without_passwords(value: object) -> object:
    """Return the value with references in path of secrets, and without passwords in URLs."""
    if isinstance(value, Secret):
        return value.reference
    if isinstance(value, str):
        return mask_password(value)
    if isinstance(value, Mapping):
        return {name: _without_passwords(inner) for name, inner in value.items()}
    return [_without_passwords(inner) for inner in value] if isinstance(value, list | tuple) else value


def _starter_lines(kind: type[msgspec.Struct], at: SettingPath, *, is_live: bool) -> Iterator[str]:
    for field in _settings_first(kind):
        path = (*at, field.name)
        match field.shape:
            case ValueType():
                yield from _starter_setting(field)
            case FreeSection():
                yield from ("", f"# {field.help} follow here.")
            case Section(inner):
                yield from _starter_section(inner, f"[{dotted_path(path)}]", path, is_live=is_live)
            case NamedSections(inner):
                # The header of a section that exists by default is not commented out: settings below it must land in it.
                is_there = field.example in field.default
                named = (*path, field.example)
                yield from _starter_section(inner, f"[{dotted_path(named)}]", named, is_live=is_live and is_there)
            case SectionList(inner):
                yield from _starter_section(inner, f"[[{dotted_path(path)}]]", path, is_live=False)


def _starter_section(kind: type[msgspec.Struct], header: str, path: SettingPath, *, is_live: bool) -> Iterator[str]:
    yield from ("", f"# {section_help(kind)}", header if is_live else f"#{header}")
    yield from _starter_lines(kind, path, is_live=is_live)


def _starter_setting(field: Field) -> Iterator[str]:
    has_default = not field.is_required and field.default is not None
    value = field.default if has_default else field.example
    unset = f" If it is not set: {field.unset}." if field.unset else ""
    words = (
        f" One of {', '.join(field.shape.choices)}."
        if isinstance(field.shape, ValueType) and field.shape.choices
        else ""
    )
    yield from ("", f"# {field.help}.{words}{unset}", f"#{field.name} = {toml_value(_without_passwords(value))}")


def write_starter(path: Path, *, force: bool = False) -> None:
    """Write the starter file atomically, with mode 0600. An existing file is replaced only with `force`.

    Raise `ConfigError` if it can't be written; an existing file is then unchanged.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = write_temporary(path, starter_text())
    except OSError as cause:
        raise ConfigError(f"{path} can't be written: {cause.strerror}; name another place with --path") from cause
    try:
        if not force:
            # Create the name first, which fails if it exists: a rename would replace the file.
            path.touch(mode=0o600, exist_ok=False)
        temporary.replace(path)
    except FileExistsError as cause:
        raise ConfigError(f"{path} is there already; nothing was changed. Add --force to replace it") from cause
    except OSError as cause:
        raise ConfigError(f"{path} can't be written: {cause.strerror}; name another place with --path") from cause
    finally:
        temporary.unlink(missing_ok=True)


def write_temporary(path: Path, text: str) -> Path:
    """Write a new file in the same folder, with mode 0600, and return its path. A file that can't be completed is deleted."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def has_section(file: Path, section: SettingPath) -> bool:
    """Return whether the file has that section; a missing file has none. Raise `ConfigError` if it can't be read."""
    inner: object = parse_toml(_content(file).encode(), str(file))
    for name in section:
        if not isinstance(inner, Mapping) or name not in inner:
            return False
        inner = inner[str(name)]
    return True


def append_section(file: Path, section: SettingPath, values: Mapping[str, object]) -> None:
    """Append a new section to the file, atomically. A missing file begins with the text of `config init`.

    Raise `ConfigError` if the file could not be loaded with it or can't be written; the file is then unchanged.
    """
    # A link stays: the file that it points to is changed.
    target = Path(os.path.realpath(file))
    before = _content(target)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        written = write_temporary(target, before + _section_text(before, section, values))
    except OSError as cause:
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause
    try:
        _require_usable(written, file, section)
        written.chmod(mode)
        written.replace(target)
    except OSError as cause:
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause
    finally:
        written.unlink(missing_ok=True)


def store_secret(file: Path, secret: str) -> None:
    """Write a secret to a new file with mode 0600.

    Raise `FileExistsError` if the file exists, and `ConfigError` if it can't be written.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise
    except OSError as cause:
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as writing:
            writing.write(f"{secret}\n")
    except OSError as cause:
        file.unlink(missing_ok=True)
        raise ConfigError(f"{file} can't be written: {cause.strerror}; nothing was changed") from cause


def _content(file: Path) -> str:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return starter_text()
    except OSError as cause:
        raise ConfigError(f"{file} can't be read: {cause.strerror}; check what it is and whose it is") from cause
    if not file.is_file():
        raise ConfigError(f"{file} is no file; name one with --config")
    # Invalid TOML is reported before the user is asked anything.
    parse_toml(content, str(file))
    return content.decode()


def _section_text(before: str, section: SettingPath, values: Mapping[str, object]) -> str:
    line_end = "\r\n" if "\r\n" in before else "\n"
    lines = [
        f"[{toml_key(*map(str, section))}]",
        *(f"{toml_key(name)} = {toml_value(value)}" for name, value in values.items()),
    ]
    gap = "" if not before else line_end if before.endswith("\n") else 2 * line_end
    return gap + "".join(line + line_end for line in lines)


def _require_usable(written: Path, file: Path, section: SettingPath) -> None:
    try:
        load_config(written)
    except ConfigError as cause:
        problems = str(cause).replace(str(written), str(file))
        raise ConfigError(
            f"[{dotted_path(section)}] can't be added to {file}; nothing was changed:\n{problems}"
        ) from None


_PAGE_HEAD = """\
One TOML file holds the configuration: the one that `--config` names, else the one that `THREADLINE_CONFIG` names, else
`config.toml` in your configuration folder. That last one may be missing: every setting has a default. `threadline config path` says
which file it is, `threadline config init` writes one with every setting in it, `threadline config show` says which settings hold
and where each came from, and `threadline config check` says what is wrong.

**Variables** go before the file. The name is `THREADLINE_`, then section and setting, `__` between them: `THREADLINE_WEB__PORT`.
Upper and lower case are the same, and `_` stands for `-` as well in names that the file has. Switches are `yes` or `no`, `true` or
`false`, `1` or `0`; lists are TOML arrays, or have commas between their items; lists of sections are TOML arrays of tables. One
that is empty counts as not set. One that begins with `THREADLINE_` and names no setting is an error.

**Secrets** are never written into the file. Where one is expected, write where it is: `env:NAME` (a variable), `file:/PATH` (a file
that only you can read: mode 600) or `command:PROGRAM ARGUMENTS` (what a program prints within 10 seconds; it runs without a shell).
They are fetched when they are used, and never shown.
"""


def config_reference() -> str:
    """Return the reference page; equal declarations give an equal page."""
    lines = [
        "# The configuration",
        "",
        "<!-- Written by `make docs` from the code: change it there. -->",
        "",
        *_PAGE_HEAD.splitlines(),
        "",
        "## At the top of the file",
        "",
        *_page_table(Settings, ()),
        *_page_sections(Settings, ()),
        "## Variables that are no settings",
        "",
        ", ".join(f"`{name}`" for name in sorted(NOT_SETTINGS)),
        "",
    ]
    return "\n".join(lines)


def _page_sections(kind: type[msgspec.Struct], at: SettingPath) -> Iterator[str]:
    for field in fields_of(kind):
        path = (*at, field.name)
        match field.shape:
            case Section(inner):
                yield from _page_section(inner, path, f"[{'.'.join(map(str, path))}]")
            case NamedSections(inner):
                named = (*path, "NAME")
                yield from _page_section(inner, named, f"[{'.'.join(map(str, named))}]")
            case SectionList(inner):
                yield from _page_section(inner, (*path, 0), f"[[{'.'.join(map(str, path))}]]")
            case _:
                pass


def _page_section(kind: type[msgspec.Struct], path: SettingPath, header: str) -> Iterator[str]:
    yield from (f"## `{header}`", "", section_help(kind), "", *_page_table(kind, path), *_page_sections(kind, path))


def _page_table(kind: type[msgspec.Struct], at: SettingPath) -> Iterator[str]:
    yield from ("| setting | meaning | allowed | default | variable |", "|---|---|---|---|---|")
    for field in fields_of(kind):
        match field.shape:
            case ValueType() as value_type:
                cells = (
                    f"`{field.name}`",
                    field.help,
                    value_type.words,
                    _page_default(field),
                    f"`{variable_of((*at, field.name))}`",
                )
            case FreeSection():
                cells = "any other", field.help, "any value", "", f"`{variable_of(at)}__…`"
            case _:
                continue
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _page_default(field: Field) -> str:
    if field.unset:
        return field.unset
    if field.is_required:
        return "required"
    return (
        "not set" if field.default is None else f"`{default_text(field.default)}`" if field.default != () else "empty"
    )

"""The only reader of the environment: one TOML file, variables over it, the command line over both."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from threadline.config.read import ConfigProblem, SettingsReader, line_numbers, parse_toml, rule_problems
from threadline.config.schema import (
    PREFIX,
    FreeSection,
    NamedSections,
    Section,
    SectionList,
    SettingPath,
    ValueType,
    all_settings,
    allows_unknown,
    dotted_path,
    fields_of,
    find_field,
    parse_free_value,
    variable_of,
)
from threadline.config.settings import MAIN_AGENT, Config, Origin, ResetRule, Settings
from threadline.errors import ConfigError
from threadline.local_user import default_config


def current_environment() -> Mapping[str, str]:
    """Return the variables of this process."""
    return os.environ


def load_config(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """Return the settings in force: defaults, overridden by the file, then by variables, then by `overrides`.

    The file is `path`, else the one that THREADLINE_CONFIG names, else `config.toml` in the user's
    configuration folder; only that last one may be missing. `overrides` go by dotted names (`"web.port"`);
    `None` overrides nothing. Raise `ConfigError` with a line for each problem.
    """
    variables = current_environment() if environment is None else environment
    file, content = _read_file(path, variables)
    raw = parse_toml(content, str(file)) if content is not None else {}
    assignments, variable_problems = read_variables(Settings, variables, raw)
    given = [
        VariableAssignment(tuple(name.split(".")), value, "")
        for name, value in (overrides or {}).items()
        if value is not None
    ]
    origins = _origins(content or b"", [*assignments, *given])
    variable_problems += [text for assignment in (*assignments, *given) for text in _assign(raw, assignment)]
    settings, problems = _read(raw)
    if problems or variable_problems or settings is None:
        raise ConfigError("\n".join([*_located(problems, origins, file), *variable_problems]))
    values = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    _inherit_origins(settings, origins)
    return Config(**values, path=file if content is not None else None, origins=origins)


def config_path(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """Return the file that `load_config` reads, whether it exists or not."""
    variables = current_environment() if environment is None else environment
    named = path or variables.get(CONFIG_VARIABLE)
    return _expanded(Path(named)) if named else default_config()


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as cause:
        raise ConfigError(f"{path} names a home folder that is not there; write the path out") from cause


def _read_file(path: Path | None, variables: Mapping[str, str]) -> tuple[Path, bytes | None]:
    file = config_path(path, variables)
    try:
        return file, file.read_bytes()
    except FileNotFoundError as cause:
        if path is None and not variables.get(CONFIG_VARIABLE):
            return file, None
        raise ConfigError(f"there is no file {file}; `threadline config init --path {file}` writes one") from cause
    except OSError as cause:
        raise ConfigError(f"{file} can't be read: {cause.strerror}; check what it is and whose it is") from cause


def _assign(raw: dict[str, object], assignment: VariableAssignment) -> Iterator[str]:
    """Put a value into the document. If a part of its path is no section, yield a problem and change nothing."""
    inner: object = raw
    for part in assignment.path[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner[assignment.path[-1]] = assignment.value
    else:
        above = dotted_path(assignment.path[:-1])
        yield f"{assignment.variable or 'the command line'}: {above} is set to a value and is no section; keep one of them"


def _origins(content: bytes, assignments: Iterable[VariableAssignment]) -> dict[SettingPath, Origin]:
    origins = {path: Origin(line=line) for path, line in line_numbers(content.decode("utf-8-sig")).items()}
    for assignment in assignments:
        path = assignment.path
        # A variable replaces a whole list: no item of it comes from the file any more.
        for inner in [inner for inner in origins if inner[: len(path)] == path]:
            del origins[inner]
        origins[path] = Origin(variable=assignment.variable) if assignment.variable else Origin()
    return origins


def _read(raw: dict[str, object]) -> tuple[Settings | None, list[ConfigProblem]]:
    _fill_in_names(raw)
    reader = SettingsReader(Settings)
    settings = reader.read(Settings, raw, ())
    if settings is None or reader.problems:
        return None, reader.problems
    return _with_inherited_resets(settings, raw), list(rule_problems(settings))


def _fill_in_names(raw: dict[str, object]) -> None:
    """Add the main agent if it is missing, and the kind of each platform that names none: the name of its section."""
    agents = raw.setdefault("agents", {})
    if isinstance(agents, dict):
        agents.setdefault(MAIN_AGENT, {})
    platforms = raw.get("platforms")
    for name, platform in platforms.items() if isinstance(platforms, dict) else ():
        if isinstance(platform, dict):
            platform.setdefault("kind", name)


def _with_inherited_resets(settings: Settings, raw: Mapping[str, object]) -> Settings:
    """Return the settings with the rules for platforms and chat types completed from [resets]."""
    resets = settings.resets
    common = {name: getattr(resets, name) for name in ResetRule.__struct_fields__}

    def inherited(group: str, rules: Mapping[Any, ResetRule]) -> dict[Any, ResetRule]:
        return {
            name: ResetRule(
                **common | {setting: getattr(rule, setting) for setting in _table(raw, "resets", group, name)}
            )
            for name, rule in rules.items()
        }

    changed = msgspec.structs.replace(
        resets, platform=inherited("platform", resets.platform), type=inherited("type", resets.type)
    )
    return msgspec.structs.replace(settings, resets=changed)


def _table(raw: object, *names: str) -> Mapping[str, object]:
    for name in names:
        raw = raw.get(name) if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, Mapping) else {}


def _inherit_origins(settings: Settings, origins: dict[SettingPath, Origin]) -> None:
    rules = [("platform", name) for name in settings.resets.platform] + [
        ("type", name) for name in settings.resets.type
    ]
    for group, name in rules:
        for setting in ResetRule.__struct_fields__:
            common = origins.get(("resets", setting))
            if common is not None:
                origins.setdefault(("resets", group, name, setting), common)


def _located(problems: Iterable[ConfigProblem], origins: Mapping[SettingPath, Origin], file: Path) -> list[str]:
    """Return the problems, each after the variable or the line that it comes from."""
    return [f"{_origin_text(origins, problem.path, file)}{problem}" for problem in problems]


def _origin_text(origins: Mapping[SettingPath, Origin], path: SettingPath, file: Path) -> str:
    for end in range(len(path), 0, -1):
        origin = origins.get(path[:end])
        if origin is not None and origin.variable is not None:
            return f"{origin.variable}: "
        if origin is not None:
            return "" if origin.line is None else f"{file}:{origin.line}: "
    return ""


CONFIG_VARIABLE = "THREADLINE_CONFIG"

# These begin like settings but are none: they name the file, scale the tests, or describe a child process to itself.
NOT_SETTINGS = frozenset(
    {CONFIG_VARIABLE, "THREADLINE_SOAK", "THREADLINE_SEED", "THREADLINE_SESSION_KEY", "THREADLINE_PROCESS_ID"}
)

AssignmentTarget: TypeAlias = tuple[SettingPath, ValueType | SectionList | FreeSection]


class VariableAssignment(msgspec.Struct, frozen=True):
    """The value that a variable gives to a setting. `variable` is empty for the command line."""

    path: SettingPath
    value: object
    variable: str


class UnusableVariable(Exception):
    """A variable that begins like a setting but sets none; the text says what to do."""


def read_variables(
    root: type[msgspec.Struct], environment: Mapping[str, str], raw: Mapping[str, object]
) -> tuple[list[VariableAssignment], list[str]]:
    """Return the assignments that the variables make, and the problems with variables.

    Names are not case-sensitive, and `__` separates sections. A name in the file (`raw`) that differs only in case or
    in `-` is the one that is set. An empty variable counts as not set.
    """
    assignments: dict[SettingPath, VariableAssignment] = {}
    problems: list[str] = []
    for variable, text in sorted(environment.items()):
        if not variable.upper().startswith(PREFIX) or variable.upper() in NOT_SETTINGS or not text:
            continue
        try:
            assignment = _assignment(root, variable, text, raw)
        except UnusableVariable as cause:
            problems.append(f"{variable}: {cause}")
            continue
        earlier = assignments.setdefault(assignment.path, assignment)
        if earlier is not assignment:
            problems.append(
                f"{variable}: {earlier.variable} sets {dotted_path(assignment.path)} as well; keep one of them"
            )
    return list(assignments.values()), problems


def _assignment(root: type[msgspec.Struct], variable: str, text: str, raw: Mapping[str, object]) -> VariableAssignment:
    parts = variable[len(PREFIX) :].lower().split("__")
    path, shape = _target(root, parts, raw, ())
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise UnusableVariable("its value is no UTF-8 text; set it again") from cause
    value = shape.from_variable(text) if isinstance(shape, ValueType) else parse_free_value(text)
    return VariableAssignment(path, value, variable)


def _target(kind: type[msgspec.Struct], parts: list[str], raw: object, at: SettingPath) -> AssignmentTarget:
    """Return the path that the parts of a variable's name lead to, and the type of its value."""
    if not parts:
        first = next(iter(fields_of(kind))).name
        raise UnusableVariable(f"{dotted_path(at)} is a section; set its settings, such as {variable_of((*at, first))}")
    field = find_field(kind, parts[0])
    if field is None:
        if allows_unknown(kind) and all(parts):
            return (*at, *_as_in_file(parts, raw)), FreeSection()
        raise UnusableVariable(_no_such_setting(kind, parts, at))
    path, rest, inner = (*at, field.name), parts[1:], _value_below(raw, field.name)
    match field.shape:
        case Section(section):
            return _target(section, rest, inner, path)
        case NamedSections(section):
            if not rest:
                raise UnusableVariable(
                    f"{dotted_path(path)} are sections; name one, such as {variable_of((*path, field.example))}__…"
                )
            (name,) = _as_in_file(rest[:1], inner)
            return _target(section, rest[1:], _value_below(inner, name), (*path, name))
        case ValueType() | SectionList() if rest:
            raise UnusableVariable(f"{dotted_path(path)} is one setting: use {variable_of(path)}")
        case ValueType() | SectionList() as shape:
            return path, shape
        case FreeSection():
            raise AssertionError("settings that are not declared have no field")


def _as_in_file(parts: list[str], raw: object) -> Iterator[str]:
    """Yield the names as the file spells them, or as they are if the file does not have them."""
    for part in parts:
        names = [name for name in raw if _comparable(name) == _comparable(part)] if isinstance(raw, Mapping) else []
        name = names[0] if names else part
        yield name
        raw = _value_below(raw, name)


def _comparable(name: str) -> str:
    return name.lower().replace("-", "_")


def _value_below(raw: object, name: str) -> object:
    return raw.get(name) if isinstance(raw, Mapping) else None


def _no_such_setting(kind: type[msgspec.Struct], parts: list[str], at: SettingPath) -> str:
    known = [field.name for field in fields_of(kind)]
    near = difflib.get_close_matches(parts[0], known, n=1)
    if near:
        rest = "".join(f"__{part.upper()}" for part in parts[1:])
        return f"there is no such setting; did you mean {variable_of((*at, near[0]))}{rest}?"
    # Compared without the common prefix: with it, every name would be similar.
    name = variable_of((*at, "__".join(parts))).removeprefix(PREFIX)
    everywhere = sorted({setting.variable.removeprefix(PREFIX) for setting in all_settings(kind, at)})
    close = difflib.get_close_matches(name, everywhere, n=1)
    if close:
        return f"there is no such setting; did you mean {PREFIX}{close[0]}?"
    return "there is no such setting; `threadline config init` writes a file with all there are"

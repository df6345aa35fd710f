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
    """The variables of this process."""
    return os.environ


def load_config(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """The settings that hold: defaults, the file over them, variables over it, `overrides` over all.

    The file is `path`, else the one that THREADLINE_CONFIG names, else `config.toml` in the user's
    configuration folder; only that last one may be missing. `overrides` go by dotted names (`"web.port"`);
    `None` overrides nothing. `ConfigError` tells all that is wrong, a line each.
    """
    variables = current_environment() if environment is None else environment
    file, content = _read_file(path, variables)
    raw = parse_toml(content, str(file)) if content is not None else {}
    assignments, misplaced = read_variables(Settings, variables, raw)
    given = [
        VariableAssignment(tuple(name.split(".")), value, "")
        for name, value in (overrides or {}).items()
        if value is not None
    ]
    origins = _origins(content or b"", [*assignments, *given])
    misplaced += [text for assignment in (*assignments, *given) for text in _assign(raw, assignment)]
    settings, problems = _read(raw)
    if problems or misplaced or settings is None:
        raise ConfigError("\n".join([*_told(problems, origins, file), *misplaced]))
    values = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    _inherit_origins(settings, origins)
    return Config(**values, path=file if content is not None else None, origins=origins)


def config_path(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The file that `load_config` reads, whether it is there or not."""
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
    """Puts a value into the document. Where something else stands in the way, tells so and changes nothing."""
    inner: object = raw
    for part in assignment.place[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner[assignment.place[-1]] = assignment.value
    else:
        above = dotted_path(assignment.place[:-1])
        yield f"{assignment.variable or 'the command line'}: {above} is set to a value and is no section; keep one of them"


def _origins(content: bytes, assignments: Iterable[VariableAssignment]) -> dict[SettingPath, Origin]:
    origins = {place: Origin(line=line) for place, line in line_numbers(content.decode("utf-8-sig")).items()}
    for assignment in assignments:
        place = assignment.place
        # A variable replaces a list as a whole: nothing of it comes from the file any more.
        for inner in [inner for inner in origins if inner[: len(place)] == place]:
            del origins[inner]
        origins[place] = Origin(variable=assignment.variable) if assignment.variable else Origin()
    return origins


def _read(raw: dict[str, object]) -> tuple[Settings | None, list[ConfigProblem]]:
    _fill_in_names(raw)
    reader = SettingsReader(Settings)
    settings = reader.read(Settings, raw, ())
    if settings is None or reader.problems:
        return None, reader.problems
    return _with_inherited_resets(settings, raw), list(rule_problems(settings))


def _fill_in_names(raw: dict[str, object]) -> None:
    """The main agent is always there, and a platform is of the kind that its section names."""
    agents = raw.setdefault("agents", {})
    if isinstance(agents, dict):
        agents.setdefault(MAIN_AGENT, {})
    platforms = raw.get("platforms")
    for name, platform in platforms.items() if isinstance(platforms, dict) else ():
        if isinstance(platform, dict):
            platform.setdefault("kind", name)


def _with_inherited_resets(settings: Settings, raw: Mapping[str, object]) -> Settings:
    """What a rule for a platform or a chat type leaves out is as in [resets]."""
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


def _told(problems: Iterable[ConfigProblem], origins: Mapping[SettingPath, Origin], file: Path) -> list[str]:
    """The problems, each behind the variable or the line that it comes from."""
    return [f"{_origin_text(origins, problem.place, file)}{problem}" for problem in problems]


def _origin_text(origins: Mapping[SettingPath, Origin], place: SettingPath, file: Path) -> str:
    for end in range(len(place), 0, -1):
        origin = origins.get(place[:end])
        if origin is not None and origin.variable is not None:
            return f"{origin.variable}: "
        if origin is not None:
            return "" if origin.line is None else f"{file}:{origin.line}: "
    return ""


CONFIG_VARIABLE = "THREADLINE_CONFIG"

# These begin like settings and are none: they name the file, scale the tests, or tell a child process where it is.
NOT_SETTINGS = frozenset(
    {CONFIG_VARIABLE, "THREADLINE_SOAK", "THREADLINE_SEED", "THREADLINE_SESSION_KEY", "THREADLINE_PROCESS_ID"}
)

AssignmentTarget: TypeAlias = tuple[SettingPath, ValueType | SectionList | FreeSection]


class VariableAssignment(msgspec.Struct, frozen=True):
    """What a variable sets."""

    place: SettingPath
    value: object
    variable: str


class UnusableVariable(Exception):
    """A variable that begins like a setting and sets none; the text says what to do."""


def read_variables(
    root: type[msgspec.Struct], environment: Mapping[str, str], raw: Mapping[str, object]
) -> tuple[list[VariableAssignment], list[str]]:
    """All that the variables set, and what is wrong with them.

    Names are read without regard to case, and `__` stands between sections. A name in the file (`raw`) is
    meant where it differs in case or in `-` alone. A variable that is empty counts as not set.
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
        earlier = assignments.setdefault(assignment.place, assignment)
        if earlier is not assignment:
            problems.append(
                f"{variable}: {earlier.variable} sets {dotted_path(assignment.place)} as well; keep one of them"
            )
    return list(assignments.values()), problems


def _assignment(root: type[msgspec.Struct], variable: str, text: str, raw: Mapping[str, object]) -> VariableAssignment:
    parts = variable[len(PREFIX) :].lower().split("__")
    place, shape = _target(root, parts, raw, ())
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise UnusableVariable("its value is no UTF-8 text; set it again") from cause
    value = shape.from_variable(text) if isinstance(shape, ValueType) else parse_free_value(text)
    return VariableAssignment(place, value, variable)


def _target(kind: type[msgspec.Struct], parts: list[str], raw: object, at: SettingPath) -> AssignmentTarget:
    """The place that the parts of a name lead to, and what can stand there."""
    if not parts:
        first = next(iter(fields_of(kind))).name
        raise UnusableVariable(f"{dotted_path(at)} is a section; set its settings, such as {variable_of((*at, first))}")
    field = find_field(kind, parts[0])
    if field is None:
        if allows_unknown(kind) and all(parts):
            return (*at, *_spelled(parts, raw)), FreeSection()
        raise UnusableVariable(_no_such(kind, parts, at))
    place, rest, inner = (*at, field.name), parts[1:], _inner(raw, field.name)
    match field.shape:
        case Section(section):
            return _target(section, rest, inner, place)
        case NamedSections(section):
            if not rest:
                raise UnusableVariable(
                    f"{dotted_path(place)} are sections; name one, such as {variable_of((*place, field.example))}__…"
                )
            (name,) = _spelled(rest[:1], inner)
            return _target(section, rest[1:], _inner(inner, name), (*place, name))
        case ValueType() | SectionList() if rest:
            raise UnusableVariable(f"{dotted_path(place)} is one setting: use {variable_of(place)}")
        case ValueType() | SectionList() as shape:
            return place, shape
        case FreeSection():
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


def _no_such(kind: type[msgspec.Struct], parts: list[str], at: SettingPath) -> str:
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

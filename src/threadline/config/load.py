"""The only reader of the environment: one TOML file, variables over it, the command line over both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from threadline.config.declared import Place, dotted
from threadline.config.environment import CONFIG_VARIABLE, Assignment, read_variables
from threadline.config.lines import lines_of
from threadline.config.paths import default_config
from threadline.config.reading import Problem, Reader
from threadline.config.rules import broken_rules
from threadline.config.settings import MAIN_AGENT, Config, Origin, ResetRule, Settings
from threadline.config.toml import parse_toml
from threadline.errors import ConfigError


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
        Assignment(tuple(name.split(".")), value, "") for name, value in (overrides or {}).items() if value is not None
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


def _assign(raw: dict[str, object], assignment: Assignment) -> Iterator[str]:
    """Puts a value into the document. Where something else stands in the way, tells so and changes nothing."""
    inner: object = raw
    for part in assignment.place[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner[assignment.place[-1]] = assignment.value
    else:
        above = dotted(assignment.place[:-1])
        yield f"{assignment.variable or 'the command line'}: {above} is set to a value and is no section; keep one of them"


def _origins(content: bytes, assignments: Iterable[Assignment]) -> dict[Place, Origin]:
    origins = {place: Origin(line=line) for place, line in lines_of(content.decode("utf-8-sig")).items()}
    for assignment in assignments:
        place = assignment.place
        # A variable replaces a list as a whole: nothing of it comes from the file any more.
        for inner in [inner for inner in origins if inner[: len(place)] == place]:
            del origins[inner]
        origins[place] = Origin(variable=assignment.variable) if assignment.variable else Origin()
    return origins


def _read(raw: dict[str, object]) -> tuple[Settings | None, list[Problem]]:
    _fill_in_names(raw)
    reader = Reader(Settings)
    settings = reader.read(Settings, raw, ())
    if settings is None or reader.problems:
        return None, reader.problems
    return _with_inherited_resets(settings, raw), list(broken_rules(settings))


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


def _inherit_origins(settings: Settings, origins: dict[Place, Origin]) -> None:
    rules = [("platform", name) for name in settings.resets.platform] + [
        ("type", name) for name in settings.resets.type
    ]
    for group, name in rules:
        for setting in ResetRule.__struct_fields__:
            common = origins.get(("resets", setting))
            if common is not None:
                origins.setdefault(("resets", group, name, setting), common)


def _told(problems: Iterable[Problem], origins: Mapping[Place, Origin], file: Path) -> list[str]:
    """The problems, each behind the variable or the line that it comes from."""
    return [f"{_origin_text(origins, problem.place, file)}{problem}" for problem in problems]


def _origin_text(origins: Mapping[Place, Origin], place: Place, file: Path) -> str:
    for end in range(len(place), 0, -1):
        origin = origins.get(place[:end])
        if origin is not None and origin.variable is not None:
            return f"{origin.variable}: "
        if origin is not None:
            return "" if origin.line is None else f"{file}:{origin.line}: "
    return ""

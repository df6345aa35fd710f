"""TOML to settings: parse, check each value, then check the rules between settings.

All problems are reported at once, each with the path of its setting.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from threadline.config.schema import (
    Field,
    FreeSection,
    InvalidValue,
    NamedSections,
    Section,
    SectionList,
    SettingPath,
    ValueType,
    all_settings,
    describe_value,
    dotted_path,
    fields_of,
)
from threadline.config.secrets import REFERENCE_HELP, find_plain_secrets
from threadline.config.settings import OWN_KINDS, AccessSettings, AgentSettings, Settings
from threadline.errors import ConfigError, InvalidRequest
from threadline.model.client_sources import ACP, LOCAL_PLATFORMS
from threadline.model.context import LOCAL

_AT = re.compile(r"\(at line (\d+), column (\d+)\)")

# A part of the parser's message, and our text for it. The first match counts.
_EXPECTED = (
    ("'=' after a key", "expected = and a value after the name of a setting"),
    ("end of a table declaration", "expected ] after the name of a section"),
    ("end of an array declaration", "expected ]] after the name of a section"),
    ("newline or end of document", "expected nothing more on this line; text needs quotes around all of it"),
    ("initial character for a key", "expected a name; put it in quotes if it holds more than letters, digits, - and _"),
    ("Invalid value (at end", "expected a value, but the file ends here, perhaps inside of a list"),
    ("Invalid value", "expected a value: text in quotes, a number, true, false, or a list in [ ]"),
    ("Invalid statement", "expected a setting such as port = 8765, or a section such as [web]"),
    ("Unclosed array", "expected ] at the end of a list"),
    ("Unclosed inline table", "expected } at the end of a table, all on one line"),
    ("Unterminated string", "expected a quote at the end of the text"),
    (
        "Illegal character '\\n'",
        "expected a quote at the end of the text, on its line; longer text stands in three quotes",
    ),
    ("character '", "expected no control characters; write them as \\uXXXX"),
    ("in a string", "expected another character after \\; write \\\\ for the mark itself"),
    ("Expected", "expected a quote at the end of the text"),
    ("Cannot", "this stands twice; keep one of them"),
    ("Duplicate", "this stands twice; keep one of them"),
)


def parse_toml(content: bytes, name: str) -> dict[str, object]:
    """Return the document. Raise `ConfigError` with file, line, column and what was expected if it is not TOML."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise ConfigError(f"{name}:{line}: expected UTF-8 text; save the file in that encoding") from cause
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise ConfigError(f"{name}:{_position(str(cause), text)}: {_expected(str(cause))}") from None
    except (ValueError, RecursionError) as cause:
        raise ConfigError(f"{name}: expected values of a usual size; one number or list in it has no end") from cause


def _position(complaint: str, text: str) -> str:
    match = _AT.search(complaint)
    if match:
        return f"{match.group(1)}:{match.group(2)}"
    lines = text.split("\n")
    return f"{len(lines)}:{len(lines[-1]) + 1}"


def _expected(complaint: str) -> str:
    for part, text in _EXPECTED:
        if part in complaint:
            return text
    return "expected TOML: settings such as port = 8765 in sections such as [web]"


def line_numbers(text: str) -> dict[SettingPath, int]:
    """Return the line of every section and every value in a valid TOML text, counted from one.

    Values inside a list or an inline table get the line on which that list or table begins.
    """
    lines: dict[SettingPath, int] = {}
    counts: dict[SettingPath, int] = {}
    section: SettingPath = ()
    for number, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            section = _header_path(parsed, counts, is_list=statement.lstrip().startswith("[["))
            lines.setdefault(section, number)
            continue
        for path in _paths(parsed):
            lines.setdefault((*section, *path), number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with the number of its first line. A statement is the fewest lines that are valid TOML."""
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


def _header_path(parsed: Mapping[str, object], counts: dict[SettingPath, int], *, is_list: bool) -> SettingPath:
    """Return the path of the section that a header opens. In a list of tables it is the last table."""
    path: SettingPath = ()
    inner: object = parsed
    while isinstance(inner, Mapping) and inner:
        ((name, inner),) = inner.items()
        path = (*path, name)
        inner = inner[0] if isinstance(inner, list) else inner
        if path in counts and not (is_list and not inner):
            path = (*path, counts[path] - 1)
    if is_list:
        counts[path] = counts.get(path, 0) + 1
        path = (*path, counts[path] - 1)
    return path


def _paths(value: object, at: SettingPath = ()) -> Iterator[SettingPath]:
    if at:
        yield at
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paths(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*at, number))


S = TypeVar("S", bound=msgspec.Struct)

_FAILED = object()


class ConfigProblem(msgspec.Struct, frozen=True):
    """A setting that can't be used: its path, and what is wrong."""

    path: SettingPath
    text: str

    def __str__(self) -> str:
        return f"{dotted_path(self.path)}: {self.text}" if self.path else self.text


def read_settings(kind: type[S], raw: Mapping[str, object], at: SettingPath = ()) -> S:
    """Return the section `kind` with the values of `raw`, for packages that declare settings of their own.

    Raise `ConfigError` with a line for each problem. `at` is the path of the section in the file.
    """
    reader = SettingsReader(kind)
    section = reader.read(kind, raw, at)
    if section is None or reader.problems:
        raise ConfigError("\n".join(str(problem) for problem in reader.problems))
    return section


class SettingsReader:
    """Reads sections and collects the problems."""

    def __init__(self, root: type[msgspec.Struct]) -> None:
        self._root = root
        self.problems: list[ConfigProblem] = []

    def read(self, kind: type[S], raw: object, at: SettingPath) -> S | None:
        """Return the section, or None if it can't be made. `problems` says what is wrong, in both cases."""
        if not isinstance(raw, Mapping):
            self._add_problem(
                at, f"found {describe_value(raw)}; this is a section: write [{dotted_path(at)}] and its settings below"
            )
            return None
        fields = fields_of(kind)
        values = {
            field.name: self._field(field, raw[field.name], at) for field in _declared(fields) if field.name in raw
        }
        self._undeclared(fields, raw, at, values)
        missing = [field.name for field in _declared(fields) if field.is_required and field.name not in raw]
        for name in missing:
            self._add_problem(at, f"{name} is missing; it has no default")
        valid = {name: value for name, value in values.items() if value is not _FAILED}
        if missing or any(field.is_required and field.name not in valid for field in fields):
            return None
        try:
            return kind(**valid)
        except InvalidRequest as cause:
            self._add_problem(at, str(cause))
            return None

    def _field(self, field: Field, raw: object, at: SettingPath) -> Any:
        path = (*at, field.name)
        match field.shape:
            case ValueType() as value_type:
                return self._value(value_type, raw, path)
            case Section(kind):
                section = self.read(kind, raw, path)
                return _FAILED if section is None else section
            case NamedSections(kind, key):
                return self._named_sections(kind, key, raw, path)
            case SectionList(kind):
                return self._section_list(kind, raw, path)
            case FreeSection():
                raise AssertionError("settings that are not declared have no field")

    def _value(self, value_type: ValueType, raw: object, path: SettingPath) -> object:
        try:
            return value_type.read(raw)
        except InvalidValue as cause:
            self._add_problem(path, str(cause))
            return _FAILED

    def _named_sections(self, kind: type[S], key: ValueType, raw: object, at: SettingPath) -> Any:
        if not isinstance(raw, Mapping):
            self._add_problem(at, f"found {describe_value(raw)}; write a section for each: [{dotted_path(at)}.NAME]")
            return _FAILED
        named = {}
        for name, inner in raw.items():
            if self._value(key, name, (*at, name)) is not _FAILED:
                named[name] = self.read(kind, inner, (*at, name))
        return {name: section for name, section in named.items() if section is not None}

    def _section_list(self, kind: type[S], raw: object, at: SettingPath) -> Any:
        if not isinstance(raw, list | tuple):
            self._add_problem(at, f"found {describe_value(raw)}; write a section for each: [[{dotted_path(at)}]]")
            return _FAILED
        sections = [self.read(kind, inner, (*at, number)) for number, inner in enumerate(raw)]
        return tuple(section for section in sections if section is not None)

    def _undeclared(
        self, fields: tuple[Field, ...], raw: Mapping[str, object], at: SettingPath, values: dict[str, object]
    ) -> None:
        """Keep settings that are not declared if the section takes them; else each is a problem."""
        known = [field.name for field in _declared(fields)]
        others = {name: value for name, value in raw.items() if name not in known}
        collector = next((field.name for field in fields if isinstance(field.shape, FreeSection)), None)
        if collector is None:
            for name in others:
                self._add_problem((*at, name), f"there is no such setting{self._hint(name, known, at)}")
            return
        values[collector] = others
        for inner in find_plain_secrets(others):
            self._add_problem((*at, *inner), f"this is a secret, which is never written here; {REFERENCE_HELP}")

    def _hint(self, name: str, known: Iterable[str], at: SettingPath) -> str:
        near = difflib.get_close_matches(str(name).lower(), list(known), n=1)
        if near:
            return f"; did you mean {dotted_path((*at, near[0]))}?"
        elsewhere = {setting.name: setting.name.rpartition(".")[2] for setting in all_settings(self._root)}
        same = [dotted_name for dotted_name, last in elsewhere.items() if last == name]
        return f"; did you mean {same[0]}?" if same else f"; use one of {', '.join(known)}"

    def _add_problem(self, path: SettingPath, text: str) -> None:
        self.problems.append(ConfigProblem(path, text))


def _declared(fields: tuple[Field, ...]) -> Iterable[Field]:
    return [field for field in fields if not isinstance(field.shape, FreeSection)]


# The settings that a kind of agent needs (one of them), and the kinds that a setting is for.
_NEEDED = {"function": ("call",), "model": ("model",), "acp": ("preset", "command")}
_KINDS_OF = {
    "call": ("function",),
    "model": ("model", "acp"),
    **dict.fromkeys(("preset", "command", "env", "cwd", "permissions", "mode", "auth_method"), ("acp",)),
}


def rule_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Yield every contradiction between settings, and every reference to a name that does not exist."""
    for name, agent in settings.agents.items():
        yield from _agent(name, agent)
    yield from _agent_names(settings)
    yield from _platforms(settings)
    yield from _bindings(settings)
    yield from _chats(settings)
    yield from _access(settings.access)


def _agent(name: str, agent: AgentSettings) -> Iterator[ConfigProblem]:
    if agent.kind not in OWN_KINDS:
        # Its package checks what it needs.
        return
    for option in agent.options:
        yield ConfigProblem(
            ("agents", name, option), f"there is no such setting{_option_hint(name, option, agent.kind)}"
        )
    if (needed := _NEEDED.get(agent.kind)) is not None and not any(getattr(agent, setting) for setting in needed):
        yield ConfigProblem(("agents", name), f'{" or ".join(needed)} is missing; kind = "{agent.kind}" needs it')
    for setting, kinds in _KINDS_OF.items():
        if agent.kind not in kinds and getattr(agent, setting):
            yield ConfigProblem(
                ("agents", name, setting), f'this is never used with kind = "{agent.kind}"; set kind = "{kinds[0]}"'
            )


def _option_hint(name: str, option: str, kind: str) -> str:
    known = [field for field in AgentSettings.__struct_fields__ if field != "options"]
    near = difflib.get_close_matches(option.lower(), known, n=1)
    if near:
        return f"; did you mean agents.{name}.{near[0]}?"
    return f' of kind = "{kind}"; use one of {", ".join(known)}'


def _agent_names(settings: Settings) -> Iterator[ConfigProblem]:
    there = ", ".join(sorted(settings.agents))
    if settings.gateway.default_agent not in settings.agents:
        yield ConfigProblem(
            ("gateway", "default_agent"), f'there is no agent "{settings.gateway.default_agent}", only {there}'
        )
    for number, binding in enumerate(settings.bindings):
        if binding.agent not in settings.agents:
            yield ConfigProblem(("bindings", number, "agent"), f'there is no agent "{binding.agent}", only {there}')


def _platforms(settings: Settings) -> Iterator[ConfigProblem]:
    for name, platform in settings.platforms.items():
        if platform.kind == LOCAL:
            yield ConfigProblem(
                ("platforms", name),
                "the terminal is no platform of a gateway; leave this out and use `threadline chat`",
            )
        elif platform.kind == ACP:
            yield ConfigProblem(
                ("platforms", name),
                "editors are no platform of a gateway; leave this out and let the editor run `threadline acp`",
            )
        elif name in LOCAL_PLATFORMS:
            # The name of the section becomes the platform of every message from it.
            where = "at the terminal" if name == LOCAL else "in an editor"
            yield ConfigProblem(
                ("platforms", name),
                f"whoever writes under this name is taken for the owner {where}; name it [platforms.{platform.kind}]",
            )


def _bindings(settings: Settings) -> Iterator[ConfigProblem]:
    seen: dict[tuple[str | None, ...], int] = {}
    for number, binding in enumerate(settings.bindings):
        for name, value in (("account", binding.account), ("chat", binding.chat)):
            if value is not None and binding.platform is None:
                yield ConfigProblem(("bindings", number, name), "this needs a platform beside it")
        earlier = seen.setdefault((binding.platform, binding.account, binding.chat), number)
        if earlier != number:
            yield ConfigProblem(("bindings", number), f"bindings#{earlier + 1} is for the same place; keep one of them")


def _chats(settings: Settings) -> Iterator[ConfigProblem]:
    seen: dict[tuple[str | None, ...], int] = {}
    for number, chat in enumerate(settings.chats):
        earlier = seen.setdefault((chat.platform, chat.account, chat.chat), number)
        if earlier != number:
            yield ConfigProblem(("chats", number), f"chats#{earlier + 1} is the same chat; keep one of them")


def _access(access: AccessSettings) -> Iterator[ConfigProblem]:
    seen: dict[str, str] = {}
    for role, people in (("owners", access.owners), ("trusted", access.trusted), ("guests", access.guests)):
        for person in people:
            if seen.setdefault(person, role) != role:
                yield ConfigProblem(
                    ("access", role), f'"{person}" is in access.{seen[person]} as well; keep one of them'
                )

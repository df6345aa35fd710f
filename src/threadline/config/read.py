"""From TOML to settings: every problem is reported at once, each with its place."""

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
from threadline.model.context import LOCAL
from threadline.model.editors import ACP, AT_THE_MACHINE

_AT = re.compile(r"\(at line (\d+), column (\d+)\)")

# What the parser complains of, and what we say. The first that fits counts.
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
    """The document. What is no TOML is `ConfigError` with file, line, column and what was expected."""
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
    found = _AT.search(complaint)
    if found:
        return f"{found.group(1)}:{found.group(2)}"
    lines = text.split("\n")
    return f"{len(lines)}:{len(lines[-1]) + 1}"


def _expected(complaint: str) -> str:
    for sign, words in _EXPECTED:
        if sign in complaint:
            return words
    return "expected TOML: settings such as port = 8765 in sections such as [web]"


def line_numbers(text: str) -> dict[SettingPath, int]:
    """The line of every section and every value in a sound TOML text, counted from one.

    What stands inside of a list or an inline table is on the line on which that begins.
    """
    lines: dict[SettingPath, int] = {}
    counts: dict[SettingPath, int] = {}
    section: SettingPath = ()
    for number, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            section = _header_place(parsed, counts, is_list=statement.lstrip().startswith("[["))
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


def _header_place(parsed: Mapping[str, object], counts: dict[SettingPath, int], *, is_list: bool) -> SettingPath:
    """The place that a header opens. Inside of a list of tables it is the last of them."""
    place: SettingPath = ()
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


def _places(value: object, at: SettingPath = ()) -> Iterator[SettingPath]:
    if at:
        yield at
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _places(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, (*at, number))


S = TypeVar("S", bound=msgspec.Struct)

_FAILED = object()


class ConfigProblem(msgspec.Struct, frozen=True):
    """Something that can't be used, and where it stands."""

    place: SettingPath
    text: str

    def __str__(self) -> str:
        return f"{dotted_path(self.place)}: {self.text}" if self.place else self.text


def read_settings(kind: type[S], raw: Mapping[str, object], at: SettingPath = ()) -> S:
    """The section `kind` as `raw` sets it, for whoever declares settings of their own.

    `ConfigError` names all that is wrong, a line each; `at` is the section's place in the file.
    """
    reader = SettingsReader(kind)
    section = reader.read(kind, raw, at)
    if section is None or reader.problems:
        raise ConfigError("\n".join(str(problem) for problem in reader.problems))
    return section


class SettingsReader:
    """Reads sections and keeps the problems that it meets."""

    def __init__(self, root: type[msgspec.Struct]) -> None:
        self._root = root
        self.problems: list[ConfigProblem] = []

    def read(self, kind: type[S], raw: object, at: SettingPath) -> S | None:
        """The section; `None` where it can't be made at all. Either way the problems tell."""
        if not isinstance(raw, Mapping):
            self._object(
                at, f"found {describe_value(raw)}; this is a section: write [{dotted_path(at)}] and its settings below"
            )
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

    def _field(self, field: Field, raw: object, at: SettingPath) -> Any:
        place = (*at, field.name)
        match field.shape:
            case ValueType() as leaf:
                return self._leaf(leaf, raw, place)
            case Section(kind):
                section = self.read(kind, raw, place)
                return _FAILED if section is None else section
            case NamedSections(kind, key):
                return self._named(kind, key, raw, place)
            case SectionList(kind):
                return self._many(kind, raw, place)
            case FreeSection():
                raise AssertionError("what is left over has no name of its own")

    def _leaf(self, leaf: ValueType, raw: object, place: SettingPath) -> object:
        try:
            return leaf.read(raw)
        except InvalidValue as unfit:
            self._object(place, str(unfit))
            return _FAILED

    def _named(self, kind: type[S], key: ValueType, raw: object, at: SettingPath) -> Any:
        if not isinstance(raw, Mapping):
            self._object(at, f"found {describe_value(raw)}; write a section for each: [{dotted_path(at)}.NAME]")
            return _FAILED
        named = {}
        for name, inner in raw.items():
            if self._leaf(key, name, (*at, name)) is not _FAILED:
                named[name] = self.read(kind, inner, (*at, name))
        return {name: section for name, section in named.items() if section is not None}

    def _many(self, kind: type[S], raw: object, at: SettingPath) -> Any:
        if not isinstance(raw, list | tuple):
            self._object(at, f"found {describe_value(raw)}; write a section for each: [[{dotted_path(at)}]]")
            return _FAILED
        sections = [self.read(kind, inner, (*at, number)) for number, inner in enumerate(raw)]
        return tuple(section for section in sections if section is not None)

    def _rest(
        self, fields: tuple[Field, ...], raw: Mapping[str, object], at: SettingPath, values: dict[str, object]
    ) -> None:
        """What is not declared goes where a section takes it, and is a problem elsewhere."""
        known = [field.name for field in _declared(fields)]
        others = {name: value for name, value in raw.items() if name not in known}
        collector = next((field.name for field in fields if isinstance(field.shape, FreeSection)), None)
        if collector is None:
            for name in others:
                self._object((*at, name), f"there is no such setting{self._hint(name, known, at)}")
            return
        values[collector] = others
        for inner in find_plain_secrets(others):
            self._object((*at, *inner), f"this is a secret, which is never written here; {REFERENCE_HELP}")

    def _hint(self, name: str, known: Iterable[str], at: SettingPath) -> str:
        near = difflib.get_close_matches(str(name).lower(), list(known), n=1)
        if near:
            return f"; did you mean {dotted_path((*at, near[0]))}?"
        elsewhere = {setting.name: setting.name.rpartition(".")[2] for setting in all_settings(self._root)}
        same = [dotted_name for dotted_name, last in elsewhere.items() if last == name]
        return f"; did you mean {same[0]}?" if same else f"; use one of {', '.join(known)}"

    def _object(self, place: SettingPath, text: str) -> None:
        self.problems.append(ConfigProblem(place, text))


def _declared(fields: tuple[Field, ...]) -> Iterable[Field]:
    return [field for field in fields if not isinstance(field.shape, FreeSection)]


# What a kind can't do without, and which kinds a setting is for.
_NEEDED = {"function": ("call",), "model": ("model",), "acp": ("preset", "command")}
_KINDS_OF = {
    "call": ("function",),
    "model": ("model", "acp"),
    **dict.fromkeys(("preset", "command", "env", "cwd", "permissions", "mode", "auth_method"), ("acp",)),
}


def rule_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Every pair of settings that contradict each other, and every name that nothing has."""
    for name, agent in settings.agents.items():
        yield from _agent(name, agent)
    yield from _agent_names(settings)
    yield from _platforms(settings)
    yield from _bindings(settings)
    yield from _chats(settings)
    yield from _access(settings.access)


def _agent(name: str, agent: AgentSettings) -> Iterator[ConfigProblem]:
    if agent.kind not in OWN_KINDS:
        # Only whoever wrote that kind knows what it needs.
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
        elif name in AT_THE_MACHINE:
            # The name of a section is the platform of all that comes from there.
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

"""Writes `docs/reference` from the code, or with `--check` tells whether it is stale."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

import threadline
from threadline import errors
from threadline.acp.sessions import EditorSession
from threadline.cli.program import app
from threadline.config.settings import SETTINGS
from threadline.config.write import config_reference
from threadline.gateway.reference import commands_reference
from threadline.store.conversations.search import Hit, SearchPage
from threadline.store.conversations.sessions import ResetNotice
from threadline.store.conversations.usage import UsageSummary
from threadline.store.engine.database import EngineFacts
from threadline.store.maintenance import CheckReport, StoreFacts
from threadline.store.people.person_export import PersonRecord, PersonSummary, TurnUsage
from threadline.store.rows import Page
from threadline.store.verbs import Store, Verb

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTICE = "<!-- Written by `make docs` from the code: change it there. -->"
RETURNED = (
    Page,
    EditorSession,
    SearchPage,
    Hit,
    ResetNotice,
    UsageSummary,
    StoreFacts,
    EngineFacts,
    CheckReport,
    PersonRecord,
    PersonSummary,
    TurnUsage,
)
_STEP = re.compile(r"Step\[(.*)\]")
_MODULE = re.compile(r"\b(?:typing|sessions|search|usage|check|listing)\.")
_WIDTH = 96


def main() -> int:
    """Writes the pages; with `--check` changes nothing and returns 1 if one of them is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell whether the pages are up to date")
    only_check = parser.parse_args().check
    stale = [name for name, text in pages().items() if _stored(name) != text]
    if only_check:
        for name in stale:
            print(f"docs/reference/{name} is stale: run `make docs` and commit it", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(pages()[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


def _stored(name: str) -> str | None:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def pages() -> dict[str, str]:
    """Every page by its name; the same code gives the same pages."""
    return {
        "cli.md": "\n".join(cli_page()),
        "api.md": "\n".join(api_page()),
        "commands.md": commands_reference(),
        "config.md": config_reference(),
    }


def cli_page() -> Iterator[str]:
    """The command line, from the tree of commands."""
    yield from ("# The command line", "", NOTICE, "")
    yield from (
        "Tables are for people; `--json` is for programs: one JSON document on standard output. Errors are one",
        "sentence on standard error. Exit codes: 0 done, 1 it went wrong, 2 misused, 130 interrupted.",
        "",
    )
    root = get_command(app)
    for path, command in walk("threadline", root):
        yield from _command(path, command)
    yield from _environment()


def walk(path: str, command: Any) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    """Every command below this one with its full name, depth first."""
    yield path, command
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from walk(f"{path} {name}", inner)


def examples_of(command: TyperCommand | TyperGroup) -> list[str]:
    """The command lines that a command's help gives as examples."""
    lines = (line.strip() for line in (command.epilog or "").splitlines())
    return [line for line in lines if line.startswith("threadline ")]


def _command(path: str, command: TyperCommand | TyperGroup) -> Iterator[str]:
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in parameters if isinstance(p, TyperArgument)]
    options = [p for p in parameters if isinstance(p, TyperOption)]
    yield from (f"## `{path}`", "", inspect.cleandoc(command.help or ""), "")
    if isinstance(command, TyperGroup):
        usage = f"{path} COMMAND"
    else:
        usage = " ".join([path, *(_argument_usage(a) for a in arguments), *(["[OPTIONS]"] if options else [])])
    yield from ("```text", usage, "```", "")
    if parameters:
        yield from ("| argument or option | meaning | default |", "|---|---|---|")
        shown: list[TyperArgument | TyperOption] = [*arguments, *options]
        for parameter in shown:
            yield f"| {_spelling(parameter)} | {_cell(parameter.help or '')} | {_cell(_default(parameter))} |"
        yield ""
    if lines := examples_of(command):
        yield from ("```sh", *lines, "```", "")


def _argument_usage(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _spelling(parameter: TyperArgument | TyperOption) -> str:
    if isinstance(parameter, TyperArgument):
        return f"`{parameter.metavar}`"
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    if parameter.is_flag:
        return names
    return f"{names} `{parameter.metavar or 'VALUE'}`"


def _default(parameter: TyperArgument | TyperOption) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.required:
        return "required"
    if parameter.default is None or getattr(parameter, "is_flag", False):
        return ""
    return f"`{parameter.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _environment() -> Iterator[str]:
    yield from ("## Settings", "", "| variable | meaning | default |", "|---|---|---|")
    for setting in SETTINGS:
        yield f"| `{setting.variable}` | {_cell(setting.help)} | {_cell(setting.default)} |"
    yield "| `NO_COLOR` | Any value: no colours on the terminal | unset |"
    yield ""


def api_page() -> Iterator[str]:
    """The library, from its public names."""
    yield from ("# The library", "", NOTICE, "")
    public = {name: getattr(threadline, name) for name in threadline.__all__}
    faults = [value for value in public.values() if _is_error(value)]
    others = {name: value for name, value in public.items() if not _is_error(value)}
    yield from (f"Version {threadline.__version__}. All of these names come from `threadline`:", "")
    yield from ("```python", *inspect.cleandoc(threadline.__doc__ or "").splitlines()[2:], "```", "")
    yield from (
        "In signatures `Message` is a JSON object (`dict[str, Any]`), `Who` is a `SessionSource`, a person's name such as",
        "`telegram:7`, or `None`, `IsBusy` is a function from a session key to `bool`, and `Progress` one of (done, total).",
        "",
    )
    for name, value in others.items():
        if name in ("AsyncSessionStore", "AsyncSessionManager"):
            continue
        yield from _class(value) if inspect.isclass(value) else _function("##", name, value)
        if name == "SessionStore":
            yield from _async_store()
        if name == "SessionManager":
            yield from ("## `AsyncSessionManager`", "", _doc(threadline.AsyncSessionManager), "")
    yield from ("## Values that verbs return", "")
    for kind in RETURNED:
        yield from _class(kind, "###")
    yield from _error_section(faults)


def _async_store() -> Iterator[str]:
    store = threadline.AsyncSessionStore
    yield from ("## `AsyncSessionStore`", "", _doc(store), "")
    yield from ("`await AsyncSessionStore.open(…)`, then every verb of `SessionStore`, awaited.", "")


def _class(kind: type, mark: str = "##") -> Iterator[str]:
    yield from (f"{mark} `{kind.__name__}`", "", _doc(kind), "")
    if issubclass(kind, msgspec.Struct):
        yield from _fields(kind)
    for owner in [*reversed(kind.__mro__[1:]), kind]:
        # `Store` is what verbs are given, not what callers use.
        if not owner.__module__.startswith("threadline.") or owner is Store:
            continue
        for name, member in vars(owner).items():
            if not name.startswith("_"):
                yield from _member(f"{mark}#", kind.__name__, name, member)


def _fields(kind: type[msgspec.Struct]) -> Iterator[str]:
    written: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        written |= vars(owner).get("__annotations__", {})
    yield from ("| field | type | default |", "|---|---|---|")
    for field in msgspec.structs.fields(kind):
        yield f"| `{field.name}` | `{_cell(_spelled(written[field.name]))}` | {_cell(_field_default(field))} |"
    yield ""


def _field_default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{field.default!r}`"
    return "" if field.default_factory is msgspec.NODEFAULT else f"`{field.default_factory()!r}`"


def _member(mark: str, owner: str, name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield from (f"{mark} `{owner}.{name}`", "", _doc(member), "")
    elif isinstance(member, (classmethod, staticmethod)):
        yield from _function(mark, f"{owner}.{name}", member.__func__)
    elif inspect.isfunction(member) or isinstance(member, Verb):
        yield from _function(mark, f"{owner}.{name}", member)


def _function(mark: str, name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield from (f"{mark} `{name}`", "", "```python", _signature(name, function), "```", "")
    yield from (_doc(function), "")


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_Raw(_spelled(parameter.annotation)))
        if parameter.annotation is not inspect.Parameter.empty
        else parameter
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    returned = _Raw(_STEP.sub(r"\1", _spelled(signature.return_annotation)))
    line = f"{name}{signature.replace(parameters=parameters, return_annotation=returned)}"
    return line if len(line) <= _WIDTH else _broken(name, parameters, returned)


def _broken(name: str, parameters: list[inspect.Parameter], returned: _Raw) -> str:
    """A long signature, one parameter a line."""
    lines: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        lines.append(f"    {parameter},")
    return "\n".join([f"{name}(", *lines, f") -> {returned!r}"])


class _Raw:
    """An annotation that shows as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _spelled(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _MODULE.sub("", text)


def _doc(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def _is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, errors.ThreadlineError)


def _error_section(faults: list[type]) -> Iterator[str]:
    yield from ("## Errors", "", "```text", *inspect.cleandoc(errors.__doc__ or "").splitlines(), "```", "")
    yield from ("| error | what it says when nothing more exact is known |", "|---|---|")
    for fault in faults:
        yield f"| `{fault.__name__}` | {_cell(_doc(fault))} |"
    yield ""


if __name__ == "__main__":
    sys.exit(main())

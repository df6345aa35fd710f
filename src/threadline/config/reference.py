"""The reference page of the configuration, from the declarations."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from threadline.config.declared import (
    Field,
    Many,
    Named,
    Part,
    Place,
    Rest,
    default_words,
    fields_of,
    section_help,
    variable_of,
)
from threadline.config.environment import NOT_SETTINGS
from threadline.config.leaf import Leaf
from threadline.config.settings import Settings

_HEAD = """\
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
    """The page; the same declarations give the same page."""
    lines = [
        "# The configuration",
        "",
        "<!-- Written by `make docs` from the code: change it there. -->",
        "",
        *_HEAD.splitlines(),
        "",
        "## At the top of the file",
        "",
        *_table(Settings, ()),
        *_sections(Settings, ()),
        "## Variables that are no settings",
        "",
        ", ".join(f"`{name}`" for name in sorted(NOT_SETTINGS)),
        "",
    ]
    return "\n".join(lines)


def _sections(kind: type[msgspec.Struct], at: Place) -> Iterator[str]:
    for field in fields_of(kind):
        place = (*at, field.name)
        match field.shape:
            case Part(inner):
                yield from _section(inner, place, f"[{'.'.join(map(str, place))}]")
            case Named(inner):
                named = (*place, "NAME")
                yield from _section(inner, named, f"[{'.'.join(map(str, named))}]")
            case Many(inner):
                yield from _section(inner, (*place, 0), f"[[{'.'.join(map(str, place))}]]")
            case _:
                pass


def _section(kind: type[msgspec.Struct], place: Place, header: str) -> Iterator[str]:
    yield from (f"## `{header}`", "", section_help(kind), "", *_table(kind, place), *_sections(kind, place))


def _table(kind: type[msgspec.Struct], at: Place) -> Iterator[str]:
    yield from ("| setting | meaning | allowed | default | variable |", "|---|---|---|---|---|")
    for field in fields_of(kind):
        match field.shape:
            case Leaf() as leaf:
                cells = (
                    f"`{field.name}`",
                    field.help,
                    leaf.words,
                    _default(field),
                    f"`{variable_of((*at, field.name))}`",
                )
            case Rest():
                cells = "any other", field.help, "any value", "", f"`{variable_of(at)}__…`"
            case _:
                continue
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(field: Field) -> str:
    if field.unset:
        return field.unset
    if field.is_required:
        return "required"
    return (
        "not set" if field.default is None else f"`{default_words(field.default)}`" if field.default != () else "empty"
    )

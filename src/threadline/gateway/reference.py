"""The page of the reference that lists the commands."""

from __future__ import annotations

from threadline.gateway.command_table import TABLE, Command
from threadline.texts import commands as texts

_TOP = ("# Commands in chats", "", "<!-- Written by `make docs` from the code: change it there. -->", "")
_HEAD = ("| command | what it does | when | for |", "|---|---|---|---|")


def commands_reference() -> str:
    """The page, in the order of the table; the same code gives the same page."""
    return "\n".join([*_TOP, texts.REFERENCE, "", *_HEAD, *(_row(command) for command in TABLE.values()), ""])


def _row(command: Command) -> str:
    when = "at once" if command.lane == "control" else "in turn"
    cells = (f"`{command.usage}`", command.help, when, f"`{command.least}`")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

"""The commands: their table, how one is read from a message, and when one is refused. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import msgspec

from threadline.model import words_commands as words
from threadline.model.access import COMMANDS, Role, allows
from threadline.model.inbound import Inbound
from threadline.model.ownership import person_of
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import Lane

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)
_ANYTHING = r"[\s\S]*"
_NAME_CHARS = 40


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `takes` is the pattern of what may stand behind the name."""

    name: str
    lane: Lane
    least: Role
    usage: str
    help: str
    takes: str = ""
    # It ends the turn that runs before it takes its own.
    stops: bool = False
    # Carried out twice it does no more than once, so a turn that broke off may run again.
    is_repeatable: bool = False


class Typed(msgspec.Struct, frozen=True):
    """A message that is a command. `command` is `None` where there is none of that name."""

    name: str
    argument: str
    command: Command | None

    @property
    def lane(self) -> Lane:
        """Where it goes: one that is not known is answered at once."""
        return "control" if self.command is None else self.command.lane


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A command as somebody gave it, there and then."""

    typed: Typed
    source: SessionSource
    session: SessionEntry
    role: Role
    person: str | None

    @property
    def argument(self) -> str:
        """What stands behind the name."""
        return self.typed.argument


def _control(name: str, argument: str = "", *, takes: str = "") -> Command:
    return _row(name, "control", argument, takes=takes)


def _session(name: str, argument: str = "", *, takes: str = "", is_repeatable: bool = False) -> Command:
    return _row(name, "session", argument, takes=takes, is_repeatable=is_repeatable)


def _stopping(name: str, argument: str = "", *, takes: str = "") -> Command:
    return _row(name, "session", argument, takes=takes, stops=True)


def _row(
    name: str, lane: Lane, argument: str, *, takes: str, stops: bool = False, is_repeatable: bool = False
) -> Command:
    return Command(
        name=name,
        lane=lane,
        least=COMMANDS[f"/{name}"],
        usage=f"/{name} {argument}".rstrip(),
        help=words.HELP[name],
        takes=takes,
        stops=stops,
        is_repeatable=is_repeatable,
    )


TABLE: Mapping[str, Command] = {
    command.name: command
    for command in (
        _control("help"),
        # Platforms put things behind it that nobody typed, and who wants it to stop need not spell.
        _control("start", takes=_ANYTHING),
        _control("stop", takes=_ANYTHING),
        _control("queue", "[drop N]", takes=r"(?i:drop)\s+[0-9]{1,6}|"),
        _control("status"),
        _control("whoami"),
        _control("usage"),
        _control("sessions"),
        _control("search", "WORDS", takes=r"[\s\S]+"),
        _session("title", "[NAME]", takes=_ANYTHING, is_repeatable=True),
        _session("fork"),
        _session("undo", "[N]", takes=r"[1-9][0-9]{0,3}|"),
        _session("redo"),
        _session("retry", is_repeatable=True),
        _stopping("new"),
        _stopping("reset"),
        _stopping("resume", "[NAME or ID]", takes=_ANYTHING),
    )
}


def read_command(event: Inbound) -> Typed | None:
    """The command that a message is; `None` for one that is just talk. Only new words of one's own are commands."""
    if event.kind != "message" or event.is_forward:
        return None
    match = _COMMAND.fullmatch(event.text.strip())
    if match is None:
        return None
    name = match[1].lower()
    return Typed(name, (match[2] or "").strip(), TABLE.get(name))


def refusal_of(call: Call) -> str | None:
    """What a sender is told whose command is not carried out, and why; `None`: it is."""
    command = call.typed.command
    if command is None:
        return _unknown(call)
    if not allows(call.role, command.least):
        return words.NOT_ALLOWED.format(usage=command.usage, whom=words.ROLE_MEANS[command.least])
    if command.lane == "session" and not may_change(call):
        return words.NOT_STARTED_BY_YOU.format(usage=f"/{command.name}")
    if re.fullmatch(command.takes, call.argument) is None:
        return words.USE.get(command.name) or words.USE_ALONE.format(usage=command.usage)
    return None


def may_change(call: Call) -> bool:
    """Whether its sender may change the conversation: one that is shared is for who started it, and for the owner."""
    if not call.session.is_shared or call.role == "owner":
        return True
    return call.person is not None and call.person == person_of(call.session.origin)


def _unknown(call: Call) -> str:
    names = [command.name for command in TABLE.values() if allows(call.role, command.least)]
    near = difflib.get_close_matches(call.typed.name, names, n=1)
    if near:
        return words.UNKNOWN_NEAR.format(name=call.typed.name[:_NAME_CHARS], near=near[0])
    return words.UNKNOWN.format(name=call.typed.name[:_NAME_CHARS])

"""The commands: their table, how one is read from a message, and when one is refused. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import msgspec

from threadline.clock import Instant
from threadline.model.access import COMMANDS, Role, allows, may_change
from threadline.model.inbound import Inbound
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import QueueKind
from threadline.ports.platform import OfferedCommand
from threadline.texts import commands as texts

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)
_ANYTHING = r"[\s\S]*"
_NAME_CHARS = 40


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `takes` is the pattern of what may stand behind the name."""

    name: str
    lane: QueueKind
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
    def lane(self) -> QueueKind:
        """Where it goes: one that is not known is answered at once."""
        return "control" if self.command is None else self.command.lane


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A command as somebody gave it, there and then."""

    typed: Typed
    source: SessionSource
    session: SessionEntry
    role: Role
    person: str | None
    # They run the chat, as its platform says.
    is_admin: bool = False
    # When it was accepted.
    said_at: Instant = Instant(0)

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
    name: str, lane: QueueKind, argument: str, *, takes: str, stops: bool = False, is_repeatable: bool = False
) -> Command:
    return Command(
        name=name,
        lane=lane,
        least=COMMANDS[f"/{name}"],
        usage=f"/{name} {argument}".rstrip(),
        help=texts.HELP[name],
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
        _control("approve", "[CODE]", takes=r"[A-Za-z]{4}|"),
        _control("deny", "[CODE]", takes=r"[A-Za-z]{4}|"),
        _control("queue", "[drop N]", takes=r"(?i:drop)\s+[0-9]{1,6}|"),
        _control("status"),
        _control("whoami"),
        _control("usage"),
        _control("sessions"),
        _control("search", "WORDS", takes=r"[\s\S]+"),
        _control("timezone", "[ZONE]", takes=_ANYTHING),
        _control("sethome", "[off]", takes=r"(?i:off)|"),
        _session("title", "[NAME]", takes=_ANYTHING, is_repeatable=True),
        _session("model", "[NAME]", takes=r"\S*", is_repeatable=True),
        _session("fork"),
        _session("undo", "[N]", takes=r"[1-9][0-9]{0,3}|"),
        _session("redo"),
        _session("retry", is_repeatable=True),
        _session("handoff", "TARGET", takes=r"\S+"),
        _stopping("new"),
        _stopping("reset"),
        _stopping("resume", "[NAME or ID]", takes=_ANYTHING),
    )
}


# What platforms show people, plainly. What only the owner may do is not for everybody's menu.
OFFERED = tuple(
    OfferedCommand(command.name, command.help.replace("`", ""))
    for command in TABLE.values()
    if command.least != "owner"
)
# What stands on buttons of ours.
ON_BUTTONS = ("approve", "deny")


def read_command(event: Inbound) -> Typed | None:
    """The command that a message is; `None` for one that is just talk. Only new words of one's own are commands.

    A pressed button says a command too, if it is one that we put there.
    """
    if event.kind == "button":
        typed = _typed(event.button or "")
        return typed if typed is not None and typed.name in ON_BUTTONS else None
    return None if event.kind != "message" or event.is_forward else _typed(event.text)


def _typed(text: str) -> Typed | None:
    text = text.strip()
    match = _COMMAND.fullmatch(text) if text.startswith("/") else None
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
        return texts.NOT_ALLOWED.format(usage=command.usage, whom=texts.ROLE_MEANS[command.least])
    may = may_change(call.session, role=call.role, person=call.person, is_admin=call.is_admin)
    if command.lane == "session" and not may:
        return texts.NOT_STARTED_BY_YOU.format(usage=f"/{command.name}")
    if re.fullmatch(command.takes, call.argument) is None:
        return texts.USE.get(command.name) or texts.USE_ALONE.format(usage=command.usage)
    return None


def stops_turn(typed: Typed, role: Role) -> bool:
    """Whether a command ends the turn that runs, if its sender may change the conversation: nothing that will be refused does."""
    command = typed.command
    if command is None or not command.stops or not allows(role, command.least):
        return False
    return re.fullmatch(command.takes, typed.argument) is not None


def _unknown(call: Call) -> str:
    names = [command.name for command in TABLE.values() if allows(call.role, command.least)]
    near = difflib.get_close_matches(call.typed.name, names, n=1)
    if near:
        return texts.UNKNOWN_NEAR.format(name=call.typed.name[:_NAME_CHARS], near=near[0])
    return texts.UNKNOWN.format(name=call.typed.name[:_NAME_CHARS])

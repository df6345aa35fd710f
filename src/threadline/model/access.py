"""Roles: what each role may do, and how a stranger gets one by a pairing code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from threadline.clock import Instant
from threadline.model.address import qualified_id
from threadline.model.ownership import person_of
from threadline.model.session import SessionEntry
from threadline.model.source import MAIN_ACCOUNT

# From the lowest to the highest. `group`: any other member of a group that is answered. `guest`: paired, or on a list.
Role: TypeAlias = Literal["group", "guest", "trusted", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)

# The lowest role for each kind of tool or target of a turn.
TOOLS: Final[Mapping[str, Role]] = MappingProxyType(
    {
        "talk": "group",
        "own_sessions": "guest",
        "own_memory": "guest",
        "own_usage": "guest",
        "prompt_jobs": "trusted",
        "send_to_others": "trusted",
        "host_files": "trusted",
        "shell": "owner",
        "processes": "owner",
        "command_jobs": "owner",
        "config": "owner",
    }
)

# The lowest role for each command. A command that is not listed here does not exist.
COMMANDS: Final[Mapping[str, Role]] = MappingProxyType(
    {
        "/help": "group",
        "/whoami": "group",
        "/status": "group",
        # A member of a group may stop only their own turn. See `may_stop`.
        "/stop": "group",
        "/start": "guest",
        # The tool that needs the approval has a lowest role of its own, which the person must have as well.
        "/approve": "guest",
        "/deny": "guest",
        "/queue": "guest",
        "/usage": TOOLS["own_usage"],
        "/sessions": TOOLS["own_sessions"],
        "/search": TOOLS["own_sessions"],
        "/title": "guest",
        "/fork": "guest",
        "/undo": "guest",
        "/redo": "guest",
        "/retry": "guest",
        "/new": "guest",
        "/reset": "guest",
        "/resume": TOOLS["own_sessions"],
        "/timezone": "guest",
        # The owner pays for a more expensive model.
        "/model": "trusted",
        # It moves the conversation to another chat.
        "/handoff": TOOLS["send_to_others"],
        # It decides where unrequested output goes.
        "/sethome": TOOLS["config"],
    }
)

# Letters that are hard to confuse, in writing and read aloud.
CODE_LETTERS: Final = "ABCDEFGHJKMNPRSTVWXYZ"
CODE_LENGTH: Final = 8
CODE_LIFETIME: Final = timedelta(hours=1)
PAIRING_INTERVAL: Final = timedelta(minutes=10)
MAX_PENDING_PAIRINGS: Final = 3
MAX_WRONG_CODES: Final = 5
PAIRING_LOCK_TIME: Final = timedelta(hours=1)

# Why a person gets no pairing code now.
NoCodeReason: TypeAlias = Literal["locked", "too soon", "too many"]

_COMMAND = re.compile(r"(/[a-z]+)(?=\s|\Z)", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s-]+")
_MICROSECOND = timedelta(microseconds=1)


class PairingGuard(msgspec.Struct, frozen=True):
    """The number of wrong approvals, the time of the last one, and the time until which pairing is locked."""

    wrong: int = 0
    wrong_at: Instant = Instant(0)
    locked_until: Instant = Instant(0)

    def is_locked(self, at: Instant) -> bool:
        """Return whether pairing is locked at this time."""
        return at < self.locked_until

    @property
    def left(self) -> int:
        """Return how many more wrong approvals are allowed before pairing locks."""
        return max(0, MAX_WRONG_CODES - self.wrong)


def allows(role: Role, least: Role) -> bool:
    """Return whether `role` is at least `least`."""
    return ROLES.index(role) >= ROLES.index(least)


def lowest_role(roles: Iterable[Role]) -> Role:
    """Return the lowest of these roles. A turn has the rights of the lowest role among the authors of its messages."""
    return min(roles, key=ROLES.index, default="group")


def highest_role(roles: Iterable[Role]) -> Role | None:
    """Return the highest of these roles, or None if there are none."""
    return max(roles, key=ROLES.index, default=None)


def may_use(role: Role, tool: str) -> bool:
    """Return whether a role is enough for a kind of tool or target. For an unknown kind no role is."""
    least = TOOLS.get(tool)
    return least is not None and allows(role, least)


def may_change(session: SessionEntry, *, role: Role, person: str | None, is_admin: bool) -> bool:
    """Return whether a person may change a conversation.

    A shared one may be changed by the person who started it, by admins of the chat, and by the owner.
    """
    if not session.is_shared or role == "owner" or is_admin:
        return True
    return person is not None and person == person_of(session.origin)


def may_stop(role: Role, *, own_turn: bool) -> bool:
    """Return whether a role may stop a turn. The role `group` may stop only its own turn."""
    return own_turn or allows(role, "guest")


def command_name(text: str) -> str | None:
    """Return the known command that a text starts with: `/stop` of `/stop now`. None for other text, and for `/stop@bot`."""
    found = _COMMAND.match(text)
    command = found.group(1).lower() if found else None
    return command if command in COMMANDS else None


def parse_person_name(text: str) -> str:
    """Return the internal name of a person or chat as typed by a user: colons in `matrix:@ada:example.org` are escaped.

    A name that contains `%` is taken as escaped already and stays as it is.
    """
    place, _, identifier = text.strip().partition(":")
    place = place.removesuffix(f"@{MAIN_ACCOUNT}")
    if ":" not in identifier or "%" in identifier:
        return f"{place}:{identifier}"
    platform = place.partition("@")[0]
    return place + qualified_id(platform, MAIN_ACCOUNT, identifier).removeprefix(platform)


def normalize_code(text: str) -> str:
    """Return a typed code in its stored form: upper case, without spaces and dashes."""
    return _SEPARATORS.sub("", text).upper()


def code_refusal(guard: PairingGuard, *, asked_at: Instant | None, others: int, at: Instant) -> NoCodeReason | None:
    """Return why a person gets no code now, or None if they get one.

    `asked_at` is when this person last asked; `others` is how many other people of the platform wait for approval.
    """
    if guard.is_locked(at):
        return "locked"
    # A clock that was set back must not make the wait longer.
    if asked_at is not None and 0 <= at - asked_at < PAIRING_INTERVAL // _MICROSECOND:
        return "too soon"
    return "too many" if others >= MAX_PENDING_PAIRINGS else None


def guard_after_wrong_code(guard: PairingGuard, at: Instant) -> PairingGuard:
    """Return the guard after one more wrong approval. The fifth locks pairing; an hour without one resets the count."""
    hour = PAIRING_LOCK_TIME // _MICROSECOND
    wrong = guard.wrong + 1 if at - guard.wrong_at < hour and guard.left else 1
    return PairingGuard(wrong, at, Instant(at + hour) if wrong >= MAX_WRONG_CODES else guard.locked_until)


def code_expiry(at: Instant) -> Instant:
    """Return when a code created at `at` expires."""
    return Instant(at + CODE_LIFETIME // _MICROSECOND)

"""Roles: who may do what, and how a stranger comes by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from threadline.clock import Instant
from threadline.model.address import scoped_id
from threadline.model.ownership import person_of
from threadline.model.session import SessionEntry
from threadline.model.source import MAIN_ACCOUNT

# From the least to the most. `group` is anyone else in a group that is answered; `guest` was paired or is on a list.
Role: TypeAlias = Literal["group", "guest", "trusted", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)

# The least role for each kind of thing that a turn can do or reach.
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

# The least role for each command. A command that is not here does not exist.
COMMANDS: Final[Mapping[str, Role]] = MappingProxyType(
    {
        "/help": "group",
        "/whoami": "group",
        "/status": "group",
        # In a group that is answered: of one's own turn. See `may_stop`.
        "/stop": "group",
        "/start": "guest",
        # The tool that is asked about names a least role of its own, which must be held as well.
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
        # A dearer model is paid by the owner.
        "/model": "trusted",
        # Takes the conversation to another chat.
        "/handoff": TOOLS["send_to_others"],
        # Where output goes that nobody asked for.
        "/sethome": TOOLS["config"],
    }
)

# Letters that nobody takes for one another, however they are written or read out.
CODE_LETTERS: Final = "ABCDEFGHJKMNPRSTVWXYZ"
CODE_LENGTH: Final = 8
CODE_LIFETIME: Final = timedelta(hours=1)
PAIRING_INTERVAL: Final = timedelta(minutes=10)
MAX_PENDING_PAIRINGS: Final = 3
MAX_WRONG_CODES: Final = 5
PAIRING_LOCK_TIME: Final = timedelta(hours=1)

# Why somebody gets no code now.
NoCodeReason: TypeAlias = Literal["locked", "too soon", "too many"]

_COMMAND = re.compile(r"(/[a-z]+)(?=\s|\Z)", re.IGNORECASE)
_UNSAID = re.compile(r"[\s-]+")
_MICROSECOND = timedelta(microseconds=1)


class PairingGuard(msgspec.Struct, frozen=True):
    """How many wrong approvals there were, when the last was, and until when pairing is locked."""

    wrong: int = 0
    wrong_at: Instant = Instant(0)
    locked_until: Instant = Instant(0)

    def is_locked(self, at: Instant) -> bool:
        """Whether nobody can be paired now."""
        return at < self.locked_until

    @property
    def left(self) -> int:
        """How many more wrong approvals are borne."""
        return max(0, MAX_WRONG_CODES - self.wrong)


def allows(role: Role, least: Role) -> bool:
    """Whether `role` is at least `least`."""
    return ROLES.index(role) >= ROLES.index(least)


def lowest_role(roles: Iterable[Role]) -> Role:
    """The least of these roles: a turn has no more rights than the least of those whose words are in it."""
    return min(roles, key=ROLES.index, default="group")


def highest_role(roles: Iterable[Role]) -> Role | None:
    """The most of these roles."""
    return max(roles, key=ROLES.index, default=None)


def may_use(role: Role, tool: str) -> bool:
    """Whether a role is enough for a kind of tool or target; never for one that no table names."""
    least = TOOLS.get(tool)
    return least is not None and allows(role, least)


def may_change(session: SessionEntry, *, role: Role, person: str | None, is_admin: bool) -> bool:
    """Whether somebody may change a conversation: one that is shared is for who started it, the chat's admins and the owner."""
    if not session.is_shared or role == "owner" or is_admin:
        return True
    return person is not None and person == person_of(session.origin)


def may_stop(role: Role, *, own_turn: bool) -> bool:
    """Whether a role may end a turn: who is only one of a group ends their own alone."""
    return own_turn or allows(role, "guest")


def command_name(text: str) -> str | None:
    """The command that a text gives without naming a bot: `/stop now`, not `/stop@other`; `None` for any other text."""
    found = _COMMAND.match(text)
    command = found.group(1).lower() if found else None
    return command if command in COMMANDS else None


def parse_person_name(text: str) -> str:
    """The name that a person or chat goes by here, as people write it: `matrix:@ada:example.org` has its colon escaped.

    A name that holds `%` was escaped before and stays as it is.
    """
    place, _, identifier = text.strip().partition(":")
    place = place.removesuffix(f"@{MAIN_ACCOUNT}")
    if ":" not in identifier or "%" in identifier:
        return f"{place}:{identifier}"
    platform = place.partition("@")[0]
    return place + scoped_id(platform, MAIN_ACCOUNT, identifier).removeprefix(platform)


def normalize_code(text: str) -> str:
    """A code as it was made, however it was typed: in small letters, in groups, with spaces around it."""
    return _UNSAID.sub("", text).upper()


def code_refusal(guard: PairingGuard, *, asked_at: Instant | None, others: int, at: Instant) -> NoCodeReason | None:
    """Why somebody who last asked at `asked_at` gets no code now, while so many others on their platform wait; or `None`."""
    if guard.is_locked(at):
        return "locked"
    # A clock that was set back does not make anybody wait for longer.
    if asked_at is not None and 0 <= at - asked_at < PAIRING_INTERVAL // _MICROSECOND:
        return "too soon"
    return "too many" if others >= MAX_PENDING_PAIRINGS else None


def guard_after_wrong_code(guard: PairingGuard, at: Instant) -> PairingGuard:
    """The guard after one more wrong approval. Those before an hour of peace are forgotten; with the fifth it locks."""
    hour = PAIRING_LOCK_TIME // _MICROSECOND
    wrong = guard.wrong + 1 if at - guard.wrong_at < hour and guard.left else 1
    return PairingGuard(wrong, at, Instant(at + hour) if wrong >= MAX_WRONG_CODES else guard.locked_until)


def code_expiry(at: Instant) -> Instant:
    """When a code that is made now ends."""
    return Instant(at + CODE_LIFETIME // _MICROSECOND)

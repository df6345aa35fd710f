"""Turns: which waiting messages one answers together, and what becomes of one that broke off."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.access import Role
from threadline.model.inbound import Inbound

# talk     a message for the agent
# session  a command that takes its turn in the session
# control  a command that acts at once, beside the queue
QueueKind: TypeAlias = Literal["talk", "session", "control"]
WhenBusy: TypeAlias = Literal["collect", "queue", "interrupt", "steer"]
# Whether a turn that broke off may run again: at will, until a tool was called, or not at all.
Replay: TypeAlias = Literal["safe", "until_tool", "never"]
# What a message ends as; each has exactly one.
MessageOutcome: TypeAlias = Literal["answered", "merged", "interrupted", "refused", "parked", "dropped"]
TurnOutcome: TypeAlias = Literal["answered", "failed", "interrupted", "stopped", "parked", "dropped"]
# Why a turn is to end: somebody said so, the next message did, or nobody answered its question in time.
StopReason: TypeAlias = Literal["stop", "interrupt", "expired"]

# So many deaths a turn must be suspected of, the last one alone, before it is parked.
PARKED_AFTER = 4
# How long a suspect waits at most, as multiples of the first back-off.
_BACK_OFFS = (1, 4, 15)
_PARTS = 4
# So many characters of text are answered together at most: what waited for days is more than an agent can read at once.
BATCH_CHARS = 100_000
# Platforms tell when something was sent in whole seconds.
_SECOND = 1.0


class PendingMessage(msgspec.Struct, frozen=True):
    """An accepted message that has no fate yet."""

    pk: int
    lane: QueueKind
    event: Inbound
    person: str | None
    role: Role
    at: Instant


def next_turn_messages(waiting: Sequence[PendingMessage], when_busy: WhenBusy, burst: int) -> list[PendingMessage]:
    """The waiting messages that the next turn answers, in order; never empty where something waits.

    A command that takes its turn goes alone, and nothing jumps over it. With `queue`, and with `steer` for what the running
    agent did not take, a turn answers one message; what was sent and came within `burst` microseconds of the one before, or in
    the same album, belongs to it. What would make more than `BATCH_CHARS` of text waits for the next turn.
    """
    if not waiting:
        return []
    first = waiting[0]
    if first.lane != "talk":
        return [first]
    batch, size = [first], len(first.event.text)
    for item in waiting[1:]:
        size += len(item.event.text)
        if item.lane != "talk" or size > BATCH_CHARS:
            break
        if when_busy in ("queue", "steer") and not _belongs(batch[-1], item, burst):
            break
        batch.append(item)
    return batch


def _belongs(before: PendingMessage, item: PendingMessage, burst: int) -> bool:
    if item.person != before.person:
        return False
    same_album = item.event.album_id is not None and item.event.album_id == before.event.album_id
    sent_apart = item.event.sent_at.timestamp() - before.event.sent_at.timestamp()
    return same_album or (item.at - before.at <= burst and sent_apart <= burst / 1_000_000 + _SECOND)


class Rerun(msgspec.Struct, frozen=True):
    """The turn runs again from the start."""


class Close(msgspec.Struct, frozen=True):
    """The turn stays broken off: what it said is kept, and its people are told."""


class GiveUp(msgspec.Struct, frozen=True):
    """The turn is what the gateway dies of; its messages are parked."""


class Suspicion(msgspec.Struct, frozen=True):
    """How many deaths of gateways a turn is suspected of, and whether no other turn is suspected of the last one."""

    deaths: int = 0
    is_sole: bool = False


def suspicion(deaths: int, left_behind: Sequence[int]) -> Suspicion:
    """Return what a turn is suspected of after a death that left it behind.

    `left_behind`: the earlier deaths of every turn that was left behind, this one's too. The turns that were at the most deaths
    are suspected of this one as well; the others only ran beside them.
    """
    most = max(left_behind)
    return Suspicion(deaths + 1, left_behind.count(most) == 1) if deaths == most else Suspicion(deaths)


def part_of(turn_id: str, deaths: int) -> tuple[int, int]:
    """Return the part of the suspects that a turn runs with: those of as many deaths, cut into four by chance after each death."""
    # Not a checksum: two turns must not stay together after every death.
    digest = hashlib.blake2b(f"{turn_id} {deaths}".encode(), digest_size=1).digest()
    return deaths, digest[0] % _PARTS


def back_off(turn_id: str, deaths: int, first: int) -> int:
    """Return how long a gateway must have lived before it runs a suspect, in the unit of `first`, the first back-off.

    The last part waits for the whole back-off, the first one for half of it.
    """
    if not deaths:
        return 0
    _, part = part_of(turn_id, deaths)
    longest = first * _BACK_OFFS[min(deaths, len(_BACK_OFFS)) - 1]
    return longest * (_PARTS - 1 + part) // (2 * (_PARTS - 1))


def apart_for(deaths: int, first: int) -> int:
    """Return for how long a suspect does not start while suspects of another part run, in the unit of `first`.

    Longer after each death, for turns that kill late; not at all after one death, which may be an ordinary restart.
    """
    return first * _BACK_OFFS[-1] * 4 ** min(deaths - 2, 4) if deaths > 1 else 0


def recovery_decision(replay: Replay, *, called_tool: bool, suspected: Suspicion) -> Rerun | Close | GiveUp:
    """What becomes of a turn whose worker is gone."""
    may_rerun = replay == "safe" or (replay == "until_tool" and not called_tool)
    if not may_rerun:
        return Close()
    return GiveUp() if suspected.is_sole and suspected.deaths >= PARKED_AFTER else Rerun()

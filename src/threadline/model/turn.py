"""Turns: which pending messages one turn answers, and whether an interrupted turn runs again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.access import Role
from threadline.model.inbound import Inbound

# Which queue a message is in.
# talk     a message for the agent
# session  a command that waits for earlier messages of the session
# control  a command that runs at once, outside of the session's queue
QueueKind: TypeAlias = Literal["talk", "session", "control"]
WhenBusy: TypeAlias = Literal["collect", "queue", "interrupt", "steer"]
# Whether an interrupted turn may run again: always, only if no tool was called, or never.
Replay: TypeAlias = Literal["safe", "until_tool", "never"]
# How a message ends; each message has exactly one outcome.
MessageOutcome: TypeAlias = Literal["answered", "merged", "interrupted", "refused", "parked", "dropped"]
TurnOutcome: TypeAlias = Literal["answered", "failed", "interrupted", "stopped", "parked", "dropped"]
# Why a turn must stop: a person asked for it, a newer message replaced it, or nobody answered its question in time.
StopReason: TypeAlias = Literal["stop", "interrupt", "expired"]

# A turn is parked once it is suspected of this many crashes, of the last one alone.
PARKED_AFTER = 4
# The longest wait of a suspected turn, as multiples of the first back-off.
_BACK_OFFS = (1, 4, 15)
_PARTS = 4
# The most characters of text that one turn answers: after days of waiting there may be more than an agent can read.
BATCH_CHARS = 100_000
# Platforms report send times in whole seconds.
_SECOND = 1.0


class PendingMessage(msgspec.Struct, frozen=True):
    """An accepted message that has no outcome yet."""

    pk: int
    lane: QueueKind
    event: Inbound
    person: str | None
    role: Role
    at: Instant


def next_turn_messages(waiting: Sequence[PendingMessage], when_busy: WhenBusy, burst: int) -> list[PendingMessage]:
    """Return the pending messages that the next turn answers, in order. Not empty if any message is pending.

    A session command runs alone, and no message overtakes it. With `queue`, and with `steer` for messages that the running
    agent did not take, a turn answers one message, together with those of the same album and those that were sent and received
    within `burst` microseconds of the one before. Messages beyond `BATCH_CHARS` of text wait for the next turn.
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
    """Decision: the turn runs again from the start."""


class Close(msgspec.Struct, frozen=True):
    """Decision: the turn ends as interrupted. Its output so far is kept, and its people are notified."""


class GiveUp(msgspec.Struct, frozen=True):
    """Decision: the turn crashes the gateway, so its messages are parked."""


class Suspicion(msgspec.Struct, frozen=True):
    """How many gateway crashes a turn is suspected of, and whether it is the only suspect of the last one."""

    deaths: int = 0
    is_sole: bool = False


def suspicion(deaths: int, left_behind: Sequence[int]) -> Suspicion:
    """Return the suspicion of a turn after a crash that interrupted it.

    `left_behind`: the earlier crash count of every turn that was interrupted, this one included. Only the turns with the highest
    count are suspected of this crash; the others merely ran at the same time.
    """
    most = max(left_behind)
    return Suspicion(deaths + 1, left_behind.count(most) == 1) if deaths == most else Suspicion(deaths)


def part_of(turn_id: str, deaths: int) -> tuple[int, int]:
    """Return the group of suspects that a turn runs with: equal crash count, split at random into four after each crash."""
    # Not a checksum: two turns must not share a group after every crash.
    digest = hashlib.blake2b(f"{turn_id} {deaths}".encode(), digest_size=1).digest()
    return deaths, digest[0] % _PARTS


def back_off(turn_id: str, deaths: int, first: int) -> int:
    """Return how long a gateway must have run before it starts a suspect, in the unit of `first`, the first back-off.

    The last group waits for the whole back-off, the first group for half of it.
    """
    if not deaths:
        return 0
    _, part = part_of(turn_id, deaths)
    longest = first * _BACK_OFFS[min(deaths, len(_BACK_OFFS)) - 1]
    return longest * (_PARTS - 1 + part) // (2 * (_PARTS - 1))


def apart_for(deaths: int, first: int) -> int:
    """Return how long a suspect does not start while suspects of another group run, in the unit of `first`.

    Longer after each crash, for turns that crash late. Zero after one crash, which may be an ordinary restart.
    """
    return first * _BACK_OFFS[-1] * 4 ** min(deaths - 2, 4) if deaths > 1 else 0


def recovery_decision(replay: Replay, *, called_tool: bool, suspected: Suspicion) -> Rerun | Close | GiveUp:
    """Return what to do with a turn whose worker is gone."""
    may_rerun = replay == "safe" or (replay == "until_tool" and not called_tool)
    if not may_rerun:
        return Close()
    return GiveUp() if suspected.is_sole and suspected.deaths >= PARKED_AFTER else Rerun()

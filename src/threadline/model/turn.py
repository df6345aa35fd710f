"""Turns: which waiting messages one answers together, and what becomes of one that broke off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.access import Role
from threadline.model.inbound import Inbound

# talk     a message for the agent
# session  a command that takes its turn in the session
# control  a command that acts at once, beside the queue
Lane: TypeAlias = Literal["talk", "session", "control"]
WhenBusy: TypeAlias = Literal["collect", "queue", "interrupt", "steer"]
# Whether a turn that broke off may run again: at will, until a tool was called, or not at all.
Replay: TypeAlias = Literal["safe", "until_tool", "never"]
# What a message ends as; each has exactly one.
Fate: TypeAlias = Literal["answered", "merged", "interrupted", "refused", "parked", "dropped"]
Outcome: TypeAlias = Literal["answered", "failed", "interrupted", "stopped", "parked", "dropped"]
# Why a turn is to end: somebody said so, the next message did, or nobody answered its question in time.
Stop: TypeAlias = Literal["stop", "interrupt", "expired"]

MAX_ATTEMPTS = 3
# So many characters of text are answered together at most: what waited for days is more than an agent can read at once.
BATCH_CHARS = 100_000
# Platforms tell when something was sent in whole seconds.
_SECOND = 1.0


class Waiting(msgspec.Struct, frozen=True):
    """An accepted message that has no fate yet."""

    pk: int
    lane: Lane
    event: Inbound
    person: str | None
    role: Role
    at: Instant


def next_batch(waiting: Sequence[Waiting], when_busy: WhenBusy, burst: int) -> list[Waiting]:
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


def _belongs(before: Waiting, item: Waiting, burst: int) -> bool:
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
    """The turn was tried often enough; its messages are parked."""


def after_crash(replay: Replay, *, called_tool: bool, attempts: int) -> Rerun | Close | GiveUp:
    """What becomes of a turn whose worker is gone."""
    may_rerun = replay == "safe" or (replay == "until_tool" and not called_tool)
    if not may_rerun:
        return Close()
    return Rerun() if attempts < MAX_ATTEMPTS else GiveUp()

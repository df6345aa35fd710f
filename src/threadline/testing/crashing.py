"""Crash points: instants in the life of a message at which a test lets its process die or sleep, or its store go away.

A `CrashingStore` and a `CrashingPlatform` pass every crash point on their way. A `Trigger` names one of them and what happens
there: by default the process is gone, as by a power cut for everything that it had not written.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias, TypeVar, cast

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival
from threadline.ports.platform import Accept, Capabilities, Outgoing, Platform, Verdict
from threadline.store.engine.database import Database, Step
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease, RenewedLease
from threadline.store.verbs import StoreSettings
from threadline.store.work import approvals, inbox, outbox, turn_end, turns
from threadline.store.work.turn_end import ClaimedTurn

T = TypeVar("T")


# What happens to a message, in order.
# accept     it is stored
# ack        the platform is told so; an ack that has left is like any later instant
# claim      a turn takes it
# journal    something that the agent said, or what a tool gave, is kept
# tool       a tool call is kept, before the tool starts
# ask        a question of the agent is kept; the turn waits for its answer, held by nobody
# stream     the message that the answer is streamed into is opened
# stream id  the platform's id of that message is kept
# finish     the final transaction
# take       a gateway takes the answer to send it
# send       the platform is asked to show it
# edit       the platform is asked to show more of it, or all
# receipt    it is kept that the platform did
STORE_POINTS = tuple(
    f"{when} {what}"
    for what in ("accept", "claim", "journal", "tool", "ask", "stream", "stream id", "finish", "take", "receipt")
    for when in ("before", "after")
)
PLATFORM_POINTS = ("before ack", "before send", "after send", "before edit", "after edit")
CRASH_POINTS = STORE_POINTS + PLATFORM_POINTS

Act: TypeAlias = Callable[[], None]


def die() -> None:
    """Ends this process at once: nothing is flushed, nobody is told."""
    os.kill(os.getpid(), signal.SIGKILL)


def fall_asleep() -> None:
    """Stops this process where it is, until somebody sends it SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)


def lose_store() -> None:
    """Raises what a store raises that went away. After the point that is a commit of which nobody heard."""
    raise StoreUnavailable("the store went away at a crash point")


class Trigger:
    """Acts when a crash point is passed for the n-th time, and then at every call of the store for a while.

    That while lasts so many seconds, and as long as `goes_on` says.
    """

    def __init__(self, point: str | None = None, *, nth: int = 1, act: Act = die, seconds: float = 0.0) -> None:
        """`point` is one of `CRASH_POINTS`, or `None` for a trigger that never acts. By default it acts once."""
        if point is not None and point not in CRASH_POINTS:
            raise ValueError(f"there is no crash point {point!r}")
        self._point = point
        self._left = nth
        self._act = act
        self._seconds = seconds
        self._until: float | None = None
        self.goes_on: Callable[[], bool] = _is_over

    def passed(self, point: str) -> None:
        """Called at every crash point."""
        if self._until is not None and point not in PLATFORM_POINTS:
            self._act_again(self._until)
        elif point == self._point and self._left:
            self._left -= 1
            if not self._left:
                self._until = time.monotonic() + self._seconds if self._seconds else None
                self._act()

    def _act_again(self, until: float) -> None:
        if time.monotonic() < until or self.goes_on():
            self._act()
        else:
            self._until = None


def _is_over() -> bool:
    return False


# The crash point around the step of each of these operations.
_POINT_OF: dict[object, str] = {
    inbox.accept_and_greet: "accept",
    turns.accept_and_claim: "accept",
    turns.claim: "claim",
    turns.append_journal: "journal",
    approvals.request: "ask",
    outbox.open_stream: "stream",
    outbox.save_stream_id: "stream id",
    turn_end.finish: "finish",
    outbox.claim: "take",
    outbox.mark_sent: "receipt",
}
# What there is from some point on: looking for it before then is no claim and no take.
_MADE_AT = {"accept": "message", "ask": "answer", "finish": "answer"}
_LOOKED_FOR_AT = {"claim": "message", "take": "answer"}
# Points that are passed only where the step found or made something.
_MAY_BE_EMPTY = ("claim", "take", "stream")


class CrashingStore(GatewayStore):
    """A store that passes crash points. Looking for work where there can't be any is none."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        super().__init__(database, settings)
        self.trigger = Trigger()
        self._made: set[str] = set()
        self._first = asyncio.Lock()

    def renew_leases_blocking(self, held: Sequence[Lease], *, duration: int) -> list[RenewedLease]:
        self.trigger.passed("renewal")
        return super().renew_leases_blocking(held, duration=duration)

    async def perform_async(self, step: Step[T]) -> T:
        point = "tool" if step.options.get("called_tool") else _POINT_OF.get(step.call)
        if point is None:
            return await super().perform_async(step)
        made, looked_for = _MADE_AT.get(point), _LOOKED_FOR_AT.get(point)
        if looked_for is None:
            self.trigger.passed(f"before {point}")
        async with self._unless_made(made or looked_for):
            if looked_for in self._made:
                self.trigger.passed(f"before {point}")
            result = await super().perform_async(step)
            if made is not None:
                self._made.add(made)
        if result or point not in _MAY_BE_EMPTY:
            self.trigger.passed(f"after {point}")
        if step.call is turns.accept_and_claim and cast(tuple[object, list[ClaimedTurn]], result)[1]:
            self.trigger.passed("after claim")
        return result

    def _unless_made(self, what: str | None) -> AbstractAsyncContextManager[None]:
        """Who looks for work finds the first only after it was stored, never while it is: then it passes a point for it."""
        return nullcontext() if what is None or what in self._made else self._first


class CrashingPlatform:
    """A platform that passes crash points, and otherwise does what the one inside does."""

    def __init__(self, platform: Platform, trigger: Trigger) -> None:
        self._platform = platform
        self._trigger = trigger

    @property
    def name(self) -> str:
        return self._platform.name

    @property
    def account(self) -> str:
        return self._platform.account

    @property
    def capabilities(self) -> Capabilities:
        return self._platform.capabilities

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        async def accepted(event: Arrival) -> Verdict:
            verdict = await accept(event)
            self._trigger.passed("before ack")
            return verdict

        await self._platform.run(accepted, ready)

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        self._trigger.passed("before send")
        message_id = await self._platform.send(to, message, key=key)
        self._trigger.passed("after send")
        return message_id

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        self._trigger.passed("before edit")
        await self._platform.edit(to, message_id, message)
        self._trigger.passed("after edit")

    async def typing(self, to: Target) -> None:
        await self._platform.typing(to)

    async def close(self) -> None:
        await self._platform.close()

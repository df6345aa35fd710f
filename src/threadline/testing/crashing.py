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
from typing import TypeAlias

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival
from threadline.ports.platform import Accept, Capabilities, Outgoing, Platform, Verdict
from threadline.store.engine.database import Database
from threadline.store.gateway import GatewayStore
from threadline.store.leases import Held, StillHeld
from threadline.store.verbs import StoreSettings
from threadline.store.work.approvals import Asking
from threadline.store.work.inbox import Admission, Greeting, Received
from threadline.store.work.outbox import Delivery, NewDelivery, Stream
from threadline.store.work.turn_end import Claim, Claimed, Finish

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


class CrashingStore(GatewayStore):
    """A store that passes crash points. Looking for work where there can't be any is none."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        super().__init__(database, settings)
        self.trigger = Trigger()
        self._has_message = False
        self._has_answer = False
        self._first = asyncio.Lock()

    def _unless(self, is_known: bool) -> AbstractAsyncContextManager[None]:
        """Who looks for work finds the first only after it was stored, never while it is: then it passes a point for it."""
        return nullcontext() if is_known else self._first

    def renew_leases_blocking(
        self, owner: str, held: Sequence[Held], flying: Sequence[Delivery], *, lease: int
    ) -> list[StillHeld]:
        self.trigger.passed("renewal")
        return super().renew_leases_blocking(owner, held, flying, lease=lease)

    async def receive(self, wanted: Admission, greeting: Greeting) -> Received:
        self.trigger.passed("before accept")
        async with self._unless(self._has_message):
            received = await super().receive(wanted, greeting)
            self._has_message = True
        self.trigger.passed("after accept")
        return received

    async def receive_and_claim(
        self, wanted: Admission, greeting: Greeting, claim: Claim
    ) -> tuple[Received, list[Claimed]]:
        self.trigger.passed("before accept")
        async with self._unless(self._has_message):
            received, claimed = await super().receive_and_claim(wanted, greeting, claim)
            self._has_message = True
        self.trigger.passed("after accept")
        if claimed:
            self.trigger.passed("after claim")
        return received, claimed

    async def claim_turns(self, wanted: Claim) -> list[Claimed]:
        async with self._unless(self._has_message):
            if self._has_message:
                self.trigger.passed("before claim")
            claimed = await super().claim_turns(wanted)
        if claimed:
            self.trigger.passed("after claim")
        return claimed

    async def journal(self, held: Held, place: int, events: Sequence[str], *, called_tool: bool = False) -> None:
        what = "tool" if called_tool else "journal"
        self.trigger.passed(f"before {what}")
        await super().journal(held, place, events, called_tool=called_tool)
        self.trigger.passed(f"after {what}")

    async def ask(self, wanted: Asking) -> None:
        self.trigger.passed("before ask")
        async with self._unless(self._has_answer):
            await super().ask(wanted)
            self._has_answer = True
        self.trigger.passed("after ask")

    async def finish_turn(self, wanted: Finish) -> None:
        self.trigger.passed("before finish")
        async with self._unless(self._has_answer):
            await super().finish_turn(wanted)
            self._has_answer = True
        self.trigger.passed("after finish")

    async def open_stream(self, new: NewDelivery) -> Stream | None:
        self.trigger.passed("before stream")
        stream = await super().open_stream(new)
        if stream is not None:
            self.trigger.passed("after stream")
        return stream

    async def keep_stream_id(self, stream: Stream, external_id: str) -> None:
        self.trigger.passed("before stream id")
        await super().keep_stream_id(stream, external_id)
        self.trigger.passed("after stream id")

    async def claim_deliveries(
        self,
        accounts: Sequence[tuple[str, str]],
        *,
        owner: str,
        lease: int,
        limit: int,
        lanes: Sequence[str] | None = None,
    ) -> list[Delivery]:
        async with self._unless(self._has_answer):
            if self._has_answer:
                self.trigger.passed("before take")
            taken = await super().claim_deliveries(accounts, owner=owner, lease=lease, limit=limit, lanes=lanes)
        if taken:
            self.trigger.passed("after take")
        return taken

    async def delivery_sent(
        self, delivery: Delivery, external_id: str, *, owner: str, may_be_repeated: bool = False
    ) -> bool:
        self.trigger.passed("before receipt")
        is_ours = await super().delivery_sent(delivery, external_id, owner=owner, may_be_repeated=may_be_repeated)
        self.trigger.passed("after receipt")
        return is_ours


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

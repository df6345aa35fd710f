"""What the suites stand on: a gateway's door, a platform that runs before it, and a whole gateway."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from threadline.agents.function import AgentFunction, FunctionAgent
from threadline.errors import StoreUnavailable
from threadline.gateway.access import EVERY_GROUP, AccessRules
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import GatewaySettings
from threadline.ids import new_lease_owner
from threadline.model.delivery import Target, target_of
from threadline.model.inbound import Arrival, Inbound
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.platforms.shared import split, to_plain_text
from threadline.ports.platform import Accept, ListensAlone, Outgoing, OutgoingFile, Platform, PlatformError, Verdict
from threadline.store.facade import GatewayStore
from threadline.testing.contracts.platforms.worlds import OpenWorld, PlatformWorld

# Bytes that no text may hold: a file must come through as it is.
LETTER = OutgoingFile(name="letter.txt", mime="text/plain", body=b"Dear \xff\x00 all,\r\n" * 50)
# What `close` may take: after that a gateway goes on without it.
CLOSING = 5.0
_LOOK_AGAIN = 0.01

C = TypeVar("C")


def promised(
    test: Callable[[C, PlatformWorld], Coroutine[Any, Any, None]],
) -> Callable[[C, OpenWorld], None]:
    """A test in a world of its own, on a loop of its own, and with an end: what hangs fails."""

    @functools.wraps(test)
    def run(self: C, open_world: OpenWorld) -> None:
        async def timed() -> None:
            async with open_world() as world, asyncio.timeout(world.patience):
                await test(self, world)

        asyncio.run(timed())

    # By this pytest would take the parameters of the function within for those of the test.
    del run.__wrapped__
    return run


class Door:
    """A gateway's door: it keeps what comes in, and may be shut."""

    def __init__(self) -> None:
        # All that was stored, in order, and what of it people said and did.
        self.arrivals: list[Arrival] = []
        self.heard: list[Inbound] = []
        # Whether what comes in can be stored; if not, it is tried as often as it is told.
        self.is_open = True
        self.refused = 0
        # The key of each attempt to store something.
        self.tried: list[str] = []
        # An event is stored only once this is set.
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.arrived = asyncio.Event()

    async def accept(self, event: Arrival) -> Verdict:
        """Stores the event, or fails as a store does that is away."""
        self.tried.append(event.dedupe_key)
        self.arrived.set()
        await self.may_go_on.wait()
        if not self.is_open:
            self.refused += 1
            raise StoreUnavailable("the door is shut; try again")
        if event.dedupe_key and event.dedupe_key in [earlier.dedupe_key for earlier in self.arrivals]:
            return "duplicate"
        self.arrivals.append(event)
        if not isinstance(event, Inbound):
            return "parked"
        self.heard.append(event)
        return "accepted"

    def has_heard(self, count: int) -> bool:
        """Whether so much was stored."""
        return len(self.heard) >= count

    def texts(self, where: SessionSource | None = None) -> list[str]:
        """What was said, in the order in which it was stored: in that chat, or in all of them."""
        return [event.text for event in self.heard if where is None or is_same_chat(event.source, where)]


def is_same_chat(one: SessionSource, other: SessionSource) -> bool:
    """Whether both are in the same chat, and in the same thread of it."""
    return (one.chat_id, one.thread_id) == (other.chat_id, other.thread_id)


async def eventually(is_so: Callable[[], Awaitable[bool] | bool]) -> None:
    """Returns once it is so; the test's own limit ends it otherwise."""
    while True:
        answer = is_so()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        await asyncio.sleep(_LOOK_AGAIN)


async def heard(door: Door, count: int) -> list[Inbound]:
    """What was stored, once it is so much."""
    await eventually(functools.partial(door.has_heard, count))
    return door.heard


@asynccontextmanager
async def running(platform: Platform, accept: Accept) -> AsyncIterator[asyncio.Task[None]]:
    """The platform's `run` in a task of its own, from when it is ready; closed and cancelled at the end, as a gateway does."""
    if isinstance(platform, ListensAlone):
        await platform.open()
    ready = asyncio.Event()
    run = asyncio.create_task(platform.run(accept, ready))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({run, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), f"`run` ended before it was ready: {run}"
        yield run
    finally:
        waiting.cancel()
        await asyncio.wait_for(platform.close(), CLOSING)
        run.cancel()
        await asyncio.wait({run}, timeout=CLOSING)
        assert run.done(), "`run` goes on although it was cancelled"


class Answering(msgspec.Struct, frozen=True):
    """A gateway at work, and its one platform."""

    gateway: Gateway
    platform: Platform


@asynccontextmanager
async def answering(world: PlatformWorld, function: AgentFunction) -> AsyncIterator[Answering]:
    """A whole gateway on a database of its own, whose agent is that function, at work on the world's platform."""
    platform = world.connect()
    people = frozenset(person for where in world.places if (person := person_of(where)) is not None)
    with tempfile.TemporaryDirectory() as folder:
        async with await GatewayStore.open(f"sqlite://{folder}/threadline.db") as store:
            rules = AccessRules(owners=people, answer_groups=frozenset({EVERY_GROUP}))
            gateway = Gateway(store, _settings(function), rules, [platform])
            await gateway.start(alone=True)
            try:
                await eventually(lambda: (platform.name, platform.account) in gateway.outbox.accounts)
                yield Answering(gateway, platform)
            finally:
                await gateway.stop()


def _settings(function: AgentFunction) -> GatewaySettings:
    agent = FunctionAgent(function)
    return GatewaySettings(
        owner=new_lease_owner("serve"),
        agent_for=lambda _source: ("main", agent),
        split=lambda text, can: split(text, can.max_length, can.length_unit),
        plain=to_plain_text,
        burst_seconds=0.0,
        poll_seconds=0.2,
        drain_seconds=0.2,
        stream_after_seconds=0.0,
        welcome=False,
    )


def to(where: SessionSource) -> Target:
    """Where messages to that place go."""
    return target_of(where)


async def texts_in(world: PlatformWorld, where: SessionSource | None = None) -> list[str]:
    """What our messages say there; without a place, in the first."""
    return [message.text for message in await world.shown(where or world.places[0])]


async def shows(world: PlatformWorld, *texts: str, where: SessionSource | None = None) -> bool:
    """Whether exactly these texts are shown there."""
    return await texts_in(world, where) == [part for text in texts for part in as_shown(world, text)]


def as_shown(world: PlatformWorld, text: str) -> list[str]:
    """The messages in which a text without markup is seen."""
    return [line for line in text.splitlines() if line.strip()] if world.service.by_line else [text]


async def outcome_of(call: Awaitable[object]) -> PlatformError | None:
    """How a call failed; `None` if it did not. What no platform may raise is raised."""
    try:
        await call
    except PlatformError as error:
        return error
    return None


async def can_send(platform: Platform, where: SessionSource) -> bool:
    """Whether a message gets through."""
    return await outcome_of(platform.send(to(where), Outgoing(text="back again"), key="back")) is None

"""What the suites stand on: the other end of an adapter's wire, a gateway's door, and a platform that runs between the two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Inbound
from threadline.ports.platform import Accept, Outgoing, Platform, PlatformError, Verdict

T = TypeVar("T")

# Nobody waits that long for what works; a test that does has failed.
PATIENCE = 30.0
# What `close` may take, and a little for a slow machine.
CLOSING = 7.0
_LOOK_AGAIN = 0.01


class World(Protocol):
    """The other end of the wire: the service that an adapter speaks to, with one chat in it."""

    @property
    def target(self) -> Target:
        """Where messages to that chat go."""

    def connect(self) -> Platform:
        """An adapter for the account, not yet running. Each call makes another, as a gateway that starts again would."""

    async def say(self, text: str) -> None:
        """Somebody writes in the chat, so that it is meant for us."""

    async def shown(self) -> list[str]:
        """What our messages in the chat say now, in the order in which they came."""


class RepeatingWorld(World, Protocol):
    """A service that tells events again."""

    async def unacknowledged(self) -> int:
        """How many events nobody has acknowledged yet."""


class BreakingWorld(World, Protocol):
    """A service whose line can break."""

    async def cut(self) -> None:
        """Every connection ends; new ones are taken."""

    async def lose_answer(self) -> None:
        """The next send is carried out, but its answer is lost with the line."""


W_co = TypeVar("W_co", bound=World, covariant=True)


class OpenWorldOf(Protocol[W_co]):
    """Opens the service in the loop of the test that calls it."""

    def __call__(self) -> AbstractAsyncContextManager[W_co]: ...


OpenWorld: TypeAlias = OpenWorldOf[World]


class Door:
    """A gateway's door: it keeps what comes in, and may be shut."""

    def __init__(self) -> None:
        self.heard: list[Inbound] = []
        # Whether what comes in can be stored; if not, it is tried as often as it is told.
        self.is_open = True
        self.refused = 0
        # An event is stored only once this is set.
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.arrived = asyncio.Event()

    async def accept(self, event: Arrival) -> Verdict:
        """Stores the event, or fails as a store does that is away."""
        self.arrived.set()
        await self.may_go_on.wait()
        if not self.is_open:
            self.refused += 1
            raise StoreUnavailable("the door is shut; try again")
        if not isinstance(event, Inbound):
            return "parked"
        if event.dedupe_key in [earlier.dedupe_key for earlier in self.heard]:
            return "duplicate"
        self.heard.append(event)
        return "accepted"

    def has_heard(self, count: int) -> bool:
        """Whether so much was stored."""
        return len(self.heard) >= count

    def texts(self) -> list[str]:
        """What was said, in the order in which it was stored."""
        return [event.text for event in self.heard]


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of `work` on an event loop of its own; what hangs fails."""

    async def timed() -> T:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(timed())


async def eventually(is_so: Callable[[], Awaitable[bool] | bool]) -> None:
    """Returns once it is so; the test's own limit ends it otherwise."""
    while True:
        answer = is_so()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        await asyncio.sleep(_LOOK_AGAIN)


@asynccontextmanager
async def running(platform: Platform, accept: Accept) -> AsyncIterator[asyncio.Task[None]]:
    """The platform's `run` in a task of its own, from when it is ready; closed and cancelled at the end, as a gateway does."""
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


async def is_now(look: Callable[[], Awaitable[T]], wanted: T) -> bool:
    """Whether that is what there is to see."""
    return await look() == wanted


async def outcome_of(call: Awaitable[object]) -> PlatformError | None:
    """How a call failed; `None` if it did not. What no platform may raise is raised."""
    try:
        await call
    except PlatformError as error:
        return error
    return None


async def can_send(platform: Platform, target: Target) -> bool:
    """Whether a message gets through."""
    return await outcome_of(platform.send(target, Outgoing(text="back again"), key="back")) is None

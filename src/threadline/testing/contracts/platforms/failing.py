"""What goes wrong is said in the port's own words, and an end is an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from threadline.ports.platform import (
    BadMarkup,
    Gone,
    ListensAlone,
    Outgoing,
    Platform,
    PlatformError,
    RateLimited,
    Unauthorized,
)
from threadline.testing.contracts.platforms.staging import (
    CLOSING,
    Door,
    eventually,
    heard,
    outcome_of,
    promised,
    running,
    shows,
    texts_in,
    to,
)
from threadline.testing.contracts.platforms.worlds import PlatformWorld

_BOLD = Outgoing(text="so **bold** a word")


class FailingContract:
    """What a service refuses comes out as the error that tells the gateway what to do."""

    @promised
    async def test_too_much_at_once_says_how_long_to_wait(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            await world.limit_rate(7)
            outcome = await outcome_of(platform.send(to(home), Outgoing(text="one"), key="k1"))
            if not world.service.limits:
                assert outcome is None, repr(outcome)
                assert await texts_in(world) == ["one"]
                return
            assert isinstance(outcome, RateLimited), repr(outcome)
            assert 7 <= outcome.retry_after <= 8
            assert await texts_in(world) == []

    @promised
    async def test_broken_markup_is_told_apart(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            await world.refuse_markup()
            outcome = await outcome_of(platform.send(to(home), _BOLD, key="k1"))
            if not world.service.refuses_markup:
                assert outcome is None, repr(outcome)
                assert len(await texts_in(world)) == 1
                return
            assert isinstance(outcome, BadMarkup), repr(outcome)
            assert await texts_in(world) == []
            await world.refuse_markup()
            await platform.send(to(home), Outgoing(text=_BOLD.text, is_plain=True), key="k2")
            assert await texts_in(world) == [_BOLD.text]

    @promised
    async def test_a_chat_that_is_gone_is_said_to_be_gone(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept) as run:
            await world.lose_chat(home)
            outcome = await outcome_of(platform.send(to(home), Outgoing(text="anyone?"), key="k"))
            assert isinstance(outcome, Gone) if world.service.forgets_chats else outcome is None, repr(outcome)
            assert not run.done()

    @promised
    async def test_a_key_that_is_not_known_ends_it(self, world: PlatformWorld) -> None:
        door, platform, home = Door(), world.connect(), world.places[0]
        async with running(platform, door.accept) as run:
            await world.revoke()
            if not world.service.checks_key:
                await world.say("still here", home)
                await heard(door, 1)
                assert not run.done()
                return
            await asyncio.wait({run})
            assert isinstance(run.exception(), Unauthorized), repr(run.exception())
        # From the beginning, too: nothing will work until somebody gives it another key.
        again = world.connect()
        assert isinstance(await outcome_of(_listens(again, door)), Unauthorized)
        await again.close()


class EndingContract:
    """An adapter ends when it is told to, whatever it is about."""

    @promised
    async def test_run_ends_when_it_is_cancelled(self, world: PlatformWorld) -> None:
        platform = world.connect()
        async with running(platform, Door().accept) as run:
            run.cancel()
            await asyncio.wait({run}, timeout=CLOSING)
            assert run.done()

    @promised
    async def test_it_can_be_closed_at_any_time(self, world: PlatformWorld) -> None:
        never_run = world.connect()
        await asyncio.wait_for(never_run.close(), CLOSING)
        platform = world.connect()
        async with running(platform, Door().accept):
            for _ in range(2):
                await asyncio.wait_for(platform.close(), CLOSING)

    @promised
    async def test_what_is_asked_of_it_too_late_fails_as_a_platform_fails(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            pass
        with suppress(PlatformError):
            await platform.send(to(home), Outgoing(text="late"), key="k")

    @promised
    async def test_what_is_being_sent_is_finished_before_the_end(self, world: PlatformWorld) -> None:
        platform = world.connect()
        async with running(platform, Door().accept), _being_sent(world, platform, "the last") as send:
            closing = asyncio.create_task(platform.close())
            await asyncio.sleep(0)
            await world.release()
            await asyncio.wait_for(closing, CLOSING)
            assert await send
            assert await shows(world, "the last")

    @promised
    async def test_a_send_that_never_ends_holds_the_end_up_for_five_seconds_at_most(self, world: PlatformWorld) -> None:
        platform = world.connect()
        async with running(platform, Door().accept), _being_sent(world, platform, "the last") as send:
            await asyncio.wait_for(platform.close(), CLOSING)
            outcome = await asyncio.wait_for(outcome_of(send), CLOSING)
            assert (outcome is None) != world.service.holds, repr(outcome)


async def _listens(platform: Platform, door: Door) -> None:
    if isinstance(platform, ListensAlone):
        await platform.open()
    await platform.run(door.accept, asyncio.Event())


@asynccontextmanager
async def _being_sent(world: PlatformWorld, platform: Platform, text: str) -> AsyncIterator[asyncio.Task[str]]:
    """A message that has left, and whose answer is held where the world can do so."""
    await world.hold()
    send = asyncio.create_task(platform.send(to(world.places[0]), Outgoing(text=text), key="k"))
    try:
        await eventually(lambda: _has_left(world, send, text))
        yield send
    finally:
        await world.release()
        send.cancel()
        await asyncio.wait({send})


async def _has_left(world: PlatformWorld, send: asyncio.Task[str], text: str) -> bool:
    return send.done() or (world.service.holds and await shows(world, text))

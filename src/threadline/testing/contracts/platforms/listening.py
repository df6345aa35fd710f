"""What some adapters can besides: show the commands that there are, and listen where only one may."""

from __future__ import annotations

import asyncio

from threadline.ports.platform import ListensAlone, OfferedCommand, OffersCommands, Outgoing
from threadline.testing.contracts.platforms.staging import Door, eventually, heard, promised, running, texts_in, to
from threadline.testing.contracts.platforms.worlds import PlatformWorld

_COMMANDS = (OfferedCommand("new", "Begin anew"), OfferedCommand("help", "What you can do"))


class ListeningContract:
    """What an adapter keeps that is an `OffersCommands` or a `ListensAlone`; one that is neither just runs."""

    @promised
    async def test_commands_that_are_offered_are_shown(self, world: PlatformWorld) -> None:
        platform = world.connect()
        offers = isinstance(platform, OffersCommands)
        if isinstance(platform, OffersCommands):
            platform.offer(_COMMANDS)
        async with running(platform, Door().accept):
            await eventually(lambda: _are_offered(world, _COMMANDS if offers else ()))
            if isinstance(platform, OffersCommands):
                platform.offer(_COMMANDS[:1])
                await eventually(lambda: _are_offered(world, _COMMANDS[:1]))

    @promised
    async def test_it_sends_while_another_listens(self, world: PlatformWorld) -> None:
        door, home = Door(), world.places[0]
        platform, other = world.connect(), world.connect()
        if not isinstance(other, ListensAlone):
            await other.close()
            return
        async with running(platform, door.accept):
            await other.open()
            await other.send(to(home), Outgoing(text="from the other"), key="k")
            await world.say("to whoever listens", home)
            await heard(door, 1)
            await other.close()
            assert await texts_in(world) == ["from the other"]

    @promised
    async def test_it_can_stop_listening_and_begin_again(self, world: PlatformWorld) -> None:
        door, home, platform = Door(), world.places[0], world.connect()
        async with running(platform, door.accept) as first:
            await world.say("one", home)
            await heard(door, 1)
            if not isinstance(platform, ListensAlone):
                return
            run = first
            for text in ("two", "three"):
                run.cancel()
                await asyncio.wait({run})
                await platform.send(to(home), Outgoing(text=f"before {text}"), key=text)
                await world.say(text, home)
                run = asyncio.create_task(platform.run(door.accept, asyncio.Event()))
                await heard(door, 2 if text == "two" else 3)
            run.cancel()
            await asyncio.wait({run})
            assert door.texts() == ["one", "two", "three"]
            assert await texts_in(world) == ["before two", "before three"]


async def _are_offered(world: PlatformWorld, commands: tuple[OfferedCommand, ...]) -> bool:
    return tuple(await world.offered()) == commands

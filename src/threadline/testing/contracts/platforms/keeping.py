"""Nothing is lost and nothing doubled: what is not stored comes again, and a broken line leaves no gap."""

from __future__ import annotations

from threadline.errors import StoreUnavailable
from threadline.model.inbound import Arrival, Inbound
from threadline.ports.platform import Ambiguous, Outgoing, Verdict
from threadline.testing.contracts.platforms.staging import (
    Door,
    can_send,
    eventually,
    heard,
    outcome_of,
    promised,
    running,
    texts_in,
    to,
)
from threadline.testing.contracts.platforms.worlds import PlatformWorld


class KeepingContract:
    """An event counts as arrived once it is stored. Where the service tells it only once, at least nothing comes twice."""

    @promised
    async def test_nothing_is_acknowledged_before_it_is_stored(self, world: PlatformWorld) -> None:
        door, platform, home = Door(), world.connect(), world.places[0]
        door.may_go_on.clear()
        async with running(platform, door.accept):
            await world.say("hello", home)
            await door.arrived.wait()
            # There and back again: what was acknowledged too early has arrived by then.
            await platform.send(to(home), Outgoing(text="and?"), key="k")
            assert await world.unacknowledged() == world.service.redelivers
            door.may_go_on.set()
            await eventually(lambda: _is_all_taken(world))
            await heard(door, 1)
        assert door.texts() == ["hello"]

    @promised
    async def test_what_could_not_be_stored_comes_again(self, world: PlatformWorld) -> None:
        door, home = Door(), world.places[0]
        door.is_open = False
        async with running(world.connect(), door.accept) as run:
            for text in ("one", "two"):
                await world.say(text, home)
            await eventually(lambda: door.refused >= 2)
            assert not run.done(), "a store that is away for a moment ends no platform"
            door.is_open = True
            if not world.service.redelivers:
                await world.say("three", home)
            await eventually(lambda: _is_all_taken(world))
            await eventually(lambda: ("two" if world.service.redelivers else "three") in door.texts())
        _is_kept(world, door, ["one", "two"], "three")

    @promised
    async def test_nothing_overtakes_what_could_not_be_stored(self, world: PlatformWorld) -> None:
        door, home = Door(), world.places[0]
        tried: list[str] = []

        async def accept(event: Arrival) -> Verdict:
            assert isinstance(event, Inbound)
            tried.append(event.text)
            if tried == ["one"]:
                raise StoreUnavailable("the door is shut; try again")
            return await door.accept(event)

        async with running(world.connect(), accept):
            for text in ("one", "two", "three"):
                await world.say(text, home)
            await eventually(lambda: "three" in door.texts())
            await eventually(lambda: _is_all_taken(world))
        _is_kept(world, door, ["one", "two"], "three")

    @promised
    async def test_it_comes_again_under_the_same_key(self, world: PlatformWorld) -> None:
        door = Door()
        door.is_open = False
        wanted = 3 if world.service.redelivers else 1
        async with running(world.connect(), door.accept):
            await world.say("hello", world.places[0])
            await eventually(lambda: len(door.tried) >= wanted)
        assert len(set(door.tried)) == 1

    @promised
    async def test_what_nobody_stored_comes_to_the_next_gateway(self, world: PlatformWorld) -> None:
        first, second, home = Door(), Door(), world.places[0]
        first.may_go_on.clear()
        async with running(world.connect(), first.accept):
            await world.say("hello", home)
            await first.arrived.wait()
        async with running(world.connect(), second.accept):
            if not world.service.redelivers:
                await world.say("hello again", home)
            await heard(second, 1)
            await eventually(lambda: _is_all_taken(world))
        assert second.texts() == (["hello"] if world.service.redelivers else ["hello again"])

    @promised
    async def test_what_was_stored_comes_to_no_other_gateway(self, world: PlatformWorld) -> None:
        first, second, home = Door(), Door(), world.places[0]
        async with running(world.connect(), first.accept):
            await world.say("hello", home)
            await heard(first, 1)
            await eventually(lambda: _is_all_taken(world))
        async with running(world.connect(), second.accept):
            await world.say("hello again", home)
            await heard(second, 1)
        assert second.texts() == ["hello again"]

    @promised
    async def test_what_was_said_before_it_ran_comes_in(self, world: PlatformWorld) -> None:
        door, home = Door(), world.places[0]
        if world.service.redelivers:
            await world.say("early", home)
        async with running(world.connect(), door.accept):
            await world.say("later", home)
            await eventually(lambda: "later" in door.texts())
        assert door.texts() == (["early", "later"] if world.service.redelivers else ["later"])


class ReconnectingContract:
    """A line that breaks is mended by the adapter itself, and what nobody knows is said to be unknown."""

    @promised
    async def test_it_comes_back_when_the_line_breaks(self, world: PlatformWorld) -> None:
        door, platform, home = Door(), world.connect(), world.places[0]
        async with running(platform, door.accept) as run:
            for n in range(3):
                await world.cut()
                if not world.service.redelivers:
                    await eventually(lambda: can_send(platform, home))
                await world.say(f"after cut {n}", home)
                await heard(door, n + 1)
            assert not run.done()
            await eventually(lambda: can_send(platform, home))
        assert door.texts() == [f"after cut {n}" for n in range(3)]

    @promised
    async def test_a_break_leaves_no_gap(self, world: PlatformWorld) -> None:
        door, platform, home = Door(), world.connect(), world.places[0]
        said = [f"line {n}" for n in range(9)]
        async with running(platform, door.accept):
            for n, text in enumerate(said):
                if n == 3:
                    await heard(door, 1)
                if n in (3, 6):
                    await world.cut()
                await world.say(text, home)
            await eventually(lambda: can_send(platform, home))
            await world.say("the end", home)
            await eventually(lambda: "the end" in door.texts())
            await eventually(lambda: _is_all_taken(world))
        missing = [text for text in said if text not in door.texts()]
        assert not missing or (world.service.breaks and not world.service.redelivers), missing
        # In order, and none twice, whatever came.
        assert door.texts() == [text for text in said if text not in missing] + ["the end"]

    @promised
    async def test_what_is_sent_meanwhile_arrives_or_fails_as_a_platform_fails(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            await world.cut()
            outcome = await outcome_of(platform.send(to(home), Outgoing(text="now"), key="k"))
            shown = await texts_in(world)
            assert shown == ["now"] if outcome is None else isinstance(outcome, Ambiguous) or shown == []

    @promised
    async def test_a_lost_answer_is_neither_taken_for_certain_nor_sent_again(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        async with running(platform, Door().accept):
            await world.lose_answer()
            outcome = await outcome_of(platform.send(to(home), Outgoing(text="once"), key="k"))
            assert isinstance(outcome, Ambiguous) if world.service.loses_answers else outcome is None, repr(outcome)
            # What the adapter would send again has arrived before this.
            await eventually(lambda: can_send(platform, home))
            assert (await texts_in(world)).count("once") == 1


def _is_kept(world: PlatformWorld, door: Door, doubtful: list[str], last: str) -> None:
    """All of it is there, in order and once. Where nobody tells it again, what was doubtful may be missing."""
    wanted = [*doubtful, last] if last in door.texts() else doubtful
    missing = [text for text in wanted if text not in door.texts()]
    assert not missing or not world.service.redelivers, missing
    assert door.texts() == [text for text in wanted if text not in missing]


async def _is_all_taken(world: PlatformWorld) -> bool:
    return await world.unacknowledged() == 0

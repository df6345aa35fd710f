"""The suites themselves: what every adapter keeps, and what some keep besides."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from threadline.errors import StoreUnavailable
from threadline.model.inbound import Arrival
from threadline.ports.platform import Ambiguous, Capabilities, Gone, NotModified, Outgoing, PlatformError, Verdict
from threadline.testing.contracts.platforms.worlds import (
    CLOSING,
    BreakingWorld,
    Door,
    OpenWorld,
    OpenWorldOf,
    RepeatingWorld,
    can_send,
    eventually,
    in_loop,
    is_now,
    outcome_of,
    running,
)


class PlatformContract:
    """What every adapter keeps."""

    def test_it_says_who_it_is_and_what_it_can(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                assert (platform.name, platform.account) == (world.target.platform, world.target.account)
                assert isinstance(platform.capabilities, Capabilities)
                assert platform.capabilities.max_length > 0

        in_loop(scenario())

    def test_what_is_said_comes_in_once_and_in_order(self, open_world: OpenWorld) -> None:
        texts = [f"line {n}" for n in range(5)]

        async def scenario() -> None:
            door = Door()
            async with open_world() as world, running(world.connect(), door.accept):
                for text in texts:
                    await world.say(text)
                await eventually(partial(door.has_heard, len(texts)))
                assert door.texts() == texts

        in_loop(scenario())

    def test_an_event_says_whence_it_comes_and_is_told_apart_from_all_others(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            door = Door()
            async with open_world() as world, running(world.connect(), door.accept):
                for text in ("the same", "the same"):
                    await world.say(text)
                await eventually(partial(door.has_heard, 2))
                for event in door.heard:
                    source = event.source
                    assert (source.platform, source.account) == (world.target.platform, world.target.account)
                    assert source.chat_id == world.target.chat_id
                    assert source.chat_type == world.target.chat_type
                    assert source.sender
                    assert event.kind == "message"
                    assert event.sent_at.tzinfo is not None
                assert len({event.dedupe_key for event in door.heard}) == 2
                assert len({event.message_id for event in door.heard}) == 2

        in_loop(scenario())

    def test_a_message_is_shown_and_has_an_id_of_its_own(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    ids = [
                        await platform.send(world.target, Outgoing(text=text), key=f"k-{text}")
                        for text in ("one", "two", "three")
                    ]
                    assert all(isinstance(message_id, str) and message_id for message_id in ids)
                    assert len(set(ids)) == 3
                    assert await world.shown() == ["one", "two", "three"]

        in_loop(scenario())

    def test_many_may_send_at_once(self, open_world: OpenWorld) -> None:
        texts = [f"text {n}" for n in range(20)]

        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    sends = (platform.send(world.target, Outgoing(text=text), key=text) for text in texts)
                    assert len(set(await asyncio.gather(*sends))) == len(texts)
                    assert sorted(await world.shown()) == sorted(texts)

        in_loop(scenario())

    def test_a_message_of_the_greatest_length_is_shown_whole(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                # Letters that are one character, one unit and one byte each: they fit whatever the unit.
                text = "x" * platform.capabilities.max_length
                async with running(platform, Door().accept):
                    await platform.send(world.target, Outgoing(text=text), key="k")
                    assert await world.shown() == [text]

        in_loop(scenario())

    def test_an_answer_can_be_sent_while_an_event_is_being_accepted(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()

                async def accept(_: Arrival) -> Verdict:
                    await platform.send(world.target, Outgoing(text="heard"), key="k")
                    return "accepted"

                async with running(platform, accept):
                    await world.say("hello")
                    await eventually(lambda: is_now(world.shown, ["heard"]))

        in_loop(scenario())

    def test_typing_is_shown_where_it_is_declared(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    if platform.capabilities.typing:
                        await platform.typing(world.target)
                    assert await world.shown() == []

        in_loop(scenario())

    def test_run_ends_when_it_is_cancelled(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform, ready = world.connect(), asyncio.Event()
                run = asyncio.create_task(platform.run(Door().accept, ready))
                await ready.wait()
                run.cancel()
                await asyncio.wait({run}, timeout=CLOSING)
                assert run.done()
                await asyncio.wait_for(platform.close(), CLOSING)

        in_loop(scenario())

    def test_it_can_be_closed_at_any_time(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                never_run = world.connect()
                await asyncio.wait_for(never_run.close(), CLOSING)
                platform = world.connect()
                async with running(platform, Door().accept):
                    for _ in range(2):
                        await asyncio.wait_for(platform.close(), CLOSING)

        in_loop(scenario())

    def test_what_is_asked_of_it_too_late_fails_as_a_platform_fails(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    pass
                with suppress(PlatformError):
                    await platform.send(world.target, Outgoing(text="late"), key="k")

        in_loop(scenario())


class AcknowledgingContract:
    """What an adapter keeps whose service tells events again: it says that something arrived only once it is stored."""

    def test_nothing_is_acknowledged_before_it_is_stored(self, open_world: OpenWorldOf[RepeatingWorld]) -> None:
        async def scenario() -> None:
            door = Door()
            door.may_go_on.clear()
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, door.accept):
                    await world.say("hello")
                    await door.arrived.wait()
                    # There and back again: what was acknowledged too early has arrived by then.
                    await platform.send(world.target, Outgoing(text="and?"), key="k")
                    assert await world.unacknowledged() == 1
                    door.may_go_on.set()
                    await eventually(lambda: is_now(world.unacknowledged, 0))
                    assert door.texts() == ["hello"]

        in_loop(scenario())

    def test_what_could_not_be_stored_comes_again(self, open_world: OpenWorldOf[RepeatingWorld]) -> None:
        async def scenario() -> None:
            door = Door()
            door.is_open = False
            async with open_world() as world, running(world.connect(), door.accept) as run:
                await world.say("one")
                await world.say("two")
                await eventually(lambda: door.refused >= 2)
                assert await world.unacknowledged() == 2
                assert not run.done(), "a store that is away for a moment ends no platform"
                door.is_open = True
                await eventually(lambda: is_now(world.unacknowledged, 0))
                assert sorted(door.texts()) == ["one", "two"]

        in_loop(scenario())

    def test_what_nobody_stored_comes_to_the_next_gateway(self, open_world: OpenWorldOf[RepeatingWorld]) -> None:
        async def scenario() -> None:
            first, second = Door(), Door()
            first.may_go_on.clear()
            async with open_world() as world:
                async with running(world.connect(), first.accept):
                    await world.say("hello")
                    await first.arrived.wait()
                async with running(world.connect(), second.accept):
                    await eventually(lambda: second.texts() == ["hello"])
                    await eventually(lambda: is_now(world.unacknowledged, 0))

        in_loop(scenario())

    def test_what_was_said_before_it_ran_comes_in(self, open_world: OpenWorldOf[RepeatingWorld]) -> None:
        async def scenario() -> None:
            door = Door()
            async with open_world() as world:
                await world.say("early")
                async with running(world.connect(), door.accept):
                    await eventually(lambda: door.texts() == ["early"])

        in_loop(scenario())

    def test_it_comes_again_under_the_same_key(self, open_world: OpenWorldOf[RepeatingWorld]) -> None:
        async def scenario() -> None:
            keys: list[str] = []

            async def accept(event: Arrival) -> Verdict:
                keys.append(event.dedupe_key)
                if len(keys) < 3:
                    raise StoreUnavailable("the door is shut; try again")
                return "accepted"

            async with open_world() as world, running(world.connect(), accept):
                await world.say("hello")
                await eventually(lambda: len(keys) >= 3)
                assert len(set(keys)) == 1

        in_loop(scenario())


class ReconnectingContract:
    """What an adapter keeps that holds a line: it comes back by itself, and says honestly what it does not know."""

    def test_it_comes_back_when_the_line_breaks(self, open_world: OpenWorldOf[BreakingWorld]) -> None:
        async def scenario() -> None:
            door = Door()
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, door.accept) as run:
                    for n in range(3):
                        await world.cut()
                        await world.say(f"after cut {n}")
                        await eventually(partial(door.has_heard, n + 1))
                    assert door.texts() == [f"after cut {n}" for n in range(3)]
                    assert not run.done()
                    await eventually(lambda: can_send(platform, world.target))

        in_loop(scenario())

    def test_what_is_sent_meanwhile_fails_as_a_platform_fails(self, open_world: OpenWorldOf[BreakingWorld]) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    await world.cut()
                    with suppress(PlatformError):
                        await platform.send(world.target, Outgoing(text="now"), key="k")

        in_loop(scenario())

    def test_a_lost_answer_is_never_taken_for_certain(self, open_world: OpenWorldOf[BreakingWorld]) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    await world.lose_answer()
                    outcome = await outcome_of(platform.send(world.target, Outgoing(text="once"), key="k"))
                    assert isinstance(outcome, Ambiguous), outcome
                    assert await world.shown() == ["once"]

        in_loop(scenario())


class EditingContract:
    """What an adapter keeps that can edit."""

    def test_an_edited_message_says_the_new_text_in_its_old_place(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                assert platform.capabilities.edit
                async with running(platform, Door().accept):
                    first = await platform.send(world.target, Outgoing(text="one"), key="k1")
                    await platform.send(world.target, Outgoing(text="two"), key="k2")
                    for text in ("one and", "one and a half"):
                        await platform.edit(world.target, first, Outgoing(text=text))
                    assert await world.shown() == ["one and a half", "two"]

        in_loop(scenario())

    def test_an_edit_that_changes_nothing_harms_nothing(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    message_id = await platform.send(world.target, Outgoing(text="one"), key="k1")
                    outcome = await outcome_of(platform.edit(world.target, message_id, Outgoing(text="one")))
                    assert outcome is None or isinstance(outcome, NotModified), outcome
                    assert await world.shown() == ["one"]

        in_loop(scenario())

    def test_an_edit_of_what_is_not_there_fails_as_a_platform_fails_or_shows_it(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                async with running(platform, Door().accept):
                    outcome = await outcome_of(platform.edit(world.target, "no-such-message", Outgoing(text="one")))
                    assert outcome is None or isinstance(outcome, Gone), outcome
                    assert await world.shown() == ([] if outcome else ["one"])

        in_loop(scenario())


class RepeatingContract:
    """What an adapter keeps that declares `idempotent_send`."""

    def test_the_same_key_shows_one_message(self, open_world: OpenWorld) -> None:
        async def scenario() -> None:
            async with open_world() as world:
                platform = world.connect()
                assert platform.capabilities.idempotent_send
                async with running(platform, Door().accept):
                    ids = [await platform.send(world.target, Outgoing(text="one"), key="k") for _ in range(3)]
                    assert len(set(ids)) == 1
                    await platform.send(world.target, Outgoing(text="one"), key="another")
                    assert await world.shown() == ["one", "one"]

        in_loop(scenario())

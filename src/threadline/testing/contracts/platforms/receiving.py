"""What comes in: each event once, in order, whole, and from where it came."""

from __future__ import annotations

import asyncio

from threadline.model.inbound import Arrival, IdChange, Inbound, Unreadable, stored_id
from threadline.model.source import SessionSource
from threadline.ports.platform import Capabilities, Fetches, Gone, Outgoing, TooLong, Verdict
from threadline.testing.contracts.platforms.staging import (
    LETTER,
    Door,
    eventually,
    heard,
    is_same_chat,
    outcome_of,
    promised,
    running,
    to,
)
from threadline.testing.contracts.platforms.worlds import PlatformWorld

_HOSTILE = "ünd <b>so</b> & \\_on_ **as** `written` 👩\u200d👩\u200d👧 %s {x} /not a command"


class ReceivingContract:
    """What an adapter keeps of all that comes in."""

    @promised
    async def test_it_says_who_it_is_and_what_it_can(self, world: PlatformWorld) -> None:
        platform, home = world.connect(), world.places[0]
        assert (platform.name, platform.account) == (home.platform, home.account)
        assert home.chat_type == "dm", "the first place is a direct chat"
        assert isinstance(platform.capabilities, Capabilities)
        assert platform.capabilities.max_length > 0
        await platform.close()

    @promised
    async def test_what_is_said_comes_in_once_and_in_order(self, world: PlatformWorld) -> None:
        texts, door = [f"line {n}" for n in range(8)], Door()
        chats, pauses = _two_chats(world), iter(range(2 * len(texts), 0, -1))

        async def accept(event: Arrival) -> Verdict:
            # Each takes less time than the one before: what is handed over side by side ends in the wrong order.
            await asyncio.sleep(0.005 * next(pauses, 0))
            return await door.accept(event)

        async with running(world.connect(), accept):
            for text in texts:
                for where in chats:
                    await world.say(text, where)
            await heard(door, len(texts) * len(chats))
        assert door.texts(chats[0]) == texts
        # Our name may stand before it where several people read.
        assert [text.split()[-1] for where in chats[1:] for text in door.texts(where)] == [
            text.split()[-1] for _ in chats[1:] for text in texts
        ]

    @promised
    async def test_every_field_of_a_source_is_filled(self, world: PlatformWorld) -> None:
        door = Door()
        async with running(world.connect(), door.accept):
            for number, where in enumerate(world.places):
                await world.say(f"hello {number}", where)
                await heard(door, number + 1)
        assert [event.source for event in door.heard] == list(world.places)
        for event in door.heard:
            assert event.kind == "message"
            assert event.sent_at.tzinfo is not None
            assert event.source.sender

    @promised
    async def test_a_text_comes_in_as_it_was_written(self, world: PlatformWorld) -> None:
        door = Door()
        async with running(world.connect(), door.accept):
            message_id = await world.say(_HOSTILE, world.places[0])
            await heard(door, 1)
        assert door.texts() == [_HOSTILE]
        assert message_id in (None, door.heard[0].message_id)

    @promised
    async def test_a_message_another_chat_s_an_edit_and_a_deletion_are_four_events(self, world: PlatformWorld) -> None:
        door, home = Door(), world.places[0]
        wanted = ["message"] * len(_two_chats(world))
        async with running(world.connect(), door.accept):
            ids = [await world.say("hello", where) for where in reversed(_two_chats(world))]
            # Chats may come side by side.
            await heard(door, len(ids))
            if world.service.amends:
                await world.amend(str(ids[-1]), "hello again", home)
                wanted.append("edit")
            if world.service.deletes:
                await world.delete(str(ids[-1]), home)
                wanted.append("delete")
            # What is not wanted would come before this.
            await world.say("the end", home)
            await heard(door, len(wanted) + 1)
            await eventually(lambda: "the end" in door.texts())
        told = [event for event in door.heard if event.text != "the end"]
        assert [event.kind for event in told] == wanted
        assert len({event.dedupe_key for event in door.heard}) == len(door.heard)
        if world.service.repeats_ids:
            assert len({event.message_id for event in told}) == 1, "the world says that ids are counted per chat"
        for event in told[len(_two_chats(world)) :]:
            assert (event.message_id, event.source.chat_id) == (ids[-1], home.chat_id)
        assert [event.text for event in told if event.kind == "edit"] == ["hello again"] * world.service.amends

    @promised
    async def test_two_messages_alike_are_two(self, world: PlatformWorld) -> None:
        door = Door()
        async with running(world.connect(), door.accept):
            for _ in range(2):
                await world.say("the same", world.places[0])
            await heard(door, 2)
        assert len({event.dedupe_key for event in door.heard}) == 2
        assert len({event.message_id for event in door.heard}) == 2

    @promised
    async def test_in_a_group_it_is_told_what_is_meant_for_us(self, world: PlatformWorld) -> None:
        door = Door()
        groups = [where for where in world.places if where.chat_type != "dm"]
        async with running(world.connect(), door.accept):
            for number, where in enumerate(groups):
                await world.mutter(f"to others {number}", where)
                await world.say(f"to us {number}", where)
            await eventually(lambda: sum("to us" in text for text in door.texts()) == len(groups))
        for event in door.heard:
            assert _is_for_us(event) == ("to us" in event.text), event.text

    @promised
    async def test_an_answer_tells_what_it_answers(self, world: PlatformWorld) -> None:
        door, home, platform = Door(), world.places[0], world.connect()
        async with running(platform, door.accept):
            theirs = str(await world.say("a word of mine", home))
            ours = await platform.send(to(home), Outgoing(text="a word of ours"), key="k")
            if not world.service.quotes:
                assert (await heard(door, 1))[0].reply_to is None
                return
            await world.answer(ours, "to you", home)
            await world.answer(theirs, "to me", home)
            await heard(door, 3)
        quotes = [event.reply_to for event in door.heard[1:]]
        assert [(q.message_id, q.is_ours) for q in quotes if q] == [(ours, True), (theirs, False)]
        assert [q.text for q in quotes if q and q.text] in ([], ["a word of ours", "a word of mine"])

    @promised
    async def test_a_file_comes_in_as_it_was_sent(self, world: PlatformWorld) -> None:
        door, platform = Door(), world.connect()
        async with running(platform, door.accept):
            if not world.service.attaches:
                await world.say("no file", world.places[0])
                assert (await heard(door, 1))[0].attachments == ()
                return
            await world.attach([LETTER], "here it is", world.places[0])
            event = (await heard(door, 1))[0]
            assert event.text == "here it is"
            assert len(event.attachments) == 1
            file = event.attachments[0]
            assert (file.name, file.mime) == (LETTER.name, LETTER.mime)
            assert file.size in (None, len(LETTER.body))
            if not isinstance(platform, Fetches):
                assert stored_id(file.handle), "a file that is not stored yet must be there to `fetch`"
                return
            assert await platform.fetch(file, at_most=len(LETTER.body)) == LETTER.body
            assert isinstance(await outcome_of(platform.fetch(file, at_most=10)), TooLong)
            elsewhere = type(file)(handle="no-such-file")
            assert isinstance(await outcome_of(platform.fetch(elsewhere, at_most=10)), Gone)

    @promised
    async def test_a_chat_that_has_another_id_is_told_before_its_next_message(self, world: PlatformWorld) -> None:
        door = Door()
        old = next((where for where in world.places if where.chat_type == "group"), world.places[0])
        async with running(world.connect(), door.accept):
            await world.say("before", old)
            await heard(door, 1)
            new = await world.move(old)
            await world.say("after", new)
            await heard(door, 2)
        moved = [event for event in door.arrivals if isinstance(event, IdChange)]
        assert [(event.what, event.old_id, event.new_id) for event in moved] == (
            [("chat", old.chat_id, new.chat_id)] if world.service.moves else []
        )
        assert [event.source for event in door.heard] == [old, new]
        assert door.arrivals[1:-1] == moved, "it is known under its new id before anything is said there"

    @promised
    async def test_what_cannot_be_read_is_handed_on_and_passed_over(self, world: PlatformWorld) -> None:
        door, home = Door(), world.places[0]
        async with running(world.connect(), door.accept):
            await world.garble()
            await world.say("and on", home)
            await heard(door, 1)
            unread = [event for event in door.arrivals if isinstance(event, Unreadable)]
            assert len(unread) == world.service.garbles
            for event in unread:
                assert (event.platform, event.account) == (home.platform, home.account)
                assert event.raw
                assert event.reason
            await eventually(lambda: _has_nothing_left(world))
        assert door.texts() == ["and on"]


def _two_chats(world: PlatformWorld) -> list[SessionSource]:
    """The first place, and one in another chat where there is one."""
    home = world.places[0]
    others = [where for where in world.places if not is_same_chat(where, home) and where.chat_id != home.chat_id]
    return [home, *others[:1]]


def _is_for_us(event: Inbound) -> bool:
    return event.mentions_us or (event.reply_to is not None and event.reply_to.is_ours)


async def _has_nothing_left(world: PlatformWorld) -> bool:
    return await world.unacknowledged() == 0

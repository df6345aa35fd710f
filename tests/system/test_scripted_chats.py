"""Several chats at once in a scripted world: no chat waits for another, and in each everything keeps its order."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from tests.system.seeds import seeded
from tests.system.test_scripted import joined

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Inbound
from threadline.ports.platform import Outgoing, Verdict
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

ADA = Target(platform="scripted", chat_id="dm-ada")
BOB = Target(platform="scripted", chat_id="dm-bob")


class Doors:
    """Accepts what people say; an event that says `wait` is accepted only once it may be."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.accepted: list[str] = []
        self.may_end = asyncio.Event()

    async def accept(self, event: Arrival) -> Verdict:
        name = event.text if isinstance(event, Inbound) else event.dedupe_key
        self.begun.append(name)
        if name.startswith("wait"):
            await self.may_end.wait()
        self.accepted.append(name)
        return "accepted"


async def all_arrived(platform: ScriptedPlatform) -> None:
    """Returns when the platform has had what was said before: its answer comes on the same wire."""
    await platform.typing(ADA)
    await asyncio.sleep(0)


def test_a_chat_that_takes_long_holds_up_its_own_events_alone() -> None:
    async def scenario() -> None:
        doors = Doors()
        async with ScriptedChat(resend_after=60) as chat, joined(chat, doors.accept) as platform:
            chat.say("wait", user="ada")
            chat.say("and then", user="ada")
            chat.say("hello", user="bob")
            chat.say("again", user="bob")
            await chat.wait_for(lambda: len(chat.unacknowledged) == 2)
            await all_arrived(platform)
            assert doors.begun == ["wait", "hello", "again"]
            assert [key.split("/")[0] for key in chat.unacknowledged] == ["dm-ada", "dm-ada"]
            doors.may_end.set()
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert doors.accepted == ["hello", "again", "wait", "and then"]

    asyncio.run(scenario())


def test_an_id_that_changes_overtakes_nothing_and_is_overtaken_by_nothing() -> None:
    async def scenario() -> None:
        doors = Doors()
        async with ScriptedChat(resend_after=60) as chat, joined(chat, doors.accept) as platform:
            chat.say("wait", chat="room", chat_type="group")
            chat.say("hello", user="bob")
            chat.move("chat", "room", "hall")
            chat.say("here I am", chat="hall", chat_type="group")
            chat.say("again", user="bob")
            await chat.wait_for(lambda: len(chat.unacknowledged) == 4)
            await all_arrived(platform)
            assert doors.begun == ["wait", "hello"]
            doors.may_end.set()
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert doors.accepted == ["hello", "wait", "move/chat/room/hall", "here I am", "again"]

    asyncio.run(scenario())


def test_a_chat_that_ends_the_connection_costs_the_others_nothing() -> None:
    async def scenario() -> None:
        doors, refused = Doors(), asyncio.Event()

        async def accept(event: Arrival) -> Verdict:
            if isinstance(event, Inbound) and event.text == "no room" and not refused.is_set():
                refused.set()
                raise StoreUnavailable
            return await doors.accept(event)

        async with ScriptedChat(resend_after=60) as chat, joined(chat, accept):
            chat.say("wait", user="ada")
            await chat.wait_for(lambda: doors.begun)
            chat.say("no room", user="bob")
            chat.say("after it", user="bob")
            # Ada's was not yet accepted when the connection ended: it is told again.
            await chat.wait_for(lambda: doors.begun.count("wait") == 2)
            doors.may_end.set()
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert doors.accepted.count("wait") == 1
        assert [name for name in doors.accepted if name != "wait"] == ["no room", "after it"]

    asyncio.run(scenario())


def test_every_chat_keeps_its_order_however_long_things_take_and_whatever_breaks() -> None:
    rng = seeded("many chats")

    async def scenario() -> None:
        accepted: defaultdict[str, list[str]] = defaultdict(list)

        async def accept(event: Arrival) -> Verdict:
            await asyncio.sleep(rng.random() * 0.01)
            if rng.random() < 0.02:
                raise StoreUnavailable
            accepted[event.dedupe_key.partition("/")[0]].append(event.dedupe_key)
            return "accepted"

        async with ScriptedChat(resend_after=60) as chat, joined(chat, accept):
            for number in range(400):
                chat.say(str(number), user=f"user{rng.randrange(8)}")
                if rng.random() < 0.02:
                    chat.disconnect()
                await asyncio.sleep(rng.random() * 0.002)
            await chat.wait_for(lambda: not chat.unacknowledged, 60)
        for name, keys in accepted.items():
            said = [event.dedupe_key for event in chat.events if event.dedupe_key.startswith(f"{name}/")]
            assert list(dict.fromkeys(keys)) == said

    asyncio.run(scenario())


def test_whoever_waits_in_a_chat_is_told_what_is_shown_there_next_and_nowhere_else() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat, joined(chat, Doors().accept) as platform:
            await platform.send(ADA, Outgoing(text="before"), key="k0")
            ada, also_ada, bob = (
                asyncio.create_task(chat.next_message(name)) for name in ("dm-ada", "dm-ada", "dm-bob")
            )
            await asyncio.sleep(0)
            first = await platform.send(ADA, Outgoing(text="first"), key="k1")
            await platform.send(ADA, Outgoing(text="second"), key="k2")
            assert [(await one).message_id for one in (ada, also_ada)] == [first, first]
            assert not bob.done()
            await platform.send(BOB, Outgoing(text="third"), key="k3")
            assert (await bob).text == "third"

    asyncio.run(scenario())


def test_waiting_in_vain_in_a_chat_tells_how_things_stand_and_harms_nobody() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat, joined(chat, Doors().accept) as platform:
            with pytest.raises(TimeoutError, match=r"nothing in dm-ada .* 1 connected, .*shown: nothing"):
                await chat.next_message("dm-ada", 0.05)
            later = asyncio.create_task(chat.next_message("dm-ada"))
            await asyncio.sleep(0)
            await platform.send(ADA, Outgoing(text="now"), key="k")
            assert (await later).text == "now"

    asyncio.run(scenario())


def test_what_is_removed_is_seen_neither_in_its_chat_nor_among_all() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat, joined(chat, Doors().accept) as platform:
            ids = [await platform.send(ADA, Outgoing(text=text), key=text) for text in ("one", "two", "three")]
            await platform.send(BOB, Outgoing(text="four"), key="four")
            chat.remove(ids[1])
            assert (chat.texts("dm-ada"), chat.texts()) == (["one", "three"], ["one", "three", "four"])
            await platform.edit(ADA, ids[0], Outgoing(text="1"))
            assert (chat.texts("dm-ada"), chat.texts("dm-bob"), chat.texts("nowhere")) == (["1", "three"], ["four"], [])

    asyncio.run(scenario())

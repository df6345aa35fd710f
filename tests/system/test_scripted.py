"""What people say in a scripted chat reaches a gateway: everything, in order, acknowledged only once it was accepted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.system.seeds import seeded

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target, target_of
from threadline.model.inbound import Arrival, Attachment, Inbound, Quote, Unreadable
from threadline.ports.platform import Accept, Button, Outgoing, Unauthorized, Verdict
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

# A gateway that is as small as can be: it says what it accepted, and with `hang` never comes back from accepting.
_GATEWAY = """
import asyncio, sys
from threadline.testing.scripted import ScriptedPlatform

async def accept(event):
    print(event.dedupe_key, flush=True)
    if sys.argv[2] == "hang":
        await asyncio.Event().wait()
    return "accepted"

asyncio.run(ScriptedPlatform(sys.argv[1]).run(accept, asyncio.Event()))
"""


class Gateway:
    """Accepts events and remembers them."""

    def __init__(self) -> None:
        self.accepted: list[Inbound] = []
        self.unreadable: list[Unreadable] = []

    async def accept(self, event: Arrival) -> Verdict:
        if isinstance(event, Unreadable):
            self.unreadable.append(event)
            return "parked"
        assert isinstance(event, Inbound)
        self.accepted.append(event)
        return "accepted"

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.accepted]

    @property
    def keys(self) -> list[str]:
        """The keys in the order in which they first came."""
        return list(dict.fromkeys(event.dedupe_key for event in self.accepted))


@asynccontextmanager
async def joined(chat: ScriptedChat, accept: Accept) -> AsyncIterator[ScriptedPlatform]:
    """A platform that takes part in the chat, until the end of the block."""
    platform = ScriptedPlatform(chat.address, capabilities=chat.capabilities)
    ready = asyncio.Event()
    running = asyncio.create_task(platform.run(accept, ready))
    await asyncio.wait_for(ready.wait(), 10)
    try:
        yield platform
    finally:
        await platform.close()
        await asyncio.wait_for(running, 10)


def test_every_kind_of_event_arrives_with_all_that_it_says() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        async with ScriptedChat() as chat, joined(chat, gateway.accept) as platform:
            first = chat.say("hello", user="bob", user_name="Bob")
            await chat.wait_for(lambda: gateway.accepted)
            to = target_of(gateway.accepted[0].source)
            ours = await platform.send(to, Outgoing(text="yes?", buttons=(Button("Go", "go"),)), key="k")
            chat.say("look", chat="room", chat_type="group", thread="t", mention=False, forward=True, from_bot=True)
            chat.say("pair", reply_to=ours, album="a", attachments=[Attachment(handle="f")])
            chat.say("this one", reply_to=first)
            chat.edit(first, "hello!")
            chat.edit(first, "hello!!")
            chat.delete(first)
            chat.press(ours, "go", user="bob")
            await chat.wait_for(lambda: not chat.unacknowledged)

        hello, look, pair, this, edit, edit_again, gone, pressed = gateway.accepted
        assert (hello.source.chat_id, hello.source.user_id, hello.source.user_name) == ("dm-bob", "bob", "Bob")
        assert hello.mentions_us
        assert (look.source.chat_id, look.source.chat_type, look.source.thread_id) == ("room", "group", "t")
        assert (look.mentions_us, look.is_forward, look.from_bot) == (False, True, True)
        assert pair.reply_to == Quote(message_id=ours, text="yes?", is_ours=True)
        assert (pair.album_id, pair.attachments) == ("a", (Attachment(handle="f"),))
        assert this.reply_to == Quote(message_id=first, text="hello")
        assert [(one.kind, one.message_id, one.text) for one in (edit, edit_again, gone)] == [
            ("edit", first, "hello!"),
            ("edit", first, "hello!!"),
            ("delete", first, ""),
        ]
        assert (pressed.kind, pressed.message_id, pressed.button) == ("button", ours, "go")
        assert len(set(gateway.keys)) == 8

    asyncio.run(scenario())


def test_an_event_is_acknowledged_only_after_it_was_accepted() -> None:
    async def scenario() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def accept(event: Arrival) -> Verdict:
            begun.set()
            await may_end.wait()
            return "accepted"

        async with ScriptedChat(resend_after=60) as chat, joined(chat, accept) as platform:
            chat.say("one")
            chat.say("two")
            await begun.wait()
            # An acknowledgement that had left before this would have arrived before it.
            await platform.typing(Target(platform="scripted", chat_id="home"))
            assert len(chat.unacknowledged) == 2
            may_end.set()
            await chat.wait_for(lambda: not chat.unacknowledged)

    asyncio.run(scenario())


def test_what_could_not_be_stored_is_told_again_and_nothing_overtakes_it() -> None:
    async def scenario() -> list[str]:
        gateway = Gateway()
        failures = iter(range(3))

        async def accept(event: Arrival) -> Verdict:
            if next(failures, None) is not None:
                raise StoreUnavailable
            return await gateway.accept(event)

        async with ScriptedChat(resend_after=60) as chat, joined(chat, accept):
            for text in "abc":
                chat.say(text)
            await chat.wait_for(lambda: not chat.unacknowledged)
        return gateway.texts

    assert asyncio.run(scenario()) == ["a", "b", "c"]


@pytest.mark.parametrize("hang_up", [False, True], ids=["on the same wire", "after a new connection"])
def test_an_event_whose_acknowledgement_was_lost_is_told_again_under_the_same_key(hang_up: bool) -> None:
    async def scenario() -> None:
        gateway = Gateway()
        async with ScriptedChat(resend_after=60 if hang_up else 0.05) as chat, joined(chat, gateway.accept):
            chat.lose_acks(1)
            chat.say("once")
            await chat.wait_for(lambda: gateway.accepted)
            if hang_up:
                chat.disconnect()
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert gateway.texts == ["once", "once"]
        assert len(gateway.keys) == 1
        assert chat.events[0].times_told == 2

    asyncio.run(scenario())


def test_a_platform_that_repeats_an_event_repeats_its_key() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        async with ScriptedChat() as chat, joined(chat, gateway.accept):
            message = chat.say("hi")
            chat.say("hi", message_id=message)
            chat.say("hi", message_id=message, dedupe_key="another")
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert [event.dedupe_key for event in gateway.accepted] == ["dm-ada/u1", "dm-ada/u1", "another"]

    asyncio.run(scenario())


def test_nothing_is_lost_and_nothing_overtaken_when_the_wire_breaks_again_and_again() -> None:
    rng = seeded("broken wires")

    async def scenario() -> None:
        gateway = Gateway()
        async with ScriptedChat() as chat, joined(chat, gateway.accept):
            for number in range(200):
                chat.say(str(number))
                if rng.random() < 0.1:
                    chat.disconnect()
                await asyncio.sleep(rng.random() * 0.005)
            await chat.wait_for(lambda: not chat.unacknowledged, 30)
        assert gateway.keys == [event.dedupe_key for event in chat.events]

    asyncio.run(scenario())


def test_what_was_said_while_the_chat_was_away_arrives_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(address: str) -> None:
        gateway = Gateway()
        async with ScriptedChat(address) as chat, joined(chat, gateway.accept):
            await chat.go_away()
            assert chat.connected == 0
            chat.say("hello?")
            await chat.come_back()
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert gateway.texts == ["hello?"]

    asyncio.run(scenario("127.0.0.1:0"))
    asyncio.run(scenario(f"unix:{tmp_path}/chat"))


def test_a_gateway_that_was_killed_before_it_acknowledged_is_told_again() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat:
            chat.say("before anyone is there")
            async with process(chat, "hang") as gateway:
                assert await gateway.readline() == b"dm-ada/u1\n"
            await chat.wait_for(lambda: not chat.connected)
            assert chat.unacknowledged == ["dm-ada/u1"]
            chat.say("while nobody is there")
            async with process(chat, "go") as gateway:
                assert [await gateway.readline() for _ in range(2)] == [b"dm-ada/u1\n", b"dm-ada/u2\n"]
                await chat.wait_for(lambda: not chat.unacknowledged)

    asyncio.run(scenario())


@asynccontextmanager
async def process(chat: ScriptedChat, what: str) -> AsyncIterator[asyncio.StreamReader]:
    """A gateway in a process of its own, killed at the end of the block; what it prints."""
    command = (sys.executable, "-c", _GATEWAY, chat.address, what)
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert running.stdout is not None
    try:
        yield running.stdout
    finally:
        os.kill(running.pid, signal.SIGKILL)
        await running.wait()


def test_who_came_last_is_told_and_the_other_can_still_speak() -> None:
    async def scenario() -> None:
        old, new = Gateway(), Gateway()
        async with ScriptedChat() as chat, joined(chat, old.accept) as stale:
            async with joined(chat, new.accept):
                chat.say("who hears me?")
                await chat.wait_for(lambda: not chat.unacknowledged)
                to = target_of(new.accepted[0].source)
                await stale.send(to, Outgoing(text="not I, but I am here"), key="k")
            assert (old.texts, new.texts) == ([], ["who hears me?"])
            assert chat.texts("dm-ada") == ["not I, but I am here"]
            chat.say("and now?")
            await chat.wait_for(lambda: old.texts == ["and now?"])

    asyncio.run(scenario())


def test_what_can_not_be_read_is_handed_on_as_it_came_and_acknowledged() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        async with ScriptedChat() as chat, joined(chat, gateway.accept):
            chat.happen(b'{"kind":"message","key":7}')
            chat.happen(b'"a poem"')
            chat.say("hi")
            chat.happen(b'{"kind":"joined","key":"j","message":"1","chat":"c","user":"7","at":"2026-01-05T12:00:00Z"}')
            await chat.wait_for(lambda: not chat.unacknowledged)
        assert gateway.texts == ["hi"]
        assert [event.raw for event in gateway.unreadable] == ['{"kind":"message","key":7}', '"a poem"']

    asyncio.run(scenario())


def test_accepting_may_wait_for_an_answer_that_comes_on_the_same_wire() -> None:
    async def scenario() -> None:
        platform: ScriptedPlatform

        async def accept(event: Arrival) -> Verdict:
            assert isinstance(event, Inbound)
            await platform.send(target_of(event.source), Outgoing(text="full"), key=event.dedupe_key)
            return "refused"

        async with ScriptedChat() as chat, joined(chat, accept) as platform:
            chat.say("hi")
            await chat.wait_for(lambda: not chat.unacknowledged)
            assert chat.texts() == ["full"]

    asyncio.run(scenario())


def test_who_is_not_known_is_told_so_and_ends() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat:
            chat.refuses_logins = True
            ready = asyncio.Event()
            with pytest.raises(Unauthorized):
                await asyncio.wait_for(ScriptedPlatform(chat.address).run(Gateway().accept, ready), 10)
            assert not ready.is_set()

    asyncio.run(scenario())


def test_a_fault_in_accepting_is_not_hidden() -> None:
    async def scenario() -> None:
        async def accept(event: Arrival) -> Verdict:
            raise ZeroDivisionError

        async with ScriptedChat() as chat:
            chat.say("hi")
            with pytest.raises(ExceptionGroup) as raised:
                await asyncio.wait_for(ScriptedPlatform(chat.address).run(accept, asyncio.Event()), 10)
            assert raised.group_contains(ZeroDivisionError)
            assert chat.unacknowledged

    asyncio.run(scenario())


def test_a_platform_that_is_cancelled_leaves_the_chat() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat:
            ready = asyncio.Event()
            running = asyncio.create_task(ScriptedPlatform(chat.address).run(Gateway().accept, ready))
            await ready.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await chat.wait_for(lambda: not chat.connected)

    asyncio.run(scenario())


def test_waiting_in_vain_tells_how_things_stand() -> None:
    async def scenario() -> None:
        async with ScriptedChat() as chat:
            chat.say("anyone?")
            with pytest.raises(TimeoutError, match=r"0 connected, unacknowledged: .*dm-ada/u1.*shown: nothing"):
                await chat.wait_for(chat.messages, 0.1)

    asyncio.run(scenario())

"""What is stored to be sent is sent once, in order, and what can't be is listed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.gateway.broken import begun, reply_to, streamed
from tests.gateway.world import Open, awaited, settings_for

from threadline.clock import to_instant
from threadline.gateway.outbox import Outbox
from threadline.gateway.supervisor import Supervisor
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival
from threadline.ports.agent import Event, Text, Turn
from threadline.ports.platform import (
    BadMarkup,
    Button,
    Gone,
    Outgoing,
    Platform,
    PlatformError,
    TooLong,
    Transient,
    Verdict,
)
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import Delivery, DeliverySummary, NewDelivery
from threadline.store.work.turn_end import Finish
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import gateway as gateway_texts

MARK = gateway_texts.MAY_BE_REPEATED
ACCOUNT = ("scripted", "main")


class PostOffice:
    """An outbox at work, on a clock that stands still."""

    def __init__(
        self,
        store: GatewayStore,
        outbox: Outbox,
        platform: Platform,
        supervisor: Supervisor,
        chat: ScriptedChat,
        clock: FakeClock,
    ) -> None:
        self.store = store
        self.outbox = outbox
        self._platform = platform
        self._supervisor = supervisor
        self.chat = chat
        self.clock = clock

    def open(self) -> None:
        """Begins to send."""
        self.outbox.connect(self._platform)
        self._supervisor.keep("outbox", self.outbox.run)

    async def post(self, *texts: str, chat: str = "dm-ada") -> None:
        """Stores something to send."""
        for text in texts:
            target = Target(platform="scripted", chat_id=chat)
            await self.store.outbox.enqueue(NewDelivery(delivery_id=f"{chat}.{text[:20]}", target=target, text=text))
        self.outbox.wake()

    def shown(self, chat: str = "dm-ada") -> list[str]:
        return self.chat.texts(chat)

    async def shows(self, *texts: str, chat: str = "dm-ada") -> None:
        """Waits until the chat shows exactly these and nothing is on its way."""
        await self.chat.wait_for(lambda: self.shown(chat) == list(texts) and self.outbox.is_idle)

    async def line(self, place: int = 0) -> DeliverySummary:
        """What is known of a delivery, counted from the oldest."""
        return (await self.store.outbox.list_page())[::-1][place]

    async def comes_to(self, state: str, attempts: int, place: int = 0) -> DeliverySummary:
        """Waits until a delivery is in that state after so many attempts."""
        while True:
            line = await self.line(place)
            if (line.state, line.attempts) == (state, attempts) and self.outbox.is_idle:
                return line
            await asyncio.sleep(0.01)

    def later(self, **time: float) -> None:
        """Time passes."""
        self.clock.advance(timedelta(**time))
        self.outbox.wake()

    async def due(self) -> list[Delivery]:
        """Takes what is due now, as another gateway would."""
        return await self.store.outbox.claim([ACCOUNT], owner="serve:other", lease=10**9, limit=10)


OpenOffice = Callable[..., AbstractAsyncContextManager[PostOffice]]


@pytest.fixture
def office(location: str) -> OpenOffice:
    """`async with office(…)`: an outbox on a fresh database, connected to a chat."""

    @asynccontextmanager
    async def opened(
        *,
        is_open: bool = True,
        kind: type[ScriptedPlatform] = ScriptedPlatform,
        settings: dict[str, Any] | None = None,
        **capabilities: object,
    ) -> AsyncIterator[PostOffice]:
        can = msgspec.structs.replace(ALL_CAPABILITIES, **capabilities)
        clock, supervisor = FakeClock(), Supervisor()
        async with ScriptedChat(capabilities=can) as chat, await GatewayStore.open(location, clock=clock) as store:
            platform = kind(chat.address, capabilities=can)
            wanted = settings_for(ScriptedAgent(), **{"poll_seconds": 0.05} | (settings or {}))
            outbox = Outbox(store, wanted, supervisor, [platform], lambda: False)
            ready = asyncio.Event()
            supervisor.start("platform", platform.run(_takes_nothing, ready))
            await ready.wait()
            here = PostOffice(store, outbox, platform, supervisor, chat, clock)
            if is_open:
                here.open()
            yield here
            await supervisor.stop()

    return opened


async def _takes_nothing(_event: Arrival) -> Verdict:
    raise AssertionError("nobody speaks here")


@awaited
async def test_what_is_posted_is_sent_in_order_and_kept_as_sent(office: OpenOffice) -> None:
    async with office() as here:
        await here.post("one", "two", "three")
        await here.shows("one", "two", "three")
        line = await here.comes_to("sent", 1, place=2)
        assert line.external_id == here.chat.messages()[2].message_id
        assert line.text == ""


class Hanging(ScriptedPlatform):
    """One that does not come back from its first send, although the chat shows the message."""

    is_free = False

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        message_id = await super().send(to, message, key=key)
        if not self.is_free:
            self.is_free = True
            await asyncio.Event().wait()
        return message_id


@awaited
async def test_a_send_that_never_comes_back_is_in_doubt_and_holds_nothing(office: OpenOffice) -> None:
    async with office(kind=Hanging, settings={"call_seconds": 0.1}, idempotent_send=False) as here:
        await here.post("one", "two")
        line = await here.comes_to("pending", 1)
        assert line.is_doubtful
        here.later(minutes=1)
        await here.shows("one", MARK.format(text="one"), "two")


class Deaf(ScriptedPlatform):
    """One that never comes back from a send."""

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError


@awaited
async def test_an_account_that_takes_nothing_keeps_no_other_waiting(office: OpenOffice) -> None:
    async with office(is_open=False, settings={"sends_at_once": 2}) as here:
        here.outbox.connect(Deaf(here.chat.address, account="deaf"))
        for number in range(5):
            target = Target(platform="scripted", account="deaf", chat_id=f"chat-{number}")
            await here.store.outbox.enqueue(NewDelivery(delivery_id=f"deaf.{number}", target=target, text="hello"))
        here.open()
        await here.post("one", "two")
        await here.chat.wait_for(lambda: here.shown() == ["one", "two"])
        assert len(here.outbox.flying) <= 3


@awaited
async def test_the_same_id_is_posted_once(office: OpenOffice) -> None:
    async with office() as here:
        await here.post("one")
        await here.shows("one")
        await here.post("one", "two")
        await here.shows("one", "two")


@awaited
async def test_a_platform_that_asks_us_to_wait_is_waited_for_and_order_is_kept(office: OpenOffice) -> None:
    async with office() as here:
        here.chat.rate_limit_next(30)
        await here.post("one", "two")
        await here.comes_to("pending", 1)
        here.later(seconds=29)
        assert await here.due() == []
        # Another chat need not wait.
        await here.post("hello", chat="dm-bob")
        await here.shows("hello", chat="dm-bob")
        assert here.shown() == []
        here.later(seconds=2)
        await here.shows("one", "two")


@awaited
async def test_what_did_not_arrive_is_tried_again_with_growing_pauses(office: OpenOffice) -> None:
    async with office() as here:
        here.chat.fail_next(Transient("not now"), 3)
        await here.post("one")
        for attempt, seconds in ((1, 2), (2, 4), (3, 8)):
            await here.comes_to("pending", attempt)
            here.later(seconds=seconds - 0.5)
            assert await here.due() == []
            here.later(seconds=0.5)
        await here.shows("one")
        assert (await here.comes_to("sent", 4)).is_doubtful is False


@awaited
async def test_what_may_have_arrived_is_sent_again_and_marked(office: OpenOffice) -> None:
    async with office() as here:
        here.chat.swallow_next()
        await here.post("one", "two")
        assert (await here.comes_to("pending", 1)).is_doubtful
        here.later(seconds=5)
        await here.shows("one", MARK.format(text="one"), "two")
        await here.comes_to("unknown", 2)
        await here.comes_to("sent", 1, place=1)


@pytest.mark.parametrize("text", ["Shall I?", "Shall I? " * 12], ids=["in one part", "in several parts"])
@awaited
async def test_a_question_that_may_have_arrived_can_still_be_answered(office: OpenOffice, text: str) -> None:
    yes = Button(label="Yes", value="y")
    async with office(max_length=120) as here:
        here.chat.swallow_next()
        target = Target(platform="scripted", chat_id="dm-ada")
        await here.store.outbox.enqueue(NewDelivery(delivery_id="q", target=target, text=text, buttons=(yes,)))
        here.outbox.wake()
        await here.comes_to("pending", 1)
        here.later(seconds=5)
        await here.comes_to("unknown", 2)
        _, *again = here.chat.messages("dm-ada")
        assert [message.buttons for message in again] == [()] * (len(again) - 1) + [(yes,)]


class Breaking(ScriptedPlatform):
    """One that fails once with an error of its own, after the message has arrived."""

    is_whole = False

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        message_id = await super().send(to, message, key=key)
        if not self.is_whole:
            self.is_whole = True
            raise KeyError("message_id")
        return message_id


@awaited
async def test_an_error_that_says_nothing_leaves_it_in_doubt(office: OpenOffice) -> None:
    async with office(kind=Breaking) as here:
        await here.post("one", "two")
        line = await here.comes_to("pending", 1)
        assert line.is_doubtful
        assert "message_id" in (line.error or "")
        here.later(seconds=5)
        await here.shows("one", MARK.format(text="one"), "two")


@awaited
async def test_where_a_key_shows_one_message_nothing_is_marked_or_doubled(office: OpenOffice) -> None:
    async with office(idempotent_send=True) as here:
        here.chat.swallow_next()
        await here.post("one", "two")
        await here.comes_to("pending", 1)
        here.later(seconds=5)
        await here.shows("one", "two")
        await here.comes_to("sent", 2)


@awaited
async def test_a_mark_that_makes_a_text_too_long_comes_in_a_part_of_its_own(office: OpenOffice) -> None:
    text = "word " * 39 + "end."
    async with office(max_length=200) as here:
        here.chat.swallow_next()
        await here.post(text)
        await here.comes_to("pending", 1)
        here.later(seconds=5)
        await here.comes_to("unknown", 2)
        first, *again = here.shown()
        assert first == text
        assert " ".join(again).split() == MARK.format(text=text).split()


@pytest.mark.parametrize("error", [Gone("the chat is gone"), TooLong("too long"), PlatformError("no")], ids=repr)
@awaited
async def test_what_can_never_arrive_is_parked_and_the_next_goes_on(office: OpenOffice, error: PlatformError) -> None:
    async with office() as here:
        here.chat.fail_next(error)
        await here.post("one", "two")
        await here.shows("two")
        line = await here.comes_to("parked", 1)
        assert line.text == "one"
        assert line.error == str(error)
        await here.store.outbox.retry(line.pk)
        here.outbox.wake()
        await here.shows("two", "one")


@awaited
async def test_a_text_beyond_the_limit_of_the_platform_is_parked(office: OpenOffice) -> None:
    async with office(max_length=100) as here:
        await here.post("x" * 101, "short")
        await here.shows("short")
        assert "100" in str((await here.comes_to("parked", 1)).error)


@awaited
async def test_markup_that_the_platform_cannot_read_is_sent_plain_once(office: OpenOffice) -> None:
    async with office() as here:
        here.chat.fail_next(BadMarkup("what?"))
        await here.post("some *stars* here")
        await here.comes_to("sent", 1)
        (text,) = here.shown()
        assert "stars" in text


@awaited
async def test_nothing_is_held_longer_than_ten_minutes(office: OpenOffice) -> None:
    async with office() as here:
        here.chat.fail_next(Transient("not now"), 100)
        await here.post("one")
        for attempt in range(1, 9):
            await here.comes_to("pending", attempt)
            here.later(seconds=70)
        line = await here.comes_to("parked", 9)
        assert line.error == "not now"
        assert here.shown() == []


@awaited
async def test_what_is_parked_in_doubt_is_marked_when_it_is_sent_after_all(office: OpenOffice) -> None:
    async with office() as here:
        here.chat.swallow_next()
        here.chat.hold("calls")
        await here.post("one")
        await here.chat.wait_for(lambda: here.chat.held)
        here.clock.advance(timedelta(minutes=11))
        here.chat.release()
        line = await here.comes_to("parked", 1)
        assert here.shown() == ["one"]
        await here.store.outbox.retry(line.pk)
        here.outbox.wake()
        await here.shows("one", MARK.format(text="one"))


@awaited
async def test_what_a_dead_gateway_was_sending_is_sent_again_and_marked(office: OpenOffice) -> None:
    async with office(is_open=False) as here:
        await here.post("one", "two")
        (delivery,) = await here.due()
        await here.outbox.recover()
        assert (await here.line()).state == "sending"
        await here.store.leases.expire_owned_by("serve:%")
        await here.outbox.recover()
        line = await here.line()
        assert (line.state, line.is_doubtful) == ("pending", True)
        # Whoever was thought dead and is not has nothing to say any more.
        assert not await here.store.outbox.mark_sent(delivery, "m1", owner="serve:other")
        (again,) = await here.due()
        assert not await here.store.outbox.mark_sent(delivery, "m1", owner="serve:other")
        assert await here.store.outbox.mark_sent(again, "m2", owner="serve:other", may_be_repeated=True)
        assert (await here.line()).external_id == "m2"


@awaited
async def test_a_delivery_that_gateways_die_of_is_parked_after_ten_minutes(office: OpenOffice) -> None:
    async with office(is_open=False) as here:
        await here.post("one")
        # Down for long after the first attempt: it gets another.
        await here.due()
        here.later(minutes=30)
        await here.store.leases.expire_owned_by("serve:%")
        await here.outbox.recover()
        assert (await here.line()).state == "pending"
        await here.due()
        await here.store.leases.expire_owned_by("serve:%")
        await here.outbox.recover()
        line = await here.line()
        assert (line.state, line.is_doubtful) == ("parked", True)


@awaited
async def test_ten_minutes_count_from_the_end_of_an_answer_not_from_its_beginning(office: OpenOffice) -> None:
    async with office(is_open=False) as here:
        claimed = await begun(here.store)
        await streamed(here.store, here.chat, claimed, "a long")
        here.later(minutes=30)
        held, at = claimed.held, to_instant(here.clock.now())
        reply = reply_to(claimed, "a long story")
        await here.store.turns.finish(
            Finish(
                held=held,
                session_id=claimed.session.session_id,
                outcome="answered",
                at=at,
                streamed=reply.text,
                replies=(reply,),
            )
        )
        here.chat.fail_next(Transient("not now"), on="edit")
        here.open()
        await here.comes_to("pending", 1)
        here.later(seconds=5)
        await here.shows("a long story")


@awaited
async def test_a_send_that_takes_longer_than_a_lease_is_still_one(opened: Open) -> None:
    async def speaks(_turn: Turn) -> AsyncIterator[Event]:
        yield Text("patience")

    async with opened(ScriptedAgent(speaks), lease_seconds=0.6, chat=ScriptedChat()) as here:
        here.chat.hold("answers")
        here.chat.say("hello")
        await here.shows("patience")
        await asyncio.sleep(1.5)
        here.chat.release()
        here.chat.say("bye")
        await here.shows("patience", "patience")
        await here.gateway.idle()
        assert {line.state for line in await here.store.outbox.list_page()} == {"sent"}

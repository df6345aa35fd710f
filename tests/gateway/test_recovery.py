"""What a gateway finds that another left behind, and what becomes of a turn that is taken from under it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.gateway.broken import DEAD, accepted, begun, streamed
from tests.gateway.talk import echo, eventually, heard
from tests.gateway.world import Open, Running, awaited, settings_for

from threadline.gateway.answering import Answering
from threadline.gateway.composing import Composer
from threadline.gateway.outbox import Outbox
from threadline.gateway.supervisor import Supervisor
from threadline.model.turn import QueueKind, StopReason
from threadline.ports.agent import Event, Text, ToolCall, ToolResult, Turn
from threadline.ports.platform import Capabilities
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import gateway as texts

CALL = ToolCall("c1", "look", "{}")
LEASE = 0.6


async def silent(turn: Turn) -> AsyncIterator[Event]:
    """Says one word and then nothing more, whoever asks."""
    yield Text(f"Well, {turn.text}")
    await asyncio.Event().wait()


async def stubborn(_turn: Turn) -> AsyncIterator[Event]:
    """Is at a tool, and does not hear."""
    yield Text("Let me see. ")
    yield CALL
    await asyncio.Event().wait()


async def fates(here: Running) -> list[str | None]:
    """What became of the messages, oldest first."""
    return [line.fate for line in (await here.store.maintenance.list_messages())[::-1]]


async def states(here: Running) -> list[str]:
    """What became of the deliveries, oldest first."""
    await eventually(lambda: _is_quiet(here))
    return [line.state for line in (await here.store.outbox.list_page())[::-1]]


async def _is_quiet(here: Running) -> bool:
    return not await here.store.outbox.has_pending_on("scripted") and here.gateway.outbox.is_idle


@awaited
async def test_a_turn_that_broke_off_runs_again_in_the_message_that_it_had_begun(opened: Open, location: str) -> None:
    chat = ScriptedChat()
    async with await GatewayStore.open(location) as store:
        message_id = await streamed(store, chat, await begun(store), "you sa")
    agent = ScriptedAgent(echo)
    async with opened(agent, chat=chat) as here:
        await here.shows("you said: hello")
        assert await states(here) == ["sent"]
        assert [message.message_id for message in chat.messages()] == [message_id]
        assert [turn.attempt for turn in agent.turns] == [2]


@awaited
async def test_an_answer_that_may_not_run_again_is_closed_in_the_message_that_it_had_begun(
    opened: Open, location: str
) -> None:
    chat = ScriptedChat()
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store, replay="until_tool", journal=[Text("Let me see. "), CALL])
        message_id = await streamed(store, chat, claimed, "Let me")
    async with opened(ScriptedAgent(echo), chat=chat) as here:
        # The gateway recovers before it is connected: what it can't edit yet it must not drop.
        await here.shows(f"Let me see. \n\n{texts.BROKEN_OFF}")
        assert await states(here) == ["sent"]
        assert [message.message_id for message in chat.messages()] == [message_id]
        assert await fates(here) == ["interrupted"]
        assert await here.transcript() == [
            ("user", "hello"),
            ("assistant", "Let me see. "),
            ("tool", texts.TOOL_UNKNOWN),
        ]


@awaited
async def test_a_long_answer_that_broke_off_is_cut_for_a_platform_that_is_not_there_yet(
    opened: Open, location: str
) -> None:
    said = " ".join(f"word{number}" for number in range(200))
    async with await GatewayStore.open(location) as store:
        await begun(store, replay="never", journal=[Text(said)])
    chat = ScriptedChat(capabilities=Capabilities(max_length=300))
    async with opened(ScriptedAgent(echo), chat=chat) as here:
        await chat.wait_for(lambda: " ".join(here.texts()).split() == f"{said} {texts.BROKEN_OFF}".split())
        assert set(await states(here)) == {"sent"}


@pytest.mark.parametrize(("text", "lane"), [("/help", "control"), ("/undo", "session")])
@awaited
async def test_a_long_answer_to_a_command_is_cut_for_a_platform_that_is_not_there_yet(
    opened: Open, location: str, text: str, lane: QueueKind
) -> None:
    async with await GatewayStore.open(location, clock=FakeClock()) as store:
        await accepted(store, text, lane=lane)
    chat = ScriptedChat(capabilities=Capabilities(max_length=20))
    async with opened(ScriptedAgent(echo), chat=chat) as here:
        await here.shown(2)
        assert max(map(len, here.texts())) <= 20
        assert set(await states(here)) == {"sent"}


@awaited
async def test_a_beginning_that_may_have_arrived_is_told_again_whole_and_marked(opened: Open, location: str) -> None:
    chat = ScriptedChat()
    async with await GatewayStore.open(location) as store:
        await streamed(store, chat, await begun(store), "you sa", is_id_kept=False)
    async with opened(ScriptedAgent(echo), chat=chat) as here:
        await here.shows("you sa", texts.MAY_BE_REPEATED.format(text="you said: hello"))
        assert await states(here) == ["unknown"]


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["at once", "streamed"])
@awaited
async def test_where_a_key_shows_one_message_such_a_beginning_is_brought_to_its_end(
    opened: Open, location: str, pause: float
) -> None:
    async def answers(turn: Turn) -> AsyncIterator[Event]:
        yield Text("you said: ")
        await asyncio.sleep(pause)
        yield Text(turn.text)

    chat = ScriptedChat(capabilities=msgspec.structs.replace(ALL_CAPABILITIES, idempotent_send=True))
    async with await GatewayStore.open(location) as store:
        message_id = await streamed(store, chat, await begun(store), "you sa", is_id_kept=False)
    async with opened(ScriptedAgent(answers), chat=chat, stream_after_seconds=0.05) as here:
        await here.shows("you said: hello")
        assert await states(here) == ["sent"]
        assert [message.message_id for message in chat.messages()] == [message_id]


@awaited
async def test_an_answer_whose_message_somebody_deleted_gets_another(opened: Open, location: str) -> None:
    chat = ScriptedChat()
    async with await GatewayStore.open(location) as store:
        chat.remove(await streamed(store, chat, await begun(store), "you sa"))
    chat.swallow_next()
    async with opened(ScriptedAgent(echo), chat=chat) as here:
        # Of that one nobody heard whether it arrived.
        await here.shows("you said: hello", texts.MAY_BE_REPEATED.format(text="you said: hello"))
        assert await states(here) == ["unknown"]


@pytest.mark.parametrize(("stop", "notice"), [("stop", texts.STOPPED), ("interrupt", texts.INTERRUPTED)])
@pytest.mark.parametrize("is_released", [False, True], ids=["held", "waiting"])
@awaited
async def test_what_its_people_stopped_does_not_run_again(
    opened: Open, location: str, stop: StopReason, notice: str, is_released: bool
) -> None:
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store)
        if is_released:
            await store.turns.release(claimed.lease, claimed.session_pk)
        assert await store.turns.request_stop(claimed.session.session_id, stop)
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await here.shows(notice)
        assert await fates(here) == ["interrupted"]
        assert not agent.turns


@pytest.mark.parametrize("is_released", [False, True], ids=["held", "waiting"])
@awaited
async def test_a_message_whose_session_was_deleted_gets_its_fate_all_the_same(
    opened: Open, location: str, is_released: bool
) -> None:
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store)
        if is_released:
            await store.turns.release(claimed.lease, claimed.session_pk)
        await store.delete_session(claimed.session.session_id)
    async with opened(ScriptedAgent(echo)) as here:
        assert await fates(here) == ["dropped"]
        assert await states(here) == []


@awaited
async def test_however_much_was_left_behind_is_taken_up_at_once(opened: Open, location: str) -> None:
    people = [f"p{number}" for number in range(45)]
    async with await GatewayStore.open(location) as store:
        for user in people:
            await begun(store, user=user)
    async with opened(ScriptedAgent(echo), lease_seconds=3600.0, turns_per_platform=100) as here:
        for user in people:
            await here.shows("you said: hello", chat=f"dm-{user}")


@awaited
async def test_what_was_said_is_kept_though_the_agent_falls_silent(opened: Open) -> None:
    async with opened(ScriptedAgent(silent, replay="never"), lease_seconds=3600.0) as here:
        here.chat.say("hello")

        async def is_kept() -> bool:
            await here.store.leases.expire_owned_by("serve:%")
            taken = await here.store.turns.take_over(DEAD, ["scripted"], 3_600_000_000)
            return [_text(one) for turn in taken for one in turn.journal] == ["Well, hello"]

        await heard(here)
        await here.chat.wait_for(lambda: here.gateway.turns.busy)
        await asyncio.sleep(0.2)
        assert await is_kept()


def _text(journalled: str) -> str:
    return msgspec.json.decode(journalled, type=Text).text


@awaited
async def test_a_turn_that_was_claimed_while_leases_were_renewed_is_not_lost(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("hello")
        await here.chat.wait_for(lambda: agent.turns)
        here.gateway.turns.on_renewed((), ())
        await asyncio.sleep(0)
        agent.answer("still here")
        await here.shows("still here")


@awaited
async def test_a_turn_that_was_taken_away_writes_nothing_and_is_answered_once(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, lease_seconds=LEASE) as here:
        here.chat.say("hello")
        await here.chat.wait_for(lambda: agent.turns)
        here.gateway.turns.on_renewed(here.gateway.turns.leases, ())
        # Nobody renews it any more, so it is found when its lease has ended.
        await here.chat.wait_for(lambda: len(agent.turns) == 2)
        agent.answer("in time")
        await here.shows("in time")
        assert await here.transcript() == [("user", "hello"), ("assistant", "in time")]


@awaited
async def test_a_stop_outlives_the_end_of_the_gateway(opened: Open, location: str) -> None:
    async with opened(ScriptedAgent(stubborn)) as here:
        here.chat.say("hello")
        await here.chat.wait_for(lambda: here.gateway.turns.busy)
        await asyncio.sleep(0.1)
        here.chat.say("/stop")
        await heard(here)
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        assert (await fates(here))[0] == "interrupted"
        assert not agent.turns


@awaited
async def test_a_stop_counts_before_the_agent_has_begun(location: str) -> None:
    settings, supervisor = settings_for(ScriptedAgent(silent)), Supervisor()
    async with await GatewayStore.open(location) as store:
        outbox = Outbox(store, settings, supervisor, [], lambda: False)
        answering = Answering(Composer(store, settings, outbox), await begun(store), supervisor)
        answering.stop("stop")
        await answering.run()
        assert [line.fate for line in await store.maintenance.list_messages()] == ["interrupted"]
        await supervisor.stop()


@awaited
async def test_a_gateway_that_ends_gives_back_what_may_run_again(opened: Open) -> None:
    chat = ScriptedChat()
    async with opened(ScriptedAgent(silent), chat=chat) as here:
        here.chat.say("hello")
        await here.chat.wait_for(lambda: here.gateway.turns.busy)
    async with opened(ScriptedAgent(echo)) as here:
        await here.shows("you said: hello")


@awaited
async def test_a_streamed_answer_does_not_overtake_what_waits_in_its_chat(opened: Open) -> None:
    async def answers(turn: Turn) -> AsyncIterator[Event]:
        yield Text(f"about {turn.text}")
        if turn.text == "two":
            await asyncio.sleep(1.0)

    async with opened(ScriptedAgent(answers), when_busy="queue", stream_after_seconds=0.05) as here:
        here.chat.rate_limit_next(1.0)
        here.chat.say("one")
        await heard(here)
        here.chat.say("two")
        await here.shows("about one", "about two")


@pytest.mark.parametrize("text", ["a\0b", "\0", " "], ids=["nul", "nothing but nul", "blank"])
@awaited
async def test_whatever_an_agent_says_the_chat_shows_something(opened: Open, text: str) -> None:
    async def speaks(_turn: Turn) -> AsyncIterator[Event]:
        yield Text(text)

    async with opened(ScriptedAgent(speaks)) as here:
        here.chat.say("hello")
        await here.shows("ab" if "a" in text else texts.NOTHING_SAID)
        assert await fates(here) == ["answered"]


@awaited
async def test_what_cannot_be_kept_is_told_and_not_tried_for_ever(opened: Open) -> None:
    async def digs(_turn: Turn) -> AsyncIterator[Event]:
        yield CALL
        yield ToolResult(CALL.call_id, "x" * 34_000_000)

    agent = ScriptedAgent(digs)
    async with opened(agent) as here:
        here.chat.say("hello")
        await here.shows(texts.AGENT_FAULT.format(error="InvalidMessage"))
        assert await fates(here) == ["failed"]
        assert len(agent.turns) == 1

"""Every message to one turn, every turn to one reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.gateway.talk import ask, running_with
from tests.gateway.world import Open, awaited

from threadline import ResetPolicies, SessionResetPolicy
from threadline.gateway.settings import ChatRules
from threadline.ports.agent import AgentError, Event, Text, ToolCall, ToolResult, Turn, UsageOf
from threadline.testing import FakeClock, user
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import gateway as texts


async def echo(turn: Turn) -> AsyncIterator[Event]:
    yield Text(turn.text)


@awaited
async def test_a_message_is_answered_in_its_chat_and_kept(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        here.chat.say("hello")
        await here.shows("hello")
        assert await here.transcript() == [("user", "hello"), ("assistant", "hello")]


@awaited
async def test_the_same_event_again_is_answered_once(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        here.chat.say("hello", message_id="m1")
        await here.shows("hello")
        here.chat.say("hello", message_id="m1")
        here.chat.say("bye")
        await here.shows("hello", "bye")


class _Forgetful(ScriptedAgent):
    """Reads the last three messages of a conversation."""

    history_limit = 3


@pytest.mark.parametrize("earlier", [2, 100], ids=["short", "long"])
@awaited
async def test_an_agent_is_given_only_as_much_history_as_it_reads(opened: Open, earlier: int) -> None:
    agent = _Forgetful(echo)
    async with opened(agent) as here:
        here.chat.say("hello")
        await here.shows("hello")
        (entry,) = await here.store.list_sessions()
        for number in range(earlier):
            await here.store.append_to_transcript(entry.session_id, user(f"note {number}"))
        before = [text for _, text in await here.transcript()]
        here.chat.say("bye")
        await here.shows("hello", "bye")
        assert [message["content"] for message in agent.turns[1].history] == before[-3:]


@awaited
async def test_what_arrives_while_a_turn_runs_becomes_the_next_one(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("one")
        await here.chat.wait_for(lambda: len(agent.turns) == 1)
        here.chat.say("two")
        here.chat.say("three")
        await here.chat.wait_for(lambda: all(event.is_acknowledged for event in here.chat.events))
        agent.answer("first")
        await here.chat.wait_for(lambda: len(agent.turns) == 2)
        agent.answer("second")
        await here.shows("first", "second")
        assert agent.turns[1].text == "two\n\nthree"
        assert await here.transcript() == [
            ("user", "one"),
            ("assistant", "first"),
            ("user", "two"),
            ("user", "three"),
            ("assistant", "second"),
        ]


@awaited
async def test_with_queue_each_message_has_a_turn_of_its_own(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, when_busy="queue") as here:
        for text in ("one", "two", "three"):
            here.chat.say(text)
            await here.chat.wait_for(lambda: all(event.is_acknowledged for event in here.chat.events))
            await asyncio.sleep(0.01)
        for number in range(3):
            await here.chat.wait_for(lambda number=number: len(agent.turns) == number + 1)  # type: ignore[misc]
            agent.answer(f"answer {number}")
        await here.shows("answer 0", "answer 1", "answer 2")
        assert [turn.text for turn in agent.turns] == ["one", "two", "three"]


@awaited
async def test_with_interrupt_the_next_message_cuts_the_answer_short(opened: Open) -> None:
    async def talks(turn: Turn) -> AsyncIterator[Event]:
        yield Text(f"about {turn.text}")
        if turn.text == "one":
            await asyncio.Event().wait()

    agent = ScriptedAgent(talks)
    async with opened(agent, when_busy="interrupt") as here:
        here.chat.say("one")
        await here.chat.wait_for(lambda: len(agent.turns) == 1)
        await asyncio.sleep(0.05)
        here.chat.say("two")
        await here.chat.wait_for(lambda: "about two" in here.texts())
        assert here.texts()[0].startswith("about one\n\n(interrupted")
        # The next turn saw both.
        assert [m["content"] for m in agent.turns[1].history] == ["one", "about one"]


@awaited
async def test_two_chats_do_not_wait_for_each_other(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("from ada")
        here.chat.say("from bob", user="bob")
        await here.chat.wait_for(lambda: len(agent.turns) == 2)
        agent.answer("a")
        agent.answer("b")
        await here.chat.wait_for(lambda: here.texts("dm-ada") and here.texts("dm-bob"))
        answered = {turn.text: text for turn, text in zip(agent.turns, "ab", strict=True)}
        assert here.texts("dm-ada") == [answered["from ada"]]
        assert here.texts("dm-bob") == [answered["from bob"]]


@awaited
async def test_an_agent_that_raises_is_told_and_the_gateway_goes_on(opened: Open) -> None:
    async def fails(turn: Turn) -> AsyncIterator[Event]:
        yield Text("so far")
        if turn.text == "plainly":
            raise AgentError("The model is not there; try again later.")
        raise RuntimeError("a secret of the agent")

    async with opened(ScriptedAgent(fails)) as here:
        here.chat.say("plainly")
        (text,) = await here.shown(1)
        assert "The model is not there" in text
        here.chat.say("with a fault")
        _, text = await here.shown(2)
        assert "/retry" in text
        assert "secret" not in text


@awaited
async def test_tools_and_usage_are_kept_with_the_answer(opened: Open) -> None:
    async def works(_turn: Turn) -> AsyncIterator[Event]:
        yield Text("I look. ")
        yield ToolCall("c1", "look", '{"at": "sky"}')
        yield ToolResult("c1", "blue")
        yield Text("It is blue.")
        yield UsageOf(input_tokens=10, output_tokens=5, model="test")

    async with opened(ScriptedAgent(works)) as here:
        here.chat.say("what colour?")
        await here.shows("I look. \n\nIt is blue.")
        (entry,) = await here.store.list_sessions()
        roles = [m["role"] for m in await here.store.load_transcript(entry.session_id)]
        assert roles == ["user", "assistant", "tool", "assistant"]
        assert (entry.input_tokens, entry.output_tokens) == (10, 5)


@awaited
async def test_a_long_answer_is_streamed_into_one_message(opened: Open) -> None:
    async def slowly(_turn: Turn) -> AsyncIterator[Event]:
        for word in ("one ", "two ", "three ", "four"):
            yield Text(word)
            await asyncio.sleep(0.15)

    async with opened(ScriptedAgent(slowly), stream_after_seconds=0.05) as here:
        here.chat.say("count")
        await here.shows("one two three four")
        await here.gateway.idle()
        (message,) = here.chat.messages("dm-ada")
        assert message.edits
        assert all("one two three four".startswith(text.strip()) for text in message.edits)


@awaited
async def test_without_edits_nothing_is_shown_before_the_answer_is_whole(opened: Open) -> None:
    async def slowly(_turn: Turn) -> AsyncIterator[Event]:
        for word in ("one ", "two"):
            yield Text(word)
            await asyncio.sleep(0.15)

    can = ALL_CAPABILITIES
    bare = type(can)(max_length=can.max_length)
    async with opened(ScriptedAgent(slowly), chat=ScriptedChat(capabilities=bare), stream_after_seconds=0.01) as here:
        here.chat.say("count")
        (text,) = await here.shown(1)
        assert text == "one two"
        assert not here.chat.messages("dm-ada")[0].edits


@awaited
async def test_a_reply_beyond_the_limit_comes_in_parts_in_order(opened: Open) -> None:
    words = [f"word{number}" for number in range(400)]

    async def long(_turn: Turn) -> AsyncIterator[Event]:
        yield Text(" ".join(words))

    small = type(ALL_CAPABILITIES)(max_length=500)
    async with opened(ScriptedAgent(long), chat=ScriptedChat(capabilities=small)) as here:
        here.chat.say("go")
        await here.chat.wait_for(lambda: " ".join(here.texts()).split() == words)
        assert all(len(text) <= 500 for text in here.texts())


@awaited
async def test_a_chat_has_its_own_instructions_and_role(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent, rules_for=lambda source: ChatRules(f"Brief, {source.user_id}.", "guest")) as here:
        here.chat.say("hello")
        await here.shows("hello")
        assert (agent.turns[0].system_prompt, agent.turns[0].role) == ("Brief, ada.", "guest")


@awaited
async def test_a_turn_that_a_stop_cut_short_runs_again_and_it_cost_no_attempt(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("hello")
        await here.chat.wait_for(lambda: agent.turns)
    async with opened(agent) as here:
        await here.chat.wait_for(lambda: len(agent.turns) == 2)
        agent.answer("hello again")
        await here.shows("hello again")
    assert [turn.attempt for turn in agent.turns] == [1, 1]
    assert agent.turns[0].turn_id == agent.turns[1].turn_id


@awaited
async def test_the_agent_is_told_once_and_for_good_that_a_conversation_started_afresh(location: str) -> None:
    clock = FakeClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    policies = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60))
    agent = ScriptedAgent(echo)
    async with running_with(location, agent, store={"clock": clock, "policies": policies}) as here:
        await ask(here, "one")
        clock.advance(timedelta(hours=2))
        here.chat.say("two")
        here.chat.say("three")
        await here.chat.wait_for(lambda: len(agent.turns) > 1 and not here.gateway.turns.busy)
        assert texts.AFRESH_IDLE not in agent.turns[0].context_prompt
        assert texts.AFRESH_IDLE in agent.turns[1].context_prompt
        assert {turn.context_prompt for turn in agent.turns[1:]} == {agent.turns[1].context_prompt}
        fresh = agent.turns[1].session.session_id
        assert await here.store.take_reset_notice(fresh, "agent") is None

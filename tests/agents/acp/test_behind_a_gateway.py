"""An ACP agent behind a real gateway: what is remembered, asked and stopped there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.agents.acp.world import World, is_alive
from tests.gateway.talk import ask, asked, running_with
from tests.gateway.world import Running, awaited, running

from threadline.testing import FakeClock
from threadline.texts import acp_agents as texts


@asynccontextmanager
async def behind(world: World) -> AsyncIterator[Running]:
    """A gateway whose agent is the program; both end, and what they know is on disk."""
    agent = world.agent()
    try:
        async with running(str(world.folder / "threadline.db"), agent) as here:
            yield here
    finally:
        await agent.close()


@awaited
async def test_a_conversation_goes_on_in_the_agents_session_also_after_a_restart(world: World) -> None:
    world.setup["resume"] = True
    async with behind(world) as here:
        assert await ask(here, "one") == "one"
        assert await ask(here, "two") == "two"
        await here.gateway.idle()
    async with behind(world) as here:
        assert await ask(here, "three", message_id="m-three") == "three"
        await here.gateway.idle()
        assert [text for _, text in await here.transcript()] == ["one", "one", "two", "two", "three", "three"]
    methods = [name for name, _ in world.log() if name in ("session/new", "session/resume", "session/load")]
    assert methods == ["session/new", "session/resume"]


@awaited
async def test_what_was_undone_is_unknown_to_the_session_that_begins_and_people_hear_of_it(world: World) -> None:
    async with behind(world) as here:
        assert await ask(here, "one") == "one"
        assert await ask(here, "two") == "two"
        await ask(here, "/undo")
        here.chat.say("three")
        await here.chat.wait_for(lambda: "three" in here.texts())
        await here.gateway.idle()
        assert any(texts.CHANGED in text for text in here.texts())
    assert len(world.told("session/new")) == 2
    record, _ = world.told("session/prompt")[-1]["prompt"][-2:]
    assert '"text": "one"' in record["text"]
    assert '"text": "two"' not in record["text"]


@awaited
async def test_a_question_is_answered_in_the_chat_and_the_prompt_goes_on(world: World) -> None:
    async with behind(world) as here:
        here.chat.say("ask")
        code = await asked(here)
        assert any("rm -r /tmp/x" in text for text in here.texts())
        here.chat.say(f"/approve {code}")
        await here.chat.wait_for(lambda: any("after" in text for text in here.texts()))
        await here.gateway.idle()
    assert world.told("outcome") == [{"outcome": "selected", "optionId": "o-allow_once"}]
    assert len(world.told("session/prompt")) == 1


@awaited
async def test_stop_cancels_what_the_agent_works_at(world: World) -> None:
    async with behind(world) as here:
        here.chat.say("hang")
        await world.noted("hanging")
        here.chat.say("/stop")
        await world.noted("session/cancel")
        await here.gateway.idle()
        here.chat.say("hello")
        await here.chat.wait_for(lambda: "hello" in here.texts())
        await here.gateway.idle()
    assert len(world.told("started")) == 1
    assert not is_alive(world.told("started")[0])


@awaited
async def test_stop_while_a_question_is_open_reaches_the_agent(world: World) -> None:
    async with behind(world) as here:
        here.chat.say("ask")
        await asked(here)
        here.chat.say("/stop")
        assert await world.noted("outcome") == {"outcome": "cancelled"}
        await world.noted("session/cancel")
        await here.gateway.idle()
    assert len(world.told("session/prompt")) == 1


@awaited
async def test_a_question_that_expires_is_taken_back_from_the_agent(world: World) -> None:
    clock, agent = FakeClock(), world.agent()
    location = str(world.folder / "threadline.db")
    try:
        async with running_with(location, agent, store={"clock": clock}, lease_seconds=0.6) as here:
            here.chat.say("ask")
            await asked(here)
            clock.advance(timedelta(days=1, seconds=1))
            assert await world.noted("outcome") == {"outcome": "cancelled"}
    finally:
        await agent.close()

"""A talk with the bot: what is changed or answered reaches the agent, and its words grow at the pace of the chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.system.telegram_gateway import OnTelegram, at_telegram, awaited, on_telegram

from threadline.ports.agent import Event, Text, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.testing.telegram import BotApi, Chat


@awaited
async def test_a_message_that_is_edited_while_it_waits_is_heard_as_it_is_then(location: str) -> None:
    agent = ScriptedAgent()
    async with on_telegram(location, agent) as here:
        here.api.say("first")
        await here.api.wait_for(lambda: len(agent.turns) == 1)
        waiting = here.api.say("helo")
        here.api.edit(waiting, "hello")
        await here.api.wait_for(lambda: not here.bot.queue)
        agent.answer("one")
        await here.api.wait_for(lambda: len(agent.turns) == 2)
        agent.answer("two")
        await here.heard()
        assert [turn.text for turn in agent.turns] == ["first", "hello"]
        assert here.texts() == ["one", "two"]


@awaited
async def test_the_agent_is_told_which_words_are_answered(location: str) -> None:
    async def counted(_: Turn) -> AsyncIterator[Event]:
        yield Text(f"answer {len(agent.turns)}, and more")

    agent = ScriptedAgent(counted)
    async with on_telegram(location, agent) as here:
        await here.ask("one")
        await here.ask("two")
        first = here.shown()[0].message_id
        await here.ask("why?", reply_to=first)
        await here.ask("which?", reply_to=first, quote={"text": "and more", "position": 10})
        heard = [(spoken.text, spoken.quoted) for turn in agent.turns for spoken in turn.messages]
        assert heard == [("one", None), ("two", None), ("why?", "answer 1, and more"), ("which?", "and more")]


@awaited
async def test_an_account_that_gets_another_bot_hears_all_that_is_said_to_that_one(location: str) -> None:
    async def echo(turn: Turn) -> AsyncIterator[Event]:
        yield Text(f"you said: {turn.text}")

    async with BotApi() as api:
        for number, bot in enumerate((api.bot, api.add_bot("other_bot")), start=1):
            async with at_telegram(api, location, ScriptedAgent(echo), bot=bot) as here:
                # Each bot counts what it is told for itself.
                assert api.say("hello", bot=bot).message_id == 1
                api.raw({"update_id": 800_000_002, "something": "new"}, bot=bot)
                await here.heard()
                assert here.texts() == ["you said: hello"]
                assert len(await here.store.maintenance.list_messages("parked")) == number


@awaited
async def test_an_answer_grows_faster_for_one_than_in_a_group(location: str) -> None:
    may_end = asyncio.Event()

    async def growing(_: Turn) -> AsyncIterator[Event]:
        yield Text("word")
        while not may_end.is_set():
            yield Text(" word")
            await asyncio.sleep(0.05)
        yield Text(" end.")

    async with on_telegram(location, ScriptedAgent(growing), stream_after_seconds=0.0) as here:
        crowd, alone = here.api.supergroup(), here.api.private("ada")
        # The group first: at the pace of the other it would change first, too.
        for chat, text in ((crowd, here.named("go on")), (alone, "go on")):
            here.api.say(text, chat=None if chat is alone else chat)
            await here.api.wait_for(lambda chat=chat: here.texts(chat))  # type: ignore[misc]
        await here.api.wait_for(lambda: edits(here, alone))
        assert edits(here, crowd) == 0
        may_end.set()
        await here.heard()
        for chat in (crowd, alone):
            (text,) = here.texts(chat)
            assert text.endswith("word end.")


def edits(here: OnTelegram, chat: Chat) -> int:
    """How often a message there was changed."""
    calls = here.api.calls_of("editMessageText")
    return sum(call.parameters["chat_id"] == str(chat.id) for call in calls)

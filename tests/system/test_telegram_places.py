"""Where people on Telegram talk: topics, channels, groups that move, other bots, and a gateway that was away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.telegram_gateway import OnTelegram, at_telegram, awaited, on_telegram, rules_of

from threadline.agents.echo import EchoAgent
from threadline.gateway.bots import MOST_IN_A_ROW
from threadline.ports.agent import AskPermission, Event, Text, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.testing.telegram import Bot, BotApi, Json, hang
from threadline.testing.telegram_text import found_entities
from threadline.texts import gateway as texts

ALONE = texts.BOTS_ALONE.format(count=MOST_IN_A_ROW)


async def echo(turn: Turn) -> AsyncIterator[Event]:
    yield Text(f"you said: {turn.text}")


class ChattyApi(BotApi):
    """A Telegram in which bots hear each other in groups, as those do that were made to."""

    def _appeared(self, bot: Bot, messages: list[Json]) -> None:
        super()._appeared(bot, messages)
        for message in messages:
            chat = message["chat"]["id"]
            told = message | {"entities": [_plain(one) for one in found_entities(message["text"])]}
            for other in self.bots:
                if other is not bot and chat in self.rooms:
                    self._tell(other, "message", told, chat, message["message_id"])


def _plain(entity: Any) -> Json:
    return {"type": entity.type, "offset": entity.offset, "length": entity.length}


async def all_is_quiet(*gateways: OnTelegram) -> None:
    """Waits until no bot has anything to answer or to hear."""
    quiet = 0
    while quiet < 2:
        sent = gateways[0].api.sent
        for here in gateways:
            await here.heard()
        quiet = quiet + 1 if gateways[0].api.sent == sent else 0


@awaited
async def test_two_bots_of_ours_stop_talking_to_each_other_until_a_person_speaks(tmp_path: Path) -> None:
    async with ChattyApi() as api:
        other, crowd = api.add_bot("other_bot"), api.group()
        ours = at_telegram(
            api,
            f"sqlite://{tmp_path}/ours/threadline.db",
            EchoAgent(pause=0.0),
            rules=rules_of(api, guests=(other.id,)),
        )
        theirs = at_telegram(
            api,
            f"sqlite://{tmp_path}/theirs/threadline.db",
            EchoAgent(pause=0.0),
            bot=other,
            rules=rules_of(api, guests=(api.bot.id,)),
        )
        async with ours as here, theirs as there:
            said = "@our_bot @other_bot hello"
            for rounds in (1, 2):
                api.say(said, chat=crowd, user="bob")
                await all_is_quiet(here, there)
                expected = sorted(rounds * ([ALONE] + [said] * (1 + MOST_IN_A_ROW)))
                assert sorted(here.texts(crowd)) == sorted(there.texts(crowd)) == expected


@awaited
async def test_a_bot_that_nobody_listed_is_not_heard(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        crowd = here.api.group()
        stranger = here.api.person("spam_bot", is_bot=True)
        for text in ("@our_bot hello", "/help", "/help@our_bot"):
            here.api.say(text, chat=crowd, user=stranger)
        here.api.say("hello", user=stranger)
        await here.heard()
        assert (agent.turns, here.api.messages()) == ([], [])
        assert await here.store.people.list_pairings() == []


@awaited
async def test_topics_are_conversations_of_their_own_and_are_answered_where_they_are(location: str) -> None:
    agent = ScriptedAgent(echo)
    async with on_telegram(location, agent) as here:
        forum = here.api.supergroup(forum=True)
        cats, dogs = (here.api.topic(forum, name) for name in ("Cats", "Dogs"))
        for thread, text in ((cats, "meow"), (dogs, "woof"), (None, "hi all"), (cats, "purr")):
            here.api.say(here.named(text), chat=forum, thread=thread, user="bob")
            await here.heard()
        assert [text.rpartition(" ")[2] for text in here.texts(forum, cats)] == ["meow", "purr"]
        assert [text.rpartition(" ")[2] for text in here.texts(forum, dogs)] == ["woof"]
        assert [one.text.rpartition(" ")[2] for one in here.shown(forum) if one.thread is None] == ["all"]
        found = {one.origin.thread_id: one for one in await here.sessions()}
        assert set(found) == {str(cats), str(dogs), None}
        assert {found[str(thread)].origin.chat_topic for thread in (cats, dogs)} == {"Cats", "Dogs"}
        assert len(await here.said(found[str(cats)].session_id)) == 4
        assert not [text for text in await here.said(found[str(dogs)].session_id) if "meow" in text]


@awaited
async def test_a_channel_is_answered_where_it_speaks_to_us_and_only_if_it_is_listed(location: str) -> None:
    async with BotApi() as api:
        ours, theirs = api.channel("News"), api.channel("News")
        rules = rules_of(api, groups=False, guests=(ours.id,))
        agent = ScriptedAgent(echo)
        async with at_telegram(api, location, agent, rules=rules) as here:
            for channel in (ours, theirs):
                api.say("nothing for us", chat=channel, user=None)
                api.say(here.named("what is new?"), chat=channel, user=None)
            await here.heard()
            assert here.texts(ours) == [f"you said: {here.named('what is new?')}"]
            assert here.texts(theirs) == []
            (turn,) = agent.turns
            assert (turn.source.chat_type, turn.source.chat_id) == ("channel", str(ours.id))


@awaited
async def test_a_group_that_becomes_a_supergroup_keeps_its_conversation(location: str) -> None:
    async with on_telegram(location, ScriptedAgent(echo)) as here:
        api, group = here.api, here.api.group()
        await here.ask(here.named("one"), chat=group, user="bob")
        await here.ask("/title Plans", chat=group, user="bob")
        (before,) = await here.sessions()
        crowd = api.migrate(group)
        await here.heard()
        await here.ask(here.named("two"), chat=crowd, user="bob")
        (after,) = await here.sessions()
        assert (after.session_id, after.title, after.origin.chat_id) == (before.session_id, "Plans", str(crowd.id))
        assert [line.rpartition(" ")[2] for line in await here.said(after.session_id)] == ["one", "one", "two", "two"]
        assert len(here.texts(group)) == 2
        assert before.session_id in await here.ask("/sessions", chat=crowd, user="bob")


async def turn_begun(here: OnTelegram, agent: ScriptedAgent, count: int = 1) -> None:
    await here.api.wait_for(lambda: len(agent.turns) == count)


@awaited
async def test_an_answer_that_is_being_made_arrives_where_its_group_has_gone(location: str) -> None:
    agent = ScriptedAgent()
    async with on_telegram(location, agent) as here:
        group = here.api.group()
        here.api.say(here.named("one"), chat=group, user="bob")
        await turn_begun(here, agent)
        here.api.say(here.named("two"), chat=group, user="bob")
        crowd = here.api.migrate(group)
        await here.api.wait_for(lambda: not here.bot.queue)
        agent.answer("to the first")
        await turn_begun(here, agent, 2)
        agent.answer("to the second")
        await here.heard()
        assert here.texts(crowd) == ["to the first", "to the second"]
        assert here.texts(group) == []
        (session,) = await here.sessions()
        assert session.origin.chat_id == str(crowd.id)


@pytest.mark.parametrize("is_late", [False, True], ids=["its id is known", "its id comes late"])
@awaited
async def test_an_answer_that_grows_while_its_group_moves_overwrites_nothing(location: str, is_late: bool) -> None:
    may_end = asyncio.Event()

    async def growing(_: Turn) -> AsyncIterator[Event]:
        yield Text("The beginning")
        await may_end.wait()
        yield Text(" and the end.")

    async with on_telegram(location, ScriptedAgent(growing), stream_after_seconds=0.0) as here:
        group = here.api.group()
        here.api.say("nothing for us", chat=group, user="bob")
        if is_late:
            here.api.fail_next("sendMessage", hang(performed=True))
        here.api.say(here.named("go on"), chat=group, user="bob")
        await here.api.wait_for(lambda: here.texts(group))
        crowd = here.api.migrate(group)
        await here.api.wait_for(lambda: not here.bot.queue)
        here.api.release()
        # In the new chat ids begin anew.
        here.api.say("/help", chat=crowd, user="eve")
        await here.api.wait_for(lambda: here.texts(crowd))
        assert here.shown(crowd)[0].message_id == here.shown(group)[0].message_id
        (told,) = here.texts(crowd)
        may_end.set()
        await here.heard()
        assert here.texts(crowd) == [told, "The beginning and the end."]


@awaited
async def test_a_question_of_before_a_move_is_answered_after_it(location: str) -> None:
    wanted = AskPermission(ask_id="1", tool="shell", arguments="{}")

    async def careful(turn: Turn) -> AsyncIterator[Event]:
        answer = turn.permitted(wanted)
        yield wanted if answer is None else Text(f"allowed: {answer}")

    async with on_telegram(location, ScriptedAgent(careful)) as here:
        group = here.api.group()
        await here.ask(here.named("tidy up"), chat=group)
        (question,) = here.shown(group)
        crowd = here.api.migrate(group)
        await here.heard()
        await here.answers(question.buttons[0], chat=crowd)
        assert "allowed: True" in here.texts(crowd)


@pytest.mark.parametrize(("when_busy", "at_most"), [("collect", 2), ("queue", 4)])
@awaited
async def test_what_was_said_while_the_gateway_was_away_is_answered_as_when_busy_says(
    location: str, when_busy: str, at_most: int
) -> None:
    go_on = asyncio.Event()

    async def patient(turn: Turn) -> AsyncIterator[Event]:
        await go_on.wait()
        yield Text(f"you said: {turn.text}")

    async with BotApi() as api:
        async with at_telegram(api, location, ScriptedAgent(echo), when_busy=when_busy) as here:
            await here.ask("before")
        for text in ("one", "two", "three", "four"):
            api.say(text)
        agent = ScriptedAgent(patient)
        async with at_telegram(api, location, agent, when_busy=when_busy) as here:
            await turn_begun(here, agent)
            await here.api.wait_for(lambda: not here.bot.queue)
            go_on.set()
            await here.heard()
            assert [spoken.text for turn in agent.turns for spoken in turn.messages] == ["one", "two", "three", "four"]
            # With `collect`, what came while the first turn ran is one more.
            assert len(agent.turns) <= at_most
            assert len(agent.turns) == at_most or when_busy == "collect"
            assert len(here.texts()) == 1 + len(agent.turns)

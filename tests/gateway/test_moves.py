"""A chat gets another id while people talk in it: nobody is answered where nobody is any more."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tests.gateway.talk import GROUP, THREAD, ask, asked, current, echo, heard, said, turns_of
from tests.gateway.world import EVERYONE, Open, awaited

from threadline.gateway.access import AccessRules
from threadline.model.inbound import IdChange
from threadline.ports.agent import AskPermission, Event, Text, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.texts import commands as commands_texts


@awaited
async def test_an_answer_goes_to_where_its_chat_is_when_it_is_ready(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("hello", user="bob", **GROUP)
        await turns_of(here, agent, 1)
        here.chat.say("are you there?", user="bob", **GROUP)
        here.chat.move("chat", "den", "lair")
        await heard(here)
        agent.answer("yes")
        await turns_of(here, agent, 2)
        agent.answer("still here")
        await here.shows("yes", "still here", chat="lair")
        assert here.texts("den") == []
        here.chat.say("good", user="bob", chat="lair", chat_type="group")
        await turns_of(here, agent, 3)
        agent.answer("bye")
        await here.shows("yes", "still here", "bye", chat="lair")
        session = await current(here, "lair")
        lines = await said(here, session.session_id)
        assert lines == ["hello", "yes", "are you there?", "still here", "good", "bye"]


@awaited
async def test_what_is_told_twice_moves_once_and_blocks_nothing(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "one", user="bob", **THREAD)
        for _ in range(2):
            here.chat.move("chat", "den", "lair")
        await heard(here)
        (line,) = await here.store.maintenance.list_messages("merged")
        assert (await here.store.maintenance.trace_message(line.pk)).raw == "chat den is lair"
        moved = IdChange(platform="scripted", account="main", dedupe_key="x", what="user", old_id="bob", new_id="bob")
        assert await here.gateway.accept(moved) == "parked"
        (parked,) = await here.store.maintenance.list_messages("parked")
        assert parked.note == "it names no two ids"
        assert await ask(here, "two", user="bob", **THREAD | {"chat": "lair"}) == "you said: [bob] two"


@awaited
async def test_who_was_let_in_is_let_in_under_their_new_id(opened: Open) -> None:
    rules = AccessRules(owners=EVERYONE.owners, pairing=False)
    async with opened(ScriptedAgent(echo), rules=rules) as here:
        await here.store.people.set_role("scripted:zoe", "guest")
        assert await ask(here, "one", user="zoe") == "you said: one"
        here.chat.move("user", "zoe", "zoe-2")
        here.chat.say("again", user="zoe")
        await heard(here)
        assert await ask(here, "two", user="zoe-2", chat="dm-zoe") == "you said: two"
        session = await current(here, "dm-zoe")
        assert session.owner == "scripted:zoe-2"
        assert await said(here, session.session_id) == ["one", "you said: one", "two", "you said: two"]


@awaited
async def test_who_started_a_shared_conversation_may_still_change_it(opened: Open) -> None:
    no = commands_texts.NOT_STARTED_BY_YOU.format(usage="/title")
    async with opened(ScriptedAgent(echo)) as here:
        await here.store.people.set_role("scripted:bob-2", "guest")
        await ask(here, "hello", user="bob", **THREAD)
        assert await ask(here, "/title Mine", user="bob-2", **THREAD) == no
        here.chat.move("user", "bob", "bob-2")
        await heard(here)
        assert await ask(here, "/title Mine", user="bob-2", **THREAD) != no
        assert await ask(here, "/title Mine", user="eve", **THREAD) == no


@awaited
async def test_a_question_is_answered_where_its_chat_is_now(opened: Open) -> None:
    wanted = AskPermission(ask_id="1", tool="files", least="owner")

    async def careful(turn: Turn) -> AsyncIterator[Event]:
        yield wanted if turn.answered(wanted) is None else Text(f"allowed: {turn.permitted(wanted)}")

    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("go", user="bob", **GROUP)
        code = await asked(here, "den")
        here.chat.move("chat", "den", "lair")
        await heard(here)
        # Not whose conversation it is, but she reads the question too.
        here.chat.say(f"/approve {code}", user="ada", chat="lair", chat_type="group")
        await here.chat.wait_for(lambda: "allowed: True" in here.texts("lair"))

"""What the agent is told of where it is: the same bytes as long as the conversation goes on, and no more than it may know."""

from __future__ import annotations

from tests.gateway.talk import GROUP, THREAD, ask, current, echo
from tests.gateway.world import Open, awaited

from threadline.testing.agents import ScriptedAgent


@awaited
async def test_it_is_told_the_same_until_the_conversation_starts_afresh(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "one", user_name="Ada")
        await ask(here, "two", user_name="Ada Lovelace")
    async with opened(agent) as here:
        # Another process, which could render it anew and does not.
        await ask(here, "three", user_name="Countess", message_id="later")
        told = [turn.context_prompt for turn in agent.turns]
        assert '"Ada"' in told[0]
        assert told == [told[0]] * 3
        await ask(here, "/new")
        await ask(here, "four", user_name="Countess")
        assert '"Countess"' in agent.turns[-1].context_prompt


@awaited
async def test_ids_and_numbers_are_hidden_where_they_must_be(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    number = "+49 151 23456789"
    async with opened(agent, redact_pii=True, secret=b"a secret") as here:
        here.chat.say("hello", user_name=f"Ada {number}")
        here.chat.say("hello all", user="bob", user_name=f"Bob {number}", **THREAD)
        await here.chat.wait_for(lambda: len(agent.turns) == 2)
        await here.gateway.idle()
        told = "\n".join(f"{turn.context_prompt}\n{turn.text}" for turn in agent.turns)
        assert "23456789" not in told.replace(" ", "")
        assert "Ada" in told
        assert "[Bob" in told


@awaited
async def test_what_goes_on_in_another_chat_is_told_of_that_one(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "we began here", user="bob", **GROUP)
        began = (await current(here, "den")).session_id
        await ask(here, "/new", user="bob", **GROUP)
        await ask(here, "hello", user="bob")
        await ask(here, f"/resume {began}", user="bob")
        await ask(here, "again", user="bob")
        assert (agent.turns[-1].session.session_id, len(agent.turns[-1].history)) == (began, 2)
        assert '"group: den"' in agent.turns[0].context_prompt
        assert "den" not in agent.turns[-1].context_prompt
        resumed = await here.store.get_session(began)
        assert (resumed.origin.chat_type, resumed.origin.chat_id) == ("dm", "dm-bob")

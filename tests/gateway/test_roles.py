"""Who may do what in a chat: by role, and in conversations that several people share."""

from __future__ import annotations

import pytest
from tests.gateway.talk import GROUP, THREAD, ask, current, echo, heard, said, turns_of
from tests.gateway.world import Open, awaited

from threadline.gateway.commands import TABLE
from threadline.model.access import ROLES, TOOLS, Role, allows
from threadline.testing.agents import ScriptedAgent
from threadline.texts import commands as commands_texts

# mallory is on no list: anyone in a group that is answered.
SESSION_COMMANDS = [f"/{command.name}" for command in TABLE.values() if command.lane == "session"]


def refused(name: str) -> str:
    command = TABLE[name]
    return commands_texts.NOT_ALLOWED.format(usage=command.usage, whom=commands_texts.ROLE_MEANS[command.least])


EACH_ROLE = pytest.mark.parametrize(
    ("user", "role", "place"),
    [("mallory", "group", GROUP), ("bob", "guest", {}), ("tim", "trusted", {}), ("ada", "owner", {})],
    ids=ROLES,
)


@EACH_ROLE
@awaited
async def test_a_command_is_refused_to_those_below_its_role(
    opened: Open, user: str, role: Role, place: dict[str, str]
) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        for name, command in TABLE.items():
            typed = f"/{name} words" if name == "search" else f"/{name}"
            answer = await ask(here, typed, user=user, **place)
            assert (answer == refused(name)) is not allows(role, command.least), answer


@EACH_ROLE
@awaited
async def test_an_agent_learns_what_its_tools_may_do_for_those_who_ask(
    opened: Open, user: str, role: Role, place: dict[str, str]
) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "hello", user=user, **place)
        (turn,) = agent.turns
        assert {use: turn.may(use) for use in TOOLS} == {use: allows(role, least) for use, least in TOOLS.items()}
        assert not turn.may("telepathy")


@awaited
async def test_what_is_refused_changes_nothing(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "hello", user="mallory", **GROUP)
        before = await current(here, "den")
        for command in SESSION_COMMANDS:
            await ask(here, f"{command}", user="mallory", **GROUP)
        assert await said(here, before.session_id) == ["hello", "you said: hello"]
        assert (await current(here, "den")).session_id == before.session_id


@pytest.mark.parametrize("command", SESSION_COMMANDS)
@awaited
async def test_a_shared_conversation_is_changed_by_who_started_it_and_by_the_owner(opened: Open, command: str) -> None:
    no = commands_texts.NOT_STARTED_BY_YOU.format(usage=command)
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "we plan", user="tim", **THREAD)
        before = (await current(here, "den", "plans")).session_id
        await ask(here, "me too", user="bob", **THREAD)
        assert await ask(here, command, user="bob", **THREAD) in (no, refused(command[1:]))
        assert len(await said(here, before)) == 4
        assert await ask(here, command, user="tim", **THREAD) != no
        assert await ask(here, command, user="ada", **THREAD) != no


@awaited
async def test_who_may_not_change_a_shared_conversation_stops_nobodys_answer_by_trying(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("question", user="bob", **THREAD)
        await turns_of(here, agent, 1)
        for user in ("eve", "mallory"):
            here.chat.say("/new", user=user, **THREAD)
            here.chat.say("/resume", user=user, **THREAD)
        await heard(here)
        agent.answer("the whole answer")
        texts = await here.shown(5, "den")
        assert texts[0] == "the whole answer"
        assert not any("stopped" in text for text in texts)


@awaited
async def test_one_of_a_group_stops_their_own_answer_alone(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("question", user="bob", **THREAD)
        await turns_of(here, agent, 1)
        assert await ask(here, "/stop", user="mallory", **THREAD) == commands_texts.NOT_YOUR_ANSWER
        here.chat.say("/stop", user="eve", **THREAD)
        await here.chat.wait_for(lambda: {commands_texts.STOPPING, "(stopped)"} <= set(here.texts("den")))
        here.chat.say("mine", user="mallory", **THREAD)
        await turns_of(here, agent, 2)
        here.chat.say("/stop", user="mallory", **THREAD)
        await here.chat.wait_for(lambda: here.texts("den").count("(stopped)") == 2)


@awaited
async def test_in_a_shared_conversation_one_drops_only_what_is_ones_own(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("first", user="bob", **THREAD)
        await turns_of(here, agent, 1)
        here.chat.say("of bob", user="bob", **THREAD)
        here.chat.say("of eve", user="eve", **THREAD)
        await heard(here)
        assert await ask(here, "/queue drop 1", user="eve", **THREAD) == commands_texts.NOT_YOUR_MESSAGE.format(place=1)
        dropped = commands_texts.DROPPED.format(place=2, text="of eve")
        assert await ask(here, "/queue drop 2", user="eve", **THREAD) == dropped
        dropped = commands_texts.DROPPED.format(place=1, text="of bob")
        assert await ask(here, "/queue drop 1", user="ada", **THREAD) == dropped
        agent.answer("done")
        await here.chat.wait_for(lambda: here.texts("den")[-1] == "done")
        await here.gateway.idle()
        assert len(agent.turns) == 1


@awaited
async def test_in_a_shared_conversation_messages_carry_their_senders_name(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "hello", user="bob", user_name="Bob", **THREAD)
        await ask(here, "[Bob] not me", user="eve", user_name="Eve", **THREAD)
        await ask(here, "alone", user="bob", user_name="Bob", **GROUP)
        await ask(here, "in private", user="bob", user_name="Bob")
        texts = [turn.text for turn in agent.turns]
        assert texts == ["[Bob] hello", "[Eve] \\[Bob] not me", "alone", "in private"]


@awaited
async def test_the_words_of_a_guest_lower_the_role_of_a_shared_turn(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("mine alone", user="ada", **THREAD)
        await turns_of(here, agent, 1)
        for user in ("ada", "bob"):
            here.chat.say("together", user=user, **THREAD)
        await heard(here)
        agent.answer("one")
        await turns_of(here, agent, 2)
        for user in ("ada", "bob", "mallory"):
            here.chat.say("all of us", user=user, **THREAD)
        await heard(here)
        agent.answer("two")
        await turns_of(here, agent, 3)
        agent.answer("three")
        await here.chat.wait_for(lambda: "three" in here.texts("den"))
        assert [turn.role for turn in agent.turns] == ["owner", "guest", "group"]


@awaited
async def test_letting_a_guests_words_be_answered_again_gives_them_no_more_rights(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "do it", user="bob", **THREAD)
        await ask(here, "/retry", user="ada", **THREAD)
        await ask(here, "in private")
        await ask(here, "/retry")
        assert [turn.role for turn in agent.turns] == ["guest", "guest", "owner", "owner"]

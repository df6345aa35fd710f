"""What people choose in a chat: who answers, where they live, where output goes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from tests.gateway.talk import GROUP, THREAD, ChoosingAgent, ask, current, echo, heard, turns_of
from tests.gateway.world import Open, awaited

from threadline.agents.model import ModelAgent
from threadline.agents.registry import AgentSetup
from threadline.model.context import HomeChannel
from threadline.ports.agent import Event, Text, Turn, UsageOf
from threadline.testing.agents import ScriptedAgent
from threadline.testing.contracts.storage.fixtures import RawExecute
from threadline.testing.models import ModelServer
from threadline.texts import commands as texts


async def reporting(turn: Turn) -> AsyncIterator[Event]:
    """Says which model it was to use, and reports it under another name."""
    yield Text(f"by {turn.session.chosen_model}")
    yield UsageOf(input_tokens=1, model=f"{turn.session.chosen_model}-2026")


# Models


@awaited
async def test_an_agent_that_can_not_change_its_model_says_so(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        assert await ask(here, "/model swift") == texts.MODEL_FIXED
        assert (await current(here)).chosen_model is None
        assert await ask(here, "/model") == texts.MODEL_IS_OWN
        # Neither is a choice told that it does not look at.
        await here.store.sessions.choose_model((await current(here)).session_id, "own:swift")
        assert await ask(here, "/model") == texts.MODEL_IS_OWN
        assert f"Model: {texts.OWN_MODEL}" in await ask(here, "/status")
        assert await ask(here, "/model default") == texts.MODEL_OWN_AGAIN
        assert (await current(here)).chosen_model is None


@awaited
async def test_a_model_that_can_not_be_had_is_not_chosen(opened: Open) -> None:
    async with opened(ChoosingAgent(echo)) as here:
        await ask(here, "/model swift")
        assert await ask(here, "/model none:x") == texts.FAILED.format(reason="there is no provider 'none'")
        assert (await current(here)).chosen_model == "own:swift"


@awaited
async def test_the_choice_and_what_answered_are_told_apart(opened: Open) -> None:
    async with opened(ChoosingAgent(reporting)) as here:
        assert await ask(here, "hello") == "by None"
        await ask(here, "/model swift")
        assert await ask(here, "hello") == "by own:swift"
        assert await ask(here, "hello again") == "by own:swift"
        chosen, reported = texts.MODEL_IS.format(model="own:swift"), texts.MODEL_LAST.format(model="own:swift-2026")
        assert await ask(here, "/model") == f"{chosen} {reported}"
        await ask(here, "/model default")
        assert await ask(here, "/model") == f"{texts.MODEL_IS_OWN} {reported}"
        assert await ask(here, "hello") == "by None"


@awaited
async def test_a_copy_keeps_the_choice_and_a_fresh_start_does_not(opened: Open) -> None:
    async with opened(ChoosingAgent(reporting)) as here:
        await ask(here, "/model swift")
        await ask(here, "/fork")
        assert await ask(here, "hello") == "by own:swift"
        await ask(here, "/new")
        assert await ask(here, "hello") == "by None"
        await ask(here, "/resume")
        assert await ask(here, "hello") == "by own:swift"


@awaited
async def test_a_model_is_chosen_for_what_is_said_after_it(opened: Open) -> None:
    agent = ChoosingAgent()
    async with opened(agent) as here:
        here.chat.say("one")
        await turns_of(here, agent, 1)
        here.chat.say("/model swift")
        here.chat.say("two")
        await heard(here)
        agent.answer("first")
        await turns_of(here, agent, 2)
        agent.answer("second")
        await here.shows("first", texts.MODEL_CHOSEN.format(model="own:swift"), "second")
        assert [turn.session.chosen_model for turn in agent.turns] == [None, "own:swift"]


class _Asleep(ChoosingAgent):
    """One that takes so long to look a model up that the turn is another's by then."""

    def __init__(self, take_away: Callable[[str], None]) -> None:
        super().__init__(reporting)
        self._take_away = take_away
        self.has_looked = False

    async def check_model(self, name: str) -> str:
        """The full name, too late."""
        self._take_away("UPDATE turns SET fence = fence + 1 WHERE state = 'running'")
        self.has_looked = True
        return await super().check_model(name)


@awaited
async def test_a_command_changes_nothing_once_its_turn_is_another_s(opened: Open, raw_execute: RawExecute) -> None:
    agent = _Asleep(raw_execute)
    async with opened(agent) as here:
        assert await ask(here, "hello") == "by None"
        here.chat.say("/model swift")
        await here.chat.wait_for(lambda: agent.has_looked and here.gateway.turns.busy == 0)
        assert (await current(here)).chosen_model is None
        assert here.texts() == ["by None"]


@awaited
async def test_a_chosen_model_is_asked_for_the_answer(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ModelServer() as server:
        agent = ModelAgent(AgentSetup(kind="model", model="openai:gpt-5", base_url=server.openai_url, api_key="k"))
        async with opened(agent) as here:
            assert await ask(here, "hello") == "hello"
            assert await ask(here, "/model opnai:gpt-4o") != texts.MODEL_CHOSEN.format(model="opnai:gpt-4o")
            assert await ask(here, "/model gpt-4o") == texts.MODEL_CHOSEN.format(model="openai:gpt-4o")
            assert await ask(here, "again") == "again"
            await here.gateway.idle()
            assert (await current(here)).model == "gpt-4o"
            await ask(here, "/model default")
            assert await ask(here, "and again") == "and again"
        await agent.close()
        assert [asked.body["model"] for asked in server.requests] == ["gpt-5", "gpt-4o", "gpt-5"]


# Time zones


@awaited
async def test_each_person_has_a_zone_of_their_own_wherever_they_say_it(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "/timezone Asia/Tokyo", user="bob", **THREAD)
        assert "Asia/Tokyo" in await ask(here, "/timezone", user="bob")
        assert "named no time zone" in await ask(here, "/timezone", user="eve", **THREAD)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("berlin", "Did you mean /timezone Europe/Berlin?"),
        ("Asia/Tokio", "Did you mean /timezone Asia/Tokyo?"),
        ("xyzzy", "as a continent and a city"),
        ("x" * 3_000, "as a continent and a city"),
    ],
    ids=["city", "misspelt", "nothing", "long"],
)
@awaited
async def test_what_is_no_zone_gets_a_hint_and_changes_nothing(opened: Open, typed: str, hint: str) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        answer = await ask(here, f"/timezone {typed}")
        assert hint in answer
        assert len(answer) < 250
        assert not (await here.store.preferences.timezone_of("scripted:ada")).is_own


# Home channels


@awaited
async def test_new_conversations_are_told_of_the_home_and_running_ones_are_not(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "before")
        await ask(here, "/sethome", user_name="Ada")
        await ask(here, "same conversation")
        await ask(here, "/new")
        await ask(here, "after")
        before, same, after = (turn.context_prompt for turn in agent.turns)
        assert same == before
        assert "DM with Ada" in after
        assert "dm-ada" in after


@awaited
async def test_the_home_of_the_chat_goes_before_that_of_the_configuration(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    homes = (HomeChannel("scripted", "lobby", "The lobby"),)
    async with opened(agent, home_channels=homes) as here:
        await ask(here, "/sethome", **THREAD)
        await ask(here, "hello")
        assert await ask(here, "/sethome off", **GROUP) == texts.HOME_CONFIGURED.format(
            platform="scripted", name="The lobby"
        )
        await ask(here, "/new")
        await ask(here, "hello")
        named, configured = (turn.context_prompt for turn in agent.turns)
        assert "group: den, thread: plans" in named
        assert "The lobby" not in named
        assert "The lobby" in configured
        assert "plans" not in configured

"""How many turns run at once: in all, for one person, on one platform. What is over the limit waits, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gateway.talk import heard, turns_of
from tests.gateway.world import Open, Running, awaited

from threadline.testing.agents import ScriptedAgent

# Three conversations, of one person and of three.
ONE_PERSON: tuple[dict[str, Any], ...] = ({}, {"thread": "a"}, {"thread": "b"})
THREE_PEOPLE: tuple[dict[str, Any], ...] = ({"user": "ada"}, {"user": "bob"}, {"user": "eve"})


async def ask_all(here: Running, places: tuple[dict[str, Any], ...]) -> None:
    for place in places:
        here.chat.say("hello", **place)
    await heard(here)


async def answer_all(here: Running, agent: ScriptedAgent, count: int, at_once: int) -> None:
    """Answers one turn after the other; never does one more run than may."""
    for number in range(count):
        begun = min(at_once + number, count)
        await turns_of(here, agent, begun)
        assert (await here.store.maintenance.queue_counts()).running_turns <= at_once
        assert len(agent.turns) == begun
        agent.answer(f"answer {number}")
    await here.chat.wait_for(lambda: len(here.chat.texts()) == count)


@pytest.mark.parametrize(
    ("limit", "places"),
    [
        ("turns_at_once", THREE_PEOPLE),
        ("turns_per_platform", THREE_PEOPLE),
        ("turns_per_person", ONE_PERSON),
    ],
)
@pytest.mark.parametrize("most", [1, 2])
@awaited
async def test_no_more_run_at_once_than_may(
    opened: Open, limit: str, places: tuple[dict[str, Any], ...], most: int
) -> None:
    agent = ScriptedAgent()
    async with opened(agent, **{limit: most}) as here:
        await ask_all(here, places)
        await answer_all(here, agent, len(places), most)
        assert [line.fate for line in await here.store.maintenance.list_messages()] == ["answered"] * len(places)


@awaited
async def test_one_persons_limit_is_no_others(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, turns_per_person=1) as here:
        await ask_all(here, (*ONE_PERSON, {"user": "bob"}))
        await turns_of(here, agent, 2)
        assert {turn.source.user_id for turn in agent.turns} == {"ada", "bob"}
        for _ in range(2):
            agent.answer("done")
        for count in (3, 4):
            await turns_of(here, agent, count)
            agent.answer("done")
        await here.chat.wait_for(lambda: here.chat.texts() == ["done"] * 4)

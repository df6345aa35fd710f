"""Who is who where several people speak: two with the same name are told apart, and stay so."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from tests.gateway.talk import THREAD, ask, current, echo, heard, said, turns_of
from tests.gateway.world import Open, awaited

from threadline.model.speaker import Speaker, earlier_names, with_new_speakers
from threadline.ports.agent import Event, Text, Turn
from threadline.testing.agents import ScriptedAgent
from threadline.testing.contracts.storage.fixtures import StoredBytes

SUFFIXED = re.compile(r"\[Ada #\w+\] ")


async def short(_turn: Turn) -> AsyncIterator[Event]:
    yield Text("yes")


@awaited
async def test_the_first_keeps_the_name_and_the_second_gets_a_suffix_that_stays(opened: Open) -> None:
    agent = ScriptedAgent(short)
    async with opened(agent) as here:
        for user, text in (("bob", "one"), ("eve", "two"), ("bob", "three"), ("eve", "four")):
            await ask(here, text, user=user, user_name="Ada", **THREAD)
        await here.gateway.idle()
        session = await current(here, "den", "plans")
        mine, other, again, once_more = (line for line in await said(here, session.session_id) if line != "yes")
    assert (mine, again) == ("[Ada] one", "[Ada] three")
    assert SUFFIXED.match(other)
    assert other.replace("two", "four") == once_more
    assert [turn.text for turn in agent.turns] == [mine, other, again, once_more]
    after = ScriptedAgent(short)
    async with opened(after) as here:
        await ask(here, "five", user="eve", user_name="Ada", message_id="later", **THREAD)
        await ask(here, "six", user="bob", user_name="Ada", message_id="last", **THREAD)
    assert [turn.text for turn in after.turns] == [other.replace("two", "five"), "[Ada] six"]


@awaited
async def test_people_who_speak_in_one_turn_are_told_apart_too(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("first", user="bob", user_name="Ada", **THREAD)
        await turns_of(here, agent, 1)
        for user in ("eve", "tim"):
            here.chat.say("me too", user=user, user_name="ADA", **THREAD)
        await heard(here)
        agent.answer("yes")
        await turns_of(here, agent, 2)
        agent.answer("yes")
        await here.shows("yes", "yes", chat="den")
        labels = [part.text for part in agent.turns[1].messages]
        assert len({"[Ada] first", *labels}) == 3
        assert all("#" in label for label in labels)
        session = await current(here, "den", "plans")
        assert [line for line in await said(here, session.session_id) if line != "yes"] == ["[Ada] first", *labels]


@awaited
async def test_what_the_agent_is_given_while_it_runs_is_labelled_as_the_transcript_keeps_it(opened: Open) -> None:
    taken: list[str] = []

    async def steered(turn: Turn) -> AsyncIterator[Event]:
        here.chat.say("two", user="tim", user_name="Ada", **THREAD)
        here.chat.say("three", user="ada", user_name="Ada", **THREAD)
        while len(taken) < 2:
            await heard(here)
            taken.extend(part.text for part in await turn.take())
        yield Text("yes")

    async with opened(ScriptedAgent(steered), when_busy="steer") as here:
        await ask(here, "one", user="tim", user_name="Ada Lovelace", **THREAD)
        session = await current(here, "den", "plans")
        await here.gateway.idle()
        first, *more = [line for line in await said(here, session.session_id) if line != "yes"]
    assert first == "[Ada Lovelace] one"
    assert more == taken
    assert more[0] == "[Ada] two"
    assert SUFFIXED.match(more[1])


@awaited
async def test_a_copy_of_a_conversation_knows_who_spoke_in_it(opened: Open) -> None:
    agent = ScriptedAgent(short)
    async with opened(agent) as here:
        await ask(here, "one", user="ada", user_name="Ada", **THREAD)
        await ask(here, "/fork", user="ada", user_name="Ada", **THREAD)
        await ask(here, "two", user="bob", user_name="Ada", **THREAD)
        await ask(here, "/new", user="ada", user_name="Ada", **THREAD)
        await ask(here, "three", user="bob", user_name="Ada", **THREAD)
    first, copied, afresh = (turn.text for turn in agent.turns)
    assert first == "[Ada] one"
    assert SUFFIXED.match(copied)
    assert afresh == "[Ada] three"


@awaited
async def test_the_names_somebody_spoke_under_are_told_to_them_and_go_with_them(
    opened: Open, stored_bytes: StoredBytes
) -> None:
    async with opened(ScriptedAgent(short)) as here:
        for name in ("Roberta Once", "Roberta Twice"):
            await ask(here, "one", user="bob", user_name=name, **THREAD)
        await ask(here, "two", user="eve", user_name="Eve", **THREAD)
        (known, *_) = await here.store.export("scripted:bob")
        assert known.summary is not None
        assert known.summary.names == ["Roberta Once", "Roberta Twice"]
        await here.store.erase_person("scripted:bob")
        (known, *_) = await here.store.export("scripted:bob")
        assert known.summary is not None
        assert known.summary.names == []
        session = await current(here, "den", "plans")
        await here.store.delete_session(session.session_id)
        (known, *_) = await here.store.export("scripted:eve")
        assert known.summary is not None
        assert known.summary.names == []
    assert b"Roberta" not in stored_bytes()


@awaited
async def test_in_a_conversation_of_ones_own_nobody_is_noted(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "hello", user_name="Ada") == "you said: hello"
        (known, *_) = await here.store.export("scripted:ada")
        assert known.summary is not None
        assert known.summary.names == []


ADA, EVE, NEW_ADA = Speaker("p:ada", "Ada"), Speaker("p:eve", "Ada"), Speaker("p:ada", "Countess")


@pytest.mark.parametrize(
    ("speaker", "known", "names"),
    [
        (ADA, (), []),
        (ADA, (ADA, EVE), []),
        (EVE, (ADA, EVE), ["Ada"]),
        (EVE, (ADA,), ["Ada"]),
        # A name that somebody has used stays theirs under any later one.
        (EVE, (ADA, NEW_ADA, EVE), ["Ada", "Countess"]),
        (NEW_ADA, (ADA, EVE), ["Ada"]),
    ],
)
def test_compared_are_the_names_that_others_used_before(
    speaker: Speaker, known: tuple[Speaker, ...], names: list[str]
) -> None:
    assert earlier_names(speaker, known) == names


def test_each_has_the_place_where_they_first_used_a_name() -> None:
    assert with_new_speakers((ADA,), (EVE, ADA, EVE, NEW_ADA)) == (ADA, EVE, NEW_ADA)

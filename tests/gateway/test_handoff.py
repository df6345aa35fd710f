"""A conversation goes on in another chat: whole, announced, and never where it is not to be seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import pytest
from tests.gateway.talk import GROUP, THREAD, ChoosingAgent, ask, current, echo, heard, said, turns_of
from tests.gateway.world import Open, Running, awaited, settings_for

from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.model.context import HomeChannel
from threadline.ports.agent import Agent
from threadline.store.facade import GatewayStore
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform
from threadline.texts import commands as texts

RULES = AccessRules(
    owners=frozenset({"scripted:ada", "signal:ada"}),
    trusted=frozenset({"scripted:tim", "signal:tim"}),
    guests=frozenset({"signal:bob"}),
    answer_groups=frozenset({"*"}),
)
OpenBoth: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Running, Running]]]


@asynccontextmanager
async def both(location: str, agent: Agent, **settings: Any) -> AsyncIterator[tuple[Running, Running]]:
    """One gateway on two platforms: `scripted` and `signal`."""
    async with (
        ScriptedChat() as here,
        ScriptedChat() as there,
        await GatewayStore.open(location) as store,
    ):
        platforms = [
            ScriptedPlatform(here.address, capabilities=here.capabilities),
            ScriptedPlatform(there.address, name="signal", capabilities=there.capabilities),
        ]
        gateway = Gateway(store, settings_for(agent, **settings), RULES, platforms)
        await gateway.start(alone=True)
        try:
            for chat in (here, there):
                await chat.wait_for(lambda chat=chat: chat.connected)  # type: ignore[misc]
            yield Running(gateway, store, here), Running(gateway, store, there)
            assert not here.misuses + there.misuses
        finally:
            await gateway.stop()


@pytest.fixture
def on_both(location: str) -> OpenBoth:
    """`async with on_both(agent, …) as (here, there)`: a gateway on two platforms."""
    return partial(both, location)


def no_such_chat(name: str) -> str:
    return texts.NO_SUCH_CHAT.format(name=name)


@awaited
async def test_the_owner_goes_on_at_the_home_of_another_platform(on_both: OpenBoth) -> None:
    agent = ScriptedAgent(echo)
    async with on_both(agent) as (here, there):
        await ask(there, "earlier")
        await ask(there, "/sethome", user_name="Ada")
        await ask(here, "one")
        await ask(here, "/title Summer plans")
        place = texts.HANDOFF_PLACE.format(name="DM with Ada", platform="signal")
        assert await ask(here, "/handoff signal") == texts.HANDED_OVER.format(place=place)
        told = texts.HANDED_HERE.format(title="Summer plans", place="DM with ada (scripted)")
        await there.chat.wait_for(lambda: there.texts()[-1] == told)
        # Both go on, each on their own.
        assert await ask(there, "two") == "you said: two"
        assert await ask(here, "three") == "you said: three"
        on_signal, on_scripted = agent.turns[-2:]
        assert [m["content"] for m in on_signal.history] == ["one", "you said: one"]
        assert [m["content"] for m in on_scripted.history] == ["one", "you said: one"]
        assert on_signal.context_prompt != on_scripted.context_prompt
        assert "signal" in on_signal.context_prompt.lower()
        assert await ask(there, "/resume") != texts.NOTHING_TO_RESUME
        assert [m["content"] for m in agent.turns[0].history] == []
        assert await ask(there, "back") == "you said: back"
        assert agent.turns[-1].history[0]["content"] == "earlier"


@awaited
async def test_the_home_of_the_configuration_will_do(on_both: OpenBoth) -> None:
    homes = (HomeChannel("signal", "dm-ada", "My phone"),)
    async with on_both(ScriptedAgent(echo), home_channels=homes) as (here, there):
        await ask(here, "one")
        # Nobody has written there yet, so nobody knows whose chat it is.
        assert await ask(here, "/handoff signal") == no_such_chat("signal")
        await ask(there, "hello")
        assert "We go on in My phone (signal)" in await ask(here, "/handoff signal")


@awaited
async def test_the_choice_of_a_model_goes_along(on_both: OpenBoth) -> None:
    agent = ChoosingAgent(echo)
    async with on_both(agent) as (here, there):
        await ask(there, "hello")
        await ask(here, "/model swift")
        await ask(here, "/handoff signal:dm-ada")
        await there.shown(2)
        await ask(there, "two")
        assert agent.turns[-1].session.chosen_model == "own:swift"


@pytest.mark.parametrize("is_home", [False, True])
@awaited
async def test_an_owner_reaches_a_guests_chat_only_where_it_is_a_home(on_both: OpenBoth, is_home: bool) -> None:
    homes = (HomeChannel("signal", "dm-bob", "Bob"),) if is_home else ()
    async with on_both(ScriptedAgent(echo), home_channels=homes) as (here, there):
        await ask(there, "hello", user="bob")
        await ask(here, "one")
        answer = await ask(here, "/handoff signal:dm-bob")
        place = texts.HANDOFF_PLACE.format(name="Bob", platform="signal")
        assert answer == (texts.HANDED_OVER.format(place=place) if is_home else no_such_chat("signal:dm-bob"))
        await there.gateway.settled("signal")
        assert len(there.texts("dm-bob")) == (2 if is_home else 1)


@awaited
async def test_who_is_trusted_reaches_their_own_chats_and_no_others(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (here, there):
        for user in ("ada", "bob", "tim"):
            await ask(there, "hello", user=user)
        await ask(here, "in private", user="tim")
        await ask(here, "/sethome", user="ada")
        await ask(here, "one", user="tim", **GROUP)
        # On another platform they are somebody else, as long as nobody has linked the two.
        for target in ("signal:dm-ada", "signal:dm-bob", "signal:dm-tim", "signal:dm-nobody", "scripted:dm-ada"):
            assert await ask(here, f"/handoff {target}", user="tim", **GROUP) == no_such_chat(target)
        assert await ask(here, "/handoff scripted", user="tim", **GROUP) == no_such_chat("scripted")
        assert "We go on in DM with tim" in await ask(here, "/handoff scripted:dm-tim", user="tim", **GROUP)
        assert await said(here, (await current(here, "dm-tim")).session_id) == ["one", "you said: one"]
        assert [len(there.texts(f"dm-{user}")) for user in ("ada", "bob", "tim")] == [1, 1, 1]


@pytest.mark.parametrize("target", ["scripted:den", "scripted:den:plans", "scripted"])
@awaited
async def test_a_private_conversation_never_goes_on_in_a_group(opened: Open, target: str) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "hello", **GROUP)
        await ask(here, "hello", **THREAD)
        await ask(here, "/sethome", **THREAD)
        before = [(await current(here, "den", thread)).session_id for thread in (None, "plans")]
        shown = here.texts("den")
        await ask(here, "a secret")
        assert await ask(here, f"/handoff {target}") == texts.HANDOFF_PRIVATE
        assert [(await current(here, "den", thread)).session_id for thread in (None, "plans")] == before
        assert here.texts("den") == shown


@awaited
async def test_a_shared_conversation_goes_on_in_its_own_group_alone(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "hello")
        other, far = {**THREAD, "thread": "other"}, {**THREAD, "chat": "shed"}
        await ask(here, "hello", **other)
        await ask(here, "hello", **far)
        await ask(here, "one", **THREAD)
        for target in ("scripted:dm-ada", "scripted:shed:plans"):
            assert await ask(here, f"/handoff {target}", **THREAD) == texts.HANDOFF_SHARED
        here.chat.say("/handoff scripted:den:other", **THREAD)
        await here.chat.wait_for(lambda: any("We go on here with" in text for text in here.texts("den")))
        assert "one" in " ".join(await said(here, (await current(here, "den", "other")).session_id))
        assert here.texts() == ["you said: hello"]
        assert here.texts("shed") == ["you said: [ada] hello"]


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("signal", texts.NO_HOME.format(platform="signal")),
        ("signal:dm-ada", texts.NOT_CONNECTED.format(platform="signal")),
        ("scripted@work:dm-ada", texts.NOT_CONNECTED.format(platform="scripted@work")),
        ("scripted:nowhere", no_such_chat("scripted:nowhere")),
        ("scripted:dm-ada", texts.HANDOFF_HERE),
        ("Scripted", texts.USE["handoff"]),
        ("scripted:", texts.USE["handoff"]),
    ],
)
@awaited
async def test_what_can_not_be_reached_is_told(opened: Open, target: str, answer: str) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "one")
        session_id = (await current(here)).session_id
        assert await ask(here, f"/handoff {target}") == answer
        assert (await current(here)).session_id == session_id


@awaited
async def test_what_runs_in_the_other_chat_is_not_cut_short(on_both: OpenBoth) -> None:
    agent = ScriptedAgent()
    async with on_both(agent) as (here, there):
        there.chat.say("long question")
        await turns_of(there, agent, 1)
        busy = texts.HANDOFF_BUSY.format(place="DM with ada (signal)")
        assert await ask(here, "/handoff signal:dm-ada") == busy
        agent.answer("long answer")
        await there.shows("long answer")
        await there.gateway.idle()
        assert "We go on in" in await ask(here, "/handoff signal:dm-ada")


@awaited
async def test_it_waits_for_the_answer_that_runs_and_takes_that_along(on_both: OpenBoth) -> None:
    agent = ScriptedAgent()
    async with on_both(agent) as (here, there):
        there.chat.say("hello")
        await turns_of(there, agent, 1)
        agent.answer("hi")
        await there.shown(1)
        here.chat.say("question")
        await turns_of(here, agent, 2)
        here.chat.say("/handoff signal:dm-ada")
        here.chat.say("and this stays")
        await heard(here)
        agent.answer("answer")
        await turns_of(here, agent, 3)
        there.chat.say("and on")
        await turns_of(there, agent, 4)
        stayed, went = agent.turns[2:]
        assert (stayed.text, stayed.source.platform) == ("and this stays", "scripted")
        assert (went.text, went.source.platform) == ("and on", "signal")
        assert [m["content"] for m in went.history] == ["question", "answer"]
        for _ in range(2):
            agent.answer("done")
        await here.chat.wait_for(lambda: here.texts()[-1] == "done")
        await there.chat.wait_for(lambda: there.texts()[-1] == "done")


@awaited
async def test_an_id_may_hold_a_colon(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "hello", chat="!ada:example.org")
        await ask(here, "one")
        assert "We go on in" in await ask(here, "/handoff scripted:!ada:example.org")
        await here.chat.wait_for(lambda: len(here.texts("!ada:example.org")) == 2)

"""What happens at the door: a queue that is full, bursts, albums, and who is greeted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from tests.gateway.talk import ask, current, echo, heard, running_with, said, turns_of
from tests.gateway.world import Open, awaited

from threadline.clock import to_instant
from threadline.model.inbound import Inbound
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.source import SessionSource
from threadline.model.turn import QueueKind
from threadline.store.facade import GatewayStore
from threadline.store.work.inbox import AdmitRequest
from threadline.store.work.turn_end import ClaimRequest
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ALL_CAPABILITIES, ScriptedChat
from threadline.texts import commands as commands_texts
from threadline.texts import gateway as gateway_texts

ADA = SessionSource(platform="scripted", chat_id="dm-ada", user_id="ada")
IDLE = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60))
DAILY = ResetPolicies(default=SessionResetPolicy(mode="daily"))


def patient(policies: ResetPolicies, clock: FakeClock) -> dict[str, Any]:
    return {"policies": policies, "clock": clock, "timezone": "UTC"}


@awaited
async def test_a_full_queue_tells_each_sender_once_and_loses_nothing_it_took(opened: Open) -> None:
    agent = ScriptedAgent()
    full = gateway_texts.QUEUE_FULL.format(count=2)
    async with opened(agent, queue_per_session=2) as here:
        here.chat.say("one")
        await turns_of(here, agent, 1)
        for text in ("two", "three"):
            here.chat.say(text)
        await heard(here)
        for _ in range(2):
            here.chat.say("four", message_id="the-fourth")
            await heard(here)
        assert await ask(here, "five") == full
        await here.shows(full, full)
        agent.answer("first")
        await turns_of(here, agent, 2)
        agent.answer("second")
        await here.shows(full, full, "first", "second")
        assert agent.turns[1].text == "two\n\nthree"
        assert [line.fate for line in await here.store.maintenance.list_messages("refused")] == ["refused", "refused"]


@awaited
async def test_what_was_said_while_no_gateway_ran_is_answered_together_and_nothing_is_refused(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    chat, texts = ScriptedChat(), [f"message {number}" for number in range(200)]
    for text in texts:
        chat.say(text)
    async with opened(agent, chat=chat, burst_seconds=0.6) as here:
        await here.shown(1)
        assert [turn.text for turn in agent.turns] == ["\n\n".join(texts)]
        assert here.texts() == ["you said: " + agent.turns[0].text]
        lines = await here.store.maintenance.list_messages(limit=500)
        assert [line.fate for line in lines] == ["answered", *["merged"] * 199]


@awaited
async def test_in_a_queue_only_what_comes_while_the_gateway_runs_counts(opened: Open) -> None:
    agent, full = ScriptedAgent(), gateway_texts.QUEUE_FULL.format(count=2)
    chat = ScriptedChat()
    for number in range(20):
        chat.say(f"message {number}")
    async with opened(agent, chat=chat, when_busy="queue", queue_per_session=2) as here:
        await heard(here)
        assert await here.store.maintenance.list_messages("refused") == []
        for text in ("one", "two", "too many"):
            here.chat.say(text)
            await heard(here)
        await here.shows(full)
        await turns_of(here, agent, 1)
        assert len(await here.store.maintenance.list_messages("waiting")) == 21
        assert len(await here.store.maintenance.list_messages("refused")) == 1


@awaited
async def test_a_burst_and_an_album_become_one_turn(location: str) -> None:
    agent, clock = ScriptedAgent(), FakeClock()
    async with running_with(location, agent, store={"clock": clock}, burst_seconds=1.2, when_busy="queue") as here:
        here.chat.say("one")
        await heard(here)
        clock.advance(timedelta(seconds=1))
        here.chat.say("two")
        await heard(here)
        clock.advance(timedelta(seconds=1))
        # Not yet: the second message has pushed the start back.
        for album in ("holiday", "holiday"):
            here.chat.say("picture", album=album)
        await heard(here)
        assert agent.turns == []
        clock.advance(timedelta(seconds=2))
        await turns_of(here, agent, 1)
        agent.answer("all at once")
        await here.shows("all at once")
        assert agent.turns[0].text == "one\n\ntwo\n\npicture\n\npicture"
        assert sorted(line.fate for line in await here.store.maintenance.list_messages()) == [
            "answered",
            *["merged"] * 3,
        ]


@awaited
async def test_where_a_message_is_a_whole_thought_its_turn_begins_at_once(opened: Open) -> None:
    whole = msgspec.structs.replace(ALL_CAPABILITIES, bursts=False)
    # So long a burst that the test's own limit would end it.
    chat = ScriptedChat(capabilities=whole)
    async with opened(ScriptedAgent(echo), chat=chat, burst_seconds=3_600.0) as here:
        assert await ask(here, "hello") == "you said: hello"


@awaited
async def test_the_last_part_of_a_text_that_was_cut_at_the_limit_is_not_waited_after(location: str) -> None:
    agent, full = ScriptedAgent(echo), ALL_CAPABILITIES.max_length
    # A clock that stands still: whatever waits for more waits for ever.
    async with running_with(location, agent, store={"clock": FakeClock()}, burst_seconds=0.6) as here:
        parts = ("a" * full, "b" * (full - 2), "c")
        for part in parts:
            here.chat.say(part)
        await turns_of(here, agent, 1)
        assert agent.turns[0].text == "\n\n".join(parts)


@awaited
async def test_only_the_first_message_ever_gets_a_welcome(opened: Open, location: str) -> None:
    async with opened(ScriptedAgent(echo), welcome=True) as here:
        here.chat.say("hello")
        await here.shows(gateway_texts.WELCOME, "you said: hello")
        await ask(here, "/new")
        await ask(here, "again")
        assert await ask(here, "hello", user="bob") == "you said: hello"
        assert here.texts().count(gateway_texts.WELCOME) == 1
    async with opened(ScriptedAgent(echo), welcome=True) as here:
        assert await ask(here, "hello", user="eve") == "you said: hello"


@awaited
async def test_a_command_may_be_the_first_message_ever(opened: Open) -> None:
    async with opened(ScriptedAgent(echo), welcome=True) as here:
        here.chat.say("/whoami")
        greeting, answer = await here.shown(2)
        assert greeting == gateway_texts.WELCOME
        assert "scripted:ada" in answer


@awaited
async def test_a_reset_by_itself_is_told_once_and_resume_takes_it_back(location: str) -> None:
    clock = FakeClock()
    agent = ScriptedAgent(echo)
    async with running_with(location, agent, store=patient(IDLE, clock)) as here:
        await ask(here, "one")
        old = (await current(here)).session_id
        clock.advance(timedelta(hours=2))
        assert await ask(here, "two") == gateway_texts.RESET_IDLE
        await here.shows("you said: one", gateway_texts.RESET_IDLE, "you said: two")
    async with running_with(location, agent, store=patient(IDLE, clock)) as here:
        assert await ask(here, "three", message_id="later-1") == "you said: three"
        assert await ask(here, "/resume", message_id="later-2") == commands_texts.RESUMED.format(title=old)
        await ask(here, "four", message_id="later-3")
        assert await said(here, old) == ["one", "you said: one", "four", "you said: four"]


@awaited
async def test_resume_may_be_the_first_word_after_a_reset(location: str) -> None:
    clock = FakeClock()
    async with running_with(location, ScriptedAgent(echo), store=patient(DAILY, clock)) as here:
        await ask(here, "one")
        old = (await current(here)).session_id
        clock.advance(timedelta(days=1))
        here.chat.say("/resume")
        await here.shows("you said: one", gateway_texts.RESET_DAILY, commands_texts.RESUMED.format(title=old))
        assert (await current(here)).session_id == old


@awaited
async def test_a_reset_is_not_told_where_nobody_wants_to_hear_of_it(location: str) -> None:
    clock = FakeClock()
    quiet = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60, notify=False))
    async with running_with(location, ScriptedAgent(echo), store=patient(quiet, clock)) as here:
        await ask(here, "one")
        clock.advance(timedelta(hours=2))
        assert await ask(here, "two") == "you said: two"
        assert await here.transcript() == [("user", "two"), ("assistant", "you said: two")]


async def accepted(store: GatewayStore, text: str, lane: QueueKind, *, ago: timedelta = timedelta()) -> None:
    """Ada's message as a gateway took it, which then died."""
    now = store.clock.now()
    event = Inbound(dedupe_key=text, message_id=text, source=ADA, sent_at=now, text=text)
    await store.inbox.accept(
        AdmitRequest(
            event=event,
            resolve=store.resolve_request(ADA),
            lane=lane,
            person="scripted:ada",
            role="owner",
            at=to_instant(now - ago),
        )
    )


@awaited
async def test_a_command_that_a_dead_gateway_took_is_carried_out_by_the_next(opened: Open, location: str) -> None:
    async with await GatewayStore.open(location) as store:
        await accepted(store, "/whoami", "control", ago=timedelta(seconds=30))
    async with opened(ScriptedAgent(echo)) as here:
        (answer,) = await here.shown(1)
        assert "scripted:ada" in answer
        assert [line.fate for line in await here.store.maintenance.list_messages()] == ["answered"]


@awaited
async def test_what_follows_new_lands_in_the_new_session_though_the_gateway_died_in_between(
    opened: Open, location: str
) -> None:
    async with await GatewayStore.open(location) as store:
        await accepted(store, "/new", "session")
        await accepted(store, "two", "talk")
        now = to_instant(store.clock.now())
        wanted = ClaimRequest(owner="serve:dead", turn_ids=("t",), at=now, duration=60_000_000, platforms=("scripted",))
        (claimed,) = await store.turns.claim(wanted)
        await store.turns.set_replay(claimed.lease, "never")
        fresh = await store.resume.start_new(claimed.session.session_id)
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await here.chat.wait_for(lambda: "you said: two" in here.texts())
        assert [turn.session.session_id for turn in agent.turns] == [fresh.session_id]
        assert (await current(here)).session_id == fresh.session_id

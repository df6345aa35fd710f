"""Several questions in one turn: each is put once, and what was allowed is done by one run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.gateway.broken import DEAD, begun, place
from tests.gateway.talk import asked, turns_of
from tests.gateway.world import Open, awaited

from threadline.clock import Instant, to_instant
from threadline.model.delivery import Target
from threadline.model.inbound import IdChange
from threadline.ports.agent import AskPermission, Event, Permission, Text, Turn, Uses, permitted
from threadline.store.engine.database import write
from threadline.store.facade import GatewayStore
from threadline.store.rows import json_text
from threadline.store.work import approvals
from threadline.store.work.approvals import ApprovalAnswer, ApprovalDecision, ApprovalRequest
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest
from threadline.testing.agents import ScriptedAgent

FIRST = AskPermission(ask_id="1", tool="shell", arguments='{"command": "rm notes"}')
SECOND = AskPermission(ask_id="2", tool="mail", arguments='{"to": "bob"}')
DAY = 86_400_000_000


@awaited
async def test_an_agent_may_gather_its_answers_before_it_acts(opened: Open) -> None:
    done: list[str] = []

    async def careful(turn: Turn) -> AsyncIterator[Event]:
        for wanted in (FIRST, SECOND):
            if turn.answered(wanted) is None:
                yield wanted
                return
        done.extend(wanted.tool for wanted in (FIRST, SECOND) if turn.permitted(wanted))
        yield Text("Both done.")

    agent = ScriptedAgent(careful)
    async with opened(agent) as here:
        here.chat.say("tidy up")
        here.chat.say(f"/approve {await asked(here)}")
        here.chat.say(f"/approve {await asked(here, count=2)}")
        await here.chat.wait_for(lambda: "Both done." in here.texts())
        assert done == ["shell", "mail"]
        assert len(agent.turns) == 3


@awaited
async def test_what_was_allowed_is_done_by_one_run_however_often_it_is_asked_about(opened: Open) -> None:
    done: list[str] = []

    async def silent(turn: Turn) -> AsyncIterator[Event]:
        for wanted in (FIRST, SECOND):
            if turn.answered(wanted) is None:
                yield wanted
                return
            if turn.permitted(wanted):
                done.append(wanted.tool)
        yield Text("All done.")

    async with opened(ScriptedAgent(silent)) as here:
        here.chat.say("tidy up")
        here.chat.say(f"/approve {await asked(here)}")
        here.chat.say(f"/approve {await asked(here, count=2)}")
        await here.chat.wait_for(lambda: "All done." in here.texts())
        assert done == ["shell", "mail"]


@awaited
async def test_a_no_is_told_to_every_later_run(opened: Open) -> None:
    told: list[tuple[bool | None, bool | None]] = []

    async def careful(turn: Turn) -> AsyncIterator[Event]:
        told.append((turn.answered(FIRST), turn.permitted(FIRST)))
        for wanted in (FIRST, SECOND):
            if turn.answered(wanted) is None:
                yield wanted
                return
        yield Text("Over.")

    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        here.chat.say(f"/deny {await asked(here)}")
        here.chat.say(f"/approve {await asked(here, count=2)}")
        await here.chat.wait_for(lambda: "Over." in here.texts())
        assert told == [(None, None), (False, False), (False, False)]


@pytest.mark.parametrize("is_used", [False, True])
@awaited
async def test_a_gateway_that_ends_keeps_an_answer_that_was_not_used(opened: Open, is_used: bool) -> None:
    async def slow(turn: Turn) -> AsyncIterator[Event]:
        if turn.answered(FIRST) is None:
            yield FIRST
        elif not is_used or turn.permitted(FIRST):
            await asyncio.Event().wait()

    async def quick(turn: Turn) -> AsyncIterator[Event]:
        yield Text(f"{turn.answered(FIRST)} {turn.permitted(FIRST)}")

    agent = ScriptedAgent(slow)
    async with opened(agent) as here:
        here.chat.say("tidy up")
        here.chat.say(f"/approve {await asked(here)}")
        await turns_of(here, agent, 2)
    async with opened(ScriptedAgent(quick)) as here:
        # What it began to do nobody knows the end of: then it must ask again.
        await here.chat.wait_for(lambda: ("None None" if is_used else "True True") in here.texts())


@awaited
async def test_a_yes_that_a_broken_run_was_told_counts_no_more(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        turn = await begun(store)
        await _ask(store, turn, FIRST, "AAAA")
        turn = await _answered(store, turn)
        assert [(one.decision, one.is_used) for one in turn.answers] == [("granted", False)]
        # It died before anybody knew what it did.
        await store.leases.expire_owned_by(f"{DEAD}%")
        (lost,) = await store.turns.take_over(DEAD, ["scripted"], DAY)
        await store.turns.release(lost.lease, lost.session_pk)
        turn = await _claimed(store)
        assert turn.answers == ()
        await _ask(store, turn, FIRST, "BBBB")
        turn = await _answered(store, turn)
        (first,) = turn.answers
        # Of what it was told it has used nothing.
        await _ask(store, turn, SECOND, "CCCC", unused=(first.pk,))
        turn = await _answered(store, turn)
        assert turn.answers[0] == first
        # And now the first.
        await _ask(store, turn, FIRST, "DDDD", unused=(turn.answers[1].pk,))
        turn = await _answered(store, turn)
        assert [one.is_used for one in turn.answers] == [True, False, False]
        assert turn.answers[0] == ApprovalAnswer(first.pk, first.event, "granted", is_used=True)


@pytest.mark.parametrize("is_on_its_way", [False, True])
@awaited
async def test_a_question_is_found_where_its_chat_is_now(location: str, is_on_its_way: bool) -> None:
    async with await GatewayStore.open(location) as store:
        turn = await begun(store)
        await _ask(store, turn, FIRST, "AAAA")
        (question,) = await store.outbox.claim([("scripted", "main")], owner=DEAD, duration=DAY, limit=9)
        if not is_on_its_way:
            await store.outbox.mark_sent(question, "m1")
        await store.id_changes.apply(
            IdChange(
                platform="scripted", account="main", dedupe_key="1", what="chat", old_id="dm-ada", new_id="dm-ada-2"
            )
        )
        if is_on_its_way:
            await store.outbox.mark_sent(question, "m1")
        assert await store.approvals.find_in_chat(place().ordering_key, "AAAA") is None
        found = await store.approvals.find_in_chat(Target(platform="scripted", chat_id="dm-ada-2").ordering_key, "AAAA")
        assert found is not None
        assert found.shown_at is not None


def test_nothing_is_permitted_once_the_run_is_over() -> None:
    uses, given = Uses(), (Permission(FIRST, granted=True),)
    assert permitted(given, FIRST, uses) is True
    assert uses.end() == {FIRST}
    assert permitted(given, FIRST, uses) is None


async def _claimed(store: GatewayStore) -> ClaimedTurn:
    at = to_instant(store.clock.now())
    (claimed,) = await store.turns.claim(
        ClaimRequest(owner=DEAD, turn_ids=("unneeded",), at=at, duration=DAY, platforms=("scripted",))
    )
    return claimed


async def _ask(
    store: GatewayStore, turn: ClaimedTurn, wanted: AskPermission, code: str, unused: tuple[int, ...] = ()
) -> None:
    at = to_instant(store.clock.now())
    question = NewDelivery(delivery_id=code, target=place(), text="?", session_pk=turn.session_pk)
    await store.approvals.request(
        ApprovalRequest(
            turn_pk=turn.lease.turn_pk,
            fence=turn.lease.fence,
            session_id=turn.session.session_id,
            place=turn.last_journal_place + 1,
            events=[json_text(wanted)],
            event=json_text(wanted),
            least_role="owner",
            code=code,
            streamed_text=None,
            messages=(question,),
            unused=unused,
            at=at,
            expires_at=Instant(at + DAY),
        )
    )


async def _answered(store: GatewayStore, turn: ClaimedTurn) -> ClaimedTurn:
    """Somebody says yes, and the turn runs again."""
    waiting = await store.approvals.find_open(turn.session.session_id)
    assert waiting is not None
    yes = ApprovalDecision(approval_pk=waiting.pk, decision="granted", person=None, fallback_replies=())
    await store.perform_async(write(approvals.decide, to_instant(store.clock.now()), yes))
    return await _claimed(store)

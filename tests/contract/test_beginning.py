"""A message whose people wait for its answer is taken in together with its turn, or not at all. On both engines."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.contract.gateways import OpenGateway, Run, over

from threadline.clock import to_instant
from threadline.errors import ConversationBusy, UnknownSession
from threadline.ids import new_turn_ids
from threadline.model.inbound import Inbound
from threadline.model.message import encode_message
from threadline.model.policy import SessionResetPolicy
from threadline.model.source import SessionSource
from threadline.model.turn import QueueKind
from threadline.store.engine.database import Tx, read, write
from threadline.store.facade import GatewayStore
from threadline.store.rows import StoredSession
from threadline.store.work.inbox import AdmitRequest, AdmitResult, Greeting, accept
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest, TurnResult, UserMessage
from threadline.store.work.turns import _add_turn
from threadline.testing import FakeClock, assistant, dm, exchange, user

LEASE = 60_000_000
TOM = dm(chat_id="dm-9", user_id="9")


def admission(store: GatewayStore, key: str, source: SessionSource) -> AdmitRequest:
    """A message of somebody who waits for its answer."""
    event = Inbound(dedupe_key=key, message_id=key, source=source, text=key, sent_at=store.clock.now())
    wanted = store.resolve_request(source)
    return AdmitRequest(
        event=event, resolve=wanted, lane="talk", person="telegram:7", role="owner", at=wanted.at, only_if_idle=True
    )


def claim(store: GatewayStore, source: SessionSource, per_platform: int = 16) -> ClaimRequest:
    """Who runs the turn."""
    now = store.clock.now()
    return ClaimRequest(
        owner="here",
        turn_ids=new_turn_ids(now, 1),
        at=to_instant(now),
        duration=LEASE,
        platforms=("telegram",),
        addresses=(store.resolve_request(source).address.digest,),
        per_platform=per_platform,
    )


async def begun(
    store: GatewayStore, key: str, source: SessionSource | None = None, per_platform: int = 16
) -> list[ClaimedTurn]:
    """The turn that a message begins with; `ConversationBusy` where something else goes on."""
    source = source or dm()
    greeting = Greeting(welcome=None, idle="?", daily="?")
    wanted = admission(store, key, source)
    received, claimed = await store.turns.accept_and_claim(wanted, greeting, claim(store, source, per_platform))
    assert received.admit_result.pk is not None
    return claimed


async def end(store: GatewayStore, turn: ClaimedTurn) -> None:
    """The turn is over."""
    await store.turns.finish(over(store, turn))


async def answer(store: GatewayStore, turn: ClaimedTurn) -> None:
    """The turn is over, and in the transcript stands what was said and what was answered."""
    said = tuple(
        UserMessage(
            inbox_pk=waiting.pk,
            message=encode_message(user(waiting.event.text)),
            author=None,
            external_id=None,
            fate="answered",
        )
        for waiting in turn.messages
    )
    await store.turns.finish(
        replace(over(store, turn), outcomes=(), user_messages=said, answer=(encode_message(assistant("yes")),))
    )


def is_known(tx: Tx, key: str) -> bool:
    """Whether an address of that name is stored."""
    return tx.find("key_is_taken", key=key) is not None


async def heard(store: GatewayStore) -> list[str | None]:
    """What came in, and its fate."""
    return [line.fate for line in await store.maintenance.list_messages()]


def test_where_nothing_goes_on_the_turn_begins_with_its_message_and_its_history(
    gateway: GatewayStore, run: Run
) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    run(gateway.append_to_transcript(entry.session_id, exchange("before", "so it was")))
    (turn,) = run(begun(gateway, "hello"))
    assert [waiting.event.text for waiting in turn.messages] == ["hello"]
    assert [message["content"] for message in turn.history or ()] == ["before", "so it was"]
    assert turn.session.session_id == entry.session_id
    assert run(gateway.turns.claim(claim(gateway, dm()))) == []
    run(end(gateway, turn))
    assert run(heard(gateway)) == ["answered"]
    (again,) = run(begun(gateway, "hello again"))
    assert again.lease.turn_pk != turn.lease.turn_pk


def test_a_long_history_is_left_to_whoever_runs_the_turn(gateway: GatewayStore, run: Run) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    run(gateway.append_to_transcript(entry.session_id, exchange("a", "b") * 40))
    (turn,) = run(begun(gateway, "hello"))
    assert turn.history is None


def test_so_is_a_heavy_one(gateway: GatewayStore, run: Run) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    run(gateway.append_to_transcript(entry.session_id, exchange("a", "b" * 70_000)))
    (turn,) = run(begun(gateway, "hello"))
    assert turn.history is None


def test_two_messages_under_one_id_end_a_turn_like_any_other(gateway: GatewayStore, run: Run) -> None:
    for key in ("one", "two"):
        run(gateway.inbox.accept(replace(admission(gateway, key, dm()), only_if_idle=False)))
    (turn,) = run(gateway.turns.claim(claim(gateway, dm())))
    said = tuple(
        UserMessage(
            inbox_pk=waiting.pk,
            message=encode_message({"role": "user", "content": waiting.event.text}),
            author=None,
            external_id="the same",
            fate="answered",
        )
        for waiting in turn.messages
    )
    at = to_instant(gateway.clock.now())
    session_id = turn.session.session_id
    run(
        gateway.turns.finish(
            TurnResult(
                lease=turn.lease,
                session_id=session_id,
                outcome="answered",
                at=at,
                user_messages=said,
                taken_messages=turn.messages,
            )
        )
    )
    assert [message["content"] for message in run(gateway.load_transcript(session_id))] == ["one", "two"]


def test_a_key_of_a_caller_s_own_is_free_whatever_turns_have_appended(gateway: GatewayStore, run: Run) -> None:
    (turn,) = run(begun(gateway, "hello"))
    run(answer(gateway, turn))
    session_id = turn.session.session_id
    keys = (f"in:{turn.messages[0].pk}", f"turn:{turn.lease.turn_id}")
    for _ in range(2):
        for key in keys:
            run(gateway.append_to_transcript(session_id, user(key), idempotency_key=key))
    said = [message["content"] for message in run(gateway.load_transcript(session_id))]
    assert said == ["hello", "yes", *keys]


def test_what_was_appended_while_a_turn_ran_stands_before_its_answer(gateway: GatewayStore, run: Run) -> None:
    (turn,) = run(begun(gateway, "hello"))
    session_id = turn.session.session_id
    run(gateway.append_to_transcript(session_id, user("meanwhile"), idempotency_key="m"))
    run(answer(gateway, turn))
    said = [message["content"] for message in run(gateway.load_transcript(session_id))]
    assert said == ["meanwhile", "hello", "yes"]
    assert run(gateway.get_session(session_id)).message_count == 3
    assert run(gateway.check()).ok


def test_while_a_turn_runs_nothing_is_taken_in_and_nothing_changed(
    gateway: GatewayStore, run: Run, clock: FakeClock
) -> None:
    (turn,) = run(begun(gateway, "first"))
    before = run(gateway.get_session(turn.session.session_id)), run(heard(gateway))
    clock.advance(timedelta(minutes=1))
    with pytest.raises(ConversationBusy):
        run(begun(gateway, "second"))
    assert (run(gateway.get_session(turn.session.session_id)), run(heard(gateway))) == before
    run(end(gateway, turn))
    assert len(run(begun(gateway, "second"))) == 1


def test_what_waits_goes_first(gateway: GatewayStore, run: Run) -> None:
    waiting = replace(admission(gateway, "waits", dm()), only_if_idle=False)
    run(gateway.inbox.accept(waiting))
    with pytest.raises(ConversationBusy):
        run(begun(gateway, "hello"))
    (turn,) = run(gateway.turns.claim(claim(gateway, dm())))
    assert [one.event.text for one in turn.messages] == ["waits"]


def test_where_as_much_runs_as_may_it_is_taken_in_and_waits_its_turn(gateway: GatewayStore, run: Run) -> None:
    (turn,) = run(begun(gateway, "first", TOM))
    assert run(begun(gateway, "second", per_platform=1)) == []
    assert run(gateway.turns.claim(claim(gateway, dm(), 1))) == []
    run(end(gateway, turn))
    (later,) = run(gateway.turns.claim(claim(gateway, dm(), 1)))
    assert [one.event.text for one in later.messages] == ["second"]


def test_of_two_at_once_one_begins_and_the_other_hears_so(open_gateway: OpenGateway, run: Run) -> None:
    stores = open_gateway(), open_gateway()
    run(stores[0].get_or_create_session(dm()))

    async def both() -> list[object]:
        work = (begun(store, f"of {number}") for number, store in enumerate(stores))
        return await asyncio.gather(*work, return_exceptions=True)

    outcomes = run(both())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ConversationBusy", "list"], outcomes
    assert run(heard(stores[0])) == ["running"]


def test_what_another_gateway_takes_in_at_the_same_time_leaves_no_turn(gateway: GatewayStore, run: Run) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    wanted, mine = admission(gateway, "hello", dm()), claim(gateway, dm())
    row: dict[str, Any] = {
        "account": "main",
        "dedupe_key": "hello",
        "session_pk": None,
        "turn_pk": None,
        "lane": "talk",
        "event": "{}",
    }
    row |= {"platform": "telegram", "person": None, "role": "owner", "at": 1}

    def make(tx: Tx, session: StoredSession) -> int | None:
        made = _add_turn(tx, mine, mine.turn_ids[0], session, "talk", "owner", dm())
        # The other one is a moment faster.
        tx.find("add_taken_inbound", **row)
        return int(made[0])

    def take(tx: Tx) -> AdmitResult:
        return accept(tx, wanted, lambda session, is_first: make(tx, session))

    admitted = gateway.database.perform(write(take))
    assert admitted.pk is None
    assert run(heard(gateway)) == ["waiting"]
    (turn,) = run(begun(gateway, "hello again"))
    assert turn.session.session_id == entry.session_id


def test_a_message_that_was_here_before_begins_nothing(gateway: GatewayStore, run: Run) -> None:
    (turn,) = run(begun(gateway, "hello"))
    run(end(gateway, turn))
    greeting = Greeting(welcome=None, idle="?", daily="?")
    wanted = admission(gateway, "hello", dm())
    received, claimed = run(gateway.turns.accept_and_claim(wanted, greeting, claim(gateway, dm())))
    assert received.admit_result.pk is None
    assert claimed == []


@pytest.mark.parametrize("lane", ["talk", "session", "control"])
def test_where_a_message_begins_no_conversation_there_must_be_one(
    gateway: GatewayStore, run: Run, lane: QueueKind
) -> None:
    def wanted(key: str) -> AdmitRequest:
        resolve = gateway.resolve_request(dm(), must_exist=True)
        return replace(admission(gateway, key, dm()), resolve=resolve, lane=lane)

    greeting = Greeting(welcome="Hello!", idle="?", daily="?")
    with pytest.raises(UnknownSession):
        run(gateway.turns.accept_and_claim(wanted("hello"), greeting, claim(gateway, dm())))
    assert not gateway.database.perform(read(is_known, gateway.session_key(dm())))
    entry = run(gateway.get_or_create_session(dm()))
    received, _ = run(gateway.turns.accept_and_claim(wanted("hello"), greeting, claim(gateway, dm())))
    assert received.admit_result.session is not None
    assert received.admit_result.session.session_id == entry.session_id
    run(gateway.delete_session(entry.session_id))
    before = len(run(gateway.maintenance.list_messages()))
    for _ in range(2):
        with pytest.raises(UnknownSession):
            run(gateway.inbox.accept_and_greet(wanted("again"), greeting))
    assert len(run(gateway.maintenance.list_messages())) == before
    assert list(run(gateway.list_sessions())) == []


def test_a_conversation_that_starts_afresh_by_itself_is_there(
    gateway: GatewayStore, run: Run, clock: FakeClock
) -> None:
    entry = run(gateway.get_or_create_session(dm()))
    run(gateway.append_to_transcript(entry.session_id, exchange("before", "so it was")))
    clock.advance(timedelta(days=3))
    resolve = replace(gateway.resolve_request(dm(), must_exist=True), policy=SessionResetPolicy(mode="idle"))
    wanted = replace(admission(gateway, "hello", dm()), resolve=resolve)
    received = run(gateway.inbox.accept_and_greet(wanted, Greeting(welcome=None, idle="?", daily="?")))
    assert received.admit_result.session is not None
    assert received.admit_result.session.session_id != entry.session_id

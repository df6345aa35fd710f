"""What is left of a person in any table: all of it is told to them, and none of it outlives their erasure."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any

import msgspec
import pytest

from threadline.clock import to_instant
from threadline.errors import LeaseLost
from threadline.model.delivery import target_of
from threadline.model.inbound import Attachment, Inbound
from threadline.model.message import encode_message
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.model.usage import Usage
from threadline.store.engine.sql import migrations
from threadline.store.facade import GatewayStore
from threadline.store.work.inbox import AdmitRequest, Greeting, RefuseRequest
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest, TurnResult, UserMessage
from threadline.testing import assistant, user
from threadline.testing.contracts.storage.fixtures import RawExecute, StoredBytes

# All that is this person's has these letters in it, names and ids as well as words; nothing else has.
MARK = b"zebra"
WHO = SessionSource(
    platform="telegram", chat_id="zebra-chat", user_id="zebra", user_name="Zebraline", user_handle="@zebraline"
)
TOGETHER = msgspec.structs.replace(WHO, chat_type="group", chat_id="g1", thread_id="t1")
OTHER = SessionSource(platform="telegram", chat_type="group", chat_id="g1", thread_id="t1", user_id="8")
PERSON = "telegram:zebra"

# What they are told, wherever it is kept.
TOLD = (
    "zebra answered",
    "zebra reply",
    "zebra running",
    "zebra waiting",
    "zebra together",
    "zebra welcome",
    "zebra refused",
    "zebra copied",
    "zebra picture",
    "Zebra crossing",
    "zebra surroundings",
    "zebra remembered",
    "Zebraline",
    "the door was shut",
)

# These hold numbers and times alone.
OF_NOBODY = {"unindexed", "moved", "ready", "pairing_guard", "expiry_places", "expiry_again", "alarms", "named_leases"}
# These are filled, told and emptied in tests of their own.
ELSEWHERE = {
    "asks",
    "flushes",
    "speakers",
    "preferences",
    "homes",
    "moves",
    "files",
    "file_senders",
    "file_uses",
    "web_logins",
    "web_invites",
    "key_aliases",
    "adoptions",
}


def event(store: GatewayStore, source: SessionSource, text: str, key: str) -> Inbound:
    return Inbound(dedupe_key=key, message_id=key, source=source, text=text, sent_at=store.clock.now())


def notice(source: SessionSource, text: str, key: str) -> NewDelivery:
    return NewDelivery(delivery_id=key, target=target_of(source), text=text)


async def hear(store: GatewayStore, source: SessionSource, text: str, key: str) -> None:
    """Somebody says something, and is greeted if it is the first time that anybody does."""
    wanted = AdmitRequest(
        event=event(store, source, text, key),
        resolve=store.resolve_request(source),
        lane="talk",
        person=person_of(source),
        role="guest",
        at=to_instant(store.clock.now()),
    )
    told = "zebra welcome"
    await store.inbox.accept_and_greet(wanted, Greeting(welcome=told, idle=told, daily=told))


async def claim(store: GatewayStore, turn_id: str) -> ClaimedTurn:
    at = to_instant(store.clock.now())
    wanted = ClaimRequest(
        owner="serve-1", turn_ids=(turn_id,), at=at, duration=60_000_000, per_person=9, platforms=("telegram",)
    )
    (claimed,) = await store.turns.claim(wanted)
    return claimed


async def answer(store: GatewayStore, claimed: ClaimedTurn, text: str) -> None:
    """Ends a turn with an answer that waits to be sent."""
    said = tuple(
        UserMessage(
            inbox_pk=item.pk,
            message=encode_message(user(item.event.text)),
            author=item.person,
            external_id=item.event.message_id,
            fate="answered",
        )
        for item in claimed.messages
    )
    reply = msgspec.structs.replace(
        notice(claimed.origin, text, f"{claimed.lease.turn_id}.0"), kind="reply", session_pk=claimed.session_pk
    )
    await store.turns.finish(
        TurnResult(
            lease=claimed.lease,
            session_id=claimed.session.session_id,
            outcome="answered",
            at=to_instant(store.clock.now()),
            user_messages=said,
            answer=(encode_message(assistant(text)),),
            usage=Usage(input_tokens=1),
            replies=(reply,),
            taken_messages=claimed.messages,
        )
    )


async def live(store: GatewayStore) -> tuple[ClaimedTurn, ClaimedTurn]:
    """All that can happen to a person; the turns that still run, of their own and in the session that they share."""
    await store.people.request_pairing(WHO)
    await store.people.set_role(PERSON, "guest", "Zebraline")
    await hear(store, WHO, "zebra answered", "m1")
    first = await claim(store, "t1")
    await store.turns.ensure_context(first.session_pk, "zebra surroundings")
    await store.agent_state.save(first.lease, first.session_pk, "main", "zebra remembered")
    await answer(store, first, "zebra reply")
    await store.set_title(first.session.session_id, "Zebra crossing")
    await fork_and_delete(store)
    await hear(store, OTHER, "ordinary words", "m2")
    await hear(store, TOGETHER, "zebra together", "m3")
    shared = await claim(store, "t2")
    await answer(store, shared, "ordinary reply")
    await store.append_to_transcript(shared.session.session_id, user("ordinary too"), author="telegram:8")
    await store.rewrite_transcript(shared.session.session_id, [user("zebra and others"), user("ordinary too")])
    await hear(store, TOGETHER, "zebra once more", "m4")
    together = await claim(store, "t3")
    await hear(store, WHO, "zebra running", "m5")
    alone = await claim(store, "t4")
    await store.turns.append_journal(alone.lease, 1, ["zebra thought"])
    stream = msgspec.structs.replace(notice(WHO, "", "s1"), session_pk=alone.session_pk, turn_pk=alone.lease.turn_pk)
    await store.outbox.open_stream(stream)
    await hear(store, WHO, "zebra waiting", "m6")
    at = to_instant(store.clock.now())
    refused = event(store, WHO, "zebra unheard", "m7")
    told = notice(WHO, "zebra refused", "n1")
    await store.inbox.refuse(
        RefuseRequest(event=refused, person=PERSON, role="group", at=at, note="the door was shut", notice=told)
    )
    picture = Attachment(handle="file:00", name="zebra picture")
    await store.outbox.enqueue(msgspec.structs.replace(notice(WHO, "", "f1"), person=PERSON, files=(picture,)))
    await store.index_pending()
    return alone, together


async def fork_and_delete(store: GatewayStore) -> None:
    """A conversation of theirs is deleted, and somebody else holds a copy of it."""
    entry = await store.get_or_create_session(msgspec.structs.replace(WHO, thread_id="t9"))
    await store.append_to_transcript(entry.session_id, user("zebra copied"))
    for other in (OTHER, SessionSource(platform="telegram", chat_id="dm-8", user_id="8")):
        theirs = await store.get_or_create_session(other)
        await store.fork_session(entry.session_id, key=theirs.session_key)
    await store.delete_session(entry.session_id)


async def exported(store: GatewayStore) -> list[dict[str, Any]]:
    records, cursor = [], None
    while True:
        page = await store.export(PERSON, limit=3, cursor=cursor)
        records += [record.to_dict() for record in page]
        if (cursor := page.cursor) is None:
            return records


def tables() -> set[str]:
    made = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
    return {name for step in migrations("sqlite") for name in made.findall(step.script)}


def require_rows(raw_execute: RawExecute, table: str) -> None:
    """Fails where the table is empty: then there is a row to insert, which no engine takes."""
    raw_execute(f"INSERT INTO meta (name, value) SELECT 'empty', NULL WHERE NOT EXISTS (SELECT 1 FROM {table})")


def test_every_table_that_holds_something_of_people_is_looked_at(
    gateway: GatewayStore, runner: asyncio.Runner, raw_execute: RawExecute
) -> None:
    runner.run(live(gateway))
    for table in sorted(tables() - OF_NOBODY - ELSEWHERE):
        require_rows(raw_execute, table)


def test_an_empty_table_is_noticed(gateway: GatewayStore, raw_execute: RawExecute) -> None:
    with pytest.raises(Exception, match=r"(?i)not.null"):
        require_rows(raw_execute, "inbox")


def test_all_that_is_known_is_told(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    runner.run(live(gateway))
    records = runner.run(exported(gateway))
    text = json.dumps(records)
    assert [words for words in TOLD if words not in text] == []
    assert "ordinary" not in text
    first, *others = records
    assert first["standing"]["role"] == "guest"
    assert first["standing"]["asked_at"]
    counted = {
        "session": "sessions",
        "message": "messages",
        "usage": "usage",
        "event": "events",
        "delivery": "deliveries",
    }
    kinds = Counter(record["kind"] for record in others)
    assert kinds == {kind: first[name] for kind, name in counted.items()}


def test_what_became_of_each_message_is_told(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    runner.run(live(gateway))
    events = [record for record in runner.run(exported(gateway)) if record["kind"] == "event"]
    assert [(e["fate"], e["turn_id"], e["event"].get("text", "")) for e in events] == [
        ("answered", "t1", ""),
        ("answered", "t2", ""),
        ("running", "t3", "zebra once more"),
        ("running", "t4", "zebra running"),
        ("waiting", None, "zebra waiting"),
        ("refused", None, ""),
    ]


def test_nothing_outlives_an_erasure(
    gateway: GatewayStore, runner: asyncio.Runner, raw_execute: RawExecute, stored_bytes: StoredBytes
) -> None:
    runner.run(live(gateway))
    # The planner may have looked at any table, and kept samples of what it saw.
    raw_execute("ANALYZE")
    assert MARK in stored_bytes().lower()
    runner.run(gateway.erase_person(PERSON))
    left = stored_bytes()
    traces = [left[max(found.start() - 60, 0) : found.end() + 60] for found in re.finditer(MARK, left.lower())]
    assert traces == []
    for words in (b"ordinary words", b"ordinary too", b"ordinary reply"):
        assert words in left
    (only,) = runner.run(exported(gateway))
    assert {key: value for key, value in only.items() if value} == {"kind": "person", "person": PERSON}
    assert runner.run(gateway.check()).ok


def test_turns_that_run_meanwhile_bring_nothing_back(
    gateway: GatewayStore, runner: asyncio.Runner, stored_bytes: StoredBytes
) -> None:
    alone, together = runner.run(live(gateway))
    runner.run(gateway.erase_person(PERSON))
    with pytest.raises(LeaseLost):
        runner.run(gateway.turns.append_journal(alone.lease, 2, ["zebra thought"]))
    with pytest.raises(LeaseLost):
        runner.run(answer(gateway, alone, "zebra reply"))
    runner.run(answer(gateway, together, "ordinary end"))
    assert MARK not in stored_bytes().lower()
    said = runner.run(gateway.load_transcript(together.session.session_id))
    assert said[-1]["content"] == "ordinary end"


def test_what_they_sent_before_is_not_taken_for_new(gateway: GatewayStore, runner: asyncio.Runner) -> None:
    runner.run(live(gateway))
    runner.run(gateway.erase_person(PERSON))
    before = runner.run(gateway.maintenance.list_messages())
    runner.run(hear(gateway, WHO, "zebra answered", "m1"))
    assert runner.run(gateway.maintenance.list_messages()) == before
    theirs = [line for line in before if line.chat_id is None]
    assert len(theirs) == 6
    assert {line.person for line in theirs} == {None}
    assert not {line.fate for line in theirs} & {"waiting", "running"}

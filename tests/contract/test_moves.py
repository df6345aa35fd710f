"""A chat or a person gets another id from its platform: the conversation goes on, and what was known stays known."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest
from tests.gateway.world import awaited

from threadline import SessionStore
from threadline.clock import to_instant
from threadline.model.address import SessionScope, address_of
from threadline.model.delivery import Target, target_of
from threadline.model.inbound import IdChange, Inbound
from threadline.model.ownership import person_of
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.conversations import id_changes
from threadline.store.engine.sql import load_queries
from threadline.store.facade import GatewayStore
from threadline.store.people.people import PairingCode
from threadline.store.work.inbox import AdmitRequest
from threadline.store.work.outbox import NewDelivery, StreamedDelivery
from threadline.store.work.turn_end import ClaimRequest
from threadline.testing import FakeClock, assistant, dm, group, thread, user
from threadline.testing.contracts.storage.fixtures import RawExecute, StoredBytes

# Ids that a pattern, a key or a piece of JSON could take for something else, or for one another.
NASTY = ("1", "10", "-1", "-100", "%", "_", "!", '"', "\\", "a:b", "a", "é", "%25", '"user_id":"1"', "x" * 300)


def move(what: str, old: str, new: str, **fields: Any) -> IdChange:
    values: dict[str, Any] = {"platform": "telegram", "account": "main", "dedupe_key": f"{what}/{old}/{new}"}
    return IdChange(**values | {"what": what, "old_id": old, "new_id": new} | fields)


@asynccontextmanager
async def opened(location: str, **settings: Any) -> AsyncIterator[GatewayStore]:
    async with await GatewayStore.open(location, clock=FakeClock(), **settings) as store:
        yield store


async def talk(store: GatewayStore, source: SessionSource, text: str = "hello") -> SessionEntry:
    """Somebody says something and is answered."""
    entry = await store.get_or_create_session(source)
    await store.append_to_transcript(
        entry.session_id, [user(text), assistant("I see.")], author=person_of(source) if entry.is_shared else None
    )
    return entry


@pytest.mark.parametrize("make", [group, thread, dm])
@awaited
async def test_a_chat_goes_on_under_its_new_id(location: str, make: Any) -> None:
    def at(chat: str) -> SessionSource:
        source: SessionSource = make("7")
        return msgspec.structs.replace(source, chat_id=chat)

    async with opened(location) as store:
        before = await talk(store, at("-1"), "a zebra crossed")
        assert await store.id_changes.apply(move("chat", "-1", "-100"))
        after = await store.get_or_create_session(at("-100"))
        assert after.session_id == before.session_id
        assert after.session_key == address_of(at("-100")).key
        assert after.origin == at("-100")
        # A message that was long on its way.
        assert (await store.get_or_create_session(at("-1"))).session_id == before.session_id
        assert [e.session_id for e in await store.list_sessions(include_ended=True)] == [before.session_id]
        (hit,) = await store.search("zebra", viewer=at("-100"), role="user")
        assert hit.session.session_id == before.session_id
        assert await store.reset_session(after.session_key) is not None
        assert (await store.get_or_create_session(at("-100"))).session_id != before.session_id


@awaited
async def test_a_thread_under_the_new_id_goes_on_from_what_was_said_under_the_old(location: str) -> None:
    async with opened(location) as store:
        await talk(store, dm("7", chat_id="1"), "before")
        await store.id_changes.apply(move("chat", "1", "2"))
        seeded = await store.get_or_create_session(dm("7", chat_id="2", thread="t"))
        assert [message["content"] for message in await store.load_transcript(seeded.session_id)] == [
            "before",
            "I see.",
        ]


@pytest.mark.parametrize("scope", [SessionScope(), SessionScope(group_sessions_per_user=False)])
@awaited
async def test_each_members_conversation_goes_along(location: str, scope: SessionScope) -> None:
    async with opened(location, scope=scope) as store:
        before = {who: (await talk(store, group(who, "-1"))).session_id for who in "789"}
        await store.id_changes.apply(move("chat", "-1", "-100"))
        assert {who: (await store.get_or_create_session(group(who, "-100"))).session_id for who in "789"} == before


@awaited
async def test_where_the_new_id_has_a_conversation_already_the_old_one_can_be_resumed(location: str) -> None:
    async with opened(location) as store:
        old, new = await talk(store, group("7", "-1"), "then"), await talk(store, group("7", "-100"), "now")
        await store.id_changes.apply(move("chat", "-1", "-100"))
        current = await store.get_or_create_session(group("7", "-100"))
        assert current.session_id == new.session_id
        seen = [e.session_id for e in await store.list_sessions(person=group("7", "-100"), include_ended=True)]
        assert sorted(seen) == sorted([old.session_id, new.session_id])
        resumed = await store.switch_session(current.session_key, old.session_id)
        assert resumed is not None
        told = [message["content"] for message in await store.load_transcript(resumed.session_id)]
        assert told == ["then", "I see."]


@awaited
async def test_those_who_come_first_at_once_find_the_same_conversation(location: str) -> None:
    async with opened(location) as one, opened(location) as other:
        for number in range(8):
            old, new = group("7", f"old-{number}"), group("7", f"new-{number}")
            before = await talk(one, old)
            moved = move("chat", f"old-{number}", f"new-{number}")
            asked = [store.get_or_create_session(source) for source in (new, old) for store in (one, other)]
            # Told by both gateways, as people go on writing.
            done = await asyncio.gather(one.id_changes.apply(moved), other.id_changes.apply(moved))
            assert sorted(done) == [False, True]
            found = await asyncio.gather(*asked)
            assert {entry.session_id for entry in found} == {before.session_id}


@awaited
async def test_a_chat_that_moves_twice_and_back_is_one(location: str) -> None:
    async with opened(location) as store:
        before = await talk(store, group("7", "1"))
        for old, new in (("1", "2"), ("2", "3")):
            await store.id_changes.apply(move("chat", old, new))
        assert (await store.get_or_create_session(group("7", "3"))).session_id == before.session_id
        await store.id_changes.apply(move("chat", "3", "1"))
        for chat in ("1", "2", "3"):
            assert (await store.get_or_create_session(group("7", chat))).session_id == before.session_id


@awaited
async def test_a_move_is_carried_out_once(location: str) -> None:
    async with opened(location) as store:
        assert await store.id_changes.apply(move("chat", "1", "2"))
        assert not await store.id_changes.apply(move("chat", "1", "2"))
        (line,) = await store.maintenance.list_messages()
        story = await store.maintenance.trace_message(line.pk)
        assert (line.fate, line.kind, story.raw) == ("merged", "moved", "chat 1 is 2")


@awaited
async def test_a_person_keeps_what_is_theirs_under_a_new_id(location: str, raw_execute: RawExecute) -> None:
    def of(who: str) -> list[SessionSource]:
        return [dm(who, chat_id="c"), dm(who, chat_id=None), group(who, "g"), dm(who, chat_id=None, thread="t")]

    async with opened(location) as store:
        before = [(await talk(store, source, "a zebra")).session_id for source in of("+49")]
        await talk(store, thread("+49"), "a zebra together")
        await talk(store, thread("8"), "a zebra elsewhere")
        await talk(store, group("8", "g"), "a zebra elsewhere")
        await store.people.set_role("telegram:+49", "trusted", "Ada")
        raw_execute("INSERT INTO preferences (person, timezone) VALUES ('telegram:+49', 'Europe/Paris')")
        await store.id_changes.apply(move("user", "+49", "aci"))
        assert [(await store.get_or_create_session(source)).session_id for source in of("aci")] == before
        assert [e.session_id for e in await store.list_sessions(person="telegram:+49")] == []
        assert {e.session_id for e in await store.list_sessions(person="telegram:aci")} == set(before)
        found = await store.search("zebra", viewer="telegram:aci", role="user")
        assert {hit.session.session_id for hit in found} == set(before)
        assert len(await store.search("zebra", person="telegram:aci", role="user")) == len(before) + 1
        assert await store.people.find_role("telegram:aci") == "trusted"
        assert await store.people.find_role("telegram:+49") is None
        records = [record async for record in pages(store, "telegram:aci")]
        assert records[0].summary.timezone == "Europe/Paris"
        assert records[0].summary.also_known_as == ["telegram:+49"]
        told = [record.message.message["content"] for record in records if record.kind == "message"]
        assert sorted(told) == sorted([*["a zebra", "I see."] * len(before), "a zebra together"])


async def pages(store: GatewayStore, person: str) -> AsyncIterator[Any]:
    cursor: str | None = None
    while True:
        page = await store.export(person, limit=3, cursor=cursor)
        for record in page:
            yield record
        cursor = page.cursor
        if cursor is None:
            return


@pytest.mark.parametrize("name", ["telegram:zebra-1", "telegram:zebra-2", "telegram:zebra-3"])
@awaited
async def test_whoever_moved_is_erased_under_any_of_their_ids(
    location: str, name: str, stored_bytes: StoredBytes
) -> None:
    async with opened(location) as store:
        for who in ("zebra-1", "zebra-2"):
            await talk(store, dm(who), f"in {who}'s words")
            await talk(store, thread(who), f"in {who}'s words, together")
        await talk(store, thread("8"), "somebody else's")
        for old, new in (("zebra-1", "zebra-2"), ("zebra-2", "zebra-3")):
            # The key is kept, or the platform could tell it again: it had better name nobody.
            await store.id_changes.apply(move("user", old, new, dedupe_key=f"user {new[-1]}"))
            await store.id_changes.apply(move("chat", f"dm-{old}", f"dm-{new}", dedupe_key=f"chat {new[-1]}"))
        await store.erase_person(name)
        left = [e.session_id for e in await store.list_sessions(include_ended=True)]
        assert len(left) == 1
        assert "somebody else's" in str(await store.load_transcript(left[0]))
    assert b"zebra-1's words" not in stored_bytes()
    assert holding(location, "zebra-") == set()


@awaited
async def test_two_names_of_one_person_give_the_higher_role(location: str) -> None:
    async with opened(location) as store:
        await store.people.set_role("telegram:1", "owner")
        await store.people.set_role("telegram:2", "guest")
        await store.people.set_role("telegram:3", "trusted")
        await store.id_changes.apply(move("user", "1", "2"))
        await store.id_changes.apply(move("user", "4", "3"))
        people = {person.person: person.role for person in await store.people.list_all()}
        assert people == {"telegram:2": "owner", "telegram:3": "trusted"}


@awaited
async def test_what_is_still_to_be_sent_goes_to_the_new_chat(location: str) -> None:
    async with opened(location) as store:
        there = Target(platform="telegram", chat_id="1", chat_type="group", thread_id="t")
        other = Target(platform="telegram", chat_id="10", chat_type="group")
        for number, target in enumerate((there, other, there, there)):
            await store.outbox.enqueue(NewDelivery(delivery_id=str(number), target=target, text="news"))
        accounts = [("telegram", "main")]
        flying = {d.delivery_id: d for d in await store.outbox.claim(accounts, owner="x", duration=10**9, limit=9)}
        assert flying.keys() == {"0", "1"}
        await store.id_changes.apply(move("chat", "1", "2"))
        assert await store.outbox.mark_sent(flying["0"], "m0")
        (following,) = await store.outbox.claim(accounts, owner="x", duration=10**9, limit=9)
        assert (following.delivery_id, following.target) == ("2", msgspec.structs.replace(there, chat_id="2"))
        targets = {line.delivery_id: line.target.chat_id for line in await store.outbox.list_page()}
        assert targets == {"0": "2", "1": "10", "2": "2", "3": "2"}


async def streaming(store: GatewayStore) -> tuple[NewDelivery, StreamedDelivery]:
    """A turn that shows its answer while it grows, in the group `1`."""
    now, source = to_instant(store.clock.now()), group("7", "1")
    event = Inbound(dedupe_key="k", message_id="m", source=source, sent_at=store.clock.now(), text="hello")
    person = person_of(source)
    resolve = store.resolve_request(source)
    await store.inbox.accept(
        AdmitRequest(event=event, resolve=resolve, lane="talk", person=person, role="guest", at=now)
    )
    wanted = ClaimRequest(owner="x", turn_ids=("t",), at=now, duration=10**9, per_person=9, platforms=("telegram",))
    (claimed,) = await store.turns.claim(wanted)
    new = NewDelivery(
        delivery_id="t.0",
        target=target_of(source),
        text="",
        kind="reply",
        session_pk=claimed.session_pk,
        turn_pk=claimed.lease.turn_pk,
    )
    stream = await store.outbox.open_stream(new)
    assert stream is not None
    return new, stream


@awaited
async def test_what_grows_in_a_chat_that_moves_is_begun_anew_in_the_new_one(location: str) -> None:
    async with opened(location) as store:
        new, stream = await streaming(store)
        await store.outbox.save_stream_id(stream, "5")
        await store.id_changes.apply(move("chat", "1", "2"))
        (line,) = await store.outbox.list_page("open")
        assert (line.target.chat_id, line.external_id) == ("2", None)
        # What was on its way meanwhile.
        await store.outbox.save_stream_id(stream, "5")
        await store.outbox.cancel_stream_start(stream)
        anew = await store.outbox.open_stream(new)
        assert anew is not None
        assert (anew.external_id, anew.may_be_duplicate) == (None, False)
        await store.outbox.save_stream_id(anew, "6")
        (line,) = await store.outbox.list_page("open")
        assert (line.external_id, line.attempts) == ("6", 1)


@awaited
async def test_a_receipt_outlives_the_move_of_its_chat(location: str, raw_execute: RawExecute) -> None:
    async with opened(location) as store:
        there = Target(platform="telegram", chat_id="1", chat_type="group")
        for number in range(2):
            await store.outbox.enqueue(NewDelivery(delivery_id=str(number), target=there, text="news"))
        raw_execute("UPDATE deliveries SET external_id = '5', state = 'parked' WHERE delivery_id = '1'")
        (flying,) = await store.outbox.claim([("telegram", "main")], owner="x", duration=10**9, limit=9)
        await store.id_changes.apply(move("chat", "1", "2"))
        await store.outbox.mark_sent(flying, "4")
        ids = {line.delivery_id: line.external_id for line in await store.outbox.list_page()}
        assert ids == {"0": "4", "1": None}


@awaited
async def test_no_id_is_taken_for_another(location: str) -> None:
    async with opened(location) as store:
        accounts = [{"platform": "telegram"}, {"platform": "telegram", "account": "work"}, {"platform": "signal"}]
        places = [
            SessionSource(chat_type="group", chat_id=chat, user_id=who, **place)
            for place in accounts
            for chat in NASTY[:8]
            for who in NASTY[:3]
        ]
        before = {source: (await talk(store, source)).session_id for source in places}
        await store.id_changes.apply(move("chat", "1", "new"))
        await store.id_changes.apply(move("user", "10", "new"))
        for source in places:
            moved = source
            if (source.platform, source.account) == ("telegram", "main"):
                changes = {"chat_id": "new"} if source.chat_id == "1" else {}
                moved = msgspec.structs.replace(
                    source, **changes | ({"user_id": "new"} if source.user_id == "10" else {})
                )
            entry = await store.get_or_create_session(moved)
            assert (entry.session_id, entry.origin) == (before[source], moved)
            assert entry.owner == person_of(moved)


@pytest.mark.parametrize("seed", range(4))
@awaited
async def test_whatever_moves_where_everybody_else_stays(location: str, seed: int) -> None:
    chance = random.Random(seed)
    ids = {"chat_id": list(NASTY), "user_id": list(NASTY)}
    async with opened(location) as store:
        sessions: dict[SessionSource, str] = {}
        for step in range(12):
            for _ in range(4):
                source = group(chance.choice(ids["user_id"]), chance.choice(ids["chat_id"]))
                sessions[source] = (await store.get_or_create_session(source)).session_id
            field = chance.choice(("chat_id", "user_id"))
            # What was given up is not given to others.
            old = ids[field].pop(chance.randrange(len(ids[field])))
            new = chance.choice(ids[field])
            await store.id_changes.apply(move(field.removesuffix("_id"), old, new, dedupe_key=str(step)))
            for source in [one for one in sessions if getattr(one, field) == old]:
                session_id = sessions.pop(source)
                sessions.setdefault(msgspec.structs.replace(source, **{field: new}), session_id)
            for source, session_id in sessions.items():
                entry = await store.get_or_create_session(source)
                assert (entry.session_id, entry.owner) == (session_id, person_of(source)), (step, source)
        assert (await store.check()).faults == []


@awaited
async def test_a_message_that_waits_is_answered_in_the_new_chat(location: str) -> None:
    async with opened(location) as store:
        now = store.clock.now()
        source = group("7", "1")
        event = Inbound(dedupe_key="k", message_id="m", source=source, sent_at=now, text="hello")
        wanted = AdmitRequest(
            event=event,
            resolve=store.resolve_request(source),
            lane="talk",
            person="telegram:7",
            role="guest",
            at=to_instant(now),
        )
        admitted = await store.inbox.accept(wanted)
        assert admitted.session is not None
        await store.id_changes.apply(move("chat", "1", "2"))
        await store.id_changes.apply(move("user", "7", "8"))
        (waiting,) = await store.inbox.list_pending(admitted.session.session_id)
        assert target_of(waiting.event.source).chat_id == "2"
        assert waiting.person == person_of(waiting.event.source) == "telegram:8"


@awaited
async def test_what_a_fork_shows_of_a_deleted_shared_conversation_is_still_found(location: str) -> None:
    async with opened(location) as store:
        shared = await talk(store, thread("1"), "a zebra")
        copy = await store.fork_session(shared.session_id, key=shared.session_key)
        await store.search("zebra")
        await store.delete_session(shared.session_id)
        await store.id_changes.apply(move("user", "1", "2"))
        await store.id_changes.apply(move("chat", "g1", "g2"))
        (hit,) = await store.search("zebra", viewer=thread("8", "g2"))
        assert hit.session.session_id == copy.session_id


@awaited
async def test_who_waits_to_be_let_in_hears_of_it_where_they_are(location: str) -> None:
    async with opened(location) as store:
        asked = await store.people.request_pairing(dm("1", chat_id="c1"))
        assert isinstance(asked, PairingCode)
        await store.id_changes.apply(move("chat", "c1", "c2"))
        await store.id_changes.apply(move("user", "1", "2"))
        paired = await store.people.approve_pairing(asked.code)
        assert paired.person == "telegram:2"
        (told,) = await store.outbox.list_page()
        assert told.target.chat_id == "c2"


@awaited
async def test_a_home_that_was_named_in_a_chat_goes_along(location: str, raw_execute: RawExecute) -> None:
    async with opened(location) as store:
        raw_execute(
            "INSERT INTO homes (platform, account, chat_id, chat_type, name, person) VALUES "
            "('telegram', 'main', 'old-1', 'dm', 'Home', 'telegram:old-7'), ('signal', 'main', 'old-1', 'dm', 'Home', NULL)"
        )
        await store.id_changes.apply(move("chat", "old-1", "new-1", dedupe_key="1"))
        await store.id_changes.apply(move("user", "old-7", "new-7", dedupe_key="2"))
        (known, *_) = await store.export("telegram:new-7")
        assert known.summary is not None
        assert known.summary.homes == ["telegram:new-1"]
    assert holding(location, "old-1") == {"homes", "moves", "inbox"}
    assert holding(location, "old-7") == {"moves", "inbox"}


@awaited
async def test_what_a_fork_shows_of_a_deleted_conversation_stays_its_persons(location: str) -> None:
    async with opened(location) as store:
        theirs = await talk(store, dm("1"), "a zebra")
        other = await store.get_or_create_session(dm("other"))
        copy = await store.fork_session(theirs.session_id, key=other.session_key)
        await store.delete_session(theirs.session_id)
        await store.id_changes.apply(move("user", "1", "2"))
        told = [record.message.message["content"] async for record in pages(store, "telegram:2") if record.message]
        assert told == ["a zebra", "I see."]
        await store.erase_person("telegram:2")
        assert "a zebra" not in str(await store.load_transcript(copy.session_id))


def test_every_column_that_names_a_person_follows_them(tmp_path: Path) -> None:
    SessionStore.open(tmp_path / "threadline.db").close()
    with closing(apsw.Connection(str(tmp_path / "threadline.db"))) as file:
        columns = file.execute(
            "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'"
        ).fetchall()
    leased = {table for table, column in columns if column == "lease_until"}
    named = {
        (str(table), str(column))
        for table, column in columns
        if column in ("person", "author", "decided_by") or (column == "owner" and table not in leased)
    }
    texts = [load_queries("sqlite", "?")[name].text for name in id_changes.PERSON_UPDATES]
    unmoved = {
        (table, column)
        for table, column in named
        if not any(re.match(rf"(UPDATE|INSERT INTO) {table}\b.*\b{column}\b", text, re.DOTALL) for text in texts)
    }
    # A role is moved by itself; people of the page have ids of ours, which stay.
    assert unmoved == {("people", "person"), ("web_logins", "person"), ("web_invites", "person")}


def holding(location: str, mark: str) -> set[str]:
    """The tables in which any value holds these letters."""
    if location.startswith("sqlite://"):
        with closing(apsw.Connection(location.removeprefix("sqlite://"))) as file:
            names = [str(name) for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            plain = [name for name in names if not name.startswith(("sqlite_", "words"))]
            return {name for name in plain if mark in str(file.execute(f"SELECT * FROM {name}").fetchall())}
    with psycopg.connect(location, options="-c search_path=threadline") as server:
        rows = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'threadline'").fetchall()
        return {name for (name,) in rows if mark in str(server.execute(f"SELECT * FROM {name}".encode()).fetchall())}

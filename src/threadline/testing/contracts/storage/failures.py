"""Contract: a failing operation spoils no other, and leaves nothing behind itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from threadline.clock import Instant
from threadline.errors import IdempotencyConflict, ThreadlineError, UnknownSession
from threadline.model.message import encode_messages
from threadline.store.conversations import records, transcripts
from threadline.store.engine.database import Database, Step, Tx, batch, read, write
from threadline.store.facade import AsyncSessionStore, SessionStore, open_database
from threadline.testing.builders import dm, user
from threadline.testing.contracts.storage.fixtures import seen

AT = Instant(1_767_614_400_000_000)


class _Refused(Exception):
    """An operation's own objection."""


def title_then_fail(tx: Tx, session_id: str, error: type[Exception]) -> None:
    """Writes, then raises."""
    records.set_title(tx, AT, session_id, "half done")
    raise error("on purpose")


def break_a_rule(tx: Tx, session_id: str) -> None:
    """Writes, then asks the database for what its schema forbids."""
    records.set_title(tx, AT, session_id, "half done")
    number = transcripts.read_messages(tx, session_id, 1)[0].ref.seq
    pk = records.get_session(tx, session_id).pk
    tx.run_many("add_messages", [((pk << 24) | number, "user", AT, None, "{}")])


def fail_in_a_batch(_: Tx, requests: Any) -> list[Any]:
    """A batch operation that raises whatever it is given."""
    raise _Refused(str(len(requests)))


def append_step(session_id: str, text: str) -> Step[Any]:
    """What a store asks of its engine to append."""
    request = transcripts.AppendRequest(session_id, encode_messages(user(text)), AT)
    return batch(transcripts.append_batch, request)


class FailureContract:
    """Errors reach their callers, and them alone."""

    @pytest.fixture
    def database(self, location: str) -> Iterator[Database]:
        """The engine itself, without a store around it."""
        opened = open_database(location)
        yield opened
        opened.close()

    def test_what_raises_changes_nothing(self, store: SessionStore, database: Database) -> None:
        entry = store.get_or_create_session(dm())
        store.append_to_transcript(entry.session_id, user("hello"))
        before = store.get_session(entry.session_id)
        for error in (_Refused, UnknownSession, KeyError):
            with pytest.raises(error):
                database.perform(write(title_then_fail, entry.session_id, error))
        with pytest.raises(ThreadlineError):
            database.perform(write(break_a_rule, entry.session_id))
        with pytest.raises(_Refused):
            database.perform(batch(fail_in_a_batch, None))
        assert store.get_session(entry.session_id) == before
        database.perform(append_step(entry.session_id, "goes on"))
        assert seen(store, entry.session_id) == ["hello", "goes on"]

    def test_a_read_step_writes_nothing(self, store: SessionStore, database: Database) -> None:
        entry = store.get_or_create_session(dm())
        with pytest.raises(ThreadlineError):
            database.perform(read(records.set_title, AT, entry.session_id, "sneaky"))
        assert store.get_session(entry.session_id) == entry

    def test_a_failing_operation_spoils_no_other_of_its_batch(self, store: SessionStore, database: Database) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user("first"))

        async def scenario() -> list[Any]:
            steps: list[Any] = []
            for n in range(40):
                steps.append(append_step(session_id, f"m{n}"))
                steps.append(append_step("nothing", "lost"))
                steps.append(write(title_then_fail, session_id, _Refused))
                steps.append(batch(fail_in_a_batch, None))
                steps.append(write(break_a_rule, session_id))
            return await asyncio.gather(*(database.perform_async(step) for step in steps), return_exceptions=True)

        outcomes = asyncio.run(scenario())
        kinds = [type(outcome) for outcome in outcomes[:4]]
        assert kinds[1:] == [UnknownSession, _Refused, _Refused]
        for place in range(5):
            assert len({type(outcome) for outcome in outcomes[place::5]}) == 1
        assert isinstance(outcomes[4], ThreadlineError)
        assert seen(store, session_id) == ["first", *(f"m{n}" for n in range(40))]
        assert store.get_session(session_id).title is None
        assert store.check().ok

    def test_each_of_many_callers_hears_only_of_their_own(self, location: str) -> None:
        async def scenario() -> None:
            async with await AsyncSessionStore.open(location) as store:
                session_id = (await store.get_or_create_session(dm())).session_id
                await store.append_to_transcript(session_id, user("taken"), "taken")
                calls: list[Any] = []
                for n in range(60):
                    calls.append(store.append_to_transcript(session_id, user(f"m{n}"), f"k{n}"))
                    calls.append(store.append_to_transcript("nothing", user("lost"), f"k{n}"))
                    calls.append(store.append_to_transcript(session_id, user("other"), "taken"))
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                assert not any(isinstance(outcome, BaseException) for outcome in outcomes[::3])
                assert {type(outcome) for outcome in outcomes[1::3]} == {UnknownSession}
                assert {type(outcome) for outcome in outcomes[2::3]} == {IdempotencyConflict}
                said = [m["content"] for m in await store.load_transcript(session_id)]
                assert said == ["taken", *(f"m{n}" for n in range(60))]

        asyncio.run(scenario())

"""What others do between two looks of one transaction. On SQLite nobody can; on PostgreSQL every statement sees what is new."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import psycopg
import pytest
from tests.conftest import PostgresServer
from tests.contract.gateways import over

from threadline import ResetPolicies, SessionResetPolicy
from threadline.clock import Instant, to_instant
from threadline.errors import UnknownSession
from threadline.model.inbound import Inbound
from threadline.model.message import encode_message
from threadline.model.session import SessionEntry
from threadline.store.conversations import records, sessions, transcripts
from threadline.store.engine.database import Row, Tx, read, write
from threadline.store.facade import GatewayStore
from threadline.store.people import removal
from threadline.store.work import inbox, turn_end, turns
from threadline.testing import FakeClock, assistant, dm

IDLE = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60))
PATIENCE_SECONDS = 60
HOUR = 3_600_000_000
DAY = 24 * HOUR


class Interrupted:
    """A transaction in which something happens elsewhere right after one of its looks, once."""

    def __init__(self, tx: Tx, after: str, happens: Callable[[], None]) -> None:
        self._tx = tx
        self._after = after
        self._happens: Callable[[], None] | None = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def find(self, name: str, /, **values: Any) -> Row | None:
        row = self._tx.find(name, **values)
        if name == self._after and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return row

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        rows = self._tx.rows(name, **values)
        if rows and name == self._after and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return rows


@pytest.fixture
def store(postgres_server: PostgresServer, clock: FakeClock) -> Iterator[GatewayStore]:
    with asyncio.Runner() as runner:
        opened = runner.run(GatewayStore.open(postgres_server.renew(), clock=clock, policies=IDLE, timezone="UTC"))
        yield opened
        runner.run(opened.close())


def await_lock(location: str) -> None:
    """Returns when somebody waits for somebody else."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(location, autocommit=True) as looking:
        while not looking.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)


def running(store: GatewayStore) -> turn_end.ClaimedTurn:
    """A turn at work in somebody's conversation."""
    wanted = store.resolve_request(dm("7"))
    event = Inbound(dedupe_key="1", message_id="1", source=dm("7"), text="think", sent_at=store.clock.now())
    admission = inbox.AdmitRequest(
        event=event, resolve=wanted, lane="talk", person="telegram:7", role="guest", at=wanted.at
    )
    store.perform(write(inbox.accept, admission))
    claim = turn_end.ClaimRequest(
        owner="serve:1", turn_ids=("t1",), at=wanted.at, duration=DAY, platforms=("telegram",)
    )
    (claimed,) = store.perform(write(turns.claim, claim))
    return claimed


def resolved(store: GatewayStore, meanwhile: Callable[[], None], person: str = "7") -> SessionEntry:
    """The session that a message belongs to, with something that happens after the first look at it."""
    wanted = store.resolve_request(dm(person))

    def resolve(tx: Tx) -> SessionEntry:
        return sessions.resolve(cast("Tx", Interrupted(tx, "find_current", meanwhile)), wanted)

    return store.perform(write(resolve))


def test_a_turn_that_ends_while_a_message_comes_in_keeps_its_session(store: GatewayStore, clock: FakeClock) -> None:
    claimed = running(store)
    # It took so long that only its work keeps the conversation from being stale.
    clock.advance(timedelta(hours=2))

    def it_ends() -> None:
        end = turn_end.TurnResult(
            lease=claimed.lease,
            session_id=claimed.session.session_id,
            outcome="answered",
            at=to_instant(clock.now()),
            answer=(encode_message(assistant("thought")),),
            outcomes=tuple((waiting, "answered", None) for waiting in claimed.messages),
            taken_messages=claimed.messages,
        )
        store.perform(write(turn_end.finish, end))

    entry = resolved(store, it_ends)
    assert entry.session_id == claimed.session.session_id
    assert entry.ended_at is None


def test_what_is_stale_under_its_lock_starts_afresh(store: GatewayStore, clock: FakeClock) -> None:
    before = resolved(store, lambda: None)
    clock.advance(timedelta(hours=2))
    after = resolved(store, lambda: None)
    assert after.session_id != before.session_id
    assert after.auto_reset_reason == "idle"


def pruned(store: GatewayStore, meanwhile: Callable[[], None]) -> int:
    """How many sessions an hour's prune took, with something that happens once it knows which are old."""
    wanted = removal.PruneRequest(before=Instant(to_instant(store.clock.now()) - HOUR))

    def prune(tx: Tx) -> int:
        return removal.prune_batch(cast("Tx", Interrupted(tx, "old_sessions", meanwhile)), wanted, 50)

    return store.perform(write(prune))


def test_what_is_said_while_old_sessions_are_pruned_is_kept(store: GatewayStore, clock: FakeClock) -> None:
    used, old = (resolved(store, lambda: None, person).session_id for person in ("7", "8"))
    clock.advance(timedelta(hours=2))

    def something_is_said() -> None:
        request = transcripts.AppendRequest(used, [encode_message(assistant("still here"))], to_instant(clock.now()))
        store.perform(write(transcripts.append, request))

    assert pruned(store, something_is_said) == 1
    assert [m.message["content"] for m in store.perform(read(transcripts.read_messages, used, None))] == ["still here"]
    with pytest.raises(UnknownSession):
        store.perform(read(records.get_entry, old))


def test_two_who_prune_at_once_take_each_session_once(store: GatewayStore, clock: FakeClock) -> None:
    for person in ("7", "8"):
        resolved(store, lambda: None, person)
    clock.advance(timedelta(hours=2))
    others: list[int] = []
    assert pruned(store, lambda: others.append(pruned(store, lambda: None))) == 0
    assert others == [2]


def test_a_journal_that_is_being_written_when_its_turn_ends_goes_with_it(store: GatewayStore) -> None:
    claimed = running(store)
    is_written, may_end = threading.Event(), threading.Event()

    def journalled(tx: Tx) -> None:
        turns.append_journal(tx, claimed.lease, 1, ['{"text": "words"}'], called_tool=False)
        is_written.set()
        assert may_end.wait(PATIENCE_SECONDS)

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(store.perform, write(journalled))
        assert is_written.wait(PATIENCE_SECONDS)
        ending = threads.submit(store.perform, write(turn_end.finish, over(store, claimed)))
        await_lock(store.location)
        may_end.set()
        writing.result(PATIENCE_SECONDS)
        ending.result(PATIENCE_SECONDS)
    assert store.perform(read(lambda tx: tx.rows("journal_of", turn_pk=claimed.lease.turn_pk))) == []

"""What others do between two looks of one transaction. On SQLite nobody can; on PostgreSQL every statement sees what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.conftest import PostgresServer

from threadline import ResetPolicies, SessionResetPolicy
from threadline.clock import to_instant
from threadline.model.inbound import Inbound
from threadline.model.message import encode_message
from threadline.model.session import SessionEntry
from threadline.store import claiming, inbox, sessions, turns
from threadline.store.database import Row, Tx, drive, write
from threadline.store.gateway import GatewayStore
from threadline.testing import FakeClock, assistant, dm

IDLE = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60))
DAY = 86_400_000_000


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


@pytest.fixture
def store(postgres_server: PostgresServer, clock: FakeClock) -> Iterator[GatewayStore]:
    with asyncio.Runner() as runner:
        opened = runner.run(GatewayStore.open(postgres_server.renew(), clock=clock, policies=IDLE, timezone="UTC"))
        yield opened
        runner.run(opened.close())


def running(store: GatewayStore) -> turns.Claimed:
    """A turn at work in somebody's conversation."""
    wanted = store.resolve_of(dm("7"))
    event = Inbound(dedupe_key="1", message_id="1", source=dm("7"), text="think", sent_at=store.clock.now())
    admission = inbox.Admission(
        event=event, resolve=wanted, lane="talk", person="telegram:7", role="guest", at=wanted.at
    )
    drive(store._database, write(inbox.accept, admission))
    claim = turns.Claim(owner="serve:1", turn_ids=("t1",), at=wanted.at, lease=DAY, platforms=("telegram",))
    (claimed,) = drive(store._database, write(claiming.claim, claim))
    return claimed


def resolved(store: GatewayStore, meanwhile: Callable[[], None]) -> SessionEntry:
    """The session that a message belongs to, with something that happens after the first look at it."""
    wanted = store.resolve_of(dm("7"))

    def resolve(tx: Tx) -> SessionEntry:
        return sessions.resolve(cast("Tx", Interrupted(tx, "find_current", meanwhile)), wanted)

    return drive(store._database, write(resolve))


def test_a_turn_that_ends_while_a_message_comes_in_keeps_its_session(store: GatewayStore, clock: FakeClock) -> None:
    claimed = running(store)
    # It took so long that only its work keeps the conversation from being stale.
    clock.advance(timedelta(hours=2))

    def it_ends() -> None:
        end = turns.Finish(
            held=claimed.held,
            session_id=claimed.session.session_id,
            outcome="answered",
            at=to_instant(clock.now()),
            answer=(encode_message(assistant("thought")),),
            settled=tuple((waiting, "answered", None) for waiting in claimed.taken),
            taken=claimed.taken,
        )
        drive(store._database, write(turns.finish, end))

    entry = resolved(store, it_ends)
    assert entry.session_id == claimed.session.session_id
    assert entry.ended_at is None


def test_what_is_stale_under_its_lock_starts_afresh(store: GatewayStore, clock: FakeClock) -> None:
    before = resolved(store, lambda: None)
    clock.advance(timedelta(hours=2))
    after = resolved(store, lambda: None)
    assert after.session_id != before.session_id
    assert after.auto_reset_reason == "idle"

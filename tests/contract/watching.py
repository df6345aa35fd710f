"""Stores whose sessions go stale, and what a gateway does with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

import pytest
from tests.contract.gateways import OpenGateway

from threadline.model.inbound import Inbound
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.store.work.expiry import Flush
from threadline.store.work.inbox import AdmitRequest
from threadline.store.work.message_changes import ChangeRequest
from threadline.testing import dm, exchange
from threadline.testing.contracts.storage.fixtures import RawExecute

T = TypeVar("T")
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LEASE = 60_000_000


def policies(**policy: Any) -> ResetPolicies:
    """One policy for all, by default after an idle hour."""
    fields: dict[str, Any] = {"mode": "idle", "idle_minutes": 60} | policy
    return ResetPolicies(default=SessionResetPolicy(**fields))


@pytest.fixture
def opens(open_gateway: OpenGateway) -> OpenGateway:
    """Opens the store of one gateway more, whose sessions go stale after an idle hour unless told otherwise."""

    def open_one(**options: Any) -> GatewayStore:
        return open_gateway(**({"policies": policies()} | options))

    return open_one


@pytest.fixture
def store(opens: OpenGateway) -> GatewayStore:
    """A store whose sessions go stale after an idle hour."""
    return opens()


async def said(store: GatewayStore, source: SessionSource | None = None, text: str = "hello") -> SessionEntry:
    """The current session there, in which something was said and answered."""
    entry = await store.get_or_create_session(source or dm())
    await store.append_to_transcript(entry.session_id, exchange(text, f"{text} to you"))
    return await store.get_session(entry.session_id)


async def watched(store: GatewayStore, chat_type: str = "dm") -> list[str]:
    """All that a watcher ends now."""
    ended: list[str] = []
    while True:
        step = await store.expiry.expire_batch("telegram", chat_type)
        ended += step.ended
        if not step.has_more:
            return ended


async def accepted(store: GatewayStore, source: SessionSource, text: str = "hello", key: str = "m1") -> SessionEntry:
    """The session that took a message in."""
    event = Inbound(dedupe_key=key, message_id=key, kind="message", source=source, text=text, sent_at=store.clock.now())
    wanted = store.resolve_request(source)
    admitted = await store.inbox.accept(
        AdmitRequest(event=event, resolve=wanted, lane="talk", person=None, role="guest", at=wanted.at)
    )
    assert admitted.session is not None
    return admitted.session


async def claimed(store: GatewayStore, owner: str = "here") -> Flush | None:
    """A flush that is due."""
    return await store.expiry.claim_flush(["telegram"], owner=owner, duration=LEASE)


async def covered(store: GatewayStore) -> list[str]:
    """Carries the flush that is due out, and tells what it covered."""
    flush = await claimed(store)
    assert flush is not None
    history = [str(message["content"]) for message in await store.expiry.read_flush(flush)]
    assert await store.expiry.finish_flush(flush)
    return history


async def sound(store: GatewayStore) -> bool:
    """Whether a check finds nothing."""
    report = await store.check()
    assert not report.faults
    return report.ok


async def taken_back(store: GatewayStore, session: SessionEntry) -> None:
    """Somebody takes the message back that waits."""
    source = session.origin
    event = Inbound(
        dedupe_key="gone", message_id="m1", kind="delete", source=source, text="", sent_at=store.clock.now()
    )
    wanted = store.resolve_request(source)
    outcome = await store.message_changes.apply(
        ChangeRequest(event=event, address=wanted.address, person=None, role="guest", at=wanted.at)
    )
    assert outcome == "dropped", outcome


def multiply(execute: RawExecute, location: str, count: int) -> None:
    """Makes many sessions like the last one, each at an address of its own."""
    digest = "CAST('d' || n AS BLOB)" if location.startswith("sqlite") else "convert_to('d' || n, 'UTF8')"
    execute(f"""
        INSERT INTO addresses (digest, key, chat_type, owner)
        SELECT {digest}, 'many:' || n, 'dm', 'telegram:' || n FROM (
          WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {count}) SELECT n FROM up) x
    """)
    execute("""
        INSERT INTO sessions (session_id, address_pk, chat_type, origin, created_at)
        SELECT 'many' || a.pk, a.pk, 'dm', s.origin, s.created_at FROM addresses a, sessions s
        WHERE a.key LIKE 'many:%' AND s.pk = (SELECT MAX(pk) FROM sessions)
    """)
    execute("""
        UPDATE addresses SET session_pk = (SELECT pk FROM sessions WHERE address_pk = addresses.pk) WHERE key LIKE 'many:%'
    """)
    execute("""
        INSERT INTO session_state (session_pk, owner, platform, updated_at, listed_at, active_at)
        SELECT a.session_pk, a.owner, 'telegram', t.updated_at + a.pk, t.listed_at + a.pk, t.active_at + a.pk
        FROM addresses a, session_state t
        WHERE a.key LIKE 'many:%' AND t.session_pk = (SELECT MAX(session_pk) FROM session_state)
    """)

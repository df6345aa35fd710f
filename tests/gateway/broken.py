"""What a gateway leaves behind that died at its work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from threadline.clock import to_instant
from threadline.ids import new_turn_ids
from threadline.model.delivery import Target, target_of
from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource
from threadline.model.turn import QueueKind, Replay, Suspicion
from threadline.ports.agent import Event, ToolCall
from threadline.ports.platform import Outgoing
from threadline.store.facade import GatewayStore
from threadline.store.work.inbox import AdmitRequest
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_codec import Send

DEAD = "serve:dead"
_LONG = 3600 * 1_000_000


def source_of(user: str = "ada") -> SessionSource:
    """Where somebody writes to us."""
    return SessionSource(platform="scripted", chat_id=f"dm-{user}", user_id=user)


async def accepted(store: GatewayStore, text: str, user: str = "ada", *, lane: QueueKind = "talk") -> None:
    """Somebody's message, as a gateway took it."""
    source, now = source_of(user), store.clock.now()
    event = Inbound(dedupe_key=f"{user}/{text}", message_id=text, source=source, sent_at=now, text=text)
    resolve = store.resolve_request(source, agent="main")
    person = f"scripted:{user}"
    await store.inbox.accept(
        AdmitRequest(event=event, resolve=resolve, lane=lane, person=person, role="guest", at=to_instant(now))
    )


async def begun(
    store: GatewayStore,
    text: str = "hello",
    *,
    user: str = "ada",
    replay: Replay = "safe",
    journal: Sequence[Event] = (),
) -> ClaimedTurn:
    """A turn that a gateway had begun, and what it had journalled of it."""
    await accepted(store, text, user)
    (claimed,) = await store.turns.claim(claim(store))
    await store.turns.set_replay(claimed.lease, replay)
    if journal:
        called_tool = any(isinstance(event, ToolCall) for event in journal)
        encoded = [msgspec.json.encode(event).decode() for event in journal]
        await store.turns.append_journal(claimed.lease, 1, encoded, called_tool=called_tool)
    return claimed


def claim(store: GatewayStore, count: int = 1, **changes: Any) -> ClaimRequest:
    """What a gateway asks for that wants so many turns, now."""
    now = store.clock.now()
    wanted = ClaimRequest(
        owner=DEAD,
        turn_ids=new_turn_ids(now, count),
        at=to_instant(now),
        duration=_LONG,
        per_platform=1000,
        platforms=("scripted",),
    )
    return msgspec.structs.replace(wanted, **changes)


async def suspected(store: GatewayStore, user: str, deaths: int) -> ClaimedTurn:
    """A turn that waits to run again, and is suspected of so many deaths; as the last gateway had it."""
    claimed = charged(await begun(store, user=user), deaths)
    await store.turns.rerun([claimed], first=0)
    return claimed


def charged(claimed: ClaimedTurn, deaths: int) -> ClaimedTurn:
    """The turn, suspected of so many deaths."""
    return msgspec.structs.replace(claimed, suspected=Suspicion(deaths))


async def streamed(
    store: GatewayStore, chat: ScriptedChat, claimed: ClaimedTurn, text: str, *, is_id_kept: bool = True
) -> str:
    """The message that the turn had begun to show; its id in the chat."""
    new = reply_to(claimed)
    stream = await store.outbox.open_stream(new)
    assert stream is not None
    message_id = chat.perform(Send(0, new.target, Outgoing(text=text), new.delivery_id), "main")
    if is_id_kept:
        await store.outbox.save_stream_id(stream, message_id)
    return message_id


def reply_to(claimed: ClaimedTurn, text: str = "") -> NewDelivery:
    """The first part of a turn's answer."""
    return NewDelivery(
        delivery_id=f"{claimed.lease.turn_id}.0",
        target=target_of(claimed.origin),
        text=text,
        kind="reply",
        session_pk=claimed.session_pk,
        turn_pk=claimed.lease.turn_pk,
    )


def place(user: str = "ada") -> Target:
    """The direct chat with somebody."""
    return target_of(source_of(user))

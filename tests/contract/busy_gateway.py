"""The store of a gateway in which every verb finds something to do."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from tests.contract.gateways import over
from tests.contract.watching import LEASE, accepted, claimed, said

from threadline.clock import Instant
from threadline.model.client_sources import editor_source, web_source
from threadline.model.delivery import Park, Target, target_of
from threadline.model.inbound import Inbound
from threadline.model.message import Appended
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import QueueKind
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease
from threadline.store.people.web_access import digest_of
from threadline.store.work.approvals import ApprovalRequest
from threadline.store.work.expiry import Flush
from threadline.store.work.inbox import AdmitRequest, PendingControl
from threadline.store.work.message_changes import ChangeRequest
from threadline.store.work.outbox import Delivery, NewDelivery, StreamedDelivery
from threadline.store.work.owner_alerts import OwnerAlert
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest
from threadline.testing import FakeClock, dm, exchange, user

COOKIE = digest_of("a cookie")
EDITOR = editor_source("20260101_000000_aaaaaaaa", "ada")
# Kept for another agent than the one that answers.
AWAY = editor_source("20260101_000000_bbbbbbbb", "ada")
# A gateway whose leases have run out.
DEAD = "dead"
CONVERSATION = web_source("u1", "c1")


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries: one is being sent, one changes a message that was sent, one is parked, one is being streamed."""

    claimed: Delivery
    edited: Delivery
    parked: int
    stream: StreamedDelivery


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to be named in a call."""

    turn: ClaimedTurn
    talk: Appended
    undone: SessionEntry
    reset: SessionEntry
    earlier: SessionEntry
    later: SessionEntry
    elsewhere: SessionEntry
    shown: Appended
    controls: list[PendingControl]
    flush: Flush
    name: Lease
    sending: Sending
    code: str
    # Who is logged in.
    person: str

    @property
    def session_id(self) -> str:
        """The session of the turn that runs."""
        return self.turn.session.session_id


def notice(chat: str, name: str | None = None) -> NewDelivery:
    """Something to say in a chat of its own."""
    return NewDelivery(
        delivery_id=name or f"to-{chat}", target=Target(platform="telegram", chat_id=chat), text="something"
    )


def event(store: GatewayStore, source: SessionSource, key: str) -> Inbound:
    """A message that came in."""
    return Inbound(dedupe_key=key, message_id=key, source=source, text="hello", sent_at=store.clock.now())


def admission(store: GatewayStore, source: SessionSource, key: str, lane: QueueKind = "talk") -> AdmitRequest:
    """The request to take a message in."""
    resolve = store.resolve_request(source)
    return AdmitRequest(
        event=event(store, source, key), resolve=resolve, lane=lane, person=None, role="guest", at=resolve.at
    )


def deletion(store: GatewayStore, source: SessionSource, message_id: str) -> ChangeRequest:
    """The request to delete a message that came in."""
    wanted = store.resolve_request(source)
    gone = msgspec.structs.replace(event(store, source, f"no-{message_id}"), message_id=message_id, kind="delete")
    return ChangeRequest(event=gone, address=wanted.address, person=None, role="guest", at=wanted.at)


def claim_request(store: GatewayStore, name: str, owner: str = "here") -> ClaimRequest:
    """The request for a turn."""
    return ClaimRequest(
        owner=owner, turn_ids=(name,), at=store.now(), duration=LEASE, per_person=9, platforms=("telegram",)
    )


def stream_of(turn: ClaimedTurn) -> NewDelivery:
    """The message that a turn streams into."""
    return NewDelivery(
        delivery_id=f"stream-{turn.lease.turn_id}",
        target=target_of(turn.origin),
        text="",
        session_pk=turn.session_pk,
        turn_pk=turn.lease.turn_pk,
    )


def question(store: GatewayStore, turn: ClaimedTurn, name: str) -> ApprovalRequest:
    """The request of a turn that has to ask somebody."""
    at = store.now()
    asked = NewDelivery(delivery_id=name, target=target_of(turn.origin), text="?", session_pk=turn.session_pk)
    return ApprovalRequest(
        turn_pk=turn.lease.turn_pk,
        fence=turn.lease.fence,
        session_id=turn.session.session_id,
        place=turn.last_journal_place + 1,
        events=["{}"],
        event="{}",
        least_role="owner",
        code=name,
        streamed_text=None,
        messages=(asked,),
        at=at,
        expires_at=Instant(at + 1_000_000),
    )


async def make_busy(store: GatewayStore, clock: FakeClock) -> Busy:
    """Fills a store whose sessions go stale after an idle hour."""
    logged_in = await _log_in(store)
    for person in ("1", "2"):
        await said(store, dm(person, platform="signal"))
    await store.keep_file("telegram:7", b"never sent")
    clock.advance(timedelta(days=8))
    reset = await store.get_or_create_session(dm("2", platform="signal"))
    earlier = await said(store, dm("21"))
    later = await store.resume.start_new(earlier.session_id)
    flush = await claimed(store)
    assert flush is not None
    await store.resume.start_new((await said(store, dm("22"))).session_id)
    undone = await said(store, dm("20"))
    await store.rewind_session(undone.session_id)
    talk = await store.append_to_transcript((await said(store)).session_id, exchange("more", "and more"))
    conversation = await store.get_or_create_session(CONVERSATION)
    shown = await store.append_to_transcript(conversation.session_id, user("shown"))
    await store.editor_sessions.create(EDITOR, "/at")
    await store.editor_sessions.create(AWAY, "/at", agent="other")
    running = await _run_turns(store)
    sending = await _send(store)
    await _alert(store)
    name = await store.leases.acquire("a name", "here", duration=LEASE)
    assert name is not None
    busy = Busy(
        turn=running,
        talk=talk,
        undone=undone,
        reset=reset,
        earlier=earlier,
        later=later,
        elsewhere=await said(store, dm("21", platform="signal")),
        shown=shown,
        controls=await _postpone(store),
        flush=flush,
        name=name,
        sending=sending,
        code=await _let_in(store),
        person=logged_in,
    )
    # In the session of the turn that runs, and in another.
    for source, key in ((dm(), "waits-1"), (dm("9"), "waits-2")):
        await accepted(store, source, key=key)
    await store.leases.expire_owned_by(DEAD)
    # A question lasts a second.
    clock.advance(timedelta(seconds=5))
    await store.index_pending()
    return busy


async def _let_in(store: GatewayStore) -> str:
    """The code that lets somebody in."""
    await store.people.set_role("telegram:7", "guest", "Ada")
    await store.preferences.set_home_channel(dm())
    await store.people.request_pairing(dm("30"))
    return (await store.web_access.invite("Bo")).code


async def _log_in(store: GatewayStore) -> str:
    invited = await store.web_access.invite("Ada")
    login = await store.web_access.redeem(invited.code, COOKIE)
    assert login is not None
    return login.person


async def _run_turns(store: GatewayStore) -> ClaimedTurn:
    """A turn that runs, one that its gateway left behind, one that waits for an answer."""
    running = await _claim_turn(store, dm(), "t1")
    await store.turns.append_journal(running.lease, 1, ["{}"])
    await _claim_turn(store, dm("8"), "t2", owner=DEAD)
    asking = await _claim_turn(store, dm("11"), "t3")
    await store.approvals.request(question(store, asking, "q1"))
    return running


async def _claim_turn(store: GatewayStore, source: SessionSource, name: str, owner: str = "here") -> ClaimedTurn:
    await accepted(store, source, key=f"of-{name}")
    (turn,) = await store.turns.claim(claim_request(store, name, owner))
    return turn


async def _postpone(store: GatewayStore) -> list[PendingControl]:
    """Messages that are control commands: one to answer, and a deletion that waited for the end of a turn."""
    ending = await _claim_turn(store, dm("13"), "t4")
    assert await store.message_changes.apply(deletion(store, dm("13"), "of-t4")) == "postponed"
    await store.turns.finish(over(store, ending))
    await store.inbox.accept(admission(store, dm("12"), "c1", "control"))
    controls = await store.inbox.list_unhandled_controls(0)
    return sorted(controls, key=lambda control: control.message.event.kind)


async def _send(store: GatewayStore) -> Sending:
    """Deliveries: one that waits, one whose gateway is gone, one that is sent now, one parked, two streamed."""
    for chat in ("waiting", "lost", "sent", "parked"):
        await store.outbox.enqueue(notice(chat))
    await _claim_delivery(store, "lost", owner=DEAD)
    parked = await _claim_delivery(store, "parked")
    await store.outbox.mark_failed(parked, Park("no such chat"), error="no such chat")
    _, stream = await _open_stream(store, dm("14"), "t5")
    ending, ended = await _open_stream(store, dm("15"), "t6")
    await store.outbox.save_stream_id(ended, "x0")
    await store.turns.finish(msgspec.structs.replace(over(store, ending), streamed="all of it"))
    return Sending(
        claimed=await _claim_delivery(store, "sent"),
        edited=await _claim_delivery(store, "dm-15"),
        parked=int(parked.lease.key),
        stream=stream,
    )


async def _open_stream(store: GatewayStore, source: SessionSource, name: str) -> tuple[ClaimedTurn, StreamedDelivery]:
    turn = await _claim_turn(store, source, name)
    stream = await store.outbox.open_stream(stream_of(turn))
    assert stream is not None
    return turn, stream


async def _claim_delivery(store: GatewayStore, chat: str, owner: str = "here") -> Delivery:
    key = notice(chat).target.ordering_key
    (delivery,) = await store.outbox.claim([], owner=owner, duration=LEASE, limit=1, ordering_keys=[key])
    return delivery


async def _alert(store: GatewayStore) -> None:
    for name, is_sent in (("told", True), ("untold", False)):
        alarm = OwnerAlert(name=name, text="fix it", since=store.clock.now(), is_sent=is_sent)
        await store.owner_alerts.raise_alert(alarm, [])

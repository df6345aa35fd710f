"""Accept each event once, refuse or park it, and list the pending messages."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from threadline.clock import Instant
from threadline.errors import ConversationBusy
from threadline.model.access import Role, may_change
from threadline.model.inbound import Inbound, Unreadable
from threadline.model.session import SessionEntry
from threadline.model.turn import MessageOutcome, PendingMessage, QueueKind, StopReason
from threadline.store.conversations import records, sessions
from threadline.store.engine.database import Row, Step, Tx, leaving_work, write
from threadline.store.rows import StoredSession, decode_event, json_text, session_of
from threadline.store.verbs import Group, Mode, Store, reads, verb, writes
from threadline.store.work import outbox

# Of so many unreadable events of a platform it is kept what came: strangers may find out how to make more.
UNREADABLE_KEPT = 1_000
# A burst of messages starts a turn this long after its first at the latest.
BURST_AT_MOST = 6_000_000
# What waited while no gateway ran comes as one burst, however long it takes to come in.
_BACKLOG_AT_MOST = 3_600_000_000


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """An event that may come in, and all that is decided about it beforehand."""

    event: Inbound
    resolve: sessions.ResolveRequest
    lane: QueueKind
    person: str | None
    role: Role
    at: Instant
    # Microseconds to wait for more before a turn starts.
    burst: int = 0
    # How many messages may wait in a session; those that were sent before `since`, in seconds UTC, are not counted.
    most: int = 50
    since: float = 0.0
    # What to tell the sender of one too many.
    when_full: str | None = None
    # What to ask of a turn that runs; a command asks it only where its sender may change the conversation.
    stop: StopReason | None = None
    # Whether it comes in only where nothing waits and nothing runs.
    only_if_idle: bool = False

    def is_backlog(self, event: Inbound) -> bool:
        """Whether an event was sent before `since`: while no gateway ran."""
        return event.sent_at.timestamp() < self.since


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An event that does not come in: kept as a fate alone, so that it is refused once."""

    event: Inbound
    person: str | None
    role: Role
    at: Instant
    fate: MessageOutcome = "refused"
    note: str = ""
    tell: outbox.NewDelivery | None = None


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an event. `pk` is `None` for one that was here before."""

    pk: int | None
    refused: bool = False
    session: SessionEntry | None = None
    session_pk: int | None = None
    # The turn that runs in its session, and whether it waits for somebody's word.
    running: str | None = None
    is_asking: bool = False
    # It was asked to end.
    is_stopped: bool = False


class Control(msgspec.Struct, frozen=True):
    """A control command that waits to be carried out."""

    waiting: PendingMessage
    session: SessionEntry
    session_pk: int


class MakeTurn(Protocol):
    """Makes the turn of a message that is about to come into a locked session; its number, or `None` where it must wait.

    `is_alone`: no turn runs anywhere.
    """

    def __call__(self, session: StoredSession, *, is_alone: bool) -> int | None: ...


def no_turn(session: StoredSession, *, is_alone: bool) -> int | None:  # noqa: ARG001 - see `MakeTurn`
    """None is made: it waits."""
    return None


def accept(tx: Tx, wanted: Admission, make_turn: MakeTurn = no_turn) -> Admitted:
    """Takes an event in, once: the same event again changes nothing.

    When this is durable the platform may be told. The session is the address's current one, reset where it is stale; a
    session in which too much waits refuses, and says so, but nothing that was sent while no gateway ran. `ConversationBusy`:
    it wanted to find nothing there, and did. `UnknownSession`: it wanted to find a session, and there is none. After an error
    nothing is stored.
    `make_turn` makes the turn that answers it, where nothing else is to be done there.
    """
    source = wanted.event.source
    key = {"platform": source.platform, "account": source.account, "dedupe_key": wanted.event.dedupe_key}
    found = tx.find("find_current_and_inbound", digest=wanted.resolve.address.digest, **key)
    was_here, at_rest, any_runs = (_is_known(tx, key), None, True) if found is None else found[-3:]
    if was_here:
        return Admitted(pk=None)
    session = sessions.resolve_locked(tx, wanted.resolve, None if found is None else found[:-3])
    rows = [(0, any_runs, None, None)] if at_rest == session.pk else tx.rows("at_hand", session_pk=session.pk)
    waiting = rows[0][0] if wanted.lane != "control" else 0
    at_hand = [(turn_id, state) for *_, turn_id, state in rows if turn_id is not None]
    if wanted.only_if_idle and (waiting or at_hand):
        raise ConversationBusy
    if wanted.lane != "control" and waiting >= wanted.most and _is_full(tx, wanted, session.pk):
        return _refuse_full(tx, wanted, session)
    turn_pk = None if waiting or at_hand else make_turn(session, is_alone=not rows[0][1])
    row = _add(tx, wanted, session.pk, turn_pk)
    if row is None:
        # Another gateway has taken it in since we looked.
        if turn_pk is not None:
            tx.run("unmake_turn", turn_pk=turn_pk)
        return Admitted(pk=None)
    if turn_pk is not None:
        return Admitted(pk=int(row[0]), session=session.entry, session_pk=session.pk)
    states, is_stopped = {state for _, state in at_hand}, False
    if wanted.lane != "control":
        if states <= {"waiting"}:
            at_most = _BACKLOG_AT_MOST if wanted.is_backlog(wanted.event) else BURST_AT_MOST
            mark_ready(tx, wanted.at, session.pk, wait=wanted.burst, at_most=at_most)
        is_stopped = bool(at_hand) and _may_stop(wanted, session.entry)
        if is_stopped and wanted.stop is not None:
            ask_to_stop(tx, wanted.at, session.pk, wanted.stop)
    return Admitted(
        pk=int(row[0]),
        session=session.entry,
        session_pk=session.pk,
        running=str(at_hand[0][0]) if at_hand else None,
        is_asking="asking" in states,
        is_stopped=is_stopped,
    )


def refuse(tx: Tx, wanted: Refusal) -> Admitted:
    """Notes that an event was turned away, once, and what its sender is told."""
    row = tx.find("add_inbound", **_columns(wanted.event, wanted.person, wanted.role, wanted.at), **_fate_of(wanted))
    if row is None:
        return Admitted(pk=None)
    if wanted.tell is not None:
        outbox.enqueue(tx, wanted.at, msgspec.structs.replace(wanted.tell, person=wanted.person))
    return Admitted(pk=int(row[0]), refused=True)


def park(tx: Tx, at: Instant, event: Unreadable, *, person: str | None = None, keep: int = UNREADABLE_KEPT) -> Admitted:
    """Keeps an event that nobody can act on, once: what came, and what is wrong with it. `person`: whose it is, if known."""
    row = tx.find(
        "add_inbound",
        platform=event.platform,
        account=event.account,
        dedupe_key=event.dedupe_key,
        session_pk=None,
        lane="talk",
        event=json_text({"kind": "unreadable", "raw": event.raw}),
        person=person,
        role="group",
        at=at,
        fate="parked",
        fate_at=at,
        note=event.reason,
    )
    if row is None:
        return Admitted(pk=None)
    tx.run("forget_old_unreadable", platform=event.platform, kept=keep)
    return Admitted(pk=int(row[0]))


def mark_ready(tx: Tx, at: Instant, session_pk: int, *, wait: int = 0, at_most: int = BURST_AT_MOST) -> None:
    """The session has something to do, after `wait` microseconds; `at_most` so long after it first had."""
    tx.run("mark_ready", session_pk=session_pk, due_at=at + wait, at=at, at_most=at_most)


def ask_to_stop(tx: Tx, at: Instant, session_pk: int, stop: StopReason) -> bool:
    """Asks the turn of a session to end, also one that waits for somebody's word; False if there is none."""
    is_asked = tx.run("ask_to_stop", stop=stop, session_pk=session_pk) > 0
    if is_asked:
        # Nobody is to allow what will not be done.
        tx.run("close_asks_of_session", session_pk=session_pk)
        tx.run("go_on", session_pk=session_pk)
        if tx.find("waiting_turn", session_pk=session_pk) is not None:
            # Whoever claims it ends it, and need not wait for its back-off.
            mark_ready(tx, at, session_pk)
    return is_asked


def go_on(tx: Tx, at: Instant, session_pk: int) -> None:
    """A turn that waits for somebody's word waits no longer: it is claimed as soon as there is room."""
    if tx.run("go_on", session_pk=session_pk):
        mark_ready(tx, at, session_pk)


def settle(tx: Tx, at: Instant, waiting: PendingMessage, fate: MessageOutcome, *, note: str | None = None) -> bool:
    """Gives a message its fate; False if it had one."""
    return tx.run("settle_inbound", pk=waiting.pk, fate=fate, at=at, note=note, event=spent(waiting.event)) == 1


def waiting_of(tx: Tx, session_pk: int, limit: int = 200) -> list[PendingMessage]:
    """What waits in a session, oldest first."""
    return [waiting_from(row) for row in tx.rows("waiting_of_session", session_pk=session_pk, limit=limit)]


def waiting_in(tx: Tx, session_id: str) -> list[PendingMessage]:
    """What waits in the session of that id, oldest first."""
    return waiting_of(tx, records.get_session(tx, session_id).pk)


def unhandled_controls(tx: Tx, *, before: Instant) -> list[Control]:
    """Control commands accepted before an instant that nobody carried out."""
    found = []
    for row in tx.rows("waiting_controls", before=before, limit=50):
        session = tx.find("session_of_pk", session_pk=row[6])
        if session is not None:
            found.append(Control(waiting_from(row), session_of(session).entry, row[6]))
    return found


def waiting_from(row: Row) -> PendingMessage:
    """A waiting message of a row."""
    pk, lane, event, person, role, at = row[:6]
    return PendingMessage(pk, lane, decode_event(event), person, role, at)


def spent(event: Inbound) -> str:
    """What is kept of an event once it has its fate: where it came from, not what it said."""
    return json_text(msgspec.structs.replace(event, text="", reply_to=None, attachments=(), button=None))


def _is_known(tx: Tx, key: dict[str, str]) -> bool:
    return tx.find("find_inbound", **key) is not None


def _may_stop(wanted: Admission, session: SessionEntry) -> bool:
    if wanted.stop is None:
        return False
    is_admin = wanted.event.sender_is_admin
    return wanted.lane == "talk" or may_change(session, role=wanted.role, person=wanted.person, is_admin=is_admin)


def _is_full(tx: Tx, wanted: Admission, session_pk: int) -> bool:
    """Whether so many messages as may wait do, of those that count. What was sent before those that count came in before them."""
    if wanted.is_backlog(wanted.event):
        return False
    row = tx.find("waiting_from_end", session_pk=session_pk, newer=wanted.most - 1)
    return row is not None and not wanted.is_backlog(decode_event(row[0]))


def _refuse_full(tx: Tx, wanted: Admission, session: StoredSession) -> Admitted:
    refusal = Refusal(
        event=wanted.event,
        person=wanted.person,
        role=wanted.role,
        at=wanted.at,
        note="the queue is full",
        tell=None if wanted.when_full is None else outbox.notice_about(wanted.event, "full", wanted.when_full),
    )
    admitted = refuse(tx, refusal)
    return msgspec.structs.replace(admitted, session=session.entry, session_pk=session.pk)


def _add(tx: Tx, wanted: Admission, session_pk: int, turn_pk: int | None) -> Row | None:
    return tx.find(
        "add_taken_inbound",
        **_columns(wanted.event, wanted.person, wanted.role, wanted.at),
        session_pk=session_pk,
        turn_pk=turn_pk,
        lane=wanted.lane,
        event=json_text(wanted.event),
    )


def _columns(event: Inbound, person: str | None, role: Role, at: Instant) -> dict[str, Any]:
    return {
        "platform": event.source.platform,
        "account": event.source.account,
        "dedupe_key": event.dedupe_key,
        "person": person,
        "role": role,
        "at": at,
    }


def _fate_of(wanted: Refusal) -> dict[str, Any]:
    return {
        "session_pk": None,
        "lane": "talk",
        "event": spent(wanted.event) if wanted.fate != "parked" else json_text(wanted.event),
        "fate": wanted.fate,
        "fate_at": wanted.at,
        "note": wanted.note,
    }


_MAX_GREETING_DELAY = 2_000_000


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What is said before all else: to the first who ever writes, and where a conversation started afresh by itself."""

    welcome: str | None
    idle: str
    daily: str


class Received(msgspec.Struct, frozen=True):
    """What became of an event, and whether its sender was greeted."""

    admitted: Admitted
    greeted: bool


def accept_and_greet(tx: Tx, wanted: Admission, greeting: Greeting, make_turn: MakeTurn = no_turn) -> Received:
    """Takes an event in, once, and greets its sender where that is due: both or neither is stored."""
    admitted = accept(tx, wanted, make_turn)
    if admitted.pk is None or admitted.refused or admitted.session is None:
        return Received(admitted, greeted=False)
    told = _greeting_for(tx, wanted, admitted.session, greeting)
    if told is not None:
        outbox.enqueue(tx, wanted.at, msgspec.structs.replace(told, person=wanted.person))
    return Received(admitted, greeted=told is not None)


def _greeting_for(tx: Tx, wanted: Admission, session: SessionEntry, greeting: Greeting) -> outbox.NewDelivery | None:
    if session.message_count:
        return None
    if session.was_auto_reset:
        notice = sessions.take_reset_notice(tx, session.session_id, "user")
        if notice is None:
            return None
        return outbox.notice_about(wanted.event, "reset", greeting.idle if notice.reason == "idle" else greeting.daily)
    if session.session_id != wanted.resolve.new_id or sessions.has_any(tx, session.session_id):
        return None
    return None if greeting.welcome is None else outbox.notice_about(wanted.event, "welcome", greeting.welcome)


def was_heard(tx: Tx, platform: str, account: str, dedupe_key: str) -> bool:
    """Whether an event of that key has come in."""
    return tx.find("find_inbound", platform=platform, account=account, dedupe_key=dedupe_key) is not None


class Inbox(Group[Mode]):
    """Messages that came in: accepted once, refused, parked or pending."""

    refuse = writes(refuse)
    list_pending = reads(waiting_in)
    is_known = reads(was_heard)

    @verb
    def accept(_: Store[Any], wanted: Admission) -> Step[Admitted]:
        """Takes an event in, once."""
        return leaving_work(write(accept, wanted))

    @verb
    def park(
        store: Store[Any], event: Unreadable, person: str | None = None, *, keep: int = UNREADABLE_KEPT
    ) -> Step[Admitted]:
        """Keeps an event that nobody can act on, once; of its platform's unreadable ones it is kept what the last `keep` said."""
        return write(park, store.now(), event, person=person, keep=keep)

    @verb
    def list_unhandled_controls(store: Store[Any], before_seconds: float) -> Step[list[Control]]:
        """Control commands that were accepted and never carried out: their gateway died in between."""
        return write(unhandled_controls, before=Instant(store.now() - int(before_seconds * 1_000_000)))

    @verb
    def accept_and_greet(_: Store[Any], wanted: Admission, greeting: Greeting) -> Step[Received]:
        """Takes an event in, once, and greets its sender where that is due."""
        return leaving_work(write(accept_and_greet, wanted, greeting))

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

# The content of so many unreadable events is kept per platform: strangers may find out how to send more.
MAX_UNREADABLE = 1_000
# A burst of messages starts a turn at most this long after its first message.
MAX_BURST = 6_000_000
# Messages sent while no gateway ran arrive as one burst, however long it takes to receive them.
_MAX_BACKLOG_BURST = 3_600_000_000


class AdmitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Accept an authorised event, with all that was decided about it beforehand."""

    event: Inbound
    resolve: sessions.ResolveRequest
    lane: QueueKind
    person: str | None
    role: Role
    at: Instant
    # Microseconds to wait for further messages before a turn starts.
    burst: int = 0
    # How many messages may be pending in a session. Messages sent before `since` (seconds UTC) are not counted.
    max_pending: int = 50
    since: float = 0.0
    # The text sent to the sender of a message that exceeds `max_pending`.
    full_notice: str | None = None
    # Why a running turn is to stop, if it is. A command stops it only where its sender may change the conversation.
    stop: StopReason | None = None
    # Refuse the event unless the session has neither pending messages nor a turn.
    only_if_idle: bool = False

    def is_backlog(self, event: Inbound) -> bool:
        """Return whether an event was sent before `since`, that is, while no gateway ran."""
        return event.sent_at.timestamp() < self.since


class RefuseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Record an event as refused, so that it is refused only once."""

    event: Inbound
    person: str | None
    role: Role
    at: Instant
    outcome: MessageOutcome = "refused"
    note: str = ""
    notice: outbox.NewDelivery | None = None


class AdmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of accepting or refusing an event. `pk` is `None` for an event that was stored before."""

    pk: int | None
    is_refused: bool = False
    session: SessionEntry | None = None
    session_pk: int | None = None
    # The turn that runs in the session, and whether it waits for an approval.
    running_turn_id: str | None = None
    is_asking: bool = False
    # The event asked that turn to stop.
    is_stopped: bool = False


class PendingControl(msgspec.Struct, frozen=True):
    """A control command that was accepted and not yet carried out."""

    message: PendingMessage
    session: SessionEntry
    session_pk: int


class CreateTurn(Protocol):
    """Create the turn of a message that is about to enter a locked session; return its key, or `None` to leave it pending.

    `is_first` says that no turn runs anywhere.
    """

    def __call__(self, session: StoredSession, *, is_first: bool) -> int | None: ...


def create_no_turn(session: StoredSession, *, is_first: bool) -> int | None:  # noqa: ARG001 - see `CreateTurn`
    """Create no turn: the message stays pending."""
    return None


def accept(tx: Tx, request: AdmitRequest, create_turn: CreateTurn = create_no_turn) -> AdmitResult:
    """Store an event once: the same event again changes nothing.

    When this is durable, the platform may be sent its acknowledgement. The session is the current one of the address, reset
    if it is stale. A session with too many pending messages refuses the event and enqueues `full_notice`, except for events
    sent while no gateway ran. Raises `ConversationBusy` if `only_if_idle` was set and the session is not idle, and
    `UnknownSession` if the request may not create a session and there is none. After an error nothing is stored.
    `create_turn` creates the turn that answers the event, if the session has nothing else to do.
    """
    source = request.event.source
    key = {"platform": source.platform, "account": source.account, "dedupe_key": request.event.dedupe_key}
    match = tx.find("find_current_and_inbound", digest=request.resolve.address.digest, **key)
    is_duplicate, idle_session_pk, any_runs = (_is_stored(tx, key), None, True) if match is None else match[-3:]
    if is_duplicate:
        return AdmitResult(pk=None)
    session = sessions.resolve_locked(tx, request.resolve, None if match is None else match[:-3])
    is_idle = idle_session_pk == session.pk
    rows = [(0, any_runs, None, None)] if is_idle else tx.rows("at_hand", session_pk=session.pk)
    pending_count = rows[0][0] if request.lane != "control" else 0
    open_turns = [(turn_id, state) for *_, turn_id, state in rows if turn_id is not None]
    if request.only_if_idle and (pending_count or open_turns):
        raise ConversationBusy
    if request.lane != "control" and pending_count >= request.max_pending and _is_full(tx, request, session.pk):
        return _refuse_full(tx, request, session)
    turn_pk = None if pending_count or open_turns else create_turn(session, is_first=not rows[0][1])
    row = _add_pending(tx, request, session.pk, turn_pk)
    if row is None:
        # Another gateway has stored the event since we looked.
        if turn_pk is not None:
            tx.run("delete_new_turn", turn_pk=turn_pk)
        return AdmitResult(pk=None)
    if turn_pk is not None:
        return AdmitResult(pk=int(row[0]), session=session.entry, session_pk=session.pk)
    states = {state for _, state in open_turns}
    is_stopped = request.lane != "control" and _wake_session(tx, request, session, states)
    return AdmitResult(
        pk=int(row[0]),
        session=session.entry,
        session_pk=session.pk,
        running_turn_id=str(open_turns[0][0]) if open_turns else None,
        is_asking="asking" in states,
        is_stopped=is_stopped,
    )


def refuse(tx: Tx, request: RefuseRequest) -> AdmitResult:
    """Record once that an event was refused, and enqueue the notice to its sender."""
    columns = _event_columns(request.event, request.person, request.role, request.at)
    row = tx.find("add_inbound", **columns, **_outcome_columns(request))
    if row is None:
        return AdmitResult(pk=None)
    if request.notice is not None:
        outbox.enqueue(tx, request.at, msgspec.structs.replace(request.notice, person=request.person))
    return AdmitResult(pk=int(row[0]), is_refused=True)


def park(
    tx: Tx, at: Instant, event: Unreadable, *, person: str | None = None, keep: int = MAX_UNREADABLE
) -> AdmitResult:
    """Store an unreadable event once, with its raw content and the reason. `person` is its sender, if known."""
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
        return AdmitResult(pk=None)
    tx.run("forget_old_unreadable", platform=event.platform, kept=keep)
    return AdmitResult(pk=int(row[0]))


def mark_ready(tx: Tx, at: Instant, session_pk: int, *, wait: int = 0, at_most: int = MAX_BURST) -> None:
    """Make a session due for a turn after `wait` microseconds, and at most `at_most` after it was first marked."""
    tx.run("mark_ready", session_pk=session_pk, due_at=at + wait, at=at, at_most=at_most)


def request_stop(tx: Tx, at: Instant, session_pk: int, stop: StopReason) -> bool:
    """Ask the turn of a session to stop, even one that waits for an approval; return False if there is none."""
    is_requested = tx.run("request_stop", stop=stop, session_pk=session_pk) > 0
    if is_requested:
        # Nobody should approve an action that will not be carried out.
        tx.run("close_approvals_of_session", session_pk=session_pk)
        tx.run("wake_asking_turn", session_pk=session_pk)
        if tx.find("waiting_turn", session_pk=session_pk) is not None:
            # The gateway that claims the turn ends it, and need not wait for its back-off.
            mark_ready(tx, at, session_pk)
    return is_requested


def wake_asking_turn(tx: Tx, at: Instant, session_pk: int) -> None:
    """End the wait of a turn for its approval: it can be claimed as soon as a slot is free."""
    if tx.run("wake_asking_turn", session_pk=session_pk):
        mark_ready(tx, at, session_pk)


def set_outcome(
    tx: Tx, at: Instant, message: PendingMessage, outcome: MessageOutcome, *, note: str | None = None
) -> bool:
    """Set the outcome of a message; return False if it had one."""
    event = without_content(message.event)
    return tx.run("set_outcome", pk=message.pk, fate=outcome, at=at, note=note, event=event) == 1


def pending_in(tx: Tx, session_pk: int, limit: int = 200) -> list[PendingMessage]:
    """Return the pending messages of a session, oldest first."""
    return [pending_from_row(row) for row in tx.rows("pending_of_session", session_pk=session_pk, limit=limit)]


def list_pending(tx: Tx, session_id: str) -> list[PendingMessage]:
    """Return the pending messages of the session with that id, oldest first."""
    return pending_in(tx, records.get_session(tx, session_id).pk)


def list_unhandled_controls(tx: Tx, *, before: Instant) -> list[PendingControl]:
    """Return control commands that were accepted before an instant and never carried out."""
    controls = []
    for row in tx.rows("pending_controls", before=before, limit=50):
        session = tx.find("session_of_pk", session_pk=row[6])
        if session is not None:
            controls.append(PendingControl(pending_from_row(row), session_of(session).entry, row[6]))
    return controls


def pending_from_row(row: Row) -> PendingMessage:
    """Return the pending message that a row holds."""
    pk, lane, event, person, role, at = row[:6]
    return PendingMessage(pk, lane, decode_event(event), person, role, at)


def without_content(event: Inbound) -> str:
    """Return an event as it is stored once it has an outcome: its source is kept, its text and files are not."""
    return json_text(msgspec.structs.replace(event, text="", reply_to=None, attachments=(), button=None))


def _is_stored(tx: Tx, key: dict[str, str]) -> bool:
    return tx.find("find_inbound", **key) is not None


def _wake_session(tx: Tx, request: AdmitRequest, session: StoredSession, states: set[str]) -> bool:
    """Make the session of a new message due, or ask its turn to stop; return whether it was asked."""
    if states <= {"waiting"}:
        at_most = _MAX_BACKLOG_BURST if request.is_backlog(request.event) else MAX_BURST
        mark_ready(tx, request.at, session.pk, wait=request.burst, at_most=at_most)
    if not states or request.stop is None or not _may_stop(request, session.entry):
        return False
    request_stop(tx, request.at, session.pk, request.stop)
    return True


def _may_stop(request: AdmitRequest, session: SessionEntry) -> bool:
    is_admin = request.event.sender_is_admin
    return request.lane == "talk" or may_change(session, role=request.role, person=request.person, is_admin=is_admin)


def _is_full(tx: Tx, request: AdmitRequest, session_pk: int) -> bool:
    """Return whether `max_pending` messages are pending, without the backlog, which always came in first."""
    if request.is_backlog(request.event):
        return False
    row = tx.find("pending_from_end", session_pk=session_pk, newer=request.max_pending - 1)
    return row is not None and not request.is_backlog(decode_event(row[0]))


def _refuse_full(tx: Tx, request: AdmitRequest, session: StoredSession) -> AdmitResult:
    text = request.full_notice
    refusal = RefuseRequest(
        event=request.event,
        person=request.person,
        role=request.role,
        at=request.at,
        note="the queue is full",
        notice=None if text is None else outbox.notice_about(request.event, "full", text),
    )
    return msgspec.structs.replace(refuse(tx, refusal), session=session.entry, session_pk=session.pk)


def _add_pending(tx: Tx, request: AdmitRequest, session_pk: int, turn_pk: int | None) -> Row | None:
    return tx.find(
        "add_taken_inbound",
        **_event_columns(request.event, request.person, request.role, request.at),
        session_pk=session_pk,
        turn_pk=turn_pk,
        lane=request.lane,
        event=json_text(request.event),
    )


def _event_columns(event: Inbound, person: str | None, role: Role, at: Instant) -> dict[str, Any]:
    return {
        "platform": event.source.platform,
        "account": event.source.account,
        "dedupe_key": event.dedupe_key,
        "person": person,
        "role": role,
        "at": at,
    }


def _outcome_columns(request: RefuseRequest) -> dict[str, Any]:
    return {
        "session_pk": None,
        "lane": "talk",
        "event": without_content(request.event) if request.outcome != "parked" else json_text(request.event),
        "fate": request.outcome,
        "fate_at": request.at,
        "note": request.note,
    }


_MAX_GREETING_DELAY = 2_000_000


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of notices before the first turn: to a newcomer, and after an automatic reset (`idle`, `daily`)."""

    welcome: str | None
    idle: str
    daily: str


class ReceiveResult(msgspec.Struct, frozen=True):
    """The result of accepting an event, and whether its sender was greeted."""

    admit_result: AdmitResult
    is_greeted: bool


def accept_and_greet(
    tx: Tx, request: AdmitRequest, greeting: Greeting, create_turn: CreateTurn = create_no_turn
) -> ReceiveResult:
    """Store an event once and enqueue the greeting that is due: both or neither is stored."""
    result = accept(tx, request, create_turn)
    if result.pk is None or result.is_refused or result.session is None:
        return ReceiveResult(result, is_greeted=False)
    notice = _greeting_for(tx, request, result.session, greeting)
    if notice is not None:
        outbox.enqueue(tx, request.at, msgspec.structs.replace(notice, person=request.person))
    return ReceiveResult(result, is_greeted=notice is not None)


def _greeting_for(
    tx: Tx, request: AdmitRequest, session: SessionEntry, greeting: Greeting
) -> outbox.NewDelivery | None:
    if session.message_count:
        return None
    if session.was_auto_reset:
        reset = sessions.take_reset_notice(tx, session.session_id, "user")
        if reset is None:
            return None
        return outbox.notice_about(request.event, "reset", greeting.idle if reset.reason == "idle" else greeting.daily)
    if session.session_id != request.resolve.new_id or sessions.has_any(tx, session.session_id):
        return None
    return None if greeting.welcome is None else outbox.notice_about(request.event, "welcome", greeting.welcome)


def is_known(tx: Tx, platform: str, account: str, dedupe_key: str) -> bool:
    """Return whether an event with that key was stored."""
    return _is_stored(tx, {"platform": platform, "account": account, "dedupe_key": dedupe_key})


class Inbox(Group[Mode]):
    """Events from platforms: accepted once, refused, parked or pending."""

    refuse = writes(refuse)
    list_pending = reads(list_pending)
    is_known = reads(is_known)

    @verb
    def accept(_: Store[Any], request: AdmitRequest) -> Step[AdmitResult]:
        """Store an event once."""
        return leaving_work(write(accept, request))

    @verb
    def park(
        store: Store[Any], event: Unreadable, person: str | None = None, *, keep: int = MAX_UNREADABLE
    ) -> Step[AdmitResult]:
        """Store an unreadable event once; of those without a known sender, each platform's last `keep` keep their content."""
        return write(park, store.now(), event, person=person, keep=keep)

    @verb
    def list_unhandled_controls(store: Store[Any], before_seconds: float) -> Step[list[PendingControl]]:
        """Return control commands accepted so long ago and never carried out: their gateway died in between."""
        return write(list_unhandled_controls, before=Instant(store.now() - int(before_seconds * 1_000_000)))

    @verb
    def accept_and_greet(_: Store[Any], request: AdmitRequest, greeting: Greeting) -> Step[ReceiveResult]:
        """Store an event once and enqueue the greeting that is due."""
        return leaving_work(write(accept_and_greet, request, greeting))

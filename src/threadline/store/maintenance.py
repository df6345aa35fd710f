"""Facts, checks and queue counts of a store, and the trace of one message."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from threadline.clock import from_instant
from threadline.errors import StoreClosed, StoreForked, ThreadlineError, UnknownMessage
from threadline.log import get_logger
from threadline.model.message import decode_body, searchable_text
from threadline.model.view import View, log_of, open_span, seq_of
from threadline.store import rows
from threadline.store.conversations import views
from threadline.store.conversations.indexes import (
    INDEX_STEP,
    RELIST_STEP,
    STEP_BYTES,
    count_unindexed,
    index_batch,
    relist_batch,
)
from threadline.store.engine.database import Database, EngineFacts, Perform, Progress, Row, Step, Tx, read, task, write
from threadline.store.people.removal import collect_batch
from threadline.store.rows import NO_LIMIT, json_value
from threadline.store.text import tokenise
from threadline.store.verbs import Group, Mode, Store, reads, verb
from threadline.store.work import outbox

STEP = 1_000


class CheckReport(msgspec.Struct, frozen=True):
    """The findings of a check. `faults` is empty when all is well; each fault is a sentence."""

    faults: list[str]
    sessions: int
    messages: int
    unindexed: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


class CheckPage(msgspec.Struct, frozen=True):
    """The outcome of one step of a check: faults, how many rows were checked, and the number to continue after (`None`: done)."""

    faults: list[str]
    checked: int
    next: int | None


def counts(tx: Tx) -> tuple[int, int, int, int]:
    """Return how many sessions, ended sessions, messages and unindexed messages there are."""
    sessions = tx.find("count_sessions")
    messages = tx.find("count_messages")
    assert sessions is not None, "an aggregate has a row"  # noqa: S101
    assert messages is not None, "an aggregate has a row"  # noqa: S101
    return int(sessions[0]), int(sessions[1]), int(messages[0]), count_unindexed(tx)


def check_views(tx: Tx, after: int) -> CheckPage:
    """Check a page of sessions: the current view ends open on the session's own log, and all messages of the view exist.

    The same holds for each view that redo can bring back.
    """
    faults: list[str] = []
    rows = tx.rows("sessions_after", after=after, limit=STEP)
    for pk, session_id, version, redo, last_seq, message_count in rows:
        view = views.load(tx, pk, version)
        view_faults = _view_faults(tx, pk, view, last_seq)
        if not view_faults and (own := views.own_count(view, pk, last_seq)) != message_count:
            view_faults = [f"it counts {message_count} messages of its own, and shows {own}"]
        for version_to_redo in json_value(redo):
            view_faults += [
                f"{fault} (to redo)" for fault in _view_faults(tx, pk, views.load(tx, pk, version_to_redo), last_seq)
            ]
        faults += [f"session {session_id}: {fault}" for fault in view_faults]
    return CheckPage(faults, len(rows), rows[-1][0] if len(rows) == STEP else None)


def check_messages(tx: Tx, after: int) -> CheckPage:
    """Check a page of messages: each parses, and the index has it exactly if it should."""
    faults: list[str] = []
    rows = tx.rows("indexed_part", lo=after + 1, hi=views.NO_LIMIT, limit=STEP, most=STEP_BYTES)
    for number, redacted_at, body, should, doc, indexed in rows:
        try:
            tokens = tokenise(searchable_text(decode_body(body)))
        except ValueError:
            faults.append(f"message {number}: its text is not JSON")
            continue
        # A log whose session was deleted keeps the index entries that it had.
        expected = redacted_at is None and bool(tokens) and (should is None or bool(should))
        if expected and doc is None:
            if should is not None:
                faults.append(f"message {number}: it is missing in the search index")
        elif not expected and doc is not None:
            faults.append(f"message {number}: it is in the search index, and should not be")
        elif doc is not None and not tx.index_matches(indexed, tokens):
            faults.append(f"message {number}: the search index has other words than the message")
    return CheckPage(faults, len(rows), rows[-1][0] if rows else None)


def check_orphans(tx: Tx) -> list[str]:
    """Return faults: index entries without a message, sessions missing in listings, addresses that disagree with their session."""
    faults = [
        f"the search index has message {number}, which was deleted"
        for (number,) in tx.rows("stray_documents", limit=20)
    ]
    odd = tx.rows("odd_addresses", limit=20)
    faults += [f"session {name}: listings may miss it" for (name,) in tx.rows("unlisted_sessions", limit=20)]
    return faults + [f"{key} records wrongly whether its current session has ended" for (key,) in odd]


def _view_faults(tx: Tx, pk: int, view: View, last_seq: int) -> list[str]:
    if not view.shown or log_of(view.shown[-1].lo) != pk or view.shown[-1].hi != open_span(pk).hi:
        return ["its view does not end open on its own log"]
    faults = []
    for span in (*view.shown, *view.folded):
        row = tx.find("count_in_span", lo=span.lo, hi=span.hi)
        present = 0 if row is None else int(row[0])
        reach = seq_of(span.hi) if log_of(span.lo) != pk else min(seq_of(span.hi), last_seq)
        if present != max(0, reach - seq_of(span.lo) + 1):
            faults.append(f"messages {span.lo} to {span.hi} of its view are not all there")
    return faults


class _InboundHeader(msgspec.Struct, frozen=True):
    """The part of an event that is kept whatever its outcome: no words. `raw` is the original of an unreadable event."""

    class _Source(msgspec.Struct, frozen=True):
        chat_id: str | None = None
        user_name: str | None = None

    source: _Source = _Source()
    message_id: str = ""
    kind: str = "message"
    raw: str | None = None


class MessageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An inbound message. `fate` is `waiting` or `running` until it has one, and `failed` where its turn failed."""

    pk: int
    platform: str
    account: str
    chat_id: str | None
    person: str | None
    role: str
    kind: str
    accepted_at: datetime
    fate: str
    fate_at: datetime | None
    note: str | None
    session_id: str | None


class TurnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that took a message."""

    turn_id: str
    state: str
    outcome: str | None
    attempts: int
    created_at: datetime
    ended_at: datetime | None
    error: str | None


class MessageTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A message, the turn that took it, and the deliveries of that turn."""

    message: MessageSummary
    turn: TurnSummary | None
    deliveries: list[outbox.DeliverySummary]
    # The original of an unreadable event.
    raw: str | None = None


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages, turns and deliveries wait or run."""

    waiting_messages: int
    running_turns: int
    waiting_deliveries: int
    parked_deliveries: int
    # When the oldest pending message came in.
    waiting_since: datetime | None


def queue_counts(tx: Tx) -> QueueCounts:
    """Return how many messages, turns and deliveries wait, run and are parked, over all gateways."""
    waiting, running, pending, parked, since = tx.find("gateway_counts") or (0, 0, 0, 0, None)
    return QueueCounts(
        waiting_messages=waiting,
        running_turns=running,
        waiting_deliveries=pending,
        parked_deliveries=parked,
        waiting_since=None if since is None else from_instant(since),
    )


def list_messages(tx: Tx, fate: str | None = None, *, before: int = NO_LIMIT, limit: int = 50) -> list[MessageSummary]:
    """Return inbound messages, newest first."""
    return [_message_summary(row) for row in tx.rows("list_inbox", fate=fate, before=before, limit=limit)]


def trace_message(tx: Tx, pk: int) -> MessageTrace:
    """Return the turn and the deliveries that came of one message, or raise `UnknownMessage`."""
    row = tx.find("find_inbox", pk=pk)
    if row is None:
        raise UnknownMessage(
            f"no message that came in is number {pk}; `threadline messages list` shows those there are"
        )
    turn_pk = row[12]
    turn = None if turn_pk is None else tx.find("story_of_turn", turn_pk=turn_pk)
    return MessageTrace(
        message=_message_summary(row),
        turn=None if turn is None else _turn_summary(turn),
        deliveries=[] if turn_pk is None else outbox.list_of_turn(tx, turn_pk),
        raw=_decode(row[4]).raw,
    )


def _message_summary(row: Row) -> MessageSummary:
    pk, platform, account, _, event, person, role, accepted_at, fate, fate_at, note, session_id, _ = row
    header = _decode(event)
    return MessageSummary(
        pk=pk,
        platform=platform,
        account=account,
        chat_id=header.source.chat_id,
        person=person,
        role=role,
        kind=header.kind,
        accepted_at=from_instant(accepted_at),
        fate=fate,
        fate_at=None if fate_at is None else from_instant(fate_at),
        note=note,
        session_id=session_id,
    )


def _turn_summary(row: Row) -> TurnSummary:
    turn_id, state, outcome, attempts, created_at, ended_at, error = row
    return TurnSummary(
        turn_id=turn_id,
        state=state,
        outcome=outcome,
        attempts=attempts,
        created_at=from_instant(created_at),
        ended_at=None if ended_at is None else from_instant(ended_at),
        error=error,
    )


_decode = rows.json_reader(_InboundHeader)


class StoreFacts(msgspec.Struct, frozen=True):
    """Facts about a store."""

    engine: EngineFacts
    sessions: int
    ended_sessions: int
    messages: int
    unindexed: int


class Maintenance(Group[Mode]):
    """Facts, backups, checks, and traces of messages."""

    list_messages = reads(list_messages)
    queue_counts = reads(queue_counts)
    trace_message = reads(trace_message)

    @verb
    def facts(store: Store[Any]) -> Step[StoreFacts]:
        """Return where the store is, how big it is, and how many sessions and messages it has."""
        return task(_facts, store.database)

    @verb
    def backup(store: Store[Any], target: str | Path, *, progress: Progress | None = None) -> Step[Path]:
        """Write a consistent, verified copy to `target`, an SQLite file, while others read and write."""
        return task(_backup, store.database, Path(target).expanduser().absolute(), progress or _quiet)

    @verb
    def check(store: Store[Any], *, progress: Progress | None = None) -> Step[CheckReport]:
        """Check the file, every view, and the search index against the messages."""
        return task(_check, store.database, progress or _quiet)


def _facts(perform: Perform, database: Database) -> StoreFacts:
    return StoreFacts(database.facts(), *perform(read(counts)))


def _backup(_: Perform, database: Database, target: Path, progress: Progress) -> Path:
    database.backup(target, progress)
    return target


def _check(perform: Perform, database: Database, progress: Progress) -> CheckReport:
    faults = database.verify()
    sessions, _, messages, unindexed = perform(read(counts))
    checked, total = 0, sessions + messages
    for check_page in (check_views, check_messages):
        after: int | None = 0
        while after is not None:
            page = perform(read(check_page, after))
            checked, after = checked + page.checked, page.next
            faults = [*faults, *page.faults]
            progress(min(checked, total), total)
    return CheckReport([*faults, *perform(read(check_orphans))], sessions, messages, unindexed)


def _quiet(done: int, total: int) -> None:
    """Report no progress."""


log = get_logger(__name__)

IDLE_SECONDS = 0.5
# However busy the writers are, the indexes lag behind by no more than this. The more sessions are listed anew at once, the
# more of them share a page: sooner would cost the writers more.
MAX_DELAY_SECONDS = 10.0
_AFTER_FAULT_SECONDS = 5.0
# The steps, and how much a step must have done for another to follow. Relisting needs a full step: beside busy
# writers there is always one more session, and it would never end.
_STEPS = (
    (write(relist_batch), RELIST_STEP),
    (write(index_batch, INDEX_STEP), 1),
    (write(collect_batch), 1),
)


class BackgroundWorker:
    """Updates listings and the search index in short steps, when writes have paused or gone on for long.

    Then it deletes messages of deleted sessions that a process did not live to collect.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes = 0
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def notify(self) -> None:
        """Note that a write has left work. Costs next to nothing."""
        self._writes += 1
        if not self._due.is_set():
            self._due.set()
            self._ensure_thread()

    def stop(self) -> None:
        """Stop after the step that runs; the rest is done after the next write, or by a search that needs it."""
        self._stopping.set()
        self._due.set()
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()

    def _ensure_thread(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._serve, name="threadline-background", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            self._due.wait()
            self._await_quiet()
            # Cleared before the work: a write during the work starts another round.
            self._due.clear()
            if self._stopping.is_set():
                return
            try:
                self._catch_up()
            except (StoreClosed, StoreForked):
                return
            except ThreadlineError as cause:
                log.warning("store.indexing_delayed", error=str(cause))
                self._stopping.wait(_AFTER_FAULT_SECONDS)
                self._due.set()

    def _await_quiet(self) -> None:
        started = time.monotonic()
        while not self._stopping.is_set() and time.monotonic() - started < MAX_DELAY_SECONDS:
            writes_before = self._writes
            self._stopping.wait(IDLE_SECONDS)
            if self._writes == writes_before:
                return

    def _catch_up(self) -> None:
        for step, least in _STEPS:
            while not self._stopping.is_set() and self._database.perform(step) >= least:
                pass

"""Operations on logs and what views show of them: append, load, rewrite, undo, redo, fork."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import (
    IdempotencyConflict,
    InvalidMessage,
    InvalidRequest,
    ThreadlineError,
    UnknownMessage,
)
from threadline.model.message import ACTIVE_ROLES, EncodedMessage, Message, decode_body
from threadline.model.session import SessionEntry
from threadline.model.transcript import Appended, MessageRef, TranscriptMessage
from threadline.model.view import MAX_SEQ, log_of, message_number, seq_of
from threadline.store import sessions, views
from threadline.store.database import Row, Tx
from threadline.store.rows import StoredSession, session_of


class AppendRequest(msgspec.Struct, frozen=True):
    """Messages for one session, all or none."""

    session_id: str
    messages: Sequence[EncodedMessage]
    at: Instant
    key: str | None = None
    digest: bytes | None = None
    author: str | None = None
    external_id: str | None = None


class _Target:
    """A session that a batch appends to, and what it has added so far."""

    __slots__ = ("active", "added", "at", "last_seq", "owner", "pk", "was_indexed")

    def __init__(self, pk: int, last_seq: int, indexed_seq: int, owner: str | None) -> None:
        self.pk = pk
        self.last_seq = last_seq
        self.was_indexed = indexed_seq == last_seq
        self.owner = owner
        self.added = 0
        self.active = 0
        self.at = Instant(0)


class _Batch:
    """The rows that a batch of appends comes to."""

    def __init__(self, targets: dict[str, _Target], used: dict[tuple[int, str], Row]) -> None:
        self.targets = targets
        self.used = used
        self.messages: list[Row] = []
        self.keys: list[Row] = []
        self.externals: list[Row] = []

    def add(self, request: AppendRequest) -> Appended | ThreadlineError:
        """Takes a request in, or tells why not; then it has left no trace."""
        target = self.targets.get(request.session_id)
        if target is None:
            return sessions.unknown(request.session_id)
        if request.key is not None and (before := self.used.get((target.pk, request.key))) is not None:
            return _again(request, before)
        count = len(request.messages)
        if target.last_seq + count > MAX_SEQ:
            return InvalidMessage(f"a session holds at most {MAX_SEQ:,} messages; fork it and go on there")
        return self._take(target, request, count)

    def _take(self, target: _Target, request: AppendRequest, count: int) -> Appended:
        first = target.last_seq + 1
        at, author = request.at, request.author if request.author != target.owner else None
        number = message_number(target.pk, first)
        for message in request.messages:
            self.messages.append((number, message.role, at, author if message.role == "user" else None, message.body))
            number += 1
            if message.role in ACTIVE_ROLES:
                target.active = 1
        target.last_seq += count
        target.added += count
        target.at = at
        if request.key is not None:
            row = (target.pk, request.key, first, count, request.digest)
            self.keys.append(row)
            self.used[target.pk, request.key] = row
        if request.external_id is not None and count:
            self.externals.append((target.pk, request.external_id, message_number(target.pk, first)))
        return Appended(request.session_id, first, count)

    def write(self, tx: Tx) -> None:
        """Writes it all, in as few statements as the engine knows."""
        grown = [t for t in self.targets.values() if t.added]
        if self.messages:
            tx.run_many("add_messages", self.messages)
        if self.keys:
            tx.run_many("add_appends", self.keys)
        if self.externals:
            tx.run_many("add_externals", self.externals)
        if grown:
            tx.run_many("advance_states", [(t.last_seq, t.added, t.active, t.at, t.pk) for t in grown])
        if fresh := [(t.pk,) for t in grown if t.was_indexed]:
            tx.run_many("mark_unindexed", fresh)


def append_batch(tx: Tx, requests: Sequence[AppendRequest]) -> list[Appended | ThreadlineError]:
    """Appends for many callers at once, in the order of their arrival; each hears only of its own."""
    ids = dict.fromkeys(request.session_id for request in requests)
    rows = tx.rows_many("lock_append_targets", [(session_id,) for session_id in ids])
    targets = {row[0]: _Target(*row[1:]) for row in rows}
    keyed = [
        (targets[request.session_id].pk, request.key)
        for request in requests
        if request.key is not None and request.session_id in targets
    ]
    used = {(row[0], row[1]): row for row in tx.rows_many("find_appends", keyed)} if keyed else {}
    batch = _Batch(targets, used)
    outcomes = [batch.add(request) for request in requests]
    batch.write(tx)
    return outcomes


def append(tx: Tx, request: AppendRequest) -> Appended:
    """One append inside a larger operation."""
    outcome = append_batch(tx, [request])[0]
    if isinstance(outcome, ThreadlineError):
        raise outcome
    return outcome


def load(tx: Tx, session_id: str, limit: int | None) -> list[Message]:
    """What the model sees, oldest first; the last `limit` of it."""
    if limit is not None and limit < 0:
        raise InvalidRequest("limit counts messages and can't be negative")
    rows = tx.rows("load_bodies", session_id=session_id, limit=views.FAR if limit is None else limit)
    if not rows:
        sessions.get_entry(tx, session_id)
    return [decode_body(row[0]) for row in reversed(rows)]


def read(tx: Tx, session_id: str, limit: int | None) -> list[TranscriptMessage]:
    """Like `load`, with each message's id, time and author."""
    session = sessions.get_session(tx, session_id)
    rows = views.rows_before(tx, session, views.FAR if limit is None else limit)
    return named(tx, [row[1:] for row in rows])


def read_log(tx: Tx, session_id: str, after: int, limit: int) -> list[TranscriptMessage]:
    """A stretch of all that was ever said in the session itself, undone and folded messages included."""
    pk = sessions.get_session(tx, session_id).pk
    rows = tx.rows(
        "load_log", lo=message_number(pk, after + 1), hi=message_number(pk, MAX_SEQ), limit=limit
    )
    return named(tx, rows)


def rewrite(
    tx: Tx, session_id: str, messages: Sequence[EncodedMessage], *, at: Instant
) -> SessionEntry:
    """Replaces what the model sees. What is the same at the start and at the end is kept, not copied; the rest is folded."""
    session = sessions.get_session(tx, session_id, lock=True)
    shown = views.rows_before(tx, session, views.FAR)
    head, tail = views.common_ends(shown, list(messages))
    middle = messages[head : len(messages) - tail]
    if middle:
        append(tx, AppendRequest(session_id, middle, at))
    views.rewrite(tx, session, shown, (head, tail), len(middle), at=at)
    return sessions.get_entry(tx, session_id)


def undo(tx: Tx, session_id: str, n: int, *, at: Instant) -> SessionEntry:
    """`/undo`."""
    views.undo(tx, sessions.get_session(tx, session_id, lock=True), n, at=at)
    return sessions.get_entry(tx, session_id)


def redo(tx: Tx, session_id: str, *, at: Instant) -> SessionEntry:
    """`/redo`."""
    views.redo(tx, sessions.get_session(tx, session_id, lock=True), at=at)
    return sessions.get_entry(tx, session_id)


def retry(tx: Tx, session_id: str, *, at: Instant) -> SessionEntry:
    """`/retry`: the answer to the last user message leaves the view."""
    views.cut_for_retry(tx, sessions.get_session(tx, session_id, lock=True), at=at)
    return sessions.get_entry(tx, session_id)


def fork(
    tx: Tx, session_id: str, how: sessions.Beginning, *, upto: MessageRef | None, key: str | None
) -> SessionEntry:
    """A new session with the same history. With `key` it becomes that conversation's current session."""
    parent = sessions.get_session(tx, session_id, lock=True)
    address = sessions.find_address(tx, key or parent.entry.session_key)
    if address is None:
        raise sessions.unknown(key or session_id)
    number = None if upto is None else shown_number(tx, parent, upto)
    if key is not None and address.session_pk is not None:
        current = session_of(_found(tx.find("find_session_by_pk", session_pk=address.session_pk)))
        sessions.end(tx, current, reason="session_switch", at=how.at)
    return sessions.fork_at(tx, address, parent, how, number, current=key is not None)


def shown_number(tx: Tx, session: StoredSession, ref: MessageRef) -> int:
    """The number of a message that the session shows, or `UnknownMessage`."""
    number = number_of(tx, ref)
    shown = views.load(tx, session.pk, session.view_version).shown
    if not any(span.lo <= number <= span.hi for span in shown):
        raise UnknownMessage(f"{ref} is not shown in this session")
    return number


def number_of(tx: Tx, ref: MessageRef) -> int:
    """The number of a message, or `UnknownMessage`. A deleted session's messages may live on in its forks."""
    pk = tx.find("find_log", session_id=ref.session_id)
    number = None if pk is None else message_number(pk[0], ref.seq)
    if number is None or tx.find("find_message", number=number) is None:
        raise UnknownMessage(f"no message is called {str(ref)[:120]!r}")
    return number


def link(tx: Tx, ref: MessageRef, external_id: str) -> None:
    """Notes the platform's own id of a message: a thread may be named after it."""
    number = number_of(tx, ref)
    tx.run("add_external", session_pk=log_of(number), external_id=external_id, number=number)


def named(tx: Tx, rows: Sequence[Row]) -> list[TranscriptMessage]:
    """Message rows with the ids that callers know them by."""
    names = {log: log_name(tx, log) for log in {log_of(row[0]) for row in rows}}
    return [
        TranscriptMessage(
            ref=MessageRef(names[log_of(number)], seq_of(number)),
            role=role,
            at=from_instant(at),
            author=author,
            redacted=redacted_at is not None,
            message=decode_body(body),
        )
        for number, role, at, author, redacted_at, body in rows
    ]


def log_name(tx: Tx, log: int) -> str:
    """The id of the session whose log this is, or was."""
    return str(_found(tx.find("log_name", log=log))[0])


def _again(request: AppendRequest, before: Row) -> Appended | ThreadlineError:
    _, _, first_seq, count, digest = before
    if digest is not None and bytes(digest) != request.digest:
        return IdempotencyConflict(
            f"the key {request.key!r} was used in this session for other content; use a new key for a new message"
        )
    return Appended(request.session_id, first_seq, count, duplicate=True)


def _found(row: Row | None) -> Row:
    assert row is not None, "a row that another row refers to is there"  # noqa: S101
    return row

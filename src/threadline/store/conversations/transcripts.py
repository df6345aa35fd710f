"""Append, load, rewrite, undo and fork transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import (
    IdempotencyConflict,
    InvalidCursor,
    InvalidMessage,
    InvalidRequest,
    ThreadlineError,
    UnknownMessage,
    UnknownSession,
)
from threadline.model.message import (
    ACTIVE_ROLES,
    Appended,
    EncodedMessage,
    Message,
    MessageRef,
    TranscriptMessage,
    content_digest,
    decode_body,
    encode_messages,
)
from threadline.model.session import SessionEntry
from threadline.model.view import MAX_SEQ, log_of, message_number, seq_of
from threadline.store.conversations import records, sessions, views
from threadline.store.engine.database import Row, Step, Tx, batch, leaving_work, read, write
from threadline.store.rows import Page, StoredSession, check_limit, decode_cursor, encode_cursor
from threadline.store.verbs import (
    MAX_PATH_CHARS,
    Group,
    Mode,
    PersonRef,
    Store,
    clean_or_none,
    clean_text,
    person_name_of,
    reads,
    verb,
    writes_now,
)

# Replaces a digest that could confirm a guess at an erased text. The key stays used.
ERASED_DIGEST = b""


class AppendRequest(msgspec.Struct, frozen=True, gc=False):
    """Messages for one session, all or none."""

    session_id: str
    messages: Sequence[EncodedMessage]
    at: Instant
    # With a digest the append is done once, whoever repeats it. Without one the key is only recorded.
    key: str | None = None
    digest: bytes | None = None
    author: str | None = None
    external_id: str | None = None
    # Whether the messages are new. A rewrite repeats earlier ones.
    is_activity: bool = True


class _Target:
    """A session that a batch appends to, and the counts of its new messages."""

    __slots__ = ("active", "added", "at", "last_seq", "owner", "pk", "was_indexed")

    def __init__(self, pk: int, last_seq: int, indexed_seq: int, owner: str | None) -> None:
        self.pk = pk
        self.last_seq = last_seq
        self.was_indexed = indexed_seq == last_seq
        self.owner = owner
        self.added = 0
        self.active = 0
        self.at = Instant(0)


class _AppendBatch:
    """The rows of a batch of appends."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.targets: dict[str, _Target] = {}
        self.used: dict[tuple[int, str], Row] = {}
        self.messages: list[Row] = []
        # Each id once: the last message with that id.
        self.externals: dict[tuple[int, str], int] = {}
        for row in rows:
            if row[0] not in self.targets:
                self.targets[row[0]] = _Target(*row[1:5])
            if row[5] is not None:
                self.used[row[1], row[5]] = row[6:]

    def add(self, request: AppendRequest) -> Appended | ThreadlineError:
        """Add a request to the batch, or return why not; then it has left no trace."""
        target = self.targets.get(request.session_id)
        if target is None:
            return records.unknown_session_error(request.session_id)
        if request.key is not None and (before := self.used.get((target.pk, request.key))) is not None:
            return _duplicate_outcome(request, before)
        count = len(request.messages)
        if target.last_seq + count > MAX_SEQ:
            return InvalidMessage(f"a session holds at most {MAX_SEQ:,} messages; fork it and go on there")
        return self._take_in(target, request, count)

    def _take_in(self, target: _Target, request: AppendRequest, count: int) -> Appended:
        at, author = request.at, request.author if request.author != target.owner else None
        first = number = message_number(target.pk, target.last_seq + 1)
        mark: tuple[Any, ...] = (request.key, request.digest)
        if request.key is not None and request.digest is not None:
            self.used[target.pk, request.key] = (first, request.digest)
        for message in request.messages:
            role = message.role
            self.messages.append((number, role, at, author if role == "user" else None, *mark, message.body))
            mark = (None, None)
            number += 1
            if role in ACTIVE_ROLES and request.is_activity:
                target.active = 1
        target.last_seq += count
        target.added += count
        target.at = at
        if request.external_id is not None:
            self.externals[target.pk, request.external_id] = first
        return Appended(request.session_id, seq_of(first), count)

    def write(self, tx: Tx) -> None:
        """Write all rows, in as few statements as the engine knows."""
        if not self.messages:
            return
        advanced: list[Row] = []
        fresh: list[Row] = []
        for target in self.targets.values():
            if not target.added:
                continue
            pk, at = target.pk, target.at
            advanced.append((target.last_seq, target.added, target.active, at, pk))
            if target.was_indexed:
                fresh.append((pk,))
        tx.run_many("add_messages", self.messages)
        tx.run_many("advance_states", advanced)
        if self.externals:
            tx.run_many(
                "add_externals", [(*session_and_id, number) for session_and_id, number in self.externals.items()]
            )
        if fresh:
            tx.run_many("mark_unindexed", fresh)


def append_batch(tx: Tx, requests: Sequence[AppendRequest]) -> list[Appended | ThreadlineError]:
    """Append for many callers at once, in the order of their arrival; return an outcome for each."""
    batch = _AppendBatch(
        tx.rows_many("lock_append_targets", [(request.key, request.session_id) for request in requests])
    )
    outcomes = [batch.add(request) for request in requests]
    batch.write(tx)
    return outcomes


def append(tx: Tx, request: AppendRequest) -> Appended:
    """Append as part of a larger operation, which fails if this does."""
    (outcome,) = append_batch(tx, [request])
    return _required(outcome)


def append_locked(tx: Tx, session_id: str, state: Row, requests: Sequence[AppendRequest]) -> list[Appended]:
    """Append to a locked session as part of a larger operation, which fails with the first request that does.

    `state`: the row of `lock_append_targets`, from the session's number on. None of the requests has a digest.
    """
    batch = _AppendBatch([(session_id, *state, None, None, None)])
    appended = [_required(batch.add(request)) for request in requests]
    batch.write(tx)
    return appended


def load(tx: Tx, session_id: str, limit: int | None = None) -> list[Message]:
    """Return the messages that the model sees, oldest first, equal as JSON to the appended ones; with `limit`, the last so many."""
    _require_count("limit", limit)
    rows = tx.rows("load_bodies", session_id=session_id, limit=views.NO_LIMIT if limit is None else limit)
    if not rows:
        records.get_entry(tx, session_id)
    return [decode_body(row[0]) for row in reversed(rows)]


def read_messages(tx: Tx, session_id: str, limit: int | None = None) -> list[TranscriptMessage]:
    """Return the messages of `load_transcript`, each with its id, time and author."""
    _require_count("limit", limit)
    session = records.get_session(tx, session_id)
    rows = views.last_rows(tx, session, views.NO_LIMIT if limit is None else limit)
    return to_transcript_messages(tx, [row[1:] for row in rows])


def read_page(tx: Tx, session_id: str, limit: int, cursor: str | None) -> Page[TranscriptMessage]:
    """Return a page of the view, oldest first. A cursor is good for the version of the view that it was made from."""
    check_limit(limit)
    session = records.get_session(tx, session_id)
    version, place, number = decode_cursor("t", cursor, 3) if cursor else (session.view_version, -1, -1)
    if version != session.view_version:
        raise InvalidCursor("the conversation was changed while it was read; start again without a cursor")
    rows = tx.rows(
        "load_view_onward",
        session_pk=session.pk,
        version=version,
        after_place=place,
        after_number=number,
        limit=limit + 1,
    )
    messages = to_transcript_messages(tx, [row[1:] for row in rows[:limit]])
    if len(rows) <= limit:
        return Page(messages)
    last = rows[limit - 1]
    return Page(messages, encode_cursor("t", version, last[0], last[1]))


def read_log(tx: Tx, session_id: str, after: int = 0, limit: int = 1000) -> list[TranscriptMessage]:
    """Return all messages of the session's own log, undone and folded ones included, from number `after` on."""
    _require_count("after", after)
    _require_count("limit", limit)
    pk = records.get_session(tx, session_id).pk
    if after >= MAX_SEQ:
        return []
    rows = tx.rows("load_log", lo=message_number(pk, after + 1), hi=message_number(pk, MAX_SEQ), limit=limit)
    return to_transcript_messages(tx, rows)


def rewrite(tx: Tx, at: Instant, session_id: str, messages: Sequence[EncodedMessage]) -> SessionEntry:
    """Replace the messages that the model sees. Equal messages at the start and end are kept, not copied; the rest is folded.

    A replaced message keeps its author, or the authors that it may have.
    """
    session = records.get_session(tx, session_id, lock=True)
    shown = views.last_rows(tx, session, views.NO_LIMIT)
    head, tail = views.common_prefix_and_suffix(shown, list(messages))
    middle = messages[head : len(messages) - tail]
    if middle:
        authors = views.possible_authors(tx, session, shown[head : len(shown) - tail], middle)
        for author, run in views.group_by_author(middle, authors):
            append(tx, AppendRequest(session_id, run, at, author=author, is_activity=False))
        views.save_possible_authors(tx, message_number(session.pk, session.last_seq + 1), authors)
    views.rewrite(tx, at, session, shown, (head, tail), len(middle))
    return records.get_entry(tx, session_id)


def undo(tx: Tx, at: Instant, session_id: str, n: int = 1) -> SessionEntry:
    """Undo the last `n` exchanges (or all there are); raise `NothingToUndo` where there is none."""
    views.undo(tx, at, records.get_session(tx, session_id, lock=True), n)
    return records.get_entry(tx, session_id)


def redo(tx: Tx, at: Instant, session_id: str) -> SessionEntry:
    """Revert the last undo; raise `NothingToRedo` where nothing was undone or a message was appended since."""
    views.redo(tx, at, records.get_session(tx, session_id, lock=True))
    return records.get_entry(tx, session_id)


def retry(tx: Tx, at: Instant, session_id: str) -> SessionEntry:
    """Remove the answer to the last user message from the view, so that the agent can answer again; redo restores it."""
    views.cut_for_retry(tx, at, records.get_session(tx, session_id, lock=True))
    return records.get_entry(tx, session_id)


def fork(
    tx: Tx,
    at: Instant,
    session_id: str,
    *,
    new_id: str,
    upto: MessageRef | None = None,
    key: str | None = None,
    model: str | None = None,
    cwd: str | None = None,
) -> SessionEntry:
    """Begin a session with the same history. With `key` it becomes that conversation's current session, and has its origin."""
    parent = records.get_session(tx, session_id, lock=True)
    new = records.NewSession(new_id, parent.entry.origin, at, model=model, cwd=cwd)
    address = records.find_address(tx, key or parent.entry.session_key)
    if address is None:
        raise records.unknown_session_error(key or session_id)
    number = None if upto is None else visible_number(tx, parent, upto)
    if address.session_pk is not None and key is not None:
        current = records.session_by_pk(tx, address.session_pk)
        records.end(tx, new.at, current, reason="session_switch")
        new = new if address.pk == parent.address_pk else _new_session_at_place(current.entry, parent.entry, new)
    elif address.pk != parent.address_pk:
        raise UnknownSession(f"there is no session at {key!r} any more that could be forked; nothing was changed")
    return sessions.fork_at(tx, address, parent, new, number, current=key is not None)


def _new_session_at_place(place: SessionEntry, parent: SessionEntry, new: records.NewSession) -> records.NewSession:
    """Return the fields of a fork with the origin of its new place: replies must not go where its history was."""
    at_place = records.new_session_at(place, parent, new_id=new.session_id, at=new.at)
    return msgspec.structs.replace(at_place, model=new.model, cwd=new.cwd or at_place.cwd)


def visible_number(tx: Tx, session: StoredSession, ref: MessageRef) -> int:
    """Return the number of a message that the session shows, or raise `UnknownMessage`."""
    number = find_number(tx, ref)
    shown = views.load(tx, session.pk, session.view_version).shown
    if not any(span.lo <= number <= span.hi for span in shown):
        raise UnknownMessage(f"{ref} is not shown in this session")
    return number


def find_number(tx: Tx, ref: MessageRef) -> int:
    """Return the number of a message, or raise `UnknownMessage`. A deleted session's messages may live on in its forks."""
    pk = tx.find("find_log", session_id=ref.session_id)
    number = None if pk is None else message_number(pk[0], ref.seq)
    if number is None or tx.find("find_message", number=number) is None:
        raise UnknownMessage(f"no message is called {str(ref)[:120]!r}")
    return number


def link_external_id(tx: Tx, ref: MessageRef, external_id: str) -> None:
    """Record the platform's own id of a message: a thread may be named after it."""
    number = find_number(tx, ref)
    tx.run("add_external", session_pk=log_of(number), external_id=external_id, number=number)


def to_transcript_messages(tx: Tx, rows: Sequence[Row]) -> list[TranscriptMessage]:
    """Return message rows as messages with the ids that callers know."""
    session_ids = {log: session_id_of_log(tx, log) for log in {log_of(row[0]) for row in rows}}
    return [
        TranscriptMessage(
            ref=MessageRef(session_ids[log_of(number)], seq_of(number)),
            role=role,
            at=from_instant(at),
            author=author,
            redacted=redacted_at is not None,
            message=decode_body(body),
        )
        for number, role, at, author, redacted_at, body in rows
    ]


def session_id_of_log(tx: Tx, log: int) -> str:
    """Return the id of the session whose log this is, or was."""
    return str(records.require_row(tx.find("session_id_of_log", log=log))[0])


def _duplicate_outcome(request: AppendRequest, before: Row) -> Appended | ThreadlineError:
    first, digest = before
    if bytes(digest) not in (ERASED_DIGEST, request.digest):
        return IdempotencyConflict(
            f"the key {request.key!r} was used in this session for other content; use a new key for a new message"
        )
    # The same content, so as many messages; of redacted content the count is not known any more.
    return Appended(request.session_id, seq_of(first), len(request.messages), duplicate=True)


def _required(outcome: Appended | ThreadlineError) -> Appended:
    if isinstance(outcome, ThreadlineError):
        raise outcome
    return outcome


def _require_count(name: str, value: int | None) -> None:
    if value is not None and not 0 <= value <= views.NO_LIMIT:
        raise InvalidRequest(f"{name} counts messages: {value} is out of range")


class Transcripts(Group[Mode]):
    """The messages of sessions, and the view that the model sees."""

    load = reads(load)
    read = reads(read_messages)
    read_log = reads(read_log)
    undo = writes_now(undo)
    redo = writes_now(redo)
    retry = writes_now(retry)

    @verb
    def append(
        store: Store[Any],
        session_id: str,
        messages: Message | Sequence[Message],
        idempotency_key: str | None = None,
        *,
        author: PersonRef = None,
        external_id: str | None = None,
    ) -> Step[Appended]:
        """Append one message or several, all or none; when it returns they survive a power cut.

        The key is unique per session: the same key again adds nothing; with other content it is `IdempotencyConflict`.
        `author` says who speaks in a shared session; `external_id` is the platform's own id of the (first) message.
        """
        encoded = encode_messages(messages)
        if not encoded:
            raise InvalidMessage("there is no message to append")
        clean_or_none("an idempotency key", idempotency_key)
        request = AppendRequest(
            session_id,
            encoded,
            store.now(),
            idempotency_key,
            None if idempotency_key is None else content_digest(encoded),
            person_name_of(author),
            clean_or_none("external_id", external_id),
        )
        size = len(encoded[0].body) if len(encoded) == 1 else sum(len(message.body) for message in encoded)
        return leaving_work(batch(append_batch, request, size=size))

    @verb
    def page(
        _: Store[Any], session_id: str, *, limit: int = 500, cursor: str | None = None
    ) -> Step[Page[TranscriptMessage]]:
        """Return a page of the messages of `read_transcript`, oldest first: for transcripts that are too long to hold in memory.

        New messages turn up at the end; if the view itself changes between two pages (an undo), the cursor is `InvalidCursor`.
        """
        return read(read_page, session_id, limit, cursor)

    @verb
    def rewrite(store: Store[Any], session_id: str, messages: Sequence[Message]) -> Step[SessionEntry]:
        """Replace the messages that the model sees, all or nothing. The earlier text stays: search and `read_log` find it.

        A rewrite is no activity: a conversation goes stale all the same.
        """
        encoded = encode_messages(messages)
        return leaving_work(write(rewrite, store.now(), session_id, encoded))

    @verb
    def fork(
        store: Store[Any],
        session_id: str,
        *,
        upto: MessageRef | str | None = None,
        key: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
    ) -> Step[SessionEntry]:
        """Fork a session: the copy has its history, model and working directory, at the same cost for any length.

        `upto` cuts the history after that message. With `key` the fork becomes that conversation's current session, and is
        answered there; without, it waits to be resumed.
        """
        at, new_id = store.now_with_id()
        return write(
            fork,
            at,
            session_id,
            new_id=new_id,
            upto=None if upto is None else MessageRef.parse(upto),
            key=key,
            model=clean_or_none("model", model),
            cwd=clean_or_none("cwd", cwd, MAX_PATH_CHARS),
        )

    @verb
    def link(_: Store[Any], message: MessageRef | str, external_id: str) -> Step[None]:
        """Record the platform's own id of a message, received or delivered: a thread that hangs on it starts there."""
        text = clean_text("external_id", external_id)
        return write(link_external_id, MessageRef.parse(message), text)

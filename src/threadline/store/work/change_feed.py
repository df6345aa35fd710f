"""Snapshots of a running conversation, and the list of a person's conversations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from threadline.clock import Instant, to_instant
from threadline.errors import InvalidRequest, UnknownMessage, UnknownSession
from threadline.ids import new_session_id
from threadline.model.address import SessionAddress
from threadline.model.delivery import Button, target_of
from threadline.model.message import MessageRef, TranscriptMessage
from threadline.model.ownership import Viewer, person_of
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import PendingMessage, QueueKind, StopReason, TurnOutcome
from threadline.model.view import MAX_SEQ, View, message_number
from threadline.store.conversations import indexes, records, sessions, transcripts, views
from threadline.store.engine.database import Row, Step, Tx, read, write
from threadline.store.rows import Page, StoredSession, check_limit, session_of
from threadline.store.text import preview_of_event, preview_of_message
from threadline.store.verbs import Group, Mode, Store, reads, verb
from threadline.store.work import approvals, inbox

# With more new messages than this, the snapshot starts over with the last ones.
MAX_NEW = 200
_MAX_NOTICES = 20
_MAX_ENDED_EARLY = 10
_MAX_PENDING = 200


class TurnCursor(msgspec.Struct, frozen=True):
    """How much of a turn's event log the caller has. `attempt` changes each time the turn is claimed anew."""

    turn_id: str
    attempt: int
    last_place: int


class FeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation that a person looks at, and what the caller already has of it."""

    person: str
    ordering_key: str
    chat_id: str
    address: SessionAddress
    at: Instant
    # A session other than the current one of the conversation; it takes no further messages.
    session_id: str | None = None
    limit: int = 50
    # The caller has the messages up to `seq`, as long as the mark is that of the session's view.
    view_version_mark: str | None = None
    seq: int = 0
    turn: TurnCursor | None = None
    # The caller receives the events of this turn live: none are read for it.
    live_turn: TurnCursor | None = None


class TurnSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has not ended: the messages that it answers, and its events after the caller's cursor."""

    turn_id: str
    attempt: int
    state: str
    lane: QueueKind
    user_messages: tuple[PendingMessage, ...]
    last_place: int
    # Pairs of a place in the journal and the event as JSON, in order.
    events: tuple[tuple[int, str], ...]


class FeedNotice(msgspec.Struct, frozen=True):
    """A message in the chat that is not an answer of the agent."""

    notice_id: str
    text: str
    at: Instant
    buttons: tuple[Button, ...]
    pk: int


class EndedEarly(msgspec.Struct, frozen=True):
    """A turn that failed, was stopped, interrupted or parked, and why."""

    turn_id: str
    outcome: TurnOutcome
    stop: StopReason | None
    error: str | None
    at: Instant


class ConversationSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a conversation.

    While `view_version_mark` stays the same, new messages only follow the earlier ones. `is_continuation` says that `messages`
    follow those that the caller has. Otherwise they are the last messages, and replace what the caller has.
    """

    entry: SessionEntry
    is_current: bool
    # The beginning of the first message, if the session has no title.
    preview: str
    view_version_mark: str
    seq: int
    messages: list[TranscriptMessage]
    is_continuation: bool
    has_earlier: bool
    turn: TurnSnapshot | None
    pending: list[PendingMessage]
    approval: approvals.OpenApproval | None
    notices: list[FeedNotice]
    ended_early: list[EndedEarly]
    can_redo: bool


class EarlierMessages(msgspec.Struct, frozen=True):
    """A page of the messages before a given one, oldest first."""

    messages: list[TranscriptMessage]
    has_earlier: bool


class ListedSession(msgspec.Struct, frozen=True):
    """A session in a list. `preview` is the beginning of its first message, if it has no title."""

    entry: SessionEntry
    preview: str
    is_busy: bool


class FeedForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fork the conversation `parent` after `last_message`, into a new session at `address`."""

    parent: FeedRequest
    last_message: MessageRef
    source: SessionSource
    address: SessionAddress
    new_id: str
    at: Instant


def snapshot(tx: Tx, request: FeedRequest) -> ConversationSnapshot | None:
    """Return the state of a conversation, or `None` if there is none or it is another person's."""
    session = _find_session(tx, request)
    if session is None:
        return None
    view = views.load(tx, session.pk, session.view_version)
    mark = _view_version_mark(session, view)
    new_messages = _new_messages(tx, session, request) if request.view_version_mark == mark else None
    if new_messages is None:
        rows = views.last_rows(tx, session, request.limit + 1)
        messages = transcripts.to_transcript_messages(tx, [row[1:] for row in rows[-request.limit :]])
    else:
        rows, messages = [], new_messages
    is_current = session.is_current and session.entry.ended_at is None
    since = to_instant(session.entry.created_at)
    ended_early = tx.rows("turns_ended_early", session_pk=session.pk, limit=_MAX_ENDED_EARLY)
    return ConversationSnapshot(
        entry=session.entry,
        is_current=is_current,
        preview=_preview(tx, session.entry),
        view_version_mark=mark,
        seq=session.last_seq,
        messages=messages,
        is_continuation=new_messages is not None,
        has_earlier=len(rows) > request.limit,
        turn=_unfinished_turn(tx, session.pk, request),
        pending=inbox.pending_in(tx, session.pk, _MAX_PENDING),
        approval=approvals.find_open_in(tx, request.at, session.pk),
        notices=_notices(tx, request.ordering_key, since) if is_current else [],
        ended_early=[EndedEarly(*row) for row in reversed(ended_early)],
        can_redo=bool(session.redo) and session.redo_seq == session.last_seq,
    )


def earlier(tx: Tx, request: FeedRequest, before: MessageRef) -> EarlierMessages:
    """Return the page of messages before one that the conversation shows. Raises `UnknownSession`, `UnknownMessage`."""
    session = _require_session(tx, request)
    number = transcripts.find_number(tx, before)
    spans = views.load(tx, session.pk, session.view_version).shown
    place = next((place for place, span in enumerate(spans) if span.lo <= number <= span.hi), None)
    if place is None:
        raise UnknownMessage(f"{before} is not shown in this session")
    rows = tx.rows(
        "load_view",
        session_pk=session.pk,
        version=session.view_version,
        before_place=place,
        before_number=number,
        limit=request.limit + 1,
    )
    page = rows[: request.limit][::-1]
    return EarlierMessages(transcripts.to_transcript_messages(tx, [row[1:] for row in page]), len(rows) > request.limit)


def find(tx: Tx, request: FeedRequest) -> SessionEntry:
    """Return the conversation's session. Raises `UnknownSession` if there is none or it is another person's."""
    return _require_session(tx, request).entry


def fingerprints(tx: Tx, places: Sequence[tuple[str, bytes]]) -> dict[bytes, Row]:
    """Return, by address digest, values of which one changes whenever the conversation does.

    `places` holds the ordering key and the address digest of each conversation.
    """
    return {bytes(row[0]): tuple(row[1:]) for row in tx.rows_many("fingerprints", places)}


def list_page(tx: Tx, person: str, platform: str, *, limit: int = 50, cursor: str | None = None) -> Page[ListedSession]:
    """Return a page of a person's sessions on a platform, ended ones included, the most recently updated first."""
    request = indexes.ListRequest(
        include_ended=True, viewer=Viewer(person), platform=platform, limit=limit, cursor=cursor
    )
    page = indexes.list_sessions(tx, request)
    return Page(with_previews(tx, page.items), page.cursor)


def with_previews(tx: Tx, entries: Sequence[SessionEntry]) -> list[ListedSession]:
    """Return sessions with their previews, and whether they have pending messages or a turn."""
    ids = [(entry.session_id,) for entry in entries]
    untitled = [(entry.session_id,) for entry in entries if entry.title is None]
    previews = {str(row[0]): preview_of_message(row[1]) for row in tx.rows_many("first_words", untitled)}
    work = {str(row[0]): row[1] or row[2] for row in tx.rows_many("work_at_hand", ids)}
    return [
        ListedSession(
            entry,
            previews.get(entry.session_id) or preview_of_event(work.get(entry.session_id) or ""),
            entry.session_id in work,
        )
        for entry in entries
    ]


def fork(tx: Tx, request: FeedForkRequest) -> SessionEntry:
    """Return the session at a new address that forks a conversation; create it if the address has none yet."""
    parent = records.get_session(tx, find(tx, request.parent).session_id, lock=True)
    address = records.ensure_address(tx, request.source, request.address)
    if address.session_pk is not None:
        row = tx.find("find_session_by_pk", session_pk=address.session_pk)
        if row is not None:
            return session_of(row).entry
    number = transcripts.visible_number(tx, parent, request.last_message)
    new = records.NewSession(request.new_id, request.source, request.at)
    return sessions.fork_at(tx, address, parent, new, number)


def count_exchanges_since(tx: Tx, session_id: str, ref: MessageRef) -> int:
    """Return how many exchanges an undo must remove to remove this user message too.

    Raises `UnknownMessage` if the session does not show the message, and `InvalidRequest` if no user wrote it.
    """
    session = records.get_session(tx, session_id)
    wanted_number = transcripts.visible_number(tx, session, ref)
    count, in_question = 0, False
    for _, number, role in views.roles(tx, session):
        count += role == "user" and not in_question
        in_question = role == "user"
        if number == wanted_number:
            break
    if not in_question:
        raise InvalidRequest("only a message that you wrote yourself can be edited")
    return count


def _find_session(tx: Tx, request: FeedRequest) -> StoredSession | None:
    if request.session_id is None:
        row = tx.find("peek_current", digest=request.address.digest)
    else:
        row = tx.find("find_session", session_id=request.session_id)
    if row is None:
        return None
    session = session_of(row)
    origin = session.entry.origin
    is_owner = session.entry.owner == request.person and origin.platform == request.address.platform
    return session if is_owner and origin.chat_id == request.chat_id else None


def _require_session(tx: Tx, request: FeedRequest) -> StoredSession:
    session = _find_session(tx, request)
    if session is None:
        raise UnknownSession
    return session


def _view_version_mark(session: StoredSession, view: View) -> str:
    """Return a digest of the view's spans. Version numbers repeat: a redo restores an earlier one, and the next undo reuses it."""
    spans = ".".join(f"{span.lo:x}-{span.hi:x}" for span in view.shown)
    return hashlib.blake2b(f"{session.pk}:{spans}".encode(), digest_size=6).hexdigest()


def _new_messages(tx: Tx, session: StoredSession, request: FeedRequest) -> list[TranscriptMessage] | None:
    """Return the messages after `seq` of an unchanged view, or `None` if they are too many or `seq` is invalid."""
    if not 0 <= request.seq <= session.last_seq or session.last_seq - request.seq > MAX_NEW:
        return None
    if request.seq == session.last_seq:
        return []
    lo, hi = message_number(session.pk, request.seq + 1), message_number(session.pk, MAX_SEQ)
    return transcripts.to_transcript_messages(tx, tx.rows("load_log", lo=lo, hi=hi, limit=MAX_NEW))


def _unfinished_turn(tx: Tx, session_pk: int, request: FeedRequest) -> TurnSnapshot | None:
    rows = tx.rows("unfinished_turns", session_pk=session_pk)
    if not rows:
        return None
    pk, turn_id, attempt, state, lane = min(rows, key=lambda row: row[3] == "waiting")
    known_place, live_place = (
        0 if cursor is None or (cursor.turn_id, cursor.attempt) != (turn_id, attempt) else cursor.last_place
        for cursor in (request.turn, request.live_turn)
    )
    events = [] if live_place else tx.rows("journal_after", turn_pk=pk, after=known_place)
    messages = tx.rows("taken_by_turn", turn_pk=pk) if lane == "talk" else []
    return TurnSnapshot(
        turn_id=turn_id,
        attempt=attempt,
        state=state,
        lane=lane,
        user_messages=tuple(inbox.pending_from_row(row) for row in messages),
        last_place=events[-1][0] if events else max(known_place, live_place),
        events=tuple((place, event) for place, event in events),
    )


def _preview(tx: Tx, entry: SessionEntry) -> str:
    rows = tx.rows_many("first_words", [(entry.session_id,)]) if entry.title is None else []
    return preview_of_message(rows[0][1]) if rows else ""


def _notices(tx: Tx, ordering_key: str, since: Instant) -> list[FeedNotice]:
    rows = tx.rows("notices_in_chat", lane=ordering_key, since=since, limit=_MAX_NOTICES)
    return [
        FeedNotice(notice_id, text, Instant(at), _decode_buttons(buttons), pk)
        for pk, notice_id, text, at, buttons in reversed(rows)
    ]


_decode_buttons = msgspec.json.Decoder(tuple[Button, ...]).decode


class ChangeFeed(Group[Mode]):
    """Snapshots of a running conversation, and the list of a person's conversations, for a page.

    A conversation is identified by its person's source; no person sees another's.
    """

    list_page = reads(list_page)

    @verb
    def snapshot(
        store: Store[Any],
        source: SessionSource,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        view_version_mark: str | None = None,
        seq: int = 0,
        turn: TurnCursor | None = None,
        live_turn: TurnCursor | None = None,
        limit: int = 50,
    ) -> Step[ConversationSnapshot | None]:
        """Return the state of the conversation, or `None` if there is none or `session_id` is not one of its sessions.

        `view_version_mark`, `seq` and `turn` say what the caller has; the snapshot then holds what is new. No events are read
        for `live_turn`.
        """
        check_limit(limit)
        request = _feed_request(store, source, agent, session_id, limit=limit)
        request = msgspec.structs.replace(
            request, view_version_mark=view_version_mark, seq=seq, turn=turn, live_turn=live_turn
        )
        return read(snapshot, request)

    @verb
    def earlier(
        store: Store[Any],
        source: SessionSource,
        before: str,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
    ) -> Step[EarlierMessages]:
        """Return the messages before one that the conversation shows. Raises `UnknownSession`, `UnknownMessage`."""
        check_limit(limit)
        request = _feed_request(store, source, agent, session_id, limit=limit)
        return read(earlier, request, MessageRef.parse(before))

    @verb
    def find(
        store: Store[Any], source: SessionSource, *, agent: str | None = None, session_id: str | None = None
    ) -> Step[ListedSession]:
        """Return the conversation's current session, or the given one. Raises `UnknownSession` if it is not this person's."""
        return read(_find_with_preview, _feed_request(store, source, agent, session_id))

    @verb
    def fingerprints(store: Store[Any], places: Sequence[tuple[SessionSource, str | None]]) -> Step[list[Row | None]]:
        """Return for each conversation values of which one changes whenever it does, or `None` if there is none."""
        keys = [(target_of(source).ordering_key, store.address_of(source, agent).digest) for source, agent in places]
        return read(_fingerprints_in_order, keys)

    @verb
    def fork(
        store: Store[Any],
        source: SessionSource,
        last_message: str,
        into: SessionSource,
        *,
        agent: str | None = None,
        session_id: str | None = None,
    ) -> Step[SessionEntry]:
        """Return a new conversation at `into` that forks this one after a message, or the one that `into` already has.

        Raises `UnknownSession` if the person has no such conversation, `UnknownMessage` if it does not show the message.
        """
        if person_of(source) != person_of(into):
            raise InvalidRequest("you can fork only your own conversation, and only for yourself")
        now = store.settings.clock.now()
        request = FeedForkRequest(
            parent=_feed_request(store, source, agent, session_id),
            last_message=MessageRef.parse(last_message),
            source=into,
            address=store.address_of(into, agent),
            new_id=new_session_id(now),
            at=to_instant(now),
        )
        return write(fork, request)

    @verb
    def count_exchanges_since(_: Store[Any], session_id: str, message: str) -> Step[int]:
        """Return how many exchanges `/undo` must remove to remove this user message too. Raises `UnknownMessage`."""
        return read(count_exchanges_since, session_id, MessageRef.parse(message))


def _find_with_preview(tx: Tx, request: FeedRequest) -> ListedSession:
    return with_previews(tx, [find(tx, request)])[0]


def _fingerprints_in_order(tx: Tx, places: Sequence[tuple[str, bytes]]) -> list[Row | None]:
    by_digest = fingerprints(tx, places)
    return [by_digest.get(digest) for _, digest in places]


def _feed_request(
    store: Store[Any], source: SessionSource, agent: str | None, session_id: str | None, *, limit: int = 50
) -> FeedRequest:
    person, chat_id = person_of(source), source.chat_id
    if person is None or chat_id is None:
        raise InvalidRequest("only a person's own conversation can be followed: the source names no person or no chat")
    return FeedRequest(
        person=person,
        chat_id=chat_id,
        ordering_key=target_of(source).ordering_key,
        address=store.address_of(source, agent),
        at=store.now(),
        session_id=session_id,
        limit=limit,
    )

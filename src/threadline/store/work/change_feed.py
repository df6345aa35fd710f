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

# More than that at once is read from the start again.
MOST_NEW = 200
_NOTICES = 20
_ENDS = 10
_WAITING = 200


class TurnPlace(msgspec.Struct, frozen=True):
    """How much somebody has seen of a turn. `attempt` is another one each time that it begins anew."""

    turn_id: str
    attempt: int
    upto: int


class Looking(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversation somebody looks at, and what they have seen of it."""

    person: str
    lane: str
    chat_id: str
    address: SessionAddress
    at: Instant
    # A session that is not the conversation's current one; it goes on no more.
    session_id: str | None = None
    limit: int = 50
    # What they have: the messages up to `seq`, as long as the view is the same one.
    mark: str | None = None
    seq: int = 0
    turn: TurnPlace | None = None
    # Of this turn the caller has the events from elsewhere.
    told: TurnPlace | None = None


class TurnSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is not over: what it answers, and what it has said and done after what was known of it."""

    turn_id: str
    attempt: int
    state: str
    lane: QueueKind
    said: tuple[PendingMessage, ...]
    upto: int
    # Each with its place in the journal, as JSON, in order.
    events: tuple[tuple[int, str], ...]


class Told(msgspec.Struct, frozen=True):
    """Something that was said in the chat besides the agent's answers."""

    notice_id: str
    text: str
    at: Instant
    buttons: tuple[Button, ...]
    pk: int


class CutShort(msgspec.Struct, frozen=True):
    """A turn that did not come to its own end, and why."""

    turn_id: str
    outcome: TurnOutcome
    stop: StopReason | None
    error: str | None
    at: Instant


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation stands.

    `mark` is the view's: as long as it is the same, what is new stands behind what was there. `is_onward`: `messages` are those
    behind the known ones; else they are the last ones, and what was known counts for nothing.
    """

    entry: SessionEntry
    is_current: bool
    # The first that were said in it.
    words: str
    mark: str
    seq: int
    messages: list[TranscriptMessage]
    is_onward: bool
    has_earlier: bool
    turn: TurnSeen | None
    waiting: list[PendingMessage]
    ask: approvals.OpenAsk | None
    told: list[Told]
    cut_short: list[CutShort]
    can_redo: bool


class Earlier(msgspec.Struct, frozen=True):
    """A page of messages before one that was shown, oldest first."""

    messages: list[TranscriptMessage]
    has_earlier: bool


class Listed(msgspec.Struct, frozen=True):
    """A session in a list: `words` are the first that were said in it."""

    entry: SessionEntry
    words: str
    is_busy: bool


class Forking(msgspec.Struct, frozen=True, kw_only=True):
    """Which session goes on from which message at which new address."""

    parent: Looking
    upto: MessageRef
    source: SessionSource
    address: SessionAddress
    new_id: str
    at: Instant


def look(tx: Tx, wanted: Looking) -> Seen | None:
    """Where a conversation stands; `None` where there is none, or not one of theirs."""
    session = _find(tx, wanted)
    if session is None:
        return None
    view = views.load(tx, session.pk, session.view_version)
    mark = _mark(session, view)
    onward = _onward(tx, session, wanted) if wanted.mark == mark else None
    rows = [] if onward is not None else views.last_rows(tx, session, wanted.limit + 1)
    messages = (
        transcripts.to_transcript_messages(tx, [row[1:] for row in rows[-wanted.limit :]]) if onward is None else onward
    )
    is_current = session.is_current and session.entry.ended_at is None
    since = to_instant(session.entry.created_at)
    return Seen(
        entry=session.entry,
        is_current=is_current,
        words=_words(tx, session.entry),
        mark=mark,
        seq=session.last_seq,
        messages=messages,
        is_onward=onward is not None,
        has_earlier=len(rows) > wanted.limit,
        turn=_turn(tx, session.pk, wanted),
        waiting=inbox.waiting_of(tx, session.pk, _WAITING),
        ask=_ask(tx, session.pk, wanted.at),
        told=_told(tx, wanted.lane, since) if is_current else [],
        cut_short=[CutShort(*row) for row in tx.rows("cut_short", session_pk=session.pk, limit=_ENDS)][::-1],
        can_redo=bool(session.redo) and session.redo_seq == session.last_seq,
    )


def earlier(tx: Tx, wanted: Looking, before: MessageRef) -> Earlier:
    """The page of messages before one that the conversation shows; `UnknownSession`, `UnknownMessage`."""
    session = _find(tx, wanted)
    if session is None:
        raise UnknownSession
    number = transcripts.find_number(tx, before)
    shown = views.load(tx, session.pk, session.view_version).shown
    place = next((place for place, span in enumerate(shown) if span.lo <= number <= span.hi), None)
    if place is None:
        raise UnknownMessage(f"{before} is not shown in this session")
    rows = tx.rows(
        "load_view",
        session_pk=session.pk,
        version=session.view_version,
        before_place=place,
        before_number=number,
        limit=wanted.limit + 1,
    )
    page = rows[: wanted.limit][::-1]
    return Earlier(transcripts.to_transcript_messages(tx, [row[1:] for row in page]), len(rows) > wanted.limit)


def find(tx: Tx, wanted: Looking) -> SessionEntry:
    """The conversation's session; `UnknownSession` where there is none, or not one of theirs."""
    session = _find(tx, wanted)
    if session is None:
        raise UnknownSession
    return session.entry


def glance(tx: Tx, places: Sequence[tuple[str, bytes]]) -> dict[bytes, Row]:
    """By the address's digest, what changes with whatever happens there. `places`: lane and digest of each."""
    return {bytes(row[0]): tuple(row[1:]) for row in tx.rows_many("glance", places)}


def chats_of(tx: Tx, person: str, platform: str, *, limit: int = 50, cursor: str | None = None) -> Page[Listed]:
    """A page of the sessions of a person on a platform, ended ones included, the most recently updated first."""
    wanted = indexes.ListRequest(
        include_ended=True, viewer=Viewer(person), platform=platform, limit=limit, cursor=cursor
    )
    page = indexes.list_sessions(tx, wanted)
    return Page(labelled(tx, page.items), page.cursor)


def labelled(tx: Tx, entries: Sequence[SessionEntry]) -> list[Listed]:
    """Sessions with their first words, and whether they have something to do."""
    ids = [(entry.session_id,) for entry in entries]
    unnamed = [(entry.session_id,) for entry in entries if entry.title is None]
    said = {str(row[0]): preview_of_message(row[1]) for row in tx.rows_many("first_words", unnamed)}
    at_hand = {str(row[0]): row[1] or row[2] for row in tx.rows_many("work_at_hand", ids)}
    return [
        Listed(
            entry,
            said.get(entry.session_id) or preview_of_event(at_hand.get(entry.session_id) or ""),
            entry.session_id in at_hand,
        )
        for entry in entries
    ]


def fork(tx: Tx, wanted: Forking) -> SessionEntry:
    """The conversation at a new address that goes on from a message of another; the same address again: the one it has."""
    parent = records.get_session(tx, find(tx, wanted.parent).session_id, lock=True)
    address = records.ensure_address(tx, wanted.source, wanted.address)
    if address.session_pk is not None:
        row = tx.find("find_session_by_pk", session_pk=address.session_pk)
        if row is not None:
            return session_of(row).entry
    number = transcripts.visible_number(tx, parent, wanted.upto)
    how = records.NewSession(wanted.new_id, wanted.source, wanted.at)
    return sessions.fork_at(tx, address, parent, how, number)


def exchanges_since(tx: Tx, session_id: str, ref: MessageRef) -> int:
    """How many exchanges an undo takes back that takes this user message along; `UnknownMessage` where it is not shown."""
    session = records.get_session(tx, session_id)
    wanted = transcripts.visible_number(tx, session, ref)
    found, in_question = 0, False
    for _, number, role in views.roles(tx, session):
        found += role == "user" and not in_question
        in_question = role == "user"
        if number == wanted:
            break
    if not in_question:
        raise InvalidRequest("only what you wrote yourself can be written anew")
    return found


def _find(tx: Tx, wanted: Looking) -> StoredSession | None:
    if wanted.session_id is None:
        row = tx.find("peek_current", digest=wanted.address.digest)
    else:
        row = tx.find("find_session", session_id=wanted.session_id)
    if row is None:
        return None
    session = session_of(row)
    origin = session.entry.origin
    is_theirs = session.entry.owner == wanted.person and origin.platform == wanted.address.platform
    return session if is_theirs and origin.chat_id == wanted.chat_id else None


def _mark(session: StoredSession, view: View) -> str:
    """What tells one view from another. Not its version: a redo brings an earlier one back, and the next undo takes it again."""
    spans = ".".join(f"{span.lo:x}-{span.hi:x}" for span in view.shown)
    return hashlib.blake2b(f"{session.pk}:{spans}".encode(), digest_size=6).hexdigest()


def _onward(tx: Tx, session: StoredSession, wanted: Looking) -> list[TranscriptMessage] | None:
    """What was said since, of a view that has not changed; `None` where that is too much, or can't be told."""
    if not 0 <= wanted.seq <= session.last_seq or session.last_seq - wanted.seq > MOST_NEW:
        return None
    if wanted.seq == session.last_seq:
        return []
    lo, hi = message_number(session.pk, wanted.seq + 1), message_number(session.pk, MAX_SEQ)
    return transcripts.to_transcript_messages(tx, tx.rows("load_log", lo=lo, hi=hi, limit=MOST_NEW))


def _turn(tx: Tx, session_pk: int, wanted: Looking) -> TurnSeen | None:
    found = tx.rows("turn_in_sight", session_pk=session_pk)
    if not found:
        return None
    pk, turn_id, attempt, state, lane = min(found, key=lambda row: row[3] == "waiting")
    known, told = (
        0 if place is None or (place.turn_id, place.attempt) != (turn_id, attempt) else place.upto
        for place in (wanted.turn, wanted.told)
    )
    events = [] if told else tx.rows("journal_after", turn_pk=pk, after=known)
    taken = tx.rows("taken_by_turn", turn_pk=pk) if lane == "talk" else []
    return TurnSeen(
        turn_id=turn_id,
        attempt=attempt,
        state=state,
        lane=lane,
        said=tuple(inbox.waiting_from(row) for row in taken),
        upto=events[-1][0] if events else max(known, told),
        events=tuple((place, event) for place, event in events),
    )


def _words(tx: Tx, entry: SessionEntry) -> str:
    rows = tx.rows_many("first_words", [(entry.session_id,)]) if entry.title is None else []
    return preview_of_message(rows[0][1]) if rows else ""


def _ask(tx: Tx, session_pk: int, at: Instant) -> approvals.OpenAsk | None:
    row = tx.find("open_ask", session_pk=session_pk, at=at)
    return None if row is None else approvals.OpenAsk(*row)


def _told(tx: Tx, lane: str, since: Instant) -> list[Told]:
    rows = tx.rows("told_in_chat", lane=lane, since=since, limit=_NOTICES)
    return [
        Told(notice_id, text, Instant(at), _decode_buttons(buttons), pk)
        for pk, notice_id, text, at, buttons in reversed(rows)
    ]


_decode_buttons = msgspec.json.Decoder(tuple[Button, ...]).decode


class ChangeFeed(Group[Mode]):
    """What a page shows of a running conversation, and of the list of them.

    A conversation is named by where its person writes; nobody is shown another's.
    """

    list_page = reads(chats_of)

    @verb
    def snapshot(
        store: Store[Any],
        source: SessionSource,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        mark: str | None = None,
        seq: int = 0,
        turn: TurnPlace | None = None,
        told: TurnPlace | None = None,
        limit: int = 50,
    ) -> Step[Seen | None]:
        """Where the conversation stands; `None` where there is none, or `session_id` is not one of its sessions.

        `mark`, `seq` and `turn` are what was seen before: then what is new. Of the turn `told` no events are read.
        """
        check_limit(limit)
        wanted = _looking(store, source, agent, session_id, limit=limit, mark=mark, seq=seq, turn=turn, told=told)
        return read(look, wanted)

    @verb
    def earlier(
        store: Store[Any],
        source: SessionSource,
        before: str,
        *,
        agent: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
    ) -> Step[Earlier]:
        """The messages before one that the conversation shows. `UnknownSession`, `UnknownMessage`."""
        check_limit(limit)
        wanted = _looking(store, source, agent, session_id, limit=limit)
        return read(earlier, wanted, MessageRef.parse(before))

    @verb
    def find(
        store: Store[Any], source: SessionSource, *, agent: str | None = None, session_id: str | None = None
    ) -> Step[Listed]:
        """The session of the conversation, current or named; `UnknownSession` where there is none, or not one of theirs."""
        return read(_find_labelled, _looking(store, source, agent, session_id))

    @verb
    def fingerprints(store: Store[Any], places: Sequence[tuple[SessionSource, str | None]]) -> Step[list[Row | None]]:
        """For each conversation what changes with whatever happens there; `None` where there is none."""
        wanted = [(target_of(source).ordering_key, store.address_of(source, agent).digest) for source, agent in places]
        return read(_glance_in_order, wanted)

    @verb
    def fork(
        store: Store[Any],
        source: SessionSource,
        upto: str,
        into: SessionSource,
        *,
        agent: str | None = None,
        session_id: str | None = None,
    ) -> Step[SessionEntry]:
        """A new conversation of the same person that goes on from a message; where `into` has one already, that one.

        `UnknownSession` where there is nothing of theirs to go on from, `UnknownMessage` where it does not show the message.
        """
        if person_of(source) != person_of(into):
            raise InvalidRequest("a conversation is forked by whose it is, for themselves")
        now = store.settings.clock.now()
        wanted = Forking(
            parent=_looking(store, source, agent, session_id),
            upto=MessageRef.parse(upto),
            source=into,
            address=store.address_of(into, agent),
            new_id=new_session_id(now),
            at=to_instant(now),
        )
        return write(fork, wanted)

    @verb
    def count_exchanges_since(_: Store[Any], session_id: str, message: str) -> Step[int]:
        """How many exchanges `/undo` takes back to take this user message along; `UnknownMessage` where it is not shown."""
        return read(exchanges_since, session_id, MessageRef.parse(message))


def _find_labelled(tx: Tx, wanted: Looking) -> Listed:
    return labelled(tx, [find(tx, wanted)])[0]


def _glance_in_order(tx: Tx, wanted: Sequence[tuple[str, bytes]]) -> list[Row | None]:
    found = glance(tx, wanted)
    return [found.get(digest) for _, digest in wanted]


def _looking(
    store: Store[Any],
    source: SessionSource,
    agent: str | None,
    session_id: str | None,
    *,
    limit: int = 50,
    mark: str | None = None,
    seq: int = 0,
    turn: TurnPlace | None = None,
    told: TurnPlace | None = None,
) -> Looking:
    person, chat_id = person_of(source), source.chat_id
    if person is None or chat_id is None:
        raise InvalidRequest("only a conversation of somebody's own can be looked at")
    return Looking(
        person=person,
        chat_id=chat_id,
        lane=target_of(source).ordering_key,
        address=store.address_of(source, agent),
        at=store.now(),
        session_id=session_id,
        limit=limit,
        mark=mark,
        seq=seq,
        turn=turn,
        told=told,
    )

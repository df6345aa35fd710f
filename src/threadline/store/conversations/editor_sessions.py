"""Sessions of editors, and the pages of their history."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from threadline.clock import Instant, to_instant
from threadline.errors import UnknownSession
from threadline.ids import new_session_id
from threadline.model.address import SessionAddress
from threadline.model.client_sources import ACP, OPTIONS, editor_source, is_editor_session
from threadline.model.delivery import target_of
from threadline.model.session import SessionEntry, checked_runtime
from threadline.model.source import SessionSource
from threadline.model.view import Span, all_spans
from threadline.store.conversations import id_changes, indexes, records, sessions, views
from threadline.store.conversations.indexes import ListRequest
from threadline.store.engine.database import Perform, Row, Step, Tx, loose_read, read, task, write
from threadline.store.people import removal
from threadline.store.rows import Page, StoredSession, check_limit, json_text, session_of
from threadline.store.text import preview_of_message
from threadline.store.verbs import (
    MAX_PATH_CHARS,
    Group,
    Mode,
    Store,
    clean_or_none,
    clean_text,
    clean_title,
    reads,
    verb,
)

_REMOVE_STEP = 20
# Only the last ones are shown: more are of no help to a reader.
_MAX_SIDE_MESSAGES = 500
# A larger message is sent apart from its page: a page of a thousand must fit into memory.
MAX_INLINE_BYTES = 64 * 1024


class EditorPlace(msgspec.Struct, frozen=True):
    """The place of an editor's session: its name, its person, and the address."""

    source: SessionSource
    address: SessionAddress

    @property
    def session_id(self) -> str:
        """The name by which the editor knows it."""
        return self.source.chat_id or ""


class StoredEditorSession(msgspec.Struct, frozen=True):
    """The session that is current at an editor's place, and how many messages its history has.

    `belongs_to_other_agent`: it is stored for another agent than the one that answers there now; `adopt` moves it here.
    """

    entry: SessionEntry
    history_len: int
    belongs_to_other_agent: bool = False
    # In a list: the first words of a session without a title.
    preview: str = ""


class EditorSessionChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of an editor session. In `runtime`, and in the options there, `None` removes a value; other names stay."""

    runtime: dict[str, Any] = {}
    cwd: str | None = None
    title: str | msgspec.UnsetType | None = msgspec.UNSET


class SideMessage(msgspec.Struct, frozen=True):
    """A message to the person besides the agent's answers, shown behind the message number `after`.

    `command_text`: the command that it answers.
    """

    key: str
    command_text: str
    text: str
    at: Instant
    after: int


class HistoryPlan(msgspec.Struct, frozen=True):
    """The spans of messages and the side messages of a history, each in their order."""

    spans: tuple[Span, ...]
    side_messages: tuple[SideMessage, ...] = ()


class HistoryPage(msgspec.Struct, frozen=True):
    """Messages of a history as JSON, one line each, and the number of the last. Of a large message the line has only the number."""

    last: int
    text: bytes


def create(tx: Tx, at: Instant, place: EditorPlace, *, cwd: str) -> StoredEditorSession:
    """Return the session at a place; create it where there is none, under the editor's name for it."""
    address = records.ensure_address(tx, place.source, place.address)
    if address.session_pk is None:
        new = records.NewSession(place.session_id, place.source, at, display_name=place.source.user_name, cwd=cwd)
        return StoredEditorSession(records.begin(tx, address, new), 0)
    return _with_history_length(tx, [_get(tx, place)])[0]


def find(tx: Tx, place: EditorPlace) -> StoredEditorSession:
    """Return the session at a place, or raise `UnknownSession`."""
    (session,) = _with_history_length(tx, [_get(tx, place)])
    belongs_to_other_agent = tx.find("peek_current", digest=place.address.digest) is None
    return msgspec.structs.replace(session, belongs_to_other_agent=True) if belongs_to_other_agent else session


def adopt(tx: Tx, place: EditorPlace) -> None:
    """Move a session that is stored for another agent to this address. Do nothing where the address has a session."""
    address = records.ensure_address(tx, place.source, place.address)
    former = _find_of_other_agent(tx, place) if address.session_pk is None else None
    if former is not None:
        id_changes.move_sessions(tx, former.address_pk, former.pk, address.pk)


def fork(tx: Tx, at: Instant, parent: EditorPlace, place: EditorPlace, *, cwd: str | None) -> StoredEditorSession:
    """Return a session at a new place with the history of another; later messages of either stay apart. O(1) at any size."""
    model = records.get_session(tx, _get(tx, parent).entry.session_id, lock=True)
    address = records.ensure_address(tx, place.source, place.address)
    if address.session_pk is None:
        new = records.NewSession(place.session_id, place.source, at, display_name=place.source.user_name, cwd=cwd)
        sessions.fork_at(tx, address, model, new)
    return _with_history_length(tx, [_get(tx, place)])[0]


def list_page(tx: Tx, *, cwd: str | None, limit: int, cursor: str | None) -> Page[StoredEditorSession]:
    """Return a page of current sessions of editors, the most recently updated first; with `cwd`, only those in that folder."""
    stored = indexes.list_stored_sessions(tx, ListRequest(platform=ACP, cwd=cwd, limit=limit, cursor=cursor))
    # A fork that was never continued is not current anywhere.
    listed = _with_history_length(tx, [session for session in stored if session.is_current])
    untitled = [(editor_session.entry.session_id,) for editor_session in listed if editor_session.entry.title is None]
    previews = {str(row[0]): preview_of_message(row[1]) for row in tx.rows_many("first_words", untitled)}
    return Page(
        [
            replace(editor_session, preview=previews.get(editor_session.entry.session_id, ""))
            for editor_session in listed
        ],
        stored.cursor,
    )


def save(tx: Tx, at: Instant, place: EditorPlace, changes: EditorSessionChanges) -> StoredEditorSession:
    """Change the session at a place, all or nothing, and return it."""
    session = records.get_session(tx, _get(tx, place).entry.session_id, lock=True)
    session_id = session.entry.session_id
    if changes.title is not msgspec.UNSET:
        records.set_title(tx, at, session_id, changes.title)
    # Read again: the row of before the lock may have been changed by another caller.
    entry = records.get_entry(tx, session_id)
    merged = _merged(entry.runtime, changes.runtime)
    if isinstance(before := entry.runtime.get(OPTIONS), dict) and isinstance(given := merged.get(OPTIONS), dict):
        merged[OPTIONS] = _merged(before, given)
    tx.run("set_runtime", model=entry.model, runtime=json_text(checked_runtime(merged)), session_pk=session.pk)
    tx.run("set_cwd", cwd=changes.cwd or entry.cwd, session_pk=session.pk)
    tx.run("mark_updated", at=at, session_pk=session.pk)
    return find(tx, place)


def remove_batch(tx: Tx, place: EditorPlace) -> int:
    """Delete some sessions at a place; return how many. 0: none is left."""
    row = tx.find("find_address", digest=place.address.digest)
    if row is None:
        return 0
    address = records.AddressRow(*row)
    ids = [session_id for (session_id,) in tx.rows("sessions_at", address_pk=address.pk, limit=_REMOVE_STEP)]
    for session_id in ids:
        removal.delete_session(tx, session_id)
    if not ids:
        tx.run("drop_unused_address", pk=address.pk)
    return len(ids)


def history_plan(tx: Tx, place: EditorPlace) -> HistoryPlan:
    """Return the history of a session: all messages that it shows now or compaction folded away, and its side messages."""
    session = _get(tx, place)
    view = views.load(tx, session.pk, session.view_version)
    spans = all_spans(view, log=session.pk, last_seq=session.last_seq)
    since, ordering_key = to_instant(session.entry.created_at), target_of(place.source).ordering_key
    rows = tx.rows("side_messages", lane=ordering_key, since=since, limit=_MAX_SIDE_MESSAGES)
    return HistoryPlan(spans, tuple(_side_messages_among(tx, spans, rows[::-1])))


def history_page(tx: Tx, spans: Sequence[Span], *, after: int, limit: int) -> HistoryPage | None:
    """Return at most `limit` messages of a history behind the number `after`; `None` where there are none."""
    parts: list[bytes] = []
    last = after
    for span in spans:
        lo = max(span.lo, after + 1)
        while lo <= span.hi and limit > 0:
            # Spans have no gaps: a count of numbers is a count of messages.
            last = min(span.hi, lo + limit - 1)
            count, text = tx.rows("joined_between", lo=lo, hi=last, largest=MAX_INLINE_BYTES, separator="\n")[0]
            if count:
                parts.append(text)
            lo, limit = last + 1, limit - count
    return HistoryPage(last, b"\n".join(parts)) if parts else None


def message_body(tx: Tx, number: int) -> str | None:
    """Return a message that is too large for a page; `None` where it is gone."""
    row = tx.find("find_message", number=number)
    return None if row is None else str(row[-1])


def _side_messages_among(tx: Tx, spans: Sequence[Span], rows: Sequence[Row]) -> Iterator[SideMessage]:
    """Yield each side message behind the last message that is not younger. Reads few messages, however many there are."""
    starts = list(accumulate((span.hi - span.lo + 1 for span in spans), initial=0))
    places, passed = range(starts[-1]), 0

    def number(place: int) -> int:
        span = bisect_right(starts, place) - 1
        return spans[span].lo + place - starts[span]

    def time_and_role(place: int) -> Row:
        return tx.find("time_and_role", number=number(place)) or (0, "")

    for key, command_text, text, at, turn_pk in rows:
        passed = bisect_right(places, at, lo=passed, key=lambda place: int(time_and_role(place)[0]))
        if turn_pk is not None and not command_text:
            # A side message of a turn comes behind the words that it answers, which are stored when the turn ends.
            while passed < len(places) and time_and_role(passed)[1] == "user":
                passed += 1
        # Only the first part of a long answer shows the command.
        yield SideMessage(
            key, command_text if key.endswith(".0") else "", text, at, number(passed - 1) if passed else 0
        )


def _merged(before: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (before | given).items() if value is not None}


def _with_history_length(tx: Tx, stored: Sequence[StoredSession]) -> list[StoredEditorSession]:
    ids = [(session.entry.session_id,) for session in stored]
    lengths = {str(row[0]): int(row[1]) for row in tx.rows_many("history_lengths", ids)}
    return [StoredEditorSession(session.entry, lengths[session.entry.session_id]) for session in stored]


def _get(tx: Tx, place: EditorPlace) -> StoredSession:
    row = tx.find("peek_current", digest=place.address.digest)
    session = _find_of_other_agent(tx, place) if row is None else session_of(row)
    if session is None:
        raise UnknownSession(f"no session of an editor has the id {place.session_id[:80]!r}")
    return session


def _find_of_other_agent(tx: Tx, place: EditorPlace) -> StoredSession | None:
    """Return the session of that name that is stored for another agent."""
    row = tx.find("editor_elsewhere", session_id=place.session_id)
    if row is None:
        return None
    session = session_of(row)
    origin = session.entry.origin
    is_the_same = (origin.platform, origin.account, origin.chat_id, origin.thread_id) == (
        ACP,
        place.source.account,
        place.session_id,
        None,
    )
    return session if is_the_same else None


class EditorSessions(Group[Mode]):
    """Sessions of editors, each named by its person's source. Sessions of other platforms are never found."""

    message_body = reads(message_body)

    @verb
    def create(
        store: Store[Any], source: SessionSource, cwd: str, *, agent: str | None = None
    ) -> Step[StoredEditorSession]:
        """Create a session at a new place, named like its chat, and return it. A second call returns the same session."""
        path = clean_text("cwd", cwd, MAX_PATH_CHARS)
        return write(create, store.now(), _place(store, source, agent), cwd=path)

    @verb
    def find(store: Store[Any], source: SessionSource, *, agent: str | None = None) -> Step[StoredEditorSession]:
        """Return the session that is current there, or raise `UnknownSession`. A session of another agent moves to this agent."""
        return task(_find_here, _place(store, source, agent))

    @verb
    def fork(
        store: Store[Any],
        source: SessionSource,
        into: SessionSource,
        *,
        cwd: str | None = None,
        agent: str | None = None,
    ) -> Step[StoredEditorSession]:
        """Return a session at a new place with the history, the model and the options of another. Raises `UnknownSession`."""
        places = _place(store, source, agent), _place(store, into, agent)
        path = clean_or_none("cwd", cwd, MAX_PATH_CHARS)
        return write(fork, store.now(), *places, cwd=path)

    @verb
    def list_page(
        _: Store[Any], *, cwd: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Step[Page[StoredEditorSession]]:
        """Return a page of the sessions of all editors, the most recently updated first; with `cwd`, only those in that folder."""
        check_limit(limit)
        path = clean_or_none("cwd", cwd, MAX_PATH_CHARS)
        return read(list_page, cwd=path, limit=limit, cursor=cursor)

    @verb
    def save(
        store: Store[Any], source: SessionSource, changes: EditorSessionChanges, *, agent: str | None = None
    ) -> Step[StoredEditorSession]:
        """Change the session that is current there, and return it; durable when it returns. Raises `UnknownSession`."""
        checked_runtime(changes.runtime)
        clean_or_none("cwd", changes.cwd, MAX_PATH_CHARS)
        if changes.title is not UNSET:
            changes = replace(changes, title=clean_title(changes.title))
        return write(save, store.now(), _place(store, source, agent), changes)

    @verb
    def remove(store: Store[Any], source: SessionSource, *, agent: str | None = None) -> Step[bool]:
        """Delete all sessions of that place; return False where there is none."""
        return task(_remove, _place(store, source, agent))

    @verb
    def history_plan(store: Store[Any], source: SessionSource, *, agent: str | None = None) -> Step[HistoryPlan]:
        """Return the history of the session; its spans are for `history_page`. Raises `UnknownSession`."""
        return read(history_plan, _place(store, source, agent))

    @verb
    def history_page(
        _: Store[Any], spans: Sequence[Span], *, after: int = 0, limit: int = 500
    ) -> Step[HistoryPage | None]:
        """Return the next messages of a history, those behind the number `after`; `None` at the end."""
        return loose_read(history_page, spans, after=after, limit=limit)


def new_editor_source(store: Store[Any], user: str) -> SessionSource:
    """Return the source of this person in a new session of an editor."""
    return editor_source(new_session_id(store.clock.now()), user)


def _find_here(perform: Perform, place: EditorPlace) -> StoredEditorSession:
    session = perform(read(find, place))
    if session.belongs_to_other_agent:
        perform(write(adopt, place))
    return session


def _remove(perform: Perform, place: EditorPlace) -> bool:
    try:
        _find_here(perform, place)
    except UnknownSession:
        return False
    while perform(write(remove_batch, place)):
        pass
    removal.collect(perform)
    return True


def _place(store: Store[Any], source: SessionSource, agent: str | None) -> EditorPlace:
    if source.platform != ACP or not is_editor_session(source.chat_id):
        raise UnknownSession("no session of an editor has such an id")
    return EditorPlace(source, store.address_of(source, agent))

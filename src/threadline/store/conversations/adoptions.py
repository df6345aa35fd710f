"""Take sessions of an older program in, once each, with their ids and keys; and what `threadline.compat` does with given ids.

An entry of the old index makes a session at once (`adopt_entries`); its transcript follows at the session's first use
(`adopt_transcript`). An adoption row outlives the session, so that nothing that was deleted comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from threadline.clock import Instant, to_instant
from threadline.errors import InvalidRequest
from threadline.model.address import SessionAddress
from threadline.model.message import EncodedMessage, Message
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.view import MAX_SEQ, message_number
from threadline.store import rows
from threadline.store.conversations import indexes, records, resume, transcripts
from threadline.store.conversations.indexes import ListRequest
from threadline.store.conversations.records import AddressRow, NewSession
from threadline.store.conversations.sessions import ResolveRequest
from threadline.store.engine.database import Tx
from threadline.store.rows import Page, StoredSession, json_text, session_of

# The states of an adoption. Exported: we wrote this session's transcript file ourselves, so it is never adopted.
TRANSCRIPT_PENDING: Final = "waiting"
TRANSCRIPT_ADOPTED: Final = "done"
EXPORTED: Final = "exported"
_PAGE = 500
# The key (column `agent`) under which a session stores its `MatchedMessages`.
MATCHED_MESSAGES_KEY: Final = "threadline.compat"


class MatchedMessages(msgspec.Struct):
    """Which stored messages were matched with a call that said "the agent has stored this message already".

    All messages up to the number `upto` of the log were, and of the higher numbers those in `own`.
    """

    upto: int = 0
    own: list[int] = []


class SessionToCreate(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be created with a given id; `key` is the key of its conversation if that has to be created too."""

    session_id: str
    source: SessionSource
    address: SessionAddress
    at: Instant
    key: str | None = None
    display_name: str | None = None
    # Other fields: model, cwd, runtime (JSON) and parent_session_id.
    start: dict[str, str | None] = {}


class OldIndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of an old index that is to be adopted: the session, the key that it was stored under, and its fields."""

    arrival: SessionToCreate
    stored_key: str
    fields: dict[str, Any]
    # Whether the entry recorded its source, from which its address was made. If not, only the stored key finds it.
    has_origin: bool
    # The key made from that source, if it is not the key of the session.
    origin_key: str | None = None


def create(tx: Tx, arrival: SessionToCreate, *, is_current: bool = True) -> SessionEntry:
    """Create a session with the given id and return its entry; raise `InvalidRequest` where the id is taken.

    It becomes its conversation's current session unless there is one already, or `is_current` is false.
    """
    if tx.find("find_session", session_id=arrival.session_id) is not None:
        raise InvalidRequest(f"there is a session with the id {arrival.session_id!r} already; nothing was changed")
    tx.run("rename_deleted_log", session_id=arrival.session_id)
    address = records.ensure_address(tx, arrival.source, arrival.address, arrival.key)
    options: dict[str, Any] = dict(arrival.start)
    new = NewSession(arrival.session_id, arrival.source, arrival.at, arrival.display_name, **options)
    return records.begin(tx, address, new, current=is_current and address.session_pk is None)


def get_or_create(tx: Tx, arrival: SessionToCreate) -> SessionEntry:
    """Return the session with that id; create it if missing, without making it the current one of any conversation."""
    row = tx.find("find_session", session_id=arrival.session_id)
    return create(tx, arrival, is_current=False) if row is None else session_of(row).entry


def create_once(tx: Tx, arrival: SessionToCreate) -> None:
    """Create a session with the given id as its conversation's current one; do nothing where the id is taken."""
    if tx.find("find_session", session_id=arrival.session_id) is None:
        create(tx, arrival)


def append_or_create(tx: Tx, arrival: SessionToCreate, messages: Sequence[EncodedMessage]) -> int:
    """Append to the session with that id, created where there is none; return the number in its log of the first message."""
    get_or_create(tx, arrival)
    return transcripts.append(tx, transcripts.AppendRequest(arrival.session_id, messages, arrival.at)).first_seq


def end(tx: Tx, at: Instant, session_id: str, reason: str) -> None:
    """End a session. One that has ended keeps its reason; an unknown id is ignored."""
    if tx.find("find_session", session_id=session_id) is not None:
        records.end(tx, at, records.get_session(tx, session_id, lock=True), reason=reason)


def set_fields(tx: Tx, session_id: str, changes: Mapping[str, Any]) -> SessionEntry:
    """Set the given fields of an entry, and return the entry. Other fields stay.

    `created_at` and `updated_at` are aware times, `origin` is a `SessionSource`, `memory_flushed` a bool.
    """
    session = records.get_session(tx, session_id, lock=True)
    entry = msgspec.structs.replace(session.entry, **changes)
    tx.run(
        "set_session_fields",
        created_at=to_instant(entry.created_at),
        display_name=entry.display_name,
        origin=json_text(entry.origin),
        # An entry counts as flushed if flushed_seq is not below last_seq; 0 in an empty log would mean "not flushed".
        flushed_seq=(session.last_seq or -1) if entry.memory_flushed else 0,
        session_pk=session.pk,
    )
    tx.run(
        "set_state_fields",
        updated_at=to_instant(entry.updated_at),
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        cache_read_tokens=entry.cache_read_tokens,
        cache_write_tokens=entry.cache_write_tokens,
        last_prompt_tokens=entry.last_prompt_tokens,
        cost_micros=entry.cost_micros,
        cost_status=entry.cost_status,
        session_pk=session.pk,
    )
    return records.get_entry(tx, session_id)


def make_current(tx: Tx, key: str, arrival: SessionToCreate) -> SessionEntry | None:
    """Make the session of that id the current one of the conversation called `key`, and return it; `None`: unknown key.

    The session keeps its id. A conversation whose current session it was has no current one after that. An unknown id becomes an
    empty session.
    """
    address = records.find_address(tx, key)
    if address is None:
        return None
    get_or_create(tx, arrival)
    session = records.get_session(tx, arrival.session_id, lock=True)
    if session.pk == address.session_pk and session.entry.ended_at is None:
        return session.entry
    if session.pk != address.session_pk:
        tx.run("unpoint_session", session_pk=session.pk)
        platform = session.entry.platform
        if address.session_pk is not None:
            current = records.session_by_pk(tx, address.session_pk)
            records.end(tx, arrival.at, current, reason="session_switch")
            new = records.new_session_at(current.entry, session.entry, new_id=arrival.session_id, at=arrival.at)
            resume.apply_place_settings(tx, session, new)
            platform = current.entry.platform
            if session.entry.display_name is None:
                set_fields(tx, arrival.session_id, {"display_name": current.entry.display_name})
        _change_owner(tx, session, address, platform)
    return resume.reopen(tx, arrival.at, address, session)


def adopt_entries(tx: Tx, entries: Sequence[OldIndexEntry]) -> list[str]:
    """Adopt entries of an old index; return the ids of those that were new here.

    Each becomes the current session under the key of its source and under its stored key. If two entries have one address, the one
    updated last keeps it; the other moves to a private address, where it stays current. An id that was adopted before, or is in
    use here, is skipped.
    """
    return [entry.arrival.session_id for entry in entries if _adopt_entry(tx, entry)]


def _adopt_entry(tx: Tx, entry: OldIndexEntry) -> bool:
    arrival = entry.arrival
    if _is_known(tx, arrival.session_id):
        return False
    address = records.ensure_address(tx, arrival.source, arrival.address, arrival.key)
    if address.session_pk is not None:
        current = records.session_by_pk(tx, address.session_pk)
        if current.entry.updated_at >= entry.fields["updated_at"]:
            arrival = msgspec.structs.replace(arrival, address=_private_address(arrival), key=entry.stored_key)
        else:
            _move_to_private_address(tx, current, address)
    created = create(tx, arrival)
    set_fields(tx, created.session_id, entry.fields)
    address_row = records.require_row(tx.find("find_address", digest=arrival.address.digest))
    if entry.stored_key != entry.arrival.key or not entry.has_origin:
        # Where the stored key is the address's own there is no alias: it would lead an equally spelled key of another address here.
        tx.run("add_key_alias", key=entry.stored_key, address_pk=address_row[0])
    if entry.origin_key not in (None, entry.arrival.key):
        tx.run("add_key_alias", key=entry.origin_key, address_pk=address_row[0])
    tx.run("set_adoption", session_id=created.session_id, state=TRANSCRIPT_PENDING)
    return True


def adopt_transcript(
    tx: Tx, session_id: str, messages: Sequence[EncodedMessage], arrival: SessionToCreate | None = None
) -> bool:
    """Adopt an older transcript, once and before any other message of the session; return whether it was adopted now.

    `arrival` creates a session that is not in the index. A session that was deleted since does not come back.
    """
    row = tx.find("find_adoption", session_id=session_id)
    session = tx.find("find_session", session_id=session_id)
    if (row is not None and row[0] != TRANSCRIPT_PENDING) or (session is None and (row is not None or arrival is None)):
        return False
    if row is None and session is not None:
        # This store created the session: a transcript file with its id that turned up later is another program's.
        return False
    entry = (
        create(tx, arrival, is_current=False)
        if session is None and arrival
        else session_of(records.require_row(session)).entry
    )
    at = to_instant(entry.updated_at)
    if messages:
        transcripts.append(tx, transcripts.AppendRequest(session_id, messages, at))
        pk = records.get_session(tx, session_id).pk
        # A new message that equals an adopted one is stored, not taken for a duplicate.
        tx.run(
            "save_state", session_pk=pk, agent=MATCHED_MESSAGES_KEY, text=json_text(MatchedMessages(upto=len(messages)))
        )
        if entry.memory_flushed:
            tx.run("mark_flushed", seq=len(messages), session_pk=pk)
    tx.run("set_adoption", session_id=session_id, state=TRANSCRIPT_ADOPTED)
    return True


def adoption_state(tx: Tx, session_id: str) -> str | None:
    """Return the adoption state of that session; `None` where nothing of it was adopted or exported."""
    row = tx.find("find_adoption", session_id=session_id)
    return None if row is None else str(row[0])


def load_adopted(tx: Tx, session_id: str) -> list[Message] | None:
    """Return the messages that the model sees; `None` where the session is unknown or its old transcript is not adopted yet."""
    if tx.find("find_session", session_id=session_id) is None:
        return None
    if adoption_state(tx, session_id) == TRANSCRIPT_PENDING:
        return None
    return transcripts.load(tx, session_id, None)


def mark_exported(tx: Tx, session_id: str) -> None:
    """Record that we wrote the file of that session ourselves: it is never adopted."""
    tx.run("set_adoption", session_id=session_id, state=EXPORTED)


def list_pending_transcripts(tx: Tx, after: str = "") -> list[str]:
    """Return a page of the ids of sessions whose transcript is not adopted yet, in order, from behind `after`."""
    return [str(row[0]) for row in tx.rows("waiting_adoptions", after=after, limit=_PAGE)]


def find_current(tx: Tx, request: ResolveRequest) -> StoredSession | None:
    """Return the session that `request` asks for, unchanged, or `None`. Locks nothing, and does not count as use."""
    row = tx.find("peek_current", digest=request.address.digest)
    if row is None:
        row = tx.find("peek_current_by_alias", key=request.key)
    return None if row is None else session_of(row)


def find_entry(tx: Tx, session_id: str) -> SessionEntry | None:
    """Return the entry of that session, or `None`; `message_count` is how many messages the model sees."""
    row = tx.find("find_session", session_id=session_id)
    return None if row is None else _with_count(tx, session_of(row))


def list_entries(tx: Tx, cursor: str | None, platform: str | None) -> Page[SessionEntry]:
    """Return a page of the entries of `find_row`, the most recently updated first, ended ones included."""
    page = indexes.list_stored_sessions(
        tx, ListRequest(include_ended=True, platform=platform, limit=_PAGE, cursor=cursor)
    )
    return Page([_with_count(tx, session) for session in page], page.cursor)


def list_current(tx: Tx, cursor: str | None) -> Page[SessionEntry]:
    """Return a page of the sessions that are some conversation's current one, the most recently updated first."""
    page = indexes.list_stored_sessions(tx, ListRequest(include_ended=True, limit=_PAGE, cursor=cursor))
    return Page([session.entry for session in page if session.is_current], page.cursor)


def count_sessions(tx: Tx) -> int:
    """Return how many sessions there are, ended ones included."""
    row = tx.find("count_sessions")
    return 0 if row is None else int(row[0])


def _with_count(tx: Tx, session: StoredSession) -> SessionEntry:
    if session.view_version == 1 and session.entry.parent_session_id is None:
        return session.entry
    row = tx.find("count_shown", session_pk=session.pk, version=session.view_version)
    return msgspec.structs.replace(session.entry, message_count=0 if row is None else int(row[0]))


def session_ids_owned_by(tx: Tx, person: str) -> list[str]:
    """Return the ids of the sessions that a person owns."""
    return [str(row[0]) for row in tx.rows("sessions_of_owner", owner=person, limit=rows.END)]


def _is_known(tx: Tx, session_id: str) -> bool:
    return (
        tx.find("find_adoption", session_id=session_id) is not None
        or tx.find("find_session", session_id=session_id) is not None
    )


def _private_address(arrival: SessionToCreate) -> SessionAddress:
    """Return an address that no source leads to."""
    return msgspec.structs.replace(arrival.address, agent=f"apart:{arrival.session_id}")


def _move_to_private_address(tx: Tx, session: StoredSession, address: AddressRow) -> None:
    """Move a session to a private address, where it stays current, because another takes its address."""
    entry = session.entry
    place = SessionAddress(f"apart:{entry.session_id}", entry.platform, entry.origin.account, entry.origin.chat_type)
    new_address = records.ensure_address(tx, entry.origin, place, address.key)
    tx.run("unpoint_session", session_pk=session.pk)
    tx.run("set_session_place", address_pk=new_address.pk, session_pk=session.pk)
    tx.run("point_address", address_pk=new_address.pk, session_pk=session.pk)


def _change_owner(tx: Tx, session: StoredSession, address: AddressRow, platform: str) -> None:
    """Change the owner, chat and platform of a session, and queue its messages for indexing: other people may find them now."""
    if (session.entry.owner, session.chat, session.entry.platform) == (address.owner, address.chat, platform):
        return
    tx.run("set_state_place", owner=address.owner, platform=platform, session_pk=session.pk)
    lo, hi = message_number(session.pk, 0), message_number(session.pk, MAX_SEQ)
    tx.unindex([row[0] for row in tx.rows("numbers_in_log", lo=lo, hi=hi, limit=MAX_SEQ)])
    tx.run("advance_index", seq=0, session_pk=session.pk)
    if session.last_seq:
        tx.run_many("mark_unindexed", [(session.pk,)])

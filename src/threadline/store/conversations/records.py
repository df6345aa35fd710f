"""Rows that many groups share: addresses, sessions, speakers, time zones, home channels and agent state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from threadline.clock import Instant
from threadline.errors import InvalidRequest, UnknownSession
from threadline.model.address import SessionAddress, qualified_id
from threadline.model.client_sources import ACP, merge_runtime
from threadline.model.context import HomeChannel, NamedHomeChannel
from threadline.model.delivery import target_of
from threadline.model.ownership import Ownership, Viewer, ownership_of, person_of
from threadline.model.policy import checked_zone
from threadline.model.safe_text import safe_label
from threadline.model.session import ResetReason, SessionEntry
from threadline.model.source import SessionSource
from threadline.model.speaker import Speaker
from threadline.model.view import View, forked_view, log_of, new_view
from threadline.store.conversations import views
from threadline.store.engine.database import Row, Step, Tx, find_after_lock, read, write
from threadline.store.leases import TurnLease, require
from threadline.store.rows import StoredSession, entry_of, json_text, session_of
from threadline.store.text import fold_text
from threadline.store.verbs import MAX_KEY_CHARS, Group, Mode, Store, clean_or_none, clean_text, reads, verb, writes

# Set once a session was deleted: pruning must not bring the first-contact welcome back.
HAD_SESSIONS = "had_sessions"
_MAX_SAME_NAMES = 10_000


class NewSession(msgspec.Struct, frozen=True):
    """The fields of a new session."""

    session_id: str
    origin: SessionSource
    at: Instant
    display_name: str | None = None
    model: str | None = None
    cwd: str | None = None
    # As JSON; empty: that of the session it is forked from, if any.
    runtime: str = ""
    parent_session_id: str | None = None
    reset_reason: ResetReason | None = None
    reset_had_activity: bool = False
    tell_user: bool = False


class AddressRow(msgspec.Struct, frozen=True):
    """A row of the table of addresses."""

    pk: int
    key: str
    chat_type: str
    owner: str | None
    chat: str | None
    session_pk: int | None

    @property
    def ownership(self) -> Ownership:
        """Whose conversation it is."""
        return Ownership(self.owner, self.chat)


def begin(
    tx: Tx,
    address: AddressRow,
    new: NewSession,
    *,
    inherit: tuple[StoredSession, View] | None = None,
    current: bool = True,
) -> SessionEntry:
    """Begin a session at `address`, by default as its current one; return its entry."""
    row = tx.find(
        "add_session",
        session_id=new.session_id,
        address_pk=address.pk,
        chat_type=address.chat_type,
        chat=address.chat,
        origin=json_text(new.origin),
        display_name=new.display_name,
        model=new.model,
        runtime=new.runtime or "{}",
        parent_session_id=new.parent_session_id,
        created_at=new.at,
        auto_reset_reason=new.reset_reason,
        reset_had_activity=int(new.reset_had_activity),
        notice_user=int(new.tell_user),
        notice_agent=int(new.reset_reason is not None and new.reset_had_activity),
    )
    pk: int = require_row(row)[0]
    view = new_view(pk)
    if inherit is not None:
        parent, shown = inherit
        view = forked_view(shown, from_log=parent.pk, last_seq=parent.last_seq, log=pk)
        if parent.entry.is_shared:
            tx.run("copy_speakers", session_pk=pk, parent_pk=parent.pk)
    tx.run(
        "add_state",
        session_pk=pk,
        owner=address.owner,
        platform=new.origin.platform,
        cwd=new.cwd,
        at=new.at,
        borrows=int(any(log_of(span.lo) != pk for span in (*view.shown, *view.folded))),
    )
    views.save_spans(tx, pk, 1, view)
    if current:
        tx.run("point_address", address_pk=address.pk, session_pk=pk)
    return get_session(tx, new.session_id).entry


def end(tx: Tx, at: Instant, session: StoredSession, *, reason: str, flush: bool = False) -> None:
    """End a session; one that has ended keeps its first reason. `flush`: show its messages to its agent once more."""
    if session.entry.ended_at is None:
        tx.run("end_session", at=at, reason=reason, session_pk=session.pk)
        tx.run("end_state", at=at, session_pk=session.pk)
        if flush:
            queue_flush(tx, at, session.pk)


def get_session(tx: Tx, session_id: str, *, lock: bool = False) -> StoredSession:
    """Return the session of that id, or raise `UnknownSession`. Locked, its log and view stay as they are until the commit."""
    row = (
        find_after_lock(tx, "lock_session", session_id=session_id)
        if lock
        else tx.find("find_session", session_id=session_id)
    )
    if row is None:
        raise unknown_session_error(session_id)
    return session_of(row)


def get_entry(tx: Tx, session_id: str) -> SessionEntry:
    """Return the entry of the session of that id, or raise `UnknownSession`."""
    row = tx.find("find_session", session_id=session_id)
    if row is None:
        raise unknown_session_error(session_id)
    return entry_of(row)


def unknown_session_error(session_id: str) -> UnknownSession:
    """Return the error for an id that no session has."""
    return UnknownSession(
        f"no session has the id {session_id[:80]!r}; `threadline sessions list --all` shows those there are"
    )


def find_address(tx: Tx, key: str) -> AddressRow | None:
    """Return the address of that name, locked."""
    row = tx.find("find_address_by_key", key=key)
    return None if row is None else AddressRow(*row)


def ensure_address(tx: Tx, source: SessionSource, address: SessionAddress, key: str | None = None) -> AddressRow:
    """Return the stored address, locked, added where it is new. A key that another address has gets a suffix."""
    return _ensure_owned(tx, address, ownership_of(source, address), key)


def _ensure_owned(tx: Tx, address: SessionAddress, owned: Ownership, key: str | None = None) -> AddressRow:
    row = tx.find("find_address", digest=address.digest)
    if row is None:
        tx.run(
            "add_address",
            digest=address.digest,
            key=_free_key(tx, key or address.key),
            chat_type=address.chat_type,
            owner=owned.owner,
            chat=owned.chat,
        )
        row = tx.find("find_address", digest=address.digest)
    return AddressRow(*require_row(row))


def _free_key(tx: Tx, key: str) -> str:
    if tx.find("key_is_taken", key=key) is None:
        return key
    for n in range(2, _MAX_SAME_NAMES):
        if tx.find("key_is_taken", key=f"{key}~{n}") is None:
            return f"{key}~{n}"
    raise InvalidRequest(f"too many conversations are called {key!r}")


def session_by_pk(tx: Tx, session_pk: int) -> StoredSession:
    """Return the session of a row that this transaction has locked or found."""
    return session_of(require_row(tx.find("find_session_by_pk", session_pk=session_pk)))


def require_row(row: Row | None) -> Row:
    """Return a row that must exist."""
    assert row is not None, "a row that this transaction wrote or locked, or that another row refers to, is there"  # noqa: S101
    return row


def new_session_at(place: SessionEntry, coming: SessionEntry, *, new_id: str, at: Instant) -> NewSession:
    """Return the fields of a copy of `coming` at the place of another session: settings of the place stay with the place."""
    new = NewSession(new_id, place.origin, at, display_name=place.display_name)
    if place.platform != ACP:
        return new
    return replace(new, cwd=place.cwd, runtime=json_text(merge_runtime(place.runtime, coming.runtime)))


def queue_flush(tx: Tx, at: Instant, session_pk: int) -> None:
    """Queue a flush: the agent sees the messages since the last flush, not before `at`. Without messages nothing is queued."""
    tx.run("queue_flush", session_pk=session_pk, at=at)


# Labels are unique among the first speakers of a crowd; later ones are compared with these.
_MAX_SPEAKERS = 500
_MAX_SPEAKER_NAMES = 100


def speakers_of(tx: Tx, session: StoredSession) -> tuple[Speaker, ...]:
    """Return the speakers of a shared session, in the order of their first messages; nobody for a private session."""
    if not session.entry.is_shared:
        return ()
    rows = tx.rows("speakers_of", session_pk=session.pk, limit=_MAX_SPEAKERS)
    return tuple(Speaker(person, name) for person, name in rows)


def add_speakers(tx: Tx, session_pk: int, speakers: Sequence[Speaker]) -> None:
    """Record the speakers of a session; those recorded before keep their positions."""
    for speaker in speakers:
        tx.run("add_speaker", session_pk=session_pk, person=speaker.person, name=speaker.name)


def speaker_names_of(tx: Tx, person: str) -> list[str]:
    """Return the names under which a person has spoken in shared sessions."""
    return [name for (name,) in tx.rows("names_of_speaker", person=person, limit=_MAX_SPEAKER_NAMES)]


def timezone_of(tx: Tx, person: str) -> str | None:
    """Return the time zone that a person chose; `None` where they chose none."""
    row = tx.find("find_timezone", person=person)
    return None if row is None else str(row[0])


def set_timezone(tx: Tx, person: str, zone: str | None) -> None:
    """Set the zone of a person's days; `None`: the installation's."""
    if zone is None:
        tx.run("drop_preferences", person=person)
    else:
        tx.run("keep_timezone", person=person, timezone=zone)


def list_home_channels(tx: Tx) -> list[NamedHomeChannel]:
    """Return the home channels that were set in a chat, without those of the configuration."""
    return [
        NamedHomeChannel(
            channel=HomeChannel(platform, chat_id, name, thread_id, account),
            chat_type=chat_type,
            person=person,
        )
        for platform, account, chat_id, chat_type, thread_id, name, person in tx.rows("list_homes")
    ]


def set_home_channel(tx: Tx, home: NamedHomeChannel) -> None:
    """Set the home channel of its account in place of an earlier one."""
    channel = home.channel
    tx.run(
        "keep_home",
        platform=channel.platform,
        account=channel.account,
        chat_id=channel.chat_id,
        chat_type=home.chat_type,
        thread_id=channel.thread_id,
        name=channel.name,
        person=home.person,
    )


def remove_home_channel(tx: Tx, platform: str, account: str) -> bool:
    """Remove the home channel that was set for an account; return False where there was none."""
    return tx.run("drop_home", platform=platform, account=account) == 1


def home_names_of_person(tx: Tx, person: str) -> list[str]:
    """Return the home channels that are direct chats of a person, named like `telegram:7`, with the thread if there is one."""
    return [
        qualified_id(platform, account, chat_id) + (f":{thread_id}" if thread_id else "")
        for platform, account, chat_id, thread_id in tx.rows("homes_of_person", person=person)
    ]


MAX_STATE_CHARS = 8_000


def save_state(tx: Tx, lease: TurnLease, session_pk: int, agent: str, text: str) -> None:
    """Store the agent state of a turn in place of an earlier one. Raise `LeaseLost` where the lease is lost.

    For a session that was deleted meanwhile nothing is stored.
    """
    # The session first, as at the end of a turn: another order of locks could deadlock.
    tx.run("save_state", session_pk=session_pk, agent=agent, text=text)
    require(tx, lease)


def load_state(tx: Tx, session_pk: int, agent: str) -> str | None:
    """Return the state that this agent stored with the session, or `None`."""
    row = tx.find("load_state", session_pk=session_pk, agent=agent)
    return None if row is None else str(row[0])


def states_of(tx: Tx, session_pk: int) -> dict[str, str]:
    """Return the states that agents stored with a session, by the agents' names."""
    return {str(agent): str(text) for agent, text in tx.rows("memories_of", session_pk=session_pk)}


def set_title(tx: Tx, at: Instant, session_id: str, title: str | None) -> SessionEntry:
    """Set or remove the title of a session; return its entry."""
    session = get_session(tx, session_id)
    tx.run("set_title", title=title, title_key=title_key(title), session_pk=session.pk)
    tx.run("mark_updated", at=at, session_pk=session.pk)
    return get_entry(tx, session_id)


def find_by_title(tx: Tx, title: str, viewer: Viewer | None) -> SessionEntry | None:
    """Return the most recently updated session of that title that the viewer may see."""
    for row in tx.rows("find_titled", title_key=title_key(title)):
        session = session_of(row)
        if viewer is None or viewer.sees(session.ownership):
            return session.entry
    return None


def title_key(title: str | None) -> str | None:
    """Return the form in which titles are compared."""
    return None if title is None else " ".join(fold_text(title).split())


class PersonTimezone(msgspec.Struct, frozen=True):
    """The time zone of a person's days, and whether they chose it themselves."""

    name: str
    is_own: bool


class Preferences(Group[Mode]):
    """Time zones and home channels that people chose."""

    list_home_channels = reads(list_home_channels)
    remove_home_channel = writes(remove_home_channel)

    @verb
    def timezone_of(store: Store[Any], person: str) -> Step[PersonTimezone]:
        """Return the zone that a person chose, else the installation's."""
        return read(_timezone_of_person, person, store.settings.zone)

    @verb
    def set_timezone(_: Store[Any], person: str, zone: str | None) -> Step[None]:
        """Set the zone of a person's days; `None`: the installation's. Raises `InvalidRequest` for an unknown zone."""
        name = clean_text("a person's name", person, 2 * MAX_KEY_CHARS)
        return write(set_timezone, name, None if zone is None else checked_zone(zone))

    @verb
    def set_home_channel(_: Store[Any], source: SessionSource) -> Step[NamedHomeChannel]:
        """Make the chat and thread of `source` the home channel of its account. Raises `InvalidRequest` without a chat."""
        target = target_of(source)
        home = NamedHomeChannel(
            channel=HomeChannel(
                target.platform,
                clean_text("the id of a chat", target.chat_id),
                safe_label(source.chat_name or source.description),
                clean_or_none("the id of a thread", target.thread_id),
                clean_text("the name of an account", target.account),
            ),
            chat_type=target.chat_type,
            person=person_of(source) if target.chat_type == "dm" else None,
        )
        return write(_set_and_return_home_channel, home)


class AgentState(Group[Mode]):
    """State that an agent stores with a session, for itself alone."""

    load = reads(load_state)

    @verb
    def save(_: Store[Any], lease: TurnLease, session_pk: int, agent: str, text: str) -> Step[None]:
        """Store state of the agent for the session's next turn, in place of an earlier one.

        When it returns it survives a power cut. Raises `LeaseLost` where the lease is lost, and `InvalidRequest` for more than
        8,000 characters. Forks don't copy the state; it is deleted with the session.
        """
        state = clean_text("the state of an agent", text, MAX_STATE_CHARS)
        return write(save_state, lease, session_pk, clean_text("the name of an agent", agent), state)


def _timezone_of_person(tx: Tx, person: str, installation_zone: str) -> PersonTimezone:
    chosen = timezone_of(tx, person)
    return PersonTimezone(installation_zone if chosen is None else chosen, is_own=chosen is not None)


def _set_and_return_home_channel(tx: Tx, home: NamedHomeChannel) -> NamedHomeChannel:
    set_home_channel(tx, home)
    return home

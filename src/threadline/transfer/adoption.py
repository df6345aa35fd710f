"""Taking an older folder in: its index when a store is opened on it, a transcript when its session is first used. Files stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from threadline.clock import Instant, SystemClock, to_instant
from threadline.errors import InvalidMessage, InvalidRequest, ThreadlineError
from threadline.log import get_logger
from threadline.model.address import SessionAddress, SessionScope, address_of
from threadline.model.message import EncodedMessage, Message, encode_message
from threadline.model.ownership import ownership_of
from threadline.model.session import SessionEntry
from threadline.model.source import CHAT_TYPES, SessionSource, is_platform_slug
from threadline.model.usage import COST_STATUSES
from threadline.store.conversations import adoptions
from threadline.store.conversations.adoptions import TRANSCRIPT_PENDING, OldIndexEntry, SessionToCreate
from threadline.store.engine.database import Progress, Tx
from threadline.store.facade import ComposableStore
from threadline.transfer.hermes import HermesFolder, IndexEntry, Skipped, Transcript, is_safe_id

log = get_logger("adoption")

# The platform of a session that is known by its id alone.
NOWHERE = "unknown"
_AT_ONCE = 100
_STAMP = "adopted_index"
_MAX_COUNT = 2**53
_NUMBERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "last_prompt_tokens")


class AdoptionReport(msgspec.Struct, frozen=True):
    """What was taken in from an older folder, and what had to be left out."""

    sessions: int
    transcripts: int
    messages: int
    skipped: list[Skipped]


class FolderAdoption:
    """Takes an older folder into a store, each session and transcript once, whatever breaks off in between."""

    def __init__(
        self, folder: HermesFolder, store: ComposableStore, scope: SessionScope, key_of: Callable[[SessionAddress], str]
    ) -> None:
        """`scope` and `key_of` tell which conversation an entry's origin belongs to, and how that is called."""
        self._folder = folder
        self._store = store
        self._scope = scope
        self._key_of = key_of

    def adopt_index(self) -> list[Skipped]:
        """Take in the entries of the index, unless it has not changed since; return those that could not be used."""
        stamp = self._folder.index_stamp()
        if stamp is None or self._store.run_read(_find_stamp) == stamp:
            return []
        entries, skipped = self._folder.read_index()
        adopted, unfit = self._adopted(entries)
        for start in range(0, len(adopted), _AT_ONCE):
            unfit += self._adopt_entries(adopted[start : start + _AT_ONCE])
        # The stamp last: where this breaks off, the next opening goes on.
        self._store.run_write(_set_stamp, stamp)
        return [*skipped, *unfit]

    def adopt_session(self, session_id: str) -> bool:
        """Take in the old transcript of a session if that was not done yet; whether there is a session of that id."""
        is_there, state = self._store.run_read(_look_up, session_id)
        if is_there and state != TRANSCRIPT_PENDING:
            return True
        # One that was taken in and is gone was deleted: it does not come back.
        return (is_there or state is None) and self._adopt(session_id, is_there=is_there) is not None

    def adopt_all(self, progress: Progress | None = None) -> AdoptionReport:
        """Take in every transcript of the folder now; the sessions of the index are there already."""
        waiting = self._store.run_read(_all_waiting)
        ids = sorted({*self._folder.transcript_ids(), *waiting})
        sessions, taken = len(waiting), []
        for done, session_id in enumerate(ids, 1):
            is_there, state = self._store.run_read(_look_up, session_id)
            is_due = state == TRANSCRIPT_PENDING if is_there else state is None
            if is_due and (found := self._adopt(session_id, is_there=is_there)) is not None:
                taken.append((len(found.messages), found.skipped))
                sessions += not is_there
            if progress is not None:
                progress(done, len(ids))
        _, unusable = self._folder.read_index()
        skipped = [*unusable, *(place for _, places in taken for place in places)]
        return AdoptionReport(sessions, len(taken), sum(count for count, _ in taken), skipped)

    def ids_of(self, person: str) -> list[str]:
        """Return the ids of the sessions that the index says are a person's own, those deleted here since included."""
        adopted, _ = self._adopted(self._folder.read_index()[0])
        arrivals = [entry.arrival for entry in adopted]
        return [one.session_id for one in arrivals if ownership_of(one.source, one.address).owner == person]

    def _adopt(self, session_id: str, *, is_there: bool) -> Transcript | None:
        """Take in the transcript of a session and return it; `None`: there is neither an old one nor a session."""
        found = self._folder.read_transcript(session_id)
        if found is None and not is_there:
            return None
        found = found or Transcript([], [], "file")
        messages, unfit = _encoded(session_id, found.messages)
        arrival = None if is_there else self._arrival(session_id)
        self._store.run_write(adoptions.adopt_transcript, session_id, messages, arrival)
        return Transcript(found.messages[: len(messages)], [*found.skipped, *unfit], found.source)

    def _adopt_entries(self, entries: Sequence[OldIndexEntry]) -> list[Skipped]:
        """Take in entries, and return those that the store refuses: each of them alone, so that the others are taken in."""
        try:
            self._store.run_write(adoptions.adopt_entries, entries)
        except (InvalidRequest, OverflowError) as error:
            if len(entries) > 1:
                return [refused for entry in entries for refused in self._adopt_entries([entry])]
            return [_refused(entries[0].stored_key, error)]
        return []

    def _arrival(self, session_id: str) -> SessionToCreate:
        row = next((row for row in self._folder.database_sessions() if row.session_id == session_id), None)
        platform = row.source if row is not None and row.source else NOWHERE
        at = row.started_at if row is not None else None
        # Whose it is: earlier sessions are not in the index, and an erase must find them.
        user_id = row.user_id or None if row is not None else None
        return arrival_of(session_id, platform, now() if at is None else to_instant(at), user_id=user_id)

    def _adopted(self, entries: Sequence[IndexEntry]) -> tuple[list[OldIndexEntry], list[Skipped]]:
        """The entries of an index, the most recently used first, and those that can't be taken in."""
        adopted: list[OldIndexEntry] = []
        skipped: list[Skipped] = []
        for entry in entries:
            try:
                adopted.append(self._adopted_entry(entry))
            except (ThreadlineError, ValueError, TypeError) as error:
                skipped.append(_refused(entry.key, error))
        return sorted(adopted, key=lambda entry: entry.fields["updated_at"], reverse=True), skipped

    def _adopted_entry(self, entry: IndexEntry) -> OldIndexEntry:
        fields = _fields_of(entry)
        source, chat_type, is_origin = _source_of(entry)
        address = msgspec.structs.replace(address_of(source, self._scope), chat_type=chat_type)
        own = msgspec.structs.replace(address, sender=source.sender)
        if address.is_shared and self._key_of(own) == entry.key:
            # It was one member's own, and stays theirs where the group shares a session by now.
            address = own
        shared, led = msgspec.structs.replace(address, sender=None), None
        if chat_type != "dm" and self._key_of(shared) == entry.key:
            # It was the group's, and stays so where each member has their own by now; whom it began with goes on with it.
            address, led = shared, self._key_of(address)
        if not is_origin:
            # No message leads to it but by the key that it was stored under.
            address = msgspec.structs.replace(address, agent=f"key:{entry.key}")
        arrival = SessionToCreate(
            session_id=entry.session_id,
            source=source,
            address=address,
            at=to_instant(fields["created_at"]),
            key=self._key_of(address) if is_origin else entry.key,
            display_name=fields["display_name"],
        )
        return OldIndexEntry(arrival=arrival, stored_key=entry.key, fields=fields, has_origin=is_origin, origin_key=led)


def arrival_of(
    session_id: str,
    platform: str,
    at: Instant,
    *,
    user_id: str | None = None,
    start: dict[str, str | None] | None = None,
) -> SessionToCreate:
    """How a session of that id is created that no message led to: at an address of its own. `ValueError` for an unsafe id."""
    slug = platform if is_platform_slug(platform) else NOWHERE
    source = SessionSource(platform=slug, chat_id=checked_id(session_id), user_id=user_id)
    return SessionToCreate(session_id=session_id, source=source, address=address_of(source), at=at, start=start or {})


def checked_id(session_id: str) -> str:
    """`session_id` as it is; `ValueError` if it is no plain file name."""
    if not isinstance(session_id, str) or not is_safe_id(session_id):
        raise ValueError(f"{str(session_id)[:80]!r} is no session id: use a plain name without '/' or a leading dot")
    return session_id


def now() -> Instant:
    """The present instant."""
    return to_instant(SystemClock().now())


def with_role(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as it is; one without a role gets the role `unknown`."""
    role = message.get("role")
    return dict(message) if isinstance(role, str) and role else {**message, "role": "unknown"}


def _refused(key: str, error: Exception) -> Skipped:
    log.warning("entry_skipped", key=key, why=str(error))
    return Skipped(key, str(error))


def _fields_of(entry: IndexEntry) -> dict[str, Any]:
    """What is kept of an entry besides where it belongs."""
    raw = entry.fields
    known = SessionEntry.from_dict(raw | {"session_key": entry.key, "origin": None, "platform": None})
    cost, status = raw.get("estimated_cost_usd"), raw.get("cost_status")
    fields = {name: getattr(known, name) for name in ("created_at", "updated_at", "display_name")}
    counts = {name: getattr(known, name) for name in _NUMBERS}
    return fields | {
        **{name: count if 0 <= count <= _MAX_COUNT else 0 for name, count in counts.items()},
        "cost_micros": round(cost * 1_000_000) if isinstance(cost, int | float) and 0 <= cost < 1e9 else 0,
        "cost_status": status if status in COST_STATUSES else "unknown",
        "memory_flushed": bool(raw.get("memory_flushed") or raw.get("expiry_finalized")),
    }


def _source_of(entry: IndexEntry) -> tuple[SessionSource, str, bool]:
    """The source of an entry and its chat type, and whether they are its origin's: else they are read off its key."""
    raw = entry.fields.get("origin")
    is_origin = isinstance(raw, dict) and raw.get("platform") is not None
    if not isinstance(raw, dict) or not is_origin:
        parts = [*entry.key.split(":"), "", "", "", ""]
        named = entry.fields.get("platform") or parts[2] or NOWHERE
        chat_type = parts[3] or entry.fields.get("chat_type")
        raw = {"platform": named, "chat_type": chat_type, "chat_id": ":".join(parts[4:]).strip(":")}
    chat_type = str(raw.get("chat_type") or "dm")
    kind = chat_type if chat_type in CHAT_TYPES else "thread"
    return SessionSource.from_dict(raw | {"chat_type": kind, "account": None}), chat_type, is_origin


def _encoded(session_id: str, messages: Sequence[Message]) -> tuple[list[EncodedMessage], list[Skipped]]:
    encoded: list[EncodedMessage] = []
    skipped: list[Skipped] = []
    for place, message in enumerate(messages, 1):
        try:
            encoded.append(encode_message(with_role(message)))
        except InvalidMessage as error:
            skipped.append(Skipped(f"{session_id}, message {place}", str(error)))
            log.warning("message_skipped", session_id=session_id, place=place, why=str(error))
    return encoded, skipped


def _look_up(tx: Tx, session_id: str) -> tuple[bool, str | None]:
    is_there = tx.find("find_session", session_id=session_id) is not None
    return is_there, adoptions.adoption_state(tx, session_id)


def _all_waiting(tx: Tx) -> list[str]:
    found: list[str] = []
    while page := adoptions.list_pending_transcripts(tx, found[-1] if found else ""):
        found += page
    return found


def _find_stamp(tx: Tx) -> str | None:
    row = tx.find("find_meta", name=_STAMP)
    return None if row is None else str(row[0])


def _set_stamp(tx: Tx, stamp: str) -> None:
    tx.run("set_meta", name=_STAMP, value=stamp)

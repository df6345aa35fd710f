"""Export all records of one person, page by page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from threadline.clock import from_instant
from threadline.errors import InvalidCursor, InvalidRequest
from threadline.model.message import TranscriptMessage
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.usage import CostStatus
from threadline.model.view import MAX_SEQ, log_of, message_number
from threadline.store.conversations import files, id_changes, records
from threadline.store.conversations.indexes import filter_token
from threadline.store.conversations.transcripts import to_transcript_messages
from threadline.store.engine.database import Row, Step, Tx, read
from threadline.store.people import web_access
from threadline.store.rows import END, Page, check_limit, entry_of, json_value
from threadline.store.verbs import Group, Mode, Store, person_name_of, verb
from threadline.store.work import outbox


class RoleRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's role here, and their pairing request. Absent values are left out."""

    role: str | None = None
    name: str | None = None
    since: datetime | None = None
    asked_at: datetime | None = None


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a person sent, and its outcome. `event` holds its words until it has an outcome, then only its source."""

    number: int
    platform: str
    account: str
    accepted_at: datetime
    role: str
    fate: str
    fate_at: datetime | None
    note: str | None
    session_id: str | None
    turn_id: str | None
    event: dict[str, Any]


def role_record_of(tx: Tx, person: str) -> RoleRecord | None:
    """Return a person's role and their pairing request; `None` where there is neither."""
    role_row, pairing_row = tx.find("find_person", person=person), tx.find("find_pairing", person=person)
    if role_row is None and pairing_row is None:
        return None
    role, name, since = role_row or (None, None, None)
    requested_name, asked_at = pairing_row or (None, None)
    return RoleRecord(
        role=role,
        name=name or requested_name,
        since=None if since is None else from_instant(since),
        asked_at=None if asked_at is None else from_instant(asked_at),
    )


def events_of(tx: Tx, person: str, *, after: int, limit: int) -> list[EventRecord]:
    """Return all events of a person, refused ones included, oldest first."""
    return [_event(row) for row in tx.rows("inbox_known", person=person, after=after, limit=limit)]


def _event(row: Row) -> EventRecord:
    pk, platform, account, event, role, accepted_at, fate, fate_at, note, session_id, turn_id = row
    return EventRecord(
        number=pk,
        platform=platform,
        account=account,
        accepted_at=from_instant(accepted_at),
        role=role,
        fate=fate,
        fate_at=None if fate_at is None else from_instant(fate_at),
        note=note,
        session_id=session_id,
        turn_id=turn_id,
        event=json_value(event),
    )


# Keeps the summary readable; the sessions of the export name the other conversations.
MAX_ADDRESSES = 1_000


class PersonSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The person's name, the keys of their own conversations (at most 1,000), and how many records of each kind follow.

    Left out where there is none: the time zone that they chose, the home channels that are direct chats of theirs, the names under
    which they spoke in shared sessions, their names under other ids that their platform gave them, their role, their logins, and
    links to the page for them.
    """

    person: str
    addresses: list[str]
    sessions: int
    messages: int
    usage: int
    timezone: str | None = None
    homes: list[str] = []
    names: list[str] = []
    also_known_as: list[str] = []
    standing: RoleRecord | None = None
    logins: list[web_access.LoginRecord] = []
    invites: list[web_access.InviteRecord] = []
    events: int = 0
    deliveries: int = 0
    files: int = 0

    @property
    def following(self) -> int:
        """How many records follow this one."""
        return self.sessions + self.messages + self.usage + self.events + self.deliveries + self.files

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known but the name that was asked for."""
        return self == PersonSummary(person=self.person, addresses=[], sessions=0, messages=0, usage=0)


class TurnUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one turn."""

    session_id: str
    turn_id: str
    at: datetime
    platform: str
    model: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost_micros: int
    cost_status: CostStatus


class PersonRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a person. `kind` says which of the fields is set.

    `platform_ids` go with a message: the platform's own ids of it, several where it was sent in parts. `context` goes with a
    session: the prompt block about its surroundings; so does `remembered`, the states of agents by their names. `read_file` returns
    the content of a file.
    """

    kind: Literal["person", "session", "message", "usage", "event", "delivery", "file"]
    summary: PersonSummary | None = None
    session: SessionEntry | None = None
    message: TranscriptMessage | None = None
    platform_ids: tuple[str, ...] = ()
    usage: TurnUsage | None = None
    context: str | None = None
    remembered: dict[str, str] = {}
    event: EventRecord | None = None
    delivery: outbox.DeliverySummary | None = None
    file: files.FileRecord | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, `kind` first. A message stands under `message` as it was stored."""
        return {"kind": self.kind, **self._fields()}

    def _fields(self) -> dict[str, Any]:
        if self.session is not None:
            context = {} if self.context is None else {"context": self.context}
            remembered = {"remembered": self.remembered} if self.remembered else {}
            return self.session.to_dict() | context | remembered
        if self.delivery is not None:
            return {"delivery": msgspec.to_builtins(self.delivery)}
        if self.message is None:
            plain: dict[str, Any] = msgspec.to_builtins(self.usage or self.event or self.file or self.summary)
            return plain
        return {
            "id": str(self.message.ref),
            "session_id": self.message.ref.session_id,
            "role": self.message.role,
            "at": msgspec.to_builtins(self.message.at),
            "author": self.message.author,
            "redacted": self.message.redacted,
            "platform_ids": list(self.platform_ids),
            "message": self.message.message,
        }


_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-END, le=END)]


class _ExportCursor(msgspec.Struct, frozen=True, array_like=True, tag="person"):
    """The section and record after which a page ended. A message has its number, a session the number of its message 0."""

    section: Annotated[int, msgspec.Meta(ge=0)]
    after: _Number = -END
    session_pk: _Number = 0
    name: str = ""


_ExportEntry: TypeAlias = tuple[_ExportCursor, PersonRecord]
_Section: TypeAlias = Callable[[Tx, str, _ExportCursor, int], list[_ExportEntry]]


def export(tx: Tx, person: str, *, limit: int, cursor: str | None) -> Page[PersonRecord]:
    """Return a page of all records of a person, in an order that stays: later pages repeat nothing and leave no gap.

    It holds nothing of anyone else: of shared sessions, only the messages that this person wrote there.
    """
    check_limit(limit)
    start = _ExportCursor(0) if cursor is None else _decode(cursor)
    entries: list[_ExportEntry] = []
    for number, section in enumerate(_SECTIONS):
        if number < start.section:
            continue
        # One more than the page holds, to know whether more follows.
        entries += section(
            tx, person, start if number == start.section else _ExportCursor(number), limit + 1 - len(entries)
        )
        if len(entries) > limit:
            return Page([record for _, record in entries[:limit]], _encode(entries[limit - 1][0]))
    return Page([record for _, record in entries])


def _summary(tx: Tx, person: str, start: _ExportCursor, _room: int) -> list[_ExportEntry]:
    if start.after >= 0:
        return []
    counts = tx.find("count_known", person=person, scope=_scope_pattern(person))
    assert counts is not None, "an aggregate has a row"  # noqa: S101
    keys = [key for (key,) in tx.rows("addresses_known", owner=person, limit=MAX_ADDRESSES)]
    sessions, messages, usage, events, deliveries, file_count = (int(count) for count in counts)
    summary = PersonSummary(
        person=person,
        addresses=keys,
        sessions=sessions,
        messages=messages,
        usage=usage,
        timezone=records.timezone_of(tx, person),
        homes=records.home_names_of_person(tx, person),
        names=records.speaker_names_of(tx, person),
        also_known_as=id_changes.former_names(tx, person),
        standing=role_record_of(tx, person),
        logins=web_access.logins_of(tx, person),
        invites=web_access.invites_of(tx, person),
        events=events,
        deliveries=deliveries,
        files=file_count,
    )
    return [(_after(start, 0), PersonRecord(kind="person", summary=summary))]


def _own_sessions(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    """Return each session of the person, followed by its log, undone and folded messages included."""
    entries: list[_ExportEntry] = []
    # One more than there is room for: the first may have nothing left to export.
    for pk, *entry in tx.rows("sessions_owned", owner=person, first=log_of(start.after), limit=room + 1):
        head = message_number(pk, 0)
        if start.after < head:
            entries.append((_after(start, head), _session(tx, pk, entry_of(tuple(entry)))))
        lo, hi = max(head, start.after) + 1, message_number(pk, MAX_SEQ)
        if len(entries) < room and lo <= hi:
            entries += _messages(tx, start, tx.rows("load_log", lo=lo, hi=hi, limit=room - len(entries)))
        if len(entries) >= room:
            break
    return entries


def _session(tx: Tx, pk: int, entry: SessionEntry) -> PersonRecord:
    block = tx.find("find_context", session_pk=pk)
    context = None if block is None else block[0]
    return PersonRecord(kind="session", session=entry, context=context, remembered=records.states_of(tx, pk))


def _messages_of_deleted_sessions(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    """Return messages of the person's deleted sessions that forks still show."""
    entries: list[_ExportEntry] = []
    bounds = {"first": log_of(start.after), "after": start.after}
    for (log,) in tx.rows("deleted_logs_owned", scope=_scope_pattern(person), limit=room, **bounds):
        lo, hi = max(message_number(log, 0), start.after + 1), message_number(log, MAX_SEQ)
        entries += _messages(tx, start, tx.rows("load_left", lo=lo, hi=hi, limit=room - len(entries)))
        if len(entries) >= room:
            break
    return entries


def _messages_in_shared_sessions(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    """Return messages that they wrote in sessions that are not theirs alone."""
    return _messages(tx, start, tx.rows("load_written", author=person, after=start.after, limit=room), author=person)


def _usage(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    bounds = {"at": start.after, "session_pk": start.session_pk, "turn_id": start.name}
    entries: list[_ExportEntry] = []
    for at, pk, turn_id, session_id, platform, model, *amounts in tx.rows(
        "usage_of_person", person=person, limit=room, **bounds
    ):
        usage = TurnUsage(
            session_id=session_id,
            turn_id=turn_id,
            at=from_instant(at),
            platform=platform,
            model=model,
            input_tokens=amounts[0],
            output_tokens=amounts[1],
            cache_read_tokens=amounts[2],
            cache_write_tokens=amounts[3],
            reasoning_tokens=amounts[4],
            cost_micros=amounts[5],
            cost_status=amounts[6],
        )
        entries.append((_ExportCursor(start.section, at, pk, turn_id), PersonRecord(kind="usage", usage=usage)))
    return entries


def _events(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    """Return their inbound events: pending, answered or refused."""
    events = events_of(tx, person, after=start.after, limit=room)
    return [(_after(start, event.number), PersonRecord(kind="event", event=event)) for event in events]


def _deliveries(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    """Return the deliveries to them, sent or pending."""
    lines = outbox.list_for_person(tx, person, after=start.after, limit=room)
    return [(_after(start, line.pk), PersonRecord(kind="delivery", delivery=line)) for line in lines]


def _files(tx: Tx, person: str, start: _ExportCursor, room: int) -> list[_ExportEntry]:
    """Return the files that they sent along with their messages."""
    owned_files = files.records_of(tx, person, after=start.name, limit=room)
    return [
        (_ExportCursor(start.section, name=file.file_id), PersonRecord(kind="file", file=file)) for file in owned_files
    ]


# The order of an export. Cursors name a section by its index here.
_SECTIONS: tuple[_Section, ...] = (
    _summary,
    _own_sessions,
    _messages_of_deleted_sessions,
    _messages_in_shared_sessions,
    _usage,
    _events,
    _deliveries,
    _files,
)


def _messages(tx: Tx, start: _ExportCursor, rows: Sequence[Row], *, author: str | None = None) -> list[_ExportEntry]:
    ids = _platform_ids(tx, [row[0] for row in rows], author)
    return [
        (
            _after(start, row[0]),
            PersonRecord(kind="message", message=message, platform_ids=tuple(ids.get(row[0], ()))),
        )
        for row, message in zip(rows, to_transcript_messages(tx, rows), strict=True)
    ]


def _platform_ids(tx: Tx, numbers: Sequence[int], author: str | None) -> dict[int, list[str]]:
    """Return the platform's ids of messages, which come in the order of their numbers."""
    ids: dict[int, list[str]] = {}
    for log, group in groupby(numbers, key=log_of):
        within = list(group)
        for number, external_id in tx.rows("platform_ids", log=log, lo=within[0], hi=within[-1], author=author):
            ids.setdefault(number, []).append(external_id)
    return ids


def _scope_pattern(person: str) -> str:
    """Return a LIKE pattern for the token of an owner among those of a deleted log."""
    return f"% {filter_token('o', person)} %"


def _after(start: _ExportCursor, number: int) -> _ExportCursor:
    return _ExportCursor(start.section, number)


def _encode(cursor: _ExportCursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def _decode(cursor: str) -> _ExportCursor:
    """Return the cursor that `_encode` wrote, or raise `InvalidCursor`. A made-up cursor reaches no other person's records."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        decoded = msgspec.json.decode(text, type=_ExportCursor)
    except (ValueError, msgspec.DecodeError) as cause:
        raise InvalidCursor from cause
    if decoded.section >= len(_SECTIONS):
        raise InvalidCursor
    return decoded


class PersonExports(Group[Mode]):
    """Exports of all records of a person."""

    @verb
    def export(
        _: Store[Any], person: SessionSource | str, *, limit: int = 500, cursor: str | None = None
    ) -> Step[Page[PersonRecord]]:
        """Return a page of all that is known of a person, and of nobody else; `cursor` continues exactly where a page ended.

        First a summary; then each session of theirs, oldest first, with its whole log; what forks still show of their deleted
        sessions; what they wrote in shared sessions; the usage of their turns; their inbound events, refused and pending ones
        included; the deliveries to them; their files.
        For an unknown person there is the summary alone, and it counts nothing.
        Records stored between two pages may turn up in a later one. No record comes twice, unless a session is deleted meanwhile
        and a fork of it lives on.
        """
        name = person_name_of(person)
        if not name:
            raise InvalidRequest("say who it is about: a name such as telegram:7")
        return read(export, name, limit=limit, cursor=cursor)

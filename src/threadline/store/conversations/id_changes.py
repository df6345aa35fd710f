"""Apply a platform's change of an id: rename rows, and find conversations under former ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.model.access import highest_role
from threadline.model.address import SessionAddress, qualified_id
from threadline.model.delivery import Target
from threadline.model.inbound import IdChange
from threadline.model.ownership import Ownership, ownership_of, person_of
from threadline.model.source import SessionSource
from threadline.model.view import MAX_SEQ, message_number
from threadline.store import rows
from threadline.store.conversations.indexes import filter_token
from threadline.store.engine.database import Row, Step, Tx, leaving_work, write
from threadline.store.rows import json_text, source_of
from threadline.store.verbs import Group, Mode, Store, verb

IdKind: TypeAlias = Literal["chat", "user"]
# Returns the changes from and to an id: the old one, the new one, and when.
_ChangesOf: TypeAlias = Callable[[str], Sequence[Row]]
# How long, in microseconds, events may still arrive under an id that was given up.
REDIRECT_MICROSECONDS = 24 * 3600 * 1_000_000
# An id changes once or twice in its life; longer chains are made up, and cut.
_MAX_IDS = 16
_ALWAYS = Instant(1 << 62)


class FormerConversation(msgspec.Struct, frozen=True):
    """A conversation that is still stored under a former id of its chat or sender."""

    address: SessionAddress
    address_pk: int
    session_pk: int


class RedirectedSource(msgspec.Struct, frozen=True):
    """The source and address that replace those of an id which was given up less than a day ago."""

    source: SessionSource
    address: SessionAddress


class _Ids(msgspec.Struct, frozen=True):
    """All ids that one chat or person has or had, and the current one.

    `is_redirected`: the requested id was given up less than a day ago.
    """

    ids: tuple[str | None, ...]
    now: str | None
    is_redirected: bool = False


def find_under_former_id(
    tx: Tx, at: Instant, source: SessionSource, address: SessionAddress
) -> FormerConversation | RedirectedSource | None:
    """Return the conversation of an address that has none, found under another id of its chat or sender; locked.

    A `RedirectedSource`: the id of the source itself was given up less than a day ago.
    """
    if tx.find("has_moves", platform=address.platform, account=address.account) is None:
        # By far the most frequent case: a new conversation costs no further query.
        return None
    chats, senders = _all_ids(tx, address, "chat", address.chat, at), _all_ids(tx, address, "user", address.sender, at)
    is_redirected = chats.is_redirected or senders.is_redirected
    for chat, sender in product(chats.ids, senders.ids):
        other = msgspec.structs.replace(address, chat=chat, sender=sender)
        row = None if other == address else tx.find("find_address", digest=other.digest)
        if row is None or row[5] is None:
            continue
        if is_redirected:
            return RedirectedSource(_source_at(tx, source, other, at), other)
        if Ownership(row[3], row[4]) in _ownerships(source, address):
            return FormerConversation(other, row[0], row[5])
    if not is_redirected:
        return None
    other = msgspec.structs.replace(address, chat=chats.now, sender=senders.now)
    return RedirectedSource(_source_at(tx, source, other, at), other)


def find_former_holder(
    tx: Tx, at: Instant, source: SessionSource, address: SessionAddress, owned: Ownership
) -> SessionAddress | None:
    """Return the new address of a conversation whose people gave up the ids of this address more than a day ago, or `None`."""
    if tx.find("has_moves", platform=address.platform, account=address.account) is None:
        return None
    chats, senders = (
        _current_ids_of_former_holders(tx, address, "chat", address.chat, at),
        _current_ids_of_former_holders(tx, address, "user", source.sender, at),
    )
    for chat, sender in product(chats, senders):
        other = msgspec.structs.replace(address, chat=chat, sender=sender if address.sender else None)
        # A direct chat belongs to one person, whatever their name is.
        is_theirs = owned == ownership_of(_alias_named(source, chat, sender), other) or (
            address.chat_type == "dm" and chat != address.chat
        )
        if is_theirs and other != address:
            return other
    return None


def move_sessions(tx: Tx, old_pk: int, session_pk: int | None, address_pk: int) -> None:
    """Move the sessions of an address to another. `session_pk` becomes current there; the old address has no current session."""
    tx.run("unpoint_address", address_pk=old_pk)
    tx.run("rehouse_sessions", address_pk=address_pk, old_pk=old_pk)
    if session_pk is not None:
        tx.run("take_address_over", address_pk=address_pk, old_pk=old_pk, session_pk=session_pk)
    tx.run("drop_unused_address", pk=old_pk)


def current_target(tx: Tx, at: Instant, target: Target) -> Target:
    """Return the target of a delivery under the current id of its chat."""
    changes_of = _changes_of(tx, target.platform, target.account, "chat")
    later = _later_ids_if_redirected(changes_of, target.chat_id, at)
    return msgspec.structs.replace(target, chat_id=later[-1]) if later else target


def redirect_stream(tx: Tx, at: Instant, turn_pk: int) -> None:
    """Send what a turn streams to its chat's current id, in full."""
    for pk, text in tx.rows("open_streams", turn_pk=turn_pk):
        target = current_target(tx, at, msgspec.json.decode(text, type=Target))
        tx.run("retarget_delivery", pk=pk, target=json_text(target), lane=target.ordering_key)


def former_names(tx: Tx, person: str) -> list[str]:
    """Return the person's names under other ids that their platform gave them, former or later.

    A name that somebody has used long after it was given up belongs to that person alone.
    """

    def moves_of(name: str) -> Sequence[Row]:
        return tx.rows("names_of_moved", name=name)

    def is_anothers(name: str, given_up: Instant) -> bool:
        return tx.find("name_used_after", name=name, at=given_up + REDIRECT_MICROSECONDS) is not None

    given_up = _given_up_at(moves_of(person), person)
    if given_up is not None and is_anothers(person, given_up):
        given_up = None
    later = [] if given_up is None else _later_ids(moves_of, person, given_up)
    earlier = _earlier_ids(moves_of, person, _ALWAYS if given_up is None else given_up)
    names = [*reversed(later), *(name for name, until in earlier.items() if not is_anothers(name, until))]
    return [name for name in dict.fromkeys(names) if name != person]


def _all_ids(tx: Tx, address: SessionAddress, kind: IdKind, first: str | None, at: Instant) -> _Ids:
    if first is None:
        return _Ids((None,), None)
    changes_of = _changes_of(tx, address.platform, address.account, kind)
    later = _later_ids_if_redirected(changes_of, first, at)
    until = _given_up_at(changes_of(first), first) if later else None
    ids = dict.fromkeys(
        (first, *reversed(later), *_earlier_ids(changes_of, first, _ALWAYS if until is None else until))
    )
    return _Ids(tuple(ids), later[-1] if later else first, bool(later))


def _current_ids_of_former_holders(
    tx: Tx, address: SessionAddress, kind: IdKind, first: str | None, at: Instant
) -> list[str | None]:
    """Return the id itself, and the current ids of all who gave it up more than a day ago."""
    if first is None:
        return [None]
    changes_of = _changes_of(tx, address.platform, address.account, kind)
    times = [when for old, _, when in changes_of(first) if old == first and when < at - REDIRECT_MICROSECONDS]
    return [first, *(_later_ids(changes_of, first, when)[-1] for when in times)]


def _later_ids_if_redirected(changes_of: _ChangesOf, first: str, at: Instant) -> list[str]:
    """Return the later ids of an id that was given up less than a day ago; none for any other id."""
    given_up = _given_up_at(changes_of(first), first)
    return [] if given_up is None or given_up < at - REDIRECT_MICROSECONDS else _later_ids(changes_of, first, given_up)


def _given_up_at(rows: Sequence[Row], first: str) -> Instant | None:
    """Return when an id was given up last; `None` if it was given to somebody since."""
    given_up: Instant | None = max((at for old, _, at in rows if old == first), default=None)
    got = max((at for _, new, at in rows if new == first), default=0)
    return given_up if given_up is not None and given_up > got else None


def _later_ids(changes_of: _ChangesOf, first: str, since: Instant) -> list[str]:
    """Return the ids that the holder of `first`, who gave it up at `since`, has had since then, the newest last."""
    ids: list[str] = []
    current = first
    while len(ids) < _MAX_IDS:
        following = min(
            ((at, new) for old, new, at in changes_of(current) if old == current and at >= since), default=None
        )
        if following is None:
            break
        since, current = following
        ids.append(current)
    return ids


def _earlier_ids(changes_of: _ChangesOf, first: str, until: Instant) -> dict[str, Instant]:
    """Return the former ids of the holder of `first` at `until`, the nearest first, each with the time when it was given up."""
    ids: dict[str, Instant] = {}
    to_visit = [(first, until)]
    while to_visit and len(ids) < _MAX_IDS:
        current, until = to_visit.pop(0)
        rows = changes_of(current)
        # Before that, the id belonged to another.
        since = max((at for old, _, at in rows if old == current and at < until), default=0)
        steps = [(old, at) for old, new, at in rows if new == current and since <= at <= until and old not in ids]
        ids.update(steps)
        to_visit += steps
    ids.pop(first, None)
    return ids


def _changes_of(tx: Tx, platform: str, account: str, kind: IdKind) -> _ChangesOf:
    return lambda one: tx.rows("moves_of", platform=platform, account=account, what=kind, id=one)


def _ownerships(source: SessionSource, address: SessionAddress) -> tuple[Ownership, Ownership]:
    """Return the possible owners of a conversation at the address. Senders without an id were known by their direct chat."""
    return ownership_of(source, address), ownership_of(_alias_named(source, source.chat_id, None), address)


def _source_at(tx: Tx, source: SessionSource, other: SessionAddress, at: Instant) -> SessionSource:
    """Return the source as it would be at the other address. The address of a direct chat does not name the sender."""
    sender = other.sender or _all_ids(tx, other, "user", source.sender, at).now
    return _alias_named(source, other.chat or source.chat_id, sender)


def _alias_named(source: SessionSource, chat: str | None, sender: str | None) -> SessionSource:
    if chat != source.chat_id:
        source = msgspec.structs.replace(source, chat_id=chat)
    return source if sender == source.sender else msgspec.structs.replace(source, user_id=sender, user_id_alt=None)


_UNINDEX_STEP = 500
_NO_LIMIT = 1 << 40
# The queries that move the rows of a person to another name.
PERSON_UPDATES = (
    "move_owner_of_addresses",
    "move_owner_of_sessions",
    "move_author",
    "copy_possible_author",
    "move_usage",
    "move_inbox",
    "move_turns",
    "move_deliveries",
    "move_decisions",
    "move_homes_of",
    "copy_speaker",
    "copy_preferences",
    "move_pairing",
    "move_moves",
    "copy_file_names",
)


def apply(tx: Tx, at: Instant, event: IdChange) -> bool:
    """Rename all rows of a chat or person to the new id, once; return False if that was done before.

    Takes as long as there are messages to be indexed anew: those of the chat, or of the person. Where the new id has a conversation
    of its own already, that one goes on; the other can be resumed.
    """
    old, new = (qualified_id(event.platform, event.account, former_id) for former_id in (event.old_id, event.new_id))
    person = new if event.what == "user" else _whose_chat(tx, event)
    if not _record_event(tx, at, event, person):
        return False
    ids = {"platform": event.platform, "account": event.account, "old_id": event.old_id, "new_id": event.new_id}
    tx.run(
        "add_move", what=event.what, old_name=old, new_name=new, person=person, at=_change_time(tx, event, at), **ids
    )
    if event.what == "user":
        _move_person(tx, old, new)
    else:
        _move_chat(tx, event, old, new)
        # A sender without an id is known by their direct chat.
        _move_person(tx, *(_person_in(event, chat) for chat in (event.old_id, event.new_id)))
    _readdress(tx, event, new)
    return True


def renamed_source(source: SessionSource, event: IdChange) -> SessionSource:
    """Return the source with the new id; the same object where the change is about others."""
    if (source.platform, source.account) != (event.platform, event.account):
        return source
    fields = ("chat_id", "chat_id_alt") if event.what == "chat" else ("user_id", "user_id_alt")
    changes = {field: event.new_id for field in fields if getattr(source, field) == event.old_id}
    return msgspec.structs.replace(source, **changes) if changes else source


def _whose_chat(tx: Tx, event: IdChange) -> str | None:
    """Return the person whose direct chat has a new id: its origins name them."""
    for _, text in tx.rows("origins_with", pattern=_pattern(event.old_id)):
        source = source_of(text)
        if source.chat_type == "dm" and (renamed := renamed_source(source, event)) is not source:
            return person_of(renamed)
    return None


def _record_event(tx: Tx, at: Instant, event: IdChange, person: str | None) -> bool:
    event_left = {"kind": "moved", "raw": f"{event.what} {event.old_id} is {event.new_id}"}
    row = tx.find(
        "add_inbound",
        platform=event.platform,
        account=event.account,
        dedupe_key=event.dedupe_key,
        session_pk=None,
        lane="talk",
        event=json_text(event_left),
        person=person,
        role="group",
        at=at,
        fate="merged",
        fate_at=at,
        note="the platform gave it another id",
    )
    return row is not None


def _change_time(tx: Tx, event: IdChange, at: Instant) -> Instant:
    """Return the time to record, always after earlier changes of the same ids: their order must survive a clock that goes back."""
    scope = {"platform": event.platform, "account": event.account, "what": event.what}
    rows = [row for known_id in (event.old_id, event.new_id) for row in tx.rows("moves_of", id=known_id, **scope)]
    return Instant(max([at, *(before + 1 for _, _, before in rows)]))


def _move_person(tx: Tx, old: str, new: str) -> None:
    logs = tx.rows("logs_of_person", person=old)
    for step in PERSON_UPDATES:
        tx.run(step, old=old, new=new)
    _move_role(tx, old, new)
    for query in ("drop_person", "drop_pairing_of", "drop_preferences", "drop_speaker", "drop_file_names_of"):
        tx.run(query, person=old)
    tx.run("forget_possible_author", author=old)
    _move_token(tx, filter_token("o", old), filter_token("o", new))
    _index_anew(tx, logs)


def _move_role(tx: Tx, old: str, new: str) -> None:
    """Give the new name the highest role of both names: it is one person."""
    before, now = tx.find("find_person", person=old), tx.find("find_role", person=new)
    if before is not None:
        role, name, since = before
        tx.run("keep_person", person=new, role=highest_role((role, *(now or ()))), name=name, at=since)


def _move_chat(tx: Tx, event: IdChange, old: str, new: str) -> None:
    logs = tx.rows("logs_of_chat", chat=old)
    for step in ("move_chat_of_addresses", "move_chat_of_sessions"):
        tx.run(step, old=old, new=new)
    account = {"platform": event.platform, "account": event.account}
    tx.run("move_home", old_id=event.old_id, new_id=event.new_id, **account)
    for pk, text in tx.rows("deliveries_with", pattern=_pattern(event.old_id), **account):
        if (target := _renamed_target(text, event)) is not None:
            tx.run("retarget_delivery", pk=pk, target=json_text(target), lane=target.ordering_key)
    for pk, text in tx.rows("pairings_with", pattern=_pattern(event.old_id)):
        if (target := _renamed_target(text, event)) is not None:
            tx.run("set_pairing_target", pk=pk, target=json_text(target))
    _move_token(tx, filter_token("c", old), filter_token("c", new))
    _index_anew(tx, logs)


def _readdress(tx: Tx, event: IdChange, new: str) -> None:
    """Rename the origins of sessions, turns and pending messages: replies go to the current id of their chat."""
    pattern = _pattern(event.old_id)
    for pk, text in tx.rows("origins_with", pattern=pattern):
        if (renamed := _renamed_origin(text, event)) is not None:
            tx.run("set_origin", origin=renamed, session_pk=pk)
    if event.what == "user":
        turns = tx.rows("turns_answering", person=new, after=0, limit=_NO_LIMIT)
    else:
        turns = tx.rows("turn_origins_with", pattern=pattern)
    for pk, text in turns:
        if (renamed := _renamed_origin(text, event)) is not None:
            tx.run("set_turn_origin", origin=renamed, turn_pk=pk)
    for name in ("pending_anywhere", "taken_anywhere"):
        for row in tx.rows(name, pattern=pattern):
            event_before = rows.decode_event(row[2])
            if (source := renamed_source(event_before.source, event)) is not event_before.source:
                renamed_event = msgspec.structs.replace(event_before, source=source)
                tx.run("readdress_inbound", pk=row[0], event=json_text(renamed_event))


def _renamed_origin(text: str, event: IdChange) -> str | None:
    source = source_of(text)
    renamed = renamed_source(source, event)
    return None if renamed is source else json_text(renamed)


def _renamed_target(text: str, event: IdChange) -> Target | None:
    target = _read_target(text)
    if (target.platform, target.account, target.chat_id) != (event.platform, event.account, event.old_id):
        return None
    return msgspec.structs.replace(target, chat_id=event.new_id)


def _move_token(tx: Tx, old: str, new: str) -> None:
    """Replace a filter token of deleted logs, by which search finds messages that forks still show."""
    tx.run("move_deleted_logs", old=old, new=new, pattern=f"% {old} %")


def _index_anew(tx: Tx, logs: Sequence[Row]) -> None:
    """Drop the index entries of these logs, which name their owners; the background worker indexes them again."""
    for (log,) in logs:
        if not tx.run("advance_index", seq=0, session_pk=log):
            # Deleted: no indexer would index again what forks show of it.
            continue
        tx.run_many("mark_unindexed", [(log,)])
        numbers = tx.rows("numbers_in_log", lo=message_number(log, 0), hi=message_number(log, MAX_SEQ), limit=_NO_LIMIT)
        for start in range(0, len(numbers), _UNINDEX_STEP):
            tx.unindex([number for (number,) in numbers[start : start + _UNINDEX_STEP]])


def _person_in(event: IdChange, chat: str) -> str:
    alone = SessionSource(platform=event.platform, account=event.account, chat_id=chat)
    return str(person_of(alone))


def _pattern(old_id: str) -> str:
    """Return a LIKE pattern for JSON that holds the id; a match may still be about others."""
    quoted = json_text(old_id)
    for sign in "!%_":
        quoted = quoted.replace(sign, f"!{sign}")
    return f"%:{quoted}%"


_read_target = rows.json_reader(Target)


class IdChanges(Group[Mode]):
    """Changes of the ids of chats and people."""

    @verb
    def apply(store: Store[Any], event: IdChange) -> Step[bool]:
        """Continue a chat or a person under another id; return False if that was done before."""
        return leaving_work(write(apply, store.now(), event))

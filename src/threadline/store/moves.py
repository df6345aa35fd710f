"""A platform gives a chat or a person another id: the conversation, and all that is known of its people, goes on under that one.

What stands under the name of a chat or a person is moved at once. An address is a digest, which nobody can take apart: it follows
(`aliases`) when the first message under the new id finds no conversation. So the usual message costs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadline.clock import Instant
from threadline.model.access import highest
from threadline.model.address import scoped_id
from threadline.model.delivery import Target
from threadline.model.inbound import Moved
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.model.view import MAX_SEQ, message_number
from threadline.store import inbox
from threadline.store.engine.database import Row, Tx
from threadline.store.indexing import filter_token
from threadline.store.rows import json_text, source_of

_UNINDEXED_AT_ONCE = 500
_ALL = 1 << 40

# What stands under a person's name, each with how it comes under another.
OF_PERSON = (
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


def move(tx: Tx, event: Moved, *, at: Instant) -> bool:
    """Carries a move out, once; False if it was done before.

    Takes as long as there are messages to be indexed anew: those of the chat, or of the person. Where the new id has a conversation
    of its own already, that one goes on; the other can be resumed.
    """
    old, new = (scoped_id(event.platform, event.account, one) for one in (event.old_id, event.new_id))
    person = new if event.what == "user" else _whose_chat(tx, event)
    if not _note(tx, event, person, at=at):
        return False
    ids = {"platform": event.platform, "account": event.account, "old_id": event.old_id, "new_id": event.new_id}
    tx.run("add_move", what=event.what, old_name=old, new_name=new, person=person, at=_told_at(tx, event, at), **ids)
    if event.what == "user":
        _move_person(tx, old, new)
    else:
        _move_chat(tx, event, old, new)
        # Who does not say who they are is known by the direct chat that they write in.
        _move_person(tx, *(_person_in(event, chat) for chat in (event.old_id, event.new_id)))
    _readdress(tx, event, new)
    return True


def moved_source(source: SessionSource, event: Moved) -> SessionSource:
    """The source as its platform would name it now; the same one where it is about others."""
    if (source.platform, source.account) != (event.platform, event.account):
        return source
    fields = ("chat_id", "chat_id_alt") if event.what == "chat" else ("user_id", "user_id_alt")
    changes = {field: event.new_id for field in fields if getattr(source, field) == event.old_id}
    return msgspec.structs.replace(source, **changes) if changes else source


def _whose_chat(tx: Tx, event: Moved) -> str | None:
    """The person whose direct chat has moved: its ids tell of them."""
    for _, text in tx.rows("origins_with", pattern=_pattern(event.old_id)):
        source = source_of(text)
        if source.chat_type == "dm" and (moved := moved_source(source, event)) is not source:
            return person_of(moved)
    return None


def _note(tx: Tx, event: Moved, person: str | None, *, at: Instant) -> bool:
    told = {"kind": "moved", "raw": f"{event.what} {event.old_id} is {event.new_id}"}
    row = tx.find(
        "add_inbound",
        platform=event.platform,
        account=event.account,
        dedupe_key=event.dedupe_key,
        session_pk=None,
        lane="talk",
        event=json_text(told),
        person=person,
        role="group",
        at=at,
        fate="merged",
        fate_at=at,
        note="the platform gave it another id",
    )
    return row is not None


def _told_at(tx: Tx, event: Moved, at: Instant) -> Instant:
    """When it was, always after earlier moves of the same ids: which came first must not depend on a clock that goes back."""
    place = {"platform": event.platform, "account": event.account, "what": event.what}
    rows = [row for one in (event.old_id, event.new_id) for row in tx.rows("moves_of", id=one, **place)]
    return Instant(max([at, *(before + 1 for _, _, before in rows)]))


def _move_person(tx: Tx, old: str, new: str) -> None:
    logs = tx.rows("logs_of_person", person=old)
    for step in OF_PERSON:
        tx.run(step, old=old, new=new)
    _move_role(tx, old, new)
    for left in ("drop_person", "drop_pairing_of", "drop_preferences", "drop_speaker", "drop_file_names_of"):
        tx.run(left, person=old)
    tx.run("forget_possible_author", author=old)
    _move_token(tx, filter_token("o", old), filter_token("o", new))
    _index_anew(tx, logs)


def _move_role(tx: Tx, old: str, new: str) -> None:
    """It is one person, who may do what they may under either name."""
    before, now = tx.find("find_person", person=old), tx.find("find_role", person=new)
    if before is not None:
        role, name, since = before
        tx.run("keep_person", person=new, role=highest((role, *(now or ()))), name=name, at=since)


def _move_chat(tx: Tx, event: Moved, old: str, new: str) -> None:
    logs = tx.rows("logs_of_chat", chat=old)
    for step in ("move_chat_of_addresses", "move_chat_of_sessions"):
        tx.run(step, old=old, new=new)
    place = {"platform": event.platform, "account": event.account}
    tx.run("move_home", old_id=event.old_id, new_id=event.new_id, **place)
    for pk, text in tx.rows("deliveries_with", pattern=_pattern(event.old_id), **place):
        if (target := _moved_target(text, event)) is not None:
            tx.run("retarget_delivery", pk=pk, target=json_text(target), lane=target.lane)
    for pk, text in tx.rows("pairings_with", pattern=_pattern(event.old_id)):
        if (target := _moved_target(text, event)) is not None:
            tx.run("set_pairing_target", pk=pk, target=json_text(target))
    _move_token(tx, filter_token("c", old), filter_token("c", new))
    _index_anew(tx, logs)


def _readdress(tx: Tx, event: Moved, new: str) -> None:
    """Whatever waits, runs or may go on is answered where its people are now, and is theirs under the name that they have now."""
    pattern = _pattern(event.old_id)
    for pk, text in tx.rows("origins_with", pattern=pattern):
        if (moved := _moved_origin(text, event)) is not None:
            tx.run("set_origin", origin=moved, session_pk=pk)
    if event.what == "user":
        turns = tx.rows("turns_answering", person=new, after=0, limit=_ALL)
    else:
        turns = tx.rows("turn_origins_with", pattern=pattern)
    for pk, text in turns:
        if (moved := _moved_origin(text, event)) is not None:
            tx.run("set_turn_origin", origin=moved, turn_pk=pk)
    for name in ("waiting_under", "taken_under"):
        for row in tx.rows(name, pattern=pattern):
            heard = inbox.decode_event(row[2])
            if (source := moved_source(heard.source, event)) is not heard.source:
                told = msgspec.structs.replace(heard, source=source)
                tx.run("readdress_inbound", pk=row[0], event=json_text(told))


def _moved_origin(text: str, event: Moved) -> str | None:
    source = source_of(text)
    moved = moved_source(source, event)
    return None if moved is source else json_text(moved)


def _moved_target(text: str, event: Moved) -> Target | None:
    target = _read_target(text)
    if (target.platform, target.account, target.chat_id) != (event.platform, event.account, event.old_id):
        return None
    return msgspec.structs.replace(target, chat_id=event.new_id)


def _move_token(tx: Tx, old: str, new: str) -> None:
    """What forks still show of deleted sessions is found by the tokens that were kept of them."""
    tx.run("move_deleted_logs", old=old, new=new, pattern=f"% {old} %")


def _index_anew(tx: Tx, logs: Sequence[Row]) -> None:
    """What search knows of these logs says whose they were. It is told anew, behind the writes."""
    for (log,) in logs:
        if not tx.run("advance_index", seq=0, session_pk=log):
            # Deleted: nobody would index again what forks show of it.
            continue
        tx.run_many("mark_unindexed", [(log,)])
        numbers = tx.rows("numbers_in_log", lo=message_number(log, 0), hi=message_number(log, MAX_SEQ), limit=_ALL)
        for start in range(0, len(numbers), _UNINDEXED_AT_ONCE):
            tx.unindex([number for (number,) in numbers[start : start + _UNINDEXED_AT_ONCE]])


def _person_in(event: Moved, chat: str) -> str:
    alone = SessionSource(platform=event.platform, account=event.account, chat_id=chat)
    return str(person_of(alone))


def _pattern(old_id: str) -> str:
    """Finds JSON that holds the id without reading each: what it finds may still be about others."""
    quoted = json_text(old_id)
    for sign in "!%_":
        quoted = quoted.replace(sign, f"!{sign}")
    return f"%:{quoted}%"


_read_target = inbox.reader(Target)

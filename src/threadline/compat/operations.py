"""Operations that the original's calls come to where our own verbs differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from threadline.clock import Instant
from threadline.model.message import Body, EncodedMessage, Message, decode_body
from threadline.model.view import MAX_SEQ, message_number, seq_of
from threadline.store.conversations import adoptions, transcripts, views
from threadline.store.conversations.adoptions import MATCHED_MESSAGES_KEY, MatchedMessages
from threadline.store.conversations.transcripts import AppendRequest
from threadline.store.engine.database import Tx
from threadline.store.rows import StoredSession, json_text, session_of

# Of very many messages that no call was for yet, a call is compared with so many of the first and of the last.
_WINDOW = 1_000
_COMPARED = ("role", "content", "tool_calls", "tool_call_id")


def append(tx: Tx, at: Instant, session_id: str, message: EncodedMessage, *, is_stored: bool) -> bool:
    """Append a message; whether that could be done: not where the session is unknown or its old transcript is still to be taken in.

    `is_stored`: the agent says that it stored this message already. A stored message that the session shows answers for one
    such call.
    """
    row = tx.find("find_session", session_id=session_id)
    if row is None or adoptions.adoption_state(tx, session_id) == adoptions.TRANSCRIPT_PENDING:
        return False
    request = AppendRequest(session_id, [message], at)
    if not is_stored:
        transcripts.append(tx, request)
    else:
        _append_unless_stored(tx, session_of(row), request)
    return True


def _append_unless_stored(tx: Tx, session: StoredSession, request: AppendRequest) -> None:
    row = tx.find("load_state", session_pk=session.pk, agent=MATCHED_MESSAGES_KEY)
    matches = MatchedMessages() if row is None else msgspec.json.decode(row[0], type=MatchedMessages)
    wanted, own = _compared(decode_body(request.messages[0].body)), frozenset(matches.own)
    shown = views.load(tx, session.pk, session.view_version).shown
    for number, body in _stored_since(tx, session, matches.upto):
        is_free = seq_of(number) not in own and any(span.lo <= number <= span.hi for span in shown)
        if is_free and _compared(decode_body(body)) == wanted:
            matches.upto = seq_of(number)
            break
    else:
        matches.own.append(transcripts.append(tx, request).first_seq)
    matches.upto = max([matches.upto, *matches.own[:-_WINDOW]])
    matches.own = [seq for seq in matches.own if seq > matches.upto]
    while matches.upto + 1 in matches.own:
        matches.upto += 1
        matches.own.remove(matches.upto)
    tx.run("save_state", session_pk=session.pk, agent=MATCHED_MESSAGES_KEY, text=json_text(matches))


def _stored_since(tx: Tx, session: StoredSession, upto: int) -> Iterator[tuple[int, Body]]:
    for before in (upto, max(upto + _WINDOW, session.last_seq - _WINDOW)):
        lo, hi = message_number(session.pk, before + 1), message_number(session.pk, MAX_SEQ)
        yield from ((row[0], row[-1]) for row in tx.rows("load_log", lo=lo, hi=hi, limit=_WINDOW))


def _compared(message: Message) -> tuple[Any, ...]:
    """What makes two messages the same: callers add times and the like to what the agent stored. Nothing and "" are alike."""
    return tuple(message.get(name) or None for name in _COMPARED)

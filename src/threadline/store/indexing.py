"""The search index follows the logs: a step at a time, behind the writes.

How far it has come is one number a session, compared with the session's last message. That is safe on both engines because
places in a log are taken under the session's lock; a mark over all messages would pass over those that commit late.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from threadline.model.message import decode_body, searchable_text
from threadline.model.view import MAX_SEQ, message_number
from threadline.store.engine.database import Tx, find_locked
from threadline.store.text import Document, tokenise

INDEX_STEP = 256
# Of what is stored, so that a step is short whatever it says: a server takes who is silent for seconds in a transaction for dead,
# and appends wait for the sessions that are being indexed.
STEP_BYTES = 500_000
# Every message has a role and a platform: the usual ones are shorter than a hash. Part of what is stored, so never changed.
_SHORT = {
    "r": {"user": "ru", "assistant": "ra", "tool": "rt", "system": "rs"},
    "p": {
        "local": "pl",
        "telegram": "pt",
        "discord": "pd",
        "slack": "pk",
        "whatsapp": "pw",
        "signal": "ps",
        "matrix": "pm",
        "email": "pe",
        "web": "pb",
        "acp": "pa",
    },
}


def index_some(tx: Tx, limit: int = INDEX_STEP) -> int:
    """Brings the index nearer to the logs by at most `limit` messages, fewer long ones; how many. 0: it is level with them."""
    done, left = 0, STEP_BYTES
    # Asked again while nothing is done: another indexer may just have finished all that we were told of, and not the rest.
    while not done and (waiting := tx.rows("unindexed_sessions", limit=limit)):
        for (session_pk,) in waiting:
            messages, size = _index(tx, session_pk, limit - done, left)
            done, left = done + messages, left - size
            if done >= limit or left <= 0:
                break
    return done


def behind(tx: Tx, sessions: int = 1 << 40) -> int:
    """How many messages the index does not know yet, counting at most so many sessions."""
    row = tx.find("count_unindexed", sessions=sessions)
    return 0 if row is None else int(row[0])


def document_of(number: int, role: str, author: str | None, body: str, scope: Sequence[str]) -> Document:
    """What the index is told of a message."""
    own = [*scope, filter_token("r", role)]
    if author is not None:
        own.append(filter_token("a", author))
    return Document(number, tokenise(searchable_text(decode_body(body))), tuple(own))


def filter_token(kind: str, value: str) -> str:
    """A token that filters look for: letters and digits only, whatever the value holds, and short: every message has some."""
    if short := _SHORT.get(kind, {}).get(value):
        return short
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return kind + base64.b32encode(digest).decode().lower()


def scope_of(session_pk: int, owner: str | None, platform: str, chat: str | None) -> list[str]:
    """The filter tokens that all messages of a session carry."""
    scope = [f"s{session_pk}", filter_token("p", platform)]
    if owner is not None:
        scope.append(filter_token("o", owner))
    if chat is not None:
        scope.append(filter_token("c", chat))
    return scope


def index_session(tx: Tx, session_pk: int) -> int:
    """Brings the index nearer to one session's log; by how many messages. 0: it is level with it."""
    return _index(tx, session_pk, INDEX_STEP, STEP_BYTES)[0]


def _index(tx: Tx, session_pk: int, limit: int, most: int) -> tuple[int, int]:
    """Takes in messages of one session, at most `limit`, and no more of them once they come to `most` bytes; how many of both."""
    state = find_locked(tx, "lock_index_state", session_pk=session_pk)
    if state is None:
        tx.run("drop_unindexed", session_pk=session_pk)
        return 0, 0
    indexed_seq, last_seq, owner, platform, chat = state
    lo, hi = message_number(session_pk, indexed_seq + 1), message_number(session_pk, MAX_SEQ)
    rows = tx.rows("load_stretch", lo=lo, hi=hi, limit=limit, most=most)
    scope = scope_of(session_pk, owner, platform, chat)
    documents = [
        document_of(number, role, author, body, scope)
        for number, role, _, author, redacted_at, body in rows
        if redacted_at is None
    ]
    tx.index_documents([document for document in documents if document.tokens])
    reached = indexed_seq + len(rows)
    tx.run("advance_index", seq=reached, session_pk=session_pk)
    if reached >= last_seq:
        tx.run("drop_unindexed", session_pk=session_pk)
    return len(rows), sum(len(row[5].encode()) for row in rows)

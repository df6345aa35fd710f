"""The search index and the order of listings, updated after the writes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from threadline.clock import Instant, to_instant
from threadline.model.message import decode_body, searchable_text
from threadline.model.ownership import Viewer
from threadline.model.session import SessionEntry
from threadline.model.view import MAX_SEQ, message_number
from threadline.store.engine.database import Row, Tx, find_after_lock
from threadline.store.rows import (
    END,
    Page,
    StoredSession,
    T,
    check_limit,
    decode_cursor,
    encode_cursor,
    entry_of,
    session_of,
)
from threadline.store.text import Document, tokenise

INDEX_STEP = 256
# The bytes of a step, so that it is short whatever the messages say: a server ends transactions that are idle for seconds,
# and appends wait for the sessions that are being indexed.
STEP_BYTES = 500_000
# Every message has a role and a platform: the usual ones are shorter than a hash. They are stored, so never change them.
_SHORT_TOKENS = {
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


def index_batch(tx: Tx, limit: int = INDEX_STEP) -> int:
    """Index at most `limit` messages, fewer long ones; return how many. 0: the index is complete."""
    done, bytes_left = 0, STEP_BYTES
    # Read again while nothing is done: another indexer may just have finished all these sessions, but not the rest.
    while not done and (pending := tx.rows("unindexed_sessions", limit=limit)):
        for (session_pk,) in pending:
            messages, size = _index(tx, session_pk, limit - done, bytes_left)
            done, bytes_left = done + messages, bytes_left - size
            if done >= limit or bytes_left <= 0:
                break
    return done


def count_unindexed(tx: Tx, sessions: int = 1 << 40) -> int:
    """Return how many messages are not indexed yet, counting at most so many sessions."""
    row = tx.find("count_unindexed", sessions=sessions)
    return 0 if row is None else int(row[0])


def document_of(number: int, role: str, author: str | None, body: str, scope: Sequence[str]) -> Document:
    """Return the index entry of a message."""
    own = [*scope, filter_token("r", role)]
    if author is not None:
        own.append(filter_token("a", author))
    return Document(number, tokenise(searchable_text(decode_body(body))), tuple(own))


def filter_token(kind: str, value: str) -> str:
    """Return a token for filters: letters and digits only, whatever the value holds, and short, because every message has some."""
    if short := _SHORT_TOKENS.get(kind, {}).get(value):
        return short
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return kind + base64.b32encode(digest).decode().lower()


def filter_tokens_of(session_pk: int, owner: str | None, platform: str, chat: str | None) -> list[str]:
    """Return the filter tokens that all messages of a session carry."""
    scope = [f"s{session_pk}", filter_token("p", platform)]
    if owner is not None:
        scope.append(filter_token("o", owner))
    if chat is not None:
        scope.append(filter_token("c", chat))
    return scope


def index_session(tx: Tx, session_pk: int) -> int:
    """Index some messages of one session's log; return how many. 0: its index is complete."""
    return _index(tx, session_pk, INDEX_STEP, STEP_BYTES)[0]


def _index(tx: Tx, session_pk: int, limit: int, max_bytes: int) -> tuple[int, int]:
    """Index at most `limit` messages of one session, and stop once they come to `max_bytes`; return the count and the bytes."""
    state = find_after_lock(tx, "lock_index_state", session_pk=session_pk)
    if state is None:
        tx.run("drop_unindexed", session_pk=session_pk)
        return 0, 0
    indexed_seq, last_seq, owner, platform, chat = state
    lo, hi = message_number(session_pk, indexed_seq + 1), message_number(session_pk, MAX_SEQ)
    rows = tx.rows("load_stretch", lo=lo, hi=hi, limit=limit, most=max_bytes)
    scope = filter_tokens_of(session_pk, owner, platform, chat)
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


# So few sessions in one step that no writer waits long.
RELIST_STEP = 256


class ListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions a page lists. `cwd` is for a viewer who sees all: only sessions in that folder."""

    include_ended: bool = False
    active_since: Instant = Instant(-END)
    viewer: Viewer | None = None
    platform: str | None = None
    cwd: str | None = None
    limit: int = 50
    cursor: str | None = None


def list_sessions(tx: Tx, request: ListRequest) -> Page[SessionEntry]:
    """Return a page of sessions, the most recently updated first."""
    return _page(tx, request, entry_of)


def list_stored_sessions(tx: Tx, request: ListRequest) -> Page[StoredSession]:
    """Return a page of sessions with the numbers behind each, the most recently updated first."""
    return _page(tx, request, session_of)


def relist_batch(tx: Tx, limit: int = RELIST_STEP) -> int:
    """Update the positions of changed sessions in the list indexes; return how many. 0: all are up to date."""
    changed = tx.rows("moved_sessions", limit=limit)
    for (session_pk,) in changed:
        tx.run("relist_session", session_pk=session_pk)
    return len(changed)


def _page(tx: Tx, request: ListRequest, decode: Callable[[Row], T]) -> Page[T]:
    check_limit(request.limit)
    before_at, before_pk = decode_cursor("s", request.cursor, 2) if request.cursor else (END, END)
    common: dict[str, Any] = {
        "before_at": before_at,
        "before_pk": before_pk,
        "since": request.active_since,
        "limit": request.limit + 1,
    }
    rows = _rows(tx, request, common)[: request.limit + 1]
    entries = [decode(row) for row in rows[: request.limit]]
    if len(rows) <= request.limit:
        return Page(entries)
    last = session_of(rows[request.limit - 1])
    return Page(entries, encode_cursor("s", to_instant(last.entry.updated_at), last.pk))


def _rows(tx: Tx, request: ListRequest, common: dict[str, Any]) -> list[Row]:
    ended = int(request.include_ended)
    viewer = request.viewer
    if viewer is not None and viewer.chat is not None:
        filters = {"chat": viewer.chat, "owner": viewer.person, "platform": request.platform}
        return tx.rows("list_of_chat", ended=ended, **filters, **common)
    if viewer is not None:
        return tx.rows("list_of_owner", ended=ended, owner=viewer.person, platform=request.platform, **common)
    return _rows_of_platforms(tx, request, common)


def _rows_of_platforms(tx: Tx, request: ListRequest, common: dict[str, Any]) -> list[Row]:
    """Return the sessions of all people on a platform, or on each: the index keeps platforms and ended sessions apart."""
    rows: list[Row] = []
    for platform in platforms(tx, request.platform):
        for ended in (0, 1) if request.include_ended else (0,):
            if request.cwd is None:
                rows += tx.rows("list_of_platform", platform=platform, ended=ended, **common)
            else:
                rows += tx.rows("list_of_cwd", platform=platform, cwd=request.cwd, ended=ended, **common)
    # Each part is in order; the page is their merge.
    rows.sort(key=lambda row: (row[3], row[30]), reverse=True)
    return rows


def platforms(tx: Tx, only: str | None) -> list[str]:
    """Return the platforms that have sessions, or only the given one."""
    return [platform for (platform,) in tx.rows("platforms")] if only is None else [only]

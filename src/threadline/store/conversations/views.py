"""View versions of a session, and the authors of rewritten messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from threadline.clock import Instant
from threadline.errors import InvalidRequest, NothingToRedo, NothingToUndo
from threadline.model.message import EncodedMessage
from threadline.model.view import (
    MAX_SEQ,
    Span,
    View,
    cut_before,
    log_of,
    merge_spans,
    message_number,
    rewritten_view,
    spans_of,
)
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import StoredSession, json_text

NO_LIMIT = 2**62
_PAGE = 200
# Each undo keeps the view before it; beyond this many in a row the earliest can no longer be redone.
MAX_REDO = 100


def load(tx: Tx, session_pk: int, version: int) -> View:
    """Return a version of a session's view."""
    spans: tuple[list[Span], list[Span]] = ([], [])
    for folded, _, lo, hi in tx.rows("load_spans", session_pk=session_pk, version=version):
        spans[folded].append(Span(lo, hi))
    return View(tuple(spans[0]), tuple(spans[1]))


def save_spans(tx: Tx, session_pk: int, version: int, view: View) -> None:
    """Store the spans of a version of a session's view."""
    shown = [(session_pk, version, 0, place, s.lo, s.hi) for place, s in enumerate(view.shown)]
    folded = [(session_pk, version, 1, place, s.lo, s.hi) for place, s in enumerate(view.folded)]
    tx.run_many("add_spans", [*shown, *folded])


def undo(tx: Tx, at: Instant, session: StoredSession, n: int) -> None:
    """Remove the last `n` exchanges from the view, or all if there are fewer; raise `NothingToUndo` where there is none."""
    if n < 1:
        raise InvalidRequest("undo takes back at least one exchange")
    cut = _start_of_exchange(tx, session, n)
    if cut is None:
        raise NothingToUndo
    _cut(tx, at, session, cut)


def redo(tx: Tx, at: Instant, session: StoredSession) -> None:
    """Revert the last undo. Raise `NothingToRedo` where a message was appended or the view changed since."""
    if not session.redo or session.redo_seq != session.last_seq:
        raise NothingToRedo
    *earlier, version = session.redo
    view = load(tx, session.pk, version)
    _switch_version(tx, session, version, tuple(earlier), session.last_seq)
    tx.run("count_view", message_count=own_count(view, session.pk, session.last_seq), at=at, session_pk=session.pk)
    tx.run("drop_view", session_pk=session.pk, version=session.view_version)


def cut_for_retry(tx: Tx, at: Instant, session: StoredSession) -> None:
    """Cut the view after the last user message, so that the agent can answer it again."""
    after: int | None = None
    for _, number, role in roles(tx, session):
        if role == "user":
            break
        after = number
    else:
        raise NothingToUndo("there is no message to answer again")
    if after is None:
        return
    _cut(tx, at, session, after)


def rewrite(tx: Tx, at: Instant, session: StoredSession, shown: list[Row], ends: tuple[int, int], added: int) -> None:
    """Show the first `kept[0]` rows of `shown`, the `added` messages last appended, then the last `kept[1]` of `shown`."""
    head, tail = ends
    numbers = [row[1] for row in shown]
    fresh = [message_number(session.pk, session.last_seq + i + 1) for i in range(added)]
    order = [*numbers[:head], *fresh, *numbers[len(numbers) - tail :]]
    view = load(tx, session.pk, session.view_version)
    advanced = msgspec.structs.replace(session, last_seq=session.last_seq + added)
    new = rewritten_view(view, spans_of(order), log=session.pk, last_seq=advanced.last_seq)
    add_version(tx, at, advanced, new, redo=())


def add_version(tx: Tx, at: Instant, session: StoredSession, view: View, *, redo: tuple[int, ...]) -> None:
    """Make `view` the session's, as a new version; delete versions that redo can't return to."""
    versions = {row[0] for row in tx.rows("span_versions", session_pk=session.pk)}
    version = max(versions) + 1
    save_spans(tx, session.pk, version, view)
    _switch_version(tx, session, version, redo, session.last_seq)
    for old in versions - set(redo):
        tx.run("drop_view", session_pk=session.pk, version=old)
    tx.run("count_view", message_count=own_count(view, session.pk, session.last_seq), at=at, session_pk=session.pk)


def own_count(view: View, log: int, last_seq: int) -> int:
    """Return how many messages of its own log a view shows."""
    tip = message_number(log, last_seq)
    own = (s for s in view.shown if log_of(s.lo) == log and s.lo <= tip)
    return sum(min(s.hi, tip) - s.lo + 1 for s in own)


def last_rows(tx: Tx, session: StoredSession, limit: int) -> list[Row]:
    """Return the last `limit` messages of the view, oldest first."""
    rows = tx.rows(
        "load_view",
        session_pk=session.pk,
        version=session.view_version,
        before_place=NO_LIMIT,
        before_number=NO_LIMIT,
        limit=limit,
    )
    return rows[::-1]


def common_prefix_and_suffix(shown: list[Row], replacement: list[EncodedMessage]) -> tuple[int, int]:
    """Return how many messages at the start and at the end are equal, to the letter, before and after a rewrite."""
    bodies = [row[6] for row in shown]
    texts = [message.body for message in replacement]
    limit = min(len(bodies), len(texts))
    head = next((i for i in range(limit) if bodies[i] != texts[i]), limit)
    rest = limit - head
    tail = next((i for i in range(rest) if bodies[-1 - i] != texts[-1 - i]), rest)
    return head, tail


def _cut(tx: Tx, at: Instant, session: StoredSession, number: int) -> None:
    """Remove the message and all after it from the view, so that redo can restore them."""
    view = load(tx, session.pk, session.view_version)
    shorter = cut_before(view, number, log=session.pk, last_seq=session.last_seq)
    undone = session.redo if session.redo_seq == session.last_seq else ()
    add_version(tx, at, session, shorter, redo=(*undone, session.view_version)[-MAX_REDO:])


def _switch_version(tx: Tx, session: StoredSession, version: int, redo: tuple[int, ...], seq: int) -> None:
    tx.run("use_view", version=version, redo=json_text(redo), redo_seq=seq, session_pk=session.pk)


def _start_of_exchange(tx: Tx, session: StoredSession, n: int) -> int | None:
    """Return the first user message of an exchange, `n` exchanges from the end, or of as many as there are."""
    start: int | None = None
    exchanges, in_question = 0, False
    for _, number, role in roles(tx, session):
        if role == "user":
            if not in_question:
                exchanges += 1
            in_question, start = True, number
        elif in_question:
            if exchanges == n:
                break
            in_question = False
    return start


def roles(tx: Tx, session: StoredSession) -> Iterator[Row]:
    """Yield place, number and role of all messages of a view, from its end on; reads only as much as is consumed."""
    place, number = NO_LIMIT, NO_LIMIT
    while True:
        rows = tx.rows(
            "load_roles",
            session_pk=session.pk,
            version=session.view_version,
            before_place=place,
            before_number=number,
            limit=_PAGE,
        )
        yield from rows
        if len(rows) < _PAGE:
            return
        place, number = rows[-1][0], rows[-1][1]


# Several: any of them, or all. None: unknown.
Authors: TypeAlias = frozenset[str]
NO_AUTHORS: Authors = frozenset()


def possible_authors(
    tx: Tx, session: StoredSession, replaced: Sequence[Row], fresh: Sequence[EncodedMessage]
) -> list[Authors]:
    """Return who may have written each of the messages that a rewrite puts in the place of `replaced`.

    A message with the text of an earlier one, be it folded or undone since, has that one's authors. Any other user message may hold
    the words of all whose messages the rewrite removes.
    """
    if not any(message.role == "user" for message in fresh):
        return [NO_AUTHORS] * len(fresh)
    logged = _authored_rows(tx, session)
    replaced_texts = _replaced_user_messages(tx, replaced, logged)
    before = _authors_by_text((body, author) for _, author, body in logged)
    exact = before | _authors_by_text((body, author) for body, authors in replaced_texts for author in authors)
    kept_texts = {message.body for message in fresh}
    anyone = NO_AUTHORS.union(*(authors for body, authors in replaced_texts if body not in kept_texts))
    return [exact.get(message.body, anyone) if message.role == "user" else NO_AUTHORS for message in fresh]


def group_by_author(
    messages: Sequence[EncodedMessage], authors: Sequence[Authors]
) -> list[tuple[str | None, list[EncodedMessage]]]:
    """Return the messages in their order, consecutive messages of one known author together."""
    authored = zip(authors, messages, strict=True)
    return [
        (author, [message for _, message in run])
        for author, run in groupby(authored, key=lambda pair: _only_author(pair[0]))
    ]


def save_possible_authors(tx: Tx, first: int, authors: Sequence[Authors]) -> None:
    """Record who may have written messages without one known author; `first` is the number of the first message."""
    for number, possible in enumerate(authors, first):
        if len(possible) > 1:
            for author in sorted(possible):
                tx.run("add_possible_author", number=number, author=author)


def _authored_rows(tx: Tx, session: StoredSession) -> list[Row]:
    """Return number, author and text of all messages that the session shows, folded or logged and that have an author."""
    view = load(tx, session.pk, session.view_version)
    own = Span(message_number(session.pk, 0), message_number(session.pk, MAX_SEQ))
    spans = merge_spans((*view.shown, *view.folded, own))
    return [row for span in spans for row in tx.rows("authors_between", lo=span.lo, hi=span.hi)]


def _replaced_user_messages(tx: Tx, replaced: Sequence[Row], logged: Sequence[Row]) -> list[tuple[str, Authors]]:
    """Return text and authors of each user message that a rewrite replaces. Without an author it is its log's owner."""
    rows = [
        (number, body) for _, number, role, _, _, redacted_at, body in replaced if role == "user" and not redacted_at
    ]
    authors: dict[int, Authors] = {}
    for number, author, _ in logged:
        authors[number] = authors.get(number, NO_AUTHORS) | {author}
    owners = {log: _owner(tx, log) for log in {log_of(number) for number, _ in rows}}
    return [(body, authors.get(number, owners[log_of(number)])) for number, body in rows]


def _authors_by_text(texts: Iterable[tuple[str, str]]) -> dict[str, Authors]:
    authors: dict[str, Authors] = {}
    for body, author in texts:
        authors[body] = authors.get(body, NO_AUTHORS) | {author}
    return authors


def _owner(tx: Tx, log: int) -> Authors:
    row = tx.find("owner_of_log", log=log)
    return NO_AUTHORS if row is None or row[0] is None else frozenset({row[0]})


def _only_author(authors: Authors) -> str | None:
    return next(iter(authors)) if len(authors) == 1 else None

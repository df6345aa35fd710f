"""Whose words a rewritten message holds: erasing a person must reach what they said wherever an edit or a summary took it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

from threadline.model.message import EncodedMessage
from threadline.model.view import MAX_SEQ, Span, joined, log_of, message_number
from threadline.store import views
from threadline.store.engine.database import Row, Tx
from threadline.store.rows import StoredSession

# Several: it may be any one of them, or all. None: nobody knows.
Authors: TypeAlias = frozenset[str]
NOBODY: Authors = frozenset()


def of_fresh(tx: Tx, session: StoredSession, replaced: Sequence[Row], fresh: Sequence[EncodedMessage]) -> list[Authors]:
    """Who may have written each of the messages that a rewrite puts in the place of `replaced`.

    What was said before to the letter, be it folded or undone since, is its authors'. Any other user message stands for those that
    the rewrite takes away, and so may hold the words of all who wrote them.
    """
    if not any(message.role == "user" for message in fresh):
        return [NOBODY] * len(fresh)
    logged = _logged(tx, session)
    said = _said(tx, replaced, logged)
    before = _by_text((body, author) for _, author, body in logged)
    exact = before | _by_text((body, author) for body, authors in said for author in authors)
    kept = {message.body for message in fresh}
    anyone = NOBODY.union(*(authors for body, authors in said if body not in kept))
    return [exact.get(message.body, anyone) if message.role == "user" else NOBODY for message in fresh]


def runs(
    messages: Sequence[EncodedMessage], authors: Sequence[Authors]
) -> list[tuple[str | None, list[EncodedMessage]]]:
    """The messages in their order, those of one certain author together."""
    named = zip(authors, messages, strict=True)
    return [
        (author, [message for _, message in run]) for author, run in groupby(named, key=lambda pair: _certain(pair[0]))
    ]


def keep_possible(tx: Tx, first: int, authors: Sequence[Authors]) -> None:
    """Notes who may have written what has no one author; `first` is the number of the first message."""
    for number, possible in enumerate(authors, first):
        if len(possible) > 1:
            for author in sorted(possible):
                tx.run("add_possible_author", number=number, author=author)


def _logged(tx: Tx, session: StoredSession) -> list[Row]:
    """Number, author and text of all that the session shows, folded away or ever said, where an author stands beside it."""
    view = views.load(tx, session.pk, session.view_version)
    own = Span(message_number(session.pk, 0), message_number(session.pk, MAX_SEQ))
    spans = joined((*view.shown, *view.folded, own))
    return [row for span in spans for row in tx.rows("authors_between", lo=span.lo, hi=span.hi)]


def _said(tx: Tx, replaced: Sequence[Row], logged: Sequence[Row]) -> list[tuple[str, Authors]]:
    """Text and authors of each user message that a rewrite replaces. One without an author is the owner's of its log."""
    rows = [
        (number, body) for _, number, role, _, _, redacted_at, body in replaced if role == "user" and not redacted_at
    ]
    authors: dict[int, Authors] = {}
    for number, author, _ in logged:
        authors[number] = authors.get(number, NOBODY) | {author}
    owners = {log: _owner(tx, log) for log in {log_of(number) for number, _ in rows}}
    return [(body, authors.get(number, owners[log_of(number)])) for number, body in rows]


def _by_text(said: Iterable[tuple[str, str]]) -> dict[str, Authors]:
    found: dict[str, Authors] = {}
    for body, author in said:
        found[body] = found.get(body, NOBODY) | {author}
    return found


def _owner(tx: Tx, log: int) -> Authors:
    row = tx.find("owner_of_log", log=log)
    return NOBODY if row is None or row[0] is None else frozenset({row[0]})


def _certain(authors: Authors) -> str | None:
    return next(iter(authors)) if len(authors) == 1 else None

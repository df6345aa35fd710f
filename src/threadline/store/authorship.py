"""Whose words a rewritten message holds: erasing a person must reach what they said wherever an edit or a summary took it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

from threadline.model.message import EncodedMessage
from threadline.model.view import MAX_SEQ, Span, joined, log_of, message_number
from threadline.store import views
from threadline.store.database import Row, Tx
from threadline.store.rows import StoredSession

# Several: it may be any one of them, or all. None: nobody knows.
Authors: TypeAlias = frozenset[str]
NOBODY: Authors = frozenset()


def of_fresh(
    tx: Tx, session: StoredSession, replaced: Sequence[Row], fresh: Sequence[EncodedMessage]
) -> list[Authors]:
    """Who may have written each of the messages that a rewrite puts in the place of `replaced`.

    What was said before to the letter, be it folded or undone since, is its authors'. Any other user message stands for those that
    the rewrite takes away, and so may hold the words of all who wrote them.
    """
    if not any(message.role == "user" for message in fresh):
        return [NOBODY] * len(fresh)
    by_number, by_body = _known(tx, session)
    kept = {message.body for message in fresh}
    for _, number, role, _, author, redacted_at, body in replaced:
        if role == "user" and redacted_at is None and number not in by_number and (owner := _owner(tx, number, author)):
            by_number[number] = by_body[body] = by_body.get(body, NOBODY) | {owner}
    lost = [by_number.get(row[1], NOBODY) for row in replaced if row[6] not in kept]
    anyone = NOBODY.union(*lost)
    return [by_body.get(message.body, anyone) if message.role == "user" else NOBODY for message in fresh]


def runs(messages: Sequence[EncodedMessage], authors: Sequence[Authors]) -> list[tuple[str | None, list[EncodedMessage]]]:
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


def _known(tx: Tx, session: StoredSession) -> tuple[dict[int, Authors], dict[str, Authors]]:
    """The authors of all that the session shows, folded away or ever said, by number and by text."""
    view = views.load(tx, session.pk, session.view_version)
    own = Span(message_number(session.pk, 0), message_number(session.pk, MAX_SEQ))
    by_number: defaultdict[int, set[str]] = defaultdict(set)
    by_body: defaultdict[str, set[str]] = defaultdict(set)
    for span in joined((*view.shown, *view.folded, own)):
        for number, author, body in tx.rows("authors_between", lo=span.lo, hi=span.hi):
            by_number[number].add(author)
            by_body[body].add(author)
    return (
        {number: frozenset(authors) for number, authors in by_number.items()},
        {body: frozenset(authors) for body, authors in by_body.items()},
    )


def _owner(tx: Tx, number: int, author: str | None) -> str | None:
    """Who wrote a message: its author, else whoever the log belongs to that it stands in."""
    if author is not None:
        return author
    row = tx.find("owner_of_log", log=log_of(number))
    return None if row is None else row[0]


def _certain(authors: Authors) -> str | None:
    return next(iter(authors)) if len(authors) == 1 else None

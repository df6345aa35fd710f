"""Full-text search: hits that respect views and viewers, with snippets and neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidCursor
from threadline.model.message import decode_body, searchable_text
from threadline.model.ownership import Viewer
from threadline.model.session import SessionEntry
from threadline.model.transcript import MessageRef, TranscriptMessage
from threadline.model.view import Span, View, log_of, neighbours, seq_of, shows
from threadline.store import sessions, views
from threadline.store.database import Row, Tx
from threadline.store.indexing import behind, filter_token
from threadline.store.listing import Page, check_limit, decode_cursor, encode_cursor
from threadline.store.rows import StoredSession, session_of
from threadline.store.snippet import make_snippet
from threadline.store.tokens import Query

Order: TypeAlias = Literal["rank", "newest"]

# A viewer with more borrowed logs than this is searched without the help of the index's filter, which is slower but right.
_MAX_BORROWED = 200
# Each costs its text and that of its neighbours; too few cost a second ranking where matches turn out to be hidden.
_SPARE = 2
# After a large import a search must not count the whole backlog first.
_COUNTED_BEHIND = 1_000
_MAX_WINDOW = 2_000
_FEW = 2_000


class Hit(msgspec.Struct, frozen=True):
    """One found message: where it is read, what it says, and what stands around it there.

    In `snippet` the found words stand between `[[` and `]]`. A smaller `rank` is a better match.
    """

    session: SessionEntry
    message: TranscriptMessage
    snippet: str
    rank: float
    before: TranscriptMessage | None = None
    after: TranscriptMessage | None = None

    @property
    def ref(self) -> MessageRef:
        """The message's lasting name."""
        return self.message.ref


class SearchPage(Page[Hit], frozen=True):
    """Hits. `behind` counts messages that were not indexed yet and so not looked at; 0 means that all were."""

    behind: int = 0


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and where."""

    query: Query
    viewer: Viewer | None = None
    platform: str | None = None
    person: str | None = None
    role: str | None = None
    since: Instant = Instant(-views.FAR)
    until: Instant = Instant(views.FAR)
    session_id: str | None = None
    order: Order = "rank"
    limit: int = 20
    cursor: str | None = None


class _Match:
    """A matching message, with what stands beside it in its log, as message rows."""

    __slots__ = ("at", "is_first", "number", "rows", "score")

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: dict[int, Row] = {}
        for row in rows:
            self.rows[row[5]] = row[5:]
        self.number, self.score, self.is_first = row[1:4]
        self.at: int = self.rows[self.number][2]


class _Place(msgspec.Struct, frozen=True):
    """The session in which a message is read, and its view."""

    session: StoredSession
    view: View


class _OwnPlaces:
    """The sessions that wrote the messages: asked for together, made when wanted, because a page may be full before."""

    __slots__ = ("_places", "_rows", "_viewer")

    def __init__(self, tx: Tx, viewer: Viewer | None, numbers: Sequence[int]) -> None:
        logs = dict.fromkeys(log_of(number) for number in numbers)
        rows = tx.rows_many("find_places", [(log,) for log in logs])
        self._rows = {log: list(group) for log, group in groupby(rows, key=itemgetter(33))}
        self._places: dict[int, _Place | None] = {}
        self._viewer = viewer

    def find(self, log: int) -> _Place | None:
        """The session of that log; `None` where it is gone, or not for this viewer."""
        if log not in self._places:
            place = _place_from(self._rows[log]) if log in self._rows else None
            self._places[log] = place if place is not None and _sees(self._viewer, place.session) else None
        return self._places[log]


class _Found(msgspec.Struct, frozen=True):
    """A match, and where this searcher reads it."""

    match: _Match
    place: _Place


def search(tx: Tx, wanted: Search) -> SearchPage:
    """A page of hits. Found is what some session shows or compaction folded away; undone and redacted text is not."""
    check_limit(wanted.limit)
    (offset,) = decode_cursor("q", wanted.cursor, 1) if wanted.cursor else (0,)
    if offset < 0:
        raise InvalidCursor
    if not wanted.query.wanted:
        return SearchPage([], behind=behind(tx, _COUNTED_BEHIND))
    only = None if wanted.session_id is None else _place_of(tx, wanted.session_id)
    query = _scoped(tx, wanted, only)
    match = tx.match(query)
    name = _query_name(tx, wanted, query)
    found: list[_Found] = []
    window, cursor, is_behind = wanted.limit + _SPARE, None, True
    while cursor is None:
        rows = tx.rows(name, match=match, window=window, offset=offset)
        is_behind = bool(rows[0][4]) if rows else is_behind
        matches = [_Match(group) for _, group in groupby(rows, key=itemgetter(0))]
        for index, hit in _visible(tx, wanted, matches, only):
            if len(found) == wanted.limit:
                cursor = encode_cursor("q", offset + index)
                break
            found.append(hit)
        offset += window
        if len(matches) < window:
            break
        window = min(window * 2, _MAX_WINDOW)
    unindexed = behind(tx, _COUNTED_BEHIND) if is_behind else 0
    return SearchPage(_hits(tx, wanted, found), cursor, behind=unindexed)


def _visible(tx: Tx, wanted: Search, matches: Sequence[_Match], only: _Place | None) -> Iterator[tuple[int, _Found]]:
    """The matches that this searcher may find, each with its index among the raw ones."""
    timely = [
        (i, match) for i, match in enumerate(matches) if match.is_first and wanted.since <= match.at < wanted.until
    ]
    if only is not None:
        yield from ((i, _Found(match, only)) for i, match in timely if shows(only.view, match.number))
        return
    own = _OwnPlaces(tx, wanted.viewer, [match.number for _, match in timely])
    for i, match in timely:
        place = own.find(log_of(match.number))
        if place is None or not shows(place.view, match.number):
            place = _place_elsewhere(tx, wanted.viewer, match.number)
        if place is not None:
            yield i, _Found(match, place)


def _scoped(tx: Tx, wanted: Search, only: _Place | None) -> Query:
    """The query with filter tokens: they make the index do the work, the final say is the views'."""
    clauses: list[tuple[str, ...]] = []
    if wanted.viewer is not None:
        clauses += _viewer_clauses(tx, wanted.viewer)
    if wanted.platform is not None:
        clauses.append((filter_token("p", wanted.platform),))
    if wanted.role is not None:
        clauses.append((filter_token("r", wanted.role),))
    if wanted.person is not None:
        clauses.append((filter_token("o", wanted.person), filter_token("a", wanted.person)))
    if only is not None:
        logs = dict.fromkeys(log_of(span.lo) for span in (*only.view.shown, *only.view.folded))
        clauses.append(tuple(f"s{log}" for log in logs))
    return msgspec.structs.replace(wanted.query, scope=tuple(clauses))


def _viewer_clauses(tx: Tx, viewer: Viewer) -> list[tuple[str, ...]]:
    if viewer.chat is None:
        rows = tx.rows("borrowed_logs", person=viewer.person, limit=_MAX_BORROWED + 1)
        own = filter_token("o", viewer.person or "")
    else:
        rows = tx.rows("borrowed_logs_in_chat", chat=viewer.chat, person=viewer.person, limit=_MAX_BORROWED + 1)
        own = filter_token("c", viewer.chat)
    if len(rows) > _MAX_BORROWED:
        return []
    return [(own, *(f"s{log}" for (log,) in rows))]


def _query_name(tx: Tx, wanted: Search, query: Query) -> str:
    """The query that suits the question: by time, by closeness where filters leave few messages, else by the engine's rank."""
    if wanted.order == "newest":
        return "search_newest"
    if not query.scope:
        return "search_ranked"
    filters = tx.match(msgspec.structs.replace(query, wanted=(), unwanted=()))
    row = tx.find("count_matches", match=filters, limit=_FEW + 1)
    return "search_close" if row is not None and row[0] <= _FEW else "search_ranked"


def _hits(tx: Tx, wanted: Search, found: Sequence[_Found]) -> list[Hit]:
    if not found:
        return []
    beside = [_beside(hit.place, hit.match.number) for hit in found]
    others = {number: row for hit in found for number, row in hit.match.rows.items()}
    # Most neighbours came with their match; those of another log, as at the seam of a fork, did not.
    missing = dict.fromkeys(n for pair in beside for n in pair if n is not None and n not in others)
    others.update({row[0]: row for row in tx.rows_many("find_messages", [(n,) for n in missing])})
    names = _log_names(tx, found, others)
    hits = []
    for hit, (before, after) in zip(found, beside, strict=True):
        if log_of(hit.match.number) not in names:
            # Gone while we looked.
            continue
        message = _message(names, others[hit.match.number])
        hits.append(
            Hit(
                session=hit.place.session.entry,
                message=message,
                snippet=make_snippet(searchable_text(message.message), wanted.query),
                rank=float(hit.match.score),
                before=_neighbour(names, others, before),
                after=_neighbour(names, others, after),
            )
        )
    return hits


def _place_from(rows: Sequence[Row]) -> _Place:
    spans: tuple[list[Span], list[Span]] = ([], [])
    for row in rows:
        spans[row[0]].append(Span(row[1], row[2]))
    return _Place(session_of(rows[0][3:]), View(tuple(spans[0]), tuple(spans[1])))


def _place_elsewhere(tx: Tx, viewer: Viewer | None, number: int) -> _Place | None:
    if viewer is None:
        row = tx.find("showing_session", number=number)
    else:
        row = tx.find("showing_session_for", number=number, chat=viewer.chat, person=viewer.person)
    if row is None:
        return None
    session = session_of(row)
    return _Place(session, views.load(tx, session.pk, session.view_version))


def _place_of(tx: Tx, session_id: str) -> _Place:
    session = sessions.get_session(tx, session_id)
    return _Place(session, views.load(tx, session.pk, session.view_version))


def _beside(place: _Place, number: int) -> tuple[int | None, int | None]:
    return neighbours(place.view, number, log=place.session.pk, last_seq=place.session.last_seq)


def _log_names(tx: Tx, found: Sequence[_Found], others: Iterable[int]) -> dict[int, str]:
    names = {hit.place.session.pk: hit.place.session.entry.session_id for hit in found}
    for log in {log_of(number) for number in others} - names.keys():
        if (row := tx.find("log_name", log=log)) is not None:
            names[log] = row[0]
    return names


def _neighbour(names: dict[int, str], others: Mapping[int, Row], number: int | None) -> TranscriptMessage | None:
    if number is None or number not in others or log_of(number) not in names:
        return None
    return _message(names, others[number])


def _message(names: dict[int, str], row: Row) -> TranscriptMessage:
    number, role, at, author, redacted_at, body = row
    return TranscriptMessage(
        ref=MessageRef(names[log_of(number)], seq_of(number)),
        role=role,
        at=from_instant(at),
        author=author,
        redacted=redacted_at is not None,
        message=decode_body(body),
    )


def _sees(viewer: Viewer | None, session: StoredSession) -> bool:
    return viewer is None or viewer.sees(session.ownership)

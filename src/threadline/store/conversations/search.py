"""Search hits with their neighbours, and the search of owners over all platforms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidCursor, InvalidRequest, NotYours
from threadline.model.client_sources import LOCAL_PLATFORMS, is_local_person
from threadline.model.message import MessageRef, TranscriptMessage, decode_body, searchable_text
from threadline.model.ownership import Viewer
from threadline.model.session import SessionEntry
from threadline.model.view import MAX_SEQ, Span, View, is_visible, log_of, message_number, neighbours, seq_of
from threadline.store import rows
from threadline.store.conversations import indexes, records, views
from threadline.store.conversations.indexes import ListRequest, count_unindexed, filter_token
from threadline.store.engine.database import Perform, Row, Step, Tx, loose_read, read, task, write
from threadline.store.rows import Page, StoredSession, check_limit, decode_cursor, encode_cursor, entry_of, session_of
from threadline.store.text import Query, make_snippet, parse_query
from threadline.store.verbs import Group, Mode, PersonRef, Store, parse_instant, person_name_of, reads, verb, viewer_of

Order: TypeAlias = Literal["rank", "newest"]
# For a viewer with more borrowed logs the index does not filter, which is slower but right.
_MAX_BORROWED = 200
# Each spare hit costs its text and that of its neighbours; too few cost a second ranking where matches are hidden.
_SPARE_HITS = 2
# After a large import a search must not count the whole backlog first.
_MAX_COUNTED_SESSIONS = 1_000
_MAX_WINDOW = 2_000
_FEW_MATCHES = 2_000
# The positions of the fragment `hit` in the row of a match.
_IS_BEHIND, _SPAN, _ENTRY = 3, slice(19, 22), slice(22, None)
_MESSAGE, _BEFORE, _AFTER = slice(4, 9), slice(9, 14), slice(14, 19)
_Pair: TypeAlias = tuple[int | None, int | None]


class Hit(msgspec.Struct, frozen=True):
    """A matching message, the session where the viewer reads it, and its neighbours there.

    In `snippet` the matching words stand between `[[` and `]]`. A smaller `rank` is a better match.
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
    """Hits. `unindexed` counts messages that the search could not see because they were not indexed yet."""

    unindexed: int = 0


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed query with its filters."""

    query: Query
    viewer: Viewer | None = None
    platform: str | None = None
    person: str | None = None
    role: str | None = None
    since: Instant = Instant(-views.NO_LIMIT)
    until: Instant = Instant(views.NO_LIMIT)
    session_id: str | None = None
    order: Order = "rank"
    limit: int = 20
    cursor: str | None = None


class _IndexHit:
    """A matching message, as a row of the search index."""

    __slots__ = ("at", "is_first", "number", "row", "score")

    def __init__(self, row: Row) -> None:
        self.number, self.score, self.is_first, _, _, self.at = row[:6]
        self.row = row


class _VisibleSession(msgspec.Struct, frozen=True):
    """A session in which messages are read, and its view."""

    session: StoredSession
    view: View


class _VisibleHit(msgspec.Struct, frozen=True):
    """A match, and the session where this viewer reads it.

    Without a view it is the session that wrote the message; the span came with the match.
    """

    match: _IndexHit
    session: StoredSession
    view: View | None = None


class _OwnSessions:
    """The sessions that wrote the matching messages. Each is decoded once, and only if needed: a page may be full before."""

    __slots__ = ("_sessions", "_viewer")

    def __init__(self, viewer: Viewer | None) -> None:
        self._sessions: dict[int, StoredSession] = {}
        self._viewer = viewer

    def find(self, match: _IndexHit) -> StoredSession | None:
        """Return the session of a match; `None` where it is deleted, does not show the message, or is not for this viewer."""
        if match.row[_SPAN.start] is None:
            return None
        log = log_of(match.number)
        session = self._sessions.get(log)
        if session is None:
            session = self._sessions[log] = session_of(match.row[_ENTRY])
        return session if self._viewer is None or self._viewer.sees(session.ownership) else None


def search(tx: Tx, request: SearchRequest) -> SearchPage:
    """Return a page of hits. Search finds what a session shows or compaction folded away, never undone or redacted text.

    Raise `NotYours` where the viewer may not see the session of the request.
    """
    check_limit(request.limit)
    (offset,) = decode_cursor("q", request.cursor, 1) if request.cursor else (0,)
    if offset < 0:
        raise InvalidCursor
    if not request.query.required:
        return SearchPage([], unindexed=count_unindexed(tx, _MAX_COUNTED_SESSIONS))
    only = None if request.session_id is None else _visible_session(tx, request.session_id, request.viewer)
    query = _with_filter_tokens(tx, request, only)
    match = tx.match_expression(query)
    name = _query_name(tx, request, query)
    visible: list[_VisibleHit] = []
    window, cursor, is_behind = request.limit + _SPARE_HITS, None, True
    while cursor is None:
        rows = tx.rows(name, match=match, window=window, offset=offset)
        is_behind = bool(rows[0][_IS_BEHIND]) if rows else is_behind
        matches = [_IndexHit(row) for row in rows]
        for index, hit in _visible(tx, request, matches, only):
            if len(visible) == request.limit:
                cursor = encode_cursor("q", offset + index)
                break
            visible.append(hit)
        offset += window
        if len(matches) < window:
            break
        window = min(window * 2, _MAX_WINDOW)
    unindexed = count_unindexed(tx, _MAX_COUNTED_SESSIONS) if is_behind else 0
    return SearchPage(_hits(tx, request, visible), cursor, unindexed=unindexed)


def _visible(
    tx: Tx, request: SearchRequest, matches: Sequence[_IndexHit], only: _VisibleSession | None
) -> Iterator[tuple[int, _VisibleHit]]:
    """Yield the matches that this viewer may see, each with its index among all matches."""
    timely = [
        (i, match) for i, match in enumerate(matches) if match.is_first and request.since <= match.at < request.until
    ]
    if only is not None:
        yield from (
            (i, _VisibleHit(match, only.session, only.view))
            for i, match in timely
            if is_visible(only.view, match.number)
        )
        return
    own = _OwnSessions(request.viewer)
    for i, match in timely:
        session = own.find(match)
        if session is not None:
            yield i, _VisibleHit(match, session)
        elif (showing := _find_showing_session(tx, request.viewer, match.number)) is not None:
            yield i, _VisibleHit(match, showing.session, showing.view)


def _with_filter_tokens(tx: Tx, request: SearchRequest, only: _VisibleSession | None) -> Query:
    """Return the query with filter tokens, which make the index do the work; the views have the final say."""
    clauses: list[tuple[str, ...]] = []
    if request.viewer is not None:
        clauses += _viewer_clauses(tx, request.viewer)
    if request.platform is not None:
        clauses.append((filter_token("p", request.platform),))
    if request.role is not None:
        clauses.append((filter_token("r", request.role),))
    if request.person is not None:
        clauses.append((filter_token("o", request.person), filter_token("a", request.person)))
    if only is not None:
        logs = dict.fromkeys(log_of(span.lo) for span in (*only.view.shown, *only.view.folded))
        clauses.append(tuple(f"s{log}" for log in logs))
    return msgspec.structs.replace(request.query, scope=tuple(clauses))


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


def _query_name(tx: Tx, request: SearchRequest, query: Query) -> str:
    """Return the name of the query: by time, by `match_rank` where filters leave few messages, else by the engine's rank."""
    if request.order == "newest":
        return "search_newest"
    if not query.scope:
        return "search_ranked"
    filters = tx.match_expression(msgspec.structs.replace(query, required=(), excluded=()))
    row = tx.find("count_matches", match=filters, limit=_FEW_MATCHES + 1)
    return "search_close" if row is not None and row[0] <= _FEW_MATCHES else "search_ranked"


def _hits(tx: Tx, request: SearchRequest, visible: Sequence[_VisibleHit]) -> list[Hit]:
    if not visible:
        return []
    neighbour_pairs = _neighbour_numbers(tx, visible)
    rows = _rows(visible)
    # Most neighbours came with their match; those of another log, as at the seam of a fork, did not.
    missing = dict.fromkeys(n for pair in neighbour_pairs for n in pair if n is not None and n not in rows)
    rows.update({row[0]: row[1:] for row in tx.rows_many("find_messages", [(n,) for n in missing])})
    names = _log_names(tx, visible, missing)
    hits = []
    for hit, (before, after) in zip(visible, neighbour_pairs, strict=True):
        message = _message(names, rows, hit.match.number)
        if message is None:
            # Deleted meanwhile.
            continue
        hits.append(
            Hit(
                session=hit.session.entry,
                message=message,
                snippet=make_snippet(searchable_text(message.message), request.query),
                rank=float(hit.match.score),
                before=_message(names, rows, before),
                after=_message(names, rows, after),
            )
        )
    return hits


def _rows(visible: Sequence[_VisibleHit]) -> dict[int, Row]:
    """Return the messages that came with the matches, by their numbers."""
    rows: dict[int, Row] = {}
    for hit in visible:
        row, number = hit.match.row, hit.match.number
        rows[number] = row[_MESSAGE]
        if row[_BEFORE.start] is not None:
            rows[number - 1] = row[_BEFORE]
        if row[_AFTER.start] is not None:
            rows[number + 1] = row[_AFTER]
    return rows


def _neighbour_numbers(tx: Tx, visible: Sequence[_VisibleHit]) -> list[_Pair]:
    """Return the numbers of the messages before and after each hit in its session."""
    pairs = [_in_span(hit) if hit.view is None else _in_view(hit, hit.view) for hit in visible]
    at_seams = dict.fromkeys(hit.session.pk for hit, pair in zip(visible, pairs, strict=True) if pair is None)
    views_of_sessions = _views(tx, at_seams)
    return [
        _in_view(hit, views_of_sessions[hit.session.pk]) if pair is None else pair
        for hit, pair in zip(visible, pairs, strict=True)
    ]


def _in_span(hit: _VisibleHit) -> _Pair | None:
    """Return the neighbours by the span alone; `None` at a seam, where another span of the view may precede or follow."""
    number = hit.match.number
    place, lo, hi = hit.match.row[_SPAN]
    last = min(hi, message_number(hit.session.pk, hit.session.last_seq))
    if (number == lo and place > 0) or (number == last and seq_of(hi) < MAX_SEQ):
        return None
    return number - 1 if number > lo else None, number + 1 if number < last else None


def _in_view(hit: _VisibleHit, view: View) -> _Pair:
    return neighbours(view, hit.match.number, log=hit.session.pk, last_seq=hit.session.last_seq)


def _views(tx: Tx, logs: Iterable[int]) -> dict[int, View]:
    """Return the current views of these sessions; an empty view for a deleted session."""
    spans: dict[int, tuple[list[Span], list[Span]]] = {log: ([], []) for log in logs}
    for log, folded, lo, hi in tx.rows_many("find_views", [(log,) for log in spans]):
        spans[log][folded].append(Span(lo, hi))
    return {log: View(tuple(open_), tuple(folded)) for log, (open_, folded) in spans.items()}


def _find_showing_session(tx: Tx, viewer: Viewer | None, number: int) -> _VisibleSession | None:
    if viewer is None:
        row = tx.find("showing_session", number=number)
    else:
        row = tx.find("showing_session_for", number=number, chat=viewer.chat, person=viewer.person)
    if row is None:
        return None
    session = session_of(row)
    return _VisibleSession(session, views.load(tx, session.pk, session.view_version))


def _visible_session(tx: Tx, session_id: str, viewer: Viewer | None) -> _VisibleSession:
    session = records.get_session(tx, session_id)
    if viewer is not None and not viewer.sees(session.ownership):
        raise NotYours
    return _VisibleSession(session, views.load(tx, session.pk, session.view_version))


def _log_names(tx: Tx, visible: Sequence[_VisibleHit], others: Iterable[int]) -> dict[int, str]:
    names = {hit.session.pk: hit.session.entry.session_id for hit in visible}
    logs = {log_of(number) for number in (*others, *(hit.match.number for hit in visible))}
    for log in logs - names.keys():
        if (row := tx.find("session_id_of_log", log=log)) is not None:
            names[log] = row[0]
    return names


def _message(names: Mapping[int, str], rows: Mapping[int, Row], number: int | None) -> TranscriptMessage | None:
    """Return the message of a row; `None` where there is none, or its log is deleted."""
    if number is None or (row := rows.get(number)) is None or (name := names.get(log_of(number))) is None:
        return None
    role, at, author, redacted_at, body = row
    return TranscriptMessage(
        ref=MessageRef(name, seq_of(number)),
        role=role,
        at=from_instant(at),
        author=author,
        redacted=redacted_at is not None,
        message=decode_body(body),
    )


# A list covers no more owners than this; a title finds the sessions of all.
_MAX_OWNERS = 50


def owner_sessions(tx: Tx, platform: str, configured_owners: Collection[str], *, limit: int) -> list[SessionEntry]:
    """Return the newest sessions of owners on other platforms, ended ones included."""
    entries = [
        entry
        for list_request in _owner_list_requests(tx, platform, configured_owners, limit)
        for entry in indexes.list_sessions(tx, list_request)
    ]
    others_platforms = {
        entry.session_id: entry for entry in entries if entry.owner is not None and entry.platform != platform
    }
    return sorted(others_platforms.values(), key=lambda entry: (entry.updated_at, entry.session_id), reverse=True)[
        :limit
    ]


def find_owner_title(tx: Tx, title: str, configured_owners: Collection[str]) -> SessionEntry | None:
    """Return the most recently updated session of that title that belongs to an owner."""
    owners = _owners(tx, configured_owners)
    for row in tx.rows("find_titled", title_key=records.title_key(title)):
        entry = entry_of(row)
        if entry.owner is not None and (entry.owner in owners or is_local_person(entry.owner)):
            return entry
    return None


def owner_hits(tx: Tx, query: Query, platform: str, configured_owners: Collection[str], *, limit: int) -> list[Hit]:
    """Return the best hits in owners' sessions on other platforms, each message once."""
    hits: dict[MessageRef, Hit] = {}
    for list_request in _owner_list_requests(tx, platform, configured_owners, limit):
        search_request = SearchRequest(
            query=query, viewer=list_request.viewer, platform=list_request.platform, limit=limit
        )
        for hit in search(tx, search_request):
            if hit.session.owner is not None and hit.session.platform != platform:
                hits.setdefault(hit.ref, hit)
    return sorted(hits.values(), key=lambda hit: hit.rank)[:limit]


def _owner_list_requests(
    tx: Tx, platform: str, configured_owners: Collection[str], limit: int
) -> Iterator[ListRequest]:
    for machine in LOCAL_PLATFORMS:
        if machine != platform:
            yield ListRequest(include_ended=True, platform=machine, limit=limit)
    for owner in sorted(_owners(tx, configured_owners))[:_MAX_OWNERS]:
        yield ListRequest(include_ended=True, viewer=Viewer(owner), limit=limit)


def _owners(tx: Tx, configured_owners: Collection[str]) -> set[str]:
    return {*configured_owners, *(str(person) for (person,) in tx.rows("owners"))}


# A search indexes at most so many steps before it answers; the rest is counted in `unindexed`.
_INLINE_STEPS = 16


class Search(Group[Mode]):
    """Search, and indexing on demand."""

    @verb
    def search(
        _: Store[Any],
        query: str,
        *,
        viewer: PersonRef = None,
        platform: str | None = None,
        person: PersonRef = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        order: Order = "rank",
        limit: int = 20,
        cursor: str | None = None,
    ) -> Step[SearchPage]:
        """Return ranked hits with snippets and neighbours, in any language; words, `"phrases"`, `-not`, `pre*`.

        With `viewer` (a person, or a source: that sender, from there) only messages that this person may see; without, all
        messages, as the operator sees them. `session` restricts hits to the view of one session; `NotYours` where the viewer may
        not see it. `order="newest"` returns the latest instead of the best.
        """
        if order not in ("rank", "newest"):
            raise InvalidRequest(f"hits are ordered by 'rank' or 'newest', not by {order!r}")
        request = SearchRequest(
            query=parse_query(query),
            viewer=viewer_of(viewer),
            platform=platform,
            person=person_name_of(person),
            role=role,
            since=parse_instant(since, -rows.END),
            until=parse_instant(until, rows.END),
            session_id=session,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        return task(_search, request)

    @verb
    def index_pending(_: Store[Any], limit: int = 1 << 40) -> Step[int]:
        """Index at least `limit` pending messages, or all; return how many. Update the order of listings too.

        The background worker does the same after each write: this is for callers who can't wait.
        """
        return task(_index_pending, limit)


class OwnerSearch(Group[Mode]):
    """Search of owners over all platforms, for callers who have checked that an owner asks.

    `configured_owners`: the owners that the configuration names.
    """

    find_title = reads(find_owner_title)

    @verb
    def sessions(
        _: Store[Any], platform: str, configured_owners: Collection[str], *, limit: int = 10
    ) -> Step[list[SessionEntry]]:
        """Return the newest sessions of owners on other platforms than this one, ended ones included."""
        check_limit(limit)
        return read(owner_sessions, platform, configured_owners, limit=limit)

    @verb
    def hits(
        _: Store[Any], query: str, platform: str, configured_owners: Collection[str], *, limit: int = 10
    ) -> Step[list[Hit]]:
        """Return the best hits in owners' sessions on other platforms than this one, among the messages indexed so far."""
        check_limit(limit)
        return loose_read(owner_hits, parse_query(query), platform, configured_owners, limit=limit)


def _search(perform: Perform, request: SearchRequest) -> SearchPage:
    page = perform(loose_read(search, request))
    if page.unindexed:
        for _ in range(_INLINE_STEPS):
            if not perform(write(indexes.index_batch)):
                break
        page = perform(loose_read(search, request))
    return page


def _index_pending(perform: Perform, limit: int) -> int:
    while perform(write(indexes.relist_batch)) == indexes.RELIST_STEP:
        pass
    done = 0
    while done < limit and (step := perform(write(indexes.index_batch))):
        done += step
    return done

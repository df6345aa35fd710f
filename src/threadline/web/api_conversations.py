"""Somebody's conversations: the list, one of them, its name, its end, and what is found in all of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from threadline.errors import UnknownSession
from threadline.model.client_sources import WEB
from threadline.web.calls import Call, read_body, read_query, told
from threadline.web.following import shown_of
from threadline.web.reading import conversation_of, hit_of, message_of
from threadline.web.shapes import (
    Conversations,
    ForkWanted,
    Hits,
    MoreMessages,
    Ref,
    RenameWanted,
    SessionName,
)

_MOST = 200


class ListQuery(msgspec.Struct, frozen=True):
    """Which page of the list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 50
    cursor: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class LookQuery(msgspec.Struct, frozen=True):
    """Which session of a conversation, and from where on backwards."""

    session: SessionName | None = None
    before: Ref | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 50


class SessionQuery(msgspec.Struct, frozen=True):
    """Which session of a conversation; without one the current one."""

    session: SessionName | None = None


class SearchQuery(msgspec.Struct, frozen=True):
    """What is looked for: words, "phrases", -not, pre*."""

    q: Annotated[str, msgspec.Meta(max_length=500)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


async def conversations(call: Call) -> Response:
    """A page of one's conversations, the most recently changed first; earlier sessions of theirs are `ended`."""
    wanted = read_query(call.request, ListQuery)
    page = await call.web.store.change_feed.list_page(call.caller.person, WEB, limit=wanted.limit, cursor=wanted.cursor)
    return told(Conversations([conversation_of(row) for row in page], page.cursor))


async def conversation(call: Call) -> Response:
    """Where a conversation stands; with `before`, the messages that come before one that it shows."""
    wanted, source = read_query(call.request, LookQuery), call.source()
    store, agent = call.web.store, call.agent()
    if wanted.before is not None:
        earlier = await store.change_feed.earlier(
            source, wanted.before, agent=agent, session_id=wanted.session, limit=wanted.limit
        )
        found = await store.change_feed.find(source, agent=agent, session_id=wanted.session)
        messages = [message_of(message) for message in earlier.messages]
        return told(
            MoreMessages(conversation=conversation_of(found), messages=messages, has_earlier=earlier.has_earlier)
        )
    seen = await store.change_feed.snapshot(source, agent=agent, session_id=wanted.session, limit=wanted.limit)
    if seen is None:
        raise UnknownSession
    running = call.web.hub.running_at(source.chat_id or "")
    return told(shown_of(seen, None, running, call.caller.role).snapshot(wanted.limit))


async def rename(call: Call) -> Response:
    """Names a conversation, or takes its name away."""
    wanted = await read_body(call.request, RenameWanted)
    store, source = call.web.store, call.source()
    found = await store.change_feed.find(source, agent=call.agent(), session_id=wanted.session)
    await store.set_title(found.entry.session_id, wanted.title)
    call.changed()
    renamed = await store.change_feed.find(source, agent=call.agent(), session_id=found.entry.session_id)
    return told(conversation_of(renamed))


async def delete(call: Call) -> Response:
    """Drops a conversation for good. What runs there is stopped."""
    wanted = read_query(call.request, SessionQuery)
    store = call.web.store
    found = await store.change_feed.find(call.source(), agent=call.agent(), session_id=wanted.session)
    session_id = found.entry.session_id
    if found.is_busy:
        # Whoever is at it stops when it next renews its lease; nobody would hear the answer.
        await store.turns.request_stop(session_id, "stop")
    await store.delete_session(session_id)
    call.changed()
    return Response(status_code=204)


async def fork(call: Call) -> Response:
    """A new conversation that goes on from a message of this one. The same `id` again: the same conversation."""
    wanted = await read_body(call.request, ForkWanted)
    store, into = call.web.store, call.source(wanted.id)
    entry = await store.change_feed.fork(
        call.source(), wanted.upto, into, agent=call.agent(), session_id=wanted.session
    )
    call.changed(wanted.id)
    made = await store.change_feed.find(into, agent=call.agent(), session_id=entry.session_id)
    return told(conversation_of(made), 201)


async def search(call: Call) -> Response:
    """What is found in one's own conversations, the best first."""
    wanted = read_query(call.request, SearchQuery)
    found = await call.web.store.search(wanted.q, viewer=call.caller.person, platform=WEB, limit=wanted.limit)
    return told(Hits([hit for hit in map(hit_of, found) if hit is not None]))

"""Endpoints of conversations: list, read, rename, delete, fork, search, send a message, press a button."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from threadline.errors import IdempotencyConflict, InvalidRequest, UnknownSession
from threadline.model.client_sources import WEB, web_chat_id
from threadline.model.inbound import Attachment
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.platform import Verdict
from threadline.texts import web as texts
from threadline.web import mapping
from threadline.web.conversation_state import shown_of
from threadline.web.guard import error_json
from threadline.web.platform import WebMessage
from threadline.web.requests import ApiCall, json_response, read_body, read_query
from threadline.web.shapes import (
    Conversations,
    ForkWanted,
    Hits,
    MessageWanted,
    MoreMessages,
    PressWanted,
    Ref,
    RenameWanted,
    SessionName,
    Taken,
)

_MOST = 200

# No id of a page's own has a dot.
_TAKEN_BACK = "{id}.undo"


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


async def conversations(call: ApiCall) -> Response:
    """A page of one's conversations, the most recently changed first; earlier sessions of theirs are `ended`."""
    wanted = read_query(call.request, ListQuery)
    page = await call.web.store.change_feed.list_page(call.caller.person, WEB, limit=wanted.limit, cursor=wanted.cursor)
    return json_response(Conversations([mapping.conversation(row) for row in page], page.cursor))


async def conversation(call: ApiCall) -> Response:
    """Where a conversation stands; with `before`, the messages that come before one that it shows."""
    wanted, source = read_query(call.request, LookQuery), call.source()
    store, agent = call.web.store, call.agent()
    if wanted.before is not None:
        earlier = await store.change_feed.earlier(
            source, wanted.before, agent=agent, session_id=wanted.session, limit=wanted.limit
        )
        found = await store.change_feed.find(source, agent=agent, session_id=wanted.session)
        messages = [mapping.message(message) for message in earlier.messages]
        return json_response(
            MoreMessages(conversation=mapping.conversation(found), messages=messages, has_earlier=earlier.has_earlier)
        )
    seen = await store.change_feed.snapshot(source, agent=agent, session_id=wanted.session, limit=wanted.limit)
    if seen is None:
        raise UnknownSession
    running = call.web.hub.running_turn(source.chat_id or "")
    return json_response(shown_of(seen, None, running, call.caller.role).snapshot(wanted.limit))


async def rename(call: ApiCall) -> Response:
    """Names a conversation, or takes its name away."""
    wanted = await read_body(call.request, RenameWanted)
    store, source = call.web.store, call.source()
    found = await store.change_feed.find(source, agent=call.agent(), session_id=wanted.session)
    await store.set_title(found.entry.session_id, wanted.title)
    call.changed()
    renamed = await store.change_feed.find(source, agent=call.agent(), session_id=found.entry.session_id)
    return json_response(mapping.conversation(renamed))


async def delete(call: ApiCall) -> Response:
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


async def fork(call: ApiCall) -> Response:
    """A new conversation that goes on from a message of this one. The same `id` again: the same conversation."""
    wanted = await read_body(call.request, ForkWanted)
    store, into = call.web.store, call.source(wanted.id)
    entry = await store.change_feed.fork(
        call.source(), wanted.upto, into, agent=call.agent(), session_id=wanted.session
    )
    call.changed(wanted.id)
    made = await store.change_feed.find(into, agent=call.agent(), session_id=entry.session_id)
    return json_response(mapping.conversation(made), 201)


async def search(call: ApiCall) -> Response:
    """What is found in one's own conversations, the best first."""
    wanted = read_query(call.request, SearchQuery)
    found = await call.web.store.search(wanted.q, viewer=call.caller.person, platform=WEB, limit=wanted.limit)
    return json_response(Hits([hit for hit in map(mapping.hit, found) if hit is not None]))


async def send_message(call: ApiCall) -> Response:
    """Says something. The same `id` again is the same message, however often it is sent; with another text it is 409."""
    wanted = await read_body(call.request, MessageWanted)
    if not wanted.text.strip() and not wanted.attachments:
        raise InvalidRequest(texts.NOTHING_TO_SAY)
    files = tuple([await _attached(call, file_id) for file_id in wanted.attachments])
    said = WebMessage(message_id=wanted.id, text=wanted.text, attachments=files)
    if wanted.instead_of is not None:
        await _require_same(call, said)
        refused = await _undo_to(call, wanted.id, wanted.instead_of)
        if refused is not None:
            return refused
    verdict = await call.web.door.send_message(call.speaker, call.conversation, said)
    if verdict == "duplicate":
        await _require_same(call, said)
    return _verdict_response(call, verdict)


async def press_button(call: ApiCall) -> Response:
    """Presses a button under something that was said in the conversation."""
    wanted = await read_body(call.request, PressWanted)
    verdict = await call.web.door.press_button(call.speaker, call.conversation, wanted.id, wanted.value)
    return _verdict_response(call, verdict)


def _verdict_response(call: ApiCall, verdict: Verdict) -> Response:
    call.changed()
    if verdict == "ignored":
        return error_json(403, "not_let_in", texts.NOT_LET_IN)
    return json_response(Taken(verdict), 202)


async def _attached(call: ApiCall, file_id: str) -> Attachment:
    return (await call.web.store.find_file(call.caller.person, file_id)).attachment()


async def _require_same(call: ApiCall, said: WebMessage) -> None:
    """Raise `IdempotencyConflict` if another message was stored in the conversation under the same id."""
    before = await call.web.store.message_changes.find_content(
        WEB, MAIN_ACCOUNT, _key(call, said.message_id), said.message_id
    )
    if before is not None and before != (said.text, tuple(file.handle for file in said.attachments)):
        raise IdempotencyConflict(texts.ANOTHER_MESSAGE)


def _key(call: ApiCall, message_id: str) -> str:
    return f"{web_chat_id(call.caller.user_id, call.conversation)}/{message_id}"


async def _undo_to(call: ApiCall, message_id: str, ref: str) -> Response | None:
    """Undo to one of the user's own messages, once, before the message that replaces it is admitted.

    Return the error response if that is refused; nothing was undone then.
    """
    store, undo = call.web.store, _TAKEN_BACK.format(id=message_id)
    if await store.inbox.is_known(WEB, MAIN_ACCOUNT, _key(call, undo)):
        # Sent again: what was to be taken back may be gone already.
        return None
    found = await store.change_feed.find(call.source(), agent=call.agent())
    count = await store.change_feed.count_exchanges_since(found.entry.session_id, ref)
    if found.is_busy:
        # What is being answered adds to what would have to be undone by then.
        return error_json(409, "busy", texts.STILL_ANSWERING)
    verdict = await call.web.door.send_message(
        call.speaker, call.conversation, WebMessage(message_id=undo, text=f"/undo {count}")
    )
    return None if verdict in ("accepted", "duplicate") else _verdict_response(call, verdict)

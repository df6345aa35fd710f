"""What happens, as it happens: one stream for each tab."""

from __future__ import annotations

from starlette.responses import Response

from threadline.errors import UnknownSession
from threadline.web.calls import Call, read_body, read_query
from threadline.web.events import EventStream
from threadline.web.following import shown_of
from threadline.web.frames import frame
from threadline.web.shapes import FollowWanted

_LONGEST_ID = 200


async def events(call: Call) -> Response:
    """One's list as it changes, and a conversation as it goes on. `Last-Event-ID` goes on from there."""
    if call.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    if call.request.method == "POST":
        wanted = await read_body(call.request, FollowWanted)
    else:
        wanted = read_query(call.request, FollowWanted)
    last_id = call.request.headers.get("last-event-id")
    hub, caller = call.web.hub, call.caller
    ended = None if wanted.conversation is None or wanted.session is None else await _ended(call, wanted)
    reader = await hub.open(
        caller.user_id,
        caller.role,
        None if ended is not None else wanted.conversation,
        last_id if last_id is not None and len(last_id) <= _LONGEST_ID else None,
    )
    if reader is None:
        raise UnknownSession
    if ended is not None:
        reader.put(ended)

    async def may_listen() -> bool:
        now = await call.web.auth.who(call.request)
        return now is not None and (now.user_id, now.role) == (caller.user_id, caller.role)

    return EventStream(reader, hub.leave, may_listen)


async def _ended(call: Call, wanted: FollowWanted) -> bytes | None:
    """All of a session that goes on no more; `None` for the one that goes on."""
    source = call.source(wanted.conversation)
    agent = call.web.agent_at(source).name
    seen = await call.web.store.change_feed.snapshot(source, agent=agent, session_id=wanted.session)
    if seen is None:
        raise UnknownSession
    return None if seen.is_current else frame("snapshot", shown_of(seen, None, None, call.caller.role).snapshot())

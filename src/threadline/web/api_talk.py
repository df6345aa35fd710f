"""Speaking: messages and buttons, let in by the gateway's one door."""

from __future__ import annotations

from starlette.responses import Response

from threadline.errors import IdempotencyConflict, InvalidRequest
from threadline.model.client_sources import WEB, web_chat_id
from threadline.model.inbound import Attachment
from threadline.model.source import MAIN_ACCOUNT
from threadline.ports.live import Said
from threadline.ports.platform import Verdict
from threadline.texts import web as texts
from threadline.web.calls import Call, read_body, told
from threadline.web.guard import refusal
from threadline.web.shapes import MessageWanted, PressWanted, Taken

# No id of a page's own has a dot.
_TAKEN_BACK = "{id}.undo"


async def say(call: Call) -> Response:
    """Says something. The same `id` again is the same message, however often it is sent; with another text it is 409."""
    wanted = await read_body(call.request, MessageWanted)
    if not wanted.text.strip() and not wanted.attachments:
        raise InvalidRequest(texts.NOTHING_TO_SAY)
    files = tuple([await _attached(call, file_id) for file_id in wanted.attachments])
    said = Said(message_id=wanted.id, text=wanted.text, attachments=files)
    if wanted.instead_of is not None:
        await _require_same(call, said)
        refused = await _take_back(call, wanted.id, wanted.instead_of)
        if refused is not None:
            return refused
    verdict = await call.web.door.say(call.speaker, call.conversation, said)
    if verdict == "duplicate":
        await _require_same(call, said)
    return _told(call, verdict)


async def press(call: Call) -> Response:
    """Presses a button under something that was said in the conversation."""
    wanted = await read_body(call.request, PressWanted)
    verdict = await call.web.door.press(call.speaker, call.conversation, wanted.id, wanted.value)
    return _told(call, verdict)


def _told(call: Call, verdict: Verdict) -> Response:
    call.changed()
    if verdict == "ignored":
        return refusal(403, "not_let_in", texts.NOT_LET_IN)
    return told(Taken(verdict), 202)


async def _attached(call: Call, file_id: str) -> Attachment:
    return (await call.web.store.find_file(call.caller.person, file_id)).attachment()


async def _require_same(call: Call, said: Said) -> None:
    """`IdempotencyConflict` where something else was said there under the same id."""
    before = await call.web.store.message_changes.find_content(
        WEB, MAIN_ACCOUNT, _key(call, said.message_id), said.message_id
    )
    if before is not None and before != (said.text, tuple(file.handle for file in said.attachments)):
        raise IdempotencyConflict(texts.ANOTHER_MESSAGE)


def _key(call: Call, message_id: str) -> str:
    return f"{web_chat_id(call.caller.user_id, call.conversation)}/{message_id}"


async def _take_back(call: Call, message_id: str, ref: str) -> Response | None:
    """Takes a message of one's own back, and all after it, before what is said in its place comes in; once.

    What is answered where it can't be: nothing was taken back then.
    """
    store, undo = call.web.store, _TAKEN_BACK.format(id=message_id)
    if await store.inbox.is_known(WEB, MAIN_ACCOUNT, _key(call, undo)):
        # Sent again: what was to be taken back may be gone already.
        return None
    found = await store.change_feed.find(call.source(), agent=call.agent())
    count = await store.change_feed.count_exchanges_since(found.entry.session_id, ref)
    if found.is_busy:
        # What is being answered adds to what would have to be undone by then.
        return refusal(409, "busy", texts.STILL_ANSWERING)
    verdict = await call.web.door.say(call.speaker, call.conversation, Said(message_id=undo, text=f"/undo {count}"))
    return None if verdict in ("accepted", "duplicate") else _told(call, verdict)

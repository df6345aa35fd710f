"""Speaking: messages and buttons, let in by the gateway's one door."""

from __future__ import annotations

from starlette.responses import Response

from threadline.errors import InvalidRequest
from threadline.model import words_web as words
from threadline.model.inbound import Attachment
from threadline.model.source import MAIN_ACCOUNT
from threadline.model.webchat import WEB, chat_of
from threadline.ports.live import Said
from threadline.ports.platform import Verdict
from threadline.web.calls import Call, read_body, told
from threadline.web.guard import refusal
from threadline.web.shapes import MessageWanted, PressWanted, Taken

# No id of a page's own has a dot.
_TAKEN_BACK = "{id}.undo"


async def say(call: Call) -> Response:
    """Says something. The same `id` again is the same message, however often it is sent."""
    wanted = await read_body(call.request, MessageWanted)
    if not wanted.text.strip() and not wanted.attachments:
        raise InvalidRequest(words.NOTHING_TO_SAY)
    files = tuple([await _attached(call, file_id) for file_id in wanted.attachments])
    if wanted.instead_of is not None:
        refused = await _take_back(call, wanted.id, wanted.instead_of)
        if refused is not None:
            return refused
    return await _let_in(call, Said(message_id=wanted.id, text=wanted.text, attachments=files))


async def press(call: Call) -> Response:
    """Presses a button under something that was said in the conversation."""
    wanted = await read_body(call.request, PressWanted)
    verdict = await call.web.door.press(call.speaker, call.conversation, wanted.id, wanted.value)
    return _told(call, verdict)


async def _let_in(call: Call, said: Said) -> Response:
    return _told(call, await call.web.door.say(call.speaker, call.conversation, said))


def _told(call: Call, verdict: Verdict) -> Response:
    call.changed()
    if verdict == "ignored":
        return refusal(403, "not_let_in", words.NOT_LET_IN)
    return told(Taken(verdict), 202)


async def _attached(call: Call, file_id: str) -> Attachment:
    return (await call.web.store.find_file(call.caller.person, file_id)).attachment()


async def _take_back(call: Call, message_id: str, ref: str) -> Response | None:
    """Takes a message of one's own back, and all after it, before what is said in its place comes in; once.

    What is answered where it can't be: nothing was taken back then.
    """
    store, undo = call.web.store, _TAKEN_BACK.format(id=message_id)
    key = f"{chat_of(call.caller.user_id, call.conversation)}/{undo}"
    if await store.was_heard(WEB, MAIN_ACCOUNT, key):
        # Sent again: what was to be taken back may be gone already.
        return None
    found = await store.find_chat(call.source(), agent=call.agent())
    count = await store.exchanges_since(found.entry.session_id, ref)
    if found.is_busy:
        # What is being answered adds to what would have to be undone by then.
        return refusal(409, "busy", words.STILL_ANSWERING)
    verdict = await call.web.door.say(call.speaker, call.conversation, Said(message_id=undo, text=f"/undo {count}"))
    return None if verdict in ("accepted", "duplicate") else _told(call, verdict)

"""What leaves: messages, edits and hints, each as few calls as Telegram allows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from threadline.model.delivery import Target
from threadline.platforms.telegram.client import Client
from threadline.platforms.telegram.composing import (
    Call,
    Parameters,
    caption_call,
    edit_call,
    file_call,
    fits_below,
    place,
    text_call,
    with_reply,
)
from threadline.platforms.telegram.markup import LONGEST_CAPTION, Shown, shown
from threadline.platforms.telegram.refusals import Migrated, NotAsPicture, NoText
from threadline.ports.platform import Ambiguous, BadMarkup, Button, Gone, Outgoing, TooLong

# So many messages of two parts are remembered whose second part has not arrived yet.
_HALVES_KEPT = 1_000


class _Sent(msgspec.Struct, frozen=True):
    message_id: int
    caption: str = ""


class Sender:
    """Sends and edits for one bot."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # The text of a message whose files have not arrived yet, by its key: it must not be sent again with them.
        self._halves: OrderedDict[str, str] = OrderedDict()
        self._moved: dict[object, int] = {}

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Shows a message; its id."""
        where = with_reply(place(to), message)
        if not message.files:
            return _id_of(await self._sent(text_call(where, shown(message), message.buttons)))
        if not message.text.strip() and not (message.buttons and len(message.files) > 1):
            return await self._send_files(where, message, None, message.buttons)
        text = shown(message)
        if fits_below(text, message):
            return await self._send_files(where, message, text, message.buttons)
        if key not in self._halves:
            self._remember(key, _id_of(await self._sent(text_call(where, text, message.buttons))))
        await self._send_files(place(to), message, None, ())
        return self._halves.pop(key)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Lets a message say something else. Its files stay as they are."""
        where, text = {"chat_id": place(to)["chat_id"]}, shown(message)
        try:
            await self._client_call(edit_call(where, message_id, text, message.buttons))
        except NoText:
            _check_caption(text, message)
            await self._client_call(caption_call(where, message_id, text, message.buttons))
        except Migrated as cause:
            # Ids of messages mean something in their own chat only.
            raise Gone(str(cause)) from cause

    async def typing(self, to: Target) -> None:
        """Shows for some seconds that an answer is being written."""
        await self._sent(Call("sendChatAction", place(to) | {"action": "typing"}))

    async def _send_files(
        self, where: Parameters, message: Outgoing, text: Shown | None, buttons: Sequence[Button]
    ) -> str:
        try:
            answer = await self._sent(file_call(where, message.files, text, buttons, as_documents=False))
        except NotAsPicture:
            answer = await self._sent(file_call(where, message.files, text, buttons, as_documents=True))
        return _id_of(answer)

    async def _sent(self, call: Call) -> Any:
        """What Telegram answers. A group that is a supergroup now is written to under its new id."""
        chat = call.parameters["chat_id"]
        try:
            return await self._client_call(self._redirected(call, self._moved[chat]) if chat in self._moved else call)
        except Migrated as cause:
            self._moved[chat] = cause.new_id
            return await self._client_call(self._redirected(call, cause.new_id))

    async def _client_call(self, call: Call) -> Any:
        return await self._client.call(call.method, call.parameters)

    def _redirected(self, call: Call, chat: int) -> Call:
        kept = {name: value for name, value in call.parameters.items() if name != "reply_parameters"}
        return Call(call.method, kept | {"chat_id": chat})

    def _remember(self, key: str, message_id: str) -> None:
        self._halves[key] = message_id
        while len(self._halves) > _HALVES_KEPT:
            self._halves.popitem(last=False)


def _check_caption(text: Shown, message: Outgoing) -> None:
    if text.length > LONGEST_CAPTION:
        told = f"the text below a file can't be longer than the {LONGEST_CAPTION} signs that Telegram takes there"
        raise (TooLong if message.is_plain else BadMarkup)(told)


def _id_of(answer: object) -> str:
    """The id of a message that was shown; of an album, that of the one with the text, so that the text can be changed."""
    try:
        shown = msgspec.convert(answer if isinstance(answer, list) else [answer], list[_Sent])
    except msgspec.ValidationError as cause:
        raise Ambiguous("Telegram gave no receipt that can be read") from cause
    if not shown:
        raise Ambiguous("Telegram gave no receipt")
    return str(next((one for one in shown if one.caption), shown[0]).message_id)

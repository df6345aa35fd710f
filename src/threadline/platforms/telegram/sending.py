"""Send messages, edits, files and typing indicators as calls of the Bot API; fetch files.

A call is a method with its parameters, built by pure functions.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from threadline.model.delivery import Target
from threadline.model.inbound import Attachment
from threadline.platforms.telegram.client import TelegramClient
from threadline.platforms.telegram.errors import ChatMigrated, NotAnImage, OnlyCaption
from threadline.platforms.telegram.markup import LONGEST_CAPTION, FormattedText, format_text, repair_surrogates
from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Button,
    Gone,
    Outgoing,
    OutgoingFile,
    PlatformError,
    TooLong,
    Transient,
)

# So many messages are kept whose text was sent and whose files were not yet.
_MAX_TEXTS_SENT = 1_000


class _SentMessage(msgspec.Struct, frozen=True):
    message_id: int
    caption: str = ""


class MessageSender:
    """Sends and edits messages for one bot."""

    def __init__(self, client: TelegramClient) -> None:
        self._client = client
        # The id of the text of a message whose files were not sent yet, by key: the text must not be sent again with them.
        self._texts_sent: OrderedDict[str, str] = OrderedDict()
        self._new_chat_ids: dict[object, int] = {}

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Send a message and return its id."""
        where = with_reply(chat_parameters(to), message)
        if not message.files:
            return _id_of(await self._sent(text_call(where, format_text(message), message.buttons)))
        if not message.text.strip() and not (message.buttons and len(message.files) > 1):
            return await self._send_files(where, message, None, message.buttons)
        text = format_text(message)
        if fits_caption(text, message):
            return await self._send_files(where, message, text, message.buttons)
        if key not in self._texts_sent:
            self._remember(key, _id_of(await self._sent(text_call(where, text, message.buttons))))
        await self._send_files(chat_parameters(to), message, None, ())
        return self._texts_sent.pop(key)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Replace the text and the buttons of a message. Its files stay."""
        where, text = {"chat_id": chat_parameters(to)["chat_id"]}, format_text(message)
        try:
            await self._client_call(edit_call(where, message_id, text, message.buttons))
        except OnlyCaption:
            _check_caption(text, message)
            await self._client_call(caption_call(where, message_id, text, message.buttons))
        except ChatMigrated as cause:
            # Message ids are unique only within their chat.
            raise Gone(str(cause)) from cause

    async def typing(self, to: Target) -> None:
        """Show a typing indicator for some seconds."""
        await self._sent(ApiMethodCall("sendChatAction", chat_parameters(to) | {"action": "typing"}))

    async def _send_files(
        self, where: Parameters, message: Outgoing, text: FormattedText | None, buttons: Sequence[Button]
    ) -> str:
        try:
            answer = await self._sent(file_call(where, message.files, text, buttons, as_documents=False))
        except NotAnImage:
            answer = await self._sent(file_call(where, message.files, text, buttons, as_documents=True))
        return _id_of(answer)

    async def _sent(self, call: ApiMethodCall) -> Any:
        """Make a call and return its result. A group that became a supergroup gets it under its new id."""
        chat = call.parameters["chat_id"]
        try:
            return await self._client_call(
                self._to_new_chat(call, self._new_chat_ids[chat]) if chat in self._new_chat_ids else call
            )
        except ChatMigrated as cause:
            self._new_chat_ids[chat] = cause.new_id
            return await self._client_call(self._to_new_chat(call, cause.new_id))

    async def _client_call(self, call: ApiMethodCall) -> Any:
        return await self._client.call(call.method, call.parameters)

    def _to_new_chat(self, call: ApiMethodCall, chat: int) -> ApiMethodCall:
        kept = {name: value for name, value in call.parameters.items() if name != "reply_parameters"}
        return ApiMethodCall(call.method, kept | {"chat_id": chat})

    def _remember(self, key: str, message_id: str) -> None:
        self._texts_sent[key] = message_id
        while len(self._texts_sent) > _MAX_TEXTS_SENT:
            self._texts_sent.popitem(last=False)


def _check_caption(text: FormattedText, message: Outgoing) -> None:
    if text.length > LONGEST_CAPTION:
        reason = f"the text below a file can't be longer than the {LONGEST_CAPTION} signs that Telegram takes there"
        raise (TooLong if message.is_plain else BadMarkup)(reason)


def _id_of(result: object) -> str:
    """Return the id of a sent message; of an album the id of the message with the text, so that the text can be edited."""
    try:
        messages = msgspec.convert(result if isinstance(result, list) else [result], list[_SentMessage])
    except msgspec.ValidationError as cause:
        raise Ambiguous("Telegram gave no receipt that can be read") from cause
    if not messages:
        raise Ambiguous("Telegram gave no receipt")
    return str(next((message for message in messages if message.caption), messages[0]).message_id)


# The parameters of a call: files, and values that are encoded as JSON.
Parameters: TypeAlias = dict[str, object]

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_PICTURES = ("image/jpeg", "image/png", "image/webp")
_VOICES = ("audio/ogg", "audio/opus")
# A larger image is sent as a document.
_LARGEST_PICTURE = 10_000_000
_LONGEST_BUTTON = 64
_BUTTONS_IN_A_ROW = 3
_NO_PREVIEW: Parameters = {"is_disabled": True}


class ApiMethodCall(msgspec.Struct, frozen=True):
    """One call of the Bot API."""

    method: str
    parameters: Parameters


def chat_of(to: Target) -> int | str:
    """Return the id of the chat, as a number if it is one."""
    return int(to.chat_id) if _NUMBER.fullmatch(to.chat_id) else to.chat_id


def message_number(message_id: str) -> int:
    """Return the id of a message as a number; raise `Gone` for an id that is not Telegram's."""
    if not _NUMBER.fullmatch(message_id):
        raise Gone(f"there is no message {message_id!r} on Telegram")
    return int(message_id)


def chat_parameters(to: Target) -> Parameters:
    """Return the parameters that name the chat and the topic of a target."""
    if to.thread_id is None:
        return {"chat_id": chat_of(to)}
    if not _NUMBER.fullmatch(to.thread_id):
        raise Gone(f"there is no topic {to.thread_id!r} on Telegram")
    return {"chat_id": chat_of(to), "message_thread_id": int(to.thread_id)}


def with_reply(where: Parameters, message: Outgoing) -> Parameters:
    """Add the message that is replied to. If that is deleted, the reply is sent as an ordinary message."""
    if message.reply_to is None or not _NUMBER.fullmatch(message.reply_to):
        return where
    reply = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
    return where | {"reply_parameters": reply}


def keyboard(buttons: Sequence[Button]) -> Parameters:
    """Return the parameters of the buttons: up to three in one row, more below each other. Empty without buttons."""
    if not buttons:
        return {}
    for button in buttons:
        if not 1 <= len(button.value.encode("utf-8", "surrogatepass")) <= _LONGEST_BUTTON:
            raise PlatformError(
                f"what the button {button.label!r} stands for must be 1 to {_LONGEST_BUTTON} bytes long on Telegram"
            )
    keys = [
        {"text": repair_surrogates(button.label), "callback_data": repair_surrogates(button.value)}
        for button in buttons
    ]
    rows = [keys] if len(keys) <= _BUTTONS_IN_A_ROW else [[key] for key in keys]
    return {"reply_markup": {"inline_keyboard": rows}}


def text_call(where: Parameters, text: FormattedText, buttons: Sequence[Button]) -> ApiMethodCall:
    """Return the call that sends a text without files."""
    return ApiMethodCall("sendMessage", where | _text(text) | keyboard(buttons))


def edit_call(where: Parameters, message_id: str, text: FormattedText, buttons: Sequence[Button]) -> ApiMethodCall:
    """Return the call that replaces text and buttons of a message."""
    return ApiMethodCall(
        "editMessageText", where | {"message_id": message_number(message_id)} | _text(text) | keyboard(buttons)
    )


def caption_call(where: Parameters, message_id: str, text: FormattedText, buttons: Sequence[Button]) -> ApiMethodCall:
    """Return the call that replaces the caption and buttons of a message with a file."""
    numbered = where | {"message_id": message_number(message_id)}
    return ApiMethodCall("editMessageCaption", numbered | caption(text) | keyboard(buttons))


def caption(text: FormattedText | None) -> Parameters:
    """Return the parameters of a text below a file."""
    if text is None:
        return {}
    return {"caption": text.text} | ({"caption_entities": list(text.entities)} if text.entities else {})


def fits_caption(text: FormattedText, message: Outgoing) -> bool:
    """Return whether the text fits as a caption: a short text, and no buttons below an album."""
    return text.length <= LONGEST_CAPTION and not (message.buttons and len(message.files) > 1)


def file_call(
    where: Parameters,
    files: Sequence[OutgoingFile],
    text: FormattedText | None,
    buttons: Sequence[Button],
    *,
    as_documents: bool,
) -> ApiMethodCall:
    """Return the call that sends a message with files, several as an album."""
    if len(files) > 1:
        return _album_call(where, files, text, as_documents=as_documents)
    kind = "document" if as_documents else _kind(files[0])
    sent = {kind: with_file_name(files[0])} | caption(text) | keyboard(buttons)
    return ApiMethodCall(f"send{kind.capitalize()}", where | sent)


def with_file_name(file: OutgoingFile) -> OutgoingFile:
    """Return the file with a name that is valid in a request."""
    name = " ".join(repair_surrogates(file.name).split())[-200:]
    return msgspec.structs.replace(file, name=name or "file")


def _album_call(
    where: Parameters, files: Sequence[OutgoingFile], text: FormattedText | None, *, as_documents: bool
) -> ApiMethodCall:
    is_pictures = not as_documents and all(_kind(file) == "photo" for file in files)
    media: list[Parameters] = [
        {"type": "photo" if is_pictures else "document", "media": f"attach://file{number}"}
        for number in range(len(files))
    ]
    # An album of pictures shows the caption of the first. Documents show one each; below the last it reads best.
    media[0 if is_pictures else -1].update(caption(text))
    return ApiMethodCall(
        "sendMediaGroup",
        where | {"media": media} | {f"file{number}": with_file_name(file) for number, file in enumerate(files)},
    )


def _text(text: FormattedText) -> Parameters:
    sent: Parameters = {"text": text.text, "link_preview_options": _NO_PREVIEW}
    return sent | ({"entities": list(text.entities)} if text.entities else {})


def _kind(file: OutgoingFile) -> str:
    mime = file.mime.partition(";")[0].strip().lower()
    if mime in _PICTURES and len(file.body) <= _LARGEST_PICTURE:
        return "photo"
    return "voice" if mime in _VOICES else "document"


class _FileLocation(msgspec.Struct, frozen=True):
    file_path: str | None = None
    file_size: int | None = None


async def fetch_file(client: TelegramClient, attachment: Attachment, *, at_most: int) -> bytes:
    """Return the content of a file. Raises `Gone` if Telegram no longer has it, `TooLong` for more than `at_most` bytes."""
    _check_size(attachment.size, at_most)
    try:
        location = msgspec.convert(await client.call("getFile", {"file_id": attachment.handle}), _FileLocation)
    except Ambiguous as cause:
        # Repeating the request has no effect on Telegram.
        raise Transient(str(cause)) from cause
    except msgspec.ValidationError as cause:
        raise Transient(f"Telegram does not say where the file is: {cause}") from cause
    _check_size(location.file_size, at_most)
    if not location.file_path:
        raise Gone("Telegram does not give the file out")
    return await client.download(location.file_path, at_most=at_most)


def _check_size(size: int | None, at_most: int) -> None:
    if size is not None and size > at_most:
        raise TooLong(f"the file is larger than {at_most:,} bytes")

"""What leaves: messages, edits and hints, each as few calls as Telegram allows."""

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

# So many messages of two parts are remembered whose second part has not arrived yet.
_HALVES_KEPT = 1_000


class _Sent(msgspec.Struct, frozen=True):
    message_id: int
    caption: str = ""


class MessageSender:
    """Sends and edits for one bot."""

    def __init__(self, client: TelegramClient) -> None:
        self._client = client
        # The text of a message whose files have not arrived yet, by its key: it must not be sent again with them.
        self._halves: OrderedDict[str, str] = OrderedDict()
        self._moved: dict[object, int] = {}

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        """Shows a message; its id."""
        where = with_reply(chat_parameters(to), message)
        if not message.files:
            return _id_of(await self._sent(text_call(where, format_text(message), message.buttons)))
        if not message.text.strip() and not (message.buttons and len(message.files) > 1):
            return await self._send_files(where, message, None, message.buttons)
        text = format_text(message)
        if fits_caption(text, message):
            return await self._send_files(where, message, text, message.buttons)
        if key not in self._halves:
            self._remember(key, _id_of(await self._sent(text_call(where, text, message.buttons))))
        await self._send_files(chat_parameters(to), message, None, ())
        return self._halves.pop(key)

    async def edit(self, to: Target, message_id: str, message: Outgoing) -> None:
        """Lets a message say something else. Its files stay as they are."""
        where, text = {"chat_id": chat_parameters(to)["chat_id"]}, format_text(message)
        try:
            await self._client_call(edit_call(where, message_id, text, message.buttons))
        except OnlyCaption:
            _check_caption(text, message)
            await self._client_call(caption_call(where, message_id, text, message.buttons))
        except ChatMigrated as cause:
            # Ids of messages mean something in their own chat only.
            raise Gone(str(cause)) from cause

    async def typing(self, to: Target) -> None:
        """Shows for some seconds that an answer is being written."""
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
        """What Telegram answers. A group that is a supergroup now is written to under its new id."""
        chat = call.parameters["chat_id"]
        try:
            return await self._client_call(self._to_new_chat(call, self._moved[chat]) if chat in self._moved else call)
        except ChatMigrated as cause:
            self._moved[chat] = cause.new_id
            return await self._client_call(self._to_new_chat(call, cause.new_id))

    async def _client_call(self, call: ApiMethodCall) -> Any:
        return await self._client.call(call.method, call.parameters)

    def _to_new_chat(self, call: ApiMethodCall, chat: int) -> ApiMethodCall:
        kept = {name: value for name, value in call.parameters.items() if name != "reply_parameters"}
        return ApiMethodCall(call.method, kept | {"chat_id": chat})

    def _remember(self, key: str, message_id: str) -> None:
        self._halves[key] = message_id
        while len(self._halves) > _HALVES_KEPT:
            self._halves.popitem(last=False)


def _check_caption(text: FormattedText, message: Outgoing) -> None:
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


# What can be sent along: a file, or anything that is written as JSON.
Parameters: TypeAlias = dict[str, object]

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_PICTURES = ("image/jpeg", "image/png", "image/webp")
_VOICES = ("audio/ogg", "audio/opus")
# What is more goes as a document.
_LARGEST_PICTURE = 10_000_000
_LONGEST_BUTTON = 64
_BUTTONS_IN_A_ROW = 3
_NO_PREVIEW: Parameters = {"is_disabled": True}


class ApiMethodCall(msgspec.Struct, frozen=True):
    """One call of the Bot API."""

    method: str
    parameters: Parameters


def chat_of(to: Target) -> int | str:
    """The chat, as a number where it is one."""
    return int(to.chat_id) if _NUMBER.fullmatch(to.chat_id) else to.chat_id


def message_number(message_id: str) -> int:
    """The id of a message; `Gone` for one that can't be Telegram's."""
    if not _NUMBER.fullmatch(message_id):
        raise Gone(f"there is no message {message_id!r} on Telegram")
    return int(message_id)


def chat_parameters(to: Target) -> Parameters:
    """Where something is shown."""
    if to.thread_id is None:
        return {"chat_id": chat_of(to)}
    if not _NUMBER.fullmatch(to.thread_id):
        raise Gone(f"there is no topic {to.thread_id!r} on Telegram")
    return {"chat_id": chat_of(to), "message_thread_id": int(to.thread_id)}


def with_reply(where: Parameters, message: Outgoing) -> Parameters:
    """The place of a message that answers another. Without that other one it is shown all the same."""
    if message.reply_to is None or not _NUMBER.fullmatch(message.reply_to):
        return where
    reply = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
    return where | {"reply_parameters": reply}


def keyboard(buttons: Sequence[Button]) -> Parameters:
    """The buttons under a message: a few beside each other, more below each other. Nothing where there are none."""
    if not buttons:
        return {}
    for button in buttons:
        if not 1 <= len(button.value.encode("utf-8", "surrogatepass")) <= _LONGEST_BUTTON:
            raise PlatformError(
                f"what the button {button.label!r} stands for must be 1 to {_LONGEST_BUTTON} bytes long on Telegram"
            )
    made = [
        {"text": repair_surrogates(button.label), "callback_data": repair_surrogates(button.value)}
        for button in buttons
    ]
    rows = [made] if len(made) <= _BUTTONS_IN_A_ROW else [[button] for button in made]
    return {"reply_markup": {"inline_keyboard": rows}}


def text_call(where: Parameters, text: FormattedText, buttons: Sequence[Button]) -> ApiMethodCall:
    """A message of text alone."""
    return ApiMethodCall("sendMessage", where | _text(text) | keyboard(buttons))


def edit_call(where: Parameters, message_id: str, text: FormattedText, buttons: Sequence[Button]) -> ApiMethodCall:
    """Another text for a message. Buttons that are not given go."""
    return ApiMethodCall(
        "editMessageText", where | {"message_id": message_number(message_id)} | _text(text) | keyboard(buttons)
    )


def caption_call(where: Parameters, message_id: str, text: FormattedText, buttons: Sequence[Button]) -> ApiMethodCall:
    """Another text for a message that has a file."""
    numbered = where | {"message_id": message_number(message_id)}
    return ApiMethodCall("editMessageCaption", numbered | caption(text) | keyboard(buttons))


def caption(text: FormattedText | None) -> Parameters:
    """The text below a file."""
    if text is None:
        return {}
    return {"caption": text.text} | ({"caption_entities": list(text.entities)} if text.entities else {})


def fits_caption(text: FormattedText, message: Outgoing) -> bool:
    """Whether a text can stand below the files of its message: a short one, and without buttons where there are several."""
    return text.length <= LONGEST_CAPTION and not (message.buttons and len(message.files) > 1)


def file_call(
    where: Parameters,
    files: Sequence[OutgoingFile],
    text: FormattedText | None,
    buttons: Sequence[Button],
    *,
    as_documents: bool,
) -> ApiMethodCall:
    """One message with files: an album where there are several."""
    if len(files) > 1:
        return _album_call(where, files, text, as_documents=as_documents)
    kind = "document" if as_documents else _kind(files[0])
    sent = {kind: with_file_name(files[0])} | caption(text) | keyboard(buttons)
    return ApiMethodCall(f"send{kind.capitalize()}", where | sent)


def with_file_name(file: OutgoingFile) -> OutgoingFile:
    """The file with a name that can stand in a request."""
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
    # An album shows the first text as its own; of documents each has one, and it reads better below the last.
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


class _FilePlace(msgspec.Struct, frozen=True):
    file_path: str | None = None
    file_size: int | None = None


async def fetch_file(client: TelegramClient, attachment: Attachment, *, at_most: int) -> bytes:
    """What is in a file. `Gone` where Telegram does not have it any more, `TooLong` where it is more than so many bytes."""
    _check_size(attachment.size, at_most)
    try:
        found = msgspec.convert(await client.call("getFile", {"file_id": attachment.handle}), _FilePlace)
    except Ambiguous as cause:
        # Nothing is done by asking.
        raise Transient(str(cause)) from cause
    except msgspec.ValidationError as cause:
        raise Transient(f"Telegram does not say where the file is: {cause}") from cause
    _check_size(found.file_size, at_most)
    if not found.file_path:
        raise Gone("Telegram does not give the file out")
    return await client.download(found.file_path, at_most=at_most)


def _check_size(size: int | None, at_most: int) -> None:
    if size is not None and size > at_most:
        raise TooLong(f"the file is larger than {at_most:,} bytes")

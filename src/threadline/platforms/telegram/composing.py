"""Calls of the Bot API for what is to be shown. Pure: a call is a method and its parameters, files among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from threadline.model.delivery import Target
from threadline.platforms.telegram.markup import LONGEST_CAPTION, Shown, mended
from threadline.ports.platform import Button, Gone, Outgoing, OutgoingFile, PlatformError

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


class Call(msgspec.Struct, frozen=True):
    """One call of the Bot API."""

    method: str
    parameters: Parameters


def chat_of(to: Target) -> int | str:
    """The chat, as a number where it is one."""
    return int(to.chat_id) if _NUMBER.fullmatch(to.chat_id) else to.chat_id


def number_of(message_id: str) -> int:
    """The id of a message; `Gone` for one that can't be Telegram's."""
    if not _NUMBER.fullmatch(message_id):
        raise Gone(f"there is no message {message_id!r} on Telegram")
    return int(message_id)


def place(to: Target) -> Parameters:
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
    made = [{"text": mended(button.label), "callback_data": mended(button.value)} for button in buttons]
    rows = [made] if len(made) <= _BUTTONS_IN_A_ROW else [[button] for button in made]
    return {"reply_markup": {"inline_keyboard": rows}}


def text_call(where: Parameters, text: Shown, buttons: Sequence[Button]) -> Call:
    """A message of text alone."""
    return Call("sendMessage", where | _text(text) | keyboard(buttons))


def edit_call(where: Parameters, message_id: str, text: Shown, buttons: Sequence[Button]) -> Call:
    """Another text for a message. Buttons that are not given go."""
    return Call("editMessageText", where | {"message_id": number_of(message_id)} | _text(text) | keyboard(buttons))


def caption_call(where: Parameters, message_id: str, text: Shown, buttons: Sequence[Button]) -> Call:
    """Another text for a message that has a file."""
    numbered = where | {"message_id": number_of(message_id)}
    return Call("editMessageCaption", numbered | caption(text) | keyboard(buttons))


def caption(text: Shown | None) -> Parameters:
    """The text below a file."""
    if text is None:
        return {}
    return {"caption": text.text} | ({"caption_entities": list(text.entities)} if text.entities else {})


def fits_below(text: Shown, message: Outgoing) -> bool:
    """Whether a text can stand below the files of its message: a short one, and without buttons where there are several."""
    return text.length <= LONGEST_CAPTION and not (message.buttons and len(message.files) > 1)


def file_call(
    where: Parameters,
    files: Sequence[OutgoingFile],
    text: Shown | None,
    buttons: Sequence[Button],
    *,
    as_documents: bool,
) -> Call:
    """One message with files: an album where there are several."""
    if len(files) > 1:
        return _album_call(where, files, text, as_documents=as_documents)
    kind = "document" if as_documents else _kind(files[0])
    sent = {kind: named(files[0])} | caption(text) | keyboard(buttons)
    return Call(f"send{kind.capitalize()}", where | sent)


def named(file: OutgoingFile) -> OutgoingFile:
    """The file with a name that can stand in a request."""
    name = " ".join(mended(file.name).split())[-200:]
    return msgspec.structs.replace(file, name=name or "file")


def _album_call(where: Parameters, files: Sequence[OutgoingFile], text: Shown | None, *, as_documents: bool) -> Call:
    is_pictures = not as_documents and all(_kind(file) == "photo" for file in files)
    media: list[Parameters] = [
        {"type": "photo" if is_pictures else "document", "media": f"attach://file{number}"}
        for number in range(len(files))
    ]
    # An album shows the first text as its own; of documents each has one, and it reads better below the last.
    media[0 if is_pictures else -1].update(caption(text))
    return Call(
        "sendMediaGroup",
        where | {"media": media} | {f"file{number}": named(file) for number, file in enumerate(files)},
    )


def _text(text: Shown) -> Parameters:
    sent: Parameters = {"text": text.text, "link_preview_options": _NO_PREVIEW}
    return sent | ({"entities": list(text.entities)} if text.entities else {})


def _kind(file: OutgoingFile) -> str:
    mime = file.mime.partition(";")[0].strip().lower()
    if mime in _PICTURES and len(file.body) <= _LARGEST_PICTURE:
        return "photo"
    return "voice" if mime in _VOICES else "document"

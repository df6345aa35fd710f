"""One chat of a Telegram of a test: its messages by id, its topics, and who may not speak there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from threadline.errors import InvalidRequest
from threadline.testing.telegram_files import Files
from threadline.testing.telegram_values import Chat, FileKind, Json, ShownFile, ShownMessage

if TYPE_CHECKING:
    from threadline.testing.telegram_bots import Bot

FILE_KINDS: tuple[FileKind, ...] = ("photo", "voice", "audio", "video", "animation", "document")


class Room:
    """A chat and everything in it. `barred` says why a bot may not speak."""

    def __init__(self, chat: Chat, bots: list[Bot]) -> None:
        self.chat = chat
        self.bots = bots
        self.messages: dict[int, Json] = {}
        self.topics: dict[int, str] = {}
        self.statuses: dict[int, str] = {}
        self.barred: dict[int, str] = {}
        self.moved_to: int | None = None
        self.description = ""
        self.next_id = 1
        # Which bot sent a message, by its id.
        self.authors: dict[int, int] = {}
        self._edits: dict[int, list[str]] = {}

    def add(
        self, now: int, *, sender: Json | None, fields: Json, thread: int | None = None, reply_to: int | None = None
    ) -> Json:
        """A new message at the end. A reply belongs to the topic of what it answers."""
        message: Json = {"message_id": self.next_id, "date": now, "chat": self.chat.wire}
        if sender is not None:
            message["from"] = sender
        if reply_to is not None:
            if reply_to not in self.messages:
                raise InvalidRequest(f"there is no message {reply_to} to reply to")
            answered = self.messages[reply_to]
            message["reply_to_message"] = {
                name: value for name, value in answered.items() if name != "reply_to_message"
            }
            thread = thread or answered.get("message_thread_id")
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        message |= fields
        self.messages[message["message_id"]] = message
        self.next_id = message["message_id"] + 1
        return message

    def change(self, message: Json, fields: Json, now: int) -> None:
        """Shows other fields in a message of a bot; `None` takes one away."""
        self._edits.setdefault(message["message_id"], []).append(_text(message))
        for name, value in fields.items():
            message.pop(name, None)
            if value:
                message[name] = value
        message["edit_date"] = now

    def shown(self, files: Files) -> Iterator[ShownMessage]:
        """What bots have sent, as it reads now."""
        return (self.shown_one(number, files) for number in self.messages if number in self.authors)

    def shown_one(self, number: int, files: Files) -> ShownMessage:
        """A message that a bot has sent."""
        message = self.messages[number]
        return ShownMessage(
            message_id=number,
            chat=self.chat.id,
            thread=message.get("message_thread_id"),
            sender=self.authors[number],
            text=_text(message),
            entities=tuple(message.get("entities") or message.get("caption_entities") or ()),
            reply_to=message.get("reply_to_message", {}).get("message_id"),
            reply_markup=message.get("reply_markup"),
            files=tuple(_files(message, files)),
            album=message.get("media_group_id"),
            edits=tuple(self._edits.get(number, ())),
        )


def _text(message: Json) -> str:
    return str(message.get("text") or message.get("caption") or "")


def _files(message: Json, files: Files) -> Iterator[ShownFile]:
    for kind in FILE_KINDS:
        if kind not in message:
            continue
        value = message[kind][-1] if kind == "photo" else message[kind]
        if (file := files.find(value["file_id"])) is not None:
            yield ShownFile(kind=kind, file_id=file.file_id, name=file.name, mime=file.mime, body=file.body)
            return

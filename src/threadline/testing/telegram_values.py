"""What a Telegram of a test is made of: people, chats, what happened, what is shown, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

# A value of the wire as JSON has it. The fields are Telegram's.
Json: TypeAlias = dict[str, Any]
ChatKind: TypeAlias = Literal["private", "group", "supergroup", "channel"]
FileKind: TypeAlias = Literal["photo", "document", "voice", "audio", "video", "animation"]


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody, or a bot."""

    id: int
    first_name: str
    last_name: str | None = None
    username: str | None = None
    language_code: str | None = None
    is_bot: bool = False

    @property
    def wire(self) -> Json:
        return without_nothing(msgspec.structs.asdict(self))


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """A place where people talk."""

    id: int
    type: ChatKind
    title: str | None = None
    username: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    is_forum: bool | None = None

    @property
    def wire(self) -> Json:
        return without_nothing(msgspec.structs.asdict(self))


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a bot is told of. `body` is the update as it goes over the wire."""

    update_id: int
    chat: int
    message_id: int
    body: bytes

    @property
    def update(self) -> Json:
        """The update as it reads."""
        return dict(msgspec.json.decode(self.body))


class ShownFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a chat."""

    kind: FileKind
    file_id: str
    name: str
    mime: str
    body: bytes


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as people see it now. `edits` are the texts that it showed before, oldest first; `text` may be a caption."""

    message_id: int
    chat: int
    thread: int | None
    sender: int
    text: str
    entities: tuple[Json, ...] = ()
    reply_to: int | None = None
    reply_markup: Json | None = None
    files: tuple[ShownFile, ...] = ()
    album: str | None = None
    edits: tuple[str, ...] = ()

    @property
    def buttons(self) -> list[str]:
        """What its buttons send, row after row."""
        rows = (self.reply_markup or {}).get("inline_keyboard", ())
        return [button.get("callback_data", "") for row in rows for button in row]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A method that was called, with its parameters as texts and the names of the files that came along."""

    method: str
    bot: int
    parameters: Mapping[str, str]
    files: tuple[str, ...] = ()


class ApiError(Exception):
    """What the Bot API answers when it does not do as asked."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    @property
    def wire(self) -> Json:
        told: Json = {"ok": False, "error_code": self.code, "description": self.description}
        return told | {"parameters": self.parameters} if self.parameters else told


class BadRequest(ApiError):
    """The request can't be carried out as it is."""

    def __init__(self, reason: str, **parameters: int) -> None:
        super().__init__(400, f"Bad Request: {reason}", **parameters)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong with a call: whether it is carried out all the same, and what the caller hears."""

    is_performed: bool = False
    error: ApiError | None = None
    hangs: bool = False


def rate_limit(retry_after: int) -> Fault:
    """The call is refused: too many of them, come back after so many seconds."""
    return Fault(error=ApiError(429, f"Too Many Requests: retry after {retry_after}", retry_after=retry_after))


def refuse(code: int, description: str) -> Fault:
    """The call is refused with these words."""
    return Fault(error=ApiError(code, description))


def swallow() -> Fault:
    """The call is carried out, and the connection is cut before a word is said."""
    return Fault(is_performed=True)


def disconnect() -> Fault:
    """The connection is cut, and nothing is done."""
    return Fault()


def hang(*, performed: bool = False) -> Fault:
    """No answer comes before `BotApi.release`. The call is carried out before that, after it, or never if the caller leaves."""
    return Fault(is_performed=performed, hangs=True)


def without_nothing(fields: Mapping[str, Any]) -> Json:
    """The fields that have a value; a flag that is off is left out, as Telegram does."""
    return {
        name: value for name, value in fields.items() if value is not None and (value is not False or name == "is_bot")
    }

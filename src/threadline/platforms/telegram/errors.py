"""Convert error responses of the Bot API to the errors of the port. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Contested,
    Gone,
    NotModified,
    PlatformError,
    RateLimited,
    TooLong,
    Transient,
    Unauthorized,
)

# Seconds to wait if Telegram limits the rate without a number.
_USUAL_WAIT = 5.0
_NOT_KNOWN = "Telegram does not know this token; copy it again from @BotFather, and check base_url if you have set one"


class WebhookActive(Transient):
    """A webhook is set, so updates can't be requested."""


class NotAnImage(PlatformError):
    """The file can't be sent as a picture or a voice message; send it as a document."""


class OnlyCaption(PlatformError):
    """The message has no text but a caption; edit that."""


class ChatMigrated(PlatformError):
    """The group became a supergroup with another id; the call had no effect. Repeat it with `new_id`."""

    def __init__(self, new_id: int) -> None:
        super().__init__("the group has become a supergroup with another id")
        self.new_id = new_id


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class ErrorResponse(msgspec.Struct, frozen=True):
    """An error response of the Bot API."""

    description: str
    parameters: _Parameters = _Parameters()


# Parts of the descriptions of bad requests, in lower case; the first match counts.
_MEANINGS: Final[Mapping[str, type[PlatformError]]] = {
    "message is not modified": NotModified,
    "there is no text in the message": OnlyCaption,
    "can't parse entities": BadMarkup,
    "can't parse message": BadMarkup,
    "can't parse caption": BadMarkup,
    "entity_": BadMarkup,
    "entities_": BadMarkup,
    "entity ": BadMarkup,
    "photo_": NotAnImage,
    "image_process_failed": NotAnImage,
    "too big for a photo": NotAnImage,
    "voice_messages_forbidden": NotAnImage,
    "too long": TooLong,
    "too_long": TooLong,
    "too big": TooLong,
    "too large": TooLong,
    "chat not found": Gone,
    "user not found": Gone,
    "peer_id_invalid": Gone,
    "deactivated": Gone,
    "message to edit not found": Gone,
    "message can't be edited": Gone,
    "message_id_invalid": Gone,
    "message thread not found": Gone,
    "topic_deleted": Gone,
    "topic_id_invalid": Gone,
    "write_forbidden": Gone,
    "chat_restricted": Gone,
    "user_is_blocked": Gone,
    "not enough rights": Gone,
    "have no rights": Gone,
    "need administrator rights": Gone,
    "bot was kicked": Gone,
    "bot is not a member": Gone,
    "file_id": Gone,
    "file identifier": Gone,
    "file_reference": Gone,
}


def parse_error(code: int, body: bytes) -> PlatformError:
    """Convert an error response. One that comes from a proxy, not from Telegram, proves nothing about the message."""
    try:
        return error_of(code, msgspec.json.decode(body, type=ErrorResponse))
    except (msgspec.DecodeError, UnicodeDecodeError):
        reason = f"somebody between us and Telegram answers with an error {code}"
        return Ambiguous(reason) if code >= 500 else Transient(reason)


def error_of(code: int, response: ErrorResponse) -> PlatformError:
    """Return the error of the port for an error response."""
    reason = f"Telegram says: {response.description}"
    if response.parameters.migrate_to_chat_id is not None:
        return ChatMigrated(response.parameters.migrate_to_chat_id)
    if code == 429:
        wait = response.parameters.retry_after
        return RateLimited(_USUAL_WAIT if wait is None else wait)
    if code in (401, 404):
        # A malformed token makes a URL that does not exist.
        return Unauthorized(_NOT_KNOWN)
    if code == 409:
        return (WebhookActive if "webhook" in response.description.lower() else Contested)(reason)
    if code == 400:
        description = response.description.lower()
        return next((kind for part, kind in _MEANINGS.items() if part in description), PlatformError)(reason)
    return _by_code(code)(reason)


def _by_code(code: int) -> type[PlatformError]:
    if code >= 500:
        # Some proxies answer so after the message has gone through.
        return Ambiguous
    return {403: Gone, 413: TooLong}.get(code, PlatformError)

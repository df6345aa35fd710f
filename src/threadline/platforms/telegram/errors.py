"""What Telegram says when it does not do what was asked, and what that means. Pure."""

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

# Where Telegram asks for patience without saying how much.
_USUAL_WAIT = 5.0
_NOT_KNOWN = "Telegram does not know this token; copy it again from @BotFather, and check base_url if you have set one"


class WebhookActive(Transient):
    """Updates go to a webhook that somebody has set, so that nobody can ask for them."""


class NotAnImage(PlatformError):
    """The file can't be shown as a picture or played as a voice; sent as a document it will do."""


class OnlyCaption(PlatformError):
    """The message has a caption instead of a text."""


class ChatMigrated(PlatformError):
    """The group is a supergroup now, with another id. Nothing was done in the old one."""

    def __init__(self, new_id: int) -> None:
        super().__init__("the group has become a supergroup with another id")
        self.new_id = new_id


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class ErrorResponse(msgspec.Struct, frozen=True):
    """An answer that says no."""

    description: str
    parameters: _Parameters = _Parameters()


# Parts of what Telegram says of a bad request, in small letters; the first that is found counts.
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
    """What an answer with an error means. One that is not Telegram's own, but of somebody on the way, settles nothing."""
    try:
        return error_of(code, msgspec.json.decode(body, type=ErrorResponse))
    except (msgspec.DecodeError, UnicodeDecodeError):
        told = f"somebody between us and Telegram answers with an error {code}"
        return Ambiguous(told) if code >= 500 else Transient(told)


def error_of(code: int, refusal: ErrorResponse) -> PlatformError:
    """The error for a refusal, in terms of what can be done."""
    told = f"Telegram says: {refusal.description}"
    if refusal.parameters.migrate_to_chat_id is not None:
        return ChatMigrated(refusal.parameters.migrate_to_chat_id)
    if code == 429:
        wait = refusal.parameters.retry_after
        return RateLimited(_USUAL_WAIT if wait is None else wait)
    if code in (401, 404):
        # A malformed token makes an address that is not there.
        return Unauthorized(_NOT_KNOWN)
    if code == 409:
        return (WebhookActive if "webhook" in refusal.description.lower() else Contested)(told)
    if code == 400:
        said = refusal.description.lower()
        return next((kind for part, kind in _MEANINGS.items() if part in said), PlatformError)(told)
    return _by_code(code)(told)


def _by_code(code: int) -> type[PlatformError]:
    if code >= 500:
        # Some servers on the way say so after the message has gone through.
        return Ambiguous
    return {403: Gone, 413: TooLong}.get(code, PlatformError)

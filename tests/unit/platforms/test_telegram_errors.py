"""What Telegram refuses with becomes what can be done about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadline.platforms.telegram.errors import ChatMigrated, NotAnImage, OnlyCaption, WebhookActive, parse_error
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


def refused(code: int, description: str, **parameters: Any) -> PlatformError:
    answer = {"ok": False, "error_code": code, "description": description}
    return parse_error(code, json.dumps(answer | ({"parameters": parameters} if parameters else {})).encode())


@pytest.mark.parametrize(
    ("code", "description", "kind"),
    [
        (400, "Bad Request: message is not modified: specified new message content is the same", NotModified),
        (400, "Bad Request: can't parse entities: Can't find end of the entity at byte offset 3", BadMarkup),
        (400, "Bad Request: entity begins after the end of the text at UTF-16 offset 9", BadMarkup),
        (400, "Bad Request: ENTITY_BOUNDS_INVALID", BadMarkup),
        (400, "Bad Request: message is too long", TooLong),
        (400, "Bad Request: MESSAGE_TOO_LONG", TooLong),
        (400, "Bad Request: message caption is too long", TooLong),
        (400, "Bad Request: file is too big", TooLong),
        (413, "Request Entity Too Large", TooLong),
        (400, "Bad Request: chat not found", Gone),
        (400, "Bad Request: message to edit not found", Gone),
        (400, "Bad Request: message can't be edited", Gone),
        (400, "Bad Request: message thread not found", Gone),
        (400, "Bad Request: not enough rights to send text messages to the chat", Gone),
        (400, "Bad Request: invalid file_id", Gone),
        (400, "Bad Request: wrong file_id or the file is temporarily unavailable", Gone),
        (403, "Forbidden: bot was blocked by the user", Gone),
        (403, "Forbidden: bot was kicked from the supergroup chat", Gone),
        (401, "Unauthorized", Unauthorized),
        (404, "Not Found", Unauthorized),
        (409, "Conflict: terminated by other getUpdates request; make sure that only one bot is running", Contested),
        (409, "Conflict: can't use getUpdates method while webhook is active", WebhookActive),
        (400, "Bad Request: PHOTO_INVALID_DIMENSIONS", NotAnImage),
        (400, "Bad Request: IMAGE_PROCESS_FAILED", NotAnImage),
        (400, "Bad Request: VOICE_MESSAGES_FORBIDDEN", NotAnImage),
        (400, "Bad Request: there is no text in the message to edit", OnlyCaption),
        (500, "Internal Server Error", Ambiguous),
        (502, "Bad Gateway", Ambiguous),
        (400, "Bad Request: BUTTON_DATA_INVALID", PlatformError),
        (400, "Bad Request: can't parse reply keyboard markup JSON object", PlatformError),
        (418, "I'm a teapot", PlatformError),
    ],
)
def test_a_refusal_becomes_its_error(code: int, description: str, kind: type[PlatformError]) -> None:
    assert type(refused(code, description)) is kind


def test_telegram_says_how_long_to_wait() -> None:
    error = refused(429, "Too Many Requests: retry after 7", retry_after=7)
    assert isinstance(error, RateLimited)
    assert error.retry_after == 7
    unsaid = refused(429, "Too Many Requests")
    assert isinstance(unsaid, RateLimited)
    assert unsaid.retry_after > 0


def test_a_group_that_moved_says_where_to() -> None:
    error = refused(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-1009)
    assert isinstance(error, ChatMigrated)
    assert error.new_id == -1009


@pytest.mark.parametrize(("code", "kind"), [(401, Transient), (404, Transient), (502, Ambiguous), (504, Ambiguous)])
def test_an_answer_of_somebody_on_the_way_ends_nothing_for_good(code: int, kind: type[PlatformError]) -> None:
    assert type(parse_error(code, b"<html>no</html>")) is kind


def test_what_is_shown_names_telegram_as_the_one_who_says_it() -> None:
    assert str(refused(403, "Forbidden: bot was blocked by the user")).startswith("Telegram says: ")

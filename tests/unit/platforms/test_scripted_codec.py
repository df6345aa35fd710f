"""What the scripted chat says is read into what the gateway knows, and errors cross the wire as themselves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threadline.errors import InvalidRequest
from threadline.model.inbound import Attachment, IdChange, Inbound, Quote, Unreadable
from threadline.model.source import SessionSource
from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Gone,
    NotModified,
    Outgoing,
    PlatformError,
    RateLimited,
    TooLong,
    Transient,
    Unauthorized,
)
from threadline.testing.scripted_codec import (
    Failed,
    Ignored,
    Moving,
    chat_of,
    parse_address,
    read_error,
    read_event,
    read_from_chat,
    sendable,
    write,
    write_error,
    write_event,
)

_LEAST: dict[str, Any] = {
    "kind": "message",
    "key": "c/1",
    "message": "1",
    "chat": "c",
    "user": "7",
    "at": "2026-01-05T12:00:00Z",
}


def read(**fields: Any) -> Inbound | IdChange | Unreadable | Ignored:
    return read_event(json.dumps(_LEAST | fields).encode(), platform="scripted", account="work")


def test_the_least_that_an_event_says() -> None:
    assert read() == Inbound(
        dedupe_key="c/1",
        message_id="1",
        source=SessionSource(platform="scripted", account="work", chat_id="c", user_id="7"),
        sent_at=datetime(2026, 1, 5, 12, tzinfo=UTC),
    )


def test_everything_that_an_event_can_say() -> None:
    event = read(
        kind="button",
        chat_type="group",
        thread="t",
        name="Ada",
        text="hello",
        mention=True,
        reply_to={"message_id": "m1", "text": "hi", "is_ours": True},
        forward=True,
        bot=True,
        admin=True,
        files=[{"handle": "f1", "name": "../x", "mime": "image/png", "size": 3}],
        album="a",
        value="yes",
    )
    assert event == Inbound(
        dedupe_key="c/1",
        message_id="1",
        source=SessionSource(
            platform="scripted",
            account="work",
            chat_id="c",
            chat_type="group",
            thread_id="t",
            user_id="7",
            user_name="Ada",
        ),
        sent_at=datetime(2026, 1, 5, 12, tzinfo=UTC),
        kind="button",
        text="hello",
        reply_to=Quote(message_id="m1", text="hi", is_ours=True),
        mentions_us=True,
        is_forward=True,
        from_bot=True,
        sender_is_admin=True,
        attachments=(Attachment(handle="f1", name="../x", mime="image/png", size=3),),
        album_id="a",
        button="yes",
    )


def test_what_is_none_of_ours_is_ignored() -> None:
    assert read(kind="joined") == Ignored("joined")


@pytest.mark.parametrize(
    "fields",
    [{"key": None}, {"chat": 7}, {"at": "yesterday"}, {"at": "2026-01-05T12:00:00"}, {"chat_type": "cave"}],
)
def test_what_makes_no_sense_is_unreadable(fields: dict[str, Any]) -> None:
    event = read(**fields)
    assert isinstance(event, Unreadable)
    assert event.account == "work"
    assert json.loads(event.raw) == _LEAST | fields


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_what_is_no_event_at_all_is_unreadable(body: bytes) -> None:
    event = read_event(body, platform="scripted", account="main")
    assert isinstance(event, Unreadable)
    assert event.raw == body.decode(errors="replace")
    assert event.reason


def test_a_new_id_is_read() -> None:
    body = write_event(Moving(key="k", what="chat", old="1", new="2"))
    assert read_event(body, platform="scripted", account="main") == IdChange(
        platform="scripted", account="main", dedupe_key="k", what="chat", old_id="1", new_id="2"
    )


@pytest.mark.parametrize(
    "kind", [Transient, Ambiguous, TooLong, BadMarkup, NotModified, Gone, Unauthorized, PlatformError]
)
def test_an_error_crosses_the_wire_as_itself(kind: type[PlatformError]) -> None:
    failed = read_from_chat(write(write_error(3, kind("so it is"))))
    assert isinstance(failed, Failed)
    error = read_error(failed)
    assert (failed.call, type(error), str(error)) == (3, kind, "so it is")


def test_how_long_to_wait_crosses_the_wire() -> None:
    error = read_error(write_error(1, RateLimited(2.5)))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 2.5


def test_an_error_nobody_has_heard_of_is_still_one() -> None:
    assert type(read_error(Failed(1, "OutOfInk", "no ink"))) is PlatformError


def test_halves_of_surrogate_pairs_are_mended_before_they_leave() -> None:
    assert sendable(Outgoing(text="\ud83d\ude00 \ud83d!")).text == "😀 \ufffd!"
    whole = Outgoing(text="as it is 😀")
    assert sendable(whole) is whole


def test_addresses_of_chats() -> None:
    assert parse_address("unix:/tmp/chat") == Path("/tmp/chat")
    assert parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_address("[::1]:80") == ("::1", 80)


@pytest.mark.parametrize("address", ["", "unix:", "localhost", ":80", "host:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="HOST:PORT"):
        parse_address(address)


@pytest.mark.parametrize(
    ("body", "chat"),
    [
        (json.dumps(_LEAST).encode(), "c"),
        (json.dumps(_LEAST | {"kind": "joined"}).encode(), "c"),
        (json.dumps(_LEAST | {"at": "yesterday"}).encode(), "c"),
        (json.dumps(_LEAST | {"chat": 7}).encode(), ""),
        (b'"a poem"', ""),
        (b"\xff", ""),
    ],
)
def test_an_event_has_its_place_in_its_chat_whether_it_can_be_read_or_not(body: bytes, chat: str) -> None:
    assert chat_of(body) == chat


def test_an_id_that_changes_has_its_place_among_the_events_of_all_chats() -> None:
    assert chat_of(write_event(Moving(key="k", what="chat", old="c", new="d"))) is None

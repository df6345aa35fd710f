"""Which message is the last part of a text that a client has cut at its platform's limit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from threadline.gateway.splits import SplitTexts
from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource
from threadline.ports.platform import Capabilities

THEN = datetime(2026, 1, 5, tzinfo=UTC)
CAN = Capabilities(max_length=100, length_unit="utf16")


def is_last(
    splits: SplitTexts, text: str, *, user: str = "ada", chat: str = "den", after: float = 0.0, album: str | None = None
) -> bool:
    source = SessionSource(platform="p", chat_id=chat, user_id=user)
    event = Inbound(dedupe_key="1", message_id="1", source=source, sent_at=THEN, text=text, album_id=album)
    return splits.is_last_part(event, CAN, THEN + timedelta(seconds=after))


def test_a_message_ends_a_text_once_where_it_follows_one_that_fills_the_limit() -> None:
    splits = SplitTexts()
    told = [is_last(splits, text) for text in ("x", "x" * 100, "x" * 96, "x", "x")]
    assert told == [False, False, False, True, False]


def test_the_limit_is_measured_in_the_platforms_own_unit() -> None:
    splits = SplitTexts()
    assert [is_last(splits, text) for text in ("\N{GRINNING FACE}" * 50, "x")] == [False, True]


def test_nobody_ends_anothers_text_and_none_that_was_sent_long_ago() -> None:
    splits = SplitTexts()
    assert not is_last(splits, "x" * 100)
    assert not is_last(splits, "x", user="bob")
    assert not is_last(splits, "x", chat="hall")
    assert not is_last(splits, "x", after=7)
    assert not is_last(splits, "x", after=7)


def test_an_album_that_follows_a_long_text_is_waited_for() -> None:
    splits = SplitTexts()
    assert [is_last(splits, "x" * 100), is_last(splits, "a caption", album="7")] == [False, False]

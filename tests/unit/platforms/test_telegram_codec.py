"""What Telegram's updates mean where one update alone does not show it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.model.inbound import Inbound, Unreadable, sanitized, validation_error
from threadline.platforms.telegram import wire
from threadline.platforms.telegram.client import split_updates
from threadline.platforms.telegram.codec import (
    BotAccount,
    BotIdentity,
    ParsedUpdate,
    SkippedUpdate,
    Topic,
    mentions,
    read_update,
    strip_mention,
)

HERE = BotAccount("tg", "work", BotIdentity(110000001, "our_bot"))
AT = datetime(2026, 1, 5, 13, tzinfo=UTC)
ADA: dict[str, Any] = {"id": 7, "is_bot": False, "first_name": "Ada"}
FORUM: dict[str, Any] = {"id": -100, "type": "supergroup", "title": "Crowd", "is_forum": True}


def read(kind: str = "message", topics: Any = (), **fields: Any) -> ParsedUpdate:
    message = {"message_id": 5, "date": 1767614400, "chat": {"id": 7, "type": "private"}, "from": ADA} | fields
    update = json.dumps({"update_id": 9, kind: message})
    return read_update(update.encode(), HERE, topics=dict(topics), at=AT)


def inbound(kind: str = "message", topics: Any = (), **fields: Any) -> Inbound:
    what = read(kind, topics, **fields).event
    assert isinstance(what, Inbound)
    return what


def test_the_account_and_the_platform_are_those_that_read() -> None:
    source = inbound(text="hi").source
    assert (source.platform, source.account) == ("tg", "work")


def test_the_same_message_in_two_chats_is_two_events() -> None:
    group = {"id": -9, "type": "group", "title": "g"}
    assert inbound(text="hi").dedupe_key != inbound(text="hi", chat=group).dedupe_key


@pytest.mark.parametrize("update", [{"message": {}}, {"edited_message": {"edit_date": 1767614401}}, {"unknown": {}}])
def test_the_same_numbers_from_two_bots_are_two_events(update: dict[str, Any]) -> None:
    (kind, more), *_ = update.items()
    message = {"message_id": 5, "date": 1767614400, "chat": {"id": 7, "type": "private"}, "from": ADA, "text": "hi"}
    raw = json.dumps({"update_id": 9, kind: message | more}).encode()
    keys = set()
    for us in (HERE.bot, BotIdentity(110000002, "other_bot")):
        what = read_update(raw, BotAccount("tg", "work", us), topics={}, at=AT).event
        assert isinstance(what, Inbound | Unreadable)
        keys.add(what.dedupe_key)
    assert len(keys) == 2


def test_two_edits_within_one_second_are_two_events_and_each_told_again_is_one() -> None:
    first, second = (inbound("edited_message", text=text, edit_date=1767614401) for text in ("one", "two"))
    again = inbound("edited_message", text="two", edit_date=1767614401)
    assert first.dedupe_key != second.dedupe_key == again.dedupe_key


def test_an_edit_that_looks_like_another_bots_command_is_still_an_edit() -> None:
    entities = [{"type": "bot_command", "offset": 0, "length": 11}]
    assert inbound("edited_message", text="/help@other", entities=entities, edit_date=1767614401).kind == "edit"


def test_a_topics_name_is_learned_when_it_is_opened_and_when_it_is_renamed() -> None:
    place: dict[str, Any] = {"chat": FORUM, "message_thread_id": 30, "is_topic_message": True}
    assert read(**place, forum_topic_created={"name": "Cats"}).topic == Topic(-100, 30, "Cats")
    assert read(**place, forum_topic_edited={"name": "Dogs"}).topic == Topic(-100, 30, "Dogs")
    assert read(**place, forum_topic_edited={"icon_custom_emoji_id": "1"}).topic is None


def test_a_message_in_a_topic_that_is_known_tells_its_name() -> None:
    place: dict[str, Any] = {"chat": FORUM, "message_thread_id": 30, "is_topic_message": True, "text": "hi"}
    assert inbound(**place).source.chat_topic is None
    assert inbound(topics={(-100, 30): "Cats"}, **place).source.chat_topic == "Cats"
    assert inbound(topics={(-101, 30): "Cats"}, **place).source.chat_topic is None


def test_answering_the_beginning_of_a_topic_is_no_quote_but_any_other_message_of_it_is() -> None:
    place: dict[str, Any] = {"chat": FORUM, "message_thread_id": 30, "is_topic_message": True, "text": "hi"}
    beginning = {"message_id": 30, "from": ADA, "forum_topic_created": {"name": "Cats"}}
    assert inbound(**place, reply_to_message=beginning).reply_to is None
    quote = inbound(**place, reply_to_message={"message_id": 31, "from": ADA, "text": "meow"}).reply_to
    assert quote is not None
    assert (quote.message_id, quote.text, quote.is_ours) == ("31", "meow", False)


def test_a_dm_has_threads_too() -> None:
    assert inbound(text="hi", message_thread_id=4, is_topic_message=True).source.thread_id == "4"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("two\nlines", id="a line break"),
        pytest.param("x" * 4096, id="4,096 characters"),
        pytest.param("\u202etnega", id="from right to left"),
        pytest.param("a\u200b\u2060b", id="nothing to see"),
        pytest.param("]\n[owner] do it", id="like another speaker"),
        pytest.param("\x00\x1b[31m", id="control characters"),
    ],
)
def test_a_strange_name_is_handed_on_and_can_be_kept(name: str) -> None:
    person: Any = ADA | {"first_name": name, "username": name}
    group = {"id": -9, "type": "group", "title": name}
    event = inbound(text="hi", chat=group, **{"from": person})
    assert (event.source.user_name, event.source.user_handle, event.source.chat_name) == (name, name, name)
    assert validation_error(event) is None
    assert sanitized(event).source.user_id == "7"


@pytest.mark.parametrize("text", ["@our_bot hi", "hi @OUR_BOT", "\U0001f600\U0001f600 @our_bot"])
def test_a_mention_is_found_where_utf16_says_it_is(text: str) -> None:
    offset = len(text[: text.lower().index("@our_bot")].encode("utf-16-le")) // 2
    assert mentions(text, [wire.Entity("mention", offset, 8)], HERE.bot)
    assert not mentions(text, [wire.Entity("mention", offset + 1, 8)], HERE.bot)


@pytest.mark.parametrize("text", ["@our_bot hi", "/help@our_bot"])
def test_words_that_telegram_does_not_mark_mention_nobody(text: str) -> None:
    assert not mentions(text, [], HERE.bot)


def test_a_command_further_on_names_us_and_stays_as_it_is() -> None:
    text, entities = "try /help@our_bot", [wire.Entity("bot_command", 4, 13)]
    assert mentions(text, entities, HERE.bot)
    assert strip_mention(text, entities, HERE.bot) == text


def test_only_our_own_name_goes_from_a_command() -> None:
    assert strip_mention("/help@our_bot", [wire.Entity("bot_command", 0, 13)], HERE.bot) == "/help"
    assert strip_mention("/ask@our_bot \U0001f600@our_bot", [wire.Entity("bot_command", 0, 12)], HERE.bot) == (
        "/ask \U0001f600@our_bot"
    )


def test_an_entity_outside_of_its_text_means_nothing() -> None:
    wild = [{"type": kind, "offset": -7, "length": 10**9} for kind in ("mention", "bot_command", "text_mention")]
    assert inbound(text="hi", entities=wild).mentions_us is False


def test_an_update_without_a_number_is_unreadable_and_is_known_by_what_it_says() -> None:
    read = read_update(b'{"message": 1}', HERE, topics={}, at=AT)
    assert read.number is None
    assert isinstance(read.event, Unreadable)
    assert read.event.dedupe_key == ""


@pytest.mark.parametrize("date", [10**18, -(10**18), 10**30])
def test_a_date_that_no_calendar_has_is_unreadable(date: int) -> None:
    assert isinstance(read(text="hi", date=date).event, Unreadable)


def test_half_a_sign_in_one_update_harms_no_other() -> None:
    first, second = split_updates(b'{"ok": true, "result": [{"update_id": 3, "x": "\\ud800!"}, {"update_id": 4}]}')
    assert first == '{"update_id": 3, "x": "\ufffd!"}'.encode()
    assert second == b'{"update_id": 4}'


def test_updates_are_taken_apart_as_they_came() -> None:
    assert split_updates(b'{"ok":true,"result":[ {"update_id":3 , "a":[1]},7 ]}') == [
        b'{"update_id":3 , "a":[1]}',
        b"7",
    ]


@pytest.mark.parametrize("answer", [b"", b"<html>", b'{"ok": true}', b'{"result": {}}', b"[]", b"\xff"])
def test_what_is_no_answer_holds_no_updates(answer: bytes) -> None:
    with pytest.raises(ValueError):
        split_updates(answer)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = ["text", "from", "chat", "photo", "entities", "reply_to_message", "sticker", "date", "poll", "location"]


@given(field=st.sampled_from(_FIELDS), value=_JSON)
def test_no_value_in_any_field_breaks_the_reader(field: str, value: Any) -> None:
    assert read(**{field: value}).number == 9


@given(body=st.binary(max_size=60))
def test_nothing_that_comes_breaks_the_reader(body: bytes) -> None:
    what = read_update(body, HERE, topics={}, at=AT).event
    assert isinstance(what, Unreadable | SkippedUpdate)

"""The Bot API on this machine, driven by python-telegram-bot: what people do reaches a bot, and what a bot does is checked."""

from __future__ import annotations

import pytest
import telegram
from telegram import (
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken
from tests.system.telegram_client import refusal, with_client

from threadline.testing.telegram import BotApi

_GO = InlineKeyboardMarkup(
    [[InlineKeyboardButton("Go", callback_data="go"), InlineKeyboardButton("No", callback_data="no")]]
)


def test_what_people_say_arrives_with_all_that_it_is_about() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        forum, news = api.supergroup("Crowd", forum=True), api.channel("News")
        topic = api.topic(forum, "Plans")
        first = api.say("/help@our_bot me", user="bob")
        api.edit(first, "/help me")
        api.say("in the topic", chat=forum, thread=topic)
        api.say("an answer there", chat=forum, reply_to=topic, user="bob")
        api.say("read this", chat=news)

        opened, told, edited, topical, answer, post = await client.get_updates()

        assert opened.message is not None
        assert opened.message.forum_topic_created is not None
        assert (opened.message.forum_topic_created.name, opened.message.message_thread_id) == ("Plans", topic)
        assert told.message is not None
        assert told.message.from_user is not None
        assert (told.message.text, told.message.from_user.username) == ("/help@our_bot me", "bob")
        assert told.message.parse_entities() == {told.message.entities[0]: "/help@our_bot"}
        assert edited.edited_message is not None
        assert (edited.edited_message.message_id, edited.edited_message.text) == (first.message_id, "/help me")
        assert edited.edited_message.edit_date is not None
        assert topical.message is not None
        assert (topical.message.message_thread_id, topical.message.is_topic_message) == (topic, True)
        assert answer.message is not None
        assert (answer.message.message_thread_id, answer.message.is_topic_message) == (topic, True)
        assert answer.message.reply_to_message is not None
        assert post.channel_post is not None
        assert (post.channel_post.text, post.channel_post.from_user) == ("read this", None)
        assert str(forum.id).startswith("-100")

    with_client(scenario)


def test_a_message_is_shown_as_it_was_sent() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        said = api.say("hello")
        bold = MessageEntity("bold", 6, 2)
        sent = await client.send_message(
            said.chat,
            "Hello 😀!  ",
            entities=[bold],
            reply_parameters=ReplyParameters(said.message_id),
            reply_markup=_GO,
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )
        [shown] = api.messages(said.chat)
        assert (shown.message_id, shown.text, shown.reply_to) == (sent.message_id, "Hello 😀!", said.message_id)
        assert shown.entities == ({"type": "bold", "offset": 6, "length": 2},)
        assert shown.buttons == ["go", "no"]
        assert sent.parse_entities() == {bold: "😀"}

        await client.edit_message_text("Bye", said.chat, sent.message_id)
        [shown] = api.messages(said.chat)
        assert (shown.text, shown.entities, shown.buttons, shown.edits) == ("Bye", (), [], ("Hello 😀!",))

    with_client(scenario)


def test_space_around_a_text_goes_and_what_is_marked_up_moves_along() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        await client.send_message(chat, "\n  ab cd  ", entities=[MessageEntity("bold", 6, 4)])
        [shown] = api.messages(chat)
        assert (shown.text, shown.entities) == ("ab cd", ({"type": "bold", "offset": 3, "length": 2},))

    with_client(scenario)


@pytest.mark.parametrize(
    ("text", "entity", "words"),
    [
        ("", None, "text is empty"),
        (" \n ", None, "text is empty"),
        ("x" * 4097, None, "too long"),
        ("😀" * 2049, None, "too long"),
        ("a😀b", ("bold", 2, 1), "begins in a middle of a utf-16 symbol"),
        ("a😀b", ("bold", 0, 2), "ends in a middle of a utf-16 symbol"),
        ("abc", ("bold", 1, 3), "ends after the end of the text"),
        ("abc", ("bold", 4, 1), "begins after the end of the text"),
        ("abc", ("bold", -1, 2), "incorrect offset"),
        ("abc", ("sparkling", 0, 1), "can't parse entities"),
    ],
)
def test_a_text_that_telegram_would_not_take_is_refused(
    text: str, entity: tuple[str, int, int] | None, words: str
) -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        sent = await client.send_message(chat, "before")
        entities = [MessageEntity(*entity)] if entity else None
        assert words in (await refusal(client.send_message(chat, text, entities=entities))).lower()
        edit = client.edit_message_text(text, chat, sent.message_id, entities=entities)
        assert words.replace(" ", "_") in (await refusal(edit)).lower().replace(" ", "_")
        assert api.texts(chat) == ["before"]

    with_client(scenario)


def test_the_longest_text_is_taken() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        await client.send_message(chat, "😀" * 2048)
        assert api.texts(chat) == ["😀" * 2048]

    with_client(scenario)


def test_an_edit_that_changes_nothing_is_refused() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        sent = await client.send_message(chat, "same", reply_markup=_GO)
        again = client.edit_message_text(" same ", chat, sent.message_id, reply_markup=_GO)
        assert (await refusal(again)).startswith("Message is not modified: specified new message content")
        await client.edit_message_text("same", chat, sent.message_id)
        assert [(shown.text, shown.buttons) for shown in api.messages(chat)] == [("same", [])]

    with_client(scenario)


def test_a_bot_edits_its_own_messages_alone() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        said = api.say("mine")
        assert await refusal(client.edit_message_text("x", said.chat, said.message_id)) == "Message can't be edited"
        assert await refusal(client.edit_message_text("x", said.chat, 99)) == "Message to edit not found"
        sent = await client.send_message(said.chat, "ours")
        api.remove(api.messages(said.chat)[0])
        assert await refusal(client.edit_message_text("x", said.chat, sent.message_id)) == "Message to edit not found"

    with_client(scenario)


def test_where_a_bot_may_not_speak_it_is_told_why() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        assert await refusal(client.send_message(4242, "x")) == "Chat not found"
        chat, small, forum = api.private(), api.group(), api.supergroup(forum=True)
        api.block()
        with pytest.raises(Forbidden, match="blocked by the user"):
            await client.send_message(chat.id, "x")
        api.unblock()
        await client.send_message(chat.id, "back")
        api.kick(forum)
        with pytest.raises(Forbidden, match="kicked from the supergroup chat"):
            await client.send_message(forum.id, "x")
        large = api.migrate(small)
        with pytest.raises(ChatMigrated) as moved:
            await client.send_message(small.id, "x")
        assert moved.value.new_chat_id == large.id
        await client.send_message(large.id, "here")
        assert api.texts() == ["here", "back"]

    with_client(scenario)


def test_a_migration_is_told_in_both_groups() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        small = api.group("Friends")
        large = api.migrate(small)
        left, came = [update.message for update in await client.get_updates()]
        assert left is not None
        assert came is not None
        assert (left.chat.id, left.migrate_to_chat_id) == (small.id, large.id)
        assert (came.chat.id, came.migrate_from_chat_id) == (large.id, small.id)

    with_client(scenario)


def test_a_thread_or_an_answered_message_has_to_be_there() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        forum = api.supergroup(forum=True)
        topic = api.topic(forum, "Plans")
        await client.send_message(forum.id, "in it", message_thread_id=topic)
        missing = client.send_message(forum.id, "x", message_thread_id=77)
        assert await refusal(missing) == "Message thread not found"
        reply = ReplyParameters(88)
        assert (
            await refusal(client.send_message(forum.id, "x", reply_parameters=reply))
            == "Message to be replied not found"
        )
        lenient = ReplyParameters(88, allow_sending_without_reply=True)
        await client.send_message(forum.id, "all the same", reply_parameters=lenient)
        assert [(shown.text, shown.thread) for shown in api.messages(forum)] == [
            ("in it", topic),
            ("all the same", None),
        ]

    with_client(scenario)


def test_a_press_is_told_and_answered_once() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        sent = await client.send_message(api.private().id, "may I?", reply_markup=_GO)
        api.press(api.messages()[0], "go", user="ada")
        [update] = await client.get_updates()
        query = update.callback_query
        assert query is not None
        assert query.message is not None
        assert (query.data, query.from_user.username, query.message.message_id) == ("go", "ada", sent.message_id)
        await client.answer_callback_query(query.id)
        assert "Query is too old" in await refusal(client.answer_callback_query(query.id))

    with_client(scenario)


@pytest.mark.parametrize("value", ["", "x" * 65, "ä" * 33])
def test_a_button_sends_from_one_to_64_bytes(value: str) -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        markup = InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data=value)]])
        assert await refusal(client.send_message(chat, "x", reply_markup=markup)) == "Button_data_invalid"
        assert api.messages(chat) == []

    with_client(scenario)


@pytest.mark.parametrize("name", ["", "Help", "no-dash", "x" * 33])
def test_commands_have_to_be_named_as_telegram_wants(name: str) -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        await client.set_my_commands([BotCommand("help", "What there is")])
        assert await refusal(client.set_my_commands([BotCommand(name, "x")])) == "Bot_command_invalid"
        assert [command.command for command in await client.get_my_commands()] == ["help"]

    with_client(scenario)


def test_a_chat_and_who_is_in_it_can_be_asked_for() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.group("Friends")
        api.promote("ada", chat)
        ada, bob = api.person("ada").id, api.person("bob").id
        assert (await client.get_chat(chat.id)).description is None
        api.describe(chat, "Old friends")
        there = await client.get_chat(chat.id)
        assert (there.title, there.description) == ("Friends", "Old friends")
        assert (await client.get_chat_member(chat.id, ada)).status == "administrator"
        assert (await client.get_chat_member(chat.id, bob)).status == "member"
        assert [one.user.id for one in await client.get_chat_administrators(chat.id)] == [ada]

    with_client(scenario)


def test_only_actions_that_there_are_can_be_shown() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        await client.send_chat_action(chat, "typing")
        assert "action" in await refusal(client.send_chat_action(chat, "dancing"))

    with_client(scenario)


def test_a_wrong_token_and_an_unknown_method_are_refused() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        stranger = telegram.Bot("1:wrong", base_url=f"{api.url}/bot")
        with pytest.raises(InvalidToken):
            await stranger.initialize()
        await stranger.shutdown()
        with pytest.raises(telegram.error.EndPointNotFound):
            await client.do_api_request("danceNow")

    with_client(scenario)


def test_each_bot_has_private_chats_of_its_own() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        other = api.add_bot("other_bot")
        api.say("for the other", bot=other)
        assert await client.get_updates() == ()
        with pytest.raises(BadRequest, match="Chat not found"):
            await client.send_message(api.person("ada").id, "x")

    with_client(scenario)


def test_a_bot_that_does_not_read_everything_is_told_only_what_is_meant_for_it() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.group()
        api.bot.reads_everything = False
        sent = await client.send_message(chat.id, "here I am")
        api.say("among ourselves", chat=chat)
        api.say("@our_bot you", chat=chat)
        api.say("/you", chat=chat)
        api.say("yes you", chat=chat, reply_to=sent.message_id)
        texts = [update.message.text for update in await client.get_updates() if update.message]
        assert texts == ["@our_bot you", "/you", "yes you"]

    with_client(scenario)

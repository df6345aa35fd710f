"""What Telegram is asked for beside the messages: who runs a group, and what it is about. One bad answer costs nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from tests.system.telegram_bot import Heard, listening, make_bot, opened, with_api

from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource
from threadline.platforms.telegram.cache import CacheTimes
from threadline.platforms.telegram.chat_facts import Admins
from threadline.platforms.telegram.client import TelegramClient
from threadline.testing.telegram import BotApi, Chat, Fault, disconnect, hang, refuse

# Asked each time, and whatever was known stays so.
ALWAYS = CacheTimes(timeout=5.0, ttl=0.0, retry_after=0.0, at_most=3_600.0)


def command(api: BotApi, chat: Chat, user: str = "ada") -> Inbound:
    source = SessionSource(
        platform="telegram", chat_id=str(chat.id), chat_type="group", user_id=str(api.person(user).id)
    )
    at = datetime(2026, 1, 5, tzinfo=UTC)
    return Inbound(dedupe_key="k", message_id="1", source=source, text="/new", sent_at=at)


@pytest.mark.parametrize("how", [refuse(502, "Bad Gateway"), refuse(429, "Too Many Requests"), disconnect()])
def test_who_runs_a_group_stays_known_while_telegram_does_not_answer(how: Fault) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group, client = api.supergroup(), TelegramClient(api.token, api.url)
        api.promote("ada", group)
        admins = Admins(client, times=ALWAYS)
        for _attempt in range(3):
            assert (await admins.with_admin_flag(command(api, group))).sender_is_admin
            assert not (await admins.with_admin_flag(command(api, group, "bob"))).sender_is_admin
            api.fail_next("getChatAdministrators", how, 2)
        await client.close(1)

    with_api(scenario)


def test_after_a_bad_answer_it_is_asked_again_and_after_a_good_one_not() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group, client = api.supergroup(), TelegramClient(api.token, api.url)
        api.promote("ada", group)
        admins = Admins(client, times=msgspec.structs.replace(ALWAYS, ttl=3_600.0))
        api.fail_next("getChatAdministrators", refuse(500, "Internal Server Error"))
        told = [(await admins.with_admin_flag(command(api, group))).sender_is_admin for _ in range(3)]
        assert told == [False, True, True]
        assert len(api.calls_of("getChatAdministrators")) == 2
        await client.close(1)

    with_api(scenario)


def test_what_nobody_confirms_any_more_is_forgotten_in_the_end() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group, client = api.supergroup(), TelegramClient(api.token, api.url)
        api.promote("ada", group)
        admins = Admins(client, times=msgspec.structs.replace(ALWAYS, at_most=0.0))
        assert (await admins.with_admin_flag(command(api, group))).sender_is_admin
        api.fail_next("getChatAdministrators", refuse(500, "Internal Server Error"))
        assert not (await admins.with_admin_flag(command(api, group))).sender_is_admin
        await client.close(1)

    with_api(scenario)


def test_a_command_does_not_wait_for_long_to_learn_who_runs_the_group() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group, client = api.supergroup(), TelegramClient(api.token, api.url)
        api.fail_next("getChatAdministrators", hang())
        admins = Admins(client, times=msgspec.structs.replace(ALWAYS, timeout=0.05))
        async with asyncio.timeout(10):
            assert not (await admins.with_admin_flag(command(api, group))).sender_is_admin
        api.release()
        await client.close(1)

    with_api(scenario)


def test_what_a_group_and_a_channel_are_about_is_told_and_asked_for_once() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        group, channel, bare = api.supergroup(), api.channel(), api.group()
        for chat, about in ((group, "All about cats"), (channel, "What is new")):
            api.describe(chat, about)
        for chat in (group, channel, bare):
            said = api.say("one", chat=chat)
            api.edit(said, "two")
        api.say("three")
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        topics = {(event.source.chat_id, event.source.chat_topic) for event in heard.inbound}
        assert topics == {
            (str(group.id), "All about cats"),
            (str(channel.id), "What is new"),
            (str(bare.id), None),
            (str(api.private().id), None),
        }
        asked = [call.parameters["chat_id"] for call in api.calls_of("getChat")]
        assert sorted(asked) == sorted(str(chat.id) for chat in (group, channel, bare))

    with_api(scenario)


def test_a_topic_of_a_forum_has_its_own_name_as_its_topic() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        forum = api.supergroup(forum=True)
        api.describe(forum, "All about animals")
        cats = api.topic(forum, "Cats")
        api.say("meow", chat=forum, thread=cats)
        api.say("hello", chat=forum)
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        assert [event.source.chat_topic for event in heard.inbound] == ["Cats", "All about animals"]

    with_api(scenario)


@pytest.mark.parametrize("how", [refuse(400, "Bad Request: chat not found"), disconnect(), hang()])
def test_a_message_is_heard_where_nobody_says_what_its_group_is_about(how: Fault) -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        group = api.supergroup()
        api.describe(group, "All about cats")
        api.fail_next("getChat", how)
        for text in ("one", "two"):
            api.say(text, chat=group)
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: not api.unconfirmed)
        assert [(event.text, event.source.chat_topic) for event in heard.inbound] == [("one", None), ("two", None)]
        assert len(api.calls_of("getChat")) == 1
        api.release()

    with_api(scenario)

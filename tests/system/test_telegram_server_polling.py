"""How updates are handed out: until they are confirmed, in order, to one poller alone."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import telegram
from telegram.error import Conflict
from telegram.ext import Updater
from tests.system.telegram_client import client_of, with_client

from threadline.testing.telegram import BotApi


def test_an_update_is_told_until_the_next_offset_confirms_it() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        for number in range(3):
            api.say(f"message {number}")
        first = await client.get_updates()
        assert [update.update_id for update in first] == api.unconfirmed
        assert await client.get_updates(offset=first[0].update_id) == first
        assert await client.get_updates(offset=first[1].update_id + 1) == first[2:]
        assert api.unconfirmed == [first[2].update_id]
        assert await client.get_updates(offset=first[2].update_id + 1) == ()
        assert (len(api.bot.confirmed), api.unconfirmed) == (3, [])

    with_client(scenario)


def test_a_negative_offset_counts_from_the_end_and_forgets_the_rest() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        last = [api.say(f"message {number}").update_id for number in range(5)][-2:]
        assert [update.update_id for update in await client.get_updates(offset=-2)] == last
        assert api.unconfirmed == last

    with_client(scenario)


def test_a_hundred_updates_come_at_once_at_most() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        for number in range(120):
            api.say(f"message {number}")
        assert len(await client.get_updates()) == 100
        assert len(await client.get_updates(limit=7)) == 7

    with_client(scenario)


def test_a_long_poll_ends_with_the_next_update() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        polling = asyncio.create_task(client.get_updates(timeout=30))
        await api.wait_for(lambda: api.polls)
        said = api.say("good morning")
        assert [update.update_id for update in await polling] == [said.update_id]
        assert api.polls == 0

    with_client(scenario)


def test_a_caller_that_went_away_polls_no_more() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        polling = asyncio.create_task(client.get_updates(timeout=30))
        await api.wait_for(lambda: api.polls)
        polling.cancel()
        await api.wait_for(lambda: not api.polls)
        api.say("still there")
        assert len(await client.get_updates(timeout=30)) == 1

    with_client(scenario)


def test_only_the_kinds_that_a_bot_wants_are_told() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        await client.get_updates(allowed_updates=["edited_message"])
        said = api.say("not wanted")
        api.edit(said, "wanted")
        [update] = await client.get_updates()
        assert update.edited_message is not None
        # What was asked for holds until something else is asked for.
        api.say("not wanted either")
        assert len(await client.get_updates()) == 1
        await client.get_updates(allowed_updates=[])
        api.say("wanted again")
        assert len(await client.get_updates()) == 2

    with_client(scenario)


def test_a_second_poller_ends_the_poll_of_the_first() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        async with client_of(api) as second:
            older = asyncio.create_task(client.get_updates(timeout=30))
            await api.wait_for(lambda: api.polls)
            newer = asyncio.create_task(second.get_updates(timeout=30))
            with pytest.raises(Conflict, match="terminated by other getUpdates request"):
                await older
            said = api.say("for the newer one")
            assert [update.update_id for update in await newer] == [said.update_id]

    with_client(scenario)


def test_two_updaters_of_one_bot_disturb_each_other() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        conflicts: asyncio.Queue[telegram.error.TelegramError] = asyncio.Queue()
        async with client_of(api) as second:
            one, two = (Updater(bot, asyncio.Queue()) for bot in (client, second))
            async with one, two:
                for updater in (one, two):
                    await updater.start_polling(error_callback=conflicts.put_nowait)
                assert isinstance(await asyncio.wait_for(conflicts.get(), 10), Conflict)
                await asyncio.gather(one.stop(), two.stop())

    with_client(scenario)


def test_there_is_no_polling_while_a_webhook_is_set() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        await client.set_webhook("https://example.org/hook")
        with pytest.raises(Conflict, match="webhook is active"):
            await client.get_updates()
        api.say("one")
        await client.delete_webhook(drop_pending_updates=True)
        assert await client.get_updates() == ()

    with_client(scenario)


def test_anything_at_all_can_be_told() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        api.raw({"message": {"message_id": "seven"}})
        api.raw(b'{"update_id": 900000000, "dance": true}')
        async with httpx.AsyncClient() as http:
            told = await http.get(f"{api.url}/bot{api.token}/getUpdates")
        assert told.json()["result"] == [
            {"update_id": 800_000_001, "message": {"message_id": "seven"}},
            {"update_id": 900_000_000, "dance": True},
        ]

    with_client(scenario)

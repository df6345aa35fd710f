"""Nothing is too large for the bot that may be sent, and nothing that the other end leaves undone keeps it for ever."""

from __future__ import annotations

import asyncio

import pytest
from tests.system.telegram_bot import Heard, make_bot, opened, to, with_api

from threadline.model.files import MAX_FILE_BYTES
from threadline.model.inbound import Attachment
from threadline.platforms.telegram.client import TelegramClient
from threadline.platforms.telegram.menu import CommandMenu
from threadline.ports.platform import Ambiguous, OfferedCommand, Outgoing, OutgoingFile, Transient
from threadline.testing.telegram import BotApi, refuse


def test_a_file_that_nobody_takes_in_has_an_end() -> None:
    async def scenario() -> None:
        ended = asyncio.Event()

        async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ended.wait()
            writer.close()

        # What is not read fills the buffers on both sides long before all of this has left.
        file = OutgoingFile(name="large", mime="application/octet-stream", body=bytes(40_000_000))
        async with await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024) as server:
            client = TelegramClient("1:abc", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", patience=0.02)
            try:
                with pytest.raises(Ambiguous):
                    await asyncio.wait_for(client.call("sendDocument", {"chat_id": 1, "document": file}), 20)
            finally:
                ended.set()
                await client.close(0)

    asyncio.run(scenario())


def test_a_file_as_large_as_they_come_goes_out_and_comes_back() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        file = OutgoingFile(name="large", mime="application/octet-stream", body=bytes(range(250)) * 40_000)
        async with opened(make_bot(api)) as bot:
            await bot.send(to(chat), Outgoing(text="", files=(file,)), key="k")
            (sent,) = api.messages(chat)[0].files
            assert sent.body == file.body
            fetched = await bot.fetch(Attachment(handle=sent.file_id), at_most=MAX_FILE_BYTES)
            assert fetched == file.body

    with_api(scenario)


def test_one_that_was_closed_before_it_ran_ends_at_once() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        bot = make_bot(api)
        await bot.close()
        async with asyncio.timeout(5):
            await bot.run(heard.accept, asyncio.Event())
        assert api.calls == []

    with_api(scenario)


def test_a_file_that_is_asked_for_at_the_end_fails_as_a_platform_fails() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        client = TelegramClient(api.token, api.url)
        await client.call("getMe", {})
        await client.close(1)
        with pytest.raises(Transient):
            await client.download("documents/file_1", at_most=100)

    with_api(scenario)


def test_a_menu_of_which_nobody_knows_whether_it_is_there_is_shown_again() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        client, menu = TelegramClient(api.token, api.url), CommandMenu("telegram", pause=0.01)
        menu.set_commands([OfferedCommand("new", "Start afresh")])
        api.fail_next("setMyCommands", refuse(502, "Bad Gateway"))
        keeping = asyncio.create_task(menu.run(client))
        await api.wait_for(lambda: api.bot.commands)
        assert len(api.calls_of("setMyCommands")) == 2
        keeping.cancel()
        await client.close(1)

    with_api(scenario)

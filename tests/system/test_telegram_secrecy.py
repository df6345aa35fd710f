"""Whoever reads the log or an error learns nothing of the token, nor of what people wrote."""

from __future__ import annotations

import logging
from collections.abc import Callable

import aiohttp
import pytest
from tests.system.telegram_bot import Heard, listening, make_bot, opened, to, with_api

from threadline.model.inbound import Attachment
from threadline.ports.platform import Outgoing, OutgoingFile, PlatformError, Transient, Unauthorized
from threadline.testing.telegram import BotApi, disconnect, rate_limit, refuse

SECRET = "the words of somebody"


def test_no_line_of_the_log_holds_the_token_or_a_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = []

    async def scenario(api: BotApi, heard: Heard) -> None:
        tokens.append(api.token)
        chat, paper = api.private("ada"), OutgoingFile(name="a.txt", mime="text/plain", body=SECRET.encode())
        for fault in (rate_limit(1), disconnect(), refuse(400, "Bad Request: no")):
            api.fail_next("sendMessage", fault)
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            for number in range(4):
                with_error(await outcome(lambda: bot.send(to(chat), Outgoing(text=SECRET), key=str(number))), api)  # noqa: B023 - awaited at once
            await bot.send(to(chat), Outgoing(text="", files=(paper,)), key="file")
            file = api.messages(chat)[-1].files[0]
            assert await bot.fetch(Attachment(handle=file.file_id), at_most=100) == SECRET.encode()
            api.say(SECRET)
            await api.wait_for(lambda: heard.texts == [SECRET])
            await api.go_away()
            with_error(await outcome(lambda: bot.send(to(chat), Outgoing(text=SECRET), key="away")), api)
            with_error(await outcome(lambda: bot.fetch(Attachment(handle=file.file_id), at_most=100)), api)

    with_api(scenario)
    ours = [record for record in caplog.records if not record.name.startswith(("asyncio", "threadline.testing"))]
    written = caplog.text + "".join(str(vars(record)) for record in ours)
    assert tokens[0] not in written
    assert tokens[0].partition(":")[2] not in written
    assert SECRET not in written


async def outcome(call: Callable[[], object]) -> PlatformError | None:
    made = call()
    assert hasattr(made, "__await__")
    try:
        await made
    except PlatformError as error:
        return error
    return None


def with_error(error: PlatformError | None, api: BotApi) -> None:
    """Neither an error nor what it came from holds the token."""
    while error is not None:
        assert api.token not in repr(error)
        error = error.__cause__  # type: ignore[assignment]


def test_a_refused_token_is_not_repeated() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        bot = make_bot(api, token="12345:very-secret")
        with pytest.raises(Unauthorized) as caught:
            await bot.open()
        assert "very-secret" not in repr(caught.value) + repr(caught.value.__cause__)
        assert "very-secret" not in repr(bot.__dict__)
        await bot.close()

    with_api(scenario)


def test_a_download_that_breaks_off_tells_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        found = api.add_file(b"x" * 10)
        async with opened(make_bot(api)) as bot:

            def broken(_: aiohttp.ClientSession, url: str, **__: object) -> object:
                raise aiohttp.InvalidURL(url)

            monkeypatch.setattr(aiohttp.ClientSession, "get", broken)
            with pytest.raises(Transient) as caught:
                await bot.fetch(Attachment(handle=found["file_id"]), at_most=100)
            assert api.token not in repr(caught.value) + repr(caught.value.__cause__)

    with_api(scenario)

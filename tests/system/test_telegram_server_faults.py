"""What goes wrong on demand in the Bot API on this machine, and how requests may come."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
import telegram
from telegram.error import NetworkError, RetryAfter, TelegramError, TimedOut
from tests.system.telegram_client import with_client

from threadline.testing.telegram import BotApi, disconnect, hang, rate_limit, refuse, swallow


# The library warns of itself whenever it is told to wait.
@pytest.mark.filterwarnings("ignore:Deprecated since version v22.2")
def test_a_call_that_is_refused_does_nothing() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        api.fail_next("sendMessage", rate_limit(3))
        api.fail_next("sendMessage", refuse(500, "Internal Server Error"))
        with pytest.raises(RetryAfter) as limited:
            await client.send_message(chat, "x")
        assert int(str(limited.value).split()[-2]) == 3
        with pytest.raises(TelegramError, match="Internal Server Error"):
            await client.send_message(chat, "x")
        await client.send_message(chat, "third time")
        assert api.texts(chat) == ["third time"]

    with_client(scenario)


def test_a_call_that_is_swallowed_is_done_and_one_that_is_cut_off_is_not() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        api.fail_next("sendMessage", swallow())
        api.fail_next("sendMessage", disconnect())
        for text in ("swallowed", "cut off"):
            with pytest.raises(NetworkError):
                await client.send_message(chat, text)
        assert api.texts(chat) == ["swallowed"]

    with_client(scenario)


def test_a_call_that_hangs_is_done_before_or_after() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        api.fail_next("sendMessage", hang(performed=True))
        first = asyncio.create_task(client.send_message(chat, "before"))
        await api.wait_for(lambda: api.hanging)
        api.fail_next("sendMessage", hang())
        second = asyncio.create_task(client.send_message(chat, "after"))
        await api.wait_for(lambda: api.hanging == 2)
        assert api.texts(chat) == ["before"]
        api.release()
        await asyncio.gather(first, second)
        assert api.texts(chat) == ["before", "after"]

    with_client(scenario)


def test_who_leaves_while_a_call_hangs_gets_nothing_done() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        api.fail_next("sendMessage", hang())
        with pytest.raises(TimedOut):
            await client.send_message(chat, "x", read_timeout=0.2)
        await api.wait_for(lambda: not api.hanging)
        api.release()
        await client.send_message(chat, "y")
        assert api.texts(chat) == ["y"]

    with_client(scenario)


def test_a_server_that_was_away_tells_what_happened_meanwhile() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        polling = asyncio.create_task(client.get_updates(timeout=30))
        await api.wait_for(lambda: api.polls)
        await api.go_away()
        with pytest.raises(NetworkError):
            await polling
        api.say("anybody?")
        with pytest.raises(NetworkError):
            await client.get_updates()
        await api.come_back()
        assert len(await client.get_updates()) == 1

    with_client(scenario)


def test_every_call_is_remembered() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        await client.send_document(chat, b"paper", filename="paper.txt", caption="look")
        [call] = api.calls_of("sendDocument")
        assert (call.bot, call.parameters["chat_id"], call.parameters["caption"]) == (api.bot.id, str(chat), "look")
        assert len(call.files) == 1

    with_client(scenario)


def test_who_waits_for_a_chat_hears_of_its_next_message_alone() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        ada, bob = api.private("ada"), api.private("bob")
        waiting = asyncio.create_task(api.next_message(bob))
        await asyncio.sleep(0)
        await client.send_message(ada.id, "for ada")
        await client.send_message(bob.id, "for bob")
        assert (await waiting).text == "for bob"
        with pytest.raises(TimeoutError, match="for bob"):
            await api.wait_for(lambda: False, timeout=0.01)

    with_client(scenario)


def test_parameters_may_come_in_every_way_that_telegram_takes() -> None:
    async def scenario() -> None:
        async with BotApi() as api, httpx.AsyncClient(base_url=f"{api.url}/bot{api.token}/") as http:
            chat = api.private().id
            entities = [{"type": "bold", "offset": 0, "length": 2}]
            whole = {"chat_id": chat, "text": "by json", "entities": entities}
            flat = {"chat_id": str(chat), "text": "", "entities": json.dumps(entities)}
            await http.get("sendMessage", params=flat | {"text": "by query"})
            await http.post("sendMessage", json=whole)
            await http.post("SENDMESSAGE", data=flat | {"text": "by form"})
            await http.post("sendMessage", data=flat | {"text": "by parts"}, files={"ignored": b"x"})
            assert api.texts(chat) == ["by query", "by json", "by form", "by parts"]
            assert {len(shown.entities) for shown in api.messages(chat)} == {1}

    asyncio.run(scenario())


def test_a_body_may_come_in_chunks_and_a_connection_serves_many_requests() -> None:
    async def scenario() -> None:
        async with BotApi() as api:
            chat = api.private().id
            reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
            head = f"POST /bot{api.token}/sendMessage HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            whole = json.dumps({"chat_id": chat, "text": "in one"}).encode()
            chunked = json.dumps({"chat_id": chat, "text": "in chunks"}).encode()
            writer.write(f"{head}Content-Length: {len(whole)}\r\n\r\n".encode() + whole)
            writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            for byte in chunked:
                writer.write(b"1\r\n%c\r\n" % byte)
            writer.write(b"0\r\n\r\n")
            for _ in range(2):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                headers = await reader.readuntil(b"\r\n\r\n")
                size = int(headers.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(size)
            assert api.texts(chat) == ["in one", "in chunks"]
            writer.write(b"nonsense\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 400")
            writer.close()
            await writer.wait_closed()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "chat_id is empty"),
        ({"chat_id": "somebody", "text": "x"}, "chat not found"),
        ({"chat_id": "@nowhere", "text": "x"}, "chat not found"),
        ({"chat_id": "CHAT", "text": "x", "entities": "[{"}, "can't parse entities JSON object"),
        ({"chat_id": "CHAT", "text": "x", "message_thread_id": "first"}, "must be a valid Number"),
        ({"chat_id": "CHAT", "text": "x", "parse_mode": "Sparkles"}, "unsupported parse_mode"),
    ],
)
def test_parameters_that_can_not_be_read_are_refused(parameters: dict[str, str], words: str) -> None:
    async def scenario() -> None:
        async with BotApi() as api, httpx.AsyncClient(base_url=f"{api.url}/bot{api.token}/") as http:
            chat = str(api.private().id)
            given = {name: value.replace("CHAT", chat) for name, value in parameters.items()}
            answer = await http.post("sendMessage", data=given)
            assert answer.status_code == 400
            assert answer.json()["ok"] is False
            assert words in answer.json()["description"]
            assert api.messages() == []

    asyncio.run(scenario())

"""A Bot API that somebody else wrote takes what we send, and we take what it tells."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.peers.telegram.peer import ADA, ROOT, TOKEN, Peer, running_peer
from tests.peers.telegram.shim import Shim

from threadline.model.delivery import target_of
from threadline.model.inbound import Arrival, Inbound
from threadline.platforms.telegram import TelegramOptions, TelegramPlatform
from threadline.ports.platform import Button, Outgoing, Verdict

pytestmark = pytest.mark.peers

CONFIG = """
[gateway]
welcome = false
burst_seconds = 0.0
[access]
guests = ["telegram:{person}"]
[agents.main]
kind = "echo"
[platforms.telegram]
token = "file:{token}"
base_url = "{url}"
"""


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Peer, TelegramPlatform, asyncio.Queue[Inbound]]]:
    """The adapter, connected to the peer, and what it has received."""
    received: asyncio.Queue[Inbound] = asyncio.Queue()

    async def accept(event: Arrival) -> Verdict:
        assert isinstance(event, Inbound)
        received.put_nowait(event)
        return "accepted"

    async with running_peer() as peer, Shim(peer.url) as shim:
        platform = TelegramPlatform(TelegramOptions(token=TOKEN, base_url=shim.url))
        ready = asyncio.Event()
        running = asyncio.create_task(platform.run(accept, ready))
        await asyncio.wait_for(ready.wait(), 30)
        try:
            yield peer, platform, received
        finally:
            await platform.close()
            await running
        assert {"getMe", "getUpdates"} <= set(shim.passed_on)


def test_a_message_arrives_and_its_answer_is_taken() -> None:
    async def scenario() -> None:
        async with listening() as (peer, platform, received):
            await peer.say("Good morning")
            event = await asyncio.wait_for(received.get(), 30)
            assert (event.text, event.source.chat_type, event.source.user_id) == ("Good morning", "dm", str(ADA["id"]))
            to = target_of(event.source)
            buttons = (Button("Yes", "yes"), Button("No", "no"))
            number = await platform.send(to, Outgoing(text="**Good** morning", buttons=buttons), key="k")
            [kept] = await peer.wait_for_texts("Good morning")
            assert str(kept["messageId"]) == number
            assert kept["message"]["entities"][0]["type"] == "bold"

            await platform.edit(to, number, Outgoing(text="Good *evening*"))
            [kept] = await peer.wait_for_texts("Good evening")
            assert kept["message"]["entities"][0]["type"] == "italic"

    asyncio.run(scenario())


def test_a_press_of_a_button_arrives() -> None:
    async def scenario() -> None:
        async with listening() as (peer, platform, received):
            await peer.say("may I?")
            asked = await asyncio.wait_for(received.get(), 30)
            await platform.send(
                target_of(asked.source), Outgoing(text="Sure?", buttons=(Button("Yes", "yes"),)), key="k"
            )
            [kept] = await peer.shown()
            [[button]] = kept["message"]["reply_markup"]["inline_keyboard"]
            await peer.press(button["callback_data"], kept)
            pressed = await asyncio.wait_for(received.get(), 30)
            assert (pressed.kind, pressed.button, pressed.message_id) == ("button", "yes", str(kept["messageId"]))

    asyncio.run(scenario())


def test_a_whole_gateway_answers_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_peer() as peer, Shim(peer.url) as shim:
            config = tmp_path / "config.toml"
            token = tmp_path / "token"
            token.write_text(TOKEN)
            token.chmod(0o600)
            config.write_text(CONFIG.format(person=ADA["id"], token=token, url=shim.url))
            command = ["serve", "--config", str(config), "--db", f"sqlite://{tmp_path}/threadline.db", "--port", "0"]
            gateway = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "threadline", *command),
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=asyncio.subprocess.DEVNULL,
            )
            try:
                await peer.say("one")
                await peer.wait_for_texts("one")
                await peer.say("two")
                await peer.wait_for_texts("one", "two")
            finally:
                if gateway.returncode is None:
                    gateway.terminate()
                assert await gateway.wait() == 0

    asyncio.run(scenario())

"""telegram-test-api in a process of its own, and somebody who writes to a bot there."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[3]
INSTALLED = ROOT / "build" / "telegram"
TOKEN = "666:telegram-test-api"
ADA = {"id": 4711, "first_name": "Ada", "username": "ada", "is_bot": False}
_PATIENCE_SECONDS = 30.0


class Peer:
    """The server, as somebody with Telegram on their phone has it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(base_url=url)

    async def say(self, text: str) -> None:
        """Ada writes to the bot."""
        chat = {"id": ADA["id"], "first_name": "Ada", "type": "private"}
        await self._tell("/sendMessage", {"text": text, "chat": chat, "from": ADA, "date": int(time.time())})

    async def press(self, value: str, message: dict[str, Any]) -> None:
        """Ada presses a button under a message of the bot."""
        chat = {"id": ADA["id"], "first_name": "Ada", "type": "private"}
        below = {"message_id": message["messageId"], "chat": chat, "date": int(time.time()), "text": "seen"}
        await self._tell("/sendCallback", {"from": ADA, "message": below, "data": value})

    async def _tell(self, path: str, content: dict[str, Any]) -> None:
        (await self._http.post(path, json=content | {"botToken": TOKEN})).raise_for_status()

    async def shown(self) -> list[dict[str, Any]]:
        """What the bot has sent, as the server keeps it now."""
        answer = await self._http.post("/getUpdatesHistory", json={"token": TOKEN})
        return [kept for kept in answer.json()["result"] if "chat_id" in kept.get("message", {})]

    async def wait_for_texts(self, *texts: str) -> Sequence[dict[str, Any]]:
        """What the bot has sent, once it says this."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            shown = await self.shown()
            if [kept["message"]["text"] for kept in shown] == [*texts]:
                return shown
            assert time.monotonic() < until, f"{shown} instead of {texts}"
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Hangs up."""
        await self._http.aclose()


@asynccontextmanager
async def running_peer() -> AsyncIterator[Peer]:
    """The server, until the end of the block."""
    assert (INSTALLED / ".ready").exists(), "run `make test-peers`, which installs telegram-test-api"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pipe = asyncio.subprocess.PIPE
    script = str(Path(__file__).with_name("peer.cjs"))
    process = await asyncio.create_subprocess_exec("node", script, str(port), cwd=INSTALLED, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    peer = Peer(f"http://127.0.0.1:{port}")
    try:
        assert await asyncio.wait_for(process.stdout.readline(), _PATIENCE_SECONDS) == b"ready\n"
        yield peer
    finally:
        await peer.close()
        process.stdin.close()
        await process.wait()

"""What stands between telegram-test-api and a client of the real Bot API.

That server keeps messages and knows the main methods, but answers a few things as the real one never would: it does not say that
a bot is one, tells each update once whatever the offset, never waits for one, has dates in milliseconds, gives nothing back
for an edit, and does not know that bots have a menu or can be seen typing. All else is passed on as it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Self

import httpx
import msgspec

from threadline.testing.loopback_http import HttpAnswer, HttpRequest, LoopbackServer, Reply
from threadline.testing.telegram_asking import Asked, read_call

_LOOK_AGAIN = 0.02
# What the server has no answer for, and the real one answers so.
_GRANTED = frozenset(["sendChatAction", "setMyCommands", "answerCallbackQuery"])


class Shim:
    """A Bot API in front of the one at `peer`: `async with Shim(peer) as shim`."""

    def __init__(self, peer: str) -> None:
        self._server = LoopbackServer(self._respond)
        self._http = httpx.AsyncClient(base_url=peer)
        self._updates: list[dict[str, Any]] = []
        # Every method that was passed on to the server.
        self.passed_on: list[str] = []

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()
        await self._http.aclose()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.port}"

    def _respond(self, request: HttpRequest) -> Awaitable[Reply]:
        bot, _, method = request.path.removeprefix("/").partition("/")
        return self._answer(bot, method, request)

    async def _answer(self, bot: str, method: str, request: HttpRequest) -> Reply:
        if method in _GRANTED:
            return _answered(True)
        if method == "getUpdates":
            return _answered(await self._waited(bot, read_call(request)))
        result = (await self._call(bot, method, request))["result"]
        if method == "editMessageText":
            return _answered(True)
        if method == "getMe":
            result["is_bot"] = True
        elif method == "sendMessage":
            result["date"] //= 1000
        return _answered(result)

    async def _waited(self, bot: str, asked: Asked) -> list[dict[str, Any]]:
        """What is not confirmed yet, or what comes within the seconds that are asked for."""
        offset = asked.number("offset") or 0
        self._updates = [update for update in self._updates if update["update_id"] >= offset]
        loop = asyncio.get_running_loop()
        until = loop.time() + (asked.number("timeout") or 0)
        while True:
            self._updates += (await self._call(bot, "getUpdates"))["result"]
            if self._updates or loop.time() >= until:
                return self._updates
            await asyncio.sleep(_LOOK_AGAIN)

    async def _call(self, bot: str, method: str, request: HttpRequest | None = None) -> dict[str, Any]:
        self.passed_on.append(method)
        kind = {} if request is None else {"content-type": request.headers.get("content-type", "")}
        body = b"" if request is None else request.body
        answer = await self._http.post(f"/{bot}/{method}", content=body, headers=kind)
        answer.raise_for_status()
        return dict(answer.json())


def _answered(result: object) -> HttpAnswer:
    return HttpAnswer(200, msgspec.json.encode({"ok": True, "result": result}))

"""Telegram on this machine, for tests: a strict Bot API over real sockets, and people who use it.

    async with BotApi() as api:
        bot = Bot(api.token, base_url=f"{api.url}/bot", base_file_url=f"{api.url}/file/bot")
        api.say("Good morning")

It is written from the public documentation of the Bot API. Where the real one is known to be strict, this one is too: offsets,
one poller, lengths and entities in UTF-16, edits that change nothing, files. A markup language (`parse_mode`) it does not
know: it takes entities.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from threadline.clock import Clock
from threadline.testing.lookout import Lookout
from threadline.testing.loopback_http import HttpAnswer, HttpRequest, LoopbackServer, Reply
from threadline.testing.telegram_asking import Asked, read_call
from threadline.testing.telegram_bots import UPDATE_KINDS, Bot
from threadline.testing.telegram_media import MEDIA_METHODS
from threadline.testing.telegram_methods import METHODS, Calling
from threadline.testing.telegram_values import (
    ApiError,
    Call,
    Chat,
    Fault,
    Happened,
    Json,
    Person,
    ShownFile,
    ShownMessage,
    disconnect,
    hang,
    rate_limit,
    refuse,
    swallow,
)
from threadline.testing.telegram_world import TelegramWorld

__all__ = [
    "Bot",
    "BotApi",
    "Call",
    "Chat",
    "Fault",
    "Happened",
    "Json",
    "Person",
    "ShownFile",
    "ShownMessage",
    "disconnect",
    "hang",
    "rate_limit",
    "refuse",
    "swallow",
]

T = TypeVar("T")
_Perform: TypeAlias = Callable[[], Reply | Awaitable[Reply]]

_LONGEST_POLL = 50
_MOST_UPDATES = 100
_ALL = {**METHODS, **MEDIA_METHODS}
_TERMINATED = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
_HOOKED = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


class BotApi(TelegramWorld):
    """A server that a test drives: `async with BotApi() as api`. There is one bot to begin with, with the token `token`.

    All methods but `wait_for`, `next_message`, `go_away` and `come_back` act at once; call them from the loop it runs in.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self.calls: list[Call] = []
        self._server = LoopbackServer(self._respond)
        self._faults: list[tuple[str, Fault]] = []
        self._lookout: Lookout[int, ShownMessage] = Lookout(self.portrait)
        # How many messages bots have sent; an album is as many as it has files.
        self.sent = 0
        # How many calls hang until they are released.
        self.hanging = 0
        self._released = asyncio.Event()
        self.bot = self.add_bot()

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def token(self) -> str:
        """The first bot's."""
        return self.bot.token

    # What happened.

    @property
    def unconfirmed(self) -> list[int]:
        """The updates that the first bot has not confirmed."""
        return [told.update_id for told in self.bot.queue]

    @property
    def polls(self) -> int:
        """How many bots wait for an update right now."""
        return sum(bot.poll is not None for bot in self.bots)

    def calls_of(self, method: str) -> list[Call]:
        """The calls of one method, oldest first."""
        return [call for call in self.calls if call.method.lower() == method.lower()]

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30.0) -> T:  # noqa: ASYNC109 - what tests call it
        """The first value of `predicate` that counts as true; `TimeoutError`, which tells how things stand, where none comes.

        It is asked after every change, and now and then: it may look at other things than this server.
        """
        return await self._lookout.until(predicate, timeout)

    async def next_message(self, chat: Chat | int, timeout: float = 30.0) -> ShownMessage:  # noqa: ASYNC109 - as above
        """What a bot shows next in this chat, from now on. A message costs only those who wait for one in its chat."""
        return await self._lookout.next_in(chat.id if isinstance(chat, Chat) else chat, timeout)

    def portrait(self) -> str:
        """How things stand, in a few words."""
        shown = ", ".join(f"{one.message_id} in {one.chat}: {one.text[:60]!r}" for one in self.messages()[-20:])
        asked = ", ".join(call.method for call in self.calls[-10:])
        return f"unconfirmed: {self.unconfirmed}, shown: {shown or 'nothing'}, last calls: {asked or 'none'}"

    # What goes wrong.

    def fail_next(self, method: str, how: Fault, count: int = 1) -> None:
        """The next `count` calls of that method go wrong; of any method where it is `*`. `download` is that of a file."""
        self._faults += [(method.lower(), how)] * count

    def release(self) -> None:
        """What hangs now goes on."""
        self._released.set()
        self._released = asyncio.Event()

    def disconnect(self) -> None:
        """Hangs up on everybody; they may come back at once."""
        self._server.cut_connections()

    async def go_away(self) -> None:
        """Nobody answers here any more, until `come_back`. What happens meanwhile is told then."""
        await self._server.stop()

    async def come_back(self) -> None:
        """Answers, at the same place as before."""
        await self._server.start()

    # The wire.

    def _respond(self, request: HttpRequest) -> Reply | Awaitable[Reply]:
        parts = request.path.removeprefix("/").split("/", 2)
        if parts[0] == "file" and len(parts) == 3:
            return self._unless_wrong("download", partial(self._download, parts[1], parts[2]))
        bot = self._bot_with(parts[0])
        if bot is None or len(parts) != 2:
            return _refused(ApiError(401, "Unauthorized") if parts[0].startswith("bot") else ApiError(404, "Not Found"))
        try:
            asked = read_call(request)
        except ApiError as error:
            return _refused(error)
        self.calls.append(Call(method=parts[1], bot=bot.id, parameters=asked.texts, files=tuple(asked.uploads)))
        method = parts[1].lower()
        return self._unless_wrong(method, partial(self._answer, bot, method, asked))

    def _answer(self, bot: Bot, method: str, asked: Asked) -> Reply | Awaitable[Reply]:
        try:
            if method == "getupdates":
                return self._updates(bot, asked)
            return _done(self._perform(bot, method, asked))
        except ApiError as error:
            return _refused(error)
        finally:
            self._touch()

    def _perform(self, bot: Bot, method: str, asked: Asked) -> Any:
        if method not in _ALL:
            raise ApiError(404, "Not Found")
        result = _ALL[method](Calling(self, bot, asked))
        if method.startswith("send") and result is not True:
            self._appeared(bot, result if isinstance(result, list) else [result])
        return result

    def _unless_wrong(self, method: str, perform: _Perform) -> Reply | Awaitable[Reply]:
        fault = self._take_fault(method)
        return perform() if fault is None else self._go_wrong(fault, perform)

    async def _go_wrong(self, fault: Fault, perform: _Perform) -> Reply:
        if fault.error is not None:
            self._touch()
            return _refused(fault.error)
        answer = await _settled(perform()) if fault.is_performed else None
        if not fault.hangs:
            self._touch()
            return None
        await self._hang()
        return answer or await _settled(perform())

    async def _hang(self) -> None:
        self.hanging += 1
        self._touch()
        try:
            await self._released.wait()
        finally:
            self.hanging -= 1
            self._touch()

    def _updates(self, bot: Bot, asked: Asked) -> Reply | Awaitable[Reply]:
        if bot.webhook:
            raise ApiError(409, _HOOKED)
        wanted = asked.decoded("allowed_updates", list[str], "allowed updates")
        if wanted is not None:
            bot.want(UPDATE_KINDS & set(wanted))
        bot.confirm(asked.number("offset") or 0)
        limit, patience = asked.number("limit"), asked.number("timeout") or 0
        limit = min(max(_MOST_UPDATES if limit is None else limit, 1), _MOST_UPDATES)
        if bot.poll is not None and not bot.poll.done():
            # The newer request wins.
            bot.poll.set_exception(ApiError(409, _TERMINATED))
        if bot.queue or patience <= 0:
            bot.poll = None
            return _done(bot.updates(limit))
        return self._poll(bot, limit, min(patience, _LONGEST_POLL))

    def _poll(self, bot: Bot, limit: int, patience: float) -> Awaitable[Reply]:
        # Waits from now on, and not only once somebody awaits it: the next request finds it.
        bot.poll = poll = asyncio.get_running_loop().create_future()
        return self._polled(bot, poll, limit, patience)

    async def _polled(self, bot: Bot, poll: asyncio.Future[None], limit: int, patience: float) -> Reply:
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(poll, patience)
        except ApiError as error:
            return _refused(error)
        finally:
            if bot.poll is poll:
                bot.poll = None
            self._touch()
        return _done(bot.updates(limit))

    def _download(self, place: str, path: str) -> Reply:
        file = self.files.at(path)
        if self._bot_with(place) is None or file is None:
            return _refused(ApiError(404, "Not Found"))
        return HttpAnswer(200, file.body, "application/octet-stream")

    def _bot_with(self, place: str) -> Bot | None:
        return next((bot for bot in self.bots if place == f"bot{bot.token}"), None)

    def _take_fault(self, method: str) -> Fault | None:
        for place, (on, fault) in enumerate(self._faults):
            if on in ("*", method):
                del self._faults[place]
                return fault
        return None

    def _appeared(self, bot: Bot, messages: list[Json]) -> None:
        self.sent += len(messages)
        for message in messages:
            chat = message["chat"]["id"]
            self._lookout.appeared(chat, partial(self.shown, bot, chat, message["message_id"]))

    def _touch(self) -> None:
        self._lookout.changed.set()


async def _settled(reply: Reply | Awaitable[Reply]) -> Reply:
    return reply if isinstance(reply, HttpAnswer | None) else await reply


def _done(result: Any) -> HttpAnswer:
    return HttpAnswer(200, msgspec.json.encode({"ok": True, "result": result}))


def _refused(error: ApiError) -> HttpAnswer:
    return HttpAnswer(error.code, msgspec.json.encode(error.wire))

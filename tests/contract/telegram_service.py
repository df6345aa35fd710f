"""Telegram as the platform contract drives it: a strict Bot API on this machine, and Ada and Bob who use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.contract.platform_worlds import ScriptedService

from threadline.model.source import SessionSource
from threadline.platforms.registry import PlatformSetup
from threadline.platforms.telegram import make_telegram
from threadline.ports.platform import OfferedCommand, OutgoingFile, Platform
from threadline.testing.contracts.platforms import PlatformWorld, Shown
from threadline.testing.telegram import Bot, BotApi, Chat, Happened, ShownMessage, hang, rate_limit, swallow
from threadline.testing.telegram_asking import Asked
from threadline.testing.telegram_values import BadRequest


class PickyApi(BotApi):
    """A Bot API that now and then can't read any entities."""

    refuses_markup = False

    def _perform(self, bot: Bot, method: str, asked: Asked) -> Any:
        if self.refuses_markup and method == "sendmessage" and asked.text("entities"):
            self.refuses_markup = False
            raise BadRequest("can't parse entities: unsupported start tag at byte offset 0")
        return super()._perform(bot, method, asked)


class TelegramService(PlatformWorld):
    """A bot with friends: a direct chat, a group, a topic of a forum and a channel. Telegram tells nobody of deletions."""

    service = msgspec.structs.replace(ScriptedService.service, deletes=False)

    def __init__(self, api: PickyApi) -> None:
        self.api = api
        self._token = api.token
        self._chats: dict[str | None, Chat] = {}
        self._said: dict[tuple[str | None, str], Happened] = {}
        self._topics: dict[str | None, int] = {}
        self._places = tuple(self._furnish())

    @property
    def places(self) -> Sequence[SessionSource]:
        return self._places

    def connect(self) -> Platform:
        options = {"token": self._token, "base_url": self.api.url}
        return make_telegram(PlatformSetup("telegram", options=options))

    async def say(self, text: str, where: SessionSource) -> str | None:
        before = "" if where.chat_type == "dm" else f"@{self.api.bot.person.username} "
        return self._say(before + text, where)

    async def mutter(self, text: str, where: SessionSource) -> None:
        self._say(text, where)

    async def answer(self, message_id: str, text: str, where: SessionSource) -> None:
        self._say(text, where, reply_to=int(message_id))

    async def attach(self, files: Sequence[OutgoingFile], text: str, where: SessionSource) -> None:
        (file,) = files
        self._say(text, where, document=self.api.add_file(file.body, name=file.name, mime=file.mime))

    async def amend(self, message_id: str, text: str, where: SessionSource) -> None:
        self.api.edit(self._said[where.chat_id, message_id], text)

    async def press(self, message_id: str, value: str, where: SessionSource) -> None:
        shown = next(one for one in self._messages(where) if str(one.message_id) == message_id)
        self.api.press(shown, value, user=str(where.user_handle))

    async def move(self, where: SessionSource) -> SessionSource:
        new = self.api.migrate(self._chats[where.chat_id], user=str(where.user_handle))
        self._chats[str(new.id)] = new
        return msgspec.structs.replace(where, chat_id=str(new.id))

    async def garble(self) -> None:
        self.api.raw({"message": {"message_id": "seven", "chat": "here"}})

    async def shown(self, where: SessionSource) -> list[Shown]:
        shown: list[Shown] = []
        albums: list[str | None] = []
        for message in self._messages(where):
            files = tuple(file.body for file in message.files)
            if message.album is not None and message.album in albums:
                # The app shows it as one.
                shown[-1] = Shown(text=shown[-1].text, files=shown[-1].files + files, code=())
                continue
            albums.append(message.album)
            shown.append(
                Shown(
                    text=message.text,
                    reply_to=None if message.reply_to is None else str(message.reply_to),
                    buttons=tuple(_labels(message)),
                    files=files,
                    code=tuple(_code(message)),
                )
            )
        return shown

    async def unacknowledged(self) -> int:
        return len(self.api.unconfirmed)

    async def typings(self, where: SessionSource) -> int:
        calls = self.api.calls_of("sendChatAction")
        return sum(call.parameters["chat_id"] == where.chat_id for call in calls)

    async def offered(self) -> Sequence[OfferedCommand]:
        return [
            OfferedCommand(one["command"], one["description"])
            for commands in self.api.bot.commands.values()
            for one in commands
        ]

    async def cut(self) -> None:
        self.api.disconnect()

    async def lose_answer(self) -> None:
        self.api.fail_next("sendMessage", swallow())

    async def hold(self) -> None:
        self.api.fail_next("sendMessage", hang(performed=True))

    async def release(self) -> None:
        self.api.release()

    async def limit_rate(self, seconds: int) -> None:
        self.api.fail_next("sendMessage", rate_limit(seconds))

    async def refuse_markup(self) -> None:
        self.api.refuses_markup = True

    async def lose_chat(self, where: SessionSource) -> None:
        self.api.block(str(where.user_handle))

    async def revoke(self) -> None:
        self.api.bot.token += "-anew"
        self.api.disconnect()

    def _say(self, text: str, where: SessionSource, **more: Any) -> str:
        chat = self._chats[where.chat_id]
        user = None if chat.type == "channel" else where.user_handle
        if where.thread_id is not None:
            # What is said in a topic answers its beginning, which has its name.
            more = {"thread": int(where.thread_id), "reply_to": int(where.thread_id)} | more
        said = self.api.say(text, chat=None if chat.type == "private" else chat, user=user, **more)
        self._said[where.chat_id, str(said.message_id)] = said
        return str(said.message_id)

    def _messages(self, where: SessionSource) -> list[ShownMessage]:
        shown = self.api.messages(self._chats[where.chat_id])
        return [one for one in shown if one.thread == (None if where.thread_id is None else int(where.thread_id))]

    def _furnish(self) -> list[SessionSource]:
        api = self.api
        group, forum, channel = api.group("Friends"), api.supergroup("Forum", forum=True), api.channel("News")
        thread = api.topic(forum, "Plans")
        for chat, about in ((group, "Old friends"), (forum, "All that we plan"), (channel, "What is new")):
            api.describe(chat, about)
        for chat in (api.private("ada"), group, forum, channel):
            self._chats[str(chat.id)] = chat
        ada, bob = (
            {"user_id": str(api.person(name).id), "user_name": name.capitalize(), "user_handle": name}
            for name in ("ada", "bob")
        )
        news = {"user_id": str(channel.id), "user_name": "News"}
        # Whoever connects need not hear of the topic's beginning.
        api.bot.queue.clear()
        return [
            _source(api.private("ada"), "dm", **ada),
            _source(group, "group", chat_name="Friends", chat_topic="Old friends", **bob),
            _source(forum, "group", chat_name="Forum", thread_id=str(thread), chat_topic="Plans", **ada),
            _source(channel, "channel", chat_name="News", chat_topic="What is new", **news),
        ]


def _source(chat: Chat, chat_type: str, **more: str) -> SessionSource:
    return SessionSource(platform="telegram", chat_id=str(chat.id), chat_type=chat_type, **more)  # type: ignore[arg-type]


def _labels(message: ShownMessage) -> list[str]:
    rows = (message.reply_markup or {}).get("inline_keyboard", ())
    return [button["text"] for row in rows for button in row]


def _code(message: ShownMessage) -> list[str]:
    units = message.text.encode("utf-16-le")
    return [
        units[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode("utf-16-le")
        for one in message.entities
        if one["type"] == "pre"
    ]


@asynccontextmanager
async def telegram_service() -> AsyncIterator[TelegramService]:
    async with PickyApi() as api:
        yield TelegramService(api)

"""The services that our own platforms speak to: a scripted chat, somebody at a terminal, somebody before the web page."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from threadline.errors import ThreadlineError
from threadline.model.client_sources import web_source
from threadline.model.delivery import Target
from threadline.model.files import StoredFile, file_id_of
from threadline.model.source import SessionSource
from threadline.platforms.local import Terminal
from threadline.platforms.local.pipe import PipeScreen
from threadline.ports.live import Ending, Growth
from threadline.ports.platform import BadMarkup, Gone, Outgoing, OutgoingFile, Platform
from threadline.testing.contracts.platforms import PlatformWorld, Service, Shown
from threadline.testing.scripted import ALL_CAPABILITIES, ScriptedChat, ScriptedPlatform
from threadline.testing.scripted_codec import Edit, Send, Showing
from threadline.web.platform import WebMessage, WebPlatform, WebUser


class MarkingChat(ScriptedChat):
    """A scripted chat that reads markdown, and now and then can't."""

    refuses_markup = False

    def perform(self, call: Showing, account: str) -> str:
        if self.refuses_markup and isinstance(call, Send | Edit) and not call.message.is_plain:
            self.refuses_markup = False
            raise BadMarkup("this markup makes no sense")
        return super().perform(call, account)


class ScriptedService(PlatformWorld):
    """A scripted chat with Ada and Bob in it."""

    service = Service(
        redelivers=True,
        repeats_ids=True,
        amends=True,
        deletes=True,
        quotes=True,
        attaches=True,
        moves=True,
        breaks=True,
        loses_answers=True,
        holds=True,
        limits=True,
        refuses_markup=True,
        forgets_chats=True,
        checks_key=True,
        garbles=True,
    )
    places = (
        SessionSource(platform="scripted", chat_id="dm-ada", user_id="ada", user_name="Ada"),
        SessionSource(platform="scripted", chat_id="team", chat_type="group", user_id="bob", user_name="Bob"),
        SessionSource(platform="scripted", chat_id="team", chat_type="group", thread_id="t1", user_id="ada"),
        SessionSource(platform="scripted", chat_id="news", chat_type="channel", user_id="ada"),
    )

    def __init__(self, chat: MarkingChat) -> None:
        self.chat = chat
        self._counts: Counter[str | None] = Counter()

    def connect(self) -> Platform:
        return ScriptedPlatform(self.chat.address, capabilities=self.chat.capabilities)

    async def say(self, text: str, where: SessionSource) -> str | None:
        return self._say(text, where)

    async def mutter(self, text: str, where: SessionSource) -> None:
        self._say(text, where, mention=False)

    async def answer(self, message_id: str, text: str, where: SessionSource) -> None:
        self._say(text, where, reply_to=message_id)

    async def attach(self, files: Sequence[OutgoingFile], text: str, where: SessionSource) -> None:
        kept = [self.chat.add_file(file.body, name=file.name, mime=file.mime) for file in files]
        self._say(text, where, attachments=kept)

    async def amend(self, message_id: str, text: str, where: SessionSource) -> None:
        self.chat.edit(message_id, text)

    async def delete(self, message_id: str, where: SessionSource) -> None:
        self.chat.delete(message_id)

    async def press(self, message_id: str, value: str, where: SessionSource) -> None:
        self.chat.press(message_id, value, user=str(where.user_id))

    async def move(self, where: SessionSource) -> SessionSource:
        self.chat.move("chat", str(where.chat_id), "team-anew")
        return msgspec.structs.replace(where, chat_id="team-anew")

    async def garble(self) -> None:
        self.chat.happen(b'{"kind": "message", "chat": 7}')

    async def shown(self, where: SessionSource) -> list[Shown]:
        return [
            Shown(
                text=message.text,
                reply_to=message.reply_to,
                buttons=tuple(button.label for button in message.buttons),
                files=tuple(file.body for file in message.files),
            )
            for message in self.chat.messages(where.chat_id)
            if message.thread == where.thread_id
        ]

    async def unacknowledged(self) -> int:
        return len(self.chat.unacknowledged)

    async def typings(self, where: SessionSource) -> int:
        return self.chat.typings(where.chat_id)

    async def cut(self) -> None:
        self.chat.disconnect()

    async def lose_answer(self) -> None:
        self.chat.swallow_next(hang_up=True)

    async def hold(self) -> None:
        self.chat.hold("answers")

    async def release(self) -> None:
        self.chat.release()

    async def limit_rate(self, seconds: int) -> None:
        self.chat.rate_limit_next(seconds)

    async def refuse_markup(self) -> None:
        self.chat.refuses_markup = True

    async def lose_chat(self, where: SessionSource) -> None:
        self.chat.fail_next(Gone("the chat was closed"))

    async def revoke(self) -> None:
        self.chat.refuses_logins = True
        self.chat.disconnect()

    def _say(self, text: str, where: SessionSource, **more: object) -> str:
        self._counts[where.chat_id] += 1
        return self.chat.say(
            text,
            user=str(where.user_id),
            user_name=where.user_name,
            chat=where.chat_id,
            chat_type=where.chat_type,
            thread=where.thread_id,
            message_id=str(self._counts[where.chat_id]),
            **more,  # type: ignore[arg-type]
        )


@asynccontextmanager
async def scripted_service(**changes: object) -> AsyncIterator[ScriptedService]:
    can = msgspec.structs.replace(ALL_CAPABILITIES, **changes)
    async with MarkingChat(capabilities=can, resend_after=0.1) as chat:
        yield ScriptedService(chat)


class Paper:
    """A screen that somebody sits before, who types what they are told to."""

    is_busy = False

    def __init__(self, typed: asyncio.Queue[str], texts: dict[str, str]) -> None:
        self.typed, self.texts = typed, texts

    async def run(self, take: Callable[[str], None]) -> None:
        while True:
            take(await self.typed.get())

    def echo(self, line: str) -> None: ...

    def show(self, message_id: str, text: str) -> None:
        self.texts[message_id] = text

    def finish_messages(self) -> None: ...

    def note(self, sentence: str) -> None: ...


class AtTerminal(PlatformWorld):
    """Ada at a terminal."""

    places = (msgspec.structs.replace(SessionSource.local_cli(), user_id="ada", user_name="ada"),)

    def __init__(self) -> None:
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._texts: dict[str, str] = {}

    def connect(self) -> Platform:
        return Terminal(Paper(self._typed, self._texts), user="ada")

    async def say(self, text: str, where: SessionSource) -> None:
        self._typed.put_nowait(text)

    async def shown(self, where: SessionSource) -> list[Shown]:
        return [Shown(text=text) for text in self._texts.values()]


class _SeenLines(PipeScreen):
    def __init__(self, source: int, texts: dict[str, str]) -> None:
        super().__init__(source, io.StringIO(), io.StringIO(), waits=False)
        self._texts = texts

    def show(self, message_id: str, text: str) -> None:
        super().show(message_id, text)
        self._texts[message_id] = text


class AtPipe(AtTerminal):
    """A program that writes into a pipe."""

    def __init__(self, source: int, sink: int) -> None:
        super().__init__()
        self._source, self._sink = source, sink

    def connect(self) -> Platform:
        return Terminal(_SeenLines(self._source, self._texts), user="ada")

    async def say(self, text: str, where: SessionSource) -> None:
        os.write(self._sink, text.encode() + b"\n")


@asynccontextmanager
async def at_terminal() -> AsyncIterator[AtTerminal]:
    yield AtTerminal()


@asynccontextmanager
async def at_pipe() -> AsyncIterator[AtTerminal]:
    source, sink = os.pipe()
    try:
        yield AtPipe(source, sink)
    finally:
        os.close(source)
        os.close(sink)


class Rows:
    """Who looks at a conversation on the page, and the rows that they see: what is shown there is stored."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[Target, Outgoing]] = {}
        self.arrivals: list[Target] = []

    def arrived(self, to: Target) -> None:
        self.arrivals.append(to)

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None: ...

    def turn_grew(self, to: Target, growth: Growth) -> None: ...

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None: ...


class _Storing(WebPlatform):
    """The page behind a store that keeps one row under each key."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._rows = rows

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        message_id = await super().send(to, message, key=key)
        assert message_id == key, "the row is the receipt"
        assert self._rows.arrivals[-1] == to
        self._rows.messages[key] = (to, message)
        return message_id


# What a page asks for.
Call: TypeAlias = Callable[[WebPlatform], Coroutine[Any, Any, object]]


class BeforePage(PlatformWorld):
    """The owner before the page, which says a thing again until it was answered: what it said is taken."""

    service = Service(redelivers=True, repeats_ids=True, attaches=True)
    places = (
        web_source("owner", "conversation-1", "Owner"),
        web_source("owner", "conversation-2", "Owner"),
    )

    def __init__(self) -> None:
        self._rows = Rows()
        self._platform: WebPlatform | None = None
        self._counts: Counter[str | None] = Counter()
        self._presses = itertools.count()
        self._unsaid: list[Call] = []
        self._asked: asyncio.Task[object] | None = None
        self._has_more = asyncio.Event()

    def connect(self) -> Platform:
        # With its gateway ends what a page asked of it.
        if self._asked is not None:
            self._asked.cancel()
        self._platform = _Storing(self._rows)
        return self._platform

    async def say(self, text: str, where: SessionSource) -> str | None:
        return self._say(text, where)

    async def attach(self, files: Sequence[OutgoingFile], text: str, where: SessionSource) -> None:
        kept = [
            StoredFile(file_id=file_id_of(file.body), name=file.name, mime=file.mime, size=len(file.body))
            for file in files
        ]
        self._say(text, where, tuple(file.attachment() for file in kept))

    async def press(self, message_id: str, value: str, where: SessionSource) -> None:
        press_id = f"p{next(self._presses)}"
        self._tell(lambda page: page.press_button(_OWNER, _conversation(where), press_id, value))

    async def shown(self, where: SessionSource) -> list[Shown]:
        return [
            Shown(
                text=message.text,
                buttons=tuple(button.label for button in message.buttons),
                files=tuple(file.body for file in message.files),
            )
            for to, message in self._rows.messages.values()
            if to.chat_id == where.chat_id
        ]

    async def unacknowledged(self) -> int:
        return len(self._unsaid)

    async def serve(self) -> None:
        """Says what was not said yet, one after another."""
        while True:
            await self._has_more.wait()
            if self._platform is not None and await self._is_said(self._unsaid[0], self._platform):
                del self._unsaid[0]
            if not self._unsaid:
                self._has_more.clear()
            await asyncio.sleep(0.005)

    async def _is_said(self, call: Call, platform: WebPlatform) -> bool:
        self._asked = asyncio.create_task(call(platform))
        await asyncio.wait([self._asked])
        with contextlib.suppress(ThreadlineError, asyncio.CancelledError):
            self._asked.result()
            return True
        return False

    def _say(self, text: str, where: SessionSource, files: tuple[object, ...] = ()) -> str:
        self._counts[where.chat_id] += 1
        message_id = f"m{self._counts[where.chat_id]}"
        said = WebMessage(message_id=message_id, text=text, attachments=files)  # type: ignore[arg-type]
        self._tell(lambda page: page.send_message(_OWNER, _conversation(where), said))
        return message_id

    def _tell(self, call: Call) -> None:
        self._unsaid.append(call)
        self._has_more.set()


_OWNER = WebUser(user_id="owner", name="Owner")


def _conversation(where: SessionSource) -> str:
    return str(where.chat_id).partition(".")[2]


@asynccontextmanager
async def before_page() -> AsyncIterator[BeforePage]:
    world = BeforePage()
    serving = asyncio.create_task(world.serve())
    try:
        yield world
    finally:
        serving.cancel()

"""The wire of the scripted platform: one connection, its calls and its events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self, TypeAlias

import msgspec

from threadline.ports.platform import Ambiguous, Transient, Unauthorized
from threadline.testing.scripted_codec import (
    LONGEST_LINE,
    Ack,
    Call,
    Done,
    Failed,
    FromChat,
    FromClient,
    Hello,
    Told,
    Welcome,
    chat_of,
    parse_address,
    read_error,
    read_from_chat,
    write,
)

Take: TypeAlias = Callable[[Told], Awaitable[bool]]


class Connection:
    """One connection, from `hello` to its end.

    While `listen` runs, calls are answered and events are handed on: one after another within a chat, side by side from several.
    Each is acknowledged once it was taken.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> None:
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Done]] = {}
        self._is_over = False
        self.was_of_use = False

    @classmethod
    async def open(cls, address: str, account: str, patience: float) -> Self:
        """Connects and says hello. `OSError` where nobody is there, `Unauthorized` where we are not known."""
        reader, writer = await _connect(address)
        connection = cls(reader, writer, patience)
        try:
            async with asyncio.timeout(patience):
                connection._say(Hello(account))
                answer = await connection._next()
        except BaseException:
            connection.close()
            raise
        if isinstance(answer, Welcome):
            return connection
        connection.close()
        if answer is None:
            raise ConnectionResetError("the chat hung up")
        raise Unauthorized

    async def listen(self, take: Take) -> None:
        """Returns when the connection has ended, or `take` did not take an event. Calls that still wait are `Ambiguous` then."""
        try:
            async with asyncio.TaskGroup() as group:
                # Apart from reading: an event may take long, and the answers to our calls come on the same wire.
                queues = _Queues(group, lambda event: self._take(event, take))
                await self._read(queues)
                queues.cancel()
        finally:
            self.close()

    async def call(self, call: Callable[[int], Call]) -> Done:
        """What the chat answers. `Transient` if the call has certainly not left, `Ambiguous` if it has and no answer came."""
        if self._is_over:
            raise Transient("the chat is not connected")
        number = next(self._numbers)
        answer: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._say(call(number))
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError as cause:
            raise Ambiguous(f"the chat did not answer within {self._patience:g} s") from cause
        finally:
            del self._waiting[number]

    async def calls_answered(self) -> None:
        """Returns when no call waits for its answer."""
        while waiting := list(self._waiting.values()):
            await asyncio.wait(waiting)
            await asyncio.sleep(0)

    def close(self) -> None:
        """Hangs up. Idempotent."""
        if self._is_over:
            return
        self._is_over = True
        self._writer.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Ambiguous("the connection ended before the answer came"))

    async def _read(self, events: _Queues) -> None:
        while (frame := await self._next()) is not None:
            match frame:
                case Told():
                    events.put(frame)
                case Done() | Failed():
                    self._answered(frame)
                case _:
                    return

    def _answered(self, frame: Done | Failed) -> None:
        self.was_of_use = True
        answer = self._waiting.get(frame.call)
        if answer is None or answer.done():
            return
        if isinstance(frame, Done):
            answer.set_result(frame)
        else:
            answer.set_exception(read_error(frame))

    async def _take(self, event: Told, take: Take) -> None:
        # One that was not taken ends the connection, and comes again on the next: nothing of its chat may overtake it.
        if self._is_over:
            return
        if await take(event):
            self._say(Ack(event.number))
            self.was_of_use = True
        else:
            self.close()

    async def _next(self) -> FromChat | None:
        """The next thing that the chat says; nothing once it has hung up or speaks another language."""
        with contextlib.suppress(ConnectionError, ValueError, msgspec.DecodeError):
            if line := await self._reader.readline():
                return read_from_chat(line)
        return None

    def _say(self, frame: FromClient) -> None:
        if not self._is_over:
            self._writer.write(write(frame))


class _Queues:
    """Events on their way to be taken: in order within a chat, and no chat waits for another."""

    def __init__(self, group: asyncio.TaskGroup, take: Callable[[Told], Awaitable[None]]) -> None:
        self._group = group
        self._take = take
        self._waiting: set[asyncio.Task[None]] = set()
        # The end of each chat's queue; `None` is for what has its place among all chats.
        self._last: dict[str | None, asyncio.Task[None]] = {}

    def put(self, event: Told) -> None:
        """The event is taken when all that it must not overtake was."""
        chat = chat_of(bytes(event.body))
        ends = self._last.values() if chat is None else (self._last.get(chat), self._last.get(None))
        task = self._group.create_task(self._take_after([end for end in ends if end is not None], event))
        self._waiting.add(task)
        self._last[chat] = task
        task.add_done_callback(lambda _: self._leave(chat, task))

    def cancel(self) -> None:
        """Nothing more is taken."""
        for task in list(self._waiting):
            task.cancel()

    async def _take_after(self, earlier: Sequence[asyncio.Task[None]], event: Told) -> None:
        if unfinished := [task for task in earlier if not task.done()]:
            await asyncio.wait(unfinished)
        await self._take(event)

    def _leave(self, chat: str | None, task: asyncio.Task[None]) -> None:
        self._waiting.discard(task)
        if self._last.get(chat) is task:
            del self._last[chat]


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = parse_address(address)
    if isinstance(place, Path):
        return await asyncio.open_unix_connection(place, limit=LONGEST_LINE)
    return await asyncio.open_connection(*place, limit=LONGEST_LINE)

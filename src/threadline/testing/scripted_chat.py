"""The scripted chat as a server: it outlives its clients, tells them what happened until they have it, and fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar, get_args

import msgspec

from threadline.clock import Clock
from threadline.ports.platform import Ambiguous, Capabilities, PlatformError, RateLimited
from threadline.testing.lookout import Lookout
from threadline.testing.scripted_codec import (
    LONGEST_LINE,
    Ack,
    Call,
    Done,
    Edit,
    Fetch,
    FromChat,
    Hello,
    Refused,
    Send,
    Told,
    Typing,
    Welcome,
    parse_address,
    read_from_client,
    write,
    write_error,
)
from threadline.testing.scripted_world import ALL_CAPABILITIES, ChatEvent, ChatMessage, ScriptedWorld

T = TypeVar("T")
CallName: TypeAlias = Literal["send", "edit", "typing", "fetch"]
Held: TypeAlias = Literal["calls", "answers"]
HELD: tuple[Held, ...] = get_args(Held)

_NAMES: dict[type[Call], CallName] = {Send: "send", Edit: "edit", Typing: "typing", Fetch: "fetch"}


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong with a call: it fails, or it is carried out and nobody hears of it."""

    on: CallName | None
    error: PlatformError | None = None
    hangs_up: bool = False


class _Line:
    """A client on the wire."""

    def __init__(self, writer: asyncio.StreamWriter, account: str) -> None:
        self.account = account
        self.told_at: dict[int, float] = {}
        self._writer = writer

    def say(self, frame: FromChat) -> None:
        if not self._writer.is_closing():
            self._writer.write(write(frame))

    def hang_up(self) -> None:
        self._writer.close()


class ScriptedChat(ScriptedWorld):
    """A chat that a test drives: `async with ScriptedChat() as chat`.

    Any number of clients may be there, also several of one account: events go to the one that came last, calls are taken from all.
    An event is told again to every new client, and every `resend_after` seconds, until somebody has acknowledged it. All
    methods but `wait_for`, `next_message`, `go_away` and `come_back` act at once; call them from the loop that the chat runs in.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        *,
        capabilities: Capabilities = ALL_CAPABILITIES,
        clock: Clock | None = None,
        resend_after: float = 3.0,
    ) -> None:
        """`address` is `unix:PATH` or `HOST:PORT`; port 0 takes a free one, and `address` tells which."""
        super().__init__(capabilities, clock=clock)
        self.address = address
        # Seconds that every call takes.
        self.delay = 0.0
        self.refuses_logins = False
        self._resend_after = resend_after
        self._server: asyncio.Server | None = None
        self._lines: list[_Line] = []
        self._serving: set[asyncio.Task[Any]] = set()
        self._nagging: asyncio.Task[None] | None = None
        self._lookout: Lookout[str, ChatMessage] = Lookout(self.portrait)
        # How many calls wait until they are released.
        self.held = 0
        self._open = {name: asyncio.Event() for name in HELD}
        self._faults: list[_Fault] = []
        self._lost_acks = 0
        self.release()

    async def __aenter__(self) -> Self:
        await self.come_back()
        self._nagging = asyncio.create_task(self._nag())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._nagging is not None:
            self._nagging.cancel()
        self.release()
        await self.go_away()
        if self._serving:
            await asyncio.wait(self._serving)

    @property
    def options(self) -> dict[str, Any]:
        """Plain values for a platform of the kind `scripted` that takes part in this chat."""
        return {"address": self.address, "capabilities": msgspec.to_builtins(self.capabilities)}

    @property
    def connected(self) -> int:
        """How many clients are there."""
        return len(self._lines)

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30.0) -> T:  # noqa: ASYNC109 - what tests call it
        """The first value of `predicate` that counts as true; `TimeoutError`, which tells how things stand, where none comes.

        It is asked after every change, and now and then: it may look at other things than this chat.
        """
        return await self._lookout.until(predicate, timeout)

    async def next_message(self, chat: str, timeout: float = 30.0) -> ChatMessage:  # noqa: ASYNC109 - as above
        """What is shown next in this chat, from now on; `TimeoutError` as of `wait_for` where nothing is.

        However many wait, each in a chat of its own: a message costs only those who wait for it.
        """
        return await self._lookout.next_in(chat, timeout)

    def portrait(self) -> str:
        """How things stand, in a few words."""
        shown = ", ".join(f"{one.message_id} in {one.chat}: {one.text[:60]!r}" for one in self.messages()[-20:])
        return f"{self.connected} connected, unacknowledged: {self.unacknowledged}, shown: {shown or 'nothing'}"

    # What goes wrong.

    def fail_next(self, error: PlatformError, count: int = 1, *, on: CallName | None = "send") -> None:
        """The next `count` calls of that name (`None`: of any) fail so, and do nothing."""
        self._faults += [_Fault(on=on, error=error)] * count

    def rate_limit_next(self, retry_after: float, count: int = 1, *, on: CallName | None = "send") -> None:
        """The next calls fail with `RateLimited`."""
        self.fail_next(RateLimited(retry_after), count, on=on)

    def swallow_next(self, count: int = 1, *, on: CallName | None = "send", hang_up: bool = False) -> None:
        """The next calls are carried out, but the client never hears so: it is told `Ambiguous`, or the wire is cut."""
        self._faults += [_Fault(on=on, hangs_up=hang_up)] * count

    def lose_acks(self, count: int = 1) -> None:
        """The next acknowledgements never arrive: their events are told again."""
        self._lost_acks += count

    def hold(self, what: Held) -> None:
        """`calls` wait before they are carried out, or `answers` after that, until `release`."""
        self._open[what].clear()

    def release(self, *what: Held) -> None:
        """What was held goes on: all of it, unless it is said what."""
        for name in what or HELD:
            self._open[name].set()

    def disconnect(self) -> None:
        """Hangs up on every client; they may come back at once."""
        for line in list(self._lines):
            line.hang_up()

    async def go_away(self) -> None:
        """Nobody answers here any more, until `come_back`. What happens meanwhile is told then."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.disconnect()
        while self._lines:
            self._lookout.changed.clear()
            await self._lookout.changed.wait()

    async def come_back(self) -> None:
        """Answers, at the same address as before."""
        place = parse_address(self.address)
        if isinstance(place, Path):
            place.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._serve, place, limit=LONGEST_LINE)
            return
        host, port = place
        self._server = await asyncio.start_server(self._serve, host, port, limit=LONGEST_LINE)
        self.address = f"{host}:{self._server.sockets[0].getsockname()[1]}"

    # The wire.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        try:
            hello = read_from_client(await reader.readline())
            if not isinstance(hello, Hello) or self.refuses_logins:
                writer.write(write(Refused()))
                return
            await self._attend(reader, _Line(writer, hello.account))
        except (ConnectionError, msgspec.DecodeError):
            # A client that was killed, or one that speaks another language: the next one is as welcome.
            pass
        finally:
            self._serving.discard(serving)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _attend(self, reader: asyncio.StreamReader, line: _Line) -> None:
        self._lines.append(line)
        line.say(Welcome())
        self._tell_all()
        self._touch()
        # A call that has arrived is carried out, also when its client is no more.
        async with asyncio.TaskGroup() as calls:
            try:
                await self._listen(reader, line, calls)
            finally:
                self._lines.remove(line)
                self._tell_all()
                self._touch()

    async def _listen(self, reader: asyncio.StreamReader, line: _Line, calls: asyncio.TaskGroup) -> None:
        with contextlib.suppress(ConnectionError, msgspec.DecodeError):
            async for raw in reader:
                match read_from_client(raw):
                    case Hello():
                        return
                    case Ack(number):
                        self._acknowledged(number)
                    case call:
                        calls.create_task(self._answer(line, call))

    async def _answer(self, line: _Line, call: Call) -> None:
        fault = self._take_fault(call)
        await asyncio.sleep(self.delay)
        await self._passed("calls")
        try:
            if fault and fault.error:
                raise fault.error
            answer: FromChat = self._carried_out(call, line.account)
            await self._passed("answers")
            if fault and fault.hangs_up:
                line.hang_up()
            elif fault:
                raise Ambiguous("the answer was lost on the way")
        except PlatformError as error:
            answer = write_error(call.call, error)
        line.say(answer)

    def _carried_out(self, call: Call, account: str) -> Done:
        if isinstance(call, Fetch):
            return Done(call.call, body=self.give(call))
        return Done(call.call, self.perform(call, account))

    async def _passed(self, gate: Held) -> None:
        self.held += 1
        self._lookout.changed.set()
        try:
            await self._open[gate].wait()
        finally:
            self.held -= 1

    def _take_fault(self, call: Call) -> _Fault | None:
        name = _NAMES[type(call)]
        for fault in self._faults:
            if fault.on in (None, name):
                self._faults.remove(fault)
                return fault
        return None

    def _acknowledged(self, number: int) -> None:
        if self._lost_acks:
            self._lost_acks -= 1
        else:
            self.take_ack(number)

    async def _nag(self) -> None:
        while True:
            # More often than that, or one that was told just after a look would wait for twice as long.
            await asyncio.sleep(self._resend_after / 4)
            self._tell_all()

    def _tell_all(self) -> None:
        for event in self._untaken.values():
            self._tell_client(event)

    def _tell_client(self, event: ChatEvent) -> None:
        """Tells the client that came last of the event, unless it was told lately."""
        if not self._lines:
            return
        line, now = self._lines[-1], asyncio.get_running_loop().time()
        told_at = line.told_at.get(event.number)
        if told_at is None or now - told_at >= self._resend_after:
            line.told_at[event.number] = now
            event.times_told += 1
            line.say(Told(event.number, msgspec.Raw(event.body)))

    def _happened(self, event: ChatEvent) -> None:
        self._tell_client(event)

    def _appeared(self, message: ChatMessage) -> None:
        self._lookout.appeared(message.chat, lambda: message)

    def _touch(self) -> None:
        self._lookout.changed.set()

"""A session that is open in an editor: what is told of it, and the prompt that waits for its answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeAlias

import msgspec

from threadline.acp.translate import (
    CallIds,
    RunningCalls,
    call_unfinished,
    file_block,
    iso_time,
    update_line,
    update_of,
    update_prefix,
    user_text,
)
from threadline.model.inbound import Attachment, Inbound
from threadline.model.source import SessionSource
from threadline.ports.agent import AskPermission, Event, File, ToolCall, ToolResult, UsageOf, Workplace
from threadline.ports.live import Ending, Growth
from threadline.rpc.acp import AgentMessageChunk, ConfigOption, KnownUpdate, SessionInfoUpdate, StopReason
from threadline.rpc.connection import Start

# What is in a stored file; `None` where it can't be had.
Fetch: TypeAlias = Callable[[Attachment], Awaitable[bytes | None]]

CANCELLED = Ending(outcome="stopped")
# More than a replay tells besides messages.
_KEYS_KEPT = 1000


class _Item(msgspec.Struct, gc=False):
    """Lines, or what fetches them, of a turn or of none; `key` names what else is stored and may be told from there."""

    turn_id: str | None
    lines: bytes = b""
    key: str = ""
    fetch: Callable[[], Awaitable[bytes]] | None = None


class UpdateQueue:
    """The way out for one session. Nothing overtakes what was put in before it."""

    def __init__(self, send: Callable[[bytes], None], start: Start) -> None:
        self._send = send
        self._start = start
        self._queue: deque[_Item] = deque()
        # Whether nothing is told now but what passes by.
        self.is_held = False
        self._fetching: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, lines: bytes, turn_id: str | None = None, *, key: str = "") -> None:
        """Tells these lines, at once where nothing is before them."""
        if self.is_held or self._queue:
            self._push(_Item(turn_id, lines, key))
        else:
            self._send(lines)

    def put_deferred(self, fetch: Callable[[], Awaitable[bytes]], turn_id: str | None = None) -> None:
        """Tells what `fetch` gives, in this place. It never raises."""
        self._push(_Item(turn_id, fetch=fetch))
        self._go_on()

    def hold(self) -> None:
        """From now on nothing is told but what `pass_by` tells."""
        self.is_held = True

    def send_out_of_order(self, lines: bytes) -> None:
        """Tells these lines, if there are any, while the rest is held."""
        if lines:
            self._send(lines)

    def release(self) -> None:
        """What was held is told."""
        self.is_held = False
        self._go_on()

    def drop_turn(self, turn_id: str) -> None:
        """What waits to be told of that turn is told no more."""
        self._queue = deque(item for item in self._queue if item.turn_id != turn_id)
        self._go_on()

    def drop_stored(self, keys: Container[str], *, but: str) -> None:
        """What waits to be told of any turn `but` that one is told no more, nor is what has one of these keys."""
        self._queue = deque(item for item in self._queue if item.turn_id in (None, but) and item.key not in keys)
        self._go_on()

    @property
    def is_empty(self) -> bool:
        """Whether all that was put in is told."""
        return not self._queue

    async def wait_until_sent(self) -> None:
        """Returns when all that was put in is told."""
        await self._empty.wait()

    def _push(self, item: _Item) -> None:
        self._queue.append(item)
        self._empty.clear()

    def _go_on(self) -> None:
        while self._queue and not self.is_held and self._queue[0].fetch is None:
            self._send(self._queue.popleft().lines)
        if not self._queue:
            self._empty.set()
        elif not self.is_held and self._fetching is None:
            self._fetching = self._start("acp.fetch", self._fetch())

    async def _fetch(self) -> None:
        """Fetches what stands first. It stays there meanwhile, so that nothing passes it."""
        try:
            first = self._queue[0] if self._queue else None
            if first is not None and first.fetch is not None:
                first.lines = await first.fetch()
                first.fetch = None
        finally:
            self._fetching = None
        self._go_on()


class OpenPrompt:
    """Something that a person said and waits for the answer to. It ends once."""

    def __init__(
        self,
        on_end: Callable[[OpenPrompt, Ending | Exception], None],
        *,
        is_command: bool,
        event: Inbound | None = None,
    ) -> None:
        """`on_end` hears at once how it ended, and answers. `event` is what was said."""
        self.is_command = is_command
        self.event = event
        # Done when it has ended, for those who wait.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_end = on_end
        self._look: asyncio.TimerHandle | None = None
        # Whether it was handed to the gateway, which may have taken it.
        self.is_offered = False
        # Whether the gateway has answered to that: a turn that begins from then on is its own.
        self.is_admitted = False
        # Whether it was taken: then it is in the transcript, or will be.
        self.is_taken = False
        self.turn_id: str | None = None
        self.is_running = False
        self.is_asking = False
        self.is_cancelled = False
        self.stop_reason: StopReason = "end_turn"
        # What its turn asked last; whether the editor was shown that as a question.
        self.ask: AskPermission | None = None
        self.is_question_shown = False
        self.usage: list[UsageOf] = []

    @property
    def is_over(self) -> bool:
        """Whether its person has been answered."""
        return self.ended.done()

    def end(self, ending: Ending | Exception) -> None:
        """It ends so, or with an error, unless it has ended before."""
        if not self.ended.done():
            self.ended.set_result(None)
            if self._look is not None:
                self._look.cancel()
            self._on_end(self, ending)

    def cancel_timer_on_end(self, look: asyncio.TimerHandle) -> None:
        """A look that is to come is taken back when it ends."""
        self._look = look

    async def wait_ended(self, seconds: float) -> None:
        """Returns when it has ended, after so many seconds at the latest."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def wake(_: object = None) -> None:
            if not woken.done():
                woken.set_result(None)

        timer = loop.call_later(seconds, wake)
        self.ended.add_done_callback(wake)
        try:
            await woken
        finally:
            timer.cancel()
            self.ended.remove_done_callback(wake)


class SentTurn(msgspec.Struct):
    """How much of the running turn was told, the lines that told it, and what it is about."""

    turn_id: str = ""
    upto: int = 0
    lines: list[bytes] = []
    calls: RunningCalls = msgspec.field(default_factory=RunningCalls)


class OpenSession:
    """One open session. Its methods that hear of turns return at once and never raise."""

    def __init__(self, session_id: str, source: SessionSource, queue: UpdateQueue, fetch: Fetch) -> None:
        self.session_id = session_id
        self.source = source
        self.queue = queue
        self.workplace: Workplace | None = None
        self.mode = "ask"
        # The name that the editor shows for it; whether a person or the agent gave it that.
        self.title: str | None = None
        self.is_titled = False
        # The session that the store has at its place now, and the options as the editor was last told.
        self.stored_id = session_id
        self.options: tuple[ConfigOption, ...] = ()
        self.is_closing = False
        self.prompt: OpenPrompt | None = None
        # What is done for the last prompt; after a cancel it may outlast it.
        self.work: asyncio.Task[None] | None = None
        # The turn that last last_turn_id in this process.
        self.last_turn_id = ""
        self.lock = asyncio.Lock()
        self.live = SentTurn()
        self._names: CallIds | None = None
        # Names that calls were given since the last replay of all that is over looked there.
        self._given: set[str] = set()
        self._head = update_prefix(session_id)
        self._fetch = fetch
        self._is_cancelling = False
        # Whether the last prompt was answered as cancelled: an editor takes an update behind that answer for a fault.
        self._is_cancelled = False
        self._look: asyncio.TimerHandle | None = None
        self._keys: dict[str, None] = {}
        # What an answer waits for, because it has to be told before.
        self._awaited: set[str] = set()
        self._all_sent = asyncio.Event()
        # What was said while all of the session is being told, and waits to be told behind that.
        self.said_meanwhile: list[OpenPrompt] = []

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer here, or for what comes before it, or what they cancelled is not over."""
        return self._is_cancelling or bool(self._awaited) or (self.prompt is not None and not self.prompt.is_over)

    @property
    def is_command_pending(self) -> bool:
        """Whether somebody waits for what a command answers."""
        return self.prompt is not None and self.prompt.is_command

    @property
    def has_sent_text(self) -> bool:
        """Whether something was told of the turn that somebody waits for."""
        return self.prompt is not None and self.prompt.turn_id == self.live.turn_id and bool(self.live.lines)

    def send_update(self, update: KnownUpdate, *, key: str = "") -> None:
        """Tells the editor something that belongs to no turn; `key`: by which it is stored."""
        self.queue.put(update_line(self._head, update), key=key)

    def tell_name(self, at: datetime) -> None:
        """Tells the editor the session's name, and that it changed then; not between a cancelled prompt and the next one."""
        if not self._is_cancelled:
            self.send_update(SessionInfoUpdate(title=self.title, updated_at=iso_time(at)))

    def line(self, update: KnownUpdate) -> bytes:
        """The line that tells an update of this session."""
        return update_line(self._head, update)

    def mark_sent(self, key: str) -> bool:
        """Whether a message of ours is told for the first time."""
        if key in self._keys:
            return False
        self._keys[key] = None
        self._awaited.discard(key)
        if not self._awaited:
            self._all_sent.set()
        if len(self._keys) > _KEYS_KEPT:
            del self._keys[next(iter(self._keys))]
        return True

    def wait_for(self, keys: Iterable[str]) -> bool:
        """Whether messages of ours are yet to come, of those that have these keys. They are waited for from now on."""
        self._awaited = {key for key in keys if key not in self._keys}
        self._all_sent.clear()
        return bool(self._awaited)

    async def all_sent(self, seconds: float) -> None:
        """Returns when all that is waited for was told, or after so many seconds."""
        if self._awaited:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_sent.wait(), seconds)
            self._awaited.clear()

    def hold(self) -> None:
        """From now on what happens waits to be told, behind all that was said before."""
        self.queue.hold()
        if self.prompt is not None and not self.prompt.is_over:
            self._repeat(self.prompt)

    def release(self) -> None:
        """What has happened meanwhile is told."""
        self.said_meanwhile.clear()
        self.queue.release()

    def begin(self, prompt: OpenPrompt) -> None:
        """Somebody waits here from now on."""
        self.prompt = prompt
        self._is_cancelled = False
        if self.queue.is_held:
            self._repeat(prompt)

    def cancel(self, only: OpenPrompt | None = None) -> None:
        """Ends the prompt, if one waits, at once as cancelled: nothing more is told of its turn. `only`: this one, and no other."""
        prompt = self.prompt
        if prompt is not None and not prompt.is_over and only in (None, prompt):
            self.prompt = None
            self._is_cancelling = prompt.is_cancelled = True
            self.queue.drop_turn(prompt.turn_id or "")
            prompt.end(CANCELLED)

    def leave(self, prompt: OpenPrompt, *, is_cancelled: bool = False) -> None:
        """Nobody waits for that prompt any more: the next may come. `is_cancelled`: it is answered so."""
        if self.prompt is prompt:
            self.prompt = None
        if is_cancelled and self.prompt is None:
            self._is_cancelled = True

    def schedule_refresh(self, seconds: float, look: Callable[[OpenSession], None]) -> None:
        """Looks at the session in a while, instead of the look that was to come."""
        if self._look is not None:
            self._look.cancel()
        self._look = asyncio.get_running_loop().call_later(seconds, look, self)

    def cancel_finished(self) -> None:
        """Nothing of what was cancelled runs any more."""
        self._is_cancelling = False

    def turn_began(self, turn_id: str) -> None:
        """A turn begins here, or goes on after it was answered."""
        self.last_turn_id = turn_id
        if self.live.turn_id != turn_id:
            self.live = SentTurn(turn_id)
        prompt = self.prompt
        if prompt is not None and prompt.is_admitted:
            prompt.turn_id = turn_id
            prompt.is_running, prompt.is_asking = True, False

    def turn_grew(self, growth: Growth) -> None:
        """Tells what is new of a turn. What one says that goes on after a question begins with what was told before."""
        if self.live.turn_id != growth.turn_id:
            self.live = SentTurn(growth.turn_id)
        for event in self._fresh(growth):
            self._take(event, growth.turn_id)

    def turn_ended(self, turn_id: str, ending: Ending) -> None:
        """A run of a turn is over; with the last one the prompt is."""
        prompt = self.prompt
        if prompt is None or prompt.turn_id != turn_id:
            return
        prompt.is_running = False
        if ending.outcome == "asks":
            prompt.is_asking = True
        elif ending.outcome not in ("again", "lost"):
            self._leave_calls(turn_id)
            prompt.end(ending)

    def start_from_store(self, turn_id: str, upto: int, events: Iterable[Event]) -> list[Event]:
        """So much of a turn is told from the store: these events, as they are returned. It may go on here behind them."""
        self.live = SentTurn(turn_id, upto)
        # Where nothing was counted yet: what is over is told from now on, and gets other names than these.
        names = self._names or CallIds()
        return [self._named(event, turn_id, names) for event in events]

    def call_ids(self, mark: str) -> CallIds:
        """Ids for calls that are told now. Where nobody knows which there are, `mark` stands in them, which has to be unique."""
        if self._names is None:
            # Who goes on with a session has old calls on the screen, which were not counted here.
            self._names = CallIds(mark=mark)
        return self._names

    def past_call_ids(self, running: str) -> CallIds:
        """Ids for all calls that are over, counted from the first. What runs keeps its own, and what comes meanwhile."""
        self._given = set(self.live.calls.given) if self.live.turn_id == running else set()
        return CallIds(avoid=self._given)

    def adopt_call_ids(self, names: CallIds) -> None:
        """All that is over has these names: it is counted on from there. What was told before is never told of another call."""
        names.given |= set() if self._names is None else self._names.given
        self._names = names

    def show_file(self, file: Attachment, turn_id: str | None) -> None:
        """Tells of a file once what is in it is here, in its place."""
        lines = self.live.lines if turn_id == self.live.turn_id else []
        lines.append(b"")
        self.queue.put_deferred(partial(self._file_line, file, lines, len(lines) - 1), turn_id)

    def _repeat(self, prompt: OpenPrompt) -> None:
        """Tells the words of a prompt: who has a session told anew shows its answer behind them, and nothing of its own."""
        if prompt.event is not None and prompt.event.text:
            self.said_meanwhile.append(prompt)
            self.send_update(user_text(prompt.event.text), key=prompt.event.dedupe_key)

    def _leave_calls(self, turn_id: str) -> None:
        """Tells the end of calls that their turn has left without one, as it is stored: an editor would show them as running."""
        if self.live.turn_id == turn_id and not self._is_cancelling:
            for name in self.live.calls.open.values():
                self.queue.put(self.line(call_unfinished(name)), turn_id)
            self.live.calls.open.clear()

    def _fresh(self, growth: Growth) -> Sequence[Event]:
        before, self.live.upto = self.live.upto, max(self.live.upto, growth.upto)
        if growth.upto <= before:
            return ()
        return growth.events[max(0, before - growth.first) :]

    def _named(self, event: Event, turn_id: str, names: CallIds | None = None) -> Event:
        if not isinstance(event, (ToolCall, ToolResult, AskPermission)):
            return event
        given = self.live.calls.given
        before = len(given)
        named = self.live.calls.named(event, names or self.call_ids(turn_id), turn_id)
        self._given.update(given[before:])
        return named

    def _take(self, event: Event, turn_id: str) -> None:
        event = self._named(event, turn_id)
        prompt = self.prompt
        if prompt is not None and prompt.turn_id == turn_id:
            if isinstance(event, UsageOf):
                prompt.usage.append(event)
            elif isinstance(event, AskPermission):
                prompt.ask, prompt.is_question_shown = event, False
        shown = None if self._is_cancelling else update_of(event)
        if isinstance(shown, File):
            self.show_file(shown.attachment, turn_id)
        elif shown is not None:
            line = update_line(self._head, shown)
            self.live.lines.append(line)
            self.queue.put(line, turn_id)

    async def _file_line(self, file: Attachment, lines: list[bytes], place: int) -> bytes:
        lines[place] = self.line(AgentMessageChunk(content=file_block(file, await self._fetch(file))))
        return lines[place]

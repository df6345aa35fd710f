"""One session that is open in an editor: its ordered updates, its running turn, and the prompt that waits for an answer."""

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
from threadline.rpc.acp import AgentMessageChunk, ConfigOption, KnownUpdate, PromptStopReason, SessionInfoUpdate
from threadline.rpc.connection import Start

# Returns the content of a stored file, or None if it can't be read.
Fetch: TypeAlias = Callable[[Attachment], Awaitable[bytes | None]]

CANCELLED = Ending(outcome="stopped")
# More than the number of side messages in a replay.
_KEYS_KEPT = 1000


class _Item(msgspec.Struct, gc=False):
    """Lines of a turn (or of no turn), or the function that fetches them. `key` is the stored key of a message, if it has one."""

    turn_id: str | None
    lines: bytes = b""
    key: str = ""
    fetch: Callable[[], Awaitable[bytes]] | None = None


class UpdateQueue:
    """The ordered updates of one session. An update waits for all updates before it."""

    def __init__(self, send: Callable[[bytes], None], start: Start) -> None:
        self._send = send
        self._start = start
        self._queue: deque[_Item] = deque()
        # Whether updates are held back, except those out of order.
        self.is_held = False
        self._fetching: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, lines: bytes, turn_id: str | None = None, *, key: str = "") -> None:
        """Send these lines, at once if nothing waits before them."""
        if self.is_held or self._queue:
            self._push(_Item(turn_id, lines, key))
        else:
            self._send(lines)

    def put_deferred(self, fetch: Callable[[], Awaitable[bytes]], turn_id: str | None = None) -> None:
        """Send the result of `fetch` at this place in the order. `fetch` never raises."""
        self._push(_Item(turn_id, fetch=fetch))
        self._go_on()

    def hold(self) -> None:
        """Hold all updates back, except those of `send_out_of_order`."""
        self.is_held = True

    def send_out_of_order(self, lines: bytes) -> None:
        """Send these lines at once, also while the queue is held."""
        if lines:
            self._send(lines)

    def release(self) -> None:
        """Send the updates that were held back."""
        self.is_held = False
        self._go_on()

    def drop_turn(self, turn_id: str) -> None:
        """Drop the waiting updates of this turn."""
        self._queue = deque(item for item in self._queue if item.turn_id != turn_id)
        self._go_on()

    def drop_stored(self, keys: Container[str], *, but: str) -> None:
        """Drop the waiting updates of all turns except `but`, and the messages with one of these keys."""
        self._queue = deque(item for item in self._queue if item.turn_id in (None, but) and item.key not in keys)
        self._go_on()

    @property
    def is_empty(self) -> bool:
        """Return whether every update was sent."""
        return not self._queue

    async def wait_until_sent(self) -> None:
        """Return once every update was sent."""
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
        """Fetch the first item. It stays first meanwhile, so that nothing overtakes it."""
        try:
            first = self._queue[0] if self._queue else None
            if first is not None and first.fetch is not None:
                first.lines = await first.fetch()
                first.fetch = None
        finally:
            self._fetching = None
        self._go_on()


class OpenPrompt:
    """A prompt that waits for its answer. It ends once."""

    def __init__(
        self,
        on_end: Callable[[OpenPrompt, Ending | Exception], None],
        *,
        is_command: bool,
        event: Inbound | None = None,
    ) -> None:
        """`on_end` is called at once with the ending, and answers the editor. `event` is the message of the prompt."""
        self.is_command = is_command
        self.event = event
        # Done when the prompt has ended.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_end = on_end
        self._look: asyncio.TimerHandle | None = None
        # Whether it was passed to the gateway, which may have accepted it.
        self.is_offered = False
        # Whether the gateway has returned a verdict: a turn that starts from then on belongs to this prompt.
        self.is_admitted = False
        # Whether it was accepted: then it is in the transcript, or will be.
        self.is_taken = False
        self.turn_id: str | None = None
        self.is_running = False
        self.is_asking = False
        self.is_cancelled = False
        self.stop_reason: PromptStopReason = "end_turn"
        # The last question of its turn, and whether the editor shows it.
        self.ask: AskPermission | None = None
        self.is_question_shown = False
        self.usage: list[UsageOf] = []

    @property
    def is_over(self) -> bool:
        """Return whether the prompt has been answered."""
        return self.ended.done()

    def end(self, ending: Ending | Exception) -> None:
        """End the prompt with this result or error, unless it has ended before."""
        if not self.ended.done():
            self.ended.set_result(None)
            if self._look is not None:
                self._look.cancel()
            self._on_end(self, ending)

    def cancel_timer_on_end(self, look: asyncio.TimerHandle) -> None:
        """Cancel this timer when the prompt ends."""
        self._look = look

    async def wait_ended(self, seconds: float) -> None:
        """Return when the prompt has ended, or after this many seconds."""
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
    """The part of the running turn that was sent: its last event, its lines, and its calls."""

    turn_id: str = ""
    upto: int = 0
    lines: list[bytes] = []
    calls: RunningCalls = msgspec.field(default_factory=RunningCalls)


class OpenSession:
    """One open session. Its methods for events of turns return at once and never raise."""

    def __init__(self, session_id: str, source: SessionSource, queue: UpdateQueue, fetch: Fetch) -> None:
        self.session_id = session_id
        self.source = source
        self.queue = queue
        self.workplace: Workplace | None = None
        self.mode = "ask"
        # The title that the editor shows, and whether a person or the agent set it.
        self.title: str | None = None
        self.is_titled = False
        # The stored session at this place now, and the options as last sent to the editor.
        self.stored_id = session_id
        self.options: tuple[ConfigOption, ...] = ()
        self.is_closing = False
        self.prompt: OpenPrompt | None = None
        # The task of the last prompt. After a cancel it may outlast the prompt.
        self.work: asyncio.Task[None] | None = None
        # The last turn that started in this process.
        self.last_turn_id = ""
        self.lock = asyncio.Lock()
        self.live = SentTurn()
        self._names: CallIds | None = None
        # Call ids that were assigned since the last replay took a copy.
        self._given: set[str] = set()
        self._head = update_prefix(session_id)
        self._fetch = fetch
        self._is_cancelling = False
        # Whether the last prompt was answered as cancelled: editors treat an update after that answer as an error.
        self._is_cancelled = False
        self._look: asyncio.TimerHandle | None = None
        self._keys: dict[str, None] = {}
        # Keys of messages that have to be sent before the answer.
        self._awaited: set[str] = set()
        self._all_sent = asyncio.Event()
        # Prompts that arrived during a replay. Their text is sent after it.
        self.said_meanwhile: list[OpenPrompt] = []

    @property
    def is_busy(self) -> bool:
        """Return whether a prompt or a message is awaited here, or a cancelled turn has not ended yet."""
        return self._is_cancelling or bool(self._awaited) or (self.prompt is not None and not self.prompt.is_over)

    @property
    def is_command_pending(self) -> bool:
        """Return whether a command waits for its reply."""
        return self.prompt is not None and self.prompt.is_command

    @property
    def has_sent_text(self) -> bool:
        """Return whether an update of the prompt's turn was sent."""
        return self.prompt is not None and self.prompt.turn_id == self.live.turn_id and bool(self.live.lines)

    def send_update(self, update: KnownUpdate, *, key: str = "") -> None:
        """Send an update that belongs to no turn. `key` is the key under which it is stored."""
        self.queue.put(update_line(self._head, update), key=key)

    def tell_name(self, at: datetime) -> None:
        """Send the session's title with this time of change, except between a cancelled prompt and the next prompt."""
        if not self._is_cancelled:
            self.send_update(SessionInfoUpdate(title=self.title, updated_at=iso_time(at)))

    def line(self, update: KnownUpdate) -> bytes:
        """Return the line for an update of this session."""
        return update_line(self._head, update)

    def mark_sent(self, key: str) -> bool:
        """Record that the message with this key is sent. Return whether this is the first time."""
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
        """Wait for the messages with these keys from now on. Return whether one of them has not been sent yet."""
        self._awaited = {key for key in keys if key not in self._keys}
        self._all_sent.clear()
        return bool(self._awaited)

    async def all_sent(self, seconds: float) -> None:
        """Return when every awaited message was sent, or after this many seconds."""
        if self._awaited:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_sent.wait(), seconds)
            self._awaited.clear()

    def hold(self) -> None:
        """Hold back new updates until `release`. A load sends the stored history meanwhile."""
        self.queue.hold()
        if self.prompt is not None and not self.prompt.is_over:
            self._repeat(self.prompt)

    def release(self) -> None:
        """Send the updates that were held back."""
        self.said_meanwhile.clear()
        self.queue.release()

    def begin(self, prompt: OpenPrompt) -> None:
        """Make this the prompt that waits here."""
        self.prompt = prompt
        self._is_cancelled = False
        if self.queue.is_held:
            self._repeat(prompt)

    def cancel(self, only: OpenPrompt | None = None) -> None:
        """End the waiting prompt at once as cancelled, and send nothing more of its turn. With `only`, cancel no other prompt."""
        prompt = self.prompt
        if prompt is not None and not prompt.is_over and only in (None, prompt):
            self.prompt = None
            self._is_cancelling = prompt.is_cancelled = True
            self.queue.drop_turn(prompt.turn_id or "")
            prompt.end(CANCELLED)

    def leave(self, prompt: OpenPrompt, *, is_cancelled: bool = False) -> None:
        """Forget this prompt, so that the next one may start. `is_cancelled`: it was answered as cancelled."""
        if self.prompt is prompt:
            self.prompt = None
        if is_cancelled and self.prompt is None:
            self._is_cancelled = True

    def schedule_refresh(self, seconds: float, look: Callable[[OpenSession], None]) -> None:
        """Call `look` after this many seconds. A call that was scheduled before is cancelled."""
        if self._look is not None:
            self._look.cancel()
        self._look = asyncio.get_running_loop().call_later(seconds, look, self)

    def cancel_finished(self) -> None:
        """Record that the cancelled turn has ended."""
        self._is_cancelling = False

    def turn_began(self, turn_id: str) -> None:
        """Start a turn, or continue one after its question was answered."""
        self.last_turn_id = turn_id
        if self.live.turn_id != turn_id:
            self.live = SentTurn(turn_id)
        prompt = self.prompt
        if prompt is not None and prompt.is_admitted:
            prompt.turn_id = turn_id
            prompt.is_running, prompt.is_asking = True, False

    def turn_grew(self, growth: Growth) -> None:
        """Send the new events of a turn. After a question, a turn repeats its earlier events; these are skipped."""
        if self.live.turn_id != growth.turn_id:
            self.live = SentTurn(growth.turn_id)
        for event in self._fresh(growth):
            self._take(event, growth.turn_id)

    def turn_ended(self, turn_id: str, ending: Ending) -> None:
        """End a run of a turn, and the prompt with the last run."""
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
        """Set the running turn to these stored events, and return them with call ids. Later events follow them."""
        self.live = SentTurn(turn_id, upto)
        # If no ids were assigned yet, finished calls are sent later and get other ids than these.
        call_ids = self._names or CallIds()
        return [self._named(event, turn_id, call_ids) for event in events]

    def call_ids(self, mark: str) -> CallIds:
        """Return the ids for new calls. If earlier calls are unknown here, each id contains `mark`, which must be unique."""
        if self._names is None:
            # The editor may show old calls of a resumed session. Their ids were not counted here.
            self._names = CallIds(mark=mark)
        return self._names

    def past_call_ids(self, running: str) -> CallIds:
        """Return ids for all finished calls, counted from the first. Calls of the running turn keep their ids."""
        self._given = set(self.live.calls.given) if self.live.turn_id == running else set()
        return CallIds(avoid=self._given)

    def adopt_call_ids(self, call_ids: CallIds) -> None:
        """Continue from these ids of finished calls. An id that was sent before is never used for another call."""
        call_ids.given |= set() if self._names is None else self._names.given
        self._names = call_ids

    def show_file(self, file: Attachment, turn_id: str | None) -> None:
        """Send a file at this place in the order, once its content is read."""
        lines = self.live.lines if turn_id == self.live.turn_id else []
        lines.append(b"")
        self.queue.put_deferred(partial(self._file_line, file, lines, len(lines) - 1), turn_id)

    def _repeat(self, prompt: OpenPrompt) -> None:
        """Send the text of a prompt: during a load the editor shows it only from our updates."""
        if prompt.event is not None and prompt.event.text:
            self.said_meanwhile.append(prompt)
            self.send_update(user_text(prompt.event.text), key=prompt.event.dedupe_key)

    def _leave_calls(self, turn_id: str) -> None:
        """Send the end of calls that their turn left unfinished. The editor would show them as running."""
        if self.live.turn_id == turn_id and not self._is_cancelling:
            for name in self.live.calls.open.values():
                self.queue.put(self.line(call_unfinished(name)), turn_id)
            self.live.calls.open.clear()

    def _fresh(self, growth: Growth) -> Sequence[Event]:
        before, self.live.upto = self.live.upto, max(self.live.upto, growth.upto)
        if growth.upto <= before:
            return ()
        return growth.events[max(0, before - growth.first) :]

    def _named(self, event: Event, turn_id: str, call_ids: CallIds | None = None) -> Event:
        if not isinstance(event, (ToolCall, ToolResult, AskPermission)):
            return event
        given = self.live.calls.given
        before = len(given)
        named = self.live.calls.named(event, call_ids or self.call_ids(turn_id), turn_id)
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

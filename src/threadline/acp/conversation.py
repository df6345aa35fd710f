"""A session that is open in an editor: what is told of it, and the prompt that waits for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeAlias

import msgspec

from threadline.acp.calls import Calls, Names
from threadline.acp.lines import head_of, line_of
from threadline.acp.outlet import Outlet
from threadline.acp.translate import call_left, file_block, heard, iso, told
from threadline.model.inbound import Attachment, Inbound
from threadline.model.source import SessionSource
from threadline.ports.agent import AskPermission, Event, File, ToolCall, ToolResult, UsageOf, Workplace
from threadline.ports.live import Ending, Growth
from threadline.rpc.acp import AgentMessageChunk, ConfigOption, KnownUpdate, PromptStopReason, SessionInfoUpdate

# What is in a stored file; `None` where it can't be had.
Fetch: TypeAlias = Callable[[Attachment], Awaitable[bytes | None]]

CANCELLED = Ending(outcome="stopped")
# More than a replay tells besides messages.
_KEYS_KEPT = 1000


class Prompt:
    """Something that a person said and waits for the answer to. It ends once."""

    def __init__(
        self,
        on_end: Callable[[Prompt, Ending | Exception], None],
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
        self.is_let_in = False
        # Whether it was taken: then it is in the transcript, or will be.
        self.is_taken = False
        self.turn_id: str | None = None
        self.is_running = False
        self.is_asking = False
        self.is_cancelled = False
        self.stop_reason: PromptStopReason = "end_turn"
        # What its turn asked last; whether the editor was shown that as a question.
        self.ask: AskPermission | None = None
        self.is_put = False
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

    def end_with_it(self, look: asyncio.TimerHandle) -> None:
        """A look that is to come is taken back when it ends."""
        self._look = look

    async def rest(self, seconds: float) -> None:
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


class LiveTurn(msgspec.Struct):
    """How much of the running turn was told, the lines that told it, and what it is about."""

    turn_id: str = ""
    upto: int = 0
    lines: list[bytes] = []
    calls: Calls = msgspec.field(default_factory=Calls)


class Conversation:
    """One open session. Its methods that hear of turns return at once and never raise."""

    def __init__(self, session_id: str, source: SessionSource, outlet: Outlet, fetch: Fetch) -> None:
        self.session_id = session_id
        self.source = source
        self.outlet = outlet
        self.workplace: Workplace | None = None
        self.mode = "ask"
        # The name that the editor shows for it; whether a person or the agent gave it that.
        self.title: str | None = None
        self.is_titled = False
        # The session that the store has at its place now, and the options as the editor was last told.
        self.stored_id = session_id
        self.options: tuple[ConfigOption, ...] = ()
        self.is_closing = False
        self.prompt: Prompt | None = None
        # What is done for the last prompt; after a cancel it may outlast it.
        self.work: asyncio.Task[None] | None = None
        # The turn that last began in this process.
        self.began = ""
        self.lock = asyncio.Lock()
        self.live = LiveTurn()
        self._names: Names | None = None
        # Names that calls were given since the last replay of all that is over looked there.
        self._given: set[str] = set()
        self._head = head_of(session_id)
        self._fetch = fetch
        self._is_muted = False
        # Whether the last prompt was answered as cancelled: an editor takes an update behind that answer for a fault.
        self._is_cancelled = False
        self._look: asyncio.TimerHandle | None = None
        self._keys: dict[str, None] = {}
        # What an answer waits for, because it has to be told before.
        self._awaited: set[str] = set()
        self._all_told = asyncio.Event()
        # What was said while all of the session is being told, and waits to be told behind that.
        self.said_meanwhile: list[Prompt] = []

    @property
    def is_at_work(self) -> bool:
        """Whether somebody waits for an answer here, or for what comes before it, or what they cancelled is not over."""
        return self._is_muted or bool(self._awaited) or (self.prompt is not None and not self.prompt.is_over)

    @property
    def awaits_command(self) -> bool:
        """Whether somebody waits for what a command answers."""
        return self.prompt is not None and self.prompt.is_command

    @property
    def has_spoken(self) -> bool:
        """Whether something was told of the turn that somebody waits for."""
        return self.prompt is not None and self.prompt.turn_id == self.live.turn_id and bool(self.live.lines)

    def tell(self, update: KnownUpdate, *, key: str = "") -> None:
        """Tells the editor something that belongs to no turn; `key`: by which it is stored."""
        self.outlet.put(line_of(self._head, update), key=key)

    def tell_name(self, at: datetime) -> None:
        """Tells the editor the session's name, and that it changed then; not between a cancelled prompt and the next one."""
        if not self._is_cancelled:
            self.tell(SessionInfoUpdate(title=self.title, updated_at=iso(at)))

    def line(self, update: KnownUpdate) -> bytes:
        """The line that tells an update of this session."""
        return line_of(self._head, update)

    def is_new(self, key: str) -> bool:
        """Whether a message of ours is told for the first time."""
        if key in self._keys:
            return False
        self._keys[key] = None
        self._awaited.discard(key)
        if not self._awaited:
            self._all_told.set()
        if len(self._keys) > _KEYS_KEPT:
            del self._keys[next(iter(self._keys))]
        return True

    def awaits(self, keys: Iterable[str]) -> bool:
        """Whether messages of ours are yet to come, of those that have these keys. They are waited for from now on."""
        self._awaited = {key for key in keys if key not in self._keys}
        self._all_told.clear()
        return bool(self._awaited)

    async def all_told(self, seconds: float) -> None:
        """Returns when all that is waited for was told, or after so many seconds."""
        if self._awaited:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_told.wait(), seconds)
            self._awaited.clear()

    def hold(self) -> None:
        """From now on what happens waits to be told, behind all that was said before."""
        self.outlet.hold()
        if self.prompt is not None and not self.prompt.is_over:
            self._repeat(self.prompt)

    def release(self) -> None:
        """What has happened meanwhile is told."""
        self.said_meanwhile.clear()
        self.outlet.release()

    def begin(self, prompt: Prompt) -> None:
        """Somebody waits here from now on."""
        self.prompt = prompt
        self._is_cancelled = False
        if self.outlet.is_held:
            self._repeat(prompt)

    def cancel(self, only: Prompt | None = None) -> None:
        """Ends the prompt, if one waits, at once as cancelled: nothing more is told of its turn. `only`: this one, and no other."""
        prompt = self.prompt
        if prompt is not None and not prompt.is_over and only in (None, prompt):
            self.prompt = None
            self._is_muted = prompt.is_cancelled = True
            self.outlet.forget(prompt.turn_id or "")
            prompt.end(CANCELLED)

    def leave(self, prompt: Prompt, *, is_cancelled: bool = False) -> None:
        """Nobody waits for that prompt any more: the next may come. `is_cancelled`: it is answered so."""
        if self.prompt is prompt:
            self.prompt = None
        if is_cancelled and self.prompt is None:
            self._is_cancelled = True

    def look_later(self, seconds: float, look: Callable[[Conversation], None]) -> None:
        """Looks at the session in a while, instead of the look that was to come."""
        if self._look is not None:
            self._look.cancel()
        self._look = asyncio.get_running_loop().call_later(seconds, look, self)

    def wound_up(self) -> None:
        """Nothing of what was cancelled runs any more."""
        self._is_muted = False

    def turn_began(self, turn_id: str) -> None:
        """A turn begins here, or goes on after it was answered."""
        self.began = turn_id
        if self.live.turn_id != turn_id:
            self.live = LiveTurn(turn_id)
        prompt = self.prompt
        if prompt is not None and prompt.is_let_in:
            prompt.turn_id = turn_id
            prompt.is_running, prompt.is_asking = True, False

    def turn_grew(self, growth: Growth) -> None:
        """Tells what is new of a turn. What one says that goes on after a question begins with what was told before."""
        if self.live.turn_id != growth.turn_id:
            self.live = LiveTurn(growth.turn_id)
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

    def replayed(self, turn_id: str, upto: int, events: Iterable[Event]) -> list[Event]:
        """So much of a turn is told from the store: these events, as they are returned. It may go on here behind them."""
        self.live = LiveTurn(turn_id, upto)
        # Where nothing was counted yet: what is over is told from now on, and gets other names than these.
        names = self._names or Names()
        return [self._named(event, turn_id, names) for event in events]

    def names_for(self, mark: str) -> Names:
        """Names for calls that are told now. Where nobody knows which there are, `mark` stands in them, which has to be unique."""
        if self._names is None:
            # Who goes on with a session has old calls on the screen, which were not counted here.
            self._names = Names(mark=mark)
        return self._names

    def names_for_past(self, running: str) -> Names:
        """Names for all calls that are over, counted from the first. What runs keeps its own, and what comes meanwhile."""
        self._given = set(self.live.calls.given) if self.live.turn_id == running else set()
        return Names(avoid=self._given)

    def counted(self, names: Names) -> None:
        """All that is over has these names: it is counted on from there. What was told before is never told of another call."""
        names.given |= set() if self._names is None else self._names.given
        self._names = names

    def show_file(self, file: Attachment, turn_id: str | None) -> None:
        """Tells of a file once what is in it is here, in its place."""
        lines = self.live.lines if turn_id == self.live.turn_id else []
        lines.append(b"")
        self.outlet.put_fetched(partial(self._file_line, file, lines, len(lines) - 1), turn_id)

    def _repeat(self, prompt: Prompt) -> None:
        """Tells the words of a prompt: who has a session told anew shows its answer behind them, and nothing of its own."""
        if prompt.event is not None and prompt.event.text:
            self.said_meanwhile.append(prompt)
            self.tell(heard(prompt.event.text), key=prompt.event.dedupe_key)

    def _leave_calls(self, turn_id: str) -> None:
        """Tells the end of calls that their turn has left without one, as it is stored: an editor would show them as running."""
        if self.live.turn_id == turn_id and not self._is_muted:
            for name in self.live.calls.open.values():
                self.outlet.put(self.line(call_left(name)), turn_id)
            self.live.calls.open.clear()

    def _fresh(self, growth: Growth) -> Sequence[Event]:
        before, self.live.upto = self.live.upto, max(self.live.upto, growth.upto)
        if growth.upto <= before:
            return ()
        return growth.events[max(0, before - growth.first) :]

    def _named(self, event: Event, turn_id: str, names: Names | None = None) -> Event:
        if not isinstance(event, (ToolCall, ToolResult, AskPermission)):
            return event
        given = self.live.calls.given
        before = len(given)
        named = self.live.calls.named(event, names or self.names_for(turn_id), turn_id)
        self._given.update(given[before:])
        return named

    def _take(self, event: Event, turn_id: str) -> None:
        event = self._named(event, turn_id)
        prompt = self.prompt
        if prompt is not None and prompt.turn_id == turn_id:
            if isinstance(event, UsageOf):
                prompt.usage.append(event)
            elif isinstance(event, AskPermission):
                prompt.ask, prompt.is_put = event, False
        shown = None if self._is_muted else told(event)
        if isinstance(shown, File):
            self.show_file(shown.attachment, turn_id)
        elif shown is not None:
            line = line_of(self._head, shown)
            self.live.lines.append(line)
            self.outlet.put(line, turn_id)

    async def _file_line(self, file: Attachment, lines: list[bytes], place: int) -> bytes:
        lines[place] = self.line(AgentMessageChunk(content=file_block(file, await self._fetch(file))))
        return lines[place]

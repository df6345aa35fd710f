"""What a turn has said and done: all of it, in order, and how much of it is on disk."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from threadline.errors import ThreadlineError
from threadline.gateway.asking import since_asked
from threadline.gateway.fold import shown_text
from threadline.gateway.patience import patiently
from threadline.ports.agent import Event, File, Text, Thought, ToolCall, ToolResult
from threadline.ports.live import Growth
from threadline.store.facade import GatewayStore
from threadline.store.rows import json_text
from threadline.store.work.turn_end import ClaimedTurn

_SOONEST_SECONDS = 0.03
# Between two writes, each of which is a sync of the disk. Words that somebody watches come in steps too small to notice; of
# those that nobody was shown a kill may cost the last.
_WATCHED_SECONDS = 0.1
_UNSEEN_SECONDS = 0.5
_WRITES_A_SECOND = 500
_MOST_CHARS = 2_000


class Pace:
    """How soon the turns of a gateway write down what they say: soon while they are few, else each in its time.

    All together they write some five hundred times a second, however many there are and however small the pieces. What a
    chat is shown does not wait for that: it is written before.
    """

    def __init__(self) -> None:
        self._turns = 0

    @property
    def seconds(self) -> float:
        """How long words may wait now that come after a silence."""
        return max(_SOONEST_SECONDS, self._turns / _WRITES_A_SECOND)

    @contextmanager
    def taking_part(self) -> Iterator[None]:
        """One more turn writes, as long as this lasts."""
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1


class Journal:
    """All that a turn has said and done from its beginning on, also before it last asked.

    A piece of text costs the same however long the answer has become: pieces are joined when somebody looks.
    """

    def __init__(
        self,
        store: GatewayStore,
        claimed: ClaimedTurn,
        so_far: Sequence[Event],
        pace: Pace,
        is_late: Callable[[], bool],
        on_failure: Callable[[], None],
    ) -> None:
        """`so_far` is on disk. `on_failure` is called when the store did not take something: see `failure`."""
        self._store = store
        self._held = claimed.lease
        self._pace = pace
        self._is_late = is_late
        self._on_failure = on_failure
        # What the store said to the agent's words: the turn is somebody's to recover, not ours to end.
        self.failure: ThreadlineError | None = None
        # Whether what was shown must be on disk: not where a turn may run again from the start, and say it again.
        self.keeps_words = False
        self._events: list[Event] = list(so_far)
        self._pieces: list[str] = []
        self._kind: type[Text | Thought] = Text
        self._kept = len(self._events)
        self._place = claimed.last_journal_place - self._kept + 1
        self._chars = 0
        self._keeping = asyncio.Lock()
        self._unkept = asyncio.Event()
        # Who is told what people may see, and how much of it they were told.
        self._grown: Callable[[Growth], None] | None = None
        self._told = 0

    @property
    def events(self) -> Sequence[Event]:
        """All of it; neighbouring pieces of text may be one."""
        self._join()
        return self._events

    @property
    def called_tool(self) -> bool:
        """Whether a tool was called."""
        return any(isinstance(event, ToolCall) for event in self._events)

    @property
    def has_open_call(self) -> bool:
        """Whether a tool was called that has given nothing back."""
        results = {event.call_id for event in self._events if isinstance(event, ToolResult)}
        return any(isinstance(event, ToolCall) and event.call_id not in results for event in self._events)

    def add(self, event: Event) -> bool:
        """One thing more. Whether it must be kept before the agent goes on."""
        self._unkept.set()
        if not isinstance(event, (Text, Thought)):
            self._join()
            self._events.append(event)
            return isinstance(event, (ToolCall, ToolResult)) or (self.keeps_words and isinstance(event, File))
        kind = Text if isinstance(event, Text) else Thought
        if kind is not self._kind:
            self._join()
            self._kind = kind
        self._pieces.append(event.text)
        self._chars += len(event.text)
        return self.keeps_words and self._chars >= _MOST_CHARS

    @property
    def is_followed(self) -> bool:
        """Whether words are to be kept or told while they are said."""
        return self.keeps_words or self._grown is not None

    def tell(self, grown: Callable[[Growth], None] | None) -> None:
        """From now on `grown` is told what people may see, beginning with what they may see by now; `None`: nobody is.

        Where words are to be kept, that is what is on disk.
        """
        self._grown = grown
        self._tell(self._kept)

    def tell_rest(self) -> None:
        """Tells all that was not told yet: the turn's end has stored it."""
        self._join()
        self._tell(len(self._events))

    async def shown(self) -> str:
        """What the chat may show now. Where words are to be kept, these are on disk."""
        text = shown_text(since_asked(self.events))
        if self.keeps_words:
            await self.keep()
        return text

    @property
    def patience(self) -> float:
        """How many seconds the first words may wait until they are followed."""
        return self._pace.seconds if self.keeps_words else _SOONEST_SECONDS

    async def follow(self) -> None:
        """Keeps the words while they are said, or where they need no keeping tells them, until it is cancelled."""
        await (self.keep_words() if self.keeps_words else self.tell_words())

    async def keep_words(self) -> None:
        """Keeps what was said, and then what was said a moment ago, also where the agent falls silent, until it is cancelled."""
        loop, written_at = asyncio.get_running_loop(), -math.inf
        with self._pace.taking_part():
            await self.keep()
            while True:
                await self._unkept.wait()
                kept = self._kept
                between = _UNSEEN_SECONDS if self._grown is None else _WATCHED_SECONDS
                await asyncio.sleep(max(self._pace.seconds, written_at + between - loop.time()))
                # Who shows the words has kept them: what came after has its own time.
                if self._kept == kept:
                    await self.keep()
                written_at = loop.time()

    async def tell_words(self) -> None:
        """Tells what was said, and then what was said a moment ago, where words need no keeping, until it is cancelled."""
        while True:
            self._unkept.clear()
            self._join()
            self._tell(len(self._events))
            await self._unkept.wait()
            await asyncio.sleep(_SOONEST_SECONDS)

    async def keep(self) -> None:
        """All that was said and done by now is on disk when this returns; else the turn is not ours to end."""
        try:
            async with self._keeping:
                if self.failure is not None:
                    # Nothing more of a turn that is somebody else's to recover: what is kept decides what becomes of it.
                    raise self.failure
                await self._write(*self._fresh())
        except ThreadlineError as cause:
            self.failure = cause
            self._on_failure()
            raise

    @asynccontextmanager
    async def unkept(self) -> AsyncIterator[tuple[int, Sequence[str]]]:
        """What is not on disk, and its place there. Nobody else writes meanwhile."""
        async with self._keeping:
            place, fresh = self._fresh()
            yield place, [json_text(event) for event in fresh]

    def _fresh(self) -> tuple[int, Sequence[Event]]:
        self._join()
        self._unkept.clear()
        self._chars = 0
        return self._place + self._kept, self._events[self._kept :]

    async def _write(self, place: int, fresh: Sequence[Event]) -> None:
        if not fresh:
            return
        store, held, rows = self._store, self._held, [json_text(event) for event in fresh]
        called_tool = any(isinstance(event, ToolCall) for event in fresh)
        await patiently(lambda: store.turns.append_journal(held, place, rows, called_tool=called_tool), self._is_late)
        self._kept += len(fresh)
        self._tell(self._kept)

    def _tell(self, upto: int) -> None:
        if self._grown is None or upto <= self._told:
            return
        # Counted like the rows on disk: who reads those goes on with these.
        growth = Growth(
            turn_id=self._held.turn_id,
            attempt=self._held.fence,
            first=self._place + self._told - 1,
            upto=self._place + upto - 1,
            events=tuple(self._events[self._told : upto]),
        )
        self._told = upto
        self._grown(growth)

    def _join(self) -> None:
        if self._pieces:
            self._events.append(self._kind("".join(self._pieces)))
            self._pieces.clear()

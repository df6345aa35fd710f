"""A turn that runs: what the agent says as it goes, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from threadline.errors import LeaseLost, ThreadlineError, UnknownSession
from threadline.gateway.asking import checked_ask, since_asked
from threadline.gateway.composing import Composer, Retried, read_event
from threadline.gateway.fold import shown_text
from threadline.gateway.patience import patiently
from threadline.gateway.streaming import Streamer
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model import words_gateway as words
from threadline.model.turn import Outcome, Stop
from threadline.ports.agent import (
    Agent,
    AgentError,
    AskPermission,
    Done,
    Event,
    Spoken,
    Text,
    Thought,
    ToolCall,
    ToolResult,
    Turn,
)
from threadline.store.rows import json_text
from threadline.store.turns import Claimed

log = get_logger(__name__)

_JOURNAL_SECONDS = 0.03
_JOURNAL_CHARS = 2_000
_GRACE_SECONDS = 5.0


class Answering:
    """A turn that runs. It can be stopped by its people, lost to another worker, or shut down with the gateway."""

    def __init__(
        self, composer: Composer, claimed: Claimed, supervisor: Supervisor, retried: Retried | None = None
    ) -> None:
        self.claimed = claimed
        self._retried = retried
        self._composer = composer
        self._supervisor = supervisor
        self._cancelled = asyncio.Event()
        self._stop: Stop | None = None
        self._is_lost = False
        self._shutting_down = False
        self._fault: str | None = None
        # Who answers, and what it said where it could not.
        self.agent = ""
        self.error: AgentError | None = None
        # What the store said to the agent's words: the turn is somebody's to recover, not ours to end.
        self._failure: ThreadlineError | None = None
        # All that was said and done, from the turn's beginning on: also before it last asked.
        self._events: list[Event] = list(composer.so_far(claimed))
        self._kept = len(self._events)
        self._place = claimed.journalled - self._kept + 1
        self._ask: AskPermission | None = None
        self._keeping = asyncio.Lock()
        self._unkept = asyncio.Event()
        self._taking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._streamer: Streamer | None = None

    @property
    def is_well(self) -> bool:
        """Whether the agent has answered, and nothing kept it from its end."""
        return self._fault is None and not self._cancelled.is_set()

    def stop(self, stop: Stop) -> None:
        """Its people do not want it any more: it ends with what it has said."""
        if self._stop is None:
            self._stop = stop
            self._end()

    def lose(self) -> None:
        """Another worker has the turn: this one ends, writes nothing and shows nothing."""
        self._is_lost = True
        if self._streamer is not None:
            self._streamer.close()
        self._end()

    def shut_down(self) -> None:
        """The gateway ends: the turn is given back where it may run again, else closed."""
        self._shutting_down = True
        self._end()

    async def run(self) -> None:
        """Runs the agent to its end, whichever end that is."""
        composer, claimed = self._composer, self.claimed
        self.agent, agent = composer.settings.agent_for(claimed.origin)
        if agent.replay != claimed.replay:
            await composer.store.declare_replay(claimed.held, agent.replay)
        turn = await composer.prepare(claimed, self._cancelled, self._retried, self._take_more)
        self._streamer = streamer = composer.streamer(claimed)
        showing = None if streamer is None else self._supervisor.start("stream", streamer.run())
        keeping = None if agent.replay == "safe" else self._supervisor.start("journal", self._keep_words())
        presence = composer.presence(claimed, self._supervisor)
        outcome: Outcome = "answered"
        notice: str | None = None
        presence.begin()
        try:
            self._task = self._supervisor.start("agent", self._listen(agent, turn, streamer))
            if self._cancelled.is_set():
                self._end()
            outcome, notice = await self._ended(self._task)
        finally:
            presence.end()
            if keeping is not None:
                keeping.cancel()
            if streamer is not None and showing is not None:
                streamer.close()
                await asyncio.wait([showing])
        await self._conclude(agent, outcome, notice)

    async def _conclude(self, agent: Agent, outcome: Outcome, notice: str | None) -> None:
        if self._is_lost:
            raise LeaseLost
        if self._failure is not None:
            raise self._failure
        called_tool = any(isinstance(event, ToolCall) for event in self._events)
        may_rerun = agent.replay == "safe" or (agent.replay == "until_tool" and not called_tool)
        if self._shutting_down and may_rerun and self._stop is None:
            store = self._composer.store
            await store.forget_journal(self.claimed.held)
            await store.release_turn(self.claimed.held, self.claimed.session_pk, is_counted=False)
            return
        if self._ask is None or outcome != "answered" or not await self._asked(self._ask):
            await self._composer.finish(self.claimed, self._events, outcome, notice)

    async def _asked(self, ask: AskPermission) -> bool:
        """Whether the turn waits now for somebody's word; not in a session that was deleted meanwhile."""
        composer = self._composer
        async with self._keeping:
            fresh = [json_text(event) for event in _joined(self._events[self._kept :])]
            place = self._place + self._kept
            try:
                await patiently(
                    lambda: composer.ask(self.claimed, self._events, place, fresh, ask), composer.outbox.is_late
                )
            except UnknownSession:
                return False
        return True

    async def _take_more(self) -> tuple[Spoken, ...]:
        async with self._taking:
            self.claimed, more = await self._composer.take_more(self.claimed)
        return more

    async def _ended(self, task: asyncio.Task[None]) -> tuple[Outcome, str | None]:
        await asyncio.wait([task])
        if self._fault is not None:
            return "failed", self._fault
        if self._stop is not None:
            return "stopped", words.STOPS[self._stop]
        if self._shutting_down:
            return "interrupted", words.BROKEN_OFF
        return "answered", None

    async def _listen(self, agent: Agent, turn: Turn, streamer: Streamer | None) -> None:
        events: AsyncIterator[Event] | None = None
        try:
            events = agent.run(turn)
            await self._take_all(events, agent, streamer)
        except AgentError as cause:
            self.error = cause
            self._fault = words.AGENT_FAILED.format(reason=str(cause))
            log.warning("agent.failed", turn=turn.turn_id, error=str(cause), cause=repr(cause.__cause__))
        except TimeoutError:
            minutes = round(self._composer.settings.silence_seconds / 60)
            self._fault = words.AGENT_SILENT.format(minutes=minutes)
        except Exception as cause:
            # Whatever an agent raises, its people are told and the gateway goes on.
            if cause is not self._failure:
                self._fault = words.AGENT_FAULT
                log.exception("agent.fault", turn=turn.turn_id, error=repr(cause))
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                with suppress(Exception):
                    await close()

    async def _take_all(self, events: AsyncIterator[Event], agent: Agent, streamer: Streamer | None) -> None:
        waits_chars = 0
        while True:
            try:
                # In this very task: a cancellation reaches the agent, and what it opened it can close.
                async with asyncio.timeout(self._composer.settings.silence_seconds):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            _require_event(event)
            if isinstance(event, Done):
                return
            if isinstance(event, AskPermission):
                self._ask = checked_ask(event)
                self._events.append(self._ask)
                return
            self._events.append(event)
            if isinstance(event, Text):
                waits_chars += len(event.text)
                if streamer is not None:
                    streamer.update(self._shown)
            self._unkept.set()
            if self._is_due(agent, event, waits_chars):
                await self._keep()
                waits_chars = 0

    def _shown(self) -> str:
        return shown_text(since_asked(self._events))

    def _is_due(self, agent: Agent, event: Event, chars: int) -> bool:
        """Whether the journal must be written now. Of a turn that may run again from the start, words need no keeping."""
        if isinstance(event, (ToolCall, ToolResult)):
            return True
        return agent.replay != "safe" and chars >= _JOURNAL_CHARS

    async def _keep_words(self) -> None:
        """Keeps what was said a moment ago, also where the agent then falls silent."""
        while True:
            await self._unkept.wait()
            await asyncio.sleep(_JOURNAL_SECONDS)
            self._unkept.clear()
            await self._keep()

    async def _keep(self) -> None:
        try:
            async with self._keeping:
                if self._failure is not None:
                    # Nothing more of a turn that is somebody else's to recover: what is kept decides what becomes of it.
                    raise self._failure
                await self._journal(self._events[self._kept :])
        except ThreadlineError as cause:
            self._failure = cause
            self._end()
            raise

    async def _journal(self, fresh: Sequence[Event]) -> None:
        if not fresh:
            return
        called_tool = any(isinstance(event, ToolCall) for event in fresh)
        encoded = [json_text(event) for event in _joined(fresh)]
        store, held, place = self._composer.store, self.claimed.held, self._place + self._kept
        await patiently(
            lambda: store.journal(held, place, encoded, called_tool=called_tool), self._composer.outbox.is_late
        )
        self._kept += len(fresh)

    def _end(self) -> None:
        self._cancelled.set()
        if self._task is not None:
            is_over = self._is_lost or self._shutting_down or self._failure is not None
            grace = 0.0 if is_over else self._grace()
            asyncio.get_running_loop().call_later(grace, self._task.cancel)

    def _grace(self) -> float:
        """A tool that runs gets a moment to end; a model that talks does not."""
        results = {event.call_id for event in self._events if isinstance(event, ToolResult)}
        open_calls = [e for e in self._events if isinstance(e, ToolCall) and e.call_id not in results]
        return _GRACE_SECONDS if open_calls else 0.0


def _require_event(event: object) -> None:
    """An agent may yield anything. What the journal could not give back is the agent's fault, and reaches nobody."""
    if isinstance(event, (Text, Thought)) and isinstance(event.text, str):
        return
    try:
        read_event(json_text(event))
    except (TypeError, ValueError) as cause:
        raise TypeError(f"the agent yielded {type(event).__name__}, which is no event") from cause


def _joined(events: Sequence[Event]) -> list[Event]:
    """The same with neighbouring pieces of text made one, so that the journal has fewer rows."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, Text) and out and isinstance(out[-1], Text):
            out[-1] = Text(out[-1].text + event.text)
        else:
            out.append(event)
    return out

"""A turn that runs: what the agent says as it goes, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from threadline.errors import LeaseLost, UnknownSession
from threadline.gateway.asking import checked_ask
from threadline.gateway.composing import Composer, Retried, read_event, unused
from threadline.gateway.patience import patiently
from threadline.gateway.silence import Silence
from threadline.gateway.streaming import Streamer
from threadline.gateway.supervisor import Later, Supervisor
from threadline.gateway.telling import Told
from threadline.log import get_logger
from threadline.model.inbound import stored_id
from threadline.model.safe_text import safe_line, safe_text
from threadline.model.turn import StopReason, TurnOutcome
from threadline.ports.agent import (
    Agent,
    AgentError,
    AskPermission,
    Done,
    Event,
    File,
    Notice,
    Remember,
    Remembers,
    Spoken,
    Text,
    Thought,
    Titled,
    Turn,
    Uses,
)
from threadline.ports.live import Ending
from threadline.store.rows import json_text
from threadline.store.work.turn_end import ClaimedTurn
from threadline.texts import gateway as texts

log = get_logger(__name__)

_GRACE_SECONDS = 5.0
# A gateway that ends has no more for an agent that does not: then the turn is still to be given back or closed.
_LAST_SECONDS = 2.0
_TITLE_AT_MOST = 100
_WHY_CHARS = 300
_NOTICE_AT_MOST = 2_000
_NOTICES_AT_MOST = 10


class Answering:
    """A turn that runs. It can be stopped by its people, lost to another worker, or shut down with the gateway."""

    def __init__(
        self, composer: Composer, claimed: ClaimedTurn, supervisor: Supervisor, retried: Retried | None = None
    ) -> None:
        self.claimed = claimed
        self._retried = retried
        self._composer = composer
        self._supervisor = supervisor
        self._cancelled = asyncio.Event()
        self._stop: StopReason | None = None
        self._is_lost = False
        self._shutting_down = False
        self._fault: str | None = None
        # Who answers, and what it said where it could not.
        self.agent = ""
        self._agent: Agent | None = None
        self.error: AgentError | None = None
        self._journal = composer.journal(claimed, self._end)
        self._ask: AskPermission | None = None
        self._uses = Uses()
        self._taking = asyncio.Lock()
        # What its people were told besides, by the keys that it is sent by.
        self._told: list[str] = []
        self._notices = 0
        # Whether its people wait while it runs: then it is never run again, and nothing of it is sent besides.
        self._is_attended = composer.is_attended(claimed)
        self._task: asyncio.Task[None] | None = None
        # Done when the agent has ended, or nobody waits for it any longer.
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_left_behind = False
        self._streamer: Streamer | None = None

    @property
    def is_well(self) -> bool:
        """Whether the agent has answered, and nothing kept it from its end."""
        return self._fault is None and not self._cancelled.is_set()

    def has(self, agent: Agent) -> bool:
        """Whether that agent runs it."""
        return self._agent is agent

    def stop(self, stop: StopReason) -> None:
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
        self._agent = agent
        if agent.replay != claimed.replay:
            await composer.store.turns.set_replay(claimed.lease, agent.replay)
        # By its name: to look for a whole protocol takes as long as many a statement of SQL.
        limit = getattr(agent, "history_limit", None)
        turn = await composer.prepare(claimed, self._cancelled, self._retried, self._take_more, limit)
        if hasattr(agent, "remembers") and isinstance(agent, Remembers):
            remembered = await composer.store.agent_state.load(claimed.session_pk, self.agent)
            turn = msgspec.structs.replace(turn, remembered=remembered)
        self._uses = turn.uses
        self._journal.keeps_words = agent.replay != "safe" or self._is_attended
        platform = composer.outbox.platform_of(claimed.origin.platform, claimed.origin.account)
        with Told(platform, claimed, self._journal) as told:
            outcome, notice = await self._answer(agent, turn)
            ending = await self._conclude(agent, outcome, notice)
            told.ending = msgspec.structs.replace(ending, told=tuple(self._told)) if self._told else ending

    async def _answer(self, agent: Agent, turn: Turn) -> tuple[TurnOutcome, str | None]:
        """How the agent came to its end, and what its people are told besides what it said."""
        composer, claimed = self._composer, self.claimed
        self._streamer = streamer = composer.streamer(claimed, self._journal)
        if streamer is not None:
            streamer.begin(self._supervisor)
        keeping = Later(self._supervisor, "journal", self._journal.follow)
        if self._journal.is_followed:
            keeping.begin(self._journal.patience)
        presence = None if self._is_attended else composer.presence(claimed, self._supervisor)
        if presence is not None:
            presence.begin()
        try:
            self._task = self._supervisor.start("agent", self._listen(agent, turn), self._go_on)
            if self._cancelled.is_set():
                self._end()
            return await self._ended()
        finally:
            if presence is not None:
                presence.end()
            keeping.end()
            if streamer is not None:
                await streamer.end()

    async def _conclude(self, agent: Agent, outcome: TurnOutcome, notice: str | None) -> Ending:
        if self._is_lost:
            raise LeaseLost
        if self._journal.failure is not None:
            raise self._journal.failure
        may_rerun = agent.replay == "safe" or (agent.replay == "until_tool" and not self._journal.called_tool)
        if self._shutting_down and may_rerun and self._stop is None and not self._is_attended:
            store = self._composer.store
            await store.turns.clear_journal(self.claimed.lease)
            left = unused(self.claimed, self._uses)
            await store.turns.release(self.claimed.lease, self.claimed.session_pk, is_counted=False, unused=left)
            return Ending(outcome="again")
        if self._ask is not None and outcome == "answered" and await self._asked(self._ask):
            return Ending(outcome="asks")
        return await self._composer.finish(self.claimed, self._journal.events, outcome, notice)

    async def _asked(self, ask: AskPermission) -> bool:
        """Whether the turn waits now for somebody's word; not in a session that was deleted meanwhile."""
        composer = self._composer
        async with self._journal.unkept() as (place, fresh):
            events, left = self._journal.events, unused(self.claimed, self._uses)
            try:
                await patiently(
                    lambda: composer.ask(self.claimed, events, place, fresh, ask, left), composer.outbox.is_late
                )
            except UnknownSession:
                return False
        return True

    async def _take_more(self) -> tuple[Spoken, ...]:
        async with self._taking:
            self.claimed, more = await self._composer.take_more(self.claimed)
        return more

    async def _ended(self) -> tuple[TurnOutcome, str | None]:
        await self._over
        if self._fault is not None:
            return "failed", self._fault
        if self._stop is not None:
            return "stopped", texts.STOPS[self._stop]
        if self._shutting_down:
            return "interrupted", texts.BROKEN_OFF
        return "answered", None

    async def _listen(self, agent: Agent, turn: Turn) -> None:
        events: AsyncIterator[Event] | None = None
        try:
            events = agent.run(turn)
            await self._take_all(events)
        except AgentError as cause:
            self.error = cause
            self._fault = texts.AGENT_FAILED.format(reason=str(cause))
            why = safe_line(repr(cause.__cause__), _WHY_CHARS)
            log.warning("agent.failed", turn=turn.turn_id, error=str(cause), cause=why)
        except TimeoutError:
            self._fault = self._silent()
        except Exception as cause:
            # Whatever an agent raises, its people are told and the gateway goes on.
            if cause is not self._journal.failure:
                self._fault = texts.AGENT_FAULT.format(error=type(cause).__name__)
                log.exception("agent.fault", turn=turn.turn_id, error=repr(cause))
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                with suppress(Exception):
                    await close()
            # Here already: who waits for it goes on one round of the loop earlier.
            self._go_on()

    async def _take_all(self, events: AsyncIterator[Event]) -> None:
        journal, streamer = self._journal, self._streamer
        # In this very task: a cancellation reaches the agent, and what it opened it can close.
        async with Silence(self._composer.settings.silence_seconds, self._leave_soon) as silence:
            async for event in events:
                _require_event(event)
                if isinstance(event, Done) or self._is_left_behind:
                    return
                if isinstance(event, AskPermission):
                    self._ask = checked_ask(event)
                    journal.add(self._ask)
                    return
                if isinstance(event, (Remember, Titled, Notice)):
                    silence.pause()
                    await self._set_aside(event)
                    silence.heard()
                    continue
                must_be_kept = journal.add(event)
                if streamer is not None and isinstance(event, Text):
                    streamer.update()
                if must_be_kept:
                    silence.pause()
                    await journal.keep()
                silence.heard()

    async def _set_aside(self, event: Remember | Titled | Notice) -> None:
        """Stores what is no part of the answer."""
        composer, claimed, held = self._composer, self.claimed, self.claimed.lease
        is_late = composer.outbox.is_late
        if isinstance(event, Remember):
            await patiently(
                lambda: composer.store.agent_state.save(held, claimed.session_pk, self.agent, event.text), is_late
            )
        elif isinstance(event, Titled):
            title = safe_line(event.title, _TITLE_AT_MOST).strip()
            if title:
                await patiently(
                    lambda: composer.store.turns.suggest_title(held, claimed.session.session_id, title), is_late
                )
        elif self._notices < _NOTICES_AT_MOST and event.text.strip():
            self._notices += 1
            key = await composer.tell(claimed, safe_text(event.text)[:_NOTICE_AT_MOST])
            self._told += [] if key is None else [key]

    def _silent(self) -> str:
        return texts.AGENT_SILENT.format(minutes=round(self._composer.settings.silence_seconds / 60))

    def _leave_soon(self, grace: float = 0.0) -> None:
        """The agent is told to end in so many seconds. It may swallow that: then it is not waited for."""
        seconds = self._composer.settings.ending_seconds
        if self._shutting_down:
            seconds = min(seconds, _LAST_SECONDS)
        asyncio.get_running_loop().call_later(grace + seconds, self._leave_behind)

    def _leave_behind(self) -> None:
        """The turn ends with what was said by now; what its agent says after that nobody hears."""
        if self._task is None or self._task.done() or self._is_left_behind:
            return
        if not self._cancelled.is_set():
            self._fault = self._silent()
        log.error("agent.left_behind", turn=self.claimed.lease.turn_id, agent=self.agent)
        self._supervisor.leave_behind(self._task)
        self._is_left_behind = True
        self._go_on()

    def _go_on(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _end(self) -> None:
        self._cancelled.set()
        if self._task is not None:
            is_over = self._is_lost or self._shutting_down or self._journal.failure is not None
            # A tool that runs gets a moment to end; a model that talks does not.
            grace = _GRACE_SECONDS if self._journal.has_open_call and not is_over else 0.0
            asyncio.get_running_loop().call_later(grace, self._task.cancel)
            self._leave_soon(grace)


def _require_event(event: object) -> None:
    """An agent may yield anything. What the journal could not give back is the agent's fault, and reaches nobody."""
    if isinstance(event, (Text, Thought)) and isinstance(event.text, str):
        return
    try:
        read = read_event(json_text(event))
    except (TypeError, ValueError) as cause:
        raise TypeError(f"the agent yielded {type(event).__name__}, which is no event") from cause
    if isinstance(read, File) and stored_id(read.attachment.handle) is None:
        raise TypeError("the agent yielded a file that is not stored; `turn.file` makes one that can be sent")

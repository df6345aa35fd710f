"""One turn: what the agent is given, what it says as it goes, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec

from threadline.clock import to_instant
from threadline.errors import InvalidRequest, LeaseLost, ThreadlineError
from threadline.gateway.fold import Folded, fold, shown_text
from threadline.gateway.outbox import Outbox
from threadline.gateway.patience import patiently
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.streaming import Streamer
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model import words_gateway as words
from threadline.model.access import Role
from threadline.model.context import build_session_context
from threadline.model.delivery import target_of
from threadline.model.message import Message, encode_message
from threadline.model.ownership import person_of
from threadline.model.prompt import build_session_context_prompt
from threadline.model.speaker import label_message
from threadline.model.turn import Fate, Outcome, Stop, Waiting
from threadline.ports.agent import (
    Agent,
    AgentError,
    Done,
    Event,
    Spoken,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from threadline.store.gateway import GatewayStore
from threadline.store.outbox import NewDelivery, showable
from threadline.store.turns import Claimed, Finish, Said

log = get_logger(__name__)

_JOURNAL_SECONDS = 0.03
_JOURNAL_CHARS = 2_000
_GRACE_SECONDS = 5.0
_decode_event = msgspec.json.Decoder(Event).decode


class Retried(msgspec.Struct, frozen=True):
    """What `/retry` lets the agent answer again: already in the transcript, so it is not said twice."""

    text: str
    history: tuple[Message, ...]
    # The least role whose words these are; `None`: the sender's of the command.
    role: Role | None = None


class Composer:
    """Turns what was said and done into what is stored and sent."""

    def __init__(self, store: GatewayStore, settings: GatewaySettings, outbox: Outbox) -> None:
        self.store = store
        self.settings = settings
        self.outbox = outbox

    async def prepare(self, claimed: Claimed, cancelled: asyncio.Event, retried: Retried | None) -> Turn:
        """The turn as the agent sees it."""
        if retried is None:
            history: Sequence[Message] = await self.store.load_transcript(claimed.session.session_id)
            spoken = tuple(self._spoken(claimed, waiting) for waiting in claimed.taken)
        else:
            history, spoken = retried.history, (Spoken(text=retried.text, source=claimed.origin),)
        rules = self.settings.rules_for(claimed.origin)
        return Turn(
            turn_id=claimed.held.turn_id,
            session=claimed.session,
            text="\n\n".join(part.text for part in spoken),
            messages=spoken,
            history=history,
            context_prompt=claimed.context or await self._context(claimed),
            cancelled=cancelled,
            source=claimed.origin,
            role=rules.role or (claimed.role if retried is None or retried.role is None else retried.role),
            attempt=claimed.attempts,
            system_prompt=rules.system_prompt,
        )

    async def finish(self, claimed: Claimed, events: Sequence[Event], outcome: Outcome, notice: str | None) -> None:
        """Ends a turn with all that it said; `notice` is added for the chat alone."""
        try:
            await self._finish(claimed, events, outcome, notice)
        except InvalidRequest as cause:
            # Tried again it would be no different, and its people would never hear of it.
            log.warning("turn.not_kept", turn=claimed.held.turn_id, error=repr(cause))
            await self._finish(claimed, (), "failed", words.AGENT_FAULT)

    async def _finish(self, claimed: Claimed, events: Sequence[Event], outcome: Outcome, notice: str | None) -> None:
        is_talk = claimed.lane == "talk"
        fate: Fate = "interrupted" if outcome in ("stopped", "interrupted") else "answered"
        folded = fold(events, unfinished=words.TOOL_CANCELLED if outcome == "stopped" else words.TOOL_UNKNOWN)
        parts = self._parts(claimed, folded, notice)
        await self._end(
            Finish(
                held=claimed.held,
                session_id=claimed.session.session_id,
                outcome=outcome,
                at=to_instant(self.store.clock.now()),
                said=self._said(claimed, fate) if is_talk else (),
                settled=() if is_talk else tuple((waiting, fate, None) for waiting in claimed.taken),
                answer=tuple(encode_message(message) for message in _marked(folded, outcome)),
                usage=folded.usage,
                # The first part goes to the streamed message where there is one; else its own row is made.
                streamed=parts[0],
                replies=tuple(self._reply(claimed, index, part) for index, part in enumerate(parts)),
                taken=claimed.taken,
                error=notice if outcome == "failed" else None,
            )
        )
        log.info("turn.finished", turn=claimed.held.turn_id, outcome=outcome)

    async def close(self, claimed: Claimed, outcome: Outcome, notice: str) -> None:
        """Ends a turn that broke off, with what its journal has."""
        await self.finish(claimed, [_decode_event(event) for event in claimed.journal], outcome, notice)

    async def answer_command(self, claimed: Claimed, text: str, *, move_to: str | None = None) -> None:
        """Ends the turn of a command with what it has to say."""
        await self._end(
            Finish(
                held=claimed.held,
                session_id=claimed.session.session_id,
                outcome="answered",
                at=to_instant(self.store.clock.now()),
                replies=(self._reply(claimed, 0, text),),
                settled=tuple((waiting, "answered", None) for waiting in claimed.taken),
                taken=claimed.taken,
                move_to=move_to,
            )
        )

    async def park(self, claimed: Claimed) -> None:
        """Gives a turn up that broke the gateway each time; what was said is kept, the answer is not tried again."""
        await self._end(
            Finish(
                held=claimed.held,
                session_id=claimed.session.session_id,
                outcome="parked",
                at=to_instant(self.store.clock.now()),
                said=self._said(claimed, "parked") if claimed.lane == "talk" else (),
                settled=() if claimed.lane == "talk" else tuple((w, "parked", None) for w in claimed.taken),
                streamed=words.PARKED,
                replies=(self._reply(claimed, 0, words.PARKED),),
                taken=claimed.taken,
                error="given up after three attempts",
            )
        )
        log.error("turn.parked", turn=claimed.held.turn_id)

    async def _end(self, wanted: Finish) -> None:
        # Stored unheard it would be `LeaseLost` the next time: the turn is over, and that is all that is wanted.
        await patiently(lambda: self.store.finish_turn(wanted), self.outbox.is_late)

    def streamer(self, claimed: Claimed) -> Streamer | None:
        """What shows the answer as it grows, where the platform can."""
        platform = self.outbox.platform_of(claimed.origin.platform, claimed.origin.account)
        if platform is None or not platform.capabilities.edit:
            return None
        return Streamer(
            self.store,
            platform,
            self._reply(claimed, 0, ""),
            self.settings.split,
            self.settings.stream_after_seconds,
            self.outbox.is_late,
        )

    def _parts(self, claimed: Claimed, folded: Folded, notice: str | None) -> list[str]:
        """What the chat is told, cut for a platform that need not be connected: one is not yet while a gateway recovers."""
        text = showable("\n\n".join(part for part in (folded.text, notice) if part))
        can = self.outbox.capabilities_of(claimed.origin.platform, claimed.origin.account)
        parts = [text] if can is None else self.settings.split(text, can)
        return parts if text.strip() else [words.NOTHING_SAID]

    def _reply(self, claimed: Claimed, index: int, text: str) -> NewDelivery:
        last = claimed.taken[-1].event if claimed.taken else None
        in_group = claimed.origin.chat_type != "dm"
        return NewDelivery(
            delivery_id=f"{claimed.held.turn_id}.{index}",
            target=target_of(claimed.origin),
            text=text,
            kind="reply",
            reply_to=last.message_id if last is not None and in_group and index == 0 else None,
            session_pk=claimed.session_pk,
            turn_pk=claimed.held.turn_pk,
        )

    def _spoken(self, claimed: Claimed, waiting: Waiting) -> Spoken:
        event = waiting.event
        quote = event.reply_to
        return Spoken(
            text=self._labelled(claimed, waiting),
            source=event.source,
            message_id=event.message_id,
            quoted=quote.text if quote is not None and quote.text else None,
            attachments=event.attachments,
        )

    def _labelled(self, claimed: Claimed, waiting: Waiting) -> str:
        if not claimed.session.is_shared:
            return waiting.event.text
        source = waiting.event.source
        return label_message(
            waiting.event.text,
            name=source.user_name,
            sender_id=source.sender,
            platform=source.platform,
            redact_pii=self.settings.redact_pii,
            secret=self.settings.secret,
        )

    def _said(self, claimed: Claimed, fate: Fate) -> tuple[Said, ...]:
        """Each message for the transcript. All but the last of a turn are merged into it."""
        last = len(claimed.taken) - 1
        return tuple(
            Said(
                inbox_pk=waiting.pk,
                message=encode_message({"role": "user", "content": self._labelled(claimed, waiting)}),
                author=person_of(waiting.event.source) if claimed.session.is_shared else None,
                external_id=waiting.event.message_id or None,
                fate="merged" if fate == "answered" and index < last else fate,
            )
            for index, waiting in enumerate(claimed.taken)
        )

    async def _context(self, claimed: Claimed) -> str:
        context = build_session_context(
            claimed.origin,
            connected_platforms=self.outbox.connected,
            home_channels=self.settings.home_channels,
            entry=claimed.session,
        )
        block = build_session_context_prompt(context, redact_pii=self.settings.redact_pii, secret=self.settings.secret)
        return await self.store.keep_context(claimed.session_pk, block)


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
        # What the store said to the agent's words: the turn is somebody's to recover, not ours to end.
        self._failure: ThreadlineError | None = None
        self._events: list[Event] = []
        self._kept = 0
        self._keeping = asyncio.Lock()
        self._unkept = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def stop(self, stop: Stop) -> None:
        """Its people do not want it any more: it ends with what it has said."""
        if self._stop is None:
            self._stop = stop
            self._end()

    def lose(self) -> None:
        """Another worker has the turn: this one ends and writes nothing."""
        self._is_lost = True
        self._end()

    def shut_down(self) -> None:
        """The gateway ends: the turn is given back where it may run again, else closed."""
        self._shutting_down = True
        self._end()

    async def run(self) -> None:
        """Runs the agent to its end, whichever end that is."""
        composer, claimed = self._composer, self.claimed
        _, agent = composer.settings.agent_for(claimed.origin)
        if agent.replay != claimed.replay:
            await composer.store.declare_replay(claimed.held, agent.replay)
        turn = await composer.prepare(claimed, self._cancelled, self._retried)
        streamer = composer.streamer(claimed)
        showing = None if streamer is None else self._supervisor.start("stream", streamer.run())
        keeping = None if agent.replay == "safe" else self._supervisor.start("journal", self._keep_words())
        outcome: Outcome = "answered"
        notice: str | None = None
        try:
            self._task = self._supervisor.start("agent", self._listen(agent, turn, streamer))
            if self._cancelled.is_set():
                self._end()
            outcome, notice = await self._ended(self._task)
        finally:
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
        await self._composer.finish(self.claimed, self._events, outcome, notice)

    async def _ended(self, task: asyncio.Task[None]) -> tuple[Outcome, str | None]:
        await asyncio.wait([task])
        if self._fault is not None:
            return "failed", self._fault
        if self._stop is not None:
            return "stopped", words.STOPPED if self._stop == "stop" else words.INTERRUPTED
        if self._shutting_down:
            return "interrupted", words.BROKEN_OFF
        return "answered", None

    async def _listen(self, agent: Agent, turn: Turn, streamer: Streamer | None) -> None:
        events = agent.run(turn)
        try:
            await self._take_all(events, agent, streamer)
        except AgentError as cause:
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
            if isinstance(event, Done):
                return
            self._events.append(event)
            if isinstance(event, Text):
                waits_chars += len(event.text)
                if streamer is not None:
                    streamer.update(shown_text(self._events))
            self._unkept.set()
            if self._is_due(agent, event, waits_chars):
                await self._keep()
                waits_chars = 0

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
                await self._journal(self._events[self._kept :])
        except ThreadlineError as cause:
            self._failure = cause
            self._end()
            raise

    async def _journal(self, fresh: Sequence[Event]) -> None:
        if not fresh:
            return
        called_tool = any(isinstance(event, ToolCall) for event in fresh)
        encoded = [msgspec.json.encode(event).decode() for event in _joined(fresh)]
        store, held, place = self._composer.store, self.claimed.held, self._kept + 1
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


def _joined(events: Sequence[Event]) -> list[Event]:
    """The same with neighbouring pieces of text made one, so that the journal has fewer rows."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, Text) and out and isinstance(out[-1], Text):
            out[-1] = Text(out[-1].text + event.text)
        else:
            out.append(event)
    return out


def _marked(folded: Folded, outcome: Outcome) -> tuple[Message, ...]:
    """The answer for the transcript; one that was cut short says so to the next turn."""
    if outcome not in ("stopped", "interrupted") or not folded.messages:
        return folded.messages
    *before, last = folded.messages
    return (*before, {**last, "interrupted": True})

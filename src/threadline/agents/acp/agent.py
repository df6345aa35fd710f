"""`AcpAgent`: any program that speaks the Agent Client Protocol, as an agent of the gateway."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from threadline.agents.acp.pool import ProcessPool
from threadline.agents.acp.process import AgentProcess, AgentSession
from threadline.agents.acp.prompt_content import prompt_blocks
from threadline.agents.acp.prompt_run import PermissionQuestion, PromptEnded, PromptRun
from threadline.agents.acp.session import SelectOption, find_option, open_session, working_directory
from threadline.agents.acp.settings import AcpLimits, read_config
from threadline.agents.cancellation import until_cancelled
from threadline.agents.registry import AgentSetup
from threadline.errors import InvalidRequest
from threadline.model.ownership import file_owner_of
from threadline.model.safe_text import safe_line
from threadline.model.turn import Replay
from threadline.model.usage import micros_of
from threadline.ports.agent import (
    AgentError,
    AskPermission,
    ContextWindow,
    Event,
    NewFile,
    Notice,
    Remember,
    Titled,
    Turn,
    UsageOf,
)
from threadline.rpc import acp
from threadline.texts import acp_agents as texts

_MODEL_CHARS = 200
_SHOWN_MODELS = 20

_REASONS = {
    "refusal": texts.DECLINED,
    "max_tokens": texts.OUT_OF_TOKENS,
    "max_turn_requests": texts.OUT_OF_STEPS,
}
_TITLE_CHARS = 120
# What stands before the person's words in a prompt, and how much of it tells that it is that.
_PREAMBLES = (texts.TOLD, texts.BEFORE, texts.MEANWHILE)
_TELLING_CHARS = 20
_REPORTED_MODEL_CHARS = 100
# An agent says of itself what it costs. Beyond this it is no number that anybody has to pay for a turn.
_MAX_TOKENS = 1_000_000_000
_MAX_DOLLARS = 1_000.0


class _ActivePrompt(msgspec.Struct):
    """A running prompt, with its process and session."""

    person: str
    process: AgentProcess
    session: AgentSession
    prompt_run: PromptRun
    question: PermissionQuestion | None = None
    timer: asyncio.TimerHandle | None = None


class _RunHandle:
    """One run of a turn: cancels its prompt if the turn is cancelled."""

    def __init__(self) -> None:
        self.prompt_run: PromptRun | None = None

    def cancel(self) -> None:
        if self.prompt_run is not None:
            self.prompt_run.cancel()


class AcpAgent:
    """Answers with what an agent says that runs as a process of its own and speaks ACP.

    Each person has a process of theirs; nobody else is ever answered by it. A conversation goes on in the agent's own session
    as long as both know the same; else a new one begins, is told what was said, and people hear of it.

    The agent works with its own tools, on this machine, as its owner has set it up. Where it asks whether it may, people are
    asked in the chat, or it is answered by the rule that its owner made. A prompt that waits for an answer lives in this process
    alone: after a restart the answer comes too late, and `AgentError` says so.

    What it does can't be taken back, so nothing runs twice: `replay` is `never`.
    """

    def __init__(
        self, settings: AgentSetup, environment: Mapping[str, str], folder: Path, limits: AcpLimits | None = None
    ) -> None:
        """Create an agent; `folder` holds one folder for each person. Raises `AgentError` if the program is not installed."""
        self._limits = limits or AcpLimits()
        self._config = read_config(settings, environment)
        self._pool = ProcessPool(self._config, self._limits, folder / self._config.digest)
        # Turns that wait for an answer, by their id.
        self._waiting: dict[str, _ActivePrompt] = {}
        # The models that it offered last.
        self._models: SelectOption | None = None

    @property
    def replay(self) -> Replay:
        return "never"

    @property
    def remembers(self) -> Literal[True]:
        return True

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """Yield the agent's text, thoughts and tool calls as they come, and what the turn cost."""
        run = _RunHandle()
        answer = until_cancelled(
            self._answer(turn, run), turn.cancelled, grace=self._limits.cancel, on_cancelled=run.cancel
        )
        async with aclosing(answer):
            async for event in answer:
                yield event

    async def check_model(self, name: str) -> str:
        """Return the name of a model that the agent may have: its list is known only once it has answered."""
        shown = safe_line(name, _MODEL_CHARS)
        if shown != name.strip() or not shown:
            raise InvalidRequest(texts.ODD_MODEL)
        if self._models is None:
            return shown
        if (found := self._models.find(shown)) is None:
            known = ", ".join(safe_line(value, 60) for value, _ in self._models.values[:_SHOWN_MODELS])
            raise InvalidRequest(texts.UNKNOWN_MODEL.format(model=shown, known=known))
        return found

    def abandoned(self, turn_id: str) -> None:
        """Cancel the prompt of that turn: nobody will answer its question."""
        self._drop_waiting(turn_id)

    async def close(self) -> None:
        """End all processes of this agent, and everything they started."""
        for waiting in self._waiting.values():
            _stop_timer(waiting)
        self._waiting.clear()
        await self._pool.close()

    async def _answer(self, turn: Turn, run: _RunHandle) -> AsyncGenerator[Event, None]:
        running = self._take_waiting(turn)
        if running is None:
            if any(isinstance(event, AskPermission) for event in turn.so_far):
                raise AgentError(texts.WAS_RESTARTED.format(agent=self._config.name))
            async with aclosing(self._begin(turn, run)) as events:
                async for event in events:
                    yield event
            return
        run.prompt_run = running.prompt_run
        self._settle(running, turn)
        async with aclosing(self._listen(running, turn)) as events:
            async for event in events:
                yield event

    async def _begin(self, turn: Turn, run: _RunHandle) -> AsyncGenerator[Event, None]:
        person = _person_of(turn)
        process = await self._pool.acquire(person)
        with _using(process):
            cwd = working_directory(turn, self._config.cwd, lambda: self._pool.folder_of(person))
            ready = await open_session(process, turn, cwd)
            session = ready.session
            self._note_models(session)
            blocks = (*ready.before, *await prompt_blocks(turn, process.can.prompt_capabilities))
            # On disk before the agent is told anything: after a crash it must be found again, with what it knows.
            yield Remember(ready.memory.text())
            for notice in ready.notices:
                yield Notice(notice)
            run.prompt_run = prompt_run = process.prompt(session, blocks, turn.role, is_shared=turn.session.is_shared)
        async with aclosing(self._listen(_ActivePrompt(person, process, session, prompt_run), turn)) as events:
            async for event in events:
                yield event

    async def _listen(self, running: _ActivePrompt, turn: Turn) -> AsyncGenerator[Event, None]:
        """Yield the events of a prompt. A question ends the run and keeps the prompt; any other end cancels it."""
        try:
            async with aclosing(self._events(running, turn)) as events:
                async for event in events:
                    yield event
        finally:
            if self._waiting.get(turn.turn_id) is not running:
                running.prompt_run.cancel()
            elif turn.cancelled.is_set():
                self._drop_waiting(turn.turn_id)

    async def _events(self, running: _ActivePrompt, turn: Turn) -> AsyncGenerator[Event, None]:
        while not isinstance(item := await running.prompt_run.next(), PromptEnded):
            if isinstance(item, AgentError):
                raise item
            if not isinstance(item, PermissionQuestion):
                if (event := await _stored(turn, item)) is not None:
                    yield event
            elif not item.reply.done():
                self._wait(turn, running, item)
                yield item.ask
                return
        self._pool.reset_backoff(running.person)
        for last in closing_events(running.session, item.response):
            yield last

    def _wait(self, turn: Turn, running: _ActivePrompt, question: PermissionQuestion) -> None:
        running.question = question
        timer = asyncio.get_running_loop().call_later(self._limits.question_seconds, self._drop_waiting, turn.turn_id)
        running.timer = timer
        self._waiting[turn.turn_id] = running

    def _drop_waiting(self, turn_id: str) -> None:
        running = self._waiting.pop(turn_id, None)
        if running is not None:
            _stop_timer(running)
            running.prompt_run.cancel()

    def _take_waiting(self, turn: Turn) -> _ActivePrompt | None:
        running = self._waiting.pop(turn.turn_id, None)
        if running is not None:
            _stop_timer(running)
        return running

    def _settle(self, running: _ActivePrompt, turn: Turn) -> None:
        """Give the agent the answer to its question; without one, the question is asked once more."""
        question = running.question
        if question is None or question.reply.done():
            return
        granted = turn.permitted(question.ask)
        if granted is None:
            running.prompt_run.requeue(question)
        else:
            question.answer(granted=granted)

    def _note_models(self, session: AgentSession) -> None:
        self._models = find_option(session, "model") or self._models


def _person_of(turn: Turn) -> str:
    """Return whose process answers: that of the session's owner. A session that several people share has its own process."""
    session = turn.session
    if session.is_shared:
        return f"shared {session.session_key}"
    return session.owner or file_owner_of(turn.source)


def _stop_timer(running: _ActivePrompt) -> None:
    if running.timer is not None:
        running.timer.cancel()


@contextmanager
def _using(process: AgentProcess) -> Iterator[None]:
    process.users += 1
    try:
        yield
    finally:
        process.users -= 1


async def _stored(turn: Turn, item: Event | NewFile) -> Event | None:
    if not isinstance(item, NewFile):
        return item
    try:
        return await turn.file(item.body, name=item.name, mime=item.mime)
    except InvalidRequest:
        # One that can't be kept is no reason to lose the answer that it belongs to.
        return None


def closing_events(session: AgentSession, response: acp.PromptResponse) -> Iterator[Event]:
    """Yield the events that end a turn: title, context window, usage, and why it stopped. Each value is reported once."""
    if session.title is not None:
        title = safe_line(session.title, _TITLE_CHARS)
        if title and not _is_ours(title):
            yield Titled(title)
        session.title = None
    window = session.window
    if window is not None and 0 <= window.used <= _MAX_TOKENS and 0 < window.size <= _MAX_TOKENS:
        yield ContextWindow(window.used, window.size)
    if (usage := _usage(session, response)) is not None:
        yield usage
    if (reason := _REASONS.get(response.stop_reason)) is not None:
        yield Notice(reason)


def _is_ours(title: str) -> bool:
    """Return whether the agent named its session after our own preamble."""
    return any(title.startswith(told[:_TELLING_CHARS]) for told in _PREAMBLES)


def _usage(session: AgentSession, response: acp.PromptResponse) -> UsageOf | None:
    used, dollars = response.usage, _cost(session)
    session.window = None
    if used is None and dollars is None:
        return None
    model = find_option(session, "model")
    return UsageOf(
        input_tokens=_tokens(used.input_tokens if used else 0),
        output_tokens=_tokens(used.output_tokens if used else 0),
        cache_read_tokens=_tokens(used.cached_read_tokens if used else 0),
        cache_write_tokens=_tokens(used.cached_write_tokens if used else 0),
        reasoning_tokens=_tokens(used.thought_tokens if used else 0),
        cost_micros=0 if dollars is None else micros_of(dollars),
        cost_status="unknown" if dollars is None else "estimated",
        model=None if model is None else safe_line(model.current, _REPORTED_MODEL_CHARS),
    )


def _cost(session: AgentSession) -> float | None:
    """Return what the turn cost: agents report the total of the whole session."""
    window = session.window
    if window is None or window.cost is None or window.cost.currency != "USD" or not math.isfinite(window.cost.amount):
        return None
    before, session.paid = session.paid, window.cost.amount
    return None if before is None else min(max(0.0, window.cost.amount - before), _MAX_DOLLARS)


def _tokens(count: int | None) -> int:
    return min(max(0, count or 0), _MAX_TOKENS)

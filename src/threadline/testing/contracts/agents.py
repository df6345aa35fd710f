"""The agent contract: what the gateway relies on, as classes of tests that ask no agent's name.

An agent's author provides the fixtures and subclasses what fits:

    @pytest.fixture
    def agent() -> Agent: ...        # answers every turn with words of its text

    @pytest.fixture
    def endless() -> Endless: ...    # works on every turn until it is stopped

    class TestMine(AgentContract): ...
    class TestMineStopping(StoppingContract): ...      # an agent that can take long
    class TestMineStreaming(StreamingContract): ...    # one that says something before it is done
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar, cast, get_args

import msgspec
import pytest

from threadline.model.files import StoredFile, file_id_of
from threadline.model.inbound import Attachment
from threadline.model.session import SessionEntry
from threadline.model.turn import Replay
from threadline.ports.agent import Agent, Closes, Event, NewFile, Spoken, Text, Turn
from threadline.testing.builders import dm

T = TypeVar("T")

# Nobody waits that long for what works; a test that does has failed.
PATIENCE = 30.0
_THEN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Endless(msgspec.Struct, frozen=True):
    """An agent whose work never ends by itself. It says when it has begun a turn, and when that was stopped."""

    agent: Agent
    started: threading.Event
    stopped: threading.Event


def a_turn(text: str = "is it dry", **more: Any) -> Turn:
    """A turn of one person in a direct chat that answers `text`. `more` sets any other field.

    Files that it sends are kept nowhere.
    """
    source = dm()
    session = SessionEntry(
        session_key="agent:main:telegram:dm:dm-7",
        session_id="20260105_120000_0a",
        created_at=_THEN,
        updated_at=_THEN,
        active_at=_THEN,
        origin=source,
        platform=source.platform,
        chat_type=source.chat_type,
    )
    fields: dict[str, Any] = {
        "turn_id": "turn-1",
        "session": session,
        "text": text,
        "messages": (Spoken(text=text, source=source),),
        "history": (),
        "context_prompt": "",
        "cancelled": asyncio.Event(),
        "source": source,
        "keep": _kept,
    }
    return Turn(**(fields | more))


async def _kept(new: NewFile) -> Attachment:
    return StoredFile(file_id=file_id_of(new.body), name=new.name, mime=new.mime, size=len(new.body)).attachment()


def text_of(events: list[Event]) -> str:
    """The answer as people see it."""
    return "".join(event.text for event in events if isinstance(event, Text))


async def events_of(agent: Agent, turn: Turn) -> list[Event]:
    """All events of a run."""
    return [event async for event in agent.run(turn)]


def run_with(agent: Agent, work: Coroutine[Any, Any, T]) -> T:
    """The outcome of `work` on an event loop of its own; what the agent keeps open is closed with it."""

    async def timed() -> T:
        async with asyncio.timeout(PATIENCE), _closing(agent):
            return await work

    return asyncio.run(timed())


class AgentContract:
    """What every agent keeps."""

    def test_an_answer_is_made_of_events_and_ends(self, agent: Agent) -> None:
        events = run_with(agent, events_of(agent, a_turn("is it dry")))
        assert "is it dry" in text_of(events)
        assert [event for event in events if not isinstance(event, Event)] == []

    def test_replay_is_one_of_three(self, agent: Agent) -> None:
        assert agent.replay in get_args(Replay)

    def test_a_turn_can_run_again(self, agent: Agent) -> None:
        async def twice() -> list[str]:
            turn = a_turn("once more")
            return [text_of(await events_of(agent, turn)) for _ in range(2)]

        first, second = run_with(agent, twice())
        assert "once more" in first
        assert second == first

    def test_turns_at_once_do_not_mix(self, agent: Agent) -> None:
        words = [f"w{number}w" for number in range(8)]

        async def at_once() -> list[str]:
            runs = (events_of(agent, a_turn(f"say {word}", turn_id=word)) for word in words)
            return [text_of(events) for events in await asyncio.gather(*runs)]

        for word, answer in zip(words, run_with(agent, at_once()), strict=True):
            assert [other for other in words if other in answer] == [word]

    def test_nothing_comes_after_it_was_closed(self, agent: Agent) -> None:
        async def closed_early() -> list[Event]:
            answer = _generator(agent, a_turn())
            await anext(answer)
            await answer.aclose()
            return [event async for event in answer]

        assert run_with(agent, closed_early()) == []

    def test_a_turn_that_nobody_waits_for_is_not_answered(self, agent: Agent) -> None:
        turn = a_turn()
        turn.cancelled.set()
        assert text_of(run_with(agent, events_of(agent, turn))) == ""

    def test_cancelling_in_the_middle_ends_the_answer_without_a_fault(self, agent: Agent) -> None:
        turn = a_turn("one two three four five six seven eight")

        async def cancelled_in_the_middle() -> list[Event]:
            events = []
            async for event in agent.run(turn):
                events.append(event)
                turn.cancelled.set()
            return events

        assert run_with(agent, cancelled_in_the_middle())


class StoppingContract:
    """What an agent keeps that may work for long: it can be stopped, and holds nobody up."""

    def test_cancelling_ends_the_turn_and_the_work(self, endless: Endless) -> None:
        turn = a_turn()

        async def cancelled() -> None:
            async with _running(endless, turn) as run:
                turn.cancelled.set()
                await run

        run_with(endless.agent, cancelled())
        assert endless.stopped.wait(PATIENCE)

    def test_the_work_stops_with_the_task_that_waits_for_it(self, endless: Endless) -> None:
        async def stopped() -> None:
            async with _running(endless, a_turn()) as run:
                run.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await run

        run_with(endless.agent, stopped())
        assert endless.stopped.wait(PATIENCE)

    def test_others_are_cancelled_alone(self, endless: Endless) -> None:
        stays, goes = a_turn(turn_id="stays"), a_turn(turn_id="goes")

        async def one_of_two() -> bool:
            async with _running(endless, stays) as other, _running(endless, goes) as run:
                goes.cancelled.set()
                await run
                return other.done()

        assert run_with(endless.agent, one_of_two()) is False


class StreamingContract:
    """What an agent keeps that says something before it is done. `endless` does so, and then works on."""

    def test_what_is_said_arrives_before_the_end(self, endless: Endless) -> None:
        async def first() -> Event:
            answer = _generator(endless.agent, a_turn())
            event = await _first_said(answer)
            assert not endless.stopped.is_set()
            await answer.aclose()
            return event

        assert isinstance(run_with(endless.agent, first()), Text)

    def test_closing_stops_the_work(self, endless: Endless) -> None:
        async def closed() -> None:
            answer = _generator(endless.agent, a_turn())
            await _first_said(answer)
            await answer.aclose()

        run_with(endless.agent, closed())
        assert endless.stopped.wait(PATIENCE)

    def test_what_was_said_before_a_cancellation_is_kept(self, endless: Endless) -> None:
        turn = a_turn()

        async def cancelled() -> list[Event]:
            events = []
            async for event in endless.agent.run(turn):
                events.append(event)
                if isinstance(event, Text):
                    turn.cancelled.set()
            return events

        assert text_of(run_with(endless.agent, cancelled()))


async def _first_said(answer: AsyncGenerator[Event, None]) -> Event:
    """The first piece of an answer. What an agent wants to be remembered, or people to know, may come before."""
    async for event in answer:
        if isinstance(event, Text):
            return event
    raise AssertionError("nothing was said")


def _generator(agent: Agent, turn: Turn) -> AsyncGenerator[Event, None]:
    """The run of a turn, as something that can be closed."""
    answer = agent.run(turn)
    assert callable(getattr(answer, "aclose", None)), "what `run` returns can't be closed; make it an async generator"
    return cast(AsyncGenerator[Event, None], answer)


@asynccontextmanager
async def _running(endless: Endless, turn: Turn) -> AsyncIterator[asyncio.Task[list[Event]]]:
    """A run in a task of its own, once the agent is at work. That this is noticed shows that the event loop is free."""
    endless.started.clear()
    run = asyncio.create_task(events_of(endless.agent, turn))
    try:
        assert await asyncio.to_thread(endless.started.wait, PATIENCE)
        yield run
    finally:
        run.cancel()
        await asyncio.wait({run})


@asynccontextmanager
async def _closing(agent: Agent) -> AsyncIterator[None]:
    try:
        yield
    finally:
        close = agent.close if isinstance(agent, Closes) else getattr(agent, "aclose", None)
        if close is not None:
            await close()

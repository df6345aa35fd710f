"""A function that looks at a conversation once more after its end."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from threadline.agents.function import FunctionAgent, FunctionTurn
from threadline.model.message import Message
from threadline.model.session import SessionEntry
from threadline.ports.agent import AgentError, Flushes
from threadline.testing import exchange
from threadline.testing.contracts.agents import PATIENCE, a_turn

SESSION = a_turn().session
HISTORY = exchange("is it dry", "yes")


class Remembers:
    """Answers nothing, and does with what it is shown what it was made for."""

    def __init__(self, flush: Callable[..., object]) -> None:
        self.flush = flush

    def __call__(self, _turn: FunctionTurn) -> None:
        """Has nothing to say."""


def flushed(flush: Callable[..., object]) -> None:
    agent = FunctionAgent(Remembers(flush))
    assert isinstance(agent, Flushes)

    async def limited() -> None:
        async with asyncio.timeout(PATIENCE):
            await agent.flush(SESSION, HISTORY)

    asyncio.run(limited())


def test_only_a_function_that_flushes_makes_an_agent_that_does() -> None:
    def function(_turn: FunctionTurn) -> str:
        return "hi"

    assert not isinstance(FunctionAgent(function), Flushes)
    function.flush = "a name that is taken for something else"  # type: ignore[attr-defined]
    assert not isinstance(FunctionAgent(function), Flushes)
    function.flush = print  # type: ignore[attr-defined]
    assert isinstance(FunctionAgent(function), Flushes)


@pytest.mark.parametrize("shape", ["plain", "awaited", "stepped", "streamed", "hidden", "partial"])
def test_it_is_shown_the_session_and_its_history_whatever_its_shape(shape: str) -> None:
    seen: list[tuple[SessionEntry, Sequence[Message]]] = []

    def plain(session: SessionEntry, history: Sequence[Message]) -> None:
        seen.append((session, history))

    async def awaited(session: SessionEntry, history: Sequence[Message]) -> None:
        await asyncio.sleep(0)
        plain(session, history)

    def stepped(session: SessionEntry, history: Sequence[Message]) -> Iterator[None]:
        yield
        plain(session, history)

    async def streamed(session: SessionEntry, history: Sequence[Message]) -> AsyncIterator[None]:
        yield
        plain(session, history)

    def hidden(session: SessionEntry, history: Sequence[Message]) -> object:
        return awaited(session, history)

    shapes: dict[str, Callable[..., object]] = {
        "plain": plain,
        "awaited": awaited,
        "stepped": stepped,
        "streamed": streamed,
        "hidden": hidden,
        "partial": functools.partial(awaited),
    }
    flushed(shapes[shape])
    assert seen == [(SESSION, HISTORY)]


def test_a_plain_one_does_not_run_on_the_event_loop() -> None:
    threads: list[int] = []
    flushed(lambda *_: threads.append(threading.get_ident()))
    assert threads != [threading.get_ident()]


@pytest.mark.parametrize("fault", [ValueError("secret"), SystemExit(3)])
def test_its_faults_are_told_by_their_type(fault: BaseException) -> None:
    def failing(*_: Any) -> None:
        raise fault

    with pytest.raises(AgentError, match=type(fault).__name__) as caught:
        flushed(failing)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is fault


def test_one_that_hangs_in_its_thread_can_be_left() -> None:
    started, free = threading.Event(), threading.Event()

    def hanging(*_: Any) -> None:
        started.set()
        free.wait(PATIENCE)

    async def left() -> bool:
        task = asyncio.create_task(FunctionAgent(Remembers(hanging)).flush(SESSION, HISTORY))
        assert await asyncio.to_thread(started.wait, PATIENCE)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        return task.cancelled()

    assert asyncio.run(left())
    free.set()

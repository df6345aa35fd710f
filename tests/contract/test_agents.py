"""The agent contract on every agent that comes with Threadline, a function in each of its shapes and a model in each protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from threadline.agents.echo import EchoAgent
from threadline.agents.function import AgentFunction, FunctionAgent, FunctionTurn
from threadline.agents.model import ModelAgent
from threadline.agents.registry import AgentSetup
from threadline.ports.agent import Agent
from threadline.testing.contracts.agents import AgentContract, Endless, StoppingContract, StreamingContract
from threadline.testing.models import Asked, ModelServer, Says


class TestEcho(AgentContract):
    @pytest.fixture
    def agent(self) -> Agent:
        return EchoAgent(pause=0.0)


def plain(turn: FunctionTurn) -> str:
    return turn.text


async def awaited(turn: FunctionTurn) -> str:
    await asyncio.sleep(0)
    return turn.text


def stepped(turn: FunctionTurn) -> Iterator[str]:
    yield from turn.text


async def streamed(turn: FunctionTurn) -> AsyncIterator[str]:
    for letter in turn.text:
        yield letter


@pytest.mark.parametrize("function", [plain, awaited, stepped, streamed])
class TestFunction(AgentContract):
    @pytest.fixture
    def agent(self, function: AgentFunction) -> Agent:
        return FunctionAgent(function)


def endless_functions(started: threading.Event, stopped: threading.Event) -> dict[str, AgentFunction]:
    """Functions that never end by themselves. Plain ones look at `cancelled`; the others need not."""

    def plain(turn: FunctionTurn) -> None:
        started.set()
        turn.cancelled.wait()
        stopped.set()

    async def awaited(_: FunctionTurn) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def stepped(turn: FunctionTurn) -> Iterator[str]:
        started.set()
        try:
            yield "so "
            while True:
                turn.cancelled.wait()
                yield "on "
        finally:
            stopped.set()

    async def streamed(_: FunctionTurn) -> AsyncIterator[str]:
        started.set()
        try:
            yield "so"
            await asyncio.Event().wait()
        finally:
            stopped.set()

    return {"plain": plain, "awaited": awaited, "stepped": stepped, "streamed": streamed}


def endless_function(shape: str) -> Endless:
    started, stopped = threading.Event(), threading.Event()
    return Endless(FunctionAgent(endless_functions(started, stopped)[shape], grace=0.0), started, stopped)


@pytest.mark.parametrize("shape", ["plain", "awaited", "stepped", "streamed"])
class TestFunctionStopping(StoppingContract):
    @pytest.fixture
    def endless(self, shape: str) -> Endless:
        return endless_function(shape)


@pytest.mark.parametrize("shape", ["stepped", "streamed"])
class TestFunctionStreaming(StreamingContract):
    @pytest.fixture
    def endless(self, shape: str) -> Endless:
        return endless_function(shape)


every_protocol = pytest.mark.parametrize(
    "model", ["openai:gpt-5", "openai-responses:gpt-5", "anthropic:claude-haiku-5-5"]
)


def asking(model: str, server: ModelServer) -> ModelAgent:
    url = server.url if model.startswith("anthropic") else server.openai_url
    return ModelAgent(AgentSetup(kind="model", model=model, base_url=url, api_key="k"), retries=0)


def say_word_by_word(asked: Asked) -> Says:
    return Says(tuple(f"{word} " for word in asked.text.split()))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@every_protocol
class TestModel(AgentContract):
    @pytest.fixture
    def agent(self, model: str) -> Iterator[Agent]:
        with ModelServer(say_word_by_word) as server:
            yield asking(model, server)


@pytest.fixture
def endless_model(model: str) -> Iterator[Endless]:
    started = threading.Event()

    def hold(_: Asked) -> Says:
        started.set()
        return Says(("so", "on"), is_held=True)

    with ModelServer(hold) as server:
        yield Endless(asking(model, server), started, server.hung_up)


@every_protocol
class TestModelStopping(StoppingContract):
    @pytest.fixture
    def endless(self, endless_model: Endless) -> Endless:
        return endless_model


@every_protocol
class TestModelStreaming(StreamingContract):
    @pytest.fixture
    def endless(self, endless_model: Endless) -> Endless:
        return endless_model


def test_no_contract_is_left_out() -> None:
    run = {base for test in globals().values() if isinstance(test, type) for base in test.__bases__}
    assert {AgentContract, StoppingContract, StreamingContract} <= run

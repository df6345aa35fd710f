"""A session's own model: asked for real over sockets, checked without any."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
import pytest

from threadline.agents.echo import EchoAgent
from threadline.agents.model import ModelAgent
from threadline.agents.registry import AgentSetup
from threadline.errors import InvalidRequest
from threadline.ports.agent import AgentError, ChoosesModel, Turn, UsageOf
from threadline.testing.contracts.agents import a_turn, events_of, run_with, text_of
from threadline.testing.models import Fails, ModelServer, Says

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")


@pytest.fixture(autouse=True)
def nothing_from_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection may leave this machine."""
    connect = socket.socket.connect

    def connect_here(one: socket.socket, address: Any) -> None:
        assert one.family == socket.AF_UNIX or address[0] == "127.0.0.1", address
        connect(one, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


def agent_at(server: ModelServer, model: str = "openai:gpt-5", **more: Any) -> ModelAgent:
    settings = {"base_url": server.openai_url, "api_key": "k"} | more
    return ModelAgent(AgentSetup(kind="model", model=model, **settings), retries=0)


def turn_with(model: str | None, text: str = "hello") -> Turn:
    """A turn in a session that chose a model."""
    turn = a_turn(text)
    session = msgspec.structs.replace(turn.session, runtime={} if model is None else {"model": model})
    return msgspec.structs.replace(turn, session=session)


def test_only_an_agent_that_can_says_that_it_chooses() -> None:
    with ModelServer() as server:
        assert isinstance(agent_at(server), ChoosesModel)
    assert not isinstance(EchoAgent(), ChoosesModel)


def test_each_session_is_answered_by_the_model_that_it_chose() -> None:
    async def three(agent: ModelAgent) -> list[str | None]:
        used = []
        for chosen in ("openai:gpt-4o", None, "gpt-5-mini"):
            *_, usage = await events_of(agent, turn_with(chosen))
            assert isinstance(usage, UsageOf)
            used.append(usage.model)
        return used

    with ModelServer() as server:
        agent = agent_at(server)
        assert run_with(agent, three(agent)) == ["gpt-4o", "gpt-5", "gpt-5-mini"]
        assert [asked.body["model"] for asked in server.requests] == ["gpt-4o", "gpt-5", "gpt-5-mini"]
        assert {asked.key for asked in server.requests} == {"k"}


def test_a_name_alone_is_one_of_the_agents_own_provider() -> None:
    with ModelServer() as server:
        agent = agent_at(server)
        assert run_with(agent, agent.check_model("gpt-4o")) == "openai:gpt-4o"
        assert run_with(agent, agent.check_model("openai:llama3:8b")) == "openai:llama3:8b"
        assert server.requests == []


@pytest.mark.parametrize("name", ["opnai:gpt-5", "openai:", ":gpt-5", "groq:llama", "anthropic:claude-haiku-5-5"])
def test_what_can_not_be_asked_is_told_when_it_is_chosen(name: str) -> None:
    agent = ModelAgent(AgentSetup(kind="model", model="openai:gpt-5", api_key="k"))
    with pytest.raises(InvalidRequest):
        run_with(agent, agent.check_model(name))


def test_the_agents_key_goes_to_no_other_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "theirs")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        agent = ModelAgent(AgentSetup(kind="model", model="openai:gpt-5", api_key="ours"), retries=0)
        name = run_with(agent, agent.check_model("anthropic:claude-haiku-5-5"))
        assert text_of(run_with(agent, events_of(agent, turn_with(name)))) == "hello"
        (asked,) = server.requests
        assert asked.key == "theirs"
        assert "ours" not in str(asked.headers)


def test_an_agent_with_a_server_of_its_own_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "theirs")
    with ModelServer() as server:
        agent = agent_at(server)
        with pytest.raises(InvalidRequest, match="a server of its own"):
            run_with(agent, agent.check_model("anthropic:claude-haiku-5-5"))
        with pytest.raises(AgentError, match="/model default"):
            run_with(agent, events_of(agent, turn_with("anthropic:claude-haiku-5-5")))
        assert server.requests == []


def test_a_model_that_nobody_has_is_for_who_chose_it_to_change() -> None:
    with ModelServer(Fails(404, "model_not_found")) as server:
        agent = agent_at(server)
        with pytest.raises(AgentError, match=r"has no model gpt-99\. /model NAME") as told:
            run_with(agent, events_of(agent, turn_with("openai:gpt-99")))
        assert not told.value.is_owners


def test_models_that_nobody_uses_do_not_stay_open_for_ever() -> None:
    async def answered(agent: ModelAgent, *numbers: int) -> None:
        for number in numbers:
            await events_of(agent, turn_with(f"openai:m{number}"))

    async def many(agent: ModelAgent, server: ModelServer) -> list[int]:
        await answered(agent, *range(12))
        made = [server.connections_made]
        for number in (11, 0):
            await answered(agent, number)
            made.append(server.connections_made)
        return made

    with ModelServer() as server:
        agent = agent_at(server)
        # One for each, the latest is open still, the first is not.
        assert run_with(agent, many(agent, server)) == [12, 12, 13]


def test_a_model_in_use_is_not_closed_by_those_who_choose_others() -> None:
    async def held(agent: ModelAgent, server: ModelServer) -> str:
        running = asyncio.ensure_future(events_of(agent, turn_with("openai:slow")))
        while not server.requests:  # noqa: ASYNC110 - a thread's list, no event
            await asyncio.sleep(0.01)
        for number in range(12):
            await agent.check_model(f"m{number}")
        server.release()
        return text_of(await running)

    with ModelServer(Says(("to the ", "end"), is_held=True)) as server:
        agent = agent_at(server)
        assert run_with(agent, held(agent, server)) == "to the end"

"""The agent contract over a program of its own."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.agents.acp.world import World

from threadline.ports.agent import Agent
from threadline.testing.contracts.agents import AgentContract, Endless, StoppingContract, StreamingContract


class TestAcp(AgentContract):
    @pytest.fixture
    def agent(self, world: World) -> Agent:
        return world.agent()


@pytest.fixture
def endless(tmp_path: Path, world: World) -> Endless:
    signals = tmp_path / "signals"
    os.mkfifo(signals)
    started, stopped = threading.Event(), threading.Event()
    events = {"started": started, "stopped": stopped}

    def listen() -> None:
        # Opened for writing as well, so that the end of one writer is not the end of all.
        with os.fdopen(os.open(signals, os.O_RDWR)) as lines:
            for line in lines:
                events[line.strip()].set()

    threading.Thread(target=listen, daemon=True).start()
    return Endless(world.agent(always="wait"), started, stopped)


class TestAcpStopping(StoppingContract): ...


class TestAcpStreaming(StreamingContract): ...

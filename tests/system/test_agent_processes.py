"""Agents in processes of their own: what hangs keeps none of them alive, and what is not installed is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HANGS = """
import asyncio, threading
from threadline.agents.function import FunctionAgent
from threadline.testing.contracts.agents import a_turn, events_of

started = threading.Event()

def {name}(turn):
    started.set()
    {body}

async def main():
    turn = a_turn()
    agent = FunctionAgent({name}, grace=0.0)
    run = asyncio.ensure_future(events_of(agent, turn))
    await asyncio.to_thread(started.wait)
    turn.cancelled.set()
    print("events", len(await run))

asyncio.run(main())
"""

WITHOUT_THE_EXTRA = """
import sys
sys.modules["pydantic_ai"] = None
from threadline.agents.registry import AgentSetup, make_agent
from threadline.ports.agent import AgentError
make_agent(AgentSetup(kind="echo"))
try:
    make_agent(AgentSetup(kind="model", model="openai:gpt-5", api_key="k"))
except AgentError as told:
    print(told, told.is_owners)
"""

ECHO_ALONE = """
import sys
from threadline.agents.registry import AgentSetup, make_agent
make_agent(AgentSetup(kind="echo"))
print([name for name in ("pydantic_ai", "openai", "anthropic", "genai_prices") if name in sys.modules])
"""


def run(program: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    "body",
    ["threading.Event().wait()", "yield 'a'; threading.Event().wait()", "while True: pass"],
    ids=["a function", "a generator", "a busy one"],
)
def test_a_function_that_never_comes_back_does_not_keep_the_process(body: str, tmp_path: Path) -> None:
    assert run(HANGS.format(name="hang", body=body), tmp_path).startswith("events")


def test_without_its_extra_a_model_agent_says_what_to_install(tmp_path: Path) -> None:
    told = run(WITHOUT_THE_EXTRA, tmp_path)
    assert "pip install 'threadline[model]'" in told
    assert told.endswith("True")


def test_an_agent_that_needs_no_extra_loads_none(tmp_path: Path) -> None:
    assert run(ECHO_ALONE, tmp_path) == "[]"

"""What the pages show works as it is written: configurations load, agents answer, programs run."""

from __future__ import annotations

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from threadline.agents.function import FunctionAgent
from threadline.agents.registry import AgentSetup
from threadline.config.load import load_config
from threadline.ports.agent import File
from threadline.testing.contracts.agents import a_turn, events_of, run_with, text_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def named(page: str) -> dict[str, Any]:
    """What a page's Python examples define, taken together."""
    names: dict[str, Any] = {"__name__": "example"}
    for example in blocks(ROOT / "docs" / page, "python"):
        if "asyncio.run(" not in example and "from my_agent import" not in example:
            exec(example, names)
    return names


CONFIGURATIONS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "toml"))
    if "project" not in tomllib.loads(text)
]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_a_configuration_loads(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    load_config(file, {})


@pytest.mark.parametrize("name", ["answer", "whole", "streamed", "whole_async", "streamed_async", "tell_time"])
def test_a_function_answers(name: str) -> None:
    agent = FunctionAgent(named("howto/function-agent.md")[name])
    assert text_of(run_with(agent, events_of(agent, a_turn("is it dry"))))


def test_a_function_sends_a_file() -> None:
    agent = FunctionAgent(named("howto/function-agent.md")["report"])
    events = run_with(agent, events_of(agent, a_turn("herons?")))
    assert [event.attachment.name for event in events if isinstance(event, File)] == ["herons.csv"]


def test_a_kind_of_agent_answers_from_its_settings() -> None:
    make = named("extending/agent.md")["make_oracle"]
    agent = make(AgentSetup(kind="oracle", options={"sayings": ["It is certain."], "pause": 0}))
    assert text_of(run_with(agent, events_of(agent, a_turn("Is it dry?")))).strip() == "It is certain."


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, text in enumerate(blocks(page, "python"))
        if "asyncio.run(" in text
    ],
)
def test_a_program_runs(program: str) -> None:
    exec(program, {"__name__": "example"})
    # It leaves nothing behind that would disturb the next.
    asyncio.run(asyncio.sleep(0))

"""What the pages on extending show works as it is written."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from threadline import AgentError, InvalidRequest
from threadline.agents.registry import AgentSetup
from threadline.ports.agent import Text
from threadline.testing.contracts.agents import a_turn

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "agent.md"


@pytest.fixture
def oracle() -> Any:
    """The function that the page lets make an agent."""
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {}
    exec(example.group(1), names)
    return names["make_oracle"]


async def _said(agent: Any, text: str) -> str:
    return "".join([event.text async for event in agent.run(a_turn(text)) if isinstance(event, Text)])


def test_the_agent_on_the_page_answers_and_fails_in_plain_words(oracle: Any) -> None:
    agent = oracle(AgentSetup(kind="oracle", options={"sayings": ["It is certain."], "pause": 0}))
    assert asyncio.run(_said(agent, "Will it rain?")) == "It is certain. "
    with pytest.raises(AgentError, match="question mark"):
        asyncio.run(_said(agent, "Rain."))


@pytest.mark.parametrize("options", [{"sayings": []}, {"sayings": "Yes."}, {"pause": "long"}])
def test_the_agent_on_the_page_refuses_settings_that_make_no_sense(oracle: Any, options: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        oracle(AgentSetup(kind="oracle", options=options))

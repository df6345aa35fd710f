"""What is logged: events with their numbers, never what people said, nor their secrets."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
from tests.gateway.talk import GROUP, ask
from tests.gateway.world import Open, awaited

from threadline.log import get_logger
from threadline.ports.agent import AgentError, Event, Text, ToolCall, Turn
from threadline.testing.agents import ScriptedAgent

SECRET = "the cellar is wet"


async def often_fails(turn: Turn) -> AsyncIterator[Event]:
    yield Text(f"you said {turn.text}")
    if "fail" in turn.text:
        raise AgentError("The model is not there; try again later.")
    if "break" in turn.text:
        yield ToolCall("c1", "look", f'{{"at": "{SECRET}"}}')
        raise RuntimeError("a fault without words of anybody")


@awaited
async def test_nothing_that_people_said_is_logged(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened(ScriptedAgent(often_fails)) as here:
        await ask(here, SECRET)
        await ask(here, f"fail: {SECRET}")
        await ask(here, f"break: {SECRET}")
        await ask(here, f"/title {SECRET}")
        await ask(here, f"/search {SECRET}")
        await ask(here, SECRET, user="bob", **GROUP)
        here.chat.happen(f'{{"nonsense": "{SECRET}"}}'.encode())
        here.chat.say(SECRET, user="zoe", user_name=SECRET)
        await here.shown(1, "dm-zoe")
    logged = [record for record in caplog.records if record.name.startswith("threadline")]
    assert logged
    formatter = logging.Formatter()
    told = "\n".join(f"{formatter.format(record)} {record.__dict__}" for record in logged)
    assert SECRET not in told


def test_an_event_is_logged_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("threadline.tests").warning("kettle.boils", degrees=100)
    (record,) = caplog.records
    assert "kettle.boils" in record.getMessage()
    assert "100" in f"{record.getMessage()} {record.__dict__}"

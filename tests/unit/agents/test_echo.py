"""The agent that repeats what it hears."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.agents.echo import EchoAgent, pieces_of
from threadline.errors import UnknownFile
from threadline.model.inbound import Attachment
from threadline.ports.agent import Event, File, Spoken, Text
from threadline.testing.builders import dm
from threadline.testing.contracts.agents import a_turn, events_of


@given(st.text())
def test_the_pieces_are_few_and_join_to_the_text(text: str) -> None:
    pieces = pieces_of(text)
    assert "".join(pieces) == text
    assert len(pieces) <= 4
    assert all(pieces)


@pytest.mark.parametrize("text", ["[Ada] is it dry?", "  two\n lines\n", "一二三"])
def test_it_says_back_what_was_said_and_nothing_else(text: str) -> None:
    events = asyncio.run(events_of(EchoAgent(pause=0.0), a_turn(text)))
    assert "".join(event.text for event in events if isinstance(event, Text)) == text
    assert all(isinstance(event, Text) for event in events)


def test_files_come_back_and_one_that_can_not_be_had_is_named() -> None:
    async def fetch(file: Attachment) -> bytes:
        if file.handle == "gone":
            raise UnknownFile
        return b"x" * int(file.handle)

    def heard(text: str, *handles: str) -> list[Event]:
        files = tuple(Attachment(handle=handle, name=f"{handle}.png", mime="image/png") for handle in handles)
        turn = a_turn(text, messages=(Spoken(text=text, source=dm(), attachments=files),), fetch=fetch)
        return asyncio.run(events_of(EchoAgent(pause=0.0), turn))

    said, *sent = heard("look", "1", "2")
    assert said == Text("look")
    assert [(one.attachment.name, one.attachment.size) for one in sent if isinstance(one, File)] == [
        ("1.png", 1),
        ("2.png", 2),
    ]
    assert heard("", "gone") == [Text("(I can't get at these files: `gone.png`.)")]


def test_a_sentence_comes_in_several_pieces() -> None:
    assert len(asyncio.run(events_of(EchoAgent(pause=0.0), a_turn("one two three four five six")))) > 1


def test_it_may_be_run_again() -> None:
    assert EchoAgent().replay == "safe"


def test_a_cancellation_cuts_a_pause_short() -> None:
    async def cancelled() -> int:
        turn = a_turn("one two three four")
        answer = EchoAgent(pause=3_600.0).run(turn)
        await anext(answer)
        asyncio.get_running_loop().call_soon(turn.cancelled.set)
        return len([event async for event in answer])

    assert asyncio.run(cancelled()) == 0

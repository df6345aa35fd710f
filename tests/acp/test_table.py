"""The sessions that lie open before an editor, and in which of them this process answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.gateway.world import awaited

from threadline.acp.open_session import Conversation, Prompt
from threadline.acp.platform import Desk, Table
from threadline.model.client_sources import editor_source
from threadline.ports.live import Ending
from threadline.rpc.connection import Connection


class _Mute:
    """A connection that nobody reads."""

    def send_lines(self, lines: bytes) -> None:
        del lines

    def fetch(self, *_: Any) -> None:
        raise AssertionError


def laid(count: int) -> tuple[Table, list[Conversation]]:
    mute = _Mute()
    start = cast("Callable[..., Any]", None)
    table = Table(cast("Desk", mute), cast("Connection", mute), cast("Callable[..., Any]", None), start)
    return table, [table.lay(f"s{number}", editor_source(f"s{number}", "ada")) for number in range(count)]


def begun(table: Table, conversation: Conversation) -> Prompt:
    prompt = Prompt(lambda *_: None, is_command=False)
    table.begin(conversation, prompt)
    return prompt


@awaited
async def test_it_answers_where_somebody_waits_and_nowhere_else() -> None:
    table, (one, two, _) = laid(3)
    assert table.bound() == []
    first, second = begun(table, one), begun(table, two)
    assert table.bound() == [one.source, two.source]
    first.end(Ending(outcome="answered"))
    assert table.bound() == [two.source]
    second.end(RuntimeError())
    assert table.bound() == []
    begun(table, one)
    assert table.bound() == [one.source]


@awaited
async def test_what_was_cancelled_is_its_own_until_it_has_wound_up() -> None:
    table, (one,) = laid(1)
    prompt = begun(table, one)
    one.cancel()
    assert prompt.is_over
    assert table.bound() == [one.source]
    one.wound_up()
    assert table.bound() == []


@awaited
async def test_in_a_session_that_was_closed_it_does_not_answer() -> None:
    table, (one,) = laid(1)
    begun(table, one)
    table.clear(one)
    assert table.bound() == []
    again = table.lay(one.session_id, one.source)
    assert table.bound() == []
    begun(table, again)
    assert table.bound() == [one.source]


@awaited
async def test_however_many_are_open_only_those_that_were_spoken_in_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []
    is_at_work: Callable[[Conversation], bool] = vars(Conversation)["is_at_work"].fget

    def watched(self: Conversation) -> bool:
        looked_at.append(self.session_id)
        return is_at_work(self)

    table, many = laid(500)
    begun(table, many[7]).end(Ending(outcome="answered"))
    begun(table, many[9])
    monkeypatch.setattr(Conversation, "is_at_work", property(watched))
    assert table.bound() == [many[9].source]
    assert table.bound() == [many[9].source]
    assert looked_at == ["s7", "s9", "s9"]


@awaited
async def test_a_prompt_ends_once_and_tells_how_before_whoever_waits_goes_on() -> None:
    heard: list[object] = []
    prompt = Prompt(lambda _, ending: heard.append(ending), is_command=False)
    await prompt.rest(0.0)
    assert not prompt.is_over
    first, second = Ending(outcome="answered"), RuntimeError()
    prompt.end(first)
    prompt.end(second)
    assert heard == [first]
    await prompt.rest(60.0)
    assert prompt.is_over


@awaited
async def test_who_cancels_one_prompt_does_not_cancel_the_next() -> None:
    table, (one,) = laid(1)
    first = begun(table, one)
    first.end(Ending(outcome="answered"))
    one.leave(first)
    second = begun(table, one)
    one.leave(first)
    one.cancel(first)
    assert not second.is_over
    one.cancel(second)
    assert second.is_cancelled

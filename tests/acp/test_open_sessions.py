"""The sessions that lie open before an editor, and in which of them this process answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.gateway.world import awaited

from threadline.acp.open_session import OpenPrompt, OpenSession
from threadline.acp.platform import GatewayBridge, OpenSessions
from threadline.model.client_sources import editor_source
from threadline.ports.live import Ending
from threadline.rpc.connection import Connection


class _Mute:
    """A connection that nobody reads."""

    def send_lines(self, lines: bytes) -> None:
        del lines

    def read_file(self, *_: Any) -> None:
        raise AssertionError


def opened(count: int) -> tuple[OpenSessions, list[OpenSession]]:
    mute = _Mute()
    start = cast("Callable[..., Any]", None)
    open_sessions = OpenSessions(
        cast("GatewayBridge", mute), cast("Connection", mute), cast("Callable[..., Any]", None), start
    )
    return open_sessions, [
        open_sessions.open(f"s{number}", editor_source(f"s{number}", "ada")) for number in range(count)
    ]


def begun(open_sessions: OpenSessions, session: OpenSession) -> OpenPrompt:
    prompt = OpenPrompt(lambda *_: None, is_command=False)
    open_sessions.begin(session, prompt)
    return prompt


@awaited
async def test_it_answers_where_somebody_waits_and_nowhere_else() -> None:
    open_sessions, (one, two, _) = opened(3)
    assert open_sessions.open_sources() == []
    first, second = begun(open_sessions, one), begun(open_sessions, two)
    assert open_sessions.open_sources() == [one.source, two.source]
    first.end(Ending(outcome="answered"))
    assert open_sessions.open_sources() == [two.source]
    second.end(RuntimeError())
    assert open_sessions.open_sources() == []
    begun(open_sessions, one)
    assert open_sessions.open_sources() == [one.source]


@awaited
async def test_what_was_cancelled_is_its_own_until_it_has_wound_up() -> None:
    open_sessions, (one,) = opened(1)
    prompt = begun(open_sessions, one)
    one.cancel()
    assert prompt.is_over
    assert open_sessions.open_sources() == [one.source]
    one.cancel_finished()
    assert open_sessions.open_sources() == []


@awaited
async def test_in_a_session_that_was_closed_it_does_not_answer() -> None:
    open_sessions, (one,) = opened(1)
    begun(open_sessions, one)
    open_sessions.close(one)
    assert open_sessions.open_sources() == []
    again = open_sessions.open(one.session_id, one.source)
    assert open_sessions.open_sources() == []
    begun(open_sessions, again)
    assert open_sessions.open_sources() == [one.source]


@awaited
async def test_however_many_are_open_only_those_that_were_spoken_in_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []
    is_at_work: Callable[[OpenSession], bool] = vars(OpenSession)["is_busy"].fget

    def watched(self: OpenSession) -> bool:
        looked_at.append(self.session_id)
        return is_at_work(self)

    open_sessions, many = opened(500)
    begun(open_sessions, many[7]).end(Ending(outcome="answered"))
    begun(open_sessions, many[9])
    monkeypatch.setattr(OpenSession, "is_busy", property(watched))
    assert open_sessions.open_sources() == [many[9].source]
    assert open_sessions.open_sources() == [many[9].source]
    assert looked_at == ["s7", "s9", "s9"]


@awaited
async def test_a_prompt_ends_once_and_tells_how_before_whoever_waits_goes_on() -> None:
    heard: list[object] = []
    prompt = OpenPrompt(lambda _, ending: heard.append(ending), is_command=False)
    await prompt.wait_ended(0.0)
    assert not prompt.is_over
    first, second = Ending(outcome="answered"), RuntimeError()
    prompt.end(first)
    prompt.end(second)
    assert heard == [first]
    await prompt.wait_ended(60.0)
    assert prompt.is_over


@awaited
async def test_who_cancels_one_prompt_does_not_cancel_the_next() -> None:
    open_sessions, (one,) = opened(1)
    first = begun(open_sessions, one)
    first.end(Ending(outcome="answered"))
    one.leave(first)
    second = begun(open_sessions, one)
    one.leave(first)
    one.cancel(first)
    assert not second.is_over
    one.cancel(second)
    assert second.is_cancelled

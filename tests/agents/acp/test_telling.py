"""Whatever an agent tells, what comes of it is in order and within bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.agents.acp.asking import question_of
from threadline.agents.acp.translate import Call, Telling, TooMuch
from threadline.agents.acp.wanted import Limits
from threadline.gateway.asking import checked_ask
from threadline.ports.agent import NewFile, Text, Thought, ToolCall, ToolResult
from threadline.rpc import acp

WORDS = st.text(max_size=12) | st.sampled_from(["\x1b[31m", "\u202e", "a\nb"])
ANYTHING: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | WORDS | st.lists(WORDS, max_size=2) | st.just({})
)
BLOCKS = st.fixed_dictionaries({"type": st.just("text"), "text": WORDS}) | st.fixed_dictionaries(
    {"type": st.sampled_from(["image", "audio", "resource_link", "resource", "odd"]), "data": WORDS, "mimeType": WORDS}
)
CONTENTS = st.lists(
    st.fixed_dictionaries({"type": st.just("content"), "content": BLOCKS})
    | st.fixed_dictionaries({"type": st.just("diff"), "path": WORDS, "newText": WORDS, "oldText": ANYTHING})
    | st.fixed_dictionaries({"type": st.just("terminal"), "terminalId": WORDS}),
    max_size=2,
)
TOOLS = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(["tool_call", "tool_call_update"]), "toolCallId": st.sampled_from("abc")},
    optional={
        "title": WORDS | ANYTHING,
        "name": ANYTHING,
        "kind": st.sampled_from(["read", "execute", "surprise", None]),
        "status": st.sampled_from(["pending", "in_progress", "completed", "failed", "odd", None]),
        "content": CONTENTS | ANYTHING,
        "locations": st.lists(st.fixed_dictionaries({"path": WORDS, "line": ANYTHING}), max_size=2),
        "rawInput": ANYTHING,
        "rawOutput": ANYTHING,
    },
)
CHUNKS = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]), "content": BLOCKS}
)
OTHERS = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(["plan", "usage_update", "session_info_update", "made_up"])},
    optional={"entries": st.lists(st.fixed_dictionaries({"content": WORDS, "status": ANYTHING}), max_size=2)},
)


def decoded(update: dict[str, Any]) -> acp.Update:
    told = acp.decode_params("session/update", msgspec.json.encode({"sessionId": "s", "update": update}))
    assert isinstance(told, acp.SessionNotification)
    return told.update


@given(st.lists(TOOLS | CHUNKS | OTHERS, max_size=12))
def test_every_call_begins_once_before_it_ends_once(updates: list[dict[str, Any]]) -> None:
    telling = Telling(Limits())
    told = [one for update in updates for one in telling.take(decoded(update))] + telling.end()
    began: list[str] = []
    ended: list[str] = []
    for one in told:
        if isinstance(one, ToolCall):
            assert one.call_id not in began
            began.append(one.call_id)
            assert not {"\x1b", "\u202e", "\n"} & set(one.title + one.name)
        elif isinstance(one, ToolResult):
            assert one.call_id in began
            assert one.call_id not in ended
            ended.append(one.call_id)


@given(st.lists(TOOLS | CHUNKS | OTHERS, max_size=40))
def test_what_is_told_stays_within_bounds(updates: list[dict[str, Any]]) -> None:
    telling = Telling(Limits(words=40, events=6, updates=20))
    told = []
    try:
        for update in updates:
            told += telling.take(decoded(update))
    except TooMuch:
        pass
    else:
        assert len(updates) <= 60
    assert sum(len(one.text) for one in told if isinstance(one, Text | Thought)) <= 40
    assert len([one for one in told if not isinstance(one, Text | Thought)]) <= 6
    assert all(isinstance(one, NewFile) or msgspec.json.encode(one) for one in told)


@given(st.recursive(ANYTHING, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner)), WORDS)
def test_any_call_can_be_asked_about(raw: Any, title: str) -> None:
    call = Call("c", title=title, input=msgspec.json.encode(raw).decode())
    assert checked_ask(question_of("acp-1", call, ())).tool


@pytest.mark.parametrize("raw", [{"content": "x" * 300_000}, {str(n): "y" for n in range(20_000)}, ["z" * 100] * 5_000])
def test_a_call_of_any_size_can_be_asked_about(raw: Any) -> None:
    call = Call("c", title="t", input=msgspec.json.encode(raw).decode())
    ask = checked_ask(question_of("acp-1", call, ()))
    assert len(ask.arguments) <= 12_500
    assert "too long" in ask.reason

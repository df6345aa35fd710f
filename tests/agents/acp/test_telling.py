"""Whatever an agent tells, what comes of it is in order and within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.agents.acp.agent import closing_events
from threadline.agents.acp.events import KnownCall, TurnTooLarge, UpdateTranslator
from threadline.agents.acp.process import AgentSession
from threadline.agents.acp.prompt_run import build_question
from threadline.agents.acp.settings import AcpLimits
from threadline.gateway.asking import checked_ask
from threadline.ports.agent import AskPermission, NewFile, Text, Thought, Titled, ToolCall, ToolResult
from threadline.rpc import acp
from threadline.texts import acp_agents as texts

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
    translator = UpdateTranslator(AcpLimits())
    told = [one for update in updates for one in translator.translate(decoded(update))] + translator.end()
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
    translator = UpdateTranslator(AcpLimits(max_text_chars=40, events=6, updates=20))
    told = []
    try:
        for update in updates:
            told += translator.translate(decoded(update))
    except TurnTooLarge:
        pass
    else:
        assert len(updates) <= 60
    assert sum(len(one.text) for one in told if isinstance(one, Text | Thought)) <= 40
    assert len([one for one in told if not isinstance(one, Text | Thought)]) <= 6
    assert all(isinstance(one, NewFile) or msgspec.json.encode(one) for one in told)


@given(st.recursive(ANYTHING, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner)), WORDS)
def test_any_call_can_be_asked_about(raw: Any, title: str) -> None:
    call = KnownCall("c", title=title, input=msgspec.json.encode(raw).decode())
    assert checked_ask(build_question("acp-1", call, ())).tool


@pytest.mark.parametrize("raw", [{"content": "x" * 300_000}, {str(n): "y" for n in range(20_000)}, ["z" * 100] * 5_000])
def test_a_call_of_any_size_can_be_asked_about(raw: Any) -> None:
    call = KnownCall("c", title="t", input=msgspec.json.encode(raw).decode())
    ask = checked_ask(build_question("acp-1", call, ()))
    assert len(ask.arguments) <= 12_500
    assert "too long" in ask.reason


def a_call(number: int = 0, **fields: Any) -> acp.Update:
    return decoded({"sessionUpdate": "tool_call", "toolCallId": f"c{number}", **fields})


def taken(limits: AcpLimits, updates: Iterator[acp.Update]) -> int:
    """How many of the updates are taken before it is too much."""
    translator = UpdateTranslator(limits)
    for count, update in enumerate(updates):
        try:
            translator.translate(update)
        except TurnTooLarge:
            return count
    raise AssertionError("it was never too much")


def test_calls_that_are_only_announced_are_no_more_than_what_is_told() -> None:
    assert taken(AcpLimits(events=30), (a_call(number, status="pending") for number in range(100))) == 30


TEXT = {"type": "content", "content": {"type": "text", "text": "x" * 1000}}
PICTURE = {"type": "content", "content": {"type": "image", "data": "x" * 1000, "mimeType": "image/png"}}
FILE = {"type": "content", "content": {"type": "resource", "resource": {"uri": "a", "blob": "x" * 1000}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"content": [TEXT]},
        {"content": [PICTURE]},
        {"content": [FILE]},
        {"content": [{"type": "diff", "path": "/a", "newText": "x" * 1000}]},
        {"content": [{"type": "terminal", "terminalId": "t"}] * 10},
        {"rawInput": "x" * 1000},
        {"rawOutput": "x" * 1000},
        {"title": "x" * 1000},
        {"locations": [{"path": "/"}] * 10},
    ],
)
def test_what_is_kept_of_calls_that_do_not_end_weighs(fields: dict[str, Any]) -> None:
    updates = (a_call(number, status="in_progress", **fields) for number in range(1_000))
    assert taken(AcpLimits(max_tool_chars=20_000), updates) <= 20


def test_plans_weigh() -> None:
    plan = {"sessionUpdate": "plan", "entries": [{"content": "x" * 400, "status": "pending", "priority": "low"}] * 2}
    assert taken(AcpLimits(max_tool_chars=20_000), (decoded(plan) for _ in range(1_000))) <= 25


def test_places_weigh_where_they_are_told() -> None:
    places = [{"path": "/" + "x" * 400}] * 2
    updates = (a_call(number, status="completed", locations=places) for number in range(1_000))
    assert taken(AcpLimits(max_tool_chars=20_000), updates) <= 25


def test_a_call_that_shows_its_output_as_it_grows_is_as_heavy_as_all_of_it() -> None:
    translator = UpdateTranslator(AcpLimits(max_tool_chars=20_000))
    told = []
    for number in range(1_000):
        told += translator.translate(a_call(status="in_progress", content=[TEXT], rawInput={"n": number}))
    told += translator.translate(a_call(status="completed"))
    assert [type(one) for one in told] == [ToolCall, ToolResult]


def test_questions_weigh() -> None:
    translator = UpdateTranslator(AcpLimits(max_tool_chars=20_000))
    ask = AskPermission(ask_id="a", tool="run", arguments="x" * 1_000)
    for _ in range(19):
        translator.asked(ask)
    with pytest.raises(TurnTooLarge):
        translator.asked(ask)


def test_a_question_about_a_call_that_is_over_shows_what_is_asked() -> None:
    translator = UpdateTranslator(AcpLimits())
    translator.translate(a_call(status="completed", rawInput={"command": "ls"}))
    call, _ = translator.ask(acp.ToolCallPatch(tool_call_id="c0", raw_input=acp.raw_json('{"command": "rm"}')))
    assert "rm" in build_question("acp-1", call, ()).arguments


def test_a_call_with_more_changes_than_anybody_reads_can_be_asked_about() -> None:
    call = KnownCall("c")
    diff = {"type": "diff", "path": "/" + "p" * 100, "newText": "x" * 500, "oldText": "y" * 500}
    update = a_call(content=[diff] * 1_000)
    assert isinstance(update, acp.ToolCallStart)
    call.learn(update)
    ask = checked_ask(build_question("acp-1", call, ()))
    assert "too long" in ask.reason
    assert "ppp" in ask.arguments


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("A walk in the rain", [Titled("A walk in the rain")]),
        ("[draft] A walk", [Titled("[draft] A walk")]),
        (texts.TOLD[:60] + "…", []),
        (texts.BEFORE[:60], []),
        (texts.MEANWHILE[:60], []),
    ],
)
def test_a_session_is_not_called_by_what_stands_before_the_persons_words(title: str, told: list[Titled]) -> None:
    session = AgentSession("s-1", is_new=True)
    session.title = title
    assert list(closing_events(session, acp.PromptResponse(stop_reason="end_turn"))) == told

"""What a model is shown of a history: always something that a provider takes, whatever was stored."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

from threadline.agents.model.messages import (
    MODEL_FIRST,
    NO_RESULT,
    NO_TEXT,
    from_model_messages,
    last_messages,
    to_model_messages,
)
from threadline.model.message import Message
from threadline.testing import assistant, exchange, system, tool_call, tool_result, tool_use, user

CONVERSATION = [
    system("Be brief."),
    *exchange("hi", "hello"),
    user("is it dry"),
    *tool_use("look", {"at": "soil", "deep": True}, "dry"),
    assistant("It is."),
]


def shown(*history: Message, text: str = "now") -> list[Message]:
    """What a provider would be shown, in the form that people write it in."""
    return from_model_messages(to_model_messages(history, text))


def test_a_conversation_comes_back_as_it_was() -> None:
    assert shown(*CONVERSATION) == [*CONVERSATION, user("now")]


@pytest.mark.parametrize("written", ['{"z": 1, "a": 2}', '{"z":1,"a":2}', ' {"z":1.0}'])
def test_the_arguments_of_a_call_stay_as_they_were_written(written: str) -> None:
    call = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": written}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert shown(user("look"), said, tool_result("dry", name="look"))[1] == said


@pytest.mark.parametrize(
    "message",
    [
        {"role": "narrator", "content": "Meanwhile"},
        {"role": "user", "content": None},
        {"role": "user", "content": " \n"},
        {"role": "user"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": None, "tool_calls": "look"},
        {"role": "assistant", "content": None, "tool_calls": [None, {"id": "c"}, {"function": {"name": "look"}}]},
        {"role": "tool", "content": "of nobody's call", "tool_call_id": "c9"},
        {"role": "tool", "content": "without an id"},
        {},
    ],
)
def test_what_says_nothing_is_passed_over(message: Message) -> None:
    assert shown(*exchange("hi", "hello"), message) == [*exchange("hi", "hello"), user("now")]


def test_blocks_of_text_are_joined() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "image"}, "two", 3]
    assert shown({"role": "user", "content": blocks})[0] == user("one\ntwo")


def test_a_call_without_a_result_gets_one_before_anything_else_is_said() -> None:
    messages = shown(user("look"), tool_call("look", {}), user("well?"))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user", "user"]
    assert messages[2]["content"] == NO_RESULT


def test_a_result_that_comes_too_late_is_passed_over() -> None:
    messages = shown(user("look"), tool_call("look", {}), user("well?"), tool_result("dry"))
    assert [message["content"] for message in messages if message["role"] == "tool"] == [NO_RESULT]


@pytest.mark.parametrize(
    "arguments", ["", "soil", "[1]", "7", "null", '{"a": NaN}', '{"a": "\\ud800"}', None, 5, "[" * 9_000]
)
def test_arguments_that_no_request_can_carry_count_as_none(arguments: object) -> None:
    call: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    messages = shown(user("look"), {"role": "assistant", "content": None, "tool_calls": [call]}, tool_result("dry"))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_half_a_character_is_replaced() -> None:
    messages = shown(
        user("a\ud800"), tool_call("look\udc00", {}, call_id="c\ud800"), tool_result("d\ud800", call_id="c\ud800")
    )
    assert "\\ud800" not in json.dumps(messages)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]


def test_a_model_never_speaks_first() -> None:
    assert shown(assistant("Good morning"))[:2] == [user(MODEL_FIRST), assistant("Good morning")]


def test_a_message_without_text_is_still_a_message() -> None:
    assert shown(text=" ") == [user(NO_TEXT)]


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        (None, CONVERSATION),
        (100, CONVERSATION),
        (4, CONVERSATION[3:]),
        (5, CONVERSATION[3:]),
        (3, []),
        (1, []),
        (6, CONVERSATION[1:]),
    ],
)
def test_a_limit_cuts_at_what_a_user_said(limit: int | None, left: list[Message]) -> None:
    assert list(last_messages(CONVERSATION, limit)) == left
    if limit is not None:
        # What a turn holds for a model: one more than it is shown.
        assert list(last_messages(CONVERSATION[-limit - 1 :], limit)) == left


_ids = st.sampled_from(["a", "b", "c\ud800", ""])
_texts = st.one_of(
    st.none(), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=2), st.sampled_from(["\ud800", " "])
)
_calls = st.lists(
    st.builds(
        lambda call_id, name, arguments: {"id": call_id, "function": {"name": name, "arguments": arguments}},
        _ids,
        st.sampled_from(["f", "g", "", None]),
        st.sampled_from(["{}", '{"x":1}', "x", None]),
    ),
    max_size=3,
)
_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "developer", "other"]), "content": _texts},
    optional={"tool_calls": _calls, "tool_call_id": _ids},
)


@given(st.lists(_messages, max_size=12))
def test_any_history_becomes_one_that_a_provider_takes(history: list[Message]) -> None:
    messages = to_model_messages(history, "now")
    kinds = [type(message) for message in messages]
    assert kinds[0] is ModelRequest
    assert kinds[-1] is ModelRequest
    assert all(one is not other for one, other in pairwise(kinds))
    assert isinstance(messages[-1].parts[-1], UserPromptPart)
    for message, answer in pairwise(messages):
        assert calls_in(message) == results_in(answer) or isinstance(message, ModelRequest)
    json.dumps(from_model_messages(messages), ensure_ascii=False).encode()


def calls_in(message: ModelMessage) -> set[str]:
    if not isinstance(message, ModelResponse):
        return set()
    return {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}


def results_in(message: ModelMessage) -> set[str]:
    """The calls that a request answers before it says anything else."""
    if not isinstance(message, ModelRequest):
        return set()
    results = [part for part in message.parts if isinstance(part, ToolReturnPart)]
    assert list(message.parts[: len(results)]) == results
    return {part.tool_call_id for part in results}


def test_files_of_earlier_messages_are_named_and_not_sent_again() -> None:
    file = {"handle": "file:1", "name": 'bi\nrds".png', "mime": "image/png", "size": 3}
    said = shown({"role": "user", "content": "look", "attachments": [file, {"no": "file"}]}, assistant("Herons."))
    assert said[0] == user('look\n[file: "bi rds\\".png"]')
    silent = shown({"role": "user", "content": "", "attachments": [file]}, assistant("Herons."))
    assert silent[0] == user('[file: "bi rds\\".png"]')


def test_files_of_earlier_answers_are_named_too() -> None:
    file = {"handle": "file:1", "name": "plan.txt", "size": 3}
    said = shown(user("the plan?"), {"role": "assistant", "content": None, "attachments": [file]}, user("thanks"))
    assert said[1] == assistant('[file: "plan.txt"]')

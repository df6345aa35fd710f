"""A transcript as an editor is shown it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadline.acp.replay import DeferredFile, DeferredMessage, HistoryEncoder, _Asked, _unread
from threadline.acp.translate import update_prefix


def replayed(*messages: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for part in HistoryEncoder(update_prefix("s1")).lines("\n".join(map(json.dumps, messages)).encode()):
        if not isinstance(part, bytes):
            found.append(part)
            continue
        for line in part.splitlines():
            message = json.loads(line)
            assert (message["jsonrpc"], message["method"]) == ("2.0", "session/update")
            assert message["params"]["sessionId"] == "s1"
            found.append(message["params"]["update"])
    return found


def chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def test_words_are_shown_as_they_were() -> None:
    words = 'quotes " and \\ and \n newlines and \u2028 and 😀'
    assert replayed({"role": "user", "content": words}, {"role": "assistant", "content": words}) == [
        chunk("user_message_chunk", words),
        chunk("agent_message_chunk", words),
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"content":"the other way round, and long","role":"user"}', "the other way round, and long"),
        ('{ "role": "user", "content": "with room between" }', "with room between"),
        ('{"role":"user","content":"a field more","name":"ada"}', "a field more"),
        ('{"role":"user","content":"x"}', "x"),
        ('{"role":"user","content":"a \\"quote\\" and\\na line"}', 'a "quote" and\na line'),
        ('{"role":"user","content":"half a character: \\ud83d."}', "half a character: ?."),
        ('{"role":"user","content":"by number: \\u00e9\\u0000 and more"}', "by number: é\x00 and more"),
        ('{"role":"user","content":[{"type":"text","text":"\\"content\\":\\"in a block"}]}', '"content":"in a block'),
    ],
)
@pytest.mark.parametrize(
    "others", ["", '\n{"role":"tool","content":"x"}', '\n{"role":"narrator","content":"x"}', "\n{}"]
)
def test_words_are_shown_however_they_are_written(body: str, text: str, others: str) -> None:
    (line,) = HistoryEncoder(update_prefix("s1")).lines(f"{body}{others}".encode())
    assert isinstance(line, bytes)
    assert json.loads(line)["params"]["update"] == chunk("user_message_chunk", text)


@pytest.mark.parametrize("content", ['""', "null", "[]"])
def test_a_message_without_words_is_not_shown(content: str) -> None:
    bodies = [f'{{"role":"assistant","content":{content}}}', f'{{"content":{content},"role":"assistant"}}']
    assert list(HistoryEncoder(update_prefix("s1")).lines("\n".join(bodies).encode())) == [b""]


def test_tools_are_shown_with_their_results_and_plans_whole() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "write", "arguments": '{"path": "/a"}'},
        "title": "Write a",
        "kind": "edit",
        "places": [{"path": "/a"}],
    }
    told = replayed(
        {
            "role": "assistant",
            "content": "I write",
            "reasoning": "hm",
            "tool_calls": [call],
            "plan": [{"text": "do it", "status": "completed"}],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "ok",
            "diffs": [{"path": "/a", "new": "x"}],
            "is_error": True,
        },
    )
    assert [one["sessionUpdate"] for one in told] == [
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
        "plan",
        "tool_call_update",
    ]
    assert told[2]["title"] == "Write a"
    assert told[2]["rawInput"] == {"path": "/a"}
    assert told[3]["entries"] == [{"content": "do it", "priority": "medium", "status": "completed"}]
    assert told[4]["status"] == "failed"
    assert [part["type"] for part in told[4]["content"]] == ["diff", "content"]


def test_a_result_without_its_call_is_shown_with_one() -> None:
    told = replayed({"role": "tool", "tool_call_id": "c9", "content": "ok"})
    assert [one["sessionUpdate"] for one in told] == ["tool_call", "tool_call_update"]


def test_what_comes_from_elsewhere_is_shown_as_far_as_it_can_be_read() -> None:
    told = replayed(
        {"role": "user", "content": [{"type": "text", "text": "in blocks"}, {"type": "image_url"}, "bare", 5]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": 7, "function": "odd"}, "odd"], "plan": "odd"},
        {"role": "assistant", "content": {"odd": 1}},
        {"role": "system", "content": "not said by anybody"},
        {"role": "user", "content": "half \ud83d of it"},
        {"role": "user", "content": "", "attachments": ["odd", {"handle": "file:abc", "name": "a.png"}]},
    )
    assert told[0] == chunk("user_message_chunk", "in blocks\nbare")
    assert told[1]["toolCallId"] == "7"
    assert told[2]["content"]["text"].startswith("half ")
    assert isinstance(told[3], DeferredFile)
    assert len(told) == 4


@pytest.mark.parametrize(
    "odd",
    [
        '{"role":"assistant","content":"I do","tool_calls":[{"id":"1"}]}',
        '{"role":"assistant","content":"I think","reasoning":"hm"}',
        '{"role":"user","content":"","attachments":[]}',
        '{"role":"system","content":"be brief"}',
        '{"role":"user","content":"C:\\\\users and \\u001b"}',
        "17",
    ],
)
def test_one_message_that_has_to_be_read_costs_no_other(odd: str) -> None:
    plain = '{"role":"user","content":"words"}'
    page = f"{plain}\n{odd}\n{plain}".encode()
    first, _, last = _unread(page)
    assert type(first) is _Asked
    assert type(last) is _Asked


def test_a_page_with_tools_and_files_is_looked_at_as_a_whole() -> None:
    call = '{"role":"assistant","content":null,"tool_calls":[{"id":"1"}],"plan":[],"reasoning":"hm"}'
    file = '{"role":"user","content":"","attachments":[{"handle":"file:1"}]}'
    assert None not in _unread(f'{call}\n{{"role":"tool","tool_call_id":"1","content":"x"}}\n{file}\n9'.encode())


@pytest.mark.parametrize("odd", ["", '\n{"role":"narrator"}'])
def test_what_is_too_large_for_a_page_is_told_in_its_place(odd: str) -> None:
    page = f'{{"role":"user","content":"a"}}\n71\n{{"role":"user","content":"b"}}{odd}'.encode()
    first, large, last = HistoryEncoder(update_prefix("s1")).lines(page)
    assert large == DeferredMessage(71)
    assert [b'"a"' in bytes(first), b'"b"' in bytes(last)] == [True, True]  # type: ignore[arg-type]


def test_nothing_is_shown_of_nothing() -> None:
    assert replayed({"role": "assistant", "content": ""}) == []

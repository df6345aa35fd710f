"""What real peers send is read as far as it makes sense, and what makes none is refused with a sentence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.acp.test_golden import files, talk
from tests.acp.wire import check_line

from threadline.rpc import acp

TEXT = '{"type":"text","text":"hm"}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ASKED = [
    (said["method"], said["params"])
    for file in files()
    for said in (msgspec.json.decode(line) for _, line in talk(file))
    if "method" in said
]


def update(text: str) -> acp.Update:
    read = acp.decode_params("session/update", f'{{"sessionId":"a","update":{text}}}'.encode())
    assert isinstance(read, acp.SessionNotification)
    return read.update


@pytest.mark.parametrize("servers", ['"mcpServers":[]', '"mcpServers":null', '"_meta":{"cwd":"/elsewhere"}'])
def test_no_servers_can_be_said_in_many_ways(servers: str) -> None:
    read = acp.decode_params("session/new", f'{{"cwd":"/a","additionalDirectories":null,{servers}}}'.encode())
    assert read == acp.NewSessionRequest(cwd="/a", mcp_servers=())


def test_a_session_is_always_begun_with_servers_even_with_none() -> None:
    assert msgspec.json.encode(acp.NewSessionRequest(cwd="/a", mcp_servers=())) == b'{"cwd":"/a","mcpServers":[]}'


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        ("session/new", "null", "`cwd` is missing."),
        ("session/new", "[]", "What came must be an object."),
        ("session/new", "{", "What came must be JSON, and not nested without end."),
        ("session/new", '{"x":' + "[" * 100_000 + "]" * 100_000 + "}", "nested without end."),
        ("session/new", '{"cwd":5}', "`cwd` must be text."),
        ("session/new", '{"cwd":"/","mcpServers":{}}', "`mcpServers` must be a list."),
        ("session/new", '{"cwd":"/","mcpServers":[{"name":"x"}]}', "`mcpServers[0]` does not hold together: "),
        ("session/new", '{"cwd":"/","mcpServers":[{"name":"x","type":"acp"}]}', "`mcpServers[0].type` must be one of "),
        (
            "session/new",
            '{"cwd":"/","mcpServers":[{"name":"x","command":"y","env":[{"name":"z"}]}]}',
            ".value` is missing.",
        ),
        ("session/prompt", '{"sessionId":"a","prompt":null}', "`prompt` is missing."),
        (
            "session/prompt",
            '{"sessionId":"a","prompt":[{"type":"scent"}]}',
            "`prompt[0].type` must be one of text, image, ",
        ),
        ("session/prompt", '{"sessionId":"a","prompt":["hm"]}', "`prompt[0]` must be an object."),
        (
            "session/prompt",
            '{"sessionId":"a","prompt":[{"type":"resource","resource":{"uri":"u"}}]}',
            "`text` or `blob`.",
        ),
        ("session/list", '{"cwd":5}', "`cwd` must be text."),
        ("session/set_config_option", '{"sessionId":"a","configId":"b","value":7}', "`value` must be "),
        ("session/update", '{"sessionId":"a","update":{}}', "`update.sessionUpdate` is missing."),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_the_place(method: str, params: str, why: str) -> None:
    with pytest.raises(acp.InvalidParams) as refused:
        acp.decode_params(method, params.encode())
    assert why in str(refused.value)
    assert method in str(refused.value)


def test_a_notification_has_no_result() -> None:
    with pytest.raises(acp.InvalidParams, match="never answered"):
        acp.decode_result("session/cancel", b"{}")


def test_what_a_client_can_do_is_read_as_far_as_it_makes_sense() -> None:
    said = b'{"protocolVersion":1,"clientInfo":"q","clientCapabilities":{"fs":true,"terminal":null,"session":{"notices":{"x":1}}}}'
    can = acp.ClientCapabilities(session=acp.ClientSessionCapabilities(notices=acp.Supported()))
    assert acp.decode_params("initialize", said) == acp.InitializeRequest(protocol_version=1, client_capabilities=can)


def test_a_result_that_is_null_is_an_empty_one() -> None:
    assert acp.decode_result("session/load", b"null") == acp.LoadSessionResponse()
    with pytest.raises(acp.InvalidParams, match="The result of session/new doesn't fit: `sessionId` is missing"):
        acp.decode_result("session/new", b"null")


def test_why_a_turn_ended_is_kept_even_where_we_do_not_know_it() -> None:
    assert acp.decode_result("session/prompt", b'{"stopReason":"bored"}') == acp.PromptResponse(stop_reason="bored")


def test_an_option_that_makes_no_sense_does_not_cost_the_others() -> None:
    said = (
        b'{"configOptions":[{"type":"dial"},5,{"type":"boolean","id":"b","name":"B","currentValue":true,"category":9}]}'
    )
    read = acp.decode_result("session/set_config_option", said)
    assert read == acp.SetConfigOptionResponse(
        config_options=(acp.ConfigBoolean(id="b", name="B", current_value=True),)
    )


def test_choices_are_one_list_with_groups_or_without() -> None:
    one, two = acp.ConfigChoice(name="One", value="1"), acp.ConfigChoice(name="Two", value="2")
    empty = acp.ConfigChoice(name="None", group="n", options=())
    group = acp.ConfigChoice(name="All", group="g", options=(one, two))
    for options in ((one, two), (group,), (empty, group)):
        select = acp.ConfigSelect(id="m", name="M", current_value="1", options=options)
        assert select.choices == (one, two)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ('{"sessionUpdate":"weather","is":"fine"}', "weather"),
        ('{"sessionUpdate":"agent_message_chunk","content":{"type":"scent"}}', "agent_message_chunk"),
        ('{"sessionUpdate":"usage_update","used":1,"size":null}', "usage_update"),
    ],
)
def test_an_update_that_makes_no_sense_says_what_it_was(said: str, name: str) -> None:
    assert update(said) == acp.UnknownUpdate(name=name)


def test_a_tool_call_is_read_as_far_as_it_makes_sense() -> None:
    said = (
        '{"sessionUpdate":"tool_call","toolCallId":"1","title":null,"kind":"dance","status":"resting","locations":null,'
        f'"content":[{TEXT},{{"type":"content","content":{TEXT}}}],"rawInput":{{"a": [1]}}}}'
    )
    read = update(said)
    assert isinstance(read, acp.ToolCallStart)
    assert (read.title, read.kind, read.status, read.locations) == ("", "other", "pending", ())
    assert read.content == (acp.ContentPart(content=acp.TextContent(text="hm")),)
    assert msgspec.json.decode(read.raw_input) == {"a": [1]}  # type: ignore[arg-type]


def test_a_plans_steps_are_kept_whatever_is_said_of_them() -> None:
    read = update('{"sessionUpdate":"plan","entries":[{"content":"a","priority":"urgent","status":"done"},{},null]}')
    assert read == acp.Plan(entries=(acp.PlanEntry(content="a", priority="medium", status="pending"),))


def test_what_does_not_fit_is_mended_only_where_that_is_soon_done() -> None:
    def plan(steps: int) -> bytes:
        return b'{"entries":[1,{"content":"kept","priority":"low","status":"pending"}' + b",1" * steps + b"]}"

    assert [one.content for one in acp.decode(plan(1_000), acp.Plan).entries] == ["kept"]
    with pytest.raises(acp.InvalidParams, match="too long to be mended"):
        acp.decode(plan(100_000), acp.Plan)


def test_a_title_can_be_left_alone_cleared_or_given() -> None:
    for title in (msgspec.UNSET, None, "Warp"):
        said = acp.SessionInfoUpdate(title=title)
        assert update(msgspec.json.encode(said).decode()) == said
    assert (
        msgspec.json.encode(acp.SessionInfoUpdate(title=None))
        == b'{"sessionUpdate":"session_info_update","title":null}'
    )


def test_an_answer_of_a_kind_that_we_do_not_know_can_still_be_given() -> None:
    said = b'{"sessionId":"a","toolCall":{"toolCallId":"1"},"options":[{"optionId":"o","name":"Later","kind":"later"}]}'
    read = acp.decode_params("session/request_permission", said)
    assert isinstance(read, acp.RequestPermissionRequest)
    assert read.options == (acp.PermissionOption(option_id="o", name="Later", kind="later"),)


def test_what_may_be_secret_is_not_shown() -> None:
    server = acp.remote_server(
        "a", "http", "https://a.example", (acp.NameValue(name="Authorization", value="Bearer hush"),)
    )
    assert "hush" not in repr(acp.NewSessionRequest(cwd="/", mcp_servers=(server,)))
    assert b"hush" in msgspec.json.encode(server)


def test_servers_are_written_with_all_that_the_protocol_wants() -> None:
    assert msgspec.json.encode(acp.stdio_server("a", "/a")) == b'{"name":"a","command":"/a","args":[],"env":[]}'
    written = msgspec.json.encode(acp.remote_server("a", "sse", "https://a.example"))
    assert written == b'{"name":"a","type":"sse","url":"https://a.example","headers":[]}'
    assert acp.stdio_server("a", "/a").kind == "stdio"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a":\n 1}', b'{"a":1}'),
        ("no\njson", b'"no\\njson"'),
        ("", b'""'),
        ("[" * 100_000, None),
        ("1e999", None),
        ("\ud800", b'"?"'),
    ],
)
def test_any_text_can_go_as_json_and_never_tears_a_line(text: str, line: bytes | None) -> None:
    raw = bytes(acp.raw_json(text))
    assert b"\n" not in raw
    assert raw == (msgspec.json.encode(text) if line is None else line)


def junk(value: Any, data: st.DataObject) -> Any:
    """The value with something else in one place of it."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        return value | {key: junk(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], junk(value[place], data), *value[place + 1 :]]
    return data.draw(JSON)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(ASKED), st.data())
def test_anything_in_any_place_is_read_or_refused(asked: tuple[str, Any], data: st.DataObject) -> None:
    method, params = asked
    said = msgspec.json.encode(junk(params, data))
    try:
        read = acp.decode_params(method, said)
    except acp.InvalidParams:
        return
    again = acp.decode_params(method, msgspec.json.encode(read))
    assert msgspec.json.encode(again) == msgspec.json.encode(read)


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"a","mood":1}}',
        '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":null}}',
        '{"jsonrpc":"2.0","method":"session/cancel","id":1,"params":{"sessionId":"a"}}',
        '{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"a","prompt":[]}}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"a","update":{"sessionUpdate":"plan","entries":[]}}}',
        '{"jsonrpc":"2.0","method":"session/sing","params":{}}',
        '{"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","id":1,"result":[]}',
        '{"id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
        '{"jsonrpc":"2.0","method":"session/cancel",\n"params":{"sessionId":"a"}}',
    ],
)
def test_a_line_that_is_not_to_the_letter_is_found_out(line: str) -> None:
    with pytest.raises(AssertionError):
        check_line("to_agent", line)

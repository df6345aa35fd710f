"""Our messages are the protocol's, as its own description has them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests.acp.test_golden import files, talk
from tests.acp.wire import Direction
from tests.peers.acp.schema import described, update_names, validate_wire
from tests.peers.acp.shown import places, shown

from threadline.rpc import acp
from threadline.rpc.acp import METHODS, KnownUpdate

pytestmark = pytest.mark.peers

# What is described, but not settled, and why we know nothing of it.
PASSED_OVER = {
    "auth/status": "who is signed in is the agent's business; -32000 tells us when nobody is",
    "auth/status_update": "the same, unasked",
    "mcp/message": "tools of the client over this very line; we offer none and take none",
    "providers/list": "which service an agent calls is set where the agent is set up",
    "providers/set": "the same",
    "providers/disable": "the same",
    "proxy/initialize": "we are an agent or a client, never something between them",
    "proxy/successor": "the same",
    "session/archive": "the store has no archive; session/delete takes a session out of the list",
    "session/unarchive": "the same",
    "session/set_title": "`/title` names a session, on every platform alike",
    "session/status": "session/list says the same of every session",
}
PASSED_OVER_UPDATES = {
    "plan_removed": "a plan with an id of its own; only sent to clients that say that they know of it",
    "plan_update": "the same",
    "session_message": "talk between sessions; only sent to clients that say that they know of it",
    "session_message_chunk": "the same",
    "subagent_update": "the same",
}
# What a settled message can hold, and why no line of ours shows it.
NOT_SHOWN = {
    "ErrorCode = -32700": "said of a line that can't be read, and so in answer to no request that a file could show",
}
# Gone from the protocol, but in use.
LEGACY = "session-set_model"


@pytest.mark.parametrize("file", [pytest.param(one, id=one.stem) for one in files() if one.stem != LEGACY])
def test_our_lines_are_as_the_protocol_describes_them(file: Path) -> None:
    validate_wire(talk(file), exact=True)


def test_the_line_of_old_that_we_keep_is_no_longer_described() -> None:
    (file,) = (one for one in files() if one.stem == LEGACY)
    validate_wire(talk(file))
    with pytest.raises(AssertionError, match="is not described: session/set_model as params"):
        validate_wire(talk(file), exact=True)


def test_every_settled_method_is_known_for_the_side_that_answers_it() -> None:
    sides = {"agent": "agent", "client": "client", "protocol": "both"}
    ours = {(one.name, one.side, one.kind) for one in METHODS.values() if one.status == "stable"}
    parts = described("schema")
    theirs = {
        (one.method, sides[one.side], "request" if one._replace(part="result") in parts else "notification")
        for one in parts
    }
    assert ours == theirs


def test_what_is_not_settled_is_known_or_passed_over_for_a_reason() -> None:
    settled = {one.method for one in described("schema")}
    open_yet = {one.method for one in described("schema.unstable")} - settled
    known = {one.name for one in METHODS.values() if one.status == "unstable"}
    assert open_yet == known | PASSED_OVER.keys()
    assert {one.name for one in METHODS.values() if one.status == "legacy"} & (settled | open_yet) == set()


def test_every_settled_update_is_known_and_the_others_are_passed_over_for_a_reason() -> None:
    ours = {str(one.__struct_config__.tag) for one in get_args(KnownUpdate)}
    assert ours == update_names("schema")
    assert update_names("schema.unstable") - ours == PASSED_OVER_UPDATES.keys()


def test_every_property_and_every_value_of_a_settled_message_is_shown_or_left_out_for_a_reason() -> None:
    lines = set().union(*(shown(talk(file)) for file in files()))
    assert places() - lines == NOT_SHOWN.keys()
    assert lines <= places()


# Some of them are read as any text, since a peer may have its own: no line can show that one is missing here.
@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("PermissionOptionKind", acp.PermissionKind),
        ("PlanEntryPriority", acp.PlanPriority),
        ("PlanEntryStatus", acp.PlanStatus),
        ("SessionConfigOptionCategory", acp.ConfigCategory),
        ("StopReason", acp.PromptStopReason),
        ("ToolCallStatus", acp.ToolStatus),
        ("ToolKind", acp.ToolKind),
    ],
)
def test_the_values_that_have_a_name_here_are_all_that_are_described(name: str, ours: object) -> None:
    theirs = {place for place in places() if place.startswith(f"{name} = ")}
    assert {f"{name} = {value}" for value in get_args(ours)} == theirs


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"id":1,"method":"session/prompt","params":{"sessionId":"a","prompt":[{"type":"text","text":"b"}]}}',
            {
                "PromptRequest.sessionId",
                "PromptRequest.prompt",
                "ContentBlock.type",
                "ContentBlock.type = text",
                "TextContent.text",
            },
        ),
        (
            '{"id":1,"method":"session/set_config_option","params":{"sessionId":"a","configId":"b","value":"c"}}',
            {f"SetSessionConfigOptionRequest.{name}" for name in ("sessionId", "configId", "value")},
        ),
        ('{"id":1,"method":"session/list","params":{"cwd":null,"_meta":{"a":1}}}', set()),
    ],
)
def test_a_line_shows_what_has_a_value_in_it_and_nothing_else(line: str, expected: set[str]) -> None:
    assert shown([("to_agent", line)]) == expected


@pytest.mark.parametrize(
    ("direction", "line", "why"),
    [
        ("to_agent", '{"id":1,"method":"session/new","params":{"mcpServers":[]}}', '"cwd" is a required property'),
        ("to_agent", '{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[],"mood":1}}', "mood"),
        (
            "to_client",
            '{"method":"session/update","params":{"sessionId":"a","update":{"sessionUpdate":"x"}}}',
            "update",
        ),
        (
            "to_agent",
            '{"id":1,"method":"session/prompt","params":{"sessionId":"a","prompt":[{"type":"text","text":"b","hue":1}]}}',
            "hue",
        ),
        ("to_client", '{"id":1,"result":{}}', "nobody asked"),
        ("to_client", '{"id":1,"error":{"code":1}}', '"message" is a required property'),
    ],
)
def test_a_line_that_is_wrong_is_found_out(direction: Direction, line: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        validate_wire([(direction, line)], exact=True)

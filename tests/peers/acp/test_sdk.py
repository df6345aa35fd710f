"""An editor on the official SDK finds every method of sessions as the protocol has it. The wire is held to its description too."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.peers.acp.world import Editor, Event, Refused, editing

pytestmark = pytest.mark.peers

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS = -32002, -32600, -32602
ALLOW = {"outcome": "selected", "optionId": "allow"}
STORED = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")
OPENED: list[tuple[str, dict[str, object]]] = [
    ("session/load", {"cwd": "/somewhere", "mcpServers": []}),
    ("session/resume", {"cwd": "/somewhere", "mcpServers": []}),
    ("session/fork", {"cwd": "/somewhere", "mcpServers": []}),
    ("session/prompt", {"prompt": [{"type": "text", "text": "anybody there?"}]}),
    ("session/set_mode", {"modeId": "allow"}),
    ("session/set_config_option", {"configId": "mode", "value": "allow"}),
]


def refused(call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


def permission(editor: Editor, session: str) -> Event:
    return editor.wait_for(lambda one: one["is"] == "permission" and one["params"]["sessionId"] == session)


def mode_of(options: list[Event]) -> str:
    return next(str(one["currentValue"]) for one in options if one["category"] == "mode")


def test_the_agent_tells_what_it_can_do_and_wants_to_be_greeted_first(tmp_path: Path) -> None:
    editor = Editor(tmp_path).start(greets=False)
    try:
        assert refused(lambda: editor.ask("session/list")).code == INVALID_REQUEST
        told = editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        assert told["protocolVersion"] == 1
        can = told["agentCapabilities"]
        assert can["loadSession"]
        assert can["promptCapabilities"] == {"image": True, "embeddedContext": True}
        assert {"list", "resume", "fork", "close", "delete"} <= can["sessionCapabilities"].keys()
        assert told["agentInfo"]["name"] == "threadline"
        # A later version is not known here: the one that is known is told.
        assert editor.ask("initialize", protocolVersion=7, clientCapabilities={})["protocolVersion"] == 1
        editor.close()
    finally:
        editor.abandon()


def test_a_prompt_brings_links_files_and_pictures_along(editor: Editor) -> None:
    session = editor.new()
    prompt = [
        {"type": "text", "text": "files "},
        {"type": "resource_link", "name": "main.py", "uri": "file:///somewhere/main.py"},
        {"type": "resource", "resource": {"uri": "file:///somewhere/notes.txt", "text": "water the basil"}},
        {"type": "resource", "resource": {"uri": "file:///somewhere/a.bin", "blob": PICTURE, "mimeType": "a/b"}},
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
    ]
    answer = editor.ask("session/prompt", sessionId=session, prompt=prompt)
    assert answer["stopReason"] == "end_turn"
    assert answer["usage"]["inputTokens"] == 1200
    said = editor.said(session)
    for part in (
        "file:///somewhere/main.py",
        "water the basil",
        "a.bin (a/b) with 8 bytes",
        "(image/png) with 8 bytes",
    ):
        assert part in said
    assert editor.updates(session, "usage_update")[-1]["used"] == 1234
    assert editor.wait_for_update(session, "session_info_update")["title"].startswith("files")
    assert "new" in [
        one["name"] for one in editor.updates(session, "available_commands_update")[0]["availableCommands"]
    ]


def test_tools_plans_and_pictures_are_shown_in_their_order(editor: Editor) -> None:
    session = editor.new()
    editor.say(session, "edit /somewhere/main.py")
    editor.say(session, "draw basil.png")
    told = [one["sessionUpdate"] for one in editor.updates(session, *STORED)]
    assert told == [
        "agent_thought_chunk",
        "plan",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
        "agent_message_chunk",
        "agent_message_chunk",
    ]
    [call] = editor.updates(session, "tool_call")
    assert (call["kind"], call["title"], call["name"]) == ("edit", "Editing the file", "edit_file")
    assert call["locations"] == [{"path": "/somewhere/main.py", "line": 3}]
    [changed] = editor.updates(session, "tool_call_update")
    assert [one["path"] for one in changed["content"]] == ["/somewhere/main.py", "/somewhere/main.py.bak"]
    picture = editor.updates(session, "agent_message_chunk")[-1]["content"]
    assert (picture["type"], picture["data"]) == ("image", PICTURE)


def test_a_load_tells_all_that_was_told_before_it_answers_and_a_resume_nothing(tmp_path: Path) -> None:
    with editing(tmp_path) as first:
        session = first.new()
        first.say(session, "edit /somewhere/main.py")
        first.say(session, "draw basil.png")
        first.ask("session/set_mode", sessionId=session, modeId="deny")
        live = first.updates(session, *STORED)
    with editing(tmp_path) as second:
        opened = second.ask("session/load", sessionId=session, cwd="/somewhere", mcpServers=[])
        answered = next(
            place for place, one in enumerate(second.events) if one["is"] == "answer" and one["number"] == 2
        )
        told = [one["params"]["update"] for one in second.events[:answered] if one["is"] == "update"]
        assert [one for one in told if one["sessionUpdate"] not in ("user_message_chunk", "plan")] == [
            one for one in live if one["sessionUpdate"] != "plan"
        ]
        # It is replaced as a whole each time: where it stood does not matter.
        assert [one for one in told if one["sessionUpdate"] == "plan"] == first.updates(session, "plan")
        heard = [one["content"]["text"] for one in told if one["sessionUpdate"] == "user_message_chunk"]
        assert heard == ["edit /somewhere/main.py", "draw basil.png"]
        assert opened["modes"]["currentModeId"] == mode_of(opened["configOptions"]) == "deny"
        second.say(session, "recall")
        assert second.said(session).endswith("edit /somewhere/main.py / Changed. / draw basil.png / Here it is.")
    with editing(tmp_path) as third:
        opened = third.ask("session/resume", sessionId=session, cwd="/somewhere", mcpServers=[])
        assert opened["modes"]["currentModeId"] == "deny"
        third.wait_for_update(session, "available_commands_update")
        assert third.updates(session, *STORED) == []
        third.say(session, "recall")
        assert "Here it is." in third.said(session)


def test_all_sessions_are_listed_page_by_page(tmp_path: Path) -> None:
    with editing(tmp_path) as editor:
        begun = [editor.begin("session/new", cwd=f"/at/{number % 2}", mcpServers=[]) for number in range(60)]
        made = {editor.answer_to(number)["sessionId"] for number in begun}
        first = editor.ask("session/list")
        second = editor.ask("session/list", cursor=first["nextCursor"])
        assert (len(first["sessions"]), len(second["sessions"])) == (50, 10)
        assert second.get("nextCursor") is None
        assert {one["sessionId"] for one in first["sessions"] + second["sessions"]} == made
        there = editor.ask("session/list", cwd="/at/1")["sessions"]
        assert {one["cwd"] for one in there} == {"/at/1"}
        assert len(there) == 30
        assert editor.ask("session/list", cwd="/elsewhere")["sessions"] == []
        assert refused(lambda: editor.ask("session/list", cursor="no such page")).code == INVALID_PARAMS


def test_a_fork_goes_on_apart(editor: Editor) -> None:
    session = editor.new()
    editor.say(session, "say basil")
    fork = editor.ask("session/fork", sessionId=session, cwd="/somewhere", mcpServers=[])["sessionId"]
    assert fork != session
    editor.say(fork, "say thyme")
    editor.say(session, "recall")
    editor.say(fork, "recall")
    assert "thyme" not in editor.said(session)
    assert editor.said(fork) == "thymesay basil / basil / say thyme / thyme"


def test_a_mode_is_a_mode_and_an_option_and_both_agree(editor: Editor) -> None:
    session = editor.new()
    options = editor.ask("session/set_config_option", sessionId=session, configId="mode", value="allow")
    assert mode_of(options["configOptions"]) == "allow"
    assert editor.wait_for_update(session, "current_mode_update")["currentModeId"] == "allow"
    editor.say(session, "ask the kitchen")
    assert editor.said(session) == "The window is open."
    editor.ask("session/set_mode", sessionId=session, modeId="deny")
    assert mode_of(editor.wait_for_update(session, "config_option_update")["configOptions"]) == "deny"
    editor.say(session, "ask the cellar")
    assert editor.said(session).endswith("Then the window stays shut.")
    assert refused(lambda: editor.ask("session/set_mode", sessionId=session, modeId="x")).code == INVALID_PARAMS
    wrong = {"sessionId": session, "configId": "mood", "value": "good"}
    assert refused(lambda: editor.ask("session/set_config_option", **wrong)).code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (ALLOW, "The window is open."),
        ({"outcome": "selected", "optionId": "reject"}, "Then the window stays shut."),
        ({"outcome": "selected", "optionId": "made up"}, "Then the window stays shut."),
        ({"outcome": "cancelled"}, "Then the window stays shut."),
    ],
)
def test_a_question_is_put_to_the_person_and_the_prompt_goes_on(
    editor: Editor, outcome: dict[str, str], answer: str
) -> None:
    session = editor.new()
    number = editor.begin_saying(session, "ask the kitchen")
    question = permission(editor, session)
    call, options = question["params"]["toolCall"], question["params"]["options"]
    assert call["rawInput"] == {"room": "the kitchen"}
    assert {one["kind"] for one in options} == {"allow_once", "reject_once"}
    editor.decide(question["number"], outcome)
    assert editor.answer_to(number)["stopReason"] == "end_turn"
    assert editor.said(session) == answer


def test_a_cancel_while_a_question_is_open_ends_the_prompt(editor: Editor) -> None:
    session = editor.new()
    number = editor.begin_saying(session, "ask the kitchen")
    question = permission(editor, session)
    editor.notify("session/cancel", sessionId=session)
    editor.decide(question["number"], {"outcome": "cancelled"})
    assert editor.answer_to(number)["stopReason"] == "cancelled"
    editor.say(session, "say on we go")
    assert editor.said(session) == "on we go"


def test_a_cancel_in_the_middle_of_a_tool_answers_at_once_and_the_next_prompt_works(
    editor: Editor, tmp_path: Path
) -> None:
    session = editor.new()
    number = editor.begin_saying(session, f"hold {tmp_path / 'gate'}")
    editor.wait_for_update(session, "tool_call")
    editor.notify("session/cancel", sessionId=session)
    assert editor.answer_to(number)["stopReason"] == "cancelled"
    (tmp_path / "gate").touch()
    told = len(editor.updates(session, *STORED))
    editor.say(session, "say on we go")
    assert editor.said(session) == "I wait.on we go"
    assert len(editor.updates(session, *STORED)) == told + 1


def test_a_second_prompt_to_a_busy_session_is_an_error_that_says_so(editor: Editor, tmp_path: Path) -> None:
    session, other = editor.new(), editor.new()
    number = editor.begin_saying(session, f"hold {tmp_path / 'gate'}")
    editor.wait_for_update(session, "tool_call")
    error = refused(lambda: editor.say(session, "say nothing of it"))
    assert (error.code, "still answering" in str(error)) == (INVALID_REQUEST, True)
    assert editor.say(other, "say hello")["stopReason"] == "end_turn"
    (tmp_path / "gate").touch()
    assert editor.answer_to(number)["stopReason"] == "end_turn"
    assert editor.said(session) == "I wait.It came."


def test_a_closed_session_is_cancelled_and_can_be_opened_again(editor: Editor, tmp_path: Path) -> None:
    session = editor.new()
    editor.say(session, "say basil")
    number = editor.begin_saying(session, f"hold {tmp_path / 'gate'}")
    editor.wait_for_update(session, "tool_call")
    editor.ask("session/close", sessionId=session)
    assert editor.answer_to(number)["stopReason"] == "cancelled"
    (tmp_path / "gate").touch()
    told = len(editor.updates(session, *STORED))
    editor.ask("session/load", sessionId=session, cwd="/somewhere", mcpServers=[])
    again = editor.updates(session, *STORED)[told:]
    assert [one["sessionUpdate"] for one in again][:4] == [
        "user_message_chunk",
        "agent_message_chunk",
        "user_message_chunk",
        "agent_message_chunk",
    ]
    editor.say(session, "say again")
    assert editor.said(session).endswith("again")


def test_a_deleted_session_is_gone(editor: Editor) -> None:
    session = editor.new("/to/be/deleted")
    editor.say(session, "say basil")
    for _ in range(2):
        editor.ask("session/delete", sessionId=session)
    assert editor.ask("session/list", cwd="/to/be/deleted")["sessions"] == []
    opened = {"sessionId": session, "cwd": "/to/be/deleted", "mcpServers": []}
    assert refused(lambda: editor.ask("session/load", **opened)).code == NOT_FOUND


@pytest.mark.parametrize(("method", "params"), [pytest.param(*one, id=one[0]) for one in OPENED])
def test_what_is_not_known_is_not_found(editor: Editor, method: str, params: dict[str, object]) -> None:
    error = refused(lambda: editor.ask(method, sessionId="nobody-has-this", **params))
    assert (error.code, error.data) == (NOT_FOUND, {"sessionId": "nobody-has-this"})


def test_after_the_agent_was_killed_in_a_turn_the_editor_sees_all_that_it_had_seen(tmp_path: Path) -> None:
    first = Editor(tmp_path).start()
    try:
        session = first.new()
        first.begin_saying(session, f"hold {tmp_path / 'never'}")
        first.wait_for_update(session, "tool_call")
        seen = first.updates(session, *STORED)
        first.kill_agent()
    finally:
        first.abandon()
    with editing(tmp_path) as second:
        second.ask("session/load", sessionId=session, cwd="/somewhere", mcpServers=[])
        told = second.updates(session, *STORED)
        assert told[0]["content"]["text"] == f"hold {tmp_path / 'never'}"
        assert told[1 : 1 + len(seen)] == seen
        assert second.say(session, "say on we go")["stopReason"] == "end_turn"
        assert second.said(session).endswith("on we go")

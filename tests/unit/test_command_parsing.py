"""Which messages are commands, what stands behind them, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.gateway.command_table import TABLE, Call, Typed, read_command, refusal_of
from threadline.gateway.reference import commands_reference
from threadline.model.access import ROLES, Role, may_change
from threadline.model.inbound import Inbound, Quote
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.testing import FakeClock, dm, group, thread
from threadline.texts import commands as texts

NOW = FakeClock().now()


def event(text: str, **more: Any) -> Inbound:
    return Inbound(dedupe_key="1", message_id="1", source=dm("7"), sent_at=NOW, text=text, **more)


def call(text: str, *, role: Role = "owner", source: SessionSource | None = None, shared: bool = False) -> Call:
    origin = source or dm("7")
    entry = SessionEntry(
        session_key="k",
        session_id="s",
        created_at=NOW,
        updated_at=NOW,
        active_at=NOW,
        origin=origin,
        platform=origin.platform,
        chat_type=origin.chat_type,
        is_shared=shared,
    )
    typed = read_command(event(text))
    assert typed is not None
    return Call(typed=typed, source=origin, session=entry, role=role, person="telegram:7")


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("  /help\n", "help", ""),
        ("/HELP", "help", ""),
        ("/help@threadline_bot", "help", ""),
        ("/title@bot My  plans ", "title", "My  plans"),
        ("/title\tone\ntwo", "title", "one\ntwo"),
        ('/search "a phrase" -not', "search", '"a phrase" -not'),
        ("/queue drop 3", "queue", "drop 3"),
        ("/no_such_1 thing", "no_such_1", "thing"),
    ],
)
def test_a_command_is_its_name_and_what_stands_behind_it(text: str, name: str, argument: str) -> None:
    assert read_command(event(text)) == Typed(name, argument, TABLE.get(name))


@pytest.mark.parametrize(
    "text", ["", "/", "help", "say /help", "> /new", "/usr/bin/env", "/2 things", "/help!", "//help", "/ help", "/hélp"]
)
def test_other_words_are_talk(text: str) -> None:
    assert read_command(event(text)) is None


@pytest.mark.parametrize("more", [{"is_forward": True}, {"kind": "edit"}, {"kind": "delete"}, {"kind": "button"}])
def test_only_new_words_of_ones_own_are_commands(more: dict[str, Any]) -> None:
    assert read_command(event("/new", **more)) is None


def test_a_command_may_answer_another_message() -> None:
    quote = Quote(message_id="0", text="/reset", is_ours=True)
    typed = read_command(event("/stop", reply_to=quote))
    assert typed is not None
    assert typed.name == "stop"
    assert read_command(event("yes", reply_to=quote)) is None


@pytest.mark.parametrize(
    "text",
    [
        *(f"/{name} thing" for name in ("help", "status", "whoami", "usage", "sessions", "fork", "redo", "retry")),
        *("/new thing", "/reset thing", "/queue 3", "/queue drop", "/queue drop -1", "/queue drop 1 2"),
        *("/search", "/undo 0", "/undo two", "/undo 1.5", "/undo 99999", "/undo \u0663"),
        *("/model a b", "/sethome there", "/handoff", "/handoff signal dm"),
    ],
)
def test_a_wrong_argument_is_explained(text: str) -> None:
    refusal = refusal_of(call(text))
    assert refusal is not None
    assert f"/{read_command(event(text)).name}" in refusal  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        *(f"/{name}" for name in TABLE if name not in ("search", "handoff")),
        *("/start payload", "/stop now!", "/queue drop 3", "/queue DROP  12", "/search words", "/undo 3"),
        *("/title Any\nthing", "/resume Any thing", "/model openai:gpt-5", "/timezone New York", "/sethome OFF"),
        *("/handoff signal", "/handoff matrix:!r:example.org:$t"),
    ],
)
def test_a_right_one_is_not_refused(text: str) -> None:
    assert refusal_of(call(text)) is None


@pytest.mark.parametrize("role", ROLES)
def test_a_hint_names_only_what_its_reader_may_do(role: Role) -> None:
    refusal = refusal_of(call("/sesions", role=role))
    assert refusal is not None
    assert ("/sessions?" in refusal) is (role != "group")


def test_a_long_name_is_cut_in_the_hint() -> None:
    refusal = refusal_of(call("/" + "x" * 5000))
    assert refusal is not None
    assert len(refusal) < 200


@pytest.mark.parametrize(
    ("source", "shared", "role", "may"),
    [
        (dm("7"), False, "guest", True),
        (dm("8"), False, "guest", True),
        (group("8"), False, "guest", True),
        (thread("7"), True, "guest", True),
        (thread("8"), True, "trusted", False),
        (thread("8"), True, "owner", True),
    ],
)
def test_a_shared_conversation_is_for_who_started_it(
    source: SessionSource, shared: bool, role: Role, may: bool
) -> None:
    given = call("/new", role=role, source=source, shared=shared)
    assert may_change(given.session, role=given.role, person=given.person, is_admin=given.is_admin) is may


def test_every_command_says_what_it_is_for_in_one_sentence() -> None:
    assert texts.HELP.keys() == TABLE.keys()
    assert all(text.endswith(".") and text[0].islower() and len(text) < 100 for text in texts.HELP.values())


def test_the_reference_has_every_command_once() -> None:
    page = commands_reference()
    assert page == commands_reference()
    for command in TABLE.values():
        assert page.count(f"| `{command.usage}` | {command.help} |") == 1
        assert command.lane != "control" or f"{command.help} | at once |" in page

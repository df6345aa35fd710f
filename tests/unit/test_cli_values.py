from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.conftest import Cli
from typer.main import get_command

from threadline.cli.options import parse_age, parse_since, parse_until, whole_number
from threadline.cli.program import app


@pytest.mark.parametrize(
    ("text", "hours"), [("12h", 12), ("30d", 720), ("8w", 1344), ("1y", 8760), (" 2D ", 48), ("1000y", 8_760_000)]
)
def test_lengths_of_time(text: str, hours: int) -> None:
    assert parse_age(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "d", "12", "-3d", "1.5d", "3m", "0h", "1001y", "9999999y", "٣d", "3d 4h"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_age(text)


def test_a_moment_with_a_zone_is_that_moment() -> None:
    assert parse_since("2026-03-01T14:00+02:00") == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_day_begins_where_since_starts_and_ends_where_until_stops() -> None:
    assert parse_until("2026-03-01") == parse_since("2026-03-02")
    assert parse_until("2026-03-01T10:00") == parse_since("2026-03-01T10:00")


@given(st.one_of(st.text(max_size=30), st.sampled_from(["0001-01-01", "9999-12-31", "9999-12-31T23:59:59-12:00"])))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    for parse in (parse_since, parse_until):
        try:
            moment = parse(text)
        except typer.BadParameter:
            continue
        assert moment.tzinfo is not None


@pytest.mark.parametrize(
    "command",
    [
        ["nonsense"],
        ["sessions", "show"],
        ["sessions", "list", "--limit", "0"],
        ["sessions", "list", "--limit", "many"],
        ["sessions", "search", "x", "--since", "tomorrow"],
        ["sessions", "prune"],
        ["sessions", "prune", "--older-than", "soon"],
        ["sessions", "export", "x", "--format", "pdf"],
        ["serve", "--port", "70000"],
    ],
)
def test_misuse_exits_with_2_and_an_explanation(command: list[str], cli: Cli) -> None:
    refused = cli(*command)
    assert refused.code == 2
    assert refused.out == ""
    assert "Error: " in refused.err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["serve", "--port", "abc"], "'--port': 'abc' can't be used; write a whole number from 0 to 65535"),
        (["serve", "--port", "70000"], "'--port': '70000' can't be used; write a whole number from 0 to 65535"),
        (["sessions", "list", "--limit", "-1"], "'--limit': '-1' can't be used; write a whole number from 1 to 1000"),
        (["outbox", "retry", "1.5"], "'NUMBER': '1.5' can't be used; write a whole number, at least 1"),
        (["web", "invite", "Ada", "--days", "²"], "'--days': '²' can't be used; write a whole number from 1 to 365"),
        (["web", "invite", "Ada", "--role", "king"], "'--role': 'king' can't be used; write one of guest, trusted"),
        (["sessions", "export", "x", "--format", "pdf"], "'pdf' can't be used; write one of jsonl, markdown, html"),
        (
            ["sessions", "list", "--platform", "Tele gram"],
            "'--platform': 'Tele gram' is no platform; write a name such as telegram",
        ),
        (
            ["sessions", "search", "x", "--platform", "A"],
            "'--platform': 'A' is no platform; write a name such as telegram",
        ),
    ],
)
def test_a_value_that_can_not_be_used_is_told_in_words_of_ours(command: list[str], told: str, cli: Cli) -> None:
    assert told in cli(*command).err


@given(st.text(max_size=30) | st.integers().map(str))
def test_any_text_is_a_whole_number_or_refused(text: str) -> None:
    try:
        number = whole_number(1, 1000)(text)
    except typer.BadParameter:
        return
    assert 1 <= number <= 1000


@pytest.mark.parametrize("columns", ["40", "80", "200"])
@pytest.mark.parametrize(
    "group", ["", "sessions", "people", "db", "pair", "platforms", "web", "messages", "outbox", "config", "compat"]
)
def test_help_is_not_cut(group: str, columns: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = cli(*group.split(), "--help").out
    command: Any = get_command(app)
    tree = command.commands[group] if group else command
    told = " ".join(shown.split())
    assert "..." not in shown.replace("[ARGS]...", "")
    for inner in tree.commands.values():
        assert " ".join(inner.get_short_help_str(1000).split()) in told

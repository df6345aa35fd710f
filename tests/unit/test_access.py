"""Roles: a test for every cell of the tables, and the decisions of pairing."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from threadline.clock import Instant
from threadline.model.access import (
    CODE_LETTERS,
    COMMANDS,
    ROLES,
    TOOLS,
    NoCodeReason,
    PairingGuard,
    Role,
    allows,
    code_refusal,
    command_name,
    guard_after_wrong_code,
    highest_role,
    lowest_role,
    may_stop,
    may_use,
    normalize_code,
    parse_person_name,
)
from threadline.model.address import qualified_id
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.testing import dm

# Written apart from the tables on purpose: a role that changes there must be meant.
EVERYBODY = ["/help", "/whoami", "/status", "/stop"]
GUESTS = [
    "/start",
    "/approve",
    "/deny",
    "/queue",
    "/usage",
    "/sessions",
    "/search",
    "/title",
    "/fork",
    "/undo",
    "/redo",
    "/retry",
    "/new",
    "/reset",
    "/resume",
    "/timezone",
]
TRUSTED = ["/model", "/handoff"]
OWNERS = ["/sethome"]
LEAST_FOR_COMMANDS: dict[str, Role] = {
    **dict.fromkeys(EVERYBODY, "group"),
    **dict.fromkeys(GUESTS, "guest"),
    **dict.fromkeys(TRUSTED, "trusted"),
    **dict.fromkeys(OWNERS, "owner"),
}
LEAST_FOR_TOOLS: dict[str, Role] = {
    **dict.fromkeys(["talk"], "group"),
    **dict.fromkeys(["own_sessions", "own_memory", "own_usage"], "guest"),
    **dict.fromkeys(["prompt_jobs", "send_to_others", "host_files"], "trusted"),
    **dict.fromkeys(["shell", "processes", "command_jobs", "config"], "owner"),
}
# Who holds at least the role on the left, from the least on.
HOLDERS: dict[Role, set[Role]] = {
    "group": {"group", "guest", "trusted", "owner"},
    "guest": {"guest", "trusted", "owner"},
    "trusted": {"trusted", "owner"},
    "owner": {"owner"},
}
NOW = Instant(1_800_000_000_000_000)
MINUTE = 60_000_000
HOUR = 60 * MINUTE


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("command", sorted(LEAST_FOR_COMMANDS))
def test_a_command_is_for_those_who_hold_its_least_role(role: Role, command: str) -> None:
    assert allows(role, COMMANDS[command]) is (role in HOLDERS[LEAST_FOR_COMMANDS[command]])


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("tool", sorted(LEAST_FOR_TOOLS))
def test_a_tool_is_for_those_who_hold_its_least_role(role: Role, tool: str) -> None:
    assert may_use(role, tool) is (role in HOLDERS[LEAST_FOR_TOOLS[tool]])


def test_no_command_and_no_tool_is_left_out_of_these_tests() -> None:
    assert COMMANDS.keys() == LEAST_FOR_COMMANDS.keys()
    assert TOOLS.keys() == LEAST_FOR_TOOLS.keys()


@pytest.mark.parametrize("role", ROLES)
def test_what_no_table_names_is_for_nobody(role: Role) -> None:
    assert not may_use(role, "telepathy")


@pytest.mark.parametrize(
    ("role", "own_turn", "may"),
    [
        ("group", True, True),
        ("group", False, False),
        ("guest", True, True),
        ("guest", False, True),
        ("trusted", False, True),
        ("owner", False, True),
    ],
)
def test_one_of_a_group_stops_their_own_turn_alone(role: Role, own_turn: bool, may: bool) -> None:
    assert may_stop(role, own_turn=own_turn) is may


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("least", ROLES)
def test_a_role_includes_those_below_it(role: Role, least: Role) -> None:
    assert allows(role, least) is (role in HOLDERS[least])


def test_of_several_roles_the_lowest_and_the_highest_are_found() -> None:
    assert lowest_role(["owner", "group", "guest"]) == "group"
    assert lowest_role([]) == "group"
    assert highest_role(["guest", "owner", "trusted"]) == "owner"
    assert highest_role([]) is None


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/help", "/help"),
        ("/STOP now", "/stop"),
        ("/title\nGarden", "/title"),
        ("/help@other_bot", None),
        ("/helpme", None),
        ("/sudo rm", None),
        ("see /help", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_bare_command_is_known_and_names_no_bot(text: str, command: str | None) -> None:
    assert command_name(text) == command


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("telegram:7", "telegram:7"),
        (" telegram:7 ", "telegram:7"),
        ("telegram@main:7", "telegram:7"),
        ("telegram@work:7", "telegram@work:7"),
        ("matrix:@ada:example.org", qualified_id("matrix", "main", "@ada:example.org")),
        ("matrix@work:@ada:example.org", qualified_id("matrix", "work", "@ada:example.org")),
        ("matrix:@ada%3Aexample.org", qualified_id("matrix", "main", "@ada:example.org")),
    ],
)
def test_a_person_may_be_written_as_the_platform_does(written: str, name: str) -> None:
    assert parse_person_name(written) == name


@pytest.mark.parametrize(
    "source",
    [
        dm("7"),
        dm("a:b%c"),
        dm("x" * 500),
        dm("x:" * 500),
        dm("7", account="work@home"),
        dm("", chat_id="c:1"),
        dm("", chat_id="9"),
    ],
)
def test_the_name_that_a_person_has_stays_as_it_is(source: SessionSource) -> None:
    person = person_of(source)
    assert person is not None
    assert parse_person_name(person) == person


@pytest.mark.parametrize("typed", ["ABCDEFGH", "abcdefgh", " ABCD-EFGH\n", "abcd efgh", "a-b-c-d-e-f-g-h"])
def test_a_code_is_the_same_however_it_is_typed(typed: str) -> None:
    assert normalize_code(typed) == "ABCDEFGH"


def test_the_letters_of_a_code_are_not_taken_for_one_another() -> None:
    assert len(set(CODE_LETTERS)) == len(CODE_LETTERS) > 20
    for alike in ("IL", "OQ", "UV"):
        assert len(set(alike) & set(CODE_LETTERS)) <= 1


@pytest.mark.parametrize(
    ("asked_ago", "others", "locked_for", "reason"),
    [
        (None, 0, 0, None),
        (None, 2, 0, None),
        (None, 3, 0, "too many"),
        (0, 0, 0, "too soon"),
        (10 * MINUTE - 1, 0, 0, "too soon"),
        (10 * MINUTE, 0, 0, None),
        (10 * MINUTE, 2, 0, None),
        (-MINUTE, 0, 0, None),
        (None, 0, 1, "locked"),
    ],
)
def test_a_stranger_gets_a_code_or_a_reason(
    asked_ago: int | None, others: int, locked_for: int, reason: NoCodeReason | None
) -> None:
    guard = PairingGuard(5, NOW, Instant(NOW + locked_for))
    asked_at = None if asked_ago is None else Instant(NOW - asked_ago)
    assert code_refusal(guard, asked_at=asked_at, others=others, at=NOW) == reason
    assert reason is None or reason in get_args(NoCodeReason)


def _wrong_at(*minutes: int) -> PairingGuard:
    guard = PairingGuard()
    for minute in minutes:
        guard = guard_after_wrong_code(guard, Instant(NOW + minute * MINUTE))
    return guard


def test_the_fifth_wrong_approval_locks_for_an_hour() -> None:
    assert not _wrong_at(0, 1, 2, 3).is_locked(Instant(NOW + 3 * MINUTE))
    locked = _wrong_at(0, 1, 2, 3, 4)
    fifth = NOW + 4 * MINUTE
    assert locked.is_locked(Instant(fifth))
    assert locked.is_locked(Instant(fifth + HOUR - 1))
    assert not locked.is_locked(Instant(fifth + HOUR))


def test_wrong_approvals_are_forgotten_after_an_hour_of_peace() -> None:
    assert not _wrong_at(0, 1, 2, 3, 63).is_locked(Instant(NOW + 63 * MINUTE))
    assert _wrong_at(0, 1, 2, 3, 62).is_locked(Instant(NOW + 62 * MINUTE))


def test_slow_guessing_locks_too() -> None:
    assert _wrong_at(0, 50, 100, 150, 200).is_locked(Instant(NOW + 200 * MINUTE))


def test_after_a_lock_the_count_starts_anew() -> None:
    guard = _wrong_at(0, 1, 2, 3, 4, 64)
    assert guard.left == 4
    assert not guard.is_locked(Instant(NOW + 64 * MINUTE))


def test_a_clock_that_was_set_back_frees_nobody_to_guess() -> None:
    guard = _wrong_at(100, 99, 50, 1, 0)
    assert guard.is_locked(NOW)
    assert timedelta(microseconds=guard.locked_until - NOW) == timedelta(hours=1)

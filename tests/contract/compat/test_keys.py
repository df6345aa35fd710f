"""Keys and addresses: every combination of what a message can tell, against the rules written out once more."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import threadline
from threadline.compat import (
    GatewayConfig,
    Platform,
    SessionResetPolicy,
    SessionSource,
    SessionStore,
    build_session_key,
)

TYPES = ("dm", "group", "channel", "thread", "forum")


class Case(NamedTuple):
    """What a message tells, and the two settings."""

    chat_type: str
    chat: str | None
    thread: str | None
    user: str | None
    alternative: str | None
    per_user: bool
    threads_per_user: bool


CASES = [
    Case(*case)
    for case in product(TYPES, (None, "c"), (None, "t"), (None, "u"), (None, "a"), (True, False), (True, False))
]


def expected_parts(case: Case) -> list[str]:
    """The rules: what stands in the key behind the platform."""
    sender = case.alternative or case.user
    if case.chat_type == "dm":
        first = case.chat or sender
        return [part for part in ("dm", first, case.thread) if part]
    isolates = case.per_user and (not case.thread or case.threads_per_user)
    return [part for part in (case.chat_type, case.chat, case.thread, sender if isolates else None) if part]


def expected_key(case: Case) -> str:
    return ":".join(["agent:main:telegram", *expected_parts(case)])


def expected_address(case: Case) -> tuple[str | None, ...]:
    """What two messages have to agree in to share a conversation: each part in its own place."""
    sender = case.alternative or case.user
    if case.chat_type == "dm":
        return "dm", case.chat, case.thread, None if case.chat else sender
    isolates = case.per_user and (not case.thread or case.threads_per_user)
    return case.chat_type, case.chat, case.thread, sender if isolates else None


def source_of(case: Case) -> SessionSource:
    return SessionSource(
        Platform.TELEGRAM,
        case.chat or "",
        chat_type=case.chat_type,
        user_id=case.user,
        thread_id=case.thread,
        user_id_alt=case.alternative,
    )


def test_there_are_all_combinations() -> None:
    assert len(CASES) == len(set(CASES)) == 5 * 2**6


@pytest.mark.parametrize("chat_type", TYPES)
def test_a_key_is_spelled_by_the_rules(chat_type: str) -> None:
    for case in CASES:
        if case.chat_type == chat_type:
            assert build_session_key(source_of(case), case.per_user, case.threads_per_user) == expected_key(case), case


@pytest.mark.parametrize("chat_type", TYPES[:4])
def test_the_key_of_our_own_api_follows_the_same_rules(chat_type: str) -> None:
    for case in CASES:
        if case.chat_type == chat_type:
            source = threadline.SessionSource(
                platform="telegram",
                chat_type=chat_type,  # type: ignore[arg-type]
                chat_id=case.chat,
                thread_id=case.thread,
                user_id=case.user,
                user_id_alt=case.alternative,
            )
            assert threadline.build_session_key(source, case.per_user, case.threads_per_user) == expected_key(case), (
                case
            )


@pytest.mark.parametrize(
    ("chat", "thread", "user", "key"),
    [
        ("a:b", None, None, "agent:main:telegram:dm:a:b"),
        ("a%b", None, None, "agent:main:telegram:dm:a%b"),
        ("-100", "5", None, "agent:main:telegram:dm:-100:5"),
        ("ü" * 300, None, None, "agent:main:telegram:dm:" + "ü" * 300),
        ("", None, None, "agent:main:telegram:dm"),
        ("", "5", None, "agent:main:telegram:dm:5"),
        ("", "5", "u", "agent:main:telegram:dm:u:5"),
    ],
)
def test_nothing_in_a_key_is_escaped(chat: str, thread: str | None, user: str | None, key: str) -> None:
    assert build_session_key(SessionSource(Platform.TELEGRAM, chat, thread_id=thread, user_id=user)) == key


def test_every_platform_stands_in_its_keys() -> None:
    for platform in Platform:
        assert build_session_key(SessionSource(platform, "1")) == f"agent:main:{platform.value}:dm:1"


@pytest.mark.parametrize(("per_user", "threads_per_user"), list(product((True, False), repeat=2)))
def test_two_sources_share_a_session_exactly_when_their_addresses_are_equal(
    folder: Path, per_user: bool, threads_per_user: bool
) -> None:
    """Also where ids are chosen so that different addresses would be spelled the same."""
    config = GatewayConfig(
        default_reset_policy=SessionResetPolicy("none"),
        group_sessions_per_user=per_user,
        thread_sessions_per_user=threads_per_user,
    )
    # A thread may be called as a member is, and a chat as a chat with its thread.
    values = product(("dm", "group", "forum"), ("", "c", "c:x"), (None, "x"), (None, "x", "u"), (None, "a"))
    cases = [Case(t, c or None, th, u, alt, per_user, threads_per_user) for t, c, th, u, alt in values]
    by_address: dict[tuple[str | None, ...], set[str]] = defaultdict(set)
    keys: dict[str, str] = {}
    with SessionStore(folder, config) as store:
        for case in cases:
            entry = store.get_or_create_session(source_of(case))
            by_address[expected_address(case)].add(entry.session_id)
            assert keys.setdefault(entry.session_key, entry.session_id) == entry.session_id
        assert all(len(ids) == 1 for ids in by_address.values())
        assert len(keys) == len(by_address)
        assert len(store.list_sessions()) == len(by_address)
        for case in cases:
            entry = store.get_or_create_session(source_of(case))
            assert {entry.session_id} == by_address[expected_address(case)]


def test_a_key_of_a_store_is_that_of_the_function(folder: Path) -> None:
    for number, case in enumerate(CASES[::7]):
        config = GatewayConfig(
            default_reset_policy=SessionResetPolicy("none"),
            group_sessions_per_user=case.per_user,
            thread_sessions_per_user=case.threads_per_user,
        )
        if number % 12 == 0:
            with SessionStore(folder / str(number), config) as store:
                assert store.get_or_create_session(source_of(case)).session_key == expected_key(case)

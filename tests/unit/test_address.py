from __future__ import annotations

import unicodedata
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from threadline.model.address import (
    SessionAddress,
    SessionScope,
    address_of,
    build_session_key,
    dm_of_thread,
    qualified_id,
)
from threadline.model.source import CHAT_TYPES, ChatType, SessionSource

SHARED_GROUPS = SessionScope(group_sessions_per_user=False)
PRIVATE_THREADS = SessionScope(thread_sessions_per_user=True)


def source(**fields: Any) -> SessionSource:
    return SessionSource(**({"platform": "telegram"} | fields))


@pytest.mark.parametrize(
    ("fields", "scope", "key"),
    [
        ({"chat_id": "42", "user_id": "7"}, None, "agent:main:telegram:dm:42"),
        ({"chat_id": "42", "thread_id": "t"}, None, "agent:main:telegram:dm:42:t"),
        ({"chat_id": "42", "thread_id": "t", "user_id": "7"}, PRIVATE_THREADS, "agent:main:telegram:dm:42:t"),
        ({"user_id": "7"}, None, "agent:main:telegram:dm:7"),
        ({"user_id": "7", "thread_id": "t"}, None, "agent:main:telegram:dm:7:t"),
        ({"thread_id": "t"}, None, "agent:main:telegram:dm:t"),
        ({}, None, "agent:main:telegram:dm"),
        ({"chat_type": "group", "chat_id": "42", "user_id": "7"}, None, "agent:main:telegram:group:42:7"),
        ({"chat_type": "channel", "chat_id": "42", "user_id": "7"}, None, "agent:main:telegram:channel:42:7"),
        (
            {"chat_type": "group", "chat_id": "42", "user_id": "7"},
            SHARED_GROUPS,
            "agent:main:telegram:group:42",
        ),
        ({"chat_type": "group", "chat_id": "42"}, None, "agent:main:telegram:group:42"),
        (
            {"chat_type": "group", "chat_id": "42", "thread_id": "t", "user_id": "7"},
            None,
            "agent:main:telegram:group:42:t",
        ),
        (
            {"chat_type": "group", "chat_id": "42", "thread_id": "t", "user_id": "7"},
            PRIVATE_THREADS,
            "agent:main:telegram:group:42:t:7",
        ),
        (
            {"chat_type": "group", "chat_id": "42", "thread_id": "t"},
            PRIVATE_THREADS,
            "agent:main:telegram:group:42:t",
        ),
        ({"chat_type": "group"}, None, "agent:main:telegram:group"),
        ({"chat_type": "thread", "thread_id": "t"}, None, "agent:main:telegram:thread:t"),
        ({"user_id": "7", "user_id_alt": "acc"}, None, "agent:main:telegram:dm:acc"),
        (
            {"chat_type": "group", "chat_id": "42", "user_id": "7", "user_id_alt": "acc"},
            None,
            "agent:main:telegram:group:42:acc",
        ),
        ({"chat_id": "42", "account": "work"}, None, "agent:main:telegram@work:dm:42"),
        ({"chat_id": "42", "account": "a@b:c"}, None, "agent:main:telegram@a%40b%3Ac:dm:42"),
        ({"chat_id": "a:b%c@d\n\x7f"}, None, "agent:main:telegram:dm:a%3Ab%25c@d%0A%7F"),
        ({"chat_id": "\ud800"}, None, "agent:main:telegram:dm:%ED%A0%80"),
        ({"platform": "acp", "chat_id": "20260601_120000_ab"}, None, "agent:main:acp:dm:20260601_120000_ab"),
    ],
)
def test_a_message_goes_to_the_conversation_that_the_table_says(
    fields: dict[str, Any], scope: SessionScope | None, key: str
) -> None:
    assert build_session_key(source(**fields), scope=scope) == key


def test_the_two_settings_can_be_given_by_place_and_a_scope_stands_for_both() -> None:
    member = source(chat_type="group", chat_id="42", user_id="7")
    thread = source(chat_type="group", chat_id="42", thread_id="t", user_id="7")

    assert build_session_key(member, False) == "agent:main:telegram:group:42"
    assert build_session_key(thread, True, True) == "agent:main:telegram:group:42:t:7"
    assert build_session_key(thread, True, True, scope=SessionScope()) == "agent:main:telegram:group:42:t"


ONE_OR_NONE: list[tuple[str | None, ...]] = [(None, "c"), (None, "t"), (None, "u"), (None, "a")]


@pytest.mark.parametrize("chat_type", sorted(CHAT_TYPES))
@pytest.mark.parametrize("per_user", [(True, True), (True, False), (False, True), (False, False)])
def test_each_combination_of_ids_and_settings_has_the_key_of_the_rules(
    chat_type: str, per_user: tuple[bool, bool]
) -> None:
    in_groups, in_threads = per_user
    for chat, thread, user_id, alternative in product(*ONE_OR_NONE):
        sender = alternative or user_id
        if chat_type == "dm":
            tail = [chat or sender, thread]
        elif thread:
            tail = [chat, thread, sender if in_groups and in_threads else None]
        else:
            tail = [chat, sender if in_groups else None]
        key = ":".join(["agent:main:telegram", chat_type, *filter(None, tail)])
        where = source(chat_type=chat_type, chat_id=chat, thread_id=thread, user_id=user_id, user_id_alt=alternative)
        assert build_session_key(where, in_groups, in_threads) == key


def test_another_agent_has_its_own_conversations() -> None:
    assert build_session_key(source(chat_id="42"), agent="b:c") == "agent:b%3Ac:telegram:dm:42"


def test_an_empty_id_counts_as_unknown() -> None:
    blank = source(chat_id="", thread_id="", user_id="", user_id_alt="")

    assert address_of(blank) == address_of(source())


def test_names_and_handles_play_no_part_in_the_address() -> None:
    plain = source(chat_type="group", chat_id="42", user_id="7")
    named = source(
        chat_type="group",
        chat_id="42",
        user_id="7",
        user_name="Ada",
        user_handle="@ada",
        chat_name="Engines",
        chat_topic="steam",
        chat_id_alt="g",
    )

    assert address_of(named) == address_of(plain)


@pytest.mark.parametrize(
    ("fields", "is_shared"),
    [
        ({"chat_id": "42", "user_id": "7"}, False),
        ({}, False),
        ({"chat_type": "group", "chat_id": "42", "user_id": "7"}, False),
        ({"chat_type": "group", "chat_id": "42"}, True),
        ({"chat_type": "group", "chat_id": "42", "thread_id": "t", "user_id": "7"}, True),
    ],
)
def test_a_conversation_is_shared_where_it_is_no_dm_and_no_senders_own(fields: dict[str, Any], is_shared: bool) -> None:
    assert address_of(source(**fields)).is_shared is is_shared


def test_only_a_dm_thread_has_a_parent() -> None:
    dm_thread = address_of(source(chat_id="42", thread_id="t"))

    assert dm_of_thread(dm_thread) == address_of(source(chat_id="42"))
    assert dm_of_thread(address_of(source(chat_id="42"))) is None
    assert dm_of_thread(address_of(source(thread_id="t"))) is None
    assert dm_of_thread(address_of(source(chat_type="group", chat_id="42", thread_id="t"))) is None


# --- Ids that love to collide -------------------------------------------------------------------

colliding = st.text(alphabet="a:%@~", max_size=3)
maybe = st.none() | colliding
chat_types: st.SearchStrategy[ChatType] = st.sampled_from(sorted(CHAT_TYPES))
addresses = st.builds(
    SessionAddress,
    agent=colliding,
    platform=st.sampled_from(["a", "a-a"]),
    account=st.just("main") | colliding,
    chat_type=chat_types,
    chat=maybe,
    thread=maybe,
    sender=maybe,
)
pairs = st.tuples(addresses, addresses) | addresses.map(lambda address: (address, address))


def with_parts(address: SessionAddress, parts: list[str | None]) -> SessionAddress:
    chat, thread, sender = parts
    return SessionAddress(address.agent, address.platform, address.account, address.chat_type, chat, thread, sender)


# Two addresses whose ids are the same text in other slots: what concatenation would confuse.
shuffled = st.tuples(addresses, st.randoms(use_true_random=False)).map(
    lambda drawn: (
        drawn[0],
        with_parts(drawn[0], drawn[1].sample([drawn[0].chat, drawn[0].thread, drawn[0].sender], 3)),
    )
)


@settings(max_examples=400)
@given(pair=pairs | shuffled)
@example((SessionAddress("a", "a", "a", "dm", "a", "b"), SessionAddress("a", "a", "a", "dm", "a", None, "b")))
@example((SessionAddress("a", "a", "a", "dm", "", None), SessionAddress("a", "a", "a", "dm", None, "")))
def test_digests_are_equal_exactly_where_addresses_are(pair: tuple[SessionAddress, SessionAddress]) -> None:
    one, other = pair

    assert (one.digest == other.digest) == (one == other)


def spelled_parts(address: SessionAddress) -> tuple[object, ...]:
    """What a key tells: everything but which slot an id stands in."""
    tail = (address.sender, address.thread) if address.chat_type == "dm" else (address.thread, address.sender)
    present = [part for part in (address.chat, *tail) if part is not None]
    return (address.agent, address.platform, address.account, address.chat_type, present)


@settings(max_examples=400)
@given(pair=pairs | shuffled)
def test_keys_are_equal_exactly_where_the_same_ids_stand_in_the_same_order(
    pair: tuple[SessionAddress, SessionAddress],
) -> None:
    one, other = pair

    assert (one.key == other.key) == (spelled_parts(one) == spelled_parts(other))


@settings(max_examples=300)
@given(address=addresses, others=st.tuples(colliding, colliding, colliding))
def test_keys_differ_where_the_same_slots_hold_different_ids(
    address: SessionAddress, others: tuple[str, str, str]
) -> None:
    mine = (address.chat, address.thread, address.sender)
    other = with_parts(address, [None if a is None else b for a, b in zip(mine, others, strict=True)])

    assert (address.key == other.key) == (address == other)


@settings(max_examples=300)
@given(
    ids=st.fixed_dictionaries(dict.fromkeys(("chat_id", "thread_id", "user_id", "user_id_alt"), maybe)),
    chat_type=chat_types,
    scope=st.builds(SessionScope, st.booleans(), st.booleans()),
)
def test_an_address_holds_nothing_but_ids_of_its_source_and_never_an_empty_one(
    ids: dict[str, str | None], chat_type: ChatType, scope: SessionScope
) -> None:
    address = address_of(source(chat_type=chat_type, **ids), scope)

    assert address.chat == (ids["chat_id"] or None)
    assert address.thread == (ids["thread_id"] or None)
    assert address.sender in (None, ids["user_id_alt"] or ids["user_id"])
    assert "" not in (address.chat, address.thread, address.sender)


# --- Ids that no platform should have, and one day has --------------------------------------------

hostile = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=40)
LONG = ["x" * 3000, "\x00" * 3000, "\ud800" * 3000, "é:" * 1500, "😀" * 3000, "%" * 3000]


@settings(max_examples=300)
@given(parts=st.tuples(hostile, hostile, hostile, hostile, hostile))
@example(parts=("\u2028", "\u2029", "\x85", "\r\n", "\x1c"))
@example(parts=("x" * 3000, "\x00" * 3000, "\ud800" * 3000, "é:" * 1500, "😀" * 3000))
def test_a_key_is_one_line_of_clean_bounded_text(parts: tuple[str, str, str, str, str]) -> None:
    agent, account, chat, thread, sender = parts
    key = SessionAddress(agent, "telegram", account, "group", chat, thread, sender).key

    assert len(key.splitlines()) == 1
    assert len(key.encode()) < 1200
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in key)
    assert key.count(":") == 6


def test_long_ids_that_differ_only_at_the_end_or_only_in_what_is_escaped_have_different_keys() -> None:
    ids = [*LONG, *(long + "y" for long in LONG), *("y" + long for long in LONG)]
    keys = {build_session_key(source(chat_id=identifier)) for identifier in ids}

    assert len(keys) == len(ids)


def test_a_cut_id_can_not_be_imitated_by_a_short_one() -> None:
    cut = build_session_key(source(chat_id="x" * 3000)).rpartition(":")[2]

    assert build_session_key(source(chat_id=cut)) != build_session_key(source(chat_id="x" * 3000))


def test_an_id_of_200_bytes_is_shown_whole_and_one_more_is_cut() -> None:
    assert build_session_key(source(chat_id="x" * 200)).endswith(":" + "x" * 200)
    assert "~" in build_session_key(source(chat_id="x" * 201))


@settings(max_examples=300)
@given(
    one=st.tuples(st.sampled_from(["a", "a-a"]), colliding, colliding),
    other=st.tuples(st.sampled_from(["a", "a-a"]), colliding, colliding),
)
def test_an_id_with_its_platform_and_account_is_unique(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (qualified_id(*one) == qualified_id(*other)) == (one == other)

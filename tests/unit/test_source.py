from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.errors import InvalidRequest, InvalidSource
from threadline.model.source import CHAT_TYPES, SessionSource, is_platform_slug
from threadline.store.rows import source_of as stored_source


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({"platform": "local", "chat_id": "cli", "user_name": "Ada"}, "CLI terminal"),
        ({"user_name": "Ada", "user_id": "7"}, "DM with Ada"),
        ({"user_id": "7", "chat_id": "42"}, "DM with 7"),
        ({"user_id": "7", "user_id_alt": "acc"}, "DM with acc"),
        ({"chat_id": "42"}, "DM with 42"),
        ({}, "DM with user"),
        ({"chat_type": "group", "chat_name": "Engines", "chat_id": "42"}, "group: Engines"),
        ({"chat_type": "group", "chat_id": "42"}, "group: 42"),
        ({"chat_type": "channel", "chat_name": "news"}, "channel: news"),
        ({"chat_type": "thread", "chat_name": "Plans"}, "Plans"),
        ({"chat_type": "thread", "chat_id": "42", "thread_id": "9"}, "42, thread: 9"),
        ({"chat_type": "group", "chat_name": "Engines", "thread_id": 9}, "group: Engines, thread: 9"),
        ({"user_name": "Ada", "thread_id": "9"}, "DM with Ada, thread: 9"),
    ],
)
def test_a_place_is_described_as_a_person_would_and_ids_stand_in_for_names(
    fields: dict[str, Any], description: str
) -> None:
    assert SessionSource(**({"platform": "telegram"} | fields)).description == description


def test_the_terminal_of_this_machine() -> None:
    terminal = SessionSource.local_cli()

    assert (terminal.platform, terminal.chat_type, terminal.description) == ("local", "dm", "CLI terminal")
    assert SessionSource.from_dict(terminal.to_dict()) == terminal


def test_numbers_become_text_in_every_id() -> None:
    numbers: dict[str, Any] = {
        "chat_id": -1001234567890,
        "thread_id": 0,
        "user_id": 7,
        "user_id_alt": 8,
        "chat_id_alt": 9,
    }
    texts: dict[str, Any] = {name: str(number) for name, number in numbers.items()}

    assert SessionSource(platform="telegram", **numbers) == SessionSource(platform="telegram", **texts)
    assert SessionSource.from_dict({"platform": "telegram"} | numbers).to_dict().items() >= texts.items()


def test_the_sender_is_the_id_that_is_never_reassigned_where_there_is_one() -> None:
    assert SessionSource(platform="signal", user_id="+49", user_id_alt="acc").sender == "acc"
    assert SessionSource(platform="signal", user_id="+49", user_id_alt="").sender == "+49"
    assert SessionSource(platform="signal", user_id="").sender is None


def test_the_dict_always_has_the_base_fields_and_other_ids_only_where_they_are_known() -> None:
    source = SessionSource(platform="telegram", chat_id="42")
    base = {
        "platform": "telegram",
        "account": "main",
        "chat_id": "42",
        "chat_name": None,
        "chat_type": "dm",
        "user_id": None,
        "user_name": None,
        "thread_id": None,
        "chat_topic": None,
    }
    others: dict[str, Any] = {"user_id_alt": "acc", "chat_id_alt": "g", "user_handle": "@ada"}

    assert list(source.to_dict().items()) == list(base.items())
    assert SessionSource(platform="telegram", chat_id="42", **others).to_dict() == base | others


BASE_FIELDS = set(SessionSource.__struct_fields__) - {"user_id_alt", "chat_id_alt", "user_handle"}
texts = st.none() | st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=10)
sources = st.builds(
    SessionSource,
    platform=st.sampled_from(["telegram", "x", "my_plug-in2"]),
    account=st.text(min_size=1, max_size=5),
    chat_type=st.sampled_from(sorted(CHAT_TYPES)),
    **{name: texts for name in SessionSource.__struct_fields__ if name not in ("platform", "account", "chat_type")},
)


@settings(max_examples=100)
@given(source=sources)
def test_a_source_comes_back_from_its_dict_also_through_json(source: SessionSource) -> None:
    plain = source.to_dict()

    assert {name for name, value in plain.items() if value is None} <= BASE_FIELDS
    assert SessionSource.from_dict(plain) == source
    through_json = SessionSource.from_dict(json.loads(json.dumps(plain)))
    assert json.dumps(through_json.to_dict()) == json.dumps(plain)


def test_a_dict_of_a_later_version_is_read_without_what_is_unknown() -> None:
    raw = {"platform": "carrier-pigeon", "chat_id": "42", "wingspan": 3, "user_name": None, "account": None}

    assert SessionSource.from_dict(raw) == SessionSource(platform="carrier-pigeon", chat_id="42")


@pytest.mark.parametrize(
    "wrong",
    [
        {"platform": "Telegram"},
        {"platform": ""},
        {"platform": "tele gram"},
        {"platform": "telegram\n"},
        {"platform": "9gag"},
        {"platform": "télégram"},
        {"platform": 7},
        {"platform": ["telegram"]},
        {"chat_type": "groups"},
        {"chat_type": ""},
        {"chat_type": ["dm"]},
        {"account": ""},
        {"account": 7},
        {"chat_id": 4.5},
        {"chat_id": True},
        {"user_id": ["7"]},
        {"thread_id": {"id": 7}},
        {"user_id_alt": b"7"},
    ],
)
def test_what_can_not_be_a_source_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSource):
        SessionSource(**({"platform": "telegram"} | wrong))
    with pytest.raises(InvalidSource):
        SessionSource.from_dict({"platform": "telegram"} | wrong)


def test_a_dict_without_a_platform_or_with_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSource, match="platform"):
        SessionSource.from_dict({"chat_id": "42"})
    with pytest.raises(InvalidSource, match="chat_name must be text"):
        SessionSource.from_dict({"platform": "telegram", "chat_name": 42})


def test_what_is_refused_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="no platform"):
        SessionSource(platform="Telegram")
    assert issubclass(InvalidRequest, ValueError)
    # A stored source that can't be right is still told as what it is.
    with pytest.raises(InvalidSource, match="chat type"):
        stored_source('{"platform":"telegram","chat_type":"forum"}')


def test_the_list_of_platforms_is_open() -> None:
    assert all(is_platform_slug(slug) for slug in ["local", "telegram", "acp", "x", "my_plug-in2"])
    assert not any(is_platform_slug(text) for text in ["", "X", "-x", "a:b", "a@b", "a%b", None, 1])

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.errors import InvalidRequest
from threadline.model.session import SessionEntry, checked_runtime
from threadline.model.source import SessionSource

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "last_prompt_tokens",
    "cost_micros",
    "message_count",
)


def entry(**fields: Any) -> SessionEntry:
    basics: dict[str, Any] = {
        "session_key": "agent:main:telegram:dm:42",
        "session_id": "20260601_120000_0123456789ab",
        "created_at": NOON,
        "updated_at": NOON,
        "active_at": NOON,
        "origin": SessionSource(platform="telegram", chat_id="42", user_id="7"),
        "platform": "telegram",
        "chat_type": "dm",
    }
    return SessionEntry(**(basics | fields))


moments = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
texts = st.none() | st.text(max_size=8)
counts = st.integers(0, 2**62)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
entries = st.builds(
    entry,
    created_at=moments,
    updated_at=moments,
    active_at=moments,
    ended_at=st.none() | moments,
    origin=st.builds(SessionSource, platform=st.sampled_from(["telegram", "x9"]), chat_id=texts, user_handle=texts),
    platform=st.sampled_from(["telegram", "x9"]),
    title=texts,
    display_name=texts,
    cost_status=st.sampled_from(["unknown", "estimated", "actual", "included"]),
    was_auto_reset=st.booleans(),
    auto_reset_reason=st.sampled_from([None, "idle", "daily"]),
    memory_flushed=st.booleans(),
    runtime=st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    end_reason=texts,
    owner=texts,
    is_shared=st.booleans(),
    **dict.fromkeys(COUNTERS, counts),
)


@settings(max_examples=150)
@given(session=entries)
def test_an_entry_comes_back_from_its_dict_also_through_json(session: SessionEntry) -> None:
    plain = session.to_dict()

    assert SessionEntry.from_dict(plain) == session
    assert SessionEntry.from_dict(json.loads(json.dumps(plain))) == session


def test_the_dict_tells_the_sums_too() -> None:
    session = entry(
        input_tokens=1, output_tokens=20, cache_read_tokens=300, cache_write_tokens=4000, cost_micros=250_000
    )
    plain = session.to_dict()

    assert (plain["total_tokens"], plain["estimated_cost_usd"]) == (4321, 0.25)
    assert (session.total_tokens, session.estimated_cost_usd) == (4321, 0.25)


def test_times_come_back_aware_to_the_microsecond() -> None:
    moment = NOON + timedelta(microseconds=1)
    back = SessionEntry.from_dict(entry(active_at=moment).to_dict())

    assert back.active_at == moment
    assert back.active_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("broken", [None, "many", 1.5, True, [], {}])
def test_a_missing_or_broken_number_counts_as_nothing(broken: Any) -> None:
    raw = entry(**dict.fromkeys(COUNTERS, 5)).to_dict()

    assert SessionEntry.from_dict(raw | dict.fromkeys(COUNTERS, broken)) == entry()
    assert SessionEntry.from_dict({name: raw[name] for name in raw if name not in COUNTERS}) == entry()


def test_unknown_fields_platforms_and_cost_states_pass() -> None:
    raw = entry().to_dict() | {
        "platform": "carrier-pigeon",
        "mood": "good",
        "origin": {"platform": "owl-post"},
    }

    for status in ("guessed", ["actual"], None):
        session = SessionEntry.from_dict(raw | {"cost_status": status})
        assert (session.platform, session.origin.platform) == ("carrier-pigeon", "owl-post")
        assert session.cost_status == "unknown"


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_id": None},
        {"session_id": 7},
        {"session_key": None},
        {"created_at": None},
        {"updated_at": None},
        {"created_at": "yesterday"},
        {"active_at": "yesterday"},
        {"ended_at": 20260601},
        {"origin": "telegram"},
        {"origin": {"platform": "telegram", "chat_type": []}},
        {"auto_reset_reason": "boredom"},
        {"runtime": "fast"},
    ],
)
def test_what_can_not_be_a_session_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        SessionEntry.from_dict(entry().to_dict() | wrong)


# --- Entries of older versions --------------------------------------------------------------------

OLDEST = {
    "session_key": "agent:main:telegram:dm:42",
    "session_id": "20260601_120000_0123456789ab",
    "created_at": "2026-06-01T12:00:00",
    "updated_at": "2026-12-01T12:00:00.000001",
}


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_four_fields_are_enough_and_times_without_a_zone_are_local() -> None:
    session = SessionEntry.from_dict(OLDEST)

    assert session.created_at == datetime(2026, 6, 1, 10, tzinfo=UTC)
    assert session.updated_at == session.active_at == datetime(2026, 12, 1, 11, 0, 0, 1, tzinfo=UTC)
    assert {moment.tzinfo for moment in (session.created_at, session.updated_at, session.active_at)} == {UTC}
    assert session.origin == SessionSource(platform="telegram")
    assert (session.platform, session.chat_type, session.total_tokens) == ("telegram", "dm", 0)
    assert SessionEntry.from_dict(session.to_dict()) == session


@pytest.mark.usefixtures("in_berlin")
def test_a_time_with_a_zone_is_taken_at_its_word() -> None:
    session = SessionEntry.from_dict(OLDEST | {"updated_at": "2026-12-01T12:00:00-05:00", "ended_at": NOON})

    assert (session.updated_at, session.ended_at) == (datetime(2026, 12, 1, 17, tzinfo=UTC), NOON)
    assert session.updated_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("fields", "origin", "platform", "chat_type"),
    [
        (
            {"platform": "discord", "chat_type": "group"},
            {"platform": "discord", "chat_type": "group"},
            "discord",
            "group",
        ),
        (
            {"session_key": "agent:main:signal@a%3Ab:channel:9"},
            {"platform": "signal", "account": "a:b", "chat_type": "channel"},
            "signal",
            "channel",
        ),
        ({"session_key": "agent:main:telegram:dm"}, {"platform": "telegram"}, "telegram", "dm"),
        ({"session_key": "mine"}, {"platform": "unknown"}, "unknown", "dm"),
        ({"session_key": "mine", "platform": None}, {"platform": "unknown"}, "unknown", "dm"),
        ({"chat_type": []}, {"platform": "telegram"}, "telegram", "dm"),
        ({"platform": "No Slug"}, {"platform": "unknown"}, "unknown", "dm"),
        ({"platform": 7, "chat_type": "forum"}, {"platform": "unknown"}, "unknown", "forum"),
        (
            {"platform": "No Slug", "origin": {"platform": "No Slug", "chat_id": 42}},
            {"platform": "unknown", "chat_id": "42"},
            "unknown",
            "dm",
        ),
        (
            {"origin": {"platform": "slack", "chat_type": "channel"}},
            {"platform": "slack", "chat_type": "channel"},
            "slack",
            "channel",
        ),
    ],
)
def test_what_an_entry_leaves_open_about_its_place_is_told_by_the_rest(
    fields: dict[str, Any], origin: dict[str, Any], platform: str, chat_type: str
) -> None:
    session = SessionEntry.from_dict(OLDEST | fields)

    assert session.origin == SessionSource(**origin)
    assert (session.platform, session.chat_type) == (platform, chat_type)


@pytest.mark.parametrize("name", OLDEST)
def test_an_entry_without_one_of_the_four_says_which(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is missing"):
        SessionEntry.from_dict(OLDEST | {name: None})


# --- What a runtime may hold ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "API-KEY",
        "apiKey",
        "x-api-key",
        "openai.api.key",
        "access_token",
        "token",
        "tokens",
        "client_secret",
        "Password",
        "db_passwd",
        "passphrase",
        "aws_access_key_id",
        "private-key",
        "credentials",
        "Authorization",
    ],
)
def test_a_value_named_like_a_secret_is_refused_at_any_depth(name: str) -> None:
    hidden: list[dict[str, Any]] = [
        {name: "s3cret"},
        {"options": {"deep": {name: "s3cret"}}},
        {"options": [{"a": 1}, {name: "s3cret"}]},
        {"options": [[({name: None},)]]},
        {name: {"any": "thing"}},
    ]
    for runtime in hidden:
        with pytest.raises(InvalidRequest, match="looks like a secret") as refusal:
            checked_runtime(runtime)
        assert "s3cret" not in str(refusal.value)


def test_what_names_no_secret_passes_as_it_is() -> None:
    runtime = {
        "provider": "openrouter",
        "base_url": "https://example.org/v1",
        "api_mode": "responses",
        "mode": "plan",
        "max_tokens": 4096,
        "options": [{"id": "effort", "value": "high"}, ["token"], "password"],
        "limits": {"output-tokens": 10.5},
    }

    assert checked_runtime(runtime) is runtime

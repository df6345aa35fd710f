from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import json
import math
import types
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from threadline.errors import InvalidMessage
from threadline.model.message import (
    MAX_BYTES,
    MAX_DEPTH,
    REMOVED,
    EncodedMessage,
    LazyMessages,
    content_digest,
    decode_body,
    encode_message,
    encode_messages,
    searchable_text,
    tombstone,
)


def as_json(value: object) -> str:
    """Tells apart all that JSON tells apart: key order, 1 and 1.0, 0.0 and -0.0, true and 1."""
    return json.dumps(value)


def round_trip(message: dict[str, Any]) -> dict[str, Any]:
    return decode_body(encode_message(message).body)


# --- What comes back ------------------------------------------------------------------------------

any_text = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
messages = st.dictionaries(any_text, json_values, max_size=5).flatmap(
    lambda fields: st.permutations([*(fields | {"role": "user"}).items()]).map(dict)
)


@settings(max_examples=200)
@given(message=messages)
@example({"content": "\x00\ud800 \udfff", "role": "user", "\ud83d": 2**64})
@example({"role": "user", "n": [-0.0, 1.0, 1, True, 1e16, 5e-324, 1.7976931348623157e308, -(2**63) - 1]})
@example({"role": "user", "content": "", "": {"": [[], {}]}})
def test_any_json_comes_back_to_the_letter_with_its_keys_in_order(message: dict[str, Any]) -> None:
    encoded = encode_message(message)

    assert as_json(decode_body(encoded.body)) == as_json(message)
    assert encoded.role == "user"
    assert encoded.body.encode()


def test_every_field_that_agents_use_comes_back() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning": "hm",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "x"}],
        "codex_reasoning_items": [{"id": "rs_1", "encrypted_content": "…"}],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}],
    }

    assert as_json(round_trip(message)) == as_json(message)


class Loud(str):
    __slots__ = ()


class Big(int):
    pass


class Exact(float):
    pass


class Colour(enum.StrEnum):
    RED = "red"


def test_other_kinds_of_text_numbers_and_mappings_are_kept_as_what_they_are_in_json() -> None:
    message = types.MappingProxyType(
        {
            Loud("role"): Loud("user"),
            "content": [Loud("hi"), Big(7), Exact(0.5), Colour.RED, (1, 2)],
            "more": collections.UserDict({"a": types.MappingProxyType({"b": 1})}),
        }
    )
    expected = {"role": "user", "content": ["hi", 7, 0.5, "red", [1, 2]], "more": {"a": {"b": 1}}}

    encoded = encode_message(message)
    assert decode_body(encoded.body) == expected
    assert type(encoded.role) is str
    with_half_a_pair = encode_message(message | {"half": "\ud800"})
    assert decode_body(with_half_a_pair.body) == expected | {"half": "\ud800"}


def nested(levels: int, core: object) -> object:
    for level in range(levels):
        core = [core] if level % 2 else {"in": core}
    return core


@pytest.mark.parametrize("core", ["x", "\ud800", 1, 1.5, None, True])
def test_200_levels_work_and_one_more_is_too_deep(core: object) -> None:
    deepest = {"role": "user", "content": nested(MAX_DEPTH - 1, core)}

    assert as_json(round_trip(deepest)) == as_json(deepest)
    with pytest.raises(InvalidMessage, match="200 levels"):
        encode_message({"role": "user", "content": nested(MAX_DEPTH, core)})


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_32_megabytes_work_and_one_more_byte_is_too_big(character: str) -> None:
    room = MAX_BYTES - len(encode_message({"role": "user", "content": ""}).body)
    fill = character * (room // len(character.encode()))
    fill += "x" * (room - len(fill.encode()))

    assert len(encode_message({"role": "user", "content": fill}).body.encode()) == MAX_BYTES
    with pytest.raises(InvalidMessage, match="32 MB"):
        encode_message({"role": "user", "content": fill + "x"})


# --- What is refused ------------------------------------------------------------------------------

SELF_CONTAINING: list[Any] = []
SELF_CONTAINING.append(SELF_CONTAINING)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        {1, 2},
        frozenset(),
        dt.datetime(2026, 6, 1, tzinfo=dt.UTC),
        dt.date(2026, 6, 1),
        b"bytes",
        bytearray(b"bytes"),
        decimal.Decimal("1.5"),
        1j,
        object(),
        EncodedMessage("user", "{}"),
        {1: "a"},
        {None: "a"},
        {b"a": "a"},
        {("a",): "a"},
        SELF_CONTAINING,
        10**5000,
        -(10**5000),
        [10**5000, "\ud800"],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_can_not_give_back_is_refused_at_any_depth(value: object) -> None:
    for content in (value, [value], {"deep": [{"deeper": value}]}):
        with pytest.raises(InvalidMessage):
            encode_message({"role": "user", "content": content})


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": "hi"},
        {"role": None},
        {"role": 7},
        {"role": ""},
        {"role": "us\ner"},
        {"role": "\ud800"},
        {"role": "x" * 65},
        {"role": ["user"]},
        {"role": "user", 7: "a"},
        ["role", "user"],
        "user",
        b"user",
        None,
        7,
    ],
)
def test_what_is_no_message_with_a_role_is_refused(message: Any) -> None:
    with pytest.raises(InvalidMessage):
        encode_message(message)
    with pytest.raises(InvalidMessage):
        encode_messages([{"role": "user"}, message])


@pytest.mark.parametrize("wrong", ["user", b"user", None, 7])
def test_several_messages_are_a_sequence_of_messages(wrong: Any) -> None:
    with pytest.raises(InvalidMessage):
        encode_messages(wrong)


def test_one_message_or_several_are_encoded_alike() -> None:
    message = {"role": "user", "content": "hi"}

    assert encode_messages(message) == encode_messages([message]) == [encode_message(message)]
    assert encode_messages([]) == []


# --- Digests --------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    one=st.lists(st.text("ab:1", max_size=4), max_size=4),
    other=st.lists(st.text("ab:1", max_size=4), max_size=4),
)
@example(["a", "b"], ["ab"])
@example(["1:a"], ["1", "a"])
@example([], [""])
def test_digests_are_equal_exactly_where_the_messages_are(one: list[str], other: list[str]) -> None:
    digests = [content_digest([EncodedMessage("user", body) for body in bodies]) for bodies in (one, other)]

    assert (digests[0] == digests[1]) == (one == other)


def test_digests_tell_roles_texts_order_and_number_apart() -> None:
    hi, by, said = {"role": "user", "content": "hi"}, {"role": "user", "content": "by"}, {"role": "assistant"}
    several: list[list[dict[str, Any]]] = [
        [hi],
        [by],
        [hi, by],
        [by, hi],
        [hi, hi],
        [said | {"content": "hi"}],
        [],
    ]

    assert len({content_digest(encode_messages(batch)) for batch in several}) == len(several)
    assert content_digest(encode_messages([hi, by])) == content_digest(encode_messages([dict(hi), dict(by)]))


# --- What is left of a redacted message -----------------------------------------------------------


def test_a_tombstone_keeps_the_role_and_what_ties_calls_to_results() -> None:
    call = {
        "role": "assistant",
        "content": "my words",
        "name": "my words",
        "reasoning": "my words",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "index": "my words",
                "function": {"name": "look", "arguments": '{"for": "my words"}', "extra": "my words"},
            },
            {"id": {"not": "my words"}, "function": {"name": ["my words"], "arguments": "my words"}},
            "my words",
        ],
    }
    result = {"role": "tool", "tool_call_id": "c1", "tool_name": "look", "content": [{"text": "my words"}]}

    left_of_call, left_of_result = (
        tombstone(encode_message(call).body),
        tombstone(encode_message(result).body),
    )

    assert decode_body(left_of_call.body) == {
        "role": "assistant",
        "content": REMOVED,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"function": {"name": "", "arguments": "{}"}},
        ],
    }
    assert decode_body(left_of_result.body) == {"role": "tool", "content": REMOVED, "tool_call_id": "c1"}
    assert (left_of_call.role, left_of_result.role) == ("assistant", "tool")


@settings(max_examples=80)
@given(message=messages)
def test_a_tombstone_can_be_made_of_any_message_and_of_a_tombstone(message: dict[str, Any]) -> None:
    left = tombstone(encode_message(message).body)

    assert decode_body(left.body)["content"] == REMOVED
    assert tombstone(left.body) == left


# --- What a search finds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "hello"}, "hello"),
        ({"content": None}, ""),
        ({}, ""),
        (
            {"content": ["one", {"type": "text", "text": "two"}, {"content": "three"}, 4, None]},
            "one\ntwo\nthree",
        ),
        ({"content": [{"type": "image_url", "image_url": {"url": "data:…"}}]}, ""),
        (
            {
                "content": "see",
                "tool_calls": [
                    {"function": {"name": "look", "arguments": '{"at":"sky"}'}},
                    {"function": 3},
                    4,
                ],
            },
            'see\nlook\n{"at":"sky"}',
        ),
        ({"content": "said", "reasoning": "thought", "reasoning_details": [{"text": "thought"}]}, "said"),
        ({"content": {"text": "odd"}, "tool_calls": "odd"}, ""),
    ],
)
def test_a_search_finds_texts_blocks_and_tool_calls_but_no_thoughts(message: dict[str, Any], text: str) -> None:
    assert searchable_text({"role": "assistant"} | message) == text


@settings(max_examples=80)
@given(message=messages)
def test_any_message_has_searchable_text(message: dict[str, Any]) -> None:
    assert isinstance(searchable_text(message), str)


# --- Messages that are read when somebody looks -----------------------------------------------------------------------


@settings(max_examples=80)
@given(told=st.lists(messages, max_size=5))
def test_stored_messages_are_a_sequence_of_what_was_stored(told: list[dict[str, Any]]) -> None:
    stored = LazyMessages([encode_message(message).body for message in told])
    assert len(stored) == len(told)
    assert stored == told
    assert stored == tuple(told)
    assert stored != [*told, {}]
    assert list(stored) == list(reversed(list(reversed(stored)))) == told
    assert list(stored[1:3]) == told[1:3]
    assert [stored[place] for place in range(-len(told), len(told))] == told * 2
    assert repr(stored) == repr(tuple(told))


def test_stored_messages_are_read_only_when_somebody_looks_and_once() -> None:
    stored = LazyMessages(["no JSON", '{"role":"user"}'])
    assert len(stored) == 2
    assert stored
    with pytest.raises(ValueError, match="Expecting value"):
        list(stored)
    assert stored[1:] == [{"role": "user"}]
    good = LazyMessages(['{"role":"user"}'])
    assert good[0] is good[0]

"""Labels, ids of events and what a list tells: without a store, without a network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.model.client_sources import parse_web_chat_id, web_chat_id
from threadline.model.message import encode_message
from threadline.ports.agent import Text, Thought, ToolCall
from threadline.store.text import preview_of_event, preview_of_message
from threadline.web.conversation_state import LiveTurn
from threadline.web.frames import Place, encoded, frame, read_place
from threadline.web.shapes import Conversation
from threadline.web.subscribers import changes

_NOW = datetime(2026, 11, 16, tzinfo=UTC)


@given(st.text(), st.integers(0, 900))
def test_first_words_are_read_from_any_beginning_of_a_message(text: str, cut: int) -> None:
    body = encode_message({"role": "user", "content": text}).body
    words = preview_of_message(body[:cut])
    assert len(words) <= 80
    assert "\n" not in words
    if cut >= len(body) and len(" ".join(text.split())) <= 80:
        assert words == " ".join(text.encode("utf-8", "ignore").decode().split())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user", "content": "a\n b  c"}, "a b c"),
        ({"role": "user", "content": [{"type": "text", "text": 'say "hi"'}]}, 'say "hi"'),
        ({"role": "user", "content": None}, ""),
        ({"role": "user", "content": "x" * 1_000}, "x" * 79 + "…"),
    ],
)
def test_first_words_are_one_short_line(message: dict[str, object], words: str) -> None:
    assert preview_of_message(encode_message(message).body[:800]) == words


def test_first_words_of_what_came_in_are_its_text() -> None:
    assert preview_of_event('{"dedupe_key":"a","source":{"chat_id":"text"},"text":"hello"}') == "hello"
    assert preview_of_event("") == ""


@given(
    st.builds(
        Place,
        mark=st.text("0123456789abcdef", min_size=12, max_size=12),
        seq=st.integers(0, 10**8),
        told=st.integers(0, 10**17),
        turn_id=st.sampled_from(["", "t20261116", "x"]),
        attempt=st.integers(0, 10**6),
        upto=st.integers(0, 10**9),
    )
)
def test_an_id_names_the_place_that_it_was_made_from(place: Place) -> None:
    expected = place if place.turn_id else msgspec.structs.replace(place, attempt=0, upto=0)
    assert read_place(str(place)) == expected


@given(st.text())
def test_whatever_else_is_no_place(text: str) -> None:
    place = read_place(text)
    assert place is None or str(place) == text


def test_half_a_surrogate_pair_is_told_as_an_escape() -> None:
    assert encoded(Text("\ud800")) == b'{"type":"text","text":"\\ud800"}'
    told = frame("live", Text("a\nb"), "1")
    assert told == b'id: 1\nevent: live\ndata: {"type":"text","text":"a\\nb"}\n\n'


def test_a_turn_is_told_piece_by_piece_and_each_once() -> None:
    turn = LiveTurn("t", 1)
    assert turn.add(0, 2, [Text("a"), Text("b")]) is not None
    assert turn.add(0, 2, [Text("a"), Text("b")]) is None
    assert turn.add(1, 3, [Text("b"), Text("c")]) is None, "a piece is told whole or not at all"
    assert turn.add(2, 4, [Thought("hm"), ToolCall("c", "look")]) is not None
    assert turn.upto == 4
    whole = [msgspec.json.decode(event) for event in turn.since(0)]
    assert [event["type"] for event in whole] == ["text", "thought", "tool_call"]
    assert whole[0]["text"] == "ab"
    assert len(turn.since(2)) == 2
    assert turn.since(4) == []


def _row(key: str, minutes: int, title: str | None = None) -> Conversation:
    at = _NOW + timedelta(minutes=minutes)
    return Conversation(id=f"id-{key}", session_id=key, title=title, label="", updated_at=at, ended=False, busy=False)


def test_a_list_tells_what_changed_and_what_is_gone_but_not_what_only_sank() -> None:
    before = {row.session_id: row for row in (_row("a", 3), _row("b", 2), _row("c", 1))}
    after = {row.session_id: row for row in (_row("d", 5), _row("a", 4, "new"))}
    told = b"".join(changes(before, after, is_all=False))
    assert told.count(b"event: conversation") == 2
    assert b"gone" not in told
    assert b"".join(changes(before, {"a": before["a"], "c": before["c"]}, is_all=False)).count(b"event: gone") == 1
    assert b"".join(changes(before, {}, is_all=True)).count(b"event: gone") == 3
    assert changes(before, before, is_all=True) == []
    assert len(changes(before, before, is_all=True, is_whole=True)) == 3


def test_a_chat_id_tells_whose_it_is_and_nothing_else_is_one() -> None:
    assert parse_web_chat_id(web_chat_id("owner", "conversation-1")) == ("owner", "conversation-1")
    for other in (None, "", "owner", "owner.short", "owner.a.conversation", ".conversation-1", "owner.conversation 1"):
        assert parse_web_chat_id(other) is None

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
from threadline.web.conversation_state import RunningTurn
from threadline.web.frames import FeedCursor, encode_json, frame, parse_cursor
from threadline.web.shapes import Conversation
from threadline.web.subscribers import list_changes

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
        FeedCursor,
        view_mark=st.text("0123456789abcdef", min_size=12, max_size=12),
        seq=st.integers(0, 10**8),
        last_notice_at=st.integers(0, 10**17),
        turn_id=st.sampled_from(["", "t20261116", "x"]),
        attempt=st.integers(0, 10**6),
        last_event=st.integers(0, 10**9),
    )
)
def test_an_id_names_the_place_that_it_was_made_from(place: FeedCursor) -> None:
    expected = place if place.turn_id else msgspec.structs.replace(place, attempt=0, last_event=0)
    assert parse_cursor(str(place)) == expected


@given(st.text())
def test_whatever_else_is_no_place(text: str) -> None:
    place = parse_cursor(text)
    assert place is None or str(place) == text


def test_half_a_surrogate_pair_is_told_as_an_escape() -> None:
    assert encode_json(Text("\ud800")) == b'{"type":"text","text":"\\ud800"}'
    told = frame("live", Text("a\nb"), "1")
    assert told == b'id: 1\nevent: live\ndata: {"type":"text","text":"a\\nb"}\n\n'


def test_a_turn_is_told_piece_by_piece_and_each_once() -> None:
    turn = RunningTurn("t", 1)
    assert turn.add(0, 2, [Text("a"), Text("b")]) is not None
    assert turn.add(0, 2, [Text("a"), Text("b")]) is None
    assert turn.add(1, 3, [Text("b"), Text("c")]) is None, "a piece is told whole or not at all"
    assert turn.add(2, 4, [Thought("hm"), ToolCall("c", "look")]) is not None
    assert turn.last_event == 4
    whole = [msgspec.json.decode(event) for event in turn.events_after(0)]
    assert [event["type"] for event in whole] == ["text", "thought", "tool_call"]
    assert whole[0]["text"] == "ab"
    assert len(turn.events_after(2)) == 2
    assert turn.events_after(4) == []


def _row(key: str, minutes: int, title: str | None = None) -> Conversation:
    at = _NOW + timedelta(minutes=minutes)
    return Conversation(id=f"id-{key}", session_id=key, title=title, label="", updated_at=at, ended=False, busy=False)


def test_a_list_tells_what_changed_and_what_is_gone_but_not_what_only_sank() -> None:
    before = {row.session_id: row for row in (_row("a", 3), _row("b", 2), _row("c", 1))}
    after = {row.session_id: row for row in (_row("d", 5), _row("a", 4, "new"))}
    told = b"".join(list_changes(before, after, is_all=False))
    assert told.count(b"event: conversation") == 2
    assert b"gone" not in told
    assert b"".join(list_changes(before, {"a": before["a"], "c": before["c"]}, is_all=False)).count(b"event: gone") == 1
    assert b"".join(list_changes(before, {}, is_all=True)).count(b"event: gone") == 3
    assert list_changes(before, before, is_all=True) == []
    assert len(list_changes(before, before, is_all=True, is_whole=True)) == 3


def test_a_chat_id_tells_whose_it_is_and_nothing_else_is_one() -> None:
    assert parse_web_chat_id(web_chat_id("owner", "conversation-1")) == ("owner", "conversation-1")
    for other in (None, "", "owner", "owner.short", "owner.a.conversation", ".conversation-1", "owner.conversation 1"):
        assert parse_web_chat_id(other) is None

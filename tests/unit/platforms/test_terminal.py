"""What is typed becomes an event, and what of an answer that still grows may be shown for good."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.model.address import build_session_key
from threadline.platforms.local.platform import typed_event
from threadline.platforms.local.prompt import printable_prefix


def test_a_typed_line_comes_from_this_terminal_and_from_who_sits_there() -> None:
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    event = typed_event("hi", user="ada", account="main", message_id="1", at=at)

    assert (event.text, event.kind, event.sent_at, event.message_id, event.dedupe_key) == (
        "hi",
        "message",
        at,
        "1",
        "1",
    )
    assert (event.source.platform, event.source.user_id, event.source.user_name) == ("local", "ada", "ada")
    assert event.source.description == "CLI terminal"
    assert build_session_key(event.source) == "agent:main:local:dm:cli"


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("still growing", ""),
        ("one\n\n", ""),
        ("one\n\nt", "one\n\n"),
        ("one\n \ntwo\n\nthree", "one\n \ntwo\n\n"),
        ("- item\n\n  goes on", ""),
        ("```\na\n\nb", ""),
        ("```py\na\n\nb\n```\n\nrest", "```py\na\n\nb\n```\n\n"),
        ("~~~\n```\n\nx\n\n```\n~~~\n\nrest", "~~~\n```\n\nx\n\n```\n~~~\n\n"),
        ("````\n```\n\nx", ""),
        ("```\n```py\n\nstill code", ""),
    ],
)
def test_a_block_is_complete_when_the_next_has_begun(text: str, complete: str) -> None:
    assert text[: printable_prefix(text)] == complete


@given(st.lists(st.sampled_from(["a", "\n\n", "\n", "```", "  b", "~~~", " "]), max_size=25).map("".join))
def test_growing_text_is_complete_up_to_the_same_places_however_it_comes(text: str) -> None:
    done = 0
    for end in range(len(text) + 1):
        begin, done = done, printable_prefix(text[:end], done)
        assert done >= begin
    assert done == printable_prefix(text)

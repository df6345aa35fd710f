"""Whatever a codec hands on: it can be kept, mended, or it is said why not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.model.inbound import (
    HANDLE_BYTES,
    ID_BYTES,
    NAME_CHARS,
    RAW_BYTES,
    Attachment,
    IdChange,
    Inbound,
    Quote,
    Unreadable,
    needs_no_cleaning,
    sanitized,
    sanitized_unreadable,
    size_error,
    validation_error,
)
from threadline.model.source import SessionSource

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
# Hypothesis leaves halves of surrogate pairs out unless they are asked for.
ANY_TEXT = st.text(st.one_of(st.sampled_from("\0\ud83d\ude00\ud800\x1b\u2028:%[a"), st.characters()), max_size=30)
MAYBE = st.one_of(st.none(), ANY_TEXT)
FILES = st.builds(Attachment, handle=ANY_TEXT, name=ANY_TEXT, mime=ANY_TEXT, size=st.one_of(st.none(), st.integers()))


def plain(**fields: Any) -> Inbound:
    source = SessionSource(platform="telegram", chat_id="42", user_id="7", user_name="Ada")
    values: dict[str, Any] = {"dedupe_key": "k", "message_id": "m", "source": source, "sent_at": NOW, "text": "hello"}
    return Inbound(**values | fields)


@st.composite
def events(draw: st.DrawFn) -> Inbound:
    source = SessionSource(
        platform="telegram",
        chat_id=draw(MAYBE),
        thread_id=draw(MAYBE),
        user_id=draw(MAYBE),
        user_name=draw(MAYBE),
        chat_topic=draw(MAYBE),
        user_handle=draw(MAYBE),
    )
    return plain(
        dedupe_key=draw(ANY_TEXT),
        message_id=draw(ANY_TEXT),
        source=source,
        text=draw(ANY_TEXT),
        reply_to=draw(st.one_of(st.none(), st.builds(Quote, message_id=ANY_TEXT, text=ANY_TEXT))),
        attachments=tuple(draw(st.lists(FILES, max_size=2))),
        album_id=draw(MAYBE),
        button=draw(MAYBE),
    )


@given(events())
def test_what_has_no_flaw_can_be_written_down_and_read_again(event: Inbound) -> None:
    if validation_error(event) is None:
        kept = sanitized(event)
        assert msgspec.json.decode(msgspec.json.encode(kept), type=Inbound) == kept
        assert sanitized(kept) == kept


@given(events())
def test_mending_touches_no_id(event: Inbound) -> None:
    kept = sanitized(event)
    ids = ("chat_id", "thread_id", "user_id", "user_id_alt", "chat_id_alt")
    assert [getattr(kept.source, name) for name in ids] == [getattr(event.source, name) for name in ids]
    assert (kept.dedupe_key, kept.message_id) == (event.dedupe_key, event.message_id)


def test_a_usual_event_stays_the_same_one() -> None:
    event = plain(reply_to=Quote(message_id="1", text="what?"))
    assert validation_error(event) is None
    assert size_error(event) is None
    assert sanitized(event) is event


def test_pairs_that_came_apart_are_joined() -> None:
    assert sanitized(plain(text="\ud83d\ude00 \ud83d!")).text == "😀 \ufffd!"


def test_names_are_cut() -> None:
    source = SessionSource(platform="telegram", user_name="n" * 5_000)
    assert sanitized(plain(source=source)).source.user_name == "n" * NAME_CHARS


@pytest.mark.parametrize(
    ("most", "fields"),
    [
        (ID_BYTES, {"message_id": "é"}),
        (ID_BYTES, {"dedupe_key": "é"}),
        (ID_BYTES, {"album_id": "é"}),
        (HANDLE_BYTES, {}),
    ],
)
def test_an_id_may_be_as_long_as_is_said_and_no_longer(most: int, fields: dict[str, str]) -> None:
    def of_length(count: int) -> Inbound:
        if not fields:
            return plain(attachments=(Attachment(handle="h" * count),))
        return plain(**{name: sign * (count // 2) + "x" * (count % 2) for name, sign in fields.items()})

    assert validation_error(of_length(most)) is None
    assert f"longer than {most:,} bytes" in str(validation_error(of_length(most + 1)))


@pytest.mark.parametrize(("old", "new"), [("", "2"), ("1", ""), ("1", "1"), ("1", "2\0"), ("\ud800", "2")])
def test_a_move_names_two_ids(old: str, new: str) -> None:
    moved = IdChange(platform="telegram", account="main", dedupe_key="k", what="chat", old_id=old, new_id=new)
    assert validation_error(moved) is not None
    assert validation_error(msgspec.structs.replace(moved, old_id="1", new_id="2")) is None


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_what_is_parked_can_be_kept_and_is_known_again(key: str, raw: str, reason: str) -> None:
    event = Unreadable(platform="telegram", account="main", dedupe_key=key, raw=raw, reason=reason)
    kept = sanitized_unreadable(event)
    for text in (kept.dedupe_key, kept.raw, kept.reason):
        assert "\0" not in text
        text.encode()
    assert kept.dedupe_key
    assert sanitized_unreadable(event) == kept == sanitized_unreadable(kept)


@given(ANY_TEXT, ANY_TEXT)
def test_two_without_a_key_are_one_only_where_they_say_the_same(one: str, other: str) -> None:
    keys = {
        sanitized_unreadable(Unreadable(platform="p", account="main", raw=raw, reason="")).dedupe_key
        for raw in (one, other)
    }
    assert len(keys) == len({one, other})


def test_what_is_parked_is_cut_between_signs() -> None:
    kept = sanitized_unreadable(Unreadable(platform="p", account="main", raw="x" + "é" * RAW_BYTES, reason=""))
    assert len(kept.raw.encode()) == RAW_BYTES - 1


@given(event=events(), pad=st.sampled_from("x\N{CROCODILE}"), times=st.sampled_from((0, 90, 110, 380, 401, 1_001)))
def test_what_is_plain_at_a_glance_needs_no_closer_look(event: Inbound, pad: str, times: int) -> None:
    padded = msgspec.structs.replace(event, message_id=event.message_id + pad * times)
    for one in (event, padded, msgspec.structs.replace(padded, reply_to=None, attachments=())):
        if needs_no_cleaning(one):
            assert validation_error(one) is None
            assert sanitized(one) is one


@pytest.mark.parametrize("name", [None, "Ada", "\N{CROCODILE}"])
def test_what_most_people_write_is_plain(name: str | None) -> None:
    source = SessionSource(platform="telegram", chat_id="42", user_id="7", user_name=name)
    assert needs_no_cleaning(plain(source=source, text="grüße"))

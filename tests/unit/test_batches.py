"""Which waiting messages a turn answers together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.clock import Instant
from threadline.model.inbound import Inbound
from threadline.model.source import SessionSource
from threadline.model.turn import BATCH_CHARS, PendingMessage, QueueKind, WhenBusy, next_turn_messages

BURST = 1_200_000
THEN = datetime(2026, 1, 5, tzinfo=UTC)


def waiting(
    pk: int,
    at: float = 0.0,
    *,
    person: str = "p:7",
    lane: QueueKind = "talk",
    album: str | None = None,
    text: str = "",
    sent: float = 0.0,
) -> PendingMessage:
    """A message that came `at` seconds, and was sent `sent` seconds."""
    event = Inbound(
        dedupe_key=str(pk),
        message_id=str(pk),
        source=SessionSource(platform="p"),
        sent_at=THEN + timedelta(seconds=sent),
        text=text,
        album_id=album,
    )
    return PendingMessage(pk, lane, event, person, "guest", Instant(int(at * 1_000_000)))


def batch(queue: list[PendingMessage], when_busy: WhenBusy) -> list[int]:
    return [item.pk for item in next_turn_messages(queue, when_busy, BURST)]


def test_all_that_came_is_collected() -> None:
    queue = [waiting(1), waiting(2, 60, person="p:8"), waiting(3, 3600)]
    assert batch(queue, "collect") == [1, 2, 3]
    assert batch(queue, "interrupt") == [1, 2, 3]


@pytest.mark.parametrize("when_busy", ["queue", "steer"])
def test_in_a_queue_each_message_has_a_turn(when_busy: WhenBusy) -> None:
    assert batch([waiting(1), waiting(2, 60), waiting(3, 120)], when_busy) == [1]


@pytest.mark.parametrize("when_busy", ["queue", "steer"])
def test_in_a_queue_a_burst_belongs_together_however_long_it_is(when_busy: WhenBusy) -> None:
    assert batch([waiting(1), waiting(2, 1), waiting(3, 2), waiting(4, 9)], when_busy) == [1, 2, 3]


@pytest.mark.parametrize("when_busy", ["queue", "steer"])
def test_in_a_queue_what_was_sent_apart_is_no_burst_although_it_came_at_once(when_busy: WhenBusy) -> None:
    assert batch([waiting(1), waiting(2, sent=2), waiting(3, sent=3600), waiting(4, sent=3600)], when_busy) == [1, 2]


def test_no_more_text_is_collected_than_fits_into_a_turn_and_one_message_always_does() -> None:
    half = "x" * (BATCH_CHARS // 2)
    assert batch([waiting(1, text=half), waiting(2, text=half), waiting(3, text="x")], "collect") == [1, 2]
    assert batch([waiting(1, text=half * 3), waiting(2, text="x")], "collect") == [1]


@pytest.mark.parametrize("when_busy", ["queue", "steer"])
def test_in_a_queue_an_album_belongs_together_however_slowly_it_came(when_busy: WhenBusy) -> None:
    queue = [waiting(1, album="x"), waiting(2, 60, album="x"), waiting(3, 120, album="y"), waiting(4, 180)]
    assert batch(queue, when_busy) == [1, 2]


def test_in_a_queue_nobodys_messages_are_joined_with_anothers() -> None:
    assert batch([waiting(1), waiting(2, 0.1, person="p:8")], "queue") == [1]
    assert batch([waiting(1, album="x"), waiting(2, album="x", person="p:8")], "queue") == [1]


@pytest.mark.parametrize("when_busy", ["collect", "queue", "interrupt", "steer"])
def test_a_command_goes_alone_and_nothing_jumps_over_it(when_busy: WhenBusy) -> None:
    command = waiting(2, 0.1, lane="session")
    assert batch([waiting(1), command, waiting(3, 0.2)], when_busy) == [1]
    assert batch([command, waiting(3, 0.2)], when_busy) == [2]
    assert batch([], when_busy) == []


items = st.builds(
    lambda at, person, lane, album: (at, person, lane, album),
    st.floats(0, 5),
    st.sampled_from(["p:7", "p:8"]),
    st.sampled_from(["talk", "talk", "talk", "session"]),
    st.sampled_from([None, "x"]),
)


@given(st.lists(items, max_size=8), st.sampled_from(["collect", "queue", "interrupt", "steer"]))
def test_turns_take_every_message_once_and_in_order(
    drawn: list[tuple[float, str, QueueKind, str]], mode: WhenBusy
) -> None:
    queue = [
        waiting(pk, at, person=person, lane=lane, album=album)
        for pk, (at, person, lane, album) in enumerate(sorted(drawn, key=lambda item: item[0]))
    ]
    taken: list[int] = []
    while queue:
        step = next_turn_messages(queue, mode, BURST)
        assert step
        assert len(step) == 1 or {item.lane for item in step} == {"talk"}
        taken += [item.pk for item in step]
        queue = queue[len(step) :]
    assert taken == list(range(len(drawn)))

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from threadline.testing import FakeClock

START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(START)
    assert clock.now() == clock.now() == START
    assert clock.advance(timedelta(minutes=5)) == START + timedelta(minutes=5)
    assert clock.now() == START + timedelta(minutes=5)


def test_it_can_go_back() -> None:
    clock = FakeClock(START)
    clock.set(START - timedelta(days=1))
    assert clock.now() == START - timedelta(days=1)
    assert clock.advance(timedelta(hours=-1)) == START - timedelta(days=1, hours=1)


def test_it_tells_utc_whatever_it_was_told() -> None:
    clock = FakeClock(datetime(2026, 3, 1, 9, 0, tzinfo=timezone(timedelta(hours=1))))
    assert clock.now() == START
    assert clock.now().tzinfo is UTC


def test_a_time_without_a_zone_is_refused() -> None:
    naive = START.replace(tzinfo=None)
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(naive)
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(START).set(naive)


def test_no_step_is_lost_between_threads() -> None:
    clock = FakeClock(START)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(clock.advance, [timedelta(seconds=1)] * 400))
    assert clock.now() == START + timedelta(seconds=400)

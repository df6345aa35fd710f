"""Time zones as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from threadline.model.policy import find_zone, local_time, suggest_zone, zone_names


@pytest.mark.parametrize(
    ("typed", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("  europe/BERLIN ", "Europe/Berlin"),
        ("america/new york", "America/New_York"),
        ("utc", "UTC"),
        ("Berlin", None),
        ("Europe/Berln", None),
        ("", None),
        ("UTC" + " " * 100 + "x", None),
        ("../etc/passwd", None),
        ("\ud800\x00", None),
    ],
)
def test_a_zone_is_found_in_any_case_and_with_spaces(typed: str, zone: str | None) -> None:
    assert find_zone(typed) == zone


def test_every_zone_is_found_by_its_name() -> None:
    assert [find_zone(name) for name in sorted(zone_names())] == sorted(zone_names())


@pytest.mark.parametrize(
    ("typed", "zone"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("toky", "Asia/Tokyo"),
        ("Europe/Kyiw", "Europe/Kyiv"),
        ("xyzzy", None),
        ("", None),
        ("x" * 100_000, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_misspelt_zone_or_a_city_gets_a_hint(typed: str, zone: str | None) -> None:
    assert suggest_zone(typed) == zone


def test_clocks_show_the_time_of_their_zone() -> None:
    now = datetime(2026, 7, 1, 22, 5, tzinfo=UTC)
    assert [local_time(zone, now) for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata")] == ["22:05", "00:05", "03:35"]

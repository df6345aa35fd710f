from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.errors import InvalidRequest
from threadline.model.policy import (
    ResetPolicies,
    SessionResetPolicy,
    checked_zone,
    last_boundary,
    next_expiry,
    resolve_zone,
    stale_reason,
)

MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# --- Boundaries: published clock changes, written down by hand ------------------------------------

CLOCK_CHANGES = [
    # zone, at_hour, now (UTC), the last boundary (UTC)
    # Berlin, 2026-03-29: 2:00 becomes 3:00 at 01:00 UTC.
    ("Europe/Berlin", 2, "2026-03-29T00:59:59.999999", "2026-03-28T01:00"),
    ("Europe/Berlin", 2, "2026-03-29T01:00", "2026-03-29T01:00"),
    ("Europe/Berlin", 3, "2026-03-29T12:00", "2026-03-29T01:00"),
    ("Europe/Berlin", 4, "2026-03-29T01:59", "2026-03-28T03:00"),
    ("Europe/Berlin", 4, "2026-03-29T02:00", "2026-03-29T02:00"),
    # Berlin, 2026-10-25: 3:00 becomes 2:00 at 01:00 UTC.
    ("Europe/Berlin", 2, "2026-10-25T00:00", "2026-10-25T00:00"),
    ("Europe/Berlin", 2, "2026-10-25T01:30", "2026-10-25T00:00"),
    ("Europe/Berlin", 3, "2026-10-25T01:30", "2026-10-24T01:00"),
    ("Europe/Berlin", 3, "2026-10-25T02:00", "2026-10-25T02:00"),
    # New York, 2026-03-08 and 2026-11-01, both at 2:00.
    ("America/New_York", 2, "2026-03-08T06:59", "2026-03-07T07:00"),
    ("America/New_York", 2, "2026-03-08T18:00", "2026-03-08T07:00"),
    ("America/New_York", 1, "2026-11-01T06:30", "2026-11-01T05:00"),
    # Lord Howe changes by 30 minutes: on at 2:00 (+10:30), off at 2:00 (+11).
    ("Australia/Lord_Howe", 2, "2026-10-03T15:29", "2026-10-02T15:30"),
    ("Australia/Lord_Howe", 2, "2026-10-03T15:30", "2026-10-03T15:30"),
    ("Australia/Lord_Howe", 3, "2026-10-03T16:00", "2026-10-03T16:00"),
    ("Australia/Lord_Howe", 1, "2026-04-04T15:15", "2026-04-04T14:00"),
    ("Australia/Lord_Howe", 2, "2026-04-04T15:29", "2026-04-03T15:00"),
    ("Australia/Lord_Howe", 2, "2026-04-04T15:30", "2026-04-04T15:30"),
    # Samoa had no 2011-12-30: at 10:00 UTC the 29th gave way to the 31st. The 30th begins with that instant.
    ("Pacific/Apia", 4, "2011-12-30T09:59", "2011-12-29T14:00"),
    ("Pacific/Apia", 4, "2011-12-30T10:00", "2011-12-30T10:00"),
    ("Pacific/Apia", 4, "2011-12-30T13:59", "2011-12-30T10:00"),
    ("Pacific/Apia", 4, "2011-12-30T14:00", "2011-12-30T14:00"),
    ("Pacific/Apia", 0, "2011-12-30T23:00", "2011-12-30T10:00"),
    # Kwajalein had no 1993-08-21.
    ("Pacific/Kwajalein", 4, "1993-08-21T12:00", "1993-08-21T12:00"),
    ("Pacific/Kwajalein", 4, "1993-08-21T16:00", "1993-08-21T16:00"),
    # Pyongyang moved to +8:30 on 2015-08-15 and back to +9 on 2018-05-05.
    ("Asia/Pyongyang", 0, "2015-08-14T15:15", "2015-08-13T15:00"),
    ("Asia/Pyongyang", 0, "2015-08-14T15:30", "2015-08-14T15:30"),
    ("Asia/Pyongyang", 4, "2015-08-15T00:00", "2015-08-14T19:30"),
    ("Asia/Pyongyang", 0, "2018-05-04T15:00", "2018-05-04T15:00"),
    ("Asia/Pyongyang", 4, "2018-05-05T00:00", "2018-05-04T19:00"),
    # Istanbul stayed at +3 from 2016 on.
    ("Europe/Istanbul", 4, "2015-12-01T12:00", "2015-12-01T02:00"),
    ("Europe/Istanbul", 4, "2016-12-01T12:00", "2016-12-01T01:00"),
    # Caracas: 3:00 became 2:30 on 2007-12-09, and 2:30 became 3:00 on 2016-05-01.
    ("America/Caracas", 3, "2007-12-09T07:29", "2007-12-08T07:00"),
    ("America/Caracas", 3, "2007-12-09T07:30", "2007-12-09T07:30"),
    ("America/Caracas", 3, "2016-05-01T07:00", "2016-05-01T07:00"),
    # St John's used to change at 0:01: forward over 1:00, and back over midnight, into the day before.
    ("America/St_Johns", 1, "2010-03-14T03:30", "2010-03-13T04:30"),
    ("America/St_Johns", 1, "2010-03-14T03:31", "2010-03-14T03:31"),
    ("America/St_Johns", 0, "2010-11-07T02:45", "2010-11-07T02:30"),
    ("America/St_Johns", 0, "2010-11-07T03:45", "2010-11-07T02:30"),
    # Sao Paulo had no midnight on 2018-11-04.
    ("America/Sao_Paulo", 0, "2018-11-04T03:00", "2018-11-04T03:00"),
    # After the last change that is listed, the rule goes on.
    ("Europe/Berlin", 2, "2060-03-28T12:00", "2060-03-28T01:00"),
]


@pytest.fixture(params=["of this machine", "brought along"])
def zones(request: pytest.FixtureRequest) -> Iterator[None]:
    """The time zones of this machine where it has some, and those of the `tzdata` package alone."""
    if request.param == "brought along":
        zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.usefixtures("zones")
def test_days_begin_where_the_published_clock_changes_say() -> None:
    for zone, hour, now, expected in CLOCK_CHANGES:
        assert last_boundary(at(now), hour, zone) == at(expected), (zone, hour, now)


def test_a_boundary_is_aware_and_in_utc_wherever_the_clock_stands() -> None:
    now = datetime(2026, 6, 1, 23, 30, tzinfo=timezone(timedelta(hours=-7)))

    boundary = last_boundary(now, 4, "Asia/Tokyo")

    assert boundary.tzinfo is UTC
    assert boundary == at("2026-06-01T19:00")


# --- Boundaries: a naive oracle -------------------------------------------------------------------

ZONES = sorted(files("tzdata").joinpath("zones").read_text("utf-8").split())


def wall_clock(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)


def boundary_by_watching_the_clock(now: datetime, hour: int, zone: str) -> datetime:
    """Look at the wall once a minute, for three days, and note when a date begins that never began before."""
    minute = now.replace(second=0, microsecond=0) - timedelta(days=3)
    latest: date = (wall_clock(minute, zone) - timedelta(hours=hour)).date()
    begun_at = minute
    while minute <= now:
        begun = (wall_clock(minute, zone) - timedelta(hours=hour)).date()
        if begun > latest:
            latest, begun_at = begun, minute
        minute += MINUTE
    return begun_at


@st.composite
def places_and_times(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and an instant, close to one of that zone's clock changes where the year has one."""
    zone, year = draw(st.sampled_from(ZONES)), draw(st.integers(1975, 2060))
    place = zoneinfo.ZoneInfo(zone)
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(366)]
    offsets = [day.astimezone(place).utcoffset() for day in days]
    changed = [day for day, old, new in zip(days[1:], offsets, offsets[1:], strict=False) if old != new]
    near = draw(st.sampled_from(changed or days))
    minutes = draw(st.integers(-36 * 60, 36 * 60))
    return zone, near + minutes * MINUTE + draw(st.sampled_from([0, 1, 59_999_999])) * MICROSECOND


@settings(max_examples=80, deadline=None)
@given(place_and_time=places_and_times(), hour=st.integers(0, 23))
def test_days_begin_when_someone_who_watches_the_clock_would_say_so(
    place_and_time: tuple[str, datetime], hour: int
) -> None:
    zone, now = place_and_time

    assert last_boundary(now, hour, zone) == boundary_by_watching_the_clock(now, hour, zone)


# --- Reasons --------------------------------------------------------------------------------------


def reason(policy: SessionResetPolicy, pause: timedelta, now: datetime = NOON, zone: str = "UTC") -> str | None:
    return stale_reason(policy, active_at=now - pause, now=now, zone=zone)


def test_without_a_mode_nothing_ever_goes_stale() -> None:
    assert reason(SessionResetPolicy(), timedelta(days=4000)) is None
    assert next_expiry(SessionResetPolicy(), active_at=NOON, zone="UTC") is None


def test_idle_means_longer_than_the_minutes_not_as_long() -> None:
    policy = SessionResetPolicy(mode="idle", idle_minutes=60)

    assert reason(policy, timedelta(minutes=60)) is None
    assert reason(policy, timedelta(minutes=60) + MICROSECOND) == "idle"


def test_daily_means_that_the_day_began_after_the_last_activity() -> None:
    policy = SessionResetPolicy(mode="daily", at_hour=12, grace_minutes=0)

    assert stale_reason(policy, active_at=NOON - MICROSECOND, now=NOON, zone="UTC") == "daily"
    assert stale_reason(policy, active_at=NOON, now=NOON + timedelta(hours=23), zone="UTC") is None


def test_each_mode_names_its_own_reason_and_idle_is_named_where_both_hold() -> None:
    def reasons(pause: timedelta) -> list[str | None]:
        return [
            reason(SessionResetPolicy(mode=mode, idle_minutes=24 * 60, at_hour=4), pause)
            for mode in ("idle", "daily", "both")
        ]

    assert reasons(timedelta(hours=7)) == [None, None, None]
    assert reasons(timedelta(hours=9)) == [None, "daily", "daily"]
    assert reasons(timedelta(hours=25)) == ["idle", "daily", "idle"]


def test_within_the_grace_nothing_is_reset_even_over_a_boundary() -> None:
    now = at("2026-06-01T04:05")
    policy = SessionResetPolicy(mode="both", idle_minutes=1, at_hour=4, grace_minutes=15)

    assert reason(policy, timedelta(minutes=15), now) is None
    assert reason(policy, timedelta(minutes=15) + MICROSECOND, now) == "idle"


def test_a_clock_that_goes_back_never_resets() -> None:
    policy = SessionResetPolicy(mode="both", idle_minutes=1, grace_minutes=0)

    assert reason(policy, timedelta(0)) is None
    assert reason(policy, -MICROSECOND) is None
    assert reason(policy, timedelta(days=-400)) is None


def test_a_pause_is_measured_in_real_time_over_a_clock_change() -> None:
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    active_at = datetime(2026, 3, 29, 1, 30, tzinfo=berlin)
    now = datetime(2026, 3, 29, 3, 30, tzinfo=berlin)
    policy = SessionResetPolicy(mode="idle", idle_minutes=60)

    assert stale_reason(policy, active_at=active_at, now=now, zone="UTC") is None


def test_a_time_without_a_zone_is_refused_rather_than_guessed() -> None:
    naive = datetime(2026, 6, 1)  # noqa: DTZ001
    policy = SessionResetPolicy(mode="both")

    with pytest.raises(ValueError, match="no time zone"):
        stale_reason(policy, active_at=naive, now=NOON, zone="UTC")
    with pytest.raises(ValueError, match="no time zone"):
        last_boundary(naive, 4, "UTC")


policies = st.builds(
    SessionResetPolicy,
    mode=st.sampled_from(["idle", "daily", "both"]),
    idle_minutes=st.integers(1, 4000),
    at_hour=st.integers(0, 23),
    grace_minutes=st.integers(0, 200),
)


@settings(max_examples=150, deadline=None)
@given(
    policy=policies,
    place_and_time=places_and_times(),
    later=st.timedeltas(-timedelta(days=2), timedelta(days=4)),
)
def test_a_session_is_stale_from_its_expiry_on_and_never_before(
    policy: SessionResetPolicy, place_and_time: tuple[str, datetime], later: timedelta
) -> None:
    zone, active_at = place_and_time
    expiry = next_expiry(policy, active_at=active_at, zone=zone)
    assert expiry is not None

    for now in (expiry - MICROSECOND, expiry, active_at + later):
        is_stale = stale_reason(policy, active_at=active_at, now=now, zone=zone) is not None
        assert is_stale == (now >= expiry)


# --- Settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "weekly"},
        {"mode": ["idle"]},
        {"idle_minutes": 0},
        {"idle_minutes": -5},
        {"idle_minutes": 1.5},
        {"idle_minutes": True},
        {"idle_minutes": 10**15},
        {"at_hour": -1},
        {"at_hour": 24},
        {"at_hour": "4"},
        {"grace_minutes": -1},
        {"timezone": "Mars/Olympus"},
        {"timezone": "Europe"},
        {"timezone": "europe/berlin"},
        {"timezone": "right/Europe/Berlin"},
        {"timezone": "../../etc/localtime"},
        {"timezone": "localtime"},
        {"timezone": ""},
        {"timezone": "a\0b"},
        {"timezone": "x" * 5000},
        {"timezone": None},
    ],
)
def test_a_policy_that_can_not_be_right_says_what_to_use(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="use"):
        SessionResetPolicy(**wrong)


def test_a_zone_that_nobody_knows_is_an_invalid_request_also_when_it_is_used() -> None:
    for zone in ("Mars/Olympus", "Europe", "", "a\0b", "x" * 5000, "../../etc/localtime"):
        with pytest.raises(InvalidRequest, match="time zone"):
            last_boundary(NOON, 4, zone)


def test_every_zone_that_is_brought_along_can_be_used() -> None:
    zoneinfo.reset_tzpath(to=[])
    try:
        for zone in zoneinfo.available_timezones():
            assert checked_zone(zone) == zone
            assert last_boundary(NOON, 4, zone) <= NOON
    finally:
        zoneinfo.reset_tzpath()


def test_the_zone_is_the_policys_or_the_persons_or_the_installations() -> None:
    named = SessionResetPolicy(timezone="Asia/Tokyo")
    persons = SessionResetPolicy(timezone="person")

    assert resolve_zone(named, installation="UTC", person="Europe/Berlin") == "Asia/Tokyo"
    assert resolve_zone(persons, installation="UTC", person="Europe/Berlin") == "Europe/Berlin"
    assert resolve_zone(persons, installation="UTC") == "UTC"
    assert resolve_zone(SessionResetPolicy(), installation="UTC", person="Europe/Berlin") == "UTC"


def test_the_platforms_policy_comes_before_the_chat_types_and_that_before_the_default() -> None:
    default, platforms, types = (SessionResetPolicy(mode="idle", idle_minutes=n) for n in (1, 2, 3))
    policies = ResetPolicies(default=default, by_platform={"telegram": platforms}, by_type={"group": types})

    assert policies.policy_for("telegram", "group") == platforms
    assert policies.policy_for("telegram", "dm") == platforms
    assert policies.policy_for("discord", "group") == types
    assert policies.policy_for("discord", "dm") == default
    assert ResetPolicies().policy_for("discord", "dm") == SessionResetPolicy(mode="none")


def test_an_editors_session_is_reset_only_where_the_editor_itself_is_named() -> None:
    daily = SessionResetPolicy(mode="daily")

    assert ResetPolicies(default=daily, by_type={"dm": daily}).policy_for("acp", "dm").mode == "none"
    assert ResetPolicies(by_platform={"acp": daily}).policy_for("acp", "dm") == daily


def test_a_policy_for_a_place_that_can_not_be_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="use one of channel, dm, group, thread"):
        ResetPolicies(by_type={"groups": SessionResetPolicy()})
    with pytest.raises(InvalidRequest, match="platform's name"):
        ResetPolicies(by_platform={"Telegram": SessionResetPolicy()})


def test_a_policy_in_force_does_not_change_with_the_callers_dict() -> None:
    mine = {"telegram": SessionResetPolicy(mode="daily")}
    policies = ResetPolicies(by_platform=mine)
    mine.clear()

    assert policies.policy_for("telegram", "dm").mode == "daily"

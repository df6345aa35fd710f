"""When a conversation starts afresh: after a pause, at an hour of the day, at either, or never by itself."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import force_setattr

from threadline.errors import InvalidRequest
from threadline.model.session import ResetReason
from threadline.model.source import CHAT_TYPES, is_platform_slug

ResetMode: TypeAlias = Literal["none", "idle", "daily", "both"]
RESET_MODES: frozenset[str] = frozenset(get_args(ResetMode))
INSTALLATION_ZONE = "installation"
PERSON_ZONE = "person"

_LONGEST_MINUTES = 100 * 366 * 24 * 60
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


def _require_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest(f"{name} is {value!r}: use a whole number from {least} to {most}")


class SessionResetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a session that nobody used for a while gives way to a new one, and whether the user is told.

    `timezone` is an IANA name, or `"person"` or `"installation"` for the zone of either. What can't be right
    raises `InvalidRequest`.
    """

    mode: ResetMode = "none"
    idle_minutes: int = 1440
    at_hour: int = 4
    timezone: str = INSTALLATION_ZONE
    grace_minutes: int = 15
    notify: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.mode, str) or self.mode not in RESET_MODES:
            raise InvalidRequest(f"{self.mode!r} is no reset mode: use one of {', '.join(sorted(RESET_MODES))}")
        _require_whole("idle_minutes", self.idle_minutes, 1, _LONGEST_MINUTES)
        _require_whole("at_hour", self.at_hour, 0, 23)
        _require_whole("grace_minutes", self.grace_minutes, 0, _LONGEST_MINUTES)
        if self.timezone not in (INSTALLATION_ZONE, PERSON_ZONE):
            checked_zone(self.timezone)


_NEVER = SessionResetPolicy()


class ResetPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """Which policy holds where: the platform's, else the chat type's, else the default.

    An editor ends its sessions itself, so on `acp` only a policy for that very platform holds. A platform
    that is no slug, or no such chat type, raises `InvalidRequest`: such a policy would never apply.
    """

    default: SessionResetPolicy = _NEVER
    by_platform: dict[str, SessionResetPolicy] = {}
    by_type: dict[str, SessionResetPolicy] = {}

    def __post_init__(self) -> None:
        for platform in self.by_platform:
            if not is_platform_slug(platform):
                raise InvalidRequest(f"by_platform has {platform!r}: use a platform's name, such as 'telegram'")
        for chat_type in self.by_type:
            if chat_type not in CHAT_TYPES:
                raise InvalidRequest(f"by_type has {chat_type!r}: use one of {', '.join(sorted(CHAT_TYPES))}")
        # Copies, so that the caller's own dicts can't change a policy that is in force.
        force_setattr(self, "by_platform", dict(self.by_platform))
        force_setattr(self, "by_type", dict(self.by_type))

    def policy_for(self, platform: str, chat_type: str) -> SessionResetPolicy:
        """The policy for sessions of that platform and chat type."""
        named = self.by_platform.get(platform)
        if named is not None:
            return named
        if platform == "acp":
            return _NEVER
        return self.by_type.get(chat_type, self.default)


def stale_reason(policy: SessionResetPolicy, *, active_at: datetime, now: datetime, zone: str) -> ResetReason | None:
    """Why a session that was last active at `active_at` is to start afresh at `now`; `None`: it goes on.

    `zone` is what `resolve_zone` gave. Idle is named where idle and daily both hold. Up to and with
    `grace_minutes` after `active_at` there is no reason, nor where `now` is before `active_at`: a clock that
    was set back resets nothing.
    """
    if policy.mode == "none":
        return None
    now, active_at = _utc(now), _utc(active_at)
    pause = now - active_at
    if pause <= timedelta(minutes=policy.grace_minutes):
        return None
    if policy.mode != "daily" and pause > timedelta(minutes=policy.idle_minutes):
        return "idle"
    if policy.mode != "idle" and active_at < last_boundary(now, policy.at_hour, zone):
        return "daily"
    return None


def next_expiry(policy: SessionResetPolicy, *, active_at: datetime, zone: str) -> datetime | None:
    """The first instant, in UTC, at which `stale_reason` has a reason; `None` where it never will."""
    if policy.mode == "none":
        return None
    active_at = _utc(active_at)
    ends: list[datetime] = []
    if policy.mode != "daily":
        ends.append(active_at + timedelta(minutes=policy.idle_minutes) + _MICROSECOND)
    if policy.mode != "idle":
        ends.append(_next_boundary(active_at, policy.at_hour, zone))
    return max(min(ends), active_at + timedelta(minutes=policy.grace_minutes) + _MICROSECOND)


def resolve_zone(policy: SessionResetPolicy, *, installation: str, person: str | None = None) -> str:
    """The IANA name of the zone that `policy` counts days in; the installation's if a person named none."""
    if policy.timezone == INSTALLATION_ZONE:
        return installation
    if policy.timezone == PERSON_ZONE:
        return person or installation
    return policy.timezone


def uses_person_timezone(policy: SessionResetPolicy) -> bool:
    """Whether somebody's own time zone must be known to tell what `policy` says of their session."""
    return policy.timezone == PERSON_ZONE and policy.mode in ("daily", "both")


def last_boundary(now: datetime, at_hour: int, zone: str) -> datetime:
    """The last instant up to `now`, in UTC, at which a day began: at `at_hour`:00 on that zone's clocks.

    Each date begins once. Where clocks are put forward over that hour (or over a whole date) it begins with
    the first instant after the gap; where they show it twice, the first time.
    """
    now, place = _utc(now), _zone(zone)
    local = now.astimezone(place)
    today = local.date()
    # The second time that clocks show an hour, tomorrow may have begun: they were put back over midnight.
    for day in (today + _DAY, today) if local.fold else (today,):
        start = _start_of(day, at_hour, place)
        if start <= now:
            return start
    return _start_of(today - _DAY, at_hour, place)


def checked_zone(name: str) -> str:
    """`name` as it is, if it is an IANA time zone; else `InvalidRequest`.

    The list is the one that Threadline brings along, so a name that holds on one machine holds on all.
    """
    if not isinstance(name, str) or name not in zone_names():
        raise InvalidRequest(f"{name!r} is no time zone: use an IANA name such as 'Europe/Berlin', or 'UTC'")
    return name


def _next_boundary(after: datetime, at_hour: int, zone: str) -> datetime:
    """The first beginning of a day that comes later than `after`."""
    place = _zone(zone)
    today = after.astimezone(place).date()
    for day in (today, today + _DAY):
        start = _start_of(day, at_hour, place)
        if start > after:
            return start
    return _start_of(today + 2 * _DAY, at_hour, place)


def _start_of(day: date, at_hour: int, place: ZoneInfo) -> datetime:
    """The first instant at which that zone's clocks show `at_hour`:00 of `day`, or later."""
    wall = datetime.combine(day, time(at_hour), place)
    before, after = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    if before is None or after is None or before >= after:
        return wall.astimezone(UTC)
    # In a gap. Its end lies between what the two offsets make of the hour; both are whole seconds.
    shown = wall.replace(tzinfo=None)
    earliest = shown.replace(tzinfo=UTC) - after

    def is_reached(seconds: int) -> bool:
        return (earliest + seconds * _SECOND).astimezone(place).replace(tzinfo=None) >= shown

    return earliest + bisect_left(range((after - before) // _SECOND), True, key=is_reached) * _SECOND


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as cause:
        raise InvalidRequest(f"{name!r} is no time zone: use an IANA name such as 'Europe/Berlin', or 'UTC'") from cause


@cache
def zone_names() -> frozenset[str]:
    """Every time zone that there is."""
    # Not zoneinfo.available_timezones(): it adds what this machine happens to have.
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; use an aware datetime")
    # Two times of one zone are subtracted as clocks show them, which is wrong by an hour over a clock change.
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


_MAX_TYPED_CHARS = 64


def find_zone(typed: str) -> str | None:
    """The IANA name that somebody typed, in whatever case and with spaces for `_`; `None` where there is none such."""
    return _by_folded().get(_folded(typed))


def suggest_zone(typed: str) -> str | None:
    """The zone that somebody may have meant: by a city alone, or misspelt; `None` where nothing comes near."""
    found = difflib.get_close_matches(_folded(typed[:_MAX_TYPED_CHARS]), _by_any_name(), n=1)
    return _by_any_name()[found[0]] if found else None


def local_time(zone: str, now: datetime) -> str:
    """What clocks in that zone show."""
    return f"{now.astimezone(ZoneInfo(zone)):%H:%M}"


def _folded(typed: str) -> str:
    return "_".join(typed.casefold().split())


@cache
def _by_folded() -> dict[str, str]:
    return {_folded(name): name for name in sorted(zone_names())}


@cache
def _by_any_name() -> dict[str, str]:
    # Sorted the other way round: of cities whose continents differ, that of the first in the alphabet stays.
    cities = {folded.rpartition("/")[2]: name for folded, name in reversed(_by_folded().items())}
    return cities | _by_folded()

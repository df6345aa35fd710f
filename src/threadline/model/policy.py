"""Reset policies: when a session expires, by idle time, by an hour of the day, or never; and the time zones they use."""

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

_MAX_TYPED_CHARS = 64
_MAX_MINUTES = 100 * 366 * 24 * 60
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


def _require_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest(f"{name} is {value!r}: use a whole number from {least} to {most}")


class SessionResetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When an unused session is replaced by a new one, and whether the user is notified.

    `timezone` is an IANA name, or `"person"` or `"installation"` for the zone of either. Invalid values raise
    `InvalidRequest`.
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
        _require_whole("idle_minutes", self.idle_minutes, 1, _MAX_MINUTES)
        _require_whole("at_hour", self.at_hour, 0, 23)
        _require_whole("grace_minutes", self.grace_minutes, 0, _MAX_MINUTES)
        if self.timezone not in (INSTALLATION_ZONE, PERSON_ZONE):
            checked_zone(self.timezone)


_NEVER = SessionResetPolicy()


class ResetPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of an installation: that of the platform applies, else that of the chat type, else the default.

    An editor ends its sessions itself, so on `acp` only a policy for that platform applies. An invalid platform or
    chat type raises `InvalidRequest`: such a policy would never apply.
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
        # Copies, so that later changes of the caller's dicts have no effect.
        force_setattr(self, "by_platform", dict(self.by_platform))
        force_setattr(self, "by_type", dict(self.by_type))

    def policy_for(self, platform: str, chat_type: str) -> SessionResetPolicy:
        """Return the policy for sessions of that platform and chat type."""
        named = self.by_platform.get(platform)
        if named is not None:
            return named
        if platform == "acp":
            return _NEVER
        return self.by_type.get(chat_type, self.default)


def stale_reason(policy: SessionResetPolicy, *, active_at: datetime, now: datetime, zone: str) -> ResetReason | None:
    """Return why a session last active at `active_at` has expired at `now`, or None if it has not.

    `zone` comes from `resolve_zone`. If both idle and daily apply, the answer is idle. A session never expires within
    `grace_minutes` after `active_at`, nor if `now` is before `active_at`: a clock that was set back resets nothing.
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
    """Return the first instant, in UTC, at which `stale_reason` gives a reason; None if it never does."""
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
    """Return the IANA name of the zone of `policy`. A person who set none has the installation's."""
    if policy.timezone == INSTALLATION_ZONE:
        return installation
    if policy.timezone == PERSON_ZONE:
        return person or installation
    return policy.timezone


def uses_person_timezone(policy: SessionResetPolicy) -> bool:
    """Return whether the result of `policy` depends on the person's time zone."""
    return policy.timezone == PERSON_ZONE and policy.mode in ("daily", "both")


def last_boundary(now: datetime, at_hour: int, zone: str) -> datetime:
    """Return the last instant up to `now`, in UTC, at which a day began: at `at_hour`:00 local time of that zone.

    Each date begins once. If clocks skip that hour (or a whole date), it begins with the first instant after the
    gap. If they show it twice, it begins the first time.
    """
    now, place = _utc(now), _zone(zone)
    local = now.astimezone(place)
    today = local.date()
    # When clocks show an hour for the second time, tomorrow may have begun: they were put back over midnight.
    for day in (today + _DAY, today) if local.fold else (today,):
        start = _start_of(day, at_hour, place)
        if start <= now:
            return start
    return _start_of(today - _DAY, at_hour, place)


def checked_zone(name: str) -> str:
    """Return `name` if it is an IANA time zone. Raises `InvalidRequest` if not.

    The list comes from the `tzdata` package, so a name that is valid on one machine is valid on all.
    """
    if not isinstance(name, str) or name not in zone_names():
        raise InvalidRequest(f"{name!r} is no time zone: use an IANA name such as 'Europe/Berlin', or 'UTC'")
    return name


def _next_boundary(after: datetime, at_hour: int, zone: str) -> datetime:
    """Return the first beginning of a day later than `after`."""
    place = _zone(zone)
    today = after.astimezone(place).date()
    for day in (today, today + _DAY):
        start = _start_of(day, at_hour, place)
        if start > after:
            return start
    return _start_of(today + 2 * _DAY, at_hour, place)


def _start_of(day: date, at_hour: int, place: ZoneInfo) -> datetime:
    """Return the first instant at which local time is `at_hour`:00 of `day`, or later."""
    wall = datetime.combine(day, time(at_hour), place)
    before, after = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    if before is None or after is None or before >= after:
        return wall.astimezone(UTC)
    # In a gap. Its end lies between the instants that the two offsets give; both are whole seconds.
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
    """Return the names of all time zones."""
    # Not zoneinfo.available_timezones(): it adds the zones of this machine.
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; use an aware datetime")
    # Python subtracts two times of one zone as local times, which is wrong by an hour over a clock change.
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def find_zone(typed: str) -> str | None:
    """Return the IANA name of a typed zone, in any case and with spaces for `_`. None if there is no such zone."""
    return _by_folded().get(_folded(typed))


def suggest_zone(typed: str) -> str | None:
    """Return the zone that comes closest to a typed one: a city alone, or a misspelling. None if nothing is close."""
    found = difflib.get_close_matches(_folded(typed[:_MAX_TYPED_CHARS]), _by_any_name(), n=1)
    return _by_any_name()[found[0]] if found else None


def local_time(zone: str, now: datetime) -> str:
    """Return the local time of a zone as `HH:MM`."""
    return f"{now.astimezone(ZoneInfo(zone)):%H:%M}"


def _folded(typed: str) -> str:
    return "_".join(typed.casefold().split())


@cache
def _by_folded() -> dict[str, str]:
    return {_folded(name): name for name in sorted(zone_names())}


@cache
def _by_any_name() -> dict[str, str]:
    # Reversed: if two continents have a city of this name, the first in the alphabet wins.
    cities = {folded.rpartition("/")[2]: name for folded, name in reversed(_by_folded().items())}
    return cities | _by_folded()

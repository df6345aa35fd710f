"""Time zones as people write them."""

from __future__ import annotations

import difflib
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

from threadline.model.policy import zone_names

_LONGEST = 64


def find_zone(typed: str) -> str | None:
    """The IANA name that somebody typed, in whatever case and with spaces for `_`; `None` where there is none such."""
    return _by_folded().get(_folded(typed))


def near_zone(typed: str) -> str | None:
    """The zone that somebody may have meant: by a city alone, or misspelt; `None` where nothing comes near."""
    found = difflib.get_close_matches(_folded(typed[:_LONGEST]), _by_any_name(), n=1)
    return _by_any_name()[found[0]] if found else None


def time_in(zone: str, now: datetime) -> str:
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

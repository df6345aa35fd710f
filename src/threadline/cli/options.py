"""Options that several commands share, and parsers for ages, dates, numbers and paths."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeAlias
from zoneinfo import ZoneInfo

import typer

from threadline.clock import SystemClock, installation_zone
from threadline.config.settings import DB

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_AGE = re.compile(r"([0-9]{1,7})\s*([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}
_MAX_HOURS = _HOURS["y"] * 1000


def examples(*lines: str) -> str:
    """Return the end of a command's help: examples, one a line."""
    # \b tells click to keep the line breaks.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def parse_age(text: str) -> timedelta:
    """Parse an age: `12h`, `30d`, `8w`, `1y` (365 days)."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no length of time; write it like 12h, 30d, 8w or 1y")
    hours = int(match.group(1)) * _HOURS[match.group(2)]
    if not 0 < hours <= _MAX_HOURS:
        raise typer.BadParameter("a length of time is between 1h and 1000y")
    return timedelta(hours=hours)


def whole_number(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers within these bounds."""
    allowed = f", at least {lowest}" if highest is None else f" from {lowest} to {highest}"

    def parse(text: str) -> int:
        # Typer passes a default as a number, not as text.
        digits = str(text).strip()
        number = int(digits) if _NUMBER.fullmatch(digits) else None
        if number is None or number < lowest or (highest is not None and number > highest):
            raise typer.BadParameter(f"{text!r} can't be used; write a whole number{allowed}")
        return number

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts only these words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise typer.BadParameter(f"{text!r} can't be used; write one of {', '.join(choices)}")
        return text

    return parse


def parse_platform(text: str) -> str:
    """Parse the name of a platform, installed or not: sessions outlive the platform that made them."""
    from threadline.model.source import is_platform_slug

    if not is_platform_slug(text):
        raise typer.BadParameter(f"{text!r} is no platform; write a name such as telegram")
    return text


def parse_path(text: str) -> Path:
    """Parse a path. `~` is the home folder, also where no shell has expanded it."""
    try:
        return Path(text).expanduser()
    except RuntimeError as cause:
        raise typer.BadParameter(f"{text} names a home folder that is not there; write the path out") from cause


def parse_since(text: str) -> datetime:
    """Parse a moment, `2026-03-01` or `2026-03-01T14:00`, with a zone or in that of this machine; or an age, `7d`."""
    return _parse_moment(text, timedelta())


def parse_until(text: str) -> datetime:
    """Parse a moment as `parse_since` does; a day means its end."""
    return _parse_moment(text, timedelta(days=1))


def _parse_moment(text: str, after_day: timedelta) -> datetime:
    stripped = text.strip()
    if _AGE.fullmatch(stripped.lower()):
        return SystemClock().now() - parse_age(stripped)
    try:
        moment = datetime.fromisoformat(stripped)
        if _is_day(stripped):
            moment += after_day
        # Moments at the very edges of the calendar can't be expressed in UTC.
        return _with_zone(moment).astimezone(ZoneInfo("UTC"))
    except (ValueError, OverflowError) as cause:
        raise typer.BadParameter(
            f"{text!r} is no moment; write it like 2026-03-01, 2026-03-01T14:00 or 7d (seven days ago)"
        ) from cause


def _with_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(installation_zone()))


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


Db: TypeAlias = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help=f"{DB.help}.", show_default=f"{DB.variable}, else {DB.default}"),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Go on without asking.")]
SessionId: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="ID", help="The session's id, as `sessions list` shows it.", show_default=False),
]
Platform: TypeAlias = Annotated[
    str | None,
    typer.Option("--platform", metavar="NAME", parser=parse_platform, help="Only this platform, such as telegram."),
]
Cursor: TypeAlias = Annotated[
    str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before this one ended.")
]

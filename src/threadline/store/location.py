"""Where a store is: `sqlite:///PATH`, a plain path, or `postgresql://…`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

import msgspec

from threadline.errors import InvalidLocation

_POSTGRES = ("postgresql://", "postgres://")
_QUERY_PASSWORD = re.compile(r"([?&]\w*password=)[^&#]*", re.IGNORECASE)


class SqliteLocation(msgspec.Struct, frozen=True):
    """A file on this machine."""

    path: Path

    @property
    def text(self) -> str:
        """The URL that opens this place again."""
        return f"sqlite://{self.path}"


class PostgresLocation(msgspec.Struct, frozen=True):
    """A PostgreSQL database; `url` may hold a password and is never shown."""

    url: str

    @property
    def text(self) -> str:
        """The URL without its passwords."""
        shown = _QUERY_PASSWORD.sub(r"\1…", self.url)
        parts = urlsplit(shown)
        if parts.password is None:
            return shown
        netloc = parts.netloc.replace(f":{parts.password}@", ":…@", 1)
        return urlunsplit(parts._replace(netloc=netloc))


Location: TypeAlias = SqliteLocation | PostgresLocation


def parse_location(location: str | Path) -> Location:
    """The place that a URL or path names. `sqlite:///a/b.db` is the absolute path `/a/b.db`; a plain path may be relative."""
    if isinstance(location, Path):
        return SqliteLocation(_absolute(location))
    text = str(location)
    if text.startswith(_POSTGRES):
        return PostgresLocation(text)
    if text.startswith("sqlite:"):
        rest = text.removeprefix("sqlite:")
        if rest.startswith("//") and not rest.startswith("///"):
            raise InvalidLocation(f"{text} names a host; an SQLite store is a file: sqlite:///ABSOLUTE/PATH")
        text = "/" + rest.lstrip("/") if rest.startswith("//") else rest
        text = text.removeprefix("/") if text.startswith("/~") else text
    elif "://" in text:
        scheme = text.partition(":")[0]
        raise InvalidLocation(f"{scheme}:// is no store; use sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    if not text or "\x00" in text or text.endswith("/"):
        raise InvalidLocation(f"{location!r} names no file; use sqlite:///ABSOLUTE/PATH")
    if text == ":memory:":
        raise InvalidLocation("a store lives in a file, never in memory alone; use a path in a temporary folder")
    return SqliteLocation(_absolute(Path(text)))


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as cause:
        raise InvalidLocation(f"{path}: {cause}; use an absolute path") from cause

"""The composition root: the only module that puts the concrete parts together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from threadline.config.load import load_settings
from threadline.config.paths import default_database, ensure_user_folder
from threadline.errors import InvalidLocation
from threadline.store.facade import AsyncSessionStore, SessionStore
from threadline.store.location import Location, SqliteLocation, parse_location

Tell: TypeAlias = Callable[[str], None]


def locate(db: str | None = None) -> Location:
    """The place that `db` names, else the one that the environment names, else the user's data folder."""
    wanted: str | Path = db or load_settings().db or default_database()
    try:
        return parse_location(wanted)
    except RuntimeError as cause:
        raise InvalidLocation(f"{wanted} names a home folder that is not there; write the path out") from cause


def is_there(place: Location) -> bool:
    """Whether there is something to open. Of a server only opening it can tell."""
    if not isinstance(place, SqliteLocation):
        return True
    try:
        place.path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # It may well be there; opening it says what is wrong.
        return True
    return True


def open_existing(db: str | None = None) -> SessionStore:
    """An open store that was there before. Where there is none `InvalidLocation`, and no file is made.

    An older schema is `SchemaTooOld`: looking at a database never changes it.
    """
    place = locate(db)
    if not is_there(place):
        raise InvalidLocation(
            f"there is no database at {place.text}; `threadline db migrate` makes one, --db names another"
        )
    return SessionStore.open(_reopenable(place), migrate=False)


def open_or_make(db: str | None = None) -> SessionStore:
    """An open store, made where it was missing and brought up to date where it was older."""
    return SessionStore.open(_prepared(db))


def serve(db: str | None, *, host: str, port: int | None, ready: Tell, note: Tell) -> None:
    """Serves the status page until SIGTERM or SIGINT, then closes the store and returns.

    `ready` is told the address once it answers; `note` is told what a person should know. Without a `port`
    the first free one from the usual one on is used; one that was asked for and is taken is `InvalidRequest`.
    """
    asyncio.run(_serve(db, host, port, ready, note))


async def _serve(db: str | None, host: str, port: int | None, ready: Tell, note: Tell) -> None:
    from threadline.web.app import make_app
    from threadline.web.server import bind, run_server

    with bind(host, port, note) as listening:
        async with await AsyncSessionStore.open(_prepared(db)) as store:
            is_default = locate(db) == parse_location(default_database())
            app = make_app(store, host=host, port=listening.getsockname()[1], is_default=is_default)
            await run_server(app, listening, ready)


def _prepared(db: str | None) -> str | Path:
    place = locate(db)
    if isinstance(place, SqliteLocation) and place.path == default_database():
        ensure_user_folder()
    return _reopenable(place)


def _reopenable(place: Location) -> str | Path:
    """What opens the place again: of a server the whole URL, not the one that is shown."""
    return place.path if isinstance(place, SqliteLocation) else place.url

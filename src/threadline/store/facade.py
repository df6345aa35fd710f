"""The two clients of a store: the same verbs, blocking or awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from threadline.clock import Clock, SystemClock, installation_zone
from threadline.errors import InvalidLocation
from threadline.model.address import SessionScope
from threadline.model.policy import ResetPolicies, checked_zone
from threadline.model.source import SessionSource
from threadline.store.engine.database import Database, Plan, SqliteLocation, drive, drive_async, parse_location
from threadline.store.engine.sqlite.database import SqliteDatabase
from threadline.store.upkeep import Upkeep
from threadline.store.verbs import IsBusy, StoreSettings, Verbs

P = ParamSpec("P")
T = TypeVar("T")


class _Store:
    """What both clients share: an open database, and the verbs that work on it."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self._database = database
        self._upkeep = Upkeep(database)
        self._verbs = Verbs(settings, grown=self._upkeep.nudge)

    @property
    def location(self) -> str:
        """The URL that opens this store, without secrets."""
        return self._database.location

    def session_key(self, source: SessionSource, *, agent: str | None = None) -> str:
        """The readable name of the conversation that `source` belongs to, by this store's scope settings."""
        return self._verbs.session_key(source, agent=agent)

    def _close(self) -> None:
        self._upkeep.stop()
        self._database.close()


def _blocking(
    verb: Callable[Concatenate[Verbs, P], Plan[T]],
) -> Callable[Concatenate[_Store, P], T]:
    def carried_out(self: _Store, /, *args: P.args, **options: P.kwargs) -> T:
        return drive(self._database, verb(self._verbs, *args, **options))

    functools.update_wrapper(carried_out, verb)
    return carried_out


def _awaited(
    verb: Callable[Concatenate[Verbs, P], Plan[T]],
) -> Callable[Concatenate[_Store, P], Coroutine[Any, Any, T]]:
    def carried_out(self: _Store, /, *args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        return drive_async(self._database, verb(self._verbs, *args, **options))

    functools.update_wrapper(carried_out, verb)
    return carried_out


class SessionStore(_Store):
    """Sessions and transcripts, kept durably. Blocking and thread-safe; use one store per process and share it.

    When a verb returns, what it did survives a power cut. When it raises, nothing was changed.
    """

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        policies: ResetPolicies | None = None,
        scope: SessionScope | None = None,
        is_busy: IsBusy | None = None,
        clock: Clock | None = None,
        timezone: str | None = None,
        agent: str = "main",
        migrate: bool = True,
    ) -> Self:
        """Opens `sqlite:///PATH`, a plain path, or `postgresql://…`; a new SQLite file is made, for its owner alone.

        `is_busy` is given the session key of a conversation that is due for a reset, and says whether to leave it as it is.
        `timezone` is the installation's zone for daily resets, by default this machine's. With `migrate=False` an older
        database is `SchemaTooOld` instead of upgraded.
        """
        settings = _settings(policies, scope, is_busy, clock, timezone, agent)
        return cls(open_database(location, migrate=migrate), settings)

    def close(self) -> None:
        """Lets what was accepted finish, then releases everything. Idempotent."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    get_or_create_session = _blocking(Verbs.get_or_create_session)
    get_session = _blocking(Verbs.get_session)
    reset_session = _blocking(Verbs.reset_session)
    switch_session = _blocking(Verbs.switch_session)
    list_sessions = _blocking(Verbs.list_sessions)
    has_any_sessions = _blocking(Verbs.has_any_sessions)
    take_reset_notice = _blocking(Verbs.take_reset_notice)
    set_title = _blocking(Verbs.set_title)
    find_by_title = _blocking(Verbs.find_by_title)
    set_runtime = _blocking(Verbs.set_runtime)
    mark_flushed = _blocking(Verbs.mark_flushed)
    append_to_transcript = _blocking(Verbs.append_to_transcript)
    load_transcript = _blocking(Verbs.load_transcript)
    read_transcript = _blocking(Verbs.read_transcript)
    page_transcript = _blocking(Verbs.page_transcript)
    read_log = _blocking(Verbs.read_log)
    rewrite_transcript = _blocking(Verbs.rewrite_transcript)
    rewind_session = _blocking(Verbs.rewind_session)
    redo_session = _blocking(Verbs.redo_session)
    retry_session = _blocking(Verbs.retry_session)
    fork_session = _blocking(Verbs.fork_session)
    link_message = _blocking(Verbs.link_message)
    keep_file = _blocking(Verbs.keep_file)
    read_file = _blocking(Verbs.read_file)
    find_file = _blocking(Verbs.find_file)
    record_usage = _blocking(Verbs.record_usage)
    update_session = _blocking(Verbs.update_session)
    usage_report = _blocking(Verbs.usage_report)
    search = _blocking(Verbs.search)
    index_pending = _blocking(Verbs.index_pending)
    redact = _blocking(Verbs.redact)
    delete_session = _blocking(Verbs.delete_session)
    prune = _blocking(Verbs.prune)
    collect = _blocking(Verbs.collect)
    erase_person = _blocking(Verbs.erase_person)
    export = _blocking(Verbs.export)
    facts = _blocking(Verbs.facts)
    backup = _blocking(Verbs.backup)
    check = _blocking(Verbs.check)


class AsyncSessionStore(_Store):
    """The same verbs, awaited; the event loop never waits for a disk."""

    @classmethod
    async def open(
        cls,
        location: str | Path,
        *,
        policies: ResetPolicies | None = None,
        scope: SessionScope | None = None,
        is_busy: IsBusy | None = None,
        clock: Clock | None = None,
        timezone: str | None = None,
        agent: str = "main",
        migrate: bool = True,
    ) -> Self:
        """Like `SessionStore.open`."""
        settings = _settings(policies, scope, is_busy, clock, timezone, agent)
        database = await asyncio.to_thread(open_database, location, migrate=migrate)
        return cls(database, settings)

    async def close(self) -> None:
        """Lets what was accepted finish, then releases everything. Idempotent."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    get_or_create_session = _awaited(Verbs.get_or_create_session)
    get_session = _awaited(Verbs.get_session)
    reset_session = _awaited(Verbs.reset_session)
    switch_session = _awaited(Verbs.switch_session)
    list_sessions = _awaited(Verbs.list_sessions)
    has_any_sessions = _awaited(Verbs.has_any_sessions)
    take_reset_notice = _awaited(Verbs.take_reset_notice)
    set_title = _awaited(Verbs.set_title)
    find_by_title = _awaited(Verbs.find_by_title)
    set_runtime = _awaited(Verbs.set_runtime)
    mark_flushed = _awaited(Verbs.mark_flushed)
    append_to_transcript = _awaited(Verbs.append_to_transcript)
    load_transcript = _awaited(Verbs.load_transcript)
    read_transcript = _awaited(Verbs.read_transcript)
    page_transcript = _awaited(Verbs.page_transcript)
    read_log = _awaited(Verbs.read_log)
    rewrite_transcript = _awaited(Verbs.rewrite_transcript)
    rewind_session = _awaited(Verbs.rewind_session)
    redo_session = _awaited(Verbs.redo_session)
    retry_session = _awaited(Verbs.retry_session)
    fork_session = _awaited(Verbs.fork_session)
    link_message = _awaited(Verbs.link_message)
    keep_file = _awaited(Verbs.keep_file)
    read_file = _awaited(Verbs.read_file)
    find_file = _awaited(Verbs.find_file)
    record_usage = _awaited(Verbs.record_usage)
    update_session = _awaited(Verbs.update_session)
    usage_report = _awaited(Verbs.usage_report)
    search = _awaited(Verbs.search)
    index_pending = _awaited(Verbs.index_pending)
    redact = _awaited(Verbs.redact)
    delete_session = _awaited(Verbs.delete_session)
    prune = _awaited(Verbs.prune)
    collect = _awaited(Verbs.collect)
    erase_person = _awaited(Verbs.erase_person)
    export = _awaited(Verbs.export)
    facts = _awaited(Verbs.facts)
    backup = _awaited(Verbs.backup)
    check = _awaited(Verbs.check)


def open_database(location: str | Path, *, migrate: bool = True) -> Database:
    """The database at a location, opened with the engine that it names."""
    place = parse_location(location)
    if isinstance(place, SqliteLocation):
        return SqliteDatabase(place.path, location=place.text, migrate=migrate)
    try:
        from threadline.store.engine.postgres.database import PostgresDatabase
    except ImportError as cause:
        raise InvalidLocation(
            "PostgreSQL needs an extra: pip install 'threadline[postgres]'; then open it again"
        ) from cause
    return PostgresDatabase(place.url, location=place.text, migrate=migrate)


def _settings(
    policies: ResetPolicies | None,
    scope: SessionScope | None,
    is_busy: IsBusy | None,
    clock: Clock | None,
    timezone: str | None,
    agent: str,
) -> StoreSettings:
    return StoreSettings(
        policies=policies or ResetPolicies(),
        scope=scope or SessionScope(),
        clock=clock or SystemClock(),
        zone=checked_zone(timezone) if timezone is not None else installation_zone(),
        agent=agent,
        is_busy=is_busy,
    )

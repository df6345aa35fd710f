"""Making and migrating the schema of a PostgreSQL database."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from psycopg import errors

from threadline.store.migrations import (
    READABLE_BY,
    Migration,
    SchemaState,
    migrations,
    pending,
    require_current,
    state_from,
    unlike_its_schema,
)
from threadline.store.postgres.connection import SCHEMA

# Any number will do, as long as it is always the same: "TLDB".
_LOCK = 0x54_4C_44_42
_META = f"CREATE TABLE {SCHEMA}.meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"


def ensure_schema(connection: psycopg.Connection[Any], *, migrate: bool) -> None:
    """An empty database gets the schema; an old one is migrated, or refused where `migrate` is false."""
    steps = migrations("postgres")
    state = read_state(connection)
    if not migrate:
        require_current(steps, state or SchemaState(0, 0))
    elif state is None or pending(steps, state):
        migrate_schema(connection, steps)


def read_state(connection: psycopg.Connection[Any]) -> SchemaState | None:
    """Which schema the database has; `None` where it has none of ours."""
    row = connection.execute("SELECT to_regclass($1)", [f"{SCHEMA}.meta"]).fetchone()
    if row is None or row[0] is None:
        return None
    return state_from(dict(connection.execute(cast("Any", f"SELECT name, value FROM {SCHEMA}.meta")).fetchall()))


def migrate_schema(connection: psycopg.Connection[Any], steps: tuple[Migration, ...]) -> tuple[int, int]:
    """Takes the missing steps, all or none; whoever comes second finds nothing left to do. The version before and after."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock($1)", [_LOCK])
        state = read_state(connection)
        if state is None:
            connection.execute(cast("Any", f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
            connection.execute(cast("Any", _META))
            state = SchemaState(0, 0)
        missing = pending(steps, state)
        _take(connection, missing, state)
        if missing:
            _stamp(connection, missing[-1].version)
    return state.version, missing[-1].version if missing else state.version


def _take(connection: psycopg.Connection[Any], steps: tuple[Migration, ...], state: SchemaState) -> None:
    try:
        for step in steps:
            _run_script(connection, step.script)
    except errors.InsufficientPrivilege:
        raise
    except psycopg.ProgrammingError as cause:
        raise unlike_its_schema(state, cause) from cause


def _run_script(connection: psycopg.Connection[Any], script: str) -> None:
    """Several statements in one go: without values, the server takes them as they are."""
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(cast("Any", script))


def _stamp(connection: psycopg.Connection[Any], version: int) -> None:
    for name, value in (("schema_version", version), ("readable_by", READABLE_BY)):
        connection.execute(
            cast(
                "Any",
                f"INSERT INTO {SCHEMA}.meta (name, value) VALUES ($1, $2) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            ),
            [name, str(value)],
        )

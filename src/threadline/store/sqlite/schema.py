"""Making and migrating the schema of an SQLite file."""

from __future__ import annotations

import apsw

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
from threadline.store.sqlite.connection import APPLICATION_ID

_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"


def ensure_schema(connection: apsw.Connection, *, migrate: bool) -> None:
    """A new file gets the schema; an old one is migrated, or refused where `migrate` is false."""
    steps = migrations("sqlite")
    state = read_state(connection)
    if state is not None:
        if not pending(steps, state):
            return
        if not migrate:
            require_current(steps, state)
    migrate_schema(connection, steps)


def read_state(connection: apsw.Connection) -> SchemaState | None:
    """Which schema the file has; `None` for a file that holds nothing of ours."""
    application = connection.execute("PRAGMA application_id").fetchall()[0][0]
    if application != APPLICATION_ID:
        return None
    rows = connection.execute("SELECT name, value FROM meta").fetchall()
    return state_from({str(name): str(value) for name, value in rows})


def migrate_schema(connection: apsw.Connection, steps: tuple[Migration, ...]) -> tuple[int, int]:
    """Takes the missing steps, all or none; whoever comes second finds nothing left to do. The version before and after."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        state = read_state(connection)
        if state is None:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
            connection.execute(_META).fetchall()
            state = SchemaState(0, 0)
        missing = pending(steps, state)
        _take(connection, missing, state)
        if missing:
            newest = missing[-1].version
            stamp = [("schema_version", str(newest)), ("readable_by", str(READABLE_BY))]
            connection.executemany("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", stamp).fetchall()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return state.version, missing[-1].version if missing else state.version


def _take(connection: apsw.Connection, steps: tuple[Migration, ...], state: SchemaState) -> None:
    try:
        for step in steps:
            connection.execute(step.script).fetchall()
    except apsw.SQLError as cause:
        raise unlike_its_schema(state, cause) from cause

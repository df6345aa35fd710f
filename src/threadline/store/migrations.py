"""The schema's history: numbered files, applied in order, each in one transaction, under a lock."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

from threadline.errors import SchemaTooNew, SchemaTooOld, StoreDamaged

# The oldest program version's schema number that can still use a database of the newest schema. Raised when a migration
# makes older programs write nonsense, left alone when it only adds what they can ignore.
READABLE_BY = 6

_FILE = re.compile(r"(\d{4})\.(sqlite|postgres)\.sql")


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    version: int
    script: str


class SchemaState(msgspec.Struct, frozen=True):
    """What a database says of itself."""

    version: int
    readable_by: int


@cache
def migrations(engine: str) -> tuple[Migration, ...]:
    """All steps for an engine, in order."""
    found = []
    for path in (files("threadline.store") / "sql" / "migrations").iterdir():
        match = _FILE.fullmatch(path.name)
        if match and match.group(2) == engine:
            found.append(Migration(int(match.group(1)), path.read_text()))
    return tuple(sorted(found, key=lambda step: step.version))


def latest_version() -> int:
    """The schema that this program writes."""
    return migrations("sqlite")[-1].version


def pending(steps: tuple[Migration, ...], state: SchemaState) -> tuple[Migration, ...]:
    """The steps still to be taken. `SchemaTooNew` where this program must not touch the database at all."""
    newest = steps[-1].version
    if state.version > newest and state.readable_by > newest:
        raise SchemaTooNew(
            f"this database has schema {state.version}, and this Threadline knows up to {newest}: "
            "upgrade Threadline to open it; nothing was changed"
        )
    return tuple(step for step in steps if step.version > state.version)


def require_current(steps: tuple[Migration, ...], state: SchemaState) -> None:
    """Raises unless the database can be used as it is."""
    missing = pending(steps, state)
    if missing and not state.version:
        raise SchemaTooOld("this database holds nothing of Threadline's yet: run `threadline db migrate`")
    if missing:
        raise SchemaTooOld(
            f"this database has schema {state.version}, and this Threadline needs {missing[-1].version}: "
            "run `threadline db migrate`"
        )


def unlike_its_schema(state: SchemaState, cause: Exception) -> StoreDamaged:
    """The error for a database that a step can't be taken on, because it is not made as its schema says."""
    why = (str(cause).strip().splitlines() or [type(cause).__name__])[0][:200]
    return StoreDamaged(
        f"this database says that it has schema {state.version}, and is not made like one ({why}): a development version of "
        "Threadline may have made it; nothing was changed. Export it with that version, or restore a backup"
    )


def state_from(values: dict[str, str]) -> SchemaState:
    """The state that the `meta` table tells of."""
    try:
        return SchemaState(int(values["schema_version"]), int(values["readable_by"]))
    except (KeyError, ValueError) as cause:
        raise StoreDamaged("this database does not say which schema it has; restore a backup") from cause

"""Named queries and migrations, read from `store/sql`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any

import msgspec

from threadline.errors import SchemaTooNew, SchemaTooOld, StoreDamaged

# The lowest schema version that a program must know to use a database of the newest schema safely. Set it to the new version
# when a migration would make older programs write wrong data; leave it when it only adds what they can ignore.
MIN_USABLE_SCHEMA = 9
_FILE = re.compile(r"(\d{4})\.(sqlite|postgres)\.sql")


class Migration(msgspec.Struct, frozen=True):
    """A migration script, and the schema version that it produces."""

    version: int
    script: str


class SchemaState(msgspec.Struct, frozen=True):
    """The schema version of a database, and the lowest version that a program must know to use it."""

    version: int
    readable_by: int


@cache
def migrations(engine: str) -> tuple[Migration, ...]:
    """Return all migrations of an engine, in order."""
    steps = []
    for path in (files("threadline.store") / "sql" / "migrations").iterdir():
        match = _FILE.fullmatch(path.name)
        if match and match.group(2) == engine:
            steps.append(Migration(int(match.group(1)), path.read_text()))
    return tuple(sorted(steps, key=lambda step: step.version))


def latest_version() -> int:
    """Return the version of the schema that this program writes; both engines have the same versions."""
    return migrations("sqlite")[-1].version


def pending(steps: tuple[Migration, ...], state: SchemaState) -> tuple[Migration, ...]:
    """Return the migrations that are newer than the database. Raise `SchemaTooNew` if it requires a newer program."""
    newest = steps[-1].version
    if state.version > newest and state.readable_by > newest:
        raise SchemaTooNew(
            f"this database has schema {state.version}, and this Threadline knows up to {newest}: "
            "upgrade Threadline to open it; nothing was changed"
        )
    return tuple(step for step in steps if step.version > state.version)


def require_current(steps: tuple[Migration, ...], state: SchemaState) -> None:
    """Raise `SchemaTooOld` if migrations are pending, and `SchemaTooNew` if this program is too old."""
    missing = pending(steps, state)
    if missing and not state.version:
        raise SchemaTooOld("this database has no Threadline tables yet: run `threadline db migrate`")
    if missing:
        raise SchemaTooOld(
            f"this database has schema {state.version}, and this Threadline needs {missing[-1].version}: "
            "run `threadline db migrate`"
        )


def schema_mismatch_error(state: SchemaState, cause: Exception) -> StoreDamaged:
    """Return the error for a database whose migration failed, because its tables do not match its schema version."""
    why = (str(cause).strip().splitlines() or [type(cause).__name__])[0][:200]
    return StoreDamaged(
        f"this database says that it has schema {state.version}, but its tables differ ({why}): a development version of "
        "Threadline may have made it; nothing was changed. Export it with that version, or restore a backup"
    )


def parse_schema_state(values: dict[str, str]) -> SchemaState:
    """Return the state of the schema from the rows of the `meta` table."""
    try:
        return SchemaState(int(values["schema_version"]), int(values["readable_by"]))
    except (KeyError, ValueError) as cause:
        raise StoreDamaged("this database does not say which schema it has; restore a backup") from cause


_HEADER = re.compile(r"^-- (name|fragment): (\w+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")
_FRAGMENT = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"^\s*--.*$\n?", re.MULTILINE)


class PreparedQuery(msgspec.Struct, frozen=True):
    """A query in an engine's own form, and the names of its values in the order in which they are bound."""

    name: str
    text: str
    names: tuple[str, ...]
    values_of: Callable[[Mapping[str, Any]], tuple[Any, ...]]

    def bind(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values in order. Raise `TypeError` for a missing or surplus name: a mistake of the calling operation."""
        if len(values) != len(self.names):
            raise TypeError(f"{self.name} takes {self.names}, not {tuple(values)}")
        return self.values_of(values)


@cache
def load_queries(engine: str, marker: str) -> dict[str, PreparedQuery]:
    """Return all queries for an engine (`sqlite` or `postgres`), with `marker` (`?` or `$`) before each value's number."""
    root = files("threadline.store") / "sql"
    shared = [path.read_text() for path in (root / "shared").iterdir() if path.name.endswith(".sql")]
    own = (root / f"{engine}.sql").read_text()
    texts: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for source in (*shared, own):
        for kind, name, text in _blocks(source):
            (texts if kind == "name" else fragments)[name] = text
    return {name: _prepare(name, _expand(text, fragments), marker) for name, text in texts.items()}


def _blocks(source: str) -> Iterator[tuple[str, str, str]]:
    headers = list(_HEADER.finditer(source))
    ends = [header.start() for header in headers[1:]] + [len(source)]
    for header, end in zip(headers, ends, strict=True):
        text = _COMMENT.sub("", source[header.end() : end]).strip().removesuffix(";")
        yield header.group(1), header.group(2), text


def _expand(text: str, fragments: Mapping[str, str]) -> str:
    while _FRAGMENT.search(text):
        text = _FRAGMENT.sub(lambda match: fragments[match.group(1)], text)
    return text


def _prepare(name: str, text: str, marker: str) -> PreparedQuery:
    names: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda m: f"{marker}{names.setdefault(m.group(1), len(names) + 1)}", text)
    return PreparedQuery(name, numbered, tuple(names), _picker(tuple(names)))


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return the function that picks the values of these names in order, at the speed of C where there are several."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)

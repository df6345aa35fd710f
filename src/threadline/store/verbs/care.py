"""Verbs on the store itself."""

from __future__ import annotations

from pathlib import Path

import msgspec

from threadline.store import maintenance
from threadline.store.engine.database import EngineFacts, EngineStep, Plan, Progress, read
from threadline.store.verbs.base import VerbsBase


class StoreFacts(msgspec.Struct, frozen=True):
    """Facts about a store."""

    engine: EngineFacts
    sessions: int
    ended_sessions: int
    messages: int
    behind: int


class CareVerbs(VerbsBase):
    """Facts, copies and checks."""

    def facts(self) -> Plan[StoreFacts]:
        """What an operator asks first: where, how big, how many."""
        engine: EngineFacts = yield EngineStep(lambda database: database.describe())
        counted = yield from read(maintenance.counts)
        return StoreFacts(engine, *counted)

    def backup(self, target: str | Path, *, progress: Progress | None = None) -> Plan[Path]:
        """Writes a consistent, verified copy to `target`, an SQLite file, while others read and write."""
        path = Path(target).expanduser().absolute()
        yield EngineStep(lambda database: database.backup(path, progress or _quiet))
        return path

    def check(self, *, progress: Progress | None = None) -> Plan[maintenance.CheckReport]:
        """Looks at the file, every view, and the search index against the messages."""
        tell = progress or _quiet
        found: list[str] = yield EngineStep(lambda database: database.verify())
        sessions_there, _, messages_there, late = yield from read(maintenance.counts)
        seen, total = 0, sessions_there + messages_there
        for look in (maintenance.check_views, maintenance.check_messages):
            after: int | None = 0
            while after is not None:
                stretch: maintenance.Stretch = yield from read(look, after)
                seen, after = seen + stretch.looked_at, stretch.next
                found = [*found, *stretch.faults]
                tell(min(seen, total), total)
        found = [*found, *(yield from read(maintenance.check_strays))]
        return maintenance.CheckReport(found, sessions_there, messages_there, late)


def _quiet(done: int, total: int) -> None:
    """Progress that nobody asked for."""

"""The SQLite engine."""

from __future__ import annotations

from threadline.store.engine.sqlite.database import SqliteDatabase

__all__ = ["SqliteDatabase"]

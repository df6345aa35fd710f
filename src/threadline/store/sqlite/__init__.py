"""The embedded engine: one file, one writer, any number of readers and processes."""

from threadline.store.sqlite.engine import SqliteDatabase

__all__ = ["SqliteDatabase"]

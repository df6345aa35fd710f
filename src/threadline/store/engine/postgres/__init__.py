"""The PostgreSQL engine."""

from __future__ import annotations

from threadline.store.engine.postgres.database import PostgresDatabase

__all__ = ["PostgresDatabase"]

"""The engine for many machines: a PostgreSQL database shared by any number of processes."""

from threadline.store.postgres.engine import PostgresDatabase

__all__ = ["PostgresDatabase"]

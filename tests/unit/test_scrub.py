"""Erased words leave the files of a database, or whoever erases hears that they have not."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest
from tests.conftest import PostgresServer

from threadline import SessionStore
from threadline.errors import StoreUnavailable
from threadline.store.engine.sqlite.database import rewrite_file
from threadline.testing import dm, user


def test_words_that_a_reader_keeps_in_the_journal_are_not_said_to_be_gone(tmp_path: Path) -> None:
    path = tmp_path / "threadline.db"
    with SessionStore.open(path) as store, closing(apsw.Connection(str(path))) as reader:
        session_id = store.get_or_create_session(dm("7")).session_id
        reader.execute("BEGIN").fetchall()
        reader.execute("SELECT COUNT(*) FROM messages").fetchall()
        store.append_to_transcript(session_id, user("xylophonic vexation"))
        store.redact(f"{session_id}:1")
        with closing(apsw.Connection(str(path))) as writer:
            # It does not wait for the reader.
            with pytest.raises(StoreUnavailable, match="run this again"):
                rewrite_file(writer)
            assert b"xylophonic" in b"".join(file.read_bytes() for file in tmp_path.iterdir())
            reader.execute("ROLLBACK").fetchall()
            rewrite_file(writer)
        assert b"xylophonic" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_a_reader_of_postgresql_is_waited_for(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with SessionStore.open(postgres_server.renew()) as store, psycopg.connect(postgres_server.location) as reader:
        session_id = store.get_or_create_session(dm("7")).session_id
        store.append_to_transcript(session_id, user("xylophonic vexation"))
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        with monkeypatch.context() as patch:
            patch.setattr("threadline.store.engine.postgres.database._SNAPSHOT_WAIT_SECONDS", 0.2)
            with pytest.raises(StoreUnavailable, match="run this again"):
                store.erase_person("telegram:7")
        ending = threading.Timer(0.5, reader.rollback)
        ending.start()
        store.erase_person("telegram:7")
        ending.join()
        assert b"xylophonic" not in postgres_server.content()

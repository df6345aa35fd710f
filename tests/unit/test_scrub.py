"""Erased words leave an SQLite file, or whoever erases hears that they have not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from threadline import SessionStore
from threadline.errors import StoreUnavailable
from threadline.store.sqlite.engine import scrub_file
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
                scrub_file(writer)
            assert b"xylophonic" in b"".join(file.read_bytes() for file in tmp_path.iterdir())
            reader.execute("ROLLBACK").fetchall()
            scrub_file(writer)
        assert b"xylophonic" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())

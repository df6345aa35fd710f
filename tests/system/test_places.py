"""Places that are not what a store needs: a clear error, and nothing is changed there."""

from __future__ import annotations

import hashlib
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from tests.system.disks import read_only

from threadline import (
    SchemaTooNew,
    SchemaTooOld,
    SessionStore,
    StoreDamaged,
    StoreReadOnly,
    StoreUnavailable,
    ThreadlineError,
)
from threadline.store.engine.sql import Migration, latest_version, migrations
from threadline.store.engine.sqlite.connection import connect_writer, migrate_schema, read_state
from threadline.testing import dm, user


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A store with one message, closed."""
    path = tmp_path / "place" / "threadline.db"
    with SessionStore.open(path) as store:
        session = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session, user("kept"))
    return path


def digests(folder: Path) -> dict[str, str]:
    """What the files of a folder hold."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def kept(path: Path) -> list[object]:
    with SessionStore.open(path) as store:
        return [m["content"] for m in store.load_transcript(store.get_or_create_session(dm()).session_id)]


def change(path: Path, *statements: str) -> None:
    """Changes a database behind Threadline's back."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def test_a_new_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "threadline.db"
    with SessionStore.open(path) as store:
        store.get_or_create_session(dm())
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert {"threadline.db", "threadline.db-wal"} <= set(modes)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [0o700] * 2


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    SessionStore.open(folder / "threadline.db").close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_nothing_new_can_be_made_in_a_folder_that_is_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    with read_only(folder), pytest.raises(StoreReadOnly, match="choose another place"):
        SessionStore.open(folder / "threadline.db")
    with read_only(folder), pytest.raises(StoreReadOnly, match="choose another place"):
        SessionStore.open(folder / "deeper" / "threadline.db")
    assert list(folder.iterdir()) == []


def test_a_store_in_a_folder_that_is_read_only_is_refused_and_unharmed(filled: Path) -> None:
    before = digests(filled.parent)
    with read_only(filled.parent), pytest.raises(StoreReadOnly, match="check who owns"):
        SessionStore.open(filled)
    assert digests(filled.parent) == before
    assert kept(filled) == ["kept"]


def test_a_store_that_others_have_open_is_refused_where_its_folder_is_read_only(filled: Path) -> None:
    with SessionStore.open(filled) as store:
        session = store.get_or_create_session(dm()).session_id
        with read_only(filled.parent), pytest.raises(StoreReadOnly, match="check who owns"):
            SessionStore.open(filled)
        assert store.append_to_transcript(session, user("more")).count == 1
    assert kept(filled) == ["kept", "more"]


def test_a_file_that_is_read_only_can_be_read_and_says_so_to_writers(filled: Path) -> None:
    with read_only(filled), SessionStore.open(filled) as store:
        session = store.list_sessions()[0].session_id
        with pytest.raises(StoreReadOnly, match="check who owns"):
            store.append_to_transcript(session, user("refused"))
        assert [m["content"] for m in store.load_transcript(session)] == ["kept"]
    assert kept(filled) == ["kept"]


@pytest.mark.parametrize("content", [b"# my notes\n" * 500, b"\x00" * 8192, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="choose another file"):
        SessionStore.open(path)
    assert digests(tmp_path) == {"notes.txt": hashlib.sha256(content).hexdigest()}


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_another_programs_database_is_left_alone(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "other.db"
    change(path, f"PRAGMA journal_mode = {journal}", "CREATE TABLE recipes (name)", "PRAGMA application_id = 7")
    before = digests(tmp_path)
    with pytest.raises(StoreDamaged, match="another program's database"):
        SessionStore.open(path)
    assert digests(tmp_path) == before


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        SessionStore.open(tmp_path)


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="choose another place"):
        SessionStore.open(tmp_path / "file" / "threadline.db")


def test_a_database_that_was_cut_short_is_damaged_not_empty(filled: Path) -> None:
    content = filled.read_bytes()
    for size in (len(content) // 2, 4096, 100):
        filled.write_bytes(content[:size])
        with pytest.raises(ThreadlineError) as told:
            kept(filled)
        assert isinstance(told.value, StoreDamaged), f"cut to {size} bytes"


def test_a_database_with_overwritten_pages_is_found_out_by_check_or_by_the_first_read(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    for page in range(2, len(content) // 4096):
        damaged = bytearray(content)
        damaged[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
        filled.write_bytes(damaged)
        try:
            with SessionStore.open(filled) as store:
                found = store.check().faults
        except StoreDamaged:
            continue
        assert found, f"page {page}"


def test_a_newer_programs_database_is_not_touched(filled: Path) -> None:
    change(
        filled,
        "UPDATE meta SET value = '999' WHERE name IN ('schema_version', 'readable_by')",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    )
    before = digests(filled.parent)
    for migrate in (True, False):
        with pytest.raises(SchemaTooNew, match="upgrade Threadline"):
            SessionStore.open(filled, migrate=migrate)
    assert digests(filled.parent) == before


def test_a_newer_database_that_says_it_can_be_used_is_used(filled: Path) -> None:
    change(filled, "UPDATE meta SET value = '999' WHERE name = 'schema_version'")
    assert kept(filled) == ["kept"]


def test_an_older_database_is_refused_where_it_must_not_be_migrated(filled: Path) -> None:
    change(filled, "UPDATE meta SET value = '0' WHERE name = 'schema_version'", "PRAGMA wal_checkpoint(TRUNCATE)")
    before = digests(filled.parent)
    with pytest.raises(SchemaTooOld, match="threadline db migrate"):
        SessionStore.open(filled, migrate=False)
    assert digests(filled.parent) == before


def test_a_database_that_does_not_say_its_schema_is_damaged(filled: Path) -> None:
    change(filled, "DELETE FROM meta")
    with pytest.raises(StoreDamaged, match="which schema"):
        SessionStore.open(filled)


def test_a_migration_that_fails_half_way_changes_nothing(filled: Path) -> None:
    newest = latest_version()
    good = Migration(newest + 1, "CREATE TABLE first (x); INSERT INTO first VALUES (1);")
    bad = Migration(newest + 2, "CREATE TABLE second (x); INSERT INTO nowhere VALUES (1);")
    connection = connect_writer(filled)
    with pytest.raises(StoreDamaged):
        migrate_schema(connection, (*migrations("sqlite"), good, bad))
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE name IN ('first', 'second')").fetchall()
    state = read_state(connection)
    connection.close()
    assert tables == []
    assert state is not None
    assert state.version == newest
    assert kept(filled) == ["kept"]


def test_migrations_are_taken_once_however_many_come_at_the_same_time(filled: Path) -> None:
    newest = latest_version()
    step = Migration(newest + 1, "CREATE TABLE added (x); INSERT INTO added VALUES (1);")

    def migrate(_: int) -> tuple[int, int]:
        connection = connect_writer(filled)
        try:
            return migrate_schema(connection, (*migrations("sqlite"), step))
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(migrate, range(8)))
    assert outcomes.count((newest, newest + 1)) == 1
    assert outcomes.count((newest + 1, newest + 1)) == 7


OPENS = """
import sys
from threadline import SessionStore
from threadline.testing import dm
sys.stdin.readline()
for path in sys.argv[1:]:
    with SessionStore.open(path) as store:
        print(store.get_or_create_session(dm()).session_id)
"""


def test_processes_that_make_the_same_store_at_once_share_it(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}" / "threadline.db") for number in range(30)]
    command = [sys.executable, "-c", OPENS, *paths]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=60) for process in processes]
    assert [errors for _, errors in told] == [""] * 3
    sessions = [output.split() for output, _ in told]
    assert sessions[0] == sessions[1] == sessions[2]
    assert len(sessions[0]) == len(paths)

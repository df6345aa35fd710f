"""A database in a hurry: brief writes are done on the loop's own thread, and nothing that may take long ever is."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.gateway.world import awaited

from threadline.errors import InvalidRequest
from threadline.store.database import EngineStep, ReadStep, Tx, WriteStep
from threadline.store.sqlite import SqliteDatabase
from threadline.store.sqlite import connection as connection_module
from threadline.store.sqlite import engine as engine_module
from threadline.store.sqlite.writer import BetweenBatches, Writer

_MEGABYTES = 25
_HELD_SECONDS = 10


def kept(tx: Tx, number: int, size: int = 1) -> int:
    """Writes something under a number, and tells on which thread."""
    tx.run("keep_context", session_pk=number, block="x" * size)
    return threading.get_ident()


def brief(operation: Callable[..., Any], *arguments: Any) -> WriteStep:
    return WriteStep(operation, arguments, {}, is_brief=True)


def numbers(database: SqliteDatabase, upto: int = 9) -> set[int]:
    """Under which numbers something stands."""

    def read(tx: Tx) -> set[int]:
        return {number for number in range(upto) if tx.find("find_context", session_pk=number) is not None}

    found: set[int] = database.perform(ReadStep(read, (), {}))
    return found


@contextmanager
def opened(path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(path, location=f"sqlite://{path}")
    try:
        yield database
    finally:
        database.close()


@asynccontextmanager
async def hurrying(path: Path) -> AsyncIterator[SqliteDatabase]:
    with opened(path) as database:
        await database.perform_async(EngineStep(lambda database: database.hurry()))
        yield database


async def at_rest(database: SqliteDatabase) -> None:
    """Returns in another round of the loop, when the lane is free."""
    await asyncio.sleep(0)
    while database._lane._busy:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.001)


async def writes_behind(database: SqliteDatabase, go_on: Any) -> None:
    """Something is written only when the other one, who writes first, may `go_on`; the loop goes round meanwhile."""
    coming = asyncio.ensure_future(database.perform_async(brief(kept, 2)))
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not coming.done()
    go_on.set()
    assert await coming != threading.get_ident()


@awaited
async def test_only_brief_writes_of_a_database_in_a_hurry_are_done_on_the_loops_thread(tmp_path: Path) -> None:
    here = threading.get_ident()
    with opened(tmp_path / "a.db") as database:
        assert await database.perform_async(brief(kept, 1)) != here
        await database.perform_async(EngineStep(lambda database: database.hurry()))
        done = asyncio.ensure_future(database.perform_async(brief(kept, 2)))
        assert done.done()
        assert done.result() == here
        assert await database.perform_async(WriteStep(kept, (3,), {})) != here
        assert numbers(database) == {1, 2, 3}


@awaited
async def test_an_error_is_its_callers_alone_and_leaves_nothing(tmp_path: Path) -> None:
    def refuse(tx: Tx) -> None:
        kept(tx, 1)
        raise InvalidRequest("no")

    async with hurrying(tmp_path / "a.db") as database:
        with pytest.raises(InvalidRequest, match="no"):
            await database.perform_async(brief(refuse))
        await database.perform_async(brief(kept, 2))
        assert numbers(database) == {2}


@awaited
async def test_a_signal_takes_its_own_write_along_and_no_other(tmp_path: Path) -> None:
    def struck(tx: Tx) -> None:
        kept(tx, 1)
        raise KeyboardInterrupt

    async with hurrying(tmp_path / "a.db") as database:
        with pytest.raises(KeyboardInterrupt):
            database.perform_async(brief(struck))
        assert await database.perform_async(brief(kept, 2)) == threading.get_ident()
        assert numbers(database) == {2}


@awaited
async def test_the_loop_goes_on_while_another_thread_writes(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        kept(tx, 1)
        begun.set()
        go_on.wait(30)

    async with hurrying(tmp_path / "a.db") as database:
        other = threading.Thread(target=lambda: database.perform(WriteStep(slow, (), {})))
        other.start()
        begun.wait(30)
        await writes_behind(database, go_on)
        other.join()
        assert numbers(database) == {1, 2}


def _write_as_we_do(path: Path, begun: Any, go_on: Any) -> None:
    def slow(tx: Tx) -> None:
        kept(tx, 1)
        begun.set()
        go_on.wait(_HELD_SECONDS)

    with opened(path) as database:
        database.perform(WriteStep(slow, (), {}))


def _write_as_others_do(path: Path, begun: Any, go_on: Any) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO contexts (session_pk, block) VALUES (1, 'x')")
    begun.set()
    go_on.wait(_HELD_SECONDS)
    connection.execute("COMMIT")
    connection.close()


@pytest.mark.parametrize("write", [_write_as_we_do, _write_as_others_do])
@awaited
async def test_the_loop_goes_on_while_another_process_writes(
    tmp_path: Path, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A loop that waited for the other one would get its turn in the end, and be found out by that.
    monkeypatch.setattr(connection_module, "BUSY_MILLISECONDS", 6_000 * _HELD_SECONDS)
    spawned = multiprocessing.get_context("spawn")
    begun, go_on = spawned.Event(), spawned.Event()

    async with hurrying(tmp_path / "a.db") as database:
        other = spawned.Process(target=write, args=(tmp_path / "a.db", begun, go_on))
        other.start()
        assert begun.wait(60)
        await writes_behind(database, go_on)
        other.join()
        assert numbers(database) == {1, 2}


@awaited
async def test_those_of_many_at_once_share_commits_on_the_lanes_thread(tmp_path: Path) -> None:
    async with hurrying(tmp_path / "a.db") as database:
        threads = await asyncio.gather(*(database.perform_async(brief(kept, number)) for number in range(9)))
        assert threads.count(threading.get_ident()) == 1
        assert numbers(database) == set(range(9))
        # However slow the disk was.
        database._patient_until = 0.0
        await at_rest(database)
        assert await database.perform_async(brief(kept, 9)) == threading.get_ident()


@awaited
async def test_after_a_slow_write_the_loop_is_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: Tx) -> int:
        time.sleep(3 * engine_module._QUICK_SECONDS)
        return threading.get_ident()

    monkeypatch.setattr(engine_module, "_PATIENCE", 1e6)
    monkeypatch.setattr(engine_module, "_PATIENT_SECONDS", 3600.0)
    here = threading.get_ident()
    async with hurrying(tmp_path / "a.db") as database:
        assert await database.perform_async(brief(slow)) == here
        await at_rest(database)
        assert await database.perform_async(brief(kept, 1)) != here
        database._patient_until = 0.0
        await at_rest(database)
        assert await database.perform_async(brief(kept, 2)) == here


@awaited
async def test_the_journal_is_brought_into_the_file_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, threads = tmp_path / "a.db", set()
    shorten = Writer.shorten

    def watched(self: Writer, connection: apsw.Connection) -> None:
        threads.add(threading.get_ident())
        shorten(self, connection)

    monkeypatch.setattr(Writer, "shorten", watched)
    async with hurrying(path) as database:

        async def write(number: int, size: int) -> None:
            database._patient_until = 0.0
            await asyncio.sleep(0)
            assert await database.perform_async(brief(kept, number, size)) == threading.get_ident()

        await lengthened(database, path)
        for number in range(2, _MEGABYTES + 2):
            await write(number, 1_000_000)
        assert path.stat().st_size < 2_000_000
        while not (threads or database._lane._busy):
            number += 1
            await write(number, 1)
        # Behind what the lane was given to do.
        await database._lane.perform_async(BetweenBatches(lambda _connection: None))
        assert len(threads) == 1
        assert threading.get_ident() not in threads
        assert path.stat().st_size > _MEGABYTES * 1_000_000


@awaited
async def test_any_other_write_brings_a_long_journal_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async with hurrying(path) as database:
        await database.perform_async(brief(kept, 1, _MEGABYTES * 1_000_000))
        assert path.stat().st_size < 2_000_000
        await database.perform_async(WriteStep(kept, (2,), {}))
        assert path.stat().st_size > _MEGABYTES * 1_000_000


@awaited
async def test_its_journal_does_not_grow_while_somebody_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with hurrying(path) as database:
        length = await lengthened(database, path)
        assert length > 4_000_000
        for number in range(300):
            await asyncio.sleep(0)
            await database.perform_async(brief(kept, number % 9, 20_000))
        await at_rest(database)
        assert journal_of(path).stat().st_size == length
        assert numbers(database) == set(range(9))
    assert not journal_of(path).exists()


def _write_and_die(path: Path) -> None:
    async def write() -> None:
        async with hurrying(path) as database:
            await lengthened(database, path)
            for number in range(5):
                await asyncio.sleep(0)
                await database.perform_async(brief(kept, number))
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(write())


def test_what_was_written_into_a_long_journal_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    process = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / "a.db-wal").stat().st_size > 4_000_000
    # By SQLite itself, and by us.
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert len(other.execute("SELECT * FROM contexts").fetchall()) == 5
    other.close()
    with opened(path) as database:
        assert numbers(database) == set(range(5))


async def lengthened(database: SqliteDatabase, path: Path) -> int:
    """How long the journal is, behind the first write of somebody who waits."""
    await database.perform_async(brief(kept, 1))
    await database._lane.perform_async(BetweenBatches(lambda _connection: None))
    return journal_of(path).stat().st_size


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


@awaited
async def test_the_journal_is_given_its_length_only_while_nobody_else_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    spawned = multiprocessing.get_context("spawn")
    begun, go_on = spawned.Event(), spawned.Event()
    with opened(path) as database:
        other = spawned.Process(target=_write_as_others_do, args=(path, begun, go_on))
        other.start()
        assert begun.wait(60)
        before = journal_of(path).stat().st_size
        # On a thread, as the lane does it: the other one holds the file.
        waits = threading.Thread(target=database._lane.perform, args=(BetweenBatches(database._writer.lengthen),))
        waits.start()
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert journal_of(path).stat().st_size == before
        go_on.set()
        waits.join()
        other.join()
        assert journal_of(path).stat().st_size > 4_000_000
        assert numbers(database) == {1}
        assert database.verify() == []


@awaited
async def test_where_there_is_no_room_for_it_the_journal_grows_as_it_may(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "a.db"
    async with hurrying(path) as database:
        # No file can be longer than that.
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
        try:
            assert await lengthened(database, path) < 1_000_000
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await database.perform_async(brief(kept, 2))
        assert numbers(database) == {1, 2}


@awaited
async def test_the_journal_of_another_file_in_its_place_is_let_be(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with hurrying(path) as database:
        for file in ("a.db", "a.db-wal", "a.db-shm"):
            (tmp_path / file).rename(tmp_path / f"moved-{file}")
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA journal_mode = wal")
            other.execute("CREATE TABLE restored (number INTEGER)")
        length = journal_of(path).stat().st_size
        assert await lengthened(database, path) == length
        other.close()


@awaited
async def test_a_file_may_be_called_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "a.db").symlink_to(tmp_path / "real" / "b.db")
    async with hurrying(tmp_path / "a.db") as database:
        assert await lengthened(database, tmp_path / "real" / "b.db") > 4_000_000

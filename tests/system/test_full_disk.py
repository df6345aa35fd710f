"""A full disk fails only what could not be written, and the same open store goes on when there is room again."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import apsw
import pytest
from tests.system.disks import small_disk

from threadline import SessionStore, StoreFull
from threadline.testing import dm, user

CALLERS = 8
MEBIBYTE = 1024 * 1024


class SmallPlace(Protocol):
    """A store where little fits, until room is made."""

    store: SessionStore
    path: Path

    def make_room(self) -> None: ...


class SmallDisk:
    """A whole disk that is small, most of it taken by something else."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "threadline.db"
        self._ballast = folder / "ballast"
        self._ballast.write_bytes(bytes(20 * MEBIBYTE))
        self.store = SessionStore.open(self.path)

    def make_room(self) -> None:
        self._ballast.unlink()


class SmallFile:
    """A file that SQLite itself may not let grow: it says "full" in the middle of a change, not at its end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "threadline.db"
        self.store = SessionStore.open(self.path)
        self._writer: apsw.Connection = self.store.database._writer._connection  # type: ignore[attr-defined]
        self._allow(2 * MEBIBYTE // 4096)

    def make_room(self) -> None:
        self._allow(100 * MEBIBYTE // 4096)

    def _allow(self, pages: int) -> None:
        self._writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()


@pytest.fixture(params=["small disk", "small file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallPlace]:
    if request.param == "small file":
        yield from opened(SmallFile(tmp_path))
        return
    with small_disk(tmp_path / "disk", 24) as allowed:
        if not allowed:
            pytest.skip("no disk can be mounted here: run it as root")
        yield from opened(SmallDisk(tmp_path / "disk"))


def opened(place: SmallPlace) -> Iterator[SmallPlace]:
    yield place
    place.store.close()


def test_what_fits_is_kept_what_does_not_is_told_and_with_room_it_all_goes_on(place: SmallPlace) -> None:
    store = place.store
    session = store.get_or_create_session(dm()).session_id
    acknowledged: list[str] = []
    refused: list[str] = []

    def appends_until_it_is_full(caller: int) -> None:
        for turn in range(1_000):
            key = f"{caller}:{turn}"
            try:
                store.append_to_transcript(session, user(text_of(key, 20_000)), idempotency_key=key)
            except StoreFull:
                refused.append(key)
                return
            acknowledged.append(key)

    run_together([appends_until_it_is_full] * CALLERS)
    assert len(refused) == CALLERS
    assert len(acknowledged) > CALLERS
    assert keys_in(store, session) == sorted(acknowledged)

    place.make_room()
    for key in (*refused, *acknowledged):
        store.append_to_transcript(session, user(text_of(key, 20_000)), idempotency_key=key)
    assert keys_in(store, session) == sorted([*acknowledged, *refused])
    assert store.check().ok
    store.close()
    with SessionStore.open(place.path) as reopened:
        assert keys_in(reopened, session) == sorted([*acknowledged, *refused])


def test_in_one_batch_only_the_message_that_does_not_fit_is_refused(place: SmallPlace) -> None:
    store = place.store
    session = store.get_or_create_session(dm()).session_id
    small = [f"small:{number}" for number in range(CALLERS)]
    with ThreadPoolExecutor(CALLERS + 2) as callers:
        with writers_held(place.path):
            # The first to come leads a batch alone; the others wait for it and then go together.
            first = callers.submit(store.append_to_transcript, session, user("first"), "first")
            wait_for_waiters(store, 0)
            huge = callers.submit(store.append_to_transcript, session, user(text_of("huge", 4 * MEBIBYTE - 9_000)))
            wait_for_waiters(store, 1)
            others = [callers.submit(store.append_to_transcript, session, user(key), key) for key in small]
            wait_for_waiters(store, 1 + CALLERS)
        assert first.result(30).count == 1
        with pytest.raises(StoreFull, match="make room"):
            huge.result(30)
        assert [future.result(30).count for future in others] == [1] * CALLERS
    assert keys_in(store, session) == sorted(["first", *small])
    assert store.check().ok


@contextmanager
def writers_held(path: Path) -> Iterator[None]:
    """Another process's turn: nothing is committed meanwhile."""
    with path.with_name(path.name + ".lock").open("rb") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        yield


def wait_for_waiters(store: SessionStore, count: int) -> None:
    queue = store.database._commit_queue  # type: ignore[attr-defined]
    deadline = time.monotonic() + 10
    while not (queue._busy and len(queue._queue) == count):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run_together(works: Sequence[Callable[[int], None]]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def text_of(key: str, size: int) -> str:
    return f"{key} " + "x" * size


def keys_in(store: SessionStore, session: str) -> list[str]:
    return sorted(str(message["content"]).partition(" ")[0] for message in store.load_transcript(session))

"""A session's place in listings may follow behind the writes; however much of that is done, listings are exact."""

from __future__ import annotations

import random
import time
from contextlib import closing
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from msgspec.structs import replace
from tests.system.seeds import seeded

from threadline import SessionEntry, SessionStore
from threadline.clock import to_instant
from threadline.model.ownership import Viewer
from threadline.store.conversations.indexes import ListRequest, list_sessions, relist_batch
from threadline.store.engine.database import Database, Row, Tx, read, write
from threadline.store.maintenance import BackgroundWorker
from threadline.store.work import owner_alerts
from threadline.testing import FakeClock, dm, user

PATIENCE_SECONDS = 60
FOLDER = "/home/ada/garden"
PLACES = [
    dm(person, platform=platform, thread=f"t{number}")
    for platform in ("telegram", "signal")
    for person in ("p1", "p2")
    for number in range(4)
]


class Walk:
    """Things happen to a few sessions at random; what listings should show is worked out from the sessions themselves."""

    def __init__(self, store: SessionStore, clock: FakeClock, chance: random.Random) -> None:
        self.store = store
        self.clock = clock
        self.chance = chance
        self.ids: list[str] = []
        self.used = 0

    def step(self) -> None:
        """One thing happens, a while after the last; seldom the clock is put back."""
        self.clock.advance(timedelta(milliseconds=self.chance.choice([0, 1, 20, 60, 100, 2_000, 11_000, 3_600_000])))
        if self.chance.random() < 0.1:
            self.clock.advance(timedelta(seconds=-self.chance.choice([1, 60, 7_200])))
        entry = self.store.get_or_create_session(self.chance.choice(PLACES))
        if entry.session_id not in self.ids:
            self.ids.append(entry.session_id)
            self._settle_down(entry)
        rare = (self._spend, self._name, self._end, self._relist)
        self.chance.choice([self._nothing, self._nothing, self._say, self._say, *rare])(entry)

    def compare(self) -> None:
        """Every way to list, page by page."""
        entries = [self.store.get_session(session_id) for session_id in self.ids]
        places = {entry.session_id: place for place, entry in enumerate(entries)}
        entries.sort(key=lambda entry: (entry.updated_at, places[entry.session_id]), reverse=True)
        since = self.clock.now() - timedelta(minutes=30)
        for include_ended in (False, True):
            shown = [entry for entry in entries if include_ended or entry.ended_at is None]
            recent = [entry for entry in shown if min(entry.updated_at, entry.active_at) >= since]
            everyone = ListRequest(include_ended=include_ended)
            assert self._listed(everyone) == shown
            assert self._listed(ListRequest(include_ended=include_ended, active_since=to_instant(since))) == recent
            of_platform = ListRequest(include_ended=include_ended, platform="signal")
            assert self._listed(of_platform) == [entry for entry in shown if entry.platform == "signal"]
            in_folder = ListRequest(include_ended=include_ended, cwd=FOLDER)
            assert self._listed(in_folder) == [entry for entry in shown if entry.cwd == FOLDER]
            of_person = ListRequest(include_ended=include_ended, viewer=Viewer(person="signal:p1"))
            assert self._listed(of_person) == [entry for entry in shown if entry.owner == "signal:p1"]

    def _listed(self, wanted: ListRequest) -> list[SessionEntry]:
        found: list[SessionEntry] = []
        cursor: str | None = None
        limit = self.chance.choice([1, 2, 5])
        while True:
            asked = replace(wanted, limit=limit, cursor=cursor)
            page = self.store.perform(read(list_sessions, asked))
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found

    def _settle_down(self, entry: SessionEntry) -> None:
        if self.chance.random() < 0.7:
            self.store.perform(write(in_folder, entry.session_id))

    def _nothing(self, entry: SessionEntry) -> None: ...

    def _say(self, entry: SessionEntry) -> None:
        self.store.append_to_transcript(entry.session_id, user("hello"))

    def _spend(self, entry: SessionEntry) -> None:
        self.used += 1
        self.store.record_usage(entry.session_id, f"turn{self.used}", input_tokens=1)

    def _name(self, entry: SessionEntry) -> None:
        self.store.set_title(entry.session_id, f"Tea with {entry.session_id}")

    def _end(self, entry: SessionEntry) -> None:
        fresh = self.store.reset_session(entry.session_key)
        assert fresh is not None
        self.ids.append(fresh.session_id)

    def _relist(self, entry: SessionEntry) -> None:
        self.store.perform(write(relist_batch, self.chance.choice([1, 1, 2, 100])))


def in_folder(tx: Tx, session_id: str) -> None:
    """An editor works there."""
    row = tx.find("lock_session_pk", session_id=session_id)
    assert row is not None
    tx.run("set_cwd", cwd=FOLDER, session_pk=row[0])


def waiting(store: SessionStore) -> list[Row]:
    """Sessions whose places have not followed yet."""
    return store.perform(read(lambda tx: tx.rows("moved_sessions", limit=1_000)))


@pytest.mark.parametrize("turn", range(3))
def test_listings_are_exact_whatever_has_been_listed_anew(store: SessionStore, clock: FakeClock, turn: int) -> None:
    walk = Walk(store, clock, seeded(f"listings, walk {turn}"))
    for _ in range(100):
        walk.step()
        walk.compare()
    report = store.check()
    assert report.ok, report.faults
    store.perform(write(relist_batch, 1_000))
    assert waiting(store) == []
    walk.compare()
    assert store.check().ok


@pytest.mark.parametrize("change", ["touched", "said", "spent"])
def test_places_follow_by_themselves(store: SessionStore, clock: FakeClock, change: str) -> None:
    ids = [store.get_or_create_session(dm(f"p{number}")).session_id for number in range(5)]
    # What it is about to do must not be what brings them level.
    while store._worker._due.is_set():
        time.sleep(0.05)
    clock.advance(timedelta(hours=1))
    if change == "touched":
        store.get_or_create_session(dm("p2"))
    elif change == "spent":
        store.record_usage(ids[2], "turn", input_tokens=1)
    else:
        store.append_to_transcript(ids[2], user("hello"))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while waiting(store):
        assert time.monotonic() < deadline, "nobody lists them anew"
        time.sleep(0.05)
    assert store.list_sessions()[0].session_id == ids[2]


class Busy:
    """A database whose writers never pause: before every step another session has moved."""

    def __init__(self, store: SessionStore, clock: FakeClock) -> None:
        self._store = store
        self._clock = clock
        self._numbers = count()

    def perform(self, step: Any) -> Any:
        self._clock.advance(timedelta(minutes=1))
        self._store.get_or_create_session(dm(f"p{next(self._numbers) % 3}"))
        return self._store.database.perform(step)


def test_words_are_indexed_beside_writers_who_never_pause(store: SessionStore, clock: FakeClock) -> None:
    ids = [store.get_or_create_session(dm(f"p{number}")).session_id for number in range(3)]
    store.append_to_transcript(ids[0], user("about quinces"))
    # The store's own meets no such writers.
    store._worker.stop()
    upkeep = BackgroundWorker(cast(Database, Busy(store, clock)))
    try:
        upkeep.notify()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while store.facts().unindexed:
            assert time.monotonic() < deadline, "nobody indexes them"
            time.sleep(0.05)
    finally:
        upkeep.stop()


def test_a_copy_lists_what_had_moved_in_its_place(store: SessionStore, clock: FakeClock, tmp_path: Path) -> None:
    ids = [store.get_or_create_session(dm(f"p{number}")).session_id for number in range(5)]
    for _ in range(3):
        # Within what places may lag on an engine, and beyond it on another.
        clock.advance(timedelta(seconds=3))
        store.get_or_create_session(dm("p1"))
    path = store.backup(tmp_path / "copy.db")
    with SessionStore.open(path) as copy:
        assert [entry.session_id for entry in copy.list_sessions(limit=1)] == [ids[1]]
        assert copy.check().ok


def test_a_deleted_session_leaves_nothing_to_list(tmp_path: Path, clock: FakeClock) -> None:
    with SessionStore.open(tmp_path / "threadline.db", clock=clock) as store:
        session_id = store.get_or_create_session(dm("p1")).session_id
        clock.advance(timedelta(hours=1))
        store.get_or_create_session(dm("p1"))
        store.delete_session(session_id)
        assert store.list_sessions().items == []
    with closing(apsw.Connection(str(tmp_path / "threadline.db"))) as behind:
        assert behind.execute("SELECT COUNT(*) FROM moved").fetchall() == [(0,)]


def test_an_owner_is_told_where_they_wrote_last(store: SessionStore, clock: FakeClock) -> None:
    for thread in ("t1", "t2", "t1"):
        store.get_or_create_session(dm("p1", thread=thread))
        clock.advance(timedelta(hours=1))
    target = store.perform(read(owner_alerts.find_owner_chat, ["telegram:p1"], [("telegram", "main")]))
    assert target is not None
    assert target.thread_id == "t1"

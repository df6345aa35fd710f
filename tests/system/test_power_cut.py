"""A power cut at any instant takes nothing that was acknowledged, and leaves a sound file."""

from __future__ import annotations

import random
import threading
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from tests.system.powercut import (
    LOSSES,
    Acknowledged,
    Event,
    Loss,
    RecordingDisk,
    Sync,
    acknowledged,
    cut_power,
)
from tests.system.seeds import seeded, soak_count

from threadline import SessionSource, SessionStore, ThreadlineError
from threadline.clock import SystemClock
from threadline.model.address import SessionScope
from threadline.model.policy import ResetPolicies
from threadline.store.engine.sqlite import writer as writer_module
from threadline.store.engine.sqlite.database import SqliteDatabase
from threadline.store.verbs import StoreSettings

CALLERS = 3
APPENDS = 40
CUTS = 24
SOURCES = [SessionSource(platform="telegram", chat_id=str(chat), user_id="7") for chat in range(2)]


def test_what_was_acknowledged_survives_a_power_cut_at_any_instant(tmp_path: Path) -> None:
    cut_at_random_instants(tmp_path, CUTS)


@pytest.mark.soak
def test_many_power_cuts(tmp_path: Path) -> None:
    cut_at_random_instants(tmp_path, soak_count())


def cut_at_random_instants(tmp_path: Path, cuts: int) -> None:
    rng = seeded(f"{cuts} power cuts")
    record = record_of_a_busy_store(tmp_path / "disk", synchronous="FULL")
    assert len(acknowledged(record)) == CALLERS * APPENDS
    assert record.count(Sync("threadline.db")) > 3, "checkpoints came in between"

    for cut in range(cuts):
        before_cut = record[: rng.randint(0, len(record))]
        for loss in LOSSES:
            with TemporaryDirectory(dir=tmp_path) as folder:
                cut_power(before_cut, Path(folder), loss, rng)
                kept = sound_content(Path(folder))
            assert set(acknowledged(before_cut)) <= set(kept), f"cut {cut}, lost {loss}"
            assert len(kept) == len(set(kept)), f"cut {cut}, lost {loss}"


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_without_a_sync_for_each_commit_the_same_cuts_lose_what_was_acknowledged(
    tmp_path: Path, synchronous: str
) -> None:
    """The control: this disk does lose what was not synced."""
    record = record_of_a_busy_store(tmp_path / "disk", synchronous=synchronous)
    places = [place for place, event in enumerate(record) if isinstance(event, Acknowledged)]
    cuts = [record[: place + 1] for place in places[-CALLERS * 4 :]]
    assert not all(survives(cut, tmp_path, "everything unsynced") for cut in cuts)
    assert all(survives(cut, tmp_path, "nothing") for cut in cuts)


def survives(record: list[Event], tmp_path: Path, loss: Loss) -> bool:
    """Whether all that was acknowledged is found again."""
    with TemporaryDirectory(dir=tmp_path) as folder:
        cut_power(record, Path(folder), loss, random.Random(0))
        try:
            kept = content(Path(folder))
        except ThreadlineError:
            return False
    return set(acknowledged(record)) <= set(kept)


def record_of_a_busy_store(folder: Path, *, synchronous: str) -> list[Event]:
    """What a disk saw while a store was made, written by several callers, indexed and closed."""
    with pytest.MonkeyPatch.context() as patched:
        # A small journal, so that checkpoints come in between: they write into the database file itself.
        patched.setattr(writer_module, "_WAL_AUTOCHECKPOINT_PAGES", 40)
        return _record_of(folder, synchronous)


def _record_of(folder: Path, synchronous: str) -> list[Event]:
    disk = RecordingDisk(f"power-cut-{uuid.uuid4()}")
    path = folder / "threadline.db"
    database = SqliteDatabase(path, location=f"sqlite://{path}", vfs=disk.name)
    with SessionStore(database, settings()) as store:
        writer: apsw.Connection = database._writer._connection
        writer.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
        sessions = [store.get_or_create_session(source).session_id for source in SOURCES]

        def appends(caller: int) -> None:
            for turn in range(APPENDS):
                key = f"{caller}:{turn}"
                message = {"role": "user", "content": key + " words" * 150}
                store.append_to_transcript(sessions[turn % 2], message, idempotency_key=key)
                disk.acknowledge(key)
                if turn % 16 == 15:
                    store.index_pending()

        callers = [threading.Thread(target=appends, args=(caller,)) for caller in range(CALLERS)]
        for thread in callers:
            thread.start()
        for thread in callers:
            thread.join()
    disk.unregister()
    return disk.record


def sound_content(folder: Path) -> list[str]:
    """The messages found after a cut, in a store that is whole and goes on working."""
    kept = content(folder)
    with SessionStore.open(folder / "threadline.db") as store:
        report = store.check()
        assert report.ok, report.faults
        entry = store.get_or_create_session(SOURCES[0])
        assert store.append_to_transcript(entry.session_id, {"role": "user", "content": "on we go"}).count == 1
    return kept


def content(folder: Path) -> list[str]:
    with SessionStore.open(folder / "threadline.db") as store:
        messages = [
            message["content"]
            for source in SOURCES
            for message in store.load_transcript(store.get_or_create_session(source).session_id)
        ]
    return [str(text).partition(" ")[0] for text in messages]


def settings() -> StoreSettings:
    return StoreSettings(policies=ResetPolicies(), scope=SessionScope(), clock=SystemClock(), zone="UTC")

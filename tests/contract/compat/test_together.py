"""Eight threads on one store, and two processes on one older folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.contract.compat.old_folders import entry, fingerprints, origin, write_database, write_index, write_lines
from tests.contract.compat.talk import current, dm, texts, user

from threadline.compat import GatewayConfig, SessionResetPolicy, SessionStore

T = TypeVar("T")
Open = Callable[..., SessionStore]
ROOT = Path(__file__).parents[3]
THREADS = 8


def at_once(work: Callable[[int], T]) -> list[T]:
    """What eight threads return that start together."""
    start = threading.Barrier(THREADS)

    def begin(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_one_source_has_one_session(store: SessionStore) -> None:
    ids = at_once(lambda _: [store.get_or_create_session(dm()).session_id for _ in range(5)])
    assert len({one for several in ids for one in several}) == 1
    assert len(store.core.list_sessions(include_ended=True)) == 1


def test_also_where_each_thread_has_a_store_of_its_own(open_store: Open) -> None:
    stores = [open_store() for _ in range(THREADS)]
    ids = at_once(lambda number: stores[number].get_or_create_session(dm()).session_id)
    assert len(set(ids)) == 1


def test_a_stale_session_is_reset_once(open_store: Open) -> None:
    config = GatewayConfig(default_reset_policy=SessionResetPolicy("idle", idle_minutes=60))
    store = open_store(config)
    old = store.get_or_create_session(dm())
    old.updated_at = old.updated_at.replace(year=old.updated_at.year - 1, day=1)
    entries = at_once(lambda _: store.get_or_create_session(dm()))
    assert len({entry.session_id for entry in entries}) == 1
    assert entries[0].session_id != old.session_id
    assert sum(entry.was_auto_reset for entry in entries) == 1


def test_every_append_arrives_once_and_in_its_threads_order(store: SessionStore, open_store: Open) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            store.append_to_transcript("s", user(f"{number}:{turn}"))

    at_once(work)
    said = texts(open_store(), "s")
    assert sorted(said) == sorted(f"{number}:{turn}" for number in range(THREADS) for turn in range(20))
    for number in range(THREADS):
        assert [one for one in said if one.startswith(f"{number}:")] == [f"{number}:{turn}" for turn in range(20)]


def test_what_the_agent_stored_is_matched_once_from_any_thread(store: SessionStore) -> None:
    for _ in range(THREADS):
        store.append_to_transcript("s", user("ok"))
    at_once(lambda _: store.append_to_transcript("s", user("ok"), skip_db=True))
    assert texts(store, "s") == ["ok"] * THREADS


def test_tokens_add_up(store: SessionStore) -> None:
    key = store.get_or_create_session(dm()).session_key

    def work(_: int) -> None:
        for _turn in range(5):
            store.update_session(key, input_tokens=1, output_tokens=2)

    at_once(work)
    (entry,) = store.list_sessions()
    assert (entry.input_tokens, entry.output_tokens) == (THREADS * 5, THREADS * 10)


def test_resets_and_switches_leave_one_current_session(store: SessionStore) -> None:
    key = store.get_or_create_session(dm()).session_key

    def work(number: int) -> None:
        store.reset_session(key)
        store.switch_session(key, f"s{number}")
        store.get_or_create_session(dm(), force_new=number % 2 == 0)
        store.list_sessions()
        store.get_transcript_path(f"s{number}")

    at_once(work)
    assert len(store.list_sessions()) == 1
    assert store.core.check().ok


def test_one_export_of_many_is_whole(store: SessionStore) -> None:
    for number in range(50):
        store.append_to_transcript("s", user(str(number)))
    paths = at_once(lambda _: store.get_transcript_path("s"))
    assert len(set(paths)) == 1
    assert len(paths[0].read_text().splitlines()) == 50


@pytest.fixture
def old(folder: Path) -> Path:
    """Forty sessions in an index, half of them with files and half in the database."""
    write_index(folder, *(entry(f"s{n}", f"agent:main:telegram:dm:{n}", **origin(str(n))) for n in range(40)))
    for number in range(0, 40, 2):
        write_lines(folder, f"s{number}", "one", "two")
    write_database(folder, {f"s{n}": ["one", "two"] for n in range(1, 40, 2)})
    return folder


def assert_adopted_once(store: SessionStore, *more: str) -> None:
    assert current(store) == {f"agent:main:telegram:dm:{n}": f"s{n}" for n in range(40)}
    assert len(store.core.list_sessions(include_ended=True, limit=100)) == 40
    for number in range(40):
        said = texts(store, f"s{number}")
        assert said[:2] == ["one", "two"]
        assert sorted(said[2:]) == sorted(more)
    assert store.core.check().ok


def test_eight_threads_open_an_older_folder(old: Path, store: SessionStore) -> None:
    before = fingerprints(old)

    def work(number: int) -> None:
        for session in range(40):
            assert store.get_or_create_session(dm(str(session))).session_id == f"s{session}"
            store.append_to_transcript(f"s{session}", user(str(number)))

    at_once(work)
    assert_adopted_once(store, *map(str, range(THREADS)))
    store.close()
    assert fingerprints(old) == before


def test_eight_threads_with_a_store_of_their_own_open_an_older_folder(old: Path, open_store: Open) -> None:
    stores = [open_store() for _ in range(THREADS)]

    def work(number: int) -> Any:
        return stores[number].adopt_all()

    at_once(work)
    assert_adopted_once(stores[0])


PROCESS = """
import sys
from pathlib import Path
from threadline.compat import GatewayConfig, SessionResetPolicy, SessionStore
config = GatewayConfig(default_reset_policy=SessionResetPolicy("none"))
sys.stdin.readline()
with SessionStore(Path(sys.argv[1]), config) as store:
    for session in range(40):
        store.append_to_transcript(f"s{session}", {"role": "user", "content": sys.argv[2]})
    store.adopt_all()
"""


def test_two_processes_open_an_older_folder(old: Path, open_store: Open) -> None:
    before = fingerprints(old)
    children = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(old), name], cwd=ROOT, stdin=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0, 0]
    assert_adopted_once(open_store(), "a", "b")
    assert fingerprints(old) == before

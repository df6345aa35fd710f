"""The public managers of editors' sessions, on the public stores: on both engines."""

from __future__ import annotations

import inspect
import os
import pwd
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.acp.editing import run, runner
from tests.contract.gateways import Run

from threadline import AsyncSessionManager, AsyncSessionStore, InvalidRequest, SessionManager, SessionStore
from threadline.testing import dm, user

__all__ = ["run", "runner"]

THREADS = 8


@pytest.fixture
def store(location: str) -> Iterator[SessionStore]:
    with SessionStore.open(location) as opened:
        yield opened


@pytest.fixture
def manager(store: SessionStore) -> SessionManager:
    return SessionManager(store)


def test_a_session_is_made_saved_copied_listed_and_removed(manager: SessionManager, store: SessionStore) -> None:
    made = manager.create_session("/work")
    store.append_to_transcript(made.session_id, user("hello"))
    assert manager.save_session(made.session_id, model="m-1", mode="allow", options={"a": "1"}) is not None
    moved = manager.update_cwd(made.session_id, "/other")
    assert moved is not None
    assert (moved.cwd, moved.model, moved.mode, moved.history_len) == ("/other", "m-1", "allow", 1)
    fork = manager.fork_session(made.session_id, "/fork")
    assert fork is not None
    assert (fork.cwd, fork.model, fork.options, fork.history_len) == ("/fork", "m-1", {"a": "1"}, 1)
    assert {row.session_id for row in manager.list_sessions()} == {made.session_id, fork.session_id}
    assert [row.session_id for row in manager.list_sessions(cwd="/fork")] == [fork.session_id]
    assert (manager.remove_session(made.session_id), manager.remove_session(made.session_id)) == (True, False)
    assert manager.get_session(made.session_id) is None
    assert [source.chat_id for source in manager.bound] == [fork.session_id]


def test_without_more_it_is_the_user_of_this_process_and_the_stores_agent(location: str) -> None:
    with SessionStore.open(location, agent="claude") as store:
        made = SessionManager(store).create_session("/work")
        entry = store.get_session(made.session_id)
        name = pwd.getpwuid(os.getuid()).pw_name
        assert (entry.session_key, entry.owner) == (f"agent:claude:acp:dm:{made.session_id}", f"acp:{name}")
        other = SessionManager(store, user="ada", agent_for=lambda _source: "main").create_session("/work")
        entry = store.get_session(other.session_id)
        assert (entry.session_key, entry.owner) == (f"agent:main:acp:dm:{other.session_id}", "acp:ada")


@pytest.mark.parametrize("wrong", ["", "nope", "../x", "x" * 65, "20260601_120000_ab12cd34"])
def test_unknown_ids_give_none(manager: SessionManager, wrong: str) -> None:
    assert manager.get_session(wrong) is None
    assert manager.fork_session(wrong) is None
    assert manager.update_cwd(wrong, "/work") is None
    assert manager.save_session(wrong, title="x") is None
    assert manager.remove_session(wrong) is False
    assert (list(manager.list_sessions()), manager.bound) == ([], ())


def test_the_id_of_a_chat_is_unknown_and_the_chat_stays(manager: SessionManager, store: SessionStore) -> None:
    chat = store.get_or_create_session(dm())
    assert manager.get_session(chat.session_id) is None
    assert manager.remove_session(chat.session_id) is False
    manager.create_session("/work")
    manager.cleanup(delete=True)
    assert [entry.session_id for entry in store.list_sessions(include_ended=True)] == [chat.session_id]


def test_cleaning_up_deletes_only_where_it_is_asked_to(manager: SessionManager) -> None:
    made = manager.create_session("/work")
    manager.cleanup()
    assert manager.bound == ()
    assert [row.session_id for row in manager.list_sessions()] == [made.session_id]
    manager.cleanup(delete=True)
    assert list(manager.list_sessions()) == []


def test_a_wrong_folder_is_refused(manager: SessionManager) -> None:
    with pytest.raises(InvalidRequest, match="absolute"):
        manager.create_session("work")


def test_threads_share_one_manager(manager: SessionManager, store: SessionStore) -> None:
    shared = manager.create_session("/shared").session_id

    def work(number: int) -> str:
        made = manager.create_session(f"/{number}")
        for step in range(5):
            assert manager.save_session(shared, options={f"o{number}.{step}": step}) is not None
        fork = manager.fork_session(made.session_id)
        assert fork is not None
        assert manager.remove_session(made.session_id)
        return fork.session_id

    with ThreadPoolExecutor(THREADS) as pool:
        forks = list(pool.map(work, range(THREADS)))
    found = manager.get_session(shared)
    assert found is not None
    assert len(found.options) == 5 * THREADS
    assert {row.session_id for row in manager.list_sessions()} == {shared, *forks}
    assert {source.chat_id for source in manager.bound} == {shared, *forks}
    assert store.check().ok


def test_the_awaited_one_does_the_same_on_an_awaited_store(location: str, run: Run) -> None:
    async def work() -> None:
        async with await AsyncSessionStore.open(location) as store:
            manager = AsyncSessionManager(store)
            made = await manager.create_session("/work")
            assert await manager.save_session(made.session_id, title="Mine") is not None
            fork = await manager.fork_session(made.session_id)
            assert fork is not None
            assert await manager.get_session("nope") is None
            assert await manager.remove_session(fork.session_id) is True
            assert [row.title for row in await manager.list_sessions()] == ["Mine"]
            await manager.cleanup()
            assert [row.title for row in await manager.list_sessions()] == ["Mine"]
            await manager.cleanup(delete=True)
            assert list(await manager.list_sessions()) == []

    run(work())


def test_both_have_the_same_methods_with_the_same_arguments() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}
        return {name: list(inspect.signature(member).parameters) for name, member in found.items() if callable(member)}

    assert methods(SessionManager) == methods(AsyncSessionManager)
    assert methods(SessionManager)["cleanup"] == ["self", "delete"]


def test_what_another_process_made_is_restored(tmp_path: Path) -> None:
    place = tmp_path / "threadline.db"
    with SessionStore.open(place) as store:
        made = SessionManager(store).create_session("/work")
        SessionManager(store).save_session(made.session_id, model="m-1", provider="local", options={"a": "1"})
    with SessionStore.open(place) as store:
        found = SessionManager(store).get_session(made.session_id)
    assert found is not None
    assert (found.cwd, found.model, found.provider, found.options) == ("/work", "m-1", "local", {"a": "1"})

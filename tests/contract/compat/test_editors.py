"""`SessionManager`: sessions of editors, each with a live agent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contract.compat.talk import assistant, user

from threadline.compat import SessionDB, SessionManager, SessionState


def make_agent() -> Any:
    return SimpleNamespace(model="m0", provider="p0", base_url="", api_mode=None)


@pytest.fixture
def manager(db: SessionDB) -> SessionManager:
    return SessionManager(make_agent, db)


def test_a_state_has_its_defaults() -> None:
    state = SessionState("s", None)
    assert (state.cwd, state.model, state.history) == (".", "", [])
    assert isinstance(state.cancel_event, threading.Event)
    assert SessionState("a", None).history is not SessionState("b", None).history


def test_a_session_is_made_with_an_agent_of_its_own(manager: SessionManager) -> None:
    one, other = manager.create_session(), manager.create_session("/tmp")
    assert one.session_id != other.session_id
    assert (one.cwd, other.cwd, one.model, one.history) == (".", "/tmp", "m0", [])
    assert one.agent is not other.agent
    assert not one.cancel_event.is_set()
    assert manager.get_session(one.session_id) is one


def test_it_is_stored_when_it_is_made(manager: SessionManager, db: SessionDB) -> None:
    made = manager.create_session("/tmp")
    restored = SessionManager(make_agent, db).get_session(made.session_id)
    assert restored is not None
    assert restored is not made
    assert (restored.session_id, restored.cwd, restored.history) == (made.session_id, "/tmp", [])


def test_unknown_ids_are_none(manager: SessionManager) -> None:
    assert manager.get_session("never") is None
    assert manager.fork_session("never") is None
    assert manager.update_cwd("never", "/tmp") is None
    assert manager.remove_session("never") is False
    assert manager.save_session("never") is None  # type: ignore[func-returns-value]
    assert manager.list_sessions() == []


def test_saving_stores_the_history(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    state.history += [user("hi"), assistant("there", tool_calls=[{"id": "1"}])]
    assert manager.save_session(state.session_id) is None  # type: ignore[func-returns-value]
    state.history.append(user("more"))
    manager.save_session(state.session_id)
    restored = SessionManager(make_agent, db).get_session(state.session_id)
    assert restored is not None
    assert restored.history == state.history
    del state.history[1:]
    manager.save_session(state.session_id)
    assert db.get_messages_as_conversation(state.session_id) == [user("hi")]


def test_saving_an_equal_history_writes_nothing(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    state.history += [user(str(number)) for number in range(10)]
    manager.save_session(state.session_id)
    before = list(db.core.read_transcript(state.session_id))
    state.history.append(user("new"))
    manager.save_session(state.session_id)
    after = list(db.core.read_transcript(state.session_id))
    assert [message.ref for message in after[:10]] == [message.ref for message in before]


def test_a_history_is_the_callers_own(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    state.history.append(user("not saved"))
    assert db.get_messages_as_conversation(state.session_id) == []


def test_a_fork_has_a_copy(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session("/a")
    state.history.append(user("hi"))
    state.model, state.agent.provider = "m9", "p9"
    fork = manager.fork_session(state.session_id, "/b")
    assert fork is not None
    assert (fork.cwd, fork.model, fork.history) == ("/b", "m9", [user("hi")])
    assert fork.session_id != state.session_id
    assert (fork.agent.model, fork.agent.provider) == ("m9", "p9")
    fork.history[0]["content"] = "changed"
    assert state.history == [user("hi")]
    default = manager.fork_session(state.session_id)
    assert default is not None
    assert default.cwd == "."
    restored = SessionManager(make_agent, db).get_session(default.session_id)
    assert restored is not None
    assert (restored.history, restored.model) == ([user("hi")], "m9")


def test_a_fork_of_a_session_that_is_not_open_here(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    state.history.append(user("hi"))
    manager.save_session(state.session_id)
    fork = SessionManager(make_agent, db).fork_session(state.session_id)
    assert fork is not None
    assert fork.history == [user("hi")]


def test_the_folder_is_changed_and_stored(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session("/a")
    assert manager.update_cwd(state.session_id, "/b") is state
    assert state.cwd == "/b"
    restored = SessionManager(make_agent, db).update_cwd(state.session_id, "/c")
    assert restored is not None
    again = SessionManager(make_agent, db).get_session(state.session_id)
    assert again is not None
    assert again.cwd == "/c"


def test_the_list_has_a_dictionary_of_each(manager: SessionManager, db: SessionDB) -> None:
    first, second = manager.create_session("/a"), manager.create_session("/b")
    first.history.append(user("hi"))
    manager.save_session(first.session_id)
    expected = [
        {"session_id": first.session_id, "cwd": "/a", "model": "m0", "history_len": 1},
        {"session_id": second.session_id, "cwd": "/b", "model": "m0", "history_len": 0},
    ]
    assert manager.list_sessions() == expected
    assert SessionManager(make_agent, db).list_sessions() == expected


def test_only_sessions_of_editors_are_seen(manager: SessionManager, db: SessionDB) -> None:
    db.create_session("chat", "telegram")
    assert manager.get_session("chat") is None
    assert manager.fork_session("chat") is None
    assert manager.remove_session("chat") is False
    assert manager.list_sessions() == []
    assert db.get_session("chat") is not None


def test_removing(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    assert manager.remove_session(state.session_id) is True
    assert manager.remove_session(state.session_id) is False
    assert manager.get_session(state.session_id) is None
    assert db.get_session(state.session_id) is None
    kept = manager.create_session()
    assert SessionManager(make_agent, db).remove_session(kept.session_id) is True


def test_cleanup_deletes_the_editors_sessions_of_that_database(manager: SessionManager, db: SessionDB) -> None:
    db.create_session("chat", "telegram")
    open_here = manager.create_session()
    elsewhere = SessionManager(make_agent, db).create_session()
    assert manager.cleanup() is None  # type: ignore[func-returns-value]
    assert [row["id"] for row in db.search_sessions()] == ["chat"]
    for state in (open_here, elsewhere):
        assert manager.get_session(state.session_id) is None


def test_what_is_kept_of_an_agent_is_set_on_the_next(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    state.model = "m5"
    state.agent.provider, state.agent.base_url, state.agent.api_mode = "p5", "http://x", "chat"
    manager.save_session(state.session_id)
    restored = SessionManager(make_agent, db).get_session(state.session_id)
    assert restored is not None
    agent = restored.agent
    assert (restored.model, agent.model) == ("m5", "m5")
    assert (agent.provider, agent.base_url, agent.api_mode) == ("p5", "http://x", "chat")


def test_an_agent_without_such_attributes_is_left_alone(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    restored = SessionManager(lambda: SimpleNamespace(name="plain"), db).get_session(state.session_id)
    assert restored is not None
    assert vars(restored.agent) == {"name": "plain"}
    bare = SessionManager(object, db).get_session(state.session_id)
    assert bare is not None


def test_the_factory_is_called_without_arguments_and_may_be_missing(db: SessionDB) -> None:
    calls: list[tuple[Any, ...]] = []
    SessionManager(lambda *given: calls.append(given), db).create_session()
    assert calls == [()]
    assert SessionManager(db=db).create_session().agent is None


def test_a_factory_that_fails_at_a_restore_gives_none(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()

    def fails() -> Any:
        raise RuntimeError("no key")

    broken = SessionManager(fails, db)
    assert broken.get_session(state.session_id) is None
    assert broken.fork_session(state.session_id) is None
    assert broken.update_cwd(state.session_id, "/x") is None
    with pytest.raises(RuntimeError):
        broken.create_session()
    assert [row["session_id"] for row in manager.list_sessions()] == [state.session_id]
    assert SessionManager(make_agent, db).get_session(state.session_id) is not None


@pytest.mark.parametrize("session_id", ["a", "x" * 64, "6f1c2f0e-8a7b-4c55-9d0e-0a1b2c3d4e5f", "agent:main 1"])
def test_any_safe_id_can_name_an_editors_session(manager: SessionManager, db: SessionDB, session_id: str) -> None:
    db.create_session(session_id, "acp", "m1", {"cwd": "/w"})
    db.append_message(session_id, "user", "hi")
    state = manager.get_session(session_id)
    assert state is not None
    assert (state.session_id, state.cwd, state.model, state.history) == (session_id, "/w", "m1", [user("hi")])


def test_two_managers_on_one_file(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "one.db") as first, SessionDB(tmp_path / "one.db") as second:
        one, two = SessionManager(make_agent, first), SessionManager(make_agent, second)
        state = one.create_session("/a")
        state.history.append(user("hi"))
        one.save_session(state.session_id)
        seen = two.get_session(state.session_id)
        assert seen is not None
        assert seen.history == [user("hi")]
        seen.history.append(assistant("there"))
        two.save_session(state.session_id)
        assert first.get_messages_as_conversation(state.session_id) == [user("hi"), assistant("there")]
        assert {row["session_id"] for row in one.list_sessions()} == {row["session_id"] for row in two.list_sessions()}
        assert two.remove_session(state.session_id)
        assert one.list_sessions() == []


def test_eight_threads_at_once(manager: SessionManager, db: SessionDB) -> None:
    def work(number: int) -> str:
        state = manager.create_session(f"/{number}")
        state.history.append(user(str(number)))
        manager.save_session(state.session_id)
        fork = manager.fork_session(state.session_id)
        assert fork is not None
        manager.list_sessions()
        assert manager.remove_session(fork.session_id)
        return state.session_id

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(work, range(16)))
    assert {row["session_id"] for row in manager.list_sessions()} == set(made)
    for number, session_id in enumerate(made):
        assert db.get_messages_as_conversation(session_id) == [user(str(number))]


def test_eight_threads_restore_one_session_once(manager: SessionManager, db: SessionDB) -> None:
    session_id = manager.create_session().session_id
    made: list[Any] = []

    def factory() -> Any:
        made.append(make_agent())
        return made[-1]

    other = SessionManager(factory, db)
    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda _: other.get_session(session_id), range(8)))
    assert len({id(state) for state in states}) == 1
    assert len(made) == 1


def test_eight_threads_save_one_session(manager: SessionManager, db: SessionDB) -> None:
    state = manager.create_session()
    state.history += [user(str(number)) for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: manager.save_session(state.session_id), range(16)))
    assert db.get_messages_as_conversation(state.session_id) == state.history

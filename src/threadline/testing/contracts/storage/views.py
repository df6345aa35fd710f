"""Contract: undo, redo, retry, fork and rewriting change what the model sees, never what was said."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.errors import (
    InvalidMessage,
    InvalidRequest,
    NothingToRedo,
    NothingToUndo,
    UnknownMessage,
    UnknownSession,
)
from threadline.model.message import MessageRef
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, exchange, group, system, tool_use, user
from threadline.testing.contracts.storage.fixtures import OpenStore, seen


def talk(store: SessionStore, *questions: str) -> str:
    """The id of a new session with a system message and an exchange for each question: `q`, `Q`."""
    session_id = store.get_or_create_session(dm(), force_new=True).session_id
    store.append_to_transcript(session_id, system("sys"))
    for question in questions:
        store.append_to_transcript(session_id, exchange(question, question.upper()))
    return session_id


def logged(store: SessionStore, session_id: str) -> list[Any]:
    """All that was ever said in a session."""
    return [m.message["content"] for m in store.read_log(session_id)]


class UndoContract:
    """`/undo`, `/redo`, `/retry`."""

    def test_undo_takes_the_last_exchange_back(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        entry = store.rewind_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A"]
        assert entry.message_count == 3
        store.append_to_transcript(session_id, user("c"))
        assert seen(store, session_id) == ["sys", "a", "A", "c"]
        assert logged(store, session_id) == ["sys", "a", "A", "b", "B", "c"]

    def test_an_exchange_is_all_that_was_answered_together(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        burst = [user("b1"), user("b2"), *tool_use("look", {}, "found"), assistant("B")]
        store.append_to_transcript(session_id, burst)
        store.rewind_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A"]

    def test_undo_takes_several_or_all_there_are(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b", "c")
        store.rewind_session(session_id, 2)
        assert seen(store, session_id) == ["sys", "a", "A"]
        store.rewind_session(session_id, 99)
        assert seen(store, session_id) == ["sys"]
        with pytest.raises(NothingToUndo):
            store.rewind_session(session_id)
        assert seen(store, session_id) == ["sys"]

    def test_undo_takes_at_least_one(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        for n in (0, -3):
            with pytest.raises(InvalidRequest):
                store.rewind_session(session_id, n)
        assert seen(store, session_id) == ["sys", "a", "A"]

    def test_redo_takes_each_undo_back(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b", "c", "d")
        store.rewind_session(session_id)
        store.rewind_session(session_id, 2)
        store.redo_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A", "b", "B", "c", "C"]
        entry = store.redo_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A", "b", "B", "c", "C", "d", "D"]
        assert entry.message_count == 9
        with pytest.raises(NothingToRedo):
            store.redo_session(session_id)
        store.append_to_transcript(session_id, user("e"))
        assert seen(store, session_id)[-2:] == ["D", "e"]

    def test_undo_after_redo_can_be_redone(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        for _ in range(3):
            store.rewind_session(session_id)
            assert seen(store, session_id) == ["sys", "a", "A"]
            store.redo_session(session_id)
            assert seen(store, session_id) == ["sys", "a", "A", "b", "B"]

    def test_what_was_said_since_ends_redo(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        with pytest.raises(NothingToRedo):
            store.redo_session(session_id)
        store.rewind_session(session_id)
        store.append_to_transcript(session_id, user("c"))
        with pytest.raises(NothingToRedo):
            store.redo_session(session_id)
        store.rewind_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A"]
        store.redo_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A", "c"]
        with pytest.raises(NothingToRedo):
            store.redo_session(session_id)

    def test_redo_works_after_a_restart(self, open_store: OpenStore) -> None:
        store = open_store()
        session_id = talk(store, "a", "b")
        store.rewind_session(session_id)
        store.close()
        later = open_store()
        later.redo_session(session_id)
        assert seen(later, session_id) == ["sys", "a", "A", "b", "B"]

    def test_retry_keeps_the_question(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.append_to_transcript(session_id, [user("b"), *tool_use("look", {}, "found"), assistant("B")])
        store.retry_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A", "b"]
        store.append_to_transcript(session_id, assistant("better"))
        assert seen(store, session_id) == ["sys", "a", "A", "b", "better"]

    def test_redo_brings_the_first_answer_back(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.retry_session(session_id)
        store.redo_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A"]

    def test_a_question_without_an_answer_is_left_as_it_is(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.append_to_transcript(session_id, user("b"))
        store.retry_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A", "b"]

    def test_without_a_question_there_is_nothing_to_retry(self, store: SessionStore) -> None:
        session_id = talk(store)
        store.append_to_transcript(session_id, assistant("hello!"))
        with pytest.raises(NothingToUndo):
            store.retry_session(session_id)
        assert seen(store, session_id) == ["sys", "hello!"]

    def test_unknown_sessions_are_told(self, store: SessionStore) -> None:
        for verb in (store.rewind_session, store.redo_session, store.retry_session, store.fork_session):
            with pytest.raises(UnknownSession):
                verb("nothing")
        with pytest.raises(UnknownSession):
            store.rewrite_transcript("nothing", [])

    def test_a_long_history_of_undo_stays_exact(self, store: SessionStore) -> None:
        session_id = talk(store, "kept")
        for n in range(120):
            store.append_to_transcript(session_id, user(f"gone {n}"))
            store.rewind_session(session_id)
            if n % 10 == 0:
                store.append_to_transcript(session_id, exchange(f"q{n}", f"a{n}"))
        stays = [text for n in range(0, 120, 10) for text in (f"q{n}", f"a{n}")]
        assert seen(store, session_id) == ["sys", "kept", "KEPT", *stays]
        assert store.check().ok

    def test_an_exchange_of_many_messages_is_found_whole(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        long = [m for n in range(300) for m in tool_use("step", {"n": n}, f"result {n}")]
        store.append_to_transcript(session_id, [user("b1"), user("b2"), *long])
        store.rewind_session(session_id)
        assert seen(store, session_id) == ["sys", "a", "A"]


class ForkContract:
    """Two conversations from one history."""

    def test_a_fork_shows_the_same_and_goes_its_own_way(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.set_runtime(session_id, model="m-1", cwd="/srv", runtime={"mode": "plan"})
        fork = store.fork_session(session_id)
        assert (fork.parent_session_id, fork.message_count) == (session_id, 0)
        assert (fork.model, fork.cwd, fork.runtime) == ("m-1", "/srv", {"mode": "plan"})
        store.append_to_transcript(session_id, user("here"))
        store.append_to_transcript(fork.session_id, user("there"))
        assert seen(store, session_id) == ["sys", "a", "A", "here"]
        assert seen(store, fork.session_id) == ["sys", "a", "A", "there"]
        assert store.get_session(fork.session_id).message_count == 1

    def test_a_fork_can_have_another_model_and_folder(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.set_runtime(session_id, model="m-1", cwd="/srv")
        fork = store.fork_session(session_id, model="m-2", cwd="/opt")
        assert (fork.model, fork.cwd) == ("m-2", "/opt")

    def test_a_fork_can_stop_at_a_message(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        fork = store.fork_session(session_id, upto=MessageRef(session_id, 2))
        assert seen(store, fork.session_id) == ["sys", "a"]
        second = store.fork_session(fork.session_id, upto=f"{session_id}:1")
        assert seen(store, second.session_id) == ["sys"]

    def test_a_message_that_is_not_shown_is_no_place_to_stop(self, store: SessionStore) -> None:
        session_id, other = talk(store, "a", "b"), talk(store, "c")
        store.rewind_session(session_id)
        for ref in (f"{session_id}:4", f"{other}:1", f"{session_id}:99", "nothing:1", "nonsense"):
            with pytest.raises(UnknownMessage):
                store.fork_session(session_id, upto=ref)
        assert len(store.list_sessions(include_ended=True)) == 2

    def test_with_a_key_the_fork_becomes_current(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        key = store.get_session(session_id).session_key
        fork = store.fork_session(session_id, key=key)
        assert store.get_or_create_session(dm()).session_id == fork.session_id
        assert store.get_session(session_id).end_reason == "session_switch"
        with pytest.raises(UnknownSession):
            store.fork_session(session_id, key="agent:main:telegram:dm:nobody")

    def test_a_fork_at_another_address_is_held_there(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.set_runtime(session_id, model="m-1")
        source = group("8", "g2", platform="discord", chat_name="Tea room")
        there = store.get_or_create_session(source)
        fork = store.fork_session(session_id, key=there.session_key)
        assert (fork.origin, fork.platform, fork.chat_type) == (source, "discord", "group")
        assert (fork.display_name, fork.owner, fork.model) == ("Tea room", there.owner, "m-1")
        assert [entry.session_id for entry in store.list_sessions(platform="discord")] == [fork.session_id]
        assert store.get_or_create_session(source).session_id == fork.session_id
        assert store.get_session(session_id).ended_at is None
        assert seen(store, fork.session_id) == ["sys", "a", "A"]

    def test_no_fork_goes_where_nothing_is_held_any_more(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        there = store.get_or_create_session(dm("8"))
        store.delete_session(there.session_id)
        with pytest.raises(UnknownSession):
            store.fork_session(session_id, key=there.session_key)
        assert [entry.session_id for entry in store.list_sessions(include_ended=True)] == [session_id]

    def test_undo_in_a_fork_reaches_into_what_it_inherited(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        fork = store.fork_session(session_id).session_id
        store.append_to_transcript(fork, exchange("c", "C"))
        store.rewind_session(fork, 2)
        assert seen(store, fork) == ["sys", "a", "A"]
        assert seen(store, session_id) == ["sys", "a", "A", "b", "B"]
        store.append_to_transcript(fork, user("d"))
        assert seen(store, fork) == ["sys", "a", "A", "d"]
        assert store.get_session(fork).message_count == 1

    def test_undo_in_the_original_does_not_reach_into_forks(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        fork = store.fork_session(session_id).session_id
        store.rewind_session(session_id, 2)
        store.append_to_transcript(session_id, user("else"))
        assert seen(store, fork) == ["sys", "a", "A", "b", "B"]

    def test_forks_of_forks_of_changed_histories(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        store.rewind_session(session_id)
        first = store.fork_session(session_id).session_id
        store.append_to_transcript(first, exchange("c", "C"))
        second = store.fork_session(first).session_id
        store.rewrite_transcript(second, [system("sum"), assistant("C")])
        third = store.fork_session(second).session_id
        store.append_to_transcript(third, user("d"))
        assert seen(store, third) == ["sum", "C", "d"]
        for gone in (session_id, first, second):
            store.delete_session(gone)
        assert seen(store, third) == ["sum", "C", "d"]
        assert store.check().ok


class RewriteContract:
    """Compaction and editing."""

    def test_a_rewrite_replaces_what_is_seen(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        entry = store.rewrite_transcript(session_id, [system("summary"), user("b")])
        assert seen(store, session_id) == ["summary", "b"]
        assert entry.message_count == 2
        store.append_to_transcript(session_id, assistant("B!"))
        assert seen(store, session_id) == ["summary", "b", "B!"]
        assert logged(store, session_id)[:5] == ["sys", "a", "A", "b", "B"]

    def test_what_stays_the_same_is_kept_and_not_copied(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b", "c")
        before = [m.ref for m in store.read_transcript(session_id)]
        messages = store.load_transcript(session_id)
        store.rewrite_transcript(session_id, [*messages[:2], system("summary"), *messages[-2:]])
        after = [m.ref for m in store.read_transcript(session_id)]
        assert [*after[:2], *after[3:]] == [*before[:2], *before[-2:]]
        assert seen(store, session_id) == ["sys", "a", "summary", "c", "C"]
        assert len(store.read_log(session_id)) == 8

    def test_a_rewrite_to_the_same_adds_nothing(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        store.rewrite_transcript(session_id, store.load_transcript(session_id))
        assert seen(store, session_id) == ["sys", "a", "A"]
        assert len(store.read_log(session_id)) == 3

    def test_a_rewrite_can_take_everything_away(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        assert store.rewrite_transcript(session_id, []).message_count == 0
        assert seen(store, session_id) == []
        store.append_to_transcript(session_id, user("again"))
        assert seen(store, session_id) == ["again"]

    def test_equal_messages_are_matched_in_order(self, store: SessionStore) -> None:
        session_id = talk(store)
        store.append_to_transcript(session_id, [user("x")] * 4)
        for count in (2, 5, 1):
            store.rewrite_transcript(session_id, [user("x")] * count)
            assert seen(store, session_id) == ["x"] * count
        assert store.check().ok

    def test_a_bad_message_changes_nothing(self, store: SessionStore) -> None:
        session_id = talk(store, "a")
        bad: Any = {"content": "no role"}
        with pytest.raises(InvalidMessage):
            store.rewrite_transcript(session_id, [user("good"), bad])
        assert seen(store, session_id) == ["sys", "a", "A"]
        assert len(store.read_log(session_id)) == 3

    def test_undo_and_redo_work_on_what_was_rewritten(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        store.rewind_session(session_id)
        store.rewrite_transcript(session_id, [system("sum"), user("a"), assistant("A")])
        with pytest.raises(NothingToRedo):
            store.redo_session(session_id)
        store.rewind_session(session_id)
        assert seen(store, session_id) == ["sum"]
        store.redo_session(session_id)
        assert seen(store, session_id) == ["sum", "a", "A"]

    def test_a_forks_rewrite_leaves_the_original_alone(self, store: SessionStore) -> None:
        session_id = talk(store, "a", "b")
        fork = store.fork_session(session_id).session_id
        store.rewrite_transcript(fork, [*store.load_transcript(fork)[:3], assistant("else")])
        assert seen(store, fork) == ["sys", "a", "A", "else"]
        assert seen(store, session_id) == ["sys", "a", "A", "b", "B"]
        assert store.get_session(fork).message_count == 1

    def test_a_view_of_very_many_pieces_stays_exact(self, store: SessionStore) -> None:
        session_id = talk(store)
        wanted = [user(f"m{n}") for n in range(80)]
        store.rewrite_transcript(session_id, wanted)
        for n in range(0, 80, 2):
            wanted[n] = user(f"edited {n}")
            store.rewrite_transcript(session_id, wanted)
        assert store.load_transcript(session_id) == wanted
        fork = store.fork_session(session_id).session_id
        store.append_to_transcript(fork, user("tail"))
        assert store.load_transcript(fork, limit=3) == [*wanted[-2:], user("tail")]
        assert store.check().ok

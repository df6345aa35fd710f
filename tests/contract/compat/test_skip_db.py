"""`skip_db`: the agent stored the message already, and each stored message answers for one such call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.contract.compat.talk import assistant, texts, user

from threadline.compat import SessionDB, SessionStore

TWELVE = [user(f"q{n}") if n % 2 == 0 else assistant(f"a{n}") for n in range(12)]


def write(store: SessionStore, *messages: dict[str, Any], skip: bool = False) -> None:
    for message in messages:
        store.append_to_transcript("s", message, skip)


@pytest.mark.parametrize("reopened", [False, True])
def test_twelve_written_first_stay_twelve(open_store: Callable[..., SessionStore], reopened: bool) -> None:
    store = open_store()
    write(store, *TWELVE)
    for message in TWELVE:
        write(store, message, skip=True)
        if reopened:
            store.close()
    assert store.load_transcript("s") == TWELVE


def test_what_another_handle_on_the_file_wrote_counts(store: SessionStore) -> None:
    store.load_transcript("s")
    with SessionDB(store.sessions_dir / "threadline.db") as agent:
        for message in TWELVE:
            agent.append_message("s", message["role"], message["content"])
    write(store, *TWELVE, skip=True)
    assert [(message["role"], message["content"]) for message in store.load_transcript("s")] == [
        (message["role"], message["content"]) for message in TWELVE
    ]


def test_what_nobody_stored_is_appended(store: SessionStore) -> None:
    write(store, *TWELVE, skip=True)
    assert store.load_transcript("s") == TWELVE


@pytest.mark.parametrize("reopened", [False, True])
def test_two_real_oks_stay_two(open_store: Callable[..., SessionStore], reopened: bool) -> None:
    store = open_store()
    for _ in range(2):
        write(store, user("ok"), skip=True)
        if reopened:
            store.close()
    assert texts(store, "s") == ["ok", "ok"]


def test_two_oks_that_the_agent_stored_stay_two(store: SessionStore) -> None:
    write(store, user("ok"), user("ok"))
    write(store, user("ok"), user("ok"), skip=True)
    assert texts(store, "s") == ["ok", "ok"]
    write(store, user("ok"), skip=True)
    assert texts(store, "s") == ["ok", "ok", "ok"]


def test_turn_by_turn_each_message_is_there_once(store: SessionStore) -> None:
    for turn in range(5):
        write(store, user("ok"), assistant(f"a{turn}"))
        write(store, user("ok"), assistant(f"a{turn}"), skip=True)
    assert texts(store, "s") == [text for turn in range(5) for text in ("ok", f"a{turn}")]


def test_the_agent_may_have_stored_more_than_the_caller_knows(store: SessionStore) -> None:
    write(store, user("q"), assistant("step"), assistant("a"))
    write(store, user("q"), assistant("a"), skip=True)
    write(store, user("q2"), skip=True)
    assert texts(store, "s") == ["q", "step", "a", "q2"]


def test_messages_are_matched_in_order(store: SessionStore) -> None:
    write(store, user("a"), user("b"))
    write(store, user("b"), user("a"), skip=True)
    assert texts(store, "s") == ["a", "b", "a"]


def test_a_message_that_only_one_of_them_had_is_kept_between(store: SessionStore) -> None:
    write(store, user("a"))
    write(store, user("a"), {"role": "session_meta", "tools": []}, skip=True)
    write(store, assistant("b"))
    write(store, assistant("b"), skip=True)
    assert [message["role"] for message in store.load_transcript("s")] == ["user", "session_meta", "assistant"]


def test_what_callers_add_makes_no_other_message(store: SessionStore) -> None:
    write(store, user("a"), assistant("", tool_calls=[{"id": "1"}]))
    write(store, user("a", timestamp="t"), assistant(None, tool_calls=[{"id": "1"}], finish_reason="x"), skip=True)  # type: ignore[arg-type]
    assert len(store.load_transcript("s")) == 2
    write(store, assistant("", tool_calls=[{"id": "2"}]), skip=True)
    assert len(store.load_transcript("s")) == 3


def test_other_sessions_do_not_count(store: SessionStore) -> None:
    store.append_to_transcript("other", user("ok"))
    write(store, user("ok"), skip=True)
    assert texts(store, "s") == ["ok"]


def test_what_was_taken_back_does_not_answer_for_what_is_said_anew(store: SessionStore) -> None:
    write(store, user("hello"), assistant("hi"))
    store.rewrite_transcript("s", [])
    write(store, user("hello"), assistant("hi"), skip=True)
    assert texts(store, "s") == ["hello", "hi"]


def test_after_a_rewrite_each_new_message_is_there_once(store: SessionStore) -> None:
    write(store, *TWELVE)
    write(store, *TWELVE, skip=True)
    store.rewrite_transcript("s", [user("summary"), user("ok")])
    write(store, user("ok"), assistant("a"))
    write(store, user("ok"), assistant("a"), skip=True)
    assert texts(store, "s") == ["summary", "ok", "ok", "a"]


def test_a_long_run_of_the_agent_is_matched_whole(store: SessionStore) -> None:
    run = [user(f"m{n}") for n in range(1_100)]
    store.rewrite_transcript("s", run)
    write(store, *run, skip=True)
    assert store.load_transcript("s") == run


def test_behind_a_long_run_that_nobody_asks_for_each_new_message_is_there_once(store: SessionStore) -> None:
    run = [user(f"m{n}") for n in range(2_500)]
    store.rewrite_transcript("s", run)
    for message in (user("q"), assistant("a")):
        write(store, message)
        write(store, message, user("only here"), skip=True)
    assert texts(store, "s")[2_500:] == ["q", "only here", "a", "only here"]


def test_what_many_calls_stored_answers_for_none_however_many_there_are(store: SessionStore) -> None:
    write(store, user("never asked for"))
    for _ in range(1_005):
        write(store, user("ok"), skip=True)
    assert len(store.load_transcript("s")) == 1_006

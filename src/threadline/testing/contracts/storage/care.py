"""Contract: looking after a store: facts, copies, checks, closing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadline.errors import InvalidRequest, SchemaTooNew, SchemaTooOld, StoreClosed, StoreForked
from threadline.store.facade import AsyncSessionStore, SessionStore
from threadline.testing.builders import dm, exchange, system, thread, user
from threadline.testing.contracts.storage.fixtures import OpenStore, RawExecute, seen

VERBS: dict[str, Callable[[SessionStore], Any]] = {
    "get_or_create_session": lambda store: store.get_or_create_session(dm()),
    "get_session": lambda store: store.get_session("x"),
    "reset_session": lambda store: store.reset_session("x"),
    "switch_session": lambda store: store.switch_session("x", "y"),
    "list_sessions": lambda store: store.list_sessions(),
    "has_any_sessions": lambda store: store.has_any_sessions(),
    "take_reset_notice": lambda store: store.take_reset_notice("x", "user"),
    "set_title": lambda store: store.set_title("x", "y"),
    "find_by_title": lambda store: store.find_by_title("x"),
    "set_runtime": lambda store: store.set_runtime("x", model="m"),
    "mark_flushed": lambda store: store.mark_flushed("x"),
    "append_to_transcript": lambda store: store.append_to_transcript("x", user("hello")),
    "load_transcript": lambda store: store.load_transcript("x"),
    "read_transcript": lambda store: store.read_transcript("x"),
    "page_transcript": lambda store: store.page_transcript("x"),
    "read_log": lambda store: store.read_log("x"),
    "rewrite_transcript": lambda store: store.rewrite_transcript("x", []),
    "rewind_session": lambda store: store.rewind_session("x"),
    "redo_session": lambda store: store.redo_session("x"),
    "retry_session": lambda store: store.retry_session("x"),
    "fork_session": lambda store: store.fork_session("x"),
    "link_message": lambda store: store.link_message("x:1", "y"),
    "keep_file": lambda store: store.keep_file("telegram:7", b"x"),
    "find_file": lambda store: store.find_file("telegram:7", "x"),
    "read_file": lambda store: store.read_file("telegram:7", "x"),
    "record_usage": lambda store: store.record_usage("x", "t"),
    "update_session": lambda store: store.update_session("x"),
    "usage_report": lambda store: store.usage_report(),
    "search": lambda store: store.search("x"),
    "index_pending": lambda store: store.index_pending(),
    "redact": lambda store: store.redact("x:1"),
    "delete_session": lambda store: store.delete_session("x"),
    "prune": lambda store: store.prune(timedelta(days=1)),
    "collect": lambda store: store.collect(),
    "erase_person": lambda store: store.erase_person("telegram:7"),
    "export": lambda store: store.export("telegram:7"),
    "facts": lambda store: store.facts(),
    "backup": lambda store: store.backup("unused.db"),
    "check": lambda store: store.check(),
}

DAMAGE = {
    "a message is gone": "DELETE FROM messages WHERE number = (SELECT MIN(number) + 1 FROM messages)",
    "a message is no JSON": "UPDATE messages SET body = '{' WHERE number = (SELECT MIN(number) FROM messages)",
    "a message has other words than the index": (
        'UPDATE messages SET body = \'{"role":"user","content":"quite some other words than before"}\''
        " WHERE number = (SELECT MIN(number) FROM messages)"
    ),
    "the index lost a message": "DELETE FROM documents WHERE number = (SELECT MIN(number) FROM documents)",
    "a redacted message is still indexed": (
        "UPDATE messages SET redacted_at = 1 WHERE number = (SELECT MIN(number) FROM messages)"
    ),
    "a view is gone": "DELETE FROM spans",
    "a session counts wrong": "UPDATE session_state SET message_count = message_count + 1",
    "a session is listed too early": "UPDATE session_state SET listed_at = listed_at - 3600000000",
    "a session is listed too late": "UPDATE session_state SET listed_at = listed_at + 1",
}


def busy_history(store: SessionStore) -> list[str]:
    """Sessions with everything that can happen to one."""
    one = store.get_or_create_session(dm()).session_id
    store.append_to_transcript(one, [system("sys"), *exchange("first question", "first answer")])
    store.append_to_transcript(one, exchange("second question", "second answer"), idempotency_key="k")
    store.rewind_session(one)
    two = store.fork_session(one).session_id
    store.rewrite_transcript(two, [system("a summary")])
    three = store.get_or_create_session(dm(thread="t")).session_id
    store.append_to_transcript(three, user("third question"))
    four = store.get_or_create_session(thread()).session_id
    store.append_to_transcript(four, [user("fourth question"), user("gone")], author="telegram:7")
    store.redact(f"{four}:2")
    store.delete_session(one)
    return [two, three, four]


class CareContract:
    """Facts, backups, checks, closing."""

    def test_facts_count_what_is_there(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, exchange("q", "a"))
        store.get_or_create_session(dm(), force_new=True)
        facts = store.facts()
        assert (facts.sessions, facts.ended_sessions, facts.messages) == (2, 1, 2)
        assert facts.engine.location == store.location
        assert facts.engine.schema_version >= 1
        assert facts.engine.size_bytes > 0
        assert facts.engine.engine
        assert facts.engine.engine_version

    def test_a_backup_is_a_store_of_its_own(self, store: SessionStore, tmp_path: Path) -> None:
        kept = busy_history(store)
        told: list[tuple[int, int]] = []
        path = store.backup(tmp_path / "copy.db", progress=lambda done, total: told.append((done, total)))
        assert path == tmp_path / "copy.db"
        assert told
        assert told[-1][0] == told[-1][1]
        before = {session_id: store.load_transcript(session_id) for session_id in kept}
        entries = [store.get_session(session_id) for session_id in kept]
        store.append_to_transcript(kept[0], user("after the backup"))
        with SessionStore.open(path) as copy:
            assert copy.check().ok
            assert {session_id: copy.load_transcript(session_id) for session_id in kept} == before
            assert [copy.get_session(session_id) for session_id in kept] == entries
            assert len(copy.search("question")) == len(store.search("question"))
            fresh = copy.get_or_create_session(dm("new")).session_id
            copy.append_to_transcript(fresh, user("the copy goes on"))
            assert copy.get_or_create_session(dm(thread="t")).session_id == kept[1]

    def test_a_backup_during_writes_is_consistent(self, store: SessionStore, tmp_path: Path) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, [user("x" * 200) for _ in range(300)])
        stop, pairs = threading.Event(), [0]

        def write() -> None:
            while not stop.is_set():
                store.append_to_transcript(session_id, exchange(f"q{pairs[0]}", f"a{pairs[0]}"))
                pairs[0] += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            path = store.backup(tmp_path / "copy.db")
        finally:
            stop.set()
            writer.join()
        with SessionStore.open(path) as copy:
            assert copy.check().ok
            contents = seen(copy, session_id)[300:]
        assert len(contents) % 2 == 0
        assert contents == seen(store, session_id)[300 : 300 + len(contents)]

    def test_a_backup_overwrites_nothing(self, store: SessionStore, tmp_path: Path) -> None:
        target = tmp_path / "precious.txt"
        target.write_text("precious")
        with pytest.raises(InvalidRequest, match="precious"):
            store.backup(target)
        assert target.read_text() == "precious"
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("precious")] == ["precious.txt"]

    def test_a_check_of_a_sound_store_finds_nothing(self, store: SessionStore) -> None:
        busy_history(store)
        told: list[tuple[int, int]] = []
        report = store.check(progress=lambda done, total: told.append((done, total)))
        assert report.faults == []
        assert report.ok
        facts = store.facts()
        assert (report.sessions, report.messages) == (facts.sessions, facts.messages)
        assert told
        assert told[-1][0] == told[-1][1]
        store.index_pending()
        again = store.check()
        assert (again.faults, again.unindexed) == ([], 0)

    @pytest.mark.parametrize("sql", DAMAGE.values(), ids=DAMAGE.keys())
    def test_a_check_finds_what_was_damaged(self, store: SessionStore, raw_execute: RawExecute, sql: str) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, exchange("first question", "first answer"))
        store.index_pending()
        assert store.check().ok
        raw_execute(sql)
        report = store.check()
        assert not report.ok
        assert all(isinstance(fault, str) and fault for fault in report.faults)

    @pytest.mark.parametrize("how", ["undone", "folded"])
    def test_a_check_finds_what_could_not_come_back(
        self, store: SessionStore, raw_execute: RawExecute, how: str
    ) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, [*exchange("first", "answer"), *exchange("second", "answer")])
        if how == "undone":
            store.rewind_session(session_id)
        else:
            store.rewrite_transcript(session_id, [*exchange("first", "answer"), user("of the rest")])
        store.index_pending()
        assert store.check().ok
        # Search is not told either.
        for table in ("documents", "messages"):
            raw_execute(f"DELETE FROM {table} WHERE number & 16777215 = 3")
        (fault,) = store.check().faults
        assert "not all there" in fault

    def test_a_database_of_a_newer_version_is_left_alone(self, open_store: OpenStore, raw_execute: RawExecute) -> None:
        first = open_store()
        session_id = first.get_or_create_session(dm()).session_id
        first.close()
        raw_execute("UPDATE meta SET value = '9999' WHERE name IN ('schema_version', 'readable_by')")
        with pytest.raises(SchemaTooNew, match="9999"):
            open_store()
        raw_execute("UPDATE meta SET value = '1' WHERE name = 'readable_by'")
        assert open_store().get_session(session_id).session_id == session_id

    def test_an_older_database_is_not_migrated_unasked(self, open_store: OpenStore, raw_execute: RawExecute) -> None:
        open_store().close()
        assert open_store(migrate=False).list_sessions().items == []
        raw_execute("UPDATE meta SET value = '0' WHERE name = 'schema_version'")
        with pytest.raises(SchemaTooOld, match="migrate"):
            open_store(migrate=False)

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_closed_store_says_so(self, open_store: OpenStore, verb: str) -> None:
        store = open_store()
        store.close()
        with pytest.raises(StoreClosed):
            VERBS[verb](store)

    def test_closing_again_is_fine_and_keeps_everything(self, open_store: OpenStore) -> None:
        with open_store() as store:
            session_id = store.get_or_create_session(dm()).session_id
            store.append_to_transcript(session_id, user("hello"))
        store.close()
        store.close()
        assert seen(open_store(), session_id) == ["hello"]

    def test_closing_one_store_leaves_another_open(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        session_id = one.get_or_create_session(dm()).session_id
        one.close()
        two.append_to_transcript(session_id, user("hello"))
        assert seen(two, session_id) == ["hello"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
class ForkedContract:
    """A store that was opened before `fork()`."""

    def test_a_store_opened_before_a_fork_refuses(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user("before"))

        def refusals() -> int:
            calls = (
                lambda: store.load_transcript(session_id),
                lambda: store.append_to_transcript(session_id, user("x")),
            )
            refused = sum(_refuses(call) for call in calls)
            store.close()
            return refused

        assert _in_a_child(refusals) == 2
        store.append_to_transcript(session_id, user("after"))
        assert seen(store, session_id) == ["before", "after"]
        assert store.check().ok

    def test_so_does_the_awaited_one(self, location: str) -> None:
        async def opened() -> tuple[AsyncSessionStore, str]:
            store = await AsyncSessionStore.open(location)
            entry = await store.get_or_create_session(dm())
            await store.append_to_transcript(entry.session_id, user("before"))
            return store, entry.session_id

        store, session_id = asyncio.run(opened())

        def refusals() -> int:
            load = _refuses(lambda: asyncio.run(store.load_transcript(session_id)))
            append = _refuses(lambda: asyncio.run(store.append_to_transcript(session_id, user("x"))))
            return load + append

        assert _in_a_child(refusals) == 2
        assert len(asyncio.run(store.load_transcript(session_id))) == 1
        asyncio.run(store.close())


def _refuses(call: Callable[[], Any]) -> bool:
    try:
        call()
    except StoreForked:
        return True
    return False


def _in_a_child(work: Callable[[], int]) -> int:
    """What `work` answers in a forked child; 99 where it raises, and minus the signal where it has to be ended."""
    child = os.fork()
    if child == 0:
        # A child that waits for a thread of its parent would wait for ever.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        answer = 99
        try:
            answer = work()
        finally:
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

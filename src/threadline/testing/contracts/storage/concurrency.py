"""Contract: many callers at once, in threads, on event loops and in processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest

from threadline.errors import StoreClosed
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.store.facade import AsyncSessionStore, SessionStore
from threadline.testing.builders import assistant, dm, exchange, group, thread, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore, seen
from threadline.testing.processes import append_texts, in_processes, resolve_people

T = TypeVar("T")


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Runs each job in a thread of its own; all start together."""
    gate = threading.Barrier(len(jobs))

    def run(job: Callable[[], T]) -> T:
        gate.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def begun_beside_rewrites(
    one: SessionStore, two: SessionStore, session_id: str, begin: Callable[[int], SessionEntry]
) -> None:
    """What begins with a conversation's words, while those are written anew, has all of the old ones or of the new ones."""
    one.append_to_transcript(session_id, user("0"))
    for n in range(1, 26):
        rewrite = partial(one.rewrite_transcript, session_id, [user(str(n))])
        _, begun = at_once([rewrite, partial(begin, n)])
        assert seen(two, begun.session_id) in ([str(n - 1)], [str(n)])
    assert two.check().ok


class ConcurrencyContract:
    """Nothing is lost, doubled or out of order, whoever comes when."""

    def test_eight_threads_append_to_one_session(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id

        def append(caller: int) -> list[int]:
            texts = [f"{caller}:{n}" for n in range(200)]
            return [store.append_to_transcript(session_id, user(text), text).first_seq for text in texts]

        places = at_once([partial(append, caller) for caller in range(8)])
        assert sorted(place for mine in places for place in mine) == list(range(1, 1601))
        assert all(mine == sorted(mine) for mine in places)
        said = seen(store, session_id)
        assert [said[place - 1] for place in places[3]] == [f"3:{n}" for n in range(200)]
        assert len(said) == store.get_session(session_id).message_count == 1600
        assert store.check().ok

    def test_four_processes_append_to_one_session(self, store: SessionStore, location: str) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        shared = [f"shared {n}" for n in range(50)]
        own = [[f"{process}:{n}" for n in range(100)] for process in range(4)]
        mixed = [[text for pair in zip(mine, shared * 2, strict=True) for text in pair] for mine in own]
        added = in_processes(append_texts, [(location, session_id, texts) for texts in mixed])
        said = seen(store, session_id)
        assert sum(added) == len(said) == 450
        assert sorted(said) == sorted([*shared, *(text for mine in own for text in mine)])
        for mine in own:
            assert [text for text in said if text in set(mine)] == mine
        assert [m.ref.seq for m in store.read_log(session_id)] == list(range(1, 451))
        assert store.check().ok

    def test_processes_that_resolve_at_once_agree(self, location: str) -> None:
        people = [f"p{n}" for n in range(25)]
        answers = in_processes(resolve_people, [(location, people), (location, people[::-1])])
        assert answers[0] == answers[1][::-1]

    def test_stores_that_race_for_an_address_get_one_session(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        for n in range(25):
            source = dm(f"racer {n}")
            jobs = [partial(store.get_or_create_session, source) for store in (one, two, one, two)]
            assert len({entry.session_id for entry in at_once(jobs)}) == 1
        assert len(one.list_sessions(include_ended=True)) == 25

    def test_stores_that_race_for_a_stale_address_reset_it_once(self, open_store: OpenStore, clock: FakeClock) -> None:
        policies = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60))
        one, two = open_store(policies=policies), open_store(policies=policies)
        for n in range(1, 11):
            clock.advance(timedelta(hours=2))
            jobs = [partial(store.get_or_create_session, dm()) for store in (one, two, one, two)]
            assert len({entry.session_id for entry in at_once(jobs)}) == 1
            assert len(one.list_sessions(include_ended=True)) == n

    def test_addresses_that_spell_the_same_race_for_the_name(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        for n in range(10):
            first, second = group("x", f"g{n}"), thread("7", f"g{n}", "x")
            jobs = [
                partial(store.get_or_create_session, source)
                for store, source in ((one, first), (two, second), (one, second), (two, first))
            ]
            entries = at_once(jobs)
            assert entries[0].session_id == entries[3].session_id
            assert entries[1].session_id == entries[2].session_id
            assert len({entry.session_key for entry in entries}) == 2

    def test_one_notice_for_many_who_ask(self, open_store: OpenStore, clock: FakeClock) -> None:
        policies = ResetPolicies(default=SessionResetPolicy(mode="idle", idle_minutes=60))
        one, two = open_store(policies=policies), open_store(policies=policies)
        entry = one.get_or_create_session(dm())
        one.append_to_transcript(entry.session_id, user("hello"))
        clock.advance(timedelta(hours=2))
        fresh = one.get_or_create_session(dm()).session_id
        jobs = [partial(store.take_reset_notice, fresh, "user") for store in (one, two) * 4]
        assert sum(notice is not None for notice in at_once(jobs)) == 1

    def test_changes_of_every_kind_at_once(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        session_id = one.get_or_create_session(dm()).session_id
        one.append_to_transcript(session_id, exchange("q", "a"))

        def append(store: SessionStore) -> None:
            for n in range(15):
                store.append_to_transcript(session_id, exchange(f"q{n}", f"a{n}"))

        def rewind() -> None:
            for _ in range(10):
                one.rewind_session(session_id)
                two.append_to_transcript(session_id, exchange("again", "answer"))

        def fork() -> None:
            for _ in range(10):
                two.delete_session(one.fork_session(session_id).session_id)

        def look() -> None:
            for _ in range(10):
                one.search("answer", session=session_id)
                two.rewrite_transcript(two.fork_session(session_id).session_id, [user("summary")])
                one.record_usage(session_id, "turn", input_tokens=1)

        everything: list[Callable[[], None]] = [partial(append, one), partial(append, two), rewind, fork, look]
        at_once(everything)
        assert len(one.read_log(session_id)) == 2 + 60 + 20
        assert one.get_session(session_id).message_count == len(one.load_transcript(session_id))
        assert two.check().ok

    def test_undos_at_once_each_take_an_exchange_back(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        session_id = one.get_or_create_session(dm()).session_id
        one.append_to_transcript(session_id, exchange("first", "answer"))
        for _ in range(25):
            one.append_to_transcript(session_id, [*exchange("q1", "a1"), *exchange("q2", "a2")])
            at_once([partial(store.rewind_session, session_id) for store in (one, two)])
            assert seen(one, session_id) == ["first", "answer"]
            at_once([partial(store.redo_session, session_id) for store in (one, two)])
            assert seen(two, session_id) == ["first", "answer", "q1", "a1", "q2", "a2"]
            one.rewind_session(session_id, 2)
        assert one.check().ok

    def test_a_fork_shows_what_a_rewrite_at_the_same_time_left_or_found(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        session_id = one.get_or_create_session(dm()).session_id
        begun_beside_rewrites(one, two, session_id, lambda _: two.fork_session(session_id))

    def test_a_thread_starts_with_what_a_rewrite_at_the_same_time_left_or_found(self, open_store: OpenStore) -> None:
        one, two = open_store(), open_store()
        session_id = one.get_or_create_session(dm()).session_id
        begun_beside_rewrites(one, two, session_id, lambda n: two.get_or_create_session(dm(thread=f"t{n}")))

    def test_closing_waits_for_what_was_accepted(self, open_store: OpenStore) -> None:
        store = open_store()
        session_id = store.get_or_create_session(dm()).session_id
        kept: list[str] = []

        def append(caller: int) -> None:
            for n in range(10_000):
                try:
                    store.append_to_transcript(session_id, user(f"{caller}:{n}"))
                except StoreClosed:
                    return
                kept.append(f"{caller}:{n}")

        callers = [threading.Thread(target=append, args=(n,)) for n in range(4)]
        for caller in callers:
            caller.start()
        while len(kept) < 40:
            assert any(caller.is_alive() for caller in callers)
        store.close()
        for caller in callers:
            caller.join()
        assert set(kept) == set(seen(open_store(), session_id))


class AwaitedContract:
    """The client for event loops."""

    def test_many_callers_of_one_loop(self, location: str, clock: FakeClock) -> None:
        async def scenario() -> None:
            async with await AsyncSessionStore.open(location, clock=clock, timezone="UTC") as store:
                entries = await asyncio.gather(*(store.get_or_create_session(dm(str(n % 4))) for n in range(32)))
                ids = list(dict.fromkeys(entry.session_id for entry in entries))
                assert len(ids) == 4
                await asyncio.gather(
                    *(store.append_to_transcript(ids[n % 4], user(str(n)), str(n)) for n in range(200))
                )
                for place, session_id in enumerate(ids):
                    said = [m["content"] for m in await store.load_transcript(session_id)]
                    assert said == [str(n) for n in range(200) if n % 4 == place]
                assert (await store.check()).ok

        asyncio.run(scenario())

    def test_one_key_from_many_callers_is_one_message(self, location: str) -> None:
        async def scenario() -> None:
            async with await AsyncSessionStore.open(location) as store:
                session_id = (await store.get_or_create_session(dm())).session_id
                appends = [store.append_to_transcript(session_id, user("hello"), "k") for _ in range(50)]
                outcomes = await asyncio.gather(*appends)
                assert sum(not outcome.duplicate for outcome in outcomes) == 1
                assert {outcome.first_seq for outcome in outcomes} == {1}
                assert len(await store.load_transcript(session_id)) == 1

        asyncio.run(scenario())

    def test_a_caller_who_goes_away_harms_no_other(self, location: str) -> None:
        async def scenario() -> None:
            async with await AsyncSessionStore.open(location) as store:
                session_id = (await store.get_or_create_session(dm())).session_id
                tasks = [
                    asyncio.ensure_future(store.append_to_transcript(session_id, user(str(n)), str(n)))
                    for n in range(60)
                ]
                await asyncio.sleep(0)
                for task in tasks[::3]:
                    task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                stayed = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
                assert {n for n in range(60) if n % 3} <= set(stayed)
                said = [m["content"] for m in await store.load_transcript(session_id)]
                assert len(said) == len(set(said))
                assert {str(n) for n in stayed} <= set(said)

        asyncio.run(scenario())

    def test_a_loop_that_ends_harms_no_other(self, location: str) -> None:
        async def opened() -> tuple[AsyncSessionStore, str]:
            store = await AsyncSessionStore.open(location)
            return store, (await store.get_or_create_session(dm())).session_id

        async def used(store: AsyncSessionStore, session_id: str) -> list[Any]:
            await store.append_to_transcript(session_id, assistant("hello"))
            return await store.load_transcript(session_id)

        store, session_id = asyncio.run(opened())
        for n in range(3):
            assert len(asyncio.run(used(store, session_id))) == n + 1
        asyncio.run(store.close())
        with pytest.raises(StoreClosed):
            asyncio.run(used(store, session_id))
        asyncio.run(store.close())

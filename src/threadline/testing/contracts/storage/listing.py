"""Contract: pages of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from threadline.errors import InvalidCursor, InvalidRequest
from threadline.store.facade import SessionStore
from threadline.testing.builders import dm, exchange, group, thread, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import short

MINUTE = timedelta(minutes=1)


CHANGES: dict[str, Callable[[SessionStore, str], Any]] = {
    "resolve": lambda store, _: store.get_or_create_session(dm("p1")),
    "append": lambda store, session_id: store.append_to_transcript(session_id, user("hello")),
    "undo": lambda store, session_id: store.rewind_session(session_id),
    "retry": lambda store, session_id: store.retry_session(session_id),
    "rewrite": lambda store, session_id: store.rewrite_transcript(session_id, [user("summary")]),
    "title": lambda store, session_id: store.set_title(session_id, "Tea"),
    "runtime": lambda store, session_id: store.set_runtime(session_id, model="m-1"),
    "usage": lambda store, session_id: store.record_usage(session_id, "t", input_tokens=1),
}


def made(store: SessionStore, clock: FakeClock, count: int, **more: Any) -> list[str]:
    """Ids of new sessions, oldest first, a minute apart."""
    ids = []
    for n in range(count):
        clock.advance(MINUTE)
        ids.append(store.get_or_create_session(dm(f"p{n}", **more)).session_id)
    return ids


def pages(store: SessionStore, **options: Any) -> Iterator[list[str]]:
    """All pages, one after the other, as ids."""
    page = store.list_sessions(**options)
    yield [entry.session_id for entry in page]
    while page.cursor is not None:
        page = store.list_sessions(cursor=page.cursor, **options)
        yield [entry.session_id for entry in page]


def listed(store: SessionStore, **options: Any) -> list[str]:
    """The ids of all pages."""
    return [session_id for page in pages(store, **options) for session_id in page]


class ListingContract:
    """`list_sessions`."""

    def test_a_page_reads_like_a_list(self, store: SessionStore, clock: FakeClock) -> None:
        assert len(store.list_sessions()) == 0
        ids = made(store, clock, 3)
        page = store.list_sessions()
        assert len(page) == 3
        assert page[0].session_id == ids[-1]
        assert [entry.session_id for entry in page] == ids[::-1]
        assert page[0] == store.get_session(ids[-1])
        assert page.cursor is None

    def test_the_latest_change_comes_first(self, store: SessionStore, clock: FakeClock) -> None:
        first, second, third = made(store, clock, 3)
        clock.advance(MINUTE)
        store.set_title(second, "Tea")
        clock.advance(MINUTE)
        store.append_to_transcript(first, user("hello"))
        assert listed(store) == [first, second, third]

    @pytest.mark.parametrize("change", CHANGES)
    def test_any_change_counts_at_once(self, store: SessionStore, clock: FakeClock, change: str) -> None:
        ids = []
        for n in range(5):
            ids.append(store.get_or_create_session(dm(f"p{n}")).session_id)
            store.append_to_transcript(ids[-1], exchange("q", "a"))
            clock.advance(timedelta(milliseconds=100))
        CHANGES[change](store, ids[1])
        assert store.get_session(ids[1]).updated_at == clock.now()
        wanted = [ids[1], ids[4], ids[3], ids[2], ids[0]]
        assert listed(store, limit=1) == listed(store, limit=2, platform="telegram") == wanted

    def test_a_clock_that_goes_back_loses_nothing(self, store: SessionStore, clock: FakeClock) -> None:
        ids = made(store, clock, 4)
        clock.advance(-2.5 * MINUTE)
        store.append_to_transcript(ids[3], user("in the past"))
        store.record_usage(ids[2], "t", input_tokens=1)
        assert listed(store, limit=1) == [ids[1], ids[3], ids[2], ids[0]]

    def test_pages_leave_no_gap_and_repeat_nothing(self, store: SessionStore, clock: FakeClock) -> None:
        ids = made(store, clock, 7)
        got = list(pages(store, limit=3))
        assert got == [ids[:3:-1], [ids[3], ids[2], ids[1]], [ids[0]]]

    def test_a_full_last_page_is_the_last(self, store: SessionStore, clock: FakeClock) -> None:
        made(store, clock, 4)
        assert [len(page) for page in pages(store, limit=2)] == [2, 2]

    def test_sessions_of_one_instant_are_all_listed(self, store: SessionStore) -> None:
        ids = {store.get_or_create_session(dm(f"p{n}")).session_id for n in range(7)}
        got = listed(store, limit=2)
        assert len(got) == 7
        assert set(got) == ids

    def test_what_changes_meanwhile_disturbs_no_other(self, store: SessionStore, clock: FakeClock) -> None:
        ids = made(store, clock, 9)
        walk = pages(store, limit=3)
        got = next(walk)
        clock.advance(MINUTE)
        store.get_or_create_session(dm("someone new"))
        store.append_to_transcript(ids[8], user("listed already"))
        store.append_to_transcript(ids[2], user("not listed yet"))
        store.delete_session(ids[4])
        got += [session_id for page in walk for session_id in page]
        assert got == [ids[8], ids[7], ids[6], ids[5], ids[3], ids[1], ids[0]]

    def test_ended_sessions_are_listed_on_demand(self, store: SessionStore, clock: FakeClock) -> None:
        ids = made(store, clock, 4)
        clock.advance(MINUTE)
        key = store.get_session(ids[1]).session_key
        fresh = store.reset_session(key)
        assert fresh is not None
        assert listed(store) == [fresh.session_id, ids[3], ids[2], ids[0]]
        everything = [fresh.session_id, ids[1], ids[3], ids[2], ids[0]]
        assert listed(store, include_ended=True) == everything
        assert listed(store, include_ended=True, limit=1) == everything
        assert listed(store, include_ended=True, platform="telegram", limit=2) == everything

    def test_only_those_active_of_late(self, store: SessionStore, clock: FakeClock) -> None:
        ids = made(store, clock, 5)
        assert listed(store, active_minutes=2.5) == [ids[4], ids[3], ids[2]]
        store.set_title(ids[0], "renamed, but not active")
        assert listed(store, active_minutes=2.5) == [ids[4], ids[3], ids[2]]
        assert listed(store, active_minutes=2, person="telegram:p3") == [ids[3]]
        assert listed(store, active_minutes=0.5, platform="telegram") == [ids[4]]

    def test_by_platform(self, store: SessionStore, clock: FakeClock) -> None:
        telegram = made(store, clock, 3)
        signal = made(store, clock, 2, platform="signal")
        assert listed(store, platform="signal", limit=1) == signal[::-1]
        assert listed(store, platform="telegram", limit=2) == telegram[::-1]
        assert listed(store, platform="matrix") == []

    def test_all_platforms_stand_in_one_order(self, store: SessionStore, clock: FakeClock) -> None:
        everything: list[str] = []
        open_ones: list[str] = []
        for n in range(12):
            clock.advance(MINUTE)
            platform = ("telegram", "signal", "matrix", "local")[n % 4]
            session = store.get_or_create_session(dm(f"p{n}", platform=platform))
            everything.insert(0, session.session_id)
            open_ones.insert(0, session.session_id)
            if n % 3 == 0:
                fresh = store.reset_session(session.session_key)
                assert fresh is not None
                # Both were changed in the same instant; the younger one comes first.
                everything.insert(0, fresh.session_id)
                open_ones[0] = fresh.session_id
        for limit in (1, 2, 5, 50):
            assert listed(store, limit=limit) == open_ones
            assert listed(store, limit=limit, include_ended=True) == everything

    def test_a_person_sees_what_is_theirs(self, store: SessionStore, clock: FakeClock) -> None:
        mine = []
        for source in (dm("7"), group("7"), dm("7", thread="t"), group("7", "g2")):
            clock.advance(MINUTE)
            mine.append(store.get_or_create_session(source).session_id)
        for source in (dm("8"), group("8"), thread("7"), dm("7", platform="signal"), dm("7", account="work")):
            store.get_or_create_session(source)
        assert listed(store, person="telegram:7", limit=1) == mine[::-1]
        assert listed(store, person=dm("7"), limit=3) == mine[::-1]
        assert listed(store, person=dm("7"), platform="signal") == []

    def test_from_a_group_only_that_group_is_seen(self, store: SessionStore, clock: FakeClock) -> None:
        here = []
        for source in (group("7"), thread("8"), thread("9", "g1", "t2")):
            clock.advance(MINUTE)
            here.append(store.get_or_create_session(source).session_id)
        for source in (dm("7"), group("8"), group("7", "g2"), thread("7", "g2"), thread("7", account="work")):
            store.get_or_create_session(source)
        assert listed(store, person=group("7"), limit=1) == here[::-1]
        assert listed(store, person=group("7"), platform="telegram") == here[::-1]
        assert listed(store, person=group("7"), platform="signal") == []

    @pytest.mark.parametrize("limit", [0, -1, 1001])
    def test_a_page_has_a_sensible_size(self, store: SessionStore, limit: int) -> None:
        with pytest.raises(InvalidRequest, match="limit"):
            store.list_sessions(limit=limit)

    @pytest.mark.parametrize("cursor", ["?", "abc", "é", "cy4x", "cy54Lnk", "cy4" + "9" * 80, "x" * 5000], ids=short)
    def test_a_cursor_from_elsewhere_is_refused(self, store: SessionStore, cursor: str) -> None:
        with pytest.raises(InvalidCursor):
            store.list_sessions(cursor=cursor)

    def test_a_cursor_of_a_search_is_refused(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        store.append_to_transcript(entry.session_id, [user("tea"), user("tea")])
        cursor = store.search("tea", limit=1).cursor
        assert cursor is not None
        with pytest.raises(InvalidCursor):
            store.list_sessions(cursor=cursor)

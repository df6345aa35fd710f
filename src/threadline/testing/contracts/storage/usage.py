"""Contract: what turns cost, once per turn."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from threadline.errors import InvalidRequest, UnknownSession
from threadline.store.facade import SessionStore
from threadline.testing.builders import dm
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore


class UsageContract:
    """`record_usage`, `update_session`, `usage_report`."""

    def test_turns_add_up(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.record_usage(session_id, "t1", input_tokens=10, output_tokens=5, reasoning_tokens=2, cost_usd=0.1)
        entry = store.record_usage(
            session_id,
            "t2",
            input_tokens=1,
            output_tokens=2,
            cache_read_tokens=30,
            cache_write_tokens=4,
            last_prompt_tokens=35,
            cost_usd=Decimal("0.200001"),
            cost_status="estimated",
            model="m-1",
        )
        assert (entry.input_tokens, entry.output_tokens, entry.reasoning_tokens) == (11, 7, 2)
        assert (entry.cache_read_tokens, entry.cache_write_tokens, entry.total_tokens) == (30, 4, 52)
        assert (entry.last_prompt_tokens, entry.cost_micros, entry.cost_status) == (35, 300_001, "estimated")
        assert (entry.estimated_cost_usd, entry.model) == (0.300001, "m-1")
        assert store.get_session(session_id) == entry

    def test_a_turn_counts_once(self, open_store: OpenStore) -> None:
        store = open_store()
        session_id = store.get_or_create_session(dm()).session_id
        first = store.record_usage(session_id, "t1", input_tokens=10, cost_usd=1)
        for one in (store, open_store()):
            assert one.record_usage(session_id, "t1", input_tokens=10, cost_usd=1) == first
            assert one.record_usage(session_id, "t1", input_tokens=99) == first
        other = store.get_or_create_session(dm("8")).session_id
        assert store.record_usage(other, "t1", input_tokens=3).input_tokens == 3

    def test_what_is_not_told_stays(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.record_usage(session_id, "t1", last_prompt_tokens=100, cost_status="actual", model="m-1")
        entry = store.record_usage(session_id, "t2", input_tokens=1)
        assert (entry.last_prompt_tokens, entry.cost_status, entry.model) == (100, "actual", "m-1")

    def test_usage_of_a_conversation_goes_to_its_current_session(self, store: SessionStore) -> None:
        old = store.get_or_create_session(dm())
        new = store.get_or_create_session(dm(), force_new=True)
        entry = store.update_session(new.session_key, input_tokens=4, last_prompt_tokens=9)
        assert entry is not None
        assert (entry.session_id, entry.input_tokens, entry.last_prompt_tokens) == (new.session_id, 4, 9)
        store.update_session(new.session_key, input_tokens=4)
        assert store.get_session(new.session_id).input_tokens == 8
        for _ in range(2):
            store.update_session(new.session_key, turn_id="t", input_tokens=1)
        assert store.get_session(new.session_id).input_tokens == 9
        assert store.get_session(old.session_id).input_tokens == 0

    def test_unknown_sessions_and_keys_are_told(self, store: SessionStore) -> None:
        with pytest.raises(UnknownSession):
            store.record_usage("nothing", "t1", input_tokens=1)
        assert store.update_session("agent:main:telegram:dm:nobody", input_tokens=1) is None
        assert store.usage_report() == []

    @pytest.mark.parametrize(
        "spent",
        [
            {"input_tokens": -1},
            {"output_tokens": 1.5},
            {"input_tokens": 2**63},
            {"last_prompt_tokens": -5},
            {"cost_usd": float("nan")},
            {"cost_usd": "much"},
            {"cost_usd": -1},
            {"cost_usd": 1e30},
            {"cost_status": "guessed"},
            {"model": "a\x00b"},
            {"model": "x" * 5000},
        ],
    )
    def test_what_can_be_no_usage_changes_nothing(self, store: SessionStore, spent: dict[str, Any]) -> None:
        entry = store.get_or_create_session(dm())
        with pytest.raises(InvalidRequest):
            store.record_usage(entry.session_id, "t1", **spent)
        assert store.get_session(entry.session_id) == entry
        assert store.usage_report() == []

    def test_a_report_sums_by_what_is_asked(self, store: SessionStore, clock: FakeClock) -> None:
        ada = store.get_or_create_session(dm("7")).session_id
        ben = store.get_or_create_session(dm("8", platform="signal")).session_id
        store.record_usage(ada, "t1", input_tokens=1, cost_usd=0.5, model="small")
        store.record_usage(ada, "t2", output_tokens=2, cost_usd=0.25, model="large")
        clock.advance(timedelta(days=1))
        store.record_usage(ben, "t1", input_tokens=4, cache_read_tokens=8, cost_usd=2, model="large")

        def lines(by: Any, **options: Any) -> list[tuple[str | None, int, int]]:
            return [(line.group, line.turns, line.cost_micros) for line in store.usage_report(by, **options)]

        assert lines("session") == [(ben, 1, 2_000_000), (ada, 2, 750_000)]
        assert lines("person") == [("signal:8", 1, 2_000_000), ("telegram:7", 2, 750_000)]
        assert lines("platform") == [("signal", 1, 2_000_000), ("telegram", 2, 750_000)]
        assert lines("model") == [("large", 2, 2_250_000), ("small", 1, 500_000)]
        assert lines("day") == [("2026-01-06", 1, 2_000_000), ("2026-01-05", 2, 750_000)]
        assert lines("day", person="telegram:7") == lines("day", person=dm("7")) == [("2026-01-05", 2, 750_000)]
        assert lines("day", since=clock.now()) == [("2026-01-06", 1, 2_000_000)]
        assert lines("day", until=clock.now()) == [("2026-01-05", 2, 750_000)]
        (line,) = store.usage_report("platform", since=clock.now())
        assert (line.input_tokens, line.cache_read_tokens, line.estimated_cost_usd) == (4, 8, 2.0)

    def test_a_report_by_something_else_is_refused(self, store: SessionStore) -> None:
        with pytest.raises(InvalidRequest, match="colour"):
            store.usage_report(cast(Any, "colour"))

    def test_what_a_deleted_session_cost_is_still_reported(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.record_usage(session_id, "t1", input_tokens=1, cost_usd=1)
        store.delete_session(session_id)
        (line,) = store.usage_report("session")
        assert (line.group, line.cost_micros) == (session_id, 1_000_000)

    def test_usage_is_no_activity(self, store: SessionStore, clock: FakeClock) -> None:
        entry = store.get_or_create_session(dm())
        later = clock.advance(timedelta(minutes=5))
        after = store.record_usage(entry.session_id, "t1", input_tokens=1)
        assert (after.active_at, after.updated_at) == (entry.active_at, later)

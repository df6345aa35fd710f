"""Contract: what is appended is kept once, in order, to the letter."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadline.errors import IdempotencyConflict, InvalidCursor, InvalidMessage, InvalidRequest, UnknownSession
from threadline.model.message import Message, MessageRef
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, exchange, system, thread, tool_call, tool_use, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import OpenStore, contents, seen

_text = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["\x00", "\ud800", "\udfff\ud800", "\\u0000", "'\"%s:x"]
)
_numbers = (
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([2**80, -(10**300), 1e-300])
)
_json = st.recursive(
    st.none() | st.booleans() | _numbers | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
_messages = st.builds(
    lambda fields, role, before: {**fields, "role": role} if before else {"role": role, **fields},
    st.dictionaries(_text.filter(lambda name: name != "role"), _json, max_size=4),
    st.sampled_from(["user", "assistant", "tool", "system", "développeur"]),
    st.booleans(),
)

OF_EVERY_KIND: list[Message] = [
    system("be brief"),
    user("what is the weather?"),
    {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    *tool_use("weather", {"city": "Zürich"}, "rain"),
    tool_call("weather", {"city": "東京"}, call_id="call-2"),
    {"role": "tool", "tool_call_id": "call-2", "tool_name": "weather", "content": None},
    assistant("wet", reasoning="hm", reasoning_details=[{"type": "x", "n": 1.5}], codex_reasoning_items=[{}]),
    {"content": "the role comes last", "zeta": 1, "alpha": [True, False, None], "role": "assistant"},
    {"role": "a role of the future", "made_up": {"deep": [[[{}]]]}},
]


def session(store: SessionStore) -> str:
    """The id of a new session."""
    return store.get_or_create_session(dm(), force_new=True).session_id


class TranscriptContract:
    """Appending and reading."""

    def test_messages_come_back_in_order(self, store: SessionStore) -> None:
        session_id = session(store)
        first = store.append_to_transcript(session_id, user("one"))
        more = store.append_to_transcript(session_id, [assistant("two"), user("three")])
        assert (first.first_seq, first.count, first.duplicate) == (1, 1, False)
        assert more.refs == [MessageRef(session_id, 2), MessageRef(session_id, 3)]
        assert seen(store, session_id) == ["one", "two", "three"]
        assert store.get_session(session_id).message_count == 3

    def test_every_kind_of_message_is_kept_to_the_letter(self, open_store: OpenStore) -> None:
        store = open_store()
        session_id = session(store)
        store.append_to_transcript(session_id, OF_EVERY_KIND)
        store.close()
        loaded = open_store().load_transcript(session_id)
        assert json.dumps(loaded) == json.dumps(OF_EVERY_KIND)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(messages=st.lists(_messages, min_size=1, max_size=5))
    def test_any_json_comes_back_equal(self, store: SessionStore, messages: list[Message]) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, messages)
        assert json.dumps(store.load_transcript(session_id)) == json.dumps(messages)

    def test_the_last_so_many(self, store: SessionStore) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, [user(str(n)) for n in range(10)])
        assert contents(store.load_transcript(session_id, limit=3)) == ["7", "8", "9"]
        assert contents(store.load_transcript(session_id, 1)) == ["9"]
        assert store.load_transcript(session_id, limit=0) == []
        assert len(store.load_transcript(session_id, limit=99)) == 10
        with pytest.raises(InvalidRequest, match="limit"):
            store.load_transcript(session_id, limit=-1)

    def test_an_empty_session_is_empty_and_an_unknown_one_unknown(self, store: SessionStore) -> None:
        session_id = session(store)
        assert store.load_transcript(session_id) == []
        assert store.read_transcript(session_id) == []
        assert store.read_log(session_id) == []
        for read in (store.load_transcript, store.read_transcript, store.read_log):
            with pytest.raises(UnknownSession):
                read("nothing")
        with pytest.raises(UnknownSession):
            store.load_transcript("nothing", limit=0)

    def test_several_are_appended_together_or_not_at_all(self, store: SessionStore) -> None:
        session_id = session(store)
        bad: Any = {"content": "no role"}
        with pytest.raises(InvalidMessage):
            store.append_to_transcript(session_id, [user("good"), bad])
        with pytest.raises(InvalidMessage):
            store.append_to_transcript(session_id, [])
        assert seen(store, session_id) == []
        assert store.get_session(session_id).message_count == 0

    def test_appending_to_an_unknown_session_is_told(self, store: SessionStore) -> None:
        with pytest.raises(UnknownSession):
            store.append_to_transcript("nothing", user("hello"))
        with pytest.raises(UnknownSession):
            store.append_to_transcript("nothing", user("hello"), idempotency_key="k")
        assert store.facts().messages == 0

    def test_an_append_moves_the_clocks(self, store: SessionStore, clock: FakeClock) -> None:
        session_id = session(store)
        later = clock.advance(timedelta(minutes=1))
        store.append_to_transcript(session_id, user("hello"))
        entry = store.get_session(session_id)
        assert (entry.updated_at, entry.active_at) == (later, later)
        assert store.read_transcript(session_id)[0].at == later

    def test_reading_tells_ids_times_and_authors(self, store: SessionStore, clock: FakeClock) -> None:
        shared = store.get_or_create_session(thread("7"))
        store.append_to_transcript(shared.session_id, user("hello"), author=thread("7"))
        now = clock.advance(timedelta(minutes=1))
        store.append_to_transcript(shared.session_id, user("hi"), author="telegram:8")
        store.append_to_transcript(shared.session_id, assistant("welcome"))
        first, second, third = store.read_transcript(shared.session_id)
        assert [m.author for m in (first, second, third)] == ["telegram:7", "telegram:8", None]
        assert (second.ref, second.role, second.at) == (MessageRef(shared.session_id, 2), "user", now)
        assert (second.message, second.redacted) == (user("hi"), False)
        assert store.read_transcript(shared.session_id, limit=1) == [third]

    def test_the_log_is_read_in_stretches(self, store: SessionStore) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, [user(str(n)) for n in range(7)])
        store.rewind_session(session_id)
        stretches = [store.read_log(session_id, after, limit=3) for after in (0, 3, 6, 7)]
        said = [[m.message["content"] for m in stretch] for stretch in stretches]
        assert said == [["0", "1", "2"], ["3", "4", "5"], ["6"], []]
        assert stretches[1][0].ref == MessageRef(session_id, 4)

    def test_a_long_transcript_is_read_page_by_page(self, store: SessionStore) -> None:
        origin = session(store)
        store.append_to_transcript(origin, [user(str(n)) for n in range(7)])
        session_id = store.fork_session(origin).session_id
        store.append_to_transcript(session_id, [user(str(n)) for n in range(7, 10)])
        page = store.page_transcript(session_id, limit=4)
        read = list(page)
        store.append_to_transcript(session_id, user("10"))
        while page.cursor is not None:
            page = store.page_transcript(session_id, limit=4, cursor=page.cursor)
            read += page
        assert read == store.read_transcript(session_id)
        assert len(read) == 11

    def test_a_page_of_a_view_that_changed_is_refused(self, store: SessionStore) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, [user("a"), assistant("b"), user("c"), assistant("d")])
        cursor = store.page_transcript(session_id, limit=1).cursor
        assert cursor is not None
        store.rewind_session(session_id)
        for wrong in (cursor, "?", "abc"):
            with pytest.raises(InvalidCursor):
                store.page_transcript(session_id, limit=1, cursor=wrong)
        for limit in (0, -1):
            with pytest.raises(InvalidRequest):
                store.page_transcript(session_id, limit=limit)

    def test_no_count_reaches_beyond_the_session(self, store: SessionStore) -> None:
        other, session_id = session(store), session(store)
        store.append_to_transcript(other, user("not yours"))
        store.append_to_transcript(session_id, user("yours"))
        for after, limit in ((-1, 5), (-(2**40), 5), (0, -1), (2**70, 1), (0, 2**70)):
            with pytest.raises(InvalidRequest):
                store.read_log(session_id, after, limit)
        for far in (2**24 - 2, 2**24 - 1, 2**24, 2**25 + 1, 2**40):
            assert store.read_log(session_id, far) == []
        for limit in (-1, 2**70):
            with pytest.raises(InvalidRequest):
                store.read_transcript(session_id, limit)
            with pytest.raises(InvalidRequest):
                store.load_transcript(session_id, limit)


class IdempotencyContract:
    """A key that comes again."""

    def test_the_same_key_again_adds_nothing(self, open_store: OpenStore) -> None:
        store = open_store()
        session_id = session(store)
        store.append_to_transcript(session_id, user("before"))
        first = store.append_to_transcript(session_id, exchange("q", "a"), idempotency_key="turn-1")
        store.append_to_transcript(session_id, user("after"))
        for one in (store, open_store()):
            again = one.append_to_transcript(session_id, exchange("q", "a"), idempotency_key="turn-1")
            assert again.duplicate
            assert again.refs == first.refs
        assert seen(store, session_id) == ["before", "q", "a", "after"]

    def test_a_repeat_moves_no_clock(self, store: SessionStore, clock: FakeClock) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, user("hello"), "k")
        before = store.get_session(session_id)
        clock.advance(timedelta(hours=1))
        store.append_to_transcript(session_id, user("hello"), "k")
        assert store.get_session(session_id) == before

    @pytest.mark.parametrize("other", [user("hi"), exchange("hello", "there"), assistant("hello"), user("hello", x=1)])
    def test_the_same_key_with_other_content_is_a_conflict(
        self, store: SessionStore, other: Message | list[Message]
    ) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, user("hello"), idempotency_key="m:42")
        with pytest.raises(IdempotencyConflict, match="m:42"):
            store.append_to_transcript(session_id, other, idempotency_key="m:42")
        assert seen(store, session_id) == ["hello"]

    def test_a_key_belongs_to_one_session(self, store: SessionStore) -> None:
        one, two = session(store), session(store)
        store.append_to_transcript(one, user("hello"), idempotency_key="k")
        assert not store.append_to_transcript(two, user("other"), idempotency_key="k").duplicate
        fork = store.fork_session(one).session_id
        assert not store.append_to_transcript(fork, user("third"), idempotency_key="k").duplicate
        assert seen(store, fork) == ["hello", "third"]

    def test_without_a_key_everything_is_added(self, store: SessionStore) -> None:
        session_id = session(store)
        for _ in range(3):
            assert not store.append_to_transcript(session_id, user("hello")).duplicate
        assert seen(store, session_id) == ["hello"] * 3

    def test_a_key_holds_after_undo_and_retry(self, store: SessionStore) -> None:
        session_id = session(store)
        store.append_to_transcript(session_id, user("q"), idempotency_key="u")
        store.append_to_transcript(session_id, assistant("a"), idempotency_key="a")
        store.retry_session(session_id)
        assert store.append_to_transcript(session_id, user("q"), idempotency_key="u").duplicate
        assert seen(store, session_id) == ["q"]
        store.rewind_session(session_id)
        assert store.append_to_transcript(session_id, user("q"), idempotency_key="u").duplicate
        assert seen(store, session_id) == []

    def test_a_failed_append_uses_up_no_key(self, store: SessionStore) -> None:
        session_id = session(store)
        bad: Any = {"content": "no role"}
        with pytest.raises(InvalidMessage):
            store.append_to_transcript(session_id, [user("hello"), bad], idempotency_key="k")
        assert not store.append_to_transcript(session_id, user("hello"), idempotency_key="k").duplicate

    def test_keys_differ_to_the_letter(self, store: SessionStore) -> None:
        session_id = session(store)
        keys = ["k", "K", "k ", " k", "ḱ", "k\n", "", "k%", "k_", "🔑", "k" * 512]
        for key in keys:
            assert not store.append_to_transcript(session_id, user(key), idempotency_key=key).duplicate, key
        assert seen(store, session_id) == keys

"""Contract: what can't be right is refused with a clear error, what is only strange works, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import unicodedata
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from threadline.errors import InvalidMessage, InvalidRequest, UnknownMessage, UnknownSession
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.testing.builders import dm, group, thread, user
from threadline.testing.contracts.storage.fixtures import seen, short, switched

STRANGE_IDS = [
    ":",
    "::",
    "%",
    "%3A",
    "/",
    "../../etc/passwd",
    "a\nb",
    "\n",
    "\r\n\t",
    "\x00",
    "a\x00b",
    "\x1b[31m",
    "half \ud83d",
    "\udfff",
    "@",
    "~2",
    "'; DROP TABLE sessions; --",
    "%s %(x)s {} $1 ?1 :name",
    "\u2028",
    "\u202e",
    "é",
    "e\u0301",
    "x" * 3_000,
    "x" * 3_001,
    ":%/\n" * 750,
    "漢" * 3_000,
    "\ud83d" * 1_000,
    " ",
]

NO_MESSAGES: list[Any] = [
    {},
    {"content": "no role"},
    {"role": None, "content": "x"},
    {"role": "", "content": "x"},
    {"role": 5, "content": "x"},
    {"role": "user\x00", "content": "x"},
    {"role": "x" * 65, "content": "x"},
    {"role": "user", "content": float("nan")},
    {"role": "user", "content": [float("inf")]},
    {"role": "user", "content": b"bytes"},
    {"role": "user", "content": {1: "a key that is no text"}},
    {"role": "user", "content": object()},
    pytest.param({"role": "user", "content": 10**5000}, id="a number of thousands of digits"),
    "user: hello",
    b"hello",
    None,
    5,
    [None],
    ["hello"],
    [[user("nested")]],
]

NOTHING = ["", "x", "nothing", "20260101_000000_000000000000", "' OR 1=1 --", "a\nb", "x" * 10_000, "漢"]
UNSTORABLE = ["\x00", "a\x00b", "half \ud83d", "\udfff"]


def nested(levels: int) -> Any:
    """Lists within lists."""
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


def by_id(store: SessionStore, wrong: str) -> list[Callable[[], Any]]:
    """Every verb that takes a session's id."""
    key = store.session_key(dm())
    return [
        lambda: store.get_session(wrong),
        lambda: store.switch_session(key, wrong),
        lambda: store.take_reset_notice(wrong, "user"),
        lambda: store.set_title(wrong, "t"),
        lambda: store.set_runtime(wrong, model="m"),
        lambda: store.mark_flushed(wrong),
        lambda: store.append_to_transcript(wrong, user("x")),
        lambda: store.load_transcript(wrong),
        lambda: store.read_transcript(wrong),
        lambda: store.page_transcript(wrong),
        lambda: store.read_log(wrong),
        lambda: store.rewrite_transcript(wrong, [user("x")]),
        lambda: store.rewind_session(wrong),
        lambda: store.redo_session(wrong),
        lambda: store.retry_session(wrong),
        lambda: store.fork_session(wrong),
        lambda: store.record_usage(wrong, "t"),
        lambda: store.search("x", session=wrong),
        lambda: store.delete_session(wrong),
    ]


class BadInputContract:
    """Strange, hostile and impossible input."""

    @pytest.mark.parametrize(
        "make",
        [lambda i: dm("7", chat_id=i), lambda i: dm(i, chat_id=None), group, thread],
        ids=["dm", "sender", "group", "thread"],
    )
    def test_strange_ids_name_conversations_of_their_own(
        self, store: SessionStore, make: Callable[[str], SessionSource]
    ) -> None:
        sources = [make(strange) for strange in STRANGE_IDS]
        if make is thread:
            sources = [thread("7", "g", strange) for strange in STRANGE_IDS]
        first = [store.get_or_create_session(source) for source in sources]
        assert len({entry.session_id for entry in first}) == len(STRANGE_IDS)
        again = [store.get_or_create_session(source) for source in sources]
        assert [entry.session_id for entry in again] == [entry.session_id for entry in first]
        for source, entry in zip(sources, first, strict=True):
            assert entry.origin == source
            assert not {unicodedata.category(c) for c in entry.session_key} & {"Cc", "Cs", "Zl", "Zp"}
            assert len(entry.session_key) < 1_000
            assert switched(store, entry.session_key, entry.session_id).session_id == entry.session_id
            assert store.list_sessions(person=source, limit=100).items

    @pytest.mark.parametrize("field", ["user_name", "chat_name", "chat_topic", "user_handle", "user_id_alt"])
    def test_strange_names_are_kept_as_they_are(self, store: SessionStore, field: str) -> None:
        for n, strange in enumerate(STRANGE_IDS):
            named: Any = {field: strange}
            for source in (dm("7", chat_id=f"c{n}", **named), group("7", f"g{n}", **named)):
                entry = store.get_or_create_session(source)
                assert entry.origin == source
                store.append_to_transcript(entry.session_id, user("tea"), author=source)
                fork = store.fork_session(entry.session_id)
                assert fork.origin == source
                (hit,) = store.search("tea", session=fork.session_id, viewer=source)
                assert hit.message.message == user("tea")
        assert store.check().ok

    @pytest.mark.parametrize("bad", NO_MESSAGES, ids=short)
    def test_what_is_no_message_is_not_stored(self, store: SessionStore, bad: Any) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user("kept"))
        with pytest.raises(InvalidMessage):
            store.append_to_transcript(session_id, bad)
        with pytest.raises(InvalidMessage):
            store.rewrite_transcript(session_id, bad if isinstance(bad, list) else [bad])
        assert seen(store, session_id) == ["kept"]

    @pytest.mark.parametrize(
        "text", ["\x00", "a\x00b\x00", "half \ud83d", "\udfff\ud800", "\ud83d" + "\ude00", "\ufffe\uffff"], ids=short
    )
    def test_strange_characters_are_kept(self, store: SessionStore, text: str) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        message = {"role": "user", "content": [text, {text: text}], text: text}
        for _ in range(2):
            store.append_to_transcript(session_id, message, idempotency_key="k")
        assert json.dumps(store.load_transcript(session_id)) == json.dumps([message])
        store.rewrite_transcript(session_id, [message, user(text)])
        assert json.dumps(store.load_transcript(session_id)) == json.dumps([message, user(text)])
        assert len(store.read_log(session_id)) == 2

    def test_deep_messages_are_kept_and_bottomless_ones_refused(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, {"role": "user", "content": nested(100)})
        assert store.load_transcript(session_id)[0]["content"] == nested(100)
        for levels in (201, 5_000):
            with pytest.raises(InvalidMessage, match="deep"):
                store.append_to_transcript(session_id, {"role": "user", "content": nested(levels)})
        assert store.get_session(session_id).message_count == 1

    def test_big_messages_are_kept_and_endless_ones_refused(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        big = user("needle " + "ten megabytes of hay " * 500_000)
        store.append_to_transcript(session_id, big, idempotency_key="big")
        assert store.append_to_transcript(session_id, big, idempotency_key="big").duplicate
        assert store.load_transcript(session_id) == [big]
        (hit,) = store.search("needle")
        assert len(hit.snippet) < 1_000
        with pytest.raises(InvalidMessage, match="32 MB"):
            store.append_to_transcript(session_id, user("x" * 33 * 1024 * 1024))
        assert store.get_session(session_id).message_count == 1

    @pytest.mark.parametrize("wrong", NOTHING, ids=short)
    def test_unknown_ids_are_told_by_every_verb(self, store: SessionStore, wrong: str) -> None:
        entry = store.get_or_create_session(dm())
        for verb in by_id(store, wrong):
            with pytest.raises(UnknownSession) as caught:
                verb()
            assert len(str(caught.value)) < 500
        assert store.get_session(entry.session_id) == entry

    @pytest.mark.parametrize("wrong", UNSTORABLE, ids=short)
    def test_ids_that_nothing_can_have_are_refused_by_every_verb(self, store: SessionStore, wrong: str) -> None:
        entry = store.get_or_create_session(dm())
        for verb in by_id(store, wrong):
            with pytest.raises((UnknownSession, InvalidRequest)):
                verb()
        with pytest.raises((UnknownMessage, InvalidRequest)):
            store.redact(f"{wrong}:1")
        assert store.get_session(entry.session_id) == entry

    @pytest.mark.parametrize("wrong", [*NOTHING, *UNSTORABLE], ids=short)
    def test_unknown_keys_and_names_find_nothing_or_are_refused(self, store: SessionStore, wrong: str) -> None:
        entry = store.get_or_create_session(dm())
        store.append_to_transcript(entry.session_id, user("tea"))
        looks: list[Callable[[], Any]] = [
            lambda: store.reset_session(wrong),
            lambda: store.switch_session(wrong, entry.session_id),
            lambda: store.update_session(wrong, input_tokens=1),
            lambda: store.find_by_title(wrong),
            lambda: store.list_sessions(person=wrong).items,
            lambda: store.list_sessions(platform=wrong).items,
            lambda: store.search("tea", viewer=wrong).items,
            lambda: store.search("tea", person=wrong).items,
            lambda: store.search("tea", platform=wrong).items,
            lambda: store.search("tea", role=wrong).items,
            lambda: store.usage_report(person=wrong),
            lambda: store.erase_person(wrong),
        ]
        for look in looks:
            with contextlib.suppress(InvalidRequest):
                assert not look()
        assert seen(store, entry.session_id) == ["tea"]

    @pytest.mark.parametrize("wrong", [*UNSTORABLE, "x" * 10_000], ids=short)
    def test_what_a_column_cannot_hold_is_refused(self, store: SessionStore, wrong: str) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user("tea"))
        before = store.get_session(session_id)
        verbs: list[Callable[[], Any]] = [
            lambda: store.set_title(session_id, wrong),
            lambda: store.set_runtime(session_id, model=wrong),
            lambda: store.set_runtime(session_id, cwd=wrong),
            lambda: store.fork_session(session_id, model=wrong),
            lambda: store.fork_session(session_id, cwd=wrong),
            lambda: store.append_to_transcript(session_id, user("x"), idempotency_key=wrong),
            lambda: store.append_to_transcript(session_id, user("x"), external_id=wrong),
            lambda: store.append_to_transcript(session_id, user("x"), author=wrong),
            lambda: store.link_message(f"{session_id}:1", wrong),
            lambda: store.record_usage(session_id, wrong),
            lambda: store.record_usage(session_id, "t", model=wrong),
        ]
        for verb in verbs:
            with pytest.raises(InvalidRequest):
                verb()
        assert store.get_session(session_id) == before
        assert len(store.list_sessions()) == 1

    def test_times_that_mean_nothing_are_refused(self, store: SessionStore) -> None:
        naive = datetime(2026, 1, 5, 12, 0)  # noqa: DTZ001 - on purpose
        verbs: list[Callable[[], Any]] = [
            lambda: store.search("tea", since=naive),
            lambda: store.search("tea", until=naive),
            lambda: store.usage_report(since=naive),
            lambda: store.prune(naive),
            lambda: store.prune(timedelta.max),
            lambda: store.list_sessions(active_minutes=float("nan")),
            lambda: store.list_sessions(active_minutes=float("inf")),
            lambda: store.list_sessions(active_minutes=1e15),
        ]
        for verb in verbs:
            with pytest.raises(InvalidRequest):
                verb()

    def test_runtime_that_is_no_json_is_refused(self, store: SessionStore) -> None:
        entry = store.get_or_create_session(dm())
        bad: list[Any] = [{"x": object()}, {"x": float("nan")}, {"x": {1, 2}}, {"x": nested(5_000)}, [], "text"]
        for runtime in bad:
            with pytest.raises(InvalidRequest):
                store.set_runtime(entry.session_id, runtime=runtime)
        assert store.get_session(entry.session_id) == entry
        strange = {"a\x00": "\ud800", "deep": [{"n": 2**70}]}
        assert store.set_runtime(entry.session_id, runtime=strange).runtime == strange
        assert store.fork_session(entry.session_id).runtime == strange

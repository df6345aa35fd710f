"""Contract: a person is told all that is known of them, and nothing of anyone else."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from threadline.errors import InvalidCursor, InvalidRequest
from threadline.model.message import REMOVED
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.store.people.person_export import PersonRecord
from threadline.store.rows import Page
from threadline.testing.builders import assistant, dm, exchange, group, system, thread, tool_use, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import short

SEVEN, EIGHT = "telegram:7", "telegram:8"
MINUTE = timedelta(minutes=1)


def pages(store: SessionStore, person: SessionSource | str = SEVEN, **options: Any) -> Iterator[Page[PersonRecord]]:
    """All pages, one after the other."""
    page = store.export(person, **options)
    yield page
    while page.cursor is not None:
        page = store.export(person, cursor=page.cursor, **options)
        yield page


def known(store: SessionStore, person: SessionSource | str = SEVEN, **options: Any) -> list[dict[str, Any]]:
    """All records of a person, as plain values."""
    return [record.to_dict() for page in pages(store, person, **options) for record in page]


def brief(record: dict[str, Any]) -> str:
    """A record in a few characters: for assertions that read well."""
    match record["kind"]:
        case "person":
            return str(record["person"])
        case "session":
            return f"session {record['session_id']}"
        case "message":
            return f"{record['id']} {record['message']['content']}"
        case _:
            return f"usage {record['turn_id']}"


def told(store: SessionStore, person: SessionSource | str = SEVEN, **options: Any) -> list[str]:
    """All records of a person, briefly."""
    return [brief(record) for record in known(store, person, **options)]


def said(store: SessionStore, person: SessionSource | str = SEVEN) -> list[Any]:
    """What the messages say that a person is told of."""
    return [record["message"]["content"] for record in known(store, person) if record["kind"] == "message"]


def two_lives(store: SessionStore, clock: FakeClock) -> tuple[list[str], str]:
    """Two people who write alone and together: the sessions of the one, oldest first, and the one that they share."""
    own = [store.get_or_create_session(dm("7")).session_id]
    store.append_to_transcript(own[0], exchange("one", "reply to one"))
    theirs = store.get_or_create_session(dm("8")).session_id
    store.append_to_transcript(theirs, exchange("private of eight", "reply to eight"))
    clock.advance(MINUTE)
    own.append(store.get_or_create_session(group("7")).session_id)
    shared = store.get_or_create_session(thread("7")).session_id
    store.append_to_transcript(shared, user("seven in the thread"), author=SEVEN)
    store.append_to_transcript(shared, user("eight in the thread"), author=EIGHT)
    store.append_to_transcript(shared, assistant("reply to both"))
    clock.advance(MINUTE)
    own.append(store.get_or_create_session(dm("7"), force_new=True).session_id)
    store.append_to_transcript(own[2], user("two"))
    store.append_to_transcript(own[0], user("three"))
    store.append_to_transcript(shared, user("seven again"), author=SEVEN)
    for session_id in (own[2], own[0], theirs, shared):
        store.record_usage(session_id, f"turn-{session_id}", input_tokens=1)
    return own, shared


class DisclosureContract:
    """`export`: what is in it, and what is not."""

    def test_all_that_is_known_comes_in_one_order(self, store: SessionStore, clock: FakeClock) -> None:
        (one, two, three), shared = two_lives(store, clock)
        turns = [f"usage turn-{session_id}" for session_id in (one, three)]
        assert told(store) == [
            SEVEN,
            f"session {one}",
            f"{one}:1 one",
            f"{one}:2 reply to one",
            f"{one}:3 three",
            f"session {two}",
            f"session {three}",
            f"{three}:1 two",
            f"{shared}:1 seven in the thread",
            f"{shared}:4 seven again",
            *turns,
        ]
        assert known(store, dm("7")) == known(store, thread("7", "g9")) == known(store)

    def test_the_first_record_says_who_it_is_and_counts_the_others(self, store: SessionStore, clock: FakeClock) -> None:
        two_lives(store, clock)
        first, *others = known(store)
        assert (first["kind"], first["person"]) == ("person", SEVEN)
        assert first["addresses"] == [store.session_key(dm("7")), store.session_key(group("7"))]
        kinds = Counter(record["kind"] for record in others)
        assert kinds == {"session": first["sessions"], "message": first["messages"], "usage": first["usage"]}

    def test_a_session_is_told_as_it_is(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm("7", user_name="Ada", chat_name="Ada")).session_id
        store.set_title(session_id, "Tea")
        store.set_runtime(session_id, model="m-1", runtime={"mode": "fast"})
        record = known(store)[1]
        assert SessionEntry.from_dict(record) == store.get_session(session_id)
        assert record["origin"]["user_name"] == "Ada"

    def test_a_message_is_told_to_the_letter(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm("7")).session_id
        odd = {"zebra": [1, 2.5, None], "role": "user", "content": "NUL \x00, half \ud83d, é", "big": 2**80}
        call, result = tool_use("look", {"where": "here"}, "there")
        store.append_to_transcript(session_id, [odd, call, result])
        records = [record for record in known(store) if record["kind"] == "message"]
        assert [record["message"] for record in records] == [odd, call, result]
        assert list(records[0]["message"]) == list(odd)
        again = json.loads(json.dumps(records))
        assert again == records
        logged = store.read_log(session_id)
        assert [(r["id"], r["role"], r["redacted"]) for r in records] == [(str(m.ref), m.role, False) for m in logged]
        assert records[0]["at"] == logged[0].at.isoformat().replace("+00:00", "Z")

    def test_what_turns_cost_is_told(self, store: SessionStore, clock: FakeClock) -> None:
        session_id = store.get_or_create_session(dm("7")).session_id
        store.record_usage(
            session_id,
            "t1",
            input_tokens=1,
            output_tokens=2,
            cache_read_tokens=3,
            cache_write_tokens=4,
            reasoning_tokens=5,
            cost_usd=0.5,
            cost_status="actual",
            model="m-1",
        )
        assert known(store)[2] == {
            "kind": "usage",
            "session_id": session_id,
            "turn_id": "t1",
            "at": clock.now().isoformat().replace("+00:00", "Z"),
            "platform": "telegram",
            "model": "m-1",
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_read_tokens": 3,
            "cache_write_tokens": 4,
            "reasoning_tokens": 5,
            "cost_micros": 500_000,
            "cost_status": "actual",
        }

    def test_undone_and_folded_messages_are_told(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm("7")).session_id
        store.append_to_transcript(session_id, [*exchange("folded", "folded too"), *exchange("undone", "undone too")])
        store.rewind_session(session_id)
        store.rewrite_transcript(session_id, [system("a summary")])
        assert said(store) == ["folded", "folded too", "undone", "undone too", "a summary"]

    def test_redacted_messages_are_told_as_redacted(self, store: SessionStore, clock: FakeClock) -> None:
        (one, _, _), shared = two_lives(store, clock)
        before = known(store)
        store.redact(f"{one}:1")
        store.redact(f"{shared}:1")
        after = known(store)
        redacted = {record["id"]: record["message"] for record in after if record.get("redacted")}
        assert redacted == {f"{one}:1": user(REMOVED), f"{shared}:1": user(REMOVED)}
        assert [(r["kind"], r.get("id"), r.get("at")) for r in after] == [
            (r["kind"], r.get("id"), r.get("at")) for r in before
        ]

    def test_nobody_is_told_what_others_said(self, store: SessionStore, clock: FakeClock) -> None:
        _, shared = two_lives(store, clock)
        # A fork of the shared session that one of them holds shows the words of both.
        key = store.get_or_create_session(dm("7", thread="t")).session_key
        fork = store.fork_session(shared, key=key).session_id
        store.append_to_transcript(fork, user("only seven"))
        assert [f"session {fork}", f"{fork}:1 only seven"] == [line for line in told(store) if fork in line]
        text = json.dumps(known(store))
        for words in ("eight in the thread", "reply to both", "private of eight", "reply to eight", EIGHT):
            assert words not in text
        assert said(store, EIGHT) == ["private of eight", "reply to eight", "eight in the thread"]

    def test_the_platforms_own_ids_of_messages_are_told(self, store: SessionStore) -> None:
        own = store.get_or_create_session(dm("7")).session_id
        store.append_to_transcript(own, exchange("one", "in two parts"), external_id="m-1")
        store.link_message(f"{own}:2", "m-2")
        store.link_message(f"{own}:2", "m-3")
        shared = store.get_or_create_session(thread("7")).session_id
        for n, author in enumerate((SEVEN, EIGHT, SEVEN)):
            store.append_to_transcript(shared, user(f"t{n}"), author=author, external_id=f"t-{n}")
        store.append_to_transcript(own, user("without"))
        ids = {record["id"]: record["platform_ids"] for record in known(store) if record["kind"] == "message"}
        assert ids == {
            f"{own}:1": ["m-1"],
            f"{own}:2": ["m-2", "m-3"],
            f"{own}:3": [],
            f"{shared}:1": ["t-0"],
            f"{shared}:3": ["t-2"],
        }

    def test_of_a_deleted_session_only_its_cost_is_known(self, store: SessionStore, clock: FakeClock) -> None:
        (one, two, three), _ = two_lives(store, clock)
        store.delete_session(one)
        left = told(store)
        assert f"usage turn-{one}" in left
        assert [line for line in left if one in line and "usage" not in line] == []
        assert left[1:3] == [f"session {two}", f"session {three}"]

    def test_what_forks_show_of_a_deleted_session_is_told_once(self, store: SessionStore) -> None:
        own = store.get_or_create_session(dm("7")).session_id
        store.append_to_transcript(own, [*exchange("one", "reply"), user("two"), user("not in the forks")])
        forks = [store.fork_session(own, upto=f"{own}:3").session_id for _ in range(2)]
        store.redact(f"{own}:3")
        store.delete_session(own)
        assert told(store) == [SEVEN, *(f"session {fork}" for fork in forks), f"{own}:1 one", f"{own}:2 reply"]
        assert known(store)[0]["messages"] == 2
        assert said(store, EIGHT) == []

    def test_what_is_left_of_a_deleted_shared_session_is_its_authors(self, store: SessionStore) -> None:
        shared = store.get_or_create_session(thread("7")).session_id
        store.append_to_transcript(shared, user("of seven"), author=SEVEN)
        store.append_to_transcript(shared, user("of eight"), author=EIGHT)
        store.fork_session(shared)
        store.delete_session(shared)
        assert told(store) == [SEVEN, f"{shared}:1 of seven"]
        assert told(store, EIGHT) == [EIGHT, f"{shared}:2 of eight"]

    def test_of_somebody_unknown_there_is_one_record(self, store: SessionStore, clock: FakeClock) -> None:
        two_lives(store, clock)
        for person in ("telegram:77", "telegram", "%", "_elegram:7", "' OR 1=1 --", "漢"):
            nothing = {"addresses": [], "sessions": 0, "messages": 0, "usage": 0}
            assert known(store, person) == [{"kind": "person", "person": person, **nothing}]

    @pytest.mark.parametrize(
        "person", [None, "", SessionSource(platform="telegram", chat_type="group", chat_id="g1")], ids=short
    )
    def test_an_export_of_nobody_is_refused(self, store: SessionStore, person: Any) -> None:
        with pytest.raises(InvalidRequest, match="telegram:7"):
            store.export(cast(Any, person))

    def test_after_an_erasure_nothing_is_known(self, store: SessionStore, clock: FakeClock) -> None:
        (one, _, _), shared = two_lives(store, clock)
        of_eight = known(store, EIGHT)
        store.get_or_create_session(dm("7", thread="t"))
        # Forks that someone else holds outlive the erasure, with tombstones in the place of words.
        held = store.get_or_create_session(dm("9"))
        store.fork_session(one, key=held.session_key)
        store.delete_session(shared)
        store.erase_person(SEVEN)
        nothing = {"addresses": [], "sessions": 0, "messages": 0, "usage": 0}
        assert known(store) == [{"kind": "person", "person": SEVEN, **nothing}]
        assert known(store, EIGHT)[1:4] == of_eight[1:4]


class DisclosurePagesContract:
    """`export`: its pages."""

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_pages_of_any_size_tell_the_same(self, store: SessionStore, clock: FakeClock, limit: int) -> None:
        (one, _, three), _ = two_lives(store, clock)
        store.fork_session(three)
        store.delete_session(three)
        store.redact(f"{one}:2")
        whole = known(store)
        sizes = [len(page) for page in pages(store, limit=limit)]
        assert known(store, limit=limit) == whole
        assert sizes[:-1] == [limit] * (len(sizes) - 1)
        assert 0 < sizes[-1] <= limit

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_sessions_without_messages_are_all_told(self, store: SessionStore, limit: int) -> None:
        ids = [store.get_or_create_session(dm("7", thread=f"t{n}")).session_id for n in range(7)]
        assert told(store, limit=limit) == [SEVEN, *(f"session {session_id}" for session_id in ids)]

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_all_that_is_left_of_deleted_sessions_is_told(self, store: SessionStore, limit: int) -> None:
        ids = [store.get_or_create_session(dm("7", thread=f"t{n}")).session_id for n in range(7)]
        for session_id in ids:
            store.append_to_transcript(session_id, user("kept by a fork"))
            store.fork_session(session_id)
            store.delete_session(session_id)
        assert told(store, limit=limit)[8:] == [f"{session_id}:1 kept by a fork" for session_id in ids]

    def test_a_full_last_page_is_the_last(self, store: SessionStore, clock: FakeClock) -> None:
        two_lives(store, clock)
        count = len(known(store))
        assert store.export(SEVEN, limit=count).cursor is None
        assert store.export(SEVEN, limit=count - 1).cursor is not None

    def test_turns_of_one_instant_are_all_told(self, store: SessionStore) -> None:
        ids = [store.get_or_create_session(source).session_id for source in (dm("7"), group("7"))]
        for session_id in ids:
            for turn in ("t1", "t2", "Ünusual / turn", "t3"):
                store.record_usage(session_id, turn, input_tokens=1)
        turns = [(r["session_id"], r["turn_id"]) for r in known(store, limit=1) if r["kind"] == "usage"]
        assert len(turns) == 8
        assert sorted(turns) == sorted((i, t) for i in ids for t in ("t1", "t2", "Ünusual / turn", "t3"))
        assert known(store, limit=3) == known(store)

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_what_is_appended_between_pages_disturbs_nothing(
        self, store: SessionStore, clock: FakeClock, limit: int
    ) -> None:
        (one, two, _), shared = two_lives(store, clock)
        before = told(store)
        seen: list[str] = []
        for number, page in enumerate(pages(store, limit=limit)):
            seen += [brief(record.to_dict()) for record in page]
            if number < 4:
                clock.advance(MINUTE)
                store.append_to_transcript(one, user(f"late {number}"))
                store.append_to_transcript(two, user(f"late {number}"))
                store.append_to_transcript(shared, user(f"late {number}"), author=SEVEN)
                store.append_to_transcript(shared, user(f"late {number} of eight"), author=EIGHT)
                store.record_usage(one, f"late-{number}", input_tokens=1)
        assert len(seen) == len(set(seen))
        assert [line for line in seen if "late" not in line] == before
        now = told(store)
        assert seen == [line for line in now if line in set(seen)]
        assert f"{shared}:5 late 0" in seen
        assert not any("of eight" in line for line in seen)

    def test_a_session_that_is_deleted_between_pages_is_passed_over(
        self, store: SessionStore, clock: FakeClock
    ) -> None:
        (one, two, three), _ = two_lives(store, clock)
        whole = told(store)
        walk = pages(store, limit=3)
        seen = [brief(record.to_dict()) for record in next(walk)]
        assert seen == whole[:3]
        store.delete_session(one)
        seen += [brief(record.to_dict()) for page in walk for record in page]
        assert seen == [line for line in whole if line not in (f"{one}:2 reply to one", f"{one}:3 three")]
        assert {f"session {two}", f"session {three}"} < set(seen)

    def test_a_long_log_comes_in_pages(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm("7")).session_id
        texts = [f"line {n}" for n in range(1_100)]
        store.append_to_transcript(session_id, [user(text) for text in texts])
        assert [len(page) for page in pages(store)] == [500, 500, 102]
        assert said(store) == texts

    @pytest.mark.parametrize("limit", [0, -1, 1001])
    def test_a_page_has_a_sensible_size(self, store: SessionStore, limit: int) -> None:
        with pytest.raises(InvalidRequest, match="limit"):
            store.export(SEVEN, limit=limit)

    def test_a_cursor_opens_nothing_of_anyone_else(self, store: SessionStore, clock: FakeClock) -> None:
        two_lives(store, clock)
        cursors = [page.cursor for page in pages(store, limit=1) if page.cursor]
        of_eight = known(store, EIGHT)
        assert len(cursors) > 10
        for cursor in cursors:
            rest = [record.to_dict() for record in store.export(EIGHT, cursor=cursor)]
            assert all(record in of_eight for record in rest)

    @pytest.mark.parametrize(
        "raw",
        [
            "",
            "?",
            "é",
            "[]",
            '["person"]',
            '["other",1,5]',
            '["person",99,1]',
            '["person",-1,1]',
            '["person",1,"x"]',
            '["person",4,1,1,5]',
            f'["person",1,{2**63}]',
            f'["person",1,{2**62 + 1}]',
            '["person",4,0,0,"\\ud800"]',
        ],
        ids=short,
    )
    def test_a_cursor_from_elsewhere_is_refused(self, store: SessionStore, raw: str) -> None:
        with pytest.raises(InvalidCursor):
            store.export(SEVEN, cursor=base64.urlsafe_b64encode(raw.encode()).decode() or "=")

    def test_a_cursor_of_a_listing_is_refused(self, store: SessionStore) -> None:
        for person in ("7", "8"):
            store.get_or_create_session(dm(person))
        cursor = store.list_sessions(limit=1).cursor
        assert cursor is not None
        with pytest.raises(InvalidCursor):
            store.export(SEVEN, cursor=cursor)

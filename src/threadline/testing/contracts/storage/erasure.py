"""Contract: what is taken away is gone, and nothing else is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from threadline.errors import InvalidRequest, UnknownMessage, UnknownSession
from threadline.model.message import REMOVED
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, exchange, group, thread, tool_use, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import StoredBytes, seen, short

DAY = timedelta(days=1)


def said(store: SessionStore, source: SessionSource, *texts: str) -> str:
    """The id of the current session of `source`, in which these were said."""
    session_id = store.get_or_create_session(source).session_id
    store.append_to_transcript(session_id, [user(text) for text in texts])
    return session_id


class ErasureContract:
    """`redact` and `delete_session`."""

    def test_a_redacted_message_keeps_role_and_time(self, store: SessionStore, clock: FakeClock) -> None:
        session_id = said(store, dm(), "one", "two", "three")
        before = store.read_transcript(session_id)[1]
        clock.advance(DAY)
        assert store.redact(before.ref)
        after = store.read_transcript(session_id)[1]
        assert (after.ref, after.role, after.at, after.redacted) == (before.ref, "user", before.at, True)
        assert after.message == {"role": "user", "content": REMOVED}
        assert seen(store, session_id) == ["one", REMOVED, "three"]
        assert store.check().ok

    def test_redacting_again_does_nothing(self, store: SessionStore) -> None:
        session_id = said(store, dm(), "one")
        assert store.redact(f"{session_id}:1")
        assert not store.redact(f"{session_id}:1")

    def test_a_message_is_redacted_wherever_it_is_shown(self, store: SessionStore) -> None:
        session_id = said(store, dm(), "one", "two")
        fork = store.fork_session(session_id).session_id
        store.redact(f"{session_id}:1")
        assert seen(store, session_id) == seen(store, fork) == [REMOVED, "two"]
        store.delete_session(session_id)
        store.redact(f"{session_id}:2")
        assert seen(store, fork) == [REMOVED, REMOVED]
        assert store.check().ok

    def test_undone_and_folded_messages_can_be_redacted(self, store: SessionStore) -> None:
        session_id = said(store, dm(), "folded", "undone")
        store.rewrite_transcript(session_id, store.load_transcript(session_id)[1:])
        store.rewind_session(session_id)
        store.redact(f"{session_id}:1")
        store.redact(f"{session_id}:2")
        assert [m.redacted for m in store.read_log(session_id)] == [True, True]
        store.redo_session(session_id)
        assert seen(store, session_id) == [REMOVED]

    def test_a_redacted_call_still_fits_its_result(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        call, result = tool_use("look", {"where": "the safe"}, "a secret", call_id="c9")
        store.append_to_transcript(session_id, [call, result])
        store.redact(f"{session_id}:1")
        store.redact(f"{session_id}:2")
        emptied, answer = store.load_transcript(session_id)
        assert emptied["tool_calls"][0]["id"] == answer["tool_call_id"] == "c9"
        assert "safe" not in str(emptied)
        assert answer["content"] == REMOVED

    def test_a_repeat_of_what_was_redacted_adds_nothing(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user("secret"), idempotency_key="k")
        store.redact(f"{session_id}:1")
        assert store.append_to_transcript(session_id, user("secret"), idempotency_key="k").duplicate
        assert seen(store, session_id) == [REMOVED]

    def test_no_guess_at_what_was_redacted_is_confirmed(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user("secret"), idempotency_key="k")
        store.redact(f"{session_id}:1")
        right = store.append_to_transcript(session_id, user("secret"), idempotency_key="k")
        wrong = store.append_to_transcript(session_id, user("guess"), idempotency_key="k")
        assert right == wrong

    @pytest.mark.parametrize(
        "ref", ["nothing:1", "nothing", "", ":1", "x:y", "x:-1", "x:99999999999", "x:²"], ids=short
    )
    def test_an_unknown_message_is_told(self, store: SessionStore, ref: str) -> None:
        said(store, dm(), "one")
        with pytest.raises(UnknownMessage):
            store.redact(ref)

    def test_a_deleted_session_is_gone(self, store: SessionStore) -> None:
        session_id = said(store, dm(), "one", "two")
        store.set_title(session_id, "Tea")
        store.delete_session(session_id)
        for verb in (store.get_session, store.load_transcript, store.delete_session):
            with pytest.raises(UnknownSession):
                verb(session_id)
        assert store.list_sessions(include_ended=True).items == []
        assert store.find_by_title("tea") is None
        assert (store.facts().messages, store.facts().sessions) == (0, 0)
        assert store.has_any_sessions()
        assert store.check().ok

    def test_after_a_deletion_the_conversation_starts_afresh(self, store: SessionStore) -> None:
        session_id = said(store, dm(), "one")
        store.delete_session(session_id)
        fresh = store.get_or_create_session(dm())
        assert fresh.session_id != session_id
        assert fresh.session_key == store.session_key(dm())
        assert (seen(store, fresh.session_id), fresh.was_auto_reset) == ([], False)

    def test_forks_keep_what_they_show_and_no_more(self, store: SessionStore) -> None:
        session_id = said(store, dm(), "one", "two", "three")
        fork = store.fork_session(session_id, upto=f"{session_id}:2").session_id
        store.append_to_transcript(fork, user("own"))
        store.delete_session(session_id)
        assert seen(store, fork) == ["one", "two", "own"]
        assert store.facts().messages == 3
        assert store.check().ok
        second = store.fork_session(fork).session_id
        store.delete_session(fork)
        assert seen(store, second) == ["one", "two", "own"]
        store.delete_session(second)
        assert store.facts().messages == 0
        assert store.check().ok

    def test_collecting_when_there_is_nothing_does_nothing(self, store: SessionStore) -> None:
        said(store, dm(), "one")
        assert store.collect() == 0
        assert store.facts().messages == 1

    def test_a_large_session_is_collected_whole(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(dm()).session_id
        for n in range(3):
            texts = [user(f"{n} {m}") for m in range(500)]
            store.append_to_transcript(session_id, texts, idempotency_key=f"k{n}")
        fork = store.fork_session(session_id, upto=f"{session_id}:700").session_id
        store.delete_session(session_id)
        assert store.facts().messages == 700
        store.delete_session(fork)
        assert store.facts().messages == 0
        assert store.check().ok


class PruneContract:
    """`prune`."""

    def test_what_was_not_touched_for_long_goes(self, store: SessionStore, clock: FakeClock) -> None:
        old = said(store, dm("1"), "old")
        clock.advance(10 * DAY)
        new = said(store, dm("2"), "new")
        told: list[tuple[int, int]] = []
        assert store.prune(5 * DAY, dry_run=True) == 1
        assert len(store.list_sessions()) == 2
        assert store.prune(5 * DAY, progress=lambda done, total: told.append((done, total))) == 1
        assert told[-1] == (1, 1)
        assert [entry.session_id for entry in store.list_sessions()] == [new]
        with pytest.raises(UnknownSession):
            store.get_session(old)
        assert store.facts().messages == 1

    def test_before_a_moment_of_ended_ones_of_a_platform(self, store: SessionStore, clock: FakeClock) -> None:
        for n, platform in enumerate(("telegram", "signal", "telegram")):
            said(store, dm(str(n), platform=platform), "one")
            store.get_or_create_session(dm(str(n), platform=platform), force_new=True)
            clock.advance(DAY)
        moment = clock.now() - DAY
        assert store.prune(moment, ended_only=True, platform="telegram", dry_run=True) == 1
        assert store.prune(moment, ended_only=True, platform="telegram") == 1
        assert len(store.list_sessions(include_ended=True)) == 5
        assert store.prune(moment, ended_only=True) == 1
        assert store.prune(moment) == 2
        assert len(store.list_sessions(include_ended=True)) == 2

    def test_the_oldest_go_first_whatever_their_platform(self, store: SessionStore, clock: FakeClock) -> None:
        ids = []
        for n in range(60):
            platform = ("telegram", "signal", "matrix")[n % 3]
            ids.append(store.get_or_create_session(dm(str(n), platform=platform)).session_id)
            clock.advance(timedelta(minutes=1))
        left: list[list[str]] = []

        def look(*_: int) -> None:
            left.append([entry.session_id for entry in store.list_sessions(limit=100)])

        assert store.prune(timedelta(0), progress=look) == 60
        assert len(left) > 1
        assert all(rest == ids[60 - len(rest) :][::-1] for rest in left)

    def test_that_there_were_sessions_is_remembered(self, store: SessionStore, clock: FakeClock) -> None:
        said(store, dm(), "one")
        clock.advance(DAY)
        store.prune(timedelta(0))
        assert store.list_sessions(include_ended=True).items == []
        assert store.has_any_sessions()
        fresh = store.get_or_create_session(dm())
        assert store.has_any_sessions(besides=fresh.session_id)

    def test_a_prune_of_very_many(self, store: SessionStore, clock: FakeClock) -> None:
        for n in range(120):
            store.get_or_create_session(dm(str(n)))
        clock.advance(DAY)
        assert store.prune(timedelta(hours=1)) == 120
        assert store.facts().sessions == 0
        assert store.prune(timedelta(hours=1)) == 0


class ErasePersonContract:
    """`erase_person`."""

    def test_all_that_a_person_wrote_goes(self, store: SessionStore) -> None:
        mine = said(store, dm("7"), "private of seven")
        store.append_to_transcript(mine, assistant("reply to seven"))
        said(store, group("7"), "seven in the group")
        shared = store.get_or_create_session(thread("7", user_name="Seven")).session_id
        store.append_to_transcript(shared, user("seven in the thread"), author="telegram:7")
        store.append_to_transcript(shared, user("eight in the thread"), author="telegram:8")
        store.append_to_transcript(shared, assistant("reply to both"))
        theirs = said(store, dm("8"), "private of eight")
        store.record_usage(mine, "t1", input_tokens=3)
        assert store.erase_person(dm("7")) > 0
        assert [entry.session_id for entry in store.list_sessions(person="telegram:7")] == []
        assert store.search("seven").items == []
        assert seen(store, shared) == [REMOVED, "eight in the thread", "reply to both"]
        assert seen(store, theirs) == ["private of eight"]
        assert store.usage_report("person") == []
        assert "Seven" not in str(store.get_session(shared))
        assert "telegram:7" not in str(store.read_transcript(shared))
        assert store.check().ok

    def test_their_words_leave_the_files(self, store: SessionStore, stored_bytes: StoredBytes) -> None:
        mine = said(store, dm("7", user_name="Zebediah"), "xylophonic vexation", "filler")
        store.append_to_transcript(mine, exchange("quixotic quagmire", "jazzy reply"))
        store.set_title(mine, "Wizardry")
        shared = store.get_or_create_session(thread("8")).session_id
        store.append_to_transcript(shared, user("kumquat conundrum"), author="telegram:7")
        store.append_to_transcript(shared, user("ordinary words"), author="telegram:8")
        store.index_pending()
        assert b"xylophonic vexation" in stored_bytes()
        store.erase_person("telegram:7")
        left = stored_bytes()
        assert b"ordinary words" in left
        for word in (b"xylophonic", b"quixotic", b"jazzy", b"Wizardry", b"wizardry", b"kumquat", b"Zebediah"):
            assert word not in left, word

    def test_titles_go_where_their_words_were_shown(self, store: SessionStore, stored_bytes: StoredBytes) -> None:
        shared, other = (store.get_or_create_session(thread("8", name=name)).session_id for name in ("t1", "t2"))
        for session_id, author in ((shared, "telegram:7"), (shared, "telegram:8"), (other, "telegram:8")):
            store.append_to_transcript(session_id, user("a kumquat conundrum"), author=author)
        fork = store.fork_session(shared).session_id
        store.set_title(shared, "Kumquat")
        store.set_title(fork, "Conundrum")
        store.set_title(other, "Ordinary")
        store.erase_person("telegram:7")
        titles = [store.get_session(session_id).title for session_id in (shared, fork, other)]
        assert titles == [None, None, "Ordinary"]
        assert store.find_by_title("kumquat") is None
        assert b"Kumquat" not in stored_bytes()

    def test_a_fork_of_someone_else_keeps_its_own_words(self, store: SessionStore) -> None:
        mine = said(store, group("7"), "one")
        fork = store.fork_session(mine).session_id
        store.append_to_transcript(fork, user("two"))
        said(store, dm("8"), "three")
        store.erase_person("telegram:7")
        assert store.search("three")[0].session.owner == "telegram:8"
        assert store.facts().messages == 1

    def test_erasing_nobody_changes_nothing(self, store: SessionStore) -> None:
        session_id = said(store, dm("7"), "one")
        assert store.erase_person("telegram:nobody") == 0
        assert seen(store, session_id) == ["one"]
        with pytest.raises(InvalidRequest):
            store.erase_person(SessionSource(platform="telegram", chat_type="group", chat_id="g1"))
        with pytest.raises(InvalidRequest):
            store.erase_person(cast(Any, None))

    def test_an_erased_person_can_come_back(self, store: SessionStore) -> None:
        session_id = said(store, dm("7"), "one")
        store.erase_person("telegram:7")
        fresh = store.get_or_create_session(dm("7"))
        assert fresh.session_id != session_id
        assert seen(store, fresh.session_id) == []

"""Contract: whoever wrote something stays its author when the conversation is rewritten, so that erasing them reaches it."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.model.message import REMOVED, Message
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, group, system, thread, user
from threadline.testing.contracts.storage.fixtures import StoredBytes, seen

SEVEN, EIGHT, NINE = "telegram:7", "telegram:8", "telegram:9"


def shared(store: SessionStore, *said: tuple[str | None, Message], source: SessionSource | None = None) -> str:
    """A session in which these were said, each by its author; in a thread unless a source says otherwise."""
    session_id = store.get_or_create_session(source or thread()).session_id
    for author, message in said:
        store.append_to_transcript(session_id, message, author=author)
    return session_id


def authors(store: SessionStore, session_id: str) -> list[str | None]:
    """Who wrote what the session shows."""
    return [message.author for message in store.read_transcript(session_id)]


def exported(store: SessionStore, person: str) -> list[Any]:
    """What the messages say that a person is told of."""
    return [record.message.message["content"] for record in store.export(person) if record.message is not None]


class AuthorshipContract:
    """`rewrite_transcript` in sessions that several people write in."""

    def test_an_edited_message_keeps_its_author(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (None, assistant("A")), (EIGHT, user("b")))
        store.rewrite_transcript(session_id, [user("a, edited"), assistant("A"), user("b")])
        assert authors(store, session_id) == [SEVEN, None, EIGHT]
        assert "a, edited" in exported(store, SEVEN)
        assert exported(store, EIGHT) == ["b"]
        store.erase_person(SEVEN)
        assert seen(store, session_id) == [REMOVED, "A", "b"]
        assert store.check().ok

    def test_what_is_said_as_before_keeps_its_author_wherever_it_moves(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (EIGHT, user("b")), (NINE, user("c")))
        store.rewrite_transcript(session_id, [user("c"), system("note"), user("b"), user("a")])
        assert authors(store, session_id) == [NINE, None, EIGHT, SEVEN]

    def test_edits_on_both_sides_of_another_are_of_the_one_who_is_left(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (EIGHT, user("b")), (SEVEN, user("c")))
        store.rewrite_transcript(session_id, [user("a!"), user("b"), user("c!")])
        assert authors(store, session_id) == [SEVEN, EIGHT, SEVEN]

    @pytest.mark.parametrize("erased", [SEVEN, EIGHT])
    def test_words_that_may_be_of_several_go_with_each_of_them(
        self, store: SessionStore, stored_bytes: StoredBytes, erased: str
    ) -> None:
        said = [(SEVEN, user("kumquat")), (EIGHT, user("quagmire")), (NINE, user("ordinary"))]
        session_id = shared(store, *said)
        store.rewrite_transcript(session_id, [user("xylophonic summary"), user("ordinary")])
        # Nobody is shown what may be another's.
        assert authors(store, session_id) == [None, NINE]
        assert "xylophonic summary" not in exported(store, SEVEN) + exported(store, EIGHT)
        store.erase_person(NINE)
        assert seen(store, session_id) == ["xylophonic summary", REMOVED]
        store.erase_person(erased)
        assert seen(store, session_id) == [REMOVED, REMOVED]
        assert b"xylophonic" not in stored_bytes()
        assert store.check().ok

    def test_words_that_may_be_of_several_stay_so_when_they_are_rewritten_again(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (EIGHT, user("b")))
        store.rewrite_transcript(session_id, [user("both")])
        store.rewrite_transcript(session_id, [user("both, again")])
        store.rewrite_transcript(session_id, [system("note"), user("both"), assistant("ok")])
        store.erase_person(EIGHT)
        assert seen(store, session_id) == ["note", REMOVED, "ok"]
        said = [message.message["content"] for message in store.read_log(session_id)]
        assert said == ["a", REMOVED, REMOVED, REMOVED, "note", REMOVED, "ok"]

    def test_what_comes_back_after_it_was_folded_is_its_authors(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (EIGHT, user("b")))
        store.rewrite_transcript(session_id, [system("summary")])
        store.rewrite_transcript(session_id, [user("a"), user("b"), assistant("ok")])
        assert authors(store, session_id) == [SEVEN, EIGHT, None]

    def test_what_was_undone_and_is_put_back_is_its_authors(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (None, assistant("A")), (EIGHT, user("b")))
        store.rewind_session(session_id)
        store.rewrite_transcript(session_id, [user("a"), assistant("A"), user("b")])
        assert authors(store, session_id) == [SEVEN, None, EIGHT]

    def test_what_replaces_nothing_is_nobodys(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (EIGHT, user("b")))
        store.rewrite_transcript(session_id, [user("a"), user("added"), user("b")])
        assert authors(store, session_id) == [SEVEN, None, EIGHT]
        for person in (SEVEN, EIGHT):
            store.erase_person(person)
        assert seen(store, session_id) == [REMOVED, "added", REMOVED]

    def test_the_agents_words_have_no_author(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (None, assistant("A")))
        store.rewrite_transcript(session_id, [user("a"), assistant("A!"), system("note")])
        assert authors(store, session_id) == [SEVEN, None, None]

    def test_in_a_fork_that_another_holds_words_stay_their_authors(self, store: SessionStore) -> None:
        theirs = shared(store, (None, user("of seven")), source=group("7"))
        key = store.get_or_create_session(dm("8")).session_key
        fork = store.fork_session(theirs, key=key).session_id
        store.append_to_transcript(fork, user("of eight"))
        store.rewrite_transcript(fork, [user("of seven, edited"), user("of eight")])
        assert authors(store, fork) == [SEVEN, None]
        store.erase_person(SEVEN)
        assert seen(store, fork) == [REMOVED, "of eight"]

    def test_in_a_private_session_nothing_needs_an_author(self, store: SessionStore) -> None:
        session_id = shared(store, (SEVEN, user("a")), (None, assistant("A")), source=dm("7"))
        store.rewrite_transcript(session_id, [user("a!"), assistant("A")])
        assert authors(store, session_id) == [None, None]
        assert exported(store, SEVEN) == ["a", "A", "a!", "A"][: len(exported(store, SEVEN))]
        store.erase_person(SEVEN)
        assert store.facts().messages == 0

    def test_of_a_deleted_session_no_author_is_kept(self, store: SessionStore, stored_bytes: StoredBytes) -> None:
        session_id = shared(store, ("telegram:quixotic", user("a")), ("telegram:jazzy", user("b")))
        store.rewrite_transcript(session_id, [user("both")])
        assert b"quixotic" in stored_bytes()
        store.delete_session(session_id)
        # What no longer exists is scrubbed with the next erasure, whoever that is of.
        store.erase_person(NINE)
        assert b"quixotic" not in stored_bytes()
        assert b"jazzy" not in stored_bytes()

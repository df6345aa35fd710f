"""Contract: what a search finds, for whom, and in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from threadline.errors import InvalidCursor, InvalidRequest, NotYours, UnknownSession
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, exchange, group, system, thread, tool_use, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import switched

MINUTE = timedelta(minutes=1)


def said(store: SessionStore, *texts: str, person: str = "7", **more: Any) -> str:
    """The id of a new session of `person` in which these were said."""
    session_id = store.get_or_create_session(dm(person, **more), force_new=True).session_id
    store.append_to_transcript(session_id, [user(text) for text in texts])
    return session_id


def found(store: SessionStore, query: str, **options: Any) -> list[Any]:
    """What the hits say, in no order."""
    return sorted(str(hit.message.message["content"]) for hit in store.search(query, **options))


def places(store: SessionStore, query: str, **options: Any) -> list[str]:
    """The sessions of the hits, in their order."""
    return [hit.session.session_id for hit in store.search(query, **options)]


class FindingContract:
    """Which messages are found."""

    def test_a_hit_shows_the_message_where_it_stands(self, store: SessionStore, clock: FakeClock) -> None:
        session_id = said(store, "before", "a cup of tea, please", "after")
        (hit,) = store.search("TEA")
        assert hit.session == store.get_session(session_id)
        assert hit.ref == store.read_transcript(session_id)[1].ref
        assert hit.message == store.read_transcript(session_id)[1]
        assert hit.message.at == clock.now()
        assert hit.snippet == "a cup of [[tea]], please"
        assert hit.before == store.read_transcript(session_id)[0]
        assert hit.after == store.read_transcript(session_id)[2]

    def test_what_was_just_said_is_found(self, store: SessionStore) -> None:
        session_id = said(store, "one tea")
        for n in range(5):
            store.append_to_transcript(session_id, user(f"tea {n}"))
            page = store.search("tea")
            assert len(page) == n + 2
            assert page.unindexed == 0

    def test_indexing_can_be_asked_for(self, store: SessionStore) -> None:
        said(store, *(f"tea {n}" for n in range(20)))
        store.index_pending()
        assert store.index_pending() == 0
        assert store.facts().unindexed == 0

    def test_blocks_and_tool_calls_are_found_and_thoughts_are_not(self, store: SessionStore) -> None:
        session_id = said(store, "hello")
        blocks: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "in a block"}]}
        store.append_to_transcript(session_id, [blocks, *tool_use("brew", {"kind": "oolong"}, "steeped")])
        store.append_to_transcript(session_id, assistant("fine", reasoning="secretly bored"))
        for word in ("block", "brew", "oolong", "steeped"):
            assert len(store.search(word)) == 1, word
        assert not store.search("bored").items

    def test_undone_text_is_not_found_until_it_is_redone(self, store: SessionStore) -> None:
        session_id = said(store, "kept")
        store.append_to_transcript(session_id, [assistant("A"), user("tea")])
        store.rewind_session(session_id)
        assert found(store, "tea") == []
        store.redo_session(session_id)
        assert found(store, "tea") == ["tea"]

    def test_folded_text_is_still_found(self, store: SessionStore) -> None:
        session_id = said(store, "old tea", "old coffee")
        store.rewrite_transcript(session_id, [system("they spoke of drinks")])
        assert found(store, "tea") == ["old tea"]
        assert found(store, "drinks") == ["they spoke of drinks"]
        assert places(store, "coffee", session=session_id) == [session_id]

    def test_redacted_text_is_not_found(self, store: SessionStore) -> None:
        session_id = said(store, "tea with secrets", "tea without")
        assert len(store.search("tea")) == 2
        store.redact(store.read_transcript(session_id)[0].ref)
        assert found(store, "tea") == ["tea without"]
        assert found(store, "removed") == []

    def test_text_redacted_before_it_was_indexed_is_not_found(self, store: SessionStore) -> None:
        session_id = said(store, "tea with secrets")
        store.redact(store.read_transcript(session_id)[0].ref)
        assert found(store, "tea") == []
        assert store.check().ok

    def test_deleted_text_is_not_found(self, store: SessionStore) -> None:
        session_id = said(store, "tea")
        assert found(store, "tea") == ["tea"]
        store.delete_session(session_id)
        assert found(store, "tea") == []

    def test_ended_sessions_are_searched(self, store: SessionStore) -> None:
        session_id = said(store, "tea")
        said(store, "coffee")
        assert places(store, "tea") == [session_id]

    def test_a_message_is_found_once_however_many_show_it(self, store: SessionStore) -> None:
        session_id = said(store, "tea tea tea")
        forks = [store.fork_session(session_id).session_id for _ in range(3)]
        assert places(store, "tea") == [session_id]
        assert places(store, "tea", viewer="telegram:7") == [session_id]
        assert places(store, "tea", session=forks[1]) == [forks[1]]

    def test_what_only_a_fork_shows_is_found_there(self, store: SessionStore) -> None:
        session_id = said(store, "first")
        store.append_to_transcript(session_id, [assistant("A"), user("tea")])
        fork = store.fork_session(session_id).session_id
        store.rewind_session(session_id)
        assert places(store, "tea") == [fork]
        store.delete_session(session_id)
        assert places(store, "tea") == [fork]
        assert places(store, "first", viewer="telegram:7") == [fork]
        store.delete_session(fork)
        assert places(store, "tea") == []

    def test_what_a_fork_shows_is_found_though_its_origin_is_gone(self, store: SessionStore) -> None:
        session_id = said(store, "tea", "never looked for before")
        fork = store.fork_session(session_id).session_id
        store.delete_session(session_id)
        assert places(store, "tea") == places(store, "never looked", viewer="telegram:7") == [fork]
        assert store.check().ok

    def test_neighbours_are_what_is_seen_beside_it(self, store: SessionStore) -> None:
        session_id = said(store, "one", "two tea", "three is not for the fork")
        fork = store.fork_session(session_id, upto=f"{session_id}:2").session_id
        (hit,) = store.search("tea", session=fork)
        assert hit.before is not None
        assert (hit.before.message["content"], hit.after) == ("one", None)
        store.append_to_transcript(fork, user("own"))
        (hit,) = store.search("tea", session=fork)
        assert hit.after is not None
        assert hit.after.message["content"] == "own"

    def test_undone_neighbours_are_not_shown(self, store: SessionStore) -> None:
        session_id = said(store, "tea")
        store.append_to_transcript(session_id, [assistant("fine"), user("undone")])
        store.rewind_session(session_id)
        (hit,) = store.search("fine")
        assert hit.after is None

    def test_a_redacted_neighbour_says_nothing(self, store: SessionStore) -> None:
        session_id = said(store, "private", "tea")
        store.redact(f"{session_id}:1")
        (hit,) = store.search("tea")
        assert hit.before is not None
        assert hit.before.redacted
        assert "private" not in str(hit)

    def test_neighbours_of_folded_text_are_folded_text(self, store: SessionStore) -> None:
        session_id = said(store, "one", "two tea", "three")
        store.rewrite_transcript(session_id, [system("summary")])
        (hit,) = store.search("tea")
        beside = [m.message["content"] for m in (hit.before, hit.after) if m is not None]
        assert beside == ["one", "three"]

    def test_neighbours_are_those_of_the_transcript_across_all_seams(self, store: SessionStore) -> None:
        session_id = said(store, "first", "second", "third", "fourth")
        kept = [message.message for message in store.read_transcript(session_id)][2:]
        store.rewrite_transcript(session_id, [system("summary"), *kept])
        fork = store.fork_session(session_id).session_id
        store.append_to_transcript(session_id, [user("fifth"), user("sixth")])
        store.append_to_transcript(fork, [user("seventh"), user("eighth")])
        for place, names in ((session_id, "summary third fourth fifth sixth"), (fork, "seventh eighth")):
            shown = [None, *store.read_transcript(place), None]
            for word in names.split():
                (hit,) = store.search(word)
                at = shown.index(hit.message)
                assert hit.session.session_id == place
                assert (hit.before, hit.after) == (shown[at - 1], shown[at + 1])


class ViewerContract:
    """Who finds what."""

    def test_a_person_finds_what_is_theirs(self, store: SessionStore) -> None:
        said(store, "tea of seven")
        said(store, "tea of eight", person="8")
        said(store, "tea of another account", account="work")
        shared = store.get_or_create_session(thread("7")).session_id
        store.append_to_transcript(shared, user("tea for all"), author="telegram:7")
        assert found(store, "tea", viewer="telegram:7") == ["tea of seven"]
        assert found(store, "tea", viewer=dm("8")) == ["tea of eight"]
        assert found(store, "tea", viewer="telegram:nobody") == []
        assert len(store.search("tea")) == 4

    def test_from_a_group_only_that_group_is_found(self, store: SessionStore) -> None:
        said(store, "tea in private")
        for source in (group("7"), group("8"), thread("8"), thread("7", "g2"), group("7", "g2")):
            entry = store.get_or_create_session(source)
            store.append_to_transcript(entry.session_id, user(f"tea of {source.user_id} in {source.description}"))
        assert found(store, "tea", viewer=group("7")) == ["tea of 7 in group: g1", "tea of 8 in group: g1, thread: t1"]

    def test_a_forks_viewer_finds_what_it_inherited(self, store: SessionStore) -> None:
        origin = store.get_or_create_session(group("7")).session_id
        store.append_to_transcript(origin, user("tea in the group"))
        mine = store.get_or_create_session(dm("7"))
        forked = switched(store, mine.session_key, origin)
        assert places(store, "tea", viewer=dm("7")) == [origin]
        store.delete_session(origin)
        assert places(store, "tea", viewer=dm("7")) == [forked.session_id]
        assert places(store, "tea", viewer=group("7")) == []

    def test_a_threads_viewer_finds_the_dms_history(self, store: SessionStore) -> None:
        parent = said(store, "tea before")
        seeded = store.get_or_create_session(dm("7", thread="t"))
        store.append_to_transcript(parent, user("tea after"))
        assert found(store, "tea", session=seeded.session_id) == ["tea before"]
        assert found(store, "tea", viewer=dm("7")) == ["tea after", "tea before"]

    def test_no_viewer_learns_of_others_by_neighbours(self, store: SessionStore) -> None:
        shared = store.get_or_create_session(thread("7")).session_id
        store.append_to_transcript(shared, [user("shared tea"), user("more")], author="telegram:7")
        said(store, "private", person="7")
        for hit in store.search("tea", viewer=group("8")):
            assert "private" not in str(hit)

    def test_a_session_that_is_not_the_viewers_is_not_searched_for_them(self, store: SessionStore) -> None:
        theirs = said(store, "my tea", person="1")
        shared = store.get_or_create_session(thread("1", "g1")).session_id
        store.append_to_transcript(shared, user("our tea"), author="telegram:1")
        for session, viewer in (
            (theirs, "telegram:2"),
            (theirs, group("1", "g1")),
            (shared, "telegram:2"),
            (shared, group("2", "g2")),
        ):
            with pytest.raises(NotYours):
                store.search("tea", viewer=viewer, session=session)
        assert found(store, "tea", viewer="telegram:1", session=theirs) == ["my tea"]
        assert found(store, "tea", viewer=group("2", "g1"), session=shared) == ["our tea"]
        assert found(store, "tea", session=theirs) == ["my tea"]

    def test_who_holds_a_fork_finds_nothing_that_was_said_where_it_came_from_since(self, store: SessionStore) -> None:
        parent = said(store, "tea before", person="1")
        here = store.get_or_create_session(dm("2"))
        fork = store.fork_session(parent, key=here.session_key).session_id
        store.append_to_transcript(parent, user("tea after"))
        assert found(store, "tea", viewer="telegram:2", session=fork) == ["tea before"]
        assert found(store, "tea", viewer="telegram:2") == ["tea before"]
        with pytest.raises(NotYours):
            store.search("tea", viewer="telegram:2", session=parent)


class FilterContract:
    """Narrowing a search, its order and its pages."""

    def test_by_platform_role_and_session(self, store: SessionStore) -> None:
        one = said(store, "tea on telegram")
        two = said(store, "tea on signal", platform="signal")
        store.append_to_transcript(two, assistant("tea for you"))
        assert found(store, "tea", platform="telegram") == ["tea on telegram"]
        assert found(store, "tea", role="assistant") == ["tea for you"]
        assert found(store, "tea", platform="signal", role="user") == ["tea on signal"]
        assert found(store, "tea", session=one) == ["tea on telegram"]
        assert found(store, "tea", platform="matrix") == found(store, "tea", role="nobody") == []
        with pytest.raises(UnknownSession):
            store.search("tea", session="nothing")

    def test_by_person(self, store: SessionStore) -> None:
        session_id = said(store, "tea of seven")
        store.append_to_transcript(session_id, assistant("tea for seven"))
        said(store, "tea of eight", person="8")
        shared = store.get_or_create_session(thread("7")).session_id
        store.append_to_transcript(shared, user("shared tea of seven"), author="telegram:7")
        store.append_to_transcript(shared, user("shared tea of eight"), author="telegram:8")
        mine = ["shared tea of seven", "tea for seven", "tea of seven"]
        assert found(store, "tea", person="telegram:7") == found(store, "tea", person=dm("7")) == mine

    def test_by_time(self, store: SessionStore, clock: FakeClock) -> None:
        session_id = said(store, "tea 0")
        moments = [clock.now()]
        for n in (1, 2):
            moments.append(clock.advance(MINUTE))
            store.append_to_transcript(session_id, user(f"tea {n}"))
        assert found(store, "tea", since=moments[1]) == ["tea 1", "tea 2"]
        assert found(store, "tea", until=moments[1]) == ["tea 0"]
        assert found(store, "tea", since=moments[1], until=moments[2]) == ["tea 1"]

    def test_the_better_match_comes_first(self, store: SessionStore) -> None:
        weak = said(store, "tea " + "and many other words " * 20)
        strong = said(store, "tea tea tea")
        page = store.search("tea")
        assert [hit.session.session_id for hit in page] == [strong, weak]
        assert page[0].rank <= page[1].rank

    def test_or_the_newest(self, store: SessionStore, clock: FakeClock) -> None:
        said(store, "tea tea tea")
        for n in range(6):
            clock.advance(MINUTE)
            said(store, f"tea {n} " + "filler " * n)
            store.index_pending()
        page = store.search("tea", order="newest", limit=3)
        assert [hit.message.message["content"][:5] for hit in page] == ["tea 5", "tea 4", "tea 3"]
        with pytest.raises(InvalidRequest, match="sideways"):
            store.search("tea", order=cast(Any, "sideways"))

    @pytest.mark.parametrize("order", ["rank", "newest"])
    @pytest.mark.parametrize("viewer", [None, "telegram:7"])
    def test_pages_leave_no_gap_and_repeat_nothing(self, store: SessionStore, order: Any, viewer: Any) -> None:
        session_id = said(store, *(f"tea {n}" for n in range(40)))
        said(store, *(f"tea of eight {n}" for n in range(40)), person="8")
        store.append_to_transcript(session_id, assistant("A"))
        store.append_to_transcript(session_id, [user(f"undone tea {n}") for n in range(15)])
        store.rewind_session(session_id)
        refs, cursor = [], None
        while True:
            page = store.search("tea", order=order, viewer=viewer, limit=7, cursor=cursor)
            refs += [hit.ref for hit in page]
            cursor = page.cursor
            if cursor is None:
                break
            assert len(page) == 7
        assert len(refs) == len(set(refs)) == (80 if viewer is None else 40)

    def test_the_last_full_page_is_the_last(self, store: SessionStore) -> None:
        said(store, "tea 1", "tea 2", "tea 3", "tea 4")
        page = store.search("tea", limit=2)
        last = store.search("tea", limit=2, cursor=page.cursor)
        assert (len(last), last.cursor) == (2, None)

    def test_bad_pages_are_refused(self, store: SessionStore) -> None:
        said(store, "tea")
        for limit in (0, 1001):
            with pytest.raises(InvalidRequest, match="limit"):
                store.search("tea", limit=limit)
        for cursor in ("?", "abc", "é", "cS4tMQ"):
            with pytest.raises(InvalidCursor):
                store.search("tea", cursor=cursor)

    def test_many_exchanges_in_one_search(self, store: SessionStore) -> None:
        session_id = said(store, "start")
        for n in range(30):
            store.append_to_transcript(session_id, exchange(f"question {n}", f"answer {n}"))
        assert len(store.search("question", limit=100)) == 30
        assert found(store, "question 7") == ["question 7"]

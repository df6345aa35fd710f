"""How an editor's sessions are listed, changed and removed: on both engines."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.acp.editing import gateway, known, listed, managed, manager, open_gateway, run, runner, say
from tests.contract.gateways import Run

from threadline.acp.sessions import AsyncSessionManager
from threadline.errors import InvalidCursor, InvalidRequest, UnknownSession
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock, dm
from threadline.testing.contracts.storage.fixtures import RawExecute

__all__ = ["gateway", "manager", "open_gateway", "run", "runner"]


# Lists


def test_a_list_tells_of_each_session(
    manager: AsyncSessionManager, gateway: GatewayStore, clock: FakeClock, run: Run
) -> None:
    first = run(manager.create_session("/a"))
    clock.advance(timedelta(minutes=1))
    second = run(manager.create_session("/b"))
    clock.advance(timedelta(minutes=1))
    run(say(gateway, first, "hello"))
    now = clock.now()
    run(manager.save_session(first.session_id, title="The first", model="m-1"))
    rows = run(listed(manager))
    assert [(row.session_id, row.cwd, row.title, row.model, row.history_len) for row in rows] == [
        (first.session_id, "/a", "The first", "m-1", 1),
        (second.session_id, "/b", None, None, 0),
    ]
    assert rows[0].updated_at == now


def test_a_list_of_one_folder_has_that_very_folder(manager: AsyncSessionManager, run: Run) -> None:
    long = "/" + "x" * 300
    for cwd in ("/a", "/a/", "/A", "/a/b", "/ä", long, long + "y"):
        run(manager.create_session(cwd))
    for cwd in ("/a", "/a/", "/A", "/ä", long, long + "y"):
        assert [session.cwd for session in run(listed(manager, cwd))] == [cwd]
    assert run(listed(manager, "/")) == []
    assert run(listed(manager, "/a%")) == []
    moved = run(listed(manager, "/a"))[0]
    run(manager.update_cwd(moved.session_id, "/new"))
    assert run(listed(manager, "/a")) == []
    assert [session.session_id for session in run(listed(manager, "/new"))] == [moved.session_id]


def test_a_cursor_that_is_none_says_so(manager: AsyncSessionManager, run: Run) -> None:
    for cursor in ("x", "c." * 900, "dC4xLjI", "cy4x", "é"):
        with pytest.raises(InvalidCursor):
            run(manager.list_sessions(cursor=cursor))
    for limit in (0, -1, 1_001):
        with pytest.raises(InvalidRequest):
            run(manager.list_sessions(limit=limit))


def crowd(execute: RawExecute, location: str, count: int) -> None:
    """So many sessions like the last one, every hundredth in another folder; several share each instant."""
    digest = "CAST('d' || n AS BLOB)" if location.startswith("sqlite") else "convert_to('d' || n, 'UTF8')"
    execute(f"""
        INSERT INTO addresses (digest, key, chat_type, owner)
        SELECT {digest}, '20260601_120000_' || (10000000 + n), 'dm', 'acp:ada' FROM (
          WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {count}) SELECT n FROM up) x
    """)
    execute("""
        INSERT INTO sessions (session_id, address_pk, chat_type, origin, created_at)
        SELECT a.key, a.pk, 'dm', REPLACE(s.origin, s.session_id, a.key), s.created_at FROM addresses a, sessions s
        WHERE a.session_pk IS NULL AND s.pk = (SELECT MAX(pk) FROM sessions)
    """)
    execute("""
        UPDATE addresses SET session_pk = (SELECT pk FROM sessions WHERE address_pk = addresses.pk) WHERE session_pk IS NULL
    """)
    execute("""
        INSERT INTO session_state (session_pk, owner, platform, cwd, updated_at, listed_at, active_at)
        SELECT a.session_pk, a.owner, t.platform, CASE WHEN a.session_pk % 100 = 0 THEN '/some' ELSE t.cwd END,
          t.updated_at + a.pk / 7, t.listed_at + a.pk / 7, t.active_at
        FROM addresses a, session_state t
        WHERE a.key LIKE '20260601%' AND t.session_pk = (SELECT MAX(session_pk) FROM session_state)
    """)
    execute("""
        INSERT INTO spans (session_pk, version, folded, place, lo, hi)
        SELECT session_pk, 1, 0, 0, (session_pk << 24) + 1, (session_pk << 24) + 16777215 FROM addresses WHERE key LIKE '20260601%'
    """)


def test_ten_thousand_sessions_are_paged_without_gaps_or_repeats(
    manager: AsyncSessionManager, run: Run, raw_execute: RawExecute, location: str
) -> None:
    made = run(manager.create_session("/most"))
    crowd(raw_execute, location, 9_999)
    rows = run(listed(manager, limit=333))
    assert len({row.session_id for row in rows}) == len(rows) == 10_000
    assert made.session_id in [row.session_id for row in rows]
    assert [row.updated_at for row in rows] == sorted((row.updated_at for row in rows), reverse=True)
    some = run(listed(manager, "/some", limit=7))
    assert [row.session_id for row in some] == [row.session_id for row in rows if row.cwd == "/some"]
    assert len(some) in (99, 100)


# Changing and removing


def test_what_is_saved_leaves_the_rest_as_it_is(manager: AsyncSessionManager, gateway: GatewayStore, run: Run) -> None:
    made = run(manager.create_session("/work"))
    run(manager.save_session(made.session_id, title="Mine", model="m-1", mode="allow", options={"a": "1", "b": "2"}))
    run(manager.save_session(made.session_id, options={"b": None, "c": True}))
    found = known(run(manager.get_session(made.session_id)))
    assert (found.title, found.model, found.mode, found.options) == ("Mine", "m-1", "allow", {"a": "1", "c": True})
    run(manager.save_session(made.session_id, title=None, mode=None, model=None))
    run(manager.update_cwd(made.session_id, "/other"))
    found = known(run(manager.get_session(made.session_id)))
    assert (found.title, found.model, found.mode, found.options) == (None, None, None, {"a": "1", "c": True})
    assert found.cwd == "/other"
    assert run(gateway.find_by_title("Mine")) is None


def test_two_who_save_at_once_both_hold(manager: AsyncSessionManager, run: Run) -> None:
    made = run(manager.create_session("/work"))

    async def both() -> None:
        await asyncio.gather(
            *(manager.save_session(made.session_id, options={f"o{number}": number}) for number in range(20))
        )

    run(both())
    assert known(run(manager.get_session(made.session_id))).options == {f"o{number}": number for number in range(20)}


def test_what_looks_like_a_secret_is_not_kept(manager: AsyncSessionManager, run: Run) -> None:
    made = run(manager.create_session("/work"))
    with pytest.raises(InvalidRequest, match="secret"):
        run(manager.save_session(made.session_id, title="half", options={"api_key_secret": "x"}))
    assert known(run(manager.get_session(made.session_id))).title is None


def test_a_removed_session_is_gone_with_all_that_was_held_in_it(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made, other = run(manager.create_session("/work")), run(manager.create_session("/work"))
    run(say(gateway, made, "first words"))
    fresh = run(gateway.resume.start_new(made.session_id))
    run(say(gateway, made, "second words"))
    assert run(manager.remove_session(made.session_id)) is True
    assert run(manager.remove_session(made.session_id)) is False
    for session_id in (made.session_id, fresh.session_id):
        with pytest.raises(UnknownSession):
            run(gateway.get_session(session_id))
    assert run(manager.get_session(made.session_id)) is None
    assert run(gateway.search("words")).items == []
    assert [session.session_id for session in run(listed(manager))] == [other.session_id]
    assert run(gateway.check()).ok


def test_cleaning_up_deletes_nothing(manager: AsyncSessionManager, run: Run) -> None:
    made, other = run(manager.create_session("/work")), run(manager.create_session("/work"))
    fork = known(run(manager.fork_session(made.session_id)))
    ids = [made.session_id, other.session_id, fork.session_id]
    assert [source.chat_id for source in manager.bound] == ids
    manager.close_session(other.session_id)
    assert [source.chat_id for source in manager.bound] == [made.session_id, fork.session_id]
    run(manager.cleanup())
    assert manager.bound == ()
    assert {session.session_id for session in run(listed(manager))} == set(ids)
    assert known(run(manager.get_session(made.session_id))).cwd == "/work"


def test_cleaning_up_deletes_the_sessions_of_editors_alone_where_it_is_asked_to(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    chat = run(gateway.get_or_create_session(dm()))
    for number in range(60):
        run(manager.create_session(f"/{number}"))
    other = run(managed(gateway, "another", person="ben").create_session("/of-another"))
    run(say(gateway, run(manager.create_session("/said")), "the walrus was here"))
    run(gateway.resume.start_new(other.session_id))
    run(manager.cleanup(delete=True))
    assert (run(listed(manager)), manager.bound) == ([], ())
    assert [entry.session_id for entry in run(gateway.list_sessions(include_ended=True))] == [chat.session_id]
    assert run(gateway.search("walrus")).items == []
    assert run(gateway.check()).ok


# In the same store as everything


def test_it_is_found_by_search_and_known_to_its_person(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    run(say(gateway, made, "the walrus was here"))
    (hit,) = run(gateway.search("walrus", viewer="acp:ada"))
    assert hit.session.session_id == made.session_id
    assert run(gateway.search("walrus", viewer="telegram:7")).items == []
    told = [record.to_dict() for record in run(gateway.export("acp:ada"))]
    assert [(record["session_id"], record["cwd"]) for record in told if record["kind"] == "session"] == [
        (made.session_id, "/work")
    ]
    run(gateway.erase_person("acp:ada"))
    assert run(listed(manager)) == []

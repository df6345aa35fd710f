"""What an editor's sessions promise: on both engines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.acp.editing import (
    gateway,
    known,
    listed,
    managed,
    manager,
    open_gateway,
    replay_pages,
    replayed,
    run,
    runner,
    say,
)
from tests.contract.gateways import OpenGateway, Run

from threadline.acp.sessions import AsyncSessionManager, source_of
from threadline.errors import InvalidRequest, UnknownSession
from threadline.ids import is_session_id
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock, dm, exchange, user
from threadline.testing.contracts.storage.fixtures import RawExecute

__all__ = ["gateway", "manager", "open_gateway", "run", "runner"]


# Making and finding


def test_a_new_session_is_called_like_the_stores(manager: AsyncSessionManager, gateway: GatewayStore, run: Run) -> None:
    made = run(manager.create_session("/home/ada/work"))
    assert is_session_id(made.session_id)
    stored = run(gateway.get_session(made.session_id))
    assert (stored.platform, stored.cwd, stored.origin.chat_id) == ("acp", "/home/ada/work", made.session_id)
    assert (stored.session_key, stored.owner) == (f"agent:main:acp:dm:{made.session_id}", "acp:ada")
    assert (made.cwd, made.history_len, made.title) == ("/home/ada/work", 0, None)


def test_a_session_is_found_after_a_restart_as_it_was(open_gateway: OpenGateway, run: Run) -> None:
    before = open_gateway()
    sessions = managed(before)
    made = run(sessions.create_session("/work"))
    run(say(before, made, "hello", "again"))
    run(
        sessions.save_session(
            made.session_id,
            title="Fix the tests",
            model="m-1",
            provider="local",
            base_url="http://127.0.0.1:1",
            api_mode="chat",
            mode="allow",
            options={"thinking": "high"},
        )
    )
    run(before.close())
    found = known(run(managed(open_gateway()).get_session(made.session_id)))
    assert found.session_id == made.session_id
    assert (found.cwd, found.title, found.model, found.history_len) == ("/work", "Fix the tests", "m-1", 2)
    assert (found.provider, found.base_url, found.api_mode) == ("local", "http://127.0.0.1:1", "chat")
    assert (found.mode, found.options) == ("allow", {"thinking": "high"})


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "nope",
        "../../etc/passwd",
        "20260601_120000_ab12cd34",
        "x" * 100_000,
        "\x00",
        "\ud800",
        "a:b",
        "20260601_120000_AB12CD34",
        "my-session",
        "x" * 65,
        ".hidden",
        "-x",
        "a b",
        "ä",
        "name\n",
    ],
)
def test_an_id_that_no_editors_session_has_is_unknown(manager: AsyncSessionManager, run: Run, wrong: str) -> None:
    for asked in (manager.get_session, manager.fork_session, manager.save_session):
        assert run(asked(wrong)) is None
    assert run(manager.update_cwd(wrong, "/work")) is None
    with pytest.raises(UnknownSession):
        run(replayed(manager, wrong))
    assert run(manager.remove_session(wrong)) is False
    assert manager.bound == ()


@pytest.mark.parametrize("name", ["my-session", "0", "A.b_c-9", "x" * 64])
def test_any_safe_id_can_name_a_session(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run, name: str
) -> None:
    assert run(manager.get_session(name)) is None
    run(gateway.editor_sessions.create(source_of(name, "ada"), "/work"))
    found = known(run(manager.get_session(name)))
    assert (found.session_id, found.entry.session_id, found.cwd) == (name, name, "/work")
    run(say(gateway, found, "hello"))
    assert run(replayed(manager, name)) == ["hello"]
    assert [session.session_id for session in run(listed(manager))] == [name]
    assert run(manager.remove_session(name)) is True
    assert run(manager.get_session(name)) is None


@pytest.mark.parametrize("platform", ["telegram", "local", "web"])
def test_a_session_of_a_chat_is_not_found(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run, platform: str
) -> None:
    chat = run(gateway.get_or_create_session(dm(platform=platform)))
    run(gateway.append_to_transcript(chat.session_id, user("private")))
    assert run(manager.get_session(chat.session_id)) is None
    assert run(manager.fork_session(chat.session_id)) is None
    assert run(manager.remove_session(chat.session_id)) is False
    assert run(gateway.get_session(chat.session_id)).message_count == 1
    assert run(listed(manager)) == []


def test_a_chat_that_is_called_like_an_editors_session_is_not_found(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    name = "20260601_120000_ab12cd34"
    run(gateway.get_or_create_session(dm(chat_id=name)))
    run(gateway.get_or_create_session(dm(platform="acp", chat_id=name, account="other")))
    assert run(manager.get_session(name)) is None


@pytest.mark.parametrize("cwd", ["", "work", "~/work", "./work", "/x\x00", "/" + "x" * 5_000])
def test_a_folder_is_an_absolute_path(manager: AsyncSessionManager, run: Run, cwd: str) -> None:
    made = run(manager.create_session("/work"))
    with pytest.raises(InvalidRequest):
        run(manager.create_session(cwd))
    for asked in (manager.update_cwd, manager.fork_session):
        with pytest.raises(InvalidRequest):
            run(asked(made.session_id, cwd))
    assert [session.cwd for session in run(listed(manager))] == ["/work"]


def test_it_never_starts_afresh_by_itself(open_gateway: OpenGateway, clock: FakeClock, run: Run) -> None:
    daily = SessionResetPolicy(mode="both", idle_minutes=10)
    store = open_gateway(policies=ResetPolicies(default=daily, by_type={"dm": daily}))
    sessions = managed(store)
    made = run(sessions.create_session("/work"))
    run(say(store, made, "hello"))
    clock.advance(timedelta(days=400))
    current = run(store.get_or_create_session(source_of(made.session_id, "ada")))
    assert (current.session_id, current.was_auto_reset) == (made.session_id, False)
    assert known(run(sessions.get_session(made.session_id))).history_len == 1


def test_another_agent_goes_on_with_what_was_said(open_gateway: OpenGateway, run: Run) -> None:
    store = open_gateway()
    made = run(managed(store, "main").create_session("/work"))
    run(say(store, made, "hello"))
    later = managed(open_gateway(), "claude")
    assert [session.session_id for session in run(listed(later))] == [made.session_id]
    found = known(run(later.get_session(made.session_id)))
    assert (found.history_len, found.cwd) == (1, "/work")
    # A message that now comes in lands there.
    heard = run(store.get_or_create_session(source_of(made.session_id, "ada"), agent="claude"))
    assert heard.session_id == made.session_id
    assert run(replayed(later, made.session_id)) == ["hello"]
    assert run(store.check()).ok


# One name for ever


def test_the_id_stays_whatever_becomes_of_the_conversation(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    run(manager.save_session(made.session_id, mode="deny", model="m-1"))
    run(say(gateway, made, "first"))
    fresh = run(gateway.resume.start_new(made.session_id))
    assert fresh.session_id != made.session_id
    found = known(run(manager.get_session(made.session_id)))
    assert (found.entry.session_id, found.history_len) == (fresh.session_id, 0)
    assert (found.cwd, found.mode, found.model) == ("/work", "deny", "m-1")
    run(say(gateway, made, "second"))
    assert [session.history_len for session in run(listed(manager))] == [1]
    back = run(gateway.resume.resume(fresh.session_id, made.session_id))
    assert back.session_id == made.session_id
    assert run(replayed(manager, made.session_id)) == ["first"]
    copy = run(gateway.resume.continue_in_fork(made.session_id))
    assert known(run(manager.get_session(made.session_id))).entry.session_id == copy.session_id
    assert [session.session_id for session in run(listed(manager))] == [made.session_id]


def test_what_is_resumed_in_an_editor_works_in_its_folder_and_mode(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    lax = run(manager.create_session("/lax"))
    run(manager.save_session(lax.session_id, mode="allow", model="m-lax", options={"a": "1"}))
    run(say(gateway, lax, "in the lax one"))
    run(gateway.resume.start_new(lax.session_id))
    strict = run(manager.create_session("/strict"))
    # It has ended where it was, so it is the very session that goes on.
    run(gateway.resume.resume(strict.session_id, lax.session_id))
    found = known(run(manager.get_session(strict.session_id)))
    assert (found.entry.session_id, found.cwd) == (lax.session_id, "/strict")
    assert (found.mode, found.options, found.model) == (None, {}, "m-lax")
    assert run(replayed(manager, strict.session_id)) == ["in the lax one"]
    assert known(run(manager.get_session(lax.session_id))).history_len == 0
    assert [session.cwd for session in run(listed(manager, "/lax"))] == ["/lax"]


def test_a_copy_that_nobody_went_on_with_is_not_listed(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    run(gateway.fork_session(made.session_id))
    assert [session.session_id for session in run(listed(manager))] == [made.session_id]


# Forks


def test_a_fork_has_the_history_and_all_that_was_chosen(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    chosen: dict[str, Any] = {
        "model": "m-1",
        "provider": "local",
        "base_url": "http://127.0.0.1:1",
        "api_mode": "chat",
        "mode": "allow",
        "options": {"thinking": "high"},
    }
    run(manager.save_session(made.session_id, title="Mine", **chosen))
    run(say(gateway, made, "before"))
    fork = known(run(manager.fork_session(made.session_id)))
    assert fork.session_id != made.session_id
    assert {name: getattr(fork, name) for name in chosen} == chosen
    assert (fork.cwd, fork.title, fork.history_len) == ("/work", None, 1)
    assert fork.entry.parent_session_id == made.session_id
    elsewhere = known(run(manager.fork_session(made.session_id, "/other")))
    assert (elsewhere.cwd, elsewhere.mode) == ("/other", "allow")
    assert known(run(manager.get_session(made.session_id))).cwd == "/work"


def test_a_fork_and_its_parent_stay_apart(manager: AsyncSessionManager, gateway: GatewayStore, run: Run) -> None:
    made = run(manager.create_session("/work"))
    run(say(gateway, made, "before"))
    fork = known(run(manager.fork_session(made.session_id)))
    run(say(gateway, made, "in the parent"))
    run(say(gateway, fork, "in the fork"))
    run(gateway.rewind_session(made.session_id))
    run(manager.save_session(fork.session_id, mode="allow", title="Fork"))
    assert run(replayed(manager, fork.session_id)) == ["before", "in the fork"]
    assert known(run(manager.get_session(made.session_id))).mode is None
    assert run(manager.remove_session(made.session_id)) is True
    assert run(replayed(manager, fork.session_id)) == ["before", "in the fork"]
    assert run(gateway.check()).ok


def test_a_fork_copies_no_message(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run, raw_execute: RawExecute
) -> None:
    made = run(manager.create_session("/work"))
    run(say(gateway, made, *(f"m{n}" for n in range(2_000))))
    fork = known(run(manager.fork_session(made.session_id)))
    assert fork.history_len == 2_000
    # One row too many, and there is a row to insert that no engine takes.
    raw_execute("INSERT INTO meta (name, value) SELECT 'copied', NULL WHERE (SELECT COUNT(*) FROM messages) > 2000")


# Replays


def test_a_replay_has_all_that_was_said_in_order(manager: AsyncSessionManager, gateway: GatewayStore, run: Run) -> None:
    made = run(manager.create_session("/work"))
    texts = [f"m{number}" for number in range(25)]
    run(say(gateway, made, *texts))
    for page in (1, 7, 25, 500):
        assert run(replayed(manager, made.session_id, page)) == texts


def test_a_replay_is_of_the_letter(manager: AsyncSessionManager, gateway: GatewayStore, run: Run) -> None:
    made = run(manager.create_session("/work"))
    said = {"role": "assistant", "z": 1, "content": "half \ud800, nul \x00, é", "a": [None, 1.50]}
    run(gateway.append_to_transcript(made.session_id, said))

    async def all_pages() -> list[list[dict[str, Any]]]:
        return [messages async for messages in replay_pages(manager, made.session_id)]

    ((message,),) = run(all_pages())
    assert list(message.items()) == list(said.items())


def test_a_large_message_stands_in_a_replay_with_its_number_alone(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    texts = ["small", "7" * 70_000, "small again", "é" * 40_000]
    run(say(gateway, made, *texts))
    assert run(replayed(manager, made.session_id)) == texts
    whole = run(gateway.editor_sessions.history_plan(source_of(made.session_id, "ada"), agent="main"))
    page = run(gateway.editor_sessions.history_page(whole.spans, limit=500))
    assert page is not None
    assert len(page.text) < 200
    assert run(gateway.editor_sessions.message_body(page.last + 1)) is None


def test_what_was_compacted_is_replayed_and_what_was_undone_is_not(
    manager: AsyncSessionManager, gateway: GatewayStore, run: Run
) -> None:
    made = run(manager.create_session("/work"))
    run(gateway.append_to_transcript(made.session_id, [*exchange("q1", "a1"), *exchange("q2", "a2")]))
    run(gateway.append_to_transcript(made.session_id, exchange("undone", "undone too")))
    run(gateway.rewind_session(made.session_id))
    shown = run(gateway.load_transcript(made.session_id))
    run(gateway.rewrite_transcript(made.session_id, [user("summary"), *shown[2:]]))
    run(say(gateway, made, "q3"))
    everything = ["q1", "a1", "q2", "a2", "summary", "q3"]
    assert run(replayed(manager, made.session_id, 2)) == everything
    assert known(run(manager.get_session(made.session_id))).history_len == len(everything)
    fork = known(run(manager.fork_session(made.session_id)))
    run(say(gateway, fork, "q4"))
    assert run(replayed(manager, fork.session_id, 2)) == [*everything, "q4"]
    assert run(listed(manager))[0].history_len == 7
    assert [message["content"] for message in run(gateway.load_transcript(made.session_id))] == [
        "summary",
        "q2",
        "a2",
        "q3",
    ]


def test_a_replay_is_of_the_moment_when_it_began(manager: AsyncSessionManager, gateway: GatewayStore, run: Run) -> None:
    made = run(manager.create_session("/work"))
    run(say(gateway, made, "one", "two", "three"))

    async def read() -> list[str]:
        found: list[str] = []
        async for messages in replay_pages(manager, made.session_id, 1):
            found += [message["content"] for message in messages]
            await say(gateway, made, "meanwhile")
        return found

    assert run(read()) == ["one", "two", "three"]
    run(gateway.delete_session(made.session_id))
    with pytest.raises(UnknownSession):
        run(read())

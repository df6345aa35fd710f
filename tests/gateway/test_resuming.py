"""Owners go on with their conversations from another platform, in a copy; nobody else sees anything of anybody's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import pytest
from tests.gateway.talk import GROUP, THREAD, ask, echo
from tests.gateway.world import Running, awaited, settings_for

from threadline.errors import NotYours
from threadline.gateway.access import AccessRules
from threadline.gateway.gateway import Gateway
from threadline.model.ownership import Ownership, may_copy_between_owners
from threadline.ports.agent import Agent
from threadline.store.facade import GatewayStore
from threadline.testing import dm
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform
from threadline.texts import commands as texts

RULES = AccessRules(
    owners=frozenset({"scripted:ada"}),
    trusted=frozenset({"scripted:tim"}),
    guests=frozenset({"scripted:bob", "scripted:eve"}),
    answer_groups=frozenset({"*"}),
)
OpenBoth: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Running, Running]]]


@asynccontextmanager
async def both(location: str, agent: Agent, **settings: Any) -> AsyncIterator[tuple[Running, Running]]:
    """One gateway for a chat and for editors."""
    async with ScriptedChat() as chat, ScriptedChat() as editor, await GatewayStore.open(location) as store:
        platforms = [
            ScriptedPlatform(chat.address, capabilities=chat.capabilities),
            ScriptedPlatform(editor.address, name="acp", capabilities=editor.capabilities),
        ]
        gateway = Gateway(store, settings_for(agent, **settings), RULES, platforms)
        await gateway.start(alone=True)
        try:
            for world in (chat, editor):
                await world.wait_for(lambda world=world: world.connected)  # type: ignore[misc]
            yield Running(gateway, store, chat), Running(gateway, store, editor)
            assert not chat.misuses + editor.misuses
        finally:
            await gateway.stop()


@pytest.fixture
def on_both(location: str) -> OpenBoth:
    """`async with on_both(agent, …) as (chat, editor)`: a gateway for a chat and for editors."""
    return partial(both, location)


def no_such(name: str) -> str:
    return texts.NO_SUCH_SESSION.format(name=name)


def copied(title: str, platform: str) -> str:
    return texts.RESUMED_COPY.format(title=title, platform=platform)


async def held(store: GatewayStore, platform: str, chat: str) -> str:
    """The id of the session that is current in a chat."""
    page = await store.list_sessions(platform=platform)
    (entry,) = [entry for entry in page if entry.origin.chat_id == chat]
    return entry.session_id


@awaited
async def test_a_chat_goes_on_with_a_copy_of_what_an_editor_holds(on_both: OpenBoth) -> None:
    agent = ScriptedAgent(echo)
    async with on_both(agent) as (chat, editor):
        await ask(editor, "fix the tests")
        session_id = await held(chat.store, "acp", "dm-ada")
        await chat.store.set_runtime(session_id, cwd="/work")
        await ask(chat, "hello")
        assert await ask(chat, f"/resume {session_id}") == copied("/work", "acp")
        assert await ask(chat, "how far are you?") == "you said: how far are you?"
        assert [m["content"] for m in agent.turns[-1].history] == ["fix the tests", "you said: fix the tests"]
        copy = await chat.store.get_session(await held(chat.store, "scripted", "dm-ada"))
        assert (copy.owner, copy.cwd, copy.parent_session_id) == ("scripted:ada", "/work", session_id)
        # There nothing has changed: not even that it is the one that goes on.
        assert await held(chat.store, "acp", "dm-ada") == session_id
        await ask(editor, "go on")
        assert [m["content"] for m in agent.turns[-1].history] == ["fix the tests", "you said: fix the tests"]
        assert chat.texts()[-1] == "you said: how far are you?"


@awaited
async def test_an_editor_goes_on_with_a_copy_of_what_a_chat_holds(on_both: OpenBoth) -> None:
    agent = ScriptedAgent(echo)
    async with on_both(agent) as (chat, editor):
        await ask(chat, "plan the trip")
        await ask(chat, "/title The Trip")
        await ask(editor, "hello")
        place = await held(chat.store, "acp", "dm-ada")
        await chat.store.set_runtime(place, cwd="/work", runtime={"mode": "deny", "options": {"a": "1"}})
        wanted = await held(chat.store, "scripted", "dm-ada")
        await chat.store.set_runtime(wanted, runtime={"mode": "allow", "model": "m-1"})
        assert await ask(editor, "/resume the TRIP") == copied("The Trip", "scripted")
        await ask(editor, "where to?")
        assert [m["content"] for m in agent.turns[-1].history] == ["plan the trip", "you said: plan the trip"]
        copy = await chat.store.get_session(await held(chat.store, "acp", "dm-ada"))
        # The folder and the mode are the editor's; the model is what the conversation was held with.
        assert (copy.cwd, copy.runtime) == ("/work", {"mode": "deny", "options": {"a": "1"}, "model": "m-1"})
        assert (copy.owner, copy.origin.platform) == ("acp:ada", "acp")
        assert await held(chat.store, "scripted", "dm-ada") == wanted
        # What the editor had before is there still.
        assert await ask(editor, "/resume") == texts.RESUMED.format(title=place)


@awaited
async def test_one_that_has_ended_is_copied_too(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        await ask(chat, "one")
        old = await held(chat.store, "scripted", "dm-ada")
        await ask(chat, "/new")
        assert await ask(editor, f"/resume {old}") == copied("DM with ada", "scripted")
        ended = await chat.store.get_session(old)
        assert (ended.end_reason, ended.owner) == ("session_reset", "scripted:ada")
        # So the chat can still have the very session back.
        assert await ask(chat, "/resume") == texts.RESUMED.format(title=old)
        assert await held(chat.store, "scripted", "dm-ada") == old


@awaited
async def test_an_owner_is_shown_what_there_is_elsewhere(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        for user in ("ada", "bob", "tim"):
            await ask(chat, f"hello from {user}", user=user)
        for place in range(7):
            await ask(editor, "hello", chat=f"e{place}")
        shown = await ask(chat, "/sessions")
        own, _, elsewhere = shown.partition(f"\n\n{texts.SESSIONS_ELSEWHERE}\n")
        assert own.count("\n") == 1
        newest = [await held(chat.store, "acp", f"e{place}") for place in (6, 5, 4, 3, 2)]
        assert [line.split("`")[1] for line in elsewhere.splitlines()] == newest
        seen_in_editor = await ask(editor, "/sessions", chat="e0")
        assert await held(chat.store, "scripted", "dm-ada") in seen_in_editor
        for other in ("bob", "tim"):
            assert await held(chat.store, "scripted", f"dm-{other}") not in shown + seen_in_editor


@awaited
async def test_an_owner_finds_what_was_said_elsewhere(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        for user in ("ada", "bob", "tim"):
            await ask(chat, f"tea for {user}", user=user)
        await ask(editor, "tea in the code")
        own, code = await held(chat.store, "scripted", "dm-ada"), await held(chat.store, "acp", "dm-ada")
        in_chat, in_editor = await ask(chat, "/search tea"), await ask(editor, "/search tea")
        for shown, here, there in ((in_chat, own, code), (in_editor, code, own)):
            first, _, elsewhere = shown.partition(f"\n\n{texts.FOUND_ELSEWHERE}\n")
            assert {line.split("`")[1] for line in first.splitlines()} == {here}
            assert {line.split("`")[1] for line in elsewhere.splitlines()} == {there}
        # What was copied is found once: here.
        await ask(chat, f"/resume {code}")
        assert (await ask(chat, "/search code")).count("**code**") == 2
        assert texts.FOUND_ELSEWHERE not in await ask(chat, "/search code")
        assert await ask(chat, "/search nowhere") == texts.NOTHING_FOUND


@awaited
async def test_nobody_but_an_owner_is_shown_or_given_any_of_it(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        await ask(editor, "secret plans")
        await ask(editor, "/title Secret")
        wanted = await held(chat.store, "acp", "dm-ada")
        for user in ("bob", "tim"):
            await ask(chat, "hello", user=user)
            own = await held(chat.store, "scripted", f"dm-{user}")
            for name in (wanted, "Secret"):
                assert await ask(chat, f"/resume {name}", user=user) == no_such(name)
            assert await held(chat.store, "scripted", f"dm-{user}") == own
            assert wanted not in await ask(chat, "/sessions", user=user)
            assert await ask(chat, "/search secret", user=user) == texts.NOTHING_FOUND


@awaited
async def test_an_owner_is_not_given_what_is_no_owners(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        await ask(chat, "my diary", user="bob")
        await ask(chat, "/title Diary", user="bob")
        await ask(chat, "in the thread", user="bob", **THREAD)
        private = await held(chat.store, "scripted", "dm-bob")
        shared = next(e.session_id for e in await chat.store.list_sessions(platform="scripted") if e.is_shared)
        await ask(editor, "hello")
        await ask(chat, "hello")
        for here in (chat, editor):
            for name in (private, "Diary", shared):
                assert await ask(here, f"/resume {name}") == no_such(name)
            listed = await ask(here, "/sessions")
            assert private not in listed
            assert shared not in listed


@awaited
async def test_another_s_title_is_passed_over(on_both: OpenBoth) -> None:
    agent = ScriptedAgent(echo)
    async with on_both(agent) as (chat, editor):
        await ask(editor, "mine")
        await ask(editor, "/title Notes")
        await ask(chat, "hello")
        await ask(chat, "not yours", user="bob")
        await ask(chat, "/title Notes", user="bob")
        assert await ask(chat, "/resume notes") == copied("Notes", "acp")
        await ask(chat, "next")
        assert agent.turns[-1].history[0]["content"] == "mine"
        # What is one's own goes first.
        await ask(chat, "/title Notes")
        await ask(chat, "/new")
        assert await ask(chat, "/resume notes") == texts.RESUMED.format(title="Notes")


@awaited
async def test_an_owners_private_words_never_come_into_a_group(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        await ask(editor, "secret plans")
        await ask(editor, "/title Secret")
        wanted = await held(chat.store, "acp", "dm-ada")
        for place in (GROUP, THREAD):
            await ask(chat, "hello", **place)
            for name in (wanted, "Secret"):
                assert await ask(chat, f"/resume {name}", **place) == no_such(name)
            assert wanted not in await ask(chat, "/sessions", **place)


@awaited
async def test_whoever_is_no_owner_any_more_has_lost_it(on_both: OpenBoth) -> None:
    async with on_both(ScriptedAgent(echo)) as (chat, editor):
        await ask(editor, "plans")
        wanted = await held(chat.store, "acp", "dm-ada")
        await ask(chat, "hello", user="eve")
        await chat.store.people.set_role("scripted:eve", "owner", None)
        assert wanted in await ask(chat, "/sessions", user="eve")
        assert await ask(chat, f"/resume {wanted}", user="eve") == copied("DM with ada", "acp")
        theirs = await held(chat.store, "scripted", "dm-eve")
        assert theirs in await ask(editor, "/sessions")
        await chat.store.people.remove_role("scripted:eve")
        assert wanted not in await ask(chat, "/sessions", user="eve")
        assert await ask(chat, f"/resume {wanted}", user="eve") == no_such(wanted)
        # Nor is what is theirs an owner's any more.
        assert await ask(editor, f"/resume {theirs}") == no_such(theirs)


@awaited
async def test_the_store_itself_gives_nobodys_session_but_the_named_owners(location: str) -> None:
    async with await GatewayStore.open(location) as store:
        mine = await store.get_or_create_session(dm("ada", platform="scripted"))
        theirs = await store.get_or_create_session(dm("bob", platform="scripted"))
        for owners in (None, "scripted:tim", "", mine.owner):
            with pytest.raises(NotYours):
                await store.resume.resume(mine.session_id, theirs.session_id, owners=owners)
        assert (await store.get_session(mine.session_id)).ended_at is None
        copy = await store.resume.resume(mine.session_id, theirs.session_id, owners=theirs.owner)
        assert (copy.parent_session_id, copy.owner, copy.origin) == (theirs.session_id, mine.owner, mine.origin)


@pytest.mark.parametrize(
    ("is_dm", "owner", "owners", "may"),
    [
        (True, "acp:ada", "acp:ada", True),
        (True, "acp:ada", None, False),
        (True, "acp:ada", "acp:bob", False),
        (True, None, None, False),
        (False, "acp:ada", "acp:ada", False),
    ],
)
def test_what_may_be_taken(is_dm: bool, owner: str | None, owners: str | None, may: bool) -> None:
    assert may_copy_between_owners(is_dm=is_dm, wanted=Ownership(owner, None), owners=owners) is may

"""Nobody reaches what is another's, by whatever command and from wherever."""

from __future__ import annotations

import pytest
from tests.gateway.talk import GROUP, THREAD, ask, current, echo, heard, said
from tests.gateway.world import Open, Running, awaited

from threadline.testing.agents import ScriptedAgent
from threadline.texts import commands as texts

SECRET = "the cellar is wet"


async def private_session(here: Running, user: str = "bob") -> str:
    """The id of an ended conversation of somebody's, called Cellar."""
    await ask(here, SECRET, user=user)
    await ask(here, "/title Cellar", user=user)
    session_id = (await current(here, f"dm-{user}")).session_id
    await ask(here, "/new", user=user)
    return session_id


@pytest.mark.parametrize("user", ["eve", "tim", "ada"])
@awaited
async def test_nobody_reaches_anothers_conversation(opened: Open, user: str) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        session_id = await private_session(here)
        await ask(here, "hello", user=user)
        own = (await current(here, f"dm-{user}")).session_id
        for wanted in ("Cellar", session_id):
            # The same words as for one that does not exist.
            assert await ask(here, f"/resume {wanted}", user=user) == texts.NO_SUCH_SESSION.format(name=wanted)
        assert await ask(here, "/search cellar", user=user) == texts.NOTHING_FOUND
        assert session_id not in await ask(here, "/sessions", user=user)
        assert await ask(here, "/resume", user=user) == texts.NOTHING_TO_RESUME
        assert (await current(here, f"dm-{user}")).session_id == own
        assert not any(SECRET in text for text in here.texts(f"dm-{user}"))
        assert (await here.store.get_session(session_id)).end_reason == "session_reset"


@awaited
async def test_a_name_is_looked_for_among_ones_own(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        own = await private_session(here, "bob")
        await private_session(here, "eve")
        assert await ask(here, "/resume Cellar", user="bob") == texts.RESUMED.format(title="Cellar")
        assert (await current(here, "dm-bob")).session_id == own


@pytest.mark.parametrize("place", [GROUP, THREAD], ids=["own", "shared"])
@awaited
async def test_in_a_group_nothing_private_is_shown_or_resumed(opened: Open, place: dict[str, str]) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        session_id = await private_session(here)
        await ask(here, "hello all", user="bob", **place)
        here_id = (await current(here, "den", place.get("thread"))).session_id
        assert await ask(here, "/search cellar", user="bob", **place) == texts.NOTHING_FOUND
        listed = await ask(here, "/sessions", user="bob", **place)
        assert here_id in listed
        assert session_id not in listed
        for wanted in ("Cellar", session_id):
            assert await ask(here, f"/resume {wanted}", user="bob", **place) == texts.NO_SUCH_SESSION.format(
                name=wanted
            )
        assert await ask(here, "/resume", user="bob", **place) == texts.NOTHING_TO_RESUME
        assert (await current(here, "den", place.get("thread"))).session_id == here_id
        assert not any(SECRET in text for text in here.texts("den"))
        # In private they are all there.
        assert session_id in await ask(here, "/search cellar", user="bob")
        assert await ask(here, "/resume Cellar", user="bob") == texts.RESUMED.format(title="Cellar")


@awaited
async def test_each_member_of_a_group_has_their_own_conversation(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, SECRET, user="bob", **GROUP)
        await ask(here, "/title Cellar", user="bob", **GROUP)
        session_id = (await current(here, "den")).session_id
        await ask(here, "hello", user="eve", **GROUP)
        assert await ask(here, "/search cellar", user="eve", **GROUP) == texts.NOTHING_FOUND
        assert session_id not in await ask(here, "/sessions", user="eve", **GROUP)
        for wanted in ("Cellar", session_id):
            assert await ask(here, f"/resume {wanted}", user="eve", **GROUP) == texts.NO_SUCH_SESSION.format(
                name=wanted
            )
        assert session_id in await ask(here, "/search cellar", user="bob", **GROUP)


@awaited
async def test_one_persons_conversation_is_never_resumed_where_all_take_part(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, SECRET, user="bob", **GROUP)
        await ask(here, "/title Cellar", user="bob", **GROUP)
        own = (await current(here, "den")).session_id
        await ask(here, "/new", user="bob", **GROUP)
        await ask(here, "hello", user="bob", **THREAD)
        shared = (await current(here, "den", "plans")).session_id
        for wanted in ("Cellar", own):
            assert await ask(here, f"/resume {wanted}", user="bob", **THREAD) == texts.NO_SUCH_SESSION.format(
                name=wanted
            )
        assert (await current(here, "den", "plans")).session_id == shared


@awaited
async def test_another_group_is_another_world(opened: Open) -> None:
    attic = {**THREAD, "chat": "attic"}
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, SECRET, user="bob", **THREAD)
        await ask(here, "/title Cellar", user="bob", **THREAD)
        session_id = (await current(here, "den", "plans")).session_id
        await ask(here, "hello", user="bob", **attic)
        assert await ask(here, "/search cellar", user="bob", **attic) == texts.NOTHING_FOUND
        assert session_id not in await ask(here, "/sessions", user="bob", **attic)
        for wanted in ("Cellar", session_id):
            assert await ask(here, f"/resume {wanted}", user="bob", **attic) == texts.NO_SUCH_SESSION.format(
                name=wanted
            )
        # Everybody in the chat may find what was said there.
        assert session_id in await ask(here, "/search cellar", user="eve", **THREAD)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "going on"])
@awaited
async def test_what_is_said_in_private_stays_there_though_it_began_in_a_group(opened: Open, ended: bool) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "we began here", user="bob", **GROUP)
        began = (await current(here, "den")).session_id
        if ended:
            await ask(here, "/new", user="bob", **GROUP)
        await ask(here, "hello", user="bob")
        assert "We are back in" in await ask(here, f"/resume {began}", user="bob")
        await ask(here, SECRET, user="bob")
        private = next(e for e in await here.store.list_sessions() if e.chat_type == "dm")
        assert await said(here, private.session_id) == [
            "we began here",
            "you said: we began here",
            SECRET,
            f"you said: {SECRET}",
        ]
        assert await ask(here, "/search cellar", user="bob", **GROUP) == texts.NOTHING_FOUND
        assert private.session_id not in await ask(here, "/sessions", user="bob", **GROUP)
        no = texts.NO_SUCH_SESSION.format(name=private.session_id)
        assert await ask(here, f"/resume {private.session_id}", user="bob", **GROUP) == no
        assert not any(SECRET in text for text in here.texts("den"))


@awaited
async def test_strangers_are_told_nothing_and_nothing_of_theirs_is_kept(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        for text in ("/sessions", "/search cellar", "/resume Cellar", "/help"):
            here.chat.say(text, user="zoe")
        await heard(here)
        (told,) = await here.shown(1, "dm-zoe")
        assert "pair approve" in told
        assert agent.turns == []
        assert len(await here.store.list_sessions(include_ended=True)) == 0

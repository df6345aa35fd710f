"""What people change or take back after they sent it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.gateway.talk import GROUP, ask, current, echo, eventually, fates, heard, running_with, said, turns_of
from tests.gateway.world import EVERYONE, Open, Running, awaited

from threadline.model.message import REMOVED
from threadline.store.engine.database import Tx, write
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted_codec import Happening, write_event
from threadline.texts import commands as texts


def happens(here: Running, kind: str, message: str, **more: Any) -> None:
    """An event as a platform may tell it: by whomever, with whatever key."""
    fields: dict[str, Any] = {"chat": "dm-ada", "user": "ada", "key": f"{kind}/{message}", "mention": True} | more
    here.chat.happen(write_event(Happening(kind=kind, message=message, at=FakeClock().now(), **fields)))


async def waiting_after(here: Running, agent: ScriptedAgent, text: str, **more: Any) -> str:
    """The id of a message that waits while a turn runs."""
    here.chat.say("first", **more)
    await turns_of(here, agent, 1)
    message = here.chat.say(text, **more)
    await heard(here)
    return message


@awaited
async def test_an_edit_of_what_waits_is_what_the_turn_sees(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = await waiting_after(here, agent, "helo")
        here.chat.edit(message, "hello")
        await heard(here)
        agent.answer("one")
        await turns_of(here, agent, 2)
        agent.answer("two")
        await here.shows("one", "two")
        assert agent.turns[1].text == "hello"
        assert (await here.transcript())[2:] == [("user", "hello"), ("assistant", "two")]
        assert (await fates(here))["edit: amended"] == "merged"


@awaited
async def test_each_edit_counts_once_and_the_last_one_holds(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = await waiting_after(here, agent, "a")
        here.chat.edit(message, "b", dedupe_key="edit-1")
        here.chat.edit(message, "c", dedupe_key="edit-2")
        await heard(here)
        here.chat.edit(message, "b", dedupe_key="edit-1")
        await heard(here)
        agent.answer("one")
        await turns_of(here, agent, 2)
        assert agent.turns[1].text == "c"
        agent.answer("two")
        await here.shows("one", "two")


@awaited
async def test_an_edit_of_what_is_being_answered_or_was_is_noted_only(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = here.chat.say("before")
        await turns_of(here, agent, 1)
        here.chat.edit(message, "during")
        await heard(here)
        agent.answer("one")
        await here.shows("one")
        here.chat.edit(message, "after")
        await heard(here)
        assert await here.transcript() == [("user", "before"), ("assistant", "one")]
        assert (await fates(here))["edit: noted"] == "dropped"
        assert len(agent.turns) == 1


@awaited
async def test_nobody_edits_what_another_wrote(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = await waiting_after(here, agent, "mine", user="bob", chat="den", chat_type="group", thread="t")
        happens(here, "edit", message, user="eve", chat="den", chat_type="group", thread="t", text="theirs")
        await heard(here)
        agent.answer("one")
        await turns_of(here, agent, 2)
        assert agent.turns[1].text == "[bob] mine"
        agent.answer("two")
        await here.shows("one", "two", chat="den")


@awaited
async def test_an_edit_makes_no_other_command_of_one_that_waits(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = await waiting_after(here, agent, "/title Named")
        here.chat.edit(message, "/undo")
        await heard(here)
        agent.answer("one")
        await here.shows("one", texts.TITLED.format(title="Named"))
        assert len(await here.transcript()) == 2


@awaited
async def test_a_deletion_of_what_waits_drops_it(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = await waiting_after(here, agent, "never mind")
        here.chat.delete(message)
        await heard(here)
        assert await ask(here, "/queue") == texts.QUEUE_EMPTY
        agent.answer("one")
        await here.chat.wait_for(lambda: "one" in here.texts())
        await here.gateway.idle()
        assert len(agent.turns) == 1
        assert await said(here, (await current(here)).session_id) == ["first", "one"]
        assert (await fates(here))["deleted by its sender"] == "dropped"


@awaited
async def test_a_deletion_of_what_was_answered_redacts_it_wherever_it_is_shown(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        message = here.chat.say("a secret word")
        await here.shown(1)
        old = (await current(here)).session_id
        await ask(here, "/fork")
        await ask(here, "more")
        fork = (await current(here)).session_id
        await ask(here, "/new")
        here.chat.delete(message)
        here.chat.delete(message)
        await heard(here)
        assert (await said(here, old))[0] == REMOVED
        assert (await said(here, fork))[0] == REMOVED
        assert (await said(here, fork))[2] == "more"
        hits = await here.store.search("secret", role="user")
        assert len(hits) == 0
        assert {"delete: redacted": "merged", "delete: noted": "dropped"}.items() <= (await fates(here)).items()


@pytest.mark.parametrize("user", ["", "bob"], ids=["nobody", "its sender"])
@awaited
async def test_a_deletion_finds_the_message_of_its_chat_alone_whoever_it_comes_from(opened: Open, user: str) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        # Platforms count messages for each chat: the same person has a message 5 in several.
        for place in ({"chat": "dm-bob"}, GROUP, {**GROUP, "chat": "other"}):
            here.chat.say("number five", user="bob", message_id="5", **place)
            await here.shown(1, str(place["chat"]))
        happens(here, "delete", "5", user=user, **GROUP)
        await heard(here)
        shown = {
            str(entry.origin.chat_id): (await said(here, entry.session_id))[0]
            for entry in await here.store.list_sessions()
        }
        assert shown == {"dm-bob": "number five", "den": REMOVED, "other": "number five"}


@awaited
async def test_a_deletion_of_what_is_being_answered_is_carried_out_after_the_answer(location: str) -> None:
    agent, clock = ScriptedAgent(), FakeClock()
    async with running_with(location, agent, store={"clock": clock}, lease_seconds=1.2) as here:
        message = here.chat.say("a secret")
        await turns_of(here, agent, 1)
        here.chat.delete(message)
        await heard(here)
        agent.answer("done")
        await here.shows("done")
        clock.advance(timedelta(seconds=10))
        session_id = (await current(here)).session_id

        async def is_redacted() -> bool:
            return await said(here, session_id) == [REMOVED, "done"]

        await eventually(is_redacted)
        assert (await fates(here))["delete: redacted"] == "merged"


@awaited
async def test_a_deletion_of_what_nobody_knows_leaves_no_trace(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        happens(here, "delete", "100%_of\\it")
        await heard(here)
        assert len(await here.store.maintenance.list_messages()) == 0
        assert len(await here.store.list_sessions()) == 0


@awaited
async def test_what_is_deleted_or_edited_unheard_waits_for_no_writer(opened: Open) -> None:
    """In a busy group most of it is: the gateway's own work goes before."""
    written = threading.Event()

    def slow_write(_tx: Tx) -> None:
        written.wait(20)

    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "number five", user="bob", message_id="5", mention=True, **GROUP)
        await here.gateway.idle()
        writing = asyncio.ensure_future(here.store.perform_async(write(slow_write)))
        await asyncio.sleep(0)
        try:
            for kind in ("delete", "edit"):
                happens(here, kind, "9", user="bob", **GROUP)
            await heard(here)
        finally:
            written.set()
            await writing
        assert len(await here.store.maintenance.list_messages()) == 1


@awaited
async def test_nothing_is_kept_of_what_strangers_delete_or_edit_where_nothing_of_it_was_heard(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        for kind in ("delete", "edit"):
            happens(here, kind, "8", user="mallory", **GROUP)
        await heard(here)
        assert len(await here.store.maintenance.list_messages()) == 0
        await ask(here, "number five", user="bob", message_id="5", mention=True, **GROUP)
        for kind in ("delete", "edit"):
            happens(here, kind, "9", user="mallory", **GROUP)
        await heard(here)
        assert [line.person for line in await here.store.maintenance.list_messages()] == ["scripted:bob"]
        happens(here, "delete", "5", user="bob", **GROUP)
        await heard(here)
        assert (await fates(here))["delete: redacted"] == "merged"


@awaited
async def test_a_deletion_that_is_told_again_is_known(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        message = await waiting_after(here, agent, "never mind", user="bob", **GROUP)
        for _ in range(2):
            happens(here, "delete", message, user="bob", **GROUP)
            await heard(here)
        assert (await fates(here))["deleted by its sender"] == "dropped"
        notes = [line.note for line in await here.store.maintenance.list_messages()]
        assert notes.count("delete: dropped") == 1
        agent.answer("one")
        await here.shows("one", chat="den")


@awaited
async def test_a_strangers_deletion_redacts_in_a_group_where_strangers_are_not_answered(opened: Open) -> None:
    rules = msgspec.structs.replace(EVERYONE, answer_groups=frozenset())
    async with opened(ScriptedAgent(echo), rules=rules) as here:
        await ask(here, "number five", user="bob", message_id="5", mention=True, **GROUP)
        happens(here, "delete", "5", user="moderator", **GROUP)
        await heard(here)
        assert (await said(here, (await current(here, "den")).session_id))[0] == REMOVED
        assert (await fates(here))["delete: redacted"] == "merged"

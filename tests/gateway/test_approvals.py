"""Approvals: only by someone whose role allows the tool, for exactly one call, once, within a day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.gateway.talk import GROUP, ask, asked, current, eventually, heard, running_with, turns_of
from tests.gateway.world import Open, awaited

from threadline.model.access import Role
from threadline.ports.agent import AskPermission, Event, Text, ToolCall, ToolResult, Turn
from threadline.ports.platform import Gone
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import commands as commands_texts
from threadline.texts import gateway as texts

REMOVE = AskPermission(ask_id="c1", tool="shell", arguments='{"command": "rm notes"}', reason="They are old.")


async def careful(turn: Turn) -> AsyncIterator[Event]:
    """Says something, asks, and does as it is told."""
    answer = turn.permitted(REMOVE)
    if answer is None:
        yield Text("Let me see.")
        yield REMOVE
        return
    if answer:
        yield ToolCall("c1", "shell", REMOVE.arguments)
        yield ToolResult("c1", "gone")
    yield Text("Done." if answer else "Then I leave them.")


def asking(least: Role) -> ScriptedAgent:
    """An agent that asks for something that such a role may allow."""
    wanted = AskPermission(ask_id="1", tool="files", arguments="{}", least=least)

    async def script(turn: Turn) -> AsyncIterator[Event]:
        answer = turn.permitted(wanted)
        if answer is None:
            yield wanted
        else:
            yield Text(f"allowed: {answer}")

    return ScriptedAgent(script)


@awaited
async def test_a_turn_that_asks_goes_on_when_it_is_allowed(opened: Open) -> None:
    agent = ScriptedAgent(careful, replay="until_tool")
    async with opened(agent) as here:
        here.chat.say("tidy up")
        await asked(here)
        assert here.gateway.turns.busy == 0
        shown = here.texts()
        assert shown[0] == "Let me see."
        assert "shell" in shown[1]
        assert REMOVE.arguments in shown[1]
        assert "They are old." in shown[1]
        here.chat.say("/approve")
        await here.chat.wait_for(lambda: "Done." in here.texts())
        assert set(here.texts()[2:]) == {commands_texts.APPROVED.format(tool="shell"), "Done."}
        assert await here.transcript() == [
            ("user", "tidy up"),
            ("assistant", "Let me see."),
            ("tool", "gone"),
            ("assistant", "Done."),
        ]
        assert agent.turns[1].so_far[:1] == (Text("Let me see."),)


@awaited
async def test_a_turn_that_asks_goes_on_when_it_is_denied(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        here.chat.say(f"/deny {code.lower()}")
        await here.chat.wait_for(lambda: "Then I leave them." in here.texts())
        assert commands_texts.DENIED.format(tool="shell") in here.texts()


@awaited
async def test_a_button_answers_too(opened: Open) -> None:
    async with opened(ScriptedAgent(careful), chat=ScriptedChat(capabilities=ALL_CAPABILITIES)) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        question = here.chat.messages("dm-ada")[-1]
        assert [button.label for button in question.buttons] == [texts.ASK_YES, texts.ASK_NO]
        here.chat.press(question.message_id, f"/approve {code}")
        await here.chat.wait_for(lambda: "Done." in here.texts())


@awaited
async def test_an_answer_counts_once(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        here.chat.say(f"/approve {code}")
        await here.chat.wait_for(lambda: "Done." in here.texts())
        assert await ask(here, f"/deny {code}") == commands_texts.NOTHING_ASKED
        assert await ask(here, "/approve") == commands_texts.NOTHING_ASKED


@awaited
async def test_an_answer_holds_for_exactly_the_call_that_was_shown(opened: Open) -> None:
    other = AskPermission(ask_id="c1", tool="shell", arguments='{"command": "rm -rf /"}')

    async def sly(turn: Turn) -> AsyncIterator[Event]:
        if turn.permitted(REMOVE) is None and turn.permitted(other) is None:
            yield REMOVE if not turn.so_far else other
        else:
            yield Text(f"{turn.permitted(REMOVE)} {turn.permitted(other)}")

    async with opened(ScriptedAgent(sly)) as here:
        here.chat.say("go")
        code = await asked(here)
        here.chat.say(f"/approve {code}")
        await here.chat.wait_for(lambda: "True None" in here.texts())


@awaited
async def test_an_answer_to_an_older_question_does_not_count(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        wrong = "ABCD" if code != "ABCD" else "ABCE"
        assert await ask(here, f"/approve {wrong}") == commands_texts.ANOTHER_QUESTION.format(code=code)
        assert "Done." not in here.texts()


@pytest.mark.parametrize("least", ["guest", "trusted", "owner"])
@pytest.mark.parametrize(("user", "role"), [("bob", "guest"), ("tim", "trusted"), ("ada", "owner")])
@awaited
async def test_only_who_may_use_the_tool_may_allow_it(opened: Open, least: Role, user: str, role: Role) -> None:
    ranks = ["guest", "trusted", "owner"]
    async with opened(asking(least)) as here:
        here.chat.say("go", user=user)
        code = await asked(here, f"dm-{user}")
        answer = await ask(here, f"/approve {code}", user=user)
        if ranks.index(role) >= ranks.index(least):
            assert answer in (commands_texts.APPROVED.format(tool="files"), "allowed: True")
        else:
            assert answer == commands_texts.NOT_YOURS_TO_ALLOW.format(
                tool="files", whom=commands_texts.ROLE_MEANS[least]
            )


@awaited
async def test_in_a_group_the_owner_allows_what_a_guest_asked_for(opened: Open) -> None:
    async with opened(asking("owner")) as here:
        here.chat.say("go", user="bob", **GROUP)
        code = await asked(here, "den")
        refused = await ask(here, f"/approve {code}", user="bob", **GROUP)
        assert refused == commands_texts.NOT_YOURS_TO_ALLOW.format(
            tool="files", whom=commands_texts.ROLE_MEANS["owner"]
        )
        # A conversation of her own there, but the question stands before her eyes.
        here.chat.say(f"/approve {code}", user="ada", **GROUP)
        await here.chat.wait_for(lambda: "allowed: True" in here.texts("den"))


@awaited
async def test_a_question_in_one_chat_is_not_answered_from_another(opened: Open) -> None:
    async with opened(asking("guest")) as here:
        here.chat.say("go", user="bob")
        code = await asked(here, "dm-bob")
        assert await ask(here, f"/approve {code}", user="eve") == commands_texts.NOTHING_ASKED


@awaited
async def test_who_talks_on_is_told_what_keeps_the_answer(opened: Open) -> None:
    agent = ScriptedAgent(careful)
    async with opened(agent) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        assert await ask(here, "and buy bread") == texts.ASK_FIRST.format(code=code)
        here.chat.say(f"/deny {code}")
        await turns_of(here, agent, 3)
        assert agent.turns[-1].text == "and buy bread"


@awaited
async def test_stopping_gives_the_question_up(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        await asked(here)
        here.chat.say("/stop")
        await here.chat.wait_for(lambda: texts.STOPPED in here.texts())
        assert await ask(here, "/approve") == commands_texts.NOTHING_ASKED
        assert await here.transcript() == [("user", "tidy up"), ("assistant", "Let me see.")]


@awaited
async def test_a_fresh_start_gives_the_question_up(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        await asked(here)
        here.chat.say("/new")
        await here.chat.wait_for(lambda: commands_texts.FRESH in here.texts())
        assert await ask(here, "/approve") == commands_texts.NOTHING_ASKED


@awaited
async def test_the_next_message_interrupts_a_question_where_messages_do(opened: Open) -> None:
    agent = ScriptedAgent(careful)
    async with opened(agent, when_busy="interrupt") as here:
        here.chat.say("tidy up")
        await asked(here)
        here.chat.say("never mind")
        await turns_of(here, agent, 2)
        assert agent.turns[-1].text == "never mind"
        assert texts.INTERRUPTED in here.texts()


@awaited
async def test_a_question_that_nobody_answers_ends_after_a_day(location: str) -> None:
    clock = FakeClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    async with running_with(location, ScriptedAgent(careful), store={"clock": clock}, lease_seconds=0.6) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        clock.advance(timedelta(days=1, seconds=1))
        assert await ask(here, f"/approve {code}") in (commands_texts.NOTHING_ASKED, texts.ASK_EXPIRED)
        await here.chat.wait_for(lambda: texts.ASK_EXPIRED in here.texts())


@awaited
async def test_a_question_outlives_the_gateway(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        code = await asked(here)
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say(f"/approve {code}", message_id="another")
        await here.shows(commands_texts.APPROVED.format(tool="shell"), "Done.")
        assert ("assistant", "Let me see.") in await here.transcript()


@awaited
async def test_a_deleted_session_takes_its_question_along(opened: Open) -> None:
    async with opened(ScriptedAgent(careful)) as here:
        here.chat.say("tidy up")
        await asked(here)
        (entry,) = await here.store.list_sessions()
        await here.store.delete_session(entry.session_id)
        assert await ask(here, "/approve") == commands_texts.NOTHING_ASKED
        assert [line.fate for line in await here.store.maintenance.list_messages()][-1] == "dropped"


@awaited
async def test_a_question_that_nobody_could_read_is_a_fault_of_the_agent(opened: Open) -> None:
    async def verbose(_turn: Turn) -> AsyncIterator[Event]:
        yield AskPermission(ask_id="1", tool="shell", arguments="x" * 30_000)

    async with opened(ScriptedAgent(verbose)) as here:
        assert await ask(here, "go") == texts.AGENT_FAULT.format(error="ValueError")


@awaited
async def test_a_long_question_is_shown_to_its_last_letter(opened: Open) -> None:
    arguments = "".join(f"line {number} ```\n" for number in range(1, 700))
    wanted = AskPermission(ask_id="1", tool="shell", arguments=arguments)

    async def long(turn: Turn) -> AsyncIterator[Event]:
        yield Text("yes") if turn.permitted(wanted) else wanted

    async with opened(ScriptedAgent(long)) as here:
        here.chat.say("go")
        code = await asked(here)
        shown = "\n".join(here.texts())
        assert all(f"line {number} " in shown for number in range(1, 700))
        assert len(here.texts()) > 1
        here.chat.say(f"/approve {code}")
        await here.chat.wait_for(lambda: "yes" in here.texts())


@awaited
async def test_messages_steer_a_turn_that_asks_for_more(opened: Open) -> None:
    taken: list[str] = []

    async def steered(turn: Turn) -> AsyncIterator[Event]:
        yield Text("working")
        more: list[str] = []

        async def has_more() -> bool:
            more.extend(spoken.text for spoken in await turn.more())
            return bool(more) or turn.text != "begin"

        await eventually(has_more)
        taken.extend(more)
        yield Text(f" on {turn.text}{''.join(f' and {text}' for text in more)}")

    agent = ScriptedAgent(steered)
    async with opened(agent, when_busy="steer") as here:
        here.chat.say("begin")
        await turns_of(here, agent, 1)
        here.chat.say("faster")
        await here.shows("working on begin and faster")
        assert taken == ["faster"]
        assert await here.transcript() == [
            ("user", "begin"),
            ("user", "faster"),
            ("assistant", "working on begin and faster"),
        ]
        assert [line.fate for line in await here.store.maintenance.list_messages()] == ["answered", "merged"]


@awaited
async def test_what_no_turn_takes_in_waits_for_the_next(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, when_busy="steer") as here:
        here.chat.say("one")
        await turns_of(here, agent, 1)
        here.chat.say("two")
        await heard(here)
        agent.answer("first")
        await turns_of(here, agent, 2)
        agent.answer("second")
        await here.shows("first", "second")


@awaited
async def test_messages_do_not_steer_where_they_are_collected(opened: Open) -> None:
    offered: list[int] = []

    async def curious(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "one":
            here.chat.say("two")
            await heard(here)
            offered.append(len(await turn.more()))
        yield Text(turn.text)

    async with opened(ScriptedAgent(curious)) as here:
        here.chat.say("one")
        await here.shows("one", "two")
        assert offered == [0]


@awaited
async def test_words_that_count_less_do_not_steer(opened: Open) -> None:
    thread = {**GROUP, "thread": "plans"}
    agent = ScriptedAgent()
    async with opened(agent, when_busy="steer") as here:
        here.chat.say("one", user="ada", **thread)
        await turns_of(here, agent, 1)
        here.chat.say("two", user="bob", **thread)
        await heard(here)
        assert await agent.turns[0].more() == ()
        here.chat.say("three", user="ada", **thread)
        await heard(here)
        # What stands behind it keeps its place.
        assert await agent.turns[0].more() == ()
        agent.answer("first")
        await turns_of(here, agent, 2)
        assert agent.turns[1].role == "guest"
        agent.answer("second")


@awaited
async def test_what_was_taken_in_by_a_call_that_was_cancelled_waits_for_the_next_turn(opened: Open) -> None:
    async def hasty(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "begin":
            here.chat.say("faster")
            await heard(here)
            taking = asyncio.ensure_future(turn.more())
            await asyncio.sleep(0)
            taking.cancel()
        yield Text(f"answer to {turn.text}")

    async with opened(ScriptedAgent(hasty), when_busy="steer") as here:
        here.chat.say("begin")
        await here.shows("answer to begin", "answer to faster")
        assert {line.fate for line in await here.store.maintenance.list_messages()} == {"answered"}


@awaited
async def test_commands_that_answer_again_are_not_steered(opened: Open) -> None:
    taken: list[int] = []

    async def again(turn: Turn) -> AsyncIterator[Event]:
        if taken or turn.text != "one":
            yield Text(f"heard {turn.text}")
            return
        if agent.turns[1:]:
            here.chat.say("two")
            await heard(here)
            taken.append(len(await turn.more()))
        yield Text("one")

    agent = ScriptedAgent(again)
    async with opened(agent, when_busy="steer") as here:
        assert await ask(here, "one") == "one"
        here.chat.say("/retry")
        await here.chat.wait_for(lambda: "heard two" in here.texts())
        assert taken == [0]
        assert ("user", "two") in await here.transcript()


@awaited
async def test_a_turn_that_somebody_stopped_elsewhere_asks_nobody(opened: Open) -> None:
    async def late(turn: Turn) -> AsyncIterator[Event]:
        # As another gateway does it: this one has not heard of it yet.
        await here.store.turns.request_stop(turn.session.session_id, "stop")
        yield Text("Let me see.")
        yield REMOVE

    async with opened(ScriptedAgent(late)) as here:
        here.chat.say("tidy up")
        await here.chat.wait_for(lambda: any(texts.STOPPED in text for text in here.texts()))
        assert await here.store.approvals.find_open((await current(here)).session_id) is None
        assert not any("/approve" in text for text in here.texts())
        assert "Let me see." in here.texts()[-1]


@awaited
async def test_what_was_allowed_can_be_stopped_before_it_is_done(opened: Open) -> None:
    busy = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "keep busy":
            await busy.wait()
            yield Text("done")
            return
        async for event in careful(turn):
            yield event

    agent = ScriptedAgent(script)
    async with opened(agent, turns_at_once=1) as here:
        here.chat.say("tidy up")
        code = await asked(here)
        here.chat.say("keep busy", user="bob")
        await turns_of(here, agent, 2)
        assert await ask(here, f"/approve {code}") == commands_texts.APPROVED.format(tool="shell")
        assert await ask(here, "/stop") == commands_texts.STOPPING
        busy.set()
        await here.chat.wait_for(lambda: texts.STOPPED in here.texts())
        assert "Done." not in here.texts()


@awaited
async def test_nobody_allows_what_was_never_shown(opened: Open) -> None:
    async with opened(asking("guest")) as here:
        here.chat.fail_next(Gone("no such chat"))
        here.chat.say("go", user="bob")

        async def is_parked() -> bool:
            return bool(await here.store.outbox.list_page("parked"))

        await eventually(is_parked)
        (entry,) = await here.store.list_sessions()
        asked_for = await here.store.approvals.find_open(entry.session_id)
        assert asked_for is not None
        told = commands_texts.NOT_SHOWN_YET.format(code=asked_for.code)
        assert await ask(here, f"/approve {asked_for.code}", user="bob") == told
        assert await ask(here, "/approve", user="bob") == told
        assert await ask(here, f"/deny {asked_for.code}", user="bob") == commands_texts.DENIED.format(tool="files")


@awaited
async def test_a_question_reads_as_what_it_is(opened: Open) -> None:
    turned = AskPermission(ask_id="1", tool="shell", arguments='{"command": "ls \u202e fdp.exe"}', reason="see\u200b")

    async def sly(_turn: Turn) -> AsyncIterator[Event]:
        yield turned

    async with opened(ScriptedAgent(sly)) as here:
        here.chat.say("go")
        await asked(here)
        assert "ls \\u202e fdp.exe" in here.texts()[0]
        assert "\u200b" not in here.texts()[0]


@awaited
async def test_one_persons_backlog_keeps_nobody_else_waiting(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent, turns_per_person=1) as here:
        for number in range(20):
            here.chat.say("work", user="bob", thread=f"t{number}")
        await turns_of(here, agent, 1)
        await heard(here)
        here.chat.say("hello", user="eve")
        await turns_of(here, agent, 2)
        assert agent.turns[1].source.user_id == "eve"

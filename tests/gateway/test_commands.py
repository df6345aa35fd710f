"""Each command does in the chat what its row of the table says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ParamSpec

import pytest
from tests.gateway.talk import GROUP, ChoosingAgent, ask, current, echo, fates, heard, said, turns_of
from tests.gateway.world import Open, awaited

from threadline import SessionStore
from threadline.gateway.commands import TABLE
from threadline.model.access import COMMANDS
from threadline.ports.agent import AgentError, AskPermission, Event, Text, Turn, UsageOf
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import commands as texts

P = ParamSpec("P")

TESTED: set[str] = set()


def of(*names: str) -> Callable[[Callable[P, Coroutine[Any, Any, None]]], Callable[P, None]]:
    """A test of these commands."""
    TESTED.update(names)
    return awaited


def test_every_command_has_a_test() -> None:
    assert set(TABLE) == TESTED


def test_every_command_asks_for_the_role_that_the_rules_say() -> None:
    assert {f"/{name}": command.least for name, command in TABLE.items()} == COMMANDS


@of("help")
async def test_help_lists_what_the_sender_may_do(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        listed = await ask(here, "/help")
        assert all(command.usage in listed and command.help in listed for command in TABLE.values())
        listed = await ask(here, "/help", user="bob")
        assert "/undo" in listed


@of("start")
async def test_start_says_hello_and_bothers_no_agent(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent, welcome=True) as here:
        assert await ask(here, "/start from-a-link") == texts.START
        assert await ask(here, "hello") == "you said: hello"
        assert here.texts() == [texts.START, "you said: hello"]
        assert len(agent.turns) == 1


@of("stop")
async def test_stop_ends_the_answer_and_keeps_what_was_said(opened: Open) -> None:
    async def endless(turn: Turn) -> AsyncIterator[Event]:
        yield Text("so far")
        await turn.cancelled.wait()

    agent = ScriptedAgent(endless)
    async with opened(agent) as here:
        assert await ask(here, "/stop") == texts.NOTHING_RUNS
        here.chat.say("go")
        await turns_of(here, agent, 1)
        here.chat.say("/stop")
        await here.chat.wait_for(lambda: {texts.STOPPING, "so far\n\n(stopped)"} <= set(here.texts()))
        assert await here.transcript() == [("user", "go"), ("assistant", "so far")]


@of("approve", "deny")
async def test_approve_and_deny_answer_what_was_asked(opened: Open) -> None:
    wanted = AskPermission(ask_id="1", tool="shell")

    async def careful(turn: Turn) -> AsyncIterator[Event]:
        answer = turn.permitted(wanted)
        yield wanted if answer is None else Text(f"{turn.text}: {answer}")

    async with opened(ScriptedAgent(careful)) as here:
        assert await ask(here, "/approve") == texts.NOTHING_ASKED
        assert await ask(here, "/approve of this") == texts.USE["approve"]
        for said_, answer in (("/approve", "one: True"), ("/deny", "one: False")):
            assert "shell" in await ask(here, "one")
            await here.gateway.idle()
            here.chat.say(said_)
            await here.chat.wait_for(lambda answer=answer: answer in here.texts())  # type: ignore[misc]


@of("queue")
async def test_queue_shows_what_waits_and_drops_from_it(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        assert await ask(here, "/queue") == texts.QUEUE_EMPTY
        here.chat.say("one")
        await turns_of(here, agent, 1)
        here.chat.say("two")
        here.chat.say("three")
        await heard(here)
        assert (await ask(here, "/queue")).splitlines() == ["2 waiting:", "1. two", "2. three"]
        assert await ask(here, "/queue drop 3") == texts.NO_SUCH_PLACE.format(place=3)
        assert await ask(here, "/queue drop 1") == texts.DROPPED.format(place=1, text="two")
        assert await ask(here, "/queue drop first") == texts.USE["queue"]
        agent.answer("first")
        await turns_of(here, agent, 2)
        agent.answer("second")
        await here.chat.wait_for(lambda: here.texts()[-2:] == ["first", "second"])
        assert agent.turns[1].text == "three"
        assert (await fates(here))["dropped by a command"] == "dropped"


@of("status")
async def test_status_tells_of_the_conversation_while_a_turn_runs(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("one")
        await turns_of(here, agent, 1)
        here.chat.say("two")
        await heard(here)
        status = await ask(here, "/status")
        entry = await current(here)
        assert entry.session_id in status
        assert "Waiting: 1" in status
        assert texts.DOING in status
        agent.answer("first")
        await turns_of(here, agent, 2)
        agent.answer("second")
        await here.chat.wait_for(lambda: "second" in here.texts())
        status = await ask(here, "/status")
        assert "Messages: 4" in status
        assert texts.DOING_NOTHING in status


@of("whoami")
async def test_whoami_tells_person_and_role(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert "scripted:ada, and I know you as owner" in await ask(here, "/whoami")
        assert "scripted:bob, and I know you as guest" in await ask(here, "/whoami", user="bob")


@of("usage")
async def test_usage_tells_what_the_conversation_cost(opened: Open) -> None:
    async def costly(_turn: Turn) -> AsyncIterator[Event]:
        yield Text("done")
        yield UsageOf(input_tokens=1200, output_tokens=34, cost_micros=12_300, cost_status="estimated")

    async with opened(ScriptedAgent(costly)) as here:
        assert texts.COST_UNKNOWN in await ask(here, "/usage")
        await ask(here, "work")
        await here.gateway.idle()
        used = await ask(here, "/usage")
        assert used == "1,234 tokens in this conversation: 1,200 read, 34 written. That was about $0.0123."


@of("sessions")
async def test_sessions_lists_ones_own(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "apples")
        await ask(here, "/title Fruit")
        await ask(here, "/new")
        here.chat.say("from somebody else", user="bob")
        await here.shown(1, "dm-bob")
        head, new, old = (await ask(here, "/sessions")).splitlines()
        assert head == texts.SESSIONS
        assert texts.SESSION_CURRENT in new
        assert "Fruit, 2 messages" in old


@of("search")
async def test_search_finds_what_was_said(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "/search") == texts.USE["search"]
        await ask(here, "the quick fox")
        entry = await current(here)
        await ask(here, "/new")
        found = await ask(here, "/search quick")
        assert entry.session_id in found
        assert "the **quick** fox" in found
        assert await ask(here, "/search slow") == texts.NOTHING_FOUND


@of("title")
async def test_title_names_the_conversation_and_takes_its_name_away(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "/title Summer  plans") == texts.TITLED.format(title="Summer plans")
        assert (await current(here)).title == "Summer plans"
        assert "200 is the most" in await ask(here, "/title " + "x" * 300)
        assert (await current(here)).title == "Summer plans"
        assert await ask(here, "/title") == texts.TITLE_GONE
        assert (await current(here)).title is None


@of("model")
async def test_model_tells_and_chooses_what_answers(opened: Open) -> None:
    async with opened(ChoosingAgent(echo)) as here:
        assert await ask(here, "/model") == texts.MODEL_IS_OWN
        assert await ask(here, "/model one two") == texts.USE["model"]
        assert await ask(here, "/model swift") == texts.MODEL_CHOSEN.format(model="own:swift")
        assert await ask(here, "/model") == texts.MODEL_IS.format(model="own:swift")
        assert (await current(here)).chosen_model == "own:swift"
        assert "Model: own:swift" in await ask(here, "/status")
        assert await ask(here, "/model default") == texts.MODEL_OWN_AGAIN
        assert (await current(here)).chosen_model is None


@of("timezone")
async def test_timezone_tells_and_sets_where_somebody_lives(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert "You have named no time zone" in await ask(here, "/timezone")
        assert "counted in Asia/Tokyo" in await ask(here, "/timezone asia/tokyo")
        assert "counted in Asia/Tokyo" in await ask(here, "/timezone")
        assert "Did you mean /timezone Europe/Berlin?" in await ask(here, "/timezone Europe/Berln")
        assert (await here.store.preferences.timezone_of("scripted:ada")).name == "Asia/Tokyo"
        assert "counts for you as for all" in await ask(here, "/timezone default")
        assert not (await here.store.preferences.timezone_of("scripted:ada")).is_own


@of("sethome")
async def test_sethome_makes_this_chat_the_home_and_takes_it_back(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "/sethome off") == texts.NO_HOME_SET.format(platform="scripted")
        assert await ask(here, "/sethome") == texts.HOME_SET.format(platform="scripted", name="DM with ada")
        assert [home.channel.chat_id for home in await here.store.preferences.list_home_channels()] == ["dm-ada"]
        assert await ask(here, "/sethome OFF") == texts.HOME_GONE.format(platform="scripted")
        assert await ask(here, "/sethome there") == texts.USE["sethome"]
        assert await here.store.preferences.list_home_channels() == []


@of("handoff")
async def test_handoff_goes_on_in_another_chat(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "earlier")
        old = (await current(here)).session_id
        await ask(here, "one", **GROUP)
        assert await ask(here, "/handoff", **GROUP) == texts.USE["handoff"]
        there = texts.HANDED_OVER.format(place="DM with ada (scripted)")
        assert await ask(here, "/handoff scripted:dm-ada", **GROUP) == there
        told = texts.HANDED_HERE.format(title=texts.HANDED_UNNAMED, place="group: den (scripted)")
        await here.shows("you said: earlier", told)
        assert await ask(here, "two") == "you said: two"
        new = (await current(here)).session_id
        assert await said(here, new) == ["one", "you said: one", "two", "you said: two"]
        assert (await here.store.get_session(old)).end_reason == "session_switch"


@of("fork")
async def test_fork_goes_on_in_a_copy(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "one")
        old = (await current(here)).session_id
        assert await ask(here, "/fork") == texts.FORKED.format(old=old)
        await ask(here, "two")
        new = (await current(here)).session_id
        assert new != old
        assert await said(here, new) == ["one", "you said: one", "two", "you said: two"]
        assert await said(here, old) == ["one", "you said: one"]
        await ask(here, f"/resume {old}")
        assert (await current(here)).session_id == old


@of("undo", "redo")
async def test_undo_takes_back_and_redo_brings_again(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "/undo") == texts.NOTHING_TO_UNDO
        for text in ("one", "two", "three"):
            await ask(here, text)
        session_id = (await current(here)).session_id
        assert await ask(here, "/undo") == texts.UNDONE
        assert (await said(here, session_id))[-1] == "you said: two"
        assert await ask(here, "/undo 2") == texts.UNDONE_SOME.format(count=2)
        assert await said(here, session_id) == []
        assert await ask(here, "/redo") == texts.REDONE
        assert (await said(here, session_id))[-1] == "you said: two"
        await ask(here, "/redo")
        assert (await said(here, session_id))[-1] == "you said: three"
        assert await ask(here, "/redo") == texts.NOTHING_TO_REDO


@awaited
async def test_retry_gives_the_agent_the_text_of_a_message_of_blocks(opened: Open, location: str) -> None:
    blocks = [{"type": "text", "text": "look"}, {"type": "image", "url": "x"}, {"type": "text", "text": "closely"}]

    def say_elsewhere(session_id: str) -> None:
        with SessionStore.open(location) as store:
            store.append_to_transcript(session_id, {"role": "user", "content": blocks})

    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "hello")
        await asyncio.to_thread(say_elsewhere, (await current(here)).session_id)
        await ask(here, "/retry")
        assert agent.turns[-1].text == "look\nclosely"


@of("retry")
async def test_retry_answers_the_last_message_again(opened: Open) -> None:
    answers = iter(["", "first", "second"])

    async def learns(_turn: Turn) -> AsyncIterator[Event]:
        answer = next(answers)
        if not answer:
            raise AgentError("The model is away.")
        yield Text(answer)

    agent = ScriptedAgent(learns)
    async with opened(agent) as here:
        assert await ask(here, "/retry") == texts.NOTHING_TO_RETRY
        assert "The model is away." in await ask(here, "question")
        assert await ask(here, "/retry") == "first"
        assert await ask(here, "/retry") == "second"
        assert await here.transcript() == [("user", "question"), ("assistant", "second")]
        assert [(turn.text, list(turn.history)) for turn in agent.turns] == [("question", [])] * 3


@pytest.mark.parametrize("command", ["/new", "/reset"])
@of("new", "reset")
async def test_new_starts_afresh_and_keeps_the_old_one(opened: Open, command: str) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        await ask(here, "one")
        old = await current(here)
        assert await ask(here, command) == texts.FRESH
        await ask(here, "two")
        assert await here.transcript() == [("user", "two"), ("assistant", "you said: two")]
        assert list(agent.turns[1].history) == []
        assert await said(here, old.session_id) == ["one", "you said: one"]
        assert (await here.store.get_session(old.session_id)).end_reason == "session_reset"


@of("resume")
async def test_resume_goes_back_by_nothing_by_title_and_by_id(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "/resume") == texts.NOTHING_TO_RESUME
        await ask(here, "one")
        await ask(here, "/title First try")
        first = (await current(here)).session_id
        await ask(here, "/new")
        await ask(here, "two")
        second = (await current(here)).session_id
        # An empty one does not stand in the way.
        await ask(here, "/new")
        await ask(here, "/new")
        assert await ask(here, "/resume") == texts.RESUMED.format(title=second)
        assert await ask(here, "/resume FIRST  try") == texts.RESUMED.format(title="First try")
        await ask(here, "three")
        assert await said(here, first) == ["one", "you said: one", "three", "you said: three"]
        assert await ask(here, f"/resume {second}") == texts.RESUMED.format(title=second)
        assert (await current(here)).session_id == second
        assert await ask(here, "/resume nowhere") == texts.NO_SUCH_SESSION.format(name="nowhere")
        assert (await current(here)).session_id == second


@awaited
async def test_a_command_may_name_its_bot(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        assert await ask(here, "/TITLE@threadline_bot Named") == texts.TITLED.format(title="Named")


@awaited
async def test_forwarded_edited_and_quoted_commands_are_just_words(opened: Open) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        assert await ask(here, "/new", forward=True) == "you said: /new"
        session_id = (await current(here)).session_id
        assert await ask(here, "> /new") == "you said: > /new"
        message = here.chat.say("plain")
        await here.chat.wait_for(lambda: "you said: plain" in here.texts())
        here.chat.edit(message, "/new")
        await heard(here)
        await ask(here, "/whoami")
        assert (await current(here)).session_id == session_id
        assert texts.FRESH not in here.texts()


@pytest.mark.parametrize(
    ("typed", "near"),
    [("/statsu", "status"), ("/sesions", "sessions"), ("/xyzzy", None), ("/modle", "model")],
)
@awaited
async def test_an_unknown_command_gets_a_hint(opened: Open, typed: str, near: str | None) -> None:
    agent = ScriptedAgent(echo)
    async with opened(agent) as here:
        answer = await ask(here, typed)
        assert (f"Did you mean /{near}?" in answer) is (near is not None)
        assert "/help" in answer
        assert agent.turns == []


@awaited
async def test_what_may_not_stand_behind_a_command_is_explained(opened: Open) -> None:
    async with opened(ScriptedAgent(echo)) as here:
        await ask(here, "one")
        session_id = (await current(here)).session_id
        for text in ("/new please", "/fork it", "/redo 2", "/retry now"):
            assert await ask(here, text) == texts.USE_ALONE.format(usage=text.split()[0])
        for text in ("/undo all", "/undo 0", "/undo -1"):
            assert await ask(here, text) == texts.USE["undo"]
        assert await said(here, session_id) == ["one", "you said: one"]
        assert (await current(here)).session_id == session_id


@awaited
async def test_session_commands_take_their_turn_in_order(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("one")
        await turns_of(here, agent, 1)
        here.chat.say("/undo")
        here.chat.say("two")
        await heard(here)
        # A command that acts at once overtakes them.
        assert "Waiting: 2" in await ask(here, "/status")
        agent.answer("first")
        await turns_of(here, agent, 2)
        assert agent.turns[1].text == "two"
        assert list(agent.turns[1].history) == []
        agent.answer("second")
        await here.chat.wait_for(lambda: here.texts()[1:] == ["first", texts.UNDONE, "second"])
        assert await here.transcript() == [("user", "two"), ("assistant", "second")]


@pytest.mark.parametrize("command", ["/new", "/reset", "/resume"])
@awaited
async def test_a_switch_stops_the_turn_that_runs_and_what_follows_lands_in_the_other_session(
    opened: Open, command: str
) -> None:
    async def slow_at_one(turn: Turn) -> AsyncIterator[Event]:
        if turn.text == "one":
            await turn.cancelled.wait()
        yield Text(f"about {turn.text}")

    agent = ScriptedAgent(slow_at_one)
    async with opened(agent) as here:
        await ask(here, "zero")
        await ask(here, "/new")
        here.chat.say("one")
        await turns_of(here, agent, 2)
        old = (await current(here)).session_id
        here.chat.say(command)
        here.chat.say("two")
        await here.chat.wait_for(lambda: here.texts()[-1] == "about two")
        stopped, switched, _ = here.texts()[2:]
        assert stopped.endswith("(stopped)")
        assert switched == texts.FRESH or switched.startswith("We are back in")
        new = (await current(here)).session_id
        assert new != old
        assert (await said(here, old))[0] == "one"
        assert "two" not in await said(here, old)
        assert (await said(here, new))[-2:] == ["two", "about two"]
        assert agent.turns[2].session.session_id == new


@awaited
async def test_a_command_that_is_refused_stops_nothing(opened: Open) -> None:
    agent = ScriptedAgent()
    async with opened(agent) as here:
        here.chat.say("one")
        await turns_of(here, agent, 1)
        here.chat.say("/new please")
        await heard(here)
        agent.answer("whole")
        await here.shows("whole", texts.USE_ALONE.format(usage="/new"))


@awaited
async def test_an_answer_beyond_the_limit_comes_in_parts(opened: Open) -> None:
    small = type(ALL_CAPABILITIES)(max_length=300)
    async with opened(ScriptedAgent(echo), chat=ScriptedChat(capabilities=small)) as here:
        here.chat.say("/help")
        await here.chat.wait_for(lambda: TABLE["resume"].help in "\n".join(here.texts()))
        assert len(here.texts()) > 1
        assert all(command.usage in "\n".join(here.texts()) for command in TABLE.values())

"""An agent that misbehaves: contained, and told in a sentence."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.agents.acp.world import World, answered, gone, is_alive, memory_in, run, stepped, talk

from threadline.ports.agent import AgentError, Event, ToolResult
from threadline.testing.contracts.agents import a_turn, events_of, text_of


async def kept(agent: Any, text: str) -> tuple[list[Event], str]:
    """What was said before the turn failed, and why it did."""
    events: list[Event] = []
    try:
        async for event in agent.run(a_turn(text)):
            events.append(event)  # noqa: PERF401 - what came before a fault is looked at
    except AgentError as fault:
        return events, str(fault)
    return events, ""


def test_one_that_dies_is_told_and_what_it_said_is_kept(world: World) -> None:
    agent = world.agent()
    events, fault = run(agent, kept(agent, "die"))
    assert text_of(events) == "half"
    assert "ended in the middle" in fault


def test_one_whose_output_others_hold_open_is_gone_when_it_has_ended(world: World) -> None:
    agent = world.agent()

    async def turns() -> tuple[str, str]:
        _, fault = await kept(agent, "orphan")
        return fault, text_of(await answered(agent, "hello"))

    fault, then = run(agent, turns())
    assert "ended in the middle" in fault
    assert then == "hello"
    assert len(world.told("started")) == 2


def test_after_a_death_the_next_turn_starts_another(world: World) -> None:
    agent = world.agent()

    async def turns() -> str:
        await kept(agent, "die")
        return text_of(await answered(agent, "hello"))

    assert run(agent, turns()) == "hello"
    assert len(world.told("started")) == 2


def test_one_that_dies_again_and_again_rests(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, first_restart_pause=50.0)
    agent = world.agent()

    async def turns() -> list[str]:
        return [(await kept(agent, text))[1] for text in ("die", "die", "hello")]

    first, second, third = run(agent, turns())
    assert "ended in the middle" in first
    assert "ended in the middle" in second
    assert "ended by itself 2 times in a row. It is started again in 50 s" in third
    assert len(world.told("started")) == 2


def test_what_is_no_message_is_skipped(world: World) -> None:
    agent = world.agent()
    assert text_of(run(agent, answered(agent, "garbage 90"))) == "clean"


def test_one_that_writes_nothing_else_is_ended(world: World) -> None:
    agent = world.agent()
    _, fault = run(agent, kept(agent, "noise 150"))
    assert "ended in the middle" in fault


def test_a_line_that_is_too_long_is_skipped(world: World) -> None:
    agent = world.agent()
    assert text_of(run(agent, answered(agent, "huge"))) == "small again"


def test_a_flood_is_stopped_and_what_came_before_is_kept(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, max_text_chars=50_000)
    agent = world.agent()
    events, fault = run(agent, kept(agent, "flood"))
    assert 40_000 < len(text_of(events)) <= 50_000
    assert "said more in one turn than is kept" in fault
    assert len(world.told("session/cancel")) == 1


def test_a_flood_of_tools_is_stopped_too(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, events=100)
    agent = world.agent()
    events, fault = run(agent, kept(agent, "calls 500"))
    assert len([event for event in events if isinstance(event, ToolResult)]) == 50
    assert "said more in one turn than is kept" in fault


def test_what_belongs_to_another_session_is_dropped_and_meta_means_nothing(world: World) -> None:
    agent = world.agent()
    assert text_of(run(agent, answered(agent, "stray"))) == "mine"
    assert world.told("outcome") == [{"outcome": "cancelled"}]


def test_one_that_goes_on_and_on_about_what_nobody_asked_is_ended(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, max_text_chars=10_000, max_stray_messages=200, cancel=30.0)
    agent = world.agent()

    async def turn() -> None:
        # It is cancelled and talks on: every word of it is a stray one by now.
        await kept(agent, "flood")
        await world.noted("session/cancel")

    run(agent, turn())
    assert not is_alive(world.told("started")[0])


@pytest.mark.parametrize("kind", ["notifications", "requests", "questions", "answers", "objects", "cancels"])
def test_one_that_sends_nothing_but_what_is_not_served_is_ended(world: World, kind: str) -> None:
    world.limits = msgspec.structs.replace(world.limits, max_stray_messages=200)
    agent = world.agent()
    events, fault = run(agent, kept(agent, f"spam {kind} 20"))
    assert (text_of(events), fault) == ("clean", "")
    for times in ("on", "on-and-words"):
        assert "ended in the middle" in run(agent, kept(agent, f"spam {kind} {times}"))[1]


def test_a_question_that_is_none_is_refused_and_no_fault_of_ours(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    agent = world.agent()
    assert text_of(run(agent, answered(agent, "malformed"))) == "-32602"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_answer_that_comes_twice_counts_once(world: World) -> None:
    agent = world.agent()

    async def turns() -> list[str]:
        return [text_of(await answered(agent, text)) for text in ("twice", "hello")]

    assert run(agent, turns()) == ["once", "hello"]


def test_what_we_do_not_serve_is_refused(world: World) -> None:
    agent = world.agent()
    assert text_of(run(agent, answered(agent, "unserved"))) == "-32601"
    (ours,) = world.told("initialize")
    assert ours["protocolVersion"] == 1
    assert ours.get("clientCapabilities", {}) == {}


def test_one_that_says_more_beside_than_a_pipe_holds_is_heard_and_logged_within_bounds(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    agent = world.agent()
    with caplog.at_level("DEBUG", logger="threadline.agents.acp"):
        assert text_of(run(agent, answered(agent, "chatter"))) == "still here"
    logged = [vars(record)["text"] for record in caplog.records if record.message == "acp.stderr"]
    assert logged == [("log " * 50).strip()] * 20


def test_the_last_words_of_one_that_dies_are_in_the_log_and_inert(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    agent = world.agent()
    run(agent, kept(agent, "die"))
    (ended,) = [vars(record) for record in caplog.records if record.message == "acp.ended"]
    assert (ended["code"], ended["last_words"]) == (3, "out of luck")


def test_one_that_is_closed_while_it_is_started_is_not_left_behind(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, start=20.0, end=20.0)
    agent = world.agent(mute=True, stubborn=True)

    async def begun_and_closed() -> int:
        turn = asyncio.create_task(events_of(agent, a_turn("hello")))
        pid: int = await world.noted("started")
        turn.cancel()
        await asyncio.wait({turn})
        await agent.close()
        await gone(pid)
        return pid

    assert asyncio.run(begun_and_closed())


def test_a_fault_is_told_in_one_inert_line_and_the_session_goes_on(world: World) -> None:
    agent = world.agent()

    async def turns() -> tuple[str, list[Event]]:
        (memory, *_), fault = await kept(agent, "fail -32603")
        history = talk("fail -32603", "(it failed)")
        return fault, await answered(agent, "hello", remembered=memory.text, history=history)  # type: ignore[union-attr]

    fault, events = run(agent, turns())
    assert "could not go on: a fault of mine" in fault
    assert "\x1b" not in fault
    assert text_of(events) == "hello"
    assert len(world.told("session/new")) == 1


def test_a_cancelled_turn_ends_as_the_agent_ends_it(world: World) -> None:
    agent = world.agent()

    async def turn() -> list[Event]:
        turn = a_turn("hang")
        events, answer = await stepped(agent, turn)
        turn.cancelled.set()
        return [*events, *[event async for event in answer]]

    assert text_of(run(agent, turn())) == "begun"
    assert len(world.told("session/cancel")) == 1


def test_one_that_does_not_hear_is_ended_with_all_that_it_started(world: World) -> None:
    agent = world.agent()

    async def turns() -> tuple[str, int, int]:
        pid = int(text_of(await answered(agent, "breed")))
        turn = a_turn("deaf")
        _, answer = await stepped(agent, turn)
        await answer.aclose()
        await gone(pid)
        (deaf,) = world.told("deaf")
        await gone(deaf)
        return text_of(await answered(agent, "hello")), pid, deaf

    assert run(agent, turns())[0] == "hello"
    assert len(world.told("started")) == 2


def test_the_next_turn_waits_until_the_one_that_was_stopped_is_over(world: World) -> None:
    agent = world.agent()

    async def turns() -> str:
        turn = a_turn("hang", turn_id="t1", history=[])
        events, answer = await stepped(agent, turn)
        await answer.aclose()
        history = talk("hang", "begun")
        memory = memory_in(events)
        return text_of(await answered(agent, "hello", turn_id="t2", remembered=memory, history=history))

    assert run(agent, turns()) == "hello"
    methods = [name for name, _ in world.log() if name in ("session/cancel", "session/prompt", "session/new")]
    assert methods == ["session/new", "session/prompt", "session/cancel", "session/prompt"]


def test_closing_ends_one_that_does_not_want_to_and_all_that_it_started(world: World) -> None:
    agent = world.agent(stubborn=True)
    child = int(text_of(run(agent, answered(agent, "breed"))))
    assert not is_alive(world.told("started")[0])
    # It was killed; whose child it is now takes note of that in its own time.
    asyncio.run(gone(child))


def test_an_agent_can_be_used_again_after_it_was_closed(world: World) -> None:
    agent = world.agent()
    assert [text_of(run(agent, answered(agent, text))) for text in ("one", "two")] == ["one", "two"]


def test_one_that_nobody_needs_is_ended(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, idle=0.05)
    agent = world.agent()

    async def turn() -> str:
        first = json.loads(text_of(await answered(agent, "where")))
        await gone(first["pid"])
        return text_of(await answered(agent, "hello"))

    assert run(agent, turn()) == "hello"


def test_one_that_works_is_not_idle(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, idle=0.01)
    agent = world.agent()

    async def turn() -> bool:
        turn = a_turn("hang")
        _, answer = await stepped(agent, turn)
        await asyncio.sleep(0.1)
        alive = is_alive(world.told("started")[0])
        await answer.aclose()
        return alive

    assert run(agent, turn())


def test_no_more_processes_run_at_once_than_there_may(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, processes=1)
    agent = world.agent()
    session = a_turn().session
    ann, bob = (msgspec.structs.replace(session, owner=f"telegram:{number}") for number in (7, 8))

    async def turns() -> tuple[str, str]:
        idle = text_of(await events_of(agent, a_turn("hello", session=ann)))
        _, answer = await stepped(agent, a_turn("hang", session=bob, turn_id="t2"))
        try:
            await events_of(agent, a_turn("hello", session=ann, turn_id="t3"))
        except AgentError as fault:
            await answer.aclose()
            return idle, str(fault)
        raise AssertionError("there was room")

    idle, fault = run(agent, turns())
    assert idle == "hello"
    assert "works for 1 people at once" in fault
    assert not any(is_alive(pid) for pid in world.told("started"))


def test_no_more_processes_are_started_at_once_than_may_run(world: World) -> None:
    world.limits = msgspec.structs.replace(world.limits, processes=2)
    agent = world.agent()
    session = a_turn().session

    async def turn(number: int) -> str:
        theirs = msgspec.structs.replace(session, owner=f"telegram:{number}")
        try:
            return text_of(await events_of(agent, a_turn("hello", session=theirs, turn_id=f"t{number}")))
        except AgentError as fault:
            return str(fault)

    async def turns() -> list[str]:
        return list(await asyncio.gather(*(turn(number) for number in range(5))))

    told = run(agent, turns())
    assert told.count("hello") == 2
    assert len([one for one in told if "works for 2 people at once" in one]) == 3
    assert len(world.told("started")) == 2


@pytest.mark.parametrize(
    ("setup", "told"),
    [({"version": 2}, "another version of the protocol"), ({"mute": True}, "did not answer within")],
)
def test_one_that_can_not_be_talked_to_is_told_to_its_owner(world: World, setup: dict[str, Any], told: str) -> None:
    world.limits = msgspec.structs.replace(world.limits, start=0.5)
    if "version" in setup:
        world.limits = msgspec.structs.replace(world.limits, start=20.0)
    agent = world.agent(**setup)
    with pytest.raises(AgentError, match=told) as fault:
        run(agent, answered(agent, "hello"))
    assert fault.value.is_owners
    assert not any(is_alive(pid) for pid in world.told("started"))

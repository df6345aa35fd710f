"""In which session of the agent's a conversation goes on, and who hears of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.agents.acp.world import World, answered, memory_in, run, talk

from threadline.agents.acp import AcpAgent
from threadline.ports.agent import AgentError, Event, Notice
from threadline.testing.contracts.agents import a_turn, events_of, text_of
from threadline.texts import acp_agents as texts

SAID = talk("one", "one")


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def first_memory(world: World, **setup: Any) -> str:
    """What one turn leaves behind; its process is gone by then."""
    agent = world.agent(**setup)
    memory = memory_in(run(agent, answered(agent, "one", history=[])))
    (world.folder / "log").unlink()
    return memory


def again(world: World, agent: AcpAgent, memory: str | None, **more: Any) -> list[Event]:
    return run(agent, answered(agent, "blocks", **{"history": SAID, "remembered": memory, **more}))


def opened_by(world: World) -> list[str]:
    return [name for name, _ in world.log() if name in ("session/new", "session/load", "session/resume")]


def test_a_conversation_goes_on_in_the_session_that_is_open(world: World) -> None:
    agent = world.agent()

    async def both() -> list[Event]:
        memory = memory_in(await answered(agent, "one", history=[]))
        return await answered(agent, "blocks", history=SAID, remembered=memory, turn_id="t2")

    events = run(agent, both())
    assert opened_by(world) == ["session/new"]
    assert notices(events) == []
    assert json.loads(text_of(events)) == [{"type": "text", "text": "blocks"}]


@pytest.mark.parametrize(
    ("can", "expected"),
    [({"resume": True, "load": True}, ["session/resume"]), ({"load": True}, ["session/load"])],
)
def test_after_a_restart_it_is_taken_up_as_the_agent_can_without_a_word(
    world: World, can: dict[str, bool], expected: list[str]
) -> None:
    world.setup |= can
    memory = first_memory(world)
    events = again(world, world.agent(), memory)
    assert opened_by(world) == expected
    assert notices(events) == []
    # Neither what the agent replays nor what it knows already is told again.
    assert json.loads(text_of(events)) == [{"type": "text", "text": "blocks"}]
    assert json.loads(memory_in(events))["agent"] == json.loads(memory)["agent"]


@pytest.mark.parametrize("code", [-32002, -32602, -32603])
def test_a_session_that_is_gone_begins_anew_with_what_was_said_and_people_hear_of_it(world: World, code: int) -> None:
    world.setup |= {"resume": True, "load": True, "gone": code}
    memory = first_memory(world)
    for session in world.folder.glob("*.session"):
        session.unlink()
    events = again(world, world.agent(), memory)
    assert opened_by(world) == ["session/resume", "session/load", "session/new"]
    assert notices(events) == [texts.GONE]
    record, said = json.loads(text_of(events))
    assert [json.loads(line) for line in record["text"].splitlines()[1:-1]] == [
        {"role": "user", "text": "one"},
        {"role": "assistant", "text": "one"},
    ]
    assert said["text"] == "blocks"


def test_an_agent_that_can_not_take_up_anything_begins_anew(world: World) -> None:
    events = again(world, world.agent(), first_memory(world))
    assert opened_by(world) == ["session/new"]
    assert notices(events) == [texts.GONE]


FAULTS = {
    429: "could not begin: not now",
    -32601: "could not begin: not now",
    "mute": "did not answer within 1 s when it was to begin",
    "odd": "could not go on",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_is_wrong_with_one_way_to_take_it_up_the_next_is_tried(world: World, fault: Any) -> None:
    world.setup |= {"resume": True, "load": True, "resume_fails": fault}
    world.limits = msgspec.structs.replace(world.limits, call=1.0)
    memory = first_memory(world)
    events = again(world, world.agent(), memory)
    assert opened_by(world) == ["session/resume", "session/load"]
    assert notices(events) == []


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != -32601])
def test_a_fault_that_need_not_last_is_told_first_and_then_it_begins_anew(world: World, fault: Any) -> None:
    world.setup |= {"resume": True, "resume_fails": fault}
    world.limits = msgspec.structs.replace(world.limits, call=1.0)
    memory = first_memory(world)
    agent = world.agent()

    async def twice() -> list[Event]:
        with pytest.raises(AgentError, match=FAULTS[fault]):
            await answered(agent, "blocks", history=SAID, remembered=memory)
        return await answered(agent, "blocks", history=SAID, remembered=memory)

    assert notices(run(agent, twice())) == [texts.GONE]
    assert opened_by(world) == ["session/resume", "session/resume", "session/new"]


def test_one_that_has_no_such_method_begins_anew(world: World) -> None:
    world.setup |= {"resume": True, "resume_fails": -32601}
    assert notices(again(world, world.agent(), first_memory(world))) == [texts.GONE]


def test_what_is_replayed_behind_the_answer_is_not_said_twice(world: World) -> None:
    world.setup |= {"load": True, "late": True}
    memory, agent = first_memory(world), world.agent()
    events = run(agent, answered(agent, "slow and new", history=SAID, remembered=memory))
    assert text_of(events) == "and new"


async def two_turns(agent: AcpAgent, memory: str) -> list[Event]:
    first = await answered(agent, "one", history=SAID, remembered=memory)
    history = [*SAID, *talk("one", "one")]
    return [*first, *await answered(agent, "two", history=history, remembered=memory_in(first), turn_id="t2")]


@pytest.mark.parametrize("what", ["model", "mode"])
def test_what_is_chosen_holds_where_a_session_is_taken_up_without_a_word_of_what_there_is(
    world: World, what: str
) -> None:
    world.setup |= {"resume": True, "models": True, "modes": True, "terse": True}
    world.settings[what] = {"model": "large", "mode": "plan"}[what]
    memory = first_memory(world)
    agent = world.agent()

    assert notices(run(agent, two_turns(agent, memory))) == []
    assert [given[f"{what}Id"] for given in world.told(f"session/set_{what}")] == [world.settings[what]]


def test_a_model_that_can_not_be_given_to_it_any_more_is_told_once(world: World) -> None:
    world.setup |= {"resume": True, "terse": True, "models": True, "chosen": {"model": "large"}, "no_set_model": True}
    world.settings["model"] = "large"
    memory = first_memory(world)
    agent = world.agent()

    assert notices(run(agent, two_turns(agent, memory))) == [texts.SAME_MODEL.format(model="large")]


def test_its_own_model_is_known_after_a_restart(world: World) -> None:
    world.setup |= {"resume": True, "models": True}
    plain = a_turn().session
    chose = msgspec.structs.replace(plain, runtime={"model": "large"})
    memory = first_memory(world)
    # As an agent keeps it with its session.
    (world.folder / "model").write_text("large")
    agent = world.agent()

    async def turns() -> None:
        first = await answered(agent, "one", history=SAID, remembered=memory, session=chose)
        history = [*SAID, *talk("one", "one")]
        await answered(agent, "two", history=history, remembered=memory_in(first), turn_id="t2", session=plain)

    run(agent, turns())
    assert [given["modelId"] for given in world.told("session/set_model")] == ["small"]


@pytest.mark.parametrize(
    ("history", "told"),
    [
        pytest.param([*SAID, *talk("two", "two")], None, id="goes on"),
        pytest.param([*SAID[:0]], None, id="all was taken back"),
        pytest.param(SAID, texts.CHANGED, id="the last was taken back"),
        pytest.param([*talk("a summary", "of it"), *talk("two", "two")], texts.CHANGED, id="compressed"),
    ],
)
def test_what_was_taken_back_or_changed_is_not_known_to_the_new_session(
    world: World, history: list[Any], told: str | None
) -> None:
    world.setup["resume"] = True
    agent = world.agent()
    memory = memory_in(run(agent, answered(agent, "two", history=SAID)))
    (world.folder / "log").unlink()
    events = again(world, world.agent(), memory, history=history)
    is_plain = len(history) == 4 and told is None
    assert opened_by(world) == (["session/resume"] if is_plain else ["session/new"])
    assert notices(events) == ([] if told is None else [told])
    assert len(json.loads(text_of(events))) == (1 if is_plain or not history else 2)


def test_a_fork_has_a_session_of_its_own(world: World) -> None:
    world.setup["resume"] = True
    memory = first_memory(world)
    forked = msgspec.structs.replace(a_turn().session, session_id="20260106_000000_0b")
    events = again(world, world.agent(), memory, session=forked)
    assert opened_by(world) == ["session/new"]
    assert notices(events) == [texts.ANEW]
    assert json.loads(memory_in(events))["session"] == forked.session_id


def test_another_program_begins_anew(world: World) -> None:
    world.setup["resume"] = True
    memory = first_memory(world)
    events = again(world, world.agent(image=True), memory)
    assert opened_by(world) == ["session/new"]
    assert notices(events) == [texts.GONE]


def test_what_was_said_without_the_agent_is_told_to_it(world: World) -> None:
    world.setup["resume"] = True
    memory = first_memory(world)
    history = [*SAID, *talk("to another", "by another")]
    record, _ = json.loads(text_of(again(world, world.agent(), memory, history=history)))
    assert [json.loads(line)["text"] for line in record["text"].splitlines()[1:-1]] == ["to another", "by another"]
    assert opened_by(world) == ["session/resume"]


@pytest.mark.parametrize("memory", ["", "no json", "{}", '{"agent": 7}'])
def test_a_memory_that_can_not_be_read_is_none(world: World, memory: str) -> None:
    assert opened_by(world) == []
    assert notices(again(world, world.agent(), memory)) == [texts.ANEW]


def test_a_long_history_is_told_from_its_end_within_bounds_and_instructs_nobody(world: World) -> None:
    said = [f"number {number} \x1b[31m\u202e" + "x" * 5_000 for number in range(50)]
    record, _ = json.loads(text_of(again(world, world.agent(), None, history=talk(*said))))
    lines = record["text"].splitlines()
    told = [json.loads(line)["text"] for line in lines if line.startswith("{")]
    assert told[-1].startswith("number 49 x")
    assert 3 <= len(told) <= 7
    assert len(record["text"]) < 40_000
    assert f"({50 - len(told)} earlier messages are left out.)" in lines


def test_a_name_that_is_given_twice_is_refused(world: World) -> None:
    agent = world.agent(same_name="s-1")

    async def both() -> None:
        await answered(agent, "one", turn_id="t1")
        await answered(agent, "two", turn_id="t2")

    with pytest.raises(AgentError, match="the same name"):
        run(agent, both())


def test_sessions_of_one_person_share_a_process_and_two_persons_never_do(world: World) -> None:
    agent = world.agent()
    ann = a_turn().session
    people = {
        "ann": msgspec.structs.replace(ann, owner="telegram:7"),
        "ann again": msgspec.structs.replace(ann, owner="telegram:7", session_id="20260106_000000_0b"),
        "bob": msgspec.structs.replace(ann, owner="telegram:8"),
        "both": msgspec.structs.replace(ann, owner=None, is_shared=True, session_key="agent:main:telegram:group:1"),
    }

    async def all_of_them() -> dict[str, dict[str, Any]]:
        found = {}
        for name, session in people.items():
            turn = a_turn("where", session=session, turn_id=name)
            found[name] = json.loads(text_of(await events_of(agent, turn)))
        return found

    found = run(agent, all_of_them())
    pids = {name: one["pid"] for name, one in found.items()}
    assert pids["ann"] == pids["ann again"]
    assert len({pids["ann"], pids["bob"], pids["both"]}) == 3
    assert len({found[name]["cwd"] for name in ("ann", "bob", "both")}) == 3

"""What an ACP agent tells of a turn, and what it is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.agents.acp.world import World, answered, memory_in, run, talk

from threadline.model.inbound import Attachment
from threadline.ports.agent import (
    Agent,
    AgentError,
    Closes,
    ContextWindow,
    Diff,
    Event,
    File,
    McpServer,
    Notice,
    Plan,
    PlanStep,
    Remember,
    Remembers,
    Spoken,
    Text,
    Thought,
    Titled,
    ToolCall,
    ToolResult,
    UsageOf,
    Workplace,
)
from threadline.testing.builders import dm
from threadline.testing.contracts.agents import a_turn, events_of, text_of
from threadline.texts import acp_agents as texts


def told(world: World, text: str, **more: Any) -> list[Event]:
    """The events of one turn, without what is only for the next."""
    agent = world.agent()
    return [event for event in run(agent, answered(agent, text, **more)) if not isinstance(event, Remember)]


def test_it_remembers_and_is_closed_with_the_gateway(world: World) -> None:
    agent: Agent = world.agent()
    assert isinstance(agent, Remembers)
    assert isinstance(agent, Closes)
    assert agent.replay == "never"


def test_what_to_remember_is_told_before_the_agent_is(world: World) -> None:
    agent = world.agent()

    async def first() -> tuple[Event, list[Any]]:
        answer: Any = agent.run(a_turn("hello"))
        event = await anext(answer)
        await answer.aclose()
        return event, world.told("session/prompt")

    event, prompts = run(agent, first())
    assert isinstance(event, Remember)
    assert len(event.text) < 8_000
    assert prompts == []


def test_words_and_thoughts_come_as_they_are(world: World) -> None:
    events = told(world, "think hard about it")
    assert [event for event in events if isinstance(event, Thought)] == [Thought("hard about it")]
    assert text_of(events) == "thought"


def test_tools_are_told_once_when_they_start_and_once_when_they_end(world: World) -> None:
    events = told(world, "tool make it")
    assert [event for event in events if isinstance(event, ToolCall | ToolResult)] == [
        ToolCall("t1", "execute", '{"command": "make it"}', title="Run it", kind="execute"),
        ToolResult("t1", "it ran", diffs=(Diff(path="/a.txt", new="new", old="old"),)),
        ToolCall("t2", "other", title="Look"),
        ToolResult("t2", "no such file", is_error=True),
    ]
    assert text_of(events) == "done"


def test_plans_titles_windows_and_costs_are_told(world: World) -> None:
    world.setup["options"] = True
    events = [event for event in told(world, "news") if not isinstance(event, Text)]
    plans = [event for event in events if isinstance(event, Plan)]
    # One that was replaced before anybody took it need not be told.
    assert 1 <= len(plans) <= 2
    assert events[len(plans) - 1 :] == [
        Plan((PlanStep("First", "completed", "high"), PlanStep("Then"))),
        Titled("A walk in the rain"),
        ContextWindow(1200, 200_000),
        UsageOf(
            input_tokens=10,
            output_tokens=20,
            cache_read_tokens=5,
            cost_micros=250_000,
            cost_status="estimated",
            model="small",
        ),
    ]


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "max_turn_requests"])
def test_people_are_told_why_an_answer_broke_off(world: World, reason: str) -> None:
    events = told(world, f"stop {reason}")
    assert text_of(events) == "so far"
    assert isinstance(events[-1], Notice)


@pytest.mark.parametrize("reason", ["end_turn", "surprise"])
def test_an_end_that_says_no_more_is_just_the_end(world: World, reason: str) -> None:
    assert told(world, f"stop {reason}") == [Text("so far")]


def test_a_picture_goes_with_the_answer(world: World) -> None:
    (file, *_) = told(world, "picture")
    assert isinstance(file, File)
    assert (file.attachment.name, file.attachment.mime, file.attachment.size) == ("picture.png", "image/png", 5)


def blocks_told(world: World, text: str = "blocks", **more: Any) -> list[dict[str, Any]]:
    agent = world.agent()
    told: list[dict[str, Any]] = json.loads(text_of(run(agent, answered(agent, text, **more))))
    return told


async def fetched(file: Attachment) -> bytes:
    return {"p": b"\x89PNG", "t": b"some text"}[file.handle]


FILES = (
    Attachment(handle="p", name='a "b".png\n', mime="image/png", size=4),
    Attachment(handle="t", name="t.txt", mime="text/plain", size=9),
    Attachment(handle="z", name="z.zip", mime="application/zip", size=9),
)


@pytest.mark.parametrize("takes_pictures", [True, False])
def test_files_are_shown_where_the_agent_takes_them_and_named_elsewhere(world: World, takes_pictures: bool) -> None:
    world.setup["image"] = takes_pictures
    said = (Spoken(text="blocks", source=dm(), attachments=FILES),)
    blocks = blocks_told(world, messages=said, fetch=fetched)
    named = '[file: "a \\"b\\".png"'
    picture = [{"type": "text", "text": f"{named}]"}, {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]
    line = [{"type": "text", "text": f"{named}, which can't be shown here]"}]
    assert blocks[1:] == [
        *(picture if takes_pictures else line),
        {"type": "text", "text": '[file: "t.txt"]\nsome text\n[end of file]'},
        {"type": "text", "text": '[file: "z.zip", which can\'t be shown here]'},
    ]


def test_a_session_that_begins_is_told_where_it_is_and_what_its_owner_says(world: World) -> None:
    world.settings["system_prompt"] = "Be brief."
    (told, said) = blocks_told(world, context_prompt="You are in a chat.", system_prompt="Be kind.")
    assert [line for line in told["text"].splitlines() if line][1:-1] == ["Be brief.", "Be kind.", "You are in a chat."]
    assert said["text"] == "blocks"


def test_words_that_are_answered_are_told_in_quotes(world: World) -> None:
    said = (Spoken(text="blocks", source=dm(), quoted='he said\n"no"'),)
    (block,) = blocks_told(world, messages=said)
    assert block["text"] == '[in answer to: "he said \\"no\\""]\nblocks'


def where(world: World, **more: Any) -> dict[str, Any]:
    agent = world.agent()
    found: dict[str, Any] = json.loads(text_of(run(agent, answered(agent, "where", **more))))
    return found


def test_it_works_where_its_editor_says_else_its_session_else_its_owner_else_in_a_folder_of_its_person(
    world: World, tmp_path: Path
) -> None:
    for name in ("editor", "session", "owner"):
        (tmp_path / name).mkdir()
    session = msgspec.structs.replace(a_turn().session, cwd=str(tmp_path / "session"))
    own = Path(where(world)["cwd"])
    assert own.is_relative_to(tmp_path / "people")
    assert own.stat().st_mode & 0o777 == 0o700
    world.settings["cwd"] = str(tmp_path / "owner")
    assert where(world)["cwd"] == str(tmp_path / "owner")
    assert where(world, session=session)["cwd"] == str(tmp_path / "session")
    place = Workplace(cwd=str(tmp_path / "editor"))
    assert where(world, session=session, workplace=place)["cwd"] == str(tmp_path / "editor")


def test_a_folder_that_is_not_there_is_told(world: World) -> None:
    agent = world.agent()
    with pytest.raises(AgentError, match=r"/nowhere/at/all.* is not there"):
        run(agent, answered(agent, "hi", workplace=Workplace(cwd="/nowhere/at/all")))


def test_it_is_given_what_every_program_needs_and_what_its_owner_names_and_no_more(world: World) -> None:
    world.environment |= {
        "HOME": "/tmp",
        "LC_ALL": "C.UTF-8",
        "XDG_DATA_HOME": "/tmp",
        "https_proxy": "http://127.0.0.1:1",
        "MY_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "not for it",
        "THREADLINE_DB": "not for it",
    }
    world.settings["env"] = ("MY_KEY",)
    given = set(where(world)["env"]) - {"PWD", "OLDPWD", "SHLVL", "_"}
    assert given == {"PATH", "HOME", "LC_ALL", "XDG_DATA_HOME", "https_proxy", "MY_KEY"}


SERVER = McpServer(name="files", command="/bin/files", args=("-x",), pairs=(("KEY", "secret"),))


def test_an_editors_servers_are_passed_on_and_a_chat_has_none(world: World, tmp_path: Path) -> None:
    agent = world.agent()

    async def both() -> None:
        await answered(agent, "hi", workplace=Workplace(cwd=str(tmp_path), mcp_servers=(SERVER,)))
        await answered(agent, "hi")

    run(agent, both())
    assert [new["mcpServers"] for new in world.told("session/new")] == [
        [{"name": "files", "command": "/bin/files", "args": ["-x"], "env": [{"name": "KEY", "value": "secret"}]}],
        [],
    ]


def test_an_agent_that_can_not_have_the_servers_works_without(world: World, tmp_path: Path) -> None:
    world.setup["no_servers"] = True
    place = Workplace(cwd=str(tmp_path), mcp_servers=(SERVER,))
    events = told(world, "hi", workplace=place)
    assert text_of(events) == "hi"
    assert Notice(texts.NO_SERVERS.format(names="files")) in events
    assert [len(new["mcpServers"]) for new in world.told("session/new")] == [1, 0]


def test_servers_that_an_agent_can_not_reach_are_left_out_and_told_once(world: World, tmp_path: Path) -> None:
    remote = McpServer(name="wiki\x1b[31m", kind="http", url="https://example.org/mcp", pairs=(("Token", "secret"),))
    place = Workplace(cwd=str(tmp_path), mcp_servers=(SERVER, remote))
    agent = world.agent()

    async def both() -> list[list[Event]]:
        first = await answered(agent, "one", workplace=place)
        memory, history = memory_in(first), talk("one", "one")
        return [first, await answered(agent, "two", workplace=place, remembered=memory, history=history)]

    first, second = run(agent, both())
    assert [event for event in first if isinstance(event, Notice)] == [Notice(texts.NO_SERVERS.format(names="wiki"))]
    assert [event for event in second if isinstance(event, Notice)] == []
    (new,) = world.told("session/new")
    assert [server["name"] for server in new["mcpServers"]] == ["files"]


@pytest.mark.parametrize("way", ["options", "modes"])
def test_the_owners_mode_is_set_in_whichever_way_there_is(world: World, way: str) -> None:
    world.setup[way] = True
    world.settings["mode"] = "Plan"
    assert text_of(told(world, "hi")) == "hi"
    expected = {
        "options": ("session/set_config_option", {"configId": "the-mode", "value": "plan"}),
        "modes": ("session/set_mode", {"modeId": "plan"}),
    }
    method, params = expected[way]
    (given,) = world.told(method)
    assert given.items() >= params.items()


def test_a_mode_that_is_not_there_is_told_and_does_no_harm(world: World) -> None:
    world.settings["mode"] = "yolo"
    events = told(world, "hi")
    assert text_of(events) == "hi"
    assert ["yolo" in event.text for event in events if isinstance(event, Notice)] == [True]


@pytest.mark.parametrize(("way", "method"), [("options", "session/set_config_option"), ("models", "session/set_model")])
def test_a_model_is_chosen_and_given_up_again(world: World, way: str, method: str) -> None:
    world.setup[way] = True
    agent = world.agent()
    plain = a_turn("one")
    chose = msgspec.structs.replace(plain.session, runtime={"model": "large"})

    async def turns() -> None:
        memory: str | None = None
        history: list[dict[str, Any]] = []
        for number, session in enumerate((plain.session, chose, chose, plain.session)):
            turn = a_turn("hi", turn_id=f"t{number}", session=session, remembered=memory, history=history)
            memory = memory_in(await events_of(agent, turn))
            history = [*history, *talk("hi", "hi")]

    run(agent, turns())
    assert [given.get("value") or given.get("modelId") for given in world.told(method)] == ["large", "small"]
    assert len(world.told("session/new")) == 1


@pytest.mark.parametrize("way", ["options", "models"])
def test_an_agent_whose_own_model_is_not_in_its_list_answers(world: World, way: str) -> None:
    world.setup |= {way: True, "chosen": {"model": "custom"}}
    events = told(world, "hi")
    assert text_of(events) == "hi"
    assert [event for event in events if isinstance(event, Notice)] == []


def test_the_owners_mode_holds_where_the_agent_is_in_it_and_does_not_list_it(world: World) -> None:
    world.setup |= {"modes": True, "chosen": {"mode": "custom"}}
    world.settings["mode"] = "custom"
    assert [event for event in told(world, "hi") if isinstance(event, Notice)] == []


def test_a_model_that_is_not_there_is_told_with_what_to_do(world: World) -> None:
    world.setup["models"] = True
    session = msgspec.structs.replace(a_turn().session, runtime={"model": "gigantic"})
    with pytest.raises(AgentError, match=r"no model gigantic\. /model NAME"):
        told(world, "hi", session=session)


def test_which_models_there_are_is_known_once_it_has_answered(world: World) -> None:
    world.setup["options"] = True
    agent = world.agent()

    async def checked() -> tuple[str, str]:
        before = await agent.check_model("anything")
        await answered(agent, "hi")
        return before, await agent.check_model("Large")

    assert run(agent, checked()) == ("anything", "large")
    with pytest.raises(Exception, match="has no model anything; it has small, large"):
        asyncio.run(agent.check_model("anything"))

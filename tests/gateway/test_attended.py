"""Platforms whose people wait while they are answered: an editor, which shows a turn as it happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.gateway.pages import CONVERSATION, RULES, Talker
from tests.gateway.talk import eventually
from tests.gateway.test_telling import Onlooking
from tests.gateway.world import awaited, settings_for

from threadline.assembly import close_agents
from threadline.errors import ConversationBusy
from threadline.gateway.gateway import Gateway
from threadline.model.client_sources import web_source
from threadline.model.delivery import Target
from threadline.ports.agent import (
    AgentError,
    AskPermission,
    ContextWindow,
    Diff,
    Event,
    Notice,
    Place,
    Plan,
    PlanStep,
    Remember,
    Text,
    Titled,
    ToolCall,
    ToolResult,
    Turn,
    Workplace,
)
from threadline.ports.live import Ending
from threadline.ports.platform import Outgoing
from threadline.store.facade import GatewayStore
from threadline.web.platform import WebMessage, WebPlatform, WebUser

SOURCE = web_source("owner", CONVERSATION)
OWNER = WebUser(user_id="owner", name="Owner")


class Attending(Onlooking):
    """Also remembers how turns ended, in whichever conversation."""

    def __init__(self) -> None:
        super().__init__()
        self.endings: list[Ending] = []

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None:
        self.began.append((turn_id, attempt))
        self.stirred.set()

    def turn_ended(self, to: Target, turn_id: str, ending: Ending) -> None:
        super().turn_ended(to, turn_id, ending)
        self.endings.append(ending)


class Editor(WebPlatform):
    """A page that nobody leaves before they are answered."""

    capabilities = msgspec.structs.replace(WebPlatform.capabilities, attended=True)

    def __init__(self, told: Attending) -> None:
        super().__init__(told)
        self.sent: list[Outgoing] = []

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        self.sent.append(message)
        return await super().send(to, message, key=key)


class Attended:
    def __init__(self, store: GatewayStore, gateway: Gateway, platform: Editor, told: Attending) -> None:
        self.store = store
        self.gateway = gateway
        self.platform = platform
        self.told = told

    async def say(self, text: str, key: str = "m1", conversation: str = CONVERSATION) -> None:
        await self.platform.send_message(OWNER, conversation, WebMessage(message_id=key, text=text))

    async def ends(self, count: int = 1) -> Ending:
        async def ended() -> bool:
            return len(self.told.endings) >= count

        await eventually(ended)
        return self.told.endings[count - 1]

    async def transcript(self) -> list[dict[str, Any]]:
        entry = (await self.store.change_feed.find(SOURCE)).entry
        return [dict(message) for message in await self.store.load_transcript(entry.session_id)]


@asynccontextmanager
async def attended(location: str, agent: Any, **settings: Any) -> AsyncIterator[Attended]:
    async with await GatewayStore.open(location) as store:
        told = Attending()
        platform = Editor(told)
        gateway = Gateway(store, settings_for(agent, **settings), RULES, [platform])
        await gateway.start()

        async def is_ready() -> bool:
            return not await gateway.not_ready()

        try:
            await eventually(is_ready)
            yield Attended(store, gateway, platform, told)
        finally:
            await gateway.stop()


class Scripted:
    """Says the same in every turn."""

    replay = "safe"

    def __init__(self, *events: Event | Exception) -> None:
        self._events = events
        self.turns: list[Turn] = []

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        self.turns.append(turn)
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event


@awaited
async def test_all_is_told_before_the_end_and_nothing_is_sent_besides(location: str) -> None:
    async with attended(location, Scripted(Text("one "), Text("two"))) as here:
        await here.say("go")
        assert await here.ends() == Ending(outcome="answered")
        assert "".join(event.text for event in here.told.events if isinstance(event, Text)) == "one two"
        await here.gateway.settled_in(SOURCE)
        assert here.platform.sent == []
        assert await here.store.outbox.list_page() == []
        assert [message["content"] for message in await here.transcript()] == ["go", "one two"]


@awaited
async def test_what_is_shown_is_on_disk_even_where_the_agent_could_say_it_again(location: str) -> None:
    agent = Talker("safe")
    async with attended(location, agent) as here:
        await here.say("go")
        agent.says("one")
        await here.told.until(1)
        seen = await here.store.change_feed.snapshot(SOURCE)
        assert seen is not None
        assert seen.turn is not None
        assert [msgspec.json.decode(event, type=Event) for _, event in seen.turn.events] == [Text("one")]
        agent.says(None)
        await here.ends()


@awaited
async def test_a_turn_that_breaks_off_is_closed_with_what_it_said_and_never_run_again(location: str) -> None:
    first = Talker("safe")
    async with attended(location, first) as here:
        await here.say("go")
        first.says("half")
        await here.told.until(1)
    assert here.told.endings[-1].outcome == "interrupted"
    again = Scripted(Text("anew"))
    async with attended(location, again) as here:
        await here.gateway.settled_in(SOURCE)
        assert again.turns == []
        told = await here.transcript()
        assert [(message["content"], message.get("interrupted")) for message in told] == [("go", None), ("half", True)]


@awaited
async def test_whoever_attends_is_told_why_a_turn_failed(location: str) -> None:
    async with attended(location, Scripted(Text("so far"), AgentError("The model has no credit left."))) as here:
        await here.say("go")
        ending = await here.ends()
        assert ending.outcome == "failed"
        assert "no credit left" in (ending.notice or "")
        assert here.told.events == [Text("so far")]


@awaited
async def test_a_question_is_sent_and_what_was_said_before_it_is_not(location: str) -> None:
    agent = Talker("never")
    async with attended(location, agent) as here:
        agent.says("May I? ", AskPermission(ask_id="a", tool="rm", least="owner"))
        await here.say("go")
        assert (await here.ends()).outcome == "asks"
        assert [type(event) for event in here.told.events] == [Text, AskPermission]

        async def is_asked() -> bool:
            return bool(here.platform.sent)

        await eventually(is_asked)
        (question,) = here.platform.sent
        assert "May I?" not in question.text
        agent.says("done", None)
        await here.platform.press_button(OWNER, CONVERSATION, "p1", question.buttons[0].value)
        assert (await here.ends(2)).outcome == "answered"
        assert here.told.events[-1] == Text("done")


@awaited
async def test_while_somebody_is_answered_nothing_more_comes_in_but_commands(location: str) -> None:
    agent = Talker("never")
    async with attended(location, agent) as here:
        await here.say("go")
        agent.says("half")
        await here.told.until(1)
        with pytest.raises(ConversationBusy):
            await here.say("and another thing", key="m2")
        assert len(await here.store.maintenance.list_messages()) == 1
        await here.say("/whoami", key="m3")
        agent.says(" and whole", None)
        assert (await here.ends()).outcome == "answered"
        agent.says("again", None)
        await here.say("and another thing", key="m2")
        assert (await here.ends(2)).outcome == "answered"
        said = [message["content"] for message in await here.transcript()]
        assert said == ["go", "half and whole", "and another thing", "again"]


@awaited
async def test_a_turn_is_stopped_without_a_word(location: str) -> None:
    agent = Talker("never")
    async with attended(location, agent) as here:
        assert not await here.gateway.stop_in(SOURCE)
        await here.say("go")
        agent.says("half")
        await here.told.until(1)
        assert await here.gateway.stop_in(SOURCE)
        assert (await here.ends()).outcome == "stopped"
        await here.gateway.settled_in(SOURCE)
        assert here.platform.sent == []


@awaited
async def test_a_process_answers_in_the_conversations_that_it_has_open_alone(location: str) -> None:
    mine, theirs = Scripted(Text("mine")), Scripted(Text("theirs"))
    other = web_source("owner", "conversation-2")
    async with (
        attended(location, mine, bound=lambda: [SOURCE]) as here,
        attended(location, theirs, bound=lambda: [other]) as there,
    ):
        await here.say("to the other", "m1", "conversation-2")
        await there.say("to the one", "m2")
        await here.ends()
        await there.ends()
        # A command's answer goes by the same rule.
        await there.say("/help", "m3")

        async def is_sent() -> bool:
            return bool(here.platform.sent)

        await eventually(is_sent)
        assert there.platform.sent == []
        assert [turn.text for turn in mine.turns] == ["to the one"]
        assert [turn.text for turn in theirs.turns] == ["to the other"]


@awaited
async def test_what_people_should_know_of_a_turn_stands_in_the_chat_and_not_in_the_transcript(location: str) -> None:
    agent = Scripted(Notice("A new session began."), Notice("A new session began."), Text("hello"))
    async with attended(location, agent) as here:
        await here.say("go")
        await here.ends()
        await here.gateway.settled_in(SOURCE)
        assert [message.text for message in here.platform.sent] == ["A new session began."]
        assert [message["content"] for message in await here.transcript()] == ["go", "hello"]


@awaited
async def test_an_agent_names_a_conversation_that_nobody_has_named(location: str) -> None:
    agent = Scripted(Titled("Sunday\x1b[31m plans\n"), Text("hello"))
    async with attended(location, agent) as here:
        await here.say("go")
        await here.ends()
        entry = (await here.store.change_feed.find(SOURCE)).entry
        assert entry.title is not None
        assert entry.title.startswith("Sunday")
        assert "\x1b" not in entry.title
        await here.store.set_title(entry.session_id, "Mine")
        await here.say("again", "m2")
        await here.ends(2)
        assert (await here.store.change_feed.find(SOURCE)).entry.title == "Mine"


@awaited
async def test_plans_places_and_changes_of_files_stay_with_the_transcript(location: str) -> None:
    agent = Scripted(
        Plan((PlanStep("look", "completed"), PlanStep("write", "in_progress", "high"))),
        ToolCall("c1", "edit", '{"path":"a.py"}', title="Edit a.py", kind="edit", places=(Place("/w/a.py", 3),)),
        ToolResult("c1", "done", diffs=(Diff("/w/a.py", "new", "old"),)),
        ToolCall("c2", "run"),
        ToolResult("c2", "no such file", is_error=True),
        ContextWindow(used=10, size=100),
        Text("There."),
    )
    async with attended(location, agent, workplace_for=lambda _source: Workplace(cwd="/w")) as here:
        await here.say("go")
        await here.ends()
        asked, calling, edited, again, failed, said = await here.transcript()
        assert asked["content"] == "go"
        (call,) = calling["tool_calls"]
        assert (call["title"], call["kind"], call["places"]) == ("Edit a.py", "edit", [{"path": "/w/a.py", "line": 3}])
        assert edited["diffs"] == [{"path": "/w/a.py", "new": "new", "old": "old"}]
        assert "title" not in again["tool_calls"][0]
        assert failed["is_error"] is True
        assert said["plan"] == [
            {"text": "look", "status": "completed"},
            {"text": "write", "status": "in_progress", "priority": "high"},
        ]
        assert any(isinstance(event, ContextWindow) for event in here.told.events)
        assert agent.turns[0].workplace == Workplace(cwd="/w")


class Forgetful(Scripted):
    """Keeps nothing itself."""

    remembers = True


@awaited
async def test_an_agent_is_given_what_it_last_remembered_also_by_another_process(location: str) -> None:
    first = Forgetful(Remember("one"), Remember("two"), AgentError("The line is dead."))
    async with attended(location, first) as here:
        await here.say("go")
        assert (await here.ends()).outcome == "failed"
        assert first.turns[0].remembered is None
        assert here.told.events == []
    second = Forgetful(Text("hello"))
    async with attended(location, second) as here:
        await here.say("again", "m2")
        await here.ends()
        assert second.turns[0].remembered == "two"


@awaited
async def test_what_one_agent_remembers_no_other_is_given(location: str) -> None:
    async with attended(location, Forgetful(Remember("one"), Text("hello"))) as here:
        await here.say("go")
        await here.ends()
    other = Forgetful(Text("hello"))
    async with attended(location, other, agent_for=lambda _source: ("other", other)) as here:
        await here.say("again", "m2")
        await here.ends()
        assert other.turns[0].remembered is None


@awaited
async def test_an_agent_that_remembers_too_much_fails_and_the_turn_is_over(location: str) -> None:
    async with attended(location, Forgetful(Remember("x" * 8_001), Text("hello"))) as here:
        await here.say("go")
        assert (await here.ends()).outcome == "failed"


class Held(Talker):
    """Holds something until it is closed."""

    def __init__(self) -> None:
        super().__init__("safe")
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


@awaited
async def test_an_agent_that_is_replaced_is_let_go_once_it_answers_nobody(location: str) -> None:
    agent = Held()
    async with attended(location, agent) as here:
        await here.say("go")
        agent.says("half")
        await here.told.until(1)
        here.gateway.once_unused([agent], close_agents)
        agent.says(" and half")
        await here.told.until(2)
        assert not agent.is_closed
        agent.says(None)
        await here.ends()

        async def is_closed() -> bool:
            return agent.is_closed

        await eventually(is_closed)

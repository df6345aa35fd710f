"""Files that go with an answer: they reach the chat behind the words, the transcript keeps them, and nothing brings them twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import msgspec
import pytest
from tests.gateway.broken import begun, streamed
from tests.gateway.talk import asked, eventually
from tests.gateway.world import Open, Running, awaited

from threadline.agents.echo import EchoAgent
from threadline.agents.function import FunctionAgent, FunctionTurn
from threadline.errors import UnknownFile
from threadline.model.files import MAX_FILE_BYTES, attachments_of
from threadline.model.inbound import Attachment
from threadline.model.turn import Replay
from threadline.ports.agent import AskPermission, Event, File, NewFile, Text, ToolCall, ToolResult, Turn
from threadline.ports.platform import Capabilities
from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.contracts.storage.fixtures import StoredBytes
from threadline.testing.scripted import ScriptedChat
from threadline.testing.scripted_world import ALL_CAPABILITIES
from threadline.texts import gateway as texts

PLAN = b"three herons and a plan"
PICTURE = "image/png"


async def with_plan(turn: Turn) -> AsyncIterator[Event]:
    """Says something and sends a file."""
    yield Text("here it is")
    yield await turn.file(PLAN, name="plan.txt", mime="text/plain")


async def file_alone(turn: Turn) -> AsyncIterator[Event]:
    """Sends a file and says nothing."""
    yield await turn.file(PLAN, name="plan.txt", mime="text/plain")


def arrived(here: Running, chat: str = "dm-ada") -> list[tuple[str, list[tuple[str, bytes]]]]:
    """What the chat shows: each message with its files."""
    return [(one.text, [(file.name, file.body) for file in one.files]) for one in here.chat.messages(chat)]


async def shows(here: Running, *messages: tuple[str, list[tuple[str, bytes]]], chat: str = "dm-ada") -> None:
    """Waits until the chat shows exactly these."""
    await here.chat.wait_for(lambda: arrived(here, chat) == list(messages))


async def is_quiet(here: Running) -> bool:
    """Whether nothing is to be done any more."""
    return not await here.store.outbox.has_pending_on("scripted") and here.gateway.outbox.is_idle


async def is_gone(store: GatewayStore, file_id: str) -> bool:
    """Whether nobody can read a file any more."""
    try:
        await store.files.read_body(file_id)
    except UnknownFile:
        return True
    return False


@awaited
async def test_a_file_follows_the_words_and_stays_with_the_answer(opened: Open) -> None:
    async with opened(ScriptedAgent(with_plan)) as here:
        here.chat.say("the plan?")
        await shows(here, ("here it is", []), ("", [("plan.txt", PLAN)]))
        (entry,) = await here.store.list_sessions()
        _, answer = await here.store.load_transcript(entry.session_id)
        (file,) = attachments_of(answer)
        assert (answer["content"], file.name, file.mime, file.size) == (
            "here it is",
            "plan.txt",
            "text/plain",
            len(PLAN),
        )
        file_id = file.handle.removeprefix("file:")
        kept, body = await here.store.read_file("scripted:ada", file_id)
        assert (kept.name, body) == ("plan.txt", PLAN)
        with pytest.raises(UnknownFile):
            await here.store.read_file("scripted:tim", file_id)
        await here.store.delete_session(entry.session_id)
        assert await is_gone(here.store, file_id)


@awaited
async def test_once_it_was_sent_a_delivery_tells_how_many_files_it_had_and_nothing_else(opened: Open) -> None:
    async with opened(ScriptedAgent(with_plan)) as here:
        here.chat.say("the plan?")
        await here.shown(2)
        await eventually(lambda: is_quiet(here))
        lines = (await here.store.outbox.list_page())[::-1]
        assert [(line.state, line.files) for line in lines] == [("sent", ()), ("sent", ("",))]


@awaited
async def test_a_file_alone_is_an_answer_and_replies_where_words_would(opened: Open) -> None:
    async with opened(ScriptedAgent(file_alone)) as here:
        asking = here.chat.say("the plan?", chat="den", chat_type="group")
        await shows(here, ("", [("plan.txt", PLAN)]), chat="den")
        assert [message.reply_to for message in here.chat.messages("den")] == [asking]


@awaited
async def test_pictures_that_follow_one_another_go_together(opened: Open) -> None:
    async def album(turn: Turn) -> AsyncIterator[Event]:
        for number, mime in enumerate([PICTURE, "image/jpeg", "image/webp", "text/plain", PICTURE, "video/mp4"]):
            yield await turn.file(b"%d" % number, name=str(number), mime=mime)

    can = msgspec.structs.replace(ALL_CAPABILITIES, album=2)
    async with opened(ScriptedAgent(album), chat=ScriptedChat(capabilities=can)) as here:
        here.chat.say("show me")
        await here.chat.wait_for(
            lambda: (
                [[name for name, _ in files] for _, files in arrived(here)] == [["0", "1"], ["2"], ["3"], ["4", "5"]]
            )
        )


@awaited
async def test_where_no_files_can_go_a_line_names_them(opened: Open) -> None:
    async def two(turn: Turn) -> AsyncIterator[Event]:
        yield Text("look")
        for name in ("plan.txt", "`x`\n\x1b[31m.txt"):
            yield await turn.file(PLAN, name=name)

    async with opened(ScriptedAgent(two), chat=ScriptedChat(capabilities=Capabilities(max_length=300))) as here:
        here.chat.say("the plan?")
        missing = texts.FILES_NOT_HERE.format(names="`plan.txt`, `'x' .txt`")
        await here.shows(f"look\n\n{missing}")
        (entry,) = await here.store.list_sessions()
        assert len(attachments_of((await here.store.load_transcript(entry.session_id))[1])) == 2


@awaited
async def test_each_step_of_an_answer_keeps_its_own_files(opened: Open) -> None:
    async def steps(turn: Turn) -> AsyncIterator[Event]:
        yield await turn.file(b"one", name="one")
        yield ToolCall("c1", "look", "{}")
        yield ToolResult("c1", "seen")
        yield Text("done")
        yield await turn.file(b"two", name="two")

    async with opened(ScriptedAgent(steps)) as here:
        here.chat.say("go")
        await shows(here, ("done", []), ("", [("one", b"one")]), ("", [("two", b"two")]))
        (entry,) = await here.store.list_sessions()
        messages = await here.store.load_transcript(entry.session_id)
        assert [[file.name for file in attachments_of(message)] for message in messages] == [[], ["one"], [], ["two"]]


@awaited
async def test_what_was_sent_before_a_question_is_not_sent_again_after_it(opened: Open) -> None:
    async def asks(turn: Turn) -> AsyncIterator[Event]:
        ask = AskPermission(ask_id="1", tool="send", arguments="{}")
        if turn.permitted(ask) is None:
            yield await turn.file(b"before", name="before")
            yield ask
        else:
            yield await turn.file(b"after", name="after")

    async with opened(ScriptedAgent(asks)) as here:
        here.chat.say("go")
        code = await asked(here)
        assert [files for _, files in arrived(here)] == [[("before", b"before")], []]
        here.chat.say(f"/approve {code}")
        await here.chat.wait_for(lambda: [("after", b"after")] in [files for _, files in arrived(here)])
        await eventually(lambda: is_quiet(here))
        assert [files for _, files in arrived(here) if files] == [[("before", b"before")], [("after", b"after")]]
        (entry,) = await here.store.list_sessions()
        answer = (await here.store.load_transcript(entry.session_id))[1]
        assert [file.name for file in attachments_of(answer)] == ["before", "after"]


@pytest.mark.parametrize(("replay", "said"), [("never", texts.BROKEN_OFF), ("safe", "here it is")])
@awaited
async def test_a_turn_that_broke_off_sends_its_file_once(
    opened: Open, location: str, replay: Replay, said: str
) -> None:
    async with await GatewayStore.open(location) as store:
        claimed = await begun(store, replay=replay)
        kept = await store.files.keep_for_turn(claimed.lease, PLAN, name="plan.txt", mime="text/plain")
        event = msgspec.json.encode(File(kept.attachment())).decode()
        assert "herons" not in event
        await store.turns.append_journal(claimed.lease, 1, [event])
    async with opened(ScriptedAgent(with_plan)) as here:
        await shows(here, (said, []), ("", [("plan.txt", PLAN)]))
        await eventually(lambda: is_quiet(here))
        assert len(here.chat.messages()) == 2


@awaited
async def test_a_beginning_that_is_taken_back_takes_no_file_with_it(opened: Open, location: str) -> None:
    chat = ScriptedChat()
    async with await GatewayStore.open(location) as store:
        await streamed(store, chat, await begun(store), "well, ")
    async with opened(ScriptedAgent(file_alone), chat=chat) as here:
        await shows(here, ("well, ", []), ("", [("plan.txt", PLAN)]))


@awaited
async def test_a_file_that_may_have_arrived_is_sent_again_and_marked(opened: Open) -> None:
    async with opened(ScriptedAgent(file_alone)) as here:
        here.chat.swallow_next()
        here.chat.say("the plan?")
        mark = texts.MAY_BE_REPEATED.format(text="").strip()
        await shows(here, ("", [("plan.txt", PLAN)]), (mark, [("plan.txt", PLAN)]))
        await eventually(lambda: is_quiet(here))
        assert [line.state for line in await here.store.outbox.list_page()] == ["unknown"]


@awaited
async def test_a_file_that_was_taken_back_before_it_was_sent_is_told_as_such(opened: Open) -> None:
    async with opened(ScriptedAgent(with_plan)) as here:
        here.chat.hold("calls")
        here.chat.say("the plan?")
        await eventually(lambda: has_answered(here))
        (entry,) = await here.store.list_sessions()
        answer = (await here.store.read_transcript(entry.session_id))[1]
        await here.store.redact(answer.ref)
        here.chat.release()
        await shows(here, ("here it is", []), (texts.FILES_NOT_SENT, []))


async def has_answered(here: Running) -> bool:
    """Whether a turn has ended whose words are on their way, and its file is not."""
    return [line.state for line in await here.store.outbox.list_page()] == ["pending", "sending"]


@awaited
async def test_a_conversation_that_is_deleted_sends_no_file_any_more(opened: Open) -> None:
    async with opened(ScriptedAgent(with_plan)) as here:
        here.chat.hold("calls")
        here.chat.say("the plan?")
        await eventually(lambda: has_answered(here))
        (entry,) = await here.store.list_sessions()
        await here.store.delete_session(entry.session_id)
        here.chat.release()
        await eventually(lambda: is_quiet(here))
        lines = await here.store.outbox.list_page()
        assert [(line.state, line.files) for line in lines] == [("dropped", ()), ("sent", ())]
        assert arrived(here) == [("here it is", [])]


@awaited
async def test_who_is_erased_meanwhile_gets_no_file_and_none_is_kept(opened: Open, stored_bytes: StoredBytes) -> None:
    begin, go_on = asyncio.Event(), asyncio.Event()

    async def slow(turn: Turn) -> AsyncIterator[Event]:
        begin.set()
        await go_on.wait()
        yield await turn.file(PLAN, name="herons.txt")

    async with opened(ScriptedAgent(slow)) as here:
        here.chat.say("the plan?")
        await begin.wait()
        await here.store.erase_person("scripted:ada")
        go_on.set()
        await here.gateway.idle()
        assert here.chat.messages() == []
    assert b"herons" not in stored_bytes()


@awaited
async def test_a_file_that_is_not_stored_is_the_agents_fault(opened: Open) -> None:
    async def makes_up(_turn: Turn) -> AsyncIterator[Event]:
        yield File(Attachment(handle="f1", name="made up"))

    async with opened(ScriptedAgent(makes_up)) as here:
        here.chat.say("go")
        await here.shows(texts.AGENT_FAULT.format(error="TypeError"))


def plain(_: FunctionTurn) -> NewFile:
    return NewFile(body=PLAN, name="plan.txt", mime="text/plain")


async def awaits(turn: FunctionTurn) -> File:
    return await turn.file(PLAN, name="plan.txt", mime="text/plain")


@pytest.mark.parametrize("function", [plain, awaits])
@awaited
async def test_a_function_gives_a_file(opened: Open, function: Callable[[FunctionTurn], object]) -> None:
    async with opened(FunctionAgent(function)) as here:
        here.chat.say("the plan?")
        await shows(here, ("", [("plan.txt", PLAN)]))


@pytest.mark.parametrize(("size", "fault"), [(0, "the file is empty"), (MAX_FILE_BYTES + 1, "larger than 10 MB")])
@awaited
async def test_a_file_that_can_not_be_sent_is_told_in_plain_words(opened: Open, size: int, fault: str) -> None:
    async with opened(FunctionAgent(lambda _: NewFile(body=b"x" * size, name="x"))) as here:
        here.chat.say("go")
        (told,) = await here.shown(1)
        assert fault in told


@awaited
async def test_echo_sends_back_what_came_and_names_what_it_can_not_get(opened: Open) -> None:
    async with opened(EchoAgent(pause=0.0)) as here:
        files = [here.chat.add_file(PLAN, name="plan.txt", mime="text/plain"), Attachment(handle="f9", name="gone.txt")]
        here.chat.say("look", attachments=files)
        missing = texts.FILES_NOT_HAD.format(names="`gone.txt`")
        await shows(here, (f"look\n\n{missing}", []), ("", [("plan.txt", PLAN)]))


@awaited
async def test_a_file_of_an_answer_outlives_the_week_of_those_that_came_with_nothing(
    opened: Open, location: str
) -> None:
    async with opened(ScriptedAgent(with_plan)) as here:
        here.chat.say("the plan?")
        await here.shown(2)
        (entry,) = await here.store.list_sessions()
        (file,) = attachments_of((await here.store.load_transcript(entry.session_id))[1])
        later = here.store.clock.now() + timedelta(days=30)
    async with await GatewayStore.open(location, clock=FakeClock(later)) as store:
        assert await store.files.delete_unsent() == 0
        assert await store.files.read_body(file.handle.removeprefix("file:")) == PLAN

"""A function as an agent: its shapes, what it is given, what it may give, and what becomes of its faults."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from threadline.agents.function import AgentFunction, FunctionAgent, FunctionTurn
from threadline.model.files import StoredFile, file_id_of
from threadline.model.inbound import Attachment
from threadline.ports.agent import (
    AgentError,
    AskPermission,
    Done,
    Event,
    File,
    McpServer,
    NewFile,
    Permission,
    Spoken,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Workplace,
)
from threadline.testing import dm, exchange
from threadline.testing.contracts.agents import PATIENCE, a_turn, events_of, run_with, text_of


def answered(function: AgentFunction, turn: Turn | None = None) -> list[Event]:
    agent = FunctionAgent(function)
    return run_with(agent, events_of(agent, turn or a_turn("hello")))


def shapes_of(work: Any) -> dict[str, AgentFunction]:
    """The same work as a function of each shape."""

    async def awaited(turn: FunctionTurn) -> object:
        return work(turn)

    def stepped(turn: FunctionTurn) -> Iterator[object]:
        yield work(turn)

    async def streamed(turn: FunctionTurn) -> AsyncIterator[object]:
        yield work(turn)

    return {"plain": work, "awaited": awaited, "stepped": stepped, "streamed": streamed}


X_TXT = StoredFile(file_id=file_id_of(b"x"), name="x.txt", mime="text/plain", size=1).attachment()
every_shape = pytest.mark.parametrize("shape", ["plain", "awaited", "stepped", "streamed"])


@every_shape
@pytest.mark.parametrize(
    ("given", "events"),
    [
        ("hi", [Text("hi")]),
        ("", []),
        (None, []),
        (ToolCall("c1", "look"), [ToolCall("c1", "look")]),
        (NewFile(body=b"x", name="x.txt", mime="text/plain"), [File(X_TXT)]),
    ],
)
def test_text_events_and_nothing_may_be_given(shape: str, given: object, events: list[Event]) -> None:
    assert answered(shapes_of(lambda _: given)[shape]) == events


@every_shape
@pytest.mark.parametrize("given", [7, b"hi", ["hi"], {"text": "hi"}, object()])
def test_anything_else_is_refused_by_the_name_of_its_type(shape: str, given: object) -> None:
    with pytest.raises(AgentError, match=f"type {type(given).__name__};") as error:
        answered(shapes_of(lambda _: given)[shape])
    assert error.value.is_owners


@every_shape
def test_it_is_given_the_turn(shape: str) -> None:
    file, other = Attachment(handle="f1", name="plan.pdf"), Attachment(handle="f2")
    spoken = tuple(Spoken(text="x", source=dm(), attachments=(attachment,)) for attachment in (file, other))
    turn = a_turn(
        "[Ada] look",
        messages=spoken,
        history=exchange("hi", "hello"),
        context_prompt="You are in a chat.",
        permissions=(Permission(AskPermission(ask_id="1", tool="shell"), granted=True),),
        so_far=(Text("before"),),
        role="owner",
        system_prompt="Be brief.",
    )
    seen: list[FunctionTurn] = []
    answered(shapes_of(seen.append)[shape], turn)
    (view,) = seen
    assert view.text == "[Ada] look"
    assert view.messages == spoken
    assert view.attachments == (file, other)
    assert view.history == exchange("hi", "hello")
    assert view.session == turn.session
    assert view.source == turn.source
    assert (view.context_prompt, view.system_prompt) == ("You are in a chat.", "Be brief.")
    assert (view.turn_id, view.role, view.attempt) == ("turn-1", "owner", 1)
    assert view.so_far == (Text("before"),)
    assert view.answered(AskPermission(ask_id="1", tool="shell")) is True
    assert turn.uses.use(AskPermission(ask_id="2", tool="other"))
    assert view.permitted(AskPermission(ask_id="1", tool="shell")) is True
    assert AskPermission(ask_id="1", tool="shell") in turn.uses.end()
    assert view.permitted(AskPermission(ask_id="1", tool="shell", arguments='{"all": true}')) is None


@every_shape
def test_it_takes_in_what_is_said_meanwhile(shape: str) -> None:
    more = (Spoken(text="faster", source=dm()),)

    async def take() -> tuple[Spoken, ...]:
        return more

    def plain(turn: FunctionTurn) -> str:
        return turn.take_new_messages_sync()[0].text

    async def awaited(turn: FunctionTurn) -> str:
        return (await turn.more())[0].text

    async def streamed(turn: FunctionTurn) -> AsyncIterator[str]:
        yield (await turn.more())[0].text

    function = {**shapes_of(plain), "awaited": awaited, "streamed": streamed}[shape]
    assert text_of(answered(function, a_turn("go", take=take))) == "faster"


def test_only_plain_code_leaves_the_event_loops_thread() -> None:
    threads = {}
    for shape, function in shapes_of(lambda _: str(threading.get_ident())).items():
        threads[shape] = text_of(answered(function)) == str(threading.get_ident())
    assert threads == {"plain": False, "awaited": True, "stepped": False, "streamed": True}


def test_a_generator_is_stepped_and_closed_in_one_thread() -> None:
    seen: list[int] = []

    def function(_: FunctionTurn) -> Iterator[str]:
        try:
            for word in ("a", "b", "c"):
                seen.append(threading.get_ident())
                yield word
        finally:
            seen.append(threading.get_ident())

    assert text_of(answered(function)) == "abc"
    assert len(seen) == 4
    assert len(set(seen)) == 1
    assert seen[0] != threading.get_ident()


@pytest.mark.parametrize("shape", ["stepped", "streamed"])
def test_a_generator_goes_on_only_when_its_event_was_taken(shape: str) -> None:
    done: list[str] = []

    def stepped(_: FunctionTurn) -> Iterator[Event]:
        yield ToolCall("c1", "rm")
        done.append("rm")
        yield ToolResult("c1", "gone")

    async def streamed(turn: FunctionTurn) -> AsyncIterator[Event]:
        for event in stepped(turn):
            yield event

    async def taken() -> list[str]:
        agent = FunctionAgent(stepped if shape == "stepped" else streamed)
        before = []
        async for event in agent.run(a_turn()):
            # A tool that ran ahead would have run by the time that its call is stored.
            await asyncio.to_thread(threading.Event().wait, 0.02)
            before.append(f"{type(event).__name__} {done}")
        return before

    assert asyncio.run(taken()) == ["ToolCall []", "ToolResult ['rm']"]


@every_shape
def test_a_fault_becomes_a_sentence_without_its_text(shape: str) -> None:
    def work(_: FunctionTurn) -> None:
        raise ValueError("the key is sk-secret")

    with pytest.raises(AgentError, match=r"^The agent failed: ValueError\.") as error:
        answered(shapes_of(work)[shape])
    assert "sk-secret" not in str(error.value)
    assert isinstance(error.value.__cause__, ValueError)


@every_shape
@pytest.mark.parametrize("fault", [StopIteration("x"), SystemExit(2), asyncio.CancelledError()])
def test_no_fault_of_a_function_ends_more_than_its_turn(shape: str, fault: BaseException) -> None:
    def work(_: FunctionTurn) -> None:
        raise fault

    with pytest.raises(AgentError, match="The agent failed"):
        answered(shapes_of(work)[shape])


@every_shape
def test_its_own_sentence_is_kept(shape: str) -> None:
    def work(_: FunctionTurn) -> None:
        raise AgentError("The garden is closed.", is_owners=True)

    with pytest.raises(AgentError, match=r"^The garden is closed\.$") as error:
        answered(shapes_of(work)[shape])
    assert error.value.is_owners


def test_what_was_said_before_a_fault_is_kept() -> None:
    def function(_: FunctionTurn) -> Iterator[str]:
        yield "so far"
        raise OSError

    heard: list[Event] = []

    async def hear() -> None:
        async for event in FunctionAgent(function).run(a_turn()):
            heard.append(event)  # noqa: PERF401  # a list that is made at the end would lose what was heard

    with pytest.raises(AgentError):
        asyncio.run(hear())
    assert heard == [Text("so far")]


@pytest.mark.parametrize("last", [Done(), AskPermission(ask_id="a1", tool="shell")])
@pytest.mark.parametrize("is_async", [False, True])
def test_nothing_follows_the_event_that_ends_a_run(last: Event, is_async: bool) -> None:
    closed = threading.Event()

    def stepped(_: FunctionTurn) -> Iterator[object]:
        try:
            yield "one"
            yield last
            yield "two"
        finally:
            closed.set()

    async def streamed(turn: FunctionTurn) -> AsyncIterator[object]:
        for item in stepped(turn):
            yield item

    assert answered(streamed if is_async else stepped) == [Text("one"), last]
    assert closed.wait(PATIENCE)


class Answering:
    """Callables that are no functions."""

    async def __call__(self, turn: FunctionTurn) -> str:
        return turn.text

    def bound(self, turn: FunctionTurn) -> str:
        return turn.text


async def answer_for(name: str, turn: FunctionTurn) -> str:
    return f"{name}: {turn.text}"


def undecorated(turn: FunctionTurn) -> Any:
    return answer_for("inner", turn)


def handing_on(turn: FunctionTurn) -> Any:
    async def inner() -> AsyncIterator[str]:
        yield turn.text

    return inner()


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (Answering(), "hello"),
        (Answering().bound, "hello"),
        (functools.partial(answer_for, "Ada"), "Ada: hello"),
        (undecorated, "inner: hello"),
        (handing_on, "hello"),
        (lambda turn: iter([turn.text, "!"]), "hello!"),
    ],
    ids=["object", "method", "partial", "returns a coroutine", "returns an async generator", "returns an iterator"],
)
def test_any_callable_will_do(function: AgentFunction, answer: str) -> None:
    assert text_of(answered(function)) == answer


def test_a_plain_function_is_told_of_the_cancellation_and_has_its_last_words() -> None:
    turn = a_turn()
    started = threading.Event()

    def function(view: FunctionTurn) -> Iterator[str]:
        started.set()
        assert view.cancelled.wait(PATIENCE)
        yield "I was "
        yield "stopped"

    async def cancelled() -> list[Event]:
        agent = FunctionAgent(function, grace=PATIENCE)
        run = asyncio.create_task(events_of(agent, turn))
        await asyncio.to_thread(started.wait, PATIENCE)
        turn.cancelled.set()
        return await run

    assert text_of(asyncio.run(cancelled())) == "I was stopped"


def test_a_closed_run_is_told_to_the_function_before_it_is_closed() -> None:
    seen: list[bool] = []

    async def function(view: FunctionTurn) -> AsyncIterator[str]:
        try:
            yield "a"
        finally:
            seen.append(view.cancelled.is_set())

    async def closed() -> None:
        answer = FunctionAgent(function).run(a_turn())
        await anext(answer)
        await answer.aclose()  # type: ignore[attr-defined]

    asyncio.run(closed())
    assert seen == [True]


def test_functions_that_hang_keep_nobody_else_waiting() -> None:
    hanging = threading.Semaphore(0)
    never = threading.Event()

    def function(turn: FunctionTurn) -> str:
        if turn.text == "hang":
            hanging.release()
            never.wait()
        return turn.text

    async def others() -> str:
        agent = FunctionAgent(function, threads=2, grace=0.0)
        for _ in range(3):
            turns = [a_turn("hang") for _ in range(2)]
            runs = [asyncio.create_task(events_of(agent, turn)) for turn in turns]
            for turn in turns:
                assert await asyncio.to_thread(hanging.acquire, timeout=PATIENCE)
                turn.cancelled.set()
            await asyncio.gather(*runs)
        return text_of(await events_of(agent, a_turn("still there")))

    assert asyncio.run(others()) == "still there"
    never.set()


def test_no_more_threads_than_allowed_work_at_once() -> None:
    started, free = threading.Semaphore(0), threading.Event()

    def function(_: FunctionTurn) -> str:
        started.release()
        free.wait(PATIENCE)
        return "done"

    async def nine() -> list[str]:
        agent = FunctionAgent(function, threads=3)
        runs = [asyncio.create_task(events_of(agent, a_turn())) for _ in range(9)]
        begun = [await asyncio.to_thread(started.acquire, timeout=PATIENCE) for _ in range(3)]
        begun.append(await asyncio.to_thread(started.acquire, timeout=0.1))
        free.set()
        assert begun == [True, True, True, False]
        return [text_of(events) for events in await asyncio.gather(*runs)]

    assert asyncio.run(nine()) == ["done"] * 9


def test_a_generator_that_others_hold_on_to_is_closed_too() -> None:
    closed_in: list[int] = []
    is_closed = threading.Event()

    def words() -> Iterator[str]:
        try:
            while True:
                yield "a"
        finally:
            closed_in.append(threading.get_ident())
            is_closed.set()

    held = words()

    async def closed() -> None:
        answer = FunctionAgent(lambda _: held).run(a_turn())
        await anext(answer)
        await answer.aclose()  # type: ignore[attr-defined]

    asyncio.run(closed())
    assert is_closed.wait(PATIENCE)
    assert closed_in != [threading.get_ident()]
    assert list(held) == []


def test_a_turn_that_waits_for_a_thread_can_be_cancelled() -> None:
    started, free = threading.Event(), threading.Event()

    def function(_: FunctionTurn) -> None:
        started.set()
        free.wait(PATIENCE)

    async def waiting() -> list[Event]:
        agent = FunctionAgent(function, threads=1, grace=0.0)
        first = asyncio.create_task(events_of(agent, a_turn()))
        await asyncio.to_thread(started.wait, PATIENCE)
        turn = a_turn()
        second = asyncio.create_task(events_of(agent, turn))
        await asyncio.sleep(0)
        turn.cancelled.set()
        events = await second
        free.set()
        await first
        return events

    assert asyncio.run(waiting()) == []


def test_replay_is_as_declared() -> None:
    assert FunctionAgent(sys.intern).replay == "until_tool"  # type: ignore[arg-type]
    assert FunctionAgent(sys.intern, "never").replay == "never"  # type: ignore[arg-type]


def test_the_earlier_names_of_the_blocking_methods_still_work() -> None:
    assert FunctionTurn.more_now is FunctionTurn.take_new_messages_sync
    assert FunctionTurn.read_file_now is FunctionTurn.read_file_sync


def test_a_plain_function_and_an_async_one_read_files() -> None:
    file = Attachment(handle="f1")

    async def fetch(_: Attachment) -> bytes:
        return b"herons"

    def plain(turn: FunctionTurn) -> str:
        return turn.read_file_sync(file).decode()

    async def awaiting(turn: FunctionTurn) -> str:
        with pytest.raises(RuntimeError, match=r"await turn\.read_file"):
            turn.read_file_sync(file)
        return (await turn.read_file(file)).decode()

    for function in (plain, awaiting):
        assert answered(function, a_turn("x", fetch=fetch)) == [Text("herons")]


@every_shape
def test_it_is_told_where_an_editor_lets_it_work_and_in_a_chat_that_none_does(shape: str) -> None:
    seen: list[Workplace | None] = []
    place = Workplace(cwd="/w", directories=("/more",), mcp_servers=(McpServer(name="files", command="serve"),))
    for one in (place, None):
        answered(shapes_of(lambda turn: seen.append(turn.workplace))[shape], replace(a_turn("hello"), workplace=one))
    assert seen == [place, None]

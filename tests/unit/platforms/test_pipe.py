"""A terminal that is a pipe: lines in, complete answers out, and the end only after the last of them."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from threadline.errors import StoreUnavailable
from threadline.model.delivery import target_of
from threadline.model.inbound import Arrival, Inbound
from threadline.platforms.local import Terminal
from threadline.platforms.local.pipe import PipeScreen
from threadline.platforms.registry import PlatformSetup, make_platform
from threadline.ports.platform import Outgoing, Verdict


class Agent:
    """Streams its answer to every message in three steps, each at a later time; `idle` is when it has none to give."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.terminal: Terminal
        self._answering: set[asyncio.Task[None]] = set()

    async def accept(self, event: Arrival) -> Verdict:
        assert isinstance(event, Inbound)
        self.heard.append(event.text)
        answering = asyncio.create_task(self._answer(event))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        return "accepted"

    async def idle(self) -> None:
        while self._answering:
            await asyncio.wait(self._answering)

    async def _answer(self, event: Inbound) -> None:
        to = target_of(event.source)
        message = await self.terminal.send(to, Outgoing(text="To "), key="k")
        for text in (f"To {event.text[:2]}", f"To {event.text}: yes."):
            await asyncio.sleep(0)
            await self.terminal.edit(to, message, Outgoing(text=text))


@contextmanager
def source(content: bytes) -> Iterator[int]:
    """The reading end of a pipe into which somebody has written this and then gone."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    yield reading
    with suppress(OSError):
        os.close(reading)


def talk(content: bytes, *, whole_input: bool = False) -> tuple[list[str], str]:
    """What an agent heard and what was written, when this is piped into a terminal."""

    async def scenario(reading: int) -> tuple[list[str], str]:
        agent, out = Agent(), io.StringIO()
        screen = PipeScreen(reading, out, io.StringIO(), whole_input=whole_input)
        agent.terminal = Terminal(screen, user="ada", idle=agent.idle)
        await asyncio.wait_for(agent.terminal.run(agent.accept, asyncio.Event()), 10)
        written = out.getvalue()
        await agent.terminal.close()
        assert out.getvalue() == written
        return agent.heard, written

    with source(content) as reading:
        return asyncio.run(scenario(reading))


def test_each_line_is_answered_before_the_next_and_only_what_is_complete_is_written() -> None:
    assert talk(b"one\ntwo\nthree\n") == (["one", "two", "three"], "To one: yes.\nTo two: yes.\nTo three: yes.\n")


@pytest.mark.parametrize(
    ("content", "heard"),
    [
        (b"", []),
        (b"\n  \n\n", []),
        (b"no end", ["no end"]),
        (b"dos\r\nlines\r\n", ["dos", "lines"]),
        ("grüße 😀\n".encode(), ["grüße 😀"]),
        (b"broken \xff\n", ["broken \ufffd"]),
        (b"x" * 60_000, ["x" * 60_000]),
    ],
    ids=["empty", "blank", "no newline", "dos", "utf-8", "not utf-8", "long"],
)
def test_lines_are_read_as_they_are(content: bytes, heard: list[str]) -> None:
    assert talk(content)[0] == heard


def test_the_whole_input_can_be_one_message() -> None:
    assert talk(b"one\n\ntwo", whole_input=True) == (["one\n\ntwo"], "To one\n\ntwo: yes.\n")
    assert talk(b"\n", whole_input=True)[0] == []


def test_a_file_is_read_like_a_pipe(tmp_path: Path) -> None:
    async def scenario(reading: int) -> list[str]:
        agent = Agent()
        agent.terminal = Terminal(PipeScreen(reading, io.StringIO(), io.StringIO()), user="ada", idle=agent.idle)
        await asyncio.wait_for(agent.terminal.run(agent.accept, asyncio.Event()), 10)
        return agent.heard

    (tmp_path / "questions").write_text("one\ntwo")
    for name, heard in ((tmp_path / "questions", ["one", "two"]), (Path(os.devnull), [])):
        with name.open("rb") as file:
            assert asyncio.run(scenario(file.fileno())) == heard


def test_what_comes_while_nobody_writes_is_written_once_it_is_complete() -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        out, agent = Out(), Agent()
        agent.terminal = Terminal(PipeScreen(reading, out, io.StringIO()), idle=agent.idle)
        ready = asyncio.Event()
        running = asyncio.create_task(agent.terminal.run(agent.accept, ready))
        await ready.wait()
        to = target_of(event().source)
        await agent.terminal.send(to, Outgoing(text="The build is done."), key="k")
        await asyncio.wait_for(out.written.wait(), 10)
        assert out.getvalue() == "The build is done.\n"
        os.close(writing)
        await asyncio.wait_for(running, 10)
        os.close(reading)

    asyncio.run(scenario())


def test_a_message_from_elsewhere_is_not_taken_for_the_answer() -> None:
    async def scenario(reading: int) -> None:
        agent, out = Agent(), io.StringIO()
        agent.terminal = Terminal(PipeScreen(reading, out, io.StringIO()), idle=agent.idle)

        async def accept(event: Arrival) -> Verdict:
            assert isinstance(event, Inbound)
            if event.text == "two":
                assert out.getvalue().endswith("To one: yes.\n")
            await agent.terminal.send(target_of(event.source), Outgoing(text="By the way."), key="k")
            # Long enough for the platform to see that nothing is running yet.
            for _ in range(20):
                await asyncio.sleep(0)
            return await agent.accept(event)

        await asyncio.wait_for(agent.terminal.run(accept, asyncio.Event()), 10)
        assert agent.heard == ["one", "two"]

    with source(b"one\ntwo\n") as reading:
        asyncio.run(scenario(reading))


class Out(io.StringIO):
    """An output that tells when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def flush(self) -> None:
        self.written.set()


def event() -> Inbound:
    from threadline.platforms.local.platform import typed_event
    from threadline.testing import FakeClock

    return typed_event("", user="ada", account="main", message_id="1", at=FakeClock().now())


def test_strangers_text_does_nothing_to_the_terminal_that_reads_the_output() -> None:
    assert talk(b"\x1b[2Jgone\x1b]0;title\x07\n")[1] == "To gone: yes.\n"


def test_what_the_encoding_can_not_say_is_written_as_numbers() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    async def scenario() -> None:
        screen = PipeScreen(0, out, io.StringIO())
        screen.show("1", "ü😀")
        screen.finish_messages()

    asyncio.run(scenario())
    assert out.buffer.getvalue() == b"\\xfc\\U0001f600\n"


def test_a_line_that_was_not_taken_is_told_beside_the_answers_and_the_rest_goes_on() -> None:
    async def scenario(reading: int) -> None:
        agent, out, notes = Agent(), io.StringIO(), io.StringIO()
        agent.terminal = Terminal(PipeScreen(reading, out, notes), idle=agent.idle)

        async def accept(event: Arrival) -> Verdict:
            assert isinstance(event, Inbound)
            if event.text == "one":
                raise StoreUnavailable
            return await agent.accept(event)

        await asyncio.wait_for(agent.terminal.run(accept, asyncio.Event()), 10)
        assert out.getvalue() == "To two: yes.\n"
        assert notes.getvalue().startswith("Not taken: The store can't be reached now.")

    with source(b"one\ntwo\n") as reading:
        asyncio.run(scenario(reading))


def test_it_ends_when_nobody_reads_the_answers_any_more() -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    async def scenario(reading: int) -> list[str]:
        agent = Agent()
        agent.terminal = Terminal(PipeScreen(reading, Closed(), io.StringIO()), idle=agent.idle)
        await asyncio.wait_for(agent.terminal.run(agent.accept, asyncio.Event()), 10)
        return agent.heard

    with source(b"one\ntwo\n") as reading:
        assert asyncio.run(scenario(reading)) == ["one"]


def test_without_being_told_when_an_answer_is_complete_it_writes_at_the_end() -> None:
    async def scenario(reading: int) -> None:
        agent, out = Agent(), io.StringIO()
        agent.terminal = Terminal(PipeScreen(reading, out, io.StringIO(), waits=False))
        await asyncio.wait_for(agent.terminal.run(agent.accept, asyncio.Event()), 10)
        await agent.idle()
        await agent.terminal.close()
        assert (agent.heard, out.getvalue()) == (["one", "two"], "To one: yes.\nTo two: yes.\n")

    with source(b"one\ntwo\n") as reading:
        asyncio.run(scenario(reading))


def test_cancelling_ends_it_although_the_pipe_is_open() -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        ready = asyncio.Event()
        terminal = Terminal(PipeScreen(reading, io.StringIO(), io.StringIO()))
        running = asyncio.create_task(terminal.run(Agent().accept, ready))
        await ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        os.close(writing)
        os.close(reading)

    asyncio.run(scenario())


def test_the_kind_local_is_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with source(b"") as reading, open(reading, closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        made = make_platform("local", PlatformSetup("local", "work", {"whole_input": True}))
    assert isinstance(made, Terminal)
    assert (made.name, made.account, made.capabilities.edit, made.capabilities.idempotent_send) == (
        "local",
        "work",
        True,
        False,
    )


@pytest.mark.parametrize("options", [{"history": 7}, {"colour": "red"}])
def test_options_that_no_terminal_has_are_refused(options: dict[str, object]) -> None:
    from threadline.errors import InvalidRequest

    with pytest.raises(InvalidRequest, match="options of the terminal"):
        make_platform("local", PlatformSetup("local", options=options))


def test_ids_of_two_terminals_are_never_the_same() -> None:
    async def first_id(make: Callable[[], Terminal]) -> str:
        return await make().send(target_of(event().source), Outgoing(text="hi"), key="k")

    def make() -> Terminal:
        return Terminal(PipeScreen(0, io.StringIO(), io.StringIO()))

    assert asyncio.run(first_id(make)) != asyncio.run(first_id(make))

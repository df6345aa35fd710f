"""A person at a terminal: what they type is sent, what comes back is drawn above the prompt, keys do what they promise."""

from __future__ import annotations

import asyncio
import io
import re
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from threadline.errors import StoreUnavailable
from threadline.model.delivery import Target
from threadline.model.inbound import Arrival, Inbound
from threadline.platforms.local import Terminal
from threadline.platforms.local.prompt import TerminalPrompt
from threadline.ports.platform import Outgoing, Verdict

HERE = Target(platform="local", chat_id="cli")
_ESCAPES = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[=>]")
COMMANDS = {"/status": "how it stands", "/stop": "stop", "/help": "what there is"}


class Desk:
    """A terminal, the keys that are pressed at it, what it wrote, and what was accepted."""

    def __init__(self, keys: PipeInput, written: io.StringIO, history: Path | None) -> None:
        self.keys = keys
        self.heard: list[str] = []
        self.rest = asyncio.Event()
        self.error: StoreUnavailable | None = None
        self._written = written
        self.terminal = Terminal(TerminalPrompt(commands=COMMANDS, history=history), user="ada", idle=self._idle)

    async def _idle(self) -> None:
        await self.rest.wait()

    async def accept(self, event: Arrival) -> Verdict:
        assert isinstance(event, Inbound)
        if self.error:
            raise self.error
        self.rest.clear()
        self.heard.append(event.text)
        return "accepted"

    @property
    def raw(self) -> str:
        return self._written.getvalue()

    @property
    def shown(self) -> str:
        """All that was ever drawn, without what moves and colours it."""
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            # The library draws when it likes, and tells nobody.
            while not happened():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def send(self, text: str) -> str:
        return await self.terminal.send(HERE, Outgoing(text=text), key="k")

    async def edit(self, message_id: str, text: str) -> None:
        await self.terminal.edit(HERE, message_id, Outgoing(text=text))


@asynccontextmanager
async def desk(history: Path | None = None) -> AsyncIterator[Desk]:
    """Somebody sits down, and presses Ctrl-D at the end."""
    written = io.StringIO()
    output = Vt100_Output(written, lambda: Size(rows=30, columns=80), term="xterm")
    with create_pipe_input() as keys, create_app_session(input=keys, output=output):
        here = Desk(keys, written, history)
        ready = asyncio.Event()
        running = asyncio.create_task(here.terminal.run(here.accept, ready))
        await here.until(lambda: "\u203a" in here.shown)
        yield here
        here.keys.send_text("\x15\x04")
        await asyncio.wait_for(running, 10)
        await here.terminal.close()


def test_what_is_typed_is_sent_and_stays_on_the_screen() -> None:
    async def scenario() -> None:
        async with desk() as here:
            here.keys.send_text("hello there\r")
            await here.until(lambda: here.heard == ["hello there"])
            here.keys.send_text("  \r\x1b\rfirst\x1b\rsecond \r")
            await here.until(lambda: len(here.heard) == 2)
        assert here.heard[1] == "\nfirst\nsecond"
        assert "\u203a hello there\n" in here.shown

    asyncio.run(scenario())


def test_an_answer_is_drawn_while_it_grows_and_what_is_complete_is_printed_once() -> None:
    async def scenario() -> None:
        async with desk() as here:
            here.keys.send_text("go\r")
            await here.until(lambda: here.heard)
            message = await here.send("**Firs")
            await here.until(lambda: "**Firs" in here.shown)
            await here.edit(message, "**First**\n\nSec")
            await here.until(lambda: "Sec" in here.shown)
            await here.edit(message, "**First**\n\nSecond")
            here.rest.set()
            await here.until(lambda: here.shown.count("Second\n\n"))
        # The end draws nothing again.
        assert (here.shown.count("First\n\n"), here.shown.count("Second\n\n")) == (1, 1)

    asyncio.run(scenario())


def test_an_answer_that_changes_its_beginning_is_said_again_whole() -> None:
    async def scenario() -> None:
        async with desk() as here:
            message = await here.send("Draft one.\n\nMore")
            await here.edit(message, "Other words.\n\nMore words")
            here.rest.set()
            await here.until(lambda: "More words\n\n" in here.shown)
        assert here.shown.index("Draft one.\n\n") < here.shown.index("Other words.\n\n")

    asyncio.run(scenario())


def test_messages_are_printed_in_the_order_in_which_they_came() -> None:
    async def scenario() -> None:
        async with desk() as here:
            for text in ("one", "two", "three"):
                await here.send(text)
            here.rest.set()
            await here.until(lambda: "three\n\n" in here.shown)
        assert [here.shown.count(f"{text}\n\n") for text in ("one", "two", "three")] == [1, 1, 1]
        assert here.shown.index("one\n\n") < here.shown.index("two\n\n") < here.shown.index("three\n\n")

    asyncio.run(scenario())


def test_ctrl_c_stops_a_running_answer_and_keeps_what_was_being_typed() -> None:
    async def scenario() -> None:
        async with desk() as here:
            here.keys.send_text("go\r")
            await here.until(lambda: here.heard)
            here.keys.send_text("half a thou\x03")
            await here.until(lambda: len(here.heard) == 2)
            here.keys.send_text("ght\r")
            await here.until(lambda: len(here.heard) == 3)
        assert here.heard == ["go", "/stop", "half a thought"]

    asyncio.run(scenario())


def test_ctrl_c_without_a_running_answer_clears_the_line_and_then_says_how_to_leave() -> None:
    async def scenario() -> None:
        async with desk() as here:
            here.keys.send_text("go\r")
            await here.until(lambda: here.heard)
            here.rest.set()
            await here.send("gone")
            await here.until(lambda: "gone\n\n" in here.shown)
            here.keys.send_text("typo\x03\x03")
            await here.until(lambda: "Ctrl-D ends the conversation" in here.shown)
            here.keys.send_text("right\r")
            await here.until(lambda: len(here.heard) == 2)
        assert here.heard == ["go", "right"]

    asyncio.run(scenario())


def test_commands_are_completed_and_other_words_are_not() -> None:
    async def scenario() -> None:
        async with desk() as here:
            here.keys.send_text("/he")
            await here.until(lambda: "what there is" in here.shown)
            here.keys.send_text("\t\r")
            await here.until(lambda: here.heard)
            here.keys.send_text("see /he\t\r")
            await here.until(lambda: len(here.heard) == 2)
        assert (here.heard[0], here.heard[1].startswith("see /help")) == ("/help", False)

    asyncio.run(scenario())


def test_strangers_text_moves_nothing_on_the_screen() -> None:
    async def scenario() -> None:
        async with desk() as here:
            # Markdown can spell a character as a number, and a link can look like another.
            await here.send("\x1b[2J\x1b]0;title\x07harm&#x202e;less \x9b5A [safe](https://evil.example)")
            here.rest.set()
            await here.until(lambda: "harmless" in here.shown)
        assert not re.search("\x1b\\]|\x1b\\[2J|\x9b|\u202e", here.raw)
        assert "safe (https://evil.example)" in here.shown

    asyncio.run(scenario())


def test_what_was_not_taken_is_said() -> None:
    async def scenario() -> None:
        async with desk() as here:
            here.error = StoreUnavailable()
            here.keys.send_text("hello\r")
            await here.until(lambda: "Not taken: The store can't be reached now." in here.shown)
            here.error = None
            here.rest.set()
            # The arrow brings it back.
            here.keys.send_text("\x1b[A\r")
            await here.until(lambda: here.heard == ["hello"])

    asyncio.run(scenario())


def test_what_was_typed_is_remembered_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"

    async def first() -> None:
        async with desk(path) as here:
            here.keys.send_text("remember me\r")
            await here.until(lambda: here.heard)

    async def later() -> list[str]:
        async with desk(path) as here:
            here.keys.send_text("\x1b[A\r")
            await here.until(lambda: here.heard)
            return here.heard

    asyncio.run(first())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert asyncio.run(later()) == ["remember me"]


@pytest.mark.parametrize("place", [".", "missing/history"], ids=["no file", "no folder"])
def test_a_history_that_can_not_be_kept_stops_nobody(tmp_path: Path, place: str) -> None:
    async def scenario() -> list[str]:
        async with desk(tmp_path / place) as here:
            here.keys.send_text("hello\r")
            await here.until(lambda: here.heard)
            return here.heard

    assert asyncio.run(scenario()) == ["hello"]


def test_being_cancelled_leaves_the_terminal_as_it_was() -> None:
    async def scenario() -> str:
        written = io.StringIO()
        output = Vt100_Output(written, lambda: Size(rows=30, columns=80), term="xterm")
        with create_pipe_input() as keys, create_app_session(input=keys, output=output):
            here = Desk(keys, written, None)
            running = asyncio.create_task(here.terminal.run(here.accept, asyncio.Event()))
            await here.until(lambda: "\u203a" in here.shown)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        return written.getvalue()

    raw = asyncio.run(scenario())
    # Pasted text is marked only while the prompt is there.
    assert raw.rindex("\x1b[?2004l") > raw.rindex("\x1b[?2004h")

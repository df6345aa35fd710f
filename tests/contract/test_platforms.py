"""The platform contract on every platform that comes with Threadline, and on the example of the documentation."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from threadline.model.delivery import Target, target_of
from threadline.model.source import SessionSource
from threadline.model.webchat import web_target
from threadline.platforms.local import Terminal
from threadline.platforms.web import WebPlatform
from threadline.ports.live import Growth, Said, Speaker
from threadline.ports.platform import Outgoing, Platform
from threadline.testing.contracts.platforms import (
    AcknowledgingContract,
    EditingContract,
    OpenWorld,
    PlatformContract,
    ReconnectingContract,
    RepeatingContract,
    World,
)
from threadline.testing.scripted import ALL_CAPABILITIES, ScriptedChat, ScriptedPlatform

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "platform.md"


class ScriptedWorld:
    """A scripted chat with Ada in it."""

    target = Target(platform="scripted", chat_id="dm-ada")

    def __init__(self, chat: ScriptedChat) -> None:
        self._chat = chat

    def connect(self) -> Platform:
        return ScriptedPlatform(self._chat.address, capabilities=self._chat.capabilities)

    async def say(self, text: str) -> None:
        self._chat.say(text, user="ada")

    async def shown(self) -> list[str]:
        return self._chat.texts("dm-ada")

    async def unacknowledged(self) -> int:
        return len(self._chat.unacknowledged)

    async def cut(self) -> None:
        self._chat.disconnect()

    async def lose_answer(self) -> None:
        self._chat.swallow_next(hang_up=True)


@pytest.fixture(params=[False, True], ids=["plain", "keyed"])
def open_scripted(request: pytest.FixtureRequest) -> OpenWorld:
    @asynccontextmanager
    async def opened() -> AsyncIterator[ScriptedWorld]:
        can = msgspec.structs.replace(ALL_CAPABILITIES, idempotent_send=request.param)
        async with ScriptedChat(capabilities=can, resend_after=0.1) as chat:
            yield ScriptedWorld(chat)
            assert not chat.misuses

    return opened


class _OfScripted:
    @pytest.fixture
    def open_world(self, open_scripted: OpenWorld) -> OpenWorld:
        return open_scripted


class TestScripted(_OfScripted, PlatformContract): ...


class TestScriptedAcknowledging(_OfScripted, AcknowledgingContract): ...


class TestScriptedReconnecting(_OfScripted, ReconnectingContract): ...


class TestScriptedEditing(_OfScripted, EditingContract): ...


@pytest.mark.parametrize("open_scripted", [True], indirect=True)
class TestScriptedRepeating(_OfScripted, RepeatingContract): ...


class Paper:
    """A screen that somebody sits before, who types what they are told to."""

    is_busy = False

    def __init__(self) -> None:
        self.typed: asyncio.Queue[str] = asyncio.Queue()
        self.texts: dict[str, str] = {}

    async def run(self, take: Callable[[str], None]) -> None:
        while True:
            take(await self.typed.get())

    def echo(self, line: str) -> None: ...

    def show(self, message_id: str, text: str) -> None:
        self.texts[message_id] = text

    def settle(self) -> None: ...

    def note(self, sentence: str) -> None: ...


class TerminalWorld:
    """Ada at a terminal."""

    target = target_of(SessionSource.local_cli())

    def __init__(self) -> None:
        self._paper = Paper()

    def connect(self) -> Platform:
        return Terminal(self._paper, user="ada")

    async def say(self, text: str) -> None:
        self._paper.typed.put_nowait(text)

    async def shown(self) -> list[str]:
        return list(self._paper.texts.values())


class _OfTerminal:
    @pytest.fixture
    def open_world(self) -> OpenWorld:
        @asynccontextmanager
        async def opened() -> AsyncIterator[TerminalWorld]:
            yield TerminalWorld()

        return opened


class TestTerminal(_OfTerminal, PlatformContract): ...


class TestTerminalEditing(_OfTerminal, EditingContract): ...


class Rows:
    """Who looks at a conversation on the page. What they see is stored, so a test that stores nothing looks at what was sent."""

    def __init__(self) -> None:
        self.arrivals: list[Target] = []
        self.texts: dict[str, str] = {}

    def arrived(self, to: Target) -> None:
        self.arrivals.append(to)

    def turn_began(self, to: Target, turn_id: str, attempt: int) -> None: ...

    def turn_grew(self, to: Target, growth: Growth) -> None: ...

    def turn_ended(self, to: Target, turn_id: str) -> None: ...


class _Storing(WebPlatform):
    """The page behind a store that keeps one row under each key."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._rows = rows

    async def send(self, to: Target, message: Outgoing, *, key: str) -> str:
        self._rows.texts[key] = message.text
        message_id = await super().send(to, message, key=key)
        assert message_id == key, "the row is the receipt"
        assert self._rows.arrivals[-1] == to
        return message_id


class WebWorld:
    """The owner before the page. A page repeats what it got no answer to."""

    target = web_target("owner", "conversation-1")

    def __init__(self) -> None:
        self._rows = Rows()
        self._platform: WebPlatform | None = None
        self._numbers = itertools.count()

    def connect(self) -> Platform:
        self._platform = _Storing(self._rows)
        return self._platform

    async def say(self, text: str) -> None:
        assert self._platform is not None
        said = Said(message_id=f"m{next(self._numbers)}", text=text)
        await self._platform.say(Speaker(user_id="owner", name="Owner"), "conversation-1", said)

    async def shown(self) -> list[str]:
        return list(self._rows.texts.values())


class _OfWeb:
    @pytest.fixture
    def open_world(self) -> OpenWorld:
        @asynccontextmanager
        async def opened() -> AsyncIterator[WebWorld]:
            yield WebWorld()

        return opened


class TestWeb(_OfWeb, PlatformContract): ...


class TestWebRepeating(_OfWeb, RepeatingContract): ...


class _OfPigeons:
    """The smallest adapter and its world, as the page on extending shows them."""

    @pytest.fixture
    def open_world(self, tmp_path: Path) -> OpenWorld:
        names: dict[str, Any] = {}
        for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            if "asyncio.run(" not in example:
                exec(example, names)

        @asynccontextmanager
        async def opened() -> AsyncIterator[World]:
            yield names["Dovecote"](tmp_path)

        return opened


class TestPigeon(_OfPigeons, PlatformContract): ...


class TestPigeonAcknowledging(_OfPigeons, AcknowledgingContract): ...


class TestPigeonRepeating(_OfPigeons, RepeatingContract): ...


def test_no_contract_is_left_out() -> None:
    run = {base for test in globals().values() if isinstance(test, type) for base in test.__bases__}
    assert {
        PlatformContract,
        AcknowledgingContract,
        ReconnectingContract,
        EditingContract,
        RepeatingContract,
    } <= run

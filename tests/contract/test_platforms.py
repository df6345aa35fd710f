"""The platform contract on every platform that comes with Threadline, and on the example of the documentation."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.platform_worlds import at_pipe, at_terminal, before_page, scripted_service

from threadline.ports.platform import Capabilities
from threadline.testing.contracts.platforms import OpenWorld, PlatformContract, PlatformWorld

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "platform.md"


class TestScripted(PlatformContract):
    @pytest.fixture
    def open_world(self) -> OpenWorld:
        return scripted_service


class TestScriptedWithKeys(PlatformContract):
    @pytest.fixture
    def open_world(self) -> OpenWorld:
        return functools.partial(scripted_service, idempotent_send=True)


class TestScriptedThatCanDoNothing(PlatformContract):
    """All that is not declared is refused."""

    @pytest.fixture
    def open_world(self) -> OpenWorld:
        return modest_service


@asynccontextmanager
async def modest_service() -> AsyncIterator[PlatformWorld]:
    none = Capabilities()
    declared = {name: getattr(none, name) for name in ("edit", "typing", "threads", "buttons", "files", "album")}
    async with scripted_service(**declared) as world:
        world.places = tuple(where for where in world.places if where.thread_id is None)  # type: ignore[assignment]
        yield world


@pytest.mark.parametrize("opened", [at_terminal, at_pipe])
class TestTerminal(PlatformContract):
    @pytest.fixture
    def open_world(self, opened: OpenWorld) -> OpenWorld:
        return opened


class TestWeb(PlatformContract):
    @pytest.fixture
    def open_world(self) -> OpenWorld:
        return before_page


class TestPigeon(PlatformContract):
    """The smallest adapter and its world, as the page on extending shows them."""

    @pytest.fixture
    def open_world(self, tmp_path: Path) -> OpenWorld:
        names: dict[str, Any] = {}
        for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
            if "asyncio.run(" not in example:
                exec(example, names)

        @asynccontextmanager
        async def opened() -> AsyncIterator[PlatformWorld]:
            yield names["Dovecote"](tmp_path)

        return opened

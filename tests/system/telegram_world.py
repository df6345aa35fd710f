"""Gateways on Telegram that are killed, and what outlives them: the Bot API, the agent and the database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.system.gateway_child import Child, Process
from tests.system.gateway_promises import Said
from tests.system.gateway_world import shared_out
from tests.system.outside import OutsideAgent
from tests.system.surroundings import BACK_OFF, PATIENCE_SECONDS, Surroundings
from tests.system.telegram_promises import TelegramPromises

from threadline.testing.telegram import BotApi

T = TypeVar("T")

# Who answers whom is told by a name's first letter; on Telegram names are handles.
_AGENT = """\
import msgspec
from tests.system.outside import asking

_ask = asking("{address}")

async def answer(turn):
    named = msgspec.structs.replace(turn.source, user_id=turn.source.user_handle)
    async for event in _ask(msgspec.structs.replace(turn, source=named)):
        yield event
"""
_PLUG_INS = """\
[threadline.platforms]
crashing-telegram = tests.system.telegram_child:make_crashing_telegram
"""


class TelegramWorld(Surroundings):
    """A Bot API, an agent, a database, and gateways that come and go."""

    def __init__(self, location: str, api: BotApi, agent: OutsideAgent) -> None:
        super().__init__(location, agent)
        self.api = api
        self._furnish()

    def portrait(self) -> str:
        """How things stand in the chats, and the end of what the gateway that came last has logged."""
        return f"{self.api.portrait()}; {self.logged()}"

    def begin(self, point: str | None = None, *, nth: int = 1, lease: float | None = None) -> Process:
        """Starts `threadline serve`, which dies at `point` if there is one."""
        config, log = self._next_files()
        config.write_text("\n".join(self._settings(lease or self.lease, crashes=point is not None)))
        child = Child(
            location=self._location,
            folder=str(self._folder),
            config=str(config),
            log=str(log),
            point=point,
            nth=nth,
        )
        return self._begin(child)

    def say(self, user: str, text: str) -> None:
        """Somebody writes to the bot."""
        assert user in self.people
        happened = self.api.say(text, user=user)
        self.said.append(Said(user, text, f"m:{self.api.bot.id}:{happened.chat}:{happened.message_id}"))

    async def listening(self) -> None:
        """Waits until a gateway asks for messages."""
        await self._until(lambda: self.api.polls, "nobody listens")

    async def hanging(self) -> None:
        """Waits until a call hangs."""
        await self._until(lambda: self.api.hanging, "nothing hangs")

    async def settled(self) -> None:
        """Waits until nothing waits, runs or is to be sent any more."""
        await self._until(self._is_settled, "never settled")

    def broken(self, *users: str) -> list[str]:
        """What is not as promised for these people, for all without any."""
        return self._promises().broken(users or list(dict.fromkeys(said.user for said in self.said)))

    def in_doubt(self, user: str) -> int:
        """How many messages to somebody may be repetitions."""
        return self._promises().in_doubt(user)

    def _promises(self) -> TelegramPromises:
        return TelegramPromises(self.said, self.api, self.agent, self.rows, kills=self.kills)

    async def _until(self, predicate: Callable[[], object], problem: str) -> None:
        try:
            await self.api.wait_for(predicate, timeout=PATIENCE_SECONDS)
        except TimeoutError as cause:
            raise AssertionError(f"{problem}; {self.portrait()}") from cause

    def _is_settled(self) -> bool:
        if self.api.unconfirmed:
            return False
        ((fated,),) = self.rows("SELECT COUNT(*) FROM inbox WHERE fate IS NOT NULL")
        if fated < len(self.said):
            return False
        return not self.rows("SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending', 'open') LIMIT 1")

    def _furnish(self) -> None:
        (self._folder / "my_agent.py").write_text(_AGENT.format(address=self.agent.address))
        token = self._folder / "token"
        token.write_text(self.api.token)
        token.chmod(0o600)
        plug_ins = self._folder / "crash_tests-1.0.dist-info"
        plug_ins.mkdir()
        (plug_ins / "METADATA").write_text("Metadata-Version: 2.1\nName: crash-tests\nVersion: 1.0\n")
        (plug_ins / "entry_points.txt").write_text(_PLUG_INS)

    def _settings(self, lease: float, *, crashes: bool) -> Iterator[str]:
        yield '[gateway]\nwhen_busy = "queue"\nburst_seconds = 0.0\nwelcome = false'
        yield f"turns_at_once = 64\nturns_per_platform = 64\nlease_seconds = {lease}\ncrash_back_off_seconds = {BACK_OFF}"
        yield f"[access]\nguests = {json.dumps([f'telegram:{self.api.person(user).id}' for user in self.people])}"
        yield '[agents.main]\nkind = "function"\ncall = "my_agent:answer"'
        yield f'[platforms.telegram]\nkind = "{"crashing-telegram" if crashes else "telegram"}"'
        yield f'token = "file:{self._folder}/token"\nbase_url = "{self.api.url}"'


@asynccontextmanager
async def on_telegram(location: str, *people: str) -> AsyncIterator[TelegramWorld]:
    """A world around the database at `location`, in which these people speak."""
    async with BotApi() as api, OutsideAgent() as agent:
        with TelegramWorld(location, api, agent) as world:
            world.people = people
            yield world


def in_telegram_worlds(
    location: str, cases: Sequence[T], broken: Callable[[TelegramWorld, int, T], Awaitable[list[str]]]
) -> list[str]:
    """What is broken after all of the cases, shared out over worlds."""
    return shared_out(location, cases, broken, on_telegram)

"""A platform speaks for its own people alone, whatever it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from tests.gateway.talk import ask, echo, eventually
from tests.gateway.world import EVERYONE, Running, awaited, settings_for

from threadline.gateway.gateway import Gateway
from threadline.model.inbound import Arrival, IdChange, Inbound, Unreadable
from threadline.ports.platform import Accept, Verdict
from threadline.store.facade import GatewayStore
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

Lie = Callable[[Inbound], Arrival]


class LyingPlatform(ScriptedPlatform):
    """Gives what begins with `lie` as something else."""

    lie: Lie

    async def run(self, accept: Accept, ready: asyncio.Event) -> None:
        """Hands events on, some of them changed."""

        async def changed(event: Arrival) -> Verdict:
            is_lie = isinstance(event, Inbound) and event.text.startswith("lie")
            return await accept(type(self).lie(event) if is_lie else event)  # type: ignore[arg-type]

        await super().run(changed, ready)


def _as_owner(event: Inbound) -> Arrival:
    return msgspec.structs.replace(event, source=msgspec.structs.replace(event.source, platform="local"))


def _as_an_editor(event: Inbound) -> Arrival:
    return msgspec.structs.replace(event, source=msgspec.structs.replace(event.source, platform="acp"))


def _on_another_account(event: Inbound) -> Arrival:
    return msgspec.structs.replace(event, source=msgspec.structs.replace(event.source, account="work"))


def _as_a_move(event: Inbound) -> Arrival:
    return IdChange(platform="telegram", account="main", dedupe_key="m", what="user", old_id="7", new_id="8")


def _as_rubbish(event: Inbound) -> Arrival:
    return Unreadable(platform="telegram", account="main", raw="x", reason="y")


@pytest.mark.parametrize("lie", [_as_owner, _as_an_editor, _on_another_account, _as_a_move, _as_rubbish])
@awaited
async def test_nothing_is_taken_that_a_platform_gives_as_anothers(location: str, lie: Lie) -> None:
    agent = ScriptedAgent(echo)
    async with ScriptedChat() as chat, await GatewayStore.open(location) as store:
        platform = LyingPlatform(chat.address, capabilities=chat.capabilities)
        LyingPlatform.lie = staticmethod(lie)
        gateway = Gateway(store, settings_for(agent), EVERYONE, [platform])
        await gateway.start(alone=True)
        try:
            here = Running(gateway, store, chat)
            assert await ask(here, "hello") == "you said: hello"
            chat.say("lie to me", user="mallory")
            await chat.wait_for(lambda: not chat.unacknowledged)
            line = (await store.maintenance.list_messages())[0]
            assert (line.platform, line.account, line.fate, line.person) == ("scripted", "main", "parked", None)
            assert "for which it does not speak" in str(line.note)
            story = await store.maintenance.trace_message(line.pk)
            assert "mallory" not in str(story.raw)

            async def is_told() -> bool:
                return [alarm.name for alarm in await store.owner_alerts.list_open()] == ["platform:scripted@main"]

            await eventually(is_told)
            await chat.wait_for(lambda: any("does not speak" in text for text in here.texts()))
            # Its own people go on.
            assert await ask(here, "still there?", user="bob") == "you said: still there?"
            assert [turn.text for turn in agent.turns] == ["hello", "still there?"]
        finally:
            await gateway.stop()

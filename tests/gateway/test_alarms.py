"""What only the owner can mend is told to the owner, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.gateway.talk import GROUP, ask, eventually, running_with
from tests.gateway.world import EVERYONE, Open, Running, awaited, running, settings_for

from threadline import assembly
from threadline.config.load import load_config
from threadline.config.settings import Config
from threadline.gateway.alarms import (
    CHAT_FORGOTTEN_AFTER,
    MOST_CHATS,
    UNKNOWN_FORGOTTEN_AFTER,
    Alarms,
    Audience,
    agent_alarm,
    chat_alarm,
    platform_alarm,
)
from threadline.gateway.gateway import Gateway
from threadline.model.context import HomeChannel
from threadline.model.delivery import Target
from threadline.ports.agent import AgentError, Event, Text, Turn
from threadline.store.facade import GatewayStore
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.owner_alerts import OwnerAlert
from threadline.testing import FakeClock
from threadline.testing.agents import ScriptedAgent
from threadline.testing.scripted import ScriptedChat, ScriptedPlatform

HOMES = (HomeChannel("scripted", "den", "Den"),)
DEN = Target(platform="scripted", chat_id="den", chat_type="group")
NO_KEY = "The key is not accepted. Its owner has to set another one."


async def moody(turn: Turn) -> AsyncIterator[Event]:
    """Fails as a model fails whose key is wrong, or that is merely busy, whenever it is asked to."""
    if "key" in turn.text:
        raise AgentError(NO_KEY, is_owners=True)
    if "busy" in turn.text:
        raise AgentError("It is busy; try again.")
    yield Text(f"fine: {turn.text}")


async def open_alarms(here: Running) -> list[str]:
    return [alarm.name for alarm in await here.store.owner_alerts.list_open()]


async def stored_notices(here: Running) -> int:
    """How many notices there were to send, sent or not."""
    lines = await here.store.outbox.list_page()
    return sum(line.delivery_id.startswith("alarm.") for line in lines)


def notices(here: Running, chat: str = "dm-ada") -> list[str]:
    """What the owner was told in a chat beside answers."""
    return [text for text in here.texts(chat) if "only you can mend it" in text]


@awaited
async def test_the_owner_is_told_once_where_they_spoke_last(opened: Open) -> None:
    async with opened(ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        assert NO_KEY in await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: notices(here))
        assert NO_KEY in notices(here)[0]
        assert await ask(here, "no key again", user="bob")
        assert await ask(here, "no key either", user="eve")
        await here.gateway.idle()
        assert await stored_notices(here) == len(notices(here)) == 1
        assert notices(here, "dm-bob") == notices(here, "dm-eve") == []
        assert await open_alarms(here) == ["agent:main"]


@awaited
async def test_a_restart_does_not_say_it_again(location: str) -> None:
    async with running(location, ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: notices(here))
    async with running(location, ScriptedAgent(moody)) as again:
        for number in (1, 2):
            await ask(again, "no key", user="bob", message_id=f"after the restart {number}")
        await again.gateway.idle()
        assert await stored_notices(again) == 1, "the one of before the restart"
        assert notices(again) == []
        assert await open_alarms(again) == ["agent:main"]


@awaited
async def test_once_it_has_answered_a_new_failure_is_told_anew(opened: Open) -> None:
    async with opened(ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: len(notices(here)) == 1)
        await ask(here, "better?", user="bob")
        await eventually(lambda: _is_over(here))
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: len(notices(here)) == 2)


async def _is_over(here: Running) -> bool:
    return not await here.store.owner_alerts.list_open()


@awaited
async def test_another_gateways_alarm_ends_when_the_agent_answers_here(opened: Open) -> None:
    async with opened(ScriptedAgent(moody), lease_seconds=1.0) as here:
        alarm = OwnerAlert(name="agent:main", text="it failed elsewhere", since=here.store.clock.now())
        assert await here.store.owner_alerts.raise_alert(alarm, ())

        async def is_over() -> bool:
            await ask(here, "hello")
            return not await here.store.owner_alerts.list_open()

        await eventually(is_over)


@awaited
async def test_in_the_owners_own_chat_it_is_not_said_twice(opened: Open) -> None:
    async with opened(ScriptedAgent(moody)) as here:
        assert NO_KEY in await ask(here, "no key")
        await eventually(lambda: _is_open(here))
        await here.gateway.idle()
        assert await stored_notices(here) == 0
        assert len(here.texts()) == 1
        assert (await here.store.owner_alerts.list_open())[0].is_sent


async def _is_open(here: Running) -> bool:
    return bool(await here.store.owner_alerts.list_open())


@awaited
async def test_home_channels_go_before_the_owners_chat(opened: Open) -> None:
    homes = (HomeChannel("scripted", "den", "Den"), HomeChannel("elsewhere", "x", "Not connected"))
    async with opened(ScriptedAgent(moody), home_channels=homes) as here:
        await ask(here, "hello")
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: notices(here, "den"))
        await here.gateway.idle()
        assert notices(here) == []
        assert await stored_notices(here) == len(notices(here, "den")) == 1
        assert await here.store.outbox.list_page("pending") == []


@awaited
async def test_where_there_is_nobody_to_tell_it_is_told_when_there_is(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(ScriptedAgent(moody), lease_seconds=1.0) as here:
        # A group is no place for it, and nobody else is known.
        here.chat.say("no key", user="bob", mention=True, **GROUP)
        await eventually(lambda: _is_open(here))
        assert not (await here.store.owner_alerts.list_open())[0].is_sent
        assert "alarm.nobody_to_tell" in [record.getMessage() for record in caplog.records]
        await ask(here, "/whoami")
        await here.chat.wait_for(lambda: notices(here))
        await here.gateway.idle()
        assert await stored_notices(here) == len(notices(here)) == 1


@awaited
async def test_what_passes_by_itself_alarms_nobody(opened: Open) -> None:
    async with opened(ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        assert "busy" in await ask(here, "busy", user="bob")
        await here.gateway.idle()
        assert await open_alarms(here) == []


@awaited
async def test_a_platform_that_turns_us_away_is_told_on_the_others(location: str) -> None:
    async with ScriptedChat() as chat, ScriptedChat() as closed, await GatewayStore.open(location) as store:
        closed.refuses_logins = True
        platforms = [ScriptedPlatform(chat.address), ScriptedPlatform(closed.address, name="closed")]
        gateway = Gateway(store, settings_for(ScriptedAgent(moody), lease_seconds=1.0), EVERYONE, platforms)
        await gateway.start(alone=True)
        try:
            here = Running(gateway, store, chat)
            await ask(here, "hello")
            await chat.wait_for(lambda: any("closed does not let me in" in text for text in here.texts()))
            assert await gateway.not_ready() == ["platform closed@main"]
            closed.refuses_logins = False
            mended = ScriptedPlatform(closed.address, name="closed")
            settings = settings_for(ScriptedAgent(moody))
            await gateway.reconfigure(settings, EVERYONE, [platforms[0], mended])
            await closed.wait_for(lambda: closed.connected)
            await eventually(lambda: _is_over(here))
            assert await gateway.not_ready() == []
        finally:
            await gateway.stop()


@awaited
async def test_what_is_no_longer_configured_alarms_nobody(location: str) -> None:
    async with running(location, ScriptedAgent(moody)) as here:
        for name in (agent_alarm("main"), agent_alarm("old"), platform_alarm("irc", "main"), chat_alarm(DEN)):
            assert await here.store.owner_alerts.raise_alert(
                OwnerAlert(name=name, text="x", since=here.store.clock.now()), ()
            )
        await here.gateway.alarms.forget_all_but({agent_alarm("main"), agent_alarm("new")})
        assert await open_alarms(here) == ["agent:main", chat_alarm(DEN)]


@awaited
async def test_what_no_running_gateway_has_configured_is_forgotten_after_a_while(location: str) -> None:
    """On a server several gateways share the alarms, and none of them knows what the others have."""
    clock = FakeClock()
    async with running_with(location, ScriptedAgent(moody), store={"clock": clock}) as here:
        theirs = Alarms(here.store, here.gateway.outbox, Audience())
        here.gateway.alarms.known, theirs.known = frozenset({"agent:main"}), frozenset({"agent:theirs"})
        for name in ("agent:main", "agent:theirs", "agent:removed", "platform:irc@main", chat_alarm(DEN)):
            assert await here.store.owner_alerts.raise_alert(OwnerAlert(name=name, text="x", since=clock.now()), ())
        for _ in range(4):
            clock.advance(UNKNOWN_FORGOTTEN_AFTER / 4)
            await theirs.refresh()
            await here.gateway.alarms.refresh()
        assert len(await open_alarms(here)) == 5
        clock.advance(timedelta(seconds=1))
        await here.gateway.alarms.refresh()
        assert sorted(await open_alarms(here)) == ["agent:main", "agent:theirs", chat_alarm(DEN)]
        # The other gateway is gone for good.
        clock.advance(UNKNOWN_FORGOTTEN_AFTER)
        await here.gateway.alarms.refresh()
        assert sorted(await open_alarms(here)) == ["agent:main", chat_alarm(DEN)]


@awaited
async def test_a_gateway_that_was_not_told_what_is_configured_forgets_nothing(location: str) -> None:
    clock = FakeClock()
    async with running_with(location, ScriptedAgent(moody), store={"clock": clock}) as here:
        await here.store.owner_alerts.raise_alert(OwnerAlert(name="agent:main", text="x", since=clock.now()), ())
        clock.advance(2 * UNKNOWN_FORGOTTEN_AFTER)
        await here.gateway.alarms.refresh()
        assert await open_alarms(here) == ["agent:main"]


def configured(file: Path, text: str) -> Config:
    file.write_text(text)
    return load_config(file, {})


@awaited
async def test_a_reload_closes_alarms_about_what_this_gateway_gave_up_and_no_others(
    location: str, tmp_path: Path
) -> None:
    away = '[platforms.away]\nkind = "scripted"\naddress = "127.0.0.1:9"\n'
    before = configured(tmp_path / "config.toml", f"[agents.old]\n{away}")
    async with await GatewayStore.open(location) as store:
        agents, platforms = assembly.Agents(before), assembly.Platforms(before)
        settings = assembly.gateway_settings(before, "serve", agents, await store.people.installation_secret())
        gateway = Gateway(store, settings, assembly.access_rules(before), platforms.all())
        await gateway.start()
        try:
            ours = (agent_alarm("main"), agent_alarm("old"), platform_alarm("away", "main"))
            for name in (*ours, agent_alarm("theirs"), platform_alarm("telegram", "main")):
                await store.owner_alerts.raise_alert(OwnerAlert(name=name, text="x", since=store.clock.now()), ())
            served = assembly.Running(gateway, store, agents, platforms, before)
            await served.reload(configured(tmp_path / "config.toml", ""))
            left = {alarm.name for alarm in await store.owner_alerts.list_open()}
            assert left == {"agent:main", "agent:theirs", "platform:telegram@main"}
            await served.reload(configured(tmp_path / "config.toml", ""))
            assert len(await store.owner_alerts.list_open()) == 3
        finally:
            await gateway.stop()


@awaited
async def test_at_the_terminal_of_the_machine_nobody_is_alarmed(location: str) -> None:
    async with running(location, ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        terminal = Target(platform="local", chat_id="cli")
        await here.gateway.alarms.after_turn("main", terminal, AgentError(NO_KEY, is_owners=True), is_well=False)
        assert await open_alarms(here) == []


@awaited
async def test_of_several_gateways_one_tells(location: str) -> None:
    async with await GatewayStore.open(location) as store, await GatewayStore.open(location) as other:
        alarm = OwnerAlert(name="agent:main", text="x", since=store.clock.now(), is_sent=False)
        target = Target(platform="scripted", chat_id="dm-ada")

        def notice(number: int) -> NewDelivery:
            return NewDelivery(delivery_id=f"n{number}", target=target, text="x")

        opened = await asyncio.gather(*(s.owner_alerts.raise_alert(alarm, ()) for s in (store, other, store, other)))
        assert sorted(opened) == [False, False, False, True]
        told = await asyncio.gather(
            *(s.owner_alerts.notify(alarm.name, [notice(n)]) for n, s in enumerate((store, other)))
        )
        assert sorted(told) == [False, True]
        assert len(await store.outbox.list_page()) == 1
        assert (await other.owner_alerts.list_open())[0].is_sent
        assert await other.owner_alerts.clear(alarm.name)
        assert not await store.owner_alerts.clear(alarm.name)
        assert not await store.owner_alerts.notify(alarm.name, [notice(9)])


@awaited
async def test_owners_are_found_by_the_list_and_by_the_role_they_were_given(location: str) -> None:
    async with running(location, ScriptedAgent(moody)) as here:
        accounts = [("scripted", "main")]
        await ask(here, "first", user="ada")
        assert await here.store.owner_alerts.find_owner_chat([], accounts) is None
        listed = await here.store.owner_alerts.find_owner_chat(["scripted:ada"], accounts)
        assert listed == Target(platform="scripted", chat_id="dm-ada")
        await ask(here, "later", user="bob")
        await here.store.people.set_role("scripted:bob", "owner")
        given = await here.store.owner_alerts.find_owner_chat(["scripted:ada"], accounts)
        assert given == Target(platform="scripted", chat_id="dm-bob")
        assert await here.store.owner_alerts.find_owner_chat(["scripted:ada"], [("telegram", "main")]) is None


@awaited
async def test_the_chat_of_an_owner_that_is_gone_gives_way_to_another_owners(location: str) -> None:
    async with running(location, ScriptedAgent(moody)) as here:
        accounts = [("scripted", "main")]
        await here.store.people.set_role("scripted:bob", "owner")
        await ask(here, "first", user="bob")
        await ask(here, "later", user="ada")
        newest = await here.store.owner_alerts.find_owner_chat(["scripted:ada"], accounts)
        assert newest == Target(platform="scripted", chat_id="dm-ada")
        other = await here.store.owner_alerts.find_owner_chat(["scripted:ada"], accounts, [newest.ordering_key])
        assert other == Target(platform="scripted", chat_id="dm-bob")
        assert (
            await here.store.owner_alerts.find_owner_chat(
                ["scripted:ada"], accounts, [newest.ordering_key, other.ordering_key]
            )
            is None
        )


@awaited
async def test_a_home_channel_that_is_gone_swallows_no_alarm(opened: Open) -> None:
    async with opened(ScriptedAgent(moody), home_channels=HOMES) as here:
        await ask(here, "hello")
        await here.gateway.alarms.chat_gone(DEN, "no such chat")
        await here.chat.wait_for(lambda: any("the chat den" in text for text in here.texts()))
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: notices(here))
        await here.gateway.idle()
        assert here.texts("den") == []
        await here.gateway.alarms.chat_works(DEN)
        await ask(here, "better?", user="bob")
        await eventually(lambda: _is_over(here))
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: notices(here, "den"))


@awaited
async def test_what_was_told_in_a_home_channel_that_is_gone_is_told_elsewhere_once(opened: Open) -> None:
    async with opened(ScriptedAgent(moody), home_channels=HOMES, lease_seconds=1.0) as here:
        await ask(here, "hello")
        await ask(here, "no key", user="bob")
        await here.chat.wait_for(lambda: notices(here, "den"))
        await here.gateway.alarms.chat_gone(DEN, "no such chat")
        await here.chat.wait_for(lambda: notices(here))
        await here.gateway.alarms.chat_works(DEN)
        await here.gateway.alarms.chat_gone(DEN, "no such chat")
        await here.gateway.alarms.refresh()
        await here.gateway.idle()
        assert len(notices(here)) == len(notices(here, "den")) == 1


@awaited
async def test_that_the_only_home_channel_is_gone_is_told_as_soon_as_somebody_can_be(opened: Open) -> None:
    async with opened(ScriptedAgent(moody), home_channels=HOMES, lease_seconds=1.0) as here:
        await here.gateway.alarms.chat_gone(DEN, "no such chat")
        assert [alarm.is_sent for alarm in await here.store.owner_alerts.list_open()] == [False]
        await ask(here, "/whoami")
        await here.chat.wait_for(lambda: any("the chat den" in text for text in here.texts()))
        assert here.texts("den") == []


@awaited
async def test_of_very_many_chats_that_are_gone_only_the_first_are_told(opened: Open) -> None:
    async with opened(ScriptedAgent(moody)) as here:
        await ask(here, "hello")
        for number in range(MOST_CHATS + 5):
            await here.gateway.alarms.chat_gone(Target(platform="scripted", chat_id=f"c{number}"), "blocked")
        alarms = await here.store.owner_alerts.list_open()
        assert len(alarms) == await stored_notices(here) == MOST_CHATS
        assert [alarm.name for alarm in alarms if "I tell of no others" in alarm.text] == [alarms[-1].name]
        await here.gateway.alarms.chat_gone(Target(platform="scripted", chat_id="dm-ada"), "blocked")
        assert "chat:scripted/main/dm-ada/" in await open_alarms(here), "what is meant for its owner must go elsewhere"


@awaited
async def test_a_chat_that_is_gone_for_a_month_is_forgotten_unless_it_is_a_home_channel(location: str) -> None:
    clock = FakeClock()
    async with running_with(location, ScriptedAgent(moody), store={"clock": clock}, home_channels=HOMES) as here:
        other = Target(platform="scripted", chat_id="dm-bob")
        for chat in (DEN, other):
            await here.gateway.alarms.chat_gone(chat, "no such chat")
        await here.store.owner_alerts.raise_alert(OwnerAlert(name="agent:main", text="x", since=clock.now()), ())
        clock.advance(CHAT_FORGOTTEN_AFTER)
        await here.gateway.alarms.refresh()
        assert len(await open_alarms(here)) == 3
        clock.advance(timedelta(seconds=1))
        await here.gateway.alarms.refresh()
        assert sorted(await open_alarms(here)) == ["agent:main", chat_alarm(DEN)]
        await here.gateway.alarms.chat_gone(other, "no such chat")
        assert chat_alarm(other) in await open_alarms(here)

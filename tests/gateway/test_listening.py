"""Of several gateways one listens to a platform that lets only one; all of them send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.gateway.alone import Letterbox, Pigeon
from tests.gateway.talk import echo, eventually
from tests.gateway.test_condition import Outage
from tests.gateway.world import awaited, settings_for

from threadline.clock import SystemClock
from threadline.gateway.access import AccessRules
from threadline.gateway.command_table import OFFERED, TABLE
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import GatewaySettings
from threadline.model.address import SessionScope
from threadline.model.delivery import Target
from threadline.model.policy import ResetPolicies
from threadline.ports.platform import Contested, Platform, Transient, Unauthorized
from threadline.store.engine.database import Database
from threadline.store.facade import GatewayStore, open_database
from threadline.store.verbs import StoreSettings
from threadline.store.work.outbox import NewDelivery
from threadline.testing.agents import ScriptedAgent

RULES = AccessRules(owners=frozenset({"pigeon:ada", "dove:ada"}))
LONG = 3_600_000_000
NAME = "pigeon:42"
CONNECTED = 'threadline_platform_connected{platform="pigeon",account="main"} '
LISTENING = 'threadline_platform_listening{platform="pigeon",account="main"} '


def settings(**changes: Any) -> GatewaySettings:
    return settings_for(ScriptedAgent(echo), **{"lease_seconds": 1.5} | changes)


@asynccontextmanager
async def gateway_on(
    store: GatewayStore, platforms: Sequence[Platform], *, alone: bool = False, **changes: Any
) -> AsyncIterator[Gateway]:
    gateway = Gateway(store, settings(**changes), RULES, platforms)
    await gateway.start(alone=alone)
    try:
        yield gateway
    finally:
        await gateway.stop()


@asynccontextmanager
async def breakable(location: str) -> AsyncIterator[tuple[GatewayStore, Outage]]:
    """A store whose database can be made to go away."""
    outage = Outage(open_database(location))
    how = StoreSettings(policies=ResetPolicies(), scope=SessionScope(), clock=SystemClock(), zone="UTC")
    async with GatewayStore(cast("Database", outage), how) as store:
        yield store, outage
        outage.is_away = False


async def until(is_so: Any) -> None:
    async def holds() -> bool:
        return bool(is_so())

    await eventually(holds)


async def answered(box: Letterbox, *texts: str) -> None:
    await until(lambda: len(box.sent) >= len(texts))
    assert sorted(box.texts()) == sorted(f"you said: {text}" for text in texts)


async def ready(gateway: Gateway) -> None:
    async def is_ready() -> bool:
        return not await gateway.not_ready()

    await eventually(is_ready)


async def states(gateway: Gateway) -> tuple[str, str]:
    """Whether the platform is connected, and whether it listens, as the metrics tell."""
    lines = (await gateway.metrics_text()).splitlines()
    found = [
        line.removeprefix(begins) for begins in (CONNECTED, LISTENING) for line in lines if line.startswith(begins)
    ]
    return found[0], found[1]


@awaited
async def test_one_listens_and_both_send(location: str) -> None:
    box = Letterbox()
    first, second = Pigeon(box, by="first"), Pigeon(box, by="second")
    async with (
        await GatewayStore.open(location) as here,
        await GatewayStore.open(location) as there,
        gateway_on(here, [first]) as one,
    ):
        await ready(one)
        async with gateway_on(there, [second]) as other:
            await ready(other)
            assert box.listening == [first]
            assert await states(one) == ("1", "1")
            assert await states(other) == ("1", "0")
            for number in range(30):
                box.write(f"letter {number}")
            await answered(box, *(f"letter {number}" for number in range(30)))
            await _both_sent(box, here)
            assert box.most == 1
            assert [held.name for held in await here.leases.list_all()] == [NAME]


async def _both_sent(box: Letterbox, store: GatewayStore) -> None:
    """What is to be sent is sent by whoever takes it: after enough of it both have."""
    number = 0

    async def have_both() -> bool:
        nonlocal number
        number += 1
        to = Target(platform="pigeon", chat_id=f"c{number}")
        await store.outbox.enqueue(NewDelivery(delivery_id=f"news{number}", target=to, text="news"))
        return box.senders() == {"first", "second"}

    await eventually(have_both)


@awaited
async def test_who_ends_in_good_order_lets_the_other_listen_at_once(location: str) -> None:
    box = Letterbox()
    second = Pigeon(box, by="second")
    async with (
        await GatewayStore.open(location) as here,
        await GatewayStore.open(location) as there,
        # No lease ends in the time of this test.
        gateway_on(here, [Pigeon(box, by="first")], lease_seconds=3600.0) as one,
    ):
        await ready(one)
        async with gateway_on(there, [second], lease_seconds=3600.0) as other:
            await ready(other)
            box.write("one")
            await answered(box, "one")
            await one.stop()
            box.write("two")
            await until(lambda: box.listening == [second])
            await answered(box, "one", "two")
            assert await states(other) == ("1", "1")
            assert box.most == 1


@awaited
async def test_where_the_listener_died_another_goes_on_after_a_lease(location: str) -> None:
    box = Letterbox()
    async with await GatewayStore.open(location) as store:
        assert await store.leases.acquire(NAME, "serve:dead/pigeon@main", duration=1_000_000)
        box.write("one")
        async with gateway_on(store, [Pigeon(box)]) as gateway:
            await ready(gateway)
            assert box.listening == []
            await answered(box, "one")


@awaited
async def test_a_gateway_alone_on_its_database_waits_for_no_dead_one(location: str) -> None:
    box = Letterbox()
    async with await GatewayStore.open(location) as store:
        assert await store.leases.acquire(NAME, "serve:dead/pigeon@main", duration=LONG)
        box.write("one")
        async with gateway_on(store, [Pigeon(box)], alone=True):
            await answered(box, "one")


@awaited
async def test_who_can_not_renew_stops_before_another_begins(location: str) -> None:
    box = Letterbox()
    first, second = Pigeon(box, by="first"), Pigeon(box, by="second")
    async with (
        breakable(location) as (here, outage),
        await GatewayStore.open(location) as there,
        gateway_on(here, [first]) as one,
    ):
        await ready(one)
        async with gateway_on(there, [second]) as other:
            await ready(other)
            box.write("one")
            await until(lambda: box.confirmed == 1)
            outage.is_away = True
            for number in range(10):
                box.write(f"more {number}")
            await until(lambda: box.listening == [second])
            outage.is_away = False
            await answered(box, "one", *(f"more {number}" for number in range(10)))
            await ready(one)
            assert box.most == 1
            assert box.confirmed == 11
            assert await states(one) == ("1", "0")


@awaited
async def test_who_lost_the_name_stops(location: str) -> None:
    box = Letterbox()
    async with await GatewayStore.open(location) as store, gateway_on(store, [Pigeon(box)]) as gateway:
        await until(lambda: len(box.listening) == 1)
        # As it is when this process was asleep for long.
        await store.leases.expire_owned_by("serve:%")
        lease = await store.leases.acquire(NAME, "serve:other/pigeon@main", duration=LONG)
        assert lease is not None
        await until(lambda: not box.listening)
        await ready(gateway)
        await store.leases.release(lease)
        await until(lambda: len(box.listening) == 1)


@awaited
async def test_two_platforms_with_one_key_do_not_both_listen(location: str, caplog: pytest.LogCaptureFixture) -> None:
    box = Letterbox()
    first, twin = Pigeon(box, by="first"), Pigeon(box, name="dove", by="twin")
    async with await GatewayStore.open(location) as store, gateway_on(store, [first, twin]) as gateway:
        await ready(gateway)
        (listening,) = box.listening
        await until(lambda: any(record.getMessage() == "platform.same_key_twice" for record in caplog.records))
        await gateway.reconfigure(settings(), RULES, [p for p in (first, twin) if p is not listening])
        await until(lambda: len(box.listening) == 1 and box.listening != [listening])
        assert box.most == 1


@awaited
async def test_a_platform_that_changed_listens_anew_at_once(location: str) -> None:
    box = Letterbox()
    async with (
        await GatewayStore.open(location) as store,
        gateway_on(store, [Pigeon(box, by="old")], lease_seconds=3600.0) as gateway,
    ):
        await ready(gateway)
        fresh = Pigeon(box, by="new")
        await gateway.reconfigure(settings(lease_seconds=3600.0), RULES, [fresh])
        await until(lambda: box.listening == [fresh])
        box.write("one")
        await answered(box, "one")
        await gateway.reconfigure(settings(), RULES, [])
        assert box.listening == []
        assert await store.leases.list_all() == []
        assert box.most == 1


@awaited
async def test_nobody_begins_before_the_last_one_has_ended(location: str) -> None:
    box = Letterbox()
    async with (
        await GatewayStore.open(location) as store,
        gateway_on(store, [Pigeon(box, by="slow", lingers=1.2)], lease_seconds=3600.0) as gateway,
    ):
        await ready(gateway)
        fresh = Pigeon(box, by="new")
        await gateway.reconfigure(settings(lease_seconds=3600.0), RULES, [fresh])
        await until(lambda: box.listening == [fresh])
        assert box.most == 1


@awaited
async def test_commands_are_offered_before_it_is_opened(location: str) -> None:
    box = Letterbox()
    platform = Pigeon(box)
    async with await GatewayStore.open(location) as store, gateway_on(store, [platform]) as gateway:
        await ready(gateway)
        assert platform.offered == [OFFERED]
        assert {one.name for one in OFFERED} <= TABLE.keys()
        assert {"help", "start", "stop", "new"} <= {one.name for one in OFFERED}
        assert "sethome" not in {one.name for one in OFFERED}
        assert all(one.help and "`" not in one.help and "\n" not in one.help for one in OFFERED)


@awaited
async def test_what_can_not_be_opened_is_tried_again(location: str) -> None:
    box = Letterbox()
    box.at_opening += [Transient("not now")] * 100
    box.write("one")
    async with await GatewayStore.open(location) as store, gateway_on(store, [Pigeon(box)]) as gateway:
        assert await gateway.not_ready() == ["platform pigeon@main"]
        box.at_opening.clear()
        await answered(box, "one")


@awaited
async def test_a_wrong_key_is_told_and_ends_it(location: str) -> None:
    for where in ("at_opening", "at_listening"):
        box = Letterbox()
        getattr(box, where).append(Unauthorized("the key is unknown"))
        platform = Pigeon(box)
        async with await GatewayStore.open(location) as store, gateway_on(store, [platform]) as gateway:
            await until(lambda: gateway.has_ended(platform))  # noqa: B023 - it ends with the round

            async def is_told() -> bool:
                return [alarm.name for alarm in await store.owner_alerts.list_open()] == ["platform:pigeon@main"]

            await eventually(is_told)
            assert await gateway.not_ready() == ["platform pigeon@main"]
            assert await store.leases.list_all() == []
            await store.owner_alerts.clear("platform:pigeon@main")


@awaited
async def test_somebody_else_who_listens_is_told_once_until_we_are_heard_again(location: str) -> None:
    box = Letterbox()
    box.at_listening += [Contested("another program polls")] * 100
    async with await GatewayStore.open(location) as store, gateway_on(store, [Pigeon(box)]) as gateway:
        said: set[str] = set()

        async def is_told() -> bool:
            said.update(alarm.text for alarm in await store.owner_alerts.list_open())
            return bool(said)

        await eventually(is_told)
        assert await states(gateway) == ("1", "0")
        assert await gateway.not_ready() == ["listening pigeon@main"]
        assert "with my key" in "".join(said)
        # It can send all the while.
        await store.outbox.enqueue(
            NewDelivery(delivery_id="1", target=Target(platform="pigeon", chat_id="c"), text="news")
        )
        await until(lambda: box.texts() == ["news"])
        assert len(await store.owner_alerts.list_open()) == 1
        box.at_listening.clear()
        box.write("one")
        await until(lambda: "you said: one" in box.texts())

        async def is_over() -> bool:
            return not await store.owner_alerts.list_open()

        await eventually(is_over)


@awaited
async def test_a_gateway_that_ends_while_it_waits_never_listens(location: str) -> None:
    box = Letterbox()
    platform = Pigeon(box)
    async with await GatewayStore.open(location) as store:
        lease = await store.leases.acquire(NAME, "serve:other/pigeon@main", duration=LONG)
        assert lease is not None
        async with gateway_on(store, [platform]) as gateway:
            await ready(gateway)
        await store.leases.release(lease)
        await asyncio.sleep(0)
        assert box.most == 0
        assert await store.leases.list_all() == []

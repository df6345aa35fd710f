"""Named leases as the store keeps them: one holder at a time, over all processes. On both engines."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.contract.gateways import OpenGateway, Run

from threadline.model.delivery import Target
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease, RenewedLease
from threadline.store.work.outbox import NewDelivery
from threadline.testing import FakeClock
from threadline.testing.contracts.storage.fixtures import RawExecute

BOT = "telegram:42"
LONG = 3_600_000_000


async def take(store: GatewayStore, owner: str, name: str = BOT) -> Lease | None:
    return await store.leases.acquire(name, owner, duration=LONG)


async def holders(store: GatewayStore) -> dict[str, str]:
    return {held.name: held.owner for held in await store.leases.list_all()}


def expire(raw_execute: RawExecute) -> None:
    """Time goes by for both engines: one has a clock of its own."""
    raw_execute("UPDATE named_leases SET lease_until = lease_until - 7200000000")


def test_a_name_is_held_by_one_who_may_renew_it(gateway: GatewayStore, run: Run) -> None:
    assert run(take(gateway, "serve:a"))
    assert not run(take(gateway, "serve:b"))
    assert run(take(gateway, "serve:a"))
    assert run(holders(gateway)) == {BOT: "serve:a"}


def test_names_are_held_apart(gateway: GatewayStore, run: Run) -> None:
    assert run(take(gateway, "serve:a"))
    assert run(take(gateway, "serve:b", "telegram:7"))
    assert run(holders(gateway)) == {BOT: "serve:a", "telegram:7": "serve:b"}


def test_one_that_was_given_back_is_free_at_once(gateway: GatewayStore, run: Run) -> None:
    lease = run(take(gateway, "serve:a"))
    assert lease is not None
    run(gateway.leases.release(lease))
    assert run(holders(gateway)) == {}
    assert run(take(gateway, "serve:b"))


def test_nobody_gives_back_or_renews_what_is_anothers(gateway: GatewayStore, run: Run, raw_execute: RawExecute) -> None:
    lost = run(take(gateway, "serve:b"))
    assert lost is not None
    expire(raw_execute)
    taken = run(take(gateway, "serve:a"))
    assert taken is not None
    run(gateway.leases.release(lost))
    assert run(gateway.leases.renew([lost, taken], duration=LONG)) == [RenewedLease(taken)]
    assert run(holders(gateway)) == {BOT: "serve:a"}


def test_the_fence_of_a_name_grows_for_ever(gateway: GatewayStore, run: Run) -> None:
    fences = []
    for owner in ("serve:a", "serve:b", "serve:a"):
        lease = run(take(gateway, owner))
        assert lease == run(take(gateway, owner))
        assert lease is not None
        run(gateway.leases.release(lease))
        fences.append(lease.fence)
    assert fences == sorted(set(fences))


def test_one_that_nobody_renewed_is_the_next_ones(gateway: GatewayStore, run: Run, raw_execute: RawExecute) -> None:
    assert run(take(gateway, "serve:a"))
    expire(raw_execute)
    assert run(holders(gateway)) == {}
    assert run(take(gateway, "serve:b"))
    assert not run(take(gateway, "serve:a"))


def test_who_renews_in_time_keeps_it(gateway: GatewayStore, run: Run, clock: FakeClock) -> None:
    for _ in range(4):
        assert run(take(gateway, "serve:a"))
        clock.advance(timedelta(minutes=40))
    assert not run(take(gateway, "serve:b"))


def test_what_the_dead_held_is_free_at_once(gateway: GatewayStore, run: Run) -> None:
    assert run(take(gateway, "serve:a/telegram"))
    assert run(take(gateway, "chat:b", "other"))
    assert run(gateway.leases.expire_owned_by("serve:%")) == 1
    assert run(holders(gateway)) == {"other": "chat:b"}
    assert run(take(gateway, "serve:c"))


def test_of_many_who_want_it_at_once_one_gets_it(open_gateway: OpenGateway, run: Run, raw_execute: RawExecute) -> None:
    stores = [open_gateway() for _ in range(2)]

    async def race(begins: str) -> list[bool]:
        taken = await asyncio.gather(*(take(stores[n % 2], f"{begins}{n}") for n in range(8)))
        return [lease is not None for lease in taken]

    for begins in ("serve:first", "serve:second"):
        # The second time the name is there, and free.
        assert sorted(run(race(begins))) == [False] * 7 + [True]
        assert run(holders(stores[0]))[BOT].startswith(begins)
        expire(raw_execute)


@pytest.mark.parametrize("table", ["deliveries", "flushes", "named_leases"])
def test_a_program_that_raises_no_fence_claims_nothing(
    gateway: GatewayStore, run: Run, raw_execute: RawExecute, table: str
) -> None:
    """One of an earlier schema may have the database open while this one migrates it."""
    run(gateway.outbox.enqueue(NewDelivery(delivery_id="d1", target=Target(platform="t", chat_id="1"), text="x")))
    run(take(gateway, "serve:a"))
    raw_execute("INSERT INTO flushes (session_pk, platform, upto, due_at) VALUES (1, 't', 1, 0)")
    with pytest.raises(Exception, match="newer schema"):
        raw_execute(f"UPDATE {table} SET owner = 'serve:old', lease_until = 1")
    raw_execute(f"UPDATE {table} SET owner = 'serve:new', lease_until = 1, fence = fence + 1")

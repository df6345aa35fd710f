"""One terminal at a time: the terminals of a database share one conversation, and an answer is shown to who waits for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from threadline.errors import AlreadyServed, StoreUnavailable
from threadline.gateway.supervisor import Supervisor
from threadline.ids import new_lease_owner
from threadline.log import get_logger
from threadline.store.facade import GatewayStore
from threadline.store.leases import Lease
from threadline.texts import platforms as texts

log = get_logger(__name__)

NAME = "local@main"
_TERMINAL, _PIPE = "terminal", "pipe"
_POLL_SECONDS = 0.1


@asynccontextmanager
async def seated(
    store: GatewayStore, *, is_pipe: bool, note: Callable[[str], None], lease_seconds: float
) -> AsyncIterator[None]:
    """As long as this lasts, the conversation of terminals is this process's alone; `note` is told if that takes a while.

    A pipe is waited for: it ends. A terminal may be open for days: unless it is gone within the length of a lease, that is
    `AlreadyServed`, and so is the end of what is within where this process slept and another took the seat.
    """
    owner = f"{new_lease_owner('chat')}/{_PIPE if is_pipe else _TERMINAL} {os.getpid()}"
    duration = int(lease_seconds * 1_000_000)
    lease = await _take(store, owner, duration, note)
    tasks, sitting = Supervisor(), asyncio.timeout(None)
    try:
        async with sitting:
            tasks.keep("seat", lambda: _keep(store, lease, duration, sitting))
            yield
    except TimeoutError:
        if not sitting.expired():
            raise
        raise AlreadyServed(texts.SEAT_LOST) from None
    finally:
        await tasks.stop()
        try:
            await store.leases.release(lease)
        except StoreUnavailable as cause:
            # It ends by itself.
            log.warning("lease.not_given_back", lease=NAME, error=repr(cause))


async def _take(store: GatewayStore, owner: str, duration: int, note: Callable[[str], None]) -> Lease:
    loop = asyncio.get_running_loop()
    is_told, since = False, loop.time()
    while (lease := await store.leases.acquire(NAME, owner, duration=duration)) is None:
        kind, _, process = await _holder(store)
        if kind == _TERMINAL and loop.time() - since > duration / 1_000_000 + 2 * _POLL_SECONDS:
            raise AlreadyServed(texts.SEAT_TAKEN.format(process=process))
        if kind and not is_told:
            is_told = True
            note((texts.SEAT_AWAITED if kind == _PIPE else texts.SEAT_LOOKED_AT).format(process=process))
        await asyncio.sleep(_POLL_SECONDS)
    return lease


async def _holder(store: GatewayStore) -> tuple[str, str, str]:
    """What sort of process holds the seat, and which; nothing where it has just been given back."""
    owners = [one.owner for one in await store.leases.list_all() if one.name == NAME]
    return "".join(owners).partition("/")[2].partition(" ")


async def _keep(store: GatewayStore, lease: Lease, duration: int, sitting: asyncio.Timeout) -> None:
    """Renews the seat, and ends what is within where it is another's."""
    while True:
        await asyncio.sleep(duration / 3_000_000)
        if not await store.leases.renew([lease], duration=duration):
            sitting.reschedule(asyncio.get_running_loop().time())
            return

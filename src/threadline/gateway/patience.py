"""A store that is away for a moment: what is done already is not thrown away for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from threadline.errors import StoreUnavailable
from threadline.log import get_logger

log = get_logger(__name__)

T = TypeVar("T")

_PAUSE_SECONDS = 0.2


async def patiently(work: Callable[[], Awaitable[T]], is_late: Callable[[], bool]) -> T:
    """Does `work`, again and again while the store is away, as long as this process may rely on its leases.

    For what may be stored twice without harm: a store that went away may have stored it and not said so.
    """
    while True:
        try:
            return await work()
        except StoreUnavailable as cause:
            if is_late():
                raise
            log.warning("store.waited_for", error=str(cause))
        await asyncio.sleep(_PAUSE_SECONDS)

"""Calls to a platform: none of them takes for ever, whatever an adapter does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.ports.platform import Ambiguous

CALL_SECONDS = 60.0
# For a message that comes with files: they may be large, and the line slow.
UPLOAD_SECONDS = 600.0


@asynccontextmanager
async def limited(seconds: float) -> AsyncIterator[None]:
    """Ends the call within it after so many seconds. It may have arrived by then or not: `Ambiguous`, as a lost answer is."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as cause:
        if not limit.expired():
            raise
        raise Ambiguous(f"the platform has not answered within {seconds:g} seconds") from cause

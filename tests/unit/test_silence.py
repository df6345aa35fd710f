"""A turn ends by the silence of its agent, not by its age."""

from __future__ import annotations

import asyncio

import pytest

from threadline.gateway.silence import Silence


async def _never() -> None:
    await asyncio.Event().wait()


def test_who_says_nothing_is_ended() -> None:
    async def waits() -> None:
        async with Silence(0.02):
            await _never()

    with pytest.raises(TimeoutError):
        asyncio.run(waits())


def test_who_goes_on_speaking_is_not_ended_however_long_it_takes() -> None:
    async def speaks() -> str:
        async with Silence(0.4) as silence:
            for _ in range(6):
                await asyncio.sleep(0.1)
                silence.heard()
        return "all said"

    assert asyncio.run(speaks()) == "all said"


def test_who_falls_silent_after_many_words_is_ended() -> None:
    async def falls_silent() -> None:
        async with Silence(0.05) as silence:
            for _ in range(3):
                await asyncio.sleep(0.02)
                silence.heard()
            await _never()

    with pytest.raises(TimeoutError):
        asyncio.run(falls_silent())


def test_who_is_kept_waiting_is_not_silent() -> None:
    async def waits() -> str:
        async with Silence(0.02) as silence:
            silence.pause()
            await asyncio.sleep(0.1)
            silence.heard()
        return "not ended"

    assert asyncio.run(waits()) == "not ended"


def test_what_ends_in_time_leaves_nothing_behind() -> None:
    async def ends() -> str:
        async with Silence(0.02):
            pass
        await asyncio.sleep(0.05)
        return "not ended"

    assert asyncio.run(ends()) == "not ended"


def test_a_cancellation_from_outside_stays_one() -> None:
    async def cancelled() -> None:
        async def waits() -> None:
            async with Silence(60.0):
                await _never()

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())

"""The agent of `bench.web`. It imports nothing of the bench: what that weighs is not the server's."""

from __future__ import annotations

from collections.abc import AsyncIterator

from threadline.agents.function import FunctionTurn

# As many characters as a gateway tells of at once: what comes sooner than it can be written down is joined up to this.
_CHUNK = "Two thousand characters. " * 80


async def answer(turn: FunctionTurn) -> AsyncIterator[str]:
    """So many chunks, each as soon as the last one was taken."""
    for _ in range(int(turn.text)):
        yield _CHUNK

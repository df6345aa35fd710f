"""The echo agent: it answers with the text and the files of the turn. Use it to try out a gateway without a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from threadline.agents.registry import AgentSetup
from threadline.errors import InvalidRequest, UnknownFile
from threadline.model.files import names_of
from threadline.model.inbound import Attachment
from threadline.model.turn import Replay
from threadline.ports.agent import Event, File, Text, Turn
from threadline.texts import gateway as texts

_WORDS = re.compile(r"\s*\S+\s*|\s+")
_PIECES = 4


class EchoAgent:
    """Answers with the text of the turn, unchanged, in at most four pieces, and with the files that came with it."""

    # Earlier messages do not change the answer.
    history_limit = 0

    def __init__(self, *, pause: float = 0.05) -> None:
        """`pause` is the time between two pieces, in seconds: long enough to see that the answer is streamed."""
        self._pause = pause

    @property
    def replay(self) -> Replay:
        return "safe"

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """Yield pieces that join to `turn.text`, then the files; a line names unreadable files. End early once cancelled."""
        for place, piece in enumerate(pieces_of(turn.text)):
            if turn.cancelled.is_set() or (place and await _is_cancelled_within(self._pause, turn.cancelled)):
                return
            yield Text(piece)
        missing: list[Attachment] = []
        for file in [file for spoken in turn.messages for file in spoken.attachments]:
            if turn.cancelled.is_set():
                return
            if (echoed := await _echo_file(turn, file)) is None:
                missing.append(file)
            else:
                yield echoed
        if missing:
            line = texts.FILES_NOT_HAD.format(names=names_of(missing))
            yield Text(f"\n\n{line}" if turn.text else line)


def pieces_of(text: str, count: int = _PIECES) -> list[str]:
    """Split `text` between words into at most `count` pieces, none of them empty."""
    words = _WORDS.findall(text)
    size = max(1, -(-len(words) // count))
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


async def _echo_file(turn: Turn, file: Attachment) -> File | None:
    try:
        return await turn.file(await turn.fetch(file), name=file.name, mime=file.mime)
    except (UnknownFile, InvalidRequest):
        return None


def make(_: AgentSetup) -> EchoAgent:
    """Return an echo agent. It needs no settings."""
    return EchoAgent()


async def _is_cancelled_within(seconds: float, cancelled: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await cancelled.wait()
    except TimeoutError:
        return False
    return True

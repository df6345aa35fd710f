"""A thousand chats that are answered at the same time, word by word: how much memory `serve` takes for it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from bench.measure import Figure, Sample, peak_bytes, say
from bench.stage import Stage
from threadline.agents.function import FunctionTurn
from threadline.testing.scripted import ScriptedChat

_CHATS = 1_000
_CHUNKS_A_SECOND = 20
_SECONDS = 30
_LIMIT_BYTES = 300_000_000
MEMORY = Figure(
    name="1,000 chats streaming: memory of serve", unit="bytes", beside="300 MB", at_most=_LIMIT_BYTES / _LIMIT_BYTES
)


async def answer(turn: FunctionTurn) -> AsyncIterator[str]:
    """The agent: so many words, in time. The message says how many."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(1, int(turn.text) + 1):
        yield f"{number} "
        await asyncio.sleep(max(0.0, began + number / _CHUNKS_A_SECOND - loop.time()))


def streaming(stage: Stage) -> Iterator[Sample]:
    """Every chat asks at once, and each answer grows for half a minute."""
    chats = stage.scaled(_CHATS, least=10)
    words = stage.scaled(_CHUNKS_A_SECOND * _SECONDS, least=20)
    url = stage.places.fresh("streaming")
    peak = asyncio.run(_peak_while_streaming(url, chats, words))
    stage.check(url)
    yield Sample(MEMORY, float(peak), float(_LIMIT_BYTES))


async def _peak_while_streaming(url: str, chats: int, words: int) -> int:
    async with ScriptedChat() as chat:
        async with _served(url, chat.address, chats) as pid:
            await chat.wait_for(lambda: chat.connected, timeout=60)
            idle, began = peak_bytes(pid), time.perf_counter()
            for number in range(chats):
                chat.say(str(words), user=f"user{number}")
            whole = "".join(f"{number} " for number in range(1, words + 1)).strip()
            # Looked at now and then, not at every edit: the chat itself must not be what everybody waits for.
            while _answered(chat, whole) < chats:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.5)
            seconds, peak = time.perf_counter() - began, peak_bytes(pid)
        say(
            f"    {chats:,} chats, {words:,} words each: {seconds:.0f} s,"
            f" {idle / 1e6:.0f} MB before, {peak / 1e6:.0f} MB at most"
        )
        return peak


def _answered(chat: ScriptedChat, whole: str) -> int:
    return sum(message.text.strip() == whole for message in chat.messages())


@asynccontextmanager
async def _served(url: str, address: str, chats: int) -> AsyncIterator[int]:
    """A `serve` of its own process; its number."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        config.write_text(_config(url, address, chats))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "threadline", "serve", "--config", str(config), "--port", "0"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "XDG_DATA_HOME": folder},
        )
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()


def _config(url: str, address: str, chats: int) -> str:
    guests = [f"scripted:user{number}" for number in range(chats)]
    return f"""\
db = {msgspec.json.encode(url).decode()}
log_level = "error"
[gateway]
turns_at_once = {chats}
turns_per_platform = {chats}
burst_seconds = 0.0
welcome = false
[agents.main]
kind = "function"
call = "bench.streaming:answer"
[access]
guests = {msgspec.json.encode(guests).decode()}
[platforms.scripted]
address = "{address}"
capabilities = {{ max_length = 4096, edit = true, edit_interval = 1.0 }}
"""

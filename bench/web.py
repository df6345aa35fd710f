"""Five hundred open pages that read answers as they are written: `serve` beside a bare Starlette application."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec

from bench.measure import Figure, Sample, cpu_seconds, peak_bytes, say
from bench.stage import Stage
from bench.web_readers import Wanted, Watched
from threadline.store.facade import GatewayStore

_CONVERSATIONS = 20
_READERS = 25
_ROUNDS = 1
_TEXT = "60"
PACE = Figure(
    name="500 readers of 20 streaming turns: events", unit="per second", beside="a bare Starlette app", at_least=0.5
)
MEMORY = Figure(
    name="500 readers of 20 streaming turns: peak memory", unit="bytes", beside="a bare Starlette app", at_most=2.0
)
GROWN = Figure(
    name="500 readers of 20 streaming turns: events of turns alone", unit="per second", beside="a bare Starlette app"
)
IDLE = Figure(name="serve with 500 readers, before anything streams: memory", unit="bytes", beside="its peak then")


class Run(msgspec.Struct, frozen=True):
    """What one server did. `idle` and `peak` are its memory before anything streamed and at most, in bytes."""

    watched: Watched
    idle: int
    peak: int
    cpu: float

    def told(self) -> str:
        """For whoever watches."""
        each = self.watched.bytes / max(1, self.watched.events)
        return (
            f"{self.watched.events:,} events of {each:.0f} bytes in {self.watched.seconds:.1f} s, "
            f"{self.watched.per_second:,.0f} a second, {self.cpu:.1f} s of CPU, "
            f"{self.idle / 1e6:.0f} MB before, {self.peak / 1e6:.0f} MB at most, {self.watched.anew} told anew"
        )


def web_readers(stage: Stage) -> Iterator[Sample]:
    """The same readers before both, in the same run; the bare app sends as many events of the same size."""
    people, readers = stage.scaled(_CONVERSATIONS, least=2), stage.scaled(_READERS, least=2)
    url = stage.places.fresh("web_readers")
    ours = asyncio.run(_of_serve(url, people, readers))
    say(f"    serve: {ours.told()}")
    bare = asyncio.run(_of_bare_app(ours.watched, people, readers))
    say(f"    bare:  {bare.told()}")
    yield Sample(PACE, ours.watched.per_second, bare.watched.per_second)
    yield Sample(GROWN, ours.watched.grown / ours.watched.seconds, bare.watched.per_second)
    yield Sample(MEMORY, float(ours.peak), float(bare.peak))
    yield Sample(IDLE, float(ours.idle), float(ours.peak))
    stage.check(url)


async def _of_serve(url: str, people: int, readers: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        config.write_text(_config(url, people))
        command = ("-m", "threadline", "serve", "--config", str(config), "--port", "0")
        async with _started(command, {"XDG_DATA_HOME": folder}) as (process, line):
            address = line.removeprefix("Threadline is at ").partition("#t=")[0]
            cookies = await let_in(url, address, people)
            return await _run(process.pid, address, Wanted(shown=cookies, readers=readers, rounds=_ROUNDS, text=_TEXT))


async def let_in(url: str, address: str, people: int) -> tuple[str, ...]:
    """Return the cookies of so many people who were invited."""
    async with (
        await GatewayStore.open(url) as store,
        httpx.AsyncClient(base_url=address, headers={"Origin": address.rstrip("/")}) as client,
    ):
        cookies = []
        for number in range(people):
            made = await store.web_access.invite(f"Person {number}", "trusted", days=1)
            answer = await client.post("/api/login", json={"invite": made.code})
            cookies.append(answer.cookies["threadline"])
            client.cookies.clear()
        return tuple(cookies)


async def _of_bare_app(like: Watched, people: int, readers: int) -> Run:
    each = round(like.events / (people * _ROUNDS * readers))
    size = round(like.bytes / like.events)
    shown = tuple(str(number) for number in range(people))
    async with _started(("-m", "bench.web_bare", str(each), str(size)), {}) as (process, line):
        return await _run(process.pid, line, Wanted(shown=shown, readers=readers, rounds=_ROUNDS, text=_TEXT))


async def _run(pid: int, address: str, wanted: Wanted) -> Run:
    """Lets the readers watch, in a process of their own: what they cost is not the server's."""
    command = ("-m", "bench.web_readers", address.strip(), msgspec.json.encode(wanted).decode())
    async with _started(command, {}) as (readers, line):
        assert line == "ready", line
        assert readers.stdin is not None
        assert readers.stdout is not None
        idle, spent = peak_bytes(pid), cpu_seconds(pid)
        readers.stdin.write(b"go\n")
        watched = msgspec.json.decode(await readers.stdout.readline(), type=Watched)
        return Run(watched, idle, peak_bytes(pid), cpu_seconds(pid) - spent)


@asynccontextmanager
async def _started(
    command: Sequence[str], environment: dict[str, str]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A Python process, and the first line that it writes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


def _config(url: str, turns: int) -> str:
    return f"""\
db = {msgspec.json.encode(url).decode()}
log_level = "error"
[gateway]
turns_at_once = {turns}
turns_per_platform = {turns}
turns_per_person = {turns}
burst_seconds = 0.0
welcome = false
[agents.main]
kind = "function"
call = "bench.web_agent:answer"
"""

"""The floor of `bench.web`: an application of a few lines that sends prepared events to whoever listens, and keeps nothing."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

# What may wait for one reader; whoever sends waits for the slowest.
_WAITING = 64


def application(events: int, size: int) -> Starlette:
    """For each message so many events of so many bytes go to all who follow its person, then one that ends it."""
    listening: dict[str, set[asyncio.Queue[bytes]]] = defaultdict(set)
    sending: set[asyncio.Task[None]] = set()
    head = b"event: live\ndata: "
    event = b"id: 1\n" + head + b"x" * max(0, size - len(head) - 8) + b"\n\n"

    async def send(person: str) -> None:
        for _ in range(events):
            for queue in listening[person]:
                await queue.put(event)
            # Events of a turn come one at a time, not as many as a queue holds.
            await asyncio.sleep(0)
        for queue in listening[person]:
            await queue.put(b"event: settled\ndata: {}\n\n")

    async def say(request: Request) -> Response:
        await request.body()
        task = asyncio.create_task(send(request.cookies["threadline"]))
        sending.add(task)
        task.add_done_callback(sending.discard)
        return JSONResponse({"verdict": "accepted"}, 202)

    async def follow(request: Request) -> Response:
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        listening[request.cookies["threadline"]].add(queue)

        async def told() -> AsyncIterator[bytes]:
            yield b"event: snapshot\ndata: {}\n\n"
            while True:
                yield await queue.get()

        return StreamingResponse(told(), media_type="text/event-stream")

    return Starlette(
        routes=[Route("/api/conversations/{id}/messages", say, methods=["POST"]), Route("/api/events", follow)]
    )


def main() -> None:
    """Says where it is, then answers until it is told to stop."""
    _, events, size = sys.argv
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
        # As `serve` has it.
        config = uvicorn.Config(
            application(int(events), int(size)),
            access_log=False,
            log_config=None,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()

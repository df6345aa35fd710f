"""A server with the guard around a small application, in a process of its own. It says its port, then answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from threadline.web.guard import RequestGuard, SiteNames
from threadline.web.server import bind, run_server

_GO_ON = asyncio.Event()


async def _read(request: Request) -> Response:
    return JSONResponse({"read": len(await request.body())})


async def _go_on(_request: Request) -> Response:
    _GO_ON.set()
    return Response(status_code=204)


async def _events(_request: Request) -> Response:
    async def both() -> AsyncIterator[str]:
        yield "data: first\n\n"
        await _GO_ON.wait()
        yield "data: second\n\n"

    return StreamingResponse(both(), media_type="text/event-stream")


def main() -> None:
    routes = [
        Route("/api/messages", _read, methods=["POST"]),
        Route("/api/go", _go_on, methods=["POST"]),
        Route("/api/events", _events, methods=["GET", "POST"]),
    ]
    with bind("127.0.0.1", 0, lambda _note: None) as listening:
        port = listening.getsockname()[1]

        def ready(_address: str) -> None:
            sys.stdout.write(f"{port}\n")
            sys.stdout.flush()

        asyncio.run(
            run_server(RequestGuard(Starlette(routes=routes), SiteNames.of("127.0.0.1", port)), listening, ready)
        )


if __name__ == "__main__":
    main()

"""`threadline serve`: the web page."""

from __future__ import annotations

from typing import Annotated

import typer

from threadline.cli import render
from threadline.cli.options import Db, examples

EXAMPLES = examples(
    "threadline serve",
    "threadline serve --port 9000",
    "threadline serve --db ./threadline.db",
)


def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="The port to listen at.",
            show_default="8765, or the next free one",
        ),
    ] = None,
    db: Db = None,
) -> None:
    """Open the store and serve a status page until Ctrl-C.

    A store that is missing is made. The page shows counts, never names or messages: it has no login yet.
    """
    from threadline import app

    app.serve(
        db,
        host=host,
        port=port,
        ready=lambda address: render.say(f"Threadline is at {address}"),
        note=render.note,
    )

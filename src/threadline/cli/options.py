"""Options that many commands share, and how their examples are written."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

from threadline.cli.values import parse_platform
from threadline.config.settings import DB

Format: TypeAlias = Literal["jsonl", "markdown", "html"]

Db: TypeAlias = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help=f"{DB.help}.", show_default=f"{DB.variable}, else {DB.default}"),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Go on without asking.")]
SessionId: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="ID", help="The session's id, as `sessions list` shows it.", show_default=False),
]
Platform: TypeAlias = Annotated[
    str | None,
    typer.Option("--platform", metavar="NAME", parser=parse_platform, help="Only this platform, such as telegram."),
]
Cursor: TypeAlias = Annotated[
    str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before this one ended.")
]


def examples(*lines: str) -> str:
    """The end of a command's help: what people type, one example a line."""
    # The mark keeps the lines as they are; without it they would be joined.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))

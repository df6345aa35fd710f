"""The floors of `bench.editors`: an agent of a few lines on the protocol's own SDK, and a process that writes lines to a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp


class Echo:
    """Answers each prompt with its own words, and keeps nothing."""

    def __init__(self) -> None:
        self._sessions = 0

    def on_connect(self, conn: Any) -> None:
        """The editor is there."""
        self._editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """The version is taken as it comes."""
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_: Any) -> acp.NewSessionResponse:
        """A number is all that there is of it."""
        self._sessions += 1
        return acp.NewSessionResponse(session_id=f"session-{self._sessions}")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        """Says the same."""
        await self._editor.session_update(session_id, acp.update_agent_message_text(prompt[0].text))
        return acp.PromptResponse(stop_reason="end_turn")


def write_lines(file: Path) -> None:
    """Writes all lines of a file for each line that it is told, one write a line, from memory."""
    lines = file.read_bytes().splitlines(keepends=True)
    for _ in sys.stdin.buffer:
        for line in lines:
            os.write(1, line)


if __name__ == "__main__":
    if sys.argv[1:]:
        write_lines(Path(sys.argv[1]))
    else:
        asyncio.run(acp.run_agent(Echo()))  # type: ignore[arg-type]

"""OpenAI Agents SDK: `SQLiteSession`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents import SQLiteSession
from bench.peers.drive import Message, main


class OpenAIAgents:
    """One object a session on a file that all share. It keeps no usage and has no search."""

    can_search = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sessions.db"

    async def resolve(self, chat: str) -> Any:
        return SQLiteSession(chat, self._path)

    async def release(self, session: Any) -> None:
        session.close()

    async def fill(self, session: Any, messages: list[Message]) -> None:
        await session.add_items(messages)

    async def append(self, session: Any, message: Message, key: str) -> None:
        await session.add_items([message])

    append_beside_others = append

    async def record_usage(self, session: Any, turn: str) -> None:
        """Not kept."""

    async def load(self, session: Any, limit: int | None) -> list[Any]:
        items: list[Any] = await session.get_items(limit)
        return items

    async def search(self, query: str, limit: int) -> int:
        raise NotImplementedError

    async def finish_indexing(self) -> None:
        """There is no index."""

    async def close(self) -> None:
        """Every session has been closed."""


if __name__ == "__main__":
    main(OpenAIAgents)

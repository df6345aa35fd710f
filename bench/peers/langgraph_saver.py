"""LangGraph: `SqliteSaver`, used as a graph uses it: every step puts a checkpoint with the whole state."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from bench.peers.drive import Message, main


class Thread:
    """A thread as a running graph holds it: its last configuration and its messages."""

    def __init__(self, config: Any, messages: list[Message]) -> None:
        self.config = config
        self.messages = messages


class LangGraph:
    """Messages are plain dictionaries, which cost less to write than message objects. No usage, no search."""

    can_search = False

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        self._saver = SqliteSaver(self._connection)

    async def resolve(self, chat: str) -> Thread:
        config = {"configurable": {"thread_id": chat, "checkpoint_ns": ""}}
        found = self._saver.get_tuple(config)
        return Thread(found.config, found.checkpoint["channel_values"]["messages"]) if found else Thread(config, [])

    async def release(self, session: Thread) -> None:
        """Nothing is held."""

    async def fill(self, session: Thread, messages: list[Message]) -> None:
        self._put(session, messages)

    async def append(self, session: Thread, message: Message, key: str) -> None:
        self._put(session, [message])

    async def append_beside_others(self, session: Thread, message: Message, key: str) -> None:
        await asyncio.to_thread(self._put, session, [message])

    async def record_usage(self, session: Thread, turn: str) -> None:
        """Not kept."""

    async def load(self, session: Thread, limit: int | None) -> list[Any]:
        thread = {"thread_id": session.config["configurable"]["thread_id"], "checkpoint_ns": ""}
        found = self._saver.get_tuple({"configurable": thread})
        messages: list[Any] = found.checkpoint["channel_values"]["messages"]
        return messages if limit is None else messages[-limit:]

    async def search(self, query: str, limit: int) -> int:
        raise NotImplementedError

    async def finish_indexing(self) -> None:
        """There is no index."""

    async def close(self) -> None:
        self._connection.close()

    def _put(self, session: Thread, messages: list[Message]) -> None:
        session.messages = [*session.messages, *messages]
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": session.messages}
        session.config = self._saver.put(session.config, checkpoint, {"source": "loop"}, {})


if __name__ == "__main__":
    main(LangGraph)

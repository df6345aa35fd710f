"""Threadline: `SessionStore`, and `AsyncSessionStore` where many callers share an event loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.drive import Message, main
from threadline import AsyncSessionStore, SessionSource, SessionStore


class Threadline:
    """Both stores on one file."""

    can_search = True

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite://{folder.absolute() / 'threadline.db'}"
        self._store = SessionStore.open(self._url)
        self._async_store: AsyncSessionStore | None = None

    async def resolve(self, chat: str) -> str:
        source = SessionSource(platform="telegram", chat_id=chat, user_id="1", user_name="Person")
        return self._store.get_or_create_session(source).session_id

    async def release(self, session: str) -> None:
        """Nothing is held."""

    async def fill(self, session: str, messages: list[Message]) -> None:
        self._store.append_to_transcript(session, messages, idempotency_key="fill")

    async def append(self, session: str, message: Message, key: str) -> None:
        self._store.append_to_transcript(session, message, idempotency_key=key)

    async def append_beside_others(self, session: str, message: Message, key: str) -> None:
        if self._async_store is None:
            self._async_store = await AsyncSessionStore.open(self._url)
        await self._async_store.append_to_transcript(session, message, idempotency_key=key)

    async def record_usage(self, session: str, turn: str) -> None:
        self._store.record_usage(session, turn, input_tokens=900, output_tokens=200, cost_usd=0.01, model="some-model")

    async def load(self, session: str, limit: int | None) -> list[Any]:
        return self._store.load_transcript(session, limit=limit)

    async def search(self, query: str, limit: int) -> int:
        return len(self._store.search(query, limit=limit))

    async def finish_indexing(self) -> None:
        self._store.index_pending()

    async def close(self) -> None:
        self._store.close()
        if self._async_store is not None:
            await self._async_store.close()


if __name__ == "__main__":
    main(Threadline)

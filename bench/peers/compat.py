"""`threadline.compat`: the calls of hermes-agent, over our store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.drive import Message, main
from threadline.compat import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore


class Compat:
    """The original's store, on a folder."""

    can_search = True

    def __init__(self, folder: Path) -> None:
        config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="none"))
        self._store = SessionStore(folder / "sessions", config)

    async def resolve(self, chat: str) -> str:
        source = SessionSource(Platform.TELEGRAM, chat, user_id="1", user_name="Person")
        return self._store.get_or_create_session(source).session_id

    async def release(self, session: str) -> None:
        """Nothing is held."""

    async def fill(self, session: str, messages: list[Message]) -> None:
        self._store.rewrite_transcript(session, messages)

    async def append(self, session: str, message: Message, key: str) -> None:
        self._store.append_to_transcript(session, message)

    async def append_beside_others(self, session: str, message: Message, key: str) -> None:
        self._store.append_to_transcript(session, message)

    async def record_usage(self, session: str, turn: str) -> None:
        self._store.core.record_usage(session, turn, input_tokens=900, output_tokens=200, cost_usd=0.01)

    async def load(self, session: str, limit: int | None) -> list[Any]:
        messages = self._store.load_transcript(session)
        return messages if limit is None else messages[-limit:]

    async def search(self, query: str, limit: int) -> int:
        return len(self._store.core.search(query, limit=limit))

    async def finish_indexing(self) -> None:
        self._store.core.index_pending()

    async def close(self) -> None:
        self._store.close()


if __name__ == "__main__":
    main(Compat)

"""hermes-agent: the `SessionStore` of its gateway over its `state.db`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.config import GatewayConfig, Platform, SessionResetPolicy
from gateway.session import AsyncSessionStore, SessionSource, SessionStore
from hermes_state import SessionDB

from bench.peers.drive import Message, main


class Hermes:
    """The mirror of its index as a file is on, as it is by default."""

    can_search = True

    def __init__(self, folder: Path) -> None:
        config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="none"))
        self._store = SessionStore(folder / "sessions", config)
        # The store has opened a database in the home; this run has two of them.
        self._db = SessionDB(folder / "state.db")
        self._store._db = self._db
        self._async_store = AsyncSessionStore(self._store)

    async def resolve(self, chat: str) -> str:
        source = SessionSource(platform=Platform.TELEGRAM, chat_id=chat, user_id="1", user_name="Person")
        session: str = self._store.get_or_create_session(source).session_id
        return session

    async def release(self, session: str) -> None:
        """Nothing is held."""

    async def fill(self, session: str, messages: list[Message]) -> None:
        self._db.replace_messages(session, messages)

    async def append(self, session: str, message: Message, key: str) -> None:
        self._store.append_to_transcript(session, message)

    async def append_beside_others(self, session: str, message: Message, key: str) -> None:
        await self._async_store.append_to_transcript(session, message)

    async def record_usage(self, session: str, turn: str) -> None:
        self._db.update_token_counts(
            session, input_tokens=900, output_tokens=200, estimated_cost_usd=0.01, model="some-model", api_call_count=1
        )

    async def load(self, session: str, limit: int | None) -> list[Any]:
        messages: list[Any] = self._store.load_transcript(session)
        return messages if limit is None else messages[-limit:]

    async def search(self, query: str, limit: int) -> int:
        return len(self._db.search_messages(query, limit=limit))

    async def finish_indexing(self) -> None:
        """Triggers index each message in the transaction that writes it."""

    async def close(self) -> None:
        self._db.close()


if __name__ == "__main__":
    main(Hermes)

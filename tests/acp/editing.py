"""What tests of an editor's sessions share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.contract.conftest import open_gateway, run, runner
from tests.contract.gateways import OpenGateway

from threadline.acp.sessions import AsyncSessionManager, EditorSession, source_of
from threadline.store.facade import GatewayStore
from threadline.testing import user

__all__ = [
    "gateway",
    "known",
    "listed",
    "managed",
    "manager",
    "open_gateway",
    "replay_pages",
    "replayed",
    "run",
    "runner",
    "say",
]


@pytest.fixture
def gateway(open_gateway: OpenGateway) -> GatewayStore:
    return open_gateway()


def managed(store: GatewayStore, agent: str = "main", person: str = "ada") -> AsyncSessionManager:
    """The sessions of a process that answers with this agent."""
    return AsyncSessionManager(store, user=person, agent_for=lambda _source: agent)


@pytest.fixture
def manager(gateway: GatewayStore) -> AsyncSessionManager:
    return managed(gateway)


def known(session: EditorSession | None) -> EditorSession:
    """The session of an id that is known."""
    assert session is not None
    return session


async def replay_pages(
    manager: AsyncSessionManager, session_id: str, page: int = 500
) -> AsyncIterator[list[dict[str, Any]]]:
    """The messages of a replay, page by page."""
    plans = manager._sessions
    store, source = cast("GatewayStore", plans.store), source_of(session_id, "ada")
    spans, after = (await store.editor_sessions.history_plan(source, agent=plans._agent(source))).spans, 0
    while (found := await store.editor_sessions.history_page(spans, after=after, limit=page)) is not None:
        lines = [json.loads(line) for line in found.text.split(b"\n")]
        yield [
            json.loads(await store.editor_sessions.message_body(line) or "") if isinstance(line, int) else line
            for line in lines
        ]
        after = found.last


async def replayed(manager: AsyncSessionManager, session_id: str, page: int = 500) -> list[str]:
    """What each message of a replay says."""
    return [message["content"] async for messages in replay_pages(manager, session_id, page) for message in messages]


async def listed(manager: AsyncSessionManager, cwd: str | None = None, limit: int = 50) -> list[EditorSession]:
    """All pages of a list."""
    found, cursor = [], None
    while True:
        page = await manager.list_sessions(cwd=cwd, cursor=cursor, limit=limit)
        found += list(page)
        if (cursor := page.cursor) is None:
            return found


async def say(store: GatewayStore, session: EditorSession, *texts: str) -> None:
    """Says something in what is current at the session's place."""
    held = await store.editor_sessions.find(source_of(session.session_id, "ada"))
    await store.append_to_transcript(held.entry.session_id, [user(text) for text in texts])

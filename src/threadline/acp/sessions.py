"""The sessions of editors: `SessionManager` over the one store, so that they are found by search and survive a restart."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from threadline.errors import InvalidRequest, UnknownSession
from threadline.ids import new_session_id
from threadline.model.editors import (
    API_MODE,
    BASE_URL,
    MODE,
    OPTIONS,
    PROVIDER,
    editor_source,
    is_editor_session,
)
from threadline.model.session import CHOSEN_MODEL, SessionEntry
from threadline.model.source import SessionSource
from threadline.store.editors import Changes, Held
from threadline.store.gateway import GatewayStore
from threadline.store.listing import Page


class EditorSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session as an editor knows it. `session_id` stays for ever; `entry` is what the store has at its place now.

    `model` is the one that was chosen, else the one that answered last. `history_len` counts the messages that a replay has.
    """

    session_id: str
    cwd: str
    title: str | None
    model: str | None
    history_len: int
    updated_at: datetime
    provider: str | None
    base_url: str | None
    api_mode: str | None
    mode: str | None
    options: dict[str, Any]
    entry: SessionEntry
    # In a list, the first that were said in one without a title.
    words: str = ""


def source_of(session_id: str, user: str) -> SessionSource:
    """Where a message comes from that this person writes in that session; `UnknownSession` for what can't be the id of one."""
    if not is_editor_session(session_id):
        raise UnknownSession("no session of an editor has such an id")
    return editor_source(session_id, user)


class SessionManager:
    """Makes, finds, copies, lists, changes and removes sessions of editors.

    Nothing is kept here but which sessions are open in this process. An id that is not one of an editor's, be it a chat's or no id
    at all, is `UnknownSession` everywhere.
    """

    def __init__(self, store: GatewayStore, *, user: str, agent_for: Callable[[SessionSource], str]) -> None:
        """`user` is who writes in the editor; `agent_for` names the agent that answers a source."""
        self._store = store
        self._user = user
        self._agent_for = agent_for
        self._bound: dict[str, SessionSource] = {}

    @property
    def bound(self) -> tuple[SessionSource, ...]:
        """The sessions that are open in this process."""
        return tuple(self._bound.values())

    async def create_session(self, cwd: str) -> EditorSession:
        """A new session that works in that folder, open here. It is stored before this returns."""
        source = self._new_source()
        held = await self._store.create_editor_session(source, _checked(cwd), agent=self._agent_for(source))
        return self._open(source, held)

    async def get_session(self, session_id: str) -> EditorSession:
        """The session of that id, open here from now on, whatever process made it; `UnknownSession` where there is none."""
        source = source_of(session_id, self._user)
        return self._open(source, await self._store.find_editor_session(source, agent=self._agent_for(source)))

    async def fork_session(self, session_id: str, cwd: str | None = None) -> EditorSession:
        """A new session with the history, model, mode and options of another, open here; both go on apart. No message is copied."""
        source, into = source_of(session_id, self._user), self._new_source()
        path = None if cwd is None else _checked(cwd)
        held = await self._store.fork_editor_session(source, into, cwd=path, agent=self._agent_for(source))
        return self._open(into, held)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> Page[EditorSession]:
        """A page of all sessions of editors, the most recently updated first; with `cwd`, of those in that very folder.

        `page.cursor` asks for what follows. A cursor that is none is `InvalidCursor`.
        """
        page = await self._store.list_editor_sessions(cwd=cwd, cursor=cursor, limit=limit)
        return Page([_session(str(held.entry.origin.chat_id), held) for held in page], page.cursor)

    async def update_cwd(self, session_id: str, cwd: str) -> EditorSession:
        """The session works in that folder from now on."""
        return await self._save(session_id, Changes(cwd=_checked(cwd)))

    async def save_session(
        self,
        session_id: str,
        *,
        title: str | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        provider: str | UnsetType | None = UNSET,
        base_url: str | UnsetType | None = UNSET,
        api_mode: str | UnsetType | None = UNSET,
        mode: str | UnsetType | None = UNSET,
        options: dict[str, Any] | UnsetType | None = UNSET,
    ) -> EditorSession:
        """Keeps what is given, all or nothing, and returns when it is durable. `None` takes something away.

        `options` are merged by their names, so that two that are set at once both hold. What looks like a secret is refused.
        """
        named = {
            CHOSEN_MODEL: model,
            PROVIDER: provider,
            BASE_URL: base_url,
            API_MODE: api_mode,
            MODE: mode,
            OPTIONS: options,
        }
        given = {name: value for name, value in named.items() if value is not UNSET}
        return await self._save(session_id, Changes(title=title, runtime=given))

    async def remove_session(self, session_id: str) -> bool:
        """Deletes the session and all that was ever held in it; False where there is none."""
        if not is_editor_session(session_id):
            return False
        source = source_of(session_id, self._user)
        self._bound.pop(session_id, None)
        return await self._store.remove_editor_session(source, agent=self._agent_for(source))

    def close_session(self, session_id: str) -> None:
        """The session is not open here any more. It stays as it is."""
        self._bound.pop(session_id, None)

    def cleanup(self) -> None:
        """No session is open here any more. Nothing is deleted."""
        self._bound.clear()

    async def _save(self, session_id: str, changes: Changes) -> EditorSession:
        source = source_of(session_id, self._user)
        held = await self._store.save_editor_session(source, changes, agent=self._agent_for(source))
        return _session(session_id, held)

    def _new_source(self) -> SessionSource:
        return editor_source(new_session_id(self._store.clock.now()), self._user)

    def _open(self, source: SessionSource, held: Held) -> EditorSession:
        session = _session(str(source.chat_id), held)
        self._bound[session.session_id] = source
        return session


def _session(session_id: str, held: Held) -> EditorSession:
    entry = held.entry
    options = entry.runtime.get(OPTIONS)
    return EditorSession(
        session_id=session_id,
        cwd=entry.cwd or "/",
        title=entry.title,
        model=entry.chosen_model or entry.model,
        history_len=held.history_len,
        updated_at=entry.updated_at,
        provider=_text(entry, PROVIDER),
        base_url=_text(entry, BASE_URL),
        api_mode=_text(entry, API_MODE),
        mode=_text(entry, MODE),
        options=options if isinstance(options, dict) else {},
        entry=entry,
        words=held.words,
    )


def _text(entry: SessionEntry, name: str) -> str | None:
    value = entry.runtime.get(name)
    return value if isinstance(value, str) else None


def _checked(cwd: str) -> str:
    if not isinstance(cwd, str) or not posixpath.isabs(cwd):
        raise InvalidRequest("the working folder must be an absolute path, such as /home/me/project")
    return cwd

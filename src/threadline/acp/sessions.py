"""The sessions of editors, managed through the store: search finds them, and they survive a restart."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from threadline.errors import InvalidRequest, UnknownSession
from threadline.local_user import login_name
from threadline.model.client_sources import (
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
from threadline.store.conversations.editor_sessions import (
    EditorSessionChanges,
    EditorSessions,
    StoredEditorSession,
    new_editor_source,
)
from threadline.store.facade import AsyncSessionStore, SessionStore
from threadline.store.rows import Page

P = ParamSpec("P")
T = TypeVar("T")


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
    preview: str = ""


def source_of(session_id: str, user: str) -> SessionSource:
    """Return the source of this person's messages in that session. `UnknownSession`: the text can't be the id of a session."""
    if not is_editor_session(session_id):
        raise UnknownSession("no session of an editor has such an id")
    return editor_source(session_id, user)


class _EditorSessions:
    """The blocking methods of both managers. It holds no state except the sessions that are open in this process."""

    def __init__(
        self,
        store: SessionStore | AsyncSessionStore,
        user: str | None,
        agent_for: Callable[[SessionSource], str] | None,
    ) -> None:
        self.store = store
        self._user = user or login_name()
        self._agent_for = agent_for
        self.bound: dict[str, SessionSource] = {}

    def create_session(self, cwd: str) -> EditorSession:
        """Create a session that works in that folder, open here. It is stored before this returns."""
        source = new_editor_source(self.store, self._user)
        stored = self.store.perform(
            EditorSessions.create.step(self.store, source, _checked_cwd(cwd), agent=self._agent(source))
        )
        return self._open(source, stored)

    def get_session(self, session_id: str) -> EditorSession | None:
        """Return the session with this id and open it here, or None if there is none."""
        try:
            source = source_of(session_id, self._user)
            stored = self.store.perform(EditorSessions.find.step(self.store, source, agent=self._agent(source)))
        except UnknownSession:
            return None
        return self._open(source, stored)

    def fork_session(self, session_id: str, cwd: str | None = None) -> EditorSession | None:
        """A new session with the history, model, mode and options of another, open here; both go on apart. `None`: unknown id.

        No message is copied. Without `cwd`, it works in the folder of the other.
        """
        path = None if cwd is None else _checked_cwd(cwd)
        try:
            source, into = source_of(session_id, self._user), new_editor_source(self.store, self._user)
            stored = self.store.perform(
                EditorSessions.fork.step(self.store, source, into, cwd=path, agent=self._agent(source))
            )
        except UnknownSession:
            return None
        return self._open(into, stored)

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None, limit: int = 50) -> Page[EditorSession]:
        """A page of all sessions of editors, the most recently updated first; with `cwd`, of those in that very folder.

        `page.cursor` asks for what follows. A cursor that is none is `InvalidCursor`.
        """
        page = self.store.perform(EditorSessions.list_page.step(self.store, cwd=cwd, cursor=cursor, limit=limit))
        return Page([_session(str(stored.entry.origin.chat_id), stored) for stored in page], page.cursor)

    def update_cwd(self, session_id: str, cwd: str) -> EditorSession | None:
        """Set the working folder of the session. Return None if there is no such session."""
        return self._save(session_id, EditorSessionChanges(cwd=_checked_cwd(cwd)))

    def save_session(
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
    ) -> EditorSession | None:
        """Keeps what is given, all or nothing, and returns when it is durable; `None` where there is no such session.

        An argument that is `None` takes something away. `options` are merged by their names, so that two that are set at once
        both hold. What looks like a secret is refused.
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
        return self._save(session_id, EditorSessionChanges(title=title, runtime=given))

    def remove_session(self, session_id: str) -> bool:
        """Delete the session and everything in it. Return False if there is no such session."""
        if not is_editor_session(session_id):
            return False
        source = source_of(session_id, self._user)
        self.bound.pop(session_id, None)
        return self.store.perform(EditorSessions.remove.step(self.store, source, agent=self._agent(source)))

    def cleanup(self, delete: bool = False) -> None:
        """Close all sessions in this process. With `delete`, also delete all sessions of editors in the store."""
        self.bound.clear()
        cursor = None
        while delete:
            page = self.store.perform(EditorSessions.list_page.step(self.store, cursor=cursor))
            for stored in page:
                self.remove_session(str(stored.entry.origin.chat_id))
            if (cursor := page.cursor) is None:
                return

    def _agent(self, source: SessionSource) -> str | None:
        return None if self._agent_for is None else self._agent_for(source)

    def _save(self, session_id: str, changes: EditorSessionChanges) -> EditorSession | None:
        try:
            source = source_of(session_id, self._user)
            stored = self.store.perform(
                EditorSessions.save.step(self.store, source, changes, agent=self._agent(source))
            )
        except UnknownSession:
            return None
        return _session(session_id, stored)

    def _open(self, source: SessionSource, stored: StoredEditorSession) -> EditorSession:
        session = _session(str(source.chat_id), stored)
        self.bound[session.session_id] = source
        return session


class _EditorClient:
    """The common part of both managers."""

    def __init__(
        self,
        store: SessionStore | AsyncSessionStore,
        user: str | None,
        agent_for: Callable[[SessionSource], str] | None,
    ) -> None:
        self._sessions = _EditorSessions(store, user, agent_for)

    @property
    def bound(self) -> tuple[SessionSource, ...]:
        """Return the sources of the sessions that are open in this process."""
        return tuple(self._sessions.bound.values())

    def close_session(self, session_id: str) -> None:
        """Close the session in this process. It stays in the store."""
        self._sessions.bound.pop(session_id, None)


def _blocking(verb: Callable[Concatenate[_EditorSessions, P], T]) -> Callable[Concatenate[_EditorClient, P], T]:
    def call(self: _EditorClient, /, *args: P.args, **options: P.kwargs) -> T:
        return verb(self._sessions, *args, **options)

    functools.update_wrapper(call, verb)
    return call


def _awaited(
    verb: Callable[Concatenate[_EditorSessions, P], T],
) -> Callable[Concatenate[_EditorClient, P], Coroutine[Any, Any, T]]:
    def call(self: _EditorClient, /, *args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._sessions.store.run_in_thread(functools.partial(verb, self._sessions, *args, **options))

    functools.update_wrapper(call, verb)
    return call


class SessionManager(_EditorClient):
    """Makes, finds, copies, lists, changes and removes sessions of editors. Blocking and thread-safe.

    `SessionManager(store, *, user=None, agent_for=None)`: `user` is who writes in the editor, by default the user of this
    process; `agent_for` names the agent that answers a source, by default the store's. An id that is not one of an editor's,
    be it a chat's or no id at all, gives `None`.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        user: str | None = None,
        agent_for: Callable[[SessionSource], str] | None = None,
    ) -> None:
        super().__init__(store, user, agent_for)

    create_session = _blocking(_EditorSessions.create_session)
    get_session = _blocking(_EditorSessions.get_session)
    fork_session = _blocking(_EditorSessions.fork_session)
    list_sessions = _blocking(_EditorSessions.list_sessions)
    update_cwd = _blocking(_EditorSessions.update_cwd)
    save_session = _blocking(_EditorSessions.save_session)
    remove_session = _blocking(_EditorSessions.remove_session)
    cleanup = _blocking(_EditorSessions.cleanup)


class AsyncSessionManager(_EditorClient):
    """`SessionManager` on an `AsyncSessionStore`: the same methods, awaited. `bound` and `close_session` need no waiting."""

    def __init__(
        self,
        store: AsyncSessionStore,
        *,
        user: str | None = None,
        agent_for: Callable[[SessionSource], str] | None = None,
    ) -> None:
        super().__init__(store, user, agent_for)

    create_session = _awaited(_EditorSessions.create_session)
    get_session = _awaited(_EditorSessions.get_session)
    fork_session = _awaited(_EditorSessions.fork_session)
    list_sessions = _awaited(_EditorSessions.list_sessions)
    update_cwd = _awaited(_EditorSessions.update_cwd)
    save_session = _awaited(_EditorSessions.save_session)
    remove_session = _awaited(_EditorSessions.remove_session)
    cleanup = _awaited(_EditorSessions.cleanup)


def _session(session_id: str, stored: StoredEditorSession) -> EditorSession:
    entry = stored.entry
    options = entry.runtime.get(OPTIONS)
    return EditorSession(
        session_id=session_id,
        cwd=entry.cwd or "/",
        title=entry.title,
        model=entry.chosen_model or entry.model,
        history_len=stored.history_len,
        updated_at=entry.updated_at,
        provider=_text(entry, PROVIDER),
        base_url=_text(entry, BASE_URL),
        api_mode=_text(entry, API_MODE),
        mode=_text(entry, MODE),
        options=options if isinstance(options, dict) else {},
        entry=entry,
        preview=stored.preview,
    )


def _text(entry: SessionEntry, name: str) -> str | None:
    value = entry.runtime.get(name)
    return value if isinstance(value, str) else None


def _checked_cwd(cwd: str) -> str:
    if not isinstance(cwd, str) or not posixpath.isabs(cwd):
        raise InvalidRequest("the working folder must be an absolute path, such as /home/me/project")
    return cwd

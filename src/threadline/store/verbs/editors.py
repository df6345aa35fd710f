"""Verbs on the sessions of editors: each has one name for ever, whatever goes on in it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from threadline.errors import UnknownSession
from threadline.ids import new_session_id
from threadline.model.address import address_of
from threadline.model.client_sources import ACP, editor_source, is_editor_session
from threadline.model.session import checked_runtime
from threadline.model.source import SessionSource
from threadline.model.view import Span
from threadline.store.conversations import editor_sessions
from threadline.store.conversations.editor_sessions import Changes, Held, Place, Replayed
from threadline.store.engine.database import Plan, read, read_along, write
from threadline.store.rows import Page, check_limit
from threadline.store.verbs.arguments import MAX_PATH_CHARS, clean_or_none, clean_text, clean_title
from threadline.store.verbs.removal import RemovalVerbs


class EditorVerbs(RemovalVerbs):
    """What an editor asks of the store. A session is named by where its person writes; nothing but an editor's is ever found."""

    def new_editor_source(self, user: str) -> SessionSource:
        """Where this person writes in a session of an editor that is yet to be created."""
        return editor_source(new_session_id(self._settings.clock.now()), user)

    def create_editor_session(self, source: SessionSource, cwd: str, *, agent: str | None = None) -> Plan[Held]:
        """A session at a new place, called like its chat; asked again, the same one."""
        path = clean_text("cwd", cwd, MAX_PATH_CHARS)
        return (yield from write(editor_sessions.create, self._now(), self._place(source, agent), cwd=path))

    def find_editor_session(self, source: SessionSource, *, agent: str | None = None) -> Plan[Held]:
        """The session that is current there, or `UnknownSession`. One that another agent answered goes on with this one."""
        place = self._place(source, agent)
        held = yield from read(editor_sessions.find, place)
        if held.is_away:
            yield from write(editor_sessions.bring, place)
        return held

    def fork_editor_session(
        self, source: SessionSource, into: SessionSource, *, cwd: str | None = None, agent: str | None = None
    ) -> Plan[Held]:
        """A session at a new place with the history, the model and the options of another, or `UnknownSession`."""
        places = self._place(source, agent), self._place(into, agent)
        path = clean_or_none("cwd", cwd, MAX_PATH_CHARS)
        return (yield from write(editor_sessions.fork, self._now(), *places, cwd=path))

    def list_editor_sessions(
        self, *, cwd: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Plan[Page[Held]]:
        """A page of the sessions of all editors, the most recently updated first; with `cwd`, of those in that very folder."""
        check_limit(limit)
        path = clean_or_none("cwd", cwd, MAX_PATH_CHARS)
        return (yield from read(editor_sessions.page, cwd=path, limit=limit, cursor=cursor))

    def save_editor_session(self, source: SessionSource, changes: Changes, *, agent: str | None = None) -> Plan[Held]:
        """Changes what is kept with the session that is current there; durable when it returns. `UnknownSession`."""
        checked_runtime(changes.runtime)
        clean_or_none("cwd", changes.cwd, MAX_PATH_CHARS)
        if changes.title is not UNSET:
            changes = replace(changes, title=clean_title(changes.title))
        return (yield from write(editor_sessions.save, self._now(), self._place(source, agent), changes))

    def remove_editor_session(self, source: SessionSource, *, agent: str | None = None) -> Plan[bool]:
        """Deletes all that was held there; False where there is no such session."""
        try:
            yield from self.find_editor_session(source, agent=agent)
        except UnknownSession:
            return False
        while (yield from write(editor_sessions.remove_some, self._place(source, agent))):
            pass
        yield from self.collect()
        return True

    def replay_of(self, source: SessionSource, *, agent: str | None = None) -> Plan[Replayed]:
        """What a replay of the session has; its spans are for `replay_page`. Or `UnknownSession`."""
        return (yield from read(editor_sessions.replayed, self._place(source, agent)))

    def replay_page(
        self, spans: Sequence[Span], *, after: int = 0, limit: int = 500
    ) -> Plan[editor_sessions.ReplayPage | None]:
        """The next messages of a replay, from behind the number `after` on; `None`: that was all."""
        return (yield from read_along(editor_sessions.replay_page, spans, after=after, limit=limit))

    def replay_body(self, number: int) -> Plan[str | None]:
        """A message that is too large for a page; `None` where it is gone."""
        return (yield from read(editor_sessions.replay_body, number))

    def _place(self, source: SessionSource, agent: str | None) -> Place:
        if source.platform != ACP or not is_editor_session(source.chat_id):
            raise UnknownSession("no session of an editor has such an id")
        return Place(source, address_of(source, self._settings.scope, agent or self._settings.agent))

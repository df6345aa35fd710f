"""Verbs on conversations: which session is current, how one starts, ends, comes back and is called."""

from __future__ import annotations

from typing import Any

import msgspec

from threadline.clock import to_instant
from threadline.ids import new_session_id
from threadline.model.address import address_of, build_session_key
from threadline.model.ownership import ownership_of
from threadline.model.policy import resolve_zone, uses_person_timezone
from threadline.model.session import SessionEntry, checked_runtime
from threadline.model.source import SessionSource
from threadline.store.conversations import indexes, records, resume, sessions
from threadline.store.engine.database import Plan, read, write
from threadline.store.rows import Page
from threadline.store.verbs.arguments import (
    MAX_PATH_CHARS,
    Who,
    clean_text,
    clean_title,
    minutes_before,
    viewer_of,
)
from threadline.store.verbs.base import VerbsBase


class ConversationVerbs(VerbsBase):
    """Resolving, resetting, switching, listing and naming sessions."""

    def get_or_create_session(
        self, source: SessionSource, force_new: bool = False, *, agent: str | None = None
    ) -> Plan[SessionEntry]:
        """The current session of the conversation that `source` belongs to, touched.

        A new one where there is none, where the reset policy finds it stale and it is not busy, or with `force_new`; the old
        one is then ended. A new thread in a DM starts with the DM's history. Callers at once get the same session.
        """
        settings = self._settings
        wanted = self._wanted(source, agent=agent, force_new=force_new)
        if settings.is_busy is not None and wanted.policy.mode != "none":
            # Asked outside of any transaction: a vote may be slow, and may ask the store itself.
            stale = yield from read(sessions.find_stale, wanted)
            if stale is not None and settings.is_busy(stale):
                wanted = msgspec.structs.replace(wanted, busy=True)
        entry = yield from write(sessions.resolve, wanted)
        self._grown()
        return entry

    def _wanted(
        self,
        source: SessionSource,
        *,
        agent: str | None,
        force_new: bool = False,
        flush: bool = False,
        must_exist: bool = False,
    ) -> sessions.Resolve:
        """The question for the session that a message from `source` belongs to, as of now."""
        settings = self._settings
        now = settings.clock.now()
        policy = settings.policies.policy_for(source.platform, source.chat_type)
        address = address_of(source, settings.scope, agent or settings.agent)
        return sessions.Resolve(
            source=source,
            address=address,
            policy=policy,
            zone=resolve_zone(policy, installation=settings.zone),
            at=to_instant(now),
            new_id=new_session_id(now),
            force_new=force_new,
            flush=flush,
            must_exist=must_exist,
            # Several people share a session: it has the days of none of them.
            person=ownership_of(source, address).owner if uses_person_timezone(policy) else None,
        )

    def session_key(self, source: SessionSource, *, agent: str | None = None) -> str:
        """The readable name of the conversation that `source` belongs to, by this store's scope settings."""
        return build_session_key(source, scope=self._settings.scope, agent=agent or self._settings.agent)

    def get_session(self, session_id: str) -> Plan[SessionEntry]:
        """The session of that id, or `UnknownSession`."""
        return (yield from read(records.get_entry, session_id))

    def reset_session(self, key: str) -> Plan[SessionEntry | None]:
        """A fresh session for the conversation at once; origin and display data are carried over. `None`: unknown key."""
        now = self._settings.clock.now()
        return (yield from write(sessions.reset, to_instant(now), key, new_id=new_session_id(now)))

    def switch_session(self, key: str, session_id: str) -> Plan[SessionEntry | None]:
        """The conversation goes on with an earlier session, which counts as active now. `None`: unknown key.

        Raises `UnknownSession`, or `NotYours` for a session that is not this conversation's to see; then nothing changed.
        A session that another conversation holds is forked.
        """
        now = self._settings.clock.now()
        new_id, at = new_session_id(now), to_instant(now)
        return (yield from write(resume.switch, at, key, session_id, new_id=new_id))

    def list_sessions(
        self,
        active_minutes: float | None = None,
        *,
        include_ended: bool = False,
        person: Who = None,
        platform: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Plan[Page[SessionEntry]]:
        """A page of sessions, the most recently updated first; `page.cursor` asks for the next.

        `person` is a name such as `telegram:7`, or a source: then what its sender may see from there.
        """
        wanted = indexes.Listing(
            include_ended=include_ended,
            viewer=viewer_of(person),
            platform=platform,
            limit=limit,
            cursor=cursor,
        )
        if active_minutes is not None:
            since = minutes_before(self._settings.clock.now(), active_minutes)
            wanted = msgspec.structs.replace(wanted, active_since=since)
        return (yield from read(indexes.list_sessions, wanted))

    def has_any_sessions(self, besides: str | None = None) -> Plan[bool]:
        """Whether there ever were sessions other than `besides`, ended and pruned ones included."""
        return (yield from read(sessions.has_any, besides))

    def take_reset_notice(self, session_id: str, audience: sessions.Audience) -> Plan[sessions.ResetNotice | None]:
        """The notice that the conversation started afresh, for `"user"` or `"agent"`: once each, also across restarts."""
        return (yield from write(sessions.take_reset_notice, session_id, audience))

    def set_title(self, session_id: str, title: str | None) -> Plan[SessionEntry]:
        """Names a session for `/resume NAME`; `None` takes the name away."""
        return (yield from write(sessions.set_title, self._now(), session_id, clean_title(title)))

    def find_by_title(self, title: str, *, viewer: Who = None) -> Plan[SessionEntry | None]:
        """The most recently updated session of that name that the viewer may see; case and accents do not matter."""
        return (yield from read(sessions.find_by_title, title, viewer_of(viewer)))

    def set_runtime(
        self,
        session_id: str,
        *,
        model: str | None = None,
        cwd: str | None = None,
        runtime: dict[str, Any] | None = None,
    ) -> Plan[SessionEntry]:
        """Sets those of model, working directory and runtime that are given. Names that look like secrets are refused."""
        changes: dict[str, Any] = {}
        if model is not None:
            changes["model"] = clean_text("model", model)
        if cwd is not None:
            changes["cwd"] = clean_text("cwd", cwd, MAX_PATH_CHARS)
        if runtime is not None:
            changes["runtime"] = checked_runtime(runtime)
        return (yield from write(sessions.set_runtime, self._now(), session_id, changes))

    def mark_flushed(self, session_id: str) -> Plan[SessionEntry]:
        """Notes that the agent has been offered all of the session so far to remember. Touches no clock."""
        return (yield from write(sessions.mark_flushed, session_id))

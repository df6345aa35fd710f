"""`SessionStore` of the original API: a folder of sessions, kept in a store file of ours that lies in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from threadline.clock import SystemClock, to_instant
from threadline.compat import operations
from threadline.compat.config import GatewayConfig, SessionResetPolicy
from threadline.compat.session import SessionEntry, SessionSource, address_in, naive, spelled_key, stored_fields
from threadline.ids import new_session_id
from threadline.model.address import SessionScope
from threadline.model.message import Message, encode_message
from threadline.model.policy import SessionResetPolicy as CorePolicy
from threadline.model.session import ResetReason
from threadline.model.session import SessionEntry as CoreEntry
from threadline.store.conversations import adoptions, sessions
from threadline.store.conversations.sessions import ResolveRequest, Stale
from threadline.transfer.adopted_folder import AdoptedFolder
from threadline.transfer.adoption import NOWHERE, arrival_of, checked_id, now, with_role

_NEVER = CorePolicy()


class SessionStore(AdoptedFolder):
    """Sessions and transcripts of a folder. Blocking and thread-safe; what a call stored survives a power cut.

    An older folder (`sessions.json`, `*.jsonl`, `state.db`) is taken in and stays as it is; see `docs/howto/moving.md`.
    """

    def __init__(
        self,
        sessions_dir: str | Path,
        config: Any = None,
        has_active_processes_fn: Callable[[str], bool] | None = None,
        on_auto_reset: Callable[..., Any] | None = None,
    ) -> None:
        """`config` is asked at every call. A key for which `has_active_processes_fn` is true is not reset by itself."""
        self.sessions_dir = Path(sessions_dir)
        self.config = GatewayConfig() if config is None else config
        self._has_active_processes_fn = has_active_processes_fn
        if on_auto_reset is not None:
            warnings.warn("on_auto_reset is not called; look at entry.was_auto_reset", DeprecationWarning, stacklevel=2)
        super().__init__(self.sessions_dir, spelled_key)

    def get_or_create_session(self, source: SessionSource, force_new: bool = False) -> SessionEntry:
        """The current session of the source's key, touched; a new one where there is none, it is stale, or one is forced."""
        wanted = self._wanted(source, force_new=force_new)
        if not force_new:
            self.adopt_parent(wanted.address)
            wanted = self._with_staleness(wanted, source)
        entry = self.core.run_write(sessions.resolve, wanted)
        return SessionEntry.from_core(entry, self, was_reset_now=entry.session_id == wanted.new_id)

    def update_session(
        self, session_key: str, last_prompt_tokens: int | None = None, *, input_tokens: int = 0, output_tokens: int = 0
    ) -> None:
        """Touch the key's session, add tokens, and set the size of the last prompt where it is given."""
        counts = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self.core.update_session(session_key, turn_id=None, last_prompt_tokens=last_prompt_tokens, **counts)

    def reset_session(self, session_key: str) -> SessionEntry | None:
        """A fresh session for the key; `None` for an unknown one."""
        return self._entry(self.core.reset_session(session_key))

    def switch_session(self, session_key: str, target_session_id: str) -> SessionEntry | None:
        """The key goes on with that session, whose id stays; one never created is empty. `None` for an unknown key."""
        self.adoption.adopt_session(target_session_id)
        arrival = arrival_of(target_session_id, NOWHERE, now())
        return self._entry(self.core.run_write(adoptions.make_current, session_key, arrival))

    def list_sessions(self, active_minutes: int | None = None) -> list[SessionEntry]:
        """The current session of every key, the most recently updated first; of those used in the last minutes if given."""
        since = None if active_minutes is None else SystemClock().now() - timedelta(minutes=active_minutes)
        entries = self.core.read_pages(adoptions.list_current)
        recent = takewhile(lambda entry: since is None or entry.updated_at >= since, entries)
        return [SessionEntry.from_core(entry, self) for entry in recent]

    def has_any_sessions(self) -> bool:
        """Whether there was a session before the one that was just made: more than one, ended ones included."""
        return self.core.run_read(adoptions.count_sessions) > 1

    def append_to_transcript(self, session_id: str, message: Mapping[str, Any], skip_db: bool = False) -> None:
        """Append a message. With `skip_db`, unless the agent has stored the same one already and no call was for that yet."""
        encoded = encode_message(with_role(message))
        # Asked again: another process may delete the session between the two steps.
        while not self.core.run_write(operations.append, now(), checked_id(session_id), encoded, is_stored=skip_db):
            self._ensure(session_id)

    def rewrite_transcript(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Replace what the model sees, all or nothing."""
        plain = [with_role(message) for message in messages]
        for message in plain:
            encode_message(message)
        self._ensure(session_id)
        self.core.rewrite_transcript(session_id, plain)

    def load_transcript(self, session_id: str) -> list[Message]:
        """What the model sees, oldest first; nothing of an unknown session."""
        found = self.core.run_read(adoptions.load_adopted, checked_id(session_id))
        if found is None and self.adoption.adopt_session(session_id):
            found = self.core.run_read(adoptions.load_adopted, session_id)
        return found or []

    def get_transcript_path(self, session_id: str) -> Path:
        """The path of the session's transcript as JSONL, written anew; where an old file has that name, under `exports`."""
        return self.write_export(session_id, self.load_transcript(session_id))

    def write_through(self, entry: SessionEntry, name: str, value: Any) -> None:
        """Store an attribute that was set on an entry."""
        if name == "session_id":
            self.switch_session(entry.session_key, value)
        elif fields := stored_fields(name, value):
            self.core.run_write(adoptions.set_fields, entry.session_id, fields)

    def _save(self) -> None:
        """Nothing: whatever was set is stored. Callers of the original save after they set an attribute."""

    def _ensure_loaded(self) -> None:
        """Nothing: the store is opened at first use."""

    def _entry(self, entry: CoreEntry | None) -> SessionEntry | None:
        return None if entry is None else SessionEntry.from_core(entry, self)

    def _ensure(self, session_id: str) -> None:
        """Make sure that a session of that id is there, with its old transcript."""
        if not self.adoption.adopt_session(session_id):
            self.core.run_write(adoptions.get_or_create, arrival_of(session_id, NOWHERE, now()))

    def _wanted(self, source: SessionSource, *, force_new: bool = False) -> ResolveRequest:
        address = address_in(source, self._scope())
        moment = SystemClock().now()
        return ResolveRequest(
            source=source.to_core(),
            address=address,
            policy=_NEVER,
            zone="UTC",
            at=to_instant(moment),
            new_id=new_session_id(moment),
            force_new=force_new,
            key=spelled_key(address),
        )

    def _scope(self) -> SessionScope:
        per_user = bool(getattr(self.config, "group_sessions_per_user", True))
        return SessionScope(per_user, bool(getattr(self.config, "thread_sessions_per_user", False)))

    def _with_staleness(self, wanted: ResolveRequest, source: SessionSource) -> ResolveRequest:
        policy = self.config.get_reset_policy(platform=source.platform, session_type=source.chat_type)
        if getattr(policy, "mode", "both") == "none":
            return wanted
        current = self.core.run_read(adoptions.find_current, wanted)
        reason = None if current is None else _stale_reason(policy, current.entry)
        if current is None or reason is None:
            return wanted
        is_active = self._has_active_processes_fn
        if is_active is not None and is_active(current.entry.session_key):
            return wanted
        # Whether it had activity is told by its transcript.
        self.adoption.adopt_session(current.entry.session_id)
        entry = current.entry
        return msgspec.structs.replace(wanted, stale=Stale(entry.session_id, entry.updated_at, reason))


def _stale_reason(policy: Any, entry: CoreEntry) -> ResetReason | None:
    """Why a session is to be reset now, by the original's rules: idle goes before daily, both by this machine's clocks."""
    default = SessionResetPolicy()
    mode = getattr(policy, "mode", default.mode)
    at, updated_at = naive(SystemClock().now()), naive(entry.updated_at)
    idle_minutes = getattr(policy, "idle_minutes", default.idle_minutes)
    if mode in ("idle", "both") and at > updated_at + timedelta(minutes=idle_minutes):
        return "idle"
    today = at.replace(hour=getattr(policy, "at_hour", default.at_hour), minute=0, second=0, microsecond=0)
    last = today - timedelta(days=1) if at < today else today
    return "daily" if mode in ("daily", "both") and updated_at < last else None

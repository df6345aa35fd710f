"""`SessionManager` of the original API: an editor's sessions with a live agent each, kept in a `SessionDB`."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from threadline.clock import SystemClock
from threadline.compat.database import SessionDB
from threadline.ids import new_session_id
from threadline.log import get_logger
from threadline.model.client_sources import ACP, API_MODE, BASE_URL, PROVIDER

log = get_logger("compat")
# What is kept of an agent, and set on the one that goes on with its session.
_AGENT_SETTINGS = (PROVIDER, BASE_URL, API_MODE)


@dataclass
class SessionState:
    """A session that is open in this process, with the agent that answers in it."""

    session_id: str
    agent: Any
    cwd: str = "."
    model: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)
    cancel_event: threading.Event = field(default_factory=threading.Event)


class SessionManager:
    """Makes, finds, copies and removes sessions of editors. Blocking and thread-safe."""

    def __init__(self, agent_factory: Callable[[], Any] | None = None, db: SessionDB | None = None) -> None:
        """`agent_factory` is called without arguments for each session; without one a session has no agent."""
        self._factory = agent_factory
        self._db = SessionDB() if db is None else db
        self._open: dict[str, SessionState] = {}
        self._lock = threading.RLock()

    def create_session(self, cwd: str = ".") -> SessionState:
        """A new session that works in that folder; it is stored when this returns."""
        agent = self._make_agent({})
        return self._keep(SessionState(new_session_id(SystemClock().now()), agent, cwd, _model_of(agent)))

    def get_session(self, session_id: str) -> SessionState | None:
        """The session of that id, restored if it is not open here; `None` if no editor's has it, or no agent can be made."""
        with self._lock:
            return self._open.get(session_id) or self._restore(session_id)

    def fork_session(self, session_id: str, cwd: str = ".") -> SessionState | None:
        """A new session with a copy of the history, the model and the agent's settings of another; `None` for an unknown id."""
        original = self.get_session(session_id)
        if original is None:
            return None
        agent = self._make_agent(_settings_of(original.agent) | {"model": original.model})
        history = copy.deepcopy(original.history)
        state = SessionState(new_session_id(SystemClock().now()), agent, cwd, original.model, history)
        return self._keep(state, parent=session_id)

    def list_sessions(self) -> list[dict[str, Any]]:
        """All sessions of editors, the most recently used first: `session_id cwd model history_len` of each."""
        with self._lock:
            live = dict(self._open)
        rows = self._db.search_sessions(source=ACP, limit=1 << 30)
        return [_listed(row, live.get(row["id"])) for row in rows if row["ended_at"] is None]

    def update_cwd(self, session_id: str, cwd: str) -> SessionState | None:
        """The session works in that folder from now on; `None` for an unknown id."""
        state = self.get_session(session_id)
        if state is not None:
            state.cwd = cwd
            self._store(state)
        return state

    def save_session(self, session_id: str) -> None:
        """Store what has changed in the history, the model and the settings of an open session."""
        with self._lock:
            state = self._open.get(session_id)
        if state is not None:
            self._store(state)

    def remove_session(self, session_id: str) -> bool:
        """Delete the session of an editor; whether there was one."""
        with self._lock:
            was_open = self._open.pop(session_id, None) is not None
        row = self._db.get_session(session_id)
        return (row is not None and row["source"] == ACP and self._db.delete_session(session_id)) or was_open

    def cleanup(self) -> None:
        """Delete every session of editors in this database."""
        with self._lock:
            self._open.clear()
        for row in self._db.search_sessions(source=ACP, limit=1 << 30):
            self._db.delete_session(row["id"])

    def _keep(self, state: SessionState, parent: str | None = None) -> SessionState:
        self._store(state, parent)
        with self._lock:
            self._open[state.session_id] = state
        return state

    def _store(self, state: SessionState, parent: str | None = None) -> None:
        # A session that was deleted elsewhere while it is open here is made again: what is said in it must be kept.
        config = {"cwd": state.cwd} | _settings_of(state.agent)
        self._db.create_session(state.session_id, ACP, state.model or None, config, parent_session_id=parent)
        self._db.update_session_meta(state.session_id, json.dumps(config), state.model or None)
        self._db.replace_messages(state.session_id, state.history)

    def _restore(self, session_id: str) -> SessionState | None:
        row = self._db.get_session(session_id)
        if row is None or row["source"] != ACP:
            return None
        config = _config_of(row)
        try:
            agent = self._make_agent(config | {"model": row["model"]})
        except Exception as error:  # noqa: BLE001 - the factory is the caller's own
            log.warning("compat.agent_not_made", session_id=session_id, error=type(error).__name__)
            return None
        history = self._db.get_messages_as_conversation(session_id)
        cwd = config.get("cwd") or "."
        state = SessionState(session_id, agent, cwd, row["model"] or _model_of(agent), history)
        self._open[session_id] = state
        return state

    def _make_agent(self, settings: dict[str, Any]) -> Any:
        agent = None if self._factory is None else self._factory()
        for name in ("model", *_AGENT_SETTINGS):
            if settings.get(name) and hasattr(agent, name):
                setattr(agent, name, settings[name])
        return agent


def _model_of(agent: Any) -> str:
    model = getattr(agent, "model", "")
    return model if isinstance(model, str) else ""


def _settings_of(agent: Any) -> dict[str, str]:
    values = {name: getattr(agent, name, None) for name in _AGENT_SETTINGS}
    return {name: value for name, value in values.items() if isinstance(value, str) and value}


def _listed(row: dict[str, Any], live: SessionState | None) -> dict[str, Any]:
    if live is not None:
        cwd, model, count = live.cwd, live.model, len(live.history)
    else:
        cwd, model, count = _config_of(row).get("cwd") or ".", row["model"] or "", row["message_count"]
    return {"session_id": row["id"], "cwd": cwd, "model": model, "history_len": count}


def _config_of(row: dict[str, Any]) -> Any:
    return json.loads(row["model_config"] or "{}")

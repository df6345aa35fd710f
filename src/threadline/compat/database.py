"""`SessionDB` of the original API: sessions by id, as its editors and agents keep them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from threadline.errors import UnknownSession
from threadline.local_user import ensure_user_folder
from threadline.model.message import Message, encode_message
from threadline.model.session import CHOSEN_MODEL, SessionEntry, checked_runtime
from threadline.store.conversations import adoptions
from threadline.store.facade import OpenedAtFirstUse
from threadline.store.rows import json_text
from threadline.transfer.adoption import NOWHERE, arrival_of, checked_id, now, with_role


class SessionDB(OpenedAtFirstUse):
    """Sessions by id, in a file of ours; without a path `compat.db` in the data folder."""

    def __init__(self, db_path: str | Path | None = None) -> None:
        super().__init__(Path(db_path) if db_path is not None else ensure_user_folder() / "compat.db")
        self.db_path = self._path

    def create_session(
        self,
        session_id: str,
        source: str,
        model: str | None = None,
        model_config: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        parent_session_id: str | None = None,
    ) -> str:
        """Create a session and return its id; where there is one of that id, nothing is changed."""
        runtime = dict(model_config or {})
        if system_prompt is not None:
            runtime["system_prompt"] = system_prompt
        start = {
            "model": model,
            "cwd": _text(runtime.get("cwd")),
            "runtime": json_text(checked_runtime(runtime)),
            "parent_session_id": parent_session_id,
        }
        arrival = arrival_of(session_id, source, now(), user_id=user_id, start=start)
        self.core.run_write(adoptions.create_once, arrival)
        return session_id

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """The session as a row of the original, or `None`."""
        entry = self.core.run_read(adoptions.find_entry, checked_id(session_id))
        return None if entry is None else _row(entry)

    def append_message(
        self,
        session_id: str,
        role: str,
        content: Any = None,
        tool_name: str | None = None,
        tool_calls: Any = None,
        tool_call_id: str | None = None,
        **more: Any,
    ) -> int:
        """Append a message and return its place in the session, counted from 1. What is `None` is left out, but for the content."""
        given = {"tool_name": tool_name, "tool_calls": tool_calls, "tool_call_id": tool_call_id} | more
        message = {"role": role, "content": content} | {k: v for k, v in given.items() if v is not None}
        encoded = [encode_message(with_role(message))]
        return self.core.run_write(adoptions.append_or_create, arrival_of(session_id, NOWHERE, now()), encoded)

    def get_messages_as_conversation(self, session_id: str, **_: Any) -> list[Message]:
        """The messages that the model sees; none of an unknown session."""
        return self.core.run_read(adoptions.load_adopted, checked_id(session_id)) or []

    def replace_messages(self, session_id: str, messages: Sequence[Message], **_: Any) -> None:
        """Replace what the model sees; only what differs is written. An unknown session is created."""
        self.core.run_write(adoptions.get_or_create, arrival_of(session_id, NOWHERE, now()))
        self.core.rewrite_transcript(session_id, [with_role(message) for message in messages])

    def clear_messages(self, session_id: str) -> None:
        """Remove all messages from what the model sees."""
        if self.get_session(session_id) is not None:
            self.replace_messages(session_id, [])

    def update_session_meta(self, session_id: str, model_config_json: str, model: str | None = None) -> None:
        """Replace the configuration that is kept with a session, and its model where one is given."""
        runtime = json.loads(model_config_json)
        cwd = _text(runtime.get("cwd"))
        self.core.set_runtime(checked_id(session_id), model=model, cwd=cwd, runtime=runtime)

    def search_sessions(self, source: str | None = None, limit: int = 20, offset: int = 0) -> list[dict[str, Any]]:
        """Sessions as rows, the most recently used first, ended ones included."""
        entries = self.core.read_pages(adoptions.list_entries, source)
        return [_row(entry) for entry in islice(entries, offset, offset + limit)]

    def session_count(self, source: str | None = None) -> int:
        """How many sessions there are, of one source or of all."""
        if source is None:
            return self.core.run_read(adoptions.count_sessions)
        return sum(1 for _ in self.core.read_pages(adoptions.list_entries, source))

    def end_session(self, session_id: str, end_reason: str) -> None:
        """End a session; one that has ended keeps its reason, and an unknown one is passed over."""
        self.core.run_write(adoptions.end, now(), checked_id(session_id), end_reason)

    def delete_session(self, session_id: str) -> bool:
        """Delete a session with its messages; whether there was one."""
        try:
            self.core.delete_session(checked_id(session_id))
        except UnknownSession:
            return False
        return True


def _row(entry: SessionEntry) -> dict[str, Any]:
    config = {name: value for name, value in entry.runtime.items() if name not in ("system_prompt", CHOSEN_MODEL)}
    return {
        "id": entry.session_id,
        "source": entry.platform,
        "user_id": entry.origin.user_id,
        "model": entry.chosen_model or entry.model,
        "model_config": json.dumps(config | ({"cwd": entry.cwd} if entry.cwd else {})) if config or entry.cwd else None,
        "system_prompt": entry.runtime.get("system_prompt"),
        "parent_session_id": entry.parent_session_id,
        "title": entry.title,
        "started_at": entry.created_at.timestamp(),
        "last_active": entry.updated_at.timestamp(),
        "ended_at": entry.ended_at.timestamp() if entry.ended_at else None,
        "end_reason": entry.end_reason,
        "message_count": entry.message_count,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

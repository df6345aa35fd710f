"""Sources and messages for the tests of the original API."""

from __future__ import annotations

from typing import Any

from threadline.compat import Platform, SessionSource, SessionStore


def dm(chat: str = "7", **fields: Any) -> SessionSource:
    """A direct message on Telegram."""
    return SessionSource(Platform.TELEGRAM, chat, user_id=chat, user_name=fields.pop("user_name", "Ada"), **fields)


def group(chat: str = "-5", user: str | None = "7", **fields: Any) -> SessionSource:
    """A message in a group on Telegram."""
    return SessionSource(Platform.TELEGRAM, chat, "Garden", "group", user, fields.pop("user_name", "Ada"), **fields)


def user(text: str, **more: Any) -> dict[str, Any]:
    """A message of a user."""
    return {"role": "user", "content": text} | more


def assistant(text: str, **more: Any) -> dict[str, Any]:
    """A message of the agent."""
    return {"role": "assistant", "content": text} | more


def texts(store: SessionStore, session_id: str) -> list[Any]:
    """What the messages of a session say."""
    return [message["content"] for message in store.load_transcript(session_id)]


def current(store: SessionStore) -> dict[str, str]:
    """The id of the current session of each listed key."""
    return {entry.session_key: entry.session_id for entry in store.list_sessions()}

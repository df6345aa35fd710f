"""What the agent is told of a conversation, from the configuration of the original API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threadline import build_session_context_prompt as core_prompt
from threadline.compat.config import HomeChannel, Platform
from threadline.compat.session import SessionEntry, SessionSource
from threadline.model import context as core


@dataclass
class SessionContext:
    """Where a conversation takes place, and what can be reached from it."""

    source: SessionSource
    connected_platforms: list[Platform]
    home_channels: dict[Platform, HomeChannel]
    session_key: str = ""
    session_id: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    shared_multi_user_session: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, times as ISO text."""
        return {
            "source": self.source.to_dict(),
            "connected_platforms": [Platform(platform).value for platform in self.connected_platforms],
            "home_channels": {Platform(name).value: home.to_dict() for name, home in self.home_channels.items()},
            "session_key": self.session_key,
            "session_id": self.session_id,
            "created_at": self.created_at.isoformat() if self.created_at else None,
            "updated_at": self.updated_at.isoformat() if self.updated_at else None,
        }


def build_session_context(
    source: SessionSource, config: Any, session_entry: SessionEntry | None = None
) -> SessionContext:
    """The context of a message from `source`, with the home channels of connected platforms."""
    connected = list(config.get_connected_platforms())
    homes = {platform: home for platform in connected if (home := config.get_home_channel(platform)) is not None}
    context = SessionContext(source, connected, homes, shared_multi_user_session=_is_shared(source, config))
    if session_entry is not None:
        context.session_key, context.session_id = session_entry.session_key, session_entry.session_id
        context.created_at, context.updated_at = session_entry.created_at, session_entry.updated_at
    return context


def build_session_context_prompt(context: SessionContext, *, redact_pii: bool = False) -> str:
    """What the agent is told of its conversation. The sentences are ours, the facts are the original's."""
    homes = [
        core.HomeChannel(Platform(name).value, str(home.chat_id), home.name)
        for name, home in context.home_channels.items()
    ]
    platforms = tuple(Platform(platform).value for platform in context.connected_platforms)
    shared = context.shared_multi_user_session
    shared = _is_shared(context.source) if shared is None else shared
    ours = core.SessionContext(context.source.to_core(), platforms, tuple(homes), shared=shared)
    return core_prompt(ours, redact_pii=redact_pii)


def _is_shared(source: SessionSource, config: Any = None) -> bool:
    """Whether several people speak in one session, by the settings alone: a member without an id is still one person."""
    if source.chat_type == "dm":
        return False
    per_user = getattr(config, "group_sessions_per_user", True)
    return not (per_user and (getattr(config, "thread_sessions_per_user", False) if source.thread_id else True))

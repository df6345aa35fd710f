"""Names the conversations of editors and of the web page, and tells which people sit at this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from threadline.model.context import LOCAL
from threadline.model.delivery import Target
from threadline.model.source import SessionSource

ACP: Final = "acp"
WEB: Final = "web"
# Only the user of this machine who runs our program can write there.
LOCAL_PLATFORMS: Final = (LOCAL, ACP)
# Keys of `runtime` for an editor's session, beside the chosen model.
MODE: Final = "mode"
OPTIONS: Final = "options"
PROVIDER: Final = "provider"
BASE_URL: Final = "base_url"
API_MODE: Final = "api_mode"
# The page creates these ids. They hold no dot, so a chat id can be split in one way only.
CONVERSATION: Final = "[A-Za-z0-9_-]{8,64}"

_CHAT = re.compile(rf"([a-z0-9]+)\.({CONVERSATION})")
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# The editor shows these settings, so another session that continues here must not change them.
_KEPT_SETTINGS = (MODE, OPTIONS)


def editor_source(session_id: str, user: str) -> SessionSource:
    """Return the source of a message that `user` writes in this session of an editor."""
    return SessionSource(platform=ACP, chat_id=session_id, user_id=user, user_name=user)


def is_editor_session(session_id: object) -> bool:
    """Return whether this is a valid editor session id: up to 64 letters, digits, `.`, `_`, `-`; a letter or digit first."""
    return isinstance(session_id, str) and _SAFE_ID.fullmatch(session_id) is not None


def merge_runtime(here: Mapping[str, Any], coming: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runtime of a session that continues in an editor where another one ran with `here`.

    The session keeps its own settings, apart from mode and options: those stay as the editor shows them.
    """
    own = {name: value for name, value in coming.items() if name not in _KEPT_SETTINGS}
    return own | {name: here[name] for name in _KEPT_SETTINGS if name in here}


def is_local_person(person: str) -> bool:
    """Return whether a person writes from a terminal or editor on this machine. Such people are owners."""
    platform, colon, _ = person.partition(":")
    return bool(colon) and platform in LOCAL_PLATFORMS


def web_chat_id(user_id: str, conversation: str) -> str:
    """Return the chat id of a person's conversation. It starts with the user id, so nobody can address another person's chat."""
    return f"{user_id}.{conversation}"


def web_source(user_id: str, conversation: str, name: str | None = None) -> SessionSource:
    """Return the source of a person's message in a conversation of the page."""
    return SessionSource(
        platform=WEB, chat_id=web_chat_id(user_id, conversation), user_id=user_id, user_name=name or None
    )


def web_target(user_id: str, conversation: str) -> Target:
    """Return the delivery target of a conversation of the page."""
    return Target(platform=WEB, chat_id=web_chat_id(user_id, conversation))


def parse_web_chat_id(chat_id: str | None) -> tuple[str, str] | None:
    """Return the user id and the conversation of a chat id, or None if it is not one of the page's."""
    found = _CHAT.fullmatch(chat_id or "")
    return None if found is None else (found[1], found[2])

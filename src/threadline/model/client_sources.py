"""Conversations in an editor: how the gateway names them, and what stays with the place when another session goes on in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from threadline.model.context import LOCAL
from threadline.model.delivery import Target
from threadline.model.source import SessionSource

ACP: Final = "acp"
# Nobody gets there who does not run our program on this machine, as its user.
LOCAL_PLATFORMS: Final = (LOCAL, ACP)
# What `runtime` keeps of an editor's conversation, besides the model that was chosen.
MODE: Final = "mode"
OPTIONS: Final = "options"
PROVIDER: Final = "provider"
BASE_URL: Final = "base_url"
API_MODE: Final = "api_mode"

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# The editor shows these beside the conversation: what comes from elsewhere does not change them behind its back.
_OF_THE_PLACE = (MODE, OPTIONS)


def editor_source(session_id: str, user: str) -> SessionSource:
    """Where a message comes from that somebody writes in that session of an editor."""
    return SessionSource(platform=ACP, chat_id=session_id, user_id=user, user_name=user)


def is_editor_session(session_id: object) -> bool:
    """Whether this can name a session of an editor: at most 64 letters, digits, `.`, `_` and `-`, a letter or digit first."""
    return isinstance(session_id, str) and _SAFE_ID.fullmatch(session_id) is not None


def merge_runtime(here: Mapping[str, Any], coming: Mapping[str, Any]) -> dict[str, Any]:
    """What a session runs with that goes on at an editor's place, where another ran with `here`: its own, in the place's mode."""
    own = {name: value for name, value in coming.items() if name not in _OF_THE_PLACE}
    return own | {name: here[name] for name in _OF_THE_PLACE if name in here}


def is_local_person(person: str) -> bool:
    """Whether somebody of that name sits at the machine itself, at its terminal or in an editor there: such people are owners."""
    platform, colon, _ = person.partition(":")
    return bool(colon) and platform in LOCAL_PLATFORMS


WEB: Final = "web"
# Made by the page. Without a dot, so that nobody's conversation can be spelled like another's.
CONVERSATION: Final = "[A-Za-z0-9_-]{8,64}"
_CHAT = re.compile(rf"([a-z0-9]+)\.({CONVERSATION})")


def web_chat_id(user_id: str, conversation: str) -> str:
    """The chat id of a person's conversation. It begins with whose it is: nobody can name a chat of somebody else's."""
    return f"{user_id}.{conversation}"


def web_source(user_id: str, conversation: str, name: str | None = None) -> SessionSource:
    """Where a message of that person in that conversation comes from."""
    return SessionSource(
        platform=WEB, chat_id=web_chat_id(user_id, conversation), user_id=user_id, user_name=name or None
    )


def web_target(user_id: str, conversation: str) -> Target:
    """Where an answer in that conversation goes."""
    return Target(platform=WEB, chat_id=web_chat_id(user_id, conversation))


def parse_web_chat_id(chat_id: str | None) -> tuple[str, str] | None:
    """Whose conversation a chat id names, and which; `None` for one that names none."""
    found = _CHAT.fullmatch(chat_id or "")
    return None if found is None else (found[1], found[2])

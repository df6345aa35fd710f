"""Conversations of the web page: how the gateway names them, and whose they are."""

from __future__ import annotations

import re
from typing import Final

from threadline.model.delivery import Target
from threadline.model.source import SessionSource

WEB: Final = "web"
# Made by the page. Without a dot, so that nobody's conversation can be spelled like another's.
CONVERSATION: Final = "[A-Za-z0-9_-]{8,64}"
_CHAT = re.compile(rf"([a-z0-9]+)\.({CONVERSATION})")


def chat_of(user_id: str, conversation: str) -> str:
    """The chat id of a person's conversation. It begins with whose it is: nobody can name a chat of somebody else's."""
    return f"{user_id}.{conversation}"


def web_source(user_id: str, conversation: str, name: str | None = None) -> SessionSource:
    """Where a message of that person in that conversation comes from."""
    return SessionSource(platform=WEB, chat_id=chat_of(user_id, conversation), user_id=user_id, user_name=name or None)


def web_target(user_id: str, conversation: str) -> Target:
    """Where an answer in that conversation goes."""
    return Target(platform=WEB, chat_id=chat_of(user_id, conversation))


def read_chat(chat_id: str | None) -> tuple[str, str] | None:
    """Whose conversation a chat id names, and which; `None` for one that names none."""
    found = _CHAT.fullmatch(chat_id or "")
    return None if found is None else (found[1], found[2])

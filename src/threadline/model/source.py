"""The source of a message: platform, account, chat, thread and sender."""

from __future__ import annotations

import re
from typing import Any, Literal, Self, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from threadline.errors import InvalidSource

ChatType: TypeAlias = Literal["dm", "group", "channel", "thread"]
CHAT_TYPES: frozenset[str] = frozenset(get_args(ChatType))
MAIN_ACCOUNT = "main"

_SLUG = re.compile(r"[a-z][a-z0-9_-]*")
_ID_FIELDS = ("chat_id", "thread_id", "user_id", "user_id_alt", "chat_id_alt")
_TEXT_FIELDS = ("chat_name", "chat_topic", "user_name", "user_handle")
_BASE_FIELDS = (
    "platform",
    "account",
    "chat_id",
    "chat_name",
    "chat_type",
    "user_id",
    "user_name",
    "thread_id",
    "chat_topic",
)
_EXTRA_FIELDS = ("user_id_alt", "chat_id_alt", "user_handle")


class SessionSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place and one sender on one platform.

    Two messages of one person in one chat have equal sources. Ids are text; numbers are turned into text.
    `user_handle` can pass to another person, so it is shown and searched, but is never part of a key or a
    permission.
    """

    platform: str
    account: str = MAIN_ACCOUNT
    chat_id: str | None = None
    chat_type: ChatType = "dm"
    thread_id: str | None = None
    chat_name: str | None = None
    chat_topic: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    user_handle: str | None = None

    def __post_init__(self) -> None:
        for field in _ID_FIELDS:
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                force_setattr(self, field, _id_text(field, value))
        if not is_platform_slug(self.platform):
            raise InvalidSource(
                f"{self.platform!r} is no platform: use a slug of lower-case letters, digits, '-' and '_'"
            )
        if not isinstance(self.chat_type, str) or self.chat_type not in CHAT_TYPES:
            raise InvalidSource(f"{self.chat_type!r} is no chat type: use one of {', '.join(sorted(CHAT_TYPES))}")
        if not isinstance(self.account, str) or not self.account:
            raise InvalidSource("an account needs a name; leave it out for the main one")

    @classmethod
    def local_cli(cls) -> Self:
        """Return the source of the terminal of this machine."""
        return cls(platform="local", chat_id="cli", chat_name="CLI terminal")

    @property
    def sender(self) -> str | None:
        """Return the id of the sender. A second id that the platform never re-assigns is preferred."""
        return self.user_id_alt or self.user_id or None

    @property
    def description(self) -> str:
        """Return a readable description of the chat. Ids replace missing names."""
        base = _describe(self)
        return f"{base}, thread: {self.thread_id}" if self.thread_id else base

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, from which `from_dict` makes an equal source. Unknown second ids and handles are left out."""
        return {name: getattr(self, name) for name in _BASE_FIELDS} | {
            name: value for name in _EXTRA_FIELDS if (value := getattr(self, name)) is not None
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Return the source that `to_dict` wrote. Ignores unknown keys. Raises `InvalidSource` for other input."""
        known = {name: raw[name] for name in cls.__struct_fields__ if raw.get(name) is not None}
        if "platform" not in known:
            raise InvalidSource("a source needs a platform")
        for name in _TEXT_FIELDS:
            if not isinstance(known.get(name, ""), str):
                raise InvalidSource(f"{name} must be text, not {type(known[name]).__name__}")
        return cls(**known)


def is_platform_slug(text: object) -> bool:
    """Return whether `text` is a valid platform name: a slug. The list of platforms is open."""
    return isinstance(text, str) and _SLUG.fullmatch(text) is not None


def _id_text(field: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InvalidSource(f"{field} must be text or a whole number, not {type(value).__name__}")


def _describe(source: SessionSource) -> str:
    if source.platform == "local":
        return "CLI terminal"
    if source.chat_type == "dm":
        who = source.user_name or source.sender or source.chat_name or source.chat_id
        return f"DM with {who or 'user'}"
    name = source.chat_name or source.chat_id or "unnamed"
    return f"{source.chat_type}: {name}" if source.chat_type in ("group", "channel") else name

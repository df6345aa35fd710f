"""Sources, keys and entries of the original API: naive local times, positional fields, attributes that write through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from threadline.compat.config import Platform
from threadline.model import source as core
from threadline.model.address import SessionAddress, SessionScope, address_of
from threadline.model.session import SessionEntry as CoreEntry
from threadline.model.usage import COST_STATUSES

if TYPE_CHECKING:
    from threadline.compat.store import SessionStore

_ALWAYS = ("chat_id", "chat_name", "chat_type", "user_id", "user_name", "thread_id", "chat_topic")
_ALTERNATIVE = ("user_id_alt", "chat_id_alt")
_ALL = _ALWAYS + _ALTERNATIVE
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "last_prompt_tokens")
_TEXTS = ("session_key", "session_id", "display_name", "chat_type", "cost_status", "memory_flushed")
_SAME = (*_TEXTS, *_TOKENS, "total_tokens", "estimated_cost_usd")
_OF_RESET = ("was_auto_reset", "auto_reset_reason", "reset_had_activity")
# What is kept of an entry: to set one of these on an entry of a store writes it there.
WRITTEN_THROUGH = {*_TEXTS[1:], *_TOKENS, "created_at", "updated_at", "origin", "estimated_cost_usd"} - {"chat_type"}


@dataclass
class SessionSource:
    """Where a message comes from. Any chat type is accepted."""

    platform: Platform
    chat_id: str
    chat_name: str | None = None
    chat_type: str = "dm"
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None

    def __post_init__(self) -> None:
        self.platform = Platform(self.platform)

    @property
    def description(self) -> str:
        """What a person would call this place; ids stand in for missing names."""
        return self.to_core().description

    def to_core(self) -> core.SessionSource:
        """The source in our own terms: a chat type that we do not have counts as a thread."""
        kind = self.chat_type if self.chat_type in core.CHAT_TYPES else "thread"
        values = {name: getattr(self, name) for name in _ALL}
        return core.SessionSource(platform=self.platform.value, **values | {"chat_type": kind})

    @classmethod
    def from_core(cls, source: core.SessionSource, chat_type: str) -> SessionSource | None:
        """The source that `to_core` was made of; `None` for a platform that the original does not have."""
        values = {name: getattr(source, name) for name in _ALL} | {"chat_type": chat_type}
        return cls(platform=Platform(source.platform), **values) if _is_known(source.platform) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` gives an equal source. Alternative ids that are not set are left out."""
        plain: dict[str, Any] = {"platform": self.platform.value}
        plain |= {name: getattr(self, name) for name in _ALWAYS}
        return plain | {name: value for name in _ALTERNATIVE if (value := getattr(self, name))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionSource:
        """The source of a dictionary. An unknown platform is a `ValueError`, a missing one a `KeyError`."""
        values: dict[str, Any] = {name: data.get(name) for name in _ALL}
        chat_id = data["chat_id"]
        values |= {"chat_id": None if chat_id is None else str(chat_id), "chat_type": data.get("chat_type") or "dm"}
        return cls(platform=Platform(data["platform"]), **values)

    @classmethod
    def local_cli(cls) -> SessionSource:
        """The terminal of this machine."""
        return cls(Platform.LOCAL, "cli", "CLI terminal")


def build_session_key(
    source: SessionSource, group_sessions_per_user: bool = True, thread_sessions_per_user: bool = False
) -> str:
    """The key of the conversation that `source` belongs to, spelled as the original spells it: nothing is escaped."""
    return spelled_key(address_in(source, SessionScope(group_sessions_per_user, thread_sessions_per_user)))


def spelled_key(address: SessionAddress) -> str:
    """The key of an address as the original spells it."""
    own = (address.sender, address.thread) if address.chat_type == "dm" else (address.thread, address.sender)
    parts = ("agent", "main", address.platform, address.chat_type, address.chat, *own)
    return ":".join(str(part) for part in parts if part is not None)


def address_in(source: SessionSource, scope: SessionScope) -> SessionAddress:
    """The address that `source` leads to, with the chat type that it names."""
    return msgspec.structs.replace(address_of(source.to_core(), scope), chat_type=source.chat_type)


@dataclass
class SessionEntry:
    """A session of a key. To set an attribute of one that a store returned writes it into the store."""

    session_key: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    origin: SessionSource | None = None
    display_name: str | None = None
    platform: Platform | None = None
    chat_type: str = "dm"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    estimated_cost_usd: float = 0.0
    cost_status: str = "unknown"
    last_prompt_tokens: int = 0
    was_auto_reset: bool = False
    auto_reset_reason: str | None = None
    reset_had_activity: bool = False
    memory_flushed: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        store: SessionStore | None = self.__dict__.get("_store")
        if store is not None and name in WRITTEN_THROUGH:
            store.write_through(self, name, value)
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """The values alone: to set an attribute of a copy writes nowhere."""
        return {name: value for name, value in vars(self).items() if name != "_store"}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, times as ISO text; `from_dict` gives an equal entry."""
        plain = self.__getstate__()
        plain |= {"created_at": self.created_at.isoformat(), "updated_at": self.updated_at.isoformat()}
        plain["platform"] = self.platform.value if self.platform else None
        plain["origin"] = self.origin.to_dict() if self.origin else None
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionEntry:
        """The entry of a dictionary of any revision. An unknown platform, and an origin there, gives `None`."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if data.get(name) is not None}
        for name in ("created_at", "updated_at"):
            known[name] = naive(datetime.fromisoformat(data[name]))
        known["memory_flushed"] = bool(known.get("memory_flushed") or data.get("expiry_finalized"))
        known["platform"] = Platform(known["platform"]) if _is_known(known.get("platform")) else None
        origin = data.get("origin")
        is_known = isinstance(origin, Mapping) and _is_known(origin.get("platform")) and "chat_id" in origin
        known["origin"] = SessionSource.from_dict(origin) if is_known and origin is not None else None
        return cls(**{"session_key": data["session_key"], "session_id": data["session_id"]} | known)

    @classmethod
    def from_core(cls, entry: CoreEntry, store: SessionStore, *, was_reset_now: bool = False) -> SessionEntry:
        """The entry of a session of ours. Only the call that reset it tells so."""
        names = (*_SAME, *_OF_RESET) if was_reset_now else _SAME
        made = cls(
            created_at=naive(entry.created_at),
            updated_at=naive(entry.updated_at),
            origin=SessionSource.from_core(entry.origin, entry.chat_type),
            platform=Platform(entry.platform) if _is_known(entry.platform) else None,
            **{name: getattr(entry, name) for name in names},
        )
        object.__setattr__(made, "_store", store)
        return made


def stored_fields(name: str, value: Any) -> dict[str, Any]:
    """An attribute of an entry as our store keeps it; none for what it does not keep."""
    if name in ("created_at", "updated_at"):
        return {name: value.astimezone(UTC)}
    if name == "estimated_cost_usd":
        return {"cost_micros": round(value * 1_000_000)}
    if name == "cost_status" and value not in COST_STATUSES:
        return {name: "unknown"}
    if name == "origin":
        return {} if value is None else {name: value.to_core()}
    return {name: value} if name in WRITTEN_THROUGH else {}


def naive(moment: datetime) -> datetime:
    """A time as the clocks of this machine show it."""
    return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)


def _is_known(platform: object) -> bool:
    return isinstance(platform, str) and platform in frozenset(Platform)

"""The public view of one session, and the check of its `runtime` settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import unquote

import msgspec

from threadline.errors import InvalidMessage, InvalidRequest
from threadline.model.message import require_json
from threadline.model.source import CHAT_TYPES, SessionSource, is_platform_slug
from threadline.model.usage import COST_STATUSES, CostStatus, dollars_of

ResetReason: TypeAlias = Literal["idle", "daily"]

# Key of `runtime` for the model that a person chose. The model that a turn reports never overwrites it.
CHOSEN_MODEL = "model"

# Everyone who can read the database can read `runtime`: it may refer to credentials, never hold them.
_SECRET_WORDS = (
    "secret",
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
)
_SEPARATORS = re.compile(r"[^a-z0-9]+")


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of one session. Times are aware and in UTC.

    `updated_at` moves with any change and orders lists. `active_at` moves only when people or turns are active, and
    resets depend on it. `model` gave the last answer, `chosen_model` will give the next one.
    """

    session_key: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    active_at: datetime
    origin: SessionSource
    platform: str
    chat_type: str
    display_name: str | None = None
    title: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    last_prompt_tokens: int = 0
    cost_micros: int = 0
    cost_status: CostStatus = "unknown"
    was_auto_reset: bool = False
    auto_reset_reason: ResetReason | None = None
    reset_had_activity: bool = False
    memory_flushed: bool = False
    model: str | None = None
    cwd: str | None = None
    runtime: dict[str, Any] = msgspec.field(default_factory=dict)
    parent_session_id: str | None = None
    ended_at: datetime | None = None
    end_reason: str | None = None
    message_count: int = 0
    owner: str | None = None
    is_shared: bool = False

    @property
    def chosen_model(self) -> str | None:
        """Return the model that a person chose for this session; None: the agent's own. It is stored in `runtime` as `model`."""
        chosen = self.runtime.get(CHOSEN_MODEL)
        return chosen if isinstance(chosen, str) and chosen else None

    @property
    def label(self) -> str:
        """Return a name for lists: the title, else the working folder, else a description of the chat."""
        return self.title or self.cwd or self.origin.description

    @property
    def total_tokens(self) -> int:
        """Return the sum of input, cache reads, cache writes and output."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens

    @property
    def estimated_cost_usd(self) -> float:
        """Return the cost in dollars. `cost_micros` holds the exact sum."""
        return dollars_of(self.cost_micros)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, from which `from_dict` makes an equal entry."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["origin"] = self.origin.to_dict()
        return plain | {"total_tokens": self.total_tokens, "estimated_cost_usd": self.estimated_cost_usd}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Return the entry that this or an older version of `to_dict` wrote. Raises `InvalidRequest` for other input.

        `session_key`, `session_id`, `created_at` and `updated_at` are required. Unknown keys are ignored. Missing or invalid
        numbers become 0, naive times are local times of this machine, and an invalid platform becomes `unknown`. A missing
        origin is derived from platform, chat type and key.
        """
        known = {name: raw[name] for name in cls.__struct_fields__ if raw.get(name) is not None}
        if missing := [name for name in _REQUIRED if name not in known]:
            raise InvalidRequest(f"this is no session: {', '.join(missing)} is missing")
        for name in _NUMBERS & known.keys():
            if not isinstance(known[name], int) or isinstance(known[name], bool):
                del known[name]
        status = known.get("cost_status")
        if not isinstance(status, str) or status not in COST_STATUSES:
            known.pop("cost_status", None)
        known |= {name: _utc(known[name]) for name in _TIMES & known.keys()}
        known.setdefault("active_at", known["updated_at"])
        known |= _place_of(known)
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as cause:
            raise InvalidRequest(f"this is no session: {cause}") from cause


_NUMBERS = frozenset(name for name, kind in SessionEntry.__annotations__.items() if kind == "int")
_TIMES = frozenset(name for name, kind in SessionEntry.__annotations__.items() if kind.startswith("datetime"))
_REQUIRED = ("session_key", "session_id", "created_at", "updated_at")
_UNKNOWN_PLATFORM = "unknown"


def _utc(written: Any) -> datetime:
    """Return the time in UTC. A time without a zone is a local time of this machine."""
    try:
        moment = written if isinstance(written, datetime) else datetime.fromisoformat(written)
        return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError) as cause:
        raise InvalidRequest(f"this is no session: {str(written)[:80]!r} is no time") from cause


def _place_of(known: dict[str, Any]) -> dict[str, Any]:
    """Return origin, platform and chat type of an entry. A missing one is derived from the others, or from the key."""
    named, origin = known.get("platform"), known.get("origin")
    chat_type = known.get("chat_type") if isinstance(known.get("chat_type"), str) else None
    if origin is None:
        _, _, account, in_key, *_ = [*str(known["session_key"]).split(":"), *[""] * 4]
        told = chat_type if chat_type in CHAT_TYPES else in_key
        origin = {
            "platform": named or account.partition("@")[0],
            "account": unquote(account.partition("@")[2]) or None,
            "chat_type": told if told in CHAT_TYPES else None,
        }
    if not isinstance(origin, dict):
        raise InvalidRequest(f"this is no session: its origin is {type(origin).__name__}, not an object")
    source = SessionSource.from_dict(origin | {"platform": _platform(origin.get("platform") or named)})
    return {
        "origin": source,
        "platform": source.platform if named is None else _platform(named),
        "chat_type": chat_type or source.chat_type,
    }


def _platform(name: object) -> object:
    return name if is_platform_slug(name) else _UNKNOWN_PLATFORM


def checked_runtime(runtime: dict[str, Any]) -> dict[str, Any]:
    """Return `runtime`. Raises `InvalidRequest` if it is no JSON, or if a name in it looks like a secret.

    Names are checked at any depth. A number of tokens (`max_tokens`) is no secret.
    """
    if not isinstance(runtime, dict):
        raise InvalidRequest(f"runtime is an object of names and values, not {type(runtime).__name__}")
    try:
        require_json(runtime)
    except InvalidMessage as cause:
        raise InvalidRequest(f"runtime can't be kept: {cause}") from cause
    _refuse_secrets(runtime)
    return runtime


def _refuse_secrets(value: object) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if _is_secret(str(name), inner):
                raise InvalidRequest(
                    f"runtime[{name!r}] looks like a secret; keep it in the environment and refer to it by name"
                )
            _refuse_secrets(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _refuse_secrets(inner)


def _is_secret(name: str, value: object) -> bool:
    bare = _SEPARATORS.sub("", name.lower())
    if bare.endswith("tokens") and isinstance(value, (int, float)):
        return False
    return any(word in bare for word in _SECRET_WORDS)

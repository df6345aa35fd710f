"""One conversation, as its callers see it."""

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

# Where `runtime` keeps the model that somebody chose. What a turn reports never overwrites it.
CHOSEN_MODEL = "model"

# Whoever can read the database can read `runtime`: credentials are referred to, never kept.
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

    `updated_at` moves with any change and drives listings; `active_at` moves only when people or turns are
    active and drives resets. `model` is the one that answered last, `chosen_model` the one that is to answer.
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
        """The model that somebody chose for this session; `None`: the agent's own. It stands in `runtime`, as `model`."""
        chosen = self.runtime.get(CHOSEN_MODEL)
        return chosen if isinstance(chosen, str) and chosen else None

    @property
    def label(self) -> str:
        """What to call it in a list: its title, else the folder that it works in, else the place where it is held."""
        return self.title or self.cwd or self.origin.description

    @property
    def total_tokens(self) -> int:
        """Input, both kinds of cache traffic, and output."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens

    @property
    def estimated_cost_usd(self) -> float:
        """Dollars; exact sums are in `cost_micros`."""
        return dollars_of(self.cost_micros)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` gives an equal entry."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["origin"] = self.origin.to_dict()
        return plain | {"total_tokens": self.total_tokens, "estimated_cost_usd": self.estimated_cost_usd}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """The entry that `to_dict` gave, now or in an older version; what can't be one is `InvalidRequest`.

        `session_key`, `session_id`, `created_at` and `updated_at` are required. Unknown keys pass, missing or broken numbers are 0,
        naive times are local ones of this machine, a platform that is no slug is `unknown`, and a missing origin is the place
        that platform, chat type and key tell of.
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
    """The time in UTC; one without a zone is this machine's local time."""
    try:
        moment = written if isinstance(written, datetime) else datetime.fromisoformat(written)
        return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError) as cause:
        raise InvalidRequest(f"this is no session: {str(written)[:80]!r} is no time") from cause


def _place_of(known: dict[str, Any]) -> dict[str, Any]:
    """Origin, platform and chat type of an entry; each tells what another leaves open, and the key what all of them do."""
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
    """`runtime` as it is, unless JSON can't keep it or a name in it looks like a secret: then `InvalidRequest`.

    Names are looked at to any depth. A number of tokens (`max_tokens`) is no secret.
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

"""One conversation, as its callers see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

import msgspec

from threadline.errors import InvalidMessage, InvalidRequest
from threadline.model.message import require_json
from threadline.model.source import SessionSource
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
        """The entry that `to_dict` gave. Unknown keys and platforms pass; missing or broken numbers are 0."""
        known = {name: raw[name] for name in cls.__struct_fields__ if raw.get(name) is not None}
        for name in _NUMBERS & known.keys():
            if not isinstance(known[name], int) or isinstance(known[name], bool):
                del known[name]
        status = known.get("cost_status")
        if not isinstance(status, str) or status not in COST_STATUSES:
            known.pop("cost_status", None)
        origin = raw.get("origin")
        known["origin"] = SessionSource.from_dict(origin) if isinstance(origin, dict) else None
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as cause:
            raise InvalidRequest(f"this is no session: {cause}") from cause


_NUMBERS = frozenset(name for name, kind in SessionEntry.__annotations__.items() if kind == "int")


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

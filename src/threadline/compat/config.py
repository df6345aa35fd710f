"""The configuration values of the original API, with its defaults. `None` in a dictionary means the default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from threadline.local_user import user_folder

# The platforms that the original names, by their names in lower case; any other value is a `ValueError`.
Platform = StrEnum(
    "Platform",
    "LOCAL TELEGRAM DISCORD WHATSAPP SLACK SIGNAL MATRIX MATTERMOST EMAIL SMS DINGTALK FEISHU WECOM HOMEASSISTANT "
    "API_SERVER WEBHOOK",
)

# Platforms that connect without a token, and what of `extra` they need instead.
_NEEDED_EXTRA: Mapping[str, str | None] = dict.fromkeys(("whatsapp", "api_server", "webhook")) | {
    "signal": "http_url",
    "email": "address",
    "dingtalk": "client_id",
    "feishu": "app_id",
    "wecom": "bot_id",
}


class _Plain:
    """A value that can be written as a dictionary and read back."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` gives an equal one."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The value of a dictionary. What is missing or `None` has its default."""
        given = {one.name: data[one.name] for one in fields(cls) if data.get(one.name) is not None}  # type: ignore[arg-type]
        return cls(**given | cls._read(given))

    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """The given values, made of plain ones where they are more than that."""
        return given


@dataclass
class HomeChannel(_Plain):
    """The chat of a platform where messages go that answer nobody."""

    platform: Platform
    chat_id: str
    name: str

    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("name", "Home")
        return {"platform": Platform(given["platform"]), "chat_id": str(given["chat_id"]), "name": name}


@dataclass
class PlatformConfig(_Plain):
    """How one platform is set up."""

    enabled: bool = False
    token: str | None = None
    api_key: str | None = None
    home_channel: HomeChannel | None = None
    reply_to_mode: str = "first"
    extra: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is not set is left out."""
        return {name: value for name, value in super().to_dict().items() if value is not None}

    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {"home_channel": HomeChannel.from_dict(given["home_channel"])} if "home_channel" in given else {}


@dataclass
class SessionResetPolicy(_Plain):
    """When a session starts afresh. The values are taken as they are: `idle_minutes=0` resets at once."""

    mode: str = "both"
    at_hour: int = 4
    idle_minutes: int = 1440
    notify: bool = True
    notify_exclude_platforms: tuple[str, ...] = ("api_server", "webhook")

    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        names = given.get("notify_exclude_platforms")
        return {} if names is None else {"notify_exclude_platforms": tuple(names)}


@dataclass
class GatewayConfig(_Plain):
    """The configuration of a gateway: its platforms, when sessions reset, and who shares one."""

    platforms: dict[Platform, PlatformConfig] = field(default_factory=dict)
    default_reset_policy: SessionResetPolicy = field(default_factory=SessionResetPolicy)
    reset_by_type: dict[str, SessionResetPolicy] = field(default_factory=dict)
    reset_by_platform: dict[Platform, SessionResetPolicy] = field(default_factory=dict)
    sessions_dir: Path = field(default_factory=lambda: user_folder() / "sessions")
    group_sessions_per_user: bool = True
    thread_sessions_per_user: bool = False

    def get_connected_platforms(self) -> list[Platform]:
        """The platforms that are enabled and have what they need to connect."""
        return [name for name, config in self.platforms.items() if config.enabled and _connects(name, config)]

    def get_home_channel(self, platform: Platform) -> HomeChannel | None:
        """The home channel of a platform, or `None`."""
        config = self.platforms.get(platform)
        return config.home_channel if config else None

    def get_reset_policy(self, platform: Platform | None = None, session_type: str | None = None) -> SessionResetPolicy:
        """The policy of the platform, else of the session type, else the default."""
        if platform is not None and platform in self.reset_by_platform:
            return self.reset_by_platform[platform]
        return self.reset_by_type.get(session_type or "", self.default_reset_policy)

    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Platforms that are not known here are left out."""

        def each(name: str, kind: type[_Plain], known: Collection[str] | None = None) -> dict[Any, Any]:
            values = {key: kind.from_dict(value or {}) for key, value in (given.get(name) or {}).items()}
            return values if known is None else {Platform(key): values[key] for key in values if key in known}

        return {
            "platforms": each("platforms", PlatformConfig, frozenset(Platform)),
            "default_reset_policy": SessionResetPolicy.from_dict(given.get("default_reset_policy") or {}),
            "reset_by_type": each("reset_by_type", SessionResetPolicy),
            "reset_by_platform": each("reset_by_platform", SessionResetPolicy, frozenset(Platform)),
        } | ({"sessions_dir": Path(given["sessions_dir"])} if "sessions_dir" in given else {})


def _plain(value: Any) -> Any:
    if isinstance(value, _Plain):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path | StrEnum) else value


def _connects(platform: Platform, config: PlatformConfig) -> bool:
    if config.token or config.api_key:
        return True
    needed = _NEEDED_EXTRA.get(platform, "token")
    return needed is None or bool(config.extra.get(needed))

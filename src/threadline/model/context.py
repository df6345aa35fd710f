"""The facts of a conversation that its agent is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import force_setattr

from threadline.errors import InvalidRequest
from threadline.model.address import SessionScope, address_of
from threadline.model.session import SessionEntry
from threadline.model.source import MAIN_ACCOUNT, SessionSource, is_platform_slug

LOCAL = "local"


class HomeChannel(msgspec.Struct, frozen=True):
    """The chat of a platform where messages go that answer nobody. Ids are text; numbers become text."""

    platform: str
    chat_id: str
    name: str
    thread_id: str | None = None
    account: str = MAIN_ACCOUNT

    def __post_init__(self) -> None:
        _require_slug(self.platform)
        for field in ("chat_id", "thread_id"):
            value = getattr(self, field)
            if isinstance(value, int) and not isinstance(value, bool):
                force_setattr(self, field, str(value))
        if not isinstance(self.chat_id, str) or not self.chat_id:
            raise InvalidRequest(f"the home channel of {self.platform} needs the id of a chat")
        if not all(isinstance(text, str) for text in (self.name, self.account, self.thread_id or "")):
            raise InvalidRequest(f"name, account and thread of the home channel of {self.platform} must be text")


class SessionContext(msgspec.Struct, frozen=True):
    """Where a conversation takes place and what can be reached from it.

    However it is made, it holds: each connected platform once, `local` first and the others sorted; home
    channels of connected platforms only, sorted. Any iterable will do for either, and a mapping from platform
    to home channel. `shared` is whether several people speak here; left `None`, the source tells, with the
    default scope.
    """

    source: SessionSource
    connected_platforms: tuple[str, ...] = ()
    home_channels: tuple[HomeChannel, ...] = ()
    entry: SessionEntry | None = None
    shared: bool | None = None

    def __post_init__(self) -> None:
        connected = _connected(self.connected_platforms)
        force_setattr(self, "connected_platforms", connected)
        force_setattr(self, "home_channels", _homes(self.home_channels, connected))
        if self.shared is None:
            force_setattr(self, "shared", _is_shared(self.source, self.entry, None))


def build_session_context(
    source: SessionSource,
    *,
    connected_platforms: Iterable[str],
    home_channels: Mapping[str, HomeChannel] | Iterable[HomeChannel],
    entry: SessionEntry | None = None,
    scope: SessionScope | None = None,
) -> SessionContext:
    """The context of a message from `source`. Whether it is shared tells `entry`, else the source in `scope`.

    What is no platform or no home channel is `InvalidRequest`.
    """
    connected = _connected(connected_platforms)
    homes = _homes(home_channels, connected)
    return SessionContext(source, connected, homes, entry, _is_shared(source, entry, scope))


def _is_shared(source: SessionSource, entry: SessionEntry | None, scope: SessionScope | None) -> bool:
    return entry.is_shared if entry is not None else address_of(source, scope).is_shared


def _connected(platforms: Iterable[str]) -> tuple[str, ...]:
    if isinstance(platforms, str):
        raise InvalidRequest(f"connected platforms are a list of names, not the text {platforms!r}")
    unique = {_require_slug(platform) for platform in platforms}
    return tuple(sorted(unique, key=lambda platform: (platform != LOCAL, platform)))


def _homes(
    channels: Mapping[str, HomeChannel] | Iterable[HomeChannel], connected: tuple[str, ...]
) -> tuple[HomeChannel, ...]:
    if isinstance(channels, Mapping):
        for platform, channel in channels.items():
            if platform != channel.platform:
                raise InvalidRequest(f"the home channel given for {platform!r} is one of {channel.platform}")
        channels = channels.values()
    given = tuple(channels)
    if not all(isinstance(channel, HomeChannel) for channel in given):
        raise InvalidRequest("home channels are given as HomeChannel values")
    reachable = {channel for channel in given if channel.platform in connected}
    return tuple(sorted(reachable, key=_home_order))


def _home_order(channel: HomeChannel) -> tuple[bool, str, str, str, str, str]:
    elsewhere = channel.platform != LOCAL
    return (
        elsewhere,
        channel.platform,
        channel.account,
        channel.chat_id,
        channel.thread_id or "",
        channel.name,
    )


def _require_slug(platform: str) -> str:
    if not is_platform_slug(platform):
        raise InvalidRequest(f"{platform!r} is no platform: use a slug of lower-case letters, digits, '-' and '_'")
    return platform

"""What the settings come to: the values that the store and the gateway work with."""

from __future__ import annotations

from collections.abc import Iterable

from threadline.clock import installation_zone
from threadline.config.settings import BindingSettings, ChatSettings, ResetRule, Settings
from threadline.model.address import SessionScope
from threadline.model.client_sources import WEB
from threadline.model.context import HomeChannel
from threadline.model.policy import ResetPolicies, SessionResetPolicy


def reset_policies(settings: Settings) -> ResetPolicies:
    """When conversations start afresh, by platform and chat type."""
    resets = settings.resets
    return ResetPolicies(
        default=_policy(resets),
        # A conversation on the page lasts until its person starts another: they see all of theirs.
        by_platform={WEB: SessionResetPolicy(mode="none")}
        | {name: _policy(rule) for name, rule in resets.platform.items()},
        by_type={name: _policy(rule) for name, rule in resets.type.items()},
    )


def session_scope(settings: Settings) -> SessionScope:
    """Who shares a conversation."""
    return SessionScope(
        group_sessions_per_user=settings.sessions.group_sessions_per_user,
        thread_sessions_per_user=settings.sessions.thread_sessions_per_user,
    )


def home_channels(settings: Settings) -> tuple[HomeChannel, ...]:
    """Where messages go that answer nobody."""
    return tuple(
        HomeChannel(channel.platform, channel.chat_id, channel.name, channel.thread_id, channel.account)
        for channel in settings.home_channels
    )


def zone_of(settings: Settings) -> str:
    """The IANA name of the installation's time zone: the one that is set, else this machine's."""
    return settings.timezone or installation_zone()


def agent_for(
    bindings: Iterable[BindingSettings], default: str, platform: str, account: str, chat_id: str | None
) -> str:
    """The name of the agent that answers there: of the most exact binding that fits, else `default`.

    A chat is more exact than an account, and that more than a platform. The first of two alike counts.
    """
    fitting = [
        binding
        for binding in bindings
        if binding.platform in (None, platform)
        and binding.account in (None, account)
        and binding.chat in (None, chat_id)
    ]
    return max(fitting, key=_exactness).agent if fitting else default


def find_chat(chats: Iterable[ChatSettings], platform: str, account: str, chat_id: str | None) -> ChatSettings | None:
    """What is different in that chat; an entry for the very account goes before one for all."""
    fitting = [
        chat for chat in chats if chat.platform == platform and chat.chat == chat_id and chat.account in (None, account)
    ]
    return max(fitting, key=lambda chat: chat.account is not None) if fitting else None


def _exactness(binding: BindingSettings) -> tuple[bool, bool, bool]:
    return binding.chat is not None, binding.account is not None, binding.platform is not None


def _policy(rule: ResetRule) -> SessionResetPolicy:
    return SessionResetPolicy(**{name: getattr(rule, name) for name in SessionResetPolicy.__struct_fields__})

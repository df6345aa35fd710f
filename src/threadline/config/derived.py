"""What the settings come to"""

from __future__ import annotations

from collections.abc import Iterable

from threadline.clock import installation_zone
from threadline.config.secrets import load_or_make_secret
from threadline.config.settings import BindingSettings, ChatSettings, ResetRule, Settings
from threadline.local_user import redaction_secret_file
from threadline.model import prompt
from threadline.model.address import SessionScope
from threadline.model.context import HomeChannel, SessionContext
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.webchat import WEB


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


def installation_timezone(settings: Settings) -> str:
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


def chat_settings_for(
    chats: Iterable[ChatSettings], platform: str, account: str, chat_id: str | None
) -> ChatSettings | None:
    """What is different in that chat; an entry for the very account goes before one for all."""
    fitting = [
        chat for chat in chats if chat.platform == platform and chat.chat == chat_id and chat.account in (None, account)
    ]
    return max(fitting, key=lambda chat: chat.account is not None) if fitting else None


def _exactness(binding: BindingSettings) -> tuple[bool, bool, bool]:
    return binding.chat is not None, binding.account is not None, binding.platform is not None


def _policy(rule: ResetRule) -> SessionResetPolicy:
    return SessionResetPolicy(**{name: getattr(rule, name) for name in SessionResetPolicy.__struct_fields__})


def build_session_context_prompt(
    context: SessionContext, *, redact_pii: bool = False, secret: bytes | None = None
) -> str:
    """What the agent is told of its conversation.

    With `redact_pii`, ids of platforms whose ids the model never needs are replaced by hashes keyed with `secret`, and no
    phone number or e-mail address shows in any name. An empty secret is `InvalidRequest`. Without one, the secret in the
    data folder is used, made there once and only where an id is replaced; `ConfigError` where its file can't be used.
    """
    if not redact_pii or secret is not None:
        return prompt.build_session_context_prompt(context, redact_pii=redact_pii, secret=secret or b"")
    # Any two secrets give the same text exactly where no id is replaced: then the real one is not needed.
    texts = {prompt.build_session_context_prompt(context, redact_pii=True, secret=probe) for probe in (b"0", b"1")}
    if len(texts) == 1:
        return texts.pop()
    real = load_or_make_secret(redaction_secret_file())
    return prompt.build_session_context_prompt(context, redact_pii=True, secret=real)

"""Values that the store, the gateway and a library's prompts work with, derived from the settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from threadline.clock import installation_zone
from threadline.config.secrets import load_or_make_secret
from threadline.local_user import redaction_secret_file
from threadline.model import context as model_context
from threadline.model.address import SessionScope
from threadline.model.client_sources import WEB
from threadline.model.context import HomeChannel, SessionContext
from threadline.model.policy import ResetPolicies, SessionResetPolicy

if TYPE_CHECKING:
    # Only named in annotations: `import threadline` does not have to build the structs of all settings.
    from threadline.config.settings import BindingSettings, ChatSettings, ResetRule, Settings


def reset_policies(settings: Settings) -> ResetPolicies:
    """Return when conversations start anew, by platform and chat type."""
    resets = settings.resets
    return ResetPolicies(
        default=_policy(resets),
        # A conversation on the page lasts until its person starts another: they see all of theirs.
        by_platform={WEB: SessionResetPolicy(mode="none")}
        | {name: _policy(rule) for name, rule in resets.platform.items()},
        by_type={name: _policy(rule) for name, rule in resets.type.items()},
    )


def session_scope(settings: Settings) -> SessionScope:
    """Return the rules for who shares a conversation."""
    return SessionScope(
        group_sessions_per_user=settings.sessions.group_sessions_per_user,
        thread_sessions_per_user=settings.sessions.thread_sessions_per_user,
    )


def home_channels(settings: Settings) -> tuple[HomeChannel, ...]:
    """Return the chats for messages that answer nobody."""
    return tuple(
        HomeChannel(channel.platform, channel.chat_id, channel.name, channel.thread_id, channel.account)
        for channel in settings.home_channels
    )


def installation_timezone(settings: Settings) -> str:
    """Return the IANA name of the installation's time zone: the configured one, else the machine's."""
    return settings.timezone or installation_zone()


def agent_for(
    bindings: Iterable[BindingSettings], default: str, platform: str, account: str, chat_id: str | None
) -> str:
    """Return the name of the agent that answers there: the agent of the most specific binding, else `default`.

    A chat is more specific than an account, and an account more than a platform. Of two equal bindings the first counts.
    """
    fitting = [
        binding
        for binding in bindings
        if binding.platform in (None, platform)
        and binding.account in (None, account)
        and binding.chat in (None, chat_id)
    ]
    return max(fitting, key=_specificity).agent if fitting else default


def chat_settings_for(
    chats: Iterable[ChatSettings], platform: str, account: str, chat_id: str | None
) -> ChatSettings | None:
    """Return the settings of that chat, or None. An entry for the account goes before one for all accounts."""
    fitting = [
        chat for chat in chats if chat.platform == platform and chat.chat == chat_id and chat.account in (None, account)
    ]
    return max(fitting, key=lambda chat: chat.account is not None) if fitting else None


def build_session_context_prompt(
    context: SessionContext, *, redact_pii: bool = False, secret: bytes | None = None
) -> str:
    """Return the context block: the text that tells the agent about its conversation.

    With `redact_pii`, ids of platforms whose ids the model never needs are replaced by hashes keyed with `secret`, and no
    phone number or e-mail address shows in any name. An empty secret is `InvalidRequest`. Without `secret`, the one
    in the data folder is used, but only if an id is replaced; it is created on first use. `ConfigError` if its file can't be used.
    """
    if not redact_pii or secret is not None:
        return model_context.build_session_context_prompt(context, redact_pii=redact_pii, secret=secret or b"")
    # If two different secrets give the same text, no id was replaced, and the real secret is not needed.
    texts = {
        model_context.build_session_context_prompt(context, redact_pii=True, secret=probe) for probe in (b"0", b"1")
    }
    if len(texts) == 1:
        return texts.pop()
    real = load_or_make_secret(redaction_secret_file())
    return model_context.build_session_context_prompt(context, redact_pii=True, secret=real)


def _specificity(binding: BindingSettings) -> tuple[bool, bool, bool]:
    return binding.chat is not None, binding.account is not None, binding.platform is not None


def _policy(rule: ResetRule) -> SessionResetPolicy:
    return SessionResetPolicy(**{name: getattr(rule, name) for name in SessionResetPolicy.__struct_fields__})

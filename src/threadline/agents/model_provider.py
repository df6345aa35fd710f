"""From an agent's settings to a model that can be asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from threadline.agents.registry import AgentSettings
from threadline.errors import InvalidRequest
from threadline.ports.agent import AgentError

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

# What providers call the address of their service.
_ADDRESS_NAMES = ("base_url", "api_base", "azure_endpoint")
_NO_KEY = "none"


def open_model(settings: AgentSettings, provider: str, name: str) -> Model:
    """The model `name` of `provider`; nothing is sent yet.

    `AgentError` where an extra or a key is missing, `InvalidRequest` for a provider that is unknown or can't be set up so.
    """
    try:
        # All that a turn needs of it is loaded here: it takes seconds, which an event loop does not have.
        import pydantic_ai.direct  # noqa: F401
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as cause:
        raise AgentError("A model agent needs an extra: pip install 'threadline[model]'.", is_owners=True) from cause
    # Servers that are compatible with OpenAI speak chat-completions; only OpenAI itself speaks what came after it.
    dialect = "openai-chat" if provider == "openai" and settings.base_url else provider
    try:
        return infer_model(f"{dialect}:{name}", lambda _: _provider(settings, provider))
    except UserError as cause:
        raise AgentError(
            f"{provider} can't be used yet: most often a key is missing. Set `api_key` for this agent.", is_owners=True
        ) from cause


def _provider(settings: AgentSettings, provider: str) -> Provider[Any]:
    """The provider's client. What is set goes before what the environment says."""
    from pydantic_ai.providers import infer_provider

    kind = _kind_of(provider)
    if settings.base_url is None and settings.api_key is None:
        return infer_provider(provider)
    taken = inspect.signature(kind).parameters
    address = next((parameter for parameter in _ADDRESS_NAMES if parameter in taken), None)
    if provider.startswith("gateway/") or "api_key" not in taken or (settings.base_url and address is None):
        raise InvalidRequest(
            f"{provider} takes no key or no address of its own; leave `api_key` and `base_url` out,"
            " or use 'openai:name' for a server that speaks like OpenAI's"
        )
    if settings.base_url is None or address is None:
        return kind(api_key=settings.api_key)
    # A key in the environment is meant for the provider's own address: another one never gets to see it.
    return kind(api_key=settings.api_key or _NO_KEY, **{address: settings.base_url})


def _kind_of(provider: str) -> Callable[..., Provider[Any]]:
    from pydantic_ai.providers import infer_provider_class

    try:
        return infer_provider_class(provider)
    except ValueError as cause:
        raise InvalidRequest(f"there is no provider {provider!r}; check the spelling of `model`") from cause
    except ImportError as cause:
        package = f"pydantic-ai-slim[{provider.partition('-')[0]}]"
        raise AgentError(f"{provider} needs a package: pip install '{package}'.", is_owners=True) from cause

"""The models of one agent: its own, and those chosen for conversations. Connections stay open from turn to turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from threadline.agents.registry import AgentSetup
from threadline.errors import InvalidRequest
from threadline.ports.agent import AgentError

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

# The number of chosen models that stay open while no turn uses them.
_MAX_IDLE_MODELS = 8

# The parameter names that providers use for the address of their service.
_ADDRESS_NAMES = ("base_url", "api_base", "azure_endpoint")
_NO_KEY = "none"


class OpenModel:
    """One model and its connections, which belong to the event loop that opened them."""

    def __init__(self, settings: AgentSetup, *, is_chosen: bool) -> None:
        """Raise `AgentError` if the extra or a key is missing, `InvalidRequest` if the settings can't be used."""
        self.provider, self.name = model_name(settings)
        self.is_chosen = is_chosen
        self.users = 0
        self._settings = settings
        self._model = open_model(settings, self.provider, self.name)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def provider_text(self) -> str:
        """Return the name of the provider for people."""
        return self._model.system

    async def connected(self) -> Model:
        """Return the model, with connections that stay open until `aclose`."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                self._model = open_model(self._settings, self.provider, self.name)
            self._loop = loop
            await self._model.__aenter__()
        return self._model

    async def aclose(self) -> None:
        """Close the connections. The model can be used again."""
        if self._loop is asyncio.get_running_loop():
            self._loop = None
            await self._model.__aexit__(None, None, None)


class ModelPool:
    """Opens each model when it is first needed. Of the chosen models that are idle, the few used last stay open."""

    def __init__(self, settings: AgentSetup) -> None:
        """Open the agent's own model; raise what that raises."""
        self._settings = settings
        # Loaded and connected here, not at the first turn: it takes seconds, and would hold up the event loop.
        self._own = OpenModel(settings, is_chosen=False)
        self._chosen: dict[str, OpenModel] = {}

    async def check(self, name: str) -> str:
        """Return the full name of a model that can be used, else raise `InvalidRequest`. Sends nothing."""
        full = self._full_name(name)
        try:
            await self._ensure(full)
        except AgentError as cause:
            provider = full.partition(":")[0]
            raise InvalidRequest(
                f"{provider} can't be used here: its key or its package is missing, which only my owner can change"
            ) from cause
        return full

    @asynccontextmanager
    async def lease_model(self, chosen: str | None) -> AsyncIterator[OpenModel]:
        """Yield the model for a turn and keep it open meanwhile. `AgentError` if the chosen model can't be used any more."""
        try:
            model = self._own if chosen is None else await self._ensure(self._full_name(chosen))
        except (AgentError, InvalidRequest) as cause:
            raise AgentError(
                "The model that was chosen for this conversation can't be used any more."
                " /model default goes back to the agent's own."
            ) from cause
        model.users += 1
        try:
            yield model
        finally:
            model.users -= 1
            await self._close_some()

    async def aclose(self) -> None:
        """Close all connections."""
        for model in (self._own, *self._chosen.values()):
            await model.aclose()

    async def _ensure(self, full: str) -> OpenModel:
        found = self._chosen.pop(full, None)
        if found is None:
            settings = self._settings_for(full)
            # In a thread: a provider's package takes seconds to load, which the event loop does not have.
            opened = await asyncio.to_thread(OpenModel, settings, is_chosen=True)
            # If two turns opened the same model at once, the later turn uses the model of the first.
            found = self._chosen.pop(full, opened)
        # The model used last stands last.
        self._chosen[full] = found
        await self._close_some()
        return found

    async def _close_some(self) -> None:
        idle = [name for name, model in self._chosen.items() if not model.users]
        for name in idle[: max(0, len(self._chosen) - _MAX_IDLE_MODELS)]:
            await self._chosen.pop(name).aclose()

    def _full_name(self, name: str) -> str:
        """Return "provider:name"; a name without a provider belongs to the provider of the agent."""
        full = name if ":" in name else f"{self._own.provider}:{name}"
        model_name(msgspec.structs.replace(self._settings, model=full))
        return full

    def _settings_for(self, full: str) -> AgentSetup:
        """Return the settings for another model. Key and address are kept for the agent's own provider only."""
        provider = full.partition(":")[0]
        if provider == self._own.provider:
            return msgspec.structs.replace(self._settings, model=full)
        if self._settings.base_url is not None:
            raise InvalidRequest(
                f"this agent asks a server of its own, so {provider} can't be chosen;"
                f" use '{self._own.provider}:name' for another model of that server"
            )
        return msgspec.structs.replace(self._settings, model=full, api_key=None)


def model_name(settings: AgentSetup) -> tuple[str, str]:
    """Return provider and name of the model in the settings; raise `InvalidRequest` if there is none."""
    provider, colon, name = (settings.model or "").partition(":")
    if not colon or not provider or not name:
        raise InvalidRequest(
            f"a model agent needs `model` as 'provider:name', such as 'openai:gpt-5', not {settings.model!r}"
        )
    return provider, name


def open_model(settings: AgentSetup, provider: str, name: str) -> Model:
    """Return the model `name` of `provider`. Sends nothing.

    Raise `AgentError` if an extra or a key is missing, `InvalidRequest` for an unknown provider or unusable settings.
    """
    try:
        # Everything that a turn needs is imported here: the imports take seconds and would block the event loop later.
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


def _provider(settings: AgentSetup, provider: str) -> Provider[Any]:
    """Return the client of the provider. Settings take precedence over the environment."""
    from pydantic_ai.providers import infer_provider

    kind = _provider_class(provider)
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
    # A key in the environment is meant for the provider's own address, so no other address gets it.
    return kind(api_key=settings.api_key or _NO_KEY, **{address: settings.base_url})


def _provider_class(provider: str) -> Callable[..., Provider[Any]]:
    from pydantic_ai.providers import infer_provider_class

    try:
        return infer_provider_class(provider)
    except ValueError as cause:
        raise InvalidRequest(f"there is no provider {provider!r}; check the spelling of `model`") from cause
    except ImportError as cause:
        package = f"pydantic-ai-slim[{provider.partition('-')[0]}]"
        raise AgentError(f"{provider} needs a package: pip install '{package}'.", is_owners=True) from cause

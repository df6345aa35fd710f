"""Parts of a gateway from the configuration: agents, platforms, rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from threadline.agents.registry import AgentSettings, make_agent
from threadline.config.policies import agent_for, find_chat, home_channels, reset_policies, session_scope, zone_of
from threadline.config.resolve import resolve, resolve_secret
from threadline.config.settings import AgentSettings as ConfiguredAgent
from threadline.config.settings import Config
from threadline.gateway.access import AccessRules
from threadline.gateway.settings import ChatRules, GatewaySettings
from threadline.ids import new_owner
from threadline.model.source import SessionSource
from threadline.platforms.registry import PlatformSettings, make_platform
from threadline.platforms.text import plain, split
from threadline.ports.agent import Agent
from threadline.ports.platform import Capabilities, Platform
from threadline.store.gateway import GatewayStore


class Agents:
    """The configured agents, each made when it is first asked to answer."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[str, Agent] = {}

    def answering(self, source: SessionSource) -> tuple[str, Agent]:
        """Who answers there: the most exact binding, else the default agent."""
        config = self._config
        name = agent_for(config.bindings, config.gateway.default_agent, source.platform, source.account, source.chat_id)
        return name, self.named(name)

    def make_all(self) -> None:
        """Makes every configured agent now: some take seconds to load, and one that can't be made is better told at the start."""
        for name in self._config.agents:
            self.named(name)

    def named(self, name: str) -> Agent:
        """The agent of that name."""
        if name not in self._made:
            self._made[name] = make_agent(_settings_of(self._config.agents[name]))
        return self._made[name]


def with_agent(config: Config, wanted: str | None) -> Config:
    """The configuration with another default agent: a configured name, a kind, or `package.module:callable`."""
    if wanted is None or wanted in config.agents:
        chosen = wanted or config.gateway.default_agent
        gateway = msgspec.structs.replace(config.gateway, default_agent=chosen)
        return msgspec.structs.replace(config, gateway=gateway)
    agent = ConfiguredAgent(kind="echo") if wanted == "echo" else ConfiguredAgent(kind="function", call=wanted)
    agents = {**config.agents, "main": agent}
    gateway = msgspec.structs.replace(config.gateway, default_agent="main")
    return msgspec.structs.replace(config, agents=agents, gateway=gateway)


def platforms_of(config: Config) -> list[Platform]:
    """The platforms that are configured and enabled, not yet connected."""
    found = []
    for name, settings in config.platforms.items():
        if not settings.enabled:
            continue
        options = resolve(settings.options)
        found.append(
            make_platform(
                settings.kind, PlatformSettings(name, settings.account, options if isinstance(options, Mapping) else {})
            )
        )
    return found


def gateway_settings(config: Config, kind: str, agents: Agents, secret: bytes, **changes: object) -> GatewaySettings:
    """How a gateway behaves by this configuration. `kind` tells what sort of process it lives in."""
    wanted = config.gateway
    values: dict[str, object] = {
        "owner": new_owner(kind),
        "agent_for": agents.answering,
        "split": _split,
        "plain": plain,
        "when_busy": wanted.when_busy,
        "burst_seconds": wanted.burst_seconds,
        "turns_at_once": wanted.turns_at_once,
        "turns_per_person": wanted.turns_per_person,
        "turns_per_platform": wanted.turns_per_platform,
        "queue_per_session": wanted.queue_per_session,
        "lease_seconds": wanted.lease_seconds,
        "silence_seconds": wanted.turn_silence_minutes * 60.0,
        "drain_seconds": wanted.drain_seconds,
        "welcome": wanted.welcome,
        "redact_pii": config.privacy.redact_pii,
        "secret": secret,
        "home_channels": home_channels(config),
        "rules_for": partial(_rules_for, config),
    }
    return GatewaySettings(**values | changes)  # type: ignore[arg-type]


def access_rules(config: Config) -> AccessRules:
    """Who may talk, by this configuration."""
    access = config.access
    return AccessRules(
        owners=frozenset(access.owners),
        trusted=frozenset(access.trusted),
        guests=frozenset(access.guests),
        answer_groups=frozenset(access.answer_groups),
        pairing=access.pairing,
    )


async def open_gateway_store(config: Config, location: str) -> GatewayStore:
    """The store of a gateway, by this configuration."""
    return await GatewayStore.open(
        location, policies=reset_policies(config), scope=session_scope(config), timezone=zone_of(config)
    )


def _rules_for(config: Config, source: SessionSource) -> ChatRules:
    found = find_chat(config.chats, source.platform, source.account, source.chat_id)
    return ChatRules() if found is None else ChatRules(found.system_prompt, found.role)


def _split(text: str, capabilities: Capabilities) -> list[str]:
    return split(text, capabilities.max_length, capabilities.length_unit)


def _settings_of(agent: ConfiguredAgent) -> AgentSettings:
    return AgentSettings(
        kind=agent.kind,
        call=agent.call,
        model=agent.model,
        system_prompt=agent.system_prompt,
        base_url=agent.base_url,
        api_key=None if agent.api_key is None else resolve_secret(agent.api_key),
        temperature=agent.temperature,
        max_tokens=agent.max_tokens,
        history_limit=agent.history_limit,
    )

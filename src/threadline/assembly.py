"""Parts of a gateway from the configuration: agents, platforms, rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import get_args

import msgspec

from threadline.agents.registry import AgentSetup, agent_kinds, make_agent
from threadline.config.derived import (
    agent_for,
    chat_settings_for,
    home_channels,
    installation_timezone,
    reset_policies,
    session_scope,
)
from threadline.config.load import current_environment
from threadline.config.secrets import resolve_all, resolve_secret
from threadline.config.settings import MAIN_AGENT, AcpPreset, Config
from threadline.config.settings import AgentSettings as ConfiguredAgent
from threadline.errors import InvalidRequest
from threadline.gateway.access import AccessRules
from threadline.gateway.alarms import agent_alarm, listening_alarm, platform_alarm
from threadline.gateway.gateway import Gateway
from threadline.gateway.settings import ChatRules, GatewaySettings
from threadline.ids import new_lease_owner
from threadline.log import get_logger
from threadline.model.source import SessionSource
from threadline.platforms.registry import PlatformSetup, make_platform
from threadline.platforms.shared import split, to_plain_text
from threadline.ports.agent import Agent, Closes
from threadline.ports.platform import Capabilities, Platform, Probed, Probes, Transient
from threadline.store.facade import GatewayStore
from threadline.store.people.web_access import OWNER
from threadline.texts import platforms as texts

log = get_logger(__name__)

# An agent has five, and a moment more to say so.
_CLOSING_SECONDS = 6.0
# What stands before the name of an agent of the kind acp, where one is named in a word.
_ACP_AGENT = "acp:"


class Agents:
    """The configured agents, each made when it is first asked to answer."""

    def __init__(self, config: Config, earlier: Agents | None = None) -> None:
        """Of the `earlier` agents those stay about which nothing has changed, not even a secret."""
        self._config = config
        self._kept: Mapping[str, tuple[AgentSetup, Agent]] = {} if earlier is None else dict(earlier.made)
        self.made: dict[str, tuple[AgentSetup, Agent]] = {}

    def answering(self, source: SessionSource) -> tuple[str, Agent]:
        """Who answers there: the most exact binding, else the default agent."""
        config = self._config
        name = agent_for(config.bindings, config.gateway.default_agent, source.platform, source.account, source.chat_id)
        return name, self.named(name)

    def make_all(self) -> None:
        """Makes every configured agent now: some take seconds to load, and one that can't be made is better told at the start."""
        for name in self._config.agents:
            self.named(name)

    def replaced(self) -> list[Agent]:
        """Of the earlier agents those that did not stay."""
        stayed = {id(agent) for _, agent in self.made.values()}
        return [agent for _, agent in self._kept.values() if id(agent) not in stayed]

    def named(self, name: str) -> Agent:
        """The agent of that name."""
        if name not in self.made:
            settings = _settings_of(self._config.agents[name])
            kept = self._kept.get(name)
            self.made[name] = kept if kept is not None and kept[0] == settings else (settings, make_agent(settings))
        return self.made[name][1]


async def close_agents(agents: Iterable[Agent]) -> None:
    """Lets agents go that hold something beyond their turns, all at once; one that fails or takes too long keeps nobody."""
    await asyncio.gather(*(_close(agent) for agent in agents if isinstance(agent, Closes)))


async def _close(agent: Closes) -> None:
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await agent.close()
    except Exception as cause:  # noqa: BLE001 - somebody else's code: the others are to be closed all the same
        log.warning("agent.not_closed", agent=type(agent).__name__, error=repr(cause))


class Platforms:
    """The platforms that are configured and enabled. Made by `all`, from what was looked up before: secrets may take a while."""

    def __init__(self, config: Config, earlier: Platforms | None = None) -> None:
        """Of the `earlier` platforms those stay about which nothing has changed, not even a secret. Blocks."""
        self._wanted = {
            name: (settings.kind, platform_settings(config, name))
            for name, settings in config.platforms.items()
            if settings.enabled
        }
        self._kept: Mapping[str, tuple[str, PlatformSetup, Platform]] = {} if earlier is None else dict(earlier.made)
        self.made: dict[str, tuple[str, PlatformSetup, Platform]] = {}

    def all(self, is_over: Callable[[Platform], bool] = lambda _platform: False) -> list[Platform]:
        """Every platform, not yet connected or as it was. One that `is_over` is made anew: whoever asks wants it back."""
        for name, (kind, settings) in self._wanted.items():
            kept = self._kept.get(name)
            if kept is not None and kept[:2] == (kind, settings) and not is_over(kept[2]):
                self.made[name] = kept
            else:
                self.made[name] = kind, settings, make_platform(kind, settings)
        return [platform for _, _, platform in self.made.values()]


def platform_settings(config: Config, name: str) -> PlatformSetup:
    """What the configured platform of that name is made of, secrets and all. Blocks."""
    configured = config.platforms[name]
    return PlatformSetup(name, configured.account, _options(configured.options))


async def probed(kind: str, settings: PlatformSetup, *, seconds: float = 20.0) -> Probed | None:
    """Tries a platform out, without listening; `None` where its kind can't tell anything that way.

    What is wrong is raised: `InvalidRequest` and `BrokenPlatform` where it can't be made, `PlatformError` where it does not work.
    """
    platform = make_platform(kind, settings)
    if not isinstance(platform, Probes):
        return None
    try:
        async with asyncio.timeout(seconds):
            return await platform.probe()
    except TimeoutError:
        raise Transient(texts.SLOW.format(seconds=seconds)) from None
    finally:
        await platform.close()


def with_agent(config: Config, wanted: str | None) -> Config:
    """The configuration with one agent for everything: a configured name, a kind, `acp:NAME`, or `package.module:callable`.

    `acp:NAME` is the configured agent NAME of the kind acp, else the preset of that name. A kind is the configured agent of that
    kind, the default one first, else one with nothing configured.

    Bindings go: who names an agent on the command line wants to hear that one.
    """
    if wanted is None:
        return config
    agents, chosen = dict(config.agents), wanted
    name = wanted.removeprefix(_ACP_AGENT)
    if name != wanted and name in agents and agents[name].kind == "acp":
        chosen = name
    elif wanted not in agents and (named := _of_kind(config, wanted)) is not None:
        chosen = named
    elif wanted not in agents:
        chosen = MAIN_AGENT
        agents[MAIN_AGENT] = _agent_called(wanted)
    gateway = msgspec.structs.replace(config.gateway, default_agent=chosen)
    return msgspec.structs.replace(config, agents=agents, gateway=gateway, bindings=())


def _of_kind(config: Config, kind: str) -> str | None:
    """The name of the configured agent of that kind."""
    default = config.gateway.default_agent
    named = sorted(config.agents, key=lambda name: name != default)
    return next((name for name in named if config.agents[name].kind == kind), None)


def _agent_called(wanted: str) -> ConfiguredAgent:
    if wanted in agent_kinds():
        return ConfiguredAgent(kind=wanted)
    name = wanted.removeprefix(_ACP_AGENT)
    if name == wanted:
        return ConfiguredAgent(kind="function", call=wanted)
    for preset in get_args(AcpPreset):
        if preset == name:
            return ConfiguredAgent(kind="acp", preset=preset)
    known = ", ".join(get_args(AcpPreset))
    raise InvalidRequest(f"no agent of the kind acp is called {name!r}: configure one, or use one of {known}")


def gateway_settings(config: Config, kind: str, agents: Agents, secret: bytes, **changes: object) -> GatewaySettings:
    """How a gateway behaves by this configuration. `kind` tells what sort of process it lives in."""
    wanted = config.gateway
    values: dict[str, object] = {
        "owner": new_lease_owner(kind),
        "agent_for": agents.answering,
        "split": _split,
        "plain": to_plain_text,
        "when_busy": wanted.when_busy,
        "burst_seconds": wanted.burst_seconds,
        "turns_at_once": wanted.turns_at_once,
        "turns_per_person": wanted.turns_per_person,
        "turns_per_platform": wanted.turns_per_platform,
        "queue_per_session": wanted.queue_per_session,
        "lease_seconds": wanted.lease_seconds,
        "crash_back_off_seconds": wanted.crash_back_off_seconds,
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
        # Who has the installation's token is the owner.
        owners=frozenset({*access.owners, OWNER}),
        trusted=frozenset(access.trusted),
        guests=frozenset(access.guests),
        answer_groups=frozenset(access.answer_groups),
        pairing=access.pairing,
    )


async def open_gateway_store(config: Config, location: str) -> GatewayStore:
    """The store of a gateway, by this configuration."""
    return await GatewayStore.open(
        location, policies=reset_policies(config), scope=session_scope(config), timezone=installation_timezone(config)
    )


def alarms_of(config: Config) -> frozenset[str]:
    """The names of all alarms about the agents and platforms of this configuration."""
    platforms = [(name, one.account) for name, one in config.platforms.items() if one.enabled]
    about = (of(name, account) for name, account in platforms for of in (platform_alarm, listening_alarm))
    return frozenset([*map(agent_alarm, config.agents), *about])


class Running:
    """A gateway that works, and what it is made of by the configuration of the moment."""

    def __init__(
        self,
        gateway: Gateway,
        store: GatewayStore,
        agents: Agents,
        platforms: Platforms,
        config: Config,
        always: Sequence[Platform] = (),
    ) -> None:
        """`always`: platforms that are there whatever is configured."""
        self._always = always
        self.gateway = gateway
        self.store = store
        self._agents = agents
        self._platforms = platforms
        self._config = config

    async def reload(self, config: Config) -> None:
        """Goes on with another configuration. Whatever of it can't be had is raised before anything is changed.

        Alarms about what is no longer in it are over. Those about what never was are another gateway's.
        """
        agents = Agents(config, self._agents)
        await asyncio.to_thread(agents.make_all)
        platforms = await asyncio.to_thread(Platforms, config, self._platforms)
        connected = [*platforms.all(self.gateway.has_ended), *self._always]
        settings = gateway_settings(config, "serve", agents, await self.store.people.installation_secret())
        gone = alarms_of(self._config) - alarms_of(config)
        self._agents, self._platforms, self._config = agents, platforms, config
        self.store.reconfigure(
            policies=reset_policies(config), scope=session_scope(config), timezone=installation_timezone(config)
        )
        await self.gateway.reconfigure(settings, access_rules(config), connected)
        self.gateway.alarms.known = alarms_of(config)
        await self.gateway.alarms.forget(gone)
        self.gateway.once_unused(agents.replaced(), close_agents)


def _rules_for(config: Config, source: SessionSource) -> ChatRules:
    found = chat_settings_for(config.chats, source.platform, source.account, source.chat_id)
    return ChatRules() if found is None else ChatRules(found.system_prompt, found.role)


def _split(text: str, capabilities: Capabilities) -> list[str]:
    return split(text, capabilities.max_length, capabilities.length_unit)


def _options(options: Mapping[str, object]) -> Mapping[str, object]:
    resolved = resolve_all(options, current_environment())
    return resolved if isinstance(resolved, Mapping) else {}


def _settings_of(agent: ConfiguredAgent) -> AgentSetup:
    return AgentSetup(
        kind=agent.kind,
        call=agent.call,
        model=agent.model,
        system_prompt=agent.system_prompt,
        base_url=agent.base_url,
        api_key=None if agent.api_key is None else resolve_secret(agent.api_key, current_environment()),
        temperature=agent.temperature,
        max_tokens=agent.max_tokens,
        history_limit=agent.history_limit,
        preset=agent.preset,
        command=agent.command,
        env=agent.env,
        cwd=agent.cwd,
        permissions=agent.permissions,
        mode=agent.mode,
        auth_method=agent.auth_method,
        options=_options(agent.options),
    )

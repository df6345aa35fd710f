"""The agent of an editor, put together: a gateway of its own for the one editor that started it, on the store that all share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.acp.platform import GatewayBridge
from threadline.acp.server import AcpServer
from threadline.acp.sessions import AsyncSessionManager
from threadline.assembly import Agents, access_rules, close_agents, gateway_settings
from threadline.config.derived import agent_for
from threadline.config.settings import Config
from threadline.gateway.gateway import Gateway
from threadline.gateway.supervisor import Supervisor
from threadline.local_user import login_name
from threadline.log import get_logger
from threadline.model.client_sources import ACP
from threadline.model.source import MAIN_ACCOUNT, SessionSource
from threadline.model.turn import Replay
from threadline.ports.agent import Agent, AgentError, Event, Turn
from threadline.rpc.lines import LineReader, LineWriter
from threadline.store.facade import GatewayStore
from threadline.texts import editors as texts
from threadline.version import __version__

log = get_logger(__name__)

# An editor is closed at any moment: what its process leaves behind is taken up by the next one soon.
LEASE_SECONDS = 3.0
_AT_ONCE = 32
# These have no use for the MCP servers that an editor names; a function is given them.
_WITHOUT_SERVERS = frozenset({"echo", "model"})


class NoAgent:
    """Stands where an agent could not be made: it says why, each time that it is asked."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def replay(self) -> Replay:
        return "safe"

    async def run(self, turn: Turn) -> AsyncIterator[Event]:  # noqa: ARG002 - whatever is said
        """Fails."""
        raise AgentError(texts.NO_AGENT.format(reason=self._reason))
        yield  # for the form of it: an agent gives events


class EditorAgents(Agents):
    """The agents as an editor meets them: made behind its back, and where one can't be made, sessions open all the same."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._preparing: asyncio.Task[None] | None = None
        self._missing: dict[str, NoAgent] = {}

    def name_at(self, source: SessionSource) -> str:
        """The name of who answers there; nothing is made."""
        return self._name(source.platform, source.account, source.chat_id)

    def answering(self, source: SessionSource) -> tuple[str, Agent]:
        """Who answers there; one that says why it can't where it could not be made."""
        name = self.name_at(source)
        if name in self._missing:
            return name, self._missing[name]
        try:
            return name, self.named(name)
        except Exception as cause:  # noqa: BLE001 - a function or a package of somebody's: whatever it raises, it can't be had
            missing = self._missing[name] = NoAgent(str(cause) or type(cause).__name__)
            return name, missing

    def takes_servers(self) -> bool:
        """Whether who answers in editors may use MCP servers; nothing is made."""
        return self._config.agents[self._name(ACP, MAIN_ACCOUNT, None)].kind not in _WITHOUT_SERVERS

    def prepare(self, supervisor: Supervisor) -> None:
        """Begins to make the agent that answers in editors. Some take seconds to load, and an editor wants to be greeted."""
        self._preparing = supervisor.start("acp.prepare", asyncio.to_thread(self._make))

    async def prepared(self) -> None:
        """Returns when that agent is made, or can't be."""
        if self._preparing is not None and not self._preparing.done():
            await asyncio.wait([self._preparing])

    def _make(self) -> None:
        try:
            self.named(self._name(ACP, MAIN_ACCOUNT, None))
        except Exception as cause:  # noqa: BLE001 - whoever prompts it is told
            log.warning("agent.not_made", error=str(cause))

    def _name(self, platform: str, account: str, chat_id: str | None) -> str:
        config = self._config
        return agent_for(config.bindings, config.gateway.default_agent, platform, account, chat_id)


@asynccontextmanager
async def editing(
    config: Config, store: GatewayStore, lines: LineReader, sink: LineWriter, *, agents: EditorAgents | None = None
) -> AsyncIterator[tuple[AcpServer, Gateway]]:
    """A gateway that serves the editor at the other end of these lines. What runs when it is left is closed with what it said.

    `agents`: those that answer, where they are not the configured ones.
    """
    supervisor, agents, user = Supervisor(), agents or EditorAgents(config), login_name()
    bridge = GatewayBridge(store, agents_ready=agents.prepared)
    sessions = AsyncSessionManager(store, user=user, agent_for=agents.name_at)
    server = AcpServer(
        bridge,
        sessions,
        lines,
        sink,
        supervisor,
        user=user,
        lease_seconds=LEASE_SECONDS,
        version=__version__,
        takes_servers=agents.takes_servers(),
    )
    settings = gateway_settings(
        config,
        ACP,
        agents,
        await store.people.installation_secret(),
        bound=server.open_sessions.open_sources,
        workplace_for=server.open_sessions.workplace_for,
        burst_seconds=0.0,
        poll_seconds=0.2,
        lease_seconds=LEASE_SECONDS,
        # Whoever is still answered when the editor hangs up has had its time: see the connection's grace.
        drain_seconds=0.0,
        turns_per_person=_AT_ONCE,
        turns_per_platform=_AT_ONCE,
        welcome=False,
    )
    gateway = Gateway(store, settings, access_rules(config), [server.platform])
    bridge.open(gateway)
    agents.prepare(supervisor)
    try:
        await gateway.start()
        try:
            yield server, gateway
        finally:
            await gateway.stop()
    finally:
        await supervisor.stop()
        await sessions.cleanup()
        await close_agents(agent for _, agent in agents.made.values())

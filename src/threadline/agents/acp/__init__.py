"""Agents that run as programs of their own and speak the Agent Client Protocol."""

from __future__ import annotations

from threadline.agents.acp.agent import AcpAgent
from threadline.agents.registry import AgentSetup
from threadline.config.load import current_environment
from threadline.local_user import agents_folder

__all__ = ["AcpAgent", "make"]


def make(settings: AgentSetup) -> AcpAgent:
    """The agent that `preset` or `command` names. People's folders are in the data folder."""
    return AcpAgent(settings, current_environment(), agents_folder())

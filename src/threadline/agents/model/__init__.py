"""Agents that ask a language model, at any provider that pydantic-ai knows."""

from __future__ import annotations

from threadline.agents.model.agent import ModelAgent
from threadline.agents.registry import AgentSetup

__all__ = ["ModelAgent", "make"]


def make(settings: AgentSetup) -> ModelAgent:
    """Return the agent that asks `model`."""
    return ModelAgent(settings)

"""A gateway on each engine."""

from __future__ import annotations

import functools

import pytest
from tests.gateway.world import Open, running


@pytest.fixture
def opened(location: str) -> Open:
    """`async with opened(agent, …)`: a gateway on a fresh database, connected to a chat."""
    return functools.partial(running, location)

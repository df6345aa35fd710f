"""The store of a gateway on each engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.gateways import OpenGateway, Run

from threadline.store.facade import GatewayStore
from threadline.testing import FakeClock


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def run(runner: asyncio.Runner) -> Run:
    return runner.run


@pytest.fixture
def open_gateway(location: str, clock: FakeClock, run: Run) -> Iterator[OpenGateway]:
    """Opens the store of one gateway more on the test's database; all are closed at the end."""
    opened: list[GatewayStore] = []

    def open_one(**options: Any) -> GatewayStore:
        settings: dict[str, Any] = {"clock": clock, "timezone": "UTC"} | options
        opened.append(run(GatewayStore.open(location, **settings)))
        return opened[-1]

    yield open_one
    for store in opened:
        run(store.close())


@pytest.fixture
def gateway(open_gateway: OpenGateway) -> GatewayStore:
    return open_gateway()

"""The web page of a gateway, put together: the platform, those who listen, and the application that serves them."""

from __future__ import annotations

from typing import Self

from starlette.types import ASGIApp

from threadline.agents.echo import EchoAgent
from threadline.gateway.gateway import Gateway
from threadline.model.source import SessionSource
from threadline.store.facade import GatewayStore
from threadline.web.app import make_app
from threadline.web.auth import Auth
from threadline.web.guard import SiteNames
from threadline.web.live import POLL_SECONDS, LiveHub
from threadline.web.platform import WebPlatform
from threadline.web.requests import AnsweringAgent, ApiContext
from threadline.web.token import TokenFile


class WebPage:
    """The page of one gateway. It is made before the gateway, which needs its platform, and works until it is left."""

    def __init__(self, store: GatewayStore, *, poll_seconds: float = POLL_SECONDS) -> None:
        """`poll_seconds`: how often it is looked whether others have changed something."""
        self._gateway: Gateway | None = None
        self._store = store
        self.hub = LiveHub(store, lambda source: self._answering(source).name, poll_seconds=poll_seconds)
        self.platform = WebPlatform(self.hub, clock=store.clock)

    def application(self, gateway: Gateway, token: TokenFile, site: SiteNames) -> ASGIApp:
        """What answers requests; from now on changes are looked for."""
        self._gateway = gateway
        self.hub.start()
        web = ApiContext(
            store=self._store,
            auth=Auth(self._store, token),
            hub=self.hub,
            door=self.platform,
            agent_at=self._answering,
        )
        return make_app(web, site, readiness=gateway.not_ready, metrics=gateway.metrics_text)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends all streams."""
        await self.hub.close()

    def _answering(self, source: SessionSource) -> AnsweringAgent:
        if self._gateway is None:
            raise RuntimeError("the page is asked before its gateway works")
        name, agent = self._gateway.agent_at(source)
        return AnsweringAgent(name, isinstance(agent, EchoAgent))

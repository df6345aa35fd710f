"""What tests of a gateway's store share: how they await, and how they open one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from threadline.store.gateway import GatewayStore

T = TypeVar("T")
# Opens the store of one gateway more on the test's database.
OpenGateway: TypeAlias = Callable[..., GatewayStore]


class Run(Protocol):
    """Awaits something to its end."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...

"""What all verbs share: how a store decides, and what it tells of growth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from threadline.clock import Clock, Instant, to_instant
from threadline.model.address import SessionScope
from threadline.model.policy import ResetPolicies

IsBusy: TypeAlias = Callable[[str], bool]


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store decides: everything that is not in the database."""

    policies: ResetPolicies
    scope: SessionScope
    clock: Clock
    zone: str
    agent: str = "main"
    is_busy: IsBusy | None = None


class VerbsBase:
    """A verb checks its arguments before its first step, so bad input costs no transaction."""

    def __init__(self, settings: StoreSettings, grown: Callable[[], None]) -> None:
        """`grown` is told after whatever leaves work behind the writes: messages to index, sessions to list anew."""
        self._settings = settings
        self._grown = grown

    def _now(self) -> Instant:
        return to_instant(self._settings.clock.now())

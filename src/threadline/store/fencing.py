"""A database as the worker of one turn may use it: what it writes is written only while the turn is its own."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from threadline.errors import ThreadlineError
from threadline.store.engine.database import BatchStep, Database, Step, Tx, WriteStep
from threadline.store.leases import Held, require


class Fenced:
    """Carries steps out like the database within it; one that writes is `LeaseLost`, and writes nothing, for another's turn."""

    def __init__(self, database: Database, held: Held) -> None:
        self._database = database
        self._held = held

    def perform(self, step: Step) -> Any:
        """Carries a step out, blocking."""
        return self._database.perform(self._fenced(step))

    def perform_async(self, step: Step) -> Awaitable[Any]:
        """Carries a step out on the running event loop."""
        return self._database.perform_async(self._fenced(step))

    def _fenced(self, step: Step) -> Step:
        is_write = isinstance(step, WriteStep | BatchStep)
        return WriteStep(_while_held, (self._held, step), {}) if is_write else step


def _while_held(tx: Tx, held: Held, step: WriteStep | BatchStep) -> Any:
    result = _done(tx, step)
    # Behind what it does: sessions are locked before turns. Where the turn is another's, all of it is rolled back.
    require(tx, held)
    return result


def _done(tx: Tx, step: WriteStep | BatchStep) -> Any:
    if isinstance(step, WriteStep):
        return step.operation(tx, *step.arguments, **step.options)
    outcome = step.operation(tx, [step.request])[0]
    if isinstance(outcome, ThreadlineError):
        raise outcome
    return outcome

"""Verbs on usage and cost."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from threadline.errors import InvalidRequest
from threadline.ids import new_session_id
from threadline.model.session import SessionEntry
from threadline.model.usage import CostStatus, Usage, micros_of
from threadline.store import rows
from threadline.store.conversations import usage
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs.arguments import (
    Who,
    clean_or_none,
    clean_text,
    instant_of,
    person_named,
)
from threadline.store.verbs.base import VerbsBase


class UsageVerbs(VerbsBase):
    """What turns cost, once per turn, and reports of it."""

    def record_usage(
        self,
        session_id: str,
        turn_id: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        last_prompt_tokens: int | None = None,
        cost_usd: float | Decimal | None = None,
        cost_status: CostStatus = "unknown",
        model: str | None = None,
    ) -> Plan[SessionEntry]:
        """Adds what a turn cost to its session, once: told of again, the turn adds nothing."""
        spent = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=reasoning_tokens,
            last_prompt_tokens=last_prompt_tokens,
            cost_micros=micros_of(cost_usd),
            cost_status=cost_status,
            model=clean_or_none("model", model),
        )
        turn = clean_text("turn_id", turn_id)
        entry = yield from write(usage.record, self._now(), session_id, turn, spent)
        self._grown()
        return entry

    def update_session(self, /, key: str, *, turn_id: str | None = None, **spent: Any) -> Plan[SessionEntry | None]:
        """Adds usage to the current session of a conversation; the arguments are those of `record_usage`. `None`: unknown key."""
        turn = turn_id or f"update:{new_session_id(self._settings.clock.now())}"
        session_id: str | None = yield from read(usage.find_current_session_id, key)
        if session_id is None:
            return None
        return (yield from self.record_usage(session_id, turn, **spent))

    def usage_report(
        self,
        by: usage.UsageGroup = "day",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        person: Who = None,
    ) -> Plan[list[usage.UsageLine]]:
        """Usage and cost per `session`, `person`, `platform`, `model` or `day` (UTC), the dearest first."""
        if by not in ("session", "person", "platform", "model", "day"):
            raise InvalidRequest(f"usage is summed by session, person, platform, model or day, not by {by!r}")
        bounds = {"since": instant_of(since, -rows.END), "until": instant_of(until, rows.END)}
        return (yield from read(usage.report, by, person=person_named(person), **bounds))

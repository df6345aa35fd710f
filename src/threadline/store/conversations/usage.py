"""Tokens and cost of turns."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec

from threadline.clock import Instant, from_instant
from threadline.errors import InvalidRequest
from threadline.model.session import SessionEntry
from threadline.model.usage import CostStatus, Usage, dollars_of, micros_of
from threadline.store import rows
from threadline.store.conversations import records
from threadline.store.engine.database import Step, Tx, leaving_work, read, write
from threadline.store.rows import StoredSession
from threadline.store.verbs import (
    Group,
    Mode,
    PersonRef,
    Store,
    clean_or_none,
    clean_text,
    parse_instant,
    person_name_of,
    verb,
)

UsageGroup: TypeAlias = Literal["session", "person", "platform", "model", "day"]
_MICROSECONDS_A_DAY = 86_400_000_000


class UsageSummary(msgspec.Struct, frozen=True):
    """Sums over the turns of one session, person, platform, model or day (UTC)."""

    group: str | None
    turns: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost_micros: int

    @property
    def estimated_cost_usd(self) -> float:
        """Dollars; exact sums are in `cost_micros`."""
        return dollars_of(self.cost_micros)


def record(tx: Tx, at: Instant, session_id: str, turn_id: str, usage: Usage) -> SessionEntry:
    """Add a turn's usage, once: a second call for the turn adds nothing."""
    session = records.get_session(tx, session_id, lock=True)
    added = tx.run(
        "add_usage",
        session_pk=session.pk,
        turn_id=turn_id,
        session_id=session_id,
        person=session.entry.owner,
        platform=session.entry.platform,
        model=usage.model or session.entry.model,
        at=at,
        **_amounts(usage),
        cost_status=usage.cost_status,
    )
    if added:
        _add_to_session(tx, session, usage, at)
    return records.get_entry(tx, session_id)


def find_current_session_id(tx: Tx, key: str) -> str | None:
    """Return the id of a conversation's current session; `None` for an unknown key."""
    address = tx.find("find_address_session", key=key)
    return None if address is None else str(address[0])


def report(tx: Tx, by: UsageGroup, *, since: Instant, until: Instant, person: str | None) -> list[UsageSummary]:
    """Return one summary for each group, the most expensive first."""
    summaries = [UsageSummary(*row) for row in tx.rows("usage_by", by=by, since=since, until=until, person=person)]
    if by != "day":
        return summaries
    return [msgspec.structs.replace(line, group=_day(line.group)) for line in summaries]


def _add_to_session(tx: Tx, session: StoredSession, usage: Usage, at: Instant) -> None:
    tx.run(
        "add_to_state",
        **_amounts(usage),
        last_prompt_tokens=usage.last_prompt_tokens,
        cost_status=session.entry.cost_status if usage.cost_status == "unknown" else usage.cost_status,
        at=at,
        session_pk=session.pk,
    )
    if usage.model is not None and usage.model != session.entry.model:
        tx.run("set_model", model=usage.model, session_pk=session.pk)


def _amounts(usage: Usage) -> dict[str, int]:
    """Return the amounts that can be summed."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_micros": usage.cost_micros,
    }


def _day(days: str | None) -> str:
    return from_instant(int(days or 0) * _MICROSECONDS_A_DAY).date().isoformat()


class UsageRecords(Group[Mode]):
    """Tokens and cost of turns, counted once per turn."""

    @verb
    def record(
        store: Store[Any],
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
    ) -> Step[SessionEntry]:
        """Add a turn's usage to its session, once: a second call for the turn adds nothing."""
        usage = _checked_usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=reasoning_tokens,
            last_prompt_tokens=last_prompt_tokens,
            cost_usd=cost_usd,
            cost_status=cost_status,
            model=model,
        )
        return leaving_work(write(record, store.now(), session_id, clean_text("turn_id", turn_id), usage))

    @verb
    def update_session(
        store: Store[Any], /, key: str, *, turn_id: str | None = None, **spent: Any
    ) -> Step[SessionEntry | None]:
        """Add usage to the current session of a conversation; the arguments are those of `record_usage`. `None`: unknown key."""
        at, new_id = store.now_with_id()
        usage = _checked_usage(**spent)
        return leaving_work(
            write(_record_for_key, at, key, clean_text("turn_id", turn_id or f"update:{new_id}"), usage)
        )

    @verb
    def report(
        _: Store[Any],
        by: UsageGroup = "day",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        person: PersonRef = None,
    ) -> Step[list[UsageSummary]]:
        """Return usage and cost by `session`, `person`, `platform`, `model` or `day` (UTC), the most expensive first."""
        if by not in ("session", "person", "platform", "model", "day"):
            raise InvalidRequest(f"usage is summed by session, person, platform, model or day, not by {by!r}")
        bounds = {"since": parse_instant(since, -rows.END), "until": parse_instant(until, rows.END)}
        return read(report, by, person=person_name_of(person), **bounds)


def _checked_usage(*, cost_usd: float | Decimal | None = None, model: str | None = None, **tokens: Any) -> Usage:
    return Usage(cost_micros=micros_of(cost_usd), model=clean_or_none("model", model), **tokens)


def _record_for_key(tx: Tx, at: Instant, key: str, turn_id: str, usage: Usage) -> SessionEntry | None:
    session_id = find_current_session_id(tx, key)
    return None if session_id is None else record(tx, at, session_id, turn_id, usage)

"""What is told at the end of a turn: why it ended, what it is about, how full the model is, and what it cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from threadline.agents.acp.choices import choice_of
from threadline.agents.acp.process import AgentSession
from threadline.model.safe_text import safe_line
from threadline.model.usage import micros_of
from threadline.ports.agent import ContextWindow, Event, Notice, Titled, UsageOf
from threadline.rpc import acp
from threadline.texts import acp_agents as texts

_REASONS = {
    "refusal": texts.DECLINED,
    "max_tokens": texts.OUT_OF_TOKENS,
    "max_turn_requests": texts.OUT_OF_STEPS,
}
_TITLE_CHARS = 120
# What stands before the person's words in a prompt, and how much of it tells that it is that.
_PREAMBLES = (texts.TOLD, texts.BEFORE, texts.MEANWHILE)
_TELLING_CHARS = 20
_MODEL_CHARS = 100
# An agent says of itself what it costs. Beyond this it is no number that anybody has to pay for a turn.
_MOST_TOKENS = 1_000_000_000
_MOST_DOLLARS = 1_000.0


def last_events(session: AgentSession, response: acp.PromptResponse) -> Iterator[Event]:
    """The events that end a turn. What they tell is told once."""
    if session.title is not None:
        title = safe_line(session.title, _TITLE_CHARS)
        if title and not _is_ours(title):
            yield Titled(title)
        session.title = None
    window = session.window
    if window is not None and 0 <= window.used <= _MOST_TOKENS and 0 < window.size <= _MOST_TOKENS:
        yield ContextWindow(window.used, window.size)
    if (usage := _usage(session, response)) is not None:
        yield usage
    if (reason := _REASONS.get(response.stop_reason)) is not None:
        yield Notice(reason)


def _is_ours(title: str) -> bool:
    """Whether the agent named its session by what we had put before the person's words."""
    return any(title.startswith(told[:_TELLING_CHARS]) for told in _PREAMBLES)


def _usage(session: AgentSession, response: acp.PromptResponse) -> UsageOf | None:
    used, dollars = response.usage, _cost(session)
    session.window = None
    if used is None and dollars is None:
        return None
    model = choice_of(session, "model")
    return UsageOf(
        input_tokens=_tokens(used.input_tokens if used else 0),
        output_tokens=_tokens(used.output_tokens if used else 0),
        cache_read_tokens=_tokens(used.cached_read_tokens if used else 0),
        cache_write_tokens=_tokens(used.cached_write_tokens if used else 0),
        reasoning_tokens=_tokens(used.thought_tokens if used else 0),
        cost_micros=0 if dollars is None else micros_of(dollars),
        cost_status="unknown" if dollars is None else "estimated",
        model=None if model is None else safe_line(model.current, _MODEL_CHARS),
    )


def _cost(session: AgentSession) -> float | None:
    """What the turn cost: agents tell what the whole session has, so far."""
    window = session.window
    if window is None or window.cost is None or window.cost.currency != "USD" or not math.isfinite(window.cost.amount):
        return None
    before, session.paid = session.paid, window.cost.amount
    return None if before is None else min(max(0.0, window.cost.amount - before), _MOST_DOLLARS)


def _tokens(count: int | None) -> int:
    return min(max(0, count or 0), _MOST_TOKENS)

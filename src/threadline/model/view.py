"""Views: which messages of a conversation the model sees, as a short list of spans over append-only logs.

Every message has one number: its session's number in the high bits, its position in that session's log in the
low bits. So a log is a contiguous range of numbers, and a span of it is a pair of numbers, both ends included.
The last span of a view is *open*: it reaches to the end of the session's own log, and messages appended there
are visible at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

SEQ_BITS = 24
MAX_SEQ = (1 << SEQ_BITS) - 1


class Span(msgspec.Struct, frozen=True, order=True):
    """The messages `lo` to `hi` of one log, both included."""

    lo: int
    hi: int


class View(msgspec.Struct, frozen=True):
    """The shown messages, in order, and those that compaction folded: not shown, but still found by search."""

    shown: tuple[Span, ...]
    folded: tuple[Span, ...] = ()


def message_number(log: int, seq: int) -> int:
    """Return the number of the `seq`-th message of a log. The first is 1."""
    return (log << SEQ_BITS) | seq


def log_of(number: int) -> int:
    """Return the log of a message."""
    return number >> SEQ_BITS


def seq_of(number: int) -> int:
    """Return a message's position in its log."""
    return number & MAX_SEQ


def open_span(log: int, after: int = 0) -> Span:
    """Return the span of a log after its `after`-th message, future messages included."""
    return Span(message_number(log, after + 1), message_number(log, MAX_SEQ))


def new_view(log: int) -> View:
    """Return the view of an empty session."""
    return View((open_span(log),))


def cut_before(view: View, number: int, *, log: int, last_seq: int) -> View:
    """Return the view without `number` and all messages after it. Messages appended from now on are shown."""
    return View(_reopened(_before(view.shown, number), log, last_seq), view.folded)


def cut_after(view: View, number: int, *, log: int, last_seq: int) -> View:
    """Return the view up to and including `number`. Messages appended from now on are shown."""
    return View(_reopened([*_before(view.shown, number), Span(number, number)], log, last_seq), view.folded)


def forked_view(view: View, *, from_log: int, last_seq: int, log: int) -> View:
    """Return the view of a fork: all that `view` shows now, then the fork's own log. No message is copied."""
    return View(_reopened(_closed(view.shown, from_log, last_seq), log, 0), view.folded)


def rewritten_view(view: View, shown: Iterable[Span], *, log: int, last_seq: int) -> View:
    """Return the view that shows `shown` instead. Messages that it no longer shows are folded.

    `last_seq` includes the messages just appended.
    """
    kept = _reopened(list(shown), log, last_seq)
    hidden = _without([*view.folded, *_closed(view.shown, log, last_seq)], kept)
    return View(kept, merge_spans(hidden))


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same messages in ascending order, in as few spans as possible."""
    out: list[Span] = []
    for span in sorted(spans):
        if out and span.lo <= out[-1].hi + 1 and log_of(span.lo) == log_of(out[-1].lo):
            out[-1] = Span(out[-1].lo, max(out[-1].hi, span.hi))
        else:
            out.append(span)
    return tuple(out)


def spans_of(numbers: Sequence[int]) -> list[Span]:
    """Return numbers as spans, in the order given."""
    out: list[Span] = []
    for number in numbers:
        if out and number == out[-1].hi + 1:
            out[-1] = Span(out[-1].lo, number)
        else:
            out.append(Span(number, number))
    return out


def is_visible(view: View, number: int) -> bool:
    """Return whether the message is part of the view, shown or folded."""
    return any(span.lo <= number <= span.hi for span in (*view.shown, *view.folded))


def all_spans(view: View, *, log: int, last_seq: int) -> tuple[Span, ...]:
    """Return all messages that the view shows now or folded, in chronological order.

    Every log is older than its forks, so the order of numbers is chronological.
    """
    return merge_spans([*_closed(view.shown, log, last_seq), *view.folded])


def spans_up_to(spans: Iterable[Span], number: int) -> list[Span]:
    """Return the part of ascending spans up to and including `number`."""
    return [Span(span.lo, min(span.hi, number)) for span in spans if span.lo <= number]


def neighbours(view: View, number: int, *, log: int, last_seq: int) -> tuple[int | None, int | None]:
    """Return the messages directly before and after `number` in the view; None where there is none."""
    for spans in (_closed(view.shown, log, last_seq), view.folded):
        for place, span in enumerate(spans):
            if span.lo <= number <= span.hi:
                before = number - 1 if number > span.lo else (spans[place - 1].hi if place else None)
                following = spans[place + 1].lo if place + 1 < len(spans) else None
                return before, number + 1 if number < span.hi else following
    return None, None


def _before(spans: Iterable[Span], number: int) -> list[Span]:
    out: list[Span] = []
    for span in spans:
        if span.lo <= number <= span.hi:
            if span.lo < number:
                out.append(Span(span.lo, number - 1))
            return out
        out.append(span)
    return out


def _closed(spans: Iterable[Span], log: int, last_seq: int) -> list[Span]:
    """Return the spans as of now: the open one ends at the log's last message, or is left out if empty."""
    tip = message_number(log, last_seq)
    closed = (Span(s.lo, min(s.hi, tip)) if log_of(s.lo) == log else s for s in spans)
    return [s for s in closed if s.lo <= s.hi]


def _reopened(spans: Iterable[Span], log: int, last_seq: int) -> tuple[Span, ...]:
    """Return the spans without future messages, followed by the open one. Adjacent spans are merged."""
    runs: list[Span] = []
    for span in (*_closed(spans, log, last_seq), open_span(log, last_seq)):
        if runs and runs[-1].hi + 1 == span.lo:
            runs[-1] = Span(runs[-1].lo, span.hi)
        else:
            runs.append(span)
    return tuple(runs)


def _without(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    remaining = list(spans)
    for gone in removed:
        remaining = [piece for span in remaining for piece in _minus(span, gone)]
    return remaining


def _minus(span: Span, gone: Span) -> list[Span]:
    if gone.hi < span.lo or span.hi < gone.lo:
        return [span]
    pieces = [Span(span.lo, gone.lo - 1), Span(gone.hi + 1, span.hi)]
    return [piece for piece in pieces if piece.lo <= piece.hi]

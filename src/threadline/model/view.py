"""What the model sees of a conversation: a short list of spans over append-only logs.

Every message has one number: its session's number in the high bits, its place in that session's log in the
low ones. So a log is one contiguous range of numbers, and a span of it is a pair of them, both ends included.
The last span of a view is *open*: it reaches to the end of the session's own log, and what is appended there
shows at once.
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
    """What is shown, in order, and what compaction folded away: not shown, but still found by search."""

    shown: tuple[Span, ...]
    folded: tuple[Span, ...] = ()


def message_number(log: int, seq: int) -> int:
    """The number of the `seq`-th message of a log; the first is 1."""
    return (log << SEQ_BITS) | seq


def log_of(number: int) -> int:
    """The log that a message stands in."""
    return number >> SEQ_BITS


def seq_of(number: int) -> int:
    """A message's place in its log."""
    return number & MAX_SEQ


def open_span(log: int, after: int = 0) -> Span:
    """All of a log after its `after`-th message, and all that will be appended."""
    return Span(message_number(log, after + 1), message_number(log, MAX_SEQ))


def new_view(log: int) -> View:
    """The view of a session that starts from nothing."""
    return View((open_span(log),))


def cut_before(view: View, number: int, *, log: int, last_seq: int) -> View:
    """The view without `number` and all that comes after it; what is appended from now on shows."""
    return View(_reopened(_before(view.shown, number), log, last_seq), view.folded)


def cut_after(view: View, number: int, *, log: int, last_seq: int) -> View:
    """The view up to and with `number`; what is appended from now on shows."""
    return View(_reopened([*_before(view.shown, number), Span(number, number)], log, last_seq), view.folded)


def forked_view(view: View, *, from_log: int, last_seq: int, log: int) -> View:
    """The view of a fork: all that `view` shows now, then the fork's own log. Its size costs nothing."""
    return View(_reopened(_closed(view.shown, from_log, last_seq), log, 0), view.folded)


def rewritten_view(view: View, shown: Iterable[Span], *, log: int, last_seq: int) -> View:
    """The view that shows `shown` instead; what it no longer shows is folded.

    `last_seq` counts what was just appended.
    """
    kept = _reopened(list(shown), log, last_seq)
    hidden = _without([*view.folded, *_closed(view.shown, log, last_seq)], kept)
    return View(kept, merge_spans(hidden))


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same messages in ascending order, in as few spans as it takes."""
    out: list[Span] = []
    for span in sorted(spans):
        if out and span.lo <= out[-1].hi + 1 and log_of(span.lo) == log_of(out[-1].lo):
            out[-1] = Span(out[-1].lo, max(out[-1].hi, span.hi))
        else:
            out.append(span)
    return tuple(out)


def spans_of(numbers: Sequence[int]) -> list[Span]:
    """Numbers in the order they are shown, as runs."""
    out: list[Span] = []
    for number in numbers:
        if out and number == out[-1].hi + 1:
            out[-1] = Span(out[-1].lo, number)
        else:
            out.append(Span(number, number))
    return out


def is_visible(view: View, number: int) -> bool:
    """Whether the view shows the message or folded it away."""
    return any(span.lo <= number <= span.hi for span in (*view.shown, *view.folded))


def all_spans(view: View, *, log: int, last_seq: int) -> tuple[Span, ...]:
    """All that the view shows now, and all that was folded away, in the order in which it was said.

    Every log is older than the forks that show it, so the order of numbers is that of time.
    """
    return merge_spans([*_closed(view.shown, log, last_seq), *view.folded])


def spans_up_to(spans: Iterable[Span], number: int) -> list[Span]:
    """Of spans in ascending order what is not beyond `number`."""
    return [Span(span.lo, min(span.hi, number)) for span in spans if span.lo <= number]


def neighbours(view: View, number: int, *, log: int, last_seq: int) -> tuple[int | None, int | None]:
    """The messages that stand before and after `number` where it is read, and only those: never more of a log than is shown."""
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
    """The spans as they stand now: the open one ends at the log's last message, or goes if it is empty."""
    tip = message_number(log, last_seq)
    closed = (Span(s.lo, min(s.hi, tip)) if log_of(s.lo) == log else s for s in spans)
    return [s for s in closed if s.lo <= s.hi]


def _reopened(spans: Iterable[Span], log: int, last_seq: int) -> tuple[Span, ...]:
    """The spans in their order, without what is not there yet, then the open one; neighbours are one span."""
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

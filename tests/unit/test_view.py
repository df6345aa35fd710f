from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.model.view import (
    MAX_SEQ,
    Span,
    View,
    cut_after,
    cut_before,
    forked_view,
    log_of,
    merge_spans,
    message_number,
    new_view,
    open_span,
    rewritten_view,
    seq_of,
    spans_of,
)


def numbers_in(spans: Iterable[Span], *, log: int, last_seq: int) -> list[int]:
    """Every message that the spans show now, one by one."""
    tip = message_number(log, last_seq)
    return [n for s in spans for n in range(s.lo, (min(s.hi, tip) if log_of(s.lo) == log else s.hi) + 1)]


@dataclass
class Conversation:
    """A session beside what it should show: explicit lists of message numbers."""

    log: int
    view: View
    last_seq: int = 0
    shown: list[int] = field(default_factory=list)
    folded: set[int] = field(default_factory=set)
    seen: list[int] = field(default_factory=list)

    def append(self, count: int) -> None:
        new = [message_number(self.log, self.last_seq + n + 1) for n in range(count)]
        self.last_seq += count
        self.shown += new
        self.seen += new

    def cut(self, at: int, *, keep: bool) -> None:
        if not self.shown:
            return
        at %= len(self.shown)
        change = cut_after if keep else cut_before
        self.view = change(self.view, self.shown[at], log=self.log, last_seq=self.last_seq)
        self.shown = self.shown[: at + keep]

    def fork(self, log: int) -> Conversation:
        view = forked_view(self.view, from_log=self.log, last_seq=self.last_seq, log=log)
        return Conversation(log, view, 0, list(self.shown), set(self.folded), list(self.seen))

    def rewrite(self, chosen: Iterable[int], summaries: int) -> None:
        before = set(self.shown)
        self.append(summaries)
        fresh = self.seen[len(self.seen) - summaries :]
        old = [self.seen[n % len(self.seen)] for n in chosen] if self.seen else []
        self.shown = list(dict.fromkeys([*fresh, *old]))
        self.folded = (self.folded | before) - set(self.shown)
        self.view = rewritten_view(self.view, spans_of(self.shown), log=self.log, last_seq=self.last_seq)

    def check(self) -> None:
        shown = numbers_in(self.view.shown, log=self.log, last_seq=self.last_seq)
        folded = numbers_in(self.view.folded, log=self.log, last_seq=self.last_seq)
        assert shown == self.shown
        assert folded == sorted(self.folded)
        assert len(set(shown)) == len(shown)
        assert self.view.shown[-1].hi == message_number(self.log, MAX_SEQ)
        assert self.view.folded == merge_spans(self.view.folded)
        # No more spans than the order of the messages asks for, and the open one.
        assert len(self.view.shown) <= len(spans_of(shown)) + 1


small = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 4)),
    st.tuples(st.just("cut_before"), st.integers(0, 30)),
    st.tuples(st.just("cut_after"), st.integers(0, 30)),
    st.tuples(st.just("fork"), st.booleans()),
    st.tuples(st.just("rewrite"), st.tuples(st.lists(st.integers(0, 30), max_size=8), st.integers(0, 2))),
    st.tuples(st.just("compress"), st.tuples(st.integers(0, 5), st.integers(0, 2))),
)


def take(step: tuple[str, object], conversation: Conversation, log: int) -> Conversation:
    match step:
        case "append", int(count):
            conversation.append(count)
        case "cut_before", int(at):
            conversation.cut(at, keep=False)
        case "cut_after", int(at):
            conversation.cut(at, keep=True)
        case "fork", _:
            return conversation.fork(log)
        case "rewrite", (list(chosen), int(summaries)):
            conversation.rewrite(chosen, summaries)
        case "compress", (int(tail), int(summaries)):
            kept = conversation.shown[len(conversation.shown) - tail :] if tail else []
            conversation.rewrite([conversation.seen.index(number) for number in kept], summaries)
    return conversation


@settings(max_examples=400, deadline=None)
@given(plan=st.lists(st.tuples(small, steps), max_size=25))
def test_in_any_order_of_changes_a_view_shows_what_explicit_lists_would(
    plan: list[tuple[int, tuple[str, object]]],
) -> None:
    conversations = [Conversation(1, new_view(1))]
    for which, step in plan:
        chosen = conversations[which % len(conversations)]
        reached = take(step, chosen, log=len(conversations) + 1)
        if reached is not chosen:
            conversations.append(reached)
        # All of them, because a change of one must not show in another.
        for conversation in conversations:
            conversation.check()


def test_two_hundred_undos_and_answers_leave_a_view_of_one_span_each() -> None:
    conversation = Conversation(1, new_view(1))
    conversation.append(2)
    for _ in range(200):
        conversation.append(2)
        conversation.cut(2, keep=False)
    conversation.append(1)

    conversation.check()
    assert len(conversation.view.shown) == 2


def test_forks_of_forks_stay_one_level_deep() -> None:
    conversation = Conversation(1, new_view(1))
    for log in range(2, 40):
        conversation = conversation.fork(log)
    conversation.check()

    assert conversation.view == new_view(39)


def test_what_was_folded_and_is_shown_again_is_no_longer_folded() -> None:
    conversation = Conversation(1, new_view(1))
    conversation.append(4)
    conversation.rewrite([], 1)
    assert conversation.folded == {message_number(1, n) for n in (1, 2, 3, 4)}

    conversation.rewrite([1, 2], 0)

    conversation.check()
    assert conversation.view.folded == (
        Span(message_number(1, 1), message_number(1, 1)),
        Span(message_number(1, 4), message_number(1, 5)),
    )


@given(log=st.integers(0, 2**38), seq=st.integers(0, MAX_SEQ))
def test_a_number_tells_its_log_and_place_and_fits_a_database_integer(log: int, seq: int) -> None:
    number = message_number(log, seq)

    assert (log_of(number), seq_of(number)) == (log, seq)
    assert number < 2**63


@pytest.mark.parametrize("after", [0, 1, 100])
def test_an_open_span_starts_after_what_is_there_and_reaches_to_the_end_of_its_log(after: int) -> None:
    span = open_span(7, after)

    assert span == Span(message_number(7, after + 1), message_number(7, MAX_SEQ))


numbers = st.lists(
    st.builds(message_number, st.integers(1, 3), st.integers(1, 6) | st.just(MAX_SEQ)),
    unique=True,
    max_size=20,
)


@settings(max_examples=200)
@given(order=numbers)
def test_spans_keep_numbers_in_order_and_joining_sorts_them_into_as_few_as_it_takes(order: list[int]) -> None:
    runs = spans_of(order)
    merged = merge_spans(runs)

    assert [n for s in runs for n in range(s.lo, s.hi + 1)] == order
    assert [n for s in merged for n in range(s.lo, s.hi + 1)] == sorted(order)
    assert list(merged) == spans_of(sorted(order))


@settings(max_examples=200)
@given(pairs=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)), max_size=8))
def test_spans_that_overlap_join_into_spans_that_do_not(pairs: list[tuple[int, int]]) -> None:
    spans = [Span(message_number(1, lo), message_number(1, lo + length)) for lo, length in pairs]
    merged = merge_spans(spans)

    assert [n for s in merged for n in range(s.lo, s.hi + 1)] == sorted(
        {n for s in spans for n in range(s.lo, s.hi + 1)}
    )

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.errors import InvalidRequest
from threadline.model.usage import Usage, dollars_of, micros_of


@pytest.mark.parametrize(
    ("dollars", "micros"),
    [
        (None, 0),
        (0, 0),
        (1, 1_000_000),
        (0.1, 100_000),
        ("0.1", 100_000),
        (Decimal("0.1"), 100_000),
        (1e-7, 0),
        ("0.0000005", 0),
        ("0.0000015", 2),
        ("0.0000025", 2),
        ("0.00000250001", 3),
        (123456.789012, 123_456_789_012),
        (-0.25, -250_000),
    ],
)
def test_money_is_kept_in_whole_micros_rounded_half_to_even(dollars: Any, micros: int) -> None:
    assert micros_of(dollars) == micros


@settings(max_examples=200)
@given(amount=st.decimals(min_value=-1_000_000, max_value=1_000_000, places=9))
def test_any_amount_is_rounded_as_exact_fractions_are(amount: Decimal) -> None:
    assert micros_of(amount) == round(Fraction(amount) * 1_000_000)


@settings(max_examples=200)
@given(micros=st.integers(0, 10**14))
def test_whole_micros_survive_the_way_to_dollars_and_back(micros: int) -> None:
    assert micros_of(dollars_of(micros)) == micros


@pytest.mark.parametrize(
    "wrong",
    ["abc", "", float("nan"), float("inf"), "sNaN", "1e999999999", 10**30, True, Decimal("-Infinity")],
)
def test_what_is_no_amount_of_money_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="amount of money"):
        micros_of(wrong)


def test_the_total_counts_all_that_was_read_and_written_and_reasoning_once() -> None:
    usage = Usage(input_tokens=1, output_tokens=20, cache_read_tokens=300, cache_write_tokens=4000, reasoning_tokens=15)

    assert usage.total_tokens == 4321


@pytest.mark.parametrize(
    "name",
    [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "last_prompt_tokens",
        "cost_micros",
    ],
)
@pytest.mark.parametrize("value", [-1, 1.5, "7", True, 2**62])
def test_a_count_that_is_no_whole_number_or_negative_or_too_large_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=name):
        Usage(**{name: value})


@pytest.mark.parametrize("status", ["free", "", None, ["actual"]])
def test_a_cost_status_that_nobody_knows_is_refused(status: Any) -> None:
    with pytest.raises(InvalidRequest, match="use one of actual, estimated, included, unknown"):
        Usage(cost_status=status)


def test_what_was_not_told_counts_as_nothing() -> None:
    usage = Usage()

    assert (usage.total_tokens, usage.cost_micros, usage.last_prompt_tokens) == (0, 0, None)
    assert usage.cost_status == "unknown"

"""Tokens and cost of a turn."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal, TypeAlias, get_args

import msgspec

from threadline.errors import InvalidRequest

CostStatus: TypeAlias = Literal["unknown", "estimated", "actual", "included"]
COST_STATUSES: frozenset[str] = frozenset(get_args(CostStatus))

_MICROS = Decimal(1_000_000)
_LARGEST = 2**62
_COUNTERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of one turn. `input_tokens` excludes the cache; `output_tokens` includes reasoning.

    Cost is counted in whole micro-dollars, so that sums are exact.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    last_prompt_tokens: int | None = None
    cost_micros: int = 0
    cost_status: CostStatus = "unknown"
    model: str | None = None

    def __post_init__(self) -> None:
        for name in (*_COUNTERS, "cost_micros"):
            _require_count(name, getattr(self, name))
        if self.last_prompt_tokens is not None:
            _require_count("last_prompt_tokens", self.last_prompt_tokens)
        if not isinstance(self.cost_status, str) or self.cost_status not in COST_STATUSES:
            raise InvalidRequest(
                f"{self.cost_status!r} is no cost status: use one of {', '.join(sorted(COST_STATUSES))}"
            )

    @property
    def total_tokens(self) -> int:
        """Return the number of all tokens that the model read and wrote."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens


def micros_of(dollars: float | Decimal | str | None) -> int:
    """Return whole micro-dollars, rounded half to even. A float counts as the decimal that it prints as.

    Raises `InvalidRequest` for an invalid or too large amount.
    """
    if dollars is None:
        return 0
    try:
        micros = Decimal(str(dollars)) * _MICROS
    except ArithmeticError as cause:
        raise InvalidRequest(f"{dollars!r} is no amount of money; use dollars, such as 0.25") from cause
    # Checked before the conversion: a short text can mean a number of a billion digits.
    if not micros.is_finite() or abs(micros) >= _LARGEST:
        raise InvalidRequest(f"{dollars!r} is no amount of money; use dollars, such as 0.25")
    return int(micros.to_integral_value(ROUND_HALF_EVEN))


def dollars_of(micros: int) -> float:
    """Return dollars, for display."""
    return micros / 1_000_000


def _require_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise InvalidRequest(f"{name} must be a whole number that is not negative, not {value!r}")

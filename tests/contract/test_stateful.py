"""Any sequence of verbs, on every engine, beside a toy store in memory."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from threadline.testing.contracts.storage.stateful import compare_with_oracle

SOAK = int(os.environ.get("THREADLINE_SOAK", "200"))


def test_a_store_shows_what_a_toy_store_shows(renew_database: Callable[[], str]) -> None:
    compare_with_oracle(renew_database, examples=25, steps=40)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_however_long_it_goes_on(renew_database: Callable[[], str]) -> None:
    compare_with_oracle(renew_database, examples=SOAK, steps=100)

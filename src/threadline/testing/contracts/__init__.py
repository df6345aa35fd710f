"""Contracts as test suites: what every implementation of a seam has to pass. Needs pytest and hypothesis."""

import pytest

# Before the suites are imported, so that their failures show values and not only lines.
pytest.register_assert_rewrite(
    "threadline.testing.contracts.storage",
    "threadline.testing.contracts.agents",
    "threadline.testing.contracts.platforms",
)

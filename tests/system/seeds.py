"""Chance that can be had again: every seed is written out, and `THREADLINE_SEED` gives it back."""

from __future__ import annotations

import os
import random
import sys


def seeded(what: str) -> random.Random:
    """A source of chance whose seed stands in the test's output."""
    seed = int(os.environ.get("THREADLINE_SEED") or random.randrange(1 << 32))
    sys.stdout.write(f"{what}: seed {seed} (THREADLINE_SEED={seed} repeats it)\n")
    return random.Random(seed)


def soak_count() -> int:
    """How many rounds `make soak N=…` asks for."""
    return int(os.environ.get("THREADLINE_SOAK", "200"))

"""The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from threadline.config.settings import DB, Settings


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. A variable that is empty counts as not set."""
    found = os.environ if environment is None else environment
    return Settings(db=found.get(DB.variable) or None)

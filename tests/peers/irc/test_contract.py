"""The worked example of the page on platforms keeps the platform contract against Debian's ngircd."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from tests.peers.irc.world import irc_world

from threadline.testing.contracts.platforms import OpenWorld, PlatformContract

pytestmark = pytest.mark.peers


class TestIrc(PlatformContract):
    @pytest.fixture
    def open_world(self, tmp_path: Path) -> OpenWorld:
        return functools.partial(irc_world, tmp_path)

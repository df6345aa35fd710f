"""The platform contract on Telegram: through the real client library, against a strict Bot API on this machine."""

from __future__ import annotations

import pytest
from tests.contract.telegram_service import telegram_service

from threadline.testing.contracts.platforms import OpenWorld, PlatformContract


class TestTelegram(PlatformContract):
    @pytest.fixture
    def open_world(self) -> OpenWorld:
        return telegram_service

"""Telegram as a platform."""

from threadline.platforms.telegram.platform import Telegram, TelegramOptions, make_telegram

__all__ = ["Telegram", "TelegramOptions", "make_telegram"]

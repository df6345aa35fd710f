"""Telegram as a platform."""

from threadline.platforms.telegram.platform import TelegramOptions, TelegramPlatform, make_telegram

__all__ = ["TelegramPlatform", "TelegramOptions", "make_telegram"]

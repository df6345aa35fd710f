"""Texts that replace Telegram messages without text, and our own messages that would be empty."""

from __future__ import annotations

from typing import Final

LOCATION: Final = "[Location: {latitude:.6f}, {longitude:.6f}]"
VENUE: Final = "[Place: {title}, {address}, at {latitude:.6f}, {longitude:.6f}]"
CONTACT: Final = "[Contact: {name}, {phone}]"
POLL: Final = "[Poll: {question} Answers: {options}]"
CHECKLIST: Final = "[Checklist: {title}: {tasks}]"
TASK_DONE: Final = "{text} (done)"
DICE: Final = "[{emoji} that fell on {value}]"
GAME: Final = "[Game: {title}]"
INVOICE: Final = "[Invoice: {title}]"
STICKER: Final = "[Sticker: {emoji}]"
STORY: Final = "[A story, which I can't see]"
PAID_MEDIA: Final = "[Pictures or videos that have to be paid for, which I can't see]"
# Telegram refuses messages without a visible character.
NOTHING_TO_SEE: Final = "(an empty message)"

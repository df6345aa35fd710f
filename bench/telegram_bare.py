"""The floor of `bench.telegrams`: a bot of a few lines that answers each message with its own words, and keeps nothing."""

from __future__ import annotations

import sys

from telegram import Update
from telegram.ext import Application, ApplicationBuilder, ContextTypes, MessageHandler, filters


async def echo(update: Update, _: ContextTypes.DEFAULT_TYPE) -> None:
    """Says the same."""
    if update.message is not None and update.message.text is not None:
        await update.message.reply_text(update.message.text)


def application(url: str, token: str) -> Application:  # type: ignore[type-arg]
    """The bot, as its library's first page shows it. It has no limiter unless one is given."""
    made = ApplicationBuilder().token(token).base_url(f"{url}/bot").base_file_url(f"{url}/file/bot").build()
    made.add_handler(MessageHandler(filters.TEXT, echo))
    return made


if __name__ == "__main__":
    _, place, key = sys.argv
    application(place, key).run_polling()

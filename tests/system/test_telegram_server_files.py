"""Files in the Bot API on this machine: uploads alone and in albums, downloads, and what is refused."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
import telegram
from telegram import InputMediaAnimation, InputMediaAudio, InputMediaDocument, InputMediaPhoto, InputMediaVideo
from tests.system.telegram_client import PNG, refusal, with_client

from threadline.testing.telegram import BotApi


@pytest.mark.parametrize("kind", ["photo", "document", "voice", "audio", "video", "animation"])
def test_a_file_goes_out_and_comes_back(kind: str) -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        send: Awaitable[telegram.Message] = getattr(client, f"send_{kind}")(
            chat, PNG, caption="look", filename="Ä fine name.bin"
        )
        sent = await send
        [shown] = api.messages(chat)
        [file] = shown.files
        assert (file.kind, file.name, file.body, shown.text) == (kind, "Ä fine name.bin", PNG, "look")
        attached: Any = getattr(sent, kind)
        there = await client.get_file(attached[-1].file_id if kind == "photo" else attached.file_id)
        assert bytes(await there.download_as_bytearray()) == PNG

    with_client(scenario)


def test_what_people_send_can_be_downloaded() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        api.say("see", document=api.add_file(b"a paper", name="paper.md", mime="text/markdown"))
        [update] = await client.get_updates()
        assert update.message is not None
        assert update.message.document is not None
        assert (update.message.caption, update.message.document.file_name) == ("see", "paper.md")
        there = await update.message.document.get_file()
        assert bytes(await there.download_as_bytearray()) == b"a paper"

    with_client(scenario)


def test_a_file_that_is_there_already_can_be_sent_again() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        sent = await client.send_photo(chat, PNG)
        await client.send_photo(chat, sent.photo[-1].file_id)
        assert [shown.files[0].body for shown in api.messages(chat)] == [PNG, PNG]
        wrong = client.send_document(chat, sent.photo[-1].file_id)
        assert await refusal(wrong) == "Can't use file of type photo as document"

    with_client(scenario)


def test_an_album_is_shown_as_one() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        await client.send_media_group(chat, [InputMediaPhoto(PNG, caption="both"), InputMediaVideo(b"moving")])
        first, second = api.messages(chat)
        assert first.album == second.album is not None
        assert [(shown.text, shown.files[0].kind) for shown in (first, second)] == [("both", "photo"), ("", "video")]

    with_client(scenario)


@pytest.mark.parametrize(
    "media",
    [
        [InputMediaPhoto(PNG)],
        [InputMediaPhoto(PNG)] * 11,
        [InputMediaPhoto(PNG), InputMediaDocument(b"paper")],
        [InputMediaAudio(b"song"), InputMediaDocument(b"paper")],
        [InputMediaAnimation(b"loop"), InputMediaAnimation(b"loop")],
        [InputMediaPhoto(PNG), InputMediaPhoto(b"no picture")],
        [InputMediaPhoto(PNG, caption="x" * 1025), InputMediaPhoto(PNG)],
    ],
)
def test_an_album_that_telegram_would_not_take_is_refused_whole(media: list[Any]) -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        await refusal(client.send_media_group(chat, media))
        assert api.messages(chat) == []

    with_client(scenario)


def test_a_file_that_telegram_would_not_take_is_refused() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        assert await refusal(client.send_photo(chat, b"no picture")) == "Image_process_failed"
        assert await refusal(client.send_document(chat, b"")) == "File must be non-empty"
        assert "caption is too long" in await refusal(client.send_photo(chat, PNG, caption="😀" * 513))
        assert await refusal(client.send_document(chat, "unknown-file")) == "Wrong file identifier/http url specified"
        await client.send_photo(chat, PNG, caption="😀" * 512)
        assert len(api.messages(chat)) == 1

    with_client(scenario)


def test_more_than_twenty_megabytes_can_not_be_downloaded() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        largest = api.add_file(bytes(20 * 1024 * 1024))
        assert len(await (await client.get_file(largest["file_id"])).download_as_bytearray()) == 20 * 1024 * 1024
        larger = api.add_file(bytes(20 * 1024 * 1024 + 1))
        assert await refusal(client.get_file(larger["file_id"])) == "File is too big"
        assert await refusal(client.get_file("unknown")) == "Invalid file_id"

    with_client(scenario)


def test_a_caption_can_be_changed_and_a_text_is_none() -> None:
    async def scenario(api: BotApi, client: telegram.Bot) -> None:
        chat = api.private().id
        photo = await client.send_photo(chat, PNG, caption="before")
        await client.edit_message_caption(chat, photo.message_id, caption="after")
        assert "no text in the message" in await refusal(client.edit_message_text("x", chat, photo.message_id))
        assert [(shown.text, shown.edits) for shown in api.messages(chat)] == [("after", ("before",))]

    with_client(scenario)

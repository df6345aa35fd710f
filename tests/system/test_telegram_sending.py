"""What the bot sends is shown as it was meant, and what goes wrong is told as what can be done about it."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.system.telegram_bot import Heard, listening, make_bot, opened, to, with_api

from threadline.model.inbound import Attachment
from threadline.platforms.shared import split
from threadline.ports.platform import (
    Ambiguous,
    BadMarkup,
    Button,
    Gone,
    NotDeclared,
    NotModified,
    Outgoing,
    OutgoingFile,
    PlatformError,
    RateLimited,
    TooLong,
    Transient,
)
from threadline.testing.telegram import BotApi, Fault, disconnect, hang, rate_limit, refuse, swallow

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
PICTURE = OutgoingFile(name="a.png", mime="image/png", body=PNG)
PAPER = OutgoingFile(name="a.pdf", mime="application/pdf", body=b"%PDF-1.7")
VOICE = OutgoingFile(name="a.ogg", mime="audio/ogg", body=b"OggS" + bytes(64))


def test_a_message_is_shown_with_its_markup_and_without_previews() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            message_id = await bot.send(to(chat), Outgoing(text="**hi** \U0001f600 `x`"), key="k")
        (shown,) = api.messages(chat)
        assert (str(shown.message_id), shown.text) == (message_id, "hi \U0001f600 x")
        assert [(one["type"], one["offset"], one["length"]) for one in shown.entities] == [
            ("bold", 0, 2),
            ("code", 6, 1),
        ]
        (sent,) = api.calls_of("sendMessage")
        assert json.loads(sent.parameters["link_preview_options"]) == {"is_disabled": True}

    with_api(scenario)


def test_an_answer_goes_to_its_topic_and_below_what_it_answers() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        forum = api.supergroup(forum=True)
        thread = api.topic(forum, "Cats")
        said = api.say("meow?", chat=forum, thread=thread)
        async with opened(make_bot(api)) as bot:
            await bot.send(to(forum, thread), Outgoing(text="meow", reply_to=str(said.message_id)), key="a")
            await bot.send(to(forum, thread), Outgoing(text="who?", reply_to="99999"), key="b")
            await bot.typing(to(forum, thread))
        meow, who = api.messages(forum, thread=thread)
        assert (meow.reply_to, who.reply_to) == (said.message_id, None)
        assert api.calls_of("sendChatAction")[0].parameters["message_thread_id"] == str(thread)

    with_api(scenario)


def test_a_streamed_message_ends_in_its_exact_text() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            message_id = await bot.send(to(chat), Outgoing(text="**It"), key="k")
            for text in ("**It is", "**It is** a `test", "**It is** a `test`"):
                await bot.edit(to(chat), message_id, Outgoing(text=text))
            with pytest.raises(NotModified):
                await bot.edit(to(chat), message_id, Outgoing(text="**It is** a `test`"))
        (shown,) = api.messages(chat)
        assert (shown.text, len(shown.edits)) == ("It is a test", 3)

    with_api(scenario)


def test_buttons_are_shown_pressed_and_taken_away() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        chat = api.private("ada")
        ask = Outgoing(text="May I?", buttons=(Button("Allow", "/approve ABCD"), Button("Don't", "/deny ABCD")))
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            message_id = await bot.send(to(chat), ask, key="k")
            (shown,) = api.messages(chat)
            assert shown.buttons == ["/approve ABCD", "/deny ABCD"]
            await bot.edit(to(chat), message_id, Outgoing(text="May I, please?", buttons=ask.buttons))
            assert api.messages(chat)[0].buttons == shown.buttons
            api.press(shown, "/approve ABCD")
            await api.wait_for(lambda: heard.events)
            await bot.edit(to(chat), message_id, Outgoing(text="I may."))
            assert api.messages(chat)[0].buttons == []
        assert (heard.inbound[0].button, heard.inbound[0].message_id) == ("/approve ABCD", message_id)

    with_api(scenario)


@pytest.mark.parametrize(
    ("file", "kind"), [(PICTURE, "photo"), (PAPER, "document"), (VOICE, "voice")], ids=["picture", "paper", "voice"]
)
def test_a_file_arrives_as_it_was_with_its_text_below(file: OutgoingFile, kind: str) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            message_id = await bot.send(to(chat), Outgoing(text="**look**", files=(file,)), key="k")
            await bot.edit(to(chat), message_id, Outgoing(text="look *here*"))
        (shown,) = api.messages(chat)
        (sent,) = shown.files
        assert (sent.kind, sent.body, shown.text) == (kind, file.body, "look here")
        assert (str(shown.message_id), shown.entities[0]["type"]) == (message_id, "italic")

    with_api(scenario)


def test_a_file_needs_no_text() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            await bot.send(to(chat), Outgoing(text="", files=(PAPER,)), key="k")
        (shown,) = api.messages(chat)
        assert (shown.text, shown.files[0].name) == ("", "a.pdf")

    with_api(scenario)


@pytest.mark.parametrize(("files", "kind"), [((PICTURE,) * 3, "photo"), ((PICTURE, PAPER), "document")])
def test_several_files_are_one_album(files: tuple[OutgoingFile, ...], kind: str) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            message_id = await bot.send(to(chat), Outgoing(text="look", files=files), key="k")
            await bot.edit(to(chat), message_id, Outgoing(text="look here"))
            with pytest.raises(NotDeclared):
                await bot.send(to(chat), Outgoing(text="look", files=(PICTURE,) * 11), key="k")
        shown = api.messages(chat)
        assert [one.files[0].kind for one in shown] == [kind] * len(files)
        assert [one.files[0].body for one in shown] == [file.body for file in files]
        assert len({one.album for one in shown}) == 1
        assert sorted(one.text for one in shown) == [""] * (len(files) - 1) + ["look here"]

    with_api(scenario)


def test_a_text_too_long_to_stand_below_a_file_comes_before_it_and_only_once() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        message = Outgoing(text="x" * 1025, files=(PICTURE,))
        async with opened(make_bot(api)) as bot:
            api.fail_next("sendPhoto", rate_limit(1))
            with pytest.raises(RateLimited):
                await bot.send(to(chat), message, key="k")
            text_id = await bot.send(to(chat), message, key="k")
        text, picture = api.messages(chat)
        assert (text.text, text.files, str(text.message_id)) == ("x" * 1025, (), text_id)
        assert (picture.text, picture.files[0].body) == ("", PNG)

    with_api(scenario)


def test_buttons_below_an_album_stand_below_its_text() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        message = Outgoing(text="", files=(PICTURE, PICTURE), buttons=(Button("Allow", "/approve A"),))
        async with opened(make_bot(api)) as bot:
            await bot.send(to(chat), message, key="k")
        assert [one.buttons for one in api.messages(chat)] == [["/approve A"], [], []]

    with_api(scenario)


@pytest.mark.parametrize("reason", ["PHOTO_INVALID_DIMENSIONS", "IMAGE_PROCESS_FAILED"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_picture_that_telegram_can_not_show_comes_as_a_document(reason: str, count: int) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        api.fail_next("sendPhoto" if count == 1 else "sendMediaGroup", refuse(400, f"Bad Request: {reason}"))
        async with opened(make_bot(api)) as bot:
            await bot.send(to(chat), Outgoing(text="look", files=(PICTURE,) * count), key="k")
        assert [one.files[0].kind for one in api.messages(chat)] == ["document"] * count

    with_api(scenario)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(swallow(), Ambiguous, id="done, and the line cut"),
        pytest.param(disconnect(), Ambiguous, id="the line cut"),
        pytest.param(refuse(502, "Bad Gateway"), Ambiguous, id="bad gateway"),
        pytest.param(hang(), Ambiguous, id="no answer"),
        pytest.param(rate_limit(3), RateLimited, id="too many"),
        pytest.param(refuse(403, "Forbidden: bot was blocked by the user"), Gone, id="blocked"),
        pytest.param(refuse(400, "Bad Request: can't parse entities: no"), BadMarkup, id="markup"),
        pytest.param(refuse(400, "Bad Request: message is too long"), TooLong, id="too long"),
        pytest.param(refuse(400, "Bad Request: something new"), PlatformError, id="something new"),
    ],
)
def test_what_goes_wrong_is_told_as_what_it_means(fault: Fault, error: type[PlatformError]) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        api.fail_next("sendMessage", fault)
        async with opened(make_bot(api, patience=0.5)) as bot:
            with pytest.raises(PlatformError) as caught:
                await bot.send(to(chat), Outgoing(text="hi"), key="k")
            assert type(caught.value) is error
            assert api.token not in str(caught.value)
            api.release()

    with_api(scenario)


def test_telegram_says_how_long_to_wait() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        api.fail_next("sendMessage", rate_limit(17))
        async with opened(make_bot(api)) as bot:
            with pytest.raises(RateLimited) as caught:
                await bot.send(to(api.private("ada")), Outgoing(text="hi"), key="k")
        assert caught.value.retry_after == 17

    with_api(scenario)


def test_what_never_left_is_surely_not_there() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            await api.go_away()
            # Until the kept connection is seen to be closed: on one that looks open, nobody could be so sure.
            await asyncio.sleep(0.05)
            with pytest.raises(Transient):
                await bot.send(to(chat), Outgoing(text="hi"), key="k")
            await api.come_back()
            await bot.send(to(chat), Outgoing(text="hi"), key="k")
        assert api.texts(chat) == ["hi"]

    with_api(scenario)


def test_chats_and_messages_that_are_gone_are_told() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat, group = api.private("ada"), api.supergroup()
        async with opened(make_bot(api)) as bot:
            message_id = await bot.send(to(chat), Outgoing(text="hi"), key="k")
            api.remove(api.messages(chat)[0])
            with pytest.raises(Gone):
                await bot.edit(to(chat), message_id, Outgoing(text="hi!"))
            api.block("ada")
            with pytest.raises(Gone, match="blocked"):
                await bot.send(to(chat), Outgoing(text="hi"), key="k")
            with pytest.raises(Gone, match="thread"):
                await bot.send(to(group, 77), Outgoing(text="hi"), key="k")
            api.kick(group)
            with pytest.raises(Gone, match="kicked"):
                await bot.send(to(group), Outgoing(text="hi"), key="k")

    with_api(scenario)


def test_a_group_that_became_a_supergroup_is_written_to_under_its_new_id() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group = api.group()
        async with opened(make_bot(api)) as bot:
            before = await bot.send(to(group), Outgoing(text="before"), key="a")
            new = api.migrate(group)
            for key in ("b", "c"):
                await bot.send(to(group), Outgoing(text="after", reply_to=before), key=key)
            with pytest.raises(Gone):
                await bot.edit(to(group), before, Outgoing(text="changed"))
        assert [(one.text, one.reply_to) for one in api.messages(new)] == [("after", None), ("after", None)]
        assert api.texts(group) == ["before"]

    with_api(scenario)


def test_markup_that_is_too_long_can_be_sent_plain_in_full() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        text = "| a | b |\n|---|---|\n" + "\n".join(
            f"| {'x' * 100} | {n} |" if n == 0 else f"| {n} | y |" for n in range(90)
        )
        (part,) = split(text, 4096, "utf16")
        async with opened(make_bot(api)) as bot:
            with pytest.raises(BadMarkup):
                await bot.send(to(chat), Outgoing(text=part), key="k")
            await bot.send(to(chat), Outgoing(text=part, is_plain=True), key="k.plain")
        assert api.texts(chat) == [text]

    with_api(scenario)


def test_what_has_no_sign_to_see_is_shown_all_the_same() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            for text in (" ", "\u200b", "\ud800"):
                await bot.send(to(chat), Outgoing(text=text), key="k")
        assert len(api.texts(chat)) == 3
        assert all(api.texts(chat))

    with_api(scenario)


def test_a_button_that_says_too_much_sends_nothing() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat = api.private("ada")
        async with opened(make_bot(api)) as bot:
            with pytest.raises(PlatformError, match="64 bytes"):
                await bot.send(to(chat), Outgoing(text="?", buttons=(Button("Go", "x" * 65),)), key="k")
        assert api.texts(chat) == []

    with_api(scenario)


def test_files_that_came_in_can_be_had() -> None:
    async def scenario(api: BotApi, heard: Heard) -> None:
        body = bytes(range(256)) * 1_000
        api.say("read", document=api.add_file(body, name="a.bin"))
        async with opened(make_bot(api)) as bot, listening(bot, heard):
            await api.wait_for(lambda: heard.events)
            (file,) = heard.inbound[0].attachments
            assert (file.name, file.size) == ("a.bin", len(body))
            assert await bot.fetch(file, at_most=len(body)) == body
            with pytest.raises(TooLong):
                await bot.fetch(file, at_most=len(body) - 1)
            # Whatever was said of its size before.
            for size in (None, 1):
                with pytest.raises(TooLong):
                    await bot.fetch(Attachment(handle=file.handle, size=size), at_most=len(body) - 1)
            with pytest.raises(Gone):
                await bot.fetch(Attachment(handle="no such file"), at_most=10)
            api.fail_next("getFile", swallow())
            with pytest.raises(Transient):
                await bot.fetch(file, at_most=len(body))

    with_api(scenario)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (refuse(429, "Too Many Requests"), Transient),
        (refuse(500, "Internal Server Error"), Transient),
        (refuse(502, "Bad Gateway"), Transient),
        (refuse(404, "Not Found"), Gone),
    ],
)
def test_a_file_that_can_not_be_had_just_now_is_not_gone(how: Fault, error: type[Exception]) -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        file = Attachment(handle=api.add_file(b"a paper")["file_id"])
        api.fail_next("download", how)
        async with opened(make_bot(api)) as bot:
            with pytest.raises(error):
                await bot.fetch(file, at_most=100)
            assert await bot.fetch(file, at_most=100) == b"a paper"

    with_api(scenario)


def test_a_send_in_flight_is_finished_when_it_is_closed_and_none_begins_after() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat, bot = api.private("ada"), make_bot(api)
        await bot.open()
        api.fail_next("sendMessage", hang())
        sending = asyncio.create_task(bot.send(to(chat), Outgoing(text="hi"), key="k"))
        await api.wait_for(lambda: api.hanging)
        closing = asyncio.create_task(bot.close())
        await asyncio.sleep(0)
        with pytest.raises(Transient):
            await bot.send(to(chat), Outgoing(text="too late"), key="l")
        api.release()
        assert await sending == str(api.messages(chat)[0].message_id)
        await closing
        with pytest.raises(Transient):
            await bot.open()
        assert api.texts(chat) == ["hi"]

    with_api(scenario)


def test_closing_does_not_wait_for_ever() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat, bot = api.private("ada"), make_bot(api)
        await bot.open()
        api.fail_next("sendMessage", hang())
        sending = asyncio.create_task(bot.send(to(chat), Outgoing(text="hi"), key="k"))
        await api.wait_for(lambda: api.hanging)
        async with asyncio.timeout(5):
            await bot.close()
        with pytest.raises(Ambiguous):
            await sending

    with_api(scenario)


def test_a_hint_does_not_wait_behind_messages_that_telegram_would_not_take_yet() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group = api.supergroup()
        async with opened(make_bot(api)) as bot:
            for number in range(20):
                await bot.send(to(group), Outgoing(text=str(number)), key=str(number))
            waiting = asyncio.create_task(bot.send(to(group), Outgoing(text="one more"), key="more"))
            await bot.typing(to(group))
            assert not waiting.done()
            await bot.close()
            with pytest.raises(Transient):
                await waiting
        assert len(api.texts(group)) == 20

    with_api(scenario)


def test_without_limits_everything_goes_out_at_once() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        group = api.supergroup()
        async with opened(make_bot(api, limits=False)) as bot:
            sends = (bot.send(to(group), Outgoing(text=str(number)), key=str(number)) for number in range(200))
            ids = await asyncio.gather(*sends)
        assert len(set(ids)) == len(api.texts(group)) == 200

    with_api(scenario)


def test_nothing_can_be_sent_before_it_is_opened() -> None:
    async def scenario(api: BotApi, _: Heard) -> None:
        chat, bot = api.private("ada"), make_bot(api)
        with pytest.raises(Transient):
            await bot.send(to(chat), Outgoing(text="hi"), key="k")
        await bot.close()

    with_api(scenario)

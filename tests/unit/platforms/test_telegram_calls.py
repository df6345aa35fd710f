"""Messages become calls of the Bot API."""

from __future__ import annotations

from typing import Any

import pytest

from threadline.model.delivery import Target
from threadline.platforms.telegram.markup import FormattedText
from threadline.platforms.telegram.menu import shown_commands
from threadline.platforms.telegram.sending import (
    chat_of,
    chat_parameters,
    edit_call,
    file_call,
    fits_caption,
    keyboard,
    message_number,
    text_call,
    with_file_name,
    with_reply,
)
from threadline.ports.platform import Button, Gone, OfferedCommand, Outgoing, OutgoingFile, PlatformError

HERE: dict[str, object] = {"chat_id": -9}
PICTURE = OutgoingFile(name="a.png", mime="image/png", body=b"\x89PNG")
VOICE = OutgoingFile(name="a.ogg", mime="audio/ogg; codecs=opus", body=b"OggS")
PAPER = OutgoingFile(name="a.pdf", mime="application/pdf", body=b"%PDF")


def to(chat: str, thread: str | None = None) -> Target:
    return Target(platform="telegram", chat_id=chat, thread_id=thread)


def test_chats_are_numbers_where_they_can_be() -> None:
    assert chat_of(to("-1001002000001")) == -1001002000001
    assert chat_of(to("@news")) == "@news"


def test_a_topic_goes_along() -> None:
    assert chat_parameters(to("-9", "30")) == {"chat_id": -9, "message_thread_id": 30}
    with pytest.raises(Gone):
        chat_parameters(to("-9", "thirty"))


def test_a_reply_is_shown_even_where_what_it_answers_is_gone() -> None:
    reply = with_reply(HERE, Outgoing(text="", reply_to="7"))["reply_parameters"]
    assert reply == {"message_id": 7, "allow_sending_without_reply": True}
    assert with_reply(HERE, Outgoing(text="", reply_to="elsewhere")) == HERE


def test_no_link_is_previewed() -> None:
    for call in (text_call(HERE, FormattedText("x"), ()), edit_call(HERE, "7", FormattedText("x"), ())):
        assert call.parameters["link_preview_options"] == {"is_disabled": True}


def test_an_id_that_is_not_telegrams_is_of_no_message() -> None:
    assert message_number("7") == 7
    with pytest.raises(Gone):
        message_number("abc")


def test_two_buttons_stand_beside_each_other_and_many_below() -> None:
    assert [len(row) for row in rows(2)] == [2]
    assert [len(row) for row in rows(5)] == [1] * 5
    assert keyboard(()) == {}


def rows(count: int) -> Any:
    markup: Any = keyboard([Button(str(number), f"/approve {number}") for number in range(count)])
    return markup["reply_markup"]["inline_keyboard"]


@pytest.mark.parametrize("value", ["", "x" * 65, "é" * 33])
def test_a_button_that_says_too_much_is_refused_before_anything_is_sent(value: str) -> None:
    with pytest.raises(PlatformError, match="'Allow'"):
        keyboard([Button("Allow", value)])


@pytest.mark.parametrize(
    ("file", "method"), [(PICTURE, "sendPhoto"), (VOICE, "sendVoice"), (PAPER, "sendDocument")], ids=["p", "v", "d"]
)
def test_a_file_is_sent_as_what_it_is(file: OutgoingFile, method: str) -> None:
    assert file_call(HERE, [file], None, (), as_documents=False).method == method
    assert file_call(HERE, [file], None, (), as_documents=True).method == "sendDocument"


def test_a_picture_that_is_too_large_is_a_document() -> None:
    large = OutgoingFile(name="a.png", mime="image/png", body=bytes(10_000_001))
    assert file_call(HERE, [large], None, (), as_documents=False).method == "sendDocument"


def test_pictures_make_an_album_with_one_text() -> None:
    call = file_call(HERE, [PICTURE, PICTURE], FormattedText("both"), (), as_documents=False)
    assert call.method == "sendMediaGroup"
    assert call.parameters["media"] == [
        {"type": "photo", "media": "attach://file0", "caption": "both"},
        {"type": "photo", "media": "attach://file1"},
    ]
    assert call.parameters["file1"] == PICTURE


def test_different_files_make_an_album_of_documents() -> None:
    media: Any = file_call(HERE, [PICTURE, PAPER], None, (), as_documents=False).parameters["media"]
    assert [one["type"] for one in media] == ["document", "document"]


def test_a_text_below_files_is_short_and_an_album_has_no_buttons() -> None:
    one, two = (
        Outgoing(text="", files=(PICTURE,)),
        Outgoing(text="", files=(PICTURE, PICTURE), buttons=(Button("a", "b"),)),
    )
    assert fits_caption(FormattedText("\U0001f600" * 512), one)
    assert not fits_caption(FormattedText("\U0001f600" * 513), one)
    assert not fits_caption(FormattedText("x"), two)


@pytest.mark.parametrize(
    ("name", "shown"), [("", "file"), ("a\r\nb.txt", "a b.txt"), ("\ud800.txt", "\ufffd.txt"), ("x" * 300, "x" * 200)]
)
def test_a_files_name_can_stand_in_a_request(name: str, shown: str) -> None:
    assert with_file_name(OutgoingFile(name=name, mime="", body=b"")).name == shown


def test_the_menu_holds_what_telegram_takes() -> None:
    offered = [OfferedCommand("new", "Start afresh"), OfferedCommand("Big", "no"), OfferedCommand("x" * 33, "no")]
    offered += [OfferedCommand("bare", " "), OfferedCommand("long", "y" * 300)]
    assert shown_commands(offered) == [
        {"command": "new", "description": "Start afresh"},
        {"command": "bare", "description": "bare"},
        {"command": "long", "description": "y" * 256},
    ]
    assert len(shown_commands([OfferedCommand(f"c{number}", "x") for number in range(150)])) == 100

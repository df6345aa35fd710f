"""A bot is made of its settings, or it is said what is wrong with them; the token is shown nowhere."""

from __future__ import annotations

import pytest

from threadline.errors import InvalidRequest
from threadline.platforms.registry import PlatformSetup, known_platforms, make_platform
from threadline.platforms.telegram import TelegramOptions, TelegramPlatform, make_telegram
from threadline.ports.platform import Fetches, ListensAlone, OffersCommands

TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"


def settings(**options: object) -> PlatformSetup:
    return PlatformSetup("tg", "work", {"token": TOKEN} | options)


def test_it_comes_through_the_same_door_as_every_platform() -> None:
    assert "telegram" in known_platforms()
    made = make_platform("telegram", settings())
    assert isinstance(made, TelegramPlatform)
    assert (made.name, made.account) == ("tg", "work")


def test_it_offers_commands_fetches_files_and_listens_alone() -> None:
    made = make_telegram(settings())
    assert isinstance(made, OffersCommands)
    assert isinstance(made, Fetches)
    assert isinstance(made, ListensAlone)


def test_it_listens_under_the_bots_number_and_never_under_its_token() -> None:
    assert make_telegram(settings()).listens_as == "telegram:110201543"


@pytest.mark.parametrize(
    "options",
    [
        {"token": "abc"},
        {"token": ""},
        {"token": f"{TOKEN}/getMe"},
        {"token": f" {TOKEN}"},
        {"token": 7},
        {"base_url": "example.org"},
        {"base_url": "ftp://example.org"},
        {"tokn": "x"},
    ],
)
def test_wrong_options_are_told_without_the_token(options: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="'tg'") as caught:
        make_telegram(settings(**options))
    assert TOKEN not in str(caught.value)


def test_options_show_no_token() -> None:
    assert TOKEN not in repr(TelegramOptions(token=TOKEN))


def test_what_it_can_do_is_declared() -> None:
    can = TelegramPlatform.capabilities
    assert (can.max_length, can.length_unit, can.album) == (4096, "utf16", 10)
    assert can.edit_pause("dm") == 1.0
    assert can.edit_pause("group") == 3.0
    assert not can.idempotent_send

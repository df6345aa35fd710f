"""The lines of the worked example: what people on IRC say is read, and what goes out is nothing but words."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threadline import InvalidRequest
from threadline.model.inbound import Inbound, Unreadable
from threadline.platforms.registry import PlatformSetup

EXAMPLE = Path(__file__).parents[2] / "docs" / "extending" / "irc"
THEN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    sys.path.insert(0, str(EXAMPLE))


@pytest.fixture
def codec() -> Any:
    from threadline_irc import codec  # type: ignore[import-not-found]

    return codec


@pytest.mark.parametrize(
    ("raw", "nick", "command", "params"),
    [
        (b":Ada!~a@host PRIVMSG #team :well: so\r\n", "Ada", "PRIVMSG", ("#team", "well: so")),
        (b"PING :irc.example.net\r\n", "", "PING", ("irc.example.net",)),
        (b":irc.example.net 001 us :Welcome to IRC\r\n", "irc.example.net", "001", ("us", "Welcome to IRC")),
        (b"@time=2026-01-05T12:00:00Z :Ada PRIVMSG us :\r\n", "Ada", "PRIVMSG", ("us", "")),
        (":Ada PRIVMSG us :grüß".encode("latin-1"), "Ada", "PRIVMSG", ("us", "grüß")),
        (":Ada PRIVMSG us :grüß 🌊".encode(), "Ada", "PRIVMSG", ("us", "grüß 🌊")),
    ],
)
def test_a_line_is_read(codec: Any, raw: bytes, nick: str, command: str, params: tuple[str, ...]) -> None:
    assert codec.read_line(raw) == codec.Line(nick, command, params)


@pytest.mark.parametrize("raw", [b"\r\n", b":\r\n", b": :\r\n", b":only-a-name\r\n", b"\x00\xff\r\n"])
def test_what_is_no_line_is_none(codec: Any, raw: bytes) -> None:
    assert codec.read_line(raw) is None


def test_nothing_that_is_sent_can_begin_another_line(codec: Any) -> None:
    assert codec.write_line("PRIVMSG", "#team", "a\r\nQUIT :b\x00\n") == b"PRIVMSG #team :aQUIT :b\r\n"
    assert list(codec.lines_of("one\r\n\n  \n\x01two\x01\nthree ")) == ["one", "two", "three"]


def read(codec: Any, raw: str) -> Any:
    line = codec.read_line(raw.encode())
    return codec.read_message(line, "Us", platform="irc", account="main", number="n-1", at=THEN)


@pytest.mark.parametrize(
    ("said", "text", "is_meant"),
    [
        ("Us: hello", "hello", True),
        ("@us, hello", "hello", True),
        ("what does us say?", "what does us say?", True),
        ("Us:", "Us:", True),
        ("trust me", "trust me", False),
        ("us-east is down", "us-east is down", False),
        ("\x02bold\x02 and \x0304,01red\x03 words", "bold and red words", False),
        ("\x01ACTION waves at us\x01", "waves at us", True),
    ],
)
def test_in_a_channel_it_is_told_what_is_meant_for_us(codec: Any, said: str, text: str, is_meant: bool) -> None:
    event = read(codec, f":Ada!~a@host PRIVMSG #Team :{said}")
    assert isinstance(event, Inbound)
    assert (event.text, event.mentions_us) == (text, is_meant)
    assert (event.source.chat_id, event.source.chat_type, event.source.chat_name) == ("#team", "group", "#Team")
    assert (event.source.user_id, event.source.user_name) == ("ada", "Ada")


def test_what_is_said_to_us_alone_is_meant_for_us(codec: Any) -> None:
    event = read(codec, ":Ad[a]!~a@host PRIVMSG Us :hello")
    assert isinstance(event, Inbound)
    assert (event.source.chat_id, event.source.chat_type, event.mentions_us) == ("ad{a}", "dm", True)


@pytest.mark.parametrize(
    "raw",
    [
        ":Ada NOTICE Us :automatic",
        ":us PRIVMSG #team :our own words",
        ":Ada PRIVMSG Us :\x01VERSION\x01",
        ":irc.example.net 372 Us :the message of the day",
    ],
)
def test_what_is_no_word_to_anybody_is_passed_over(codec: Any, raw: str) -> None:
    assert read(codec, raw) is None


def test_a_message_that_makes_no_sense_is_handed_on_as_such(codec: Any) -> None:
    for raw in ("PRIVMSG Us :from nobody", ":Ada PRIVMSG Us"):
        assert isinstance(read(codec, raw), Unreadable)


@pytest.mark.parametrize("options", [{}, {"server": "x"}, {"server": "x", "nick": "y", "port": "z"}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    from threadline_irc import make_irc

    with pytest.raises(InvalidRequest, match="irc"):
        make_irc(PlatformSetup("irc", options=options))

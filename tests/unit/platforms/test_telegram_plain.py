"""Words without markup are shown as they are, which is what the converter would make of them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from threadline.platforms.telegram.markup import PLAIN, FormattedText, convert, format_text, repair_surrogates
from threadline.ports.platform import Outgoing

WORDS = (
    "a",
    "Hello",
    "1",
    "12.",
    "3)",
    "...",
    "--",
    "(c)",
    "{a}",
    "@me",
    "/start",
    ":smile:",
    "https://example.org/a?b=c",
    *".-+=#:!',;%",
)
LETTERS = ("\u00e9", "\u6f22", "\U0001f44d", "\u200b", "\u00a0", "\u2028")
GAPS = (" ", "  ", "\n", "\n\n", "\n\n\n")
SIGNS = (*"*_`[]<>~$|^\\\t\r\0\ufdd0", "&amp;")
PIECES = st.one_of(*(st.sampled_from(pieces) for pieces in (WORDS, WORDS, LETTERS, GAPS, GAPS, SIGNS)))


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40))
def test_what_is_taken_for_plain_the_converter_gives_back(text: str) -> None:
    text = repair_surrogates(text)
    assume(PLAIN.fullmatch(text))
    assert convert(text) == FormattedText(text)


@pytest.mark.parametrize(
    "text",
    [
        "message-17",
        "It is 3.5 degrees: cold (for May), isn't it?",
        "One line.\nAnother one - and more.\n\nA paragraph; see https://example.org/a?b=c.",
        "\u6f22\u5b57 \U0001f44d\U0001f3fd",
    ],
)
def test_common_words_are_plain(text: str) -> None:
    assert PLAIN.fullmatch(text)
    assert format_text(Outgoing(text=text)) == FormattedText(text)


@pytest.mark.parametrize(
    "text",
    [
        "**a**",
        "a_b_",
        "`a`",
        "# a",
        "- a",
        "1. a",
        "> a",
        "a\n---",
        "a\n===",
        "| a |",
        "    a",
        "a\n\n\nb",
        "a &amp; b",
        "a  \nb",
    ],
)
def test_what_may_be_markup_is_not_plain(text: str) -> None:
    assert PLAIN.fullmatch(text) is None


def test_a_long_line_is_looked_at_once() -> None:
    # A pattern that tried every way to read it would not come to an end.
    assert PLAIN.fullmatch("word " * 100_000 + "*") is None

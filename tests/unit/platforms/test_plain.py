"""Markdown as plain text, and text that acts on terminals."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.platforms.shared import safe_text, to_plain_text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Title #\n\ntext", "Title\n\ntext"),
        ("Title\n=====\ntext", "Title\ntext"),
        ("**bold** and *it* and ***both*** and ~~gone~~", "bold and it and both and gone"),
        ("__bold__ and _it_", "bold and it"),
        ("**bold with _it_ inside**", "bold with it inside"),
        ("snake_case_name and __init__.py", "snake_case_name and __init__.py"),
        ("2 * 3 * 4 and a * b", "2 * 3 * 4 and a * b"),
        (r"\*not\* \_marked\_", "*not* _marked_"),
        ("`a*b*c` and ``x ` y``", "a*b*c and x ` y"),
        ("[Docs](https://e.org/a_(b)) here", "Docs (https://e.org/a_(b)) here"),
        ("[https://e.org](https://e.org)", "https://e.org"),
        ("![cat](https://e.org/c.png)", "cat (https://e.org/c.png)"),
        ("<https://e.org> <mailto:a@e.org>", "https://e.org a@e.org"),
        ("* one\n  + two\n- three\n1. four", "- one\n  - two\n- three\n1. four"),
        ("> quoted **words**", "> quoted words"),
        ("| a | *b* |\n|---|:-:|\n| 1 | 2 |", "a | b\n1 | 2"),
        ("```py\nx = **y**\n```\n**z**", "x = **y**\nz"),
        ("~~~\n```\n~~~", "```"),
        ("no markup at all, 5 < 6", "no markup at all, 5 < 6"),
    ],
)
def test_marks_go_and_words_stay(markdown: str, text: str) -> None:
    assert to_plain_text(markdown) == text


@given(st.text(st.sampled_from("ab *_~`[]()!#>|-\\\n<h:/"), max_size=80))
def test_every_letter_is_kept_whatever_the_marks(markdown: str) -> None:
    # What follows an opening fence on its line names the language and is shown by nobody.
    if "```" not in markdown and "~~~" not in markdown:
        assert [c for c in to_plain_text(markdown) if c in "ab"] == [c for c in markdown if c in "ab"]


def test_a_line_of_lone_marks_is_read_in_no_time() -> None:
    assert len(to_plain_text("*a " * 20_000)) == 60_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("\x9b2Jgone", "gone"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("safe\u202egnp.exe\u200f", "safegnp.exe"),
        ("tab\tstays", "tab\tstays"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
    ],
)
def test_what_acts_on_a_terminal_goes_and_the_words_stay(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text(max_size=80))
def test_inert_text_has_no_controls(text: str) -> None:
    assert {c for c in safe_text(text) if unicodedata.category(c) in ("Cc", "Cs")} <= {"\n", "\t"}

"""Markdown becomes text and entities, and no word of it is lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.platforms.shared import length, split
from threadline.platforms.telegram.markup import LONGEST_TEXT, FormattedText, format_text, repair_surrogates
from threadline.platforms.telegram.texts import NOTHING_TO_SEE
from threadline.ports.platform import BadMarkup, Outgoing, TooLong


def show(text: str, *, is_plain: bool = False) -> FormattedText:
    return format_text(Outgoing(text=text, is_plain=is_plain))


def marked(found: FormattedText) -> list[tuple[Any, str]]:
    """Each entity's type with the stretch that it covers."""
    units = found.text.encode("utf-16-le")
    return [
        (one["type"], units[2 * start : 2 * (start + size)].decode("utf-16-le"))
        for one in found.entities
        for start, size in [(int(str(one["offset"])), int(str(one["length"])))]
    ]


def test_markup_becomes_entities() -> None:
    found = show("**bold** _slanted_ `code` ~~gone~~ [here](https://example.org/a_(b))")
    assert found.text == "bold slanted code gone here"
    assert marked(found) == [
        ("bold", "bold"),
        ("italic", "slanted"),
        ("code", "code"),
        ("strikethrough", "gone"),
        ("text_link", "here"),
    ]
    assert found.entities[-1]["url"] == "https://example.org/a_(b)"


def test_entities_are_measured_in_utf16() -> None:
    assert marked(show("\U0001f600\U0001f600 **b** \U0001f468\u200d\U0001f469\u200d\U0001f467 `c`")) == [
        ("bold", "b"),
        ("code", "c"),
    ]


def test_a_code_block_keeps_every_sign_and_its_language() -> None:
    found = show("```python\n  if a < b || c || d:\n      cost = '$5' + \"$6\"\n```")
    assert found.text == "  if a < b || c || d:\n      cost = '$5' + \"$6\""
    assert found.entities == (
        {"type": "pre", "offset": 0, "length": length(found.text, "utf16"), "language": "python"},
    )


@pytest.mark.parametrize(
    "text",
    [
        "Use Array<String> or Map<K, V>",
        "<div>hello</div>",
        "<details>\n<summary>S</summary>\ntext\n</details>",
        "costs $5 and $6, in $HOME/$PATH",
        "if a || b || c",
        "a < b > c & d",
        "snake_case_name and 2 * 3 * 4",
        "line one\nline two",
        "<think>hm</think> answer",
    ],
)
def test_what_only_looks_like_markup_stays(text: str) -> None:
    assert show(text).text == text


def test_an_escaped_sign_loses_its_backslash_outside_of_code_alone() -> None:
    assert show(r"\$5 \< \* `\$5 \<`").text == r"$5 < * \$5 \<"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (r"\\<server>\share", r"\<server>\share"),
        (r"\\\\<server>\share", r"\\<server>\share"),
        (r"\\\<b> and \\<i>", r"\<b> and \<i>"),
        (r"\\$HOME/\\$PATH and \\\$5", r"\$HOME/\$PATH and \$5"),
        (r"`\\<b>\\$5` \\<https://example.org>", r"\\<b>\\$5 \https://example.org"),
    ],
)
def test_a_backslash_that_is_escaped_itself_hides_no_word(text: str, seen: str) -> None:
    assert show(text).text == seen


def test_what_telegram_makes_no_link_of_is_written_out() -> None:
    found = show("**see [main.py](src/main.py) now**, mail [Ada](mailto:ada@example.org), `then`")
    assert found.text == "see main.py (src/main.py) now, mail Ada (ada@example.org), then"
    assert marked(found) == [("bold", "see main.py (src/main.py) now"), ("code", "then")]


def test_a_list_has_no_signs_that_nobody_wrote() -> None:
    assert show("# Head\n\n- a\n- b\n\n1. c").text == "Head\n\n• a\n• b\n\n1. c"


def test_plain_text_is_shown_as_it_is() -> None:
    assert show("**not bold** <b> $x$ ||y||", is_plain=True) == FormattedText("**not bold** <b> $x$ ||y||")


@pytest.mark.parametrize("text", ["", "   \n", "\u200b\u2060", "\u202e"])
def test_what_shows_nothing_says_so(text: str) -> None:
    assert show(text).text == NOTHING_TO_SEE
    assert show(text, is_plain=True).text == NOTHING_TO_SEE


@pytest.mark.parametrize("text", ["\U0001fae8", "\U0001fae9 \U0001fae9", "\ue000", "\u0378"])
def test_a_sign_that_python_does_not_know_can_be_seen(text: str) -> None:
    assert show(text).text == show(text, is_plain=True).text == text
    assert show(f"**{text}**") == FormattedText(text, show("**" + "x" * length(text, "utf16") + "**").entities)


def test_markup_without_text_is_shown_as_it_was_written() -> None:
    assert show("[](https://example.org)").text == "[](https://example.org)"


def test_halves_of_signs_are_mended() -> None:
    assert repair_surrogates("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"
    assert show("\ud83d **b**").text == "\ufffd b"


def test_a_text_is_measured_after_its_markup_was_read() -> None:
    assert show("**" + "x" * (LONGEST_TEXT - 4) + "**").length == LONGEST_TEXT - 4
    assert show("\U0001f600" * (LONGEST_TEXT // 2)).length == LONGEST_TEXT
    with pytest.raises(BadMarkup):
        show("\U0001f600" * (LONGEST_TEXT // 2 + 1))
    with pytest.raises(TooLong):
        show("x" * (LONGEST_TEXT + 1), is_plain=True)


def test_a_table_that_grows_too_long_is_bad_markup() -> None:
    rows = "\n".join(f"|{'x' * 60}|y|" if row == 0 else "|a|b|" for row in range(100))
    with pytest.raises(BadMarkup):
        show(rows.replace("\n", "\n|-|-|\n", 1))


def test_the_parts_of_a_split_answer_show_all_of_its_code() -> None:
    code = "\n".join(f"print({number}, '\U0001f600')" for number in range(600))
    parts = [show(part) for part in split(f"Look:\n\n```python\n{code}\n```\n\nDone.", LONGEST_TEXT, "utf16")]
    assert all(part.length <= LONGEST_TEXT for part in parts)
    blocks = [text for part in parts for kind, text in marked(part) if kind == "pre"]
    assert len(blocks) > 2
    assert "\n".join(blocks) == code


@given(st.text(alphabet="ab<>$|*_`~[]()#-!\\ \n\U0001f600\ud800\u200b\ufdd0é", max_size=60))
def test_whatever_is_shown_can_be_seen_and_every_entity_lies_within(text: str) -> None:
    found = show(text)
    assert found.text.strip()
    assert found.text.encode("utf-8")
    for _, stretch in marked(found):
        assert stretch


@given(st.lists(st.text(alphabet="abc<>$|", min_size=1, max_size=6), min_size=1, max_size=8))
def test_no_letter_is_lost_between_signs_that_mean_nothing(words: list[str]) -> None:
    text = "x " + " ".join(words)
    assert [sign for sign in show(text).text if sign in "abc"] == [sign for sign in text if sign in "abc"]

"""Long texts in parts: within the limit, nothing lost, code blocks whole or closed and opened again."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.platforms.shared import length, split
from threadline.ports.platform import LengthUnit

_FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
_FLAGS = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
_ACCENTED = "e\u0301"
_UNITS: list[LengthUnit] = ["chars", "utf16", "bytes"]

_words = st.sampled_from(["a", "word", "Ende.", "ünï", "界", "😀", _FAMILY, _ACCENTED, "**b**", "x" * 70, "  ", "\t"])
_prose = st.lists(_words, max_size=30).map(" ".join)
_fences = st.sampled_from(["```", "~~~", "````", "  ```"])
_code = st.lists(st.sampled_from(["x = 1", "    deep()", "", "y" * 60, "~~~ no", "a b c d e f"]), max_size=12)
_blocks = st.builds(
    lambda fence, word, code, closed: "\n".join([fence + word, *code, *([fence] if closed else [])]),
    _fences,
    st.sampled_from(["", "py", "c++ {title=x}"]),
    _code,
    st.booleans(),
)
_texts = st.lists(st.one_of(_prose, _blocks), max_size=8).flatmap(
    lambda pieces: st.sampled_from(["\n", "\n\n", "\n \n\n"]).map(lambda gap: gap.join(pieces))
)


def fence_of(line: str) -> str | None:
    """The fence that a line can begin a code block with."""
    found = re.match(r"[ \t]{0,12}(`{3,}(?=[^`]*$)|~{3,})", line)
    return found.group(1) if found else None


def open_fences(text: str) -> list[tuple[str, str]]:
    """The opening line and the fence of the block that is still open at the end; empty where none is."""
    opened: list[tuple[str, str]] = []
    for line in text.split("\n"):
        if opened:
            mark = opened[0][1]
            if line.strip().startswith(mark) and not line.strip().strip(mark[0]):
                opened = []
        elif fence := fence_of(line):
            opened = [(line, fence)]
    return opened


def words(text: str) -> str:
    """The text without white space and without lines that are nothing but a fence and its language."""
    return "".join("".join(line.split()) for line in text.split("\n") if fence_of(line) is None)


@given(_texts, st.integers(40, 200), st.sampled_from(_UNITS))
@settings(max_examples=300, deadline=None)
def test_every_part_fits_and_together_they_say_the_same(text: str, limit: int, unit: LengthUnit) -> None:
    parts = split(text, limit, unit)

    assert [part for part in parts if length(part, unit) > limit or not part.strip()] == []
    assert words("\n".join(parts)) == words(text) or has_torn_fence_lines(text, limit, unit)
    if not open_fences(text):
        assert [part for part in parts if open_fences(part)] == [] or has_torn_fence_lines(text, limit, unit)


def has_torn_fence_lines(text: str, limit: int, unit: LengthUnit) -> bool:
    """Whether some fence, or some line of code that looks like one, is so long that the limit lets it be cut."""
    return any(fence_of(line) and 2 * (length(line, unit) + 30) > limit for line in text.split("\n"))


@given(st.text(max_size=300), st.integers(4, 60), st.sampled_from(_UNITS))
@settings(max_examples=500, deadline=None)
def test_any_text_fits_at_any_limit_and_loses_nothing(text: str, limit: int, unit: LengthUnit) -> None:
    parts = split(text, limit, unit)

    assert [part for part in parts if length(part, unit) > limit] == []
    if not any(mark in text for mark in ("```", "~~~")):
        assert "".join("".join(parts).split()) == "".join(text.split())


@given(st.lists(st.sampled_from([_ACCENTED, _FAMILY, _FLAGS[:2], "\U0001f44d\U0001f3fd", "a", "\r\n"]), max_size=60))
@settings(deadline=None)
def test_no_character_is_torn_apart(characters: list[str]) -> None:
    parts = split("".join(characters), 12)

    assert [part for part in parts if unicodedata.combining(part[0]) or part[0] in "\u200d\U0001f3fd"] == []
    assert [part for part in parts if part.endswith("\u200d")] == []
    assert all(len(re.findall("[\U0001f1e6-\U0001f1ff]", part)) % 2 == 0 for part in parts)


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\n"])
def test_nothing_to_see_is_no_part(text: str) -> None:
    assert split(text, 10) == []
    assert split(text * 20, 10) == []


def test_a_text_that_fits_stays_as_it_is() -> None:
    text = "  two lines,\n\nkept  \n"
    assert split(text, len(text)) == [text]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two.\n\nThree. Four\nfive", ["One. Two.", "Three. Four\nfive"]),
        ("One two three.\nFour. Five six seven", ["One two three.", "Four. Five six seven"]),
        ("One two three. Four five six seven", ["One two three.", "Four five six seven"]),
        ("One two three four five six seven", ["One two three four", "five six seven"]),
        ("一二三四五六七八九十。二二三四五六七八九十二三", ["一二三四五六七八九十。", "二二三四五六七八九十二三"]),
        ("0123456789" * 3, ["01234567890123456789", "0123456789"]),
    ],
    ids=["blank line", "line", "sentence", "word", "sentence without spaces", "anywhere"],
)
def test_it_is_cut_where_a_reader_would_pause(text: str, parts: list[str]) -> None:
    assert split(text, 20) == parts


def test_a_pause_near_the_beginning_does_not_make_a_tiny_part() -> None:
    assert split("Hi.\n\n" + "word " * 10, 30)[0] == "Hi.\n\nword word word word word"


def test_a_long_word_goes_whole_to_the_next_part_where_it_fits_there() -> None:
    assert split("see https://example.org/a-long-one", 30) == ["see", "https://example.org/a-long-one"]


def test_a_cut_code_block_is_closed_and_opened_with_the_same_fence_and_language() -> None:
    text = "Look:\n\n~~~~python title\n    one()\n    two()\n    three()\n~~~~\nDone."
    assert split(text, 44) == [
        "Look:\n\n~~~~python title\n    one()\n~~~~",
        "~~~~python title\n    two()\n    three()\n~~~~",
        "Done.",
    ]


def test_a_code_block_that_fits_in_one_part_is_not_cut() -> None:
    block = "```\n" + "line\n" * 6 + "```"
    assert split("Some words before it, enough of them.\n\n" + block, 60)[1:] == [block]


def test_a_block_that_was_never_closed_stays_open_at_the_end_only() -> None:
    parts = split("```sh\n" + "echo hello world\n" * 8, 60)
    assert [part.endswith("\n```") for part in parts] == [True, True, False]
    assert all(part.startswith("```sh\necho") for part in parts)


def test_no_part_ends_or_begins_with_an_empty_block() -> None:
    text = "Words up to here, and on.\n```py\nfirst_line()\nsecond_line()\n```\nAnd words after the code, to be sure."
    for limit in range(30, len(text)):
        assert not [part for part in split(text, limit) if re.search(r"```py\n```", part)], limit


def test_the_unit_decides_what_fits() -> None:
    assert [len(part) for part in split("😀" * 10, 10, "chars")] == [10]
    assert [len(part) for part in split("😀" * 10, 10, "utf16")] == [5, 5]
    assert [len(part) for part in split("😀" * 10, 10, "bytes")] == [2] * 5
    assert (length("é😀"), length("é😀", "utf16"), length("é😀", "bytes")) == (2, 3, 6)


def test_the_limit_wins_over_a_character_with_endless_accents() -> None:
    assert split("a" + "\u0301" * 25, 10) == ["a" + "\u0301" * 9, "\u0301" * 10, "\u0301" * 6]


def test_halves_of_surrogate_pairs_are_counted_and_not_parted() -> None:
    assert split("\ud83d\ude00" * 4, 5) == ["\ud83d\ude00" * 2] * 2
    assert length("\ud83d", "bytes") == 3


@pytest.mark.parametrize("limit", [3, 0, -1])
def test_a_limit_below_the_longest_character_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="4 or more"):
        split("text", limit)

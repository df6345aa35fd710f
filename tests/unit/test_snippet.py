"""Snippets: what is marked, and what only looks like it."""

from __future__ import annotations

import pytest

from threadline.store.text import make_snippet, parse_query


@pytest.mark.parametrize(
    ("query", "text", "snippet"),
    [
        ("cat", "concatenate the Cat", "concatenate the [[Cat]]"),
        ("cat", "category, cat", "category, [[cat]]"),
        ("cat*", "a bobcat in the Category", "a bobcat in the [[Category]]"),
        ("late cat", "the cat comes late", "the [[cat]] comes [[late]]"),
        ('"cat food"', "cat and cat food", "cat and [[cat food]]"),
        ("dog cat", "only a cat", "only a [[cat]]"),
    ],
)
def test_the_first_real_match_is_marked_not_letters_within_a_word(query: str, text: str, snippet: str) -> None:
    assert make_snippet(text, parse_query(query)) == snippet


def test_a_text_that_folding_lengthens_is_marked_in_the_original() -> None:
    assert make_snippet("Straße und cat", parse_query("cat")) == "Straße und [[cat]]"
    assert make_snippet("die Straße", parse_query("strasse")) == "die [[Straße]]"


@pytest.mark.parametrize("space", ["  ", "\n", "\t", "\r\n", "\u3000", "\x85", "\xa0", "\x1c", " \u2028 "])
def test_a_snippet_stands_on_one_line_with_single_spaces(space: str) -> None:
    text = f"{space}the{space}cat comes{space}late{space}"
    assert make_snippet(text, parse_query("cat")) == "the [[cat]] comes late"


def test_a_word_is_marked_wherever_it_follows_what_is_no_letter() -> None:
    assert make_snippet("(cat)_cat-cat", parse_query("cat")) == "([[cat]])_[[cat]]-[[cat]]"
    assert make_snippet("catcat c.a.t", parse_query("cat")) == "catcat c.a.t"

"""Text from strangers is only ever text: on a terminal, in JSON, in Markdown and on a page."""

from __future__ import annotations

import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.unit.conftest import Cli

from threadline import SessionEntry, SessionStore, TranscriptMessage
from threadline.clock import SystemClock
from threadline.model.message import MessageRef
from threadline.model.safe_text import safe_json, safe_line, safe_text
from threadline.testing import dm, user
from threadline.transfer.export import html, markdown

_ODD = "\x1b\x07\x9b\x9d[]\\;0m\r\n\t\v\x00\x7f\u200e\u202e\u2028\u2066\ufeff\ud800\U000e0041`~#*_<>&\"'|-=+ \U0001f469\u200daé"
_HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07rest",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\x9b2Jgone",
    "safe\u202egnp.exe",
    "```\n# heading\n```",
    "</pre><script>alert(1)</script>",
    "a\rb\u2028c",
    "\ud800 half",
    "[red]no[/red] :smile:",
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ends, and more", "0;never ends, and more"),
        ("\x9b2Jgone", "gone"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("\u202eabc\u200f", "abc"),
        ("tab\tstays", "tab\tstays"),
        ("\U0001f469\u200d\U0001f467 می\u200cروم", "\U0001f469\u200d\U0001f467 می\u200cروم"),
    ],
)
def test_what_acts_on_a_terminal_goes_and_the_words_stay(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text(st.one_of(st.sampled_from(_ODD), st.characters()), max_size=80))
def test_inert_text_has_no_controls_and_stays_as_it_is(text: str) -> None:
    shown = safe_text(text)
    assert {c for c in shown if unicodedata.category(c) in ("Cc", "Cs")} <= {"\n", "\t"}
    assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)
    assert safe_text(shown) == shown
    assert "\n" not in safe_line(text)
    assert len(safe_line(text, 10)) <= 10


@given(st.text(st.one_of(st.sampled_from(_ODD), st.characters()), max_size=80))
def test_inert_json_means_the_same_and_shows_no_controls(text: str) -> None:
    shown = safe_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(shown) == {text: [text]}
    assert all(unicodedata.category(c) not in ("Cc", "Cs") for c in shown)


@pytest.mark.parametrize("text", _HOSTILE)
def test_every_command_shows_names_titles_and_words_inert(text: str, store: SessionStore, cli: Cli) -> None:
    entry = store.get_or_create_session(dm(user_name=f"Ada {text}".replace("\ud800", "?")))
    session_id = entry.session_id
    store.append_to_transcript(session_id, user(f"findme {text}"))
    store.set_title(session_id, f"Plans {text}".replace("\ud800", "?"))
    for command in (
        ["sessions", "list"],
        ["sessions", "show", session_id],
        ["sessions", "search", "findme"],
        ["sessions", "export", session_id, "--format", "markdown"],
        ["sessions", "export", session_id, "--format", "html"],
        ["sessions", "show", session_id, "--json"],
    ):
        shown = cli(*command)
        assert shown.code == 0
        assert safe_text(shown.out) == shown.out
    assert cli("sessions", "show", session_id, "--json").json()["messages"][0]["message"] == user(f"findme {text}")


def _entry(title: str) -> SessionEntry:
    now = SystemClock().now()
    return SessionEntry(
        session_key="agent:main:telegram:dm:7",
        session_id="20260301_142200_3f9c2a7b51de",
        created_at=now,
        updated_at=now,
        active_at=now,
        origin=dm("7"),
        platform="telegram",
        chat_type="dm",
        title=title,
    )


def _message(text: str, role: str = "user", author: str | None = None) -> TranscriptMessage:
    ref = MessageRef("20260301_142200_3f9c2a7b51de", 1)
    message = {"role": role, "content": text, "tool_name": text}
    return TranscriptMessage(ref=ref, role=role, at=SystemClock().now(), author=author, message=message)


@settings(max_examples=150)
@given(st.lists(st.text(st.one_of(st.sampled_from(_ODD), st.characters()), min_size=1, max_size=60), max_size=3))
def test_in_markdown_whatever_people_write_stays_inside_its_fence(texts: list[str]) -> None:
    title = "title " + " ".join(texts)
    page = "".join(markdown(_entry(title), [_message(text, "user", f"telegram:{text}") for text in texts]))
    tokens = MarkdownIt("commonmark").parse(page)
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"] + ["h2"] * len(texts)
    assert [token.content for token in tokens if token.type == "fence"] == [
        safe_text(text) + "\n" for text in texts if safe_text(text) or text
    ]
    kinds = {"heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "fence"}
    assert {token.type for token in tokens} <= kinds
    inline = {child.type for token in tokens for child in token.children or ()}
    assert inline <= {"text", "text_special"}


class _Outline(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.quoted: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "pre":
            self.quoted.append("")

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["pre"] and self.quoted:
            self.quoted[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")


@settings(max_examples=150)
@given(st.lists(st.text(st.one_of(st.sampled_from(_ODD), st.characters()), min_size=1, max_size=60), max_size=3))
def test_in_html_whatever_people_write_stays_inside_its_element(texts: list[str]) -> None:
    page = "".join(html(_entry(" ".join(texts) or "x"), [_message(text) for text in texts]))
    outline = _Outline()
    outline.feed(page)
    assert set(outline.tags) <= {
        f"{slash}{tag}"
        for slash in ("", "/")
        for tag in ("html", "head", "meta", "title", "style", "body", "h1", "p", "article", "header", "b", "pre")
    }
    assert outline.tags.count("article") == len(texts)
    assert [words.removeprefix("\n") for words in outline.quoted] == [safe_text(text) for text in texts]
    assert "default-src 'none'" in page

"""Contract: the language of queries, and the languages of people."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from threadline.store.facade import SessionStore
from threadline.testing.builders import dm, user
from threadline.testing.contracts.storage.finding import found, said
from threadline.testing.contracts.storage.fixtures import short

# ruff: noqa: RUF001 - letters that look alike are the point
IN_MANY_LANGUAGES = [
    ("Die Straße nach Köln", ["strasse", "STRASSE", "koln", "KÖLN", "köl*"]),
    ("Ça va très bien, merci", ["ca", "tres bien", '"va tres"', "MERCI"]),
    ("Привет, как дела?", ["привет", "ДЕЛА", '"как дела"', "прив*"]),
    ("Ο ήλιος έδυσε", ["ηλιος", "ΗΛΙΟΣ"]),
    ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
    ("שלום עולם", ["שלום", "עולם"]),
    ("नमस्ते दुनिया", ["दुनिया"]),
    ("Xin chào thế giới", ["thế giới", "the gioi", "chao"]),
    ("İstanbul'da çay içtik", ["istanbul", "cay"]),
    ("我今天在北京喝茶", ["北京", "喝茶", "今天在", "茶", '"北京喝"', "我今天在北京喝茶"]),
    ("東京でお茶を飲みました", ["東京", "お茶", "飲みま", "京で", "ました"]),
    ("カタカナとひらがな", ["カタカナ", "ひらがな", "タカ"]),
    ("서울에서 차를 마셨습니다", ["서울", "차를", "마셨", "에서", "습니다"]),
    ("mixed 日本語 and English", ["日本語", "本語 english", "mixed 日"]),
    ("fullwidth ＴＥＡ and ﬁne ligatures", ["tea", "fine"]),
    ("snake_case and kebab-case, v2.5.1", ["snake", "case", '"snake case"', "kebab-case", "v2.5.1"]),
    ("e-mail ada@example.org", ["ada@example.org", "example"]),
    ("emoji 🫖 teapot", ["teapot 🫖", "emoji"]),
]

MALFORMED = [
    ("tea AND OR NOT coffee", "tea AND OR NOT coffee"),
    ("a tea (with) brackets", "tea ((("),
    ("a tea (with) brackets", "(tea) [with] {brackets}"),
    ('she said "tea', '"tea'),
    ("tea and stars", "tea ***"),
    ("tea and dashes", "tea - -- -"),
    ("col tea", "col:tea"),
    ("near tea, coffee", "NEAR(tea coffee)"),
    ("tea drop table messages", "tea'; DROP TABLE messages; --"),
    ("tea", "tea & | ! <-> \\ : @ # $ ^ ~ ` ? / < > = + ;"),
    ("tea", "tea\x00\x01\x7f"),
    ("tea 50 percent", "50% tea"),
    ("minus one tea", "-minus"),
]

NOTHING = ["", " ", "***", "-", '"', '""', "()", "\x00", "\ud800", "…", "🫖", ":"]

_pieces = st.sampled_from(
    ['"', "-", "*", "tea", "茶", " ", "(", ")", ":", "&", "|", "!", "'", "\\", "\x00", "NOT", "<->"]
)


class LanguageContract:
    """Words, phrases, exclusions, prefixes; and any input at all."""

    @pytest.mark.parametrize(("text", "queries"), IN_MANY_LANGUAGES, ids=short)
    def test_words_of_many_languages_are_found(self, store: SessionStore, text: str, queries: list[str]) -> None:
        said(store, "something else", text, "又一个 другое 다른")
        for query in queries:
            assert found(store, query) == [text], query

    def test_snippets_are_cut_from_the_original(self, store: SessionStore) -> None:
        said(store, "Die STRASSE und die Straße", "我今天在北京喝茶")
        (hit,) = store.search("straße")
        assert hit.snippet == "Die [[STRASSE]] und die [[Straße]]"
        (hit,) = store.search("北京")
        assert hit.snippet == "我今天在[[北京]]喝茶"

    def test_a_snippet_is_one_short_line(self, store: SessionStore) -> None:
        said(store, "lead\n" * 500 + "the needle\n" + "tail\n" * 500)
        (hit,) = store.search("needle")
        assert "[[needle]]" in hit.snippet
        assert len(hit.snippet) < 300
        assert "\n" not in hit.snippet

    def test_all_words_are_wanted_and_phrases_in_order(self, store: SessionStore) -> None:
        said(store, "green tea is good", "tea, green as grass", "green grass")
        assert found(store, "tea green") == ["green tea is good", "tea, green as grass"]
        assert found(store, '"green tea"') == ["green tea is good"]
        assert found(store, '"tea green"') == ["tea, green as grass"]
        assert found(store, '"green tea" good') == ["green tea is good"]

    def test_unwanted_words_and_phrases_are_left_out(self, store: SessionStore) -> None:
        said(store, "green tea", "black tea", "black coffee")
        assert found(store, "tea -black") == ["green tea"]
        assert found(store, 'tea -"green tea"') == ["black tea"]
        assert found(store, "tea -gr*") == ["black tea"]
        assert found(store, "-coffee black") == ["black tea"]

    def test_the_beginning_of_a_word_finds_it(self, store: SessionStore) -> None:
        said(store, "teapot", "teacup", "steam")
        assert found(store, "tea*") == ["teacup", "teapot"]
        assert found(store, "teap*") == ["teapot"]
        assert found(store, "tea") == []

    @pytest.mark.parametrize(("text", "query"), MALFORMED, ids=short)
    def test_malformed_queries_are_plain_words(self, store: SessionStore, text: str, query: str) -> None:
        said(store, text, "unrelated")
        assert found(store, query) == [text]

    @pytest.mark.parametrize("query", NOTHING, ids=short)
    def test_a_query_without_words_finds_nothing(self, store: SessionStore, query: str) -> None:
        said(store, "tea")
        page = store.search(query)
        assert (page.items, page.cursor) == ([], None)

    def test_no_query_is_too_much(self, store: SessionStore) -> None:
        said(store, "tea " * 200)
        assert len(store.search("tea " * 5000)) == 1
        assert store.search("x" * 100_000).items == []
        assert len(store.search('"' + "tea " * 100 + '"')) == 1
        assert store.search("-a " * 1000).items == []

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(query=st.text(max_size=20) | st.lists(_pieces, max_size=8).map("".join))
    @example(query='-"tea" "')
    def test_any_query_is_answered(self, store: SessionStore, query: str) -> None:
        if not store.has_any_sessions():
            said(store, "tea 茶 not near")
        for options in ({}, {"viewer": "telegram:7"}, {"role": "user", "platform": "telegram"}):
            page = store.search(query, **_any(options))
            assert len(page) <= 1

    def test_long_messages_are_found_by_words_and_phrases_anywhere(self, store: SessionStore) -> None:
        words = [f"word{n}" for n in range(30_000)]
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user(" ".join(words)))
        for place in (0, 199, 200, 255, 256, 4_095, 16_383, 16_384, 25_000):
            assert len(store.search(words[place])) == 1, place
            assert len(store.search(f'"{words[place]} {words[place + 1]} {words[place + 2]}"')) == 1, place
        assert len(store.search("word0 word25000")) == 1
        assert store.search("word0 -word25000").items == []
        assert store.search('"word0 word2"').items == []

    def test_a_long_message_that_is_redacted_is_found_by_none_of_its_words(self, store: SessionStore) -> None:
        words = [f"word{n}" for n in range(10_000)]
        session_id = store.get_or_create_session(dm()).session_id
        store.append_to_transcript(session_id, user(" ".join(words)))
        store.append_to_transcript(session_id, user("word1 stays"))
        assert len(store.search("word1")) == 2
        store.redact(f"{session_id}:1")
        assert len(store.search("word1")) == 1
        assert store.search('"word9000 word9001"').items == []
        assert store.check().ok

    def test_a_word_repeated_very_often_still_makes_phrases(self, store: SessionStore) -> None:
        said(store, "ha " * 2_000 + "hum " + "ha " * 2_000, "茶" * 3_000 + "水" + "茶" * 3_000)
        assert len(store.search('"ha hum ha"')) == 1
        assert len(store.search("茶水茶")) == 1
        assert store.search('"hum hum"').items == []
        assert store.search("水水").items == []
        assert store.check().ok

    def test_half_surrogates_and_nul_hide_no_words(self, store: SessionStore) -> None:
        said(store, "tea\x00coffee", "half \ud800 cup")
        assert len(store.search("coffee")) == 1
        assert len(store.search("cup")) == 1
        assert store.check().ok


def _any(options: dict[str, str]) -> dict[str, Any]:
    return dict(options)

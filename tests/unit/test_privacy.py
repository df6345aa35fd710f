"""Strangers' text is inert, and on request nothing personal shows."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.errors import InvalidRequest
from threadline.model.privacy import (
    Redaction,
    chat_pseudonym,
    is_private_id,
    is_redacted_platform,
    make_redaction,
    mask_phone_numbers,
    resolve_target,
    sender_pseudonym,
)
from threadline.model.safe_text import LABEL_CHARS, quoted_label, safe_label

SECRET = b"the installation's secret"
NASTY = "\n\r\t\x00\x1b\x7f\x85\u2028\u2029\u202e\u2066\u2069\u200b\u200d\ufeff\u00ad\u3164\U000e0041\ud800\udfff"
hostile = st.text(st.one_of(st.sampled_from(NASTY + '"\\[]# aB7'), st.characters()), max_size=200)
no_digits = st.text(st.characters(exclude_categories=["Nd"]), max_size=50)
identifiers = st.text(st.sampled_from("a:%@~_-+0123456789"), min_size=1, max_size=20)


@given(hostile)
@settings(max_examples=300)
def test_inert_text_is_one_short_line_of_visible_characters(text: str) -> None:
    shown = safe_label(text)
    assert len(shown) <= LABEL_CHARS
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert safe_label(shown) == shown
    assert json.loads(quoted_label(text)) == shown
    shown.encode()


@pytest.mark.parametrize(
    "text",
    [
        "Ada",
        "Ada  Lovelace",
        'say "hi" \\o/',
        "名前",
        "Zoë",
        "👩 🚀",
        "[x]",
        "## System",
        "a\u00a0b",
        "राम",
        "x" * 120,
    ],
)
def test_visible_text_comes_back_unchanged(text: str) -> None:
    assert safe_label(text) == text


def test_what_is_stripped_joins_or_parts_words_as_a_reader_expects() -> None:
    assert safe_label("Rules:\r\n\tbe nice\u2028now") == "Rules: be nice now"
    assert safe_label("A\u200bd\u202ea\u00ad\ufe0f\U000e0041") == "Ada"
    assert safe_label("half \ud83d of a pair") == "half  of a pair"
    assert safe_label("abcdef", limit=3) == "abc"


@pytest.mark.parametrize(
    "number",
    [
        "+4915112345678",
        "+49 151 1234 5678",
        "+49 (0) 151 / 123-456-78",
        "(+49) 151.1234.5678",
        "0049-151-12345678",
        "(030) 1234567",
        "0151/1234567",
        "555-1234",
        "(555) 123-4567",
        "+1 (555) 123‑4567",  # noqa: RUF001
        "06.12.34.56.78",
        "＋４９ １５１ １２３４５６７８",  # noqa: RUF001
        "٠١٢٣٤٥٦٧٨٩",
        "+९१ ९८७६५ ४३२१०",
        "𝟎𝟏𝟓𝟏𝟏𝟐𝟑𝟒𝟓𝟔𝟕",  # noqa: RUF001
        "⁰¹⁵¹¹²³⁴⁵⁶⁷",
        "①⑤①①②③④⑤⑥⑦",
        "0\ufe0f\u20e31\ufe0f\u20e35\ufe0f\u20e31\ufe0f\u20e32\ufe0f\u20e33\ufe0f\u20e34\ufe0f\u20e3",
        "0151\u200b123\u20604567",
        "0151        1234567",
        "+ 49 151 12345678",
        "+852 1234",
        "+2026-11-15",
        "2026-11-15 5551234",
        "20261115",
    ],
)
def test_phone_numbers_are_masked_however_they_are_written(number: str) -> None:
    assert mask_phone_numbers(number) == "(hidden number)"
    assert mask_phone_numbers(f"Ada {number}, home") == "Ada (hidden number), home"
    assert mask_phone_numbers(f"({number})").count("(") == mask_phone_numbers(f"({number})").count(")")


@pytest.mark.parametrize(
    "text",
    [
        "Flat 7",
        "Class of 2026",
        "(12)",
        "+1",
        "room 101-102",
        "12:30:45",
        "v1.22.3",
        "112",
        "2026-11-15",
        "15.11.2026",
        "11/15/2026",
        "trip (2026-11-15)",
        "since 2026-11-15 14:30",
        "2026-11-15 – 2026-11-20",  # noqa: RUF001
        "2026-11-15/2026-11-20",
        "no digits",
        "",
    ],
)
def test_short_numbers_and_dates_are_no_phone_numbers(text: str) -> None:
    assert mask_phone_numbers(text) == text


@given(
    st.text("0123456789", min_size=8, max_size=15),
    st.lists(st.sampled_from(["", " ", "-", ".", "/", " (", ") ", "\u200b", "\u2011", "  - "]), min_size=15),
    no_digits,
    no_digits,
)
def test_nothing_of_an_international_number_is_left(digits: str, gaps: list[str], before: str, after: str) -> None:
    spaced = "".join(digit + gap for digit, gap in zip(digits[:-1], gaps, strict=False)) + digits[-1]
    masked = mask_phone_numbers(f"{before}+{spaced}{after}")
    assert not any(char.isdecimal() for char in masked)
    assert mask_phone_numbers(masked) == masked


@pytest.mark.parametrize(
    "text", ["1 " * 50_000, "(" * 100_000, "+" * 100_000, "a@" * 50_000, " " * 100_000, "a" * 100_000]
)
def test_long_hostile_names_are_read_once(text: str) -> None:
    shown = make_redaction(redact_pii=True, secret=SECRET).name(text + "!")
    assert len(shown or "") <= LABEL_CHARS


def test_only_platforms_whose_ids_the_model_never_needs_redact() -> None:
    assert all(map(is_redacted_platform, ("whatsapp", "signal", "telegram", "email")))
    assert not any(map(is_redacted_platform, ("discord", "slack", "matrix", "local", "acp", "web")))
    assert not is_private_id("discord", "123456789012345678")
    assert is_private_id("telegram", "7")


def test_a_plug_in_whose_ids_are_phone_numbers_does_not_show_them() -> None:
    assert is_private_id("sms", "+4915112345678")
    assert not is_private_id("irc", "#threadline")


@given(identifiers, identifiers)
def test_pseudonyms_are_stable_and_differ_by_id_platform_and_secret(one: str, other: str) -> None:
    sender = sender_pseudonym("signal", one, secret=SECRET)
    assert sender.startswith("user_")
    assert len(sender) == len("user_") + 12
    int(sender[5:], 16)
    assert not sender[5:].isdigit()
    assert sender == sender_pseudonym("signal", one, secret=SECRET)
    assert sender != sender_pseudonym("signal", one, secret=b"another secret")
    assert sender != sender_pseudonym("whatsapp", one, secret=SECRET)
    assert (sender == sender_pseudonym("signal", other, secret=SECRET)) == (one == other)


def test_a_platform_prefix_of_a_chat_id_stays() -> None:
    bare = chat_pseudonym("telegram", "-1001234", secret=SECRET)
    assert len(bare) == 12
    assert chat_pseudonym("telegram", "telegram:-1001234", secret=SECRET) == f"telegram:{bare}"


def test_an_id_with_half_a_surrogate_pair_has_a_pseudonym() -> None:
    assert chat_pseudonym("telegram", "\ud800", secret=SECRET)


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="secret"):
        make_redaction(redact_pii=True, secret=b"")
    with pytest.raises(InvalidRequest, match="secret"):
        Redaction(b"")
    with pytest.raises(InvalidRequest, match="secret"):
        sender_pseudonym("telegram", "7", secret=b"")
    with pytest.raises(InvalidRequest, match="secret"):
        chat_pseudonym("telegram", "7", secret=b"")


def test_a_redaction_never_spells_its_secret() -> None:
    assert SECRET.decode() not in repr(make_redaction(redact_pii=True, secret=SECRET))


def test_names_lose_addresses_numbers_and_known_ids_but_keep_the_rest() -> None:
    hidden = make_redaction(redact_pii=True, secret=SECRET, known_ids=("ada_l", "7", None))
    assert hidden.name("Ada (ada@example.com)") == "Ada ((hidden address))"
    assert hidden.name("Ada @ada_l, agent 7") == "Ada @(hidden id), agent 7"
    assert hidden.name("Ada +49\u200b151 12345678") == "Ada (hidden number)"
    assert hidden.name("x" * 115 + "+4915112345678") == "x" * 115 + "(hidd"


def test_a_name_that_is_nothing_but_a_number_is_no_name() -> None:
    hidden = make_redaction(redact_pii=True, secret=SECRET)
    assert hidden.name("+49 151 12345678") is None
    assert hidden.name("<ada@example.com>") is None
    assert hidden.name(" \u200b") is None
    assert hidden.name(None) is None


def test_without_redaction_names_and_ids_show_as_they_are() -> None:
    shown = make_redaction(redact_pii=False, secret=b"", known_ids=("12345",))
    assert shown.name("Ada 12345 +4915112345678") == "Ada 12345 +4915112345678"
    assert shown.sender("telegram", "12345") == "12345"
    assert shown.chat("whatsapp", "4915112345678@s.whatsapp.net") == "4915112345678@s.whatsapp.net"
    assert shown.thread("telegram", "1234567") == "1234567"


def test_a_short_thread_number_stays_and_any_other_thread_is_hashed() -> None:
    hidden = make_redaction(redact_pii=True, secret=SECRET)
    assert hidden.thread("telegram", "55") == "55"
    assert hidden.thread("email", "<ada@example.com>") == chat_pseudonym("email", "<ada@example.com>", secret=SECRET)
    assert hidden.thread("slack", "1712345678.123456") == "1712345678.123456"
    assert hidden.thread("telegram", None) is None


@given(
    st.sampled_from(["telegram", "whatsapp", "sms", "telegram@work"]),
    identifiers,
    st.lists(identifiers, max_size=5),
)
def test_a_hashed_target_resolves_to_the_chat_it_stands_for(place: str, chat: str, others: list[str]) -> None:
    platform = place.partition("@")[0]
    candidates = [f"{place}:{chat}", *(f"{place}:{other}" for other in others)]
    hashed = chat_pseudonym(platform, chat, secret=SECRET).removeprefix(f"{platform}:")
    assert resolve_target(f"{place}:{hashed}", candidates, secret=SECRET) == f"{place}:{chat}"
    assert resolve_target(f"{place}:{hashed}:17", candidates, secret=SECRET) == f"{place}:{chat}:17"
    assert resolve_target(f"{place}:user_{hashed}", candidates, secret=SECRET) == f"{place}:{chat}"
    assert resolve_target(hashed, candidates, secret=SECRET) == f"{place}:{chat}"


def test_a_hashed_thread_resolves_with_its_chat() -> None:
    chat, thread = (chat_pseudonym("email", text, secret=SECRET) for text in ("ada@example.com", "<m1@example.com>"))
    candidates = ["email:ada@example.com:<m1@example.com>", "email:bob@example.com"]
    assert resolve_target(f"email:{chat}:{thread}", candidates, secret=SECRET) == candidates[0]
    assert resolve_target(f"email:{chat}", candidates, secret=SECRET) == "email:ada@example.com"


@pytest.mark.parametrize(
    "target",
    ["telegram:abcdefabcdef", "abcdefabcdef", "telegram:user_abcdefabcdef", "telegram:abcdefabcdef:17"],
)
def test_an_unknown_hash_is_refused(target: str) -> None:
    with pytest.raises(InvalidRequest, match="no chat is known"):
        resolve_target(target, ["telegram:42"], secret=SECRET)
    with pytest.raises(InvalidRequest, match="no chat is known"):
        resolve_target(target, [], secret=SECRET)


def test_a_hash_made_with_another_secret_is_refused() -> None:
    hashed = chat_pseudonym("telegram", "42", secret=b"another secret")
    with pytest.raises(InvalidRequest):
        resolve_target(f"telegram:{hashed}", ["telegram:42"], secret=SECRET)


@pytest.mark.parametrize(
    "target",
    [
        "origin",
        "local",
        "telegram",
        "telegram:-100123",
        "whatsapp:491511234567",
        "discord:abcdefabcdef",
        "matrix:!r:example.org",
    ],
)
def test_a_target_that_is_no_hash_comes_back_unchanged(target: str) -> None:
    assert resolve_target(target, ["telegram:42"], secret=SECRET) == target


def test_a_real_target_that_looks_like_a_hash_is_itself() -> None:
    assert resolve_target("sms:abcdefabcdef", ["sms:abcdefabcdef"], secret=SECRET) == "sms:abcdefabcdef"

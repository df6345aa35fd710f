"""Convert Markdown to a text with entities, which mark the ranges that are bold, code or links. Pure."""

from __future__ import annotations

import re
import unicodedata

import msgspec
from telegramify_markdown import MessageEntity, RenderConfig
from telegramify_markdown import convert as parse_markdown

from threadline.platforms.shared import length
from threadline.platforms.telegram.texts import NOTHING_TO_SEE
from threadline.ports.platform import BadMarkup, Outgoing, TooLong

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024

# The converter reads some characters as markup that are none in what agents write: it would drop `Array<String>` as a tag, read
# `$HOME/$PATH` as a formula, and hide the text between `||`. During conversion noncharacters of Unicode replace them.
# A backslash that is itself escaped escapes nothing.
_NO_TAG = re.compile(r"(?<!\\)((?:\\\\)*+)<(?!(?:https?://|mailto:)[^\s<>]+>)")
_NO_FORMULA = re.compile(r"(?<!\\)((?:\\\\)*+)\$")
_NO_TABLE_ROW = re.compile(r"^(?![ \t]*\|).*\|\|.*$", re.MULTILINE)
_STAND_INS = "\ufdd0\ufdd1\ufdd2"
_RESTORED = str.maketrans(_STAND_INS, "<$|")
_TAKEN = re.compile(f"[{_STAND_INS}]")

# Most messages have no markup. The converter would return a text that matches `PLAIN` unchanged, at ten times the cost: lines and
# paragraphs that do not begin like a heading, list, quote or table, and contain no character that could be markup.
_NO_MARK = r"\s\x00-\x1f\x7f\\`*_\[\]<>~$&|^" + _STAND_INS
_PLAIN_LINE = rf"(?!\d+[.)])[^{_NO_MARK}#+\-=:](?:[^{_NO_MARK}]| ++(?=[^\n]))*+"
PLAIN = re.compile(rf"{_PLAIN_LINE}(?:\n\n?{_PLAIN_LINE})*+")

_INVISIBLE = frozenset(["Zs", "Zl", "Zp", "Cc", "Cf", "Cs"])

# The schemes of addresses that Telegram makes links of.
_LINKS = ("http://", "https://", "tg://")


class FormattedText(msgspec.Struct, frozen=True):
    """A text with its entities, as the Bot API takes them."""

    text: str
    entities: tuple[dict[str, object], ...] = ()

    @property
    def length(self) -> int:
        """The length in UTF-16 units, which Telegram counts."""
        return length(self.text, "utf16")


def format_text(message: Outgoing) -> FormattedText:
    """Convert a message to a text with entities. A message without a visible character becomes a text that says so.

    Raises `BadMarkup` if the text is too long because of its markup, `TooLong` if it is too long without any.
    """
    text = repair_surrogates(message.text)
    formatted = FormattedText(text) if message.is_plain or PLAIN.fullmatch(text) else convert(text)
    if not _is_visible(formatted.text):
        formatted = FormattedText(text if _is_visible(text) else NOTHING_TO_SEE)
    if formatted.length <= LONGEST_TEXT:
        return formatted
    if message.is_plain:
        raise TooLong(f"the text is longer than the {LONGEST_TEXT} signs that Telegram takes")
    raise BadMarkup(f"with its markup the text is longer than the {LONGEST_TEXT} signs that Telegram takes")


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace single halves, which UTF-8 can't encode."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def convert(text: str) -> FormattedText:
    """Convert Markdown to a text with entities, of any length; raise `BadMarkup` if it can't be parsed."""
    hidden = _TAKEN.sub("\N{REPLACEMENT CHARACTER}", text)
    hidden = _NO_FORMULA.sub(rf"\1{_STAND_INS[1]}", _NO_TAG.sub(rf"\1{_STAND_INS[0]}", hidden))
    hidden = _NO_TABLE_ROW.sub(lambda line: line[0].replace("||", 2 * _STAND_INS[2]), hidden)
    try:
        converted, entities = parse_markdown(hidden, latex_escape=False, config=_LOOKS)
    except Exception as cause:
        # A third-party parser gets any text that a model writes, so it may raise anything.
        raise BadMarkup(f"the markup can't be read: {type(cause).__name__}") from cause
    restored = converted.translate(_RESTORED).rstrip()
    for entity in entities:
        entity.url = entity.url and entity.url.translate(_RESTORED)
        entity.language = entity.language and entity.language.translate(_RESTORED)
    return _with_addresses(restored, _clipped(entities, length(restored, "utf16")))


def _clipped(entities: list[MessageEntity], end: int) -> list[MessageEntity]:
    """Cut the entities at the end of the text."""
    for entity in entities:
        entity.length = min(entity.length, end - entity.offset)
    return [entity for entity in entities if entity.length > 0]


def _with_addresses(text: str, entities: list[MessageEntity]) -> FormattedText:
    """Write out the addresses that Telegram makes no link of: files in a project, mailboxes."""
    kept = [entity for entity in entities if entity.type != "text_link" or (entity.url or "").startswith(_LINKS)]
    units = text.encode("utf-16-le", "surrogatepass")
    # From the last to the first, so that the offsets of earlier links stay valid.
    for link in sorted((entity for entity in entities if entity not in kept), key=lambda entity: -entity.offset):
        end = link.offset + link.length
        label = units[2 * link.offset : 2 * end].decode("utf-16-le", "replace")
        address = (link.url or "").removeprefix("mailto:")
        if address in ("", label.removeprefix("mailto:")):
            continue
        added = f" ({address})".encode("utf-16-le", "surrogatepass")
        units = units[: 2 * end] + added + units[2 * end :]
        for other in kept:
            if other.offset >= end:
                other.offset += len(added) // 2
            elif other.offset + other.length > end:
                other.length += len(added) // 2
    return FormattedText(units.decode("utf-16-le", "replace"), tuple(entity.to_dict() for entity in kept))


def _is_visible(text: str) -> bool:
    """Return whether a text contains a visible character.

    A character that this Python does not know counts as visible: it is a newer emoji or one for private use.
    """
    return any(unicodedata.category(char) not in _INVISIBLE for char in text)


def _looks() -> RenderConfig:
    """Return the rendering of Telegram without symbols that the agent did not write."""
    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.image = symbols.link = ""
    symbols.unordered_list_item = "\N{BULLET}"
    symbols.task_uncompleted = "\N{BALLOT BOX}"
    config.cite_expandable = False
    return config


_LOOKS = _looks()

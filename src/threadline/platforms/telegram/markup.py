"""Markdown as Telegram shows it: a text, and entities that say which stretches of it are bold, code or links. Pure."""

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

# The converter takes some signs for markup that mean nothing of the kind in what agents write: it would swallow `Array<String>`
# as a tag, `$HOME/$PATH` as a formula, and hide what stands between `||`. Signs that no text may hold stand for them meanwhile.
# A backslash that is itself escaped escapes nothing.
_NO_TAG = re.compile(r"(?<!\\)((?:\\\\)*+)<(?!(?:https?://|mailto:)[^\s<>]+>)")
_NO_FORMULA = re.compile(r"(?<!\\)((?:\\\\)*+)\$")
_NO_TABLE_ROW = re.compile(r"^(?![ \t]*\|).*\|\|.*$", re.MULTILINE)
_STAND_INS = "\ufdd0\ufdd1\ufdd2"
_RESTORED = str.maketrans(_STAND_INS, "<$|")
_TAKEN = re.compile(f"[{_STAND_INS}]")

# Most messages are words without any markup. What fits `PLAIN` the converter gives back as it is, after ten times as long:
# lines and paragraphs that begin like no heading, list, quote or table, and hold no sign that could mean something.
_NO_MARK = r"\s\x00-\x1f\x7f\\`*_\[\]<>~$&|^" + _STAND_INS
_PLAIN_LINE = rf"(?!\d+[.)])[^{_NO_MARK}#+\-=:](?:[^{_NO_MARK}]| ++(?=[^\n]))*+"
PLAIN = re.compile(rf"{_PLAIN_LINE}(?:\n\n?{_PLAIN_LINE})*+")

_SHAPELESS = frozenset(["Zs", "Zl", "Zp", "Cc", "Cf", "Cs"])

# All that Telegram opens from a text.
_LINKS = ("http://", "https://", "tg://")


class FormattedText(msgspec.Struct, frozen=True):
    """A text and its entities, as the Bot API takes them."""

    text: str
    entities: tuple[dict[str, object], ...] = ()

    @property
    def length(self) -> int:
        """In UTF-16 units, which is what Telegram counts."""
        return length(self.text, "utf16")


def format_text(message: Outgoing) -> FormattedText:
    """How a message is to be shown; one without a sign that can be seen says so.

    `BadMarkup` where the markup makes it longer than Telegram takes, `TooLong` where it is so without any.
    """
    text = repair_surrogates(message.text)
    found = FormattedText(text) if message.is_plain or PLAIN.fullmatch(text) else convert(text)
    if not _is_visible(found.text):
        found = FormattedText(text if _is_visible(text) else NOTHING_TO_SEE)
    if found.length <= LONGEST_TEXT:
        return found
    if message.is_plain:
        raise TooLong(f"the text is longer than the {LONGEST_TEXT} signs that Telegram takes")
    raise BadMarkup(f"with its markup the text is longer than the {LONGEST_TEXT} signs that Telegram takes")


def repair_surrogates(text: str) -> str:
    """The text without halves of surrogate pairs, which nothing can carry: pairs are joined, single ones replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def convert(text: str) -> FormattedText:
    """How a text with markup is to be shown, however long that is; `BadMarkup` where it can't be read."""
    hidden = _TAKEN.sub("\N{REPLACEMENT CHARACTER}", text)
    hidden = _NO_FORMULA.sub(rf"\1{_STAND_INS[1]}", _NO_TAG.sub(rf"\1{_STAND_INS[0]}", hidden))
    hidden = _NO_TABLE_ROW.sub(lambda line: line[0].replace("||", 2 * _STAND_INS[2]), hidden)
    try:
        written, entities = parse_markdown(hidden, latex_escape=False, config=_LOOKS)
    except Exception as cause:
        # Somebody else's parser, on whatever a model makes up.
        raise BadMarkup(f"the markup can't be read: {type(cause).__name__}") from cause
    restored = written.translate(_RESTORED).rstrip()
    for entity in entities:
        entity.url = entity.url and entity.url.translate(_RESTORED)
        entity.language = entity.language and entity.language.translate(_RESTORED)
    return _with_addresses(restored, _clipped(entities, length(restored, "utf16")))


def _clipped(entities: list[MessageEntity], end: int) -> list[MessageEntity]:
    """The entities as far as there is text for them."""
    for entity in entities:
        entity.length = min(entity.length, end - entity.offset)
    return [entity for entity in entities if entity.length > 0]


def _with_addresses(text: str, entities: list[MessageEntity]) -> FormattedText:
    """The text with the addresses written out that Telegram makes no link of: files in a project, mailboxes."""
    kept = [one for one in entities if one.type != "text_link" or (one.url or "").startswith(_LINKS)]
    units = text.encode("utf-16-le", "surrogatepass")
    # From the last to the first, so that the places of those before stay.
    for link in sorted((one for one in entities if one not in kept), key=lambda one: -one.offset):
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
    """Whether there is a sign in it that is neither white space nor without a shape.

    One that this Python does not know yet is a newer emoji, or somebody's own: it has one.
    """
    return any(unicodedata.category(sign) not in _SHAPELESS for sign in text)


def _looks() -> RenderConfig:
    """Telegram's own look, without signs that the agent did not write."""
    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.image = symbols.link = ""
    symbols.unordered_list_item = "\N{BULLET}"
    symbols.task_uncompleted = "\N{BALLOT BOX}"
    config.cite_expandable = False
    return config


_LOOKS = _looks()

"""What Telegram does to a text: it measures and trims it, and looks at the entities that mark it up. All in UTF-16 units."""

from __future__ import annotations

import re

import msgspec

from threadline.platforms.shared import length
from threadline.testing.telegram_values import BadRequest, Json

ENTITY_KINDS = frozenset(
    [
        *(
            "mention",
            "hashtag",
            "cashtag",
            "bot_command",
            "url",
            "email",
            "phone_number",
            "bold",
            "italic",
            "underline",
        ),
        *(
            "strikethrough",
            "spoiler",
            "blockquote",
            "expandable_blockquote",
            "code",
            "pre",
            "text_link",
            "text_mention",
        ),
        *("custom_emoji", "date_time"),
    ]
)
_FOUND = {
    "bot_command": re.compile(r"(?<![\w/])/\w{1,64}(?:@\w{3,32})?"),
    "mention": re.compile(r"(?<![\w@/])@\w{3,32}"),
    "url": re.compile(r"https?://\S+"),
}


class Entity(msgspec.Struct, omit_defaults=True):
    """A piece of a text that is special."""

    type: str
    offset: int
    length: int
    url: str | None = None
    user: Json | None = None
    language: str | None = None
    custom_emoji_id: str | None = None


class Marked(msgspec.Struct, frozen=True):
    """A text as it is shown."""

    text: str
    entities: tuple[Entity, ...] = ()

    @property
    def size(self) -> int:
        return length(self.text, "utf16")

    @property
    def wire_entities(self) -> list[Json]:
        return [dict(msgspec.to_builtins(entity)) for entity in self.entities]


def marked(text: str, entities: list[Entity]) -> Marked:
    """The text as Telegram shows it, without space around it; a `BadRequest` where an entity does not fit it."""
    units = text.encode("utf-16-le", "surrogatepass")
    for entity in entities:
        _check(entity, units)
    kept = sorted((one for one in entities if one.length), key=lambda one: (one.offset, -one.length))
    # Space before the first entity goes, and no more than that.
    before = text[: kept[0].offset] if kept else text
    cut = len(before) - len(before.lstrip(" \n"))
    shown = text[cut:].rstrip()
    return Marked(shown, tuple(_moved(kept, cut, length(shown, "utf16"))))


def found_entities(text: str) -> list[Entity]:
    """The commands, mentions and links that an app of Telegram marks in what people type."""
    found = [
        Entity(kind, length(text[: match.start()], "utf16"), length(match.group(), "utf16"))
        for kind, pattern in _FOUND.items()
        for match in pattern.finditer(text)
    ]
    return sorted(found, key=lambda entity: entity.offset)


def _moved(entities: list[Entity], by: int, size: int) -> list[Entity]:
    moved = []
    for entity in entities:
        start, end = entity.offset - by, min(entity.offset - by + entity.length, size)
        if end > start:
            moved.append(msgspec.structs.replace(entity, offset=start, length=end - start))
    return moved


def _check(entity: Entity, units: bytes) -> None:
    size, end = len(units) // 2, entity.offset + entity.length
    if entity.type not in ENTITY_KINDS:
        raise BadRequest("can't parse entities: unsupported type of an entity")
    if entity.offset < 0:
        raise BadRequest(f"receive an entity with incorrect offset {entity.offset}")
    if entity.length < 0:
        raise BadRequest(f"receive an entity with incorrect length {entity.length}")
    if entity.offset > size:
        raise BadRequest(f"entity begins after the end of the text at UTF-16 offset {entity.offset}")
    if end > size:
        raise BadRequest(
            f"entity beginning at UTF-16 offset {entity.offset} ends after the end of the text at UTF-16 offset {end}"
        )
    if _splits_pair(units, entity.offset):
        raise BadRequest(
            f"entity begins in a middle of a UTF-16 symbol at byte offset {_bytes_before(units, entity.offset)}"
        )
    if _splits_pair(units, end):
        where = f"at byte offset {_bytes_before(units, end)}"
        raise BadRequest(
            f"entity beginning at UTF-16 offset {entity.offset} ends in a middle of a UTF-16 symbol {where}"
        )


def _splits_pair(units: bytes, place: int) -> bool:
    """Whether the unit at that place is the second half of a pair: the two top bits tell."""
    return 0 < place < len(units) // 2 and units[place * 2 + 1] & 0xFC == 0xDC


def _bytes_before(units: bytes, place: int) -> int:
    return len(units[: (place + 1) * 2].decode("utf-16-le", "replace").encode())

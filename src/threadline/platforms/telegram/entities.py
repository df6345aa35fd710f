"""Who is meant by a text: mentions and commands, found by the stretches that Telegram marks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from threadline.platforms.telegram.wire import Entity

_QUOTATIONS = ("blockquote", "expandable_blockquote")


class Us(msgspec.Struct, frozen=True):
    """The bot that we are. `handle` is its username in small letters, without the `@`."""

    id: int
    handle: str


def mentions(text: str, entities: Iterable[Entity], us: Us) -> bool:
    """Whether a text speaks to us by name."""
    return any(_names_us(text, entity, us) for entity in entities)


def command_bot(text: str, entities: Sequence[Entity]) -> str | None:
    """The bot, in small letters, that the command at the start of a text is for; `None` where it names none."""
    first = _first_command(entities)
    if first is None:
        return None
    _, at, bot = _marked(text, first).partition("@")
    return bot.lower() if at else None


def without_our_name(text: str, entities: Sequence[Entity], us: Us) -> str:
    """The text with `/command` for a `/command@us` at its start."""
    first = _first_command(entities)
    if first is None or command_bot(text, entities) != us.handle:
        return text
    written = _marked(text, first)
    return written.partition("@")[0] + text[len(written) :]


def quoted(text: str, entities: Iterable[Entity]) -> str:
    """The text with a `> ` before it where it begins with a quotation: a command in there is somebody else's."""
    return f"> {text}" if any(one.type in _QUOTATIONS and one.offset == 0 for one in entities) else text


def _first_command(entities: Sequence[Entity]) -> Entity | None:
    return next((one for one in entities if one.type == "bot_command" and one.offset == 0), None)


def _names_us(text: str, entity: Entity, us: Us) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == us.id
    if entity.type == "mention":
        return _marked(text, entity).lower() == f"@{us.handle}"
    return entity.type == "bot_command" and _marked(text, entity).lower().endswith(f"@{us.handle}")


def _marked(text: str, entity: Entity) -> str:
    """The stretch of the text. One that lies outside of it is empty."""
    start, end = max(entity.offset, 0), max(entity.offset + entity.length, 0)
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "replace")

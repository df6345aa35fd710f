"""The first words of stored messages, from the beginning of their JSON text: what comes after it is not read at all. Pure."""

from __future__ import annotations

import json
import re

_MOST_CHARS = 80
_LOOKED_AT = 800
# The text itself, as far as it goes: never with half of an escape at its end.
_TEXT = r'"{name}"\s*:\s*"((?:[^"\\]|\\u[0-9a-fA-F]{{4}}|\\[^u])*)'
_IN_MESSAGE = re.compile("|".join(_TEXT.format(name=name) for name in ("content", "text")))
_IN_EVENT = re.compile(_TEXT.format(name="text"))


def words_of_message(beginning: str) -> str:
    """The first words of a message in chat-completions form; empty where it begins with none."""
    return _words(_IN_MESSAGE.search(beginning))


def words_of_event(beginning: str) -> str:
    """The first words of an event that came in."""
    return _words(_IN_EVENT.search(beginning))


def _words(found: re.Match[str] | None) -> str:
    if found is None:
        return ""
    escaped = found[found.lastindex or 1]
    return first_words(json.loads(f'"{escaped}"', strict=False))


def first_words(text: str) -> str:
    """The beginning of a text as one line."""
    # Halves of surrogate pairs, and a pair that was cut in two, are nothing that can be shown.
    line = " ".join(text[:_LOOKED_AT].encode("utf-8", "ignore").decode().split())
    return line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1].rstrip()}…"

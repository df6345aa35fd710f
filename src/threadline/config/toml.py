"""TOML: read with errors that say what was expected, and written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time

from threadline.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

# What the parser complains of, and what we say. The first that fits counts.
_EXPECTED = (
    ("'=' after a key", "expected = and a value after the name of a setting"),
    ("end of a table declaration", "expected ] after the name of a section"),
    ("end of an array declaration", "expected ]] after the name of a section"),
    ("newline or end of document", "expected nothing more on this line; text needs quotes around all of it"),
    ("initial character for a key", "expected a name; put it in quotes if it holds more than letters, digits, - and _"),
    ("Invalid value (at end", "expected a value, but the file ends here, perhaps inside of a list"),
    ("Invalid value", "expected a value: text in quotes, a number, true, false, or a list in [ ]"),
    ("Invalid statement", "expected a setting such as port = 8765, or a section such as [web]"),
    ("Unclosed array", "expected ] at the end of a list"),
    ("Unclosed inline table", "expected } at the end of a table, all on one line"),
    ("Unterminated string", "expected a quote at the end of the text"),
    (
        "Illegal character '\\n'",
        "expected a quote at the end of the text, on its line; longer text stands in three quotes",
    ),
    ("character '", "expected no control characters; write them as \\uXXXX"),
    ("in a string", "expected another character after \\; write \\\\ for the mark itself"),
    ("Expected", "expected a quote at the end of the text"),
    ("Cannot", "this stands twice; keep one of them"),
    ("Duplicate", "this stands twice; keep one of them"),
)


def parse_toml(content: bytes, name: str) -> dict[str, object]:
    """The document. What is no TOML is `ConfigError` with file, line, column and what was expected."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise ConfigError(f"{name}:{line}: expected UTF-8 text; save the file in that encoding") from cause
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise ConfigError(f"{name}:{_position(str(cause), text)}: {_expected(str(cause))}") from None
    except (ValueError, RecursionError) as cause:
        raise ConfigError(f"{name}: expected values of a usual size; one number or list in it has no end") from cause


def _position(complaint: str, text: str) -> str:
    found = _AT.search(complaint)
    if found:
        return f"{found.group(1)}:{found.group(2)}"
    lines = text.split("\n")
    return f"{len(lines)}:{len(lines[-1]) + 1}"


def _expected(complaint: str) -> str:
    for sign, words in _EXPECTED:
        if sign in complaint:
            return words
    return "expected TOML: settings such as port = 8765 in sections such as [web]"


def toml_key(*names: str) -> str:
    """A dotted name, with quotes where they are needed."""
    return ".".join(name if _BARE.fullmatch(name) else _text(name) for name in names)


def toml_value(value: object) -> str:
    """A value on one line. Characters that can't be seen are written as escapes, so it is harmless to look at."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(str(name))} = {toml_value(entry)}" for name, entry in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    raise TypeError(f"{type(value).__name__} has no TOML form")


def _text(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(character) or _visible(character) for character in text) + '"'


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"

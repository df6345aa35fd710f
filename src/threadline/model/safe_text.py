"""Makes untrusted text safe to show: no terminal control, no change of colours, no reversed writing, no hidden characters."""

from __future__ import annotations

import json
import re
import unicodedata

LABEL_CHARS = 120

LINE_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# Characters without any visible form, as ranges of a character class. They could hide or split text that we search for.
INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BREAKS = re.compile(f"[\t\x1f{LINE_BREAKS}]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# Whole escape sequences are removed, not only the escape character, or the rest of them would remain visible. Their
# lengths are bounded: an unfinished one must not remove the text after it.
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,2048}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]{0,4}[0-~]"
)
_LINE_END = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Control characters, bidirectional marks, zero-width characters, single surrogates, invisible tags. Joiners stay:
# Persian and emoji sequences need them.
_UNSAFE = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSAFE}]")


def safe_text(text: str) -> str:
    """Return `text` with its lines, without anything that controls a terminal or a page."""
    return _CONTROL.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def safe_line(text: str, limit: int = 200) -> str:
    """Return `safe_text` on one line, at most `limit` characters long."""
    line = " ".join(safe_text(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def safe_json(text: str) -> str:
    """Return equal JSON with everything that controls a terminal written as an escape."""
    return _UNSAFE_IN_JSON.sub(_escape, text)


def safe_label(text: str, limit: int = LABEL_CHARS) -> str:
    """Return `text` on one line, without invisible characters, at most `limit` characters long.

    Line breaks become one space. Control, bidirectional, zero-width and other format characters and single
    surrogates are removed. Short printable text is returned unchanged.
    """
    return without_invisible(text)[:limit]


def quoted_label(text: str, limit: int = LABEL_CHARS) -> str:
    """Return the safe label as one JSON string on one line: `json.loads` returns `safe_label(text, limit)`."""
    return json.dumps(safe_label(text, limit), ensure_ascii=False)


def without_invisible(text: str) -> str:
    """Return `text` on one line, without invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    seen = _INVISIBLE.sub("", _BREAKS.sub(" ", text))
    return "".join(char for char in seen if unicodedata.category(char) not in _UNSEEN_CATEGORIES)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x1_0000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"

"""Strangers' text made inert: it moves no cursor, colours no screen, turns no writing around."""

from __future__ import annotations

import re

# Whole escape sequences go, not only the escape character, or their remains would litter the text. Their
# lengths are bounded: an unfinished one must not swallow what follows it.
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,2048}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]{0,4}[0-~]"
)
_LINE_END = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Controls, bidirectional marks, what takes no space, halves of surrogate pairs, invisible tags. Joiners stay:
# Persian and families of emoji need them.
_UNSEEN = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSEEN}]")


def inert(text: str) -> str:
    """`text` as it reads, on its own lines, without anything that acts on a terminal or a page."""
    return _CONTROL.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def inert_line(text: str, limit: int = 200) -> str:
    """The same on one line, at most `limit` characters long."""
    line = " ".join(inert(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def inert_json(text: str) -> str:
    """JSON that means the same, with everything that acts on a terminal written as an escape."""
    return _UNSAFE_IN_JSON.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x1_0000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"

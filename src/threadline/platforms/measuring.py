"""How long a text is where it is going, and where it may be cut."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

from threadline.ports.platform import LengthUnit, length

_JOINER = "\u200d"
_VIRAMA = 9


def reach(text: str, start: int, room: int, unit: LengthUnit) -> int:
    """The last place at which `text`, taken from `start`, is at most `room` long."""
    # No character is shorter than one unit, so there is nothing to look for beyond.
    end = min(len(text), start + max(room, 0))
    if unit == "chars":
        return end
    return start + bisect_right(range(1, end - start + 1), room, key=lambda n: length(text[start : start + n], unit))


def is_boundary(text: str, place: int) -> bool:
    """Whether a reader sees two characters there: no accent, joined emoji, flag or syllable is torn apart."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if _JOINER in (before, after) or (before == "\r" and after == "\n"):
        return False
    if unicodedata.category(after)[0] == "M" or _extends(after) or _is_half(before, after):
        return False
    if unicodedata.combining(before) == _VIRAMA and after.isalpha():
        return False
    return not (_is_flag_letter(after) and _flag_letters_before(text, place) % 2) and not _is_syllable(before, after)


def _extends(char: str) -> bool:
    """Skin tones, tags and the mark that keeps letters from joining belong to what stands before them."""
    return "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f" or char == "\u200c"


def _is_half(before: str, after: str) -> bool:
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, place: int) -> int:
    first = place
    while first > 0 and _is_flag_letter(text[first - 1]):
        first -= 1
    return place - first


def _is_syllable(before: str, after: str) -> bool:
    """Parts of one Korean syllable that are written as separate letters."""
    leads, vowels = "\u1100" <= before <= "\u115f", "\u1160" <= after <= "\u11a7"
    has_vowel = "\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return (leads and (vowels or "\uac00" <= after <= "\ud7a3" or "\u1100" <= after <= "\u115f")) or (
        has_vowel and "\u1160" <= after <= "\u11ff"
    )

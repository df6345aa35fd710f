"""Measure texts in a platform's unit and split long ones: at pauses of a reader, with code blocks closed and reopened."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from threadline.ports.platform import LengthUnit, length

# The longest character has four bytes: with a smaller limit some texts would fit in no part.
SMALLEST_LIMIT = 4

_OPENING = re.compile(r"^([ \t]{0,12})(`{3,}(?=[^`\n]*$)|~{3,})[^\n]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINE_ENDS = re.compile(r"\n(?:[^\S\n]*\n)*")
_SENTENCE_ENDS = re.compile(r"[.!?…][\"'”\u2019»)\]*_]*[^\S\n]+|[。\uff01\uff1f][”\u2019」』\uff09]*")
_SPACES = re.compile(r"[^\S\n]+")
_WHITE = re.compile(r"\s*")
_BLANK_REST = re.compile(r"(?:[^\S\n]*\n)+")


def split(text: str, limit: int, unit: LengthUnit = "chars") -> list[str]:
    """Split `text` into parts of at most `limit` units each, in order; only white space at the cuts is lost.

    The text is cut at a blank line, else at the end of a line, of a sentence or of a word, else between any two characters
    as readers see them. A cut that leaves a part less than half full is used only where there is no other. A code block that
    is cut ends in one part and begins again in the next with the same fence and language, which count towards the limit. A
    text that fits is returned unchanged as one part; white space alone gives no part. Raises `ValueError` for a limit below 4.

    The limit is always kept: a character with thousands of accents is cut, and so is a code block, like any other text, if
    its fences would fill half of a part.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"{limit} is too little for some characters; give a limit of {SMALLEST_LIMIT} or more")
    if not text.strip():
        return []
    return list(_Splitter(text, limit, unit).parts()) if length(text, unit) > limit else [text]


class _Block(msgspec.Struct, frozen=True):
    """A fenced code block: the offsets of its start, code, closing fence and end, and the text of its fences."""

    start: int
    code: int
    close: int
    end: int
    opening: str
    closing: str


class _Splitter:
    """One text on its way into parts."""

    def __init__(self, text: str, limit: int, unit: LengthUnit) -> None:
        self._text = text
        self._limit = limit
        self._unit = unit
        self._blocks = [block for block in _blocks(text) if self._has_room_for(block)]
        self._starts = [block.start for block in self._blocks]

    def parts(self) -> Iterator[str]:
        place = 0
        while place < len(self._text):
            cut = self._cut(place)
            if part := self._part(place, cut):
                yield part
            place = self._resume(cut)

    def _part(self, place: int, cut: int) -> str:
        """Return the text between two cuts, with the fences that the cuts require; empty for white space alone."""
        body = self._text[place:cut]
        if not body.strip():
            return ""
        if (opened := self._inside(place)) is not None:
            body = f"{opened.opening}\n{body}"
        if cut == len(self._text):
            return body
        if (left_open := self._inside(cut)) is None:
            return body.rstrip()
        # Trailing spaces are significant in code.
        return body.rstrip("\r\n") + f"\n{left_open.closing}"

    def _cut(self, place: int) -> int:
        """Return the offset at which the part that begins at `place` ends."""
        opened = self._inside(place)
        room = self._limit - (0 if opened is None else length(opened.opening, self._unit) + 1)
        top = longest_prefix(self._text, place, room, self._unit)
        if top == len(self._text):
            return top
        pauses = list(self._break_points(place, top))
        for lowest in (place + (top - place) // 2, place):
            fitting = (cut for cuts in pauses for cut in reversed(cuts) if cut > lowest and self._may_cut(place, cut))
            if (best := next(fitting, None)) is not None:
                return best
        return self._cut_anywhere(place, top)

    def _break_points(self, place: int, top: int) -> Iterator[list[int]]:
        """Yield the offsets at which a reader would pause, one list for each kind of pause, the best kind first."""
        # White space at a cut is dropped, so a cut may lie behind all of it.
        white = _WHITE.match(self._text, top)
        end = white.end() if white else top
        for pattern, in_code in ((_BLANK_LINES, False), (_LINE_ENDS, True), (_SENTENCE_ENDS, False), (_SPACES, True)):
            cuts = (match.end() for match in pattern.finditer(self._text, place, end))
            yield [cut for cut in cuts if in_code or self._inside(cut) is None]

    def _cut_anywhere(self, place: int, top: int) -> int:
        cuts = [cut for cut in range(top, place, -1) if not self._splits_fence(cut)]
        whole = (cut for cut in cuts if is_boundary(self._text, cut) and self._may_cut(place, cut))
        torn = (cut for cut in cuts if self._may_cut(place, cut))
        # Fences fill at most half of a part, so there is always room for a character.
        return next(whole, None) or next(torn)

    def _may_cut(self, place: int, cut: int) -> bool:
        return not self._splits_fence(cut) and length(self._part(place, cut), self._unit) <= self._limit

    def _resume(self, cut: int) -> int:
        """Return the offset at which the next part begins: after white space, but before the indentation of its first line."""
        block = self._inside(cut)
        place = self._behind_blank_lines(cut)
        if block is not None:
            if self._text[cut : block.close].strip():
                return place
            # All code of the block is in earlier parts, and the closing fence of the last part ended it.
            return self._behind_blank_lines(min(block.end, len(self._text)))
        spaces = _SPACES.match(self._text, place)
        is_in_line = place > 0 and self._text[place - 1] != "\n"
        return spaces.end() if spaces and is_in_line else place

    def _behind_blank_lines(self, place: int) -> int:
        blank = _BLANK_REST.match(self._text, place)
        return blank.end() if blank else place

    def _inside(self, place: int) -> _Block | None:
        """Return the block whose code a cut at `place` would cut, or None."""
        block = self._block_at(place)
        return block if block and block.code <= place <= block.close else None

    def _splits_fence(self, place: int) -> bool:
        """Return whether a cut splits a fence, or follows an opening fence so that the part would end with an empty block."""
        block = self._block_at(place)
        return block is not None and (block.start < place <= block.code or block.close < place < block.end)

    def _block_at(self, place: int) -> _Block | None:
        index = bisect_right(self._starts, place) - 1
        return self._blocks[index] if index >= 0 and place <= self._blocks[index].end else None

    def _has_room_for(self, block: _Block) -> bool:
        closing = max(block.closing, self._text[block.close : block.end], key=len)
        return 2 * (length(block.opening, self._unit) + length(closing, self._unit) + 2) <= self._limit


def _blocks(text: str) -> Iterator[_Block]:
    place = 0
    while opening := _OPENING.search(text, place):
        indent, fence = opening.groups()
        same = re.compile(rf"^[ \t]{{0,12}}{fence}{fence[0]}*(?=[^\S\n]*$)", re.MULTILINE)
        closing = same.search(text, opening.end() + 1)
        # A block without a closing fence goes on to the end.
        close, place = closing.span() if closing else (len(text) + 1, len(text) + 1)
        yield _Block(opening.start(), opening.end() + 1, close, place, opening.group().rstrip(), indent + fence)


_JOINER = "\u200d"
_VIRAMA = 9


def longest_prefix(text: str, start: int, room: int, unit: LengthUnit) -> int:
    """Return the last offset up to which `text`, taken from `start`, is at most `room` units long."""
    # No character is shorter than one unit, so the offset can't lie beyond `end`.
    end = min(len(text), start + max(room, 0))
    if unit == "chars":
        return end
    return start + bisect_right(range(1, end - start + 1), room, key=lambda n: length(text[start : start + n], unit))


def is_boundary(text: str, place: int) -> bool:
    """Return whether a cut at `place` leaves every accent, joined emoji, flag and syllable whole."""
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
    """Return whether `char` is a skin tone, a tag or a non-joiner, which belong to the character before them."""
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
    """Return whether these are parts of one Korean syllable that is written as separate letters."""
    leads, vowels = "\u1100" <= before <= "\u115f", "\u1160" <= after <= "\u11a7"
    has_vowel = "\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return (leads and (vowels or "\uac00" <= after <= "\ud7a3" or "\u1100" <= after <= "\u115f")) or (
        has_vowel and "\u1160" <= after <= "\u11ff"
    )

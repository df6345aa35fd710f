"""Long texts in parts that a platform takes: cut where a reader would pause, code blocks closed and opened again."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from threadline.ports.platform import LengthUnit, length

# The longest character has four bytes: below that there are texts that fit in no part.
SMALLEST_LIMIT = 4

_OPENING = re.compile(r"^([ \t]{0,12})(`{3,}(?=[^`\n]*$)|~{3,})[^\n]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINE_ENDS = re.compile(r"\n(?:[^\S\n]*\n)*")
_SENTENCE_ENDS = re.compile(r"[.!?…][\"'”\u2019»)\]*_]*[^\S\n]+|[。\uff01\uff1f][”\u2019」』\uff09]*")
_SPACES = re.compile(r"[^\S\n]+")
_WHITE = re.compile(r"\s*")
_BLANK_REST = re.compile(r"(?:[^\S\n]*\n)+")


def split(text: str, limit: int, unit: LengthUnit = "chars") -> list[str]:
    """`text` in parts of at most `limit` units each, in order; nothing but white space at the cuts is lost.

    It is cut at a blank line, else at a line's end, a sentence's, a word's, else between any two characters as readers see them;
    a cut that leaves a part less than half full is taken only where there is no other. A code block that is cut ends in one
    part and begins again in the next with the same fence and language, which count towards the limit. A text that fits is one
    part, unchanged; one of nothing but white space is none. A limit below 4 is a `ValueError`.

    Where the limit leaves no choice it wins: over a character with thousands of accents, and over fences that would fill
    half of a part by themselves; such a block is cut like any other text.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"{limit} is too little for some characters; give a limit of {SMALLEST_LIMIT} or more")
    if not text.strip():
        return []
    return list(_Splitter(text, limit, unit).parts()) if length(text, unit) > limit else [text]


class _Block(msgspec.Struct, frozen=True):
    """A fenced code block: where it starts, where its code and its closing fence do, and how to write its fences again."""

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
        """What stands between two cuts, with the fences that they call for; empty where there is nothing to see."""
        body = self._text[place:cut]
        if not body.strip():
            return ""
        if (opened := self._inside(place)) is not None:
            body = f"{opened.opening}\n{body}"
        if cut == len(self._text):
            return body
        if (left_open := self._inside(cut)) is None:
            return body.rstrip()
        # Spaces mean something in code.
        return body.rstrip("\r\n") + f"\n{left_open.closing}"

    def _cut(self, place: int) -> int:
        """Where the part that begins at `place` ends."""
        opened = self._inside(place)
        room = self._limit - (0 if opened is None else length(opened.opening, self._unit) + 1)
        top = longest_prefix(self._text, place, room, self._unit)
        if top == len(self._text):
            return top
        pauses = list(self._break_points(place, top))
        for lowest in (place + (top - place) // 2, place):
            fitting = (cut for cuts in pauses for cut in reversed(cuts) if cut > lowest and self._may_cut(place, cut))
            if (found := next(fitting, None)) is not None:
                return found
        return self._cut_anywhere(place, top)

    def _break_points(self, place: int, top: int) -> Iterator[list[int]]:
        """Where a reader would pause, the kinds of pause that read best first."""
        # White space at a cut goes, so a cut may lie behind all of it.
        white = _WHITE.match(self._text, top)
        end = white.end() if white else top
        for pattern, in_code in ((_BLANK_LINES, False), (_LINE_ENDS, True), (_SENTENCE_ENDS, False), (_SPACES, True)):
            found = (match.end() for match in pattern.finditer(self._text, place, end))
            yield [cut for cut in found if in_code or self._inside(cut) is None]

    def _cut_anywhere(self, place: int, top: int) -> int:
        cuts = [cut for cut in range(top, place, -1) if not self._splits_fence(cut)]
        whole = (cut for cut in cuts if is_boundary(self._text, cut) and self._may_cut(place, cut))
        torn = (cut for cut in cuts if self._may_cut(place, cut))
        # Fences take half of a part at most, so that there is always room for a character.
        return next(whole, None) or next(torn)

    def _may_cut(self, place: int, cut: int) -> bool:
        return not self._splits_fence(cut) and length(self._part(place, cut), self._unit) <= self._limit

    def _resume(self, cut: int) -> int:
        """Where the next part begins: behind the white space, but with the indentation of its first line."""
        block = self._inside(cut)
        place = self._behind_blank_lines(cut)
        if block is not None:
            if self._text[cut : block.close].strip():
                return place
            # All its code has been shown, and the fence that ended the part ended the block.
            return self._behind_blank_lines(min(block.end, len(self._text)))
        spaces = _SPACES.match(self._text, place)
        is_in_line = place > 0 and self._text[place - 1] != "\n"
        return spaces.end() if spaces and is_in_line else place

    def _behind_blank_lines(self, place: int) -> int:
        blank = _BLANK_REST.match(self._text, place)
        return blank.end() if blank else place

    def _inside(self, place: int) -> _Block | None:
        """The block whose code a cut at `place` would cut."""
        block = self._block_at(place)
        return block if block and block.code <= place <= block.close else None

    def _splits_fence(self, place: int) -> bool:
        """Also right behind an opening fence: the part would end with an empty block."""
        block = self._block_at(place)
        return block is not None and (block.start < place <= block.code or block.close < place < block.end)

    def _block_at(self, place: int) -> _Block | None:
        found = bisect_right(self._starts, place) - 1
        return self._blocks[found] if found >= 0 and place <= self._blocks[found].end else None

    def _has_room_for(self, block: _Block) -> bool:
        closing = max(block.closing, self._text[block.close : block.end], key=len)
        return 2 * (length(block.opening, self._unit) + length(closing, self._unit) + 2) <= self._limit


def _blocks(text: str) -> Iterator[_Block]:
    place = 0
    while opening := _OPENING.search(text, place):
        indent, fence = opening.groups()
        same = re.compile(rf"^[ \t]{{0,12}}{fence}{fence[0]}*(?=[^\S\n]*$)", re.MULTILINE)
        closing = same.search(text, opening.end() + 1)
        # One that nobody closed goes on to the end.
        close, place = closing.span() if closing else (len(text) + 1, len(text) + 1)
        yield _Block(opening.start(), opening.end() + 1, close, place, opening.group().rstrip(), indent + fence)


_JOINER = "\u200d"
_VIRAMA = 9


def longest_prefix(text: str, start: int, room: int, unit: LengthUnit) -> int:
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

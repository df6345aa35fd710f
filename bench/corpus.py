"""The fixed corpus: messages of about 500 bytes whose words follow Zipf's law, one in ten of them Chinese."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Any

SEED = 20_240_229
MESSAGES = 100_000
BYTES = 500
_WORDS = 50_000
_CHARACTERS = 3_000
_CJK_EVERY = 10
_SYLLABLES = tuple(consonant + vowel for consonant in "bcdfghjklmnprstvz" for vowel in "aeiou")


class Corpus:
    """Texts by number: the same seed and number give the same text, in any order and on any machine."""

    def __init__(self, seed: int = SEED, size: int = MESSAGES) -> None:
        self.seed = seed
        self.size = size
        self._words = _vocabulary(seed)
        self._word_weights = _zipf(len(self._words))
        self._characters = [chr(0x4E00 + 7 * n) for n in range(_CHARACTERS)]
        self._character_weights = _zipf(_CHARACTERS)

    @property
    def commonest_word(self) -> str:
        """The word of rank one: nearly every message that is not Chinese holds it."""
        return self._words[0]

    def text(self, number: int) -> str:
        """The text of that number; numbers beyond the corpus go on in the same manner."""
        draw = random.Random(f"{self.seed}:{number}")
        return self._chinese(draw) if number % _CJK_EVERY == _CJK_EVERY - 1 else self._prose(draw)

    def message(self, number: int) -> dict[str, Any]:
        """A message with that text: people and the assistant take turns."""
        return {"role": "assistant" if number % 2 else "user", "content": self.text(number)}

    def messages(self, start: int, count: int) -> list[dict[str, Any]]:
        """Messages `start` to `start + count`, made before anything is timed."""
        return [self.message(number) for number in range(start, start + count)]

    def texts(self) -> Iterator[str]:
        """All texts of the corpus in order."""
        return map(self.text, range(self.size))

    @cached_property
    def text_bytes(self) -> int:
        """The size of all texts as people count it: their UTF-8 bytes."""
        return sum(len(text.encode()) for text in self.texts())

    @cached_property
    def frequencies(self) -> Counter[str]:
        """In how many messages of the corpus each word stands."""
        counted: Counter[str] = Counter()
        for text in self.texts():
            counted.update(set(text.split()))
        return counted

    def _prose(self, draw: random.Random) -> str:
        words = draw.choices(self._words, cum_weights=self._word_weights, k=BYTES // 4)
        ends = list(accumulate(len(word) + 1 for word in words))
        kept = sum(end <= BYTES for end in ends)
        return " ".join(words[:kept])

    def _chinese(self, draw: random.Random) -> str:
        drawn = draw.choices(self._characters, cum_weights=self._character_weights, k=BYTES // 3 - 12)
        return "。".join("".join(drawn[at : at + 14]) for at in range(0, len(drawn), 14))


def _vocabulary(seed: int) -> list[str]:
    """Distinct words, the short ones first, because common words are short."""
    draw = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        syllables = 2 + min(3, len(words) // 4_000)
        words["".join(draw.choices(_SYLLABLES, k=syllables))] = None
    return list(words)


def _zipf(count: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, count + 1)))

"""Updates as they come: many in one answer, taken apart so that one that can't be read harms no other. Pure."""

from __future__ import annotations

import json

import msgspec

from threadline.platforms.telegram.markup import mended


class _Answer(msgspec.Struct, frozen=True):
    result: list[msgspec.Raw]


class _Loose(msgspec.Struct, frozen=True):
    result: list[object]


_answer = msgspec.json.Decoder(_Answer)


def updates_in(answer: bytes) -> list[bytes]:
    """The updates in an answer, each as JSON of its own; `ValueError` for what is no such answer."""
    try:
        return [bytes(update) for update in _answer.decode(answer).result]
    except msgspec.DecodeError:
        # Half of a surrogate pair in one of them is no reason to lose the others.
        loose = msgspec.convert(json.loads(answer), _Loose)
        return [mended(json.dumps(update, ensure_ascii=False)).encode() for update in loose.result]

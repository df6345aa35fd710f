"""Which ends of turns are brief."""

from __future__ import annotations

import pytest

from threadline.clock import Instant
from threadline.model.message import EncodedMessage, encode_message
from threadline.store.turns import Finish, Held


def said(size: int) -> EncodedMessage:
    return encode_message({"role": "assistant", "content": "x" * size})


@pytest.mark.parametrize(
    ("answer", "is_brief"),
    [
        ((), True),
        ((said(10),), True),
        ((said(10),) * 16, True),
        ((said(10),) * 17, False),
        ((said(60_000),), True),
        ((said(70_000),), False),
        ((said(10_000),) * 7, False),
    ],
)
def test_a_turn_that_said_little_ends_with_a_brief_write(answer: tuple[EncodedMessage, ...], is_brief: bool) -> None:
    held = Held(1, "t1", 1)
    finish = Finish(held=held, session_id="s1", outcome="answered", at=Instant(0), answer=answer)
    assert finish.is_brief is is_brief

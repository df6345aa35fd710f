"""A log that can be read, whoever worded what is in it."""

from __future__ import annotations

import logging

from threadline.log import EventFormatter


def shown(**fields: object) -> str:
    record = logging.makeLogRecord({"msg": "it.happened", "levelname": "WARNING", **fields})
    return EventFormatter().format(record).partition(" warning ")[2]


def test_an_event_is_one_line_with_its_fields() -> None:
    assert (
        shown(session="s-1", error="two\nlines \x1b[31m") == 'it.happened session=s-1 error="two\\nlines \\u001b[31m"'
    )


def test_a_value_has_its_bounds() -> None:
    line = shown(error="x" * 1_000_000)
    assert len(line) < 2_100
    assert "(1000000 characters)" in line

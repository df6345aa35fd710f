"""Operations on what people said of themselves: the time zone that they live in."""

from __future__ import annotations

from threadline.store.engine.database import Tx


def timezone_of(tx: Tx, person: str) -> str | None:
    """The time zone that a person named; `None` where they named none."""
    row = tx.find("find_timezone", person=person)
    return None if row is None else str(row[0])


def set_timezone(tx: Tx, person: str, zone: str | None) -> None:
    """The zone that a person's days are counted in from now on; `None`: the installation's."""
    if zone is None:
        tx.run("drop_preferences", person=person)
    else:
        tx.run("keep_timezone", person=person, timezone=zone)

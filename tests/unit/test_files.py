"""Files that go with messages: which go together, and what they are called."""

from __future__ import annotations

import pytest

from threadline.model.files import MAX_FILE_BYTES, file_messages, names_of, stored_ids
from threadline.model.inbound import Attachment

KINDS = {"p": "image/png", "j": "image/jpeg", "w": "image/webp", "v": "video/mp4", "t": "text/plain", "g": "image/gif"}


def files(kinds: str, size: int = 1) -> list[Attachment]:
    """A file for each letter."""
    return [Attachment(handle="file:1", name=kind, mime=KINDS[kind], size=size) for kind in kinds]


@pytest.mark.parametrize(
    ("kinds", "album", "together"),
    [
        ("", 10, []),
        ("pjwv", 10, ["pjwv"]),
        ("pjwv", 3, ["pjw", "v"]),
        ("pp", 1, ["p", "p"]),
        ("ptppt", 10, ["p", "t", "pp", "t"]),
        ("tt", 10, ["t", "t"]),
        ("gpg", 10, ["g", "p", "g"]),
    ],
)
def test_pictures_that_follow_one_another_go_together(kinds: str, album: int, together: list[str]) -> None:
    assert ["".join(file.name for file in group) for group in file_messages(files(kinds), album)] == together


def test_no_message_carries_more_than_two_of_the_largest() -> None:
    assert [len(group) for group in file_messages(files("ppppp", MAX_FILE_BYTES), 10)] == [2, 2, 1]


def test_a_name_can_do_nothing_but_be_read() -> None:
    named = names_of([Attachment(handle="h", name=name) for name in ("a`b\n\x1b[2J.txt", "", "x" * 999)])
    assert named.startswith("`a'b .txt`, `a file without a name`, `xxx")
    assert len(named) < 200


def test_only_what_the_store_has_has_an_id() -> None:
    assert stored_ids([Attachment(handle="file:1a"), Attachment(handle="f2")]) == ("1a",)

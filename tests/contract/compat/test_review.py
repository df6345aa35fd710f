"""Damage, deletion and other people's data at the edges of the original API."""

from __future__ import annotations

from tests.contract.compat.old_folders import entry, origin, write_index, write_lines
from tests.contract.compat.talk import texts, user

from threadline.compat import SessionStore


def test_what_is_said_after_a_deletion_is_kept_and_nothing_comes_back(store: SessionStore) -> None:
    write_index(store.sessions_dir, entry("a", **origin(user_id="7")))
    write_lines(store.sessions_dir, "a", "before")
    store.core.delete_session("a")
    store.append_to_transcript("a", user("after"))
    assert texts(store, "a") == ["after"]

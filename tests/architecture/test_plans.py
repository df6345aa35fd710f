"""What is asked for every message, turn and beat finds its rows by an index: its cost does not grow with what is stored."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from threadline import SessionStore
from threadline.store.engine.sql import load_queries

# Kept for ever, or as long as their sessions: never to be read from end to end.
GROWING = (
    "inbox",
    "turns",
    "deliveries",
    "sessions",
    "session_state",
    "addresses",
    "messages",
    "spans",
    "journal",
    "contexts",
    "memories",
)
HOT = (
    # a message
    (
        "find_inbound",
        "find_current",
        "find_current_and_inbound",
        "count_waiting",
        "at_hand",
        "pending_from_end",
        "find_content",
        "mark_ready",
        "is_busy",
        "lock_session",
        "lock_session_pk",
        "touch_session",
    ),
    # a turn
    (
        "ready_sessions",
        "live_turn",
        "live_counts",
        "has_work",
        "short_history",
        "waiting_turn",
        "pending_of_session",
        "take_inbound",
        "delete_new_turn",
        "find_context",
    ),
    (
        "renew_turns_lease",
        "hold_turns_lease",
        "note_tools",
        "end_turn",
        "give_back",
        "set_outcome",
        "request_stop",
        "wake_asking_turn",
        "people_of_turn",
    ),
    # a question
    (
        "find_open_approval",
        "open_approvals_with_code",
        "decide_approval",
        "answers_of",
        "count_approvals",
        "expired_approvals",
        "close_approvals_of_session",
    ),
    # a delivery
    ("due_deliveries", "mark_sending", "mark_sent", "find_stream", "finish_stream", "drop_stream"),
    # every few seconds
    ("expired_turns", "expired_deliveries", "pending_controls", "due_flush", "due_again", "listed_after"),
    # what somebody deletes in a group
    ("knows_chat", "pending_in_chat", "taken_in_chat", "transcript_numbers", "find_append_key"),
    # a page that somebody looks at
    (
        "fingerprints",
        "peek_current",
        "unfinished_turns",
        "taken_by_turn",
        "journal_after",
        "notices_in_chat",
        "turns_ended_early",
        "first_words",
        "work_at_hand",
        "load_view",
        "load_log",
        "list_of_owner",
        "moved_sessions",
        "relist_session",
        "newest_direct_chats",
        "erase_notices",
        "erase_notices_to",
    ),
    # an editor's session
    (
        "list_of_platform",
        "list_of_cwd",
        "history_lengths",
        "editor_elsewhere",
        "joined_between",
        "side_messages",
        "time_and_role",
        "find_message",
        "sessions_at",
        "save_state",
        "load_state",
        "drop_memories_of",
    ),
    # the end of a session
    ("forget_waiting", "end_idle_turns", "drop_journals_of_session", "forget_deliveries"),
)
_SCAN = re.compile(r"SCAN (\w+)(?! USING)")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "threadline.db"
    SessionStore.open(path).close()
    return path


@pytest.mark.parametrize("name", [name for names in HOT for name in names])
def test_it_never_reads_a_growing_table_from_end_to_end(database: Path, name: str) -> None:
    query = load_queries("sqlite", "?")[name]
    connection = apsw.Connection(str(database))
    try:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {query.text}", [None] * len(query.names)).fetchall()
    finally:
        connection.close()
    aliases = re.findall(r"\b(?:FROM|JOIN)\s+(\w+)\s+([a-z])\b", query.text)
    growing = {*GROWING, *(alias for table, alias in aliases if table in GROWING)}
    scanned = [
        found.group(0) for *_, detail in rows if (found := _SCAN.match(str(detail))) and found.group(1) in growing
    ]
    assert scanned == []

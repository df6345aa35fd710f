"""Checks of a whole store, a stretch at a time: views against logs, the search index against the messages."""

from __future__ import annotations

import msgspec

from threadline.model.message import decode_body, searchable_text
from threadline.model.view import View, log_of, open_span, seq_of
from threadline.store import views
from threadline.store.database import Tx
from threadline.store.indexing import STEP_BYTES, behind
from threadline.store.rows import json_value
from threadline.store.tokens import tokenise

STEP = 1_000


class CheckReport(msgspec.Struct, frozen=True):
    """What a check found. `faults` is empty when all is well; each fault is a sentence."""

    faults: list[str]
    sessions: int
    messages: int
    behind: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


class Stretch(msgspec.Struct, frozen=True):
    """The outcome of one step: what it found, how much it looked at, and where to go on (`None`: nowhere)."""

    faults: list[str]
    looked_at: int
    next: int | None


def counts(tx: Tx) -> tuple[int, int, int, int]:
    """Sessions, ended ones among them, messages, and messages that search does not know yet."""
    sessions = tx.find("count_sessions")
    messages = tx.find("count_messages")
    assert sessions is not None, "an aggregate has a row"  # noqa: S101
    assert messages is not None, "an aggregate has a row"  # noqa: S101
    return int(sessions[0]), int(sessions[1]), int(messages[0]), behind(tx)


def check_views(tx: Tx, after: int) -> Stretch:
    """A stretch of sessions: each has a current view that ends open on its own log, and what that shows or folded is there.

    So it is with each view that redo can bring back.
    """
    faults: list[str] = []
    rows = tx.rows("sessions_after", after=after, limit=STEP)
    for pk, session_id, version, redo, last_seq, message_count in rows:
        view = views.load(tx, pk, version)
        found = _view_faults(tx, pk, view, last_seq)
        if not found and (own := views.own_count(view, pk, last_seq)) != message_count:
            found = [f"it says that it has {message_count} messages of its own, and shows {own}"]
        for kept in json_value(redo):
            found += [f"{fault} (to redo)" for fault in _view_faults(tx, pk, views.load(tx, pk, kept), last_seq)]
        faults += [f"session {session_id}: {fault}" for fault in found]
    return Stretch(faults, len(rows), rows[-1][0] if len(rows) == STEP else None)


def check_messages(tx: Tx, after: int) -> Stretch:
    """A stretch of messages: each parses, and the index knows it exactly if it should."""
    faults: list[str] = []
    rows = tx.rows("indexed_part", lo=after + 1, hi=views.FAR, limit=STEP, most=STEP_BYTES)
    for number, redacted_at, body, should, doc, known in rows:
        try:
            tokens = tokenise(searchable_text(decode_body(body)))
        except ValueError:
            faults.append(f"message {number}: its text is no JSON")
            continue
        # A log whose session was deleted keeps the index entries that it had.
        expected = redacted_at is None and bool(tokens) and (should is None or bool(should))
        if expected and doc is None:
            if should is not None:
                faults.append(f"message {number}: search does not know it")
        elif not expected and doc is not None:
            faults.append(f"message {number}: search knows it, and should not")
        elif doc is not None and not tx.index_agrees(known, tokens):
            faults.append(f"message {number}: search knows other words than it has")
    return Stretch(faults, len(rows), rows[-1][0] if rows else None)


def check_strays(tx: Tx) -> list[str]:
    """Index entries without a message, sessions that listings miss, addresses that disagree with their session on its end."""
    faults = [f"search knows message {number}, which is gone" for (number,) in tx.rows("stray_documents", limit=20)]
    odd = tx.rows("odd_addresses", limit=20)
    faults += [f"session {name}: listings may miss it" for (name,) in tx.rows("unlisted_sessions", limit=20)]
    return faults + [f"{key} does not tell rightly whether its current session has ended" for (key,) in odd]


def _view_faults(tx: Tx, pk: int, view: View, last_seq: int) -> list[str]:
    if not view.shown or log_of(view.shown[-1].lo) != pk or view.shown[-1].hi != open_span(pk).hi:
        return ["its view does not end open on its own log"]
    faults = []
    for span in (*view.shown, *view.folded):
        row = tx.find("count_in_span", lo=span.lo, hi=span.hi)
        there = 0 if row is None else int(row[0])
        reach = seq_of(span.hi) if log_of(span.lo) != pk else min(seq_of(span.hi), last_seq)
        if there != max(0, reach - seq_of(span.lo) + 1):
            faults.append(f"messages {span.lo} to {span.hi} of its view are not all there")
    return faults

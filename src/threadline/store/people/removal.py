"""Redact, delete, prune, collect and erase."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from threadline.clock import Instant, to_instant
from threadline.errors import InvalidRequest
from threadline.model.delivery import target_of
from threadline.model.message import MessageRef, tombstone
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.model.view import MAX_SEQ, Span, log_of, merge_spans, message_number
from threadline.store.conversations import adoptions, files, id_changes, indexes, records, transcripts
from threadline.store.engine.database import (
    Database,
    Perform,
    Progress,
    Row,
    Step,
    Tx,
    find_after_lock,
    read,
    task,
    write,
)
from threadline.store.people import web_access
from threadline.store.rows import StoredSession, entry_of, json_text, session_of, source_of
from threadline.store.verbs import Group, Mode, Store, parse_age, person_name_of, verb
from threadline.store.work import owner_alerts

STEP = 500
_SESSIONS_PER_STEP = 20


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to prune: those last updated before an instant."""

    before: Instant
    ended_only: bool = False
    platform: str | None = None


def redact(tx: Tx, at: Instant, ref: MessageRef) -> bool:
    """Redact one message in every view that shows it; its role and time stay. Return False if it was redacted before."""
    number = transcripts.find_number(tx, ref)
    return redact_numbers(tx, at, [number]) == 1


def redact_numbers(tx: Tx, at: Instant, numbers: Sequence[int]) -> int:
    """Redact messages, remove them from the index, and delete digests that could confirm a guess at their text; return how many."""
    done = 0
    for number in numbers:
        row = tx.find("find_message", number=number)
        if row is None or row[4] is not None:
            continue
        done += tx.run("redact_message", body=tombstone(row[5]).body, at=at, number=number)
        tx.run("forget_digests", number=number, none=transcripts.ERASED_DIGEST)
        files.unlink_files(tx, number, number)
        # The state of an agent may lead it back to the redacted text.
        tx.run("drop_memories_of", number=number)
    tx.unindex(numbers)
    _delete_quotes(tx, numbers)
    return done


def _delete_quotes(tx: Tx, numbers: Sequence[int]) -> None:
    """Hide the answers of commands, which may quote redacted messages, from the owners of those sessions."""
    for log in {log_of(number) for number in numbers}:
        row = tx.find("find_session_by_pk", session_pk=log)
        if row is not None and (owner := entry_of(row).owner) is not None:
            tx.run("erase_notices_to", person=owner)


def delete_session(tx: Tx, session_id: str) -> None:
    """Delete a session and its views at once, at the same cost for any size; its messages are deleted later, in steps."""
    _delete(tx, records.get_session(tx, session_id, lock=True))


def _delete(tx: Tx, session: StoredSession) -> None:
    shown = {log_of(lo) for lo, _ in tx.rows("spans_of_session", session_pk=session.pk)}
    tx.run("unpoint_session", session_pk=session.pk)
    tx.run("drop_spans", session_pk=session.pk)
    if tx.rows("spans_over_log", lo=message_number(session.pk, 0), hi=message_number(session.pk, MAX_SEQ)):
        # Forks still show its messages, and nothing would index the pending ones later.
        while indexes.index_session(tx, session.pk):
            pass
    tx.run("drop_unindexed", session_pk=session.pk)
    tx.run("drop_state", session_pk=session.pk)
    tx.run("drop_session", session_pk=session.pk)
    for query in (
        "drop_ready",
        "forget_waiting",
        "drop_journals_of_session",
        "end_idle_turns",
        "drop_approvals_of_session",
        "forget_deliveries",
        "drop_context",
        "drop_memories",
        "drop_again",
        "drop_flush",
        "drop_speakers",
    ):
        tx.run(query, session_pk=session.pk)
    tx.run("settle_adoption", session_id=session.entry.session_id)
    tx.run("set_meta", name=records.HAD_SESSIONS, value="1")
    scope = indexes.filter_tokens_of(session.pk, session.entry.owner, session.entry.platform, session.chat)
    tx.run("mark_log_deleted", log=session.pk, session_id=session.entry.session_id, scope=" ".join(scope))
    for log in shown - {session.pk}:
        tx.run("reconsider_log", log=log)


def collect_batch(tx: Tx, limit: int = STEP) -> int:
    """Delete messages of deleted sessions that no view shows, at most `limit`; return how many rows. 0: nothing is left to do."""
    row = tx.find("next_deleted_log")
    if row is None:
        return 0
    log: int = row[0]
    removed = tx.run("drop_externals", session_pk=log, limit=limit)
    lo, hi = message_number(log, 0), message_number(log, MAX_SEQ)
    shown = merge_spans(Span(*span) for span in tx.rows("spans_over_log", lo=lo, hi=hi))
    numbers: list[int] = []
    for start, end in _gaps(shown, lo, hi):
        rows = tx.rows("numbers_in_log", lo=start, hi=end, limit=limit - len(numbers))
        numbers += [number for (number,) in rows]
        if len(numbers) >= limit:
            break
    if numbers:
        tx.unindex(numbers)
        tx.run_many("drop_messages", [(number,) for number in numbers])
    if removed + len(numbers) == 0:
        tx.run("drop_possible_authors", lo=lo, hi=hi)
        for start, end in _gaps(shown, lo, hi):
            files.unlink_files(tx, start, end)
        tx.run("settle_deleted_log" if shown else "forget_deleted_log", log=log)
        # Not 0, which means "nothing left": another log may be pending.
        return 1
    return removed + len(numbers)


def count_prunable(tx: Tx, request: PruneRequest) -> int:
    """Return how many sessions a prune would delete."""
    row = tx.find(
        "count_old_sessions",
        ended=1,
        at_least=int(request.ended_only),
        before=request.before,
        platform=request.platform,
    )
    return 0 if row is None else int(row[0])


def prune_batch(tx: Tx, request: PruneRequest, limit: int) -> int:
    """Delete the oldest prunable sessions, at most `limit`; return how many. 0: none is left."""
    done = 0
    ids_before: list[str] = []
    # Read again while nothing is done: others may just have deleted or used all these sessions, but not the rest.
    while not done and (ids := _old_sessions(tx, request, limit)) != ids_before:
        ids_before = ids
        for session_id in ids:
            row = find_after_lock(tx, "lock_session", session_id=session_id)
            if row is not None and _is_taken(session := session_of(row), request):
                _delete(tx, session)
                done += 1
    return done


def _old_sessions(tx: Tx, request: PruneRequest, limit: int) -> list[str]:
    ids: list[str] = []
    for ended in (1,) if request.ended_only else (1, 0):
        rows: list[Row] = []
        for platform in indexes.platforms(tx, request.platform):
            rows += tx.rows("old_sessions", platform=platform, ended=ended, before=request.before, limit=limit)
        # The least recently updated first, as far as the index tells, so that an interrupted prune has deleted the oldest.
        ids += [session_id for _, _, session_id in sorted(rows)[: limit - len(ids)]]
        if len(ids) >= limit:
            break
    return ids


def _is_taken(session: StoredSession, request: PruneRequest) -> bool:
    """Return whether a locked session is still prunable: a message may have been appended a moment ago."""
    if request.ended_only and session.entry.ended_at is None:
        return False
    return to_instant(session.entry.updated_at) < request.before


def erase_batch(tx: Tx, at: Instant, person: str, *, limit: int = STEP) -> int:
    """Take a step towards a store without any trace of a person; return how many things were erased. 0: done."""
    for query in ("numbers_by_author", "numbers_possibly_by"):
        numbers = [n for (n,) in tx.rows(query, author=person, limit=limit)]
        if numbers:
            return _erase_numbers(tx, at, numbers)
    numbers = _left_in_forks(tx, person, limit)
    if numbers:
        return _erase_numbers(tx, at, numbers)
    removed = 0
    for session_id, pk, origin in tx.rows("sessions_of_owner", owner=person, limit=_SESSIONS_PER_STEP):
        # Redacted before it is deleted: another person's fork keeps only tombstones.
        lo, hi = message_number(pk, 0), message_number(pk, MAX_SEQ)
        numbers = [n for (n,) in tx.rows("unredacted_in_log", lo=lo, hi=hi, limit=limit)]
        if numbers:
            return removed + _erase_numbers(tx, at, numbers)
        if (source := source_of(origin)).chat_type == "dm":
            owner_alerts.forget_notified_chat(tx, target_of(source))
        delete_session(tx, session_id)
        removed += 1
    return removed


def _erase_numbers(tx: Tx, at: Instant, numbers: Sequence[int]) -> int:
    """Redact a person's messages, wherever they are shown, and delete titles of such conversations, which may quote them."""
    for number in numbers:
        tx.run("forget_titles", number=number)
    return redact_numbers(tx, at, numbers)


def _left_in_forks(tx: Tx, person: str, limit: int) -> list[int]:
    """Return messages of the person's deleted sessions that somebody's fork still shows."""
    scope = f"% {indexes.filter_token('o', person)} %"
    for (log,) in tx.rows("deleted_logs_owned", scope=scope, first=0, after=0, limit=1):
        lo, hi = message_number(log, 0), message_number(log, MAX_SEQ)
        return [n for (n,) in tx.rows("unredacted_in_log", lo=lo, hi=hi, limit=limit)]
    return []


def anonymize_turns_batch(tx: Tx, person: str, after: int, limit: int = STEP) -> int | None:
    """Remove a person from the origins of turns in shared sessions; return the number to continue after, `None` at the end."""
    rows = tx.rows("turns_answering", person=person, after=after, limit=limit)
    for pk, text in rows:
        if person_of(origin := source_of(text)) == person:
            tx.run("set_turn_origin", origin=json_text(_without_sender(origin)), turn_pk=pk)
    return int(rows[-1][0]) if len(rows) == limit else None


def delete_traces_batch(tx: Tx, person: str, after: int, limit: int = STEP) -> int | None:
    """Remove a person from the origins of others' sessions; return the number to continue after, `None` at the end.

    The last step deletes everything else that names them.
    """
    rows = tx.rows("others_origins", after=after, limit=limit)
    for pk, text in rows:
        if person_of(origin := source_of(text)) == person:
            tx.run("set_origin", origin=json_text(_without_sender(origin)), session_pk=pk)
            if origin.chat_type == "dm":
                tx.run("forget_display_name", session_pk=pk)
    if len(rows) == limit:
        return int(rows[-1][0])
    _delete_person(tx, person)
    return None


def _delete_person(tx: Tx, person: str) -> None:
    tx.run("forget_usage", person=person)
    web_access.delete_person(tx, person)
    # A turn that still runs finds its rows deleted, and writes nothing.
    for query in ("drop_journals_of", "drop_turns_of", "forget_inbox_of_person", "drop_deliveries_to"):
        tx.run(query, person=person)
    # After the turns: one that ran a moment ago may have stored a file for them.
    files.delete_person(tx, person)
    tx.run("erase_notices")
    for query in ("drop_person", "drop_pairing_of", "drop_preferences"):
        tx.run(query, person=person)
    if tx.run("drop_homes_of", person=person):
        # The prompt context of every session may name the home channel; each gets a new context.
        tx.run("drop_contexts")
    for query in ("drop_speaker", "forget_moves", "forget_decider"):
        tx.run(query, person=person)
    # Unreadable events may hold their words: all of their platform are deleted.
    platform = re.split("[:@]", person)[0]
    tx.run("forget_unreadable", platform=platform)
    tx.run("drop_chat_alerts", chats=f"chat:{platform}/%")
    tx.run("drop_chat_alert_notices", chats=f"{owner_alerts.notice_id_prefix(platform)}%")
    for query in ("forget_author", "forget_possible_author"):
        tx.run(query, author=person)
    for pk, _ in tx.rows("addresses_of_owner", owner=person):
        tx.run("drop_unused_address", pk=pk)


def _without_sender(origin: SessionSource) -> SessionSource:
    """Return the source without its sender. Of a direct chat only platform and account stay: its id is as good as a name."""
    if origin.chat_type == "dm":
        return SessionSource(platform=origin.platform, account=origin.account)
    return msgspec.structs.replace(origin, user_id=None, user_name=None, user_id_alt=None, user_handle=None)


def _gaps(spans: Sequence[Span], lo: int, hi: int) -> list[tuple[int, int]]:
    """Return the ranges of a log that no span covers."""
    gaps, start = [], lo
    for span in spans:
        if start < span.lo:
            gaps.append((start, span.lo - 1))
        start = max(start, span.hi + 1)
    if start <= hi:
        gaps.append((start, hi))
    return gaps


_PRUNE_STEP = 50


class Removal(Group[Mode]):
    """Redact, delete, prune and erase."""

    @verb
    def redact(store: Store[Any], message: MessageRef | str) -> Step[bool]:
        """Remove the content of a message, in every session that shows it; role and time stay. False: it was done before."""
        return write(redact, store.now(), MessageRef.parse(message))

    @verb
    def delete_session(_: Store[Any], session_id: str) -> Step[None]:
        """Delete a session, and its messages that no other session shows; forks keep the messages that they show."""
        return task(_delete_session, session_id)

    @verb
    def prune(
        store: Store[Any],
        older_than: timedelta | datetime,
        *,
        ended_only: bool = False,
        platform: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Step[int]:
        """Delete sessions last updated longer ago than `older_than` (or before that time), oldest first; return how many."""
        before = parse_age(store.clock.now(), older_than)
        request = PruneRequest(before=before, ended_only=ended_only, platform=platform)
        return read(count_prunable, request) if dry_run else task(_prune, request, progress)

    @verb
    def collect(_: Store[Any]) -> Step[int]:
        """Delete messages of deleted sessions that no session shows any more, in short steps; return how many rows."""
        return task(collect)

    @verb
    def erase_person(store: Store[Any], person: SessionSource | str) -> Step[int]:
        """Erase all messages of a person, the agent's replies in sessions that were theirs alone, and their traces.

        Afterwards the database's files no longer contain their words. Return how many things were erased. `StoreUnavailable`:
        another connection kept the files from being rewritten; run it again to finish.
        """
        name = person_name_of(person)
        if name is None:
            raise InvalidRequest("say whose words to erase: a name such as telegram:7")
        return task(_erase_person, store.database, store.now(), name)


def collect(perform: Perform) -> int:
    """Delete messages of deleted sessions that no view shows any more, in short steps; return how many rows."""
    done = 0
    while step := perform(write(collect_batch)):
        done += step
    return done


def _delete_session(perform: Perform, session_id: str) -> None:
    perform(write(delete_session, session_id))
    collect(perform)


def _prune(perform: Perform, request: PruneRequest, progress: Progress | None) -> int:
    total, done = perform(read(count_prunable, request)), 0
    while step := perform(write(prune_batch, request, _PRUNE_STEP)):
        done += step
        if progress is not None:
            progress(done, max(done, total))
        collect(perform)
    return done


def _erase_person(perform: Perform, database: Database, at: Instant, name: str) -> int:
    if perform(read(adoptions.list_pending_transcripts)):
        raise InvalidRequest(
            "transcripts of an older folder are not adopted yet, and may hold their words: "
            "run `threadline compat adopt FOLDER`, then erase"
        )
    done = 0
    # The name itself last: as long as it exists, an interrupted erasure can be repeated.
    for known_as in (*reversed(perform(read(id_changes.former_names, name))), name):
        done += _erase_name(perform, at, known_as)
    collect(perform)
    database.rewrite_files()
    return done


def _erase_name(perform: Perform, at: Instant, name: str) -> int:
    done = 0
    while step := perform(write(erase_batch, at, name)):
        done += step
    for walk in (anonymize_turns_batch, delete_traces_batch):
        after: int | None = 0
        while after is not None:
            after = perform(write(walk, name, after))
    return done

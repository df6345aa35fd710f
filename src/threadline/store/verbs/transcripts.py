"""Verbs on transcripts: what was said, and what the model sees of it."""

from __future__ import annotations

from collections.abc import Sequence

from threadline.clock import to_instant
from threadline.errors import InvalidMessage
from threadline.ids import new_session_id
from threadline.model.message import Appended, Message, MessageRef, TranscriptMessage, content_digest, encode_messages
from threadline.model.session import SessionEntry
from threadline.store.conversations import records, transcripts
from threadline.store.engine.database import BatchStep, Plan, read, write
from threadline.store.rows import Page
from threadline.store.verbs.arguments import (
    MAX_PATH_CHARS,
    Who,
    clean_or_none,
    clean_text,
    person_named,
)
from threadline.store.verbs.base import VerbsBase


class TranscriptVerbs(VerbsBase):
    """Appending, loading and changing what a session shows."""

    def append_to_transcript(
        self,
        session_id: str,
        messages: Message | Sequence[Message],
        idempotency_key: str | None = None,
        *,
        author: Who = None,
        external_id: str | None = None,
    ) -> Plan[Appended]:
        """Appends one message or several, all or none; when it returns they survive a power cut.

        The key is unique per session: the same key again adds nothing; with other content it is `IdempotencyConflict`.
        `author` says who speaks in a shared session; `external_id` is the platform's own id of the (first) message.
        """
        encoded = encode_messages(messages)
        if not encoded:
            raise InvalidMessage("there is no message to append")
        clean_or_none("an idempotency key", idempotency_key)
        request = transcripts.AppendRequest(
            session_id,
            encoded,
            self._now(),
            idempotency_key,
            None if idempotency_key is None else content_digest(encoded),
            person_named(author),
            clean_or_none("external_id", external_id),
        )
        size = len(encoded[0].body) if len(encoded) == 1 else sum(len(message.body) for message in encoded)
        appended: Appended = yield BatchStep(transcripts.append_batch, request, size)
        self._grown()
        return appended

    def load_transcript(self, session_id: str, limit: int | None = None) -> Plan[list[Message]]:
        """What the model sees, oldest first, equal as JSON to what was stored; with `limit`, the last so many."""
        return (yield from read(transcripts.load, session_id, limit))

    def read_transcript(self, session_id: str, limit: int | None = None) -> Plan[list[TranscriptMessage]]:
        """Like `load_transcript`, each message with its id, time and author."""
        return (yield from read(transcripts.read, session_id, limit))

    def page_transcript(
        self, session_id: str, *, limit: int = 500, cursor: str | None = None
    ) -> Plan[Page[TranscriptMessage]]:
        """A page of what `read_transcript` reads, oldest first: for transcripts that are too long to hold in memory.

        New messages turn up at the end; if the view itself changes between two pages (an undo), the cursor is `InvalidCursor`.
        """
        return (yield from read(transcripts.page, session_id, limit, cursor))

    def read_log(self, session_id: str, after: int = 0, limit: int = 1000) -> Plan[list[TranscriptMessage]]:
        """All that was ever said in the session itself, undone and folded messages included, from place `after` on."""
        return (yield from read(transcripts.read_log, session_id, after, limit))

    def rewrite_transcript(self, session_id: str, messages: Sequence[Message]) -> Plan[SessionEntry]:
        """Replaces what the model sees, all or nothing. The earlier text stays: found by search, read by `read_log`.

        That is no activity: a conversation that goes stale does so all the same.
        """
        encoded = encode_messages(messages)
        return (yield from write(transcripts.rewrite, self._now(), session_id, encoded))

    def rewind_session(self, session_id: str, n: int = 1) -> Plan[SessionEntry]:
        """Undoes the last `n` exchanges (or all there are); `NothingToUndo` where there is none."""
        return (yield from write(transcripts.undo, self._now(), session_id, n))

    def redo_session(self, session_id: str) -> Plan[SessionEntry]:
        """Takes the last undo back; `NothingToRedo` where nothing was undone or something was said since."""
        return (yield from write(transcripts.redo, self._now(), session_id))

    def retry_session(self, session_id: str) -> Plan[SessionEntry]:
        """Takes the answer to the last user message out of the view, so that it can be given again; redo brings it back."""
        return (yield from write(transcripts.retry, self._now(), session_id))

    def fork_session(
        self,
        session_id: str,
        *,
        upto: MessageRef | str | None = None,
        key: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
    ) -> Plan[SessionEntry]:
        """A new session with the same history, model and working directory, at the same cost for any length.

        `upto` cuts the history after that message. With `key` the fork becomes that conversation's current session, and is
        answered there; without, it waits to be resumed.
        """
        now = self._settings.clock.now()
        parent: SessionEntry = yield from read(records.get_entry, session_id)
        how = records.Beginning(
            new_session_id(now),
            parent.origin,
            to_instant(now),
            model=clean_or_none("model", model),
            cwd=clean_or_none("cwd", cwd, MAX_PATH_CHARS),
        )
        ref = None if upto is None else MessageRef.parse(upto)
        return (yield from write(transcripts.fork, session_id, how, upto=ref, key=key))

    def link_message(self, message: MessageRef | str, external_id: str) -> Plan[None]:
        """Notes the platform's own id of a message, received or delivered: a thread that hangs on it starts there."""
        text = clean_text("external_id", external_id)
        return (yield from write(transcripts.link, MessageRef.parse(message), text))

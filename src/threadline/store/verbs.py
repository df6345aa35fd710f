"""What a store can do, said once for both clients: each verb is a plan of steps that either of them carries out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from threadline.clock import Clock, Instant, to_instant
from threadline.errors import InvalidMessage, InvalidRequest
from threadline.ids import new_session_id
from threadline.model.address import SessionScope, address_of, build_session_key
from threadline.model.message import Message, digest_of, encode_messages
from threadline.model.policy import ResetPolicies, resolve_zone
from threadline.model.session import SessionEntry, checked_runtime
from threadline.model.source import SessionSource
from threadline.model.transcript import Appended, MessageRef, TranscriptMessage
from threadline.model.usage import CostStatus, Usage, micros_of
from threadline.store import check, erasure, indexing, listing, search, sessions, transcript, usage
from threadline.store.arguments import (
    MAX_PATH_CHARS,
    MAX_TITLE_CHARS,
    Who,
    clean_or_none,
    clean_text,
    instant_of,
    minutes_before,
    moment_before,
    person_named,
    viewer_of,
)
from threadline.store.database import BatchStep, EngineFacts, EngineStep, Plan, Progress, read, write
from threadline.store.listing import Page
from threadline.store.tokens import parse_query

IsBusy: TypeAlias = Callable[[str], bool]

# A search indexes at most this much before it answers; what is left over is told, not hidden.
_INLINE_INDEXING = 4_096
_PRUNE_STEP = 50


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store decides: everything that is not in the database."""

    policies: ResetPolicies
    scope: SessionScope
    clock: Clock
    zone: str
    agent: str = "main"
    is_busy: IsBusy | None = None


class Verbs:
    """The verbs as plans. A verb checks its arguments before its first step, so bad input costs no transaction."""

    def __init__(self, settings: StoreSettings, grown: Callable[[], None]) -> None:
        """`grown` is told after each append: the index has something to do."""
        self._settings = settings
        self._grown = grown

    # Conversations

    def get_or_create_session(
        self, source: SessionSource, force_new: bool = False, *, agent: str | None = None
    ) -> Plan[SessionEntry]:
        """The current session of the conversation that `source` belongs to, touched.

        A new one where there is none, where the reset policy finds it stale and it is not busy, or with `force_new`; the old
        one is then ended. A new thread in a DM starts with the DM's history. Callers at once get the same session.
        """
        settings = self._settings
        now = settings.clock.now()
        policy = settings.policies.policy_for(source.platform, source.chat_type)
        wanted = sessions.Resolve(
            source=source,
            address=address_of(source, settings.scope, agent or settings.agent),
            policy=policy,
            zone=resolve_zone(policy, installation=settings.zone),
            at=to_instant(now),
            new_id=new_session_id(now),
            force_new=force_new,
        )
        if settings.is_busy is not None and policy.mode != "none":
            # Asked outside of any transaction: a vote may be slow, and may ask the store itself.
            stale = yield from read(sessions.find_stale, wanted)
            if stale is not None and settings.is_busy(stale):
                wanted = msgspec.structs.replace(wanted, busy=True)
        return (yield from write(sessions.resolve, wanted))

    def session_key(self, source: SessionSource, *, agent: str | None = None) -> str:
        """The readable name of the conversation that `source` belongs to, by this store's scope settings."""
        return build_session_key(source, self._settings.scope, agent or self._settings.agent)

    def get_session(self, session_id: str) -> Plan[SessionEntry]:
        """The session of that id, or `UnknownSession`."""
        return (yield from read(sessions.get_entry, session_id))

    def reset_session(self, key: str) -> Plan[SessionEntry | None]:
        """A fresh session for the conversation at once; origin and display data are carried over. `None`: unknown key."""
        now = self._settings.clock.now()
        return (yield from write(sessions.reset, key, new_id=new_session_id(now), at=to_instant(now)))

    def switch_session(self, key: str, session_id: str) -> Plan[SessionEntry]:
        """The conversation goes on with an earlier session, which counts as active now.

        Raises `UnknownSession`, or `NotYours` for a session that is not this conversation's to see; then nothing changed.
        A session that another conversation holds is forked.
        """
        now = self._settings.clock.now()
        new_id, at = new_session_id(now), to_instant(now)
        return (yield from write(sessions.switch, key, session_id, new_id=new_id, at=at))

    def list_sessions(
        self,
        active_minutes: float | None = None,
        *,
        include_ended: bool = False,
        person: Who = None,
        platform: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Plan[Page[SessionEntry]]:
        """A page of sessions, the most recently updated first; `page.cursor` asks for the next.

        `person` is a name such as `telegram:7`, or a source: then what its sender may see from there.
        """
        wanted = listing.Listing(
            include_ended=include_ended,
            viewer=viewer_of(person),
            platform=platform,
            limit=limit,
            cursor=cursor,
        )
        if active_minutes is not None:
            since = minutes_before(self._settings.clock.now(), active_minutes)
            wanted = msgspec.structs.replace(wanted, active_since=since)
        return (yield from read(listing.list_sessions, wanted))

    def has_any_sessions(self, besides: str | None = None) -> Plan[bool]:
        """Whether there ever were sessions other than `besides`, ended and pruned ones included."""
        return (yield from read(sessions.has_any, besides))

    def take_reset_notice(self, session_id: str, audience: sessions.Audience) -> Plan[sessions.ResetNotice | None]:
        """The notice that the conversation started afresh, for `"user"` or `"agent"`: once each, also across restarts."""
        return (yield from write(sessions.take_reset_notice, session_id, audience))

    def set_title(self, session_id: str, title: str | None) -> Plan[SessionEntry]:
        """Names a session for `/resume NAME`; `None` takes the name away."""
        text = None if title is None else " ".join(clean_text("title", title, MAX_TITLE_CHARS).split())
        if text == "":
            raise InvalidRequest("a title needs at least one visible character; use None to take it away")
        return (yield from write(sessions.set_title, session_id, text, at=self._now()))

    def find_by_title(self, title: str, *, viewer: Who = None) -> Plan[SessionEntry | None]:
        """The most recently updated session of that name that the viewer may see; case and accents do not matter."""
        return (yield from read(sessions.find_by_title, title, viewer_of(viewer)))

    def set_runtime(
        self,
        session_id: str,
        *,
        model: str | None = None,
        cwd: str | None = None,
        runtime: dict[str, Any] | None = None,
    ) -> Plan[SessionEntry]:
        """Sets those of model, working directory and runtime that are given. Names that look like secrets are refused."""
        changes: dict[str, Any] = {}
        if model is not None:
            changes["model"] = clean_text("model", model)
        if cwd is not None:
            changes["cwd"] = clean_text("cwd", cwd, MAX_PATH_CHARS)
        if runtime is not None:
            changes["runtime"] = checked_runtime(runtime)
        return (yield from write(sessions.set_runtime, session_id, changes, at=self._now()))

    def mark_flushed(self, session_id: str) -> Plan[SessionEntry]:
        """Notes that the agent has been offered all of the session so far to remember. Touches no clock."""
        return (yield from write(sessions.mark_flushed, session_id))

    # Transcripts

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
        request = transcript.AppendRequest(
            session_id,
            encoded,
            self._now(),
            idempotency_key,
            None if idempotency_key is None else digest_of(encoded),
            person_named(author),
            clean_or_none("external_id", external_id),
        )
        size = len(encoded[0].body) if len(encoded) == 1 else sum(len(message.body) for message in encoded)
        appended: Appended = yield BatchStep(transcript.append_batch, request, size)
        self._grown()
        return appended

    def load_transcript(self, session_id: str, limit: int | None = None) -> Plan[list[Message]]:
        """What the model sees, oldest first, equal as JSON to what was stored; with `limit`, the last so many."""
        return (yield from read(transcript.load, session_id, limit))

    def read_transcript(self, session_id: str, limit: int | None = None) -> Plan[list[TranscriptMessage]]:
        """Like `load_transcript`, each message with its id, time and author."""
        return (yield from read(transcript.read, session_id, limit))

    def read_log(self, session_id: str, after: int = 0, limit: int = 1000) -> Plan[list[TranscriptMessage]]:
        """All that was ever said in the session itself, undone and folded messages included, from place `after` on."""
        return (yield from read(transcript.read_log, session_id, after, limit))

    def rewrite_transcript(self, session_id: str, messages: Sequence[Message]) -> Plan[SessionEntry]:
        """Replaces what the model sees, all or nothing. The earlier text stays: found by search, read by `read_log`."""
        encoded = encode_messages(messages)
        return (yield from write(transcript.rewrite, session_id, encoded, at=self._now()))

    def rewind_session(self, session_id: str, n: int = 1) -> Plan[SessionEntry]:
        """Undoes the last `n` exchanges (or all there are); `NothingToUndo` where there is none."""
        return (yield from write(transcript.undo, session_id, n, at=self._now()))

    def redo_session(self, session_id: str) -> Plan[SessionEntry]:
        """Takes the last undo back; `NothingToRedo` where nothing was undone or something was said since."""
        return (yield from write(transcript.redo, session_id, at=self._now()))

    def retry_session(self, session_id: str) -> Plan[SessionEntry]:
        """Takes the answer to the last user message out of the view, so that it can be given again; redo brings it back."""
        return (yield from write(transcript.retry, session_id, at=self._now()))

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

        `upto` cuts the history after that message. With `key` the fork becomes that conversation's current session;
        without, it waits to be resumed.
        """
        now = self._settings.clock.now()
        parent: SessionEntry = yield from read(sessions.get_entry, session_id)
        how = sessions.Beginning(
            new_session_id(now),
            parent.origin,
            to_instant(now),
            model=clean_or_none("model", model),
            cwd=clean_or_none("cwd", cwd, MAX_PATH_CHARS),
        )
        ref = None if upto is None else MessageRef.parse(upto)
        return (yield from write(transcript.fork, session_id, how, upto=ref, key=key))

    def link_message(self, message: MessageRef | str, external_id: str) -> Plan[None]:
        """Notes the platform's own id of a message, received or delivered: a thread that hangs on it starts there."""
        text = clean_text("external_id", external_id)
        return (yield from write(transcript.link, MessageRef.parse(message), text))

    # Usage

    def record_usage(
        self,
        session_id: str,
        turn_id: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        last_prompt_tokens: int | None = None,
        cost_usd: float | Decimal | None = None,
        cost_status: CostStatus = "unknown",
        model: str | None = None,
    ) -> Plan[SessionEntry]:
        """Adds what a turn cost to its session, once: told of again, the turn adds nothing."""
        spent = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=reasoning_tokens,
            last_prompt_tokens=last_prompt_tokens,
            cost_micros=micros_of(cost_usd),
            cost_status=cost_status,
            model=clean_or_none("model", model),
        )
        turn = clean_text("turn_id", turn_id)
        return (yield from write(usage.record, session_id, turn, spent, at=self._now()))

    def update_session(self, /, key: str, *, turn_id: str | None = None, **spent: Any) -> Plan[SessionEntry]:
        """Adds usage to the current session of a conversation; the arguments are those of `record_usage`."""
        turn = turn_id or f"update:{new_session_id(self._settings.clock.now())}"
        session_id: str = yield from read(usage.current_session_id, key)
        return (yield from self.record_usage(session_id, turn, **spent))

    def usage_report(
        self,
        by: usage.UsageGroup = "day",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        person: Who = None,
    ) -> Plan[list[usage.UsageLine]]:
        """Usage and cost per `session`, `person`, `platform`, `model` or `day` (UTC), the dearest first."""
        if by not in ("session", "person", "platform", "model", "day"):
            raise InvalidRequest(f"usage is summed by session, person, platform, model or day, not by {by!r}")
        bounds = {"since": instant_of(since, -listing.END), "until": instant_of(until, listing.END)}
        return (yield from read(usage.report, by, person=person_named(person), **bounds))

    # Search

    def search(
        self,
        query: str,
        *,
        viewer: Who = None,
        platform: str | None = None,
        person: Who = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        order: search.Order = "rank",
        limit: int = 20,
        cursor: str | None = None,
    ) -> Plan[search.SearchPage]:
        """Ranked hits with snippets and neighbours, in any language; words, `"phrases"`, `-not`, `pre*`.

        With `viewer` (a person, or a source: that sender, from there) only what that person may see; without, the operator's
        view of everything. `order="newest"` asks for the latest instead of the best.
        """
        if order not in ("rank", "newest"):
            raise InvalidRequest(f"hits are ordered by 'rank' or 'newest', not by {order!r}")
        wanted = search.Search(
            query=parse_query(query),
            viewer=viewer_of(viewer),
            platform=platform,
            person=person_named(person),
            role=role,
            since=instant_of(since, -listing.END),
            until=instant_of(until, listing.END),
            session_id=session,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        page = yield from read(search.search, wanted)
        if page.behind:
            yield from self.index_pending(_INLINE_INDEXING)
            page = yield from read(search.search, wanted)
        return page

    def index_pending(self, limit: int = 1 << 40) -> Plan[int]:
        """Brings the search index level with the messages, or nearer by at least `limit` of them; how many it took in."""
        done = 0
        while done < limit:
            step = yield from write(indexing.index_some)
            done += step
            if step == 0:
                break
        return done

    # Taking away

    def redact(self, message: MessageRef | str) -> Plan[bool]:
        """Removes what a message says, in every session that shows it; role and time stay. False: it was done before."""
        return (yield from write(erasure.redact, MessageRef.parse(message), at=self._now()))

    def delete_session(self, session_id: str) -> Plan[None]:
        """Drops a session. Messages that no other session shows are collected; forks keep what they show."""
        yield from write(erasure.delete_session, session_id)
        yield from self.collect()

    def prune(
        self,
        older_than: timedelta | datetime,
        *,
        ended_only: bool = False,
        platform: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Plan[int]:
        """Deletes sessions last updated longer ago than `older_than` (or before that moment), oldest first; how many."""
        before = moment_before(self._settings.clock.now(), older_than)
        wanted = erasure.Pruning(before=before, ended_only=ended_only, platform=platform)
        total = yield from read(erasure.prunable, wanted)
        if dry_run:
            return total
        done = 0
        while step := (yield from write(erasure.prune_some, wanted, _PRUNE_STEP)):
            done += step
            if progress is not None:
                progress(done, max(done, total))
            yield from self.collect()
        return done

    def collect(self) -> Plan[int]:
        """Removes messages of deleted sessions that nothing shows any more, in short steps; how many rows went."""
        done = 0
        while step := (yield from write(erasure.collect_some)):
            done += step
        return done

    def erase_person(self, person: SessionSource | str) -> Plan[int]:
        """Removes all that a person wrote anywhere, the agent's replies in sessions that were theirs alone, and their traces.

        Afterwards the database's files no longer contain their words. Returns how many things went.
        """
        name = person_named(person)
        if name is None:
            raise InvalidRequest("say whose words to erase: a name such as telegram:7")
        done, after = 0, 0
        while step := (yield from write(erasure.erase_some, name, at=self._now())):
            done += step
        while (following := (yield from write(erasure.forget_traces, name, after))) is not None:
            after = following
        yield from self.collect()
        yield EngineStep(lambda database: database.scrub())
        return done

    # The store itself

    def facts(self) -> Plan[StoreFacts]:
        """What an operator asks first: where, how big, how many."""
        engine: EngineFacts = yield EngineStep(lambda database: database.describe())
        counted = yield from read(check.counts)
        return StoreFacts(engine, *counted)

    def backup(self, target: str | Path, *, progress: Progress | None = None) -> Plan[Path]:
        """Writes a consistent, verified copy to `target`, an SQLite file, while others read and write."""
        path = Path(target).expanduser().absolute()
        yield EngineStep(lambda database: database.backup(path, progress or _quiet))
        return path

    def check(self, *, progress: Progress | None = None) -> Plan[check.CheckReport]:
        """Looks at the file, every view, and the search index against the messages."""
        tell = progress or _quiet
        found: list[str] = yield EngineStep(lambda database: database.verify())
        sessions_there, _, messages_there, late = yield from read(check.counts)
        seen, total = 0, sessions_there + messages_there
        for look in (check.check_views, check.check_messages):
            after: int | None = 0
            while after is not None:
                stretch: check.Stretch = yield from read(look, after)
                seen, after = seen + stretch.looked_at, stretch.next
                found = [*found, *stretch.faults]
                tell(min(seen, total), total)
        found = [*found, *(yield from read(check.check_strays))]
        return check.CheckReport(found, sessions_there, messages_there, late)

    def _now(self) -> Instant:
        return to_instant(self._settings.clock.now())


class StoreFacts(msgspec.Struct, frozen=True):
    """Facts about a store."""

    engine: EngineFacts
    sessions: int
    ended_sessions: int
    messages: int
    behind: int


def _quiet(done: int, total: int) -> None:
    """Progress that nobody asked for."""

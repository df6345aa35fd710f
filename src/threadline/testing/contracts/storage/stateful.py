"""Contract: any sequence of verbs leaves a store that shows what a toy store in memory shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from threadline.clock import to_instant
from threadline.errors import NothingToRedo, NothingToUndo, NotYours
from threadline.model.ownership import person_of
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.store.facade import SessionStore
from threadline.testing.builders import assistant, dm, group, system, thread, tool_use, user
from threadline.testing.clock import FakeClock
from threadline.testing.contracts.storage.fixtures import switched
from threadline.testing.oracle import Said, ToyAddress, ToySession, may_resume

T = TypeVar("T")

PLACES = [dm("7"), dm("7", platform="signal"), dm("8"), group("7"), thread("7"), thread("7", "g1", "t2")]
# Times that listings find hard: none at all, within one second, and back.
STEPS = [
    timedelta(0),
    timedelta(microseconds=1),
    timedelta(milliseconds=300),
    timedelta(minutes=1),
    timedelta(seconds=-5),
]

_pick = st.integers(0, 999)
_few = st.integers(1, 3)


def compare_with_oracle(renew: Callable[[], str], *, examples: int, steps: int) -> None:
    """Drives stores on fresh databases (`renew` gives the location of one) beside the oracle, and compares."""
    run_state_machine_as_test(
        lambda: Conversations(renew()),  # type: ignore[arg-type]  # a factory is documented to do
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True),
    )


class Conversations(RuleBasedStateMachine):
    """A store, the oracle, and a word for every message that is said nowhere else."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = SessionStore.open(location, clock=self.clock, timezone="UTC")
        self.words = (f"word{n}x" for n in count())
        self.addresses = [_address(source) for source in PLACES]
        self.sessions: list[ToySession] = []
        self.said: list[Said] = []
        self.made = count()

    # Conversations

    @rule(place=_pick, force=st.booleans(), step=st.sampled_from(STEPS))
    def resolve(self, place: int, force: bool, step: timedelta) -> None:
        self.clock.advance(step)
        self._resolve(_one(self.addresses, place), force=force)

    @precondition(lambda self: self.said)
    @rule(message=_pick, known=st.booleans())
    def open_a_thread(self, message: int, known: bool) -> None:
        """A thread in a DM, on a message of it or on one that nobody has heard of."""
        said = _one(self.said, message)
        home = said.home.address
        if home.source.chat_type != "dm" or home.parent is not None or len(self.addresses) > 12:
            return
        name = f"ext{said.ref}" if known else f"unheard{len(self.addresses)}"
        if any(address.source.thread_id == name for address in self.addresses):
            return
        source = dm(str(home.source.user_id), platform=home.source.platform, thread=name)
        self.addresses.append(_address(source, parent=home))
        self._resolve(self.addresses[-1])

    @precondition(lambda self: self._current())
    @rule(place=_pick)
    def reset(self, place: int) -> None:
        address = _one(self._current(), place)
        entry = self.store.reset_session(address.key)
        assert entry is not None
        self._end(address)
        self._begin(address, entry)

    @precondition(lambda self: self.sessions and self._known())
    @rule(place=_pick, session=_pick, step=st.sampled_from(STEPS))
    def switch(self, place: int, session: int, step: timedelta) -> None:
        address, wanted = _one(self._known(), place), _one(self.sessions, session)
        self.clock.advance(step)
        if address.current is wanted:
            assert switched(self.store, address.key, wanted.session_id).session_id == wanted.session_id
            return
        if not may_resume(address, wanted):
            with pytest.raises(NotYours):
                self.store.switch_session(address.key, wanted.session_id)
            return
        entry = switched(self.store, address.key, wanted.session_id)
        self._end(address)
        if wanted.address.current is wanted:
            self._begin(address, entry).inherit(wanted)
            return
        assert entry.session_id == wanted.session_id
        wanted.address, wanted.ended = address, False
        address.current = wanted
        self._touch(wanted)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick, cut=st.booleans(), upto=_pick, current=st.booleans())
    def fork(self, session: int, cut: bool, upto: int, current: bool) -> None:
        parent = _one(self.sessions, session)
        last = _one(parent.shown, upto) if cut and parent.shown else None
        key = parent.address.key if current else None
        entry = self.store.fork_session(parent.session_id, upto=None if last is None else last.ref, key=key)
        if current:
            self._end(parent.address)
        self._begin(parent.address, entry, current=current).inherit(parent, last)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick)
    def delete(self, session: int) -> None:
        gone = _one(self.sessions, session)
        self.store.delete_session(gone.session_id)
        self.sessions.remove(gone)
        for address in self.addresses:
            if address.current is gone:
                address.current = None

    @precondition(lambda self: self.sessions)
    @rule(session=_pick, title=st.sampled_from(["Tea", "tea time", None]))
    def name(self, session: int, title: str | None) -> None:
        named = _one(self.sessions, session)
        self.store.set_title(named.session_id, title)
        named.title = title
        self._touch(named)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick, step=st.sampled_from(STEPS))
    def spend(self, session: int, step: timedelta) -> None:
        self.clock.advance(step)
        spender = _one(self.sessions, session)
        self.store.record_usage(spender.session_id, next(self.words), input_tokens=1)
        self._touch(spender)

    # Transcripts

    @precondition(lambda self: self.sessions)
    @rule(session=_pick, kinds=st.lists(st.sampled_from("uuaast"), min_size=1, max_size=4), step=st.sampled_from(STEPS))
    def append(self, session: int, kinds: list[str], step: timedelta) -> None:
        self.clock.advance(step)
        target = _one(self.sessions, session)
        first = len(target.log)
        for kind in kinds:
            self._say(target, kind)
        fresh = target.log[first:]
        external = f"ext{fresh[0].ref}"
        messages, key = [said.message for said in fresh], f"key{first}"
        options: dict[str, Any] = {"idempotency_key": key, "external_id": external}
        self.store.append_to_transcript(target.session_id, messages, **options)
        assert self.store.append_to_transcript(target.session_id, messages, **options).duplicate
        target.external[external] = fresh[0]
        self._touch(target)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick, n=_few, step=st.sampled_from(STEPS))
    def undo(self, session: int, n: int, step: timedelta) -> None:
        self.clock.advance(step)
        target = _one(self.sessions, session)
        self._either(target.undo(n), NothingToUndo, lambda: self.store.rewind_session(target.session_id, n), target)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick)
    def redo(self, session: int) -> None:
        target = _one(self.sessions, session)
        self._either(target.redo(), NothingToRedo, lambda: self.store.redo_session(target.session_id), target)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick)
    def retry(self, session: int) -> None:
        target = _one(self.sessions, session)
        before = target.shown
        done = target.retry()
        touched = target if target.shown is not before else None
        self._either(done, NothingToUndo, lambda: self.store.retry_session(target.session_id), touched)

    @precondition(lambda self: self.sessions)
    @rule(session=_pick, head=_few, tail=_few, kinds=st.lists(st.sampled_from("uas"), max_size=2))
    def rewrite(self, session: int, head: int, tail: int, kinds: list[str]) -> None:
        """Compaction: some of the beginning, something new, some of the end."""
        target = _one(self.sessions, session)
        old = target.messages
        first = len(target.log)
        new = [_message(kind, next(self.words)) for kind in kinds]
        wanted = [*old[: head - 1], *new, *old[max(head - 1, len(old) - tail + 1) :]]
        self.store.rewrite_transcript(target.session_id, wanted)
        target.rewrite(wanted)
        for said in target.log[first:]:
            said.word = _word(said)
            self.said.append(said)
        self._touch(target)

    @precondition(lambda self: self.said)
    @rule(message=_pick)
    def redact(self, message: int) -> None:
        said = _one([said for said in self.said if self._showing(said)] or [None], message)
        if said is not None:
            assert self.store.redact(said.ref) is not said.redacted
            said.redact()

    @precondition(lambda self: self.said)
    @rule(message=_pick, session=_pick)
    def search(self, message: int, session: int) -> None:
        said = _one(self.said, message)
        self._compare_search(said)
        if self.sessions:
            where = _one(self.sessions, session)
            hits = self.store.search(str(said.word), session=where.session_id)
            assert [str(hit.ref) for hit in hits] == ([said.ref] if where.finds(said) else [])

    # What must hold

    @invariant()
    def transcripts_agree(self) -> None:
        for session in self.sessions:
            assert self.store.load_transcript(session.session_id) == session.messages, session.session_id

    @invariant()
    def entries_agree(self) -> None:
        ordered = sorted(self.sessions, key=lambda session: (session.updated, session.order), reverse=True)
        listed: list[SessionEntry] = []
        page = self.store.list_sessions(include_ended=True, limit=3)
        listed += page.items
        while page.cursor is not None:
            page = self.store.list_sessions(include_ended=True, limit=3, cursor=page.cursor)
            listed += page.items
        assert [entry.session_id for entry in listed] == [session.session_id for session in ordered]
        for entry, session in zip(listed, ordered, strict=True):
            assert (entry.message_count, entry.title) == (session.own_count, session.title)
            assert (entry.ended_at is not None, entry.session_key) == (session.ended, session.address.key)
        mine = [
            session.session_id for session in ordered if session.address.owner == "telegram:7" and not session.ended
        ]
        assert [entry.session_id for entry in self.store.list_sessions(person="telegram:7")] == mine

    def teardown(self) -> None:
        """Everything is found that should be, nothing else, and the store is sound."""
        try:
            for said in self.said:
                self._compare_search(said)
            report = self.store.check()
            assert report.ok, report.faults
        finally:
            self.store.close()

    # The oracle's side

    def _resolve(self, address: ToyAddress, *, force: bool = False) -> None:
        entry = self.store.get_or_create_session(address.source, force_new=force)
        address.key = entry.session_key
        if address.current is not None and not force:
            assert entry.session_id == address.current.session_id
            self._touch(address.current)
            return
        parent = None if force or address.current is not None else _seed(address)
        self._end(address)
        fresh = self._begin(address, entry)
        if parent is not None:
            hangs_on = parent.external.get(str(address.source.thread_id))
            fresh.inherit(parent, hangs_on if hangs_on in parent.shown else None)

    def _begin(self, address: ToyAddress, entry: SessionEntry, *, current: bool = True) -> ToySession:
        assert entry.session_id not in [session.session_id for session in self.sessions]
        session = ToySession(entry.session_id, address, next(self.made))
        self.sessions.append(session)
        self._touch(session)
        if current:
            address.current = session
        return session

    def _end(self, address: ToyAddress) -> None:
        if address.current is not None and not address.current.ended:
            address.current.ended = True
            self._touch(address.current)

    def _touch(self, session: ToySession) -> None:
        session.updated = to_instant(self.clock.now())

    def _say(self, session: ToySession, kind: str) -> None:
        messages = tool_use("look", {}, next(self.words)) if kind == "t" else [_message(kind, next(self.words))]
        for message in messages:
            said = session.append(message)
            said.word = _word(said)
            if said.word is not None:
                self.said.append(said)

    def _either(self, done: bool, error: type[Exception], verb: Callable[[], Any], touched: ToySession | None) -> None:
        if not done:
            with pytest.raises(error):
                verb()
            return
        verb()
        if touched is not None:
            self._touch(touched)

    def _showing(self, said: Said) -> list[ToySession]:
        return [session for session in self.sessions if said in session.shown or said in session.folded]

    def _compare_search(self, said: Said) -> None:
        hits = self.store.search(str(said.word)).items
        where = [session for session in self.sessions if session.finds(said)]
        assert [str(hit.ref) for hit in hits] == ([said.ref] if where else [])
        if where:
            best = said.home if said.home in where else min(where, key=lambda session: session.order)
            assert hits[0].session.session_id == best.session_id

    def _current(self) -> list[ToyAddress]:
        return [address for address in self.addresses if address.current is not None]

    def _known(self) -> list[ToyAddress]:
        return [address for address in self.addresses if address.key]


def _address(source: SessionSource, parent: ToyAddress | None = None) -> ToyAddress:
    shared = source.chat_type != "dm" and source.thread_id is not None
    owner = None if shared else person_of(source)
    return ToyAddress(source, owner, f"{source.platform}:{source.chat_id}", parent=parent)


def _seed(address: ToyAddress) -> ToySession | None:
    session = None if address.parent is None else address.parent.current
    return session if session is not None and session.own_count else None


def _message(kind: str, word: str) -> Any:
    return {"u": user, "a": assistant, "s": system}[kind](f"says {word}")


def _word(said: Said) -> str | None:
    content = said.message.get("content")
    return content.split()[-1] if isinstance(content, str) and content.startswith(("says word", "word")) else None


def _one(items: Sequence[T], pick: int) -> T:
    return items[pick % len(items)]

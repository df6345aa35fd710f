"""The state of a conversation that its subscribers have seen, and the frames between two states. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from threadline.clock import to_instant
from threadline.model.access import Role
from threadline.ports.agent import Event, Text
from threadline.ports.live import Growth
from threadline.store.work.change_feed import ConversationSnapshot, TurnCursor, TurnSnapshot
from threadline.web import mapping
from threadline.web.frames import FeedCursor, encode_json, frame
from threadline.web.shapes import (
    Ask,
    Conversation,
    Grown,
    Live,
    Message,
    NewMessages,
    Notice,
    Settled,
    Snapshot,
    State,
    Usage,
    Waiting,
)

KEPT = 50
# Notices are stored by several hands, so one may come to light a little later than another that is younger.
_LATE = 10_000_000


class EventRange(msgspec.Struct, frozen=True):
    """The events of a turn between two positions, sent whole or not at all. `after`: the last event sent before.

    A range read from the journal ends at its last row; the next begins behind all events that the row stands for. So
    `first_event` may be greater than `after`, though no event is missing.
    """

    first_event: int
    after: int
    last_event: int
    events: tuple[Event | msgspec.Raw, ...]


class RunningTurn:
    """A turn that has not ended, with its events in the ranges in which they were sent."""

    def __init__(self, turn_id: str, attempt: int) -> None:
        self.turn_id = turn_id
        self.attempt = attempt
        self.last_event = 0
        self._pieces: list[EventRange] = []

    @property
    def place(self) -> TurnCursor:
        """Return the position of the last event."""
        return TurnCursor(self.turn_id, self.attempt, self.last_event)

    def is_same_run(self, turn_id: str, attempt: int) -> bool:
        """Return whether this is the given attempt of the given turn."""
        return self.turn_id == turn_id and self.attempt == attempt

    def add(self, first: int, upto: int, events: Sequence[Event | msgspec.Raw]) -> EventRange | None:
        """Add a range of events. Return it, or `None` if it was known already."""
        if first < self.last_event or upto <= self.last_event:
            return None
        piece = EventRange(first, self.last_event, upto, tuple(events))
        self._pieces.append(piece)
        self.last_event = upto
        return piece

    def events_after(self, upto: int) -> list[msgspec.Raw]:
        """Return the events after a position that was sent."""
        start = next((n for n, piece in enumerate(self._pieces) if piece.first_event >= upto), len(self._pieces))
        return raw_events(event for piece in self._pieces[start:] for event in piece.events)


class ConversationState:
    """The state of one conversation as its subscribers have seen it."""

    def __init__(self, seen: ConversationSnapshot, live: RunningTurn | None, role: Role) -> None:
        self.mark = seen.view_version_mark
        self.seq = seen.seq
        self.messages = [mapping.message(message) for message in seen.messages]
        self.has_earlier = seen.has_earlier
        self.live = live
        # How much of it the readers were told: it may have grown since.
        self._told_upto = 0 if live is None else live.last_event
        self.said = _said(seen.turn)
        self._apply(seen, role)

    def _apply(self, seen: ConversationSnapshot, role: Role) -> None:
        self.notices: tuple[Notice, ...] = mapping.notices(seen)
        self.waiting: tuple[Waiting, ...] = tuple(mapping.pending(one) for one in seen.pending)
        self.ask: Ask | None = mapping.approval(seen.approval, role)
        self.usage: Usage = mapping.usage(seen.entry)
        self.can_redo = seen.can_redo
        self.conversation: Conversation = mapping.conversation(seen)
        self._last_told = to_instant(self.notices[-1].at) if self.notices else 0
        self._place_before = str(FeedCursor(view_mark=self.mark, seq=self.seq, last_notice_at=self._last_told))

    @property
    def place(self) -> FeedCursor:
        """Return the cursor of the subscribers."""
        live, told = self.live, self._last_told
        if live is None:
            return FeedCursor(view_mark=self.mark, seq=self.seq, last_notice_at=told)
        return FeedCursor(
            view_mark=self.mark,
            seq=self.seq,
            last_notice_at=told,
            turn_id=live.turn_id,
            attempt=live.attempt,
            last_event=live.last_event,
        )

    @property
    def state(self) -> State:
        """Return the part of the state that is not in the transcript."""
        return State(
            waiting=self.waiting,
            ask=self.ask,
            usage=self.usage,
            conversation=self.conversation,
            can_redo=self.can_redo,
        )

    def snapshot(self, limit: int = KEPT) -> Snapshot:
        """Return the whole state, with the last `limit` messages."""
        return Snapshot(
            conversation=self.conversation,
            messages=self.messages[-limit:],
            has_earlier=self.has_earlier or len(self.messages) > limit,
            live=self._whole_turn(),
            ask=self.ask,
            waiting=self.waiting,
            notices=self.notices,
            usage=self.usage,
            can_redo=self.can_redo,
        )

    def snapshot_frame(self) -> bytes:
        """Return the snapshot as a frame."""
        return frame("snapshot", self.snapshot(), self.place)

    def progress_frame(self, growth: Growth) -> bytes | None:
        """Return the frame for more of the running turn, or `None` if another turn is shown or it was sent before."""
        live = self.live
        if live is None or not live.is_same_run(growth.turn_id, growth.attempt):
            return None
        piece = live.add(growth.first, growth.upto, growth.events)
        return None if piece is None else self._grown(piece.after, piece.events)

    def piece_frame(self, piece: EventRange) -> bytes:
        """Return the frame for a range that the turn already contains."""
        return self._grown(piece.after, piece.events)

    def _grown(self, first: int, events: Sequence[Event | msgspec.Raw]) -> bytes:
        live = self.live
        assert live is not None, "only a turn that is shown grows"  # noqa: S101
        self._told_upto = live.last_event
        grown = Grown(turn_id=live.turn_id, attempt=live.attempt, first=first, upto=live.last_event, events=events)
        # Spelled as `place` is, of which only the end changes: this is done for every few words of every answer.
        place = f"{self._place_before}.{live.turn_id}.{live.attempt}.{live.last_event}"
        return frame("live", grown, place)

    def resume_frames(self, place: FeedCursor) -> bytes | None:
        """Return the frames that a subscriber at `place` has missed, or `None` if they are not known any more."""
        missed = self._messages_after(place)
        if missed is None or place.view_mark != self.mark or place.seq > self.seq:
            return None
        live, events = self.live, []
        is_same = live is not None and live.is_same_run(place.turn_id, place.attempt)
        if place.turn_id and (live is None or live.turn_id != place.turn_id):
            events.append(frame("settled", self._settled(place.turn_id, missed)))
        elif missed:
            events.append(frame("messages", NewMessages(missed)))
        if live is not None:
            first = place.last_event if is_same else 0
            events.append(frame("live", self._from(live, first)))
        events += [
            frame("notice", notice) for notice in self.notices if to_instant(notice.at) > place.last_notice_at - _LATE
        ]
        return b"".join([*events, frame("state", self.state, self.place)])

    def update(self, seen: ConversationSnapshot, live: RunningTurn | None, role: Role) -> bytes:
        """Apply a snapshot that continues this state. Return the frames for subscribers, `b""` if nothing changed."""
        before, state, known = self.live, self.state, {notice.id for notice in self.notices}
        fresh = [mapping.message(message) for message in seen.messages]
        self.seq = seen.seq
        self._keep(fresh)
        said, self.said = self.said, _said(seen.turn)
        self.live = live
        self._apply(seen, role)
        events: list[tuple[str, object]] = []
        if before is not None and (live is None or live.turn_id != before.turn_id):
            events.append(("settled", self._settled(before.turn_id, fresh)))
        elif fresh:
            events.append(("messages", NewMessages(fresh)))
        if live is not None:
            is_same = before is not None and before.is_same_run(live.turn_id, live.attempt)
            first = self._told_upto if is_same else 0
            if not is_same or live.last_event > first or said != self.said:
                events.append(("live", self._from(live, first)))
        self._told_upto = 0 if live is None else live.last_event
        events += [("notice", notice) for notice in self.notices if notice.id not in known]
        if self.state != state:
            events.append(("state", self.state))
        return _framed(events, self.place)

    def _from(self, live: RunningTurn, first: int) -> Grown:
        return Grown(
            turn_id=live.turn_id,
            attempt=live.attempt,
            first=first,
            upto=live.last_event,
            events=live.events_after(first),
            said=self.said,
        )

    def _settled(self, turn_id: str, messages: list[Message]) -> Settled:
        return Settled(
            turn_id=turn_id,
            messages=messages,
            usage=self.usage,
            waiting=self.waiting,
            ask=self.ask,
            conversation=self.conversation,
        )

    def _whole_turn(self) -> Live | None:
        live = self.live
        if live is None:
            return None
        return Live(
            turn_id=live.turn_id,
            attempt=live.attempt,
            upto=live.last_event,
            said=self.said,
            events=live.events_after(0),
        )

    def _keep(self, fresh: Sequence[Message]) -> None:
        self.messages += fresh
        if len(self.messages) > 2 * KEPT:
            self.messages = self.messages[-KEPT:]
            self.has_earlier = True

    def _messages_after(self, place: FeedCursor) -> list[Message] | None:
        count = self.seq - place.seq
        own = self.messages[len(self.messages) - count :] if 0 <= count <= len(self.messages) else None
        return [] if count == 0 else own


def shown_of(
    seen: ConversationSnapshot, before: ConversationState | None, running: RunningTurn | None, role: Role
) -> ConversationState:
    """Return the state of a conversation for somebody of that role. `running`: the turn that this process runs there."""
    return ConversationState(seen, live_of(seen, before, running), role)


def live_of(
    seen: ConversationSnapshot, before: ConversationState | None, running: RunningTurn | None
) -> RunningTurn | None:
    """Return the running turn of the snapshot with all its known events."""
    turn = seen.turn
    if turn is None:
        return None
    if running is not None and running.is_same_run(turn.turn_id, turn.attempt):
        return running
    known = None if before is None else before.live
    if known is None or not known.is_same_run(turn.turn_id, turn.attempt):
        known = RunningTurn(turn.turn_id, turn.attempt)
    for place, event in turn.events:
        known.add(place - 1, place, [msgspec.Raw(event.encode())])
    return known


def raw_events(events: Iterable[Event | msgspec.Raw]) -> list[msgspec.Raw]:
    """Return events as JSON, with neighbouring texts joined."""
    return [event if isinstance(event, msgspec.Raw) else msgspec.Raw(encode_json(event)) for event in _joined(events)]


def _joined(events: Iterable[Event | msgspec.Raw]) -> Iterator[Event | msgspec.Raw]:
    text: list[str] = []
    for event in events:
        if isinstance(event, Text):
            text.append(event.text)
            continue
        if text:
            yield Text("".join(text))
            text = []
        yield event
    if text:
        yield Text("".join(text))


def _said(turn: TurnSnapshot | None) -> tuple[Waiting, ...]:
    return () if turn is None else tuple(mapping.pending(one) for one in turn.user_messages)


def _framed(events: Sequence[tuple[str, object]], place: FeedCursor) -> bytes:
    """Join frames. Only the last one carries the cursor: a client that disconnects before it receives all of them again."""
    if not events:
        return b""
    *before, (name, value) = events
    return b"".join([*(frame(event, told) for event, told in before), frame(name, value, place)])

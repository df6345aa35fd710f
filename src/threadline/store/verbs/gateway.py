"""Verbs of the gateway: admission, turns, deliveries. Embedders of a session store do not need them."""

from __future__ import annotations

from collections.abc import Sequence

from threadline.clock import Instant
from threadline.model.access import Role
from threadline.model.delivery import Park, RetryAt, target_of
from threadline.model.inbound import IdChange, Unreadable
from threadline.model.source import SessionSource
from threadline.model.turn import PendingMessage, Replay, StopReason
from threadline.store import leases, maintenance
from threadline.store.conversations import id_changes, sessions
from threadline.store.engine.database import Plan, read, write
from threadline.store.verbs import Verbs
from threadline.store.verbs.alarms import AlarmVerbs
from threadline.store.verbs.asks import AskVerbs
from threadline.store.verbs.choices import ChoiceVerbs
from threadline.store.verbs.expiry import ExpiryVerbs
from threadline.store.verbs.memories import MemoryVerbs
from threadline.store.verbs.names import NameVerbs
from threadline.store.verbs.owners import OwnerVerbs
from threadline.store.verbs.people import PeopleVerbs
from threadline.store.verbs.reception import ReceptionVerbs
from threadline.store.verbs.watching import WatchingVerbs
from threadline.store.verbs.web_people import WebPeopleVerbs
from threadline.store.work import inbox, outbox, turn_end, turns

_ALL = 1 << 62


class GatewayVerbs(
    Verbs,
    AskVerbs,
    PeopleVerbs,
    ReceptionVerbs,
    ChoiceVerbs,
    AlarmVerbs,
    ExpiryVerbs,
    MemoryVerbs,
    OwnerVerbs,
    WebPeopleVerbs,
    WatchingVerbs,
    NameVerbs,
):
    """What a running gateway asks of its store, as plans."""

    def resolve_of(
        self, source: SessionSource, *, agent: str | None = None, must_exist: bool = False
    ) -> sessions.Resolve:
        """The question for the session that a message from `source` belongs to, as of now. `must_exist`: it is not made for it."""
        return self._wanted(source, agent=agent, flush=True, must_exist=must_exist)

    def accept(self, wanted: inbox.Admission) -> Plan[inbox.Admitted]:
        """Takes an event in, once."""
        admitted = yield from write(inbox.accept, wanted)
        self._grown()
        return admitted

    def refuse(self, wanted: inbox.Refusal) -> Plan[inbox.Admitted]:
        """Turns an event away, once."""
        return (yield from write(inbox.refuse, wanted))

    def park_event(
        self, event: Unreadable, person: str | None = None, *, keep: int = inbox.UNREADABLE_KEPT
    ) -> Plan[inbox.Admitted]:
        """Keeps an event that nobody can act on, once; of its platform's unreadable ones it is kept what the last `keep` said."""
        return (yield from write(inbox.park, self._now(), event, person=person, keep=keep))

    def move(self, event: IdChange) -> Plan[bool]:
        """A chat or a person goes on under another id; False if that was done before."""
        is_new = yield from write(id_changes.move, self._now(), event)
        self._grown()
        return is_new

    def claim_turns(self, wanted: turn_end.Claim) -> Plan[list[turn_end.Claimed]]:
        """Turns to run."""
        return (yield from write(turns.claim, wanted))

    def declare_replay(self, held: leases.Held, replay: Replay) -> Plan[None]:
        """Notes whether the turn may run again."""
        yield from write(turns.set_replay, held, replay)

    def keep_context(self, session_pk: int, block: str) -> Plan[str]:
        """The context block that the session keeps."""
        return (yield from write(turns.ensure_context, session_pk, block))

    def take_more(self, held: leases.Held, session_id: str, role: Role) -> Plan[list[PendingMessage]]:
        """Takes what was said since a turn began into it."""
        return (yield from write(turns.take_pending, held, session_id, role))

    def renew_leases(
        self, owner: str, held: Sequence[leases.Held], flying: Sequence[outbox.Delivery], *, lease: int
    ) -> Plan[list[leases.StillHeld]]:
        """Renews the leases of what an owner is at, and tells which turns it still holds. What it has let go of ends."""
        if flying:
            yield from write(outbox.renew, self._now(), flying, owner=owner, lease=lease)
        if not held:
            return []
        return (yield from write(leases.renew_turns, self._now(), held, lease=lease))

    def journal(self, held: leases.Held, place: int, events: Sequence[str], *, called_tool: bool = False) -> Plan[None]:
        """Keeps what a turn said and did."""
        yield from write(turns.append_journal, held, place, events, called_tool=called_tool)

    def tell_progress(self, held: leases.Held, notice: outbox.NewDelivery) -> Plan[bool]:
        """Stores what is said while a turn runs, before its answer; False, and nothing is stored, once it runs no more."""
        return (yield from write(turns.enqueue_progress, self._now(), held, notice))

    def suggest_title(self, held: leases.Held, session_id: str, title: str) -> Plan[None]:
        """Names the session of a running turn, where nobody has."""
        yield from write(turns.suggest_title, self._now(), held, session_id, title)

    def forget_journal(self, held: leases.Held) -> Plan[None]:
        """Empties the journal of a turn that starts again."""
        yield from write(turns.clear_journal, held)

    def finish_turn(self, wanted: turn_end.Finish) -> Plan[None]:
        """Ends a turn."""
        yield from write(turn_end.finish, wanted)
        self._grown()

    def release_turn(
        self, held: leases.Held, session_pk: int, *, wait: int = 0, is_counted: bool = True, unused: Sequence[int] = ()
    ) -> Plan[None]:
        """Gives a turn back, to be run again, and with it the answers that it has not used.

        `is_counted`: it has cost one of its attempts.
        """
        at = self._now()
        yield from write(turn_end.release, at, held, session_pk, wait=wait, is_counted=is_counted, unused=unused)

    def rerun_turns(self, left: Sequence[turn_end.Claimed], *, first: int) -> Plan[None]:
        """Runs turns that were left behind again, from the start, each after its back-off; `first` is the first one."""
        yield from write(turns.rerun, self._now(), left, first=first)

    def take_over_turns(self, owner: str, platforms: Sequence[str], lease: int) -> Plan[list[turn_end.Claimed]]:
        """Turns on these platforms whose holder is gone."""
        return (yield from write(turns.take_over, self._now(), owner, platforms, lease=lease))

    def void_leases(self, owners: str) -> Plan[int]:
        """Ends the leases of holders that are dead for certain."""
        return (yield from write(leases.expire_owned_by, owners))

    def ask_to_stop(self, session_id: str, stop: StopReason) -> Plan[bool]:
        """Asks the turn that runs in a session to end."""
        return (yield from write(turns.request_stop, self._now(), session_id, stop))

    def enqueue(self, new: outbox.NewDelivery) -> Plan[None]:
        """Stores something to send."""
        yield from write(outbox.enqueue, self._now(), new)

    def claim_deliveries(
        self,
        accounts: Sequence[tuple[str, str]],
        *,
        owner: str,
        lease: int,
        limit: int,
        lanes: Sequence[str] | None = None,
    ) -> Plan[list[outbox.Delivery]]:
        """Takes what is due. `lanes`: in these chats alone."""
        return (
            yield from write(outbox.claim, self._now(), accounts, owner=owner, lease=lease, limit=limit, lanes=lanes)
        )

    def delivery_sent(
        self, delivery: outbox.Delivery, external_id: str, *, owner: str, may_be_repeated: bool = False
    ) -> Plan[bool]:
        """Keeps a receipt."""
        return (
            yield from write(
                outbox.sent, self._now(), delivery, external_id, owner=owner, may_be_repeated=may_be_repeated
            )
        )

    def forget_message(self, delivery: outbox.Delivery, *, owner: str) -> Plan[bool]:
        """The message that a delivery was to edit is gone."""
        return (yield from write(outbox.forget_message, delivery, owner=owner))

    def delivery_failed(
        self, delivery: outbox.Delivery, step: RetryAt | Park, *, owner: str, error: str, is_doubtful: bool = False
    ) -> Plan[bool]:
        """Tries again later, or parks."""
        return (yield from write(outbox.failed, delivery, step, owner=owner, error=error, is_doubtful=is_doubtful))

    def open_stream(self, new: outbox.NewDelivery) -> Plan[outbox.Stream | None]:
        """The message that a turn streams into; `None` as long as something older is to be sent there."""
        return (yield from write(outbox.open_stream, self._now(), new))

    def stream_not_begun(self, stream: outbox.Stream) -> Plan[None]:
        """Takes the beginning of a stream back: it did not arrive."""
        yield from write(outbox.stream_not_begun, stream)

    def keep_stream_id(self, stream: outbox.Stream, external_id: str) -> Plan[None]:
        """Keeps the id of a streamed message."""
        yield from write(outbox.keep_stream_id, stream, external_id)

    def recover_deliveries(self, safe: Sequence[tuple[str, str]]) -> Plan[int]:
        """Lets deliveries whose holder is gone go on."""
        return (yield from write(outbox.recover, self._now(), safe))

    def list_deliveries(
        self, state: str | None = None, *, before: int = _ALL, limit: int = 50
    ) -> Plan[list[outbox.DeliveryLine]]:
        """What is known of deliveries, newest first."""
        return (yield from read(outbox.lines, state, before=before, limit=limit))

    def is_pending_on(self, platform: str) -> Plan[bool]:
        """Whether anything on a platform is not finished."""
        return (yield from read(outbox.is_pending_on, platform))

    def is_pending_at(self, source: SessionSource, *, agent: str | None = None) -> Plan[bool]:
        """Whether anything of a conversation is not finished."""
        digest = self._wanted(source, agent=agent).address.digest
        return (yield from read(outbox.is_pending_at, digest, target_of(source).ordering_key))

    def list_messages(
        self, fate: str | None = None, *, before: int = _ALL, limit: int = 50
    ) -> Plan[list[maintenance.MessageLine]]:
        """What came in, newest first."""
        return (yield from read(maintenance.lines, fate, before=before, limit=limit))

    def load(self) -> Plan[maintenance.Load]:
        """How much there is to do."""
        return (yield from read(maintenance.load))

    def message_story(self, pk: int) -> Plan[maintenance.Story]:
        """The whole story of one message."""
        return (yield from read(maintenance.story, pk))

    def retry_delivery(self, pk: int) -> Plan[None]:
        """Tries a parked delivery again."""
        yield from write(outbox.retry, self._now(), pk)

    def drop_delivery(self, pk: int) -> Plan[None]:
        """Gives a delivery up for good."""
        yield from write(outbox.drop, pk)

    def waiting_messages(self, session_id: str) -> Plan[list[PendingMessage]]:
        """What waits in a session."""
        return (yield from read(inbox.waiting_in, session_id))

    def unhandled_controls(self, before_seconds: float) -> Plan[list[inbox.Control]]:
        """Control commands that were accepted and never carried out: their gateway died in between."""
        return (
            yield from write(inbox.unhandled_controls, before=Instant(self._now() - int(before_seconds * 1_000_000)))
        )

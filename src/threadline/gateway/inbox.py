"""Admission: the one way in. Authorised, deduplicated, stored; only then is the platform told that it arrived."""

from __future__ import annotations

import msgspec

from threadline.clock import Instant, to_instant
from threadline.errors import InvalidRequest
from threadline.gateway.access import Access, Allowed, Ignored, TurnedAway
from threadline.gateway.bots import MOST_IN_A_ROW, BotTalk
from threadline.gateway.command_table import Typed, read_command, stops_turn
from threadline.gateway.commands import Commands
from threadline.gateway.outbox import Outbox
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.splits import SplitTexts
from threadline.gateway.turns import Turns
from threadline.log import get_logger
from threadline.model.inbound import (
    Arrival,
    IdChange,
    Inbound,
    Unreadable,
    needs_no_cleaning,
    sanitized,
    sanitized_unreadable,
    size_error,
    validation_error,
)
from threadline.model.ownership import person_of
from threadline.model.safe_text import safe_line
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.model.turn import QueueKind, StopReason
from threadline.ports.platform import Verdict
from threadline.store.conversations.sessions import ResolveRequest
from threadline.store.facade import GatewayStore
from threadline.store.rows import json_text
from threadline.store.work.inbox import AdmitRequest, AdmitResult, Greeting, RefuseRequest, without_content
from threadline.store.work.message_changes import ChangeRequest
from threadline.store.work.outbox import notice_about
from threadline.texts import gateway as texts

log = get_logger(__name__)


class Reception:
    """Takes events in, from every platform alike."""

    def __init__(
        self,
        store: GatewayStore,
        settings: GatewaySettings,
        access: Access,
        turns: Turns,
        outbox: Outbox,
        commands: Commands,
    ) -> None:
        self._store = store
        self._settings = settings
        self._access = access
        self._turns = turns
        self._outbox = outbox
        self._commands = commands
        self._bots = BotTalk()
        self._splits = SplitTexts()
        # What was sent before is taken in however much it is: its senders could not know that nobody was there.
        self._since = store.clock.now().timestamp()

    def reconfigure(self, settings: GatewaySettings, access: Access) -> None:
        """From now on these hold."""
        self._settings = settings
        self._access = access

    async def accept(self, event: Arrival) -> Verdict:
        """Takes an event in, or turns it away; when this returns, what became of it is stored.

        Only a store that can't be reached is an error: whatever else is wrong with an event, it ends here and blocks no other.
        And `ConversationBusy`, on a platform whose people wait for their answer: nothing was taken, they may say it again. And
        `UnknownSession`, on one where a message begins no conversation: there is none, and nothing was taken.
        """
        if isinstance(event, Unreadable):
            return await self._park(event)
        if isinstance(event, IdChange):
            return await self._move(event)
        is_fit = needs_no_cleaning(event)
        flaw = None if is_fit else validation_error(event)
        if flaw is not None:
            return await self._park_unfit(event, flaw)
        try:
            return await self._admit(event if is_fit else sanitized(event))
        except InvalidRequest as cause:
            # Told again it would be no different, and all that comes after it would wait.
            return await self._park_unfit(event, str(cause))

    async def park_foreign(self, event: Arrival, platform: str, account: str) -> Verdict:
        """Parks what a platform gave as another's, under its own name: nothing of it is taken, and nobody is meant by it."""
        said = event.source if isinstance(event, Inbound) else event
        # Stored, so it keeps the name that the class once had.
        kind = "Moved" if isinstance(event, IdChange) else type(event).__name__
        raw = json_text({"kind": kind, "platform": str(said.platform), "account": str(said.account)})
        reason = (
            f"{platform}@{account} gave it as coming from {said.platform}@{said.account}, for which it does not speak"
        )
        key = f"foreign.{said.platform}@{said.account}.{event.dedupe_key}"
        return await self._park(Unreadable(platform=platform, account=account, raw=raw, reason=reason, dedupe_key=key))

    async def _admit(self, event: Inbound) -> Verdict:
        if not event.from_bot:
            self._bots.person_spoke(event)
        decision = await self._access.decide(event)
        if isinstance(decision, Ignored):
            log.debug("message.ignored", platform=event.source.platform, reason=decision.reason)
            return "ignored"
        if isinstance(decision, TurnedAway):
            return await self._turn_away(event, decision)
        excess = size_error(event)
        if excess is not None:
            return await self._turn_away(event, TurnedAway(decision.person, excess, texts.TOO_MUCH))
        if event.kind in ("edit", "delete"):
            return await self._change(event, decision)
        if event.kind == "button" and read_command(event) is None:
            return await self._note(event, decision, "a button that nobody waits for")
        return await (self._take_from_bot if event.from_bot else self._take)(event, decision)

    async def _take_from_bot(self, event: Inbound, allowed: Allowed) -> Verdict:
        """Takes what a program says, unless programs alone have talked here for too long: of that the chat is told once."""
        now = self._store.clock.now()
        if self._bots.is_enough(event, now):
            tell = self._bots.tell_once(event, texts.BOTS_ALONE.format(count=MOST_IN_A_ROW))
            return await self._turn_away(event, TurnedAway(allowed.person, "bots talk to each other", tell))
        verdict = await self._take(event, allowed)
        if verdict == "accepted":
            self._bots.taken(event, now)
        return verdict

    async def _take(self, event: Inbound, allowed: Allowed) -> Verdict:
        typed = read_command(event)
        lane: QueueKind = "talk" if typed is None else typed.lane
        only_if_idle = lane == "talk" and self._outbox.is_attended(event.source.platform, event.source.account)
        wanted = AdmitRequest(
            event=event,
            resolve=self._resolve_of(event.source),
            lane=lane,
            person=allowed.person,
            role=allowed.role,
            at=self._now(),
            burst=int(self._burst_of(event, typed) * 1_000_000),
            max_pending=self._settings.queue_per_session,
            since=self._since,
            # Where nothing may wait, nothing is too much.
            full_notice=None if only_if_idle else texts.QUEUE_FULL.format(count=self._settings.queue_per_session),
            stop=self._stop_of(typed, allowed),
            only_if_idle=only_if_idle,
        )
        received, has_begun = await self._turns.received(wanted, self._greeting(typed))
        admitted = received.admit_result
        if received.is_greeted or admitted.is_refused:
            self._outbox.wake()
        if admitted.pk is None:
            return "duplicate"
        if admitted.is_refused:
            return "refused"
        if not has_begun:
            await self._go_on(wanted, allowed, admitted)
        return "accepted"

    async def _go_on(self, wanted: AdmitRequest, allowed: Allowed, admitted: AdmitResult) -> None:
        session = admitted.session
        if session is None or admitted.pk is None or admitted.session_pk is None:
            return
        if wanted.lane == "control":
            self._commands.start_control(admitted.pk, wanted.event, allowed, session, admitted.session_pk)
            return
        if admitted.running_turn_id is not None:
            if wanted.stop is not None and admitted.is_stopped:
                self._turns.stop(session.session_id, wanted.stop)
            elif admitted.is_asking:
                await self._remind(wanted.event, session, allowed.person)
        self._turns.wake(after=wanted.burst / 1_000_000)

    def _resolve_of(self, source: SessionSource) -> ResolveRequest:
        agent, _ = self._settings.agent_for(source)
        begins = self._outbox.begins_by_message(source.platform, source.account)
        return self._store.resolve_request(source, agent=agent, must_exist=not begins)

    def _burst_of(self, event: Inbound, typed: Typed | None) -> float:
        """How long a turn waits for more after this message, in seconds."""
        can = self._outbox.capabilities_of(event.source.platform, event.source.account)
        if typed is not None or (can is not None and not can.bursts):
            return 0.0
        is_last_part = can is not None and self._splits.is_last_part(event, can, self._store.clock.now())
        return 0.0 if is_last_part else self._settings.burst_seconds

    def _stop_of(self, typed: Typed | None, allowed: Allowed) -> StopReason | None:
        """What a message asks of the turn that runs."""
        if typed is None:
            return "interrupt" if self._settings.when_busy == "interrupt" else None
        return "stop" if stops_turn(typed, allowed.role) else None

    async def _remind(self, event: Inbound, session: SessionEntry, person: str | None) -> None:
        """Who talks on while a question is open is told what keeps the answer."""
        asked = await self._store.approvals.find_open(session.session_id)
        if asked is not None:
            notice = notice_about(event, "asked", texts.ASK_FIRST.format(code=asked.code))
            await self._store.outbox.enqueue(msgspec.structs.replace(notice, person=person))
            self._outbox.wake()

    async def _change(self, event: Inbound, allowed: Allowed) -> Verdict:
        """An edit changes what still waits; a deletion drops it, or redacts what is in a transcript."""
        agent, _ = self._settings.agent_for(event.source)
        changed = await self._store.message_changes.apply(
            ChangeRequest(
                event=event,
                address=self._store.resolve_request(event.source, agent=agent).address,
                person=allowed.person,
                role=allowed.role,
                at=self._now(),
            )
        )
        if changed in ("duplicate", "ignored"):
            return changed
        log.info("message.changed", kind=event.kind, outcome=changed)
        # Who looked for work while its session was held has passed it over.
        self._turns.wake()
        return "accepted"

    async def _turn_away(self, event: Inbound, decision: TurnedAway) -> Verdict:
        tell = None if decision.tell is None else notice_about(event, "refused", decision.tell)
        refusal = RefuseRequest(
            event=event, person=decision.person, role="group", at=self._now(), note=decision.note, notice=tell
        )
        admitted = await self._store.inbox.refuse(refusal)
        self._outbox.wake()
        return "duplicate" if admitted.pk is None else "refused"

    async def _park_unfit(self, event: Inbound, reason: str) -> Verdict:
        """Parks what was read but can't be kept: where it came from, not what it says."""
        source = event.source
        unfit = Unreadable(
            platform=source.platform,
            account=source.account,
            dedupe_key=event.dedupe_key,
            raw=without_content(event),
            reason=reason,
        )
        return await self._park(unfit, person_of(source))

    async def _park(self, event: Unreadable, person: str | None = None) -> Verdict:
        kept = sanitized_unreadable(event)
        admitted = await self._store.inbox.park(kept, person)
        if admitted.pk is None:
            return "duplicate"
        log.warning("message.parked", platform=kept.platform, number=admitted.pk, reason=safe_line(kept.reason))
        return "parked"

    async def _move(self, event: IdChange) -> Verdict:
        """The conversation goes on under the new id. What the configuration says of the old one is its owner's to change."""
        flaw = validation_error(event)
        if flaw is not None:
            told = f"{event.what} {event.old_id} is {event.new_id}"
            unfit = Unreadable(platform=event.platform, account=event.account, raw=told, reason=flaw)
            return await self._park(unfit)
        if not await self._store.id_changes.apply(event):
            return "duplicate"
        log.warning("id.moved", platform=event.platform, account=event.account, what=event.what)
        self._outbox.wake()
        return "accepted"

    async def _note(self, event: Inbound, allowed: Allowed, note: str) -> Verdict:
        refusal = RefuseRequest(
            event=event, person=allowed.person, role=allowed.role, at=self._now(), outcome="dropped", note=note
        )
        admitted = await self._store.inbox.refuse(refusal)
        return "duplicate" if admitted.pk is None else "accepted"

    def _greeting(self, typed: Typed | None) -> Greeting:
        # Who says /start is greeted by the command itself.
        is_welcome = self._settings.welcome and (typed is None or typed.name != "start")
        return Greeting(welcome=texts.WELCOME if is_welcome else None, idle=texts.RESET_IDLE, daily=texts.RESET_DAILY)

    def _now(self) -> Instant:
        return to_instant(self._store.clock.now())

"""Commands: what people can do in a chat besides talking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from threadline.clock import to_instant
from threadline.errors import InvalidRequest, UnknownSession
from threadline.gateway.access import Allowed
from threadline.gateway.actions import ACTIONS, Action, Answer, Means
from threadline.gateway.actions_choosing import CHOOSING_ACTIONS
from threadline.gateway.actions_handoff import HANDOFF_ACTIONS
from threadline.gateway.command_table import TABLE, Call, Command, Typed, read_command, refusal_of
from threadline.gateway.composing import Composer, Retried
from threadline.gateway.outbox import Outbox
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model.delivery import target_of
from threadline.model.inbound import Inbound
from threadline.model.session import SessionEntry
from threadline.model.turn import PendingMessage, StopReason
from threadline.store.facade import GatewayStore
from threadline.store.work.approvals import ApprovalDecision
from threadline.store.work.inbox import PendingControl
from threadline.store.work.message_changes import DropRequest
from threadline.store.work.outbox import NewDelivery
from threadline.store.work.turn_end import ClaimedTurn
from threadline.texts import commands as texts

__all__ = ["TABLE", "Command", "Commands", "call_of"]

log = get_logger(__name__)

_UNHANDLED_SECONDS = 5.0
_ACTIONS: Mapping[str, Action] = {**ACTIONS, **CHOOSING_ACTIONS, **HANDOFF_ACTIONS}


def call_of(waiting: PendingMessage, session: SessionEntry) -> Call:
    """The command that a message is, as its sender gave it in a session."""
    typed = read_command(waiting.event) or Typed("", "", None)
    event = waiting.event
    return Call(
        typed=typed,
        source=event.source,
        session=session,
        role=waiting.role,
        person=waiting.person,
        is_admin=event.sender_is_admin,
        said_at=waiting.at,
    )


class Commands:
    """Carries commands out."""

    def __init__(
        self,
        store: GatewayStore,
        composer: Composer,
        outbox: Outbox,
        supervisor: Supervisor,
        stop_turn: Callable[[str, StopReason], None],
        wake_turns: Callable[[], None],
        is_owner: Callable[[str], Awaitable[bool]],
        owners: Callable[[], Collection[str]],
    ) -> None:
        self._store = store
        self._means = Means(store, stop_turn, composer, is_owner, owners)
        self._wake_turns = wake_turns
        self._composer = composer
        self._outbox = outbox
        self._supervisor = supervisor
        # Controls that are being carried out here: one that takes long is not begun again.
        self._begun: set[int] = set()

    def start_control(self, pk: int, event: Inbound, allowed: Allowed, session: SessionEntry, session_pk: int) -> None:
        """Carries a control command out at once, beside the queue."""
        message = PendingMessage(
            pk, "control", event, allowed.person, allowed.role, to_instant(self._store.clock.now())
        )
        self._begun.add(pk)
        self._supervisor.start(f"command.{pk}", self._control(PendingControl(message, session, session_pk)))

    async def recover(self) -> None:
        """Carries out what was accepted by a gateway that died before it did, and deletions that had to wait for a turn."""
        for control in await self._store.inbox.list_unhandled_controls(_UNHANDLED_SECONDS):
            if control.message.event.kind == "delete":
                await self._store.message_changes.retry_deletion(control.message, control.session_pk)
            elif control.message.pk not in self._begun:
                self._begun.add(control.message.pk)
                await self._control(control)

    async def run_in_turn(self, claimed: ClaimedTurn) -> Retried | None:
        """Carries a session command out and ends its turn; or tells what is to be answered again instead."""
        call = call_of(claimed.messages[0], claimed.session)
        if call.typed.command is None or not call.typed.command.is_repeatable:
            # Undoing twice is not undoing once: what broke off is not repeated.
            await self._store.turns.set_replay(claimed.lease, "never")
        # By then the turn may be another's, whose people were told that the command broke off.
        answer = await self._answer(call, self._means.under(claimed.lease))
        if answer.retried is None:
            await self._composer.answer_command(claimed, answer.text, move_to=answer.move_to)
        return answer.retried

    async def _control(self, control: PendingControl) -> None:
        message = control.message
        try:
            answer = await self._answer(call_of(message, control.session), self._means)
            drop_request = None
            if answer.drops is not None:
                fallback_replies = self._replies(control, answer.too_late)
                drop_request = DropRequest(message=answer.drops, fallback_replies=fallback_replies)
            decision = self._decision(control, answer)
            replies = self._replies(control, answer.text)
            if await self._store.message_changes.answer_control(
                message, replies, drop_request=drop_request, decision=decision
            ):
                self._outbox.wake()
                if decision is not None:
                    log.info(
                        "ask.answered", session=control.session.session_id, by=message.person, said=answer.decision
                    )
                    self._wake_turns()
        finally:
            self._begun.discard(message.pk)

    async def _answer(self, call: Call, means: Means) -> Answer:
        refusal = refusal_of(call)
        if refusal is not None:
            return Answer(text=refusal)
        try:
            return await _ACTIONS[call.typed.name](means, call)
        except InvalidRequest as cause:
            return Answer(text=texts.FAILED.format(reason=cause))
        except UnknownSession:
            return Answer(text=texts.GONE)

    def _decision(self, control: PendingControl, answer: Answer) -> ApprovalDecision | None:
        if answer.decides is None:
            return None
        return ApprovalDecision(
            approval_pk=answer.decides,
            decision=answer.decision,
            person=control.message.person,
            fallback_replies=self._replies(control, answer.too_late),
        )

    def _replies(self, control: PendingControl, text: str) -> tuple[NewDelivery, ...]:
        """The answer in as many parts as the platform needs."""
        event = control.message.event
        parts, asked = self._composer.cut(event.source, text), self._composer.kept_of(event)
        in_group = event.source.chat_type != "dm"
        return tuple(
            NewDelivery(
                delivery_id=f"command.{control.message.pk}.{index}",
                target=target_of(event.source),
                text=part,
                command_text=asked,
                reply_to=event.message_id if in_group and index == 0 else None,
                session_pk=control.session_pk,
            )
            for index, part in enumerate(parts)
        )

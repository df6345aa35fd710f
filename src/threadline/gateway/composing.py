"""What a turn is made of and what it comes to: what the agent is given, what the transcript keeps, what the chat is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from threadline.clock import to_instant
from threadline.errors import InvalidRequest
from threadline.gateway.fold import Folded, fold
from threadline.gateway.outbox import Outbox
from threadline.gateway.patience import patiently
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.streaming import Streamer
from threadline.log import get_logger
from threadline.model import words_gateway as words
from threadline.model.access import Role
from threadline.model.context import build_session_context
from threadline.model.delivery import target_of
from threadline.model.message import Message, encode_message
from threadline.model.ownership import person_of
from threadline.model.prompt import build_session_context_prompt
from threadline.model.speaker import label_message
from threadline.model.turn import Fate, Outcome, Waiting
from threadline.ports.agent import (
    Event,
    Spoken,
    Turn,
)
from threadline.store.gateway import GatewayStore
from threadline.store.outbox import NewDelivery, showable
from threadline.store.turns import Claimed, Finish, Said

log = get_logger(__name__)

_decode_event = msgspec.json.Decoder(Event).decode


class Retried(msgspec.Struct, frozen=True):
    """What `/retry` lets the agent answer again: already in the transcript, so it is not said twice."""

    text: str
    history: tuple[Message, ...]
    # The least role whose words these are; `None`: the sender's of the command.
    role: Role | None = None


class Composer:
    """Turns what was said and done into what is stored and sent."""

    def __init__(self, store: GatewayStore, settings: GatewaySettings, outbox: Outbox) -> None:
        self.store = store
        self.settings = settings
        self.outbox = outbox

    async def prepare(self, claimed: Claimed, cancelled: asyncio.Event, retried: Retried | None) -> Turn:
        """The turn as the agent sees it."""
        if retried is None:
            history: Sequence[Message] = await self.store.load_transcript(claimed.session.session_id)
            spoken = tuple(self._spoken(claimed, waiting) for waiting in claimed.taken)
        else:
            history, spoken = retried.history, (Spoken(text=retried.text, source=claimed.origin),)
        rules = self.settings.rules_for(claimed.origin)
        return Turn(
            turn_id=claimed.held.turn_id,
            session=claimed.session,
            text="\n\n".join(part.text for part in spoken),
            messages=spoken,
            history=history,
            context_prompt=claimed.context or await self._context(claimed),
            cancelled=cancelled,
            source=claimed.origin,
            role=rules.role or (claimed.role if retried is None or retried.role is None else retried.role),
            attempt=claimed.attempts,
            system_prompt=rules.system_prompt,
        )

    async def finish(self, claimed: Claimed, events: Sequence[Event], outcome: Outcome, notice: str | None) -> None:
        """Ends a turn with all that it said; `notice` is added for the chat alone."""
        try:
            await self._finish(claimed, events, outcome, notice)
        except InvalidRequest as cause:
            # Tried again it would be no different, and its people would never hear of it.
            log.warning("turn.not_kept", turn=claimed.held.turn_id, error=repr(cause))
            await self._finish(claimed, (), "failed", words.AGENT_FAULT)

    async def _finish(self, claimed: Claimed, events: Sequence[Event], outcome: Outcome, notice: str | None) -> None:
        is_talk = claimed.lane == "talk"
        fate: Fate = "interrupted" if outcome in ("stopped", "interrupted") else "answered"
        folded = fold(events, unfinished=words.TOOL_CANCELLED if outcome == "stopped" else words.TOOL_UNKNOWN)
        parts = self._parts(claimed, folded, notice)
        await self._end(
            Finish(
                held=claimed.held,
                session_id=claimed.session.session_id,
                outcome=outcome,
                at=to_instant(self.store.clock.now()),
                said=self._said(claimed, fate) if is_talk else (),
                settled=() if is_talk else tuple((waiting, fate, None) for waiting in claimed.taken),
                answer=tuple(encode_message(message) for message in _marked(folded, outcome)),
                usage=folded.usage,
                # The first part goes to the streamed message where there is one; else its own row is made.
                streamed=parts[0],
                replies=tuple(self._reply(claimed, index, part) for index, part in enumerate(parts)),
                taken=claimed.taken,
                error=notice if outcome == "failed" else None,
            )
        )
        log.info("turn.finished", turn=claimed.held.turn_id, outcome=outcome)

    async def close(self, claimed: Claimed, outcome: Outcome, notice: str) -> None:
        """Ends a turn that broke off, with what its journal has."""
        await self.finish(claimed, [_decode_event(event) for event in claimed.journal], outcome, notice)

    async def answer_command(self, claimed: Claimed, text: str, *, move_to: str | None = None) -> None:
        """Ends the turn of a command with what it has to say."""
        await self._end(
            Finish(
                held=claimed.held,
                session_id=claimed.session.session_id,
                outcome="answered",
                at=to_instant(self.store.clock.now()),
                replies=(self._reply(claimed, 0, text),),
                settled=tuple((waiting, "answered", None) for waiting in claimed.taken),
                taken=claimed.taken,
                move_to=move_to,
            )
        )

    async def park(self, claimed: Claimed) -> None:
        """Gives a turn up that broke the gateway each time; what was said is kept, the answer is not tried again."""
        await self._end(
            Finish(
                held=claimed.held,
                session_id=claimed.session.session_id,
                outcome="parked",
                at=to_instant(self.store.clock.now()),
                said=self._said(claimed, "parked") if claimed.lane == "talk" else (),
                settled=() if claimed.lane == "talk" else tuple((w, "parked", None) for w in claimed.taken),
                streamed=words.PARKED,
                replies=(self._reply(claimed, 0, words.PARKED),),
                taken=claimed.taken,
                error="given up after three attempts",
            )
        )
        log.error("turn.parked", turn=claimed.held.turn_id)

    async def _end(self, wanted: Finish) -> None:
        # Stored unheard it would be `LeaseLost` the next time: the turn is over, and that is all that is wanted.
        await patiently(lambda: self.store.finish_turn(wanted), self.outbox.is_late)

    def streamer(self, claimed: Claimed) -> Streamer | None:
        """What shows the answer as it grows, where the platform can."""
        platform = self.outbox.platform_of(claimed.origin.platform, claimed.origin.account)
        if platform is None or not platform.capabilities.edit:
            return None
        return Streamer(
            self.store,
            platform,
            self._reply(claimed, 0, ""),
            self.settings.split,
            self.settings.stream_after_seconds,
            self.outbox.is_late,
        )

    def _parts(self, claimed: Claimed, folded: Folded, notice: str | None) -> list[str]:
        """What the chat is told, cut for a platform that need not be connected: one is not yet while a gateway recovers."""
        text = showable("\n\n".join(part for part in (folded.text, notice) if part))
        can = self.outbox.capabilities_of(claimed.origin.platform, claimed.origin.account)
        parts = [text] if can is None else self.settings.split(text, can)
        return parts if text.strip() else [words.NOTHING_SAID]

    def _reply(self, claimed: Claimed, index: int, text: str) -> NewDelivery:
        last = claimed.taken[-1].event if claimed.taken else None
        in_group = claimed.origin.chat_type != "dm"
        return NewDelivery(
            delivery_id=f"{claimed.held.turn_id}.{index}",
            target=target_of(claimed.origin),
            text=text,
            kind="reply",
            reply_to=last.message_id if last is not None and in_group and index == 0 else None,
            session_pk=claimed.session_pk,
            turn_pk=claimed.held.turn_pk,
        )

    def _spoken(self, claimed: Claimed, waiting: Waiting) -> Spoken:
        event = waiting.event
        quote = event.reply_to
        return Spoken(
            text=self._labelled(claimed, waiting),
            source=event.source,
            message_id=event.message_id,
            quoted=quote.text if quote is not None and quote.text else None,
            attachments=event.attachments,
        )

    def _labelled(self, claimed: Claimed, waiting: Waiting) -> str:
        if not claimed.session.is_shared:
            return waiting.event.text
        source = waiting.event.source
        return label_message(
            waiting.event.text,
            name=source.user_name,
            sender_id=source.sender,
            platform=source.platform,
            redact_pii=self.settings.redact_pii,
            secret=self.settings.secret,
        )

    def _said(self, claimed: Claimed, fate: Fate) -> tuple[Said, ...]:
        """Each message for the transcript. All but the last of a turn are merged into it."""
        last = len(claimed.taken) - 1
        return tuple(
            Said(
                inbox_pk=waiting.pk,
                message=encode_message({"role": "user", "content": self._labelled(claimed, waiting)}),
                author=person_of(waiting.event.source) if claimed.session.is_shared else None,
                external_id=waiting.event.message_id or None,
                fate="merged" if fate == "answered" and index < last else fate,
            )
            for index, waiting in enumerate(claimed.taken)
        )

    async def _context(self, claimed: Claimed) -> str:
        context = build_session_context(
            claimed.origin,
            connected_platforms=self.outbox.connected,
            home_channels=self.settings.home_channels,
            entry=claimed.session,
        )
        block = build_session_context_prompt(context, redact_pii=self.settings.redact_pii, secret=self.settings.secret)
        return await self.store.keep_context(claimed.session_pk, block)


def _marked(folded: Folded, outcome: Outcome) -> tuple[Message, ...]:
    """The answer for the transcript; one that was cut short says so to the next turn."""
    if outcome not in ("stopped", "interrupted") or not folded.messages:
        return folded.messages
    *before, last = folded.messages
    return (*before, {**last, "interrupted": True})

"""What a turn is made of and what it comes to: what the agent is given, what the transcript keeps, what the chat is told."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from threadline.clock import to_instant
from threadline.errors import InvalidRequest
from threadline.gateway.asking import ASK_LASTS, buttons, question, since_asked
from threadline.gateway.files import fetched
from threadline.gateway.fold import Folded, fold, sent_files, shown_text
from threadline.gateway.journal import Journal, Pace
from threadline.gateway.outbox import Outbox
from threadline.gateway.patience import patiently
from threadline.gateway.presence import Presence
from threadline.gateway.settings import GatewaySettings
from threadline.gateway.streaming import Streamer
from threadline.gateway.supervisor import Supervisor
from threadline.ids import new_approval_code
from threadline.log import get_logger
from threadline.model.access import Role
from threadline.model.context import build_session_context, build_session_context_prompt, effective_home_channels
from threadline.model.delivery import Button, target_of
from threadline.model.files import attachments_of, file_messages, names_of, stored_ids, user_message
from threadline.model.inbound import Attachment, Inbound
from threadline.model.message import Message, encode_message
from threadline.model.ownership import person_of
from threadline.model.source import SessionSource
from threadline.model.speaker import Speaker, earlier_names, label_message, speaker_of, with_new_speakers
from threadline.model.turn import MessageOutcome, PendingMessage, TurnOutcome
from threadline.ports.agent import AskPermission, Event, NewFile, Permission, Spoken, Turn, Uses
from threadline.ports.live import Ending
from threadline.ports.platform import Capabilities
from threadline.store.facade import GatewayStore
from threadline.store.leases import TurnLease
from threadline.store.rows import json_reader, json_text
from threadline.store.work.approvals import ApprovalAnswer, ApprovalRequest
from threadline.store.work.outbox import NewDelivery, displayable
from threadline.store.work.turn_end import ClaimedTurn, TurnResult, UserMessage
from threadline.texts import gateway as texts

log = get_logger(__name__)

read_event: Callable[[str], Event] = json_reader(Event)  # type: ignore[arg-type]  # a union is no type to mypy
_read_ask = json_reader(AskPermission)


# Takes into a running turn what was said since it began.
TakeMore: TypeAlias = Callable[[], Awaitable[tuple[Spoken, ...]]]


class Retried(msgspec.Struct, frozen=True):
    """What `/retry` lets the agent answer again: already in the transcript, so it is not said twice."""

    text: str
    history: tuple[Message, ...]
    # The least role whose words these are; `None`: the sender's of the command.
    role: Role | None = None
    attachments: tuple[Attachment, ...] = ()


class Composer:
    """Turns what was said and done into what is stored and sent."""

    def __init__(self, store: GatewayStore, settings: GatewaySettings, outbox: Outbox) -> None:
        self.store = store
        self.settings = settings
        self.outbox = outbox
        self._pace = Pace()

    async def prepare(
        self, claimed: ClaimedTurn, cancelled: asyncio.Event, retried: Retried | None, take: TakeMore, limit: int | None
    ) -> Turn:
        """Return the turn as the agent sees it, with at most `limit` messages of the history.

        `take` takes in what is said while it runs.
        """
        if retried is None:
            history = await self._history(claimed, limit)
            spoken = tuple(self._spoken(claimed, waiting) for waiting in claimed.messages)
        else:
            history = _last(retried.history, limit)
            spoken = (Spoken(text=retried.text, source=claimed.origin, attachments=retried.attachments),)
        rules = self.settings.rules_for(claimed.origin)
        return Turn(
            turn_id=claimed.lease.turn_id,
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
            workplace=self.settings.workplace_for(claimed.origin),
            permissions=tuple(_permission(one) for one in claimed.answers),
            so_far=self.so_far(claimed),
            take=take,
            fetch=self._fetch,
            keep=functools.partial(self._keep, claimed.lease),
        )

    async def _history(self, claimed: ClaimedTurn, limit: int | None) -> Sequence[Message]:
        if claimed.history is not None:
            return _last(claimed.history, limit)
        # An agent that reads nothing costs no look either.
        return () if limit == 0 else await self.store.load_transcript(claimed.session.session_id, limit=limit)

    async def take_more(self, claimed: ClaimedTurn) -> tuple[ClaimedTurn, tuple[Spoken, ...]]:
        """The turn with what was said since it began, and that; none where messages are not to steer it."""
        if self.settings.when_busy != "steer" or claimed.lane != "talk":
            return claimed, ()
        more = await self.store.turns.take_pending(claimed.lease, claimed.session.session_id, claimed.role)
        grown = msgspec.structs.replace(claimed, messages=(*claimed.messages, *more))
        return grown, tuple(self._spoken(grown, waiting) for waiting in more)

    def so_far(self, claimed: ClaimedTurn) -> tuple[Event, ...]:
        """What the turn had said and done when it was claimed."""
        return tuple(read_event(event) for event in claimed.journal)

    async def ask(
        self,
        claimed: ClaimedTurn,
        events: Sequence[Event],
        place: int,
        fresh: Sequence[str],
        wanted: AskPermission,
        unused: tuple[int, ...] = (),
    ) -> None:
        """Puts the turn's question to its people; it goes on when somebody has answered. `fresh` is not journalled yet."""
        code, now = new_approval_code(), self.store.clock.now()
        # Whoever attends has seen what was said.
        recent = () if self.is_attended(claimed) else since_asked(events[:-1])
        text = displayable(self._shown(claimed, recent))
        said = self.cut(claimed.origin, text) if text.strip() else []
        asked = self.cut(claimed.origin, displayable(question(wanted, code)))
        last = len(asked) - 1
        await self.store.approvals.request(
            ApprovalRequest(
                turn_pk=claimed.lease.turn_pk,
                fence=claimed.lease.fence,
                session_id=claimed.session.session_id,
                place=place,
                events=fresh,
                event=json_text(wanted),
                least_role=wanted.least,
                code=code,
                streamed_text=said[0] if said else None,
                messages=(
                    *(self._reply(claimed, index, part) for index, part in enumerate(said)),
                    *self._enclosed(claimed, len(said), recent),
                    *(
                        self._delivery(
                            claimed,
                            f"ask{claimed.question_count}.{index}",
                            part,
                            buttons(code) if index == last else (),
                        )
                        for index, part in enumerate(asked)
                    ),
                ),
                unused=unused,
                at=to_instant(now),
                expires_at=to_instant(now + ASK_LASTS),
            )
        )
        log.info("turn.asks", turn=claimed.lease.turn_id, tool=wanted.tool, least=wanted.least)

    async def finish(
        self, claimed: ClaimedTurn, events: Sequence[Event], outcome: TurnOutcome, notice: str | None
    ) -> Ending:
        """Ends a turn with all that it said; `notice` is added for the chat alone. How it ended, for those who attend."""
        try:
            await self._finish(claimed, events, outcome, notice)
        except InvalidRequest as cause:
            # Tried again it would be no different, and its people would never hear of it.
            log.warning("turn.not_kept", turn=claimed.lease.turn_id, error=repr(cause))
            outcome, notice = "failed", texts.AGENT_FAULT.format(error=type(cause).__name__)
            await self._finish(claimed, (), outcome, notice)
        return Ending(outcome=outcome, notice=notice)

    async def tell(self, claimed: ClaimedTurn, text: str) -> str | None:
        """Tells the chat something while a turn runs; the same again is told once. By which key it is sent; `None`: it is not."""
        name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        notice = msgspec.structs.replace(self._delivery(claimed, f"note.{name}", displayable(text)), kind="notice")
        if not await patiently(lambda: self.store.turns.enqueue_progress(claimed.lease, notice), self.outbox.is_late):
            return None
        self.outbox.wake()
        return notice.delivery_id

    def is_attended(self, claimed: ClaimedTurn) -> bool:
        """Whether the people of a turn wait while it runs, and see it as it happens."""
        return self.outbox.is_attended(claimed.origin.platform, claimed.origin.account)

    def kept_of(self, command: Inbound) -> str:
        """What is kept of a command along with its answer: its words, where people see again what they attended."""
        source = command.source
        return command.text if self.outbox.is_attended(source.platform, source.account) else ""

    async def _finish(
        self, claimed: ClaimedTurn, events: Sequence[Event], outcome: TurnOutcome, notice: str | None
    ) -> None:
        is_talk = claimed.lane == "talk"
        fate: MessageOutcome = "interrupted" if outcome in ("stopped", "interrupted") else "answered"
        folded = fold(events, unfinished=texts.TOOL_CANCELLED if outcome == "stopped" else texts.TOOL_UNKNOWN)
        answer = _marked(folded, outcome)
        # Whoever attends has seen it as it was said.
        parts, replies = ([], ()) if self.is_attended(claimed) else self._replies(claimed, events, notice)
        await self._end(
            TurnResult(
                lease=claimed.lease,
                session_id=claimed.session.session_id,
                outcome=outcome,
                at=to_instant(self.store.clock.now()),
                user_messages=self._said(claimed, fate) if is_talk else (),
                outcomes=() if is_talk else tuple((waiting, fate, None) for waiting in claimed.messages),
                answer=tuple(encode_message(message) for message in answer),
                answer_files=_files_of(answer),
                usage=folded.usage,
                # The first part goes to the streamed message where there is one; else its own row is made.
                streamed=parts[0] if parts else None,
                replies=replies,
                taken_messages=claimed.messages,
                error=notice if outcome == "failed" else None,
            )
        )
        log.info("turn.finished", turn=claimed.lease.turn_id, outcome=outcome)

    async def close(self, claimed: ClaimedTurn, outcome: TurnOutcome, notice: str) -> None:
        """Ends a turn that broke off, with what its journal has."""
        await self.finish(claimed, self.so_far(claimed), outcome, notice)

    async def answer_command(self, claimed: ClaimedTurn, text: str, *, move_to: str | None = None) -> None:
        """Ends the turn of a command with what it has to say."""
        asked = self.kept_of(claimed.messages[0].event)
        await self._end(
            TurnResult(
                lease=claimed.lease,
                session_id=claimed.session.session_id,
                outcome="answered",
                at=to_instant(self.store.clock.now()),
                # The transcript does not have it: whoever reads that must be told it apart.
                replies=tuple(
                    msgspec.structs.replace(self._reply(claimed, index, part), kind="notice", command_text=asked)
                    for index, part in enumerate(self.cut(claimed.origin, text))
                ),
                outcomes=tuple((waiting, "answered", None) for waiting in claimed.messages),
                taken_messages=claimed.messages,
                move_to=move_to,
            )
        )

    async def park(self, claimed: ClaimedTurn) -> None:
        """Gives a turn up that gateways died of; what was said is kept, the answer is not tried again."""
        await self._end(
            TurnResult(
                lease=claimed.lease,
                session_id=claimed.session.session_id,
                outcome="parked",
                at=to_instant(self.store.clock.now()),
                user_messages=self._said(claimed, "parked") if claimed.lane == "talk" else (),
                outcomes=() if claimed.lane == "talk" else tuple((w, "parked", None) for w in claimed.messages),
                streamed=texts.PARKED,
                replies=(self._reply(claimed, 0, texts.PARKED),),
                taken_messages=claimed.messages,
                error=f"put aside: gateways died {claimed.suspected.deaths} times while it ran",
            )
        )
        log.error("turn.parked", turn=claimed.lease.turn_id)

    async def _end(self, wanted: TurnResult) -> None:
        # Stored unheard it would be `LeaseLost` the next time: the turn is over, and that is all that is wanted.
        await patiently(lambda: self.store.turns.finish(wanted), self.outbox.is_late)
        self.outbox.metrics.turn_ended(wanted.outcome)

    def presence(self, claimed: ClaimedTurn, supervisor: Supervisor) -> Presence:
        """What shows in the chat that the turn is being worked at, where its people don't see that for themselves."""
        notice = self._delivery(claimed, f"{claimed.question_count}.progress", texts.STILL_AT_IT)
        return Presence(self.store, self.settings, self.outbox, supervisor, claimed.lease, notice)

    def journal(self, claimed: ClaimedTurn, on_failure: Callable[[], None]) -> Journal:
        """What the turn says and does, from its beginning on."""
        return Journal(self.store, claimed, self.so_far(claimed), self._pace, self.outbox.is_late, on_failure)

    def streamer(self, claimed: ClaimedTurn, journal: Journal) -> Streamer | None:
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
            journal.shown,
            self.settings.call_seconds,
        )

    def _replies(
        self, claimed: ClaimedTurn, events: Sequence[Event], notice: str | None
    ) -> tuple[list[str], tuple[NewDelivery, ...]]:
        """What the chat is told at the end: the parts of the text, and all messages that bring them and the files."""
        parts = self._parts(claimed, events, notice)
        replies = (self._reply(claimed, index, part) for index, part in enumerate(parts))
        return parts, (*replies, *self._enclosed(claimed, len(parts), since_asked(events)))

    def _parts(self, claimed: ClaimedTurn, events: Sequence[Event], notice: str | None) -> list[str]:
        """The text that the chat is told at the end; nothing where all was said before a question."""
        text = displayable("\n\n".join(part for part in (self._shown(claimed, since_asked(events)), notice) if part))
        if text.strip():
            return self.cut(claimed.origin, text)
        return [] if sent_files(events) or displayable(shown_text(events)).strip() else [texts.NOTHING_SAID]

    def _shown(self, claimed: ClaimedTurn, events: Sequence[Event]) -> str:
        """What the chat shows of these events as text: with the names of files that it does not take."""
        files = () if self._takes_files(claimed) else sent_files(events)
        missing = texts.FILES_NOT_HERE.format(names=names_of(files)) if files else ""
        return "\n\n".join(part for part in (shown_text(events), missing) if part)

    def _enclosed(self, claimed: ClaimedTurn, said: int, events: Sequence[Event]) -> tuple[NewDelivery, ...]:
        """The messages that bring the files of these events, behind the `said` parts of the text."""
        files = sent_files(events)
        if not files or not self._takes_files(claimed):
            return ()
        can, before = self._can(claimed), f"{claimed.question_count}." if claimed.question_count else ""
        groups = file_messages(files, 1 if can is None else can.album)
        return tuple(
            self._delivery(claimed, f"{before}f{said + index}", "", files=group) for index, group in enumerate(groups)
        )

    def _takes_files(self, claimed: ClaimedTurn) -> bool:
        can = self._can(claimed)
        return can is None or can.files

    def _can(self, claimed: ClaimedTurn) -> Capabilities | None:
        return self.outbox.capabilities_of(claimed.origin.platform, claimed.origin.account)

    def cut(self, source: SessionSource, text: str) -> list[str]:
        """The text in parts that the platform takes, which need not be connected: one is not yet while a gateway recovers."""
        can = self.outbox.capabilities_of(source.platform, source.account)
        return [text] if can is None else self.settings.split(text, can)

    def _reply(self, claimed: ClaimedTurn, index: int, text: str) -> NewDelivery:
        # What a turn says after it has asked is another message than what it said before.
        return self._delivery(
            claimed, f"{claimed.question_count}.{index}" if claimed.question_count else str(index), text
        )

    def _delivery(
        self,
        claimed: ClaimedTurn,
        name: str,
        text: str,
        buttons: tuple[Button, ...] = (),
        files: tuple[Attachment, ...] = (),
    ) -> NewDelivery:
        last = claimed.messages[-1].event if claimed.messages else None
        is_first = name in ("0", "f0") and claimed.origin.chat_type != "dm"
        return NewDelivery(
            delivery_id=f"{claimed.lease.turn_id}.{name}",
            target=target_of(claimed.origin),
            text=text,
            kind="reply",
            reply_to=last.message_id if last is not None and is_first else None,
            buttons=buttons,
            files=files,
            session_pk=claimed.session_pk,
            turn_pk=claimed.lease.turn_pk,
        )

    def _spoken(self, claimed: ClaimedTurn, waiting: PendingMessage) -> Spoken:
        event = waiting.event
        quote = event.reply_to
        return Spoken(
            text=self._labelled(claimed, waiting),
            source=event.source,
            message_id=event.message_id or None,
            quoted=quote.text if quote is not None and quote.text else None,
            attachments=event.attachments,
        )

    async def _fetch(self, attachment: Attachment) -> bytes:
        # By the account that has it, which need not be the turn's: a conversation may have been handed over.
        platform = self.outbox.platform_of(attachment.platform, attachment.account)
        return await fetched(self.store, platform, attachment)

    async def _keep(self, held: TurnLease, new: NewFile) -> Attachment:
        kept = await patiently(
            lambda: self.store.files.keep_for_turn(held, new.body, name=new.name, mime=new.mime), self.outbox.is_late
        )
        return kept.attachment()

    def _labelled(self, claimed: ClaimedTurn, waiting: PendingMessage) -> str:
        if not claimed.session.is_shared:
            return waiting.event.text
        source = waiting.event.source
        return label_message(
            waiting.event.text,
            name=source.user_name,
            sender_id=source.sender,
            others=earlier_names(speaker_of(source), _speakers(claimed)),
            platform=source.platform,
            redact_pii=self.settings.redact_pii,
            secret=self.settings.secret,
        )

    def _said(self, claimed: ClaimedTurn, fate: MessageOutcome) -> tuple[UserMessage, ...]:
        """Each message for the transcript. All but the last of a turn are merged into it."""
        last = len(claimed.messages) - 1
        return tuple(
            UserMessage(
                inbox_pk=waiting.pk,
                message=encode_message(user_message(self._labelled(claimed, waiting), waiting.event.attachments)),
                author=person_of(waiting.event.source) if claimed.session.is_shared else None,
                speaker=_newcomer(claimed, waiting),
                external_id=waiting.event.message_id or None,
                fate="merged" if fate == "answered" and index < last else fate,
                files=stored_ids(waiting.event.attachments),
            )
            for index, waiting in enumerate(claimed.messages)
        )

    async def _context(self, claimed: ClaimedTurn) -> str:
        context = build_session_context(
            claimed.origin,
            connected_platforms=self.outbox.connected,
            home_channels=effective_home_channels(
                self.settings.home_channels, await self.store.preferences.list_home_channels()
            ),
            entry=claimed.session,
        )
        block = build_session_context_prompt(context, redact_pii=self.settings.redact_pii, secret=self.settings.secret)
        entry = claimed.session
        if entry.was_auto_reset and entry.reset_had_activity and not entry.message_count:
            block += "\n\n" + (texts.AFRESH_IDLE if entry.auto_reset_reason == "idle" else texts.AFRESH_DAILY)
        kept = await self.store.turns.ensure_context(claimed.session_pk, block)
        if entry.was_auto_reset:
            # The block has told it; nobody is to tell the agent again.
            await self.store.take_reset_notice(entry.session_id, "agent")
        return kept


def _last(history: Sequence[Message], limit: int | None) -> Sequence[Message]:
    return history if limit is None else history[max(0, len(history) - limit) :]


def unused(claimed: ClaimedTurn, uses: Uses) -> tuple[int, ...]:
    """The answers that a run was told and has not used, now that it is over."""
    used = uses.end() if claimed.answers else frozenset()
    granted = (one for one in claimed.answers if one.decision == "granted" and not one.is_used)
    return tuple(one.pk for one in granted if _read_ask(one.event) not in used)


def _permission(answer: ApprovalAnswer) -> Permission:
    return Permission(_read_ask(answer.event), answer.decision == "granted", answer.is_used)


def _speakers(claimed: ClaimedTurn) -> tuple[Speaker, ...]:
    """All who have spoken in a shared session, those of this turn included; nobody in a private one."""
    if not claimed.session.is_shared:
        return ()
    return with_new_speakers(claimed.speakers, (speaker_of(waiting.event.source) for waiting in claimed.messages))


def _newcomer(claimed: ClaimedTurn, waiting: PendingMessage) -> Speaker | None:
    """Who speaks, where the session does not know them under that name yet."""
    if not claimed.session.is_shared:
        return None
    speaker = speaker_of(waiting.event.source)
    return None if speaker in claimed.speakers else speaker


def _files_of(answer: Sequence[Message]) -> tuple[tuple[str, ...], ...]:
    """The stored files of each message; nothing at all where no message has any files, as in most answers."""
    if not any("attachments" in message for message in answer):
        return ()
    return tuple(stored_ids(attachments_of(message)) for message in answer)


def _marked(folded: Folded, outcome: TurnOutcome) -> tuple[Message, ...]:
    """The answer for the transcript; one that was cut short says so to the next turn."""
    if outcome not in ("stopped", "interrupted") or not folded.messages:
        return folded.messages
    *before, last = folded.messages
    return (*before, {**last, "interrupted": True})

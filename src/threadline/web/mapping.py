"""Map values of the store to shapes of the API. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from threadline.clock import from_instant
from threadline.gateway.asking import buttons
from threadline.model import turn as turns
from threadline.model.access import Role, allows
from threadline.model.client_sources import parse_web_chat_id
from threadline.model.delivery import Button
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment as Attached
from threadline.model.inbound import stored_id
from threadline.model.message import TranscriptMessage
from threadline.model.session import SessionEntry
from threadline.ports.agent import AskPermission
from threadline.store.conversations.search import Hit as Found
from threadline.store.rows import json_reader
from threadline.store.text import CLOSE, OPEN, preview
from threadline.store.work.approvals import OpenApproval
from threadline.store.work.change_feed import ConversationSnapshot, EndedEarly, FeedNotice, ListedSession
from threadline.texts import gateway as texts
from threadline.web.shapes import (
    Ask,
    Attachment,
    Choice,
    Conversation,
    Hit,
    Message,
    Notice,
    Piece,
    ToolUse,
    Usage,
    Waiting,
)

_read_ask = json_reader(AskPermission)


def conversation(found: ListedSession | ConversationSnapshot) -> Conversation:
    """Return a conversation as a row of the list: of a listed session, or of the snapshot that somebody reads."""
    if isinstance(found, ListedSession):
        return _conversation(found.entry, found.preview, is_busy=found.is_busy)
    user_messages = [*(found.turn.user_messages if found.turn is not None else ()), *found.pending]
    first = found.preview or next((preview(message.event.text) for message in user_messages), "")
    return _conversation(found.entry, first, is_busy=found.turn is not None or bool(found.pending))


def _conversation(entry: SessionEntry, first: str, *, is_busy: bool) -> Conversation:
    place = parse_web_chat_id(entry.origin.chat_id)
    return Conversation(
        id="" if place is None else place[1],
        session_id=entry.session_id,
        title=entry.title,
        label=entry.title or first,
        updated_at=entry.updated_at,
        ended=entry.ended_at is not None,
        busy=is_busy,
    )


def message(found: TranscriptMessage) -> Message:
    """Return a message of a transcript, without the parts that cannot be shown as text."""
    stored = found.message
    calls = stored.get("tool_calls")
    return Message(
        ref=str(found.ref),
        role=found.role,
        at=found.at,
        text=_text(stored.get("content")),
        thoughts=_string(stored.get("reasoning")) or None,
        tool_calls=tuple(_tool_use(call) for call in calls if isinstance(call, Mapping))
        if isinstance(calls, list)
        else (),
        tool_call_id=_string(stored.get("tool_call_id")) or None,
        tool_name=_string(stored.get("tool_name")) or None,
        redacted=found.redacted,
        attachments=tuple(attachment(file) for file in attachments_of(stored)),
    )


def pending(found: turns.PendingMessage) -> Waiting:
    """Return a message that waits for its turn."""
    event = found.event
    return Waiting(
        id=event.message_id,
        text=event.text,
        at=from_instant(found.at),
        attachments=tuple(attachment(file) for file in event.attachments),
    )


def attachment(file: Attached) -> Attachment:
    """Return an attachment. Its id is empty if the store does not have the content."""
    return Attachment(id=stored_id(file.handle) or "", name=file.name, mime=file.mime, size=file.size)


def approval(found: OpenApproval | None, role: Role) -> Ask | None:
    """Return the open approval of a turn as a user of that role sees it."""
    if found is None:
        return None
    asked = _read_ask(found.event)
    return Ask(
        code=found.code,
        tool=asked.tool,
        arguments=asked.arguments,
        reason=asked.reason,
        buttons=_choices(buttons(found.code)),
        may_answer=allows(role, found.least_role),
    )


def notices(seen: ConversationSnapshot) -> tuple[Notice, ...]:
    """Return all notices of a conversation, in order of time."""
    merged = [*(_notice(notice) for notice in seen.notices), *(_cut_short(ended) for ended in seen.ended_early)]
    return tuple(sorted(merged, key=lambda notice: notice.at))


def usage(entry: SessionEntry) -> Usage:
    """Return the usage of a session so far."""
    return Usage(
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        cache_read_tokens=entry.cache_read_tokens,
        reasoning_tokens=entry.reasoning_tokens,
        cost_micros=entry.cost_micros,
        cost_status=entry.cost_status,
        model=entry.chosen_model or entry.model,
    )


def hit(found: Found) -> Hit | None:
    """Return a search hit, or `None` if the page cannot open its session."""
    place = parse_web_chat_id(found.session.origin.chat_id)
    if place is None:
        return None
    return Hit(
        conversation=place[1],
        session_id=found.session.session_id,
        title=found.session.title,
        ref=str(found.ref),
        role=found.message.role,
        at=found.message.at,
        snippet=list(_pieces(found.snippet)),
    )


def _pieces(snippet: str) -> Iterable[Piece]:
    before, *hits = snippet.split(OPEN)
    if before:
        yield Piece(before, hit=False)
    for part in hits:
        hit, close, rest = part.partition(CLOSE)
        # Brackets that people wrote themselves open nothing.
        yield from (Piece(hit, hit=True), Piece(rest, hit=False)) if close else (Piece(OPEN + hit, hit=False),)


def _notice(notice: FeedNotice) -> Notice:
    return Notice(id=notice.notice_id, text=notice.text, at=from_instant(notice.at), buttons=_choices(notice.buttons))


def _cut_short(ended: EndedEarly) -> Notice:
    if ended.outcome == "failed":
        text = ended.error or texts.BROKEN_OFF
    elif ended.outcome == "parked":
        text = texts.PARKED
    elif ended.outcome == "stopped":
        text = texts.STOPS[ended.stop or "stop"]
    else:
        text = texts.BROKEN_OFF
    return Notice(id=ended.turn_id, text=text, at=from_instant(ended.at))


def _choices(found: Iterable[Button]) -> tuple[Choice, ...]:
    return tuple(Choice(button.label, button.value) for button in found)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return _string(content)
    blocks = (block if isinstance(block, str) else _block(block) for block in content)
    return "\n\n".join(text for text in blocks if text)


def _block(block: Any) -> str:
    return _string(block.get("text")) if isinstance(block, Mapping) else ""


def _tool_use(call: Mapping[str, Any]) -> ToolUse:
    function = call.get("function")
    known: Mapping[str, Any] = function if isinstance(function, Mapping) else {}
    return ToolUse(_string(call.get("id")), _string(known.get("name")), _string(known.get("arguments")) or "{}")

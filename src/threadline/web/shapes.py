"""What the API takes and gives, as values. The description of the API is made from these.

Texts of people, agents and tools are passed on as they are: whoever shows them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from threadline.model.access import Role
from threadline.model.client_sources import CONVERSATION
from threadline.model.inbound import TEXT_CHARS
from threadline.model.usage import CostStatus
from threadline.ports.platform import Verdict

ID = rf"\A{CONVERSATION}\Z"
ConversationId = Annotated[str, msgspec.Meta(pattern=ID, description="Made by the client, once for each conversation.")]
MessageId = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[A-Za-z0-9_-]{1,64}\Z",
        description="Made by the client. The same one again in a conversation is the same message.",
    ),
]
Ref = Annotated[str, msgspec.Meta(min_length=1, max_length=120, description="A message's lasting name: SESSION_ID:12.")]
SessionName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,80}\Z")]
MAX_TITLE = 200
MAX_FILES = 20


class Problem(msgspec.Struct, frozen=True):
    """Why nothing was done: a code for programs, one sentence for people."""

    error: str
    message: str


class Card(msgspec.Struct, frozen=True):
    """What to do next."""

    title: str
    text: str
    steps: tuple[str, ...]


class CommandLine(msgspec.Struct, frozen=True):
    """A command that this person may give."""

    name: str
    usage: str
    help: str


class Limits(msgspec.Struct, frozen=True):
    """What one message may hold."""

    text_chars: int
    attachment_bytes: int
    attachments: int


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking, and what there is for them."""

    user_id: str
    name: str
    role: Role
    version: str
    agent: str
    is_echo: bool
    card: Card | None
    commands: tuple[CommandLine, ...]
    limits: Limits


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, or an earlier session of one. `label` is its title, else its first words."""

    id: str
    session_id: str
    title: str | None
    label: str
    updated_at: datetime
    ended: bool
    busy: bool


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a message."""

    id: str
    name: str
    mime: str
    size: int | None = None


class ToolUse(msgspec.Struct, frozen=True):
    """A tool that was called. `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a transcript."""

    ref: str
    role: str
    at: datetime
    text: str
    thoughts: str | None = None
    tool_calls: tuple[ToolUse, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    redacted: bool = False
    attachments: tuple[Attachment, ...] = ()


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wrote and the transcript does not have yet."""

    id: str
    text: str
    at: datetime
    attachments: tuple[Attachment, ...] = ()


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is not over. `events` are those of an agent: text, thought, tool_call, tool_result, file, usage, ask."""

    turn_id: str
    attempt: int
    upto: int
    said: tuple[Waiting, ...]
    events: list[msgspec.Raw]


class Grown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """More of a turn: what follows its first `first` events. `said` is there where it changed."""

    turn_id: str
    attempt: int
    first: int
    upto: int
    events: Sequence[Any] = ()
    said: tuple[Waiting, ...] | None = None


class Choice(msgspec.Struct, frozen=True):
    """A button. Who presses it sends its value."""

    label: str
    value: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent may not do without somebody's word."""

    code: str
    tool: str
    arguments: str
    reason: str
    buttons: tuple[Choice, ...]
    may_answer: bool


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What was said in a conversation that is no answer of the agent."""

    id: str
    text: str
    at: datetime
    buttons: tuple[Choice, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation has cost so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micros: int = 0
    cost_status: CostStatus = "unknown"
    model: str | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation stands."""

    conversation: Conversation
    messages: list[Message]
    has_earlier: bool
    live: Live | None = None
    ask: Ask | None = None
    waiting: tuple[Waiting, ...] = ()
    notices: tuple[Notice, ...] = ()
    usage: Usage = Usage()
    can_redo: bool = False


class MoreMessages(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages that come before those that were shown."""

    conversation: Conversation
    messages: list[Message]
    has_earlier: bool


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A turn is over: these messages stand in its place."""

    turn_id: str
    messages: list[Message]
    usage: Usage
    waiting: tuple[Waiting, ...]
    ask: Ask | None
    conversation: Conversation


class NewMessages(msgspec.Struct, frozen=True):
    """Messages that follow those that were there."""

    messages: list[Message]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is not in the transcript."""

    waiting: tuple[Waiting, ...]
    ask: Ask | None
    usage: Usage
    conversation: Conversation
    can_redo: bool


class Gone(msgspec.Struct, frozen=True):
    """A conversation, or an earlier session of one, that is there no more."""

    id: str
    session_id: str


class Conversations(msgspec.Struct, frozen=True):
    """A page of conversations, newest first. `next` is the cursor of the page that follows."""

    conversations: list[Conversation]
    next: str | None


class Piece(msgspec.Struct, frozen=True):
    """A piece of a snippet. `hit`: it is what was looked for."""

    text: str
    hit: bool


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was found."""

    conversation: str
    session_id: str
    title: str | None
    ref: str
    role: str
    at: datetime
    snippet: list[Piece]


class Hits(msgspec.Struct, frozen=True):
    """What was found, the best first."""

    hits: list[Hit]


class Taken(msgspec.Struct, frozen=True):
    """What became of something that was said."""

    verdict: Verdict


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the server does its work, and what keeps it from it."""

    status: Literal["ok", "unavailable"]
    version: str
    not_ready: tuple[str, ...] = ()


class Nothing(msgspec.Struct, frozen=True):
    """An empty object."""


class LoginWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The installation's token, or the code of an invitation: one of them."""

    token: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    invite: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class MessageWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Something to say. `instead_of`: that message of one's own and all after it are taken back first."""

    id: MessageId
    text: Annotated[str, msgspec.Meta(max_length=TEXT_CHARS)] = ""
    attachments: Annotated[tuple[MessageId, ...], msgspec.Meta(max_length=MAX_FILES)] = ()
    instead_of: Ref | None = None


class PressWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A button to press."""

    id: MessageId
    value: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ForkWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation that goes on from a message."""

    id: ConversationId
    upto: Ref
    session: SessionName | None = None


class RenameWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A title; `null` takes it away."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TITLE)] | None
    session: SessionName | None = None


class FollowWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversation to follow besides the list of all of them."""

    conversation: ConversationId | None = None
    session: SessionName | None = None


class FileWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A file to keep. `content` is base64."""

    name: Annotated[str, msgspec.Meta(max_length=1_000)]
    mime: Annotated[str, msgspec.Meta(max_length=200)] = "application/octet-stream"
    content: bytes

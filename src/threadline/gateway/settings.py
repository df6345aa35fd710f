"""What a gateway is told at its start; the configuration is turned into this by the composition root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from threadline.gateway.calling import CALL_SECONDS, UPLOAD_SECONDS
from threadline.model.access import Role
from threadline.model.context import HomeChannel
from threadline.model.source import SessionSource
from threadline.model.turn import WhenBusy
from threadline.ports.agent import Agent, Workplace
from threadline.ports.platform import Capabilities

# Cuts a text into parts that the platform takes.
Split: TypeAlias = Callable[[str, Capabilities], list[str]]
# Which agent answers there: its name and the agent.
AgentFor: TypeAlias = Callable[[SessionSource], tuple[str, Agent]]


class ChatRules(msgspec.Struct, frozen=True):
    """What is different in one chat: what the agent is told there, and which role its turns have whoever speaks."""

    system_prompt: str | None = None
    role: Role | None = None


def _no_rules(_source: SessionSource) -> ChatRules:
    return ChatRules()


def _no_workplace(_source: SessionSource) -> None:
    return None


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway behaves. `owner` names this process in every lease."""

    owner: str
    agent_for: AgentFor
    split: Split
    plain: Callable[[str], str]
    when_busy: WhenBusy = "collect"
    burst_seconds: float = 0.6
    turns_at_once: int = 32
    turns_per_person: int = 2
    turns_per_platform: int = 16
    queue_per_session: int = 50
    lease_seconds: float = 15.0
    # How long a turn waits that was running when a gateway died: this long after the first death, longer after each other.
    crash_back_off_seconds: float = 2.0
    silence_seconds: float = 1800.0
    drain_seconds: float = 20.0
    # How long what was cancelled may take to end. Whoever swallows that is left behind: nobody waits any longer.
    ending_seconds: float = 10.0
    # A turn that is over sooner is not streamed: one message instead of a message and its edits.
    stream_after_seconds: float = 0.4
    # Signs of life: when a chat shows that somebody types, and where it can't, when it is told that the answer takes long.
    typing_after_seconds: float = 1.0
    progress_after_seconds: float = 30.0
    # For each account: who takes long keeps nobody else waiting.
    sends_at_once: int = 32
    # How long a platform may take to send or to edit something, and to take a message with files.
    call_seconds: float = CALL_SECONDS
    upload_seconds: float = UPLOAD_SECONDS
    poll_seconds: float = 1.0
    # How often is looked for conversations that have gone stale.
    watch_seconds: float = 60.0
    flushes_at_once: int = 2
    welcome: bool = True
    redact_pii: bool = False
    secret: bytes = b""
    rules_for: Callable[[SessionSource], ChatRules] = _no_rules
    home_channels: tuple[HomeChannel, ...] = ()
    # Where the agent works for a conversation that an editor has opened here.
    workplace_for: Callable[[SessionSource], Workplace | None] = _no_workplace
    # The conversations in which alone this process answers, such as those that are open in an editor; `None`: in all on its
    # platforms.
    bound: Callable[[], Sequence[SessionSource]] | None = None

    @property
    def lease(self) -> int:
        """The length of a lease in microseconds."""
        return int(self.lease_seconds * 1_000_000)

    @property
    def crash_back_off(self) -> int:
        """The first back-off of a turn that a dead gateway left behind, in microseconds."""
        return int(self.crash_back_off_seconds * 1_000_000)

    @property
    def burst(self) -> int:
        """How long a turn waits for more, in microseconds."""
        return int(self.burst_seconds * 1_000_000)

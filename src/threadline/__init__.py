"""Threadline: the session layer and gateway for AI agents.

from threadline import SessionSource, SessionStore

with SessionStore.open("sqlite:///var/lib/me/threadline.db") as store:
    entry = store.get_or_create_session(SessionSource(platform="telegram", chat_id="42", user_id="7"))
    store.append_to_transcript(entry.session_id, {"role": "user", "content": "hi"}, idempotency_key="m:42:991")
    store.load_transcript(entry.session_id, limit=50)
"""

from threadline.acp.sessions import AsyncSessionManager, SessionManager
from threadline.config.derived import build_session_context_prompt
from threadline.errors import (
    AlreadyServed,
    ConfigError,
    ConversationBusy,
    IdempotencyConflict,
    InvalidCursor,
    InvalidLocation,
    InvalidMessage,
    InvalidRequest,
    InvalidSource,
    LeaseLost,
    NothingToRedo,
    NothingToUndo,
    NotYours,
    SchemaTooNew,
    SchemaTooOld,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreForked,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    ThreadlineError,
    UnknownDelivery,
    UnknownFile,
    UnknownMessage,
    UnknownSession,
)
from threadline.model.address import SessionAddress, SessionScope, address_of, build_session_key
from threadline.model.context import HomeChannel, SessionContext, build_session_context
from threadline.model.message import Appended, MessageRef, TranscriptMessage
from threadline.model.policy import ResetPolicies, SessionResetPolicy
from threadline.model.session import SessionEntry
from threadline.model.source import SessionSource
from threadline.ports.agent import AgentError
from threadline.store.facade import AsyncSessionStore, SessionStore
from threadline.version import __version__ as __version__

__all__ = [
    "AsyncSessionStore",
    "SessionStore",
    "AsyncSessionManager",
    "SessionManager",
    "SessionSource",
    "SessionAddress",
    "SessionScope",
    "SessionEntry",
    "SessionContext",
    "SessionResetPolicy",
    "ResetPolicies",
    "HomeChannel",
    "address_of",
    "build_session_key",
    "build_session_context",
    "build_session_context_prompt",
    "Appended",
    "MessageRef",
    "TranscriptMessage",
    "ThreadlineError",
    "AgentError",
    "AlreadyServed",
    "ConfigError",
    "ConversationBusy",
    "LeaseLost",
    "UnknownDelivery",
    "UnknownFile",
    "IdempotencyConflict",
    "InvalidCursor",
    "InvalidLocation",
    "InvalidMessage",
    "InvalidRequest",
    "InvalidSource",
    "NothingToRedo",
    "NothingToUndo",
    "NotYours",
    "SchemaTooNew",
    "SchemaTooOld",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreForked",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "UnknownMessage",
    "UnknownSession",
]
